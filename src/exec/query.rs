//! The compiled form of a search: pattern, case, context and the limits that hold for each file.
//!
//! A [`Query`] is complete: every default is filled in and the case mode is decided, so that all
//! engines search for the same thing (FR-LS-SRC-04).

use regex_syntax::ast::{self, Ast};
use serde::{Deserialize, Serialize};

use crate::exec::eligible::EligibleFile;
use crate::exec::fuzzy::Threshold;
use crate::exec::pattern::{Pattern, PatternError, PatternOptions};
use crate::index::beneath::{EntryMeta, FileIdentity};

/// How letters compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Letters are distinct by case.
    Sensitive,
    /// `A`–`Z` equal `a`–`z`; nothing else folds (FR-LS-SRC-04).
    AsciiInsensitive,
    /// Letters that Unicode's simple case folding maps to the same letter are equal.
    UnicodeInsensitive,
}

/// Which letters are equal where case does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseRule {
    /// Those of ASCII, for the tools (FR-LS-SRC-04).
    #[default]
    Ascii,
    /// Those of Unicode's simple case folding, as in ripgrep, for people.
    Unicode,
}

/// The `case` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseMode {
    /// Sensitive if the pattern has an uppercase letter; the [`CaseRule`] says which count.
    #[default]
    Smart,
    /// Always sensitive.
    Sensitive,
    /// Always insensitive.
    Insensitive,
}

impl CaseMode {
    /// Decides the fold for a pattern under [`CaseRule::Ascii`]. Any `A`–`Z` in the text counts, in
    /// classes and escapes too (FR-LS-SRC-04 as written).
    pub fn fold(self, pattern: &str) -> Fold {
        match self {
            CaseMode::Sensitive => Fold::Sensitive,
            CaseMode::Insensitive => Fold::AsciiInsensitive,
            CaseMode::Smart if pattern.bytes().any(|b| b.is_ascii_uppercase()) => Fold::Sensitive,
            CaseMode::Smart => Fold::AsciiInsensitive,
        }
    }

    /// Decides the fold for several patterns together. Under [`CaseRule::Unicode`] it is ripgrep's
    /// decision: an uppercase letter counts where it stands for itself, and a pattern without any
    /// literal is sensitive.
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
            CaseMode::Sensitive => Fold::Sensitive,
            CaseMode::Insensitive => Fold::UnicodeInsensitive,
            CaseMode::Smart => {
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

/// The characters of patterns that stand for themselves.
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
            // An expression that does not parse is refused elsewhere.
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

/// How far a match may be from the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fuzziness {
    /// At most so many edits, 1–4 (FR-LS-SRC-11).
    Edits(u8),
    /// As many edits as leave the match similar enough.
    Score(Threshold),
}

impl Fuzziness {
    /// Returns the most edits that a match of a pattern with so many characters can have; `None`
    /// if there is no such number.
    pub fn max_edits(self, chars: usize) -> Option<u32> {
        match self {
            Fuzziness::Edits(level) => Some(level.into()),
            Fuzziness::Score(threshold) => threshold.max_edits(chars),
        }
    }

    /// Returns the level, if it is one.
    pub fn level(self) -> Option<u8> {
        match self {
            Fuzziness::Edits(level) => Some(level),
            Fuzziness::Score(_) => None,
        }
    }
}

/// What is reported of a file, and what a limit of results counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Report {
    /// Matching lines and the lines around them. A limit counts lines.
    #[default]
    Lines,
    /// The same lines with all their matches. A limit counts matches.
    Matches,
    /// How many lines match, and no line. A limit counts files.
    Counts,
    /// Whether a line matches. A limit counts files.
    Presence,
}

/// Which matches of a line are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spans {
    /// The first.
    #[default]
    First,
    /// Each that is not empty; if all are empty, the first of them.
    Each,
    /// Each, empty ones included, as ripgrep's JSON has them.
    Every,
}

/// Which files count as binary, and what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinaryRule {
    /// A NUL byte among the first 65,536 bytes: the file is skipped. A later one: the search ends
    /// before its line. Both are reported where a line that is not shown matches.
    #[default]
    UntilNul,
    /// A NUL byte or invalid UTF-8 anywhere: the file is skipped (the tool `search_files`). That is
    /// reported where a line matches that the rule `UntilNul` shows or reports.
    SkipNonText,
    /// ripgrep's rule, which depends on the blocks that it reads: a file that a walk found is
    /// searched up to the block with the first NUL byte, and a named file to its end (`--rg-json`).
    AsRipgrep {
        /// Whether ripgrep would map named files, in which NUL bytes then end no lines.
        maps: bool,
    },
}

