use std::cmp::Ordering;

/// 請求記号。書架の並び順どおりに比較できるよう、分類・著者記号・巻号に分けて持つ。
#[derive(Debug, PartialEq, Eq)]
pub struct CallNumber {
    pub bunrui: String,
    pub chosha: String,
    pub kan: u32,
}

impl CallNumber {
    /// 「210.5-Y86-3」という形の文字列を請求記号として解釈する。
    /// 巻号が省かれていれば第一巻とみなす。
    pub fn parse(s: &str) -> Option<Self> {
        let mut it = s.split('-');
        let bunrui = it.next().filter(|b| !b.is_empty())?.to_string();
        let chosha = it.next()?.to_string();
        let kan = it.next().map_or(Some(1), |k| k.parse().ok())?;
        Some(Self { bunrui, chosha, kan })
    }

    /// 書架順の比較。巻号は文字列ではなく数として比べるので、第十巻が第二巻より前に来ることはない。
    pub fn shelf_cmp(&self, other: &Self) -> Ordering {
        (&self.bunrui, &self.chosha, self.kan).cmp(&(&other.bunrui, &other.chosha, other.kan))
    }
}
