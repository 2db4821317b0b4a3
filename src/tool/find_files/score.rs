//! Rates how well a path matches a partially typed name.
//!
//! The path must contain the characters of the name in order. `nucleo-matcher` rates their
//! positions: the start of a word or of a path component is better, and so are adjacent characters.
//! For example, `srlib` matches `src/lib.rs` better than `tests/surprise/libel.txt`.

use std::path::Path;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// Rates paths by one name.
pub(super) struct Scorer {
    pattern: Pattern,
    matcher: Matcher,
    characters: Vec<char>,
}

impl Scorer {
    /// Creates a scorer that matches the words of the name one by one. Case counts if the name has
    /// an uppercase letter.
    pub(super) fn new(name: &str) -> Scorer {
        Scorer {
            pattern: Pattern::new(
                name,
                CaseMatching::Smart,
                Normalization::Smart,
                AtomKind::Fuzzy,
            ),
            matcher: Matcher::new(Config::DEFAULT.match_paths()),
            characters: Vec::new(),
        }
    }

    /// Returns the score of a path; higher is better. Returns `None` if the path does not match.
    pub(super) fn score(&mut self, path: &Path) -> Option<u32> {
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.is_ascii() {
            // Nearly all paths.
            return self
                .pattern
                .score(Utf32Str::Ascii(bytes), &mut self.matcher);
        }
        let text = path.to_string_lossy();
        let text = Utf32Str::new(&text, &mut self.characters);
        self.pattern.score(text, &mut self.matcher)
    }
}
