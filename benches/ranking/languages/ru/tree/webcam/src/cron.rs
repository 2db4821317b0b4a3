/// Одно поле расписания: какие значения из допустимых включены.
#[derive(Debug, PartialEq)]
pub struct Field(pub Vec<u32>);

/// Разбирает поле строки cron: звёздочки, перечисления через запятую, диапазоны и шаг после косой черты.
/// Названия месяцев не понимаем, ими никто не пользовался.
pub fn parse_field(text: &str, min: u32, max: u32) -> Result<Field, String> {
    let mut values = Vec::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((r, s)) => (r, s.parse::<u32>().map_err(|e| e.to_string())?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            Some((a, b)) => (number(a)?, number(b)?),
            None => (number(range)?, number(range)?),
        };
        if step == 0 || from < min || to > max || from > to {
            return Err(format!("bad range: {part}"));
        }
        values.extend((from..=to).step_by(step as usize));
    }
    Ok(Field(values))
}

/// Переводит текст в число с внятной ошибкой.
fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

/// Разводит съёмку камер по времени: каждой добавляем свой сдвиг в секундах, вычисленный из имени,
/// чтобы все сразу не занимали узкий радиоканал.
pub fn jitter(camera: &str, spread: u32) -> u32 {
    let sum = camera.bytes().fold(5381u32, |acc, b| acc.wrapping_mul(33) ^ u32::from(b));
    sum % spread.max(1)
}
