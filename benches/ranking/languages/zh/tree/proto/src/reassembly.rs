use std::collections::BTreeMap;

/// 大消息（例如广告图片）被拆成多个分片传输，这里负责把它们拼回去。
#[derive(Default)]
pub struct Reassembler {
    parts: BTreeMap<u16, Vec<u8>>,
    total: Option<u16>,
}

impl Reassembler {
    /// 收下一个分片。分片可能乱序到达，也可能重复，重复的直接忽略。
    /// 全部到齐后返回拼接好的完整内容。
    pub fn accept(&mut self, index: u16, last: bool, body: &[u8]) -> Option<Vec<u8>> {
        self.parts.entry(index).or_insert_with(|| body.to_vec());
        if last {
            self.total = Some(index + 1);
        }
        match self.total {
            Some(t) if self.parts.len() == t as usize => {
                self.total = None;
                Some(std::mem::take(&mut self.parts).into_values().flatten().collect())
            }
            _ => None,
        }
    }

    /// 列出还缺哪些分片的序号，好让对方只重传丢失的部分，而不是从头再来。
    pub fn missing(&self) -> Vec<u16> {
        let end = self.total.unwrap_or(0);
        (0..end).filter(|i| !self.parts.contains_key(i)).collect()
    }
}
