//! Words: the terms by which a ranked question finds a text.
//!
//! An index stores the terms of each file, and a ranked question is taken apart by the same rules.
//! [`names`] cuts a text into names such as `parseConfig2` and a name into parts (`parse`,
//! `config`, `2`); [`forms`] reduces a part to its stem without case and accents; [`definition`]
//! recognizes lines that define a name; [`counts`] counts the terms of one file, [`asked`] those of
//! a question; [`postings`] encodes the counts of a group of files. Everything here is a pure
//! function of the bytes and the path of a file.
//!
//! A term is stored as a 32-bit hash, so an index holds no text. But a reader of an index can test
//! whether a file has a guessed word. Two terms with the same hash count as one term.

pub mod asked;
pub mod counts;
pub mod definition;
pub mod forms;
pub mod names;
pub mod postings;
pub mod stem;

/// The version of the rules by which a text becomes terms. Raise it when the same text would have
/// other terms.
const RULES: u32 = 4;

/// Returns the version of the rules of words, with the version of Unicode that tells letters,
/// digits and case apart.
pub fn rules() -> String {
    let (major, minor, update) = char::UNICODE_VERSION;
    format!("words-{RULES}-unicode-{major}.{minor}.{update}")
}
