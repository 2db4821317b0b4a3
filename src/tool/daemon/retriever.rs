//! The interface of the stage "retrieve": from a ranked question to candidates, which are the files
//! that may answer it.
//!
//! This module also has the lexical retriever, which finds files by the words in them. The later
//! stages (ranking, selecting a share of each kind of file, writing) know candidates only.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rayon::ThreadPool;

use super::answer::{internal, invalid};
use super::reply::Failure;
use crate::exec::answer::collect::Limits;
use crate::exec::indexes::Snapshot;
use crate::exec::question::TraversalOptions;
use crate::exec::question::query::Report;
use crate::exec::retrieve::{Retrieval, Retrieved, retrieve};
use crate::exec::schedule::RunError;
use crate::exec::sources::eligible::{EligibleFile, FileSource, Globs, ListSource, PathUnit};
use crate::exec::sources::reach::{EntryKind, Resolved};
use crate::exec::stop::{CancelHandle, Deadline, StopReason};
use crate::tool::indexing::IndexRequest;
use crate::tool::response::IndexUse;
use crate::tool::searcher::Searcher;

/// The result of a retriever.
pub(super) struct Hits {
    /// Candidates, and statistics of all files.
    pub(super) retrieved: Retrieved,
    /// How an index contributed.
    pub(super) index: IndexUse,
    /// The snapshot that was searched, if one was.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// How long it took to pin the snapshot, or to find that there is none.
    pub(super) pinning: Duration,
}

/// Runs each retriever and joins the results. A file that several retrievers found is one
/// candidate. The statistics are those of the first retriever.
///
/// # Errors
///
/// The first failure of a retriever.
pub(super) fn retrieve_all(
    retrievers: &[&dyn Retriever],
    request: &IndexRequest,
    options: &Retrieval<'_>,
) -> Result<Hits, Failure> {
    let mut all = retrievers.iter().map(|one| one.retrieve(request, options));
    let mut hits = all
        .next()
        .unwrap_or_else(|| Err(internal("no retriever is configured")))?;
    for more in all {
        hits.retrieved.join(more?.retrieved, options.max_candidates);
    }
    Ok(hits)
}

/// A way to find candidates for a query.
pub(super) trait Retriever {
    /// Returns its kind, such as `lexical`.
    fn kind(&self) -> &'static str;

    /// Returns the name of its method.
    fn method(&self) -> &'static str;

    /// Finds candidates. Once `options.stop` is raised, the result is incomplete.
    ///
    /// # Errors
    ///
    /// `invalid_request` if the path can't be searched, `internal` if the tree can't be read.
    fn retrieve(&self, request: &IndexRequest, options: &Retrieval<'_>) -> Result<Hits, Failure>;
}

/// The lexical retriever: it searches for words.
pub(super) struct Lexical<'a> {
    pub(super) searcher: &'a Searcher,
    /// The threads that read and count.
    pub(super) pool: &'a ThreadPool,
    pub(super) deadline: Deadline,
    pub(super) cancel: &'a CancelHandle,
}

impl Retriever for Lexical<'_> {
    fn kind(&self) -> &'static str {
        "lexical"
    }

    fn method(&self) -> &'static str {
        "bm25f"
    }

    fn retrieve(&self, request: &IndexRequest, options: &Retrieval<'_>) -> Result<Hits, Failure> {
        let target = &request.target;
        let missing = |error: std::io::Error| invalid(format!("path can't be searched: {error}"));
        let meta = target.root.metadata(&target.relative).map_err(missing)?;
        let left = self.deadline.remaining();
        // The time that is left when the first file is about to be read.
        let pinned = OnceLock::new();
        let process = |source: &dyn FileSource<Unit = PathUnit>| {
            let _ = pinned.set(self.deadline.remaining());
            self.pool.install(|| retrieve(source, options))
        };
        let without_time = || {
            options.stop.raise(StopReason::TimedOut);
            Retrieved::default()
        };
        let limits = Limits {
            max_results: 1,
            max_files: u64::MAX,
            report: Report::Lines,
        };
        let run = self
            .searcher
            .options(limits, self.deadline.clone(), self.cancel);
        let (found, index, snapshot) = match meta.kind {
            EntryKind::Dir => self
                .searcher
                .over_dir(request, &run, &process, &without_time),
            // A file is searched as its directory, restricted to this file. An ignored file is
            // searched if it is named.
            EntryKind::File => {
                let of_dir = of_file(request)?;
                let mut found = self
                    .searcher
                    .over_dir(&of_dir, &run, &process, &without_time);
                let named = || ListSource(vec![EligibleFile::named(target)]);
                let none = |found: &Retrieved| found.corpus.files == 0 && !options.stop.is_raised();
                match &mut found.0 {
                    Ok(retrieved) if none(retrieved) => {
                        (Ok(process(&named())), IndexUse::not_used(), None)
                    }
                    Ok(retrieved) if retrieved.candidates.is_empty() => {
                        // An index has no entry for a binary file.
                        retrieved.binary = process(&named()).binary;
                        found
                    }
                    _ => found,
                }
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
        let pinned = pinned.get().copied();
        Ok(Hits {
            retrieved,
            index,
            snapshot,
            pinning: left.saturating_sub(pinned.unwrap_or_else(|| self.deadline.remaining())),
        })
    }
}

/// Builds the request for one file: its directory, restricted to the file.
fn of_file(request: &IndexRequest) -> Result<IndexRequest, Failure> {
    let unnamed = || invalid("path is not a file below an allowed root");
    let target = &request.target;
    let (dir, name) = target
        .canonical
        .parent()
        .zip(target.canonical.file_name())
        .ok_or_else(unnamed)?;
    Ok(IndexRequest {
        target: Resolved {
            canonical: dir.to_path_buf(),
            root: target.root.clone(),
            relative: target.relative.parent().ok_or_else(unnamed)?.to_path_buf(),
        },
        globs: Globs::only(name),
        traversal: TraversalOptions {
            recursive: false,
            ..request.traversal
        },
        ..request.clone()
    })
}
