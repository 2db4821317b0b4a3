/// 写日志之前给手机号打码，只保留前三位和后四位。
/// 监管要求日志里不得出现收件人的完整号码。
pub fn mask_phone(s: &str) -> String {
    let chars: Vec<char> = s.chars().collect();
    if chars.len() != 11 || !chars.iter().all(char::is_ascii_digit) {
        return s.to_string();
    }
    let head: String = chars[..3].iter().collect();
    let tail: String = chars[7..].iter().collect();
    format!("{head}****{tail}")
}

/// 隐去收件人姓名，除了姓以外全部换成星号。
pub fn mask_name(s: &str) -> String {
    let mut it = s.chars();
    match it.next() {
        Some(first) => std::iter::once(first).chain(it.map(|_| '*')).collect(),
        None => String::new(),
    }
}

/// 不能直接打印的敏感值。调试输出时永远只显示占位符，
/// 这样即便有人随手把整个结构体打进日志，令牌也不会泄露。
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(<hidden>)")
    }
}
