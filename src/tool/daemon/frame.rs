//! Frames: a length of four bytes, big-endian, and that many bytes of JSON.
//!
//! This module owns the boundaries of messages and the cap on their length. An announced length is
//! not trusted: memory is allocated only for received bytes.

use std::io::{self, Read};

/// The size of the length before each payload, in bytes.
pub const HEADER: usize = 4;

/// The largest single read, which is also the growth step of the buffer.
const STEP: usize = 64 * 1024;

/// The reason why there is no frame. The rest of the stream can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced length is above the cap.
    #[error("a message of {announced} bytes was announced, but at most {cap} are accepted")]
    TooLong {
        /// The announced length, or the length of the message.
        announced: u64,
        /// The largest allowed length.
        cap: usize,
    },
    /// The stream ended within a frame.
    #[error("the connection ended within a message, after {0} of its bytes")]
    Truncated(usize),
}

/// Splits a stream of bytes into frames.
///
/// # Examples
///
/// ```
/// use forge_search::internal::tool::daemon::frame::{Decoder, encode};
///
/// let frame = encode(b"{}", 100)?;
/// let mut decoder = Decoder::new(100);
/// let mut rest = &frame[..3];
/// assert_eq!(decoder.take(&mut rest)?, None);
/// let mut rest = &frame[3..];
/// assert_eq!(decoder.take(&mut rest)?.as_deref(), Some(&b"{}"[..]));
/// # Ok::<(), forge_search::internal::tool::daemon::frame::FrameError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    cap: usize,
    header: Vec<u8>,
    /// The length of the current payload.
    length: Option<usize>,
    payload: Vec<u8>,
}

impl Decoder {
    /// Builds a decoder of frames with at most `cap` bytes of payload.
    pub fn new(cap: usize) -> Decoder {
        Decoder {
            cap,
            header: Vec::with_capacity(HEADER),
            length: None,
            payload: Vec::new(),
        }
    }

    /// Consumes bytes from the front of `input` until a frame is complete, and returns it. Returns
    /// `None` once all bytes are consumed. Call it again while `input` has bytes.
    ///
    /// # Errors
    ///
    /// [`FrameError::TooLong`] as soon as the length is known. The rest of the stream can't be
    /// decoded.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, FrameError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let (now, rest) = input.split_at(input.len().min(HEADER - self.header.len()));
                self.header.extend_from_slice(now);
                *input = rest;
                let Ok(header) = <[u8; HEADER]>::try_from(&*self.header) else {
                    return Ok(None);
                };
                let length = checked(u64::from(u32::from_be_bytes(header)), self.cap)?;
                self.length = Some(length);
                length
            }
        };
        let (now, rest) = input.split_at(input.len().min(length - self.payload.len()));
        self.payload.extend_from_slice(now);
        *input = rest;
        if self.payload.len() < length {
            return Ok(None);
        }
        self.header.clear();
        self.length = None;
        Ok(Some(std::mem::take(&mut self.payload)))
    }

    /// Returns true if a frame has begun and is incomplete.
    pub fn is_within(&self) -> bool {
        !self.header.is_empty()
    }

    /// Returns the number of buffered bytes of the current frame.
    pub fn held(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// Checks that a stream may end here.
    ///
    /// # Errors
    ///
    /// [`FrameError::Truncated`] within a frame.
    pub fn end(&self) -> Result<(), FrameError> {
        match self.is_within() {
            true => Err(FrameError::Truncated(self.held())),
            false => Ok(()),
        }
    }
}

/// Builds a frame from a payload.
///
/// # Errors
///
/// [`FrameError::TooLong`] for a payload of more than `cap` bytes.
pub fn encode(payload: &[u8], cap: usize) -> Result<Vec<u8>, FrameError> {
    let length = checked(payload.len() as u64, cap)?;
    // A length always fits into four bytes; see `checked`.
    let header = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = Vec::with_capacity(HEADER + length);
    frame.extend_from_slice(&header);
    frame.extend_from_slice(payload);
    Ok(frame)
}

