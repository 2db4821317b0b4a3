//! What is searched for, after validation: pattern, case, context and the limits per file.
//!
//! A [`Query`] is complete: every default is filled in and the case mode is decided, so that every
//! engine searches for the same thing (FR-LS-SRC-04).

use crate::exec::event::FileOutcome;
use crate::exec::fuzzy::Threshold;
use crate::exec::pattern::{Pattern, PatternError};

/// How letters compare. Folding is ASCII only, in every engine (FR-LS-SRC-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Letters are distinct by case.
    Sensitive,
    /// `A`–`Z` equal `a`–`z`; nothing else folds.
    AsciiInsensitive,
}

/// The `case` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseMode {
    /// Sensitive if and only if the pattern text holds an ASCII uppercase letter anywhere.
    Smart,
    /// Always sensitive.
    Sensitive,
    /// Always insensitive.
    Insensitive,
}

impl CaseMode {
    /// Decides the fold for a pattern. Any `A`–`Z` in the text counts, in classes and escapes too
    /// (FR-LS-SRC-04 as written).
    pub fn fold(self, pattern: &str) -> Fold {
        match self {
            CaseMode::Sensitive => Fold::Sensitive,
            CaseMode::Insensitive => Fold::AsciiInsensitive,
            CaseMode::Smart if pattern.bytes().any(|b| b.is_ascii_uppercase()) => Fold::Sensitive,
            CaseMode::Smart => Fold::AsciiInsensitive,
        }
    }
}

/// A validated query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The compiled pattern.
    pub pattern: Pattern,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// Matching lines after which a file is left (FR-LS-SRC-10), at least 1.
    pub max_matches_per_file: u64,
    /// Larger files are not searched (FR-LS-SRC-08): see [`Reports`].
    pub max_file_size: u64,
    /// Events of one file that can matter: one more than the response holds (FR-LS-06a).
    pub max_events_per_file: usize,
    /// How far a match may be from what the pattern matches; nothing for matches as they are.
    pub fuzzy: Option<Fuzziness>,
    /// What is reported of a file.
    pub reports: Reports,
}

/// How far a match may be from what the pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuzziness {
    /// So many edits at most, 1–4 (FR-LS-SRC-11).
    Edits(u8),
    /// As many as leave it similar enough.
    Score(Threshold),
}

impl Fuzziness {
    /// Returns the most edits that a match of a pattern with so many characters can have; `None` if there is no such number.
    pub fn max_edits(self, chars: usize) -> Option<u32> {
        match self {
            Fuzziness::Edits(level) => Some(level.into()),
            Fuzziness::Score(threshold) => threshold.max_edits(chars),
        }
    }
}

/// What is reported of a file, and what becomes of those that can't be searched as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reports {
    /// Each line that matches, with its first match, and the lines around it, each once; limits count lines. A file that is too large is
    /// passed over, and binary data end what is searched of a file (the tool `Search`).
    #[default]
    Lines,
    /// Each match, and the lines around it; limits count matches. A file that is too large is an error, and one that is no UTF-8 or holds a
    /// NUL byte anywhere is passed over (the tool `search_files`).
    Matches,
}

/// The options from which a [`Query`] is made.
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions {
    /// The pattern is a literal, not an expression.
    pub fixed_strings: bool,
    /// The pattern must stand between word boundaries.
    pub word: bool,
    /// How letters compare.
    pub case: CaseMode,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// Events of the whole response.
    pub max_results: usize,
    /// Matching lines of one file.
    pub max_matches_per_file: u64,
    /// Largest file in bytes.
    pub max_file_size: u64,
    /// How far a match may be from what the pattern matches.
    pub fuzzy: Option<Fuzziness>,
    /// What is reported of a file.
    pub reports: Reports,
}

impl Query {
    /// Compiles `pattern` under `options`.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with the pattern and what to write instead.
    pub fn new(pattern: &str, options: &QueryOptions) -> Result<Query, PatternError> {
        let fold = options.case.fold(pattern);
        Ok(Query {
            pattern: Pattern::compile(pattern, options.fixed_strings, fold, options.word)?,
            before: options.before,
            after: options.after,
            max_matches_per_file: options.max_matches_per_file.max(1),
            max_file_size: options.max_file_size,
            max_events_per_file: options.max_results.saturating_add(1),
            fuzzy: options.fuzzy,
            reports: options.reports,
        })
    }

    /// Returns the outcome of a file that is larger than `max_file_size`.
    pub(crate) fn too_large(&self) -> FileOutcome {
        match self.reports {
            Reports::Lines => FileOutcome::nothing(),
            Reports::Matches => FileOutcome::failed(format!(
                "larger than max_file_size_bytes = {}, and not searched",
                self.max_file_size
            )),
        }
    }

    /// Returns true when a carriage return before a line's end could change what matches, so that it has to be taken away before
    /// matching. An edit can stand for any character.
    pub fn sees_carriage_return(&self) -> bool {
        self.fuzzy.is_some() || self.pattern.sees_carriage_return()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_ls_case_01_smart_case_looks_for_ascii_uppercase_only() {
        for (pattern, fold) in [
            ("foo", Fold::AsciiInsensitive),
            ("Foo", Fold::Sensitive),
            ("fooBar", Fold::Sensitive),
            (r"foo\W", Fold::Sensitive),
            ("été", Fold::AsciiInsensitive),
            ("Été", Fold::AsciiInsensitive),
            ("ÉtÉ42", Fold::AsciiInsensitive),
            ("Ñandu", Fold::AsciiInsensitive),
            ("ñandÚ Z", Fold::Sensitive),
        ] {
            assert_eq!(CaseMode::Smart.fold(pattern), fold, "{pattern}");
        }
        assert_eq!(CaseMode::Sensitive.fold("x"), Fold::Sensitive);
        assert_eq!(CaseMode::Insensitive.fold("X"), Fold::AsciiInsensitive);
    }
}
