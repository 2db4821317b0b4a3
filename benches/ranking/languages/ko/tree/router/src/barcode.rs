#[derive(Debug, PartialEq)]
pub enum ScanError {
    TooShort,
    BadDigit(char),
    Checksum,
}

/// 스캐너가 읽은 송장 번호가 올바른지 따진다. 마지막 자리는 앞의 숫자를 7로 나눈 나머지여야 하며,
/// 구겨진 바코드를 잘못 읽은 경우를 여기서 걸러 낸다.
pub fn check_songjang(text: &str) -> Result<u64, ScanError> {
    let digits = strip_noise(text);
    if digits.len() < 10 {
        return Err(ScanError::TooShort);
    }
    if let Some(bad) = digits.chars().find(|c| !c.is_ascii_digit()) {
        return Err(ScanError::BadDigit(bad));
    }
    let number: u64 = digits.parse().map_err(|_| ScanError::TooShort)?;
    if number / 10 % 7 == number % 10 { Ok(number) } else { Err(ScanError::Checksum) }
}

/// 스캐너 기종에 따라 앞뒤에 덧붙는 제어 문자와 하이픈을 떼어 낸다.
fn strip_noise(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '-' && *c != ' ').collect()
}

/// 번호의 앞자리만 보고 어느 택배사의 물건인지 알아맞힌다.
pub fn carrier_of(number: u64) -> &'static str {
    match number.to_string().as_bytes() {
        [b'6', b'8', ..] => "hanbit",
        [b'5', ..] => "dongne",
        _ => "unknown",
    }
}