impl BinaryRule {
    /// Returns whether files are searched as ripgrep searches them.
    pub fn is_ripgreps(self) -> bool {
        matches!(self, BinaryRule::AsRipgrep { .. })
    }
}

/// A validated query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The compiled pattern.
    pub pattern: Pattern,
    /// How far a match may be from the pattern; `None` for exact matches.
    pub fuzzy: Option<Fuzziness>,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// What is reported of a file.
    pub report: Report,
    /// Which matches of a line are looked for.
    pub spans: Spans,
    /// Whether [`Line::place`](crate::exec::event::Line) is filled in.
    pub places: bool,
    /// Whether a matching line beyond `max_matches_per_file` is shown where it is context of an
    /// earlier one.
    pub matching_context: bool,
    /// Which files count as binary.
    pub binary: BinaryRule,
    /// The file that the answer is written to. It is not searched, unless the request names it.
    pub own_output: Option<FileIdentity>,
    /// Matches after which a file is left (FR-LS-SRC-10), at least 1: lines, or single matches
    /// under [`Report::Matches`].
    pub max_matches_per_file: u64,
    /// Larger files, in bytes, are not searched (FR-LS-SRC-08).
    pub max_file_size: u64,
    /// Results of one file that can matter: one more than the answer holds (FR-LS-06a).
    pub max_results_per_file: usize,
}

/// The options from which a [`Query`] is made.
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions {
    /// The pattern is a literal, not an expression.
    pub fixed_strings: bool,
    /// Matches must stand between word boundaries.
    pub word: bool,
    /// Matches must be whole lines.
    pub whole_line: bool,
    /// When case counts.
    pub case: CaseMode,
    /// Which letters are equal where it does not.
    pub case_rule: CaseRule,
    /// How far a match may be from the pattern.
    pub fuzzy: Option<Fuzziness>,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// What is reported of a file.
    pub report: Report,
    /// Which matches of a line are looked for.
    pub spans: Spans,
    /// Whether the places of lines are wanted.
    pub places: bool,
    /// See [`Query::matching_context`].
    pub matching_context: bool,
    /// Which files count as binary.
    pub binary: BinaryRule,
    /// See [`Query::own_output`].
    pub own_output: Option<FileIdentity>,
    /// Results of the whole answer.
    pub max_results: usize,
    /// Matches of one file.
    pub max_matches_per_file: u64,
    /// Largest file in bytes.
    pub max_file_size: u64,
}

impl Default for QueryOptions {
    /// Lines that match an expression, without limits.
    fn default() -> QueryOptions {
        QueryOptions {
            fixed_strings: false,
            word: false,
            whole_line: false,
            case: CaseMode::Smart,
            case_rule: CaseRule::Ascii,
            fuzzy: None,
            before: 0,
            after: 0,
            report: Report::Lines,
            spans: Spans::First,
            places: false,
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
    /// Returns whether a file is left out although it is eligible: the answer is written to it.
    pub(crate) fn leaves_out(&self, file: &EligibleFile, meta: &EntryMeta) -> bool {
        self.own_output.is_some() && self.own_output == meta.identity && !file.is_named
    }

    /// Compiles patterns under `options`; a line matches if it matches one of them.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with the pattern and what to write instead.
    pub fn new(
        patterns: &[impl AsRef<str>],
        options: &QueryOptions,
    ) -> Result<Query, PatternError> {
        let texts: Vec<String> = patterns
            .iter()
            .map(|one| one.as_ref().to_string())
            .collect();
        let read = PatternOptions {
            fixed_strings: options.fixed_strings,
            word: options.word,
            whole_line: options.whole_line,
            case: options.case,
            case_rule: options.case_rule,
        };
        Ok(Query {
            pattern: Pattern::of(&texts, read)?,
            fuzzy: options.fuzzy,
            before: options.before,
            after: options.after,
            report: options.report,
            spans: options.spans,
            places: options.places,
            matching_context: options.matching_context,
            binary: options.binary,
            own_output: options.own_output,
            max_matches_per_file: options.max_matches_per_file.max(1),
            max_file_size: options.max_file_size,
            max_results_per_file: options.max_results.saturating_add(1),
        })
    }

    /// Returns true when a carriage return before a line's end could change what matches, so that
    /// it has to be taken away before matching. An edit can stand for any character.
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
