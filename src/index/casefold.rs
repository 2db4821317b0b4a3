//! Case folding for the case-insensitive variant of n-grams.
//!
//! This module owns the two strategies that the specification of the index permits. The engine
//! determines the strategy; today every engine folds ASCII only.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use crate::format::choices::choices;

/// Characters that fold by Unicode data newer than the matcher's. They must not fold here: n-grams
/// have to treat two characters as equal exactly if the matcher does.
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

/// Returns true if the matcher treats two characters as equal when it ignores case.
fn equal_for_matcher(a: char, b: char) -> bool {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(a, a)]);
    class.case_fold_simple();
    class
        .iter()
        .any(|range| range.start() <= b && b <= range.end())
}

choices! {
    /// The strategy of case folding.
    #[derive(Default, PartialOrd, Ord)]
    Casefold {
        /// Folds `A`–`Z` to `a`–`z`.
        #[default]
        Ascii = "ASCII",
        /// Folds by Unicode's simple folding: each character by itself, independent of locale.
        UnicodeSimple = "UNICODE_SIMPLE",
    }
}

impl Casefold {
    /// Returns the number of the strategy in a segment.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns the strategy with this number.
    pub fn from_number(number: u32) -> Option<Casefold> {
        Casefold::ALL.get(number as usize).copied()
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

    /// The matcher's table is authoritative: two characters fold to the same character if and only
    /// if the matcher treats them as equal when it ignores case.
    #[test]
    fn unicode_simple_agrees_with_the_matcher() {
        // Nothing folds beyond the second plane, so a sample of those characters is enough.
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
