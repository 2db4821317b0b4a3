/// 일정표의 한 항목을 나타낸다. 비트마다 그 값에 실행하는지 여부가 들어 있다.
#[derive(Clone, Copy)]
pub struct Schedule {
    minutes: u64,
    hours: u32,
}

/// "*/15 9-18" 꼴의 일정 문자열을 해석한다. 분과 시만 받고 요일은 다루지 않는다.
pub fn parse_schedule(expr: &str) -> Option<Schedule> {
    let mut parts = expr.split_whitespace();
    let minutes = parse_field(parts.next()?, 60)?;
    let hours = parse_field(parts.next()?, 24)? as u32;
    Some(Schedule { minutes, hours })
}

/// 별표, 범위, 간격으로 적힌 필드 하나를 비트 집합으로 바꾼다.
fn parse_field(field: &str, size: u64) -> Option<u64> {
    let (range, step) = field.split_once('/').unwrap_or((field, "1"));
    let step: u64 = step.parse().ok().filter(|s| *s > 0)?;
    let (lo, hi) = match range.split_once('-') {
        _ if range == "*" => (0, size - 1),
        Some((a, b)) => (a.parse().ok()?, b.parse().ok()?),
        None => (range.parse().ok()?, range.parse().ok()?),
    };
    (hi < size).then(|| (lo..=hi).step_by(step as usize).fold(0, |bits, n| bits | 1 << n))
}

/// 주어진 시각 다음에 처음으로 돌아갈 때가 몇 분 뒤인지 센다.
/// 하루를 통틀어 맞는 때가 없으면 영영 돌지 않는 일정이다.
pub fn minutes_until_next(s: Schedule, hour: u32, minute: u32) -> Option<u32> {
    let start = hour * 60 + minute;
    (1..=1440).find(|ahead| {
        let at = (start + ahead) % 1440;
        s.hours >> (at / 60) & 1 == 1 && s.minutes >> (at % 60) & 1 == 1
    })
}