/// Reads one frame from a blocking stream; `None` at the end of the stream.
///
/// # Errors
///
/// The error of the stream, or [`FrameError`] as [`io::ErrorKind::InvalidData`] or
/// [`io::ErrorKind::UnexpectedEof`].
pub fn read(stream: &mut dyn Read, cap: usize) -> io::Result<Option<Vec<u8>>> {
    let mut decoder = Decoder::new(cap);
    let mut buffer = vec![0; STEP];
    loop {
        // Never reads beyond this frame, since the next bytes belong to the next one.
        let wanted = match decoder.length {
            None => HEADER - decoder.header.len(),
            Some(length) => (length - decoder.payload.len()).min(STEP),
        };
        let read = match stream.read(&mut buffer[..wanted]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 && wanted > 0 {
            let ended = |error| io::Error::new(io::ErrorKind::UnexpectedEof, error);
            return decoder.end().map(|()| None).map_err(ended);
        }
        let frame = decoder.take(&mut &buffer[..read]);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if let Some(frame) = frame.map_err(invalid)? {
            return Ok(Some(frame));
        }
    }
}

fn checked(announced: u64, cap: usize) -> Result<usize, FrameError> {
    let cap = cap.min(u32::MAX as usize);
    match usize::try_from(announced) {
        Ok(length) if length <= cap => Ok(length),
        _ => Err(FrameError::TooLong { announced, cap }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in prop::collection::vec(1usize..9, 1..60),
        ) {
            let mut stream = Vec::new();
            for payload in &payloads {
                stream.extend(encode(payload, 64).unwrap());
            }
            let mut decoder = Decoder::new(64);
            let mut out = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let (mut piece, after) = rest.split_at(rest.len().min(cuts.next().unwrap()));
                rest = after;
                while !piece.is_empty() {
                    out.extend(decoder.take(&mut piece).unwrap());
                }
            }
            prop_assert_eq!(&out, &payloads);
            prop_assert_eq!(decoder.end(), Ok(()));
            let mut stream = &stream[..];
            for payload in &payloads {
                let frame = read(&mut stream, 64).unwrap();
                prop_assert_eq!(frame.as_ref(), Some(payload));
            }
            prop_assert_eq!(read(&mut stream, 64).unwrap(), None);
        }
    }

    #[test]
    fn a_length_over_the_cap_is_refused_before_memory_is_allocated() {
        let mut decoder = Decoder::new(1 << 20);
        let announced = 64 << 20;
        let mut bytes = &[&(announced as u32).to_be_bytes()[..], b"{\"a\":1"].concat()[..];
        let error = decoder.take(&mut bytes).unwrap_err();
        let cap = 1 << 20;
        assert_eq!(error, FrameError::TooLong { announced, cap });
        assert_eq!(decoder.payload.capacity(), 0);
        assert!(encode(&[0; 11], 10).is_err());
        assert!(encode(&[0; 10], 10).is_ok());
    }

    #[test]
    fn memory_follows_the_bytes_received_and_not_the_announced_length() {
        let mut decoder = Decoder::new(1 << 20);
        let mut bytes = &[&(1u32 << 20).to_be_bytes()[..], b"{"].concat()[..];
        assert_eq!(decoder.take(&mut bytes), Ok(None));
        assert!(
            decoder.payload.capacity() < 64,
            "{}",
            decoder.payload.capacity()
        );
        assert_eq!(decoder.end(), Err(FrameError::Truncated(5)));
    }

    #[test]
    fn a_stream_that_ends_within_a_length_or_a_payload_is_truncated() {
        for (bytes, held) in [(&[0u8, 0][..], 2), (&[0, 0, 0, 9, b'{'], 5)] {
            let error = read(&mut &*bytes, 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            let inner = error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<FrameError>());
            assert_eq!(inner, Some(&FrameError::Truncated(held)));
        }
        let error = read(&mut &[0xff; 8][..], 100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn an_empty_payload_is_a_frame() {
        let frame = encode(b"", 10).unwrap();
        assert_eq!(read(&mut &frame[..], 10).unwrap(), Some(Vec::new()));
    }
}
