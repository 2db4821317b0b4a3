//! One question about a tree: everything that any surface can ask of a search.
//!
//! The tools `Search` and `search_files`, the command line and the daemon all make a [`Question`];
//! nothing below them knows which one it was.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exec::as_text;
use crate::exec::eligible::{GlobError, Globs};
use crate::exec::pattern::PatternError;
use crate::exec::query::{
    BinaryRule, CaseMode, CaseRule, Fuzziness, Query, QueryOptions, Report, Spans,
};
use crate::exec::types::{TypeError, TypeRule, file_types};

pub use crate::index::beneath::FileIdentity;
pub use crate::index::walk::{Follow, IgnoreRules, TraversalOptions};

/// A question about the files below one or more paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What is looked for.
    pub looked_for: LookedFor,
    /// Where it is looked for.
    pub scope: Scope,
    /// What is shown.
    pub shown: Shown,
    /// The limits of the answer.
    pub limits: QuestionLimits,
    /// The approximate searches that follow if nothing matches.
    pub fallback: FallbackPlan,
}

/// Approximate searches that follow an exact one without a match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FallbackPlan {
    /// The searches, in order; the first one that finds a match is the last.
    pub attempts: Vec<Fuzziness>,
    /// Further searches are left out because the pattern is too short for them (FR-LSI-FUZ-G-01).
    pub too_short: bool,
}

/// What a question looks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookedFor {
    /// The patterns: a line matches if it matches one of them. `None` lists files.
    pub patterns: Option<Vec<String>>,
    /// The patterns are literals, not expressions.
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
}

/// Where a question looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// The searched paths, in order, as a sandbox resolves them; the working directory if empty.
    #[serde(with = "as_text::paths")]
    pub paths: Vec<PathBuf>,
    /// Which entries of a directory are visited.
    pub traversal: TraversalOptions,
    /// The most components of a file's path below a searched path, if there is a limit.
    pub max_depth: Option<usize>,
    /// Whether an answer that lacks deeper files counts as cut. It does not where a person chose the
    /// depth.
    pub depth_cuts: bool,
    /// Only files that match one of these globs (a tool's `include_glob`).
    pub include: Vec<String>,
    /// No files that match one of these globs (a tool's `exclude_glob`).
    pub exclude: Vec<String>,
    /// Globs of which the last one that matches decides (`-g`).
    pub globs: Vec<String>,
    /// Types of files, in order (`-t` and `-T`).
    pub types: Vec<TypeRule>,
    /// The directory from which globs start, relative to the working directory; the searched path if
    /// absent. With one, a path that names a file is exempt from globs.
    #[serde(with = "as_text::maybe_path")]
    pub globs_from: Option<PathBuf>,
    /// Whether each `.git` is left out, unless a path names it.
    pub no_git_dirs: bool,
    /// Which files count as binary.
    pub binary: BinaryRule,
    /// The file that the answer is written to, as by `forge-search needle > found.txt`. It is not
    /// searched, unless a path names it.
    pub own_output: Option<FileIdentity>,
}

/// What of an answer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// What is reported of a file.
    pub report: Report,
    /// Which matches of a line are looked for.
    pub spans: Spans,
    /// Whether lines say where they stand in their file.
    pub places: bool,
    /// Context lines before each match.
    pub before: usize,
    /// Context lines after each match.
    pub after: usize,
    /// Whether a matching line beyond `max_matches_per_file` is shown where it is context.
    pub matching_context: bool,
}

/// The limits of an answer; `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionLimits {
    /// Results of the answer, in the unit of [`Report`].
    pub max_results: u64,
    /// Matches of one file.
    pub max_matches_per_file: u64,
    /// Files that are searched.
    pub max_files: u64,
    /// The largest file that is searched, in bytes.
    pub max_file_size: u64,
}

impl QuestionLimits {
    /// No limits.
    pub const NONE: QuestionLimits = QuestionLimits {
        max_results: u64::MAX,
        max_matches_per_file: u64::MAX,
        max_files: u64::MAX,
        max_file_size: u64::MAX,
    };
}

/// Why a question can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// A pattern is refused.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// A glob is refused.
    #[error("{0}")]
    Glob(#[from] GlobError),
    /// There is no such type of files.
    #[error("{0}")]
    Type(#[from] TypeError),
}

impl Question {
    /// Compiles the query, as exact as the question has it or with another fuzziness.
    ///
    /// # Errors
    ///
    /// [`QuestionError::Pattern`].
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
            matching_context: shown.matching_context,
            binary: self.scope.binary,
            own_output: self.scope.own_output,
            max_results: usize::try_from(limits.max_results).unwrap_or(usize::MAX),
            max_matches_per_file: limits.max_matches_per_file,
            max_file_size: limits.max_file_size,
        };
        let every_line = [String::new()];
        let patterns = looked_for.patterns.as_deref().unwrap_or(&every_line);
        Ok(Query::new(patterns, &options)?)
    }

    /// Compiles the filters by path.
    ///
    /// # Errors
    ///
    /// [`QuestionError::Glob`] and [`QuestionError::Type`].
    pub fn filters(&self) -> Result<Globs, QuestionError> {
        let Scope {
            include,
            exclude,
            globs,
            types,
            no_git_dirs,
            ..
        } = &self.scope;
        let mut filters = Globs::new(include, exclude)?.and_ordered(globs)?;
        if *no_git_dirs {
            filters = filters.and_no_git_dirs();
        }
        if types.is_empty() {
            return Ok(filters);
        }
        Ok(filters.and_types(file_types(types)?, &format!("{types:?}")))
    }

    /// Compiles everything, for what is wrong with it.
    ///
    /// # Errors
    ///
    /// Those of [`Question::query`] and [`Question::filters`].
    pub fn check(&self) -> Result<(), QuestionError> {
        self.query(self.looked_for.fuzzy)?;
        self.filters()?;
        Ok(())
    }

    /// Returns the same question for a working directory above, from which `below` leads to the one
    /// of this question.
    #[must_use]
    pub fn from_above(mut self, below: &Path) -> Question {
        if self.scope.paths.is_empty() {
            self.scope.paths.push(PathBuf::new());
        }
        for path in self
            .scope
            .paths
            .iter_mut()
            .chain(&mut self.scope.globs_from)
        {
            // Joining an absolute path leaves that alone.
            *path = below.join(&*path).components().collect();
        }
        self
    }

    /// Returns true if a filter by path may leave out files.
    pub fn has_filters(&self) -> bool {
        let scope = &self.scope;
        let globs = [&scope.include, &scope.exclude, &scope.globs];
        globs.iter().any(|globs| !globs.is_empty()) || !scope.types.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::walk::{Follow, IgnoreRules};

    #[test]
    fn a_question_is_the_same_from_a_directory_above() {
        let asked = |paths: &[&str], globs_from: Option<&str>| Question {
            looked_for: LookedFor::default(),
            scope: Scope {
                paths: paths.iter().map(PathBuf::from).collect(),
                traversal: TraversalOptions {
                    hidden: false,
                    follow: Follow::Never,
                    rules: IgnoreRules::All,
                    recursive: true,
                },
                max_depth: None,
                depth_cuts: false,
                include: Vec::new(),
                exclude: Vec::new(),
                globs: Vec::new(),
                types: Vec::new(),
                globs_from: globs_from.map(PathBuf::from),
                no_git_dirs: false,
                binary: BinaryRule::UntilNul,
                own_output: None,
            },
            shown: Shown::default(),
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
