//! How well a path matches a name that somebody typed in part.
//!
//! The characters of the name have to be in the path, in their order. `nucleo-matcher` rates where they
//! stand: at the start of a word or of a component, and next to each other, is better. For example,
//! `srlib` matches `src/lib.rs` better than `tests/surprise/libel.txt`.

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
    /// Words of the name are looked for one by one. Case counts if the name has an uppercase letter.
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

    /// Rates a path; `None` if the name is not in it. A higher number is better.
    pub(super) fn score(&mut self, path: &Path) -> Option<u32> {
        let text = path.to_string_lossy();
        let text = Utf32Str::new(&text, &mut self.characters);
        self.pattern.score(text, &mut self.matcher)
    }
}
