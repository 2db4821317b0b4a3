use std::fmt;

/// 解析报文时可能出现的错误。
#[derive(Debug, PartialEq)]
pub enum FrameError {
    /// 数据还没收全，需要继续等待后面的字节
    Incomplete,
    /// 长度字段超过了允许的最大值
    TooLong(usize),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self)
    }
}

/// 从接收缓冲区里切出一个完整的报文，返回正文和消耗掉的字节数。
/// 长度字段先做上限检查，防止有人伪造巨大的长度骗我们申请大块内存。
pub fn split_frame(buf: &[u8], max: usize) -> Result<(&[u8], usize), FrameError> {
    if buf.len() < 4 {
        return Err(FrameError::Incomplete);
    }
    let n = u16::from_be_bytes([buf[2], buf[3]]) as usize;
    if n > max {
        return Err(FrameError::TooLong(n));
    }
    buf.get(4..4 + n).map(|b| (b, 4 + n)).ok_or(FrameError::Incomplete)
}

/// 串口上有噪声时，丢弃垃圾字节直到重新找到帧头魔数，返回跳过的字节数。
pub fn resync(buf: &[u8]) -> usize {
    buf.windows(2).position(|w| w == [0xA5, 0x5A]).unwrap_or(buf.len())
}
