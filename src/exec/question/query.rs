//! The compiled form of a search: pattern, case, context and the limits for each file.
//!
//! A [`Query`] is complete: all defaults are filled in and the case mode is decided. So all engines
//! search for the same thing.

use std::ops::Deref;

use regex_syntax::ast::{self, Ast};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exec::matching::fuzzy::Threshold;
use crate::exec::matching::pattern::{Pattern, PatternError};
use crate::exec::sources::eligible::EligibleFile;
use crate::format::choices::choices;
use crate::index::plan::{Strategy, SupersetSafe};
use crate::index::root_dir::{EntryMeta, FileIdentity};

/// How letters compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Letters are distinct by case.
    Sensitive,
    /// `A`–`Z` equal `a`–`z`; nothing else folds.
    AsciiInsensitive,
    /// Letters that Unicode's simple case folding maps to the same letter are equal.
    UnicodeInsensitive,
}

/// The letters that are equal when case does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseRule {
    /// The letters of ASCII, for the tools.
    #[default]
    Ascii,
    /// The letters that Unicode's simple case folding maps to the same letter, for people. ripgrep
    /// does the same.
    Unicode,
}

choices! {
    /// Whether letters match case-sensitively (`case`).
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    Case {
        /// Case-sensitive if the pattern has an ASCII uppercase letter, else case-insensitive.
        #[default]
        Smart = "smart",
        /// Case always matters.
        Sensitive = "sensitive",
        /// ASCII letters match in either case.
        Insensitive = "insensitive",
    }
}

impl Case {
    /// Decides the fold for a pattern under [`CaseRule::Ascii`]. Any `A`–`Z` in the text makes it
    /// sensitive, also in classes and escapes.
    #[doc(hidden)]
    pub fn fold(self, pattern: &str) -> Fold {
        match self {
            Case::Sensitive => Fold::Sensitive,
            Case::Insensitive => Fold::AsciiInsensitive,
            Case::Smart if pattern.bytes().any(|b| b.is_ascii_uppercase()) => Fold::Sensitive,
            Case::Smart => Fold::AsciiInsensitive,
        }
    }

    /// Decides the fold for several patterns together. Under [`CaseRule::Unicode`] the decision is
    /// ripgrep's: only uppercase letters that are literals count, and patterns without any literal
    /// are sensitive.
    #[doc(hidden)]
    pub fn fold_of(self, patterns: &[String], fixed_strings: bool, rule: CaseRule) -> Fold {
        if rule == CaseRule::Ascii {
            let folds = patterns.iter().map(|pattern| self.fold(pattern));
            let is_sensitive = |fold: Fold| fold == Fold::Sensitive;
            return match folds.into_iter().any(is_sensitive) {
                true => Fold::Sensitive,
                false => self.fold(""),
            };
        }
        match self {
            Case::Sensitive => Fold::Sensitive,
            Case::Insensitive => Fold::UnicodeInsensitive,
            Case::Smart => {
                let mut seen = Literals::default();
                for pattern in patterns {
                    seen.look_at(pattern, fixed_strings);
                }
                match seen.any && !seen.uppercase {
                    true => Fold::UnicodeInsensitive,
                    false => Fold::Sensitive,
                }
            }
        }
    }
}

/// The literal characters of patterns: whether there are any, and any uppercase ones.
#[derive(Debug, Default)]
struct Literals {
    any: bool,
    uppercase: bool,
}

impl Literals {
    fn look_at(&mut self, pattern: &str, fixed: bool) {
        if fixed {
            pattern.chars().for_each(|c| self.add(c));
        } else if let Ok(ast) = ast::parse::Parser::new().parse(pattern) {
            // The compilation of the pattern reports an expression that does not parse.
            let _ = ast::visit(&ast, self);
        }
    }

    fn add(&mut self, c: char) {
        self.any = true;
        self.uppercase |= c.is_uppercase();
    }
}

