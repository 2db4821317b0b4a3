//! One question about a tree: everything that a caller can ask of a search for lines or files. (A
//! *ranked* question is a text in words, for which [`rank`](crate::exec::rank) finds the best
//! places.)
//!
//! The tools `Search`, `search_files` and `find_files`, the command lines `forge-search PATTERN`
//! and `rg`, and the daemon all build a [`Question`]. The layers below do not know which of them
//! built it. [`query`] is the compiled form.

pub mod query;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exec::as_text;
use crate::exec::matching::pattern::PatternError;
use crate::exec::question::query::{
    BinaryRule, Case, CaseRule, Fuzziness, Query, QueryOptions, Report, Spans,
};
use crate::exec::sources::eligible::{GlobError, Globs};
use crate::exec::sources::types::{TypeError, TypeRule, file_types};

pub(crate) use crate::index::names::is_hidden;
pub use crate::index::root_dir::FileIdentity;
pub use crate::index::walk::{Follow, IgnoreRules, TraversalOptions};

/// A question about the files below one or more paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The patterns, and how they match.
    pub looked_for: PatternSpec,
    /// The files that are searched.
    pub files: FileChoice,
    /// The parts of the answer that are shown.
    pub shown: OutputSpec,
    /// The limits of the answer.
    pub limits: QuestionLimits,
    /// The approximate searches that follow if nothing matches.
    pub fallback: FallbackPlan,
}

/// Approximate searches that follow an exact one without a match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackPlan {
    /// The searches, in order. The first one that finds a match ends the series.
    pub attempts: Vec<Fuzziness>,
    /// Whether further searches are left out because the pattern is too short for them.
    pub too_short: bool,
}

/// The patterns of a question, and how they match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternSpec {
    /// The patterns: a line matches if it matches one of them. `None` lists files.
    pub patterns: Option<Vec<String>>,
    /// Whether the patterns are literals, not expressions.
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
}

/// The files that a question is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChoice {
    /// The searched paths, in order, for the sandbox to resolve. Empty for the working directory.
    #[serde(with = "as_text::paths")]
    pub paths: Vec<PathBuf>,
    /// The rules for which entries of a directory are visited.
    pub traversal: TraversalOptions,
    /// The most components of a file's path below a searched path, if there is a limit.
    pub max_depth: Option<usize>,
    /// Whether an answer without the deeper files counts as truncated. False where a person chose
    /// the depth.
    pub depth_cuts: bool,
    /// If not empty, only files that match one of these globs are searched (a tool's
    /// `include_glob`).
    pub include: Vec<String>,
    /// Files that match one of these globs are not searched (a tool's `exclude_glob`).
    pub exclude: Vec<String>,
    /// Globs of which the last one that matches decides (`-g`).
    pub globs: Vec<String>,
    /// Selected and excluded file types, in order (`-t` and `-T`).
    pub types: Vec<TypeRule>,
    /// The directory from which globs start, relative to the working directory. `None` for the
    /// searched path. With a directory, a path that names a file is exempt from globs.
    #[serde(with = "as_text::maybe_path")]
    pub globs_from: Option<PathBuf>,
    /// Whether each `.git` is skipped, unless a path names it.
    pub no_git_dirs: bool,
    /// The rule for binary files.
    pub binary: BinaryRule,
    /// The file that the answer is written to, as by `forge-search needle > found.txt`. It is not
    /// searched, unless a path names it.
    pub own_output: Option<FileIdentity>,
}

impl FileChoice {
    /// Creates the choice of all files below some paths, without filters or a limit of the depth.
    pub(crate) fn of(paths: Vec<PathBuf>, traversal: TraversalOptions) -> FileChoice {
        FileChoice {
            paths,
            traversal,
            max_depth: None,
            depth_cuts: false,
            include: Vec::new(),
            exclude: Vec::new(),
            globs: Vec::new(),
            types: Vec::new(),
            globs_from: None,
            no_git_dirs: false,
            binary: BinaryRule::UntilNul,
            own_output: None,
        }
    }
}

