//! Claims about any stream of bytes from a client to a daemon:
//!
//! - The frames do not depend on how the stream is cut.
//! - The decoder holds only bytes that it has received.
//! - Each frame is a message, or is refused with a short text.

use forge_search::internal::tool::daemon::frame::{Decoder, FrameError, encode};
use forge_search::internal::tool::daemon::handshake::{
    PROTOCOL_VERSIONS, ServedTree, check as check_welcome, receive,
};
use forge_search::internal::tool::daemon::request::{Request, RequestError};

/// The maximal length of a frame, in bytes.
const CAP: usize = 4_096;

/// The maximal length of a refusal's message, in bytes.
const WORDS: usize = 2_000;

/// Decodes `data` as a stream, whole and in pieces, and parses each frame as a message. The first
/// byte decides the length of the pieces.
pub(crate) fn run(data: &[u8]) {
    let (whole, end) = frames(data, data.len().max(1));
    let piece = usize::from(data.first().copied().unwrap_or(0)) % 61 + 1;
    assert_eq!(
        (&whole, end),
        (&frames(data, piece).0, frames(data, piece).1)
    );
    for frame in &whole {
        message(frame);
        let again = encode(frame, CAP).expect("it came as a frame");
        assert_eq!(frames(&again, 7).0, std::slice::from_ref(frame));
    }
    // Parse `data` without a length in front too, so that the fuzzer need not find a valid one.
    message(data);
}

/// Returns the frames of a stream in pieces, and whether a frame was refused.
fn frames(data: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let mut decoder = Decoder::new(CAP);
    let mut found = Vec::new();
    for mut piece in data.chunks(piece) {
        while !piece.is_empty() {
            match decoder.take(&mut piece) {
                Ok(frame) => found.extend(frame),
                Err(error) => {
                    assert!(matches!(error, FrameError::TooLong { .. }), "{error}");
                    return (found, true);
                }
            }
            assert!(
                decoder.held() <= CAP + 4,
                "{} bytes are held",
                decoder.held()
            );
        }
    }
    // A frame without bytes is complete after its length.
    while let Ok(Some(frame)) = decoder.take(&mut &[][..]) {
        found.push(frame);
    }
    (found, false)
}

fn message(payload: &[u8]) {
    match Request::parse(payload) {
        Ok(request) => {
            let written = request.to_value().to_string();
            let again = Request::parse(written.as_bytes()).expect("what is written can be read");
            assert_eq!(again, request);
        }
        Err(refused) => check(&refused),
    }
    let own = ServedTree {
        store_id: "s".to_string(),
        config_fingerprint: "c".to_string(),
    };
    match receive(payload, &own, &PROTOCOL_VERSIONS) {
        Ok((hello, welcome)) => {
            assert!(hello.versions().contains(&welcome.protocol_version));
            assert_eq!(hello.store_id, "s");
            assert_eq!(check_welcome(&welcome, &own), Ok(()));
        }
        Err(failure) => {
            let message = &failure.error.message;
            assert!(!message.is_empty() && message.len() < WORDS, "{failure:?}");
        }
    }
}

fn check(refused: &RequestError) {
    let length = refused.message.len();
    assert!(
        length > 0 && length < WORDS,
        "{length} bytes: {}",
        refused.message
    );
}
