//! Work on the files of a directory that is no search for lines: the daemon ranks them.

use std::sync::Arc;

use super::Searcher;
use crate::exec::eligible::{FileSource, WalkSource};
use crate::exec::indexes::{Comparing, Snapshot};
use crate::exec::schedule::{RunError, RunOptions};
use crate::tool::indexing::Question;
use crate::tool::response::IndexUse;

/// What is done with the files that a request is about.
pub(in crate::tool) trait Work {
    /// What comes of it.
    type Found;

    /// Works through them.
    fn through<S: FileSource>(&self, source: S) -> Result<Self::Found, RunError>;

    /// What comes of it without any time.
    fn without_time(&self) -> Self::Found;
}

impl Searcher {
    /// Has the files of a directory worked through: what an index leaves of them, or all that a walk finds. Returns what the index did, and
    /// the snapshot that was pinned, if one was.
    pub(in crate::tool) fn over_dir<W: Work>(
        &self,
        question: &Question,
        options: &RunOptions,
        work: &W,
    ) -> (Result<W::Found, RunError>, IndexUse, Option<Arc<Snapshot>>) {
        let mut facts = IndexUse::not_used();
        if let Some(indexes) = &self.indexes {
            facts = indexes.not_chosen();
            let choice = match self.choose(indexes, question, Comparing::First, options) {
                Ok(Some(choice)) => choice,
                Ok(None) => return (Ok(work.without_time()), facts, None),
                Err(error) => return (Err(error), facts, None),
            };
            facts = choice.index;
            if let Some(source) = choice.source {
                let failure = source.failure();
                let snapshot = source.pinned().cloned();
                let found = work.through(source);
                match failure.get() {
                    None => return (found, facts, snapshot),
                    // What was found does not count: the catalog was not whole.
                    Some(error) => facts = indexes.report_damage(&question.target.canonical, error),
                }
            }
        }
        let source = WalkSource::over(
            &question.target,
            question.traversal,
            &question.reach,
            question.global_excludes.as_deref(),
            question.globs.clone(),
        );
        (work.through(source), facts, None)
    }
}
