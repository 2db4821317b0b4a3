use std::collections::HashMap;
use std::time::Duration;

/// Ошибка в файле настроек с номером строки, чтобы монтажник на вышке сразу видел, где опечатка.
#[derive(Debug)]
pub struct ConfigError {
    pub line: usize,
    pub text: String,
}

/// Читает настройки камер в виде «ключ = значение». Решётка начинает примечание, а повтор ключа
/// считаем ошибкой: раньше молча побеждал последний и это долго искали.
pub fn parse_config(source: &str) -> Result<HashMap<String, String>, ConfigError> {
    let mut map = HashMap::new();
    for (index, raw) in source.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let fail = |text: &str| ConfigError { line: index + 1, text: text.to_string() };
        let (key, value) = line.split_once('=').ok_or_else(|| fail("expected key = value"))?;
        if map.insert(key.trim().to_string(), value.trim().to_string()).is_some() {
            return Err(fail("duplicate key"));
        }
    }
    Ok(map)
}

/// Понимает длительности вроде «90s», «15m», «2h». Голое число без единицы отвергаем нарочно:
/// никто не помнит, секунды там или минуты.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok().map(|n| Duration::from_secs(n * unit))
}
