/// 旧字体や異体字を新字体へ寄せる対応表。
const TABLE: [(char, char); 6] =
    [('國', '国'), ('學', '学'), ('澤', '沢'), ('邊', '辺'), ('邉', '辺'), ('圖', '図')];

/// 検索用の見出し語を作る。旧字で登録された書名でも、新字の検索語で引き当てられるようになる。
/// 表示には元の字をそのまま使うので、この結果を保存してはいけない。
pub fn fold_itaiji(s: &str) -> String {
    s.chars()
        .map(|c| TABLE.iter().find(|(old, _)| *old == c).map_or(c, |(_, new)| *new))
        .collect()
}

/// 踊り字（々、ゝ）を直前の文字の繰り返しに展開する。
/// 先頭にあって繰り返す相手がいないときは、そのまま残す。
pub fn expand_odoriji(s: &str) -> String {
    let mut out = String::new();
    for c in s.chars() {
        match (c, out.chars().last()) {
            ('々' | 'ゝ', Some(prev)) => out.push(prev),
            _ => out.push(c),
        }
    }
    out
}
