//! Unicode Normalization Form C, for paths and for texts alike.
//!
//! Owns the ways around normalizing what is normal already, which is nearly everything.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// The lead byte of U+0300, the first character that normalization can touch.
const FIRST_COMBINING_LEAD: u8 = 0xCC;

/// Returns the version of Unicode by which is normalized: another one normalizes characters that this one does not know.
pub(crate) fn unicode_version() -> String {
    let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
    format!("{major}.{minor}.{update}")
}

/// Returns whether a text is in Normalization Form C, as far as its characters tell one by one. Linear; takes no memory.
pub(crate) fn is_normal_quick(text: &str) -> IsNormalized {
    match text.bytes().all(|byte| byte < FIRST_COMBINING_LEAD) {
        true => IsNormalized::Yes,
        false => is_nfc_quick(text.chars()),
    }
}

/// Returns true if a text is in Normalization Form C. Linear; marks that follow each other are held in memory.
pub(crate) fn is_normal(text: &str) -> bool {
    match is_normal_quick(text) {
        IsNormalized::Yes => true,
        IsNormalized::No => false,
        IsNormalized::Maybe => text.nfc().eq(text.chars()),
    }
}

/// Brings a text into Normalization Form C; it is the same `Cow` if and only if it is so already.
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