impl ast::Visitor for &mut Literals {
    type Output = ();
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::Literal(literal) = ast {
            self.add(literal.c);
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ast::ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ast::ClassSetItem::Literal(literal) => self.add(literal.c),
            ast::ClassSetItem::Range(range) => {
                self.add(range.start.c);
                self.add(range.end.c);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The permitted difference between a match and the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fuzziness {
    /// At most this many edits, 1–4.
    Edits(u8),
    /// Any number of edits, as long as the match is similar enough.
    Score(Threshold),
}

impl Fuzziness {
    /// Returns the most edits that a match can have, for a pattern of `chars` characters. `None` if
    /// there is no such number.
    pub fn max_edits(self, chars: usize) -> Option<u32> {
        match self {
            Fuzziness::Edits(level) => Some(level.into()),
            Fuzziness::Score(threshold) => threshold.max_edits(chars),
        }
    }

    /// Returns the number of edits if this is [`Fuzziness::Edits`].
    pub fn level(self) -> Option<u8> {
        match self {
            Fuzziness::Edits(level) => Some(level),
            Fuzziness::Score(_) => None,
        }
    }
}

/// The kind of results that are reported for a file, which is also the unit of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Report {
    /// Matching lines and the lines around them. A limit counts lines.
    #[default]
    Lines,
    /// The same lines with all their matches. A limit counts matches.
    Matches,
    /// The number of matching lines, without the lines. A limit counts files.
    Counts,
    /// Whether a line matches. A limit counts files.
    Presence,
}

/// The matches that are looked for in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spans {
    /// The first match.
    #[default]
    First,
    /// Each match that is not empty. If all are empty, the first of them.
    Each,
    /// Each match, also empty ones, as in ripgrep's JSON.
    Every,
}

/// The rule for which files count as binary, and how they are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinaryRule {
    /// With a NUL byte among its first 65,536 bytes, a file is skipped. With a later one, the
    /// search ends before the line of that byte. Both are reported if a line that is not shown
    /// matches.
    #[default]
    UntilNul,
    /// With a NUL byte or invalid UTF-8 anywhere, a file is skipped (the tool `search_files`). That
    /// is reported if a line matches that `UntilNul` shows or reports.
    SkipNonText,
    /// ripgrep's rule, which depends on the blocks that it reads (`--rg-json`). A file that a walk
    /// found is searched up to the block with the first NUL byte, and a named file to its end.
    AsRipgrep {
        /// Whether ripgrep would map named files into memory. Then NUL bytes don't end lines in
        /// them.
        maps: bool,
    },
}

impl BinaryRule {
    /// Returns whether files are searched under ripgrep's rule.
    pub fn is_ripgreps(self) -> bool {
        matches!(self, BinaryRule::AsRipgrep { .. })
    }
}

/// A validated query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The compiled pattern.
    pub pattern: Pattern,
    options: QueryOptions,
}

impl Deref for Query {
    type Target = QueryOptions;

    fn deref(&self) -> &QueryOptions {
        &self.options
    }
}

/// The options of a [`Query`].
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions {
    /// Whether the pattern is a literal, not an expression.
    pub fixed_strings: bool,
    /// Whether matches must stand between word boundaries.
    pub word: bool,
    /// Whether matches must be whole lines.
    pub whole_line: bool,
    /// When upper and lower case differ.
    pub case: Case,
    /// The letters that are equal when case does not count.
    pub case_rule: CaseRule,
    /// The permitted difference between a match and the pattern. `None` for exact matches.
    pub fuzzy: Option<Fuzziness>,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// The kind of results that are reported for a file.
    pub report: Report,
    /// The matches that are looked for in a line.
    pub spans: Spans,
    /// Whether [`Line::place`](crate::exec::answer::outcome::Line) is filled in.
    pub places: bool,
    /// Whether the lines of a large file may come in several parts. Searches under ripgrep's rule
    /// for binary files report each file at once.
    pub in_parts: bool,
    /// Whether a matching line beyond `max_matches_per_file` is shown where it is context of an
    /// earlier one.
    pub matching_context: bool,
    /// The rule for binary files.
    pub binary: BinaryRule,
    /// The file that the answer is written to. It is not searched, unless the request names it.
    pub own_output: Option<FileIdentity>,
    /// The most results of the whole answer.
    pub max_results: usize,
    /// The most matches of a file: lines, or single matches under [`Report::Matches`]. After them
    /// the search leaves the file. A query has at least 1.
    pub max_matches_per_file: u64,
    /// The largest file that is searched, in bytes.
    pub max_file_size: u64,
}

