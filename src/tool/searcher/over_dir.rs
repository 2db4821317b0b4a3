//! The files of one directory, for a ranked question.
//!
//! [`Searcher::over_dir`] chooses the source of the files, an index or a walk, and passes it to the
//! caller's function.

use std::sync::Arc;

use super::Searcher;
use crate::exec::indexes::{ComparisonMode, Snapshot};
use crate::exec::schedule::{RunError, RunOptions};
use crate::exec::sources::eligible::{FileSource, PathUnit, WalkSource};
use crate::tool::indexing::IndexRequest;
use crate::tool::response::IndexUse;

impl Searcher {
    /// Processes the files of a directory: the candidates of an index, or all files that a walk
    /// finds. `without_time` returns the result for a call without any time left. Also returns how
    /// the index was used, and the snapshot that was pinned, if any.
    pub(in crate::tool) fn over_dir<T>(
        &self,
        request: &IndexRequest,
        options: &RunOptions,
        process: &impl Fn(&dyn FileSource<Unit = PathUnit>) -> T,
        without_time: &impl Fn() -> T,
    ) -> (Result<T, RunError>, IndexUse, Option<Arc<Snapshot>>) {
        let mut facts = IndexUse::not_used();
        if let Some(indexes) = &self.indexes {
            facts = indexes.not_chosen();
            let choice = match self.choose(indexes, request, ComparisonMode::First, options) {
                Ok(Some(choice)) => choice,
                Ok(None) => return (Ok(without_time()), facts, None),
                Err(error) => return (Err(error), facts, None),
            };
            facts = choice.index;
            if let Some(source) = choice.source {
                let failure = source.failure();
                let snapshot = source.pinned().cloned();
                let found = Ok(process(&source));
                match failure.get() {
                    None => return (found, facts, snapshot),
                    // The result is discarded, because the catalog was incomplete.
                    Some(error) => facts = indexes.report_damage(&request.target.canonical, error),
                }
            }
        }
        let source = WalkSource::over(
            &request.target,
            request.traversal,
            &request.reach,
            request.global_excludes.as_deref(),
            request.globs.clone(),
        );
        (Ok(process(&source)), facts, None)
    }
}
