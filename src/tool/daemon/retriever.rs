//! From a question to candidates.
//!
//! Owns the seam at which a further way to find candidates would be added: everything that follows, ranking, quotas and writing, knows
//! candidates only.

use std::path::Path;
use std::sync::Arc;

use rayon::ThreadPool;

use super::answer::{inside, internal, invalid};
use super::reply::Failure;
use crate::exec::collect::Limits;
use crate::exec::eligible::{FileSource, Globs};
use crate::exec::query::Reports;
use crate::exec::retrieve::{Retrieval, Retrieved, retrieve};
use crate::exec::schedule::RunError;
use crate::exec::stop::{CancelHandle, Deadline, StopReason};
use crate::index::beneath::EntryKind;
use crate::index::snapshot::Snapshot;
use crate::index::walk::TraversalOptions;
use crate::tool::indexing::Question;
use crate::tool::response::IndexUse;
use crate::tool::searcher::{Searcher, Work};

/// What a retriever has found.
pub(super) struct Hits {
    /// Candidates, and numbers about all files.
    pub(super) retrieved: Retrieved,
    /// What an index had to do with it.
    pub(super) index: IndexUse,
    /// The snapshot that says how each file is, if one does.
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

/// A way from a question to candidates.
pub(super) trait Retriever {
    /// Returns what it compares: `lexical` or `dense`.
    fn kind(&self) -> &'static str;

    /// Returns how.
    fn method(&self) -> &'static str;

    /// Finds candidates. Once `options.stop` is raised, what is returned is not all there is.
    ///
    /// # Errors
    ///
    /// `invalid_request` where the path can't be searched, `internal` where nothing can.
    fn retrieve(&self, question: &Question, options: &Retrieval<'_>) -> Result<Hits, Failure>;
}

/// Looks for words.
pub(super) struct Lexical<'a> {
    pub(super) searcher: &'a Searcher,
    /// The canonical root.
    pub(super) root: &'a Path,
    /// The threads that read and compare.
    pub(super) pool: &'a ThreadPool,
    pub(super) deadline: Deadline,
    pub(super) cancel: &'a CancelHandle,
}

/// Reads and counts.
struct Retrieving<'a> {
    options: Retrieval<'a>,
    pool: &'a ThreadPool,
}

impl Work for Retrieving<'_> {
    type Found = Retrieved;

    fn through<S: FileSource>(&self, source: S) -> Result<Retrieved, RunError> {
        Ok(self.pool.install(|| retrieve(&source, &self.options)))
    }

    fn without_time(&self) -> Retrieved {
        self.options.stop.raise(StopReason::TimedOut);
        Retrieved::default()
    }
}

impl Retriever for Lexical<'_> {
    fn kind(&self) -> &'static str {
        "lexical"
    }

    fn method(&self) -> &'static str {
        "bm25f"
    }

    fn retrieve(&self, question: &Question, options: &Retrieval<'_>) -> Result<Hits, Failure> {
        let target = &question.target;
        let missing = |error: std::io::Error| invalid(format!("path can't be searched: {error}"));
        let meta = target.root.metadata(&target.relative).map_err(missing)?;
        let work = Retrieving {
            options: *options,
            pool: self.pool,
        };
        let limits = Limits {
            max_results: 1,
            max_files: u64::MAX,
            reports: Reports::Lines,
        };
        let run = self
            .searcher
            .options(limits, self.deadline.clone(), self.cancel);
        let (found, index, snapshot) = match meta.kind {
            EntryKind::Dir => self.searcher.over_dir(question, &run, &work),
            // One file: its directory, and of that this file.
            EntryKind::File => {
                let question = of_file(question, self.root)?;
                self.searcher.over_dir(&question, &run, &work)
            }
            EntryKind::Symlink | EntryKind::Other => {
                return Err(invalid("path is neither a file nor a directory"));
            }
        };
        let retrieved = match found {
            Ok(found) => found,
            Err(RunError::Cancelled) => {
                options.stop.raise(StopReason::Cancelled);
                Retrieved::default()
            }
            Err(RunError::NoWorkers(message)) => return Err(internal(message)),
        };
        Ok(Hits {
            retrieved,
            index,
            snapshot,
        })
    }
}

/// Asks for one file as its directory with a glob that only this file has.
fn of_file(question: &Question, root: &Path) -> Result<Question, Failure> {
    let unnamed = || invalid(format!("path is no file below {}", root.display()));
    let canonical = &question.target.canonical;
    let (dir, name) = canonical
        .parent()
        .zip(canonical.file_name().and_then(|name| name.to_str()))
        .ok_or_else(unnamed)?;
    let relative = inside(dir, root)?;
    let target = question
        .sandbox
        .resolve(Some(&relative))
        .map_err(|error| invalid(error.message()))?;
    let mut glob = String::from("/");
    for c in name.chars() {
        if !c.is_alphanumeric() {
            glob.push('\\');
        }
        glob.push(c);
    }
    let globs = Globs::new(&[glob], &[]).map_err(|error| invalid(error.to_string()))?;
    Ok(Question {
        target,
        globs: globs.within_depth(1),
        traversal: TraversalOptions {
            recursive: false,
            ..question.traversal
        },
        ..question.clone()
    })
}