impl Default for QueryOptions {
    /// Returns the options for lines that match an expression, without limits.
    fn default() -> QueryOptions {
        QueryOptions {
            fixed_strings: false,
            word: false,
            whole_line: false,
            case: Case::Smart,
            case_rule: CaseRule::Ascii,
            fuzzy: None,
            before: 0,
            after: 0,
            report: Report::Lines,
            spans: Spans::First,
            places: false,
            in_parts: false,
            matching_context: false,
            binary: BinaryRule::UntilNul,
            own_output: None,
            max_results: usize::MAX,
            max_matches_per_file: u64::MAX,
            max_file_size: u64::MAX,
        }
    }
}

impl Query {
    /// Returns the most results of one file that can matter: one more than the answer holds.
    pub fn max_results_per_file(&self) -> usize {
        self.max_results.saturating_add(1)
    }

    /// Returns whether a file is skipped although it is eligible, because the answer is written to
    /// it.
    pub(crate) fn leaves_out(&self, file: &EligibleFile, meta: &EntryMeta) -> bool {
        self.own_output.is_some() && self.own_output == meta.identity && !file.is_named
    }

    /// Returns the plan that says which files an index can exclude.
    pub(crate) fn superset(&self, strategy: Strategy) -> SupersetSafe {
        let hir = self.pattern.hir();
        let fold = self.pattern.fold() != Fold::Sensitive;
        match self.fuzzy {
            None => SupersetSafe::for_expression(hir, fold, strategy),
            Some(fuzziness) => {
                let chars = self.pattern.original().chars().count();
                let edits = fuzziness.max_edits(chars).unwrap_or(u32::MAX);
                SupersetSafe::nearly(hir, fold, strategy, edits)
            }
        }
    }

    /// Returns the reason why no index can exclude a file, with any strategy.
    #[cfg(feature = "cli")]
    pub(crate) fn keeps_everything(&self) -> Option<String> {
        let plan = self.superset(Strategy::Boolean);
        plan.reason().map(|reason| reason.to_string())
    }

    /// Compiles patterns under `options`. A line matches if it matches one of them.
    ///
    /// # Errors
    ///
    /// [`PatternError`], with a message that says how to change the pattern.
    pub fn new(
        patterns: &[impl AsRef<str>],
        options: &QueryOptions,
    ) -> Result<Query, PatternError> {
        let texts: Vec<String> = patterns
            .iter()
            .map(|one| one.as_ref().to_string())
            .collect();
        Ok(Query {
            pattern: Pattern::of(&texts, options)?,
            options: QueryOptions {
                max_matches_per_file: options.max_matches_per_file.max(1),
                ..*options
            },
        })
    }

    /// Returns true if a carriage return before a line's end could change the matches, so that it
    /// has to be removed before matching. In an approximate search an edit can stand for any
    /// character, also for that one.
    pub fn sees_carriage_return(&self) -> bool {
        self.fuzzy.is_some() || self.pattern.sees_carriage_return()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smart_case_looks_for_ascii_uppercase_only() {
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
            assert_eq!(Case::Smart.fold(pattern), fold, "{pattern}");
        }
        assert_eq!(Case::Sensitive.fold("x"), Fold::Sensitive);
        assert_eq!(Case::Insensitive.fold("X"), Fold::AsciiInsensitive);
    }
}
