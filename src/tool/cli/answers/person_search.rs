//! A person's search, which is `forge-search PATTERN`: answered by the daemon of the tree, or by
//! this process.
//!
//! This module owns the decision whether a daemon can answer. A daemon may answer only if its
//! output is identical, byte for byte. If the daemon breaks off, this process searches again and
//! hands out the parts that are missing. (`tool::daemon::person_search` has the daemon's side.)

#[cfg(unix)]
mod daemon;
#[cfg(not(unix))]
mod portable;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::exec::answer::handed_out::HandedOut;
use crate::exec::question::{IndexList, Question};
use crate::exec::schedule::Taker;
use crate::tool::answering::{Call, Summary};
use crate::tool::cli::Failure;
use crate::tool::cli::answers::building::before_search;
use crate::tool::cli::args::SetupArgs;
use crate::tool::cli::setup::{Environment, prepare};
use crate::tool::config::Config;

/// A question, with all facts that decide who answers.
pub(in crate::tool::cli) struct PersonSearch<'a> {
    /// The question to answer.
    pub(in crate::tool::cli) question: &'a Question,
    /// The time limit of the search.
    pub(in crate::tool::cli) timeout: Option<Duration>,
    /// The arguments of this process, including those from flags.
    pub(in crate::tool::cli) setup: &'a SetupArgs,
    /// The configuration of this process.
    pub(in crate::tool::cli) config: &'a Config,
    /// The configuration that a daemon must have to answer.
    pub(in crate::tool::cli) of_daemon: &'a Config,
    /// Extra directories that may be searched, since a person may name any path.
    pub(in crate::tool::cli) extra_roots: &'a [PathBuf],
    /// The environment of this process.
    pub(in crate::tool::cli) environment: &'a Environment,
    /// When the search began.
    pub(in crate::tool::cli) began: Instant,
}

impl PersonSearch<'_> {
    /// Hands the parts of the answer to `taker`, and returns the summary.
    ///
    /// # Errors
    ///
    /// Errors of the search in this process.
    pub(in crate::tool::cli) fn answer(&self, taker: &mut Taker<'_>) -> Result<Summary, Failure> {
        let mut handed_out = HandedOut::default();
        if let Some(summary) = self.by_daemon(&mut handed_out, taker) {
            tracing::debug!(target: "forge_search::search", "the daemon of the tree answered");
            return Ok(summary);
        }
        tracing::debug!(target: "forge_search::search", "this process searches");
        self.by_this_process(&mut |found| match handed_out.rest(found) {
            None => ControlFlow::Continue(()),
            Some(found) => taker(found),
        })
    }

    /// Starts the daemon of the enclosing tree for later searches, after another search of this
    /// process has read `files` files. Does so under the conditions of every person's search.
    ///
    /// # Errors
    ///
    /// Errors of the setup.
    pub(in crate::tool::cli) fn start_daemon_after(&self, files: u64) -> Result<(), Failure> {
        let setup = prepare(self.setup, self.environment, self.extra_roots)?;
        self.start_daemon(&setup.for_people(), files);
        Ok(())
    }

    fn by_this_process(&self, taker: &mut Taker<'_>) -> Result<Summary, Failure> {
        let setup = prepare(self.setup, self.environment, self.extra_roots)?;
        let mut setup = setup.for_people();
        // Nobody waits for a build who only asks which files an index rules out.
        let shown = self.question.shown;
        if self.question.looked_for.patterns.is_some() && shown.by_index == IndexList::None {
            before_search(&setup, self.environment, self.question, self.timeout)?;
        }
        setup.context.received_at = Some(self.began);
        let call = Call {
            context: &setup.context,
            timeout: self.timeout,
            maintenance: setup.config.search.index_maint_budget_fraction,
        };
        let search = || setup.tool.answer(self.question, &call, taker);
        let summary = setup.signals.while_calling(search);
        let summary = summary.map_err(|error| setup.signals.failure(error))?;
        self.start_daemon(&setup, summary.run.totals.files_scanned);
        Ok(summary)
    }
}
