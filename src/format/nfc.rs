//! Unicode Normalization Form C (NFC), for paths and texts.
//!
//! This module owns the shortcuts for text that is normalized already, which is nearly all text.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// The lead byte of U+0300, the first character that normalization can change.
const FIRST_COMBINING_LEAD: u8 = 0xCC;

/// Returns the Unicode version of the normalization tables. A newer version normalizes characters
/// that this one does not know.
pub(crate) fn unicode_version() -> String {
    let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
    format!("{major}.{minor}.{update}")
}

/// Returns whether a text is in NFC, as far as single characters show. Linear; allocates nothing.
pub(crate) fn is_normal_quick(text: &str) -> IsNormalized {
    match text.bytes().all(|byte| byte < FIRST_COMBINING_LEAD) {
        true => IsNormalized::Yes,
        false => is_nfc_quick(text.chars()),
    }
}

/// Returns true if a text is in NFC. Linear; buffers runs of combining marks.
pub(crate) fn is_normal(text: &str) -> bool {
    match is_normal_quick(text) {
        IsNormalized::Yes => true,
        IsNormalized::No => false,
        IsNormalized::Maybe => text.nfc().eq(text.chars()),
    }
}

/// Returns the text in NFC. Returns `text` itself if and only if it is normalized already.
pub(crate) fn normalize(text: Cow<'_, str>) -> Cow<'_, str> {
    match is_normal(&text) {
        true => text,
        false => Cow::Owned(text.nfc().collect()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_library_says(text in "[aéẹ̣́e\u{301}\u{323}\u{1100}\u{1161}\u{11A8}가K\u{212A}]{0,12}") {
            let expected: String = text.nfc().collect();
            prop_assert_eq!(is_normal(&text), expected == text);
            let found = normalize(Cow::Borrowed(&text));
            prop_assert_eq!(matches!(found, Cow::Borrowed(_)), expected == text);
            prop_assert_eq!(found, expected);
        }
    }
}
