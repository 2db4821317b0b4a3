//! Reasons: which parts of its score made a place a result.

use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the score of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Reason {
    /// A name of the question is defined here.
    #[serde(rename = "defined here")]
    DefinedHere,
    /// The path of the file has words of the question.
    Path,
    /// The text has words of the question.
    Words,
    /// The words of the text are used like those of the question.
    Meaning,
}

impl Reason {
    /// Returns the reason in words, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::DefinedHere => "defined here",
            Reason::Path => "path",
            Reason::Words => "words",
            Reason::Meaning => "meaning",
        }
    }

    /// Returns reasons in words, with commas between.
    #[doc(hidden)]
    pub fn joined(all: &[Reason]) -> String {
        let words: Vec<&str> = all.iter().map(|one| one.as_str()).collect();
        words.join(", ")
    }
}

/// The parts of the score of a file, in ten-thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contributions {
    /// Names that the file defines.
    pub definitions: u64,
    /// Words in the path.
    pub path: u64,
    /// Words in the text, and words and adjacent words in its pieces.
    pub words: u64,
    /// How alike the meanings are.
    pub meaning: u64,
}

impl Add for Contributions {
    type Output = Contributions;

    fn add(self, other: Contributions) -> Contributions {
        Contributions {
            definitions: self.definitions + other.definitions,
            path: self.path + other.path,
            words: self.words + other.words,
            meaning: self.meaning + other.meaning,
        }
    }
}

impl Contributions {
    /// Returns the sum of the parts.
    pub fn total(self) -> u64 {
        self.definitions + self.path + self.words + self.meaning
    }

    /// Returns the reasons for a place of the file: the largest part, and the second one if it is
    /// at least half as large. `defines` says whether the place defines a name of the question.
    /// There is always a reason.
    pub fn reasons(self, defines: bool) -> Vec<Reason> {
        let mut parts = [
            (
                if defines { self.definitions } else { 0 },
                Reason::DefinedHere,
            ),
            (self.path, Reason::Path),
            (self.words, Reason::Words),
            (self.meaning, Reason::Meaning),
        ];
        // The sort is stable, so equal parts keep this order.
        parts.sort_by_key(|(part, _)| std::cmp::Reverse(*part));
        let most = parts[0].0;
        let strong = parts
            .iter()
            .filter(|(part, _)| *part > 0 && part * 2 >= most);
        let reasons: Vec<Reason> = strong.take(2).map(|(_, reason)| *reason).collect();
        match reasons.is_empty() {
            true => vec![Reason::Words],
            false => reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_and_a_second_one_half_as_large_are_reasons() {
        let parts = Contributions {
            definitions: 40_000,
            path: 9_000,
            words: 19_999,
            meaning: 20_000,
        };
        // The third part is no reason, and a smaller second one would be none either.
        assert_eq!(parts.reasons(true), [Reason::DefinedHere, Reason::Meaning]);
        // Another place of the same file does not define the name.
        let others = [Reason::Meaning, Reason::Words];
        assert_eq!(parts.reasons(false), others);
        assert_eq!(Reason::joined(&others), "meaning, words");
    }

    #[test]
    fn there_is_always_a_reason_and_equal_parts_have_one_order() {
        assert_eq!(Contributions::default().reasons(true), [Reason::Words]);
        let equal = Contributions {
            definitions: 1,
            path: 1,
            words: 1,
            meaning: 1,
        };
        assert_eq!(equal.reasons(true), [Reason::DefinedHere, Reason::Path]);
        assert_eq!(equal.reasons(false), [Reason::Path, Reason::Words]);
        for one in [
            Reason::DefinedHere,
            Reason::Path,
            Reason::Words,
            Reason::Meaning,
        ] {
            assert_eq!(serde_json::to_value(one).unwrap(), one.as_str());
        }
    }
}
