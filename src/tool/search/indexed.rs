//! Searching with an index: asking it, and doing without it.
//!
//! Owns when an index is asked about a request, and what happens when it turns out to be damaged in use. What it
//! answers is for the indexes to decide.

use std::sync::Arc;

use super::{SearchTool, ToolContext, run_source, traversal, walk};
use crate::exec::eligible::{Globs, WalkSource};
use crate::exec::engine::Prepared;
use crate::exec::query::Query;
use crate::exec::schedule::{self, Run, RunError, RunOptions};
use crate::tool::indexing::{Choice, Indexes};
use crate::tool::request::SearchRequest;
use crate::tool::response::IndexUse;
use crate::tool::sandbox::Resolved;

impl SearchTool {
    /// Searches a directory: with what an index leaves of it, or by a walk.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run_dir(
        &self,
        request: &SearchRequest,
        query: &Arc<Query>,
        target: &Resolved,
        globs: Globs,
        prepared: Option<Arc<dyn Prepared>>,
        options: &RunOptions,
        context: &ToolContext,
    ) -> (Result<Run, RunError>, IndexUse) {
        let mut facts = IndexUse::not_used();
        if let Some(indexes) = &self.indexes {
            facts = indexes.not_chosen();
            let choice = self.choose(indexes, request, query, target, &globs, options, context);
            let choice = match choice {
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
                    Some(error) => facts = indexes.report_damage(&target.canonical, error),
                }
            }
        }
        let walk = walk(request, target, context);
        (
            run_source(WalkSource::new(walk, globs), prepared, options),
            facts,
        )
    }

    /// Returns what `stats` say of the index when a single file is searched. Nobody else wants to know, so without
    /// them nothing is opened; and nobody waits for it beyond the deadline.
    pub(super) fn facts_for_file(
        &self,
        request: &SearchRequest,
        target: &Resolved,
        options: &RunOptions,
    ) -> IndexUse {
        let Some(indexes) = self.indexes.as_ref().filter(|_| self.config.emit_stats) else {
            return IndexUse::not_used();
        };
        let (opened, target) = (indexes.clone(), target.clone());
        let asked = traversal(request);
        let choose = move || opened.choose_for_file(&target, asked).index;
        let facts = schedule::within(options, choose).ok().flatten();
        facts.unwrap_or_else(|| indexes.not_chosen())
    }

    /// Asks the index about a request; nothing if the deadline came first.
    #[allow(clippy::too_many_arguments)]
    fn choose(
        &self,
        indexes: &Arc<Indexes>,
        request: &SearchRequest,
        query: &Arc<Query>,
        target: &Resolved,
        globs: &Globs,
        options: &RunOptions,
        context: &ToolContext,
    ) -> Result<Option<Choice>, RunError> {
        let (indexes, query, target) = (indexes.clone(), query.clone(), target.clone());
        let (globs, sandbox) = (globs.clone(), context.sandbox.clone());
        let global_excludes = context.global_excludes.clone();
        let asked = traversal(request);
        let at_once = self.config.index_frozen && indexes.is_opened(&target.canonical);
        let choose = move || {
            let excludes = global_excludes.as_deref();
            indexes.choose(&query, asked, &target, &globs, &sandbox, excludes)
        };
        // Looking at many directories, or opening an index, can't be interrupted.
        match at_once {
            true => Ok(Some(choose())),
            false => schedule::within(options, choose),
        }
    }
}
