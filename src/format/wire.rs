//! Little-endian primitives with checked reads.
//!
//! This module owns the encoding of numbers, byte strings and counts in all records; `manifest`,
//! `segment` and `section` use it. [`Reader`] reads untrusted bytes: it never panics, never reads
//! beyond its input, and never returns a count that the input could not hold. This module does not
//! know what the records mean.

use super::error::{FormatError, FormatErrorKind};

/// Reads primitives from bytes, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`. `what` names the bytes in errors, as in `the section table`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, at: 0, what }
    }

    /// Returns the number of bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Builds an error about the current position.
    pub fn inconsistent(&self, problem: &'static str) -> FormatError {
        FormatError::inconsistent(self.what, self.at as u64, problem)
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Truncated`] if fewer are left. The same holds for all methods that read.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let rest = &self.bytes[self.at..];
        let Some(bytes) = rest.get(..len) else {
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected: (self.at as u64).saturating_add(len as u64),
                found: self.bytes.len() as u64,
            }));
        };
        self.at += len;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// Reads a number of 1 to 5 bytes, as [`Writer::varint`] writes it.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Truncated`] at the end of the input, and
    /// [`FormatErrorKind::Inconsistent`] for a number of more than 32 bits or one with useless
    /// bytes.
    pub fn varint(&mut self) -> Result<u32, FormatError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && byte > 0x0f || shift > 0 && byte == 0 {
                return Err(self.inconsistent("a number of variable length is malformed"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// Reads a byte that is 0 or 1.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Truncated`] at the end of the input, and
    /// [`FormatErrorKind::Inconsistent`] for any other value.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, FormatError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.inconsistent("a flag is neither 0 nor 1")),
        }
    }

    /// Reads a length and that many bytes, as [`Writer::block`] writes them.
    ///
    /// # Errors
    ///
    /// Those of [`bytes`](Self::bytes), and [`FormatErrorKind::TooLarge`] for more than `max`
    /// bytes.
    pub fn block(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], FormatError> {
        let len = self.u64()?;
        match usize::try_from(len) {
            Ok(len) if len <= max => self.bytes(len),
            _ => Err(FormatError::too_large(what, len, max as u64)),
        }
    }

    /// Reads a block of UTF-8.
    ///
    /// # Errors
    ///
    /// Those of [`block`](Self::block), and [`FormatErrorKind::Inconsistent`] for bytes that are
    /// not UTF-8.
    pub fn text(&mut self, max: usize, what: &'static str) -> Result<&'a str, FormatError> {
        let bytes = self.block(max, what)?;
        std::str::from_utf8(bytes).map_err(|_| self.inconsistent("text that is not UTF-8"))
    }

    /// Reads the number of records that follow. Each takes at least `min_len` bytes.
    ///
    /// # Errors
    ///
    /// Those of [`bytes`](Self::bytes), also if the rest is too short for so many records.
    /// [`FormatErrorKind::TooLarge`] for more than `max`.
    pub fn count(
        &mut self,
        max: usize,
        min_len: usize,
        what: &'static str,
    ) -> Result<usize, FormatError> {
        let raw = self.u64()?;
        let count = match usize::try_from(raw) {
            Ok(count) if count <= max => count,
            _ => return Err(FormatError::too_large(what, raw, max as u64)),
        };
        let needed = count.saturating_mul(min_len);
        if needed > self.remaining() {
            return Err(FormatError::new(FormatErrorKind::Truncated {
                expected: (self.at as u64).saturating_add(needed as u64),
                found: self.bytes.len() as u64,
            }));
        }
        Ok(count)
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    ///
    /// [`FormatErrorKind::Inconsistent`] if bytes are left.
    pub fn finish(self) -> Result<(), FormatError> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            Err(self.inconsistent("bytes are left over"))
        }
    }
}

/// Writes primitives to memory.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the written bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a number in 1 to 5 bytes: seven bits in each, the lowest first. All bytes but the
    /// last have the highest bit set.
    pub fn varint(&mut self, mut value: u32) {
        while value > 0x7f {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// Writes 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Writes the length of `bytes` as eight bytes, then `bytes`.
    pub fn block(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.bytes(bytes);
    }
}

/// A value that takes the same number of bytes in every record.
pub trait Field: Sized {
    /// The length in bytes.
    const LEN: usize;

    /// Writes the value to `out`.
    fn encode(&self, out: &mut Writer);

    /// Reads a value from `reader`.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the input ends, or has a value that no writer writes.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError>;
}

macro_rules! numbers {
    ($($number:ident)+) => {$(
        impl Reader<'_> {
            /// Reads a number of this type, two's complement if it has a sign.
            ///
            /// # Errors
            ///
            /// [`FormatErrorKind::Truncated`] if fewer bytes are left.
            #[inline]
            pub fn $number(&mut self) -> Result<$number, FormatError> {
                Ok($number::from_le_bytes(self.array()?))
            }
        }

        impl Writer {
            /// Writes a number of this type, two's complement if it has a sign.
            pub fn $number(&mut self, value: $number) {
                self.bytes(&value.to_le_bytes());
            }
        }
    )+};
}

