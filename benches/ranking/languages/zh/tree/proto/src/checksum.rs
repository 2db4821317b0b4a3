/// 计算报文的循环冗余校验值（CRC），多项式与锁控板固件保持一致。
/// 没有用查表法，因为每包才几十字节，省下那点表空间更划算。
pub fn crc16(data: &[u8]) -> u16 {
    let mut crc = 0xFFFFu16;
    for &b in data {
        crc ^= u16::from(b) << 8;
        for _ in 0..8 {
            let top = crc & 0x8000 != 0;
            crc <<= 1;
            if top {
                crc ^= 0x1021;
            }
        }
    }
    crc
}

/// 比对两段消息认证码，无论在第几个字节不同，耗时都一样。
/// 普通的相等比较会提前返回，攻击者可以靠计时一位一位地猜出密钥。
pub fn same_mac(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    a.iter().zip(b).fold(0u8, |acc, (x, y)| acc | (x ^ y)) == 0
}
