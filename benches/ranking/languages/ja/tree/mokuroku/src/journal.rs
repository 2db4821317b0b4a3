use std::io::{self, Write};

/// 目録の更新を先に書き留めておく追記専用の台帳。
pub struct Journal<W: Write> {
    out: W,
    pending: usize,
}

impl<W: Write> Journal<W> {
    /// 空の台帳を作る。
    pub fn new(out: W) -> Self {
        Self { out, pending: 0 }
    }

    /// 変更を一件追記する。長さを先頭に付けるので、異常終了で途切れた末尾を再生時に見分けられる。
    pub fn append(&mut self, record: &[u8]) -> io::Result<()> {
        self.out.write_all(&(record.len() as u32).to_le_bytes())?;
        self.out.write_all(record)?;
        self.pending += 1;
        // 一件ごとに書き出すと遅いので、まとめて流す
        if self.pending >= 64 {
            self.out.flush()?;
            self.pending = 0;
        }
        Ok(())
    }
}

/// 台帳を先頭から読み直し、途中で切れた最後の記録を捨てて、完全なものだけを返す。
pub fn replay(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while bytes.len() >= 4 {
        let n = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let Some(body) = bytes.get(4..4 + n) else { break };
        out.push(body);
        bytes = &bytes[4 + n..];
    }
    out
}
