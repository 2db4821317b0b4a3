//! Describes plans for human-readable and machine-readable output.

use std::fmt;

use serde::Serialize;

use crate::index::gram::Gram;
use crate::index::plan::Reason;
use crate::index::plan::char_seq::Position;
use crate::index::plan::path;
use crate::index::plan::requirement::{Conjunction, TextRequirement};

/// The description of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanDescription {
    /// The requirement on a file to be kept; absent if every file is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires: Option<Requirement>,
    /// Why every file is kept; absent if some files may be excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why parts of the expression are not used, while others are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<Reason>,
    /// Some of the parts that are not used because they have too many n-grams
    /// ([`Reason::TooManyNgrams`]), as expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused_parts: Vec<String>,
    /// The number of distinct n-grams that may be tested.
    pub ngrams: usize,
}

/// A requirement on a file to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// All of these.
    All(Vec<Requirement>),
    /// At least one of these. An empty list excludes every file.
    Any(Vec<Requirement>),
    /// All n-grams of a text.
    Literal {
        /// The text, folded to lower case if the search ignores case.
        text: String,
        /// Its distinct n-grams, sorted.
        ngrams: Vec<String>,
    },
    /// All n-grams of consecutive texts, except those that some edits change.
    Nearly {
        /// The number of allowed edits.
        edits: u32,
        /// The texts, as expressions; folded to lower case if the search ignores case.
        texts: Vec<String>,
        /// The number of n-grams that are tested, once for each place where they stand.
        ngrams: usize,
    },
    /// All n-grams of at least one of many texts.
    Path {
        /// The texts, as an expression.
        texts: String,
        /// The number of distinct n-grams.
        ngrams: usize,
    },
}

impl Requirement {
    pub(super) fn new(needs: &Conjunction) -> Requirement {
        let mut all: Vec<Requirement> = needs.iter().map(Requirement::of).collect();
        match all.pop() {
            Some(only) if all.is_empty() => only,
            last => {
                all.extend(last);
                Requirement::All(all)
            }
        }
    }

    fn of(need: &TextRequirement) -> Requirement {
        match need {
            TextRequirement::Literal(text) => {
                let mut grams: Vec<Gram> = Gram::all_in(text).collect();
                grams.sort_unstable();
                grams.dedup();
                Requirement::Literal {
                    text: text.iter().collect(),
                    ngrams: grams
                        .iter()
                        .map(|gram| gram.chars().iter().collect())
                        .collect(),
                }
            }
            TextRequirement::Path(chain) => Requirement::Path {
                texts: texts(chain),
                ngrams: path::distinct_grams(chain),
            },
            TextRequirement::Approx(nearly) => Requirement::Nearly {
                edits: nearly.edits,
                texts: nearly.runs.iter().map(|run| texts(run)).collect(),
                ngrams: nearly.grams(),
            },
            TextRequirement::AllOf(needs) => Requirement::new(needs),
            TextRequirement::AnyOf(alternatives) => {
                Requirement::Any(alternatives.iter().map(Requirement::of).collect())
            }
        }
    }
}

/// Writes the texts of a chain as an expression.
pub(super) fn texts(chain: &[Position]) -> String {
    chain.iter().map(Position::to_string).collect()
}

/// Writes, for example, `"one" and ("two" or /[0-9]x[ab]/)`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, word) = match self {
            Requirement::Literal { text, .. } => return write!(f, "{text:?}"),
            Requirement::Path { texts, .. } => return write!(f, "/{texts}/"),
            Requirement::Nearly { edits, texts, .. } => {
                for (n, text) in texts.iter().enumerate() {
                    write!(f, "{}/{text}/", if n > 0 { " then " } else { "" })?;
                }
                let s = if *edits == 1 { "" } else { "s" };
                return write!(f, " within {edits} edit{s}");
            }
            Requirement::Any(parts) if parts.is_empty() => return f.write_str("the impossible"),
            Requirement::Any(parts) => (parts, "or"),
            Requirement::All(parts) => (parts, "and"),
        };
        for (n, part) in parts.iter().enumerate() {
            if n > 0 {
                write!(f, " {word} ")?;
            }
            match part {
                Requirement::All(_) | Requirement::Any(_) => write!(f, "({part})")?,
                simple => write!(f, "{simple}")?,
            }
        }
        Ok(())
    }
}

/// Writes the requirement, or the reason why there is no requirement.
impl fmt::Display for PlanDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.requires, self.reason) {
            (Some(requires), _) => write!(f, "{requires}"),
            (None, Some(reason)) => write!(f, "{reason}"),
            (None, None) => f.write_str("every file may match"),
        }
    }
}
