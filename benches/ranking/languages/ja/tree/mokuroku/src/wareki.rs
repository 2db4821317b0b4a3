/// 元号と、その元年にあたる西暦の年。
const GENGO: [(&str, i32); 5] = [("慶応", 1865), ("明治", 1868), ("大正", 1912), ("昭和", 1926), ("平成", 1989)];

/// 「明治十二年」のような和暦の表記を西暦の年に直す。
/// 元号が表にない場合や、年の部分が読めない場合は何も返さない。
pub fn to_seireki(text: &str) -> Option<i32> {
    let (name, first) = GENGO.iter().find(|(n, _)| text.starts_with(n))?;
    let rest = text[name.len()..].trim_end_matches('年');
    let year = if rest == "元" { 1 } else { kansuji(rest)? };
    Some(first + year - 1)
}

/// 百未満の漢数字を数値に変換する。「廿」（二十）のような古い書き方も受け付ける。
pub fn kansuji(s: &str) -> Option<i32> {
    let mut total = 0;
    let mut unit = 0;
    for c in s.chars() {
        match c {
            '十' => {
                total += unit.max(1) * 10;
                unit = 0;
            }
            '廿' => total += 20,
            _ => unit = "〇一二三四五六七八九".chars().position(|d| d == c)? as i32,
        }
    }
    Some(total + unit)
}
