//! Searching with an index: asking it, and doing without it.
//!
//! Owns when an index is asked about a request, and what happens when it turns out to be damaged in use. What it
//! answers is for the indexes to decide.

use std::sync::Arc;

use super::{SearchTool, run_source, walk};
use crate::exec::eligible::WalkSource;
use crate::exec::engine::Prepared;
use crate::exec::schedule::{self, Run, RunError, RunOptions};
use crate::tool::indexing::{Choice, Indexes, Question};
use crate::tool::response::IndexUse;

impl SearchTool {
    /// Searches a directory: with what an index leaves of it, or by a walk.
    pub(super) fn run_dir(
        &self,
        question: &Question,
        prepared: Option<Arc<dyn Prepared>>,
        options: &RunOptions,
    ) -> (Result<Run, RunError>, IndexUse) {
        let mut facts = IndexUse::not_used();
        if let Some(indexes) = &self.indexes {
            facts = indexes.not_chosen();
            let choice = match self.choose(indexes, question, options) {
                Ok(Some(choice)) => choice,
                Ok(None) => return (Ok(Run::without_time()), facts),
                Err(error) => return (Err(error), facts),
            };
            facts = choice.index;
            if let Some(source) = choice.source {
                let failure = source.failure();
                let run = run_source(source, prepared.clone(), options);
                match failure.get() {
                    None => return (run, facts),
                    // What was found does not count: the catalog was not whole.
                    Some(error) => facts = indexes.report_damage(&question.target.canonical, error),
                }
            }
        }
        let walk = walk(question);
        let source = WalkSource::new(walk, question.globs.clone());
        (run_source(source, prepared, options), facts)
    }

    /// Returns what `stats` say of the index when a single file is searched. Nobody else wants to know, so without
    /// them nothing is opened; and nobody waits for it beyond the deadline.
    pub(super) fn facts_for_file(&self, question: &Question, options: &RunOptions) -> IndexUse {
        let Some(indexes) = self.indexes.as_ref().filter(|_| self.config.emit_stats) else {
            return IndexUse::not_used();
        };
        let (opened, target) = (indexes.clone(), question.target.clone());
        let asked = question.traversal;
        let choose = move || opened.choose_for_file(&target, asked).index;
        let facts = schedule::within(options, choose).ok().flatten();
        facts.unwrap_or_else(|| indexes.not_chosen())
    }

    /// Asks the index about a request; nothing if the deadline came first.
    fn choose(
        &self,
        indexes: &Arc<Indexes>,
        question: &Question,
        options: &RunOptions,
    ) -> Result<Option<Choice>, RunError> {
        if self.config.index_frozen && indexes.is_opened(&question.target.canonical) {
            return Ok(Some(indexes.choose(question)));
        }
        // Looking at many directories, or opening an index, can't be interrupted.
        let (indexes, question) = (indexes.clone(), question.clone());
        schedule::within(options, move || indexes.choose(&question))
    }
}