/// The parts of an answer that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// The kind of results that are reported for a file.
    pub report: Report,
    /// The matches that are looked for in a line.
    pub spans: Spans,
    /// Whether lines carry their positions in the file.
    pub places: bool,
    /// Whether the lines of a large file may come in several parts, so that an answer of any length
    /// takes little memory.
    pub in_parts: bool,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// Whether a matching line beyond `max_matches_per_file` is shown where it is context.
    pub matching_context: bool,
    /// The list of files that an index gives in place of results. No file is searched. Where no
    /// index decides, the answer says so and lists no files.
    pub by_index: IndexList,
}

/// A list of files that an index gives in place of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexList {
    /// No list: the answer has results.
    #[default]
    None,
    /// The files that the index can't rule out, by ripgrep's ignore rules.
    Candidates {
        /// Also the hidden files by ripgrep's ignore rules, which are not in the index. An entry
        /// named `.git` stands for the files below it. Only a watched index has this list.
        hidden: bool,
        /// Also the other files, except texts: those that a search reads as they are, without a
        /// byte-order mark and without a NUL byte. The number of texts is that of the skipped
        /// files. The sum of their sizes is in lists of one file without a path. A text with a
        /// hidden name in its path is listed.
        counted: bool,
    },
    /// The files that the index rules out, under its own ignore rules and options.
    RuledOut,
    /// The texts that the index rules out, with their sizes.
    RuledOutTexts,
}

impl IndexList {
    /// Returns true if the list has the files that the index can't rule out.
    pub fn is_of_candidates(self) -> bool {
        matches!(self, IndexList::Candidates { .. })
    }

    /// Returns true if the list has hidden files that are not in the index.
    pub(crate) fn has_hidden(self) -> bool {
        matches!(self, IndexList::Candidates { hidden: true, .. })
    }

    /// Returns true if the list depends on the content of files that the index rules out.
    pub(crate) fn needs_texts(self) -> bool {
        matches!(
            self,
            IndexList::Candidates { counted: true, .. } | IndexList::RuledOutTexts
        )
    }

    /// Returns true if files that the index rules out are listed or counted one by one.
    pub(crate) fn looks_at_all(self) -> bool {
        self.is_ruled_out() || self.needs_texts()
    }

    /// Returns true if the list has the files that the index rules out.
    pub fn is_ruled_out(self) -> bool {
        matches!(self, IndexList::RuledOut | IndexList::RuledOutTexts)
    }
}

/// The limits of an answer. `u64::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionLimits {
    /// The most results of the answer, in the unit of [`Report`].
    pub max_results: u64,
    /// The most matches of one file.
    pub max_matches_per_file: u64,
    /// The most files that are searched.
    pub max_files: u64,
    /// The largest file that is searched, in bytes.
    pub max_file_size: u64,
}

impl QuestionLimits {
    /// Limits that permit everything.
    pub const NONE: QuestionLimits = QuestionLimits {
        max_results: u64::MAX,
        max_matches_per_file: u64::MAX,
        max_files: u64::MAX,
        max_file_size: u64::MAX,
    };
}

