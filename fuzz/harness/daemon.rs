//! Any stream of bytes that a client sends to a daemon: however it is cut, it is the same frames; nothing is held that did not
//! come; and each frame is a message or is refused in words, which repeat nothing long.

use forge_search::tool::daemon::frame::{Decoder, FrameError, encode};
use forge_search::tool::daemon::handshake::{
    PROTOCOL_VERSIONS, Store, check as check_welcome, receive,
};
use forge_search::tool::daemon::request::{Refused, Request};

/// Bytes of a frame, at most.
const CAP: usize = 4_096;

/// What a refusal may have beyond what is said in our own words.
const WORDS: usize = 2_000;

/// Reads `data` as a stream, whole and in pieces whose lengths its first byte decides, and each frame of it as a message.
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
    // Without the length in front, so that a fuzzer need not find one.
    message(data);
}

/// Returns the frames of a stream that comes in pieces, and whether a frame was refused.
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
    // A frame without bytes is whole with its length.
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
    let own = Store {
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

fn check(refused: &Refused) {
    let length = refused.message.len();
    assert!(
        length > 0 && length < WORDS,
        "{length} bytes: {}",
        refused.message
    );
}
