/// 目録の一行を列に分割する。引用符で囲まれた列の中では、カンマも改行も文字として扱う。
/// 引用符を二つ重ねたものは引用符一文字を意味する。
pub fn split_row(line: &str) -> Vec<String> {
    let mut cols = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cols.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cols.push(String::new()),
            _ => cols.last_mut().unwrap().push(c),
        }
    }
    cols
}

/// 表計算ソフトが先頭に付ける見えない目印（BOM）を取り除く。
/// 残しておくと、一列目の見出しだけが一致しなくなる。
pub fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// 見出しの名前から列の位置を探す。大文字と小文字、前後の空白の違いは無視する。
pub fn column(header: &[String], name: &str) -> Option<usize> {
    header.iter().position(|h| h.trim().eq_ignore_ascii_case(name))
}