/// Why a question is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// A pattern is invalid or not supported.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// A glob is invalid.
    #[error("{0}")]
    Glob(#[from] GlobError),
    /// A file type does not exist.
    #[error("{0}")]
    Type(#[from] TypeError),
}

impl Question {
    /// Compiles the query with the given fuzziness, which may differ from the question's own.
    ///
    /// # Errors
    ///
    /// [`QuestionError::Pattern`] if a pattern is refused.
    pub fn query(&self, fuzzy: Option<Fuzziness>) -> Result<Query, QuestionError> {
        let (looked_for, shown, limits) = (&self.looked_for, &self.shown, &self.limits);
        let options = QueryOptions {
            fixed_strings: looked_for.fixed_strings,
            word: looked_for.word,
            whole_line: looked_for.whole_line,
            case: looked_for.case,
            case_rule: looked_for.case_rule,
            fuzzy,
            before: shown.before,
            after: shown.after,
            report: shown.report,
            spans: shown.spans,
            places: shown.places,
            in_parts: shown.in_parts,
            matching_context: shown.matching_context,
            binary: self.files.binary,
            own_output: self.files.own_output,
            max_results: usize::try_from(limits.max_results).unwrap_or(usize::MAX),
            max_matches_per_file: limits.max_matches_per_file,
            max_file_size: limits.max_file_size,
        };
        let every_line = [String::new()];
        let patterns = looked_for.patterns.as_deref().unwrap_or(&every_line);
        Ok(Query::new(patterns, &options)?)
    }

    /// Compiles the path filters: globs and file types.
    ///
    /// # Errors
    ///
    /// [`QuestionError::Glob`] for an invalid glob, and [`QuestionError::Type`] for an unknown file
    /// type.
    pub fn filters(&self) -> Result<Globs, QuestionError> {
        let FileChoice {
            include,
            exclude,
            globs,
            types,
            no_git_dirs,
            ..
        } = &self.files;
        let mut filters = Globs::new(include, exclude)?.and_ordered(globs)?;
        if *no_git_dirs {
            filters = filters.and_no_git_dirs();
        }
        if types.is_empty() {
            return Ok(filters);
        }
        Ok(filters.and_types(file_types(types)?, &format!("{types:?}")))
    }

    /// Checks the question by compiling all of its parts.
    ///
    /// # Errors
    ///
    /// The error of [`Question::query`] or [`Question::filters`].
    pub fn check(&self) -> Result<(), QuestionError> {
        self.query(self.looked_for.fuzzy)?;
        self.filters()?;
        Ok(())
    }

    /// Returns the same question for a parent of the working directory. `below` is the path from
    /// that parent to the working directory of this question.
    #[must_use]
    pub fn from_above(mut self, below: &Path) -> Question {
        if self.files.paths.is_empty() {
            self.files.paths.push(PathBuf::new());
        }
        for path in self
            .files
            .paths
            .iter_mut()
            .chain(&mut self.files.globs_from)
        {
            // Joining an absolute path returns that path.
            *path = below.join(&*path).components().collect();
        }
        self
    }

    /// Returns true if a path filter may leave out files.
    pub fn has_filters(&self) -> bool {
        let files = &self.files;
        let globs = [&files.include, &files.exclude, &files.globs];
        globs.iter().any(|globs| !globs.is_empty()) || !files.types.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::walk::{Follow, IgnoreRules};

    #[test]
    fn a_question_is_the_same_from_a_directory_above() {
        let asked = |paths: &[&str], globs_from: Option<&str>| Question {
            looked_for: PatternSpec::default(),
            files: FileChoice {
                globs_from: globs_from.map(PathBuf::from),
                ..FileChoice::of(
                    paths.iter().map(PathBuf::from).collect(),
                    TraversalOptions {
                        hidden: false,
                        follow: Follow::Never,
                        rules: IgnoreRules::All,
                        recursive: true,
                    },
                )
            },
            shown: OutputSpec::default(),
            limits: QuestionLimits::NONE,
            fallback: FallbackPlan::default(),
        };
        for (paths, above) in [
            (&[][..], &["a/b"][..]),
            (&["."], &["a/b"]),
            (&["c/d", "./e", "/f"], &["a/b/c/d", "a/b/e", "/f"]),
        ] {
            let moved = asked(paths, Some("")).from_above(Path::new("a/b"));
            assert_eq!(moved, asked(above, Some("a/b")), "{paths:?}");
            let moved = asked(paths, None).from_above(Path::new("a/b"));
            assert_eq!(moved, asked(above, None), "{paths:?}");
        }
    }
}