macro_rules! fields {
    ($($field:ident)+) => {$(
        impl Field for $field {
            const LEN: usize = size_of::<$field>();

            #[inline]
            fn encode(&self, out: &mut Writer) {
                out.$field(*self);
            }

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
                reader.$field()
            }
        }
    )+};
}

numbers! { u8 u16 u32 u64 i64 }
fields! { u8 u16 u32 u64 i64 bool }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitives_are_little_endian() {
        let mut writer = Writer::new();
        assert!(writer.is_empty());
        writer.u8(1);
        writer.u16(0x0203);
        writer.u32(0x0405_0607);
        writer.u64(0x0809_0a0b_0c0d_0e0f);
        writer.i64(-2);
        writer.bool(true);
        writer.block(b"ab");
        assert_eq!(writer.len(), writer.as_bytes().len());
        let expected = b"\x01\x03\x02\x07\x06\x05\x04\x0f\x0e\x0d\x0c\x0b\x0a\x09\x08\xfe\xff\xff\xff\xff\xff\xff\xff\x01\x02\0\0\0\0\0\0\0ab";
        assert_eq!(writer.into_bytes(), expected);
        let mut reader = Reader::new(expected, "the test");
        assert_eq!(reader.u8().unwrap(), 1);
        assert_eq!(reader.u16().unwrap(), 0x0203);
        assert_eq!(reader.u32().unwrap(), 0x0405_0607);
        assert_eq!(reader.u64().unwrap(), 0x0809_0a0b_0c0d_0e0f);
        assert_eq!(reader.i64().unwrap(), -2);
        assert!(reader.bool().unwrap());
        assert_eq!(reader.block(2, "x").unwrap(), b"ab");
        assert_eq!(reader.remaining(), 0);
        reader.finish().unwrap();
    }

    #[test]
    fn a_short_input_is_truncated_and_not_consumed() {
        let mut reader = Reader::new(b"abc", "the test");
        let error = reader.u32().unwrap_err();
        let kind = error.kind();
        assert!(
            matches!(
                kind,
                FormatErrorKind::Truncated {
                    expected: 4,
                    found: 3
                }
            ),
            "{kind:?}"
        );
        assert_eq!(reader.position(), 0);
        assert_eq!(reader.bytes(3).unwrap(), b"abc");
        let kind = reader.bytes(usize::MAX).unwrap_err();
        assert!(
            matches!(kind.kind(), FormatErrorKind::Truncated { .. }),
            "{kind:?}"
        );
    }

    #[test]
    fn numbers_of_variable_length_have_one_encoding() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u32::MAX - 1, u32::MAX] {
            let mut writer = Writer::new();
            writer.varint(value);
            let mut reader = Reader::new(writer.as_bytes(), "the test");
            assert_eq!(reader.varint().unwrap(), value);
            reader.finish().unwrap();
        }
        for bytes in [
            &[0x80][..],
            &[0x80, 0],
            &[0xff, 0xff, 0xff, 0xff, 0x10],
            &[],
        ] {
            assert!(
                Reader::new(bytes, "the test").varint().is_err(),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn leftovers_are_noticed() {
        let mut reader = Reader::new(b"ab", "the test");
        assert_eq!(reader.u8().unwrap(), b'a');
        let error = reader.finish().unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("the test is inconsistent at offset 1"),
            "{text}"
        );
    }

    #[test]
    fn flags_are_0_or_1() {
        let error = Reader::new(&[2], "the test").bool().unwrap_err();
        assert!(
            matches!(error.kind(), FormatErrorKind::Inconsistent { .. }),
            "{error}"
        );
    }

    #[test]
    fn text_is_utf_8() {
        let mut writer = Writer::new();
        writer.block("ä".as_bytes());
        writer.block(b"\xff");
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes, "the test");
        assert_eq!(reader.text(2, "x").unwrap(), "ä");
        let error = reader.text(2, "x").unwrap_err();
        assert!(
            matches!(error.kind(), FormatErrorKind::Inconsistent { .. }),
            "{error}"
        );
    }

    #[test]
    fn lengths_and_counts_are_capped() {
        for value in [5, u64::MAX, u64::from(u32::MAX) + 5] {
            let mut writer = Writer::new();
            writer.u64(value);
            writer.bytes(b"abcde");
            let bytes = writer.into_bytes();
            let error = Reader::new(&bytes, "t").block(4, "a name").unwrap_err();
            let kind = error.kind();
            assert!(
                matches!(kind, FormatErrorKind::TooLarge { limit: 4, .. }),
                "{kind:?}"
            );
            let error = Reader::new(&bytes, "t").count(4, 1, "names").unwrap_err();
            let kind = error.kind();
            assert!(
                matches!(kind, FormatErrorKind::TooLarge { limit: 4, .. }),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn a_count_is_no_more_than_the_input_holds() {
        let mut writer = Writer::new();
        writer.u64(3);
        writer.bytes(&[0; 12]);
        let bytes = writer.into_bytes();
        let count = |min_len| Reader::new(&bytes, "t").count(usize::MAX, min_len, "names");
        assert_eq!(count(4).unwrap(), 3);
        for too_long in [5, usize::MAX] {
            let error = count(too_long).unwrap_err();
            let kind = error.kind();
            assert!(
                matches!(kind, FormatErrorKind::Truncated { .. }),
                "{kind:?}"
            );
        }
    }
}
