//! Case folding for the insensitive variant of n-grams (FR-LSI-TOK-04).
//!
//! Owns the two permitted strategies. Which one applies follows from the engine; today every engine folds
//! ASCII only.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Characters that fold by newer Unicode data than the matcher's. Its table is the one that counts: a fold
/// that it does not know would tell texts apart, or take them for equal, otherwise than matching does.
static UNKNOWN_TO_MATCHER: LazyLock<BTreeSet<char>> = LazyLock::new(|| {
    ('\0'..=char::MAX)
        .filter(|&c| {
            let folded = simple_fold(c);
            folded != c && !equal_for_matcher(c, folded)
        })
        .collect()
});

/// Folds by the mappings of status C and S in Unicode's `CaseFolding.txt`.
fn simple_fold(c: char) -> char {
    unicode_case_mapping::case_folded(c)
        .and_then(|folded| char::from_u32(folded.get()))
        .unwrap_or(c)
}

/// Returns true if the matcher takes two characters for equal without case.
fn equal_for_matcher(a: char, b: char) -> bool {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(a, a)]);
    class.case_fold_simple();
    class
        .iter()
        .any(|range| range.start() <= b && b <= range.end())
}

/// How characters fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Casefold {
    /// `A`–`Z` become `a`–`z`.
    #[default]
    Ascii,
    /// Simple folding of Unicode: every character on its own, no locale.
    UnicodeSimple,
}

impl Casefold {
    const ALL: [Casefold; 2] = [Casefold::Ascii, Casefold::UnicodeSimple];

    /// Returns the name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Casefold::Ascii => "ASCII",
            Casefold::UnicodeSimple => "UNICODE_SIMPLE",
        }
    }

    /// Returns the number that stands for it in a segment.
    pub fn number(self) -> u32 {
        match self {
            Casefold::Ascii => 0,
            Casefold::UnicodeSimple => 1,
        }
    }

    /// Returns the strategy of a number, if there is one.
    pub fn from_number(number: u32) -> Option<Casefold> {
        let mut all = Casefold::ALL.into_iter();
        all.find(|casefold| casefold.number() == number)
    }

    /// Returns the strategy of a name, if there is one.
    pub fn from_name(name: &str) -> Option<Casefold> {
        let mut all = Casefold::ALL.into_iter();
        all.find(|casefold| casefold.as_str() == name)
    }

    /// Folds one character.
    pub fn fold(self, c: char) -> char {
        match self {
            Casefold::Ascii => c.to_ascii_lowercase(),
            Casefold::UnicodeSimple if c.is_ascii() => c.to_ascii_lowercase(),
            Casefold::UnicodeSimple => {
                let folded = simple_fold(c);
                if folded != c && UNKNOWN_TO_MATCHER.contains(&c) {
                    c
                } else {
                    folded
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_leaves_everything_else_alone() {
        for (c, folded) in [
            ('K', 'k'),
            ('k', 'k'),
            ('Ñ', 'Ñ'),
            ('\u{212A}', '\u{212A}'),
            ('[', '['),
        ] {
            assert_eq!(Casefold::Ascii.fold(c), folded);
        }
    }

    /// The matcher's own table is the one that counts: two characters are equal without case for it if and
    /// only if they fold to the same character.
    #[test]
    fn unicode_simple_agrees_with_the_matcher() {
        // Beyond the second plane nothing folds: some characters there stand for all.
        let is_one = |c: &char| *c < '\u{20000}' || u32::from(*c) % 64 == 0;
        let private = '\u{E000}'..'\u{F900}';
        for c in ('\0'..=char::MAX).filter(|c| is_one(c) && !private.contains(c)) {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            class.case_fold_simple();
            let folded = Casefold::UnicodeSimple.fold(c);
            let equal = class.iter().flat_map(|range| range.start()..=range.end());
            for other in equal {
                assert_eq!(
                    Casefold::UnicodeSimple.fold(other),
                    folded,
                    "{c:?} and {other:?}"
                );
            }
            assert!(
                class
                    .iter()
                    .any(|range| range.start() <= folded && folded <= range.end()),
                "{c:?} folds to {folded:?}, which does not match it"
            );
        }
    }
}
