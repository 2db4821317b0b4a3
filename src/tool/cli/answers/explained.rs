//! Explains how an index narrows a search.
//!
//! The command `explain` prints an [`Explained`]. A `Backend` sends one as JSON.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};

use crate::exec::as_text::shown;
use crate::exec::question::query::{Fold, Report};
use crate::exec::question::{FallbackPlan, OutputSpec, Question};
use crate::tool::answering::{Call, Summary};
use crate::tool::cli::output::show;
use crate::tool::cli::setup::Setup;
use crate::tool::error::ToolError;
use crate::tool::indexing::Explanation;
#[cfg(unix)]
use crate::tool::request::SearchRequest;
use crate::tool::response::Stats;
use crate::tool::searcher::slashed;

/// The reason if the index had files to exclude, but excluded none.
const NONE_LEFT: &str = "the files that the index could exclude changed since it was built, or the \
     search ended before it reached them";

/// Explains a request of the tool `Search`, as JSON.
///
/// # Errors
///
/// Errors of the search.
#[cfg(unix)]
pub(in crate::tool::cli) fn to_program(
    setup: &Setup,
    request: &SearchRequest,
) -> Result<Value, ToolError> {
    Ok(Explained::of(setup, setup.tool.question(request)?)?.to_json())
}

/// A search, with the effects of the index on it.
pub(in crate::tool::cli) struct Explained {
    pub(in crate::tool::cli) question: Question,
    fold: Fold,
    pub(in crate::tool::cli) explanation: Explanation,
    /// The counters of the search, which are consistent with each other.
    pub(in crate::tool::cli) stats: Stats,
    summary: Summary,
}

impl Explained {
    /// Carries out a search that looks for one match per file.
    ///
    /// # Errors
    ///
    /// Errors of the search.
    pub(in crate::tool::cli) fn of(
        setup: &Setup,
        mut question: Question,
    ) -> Result<Explained, ToolError> {
        let explanation = setup.tool.explain_question(&question, &setup.context)?;
        question.shown = OutputSpec {
            report: Report::Presence,
            ..OutputSpec::default()
        };
        question.limits.max_results = u64::MAX;
        question.fallback = FallbackPlan::default();
        let fold = question
            .query(question.looked_for.fuzzy)
            .map_err(|error| ToolError::bad_args(error.to_string()))?
            .pattern
            .fold();
        let call = Call {
            context: &setup.context,
            timeout: None,
            maintenance: setup.config.search.index_maint_budget_fraction,
        };
        let take = &mut |_| ControlFlow::Continue(());
        let summary = setup.tool.answer(&question, &call, take)?;
        let totals = summary.run.totals;
        let (all, excluded) = (totals.files_scanned, totals.files_excluded);
        Ok(Explained {
            question,
            fold,
            explanation,
            stats: Stats {
                files_too_large: totals.files_too_large,
                ..Stats::new(summary.index.clone(), all, excluded, Duration::ZERO)
            },
            summary,
        })
    }

    pub(in crate::tool::cli) fn fold(&self) -> &'static str {
        match self.fold {
            Fold::Sensitive => "sensitive",
            Fold::AsciiInsensitive | Fold::UnicodeInsensitive => "insensitive",
        }
    }

    pub(in crate::tool::cli) fn pattern(&self) -> String {
        let patterns = self.question.looked_for.patterns.as_deref();
        patterns.unwrap_or_default().join("|")
    }

    pub(in crate::tool::cli) fn path(&self) -> String {
        let target = self.summary.targets.first();
        target.map_or_else(String::new, |target| slashed(&target.canonical))
    }

    pub(in crate::tool::cli) fn confirmed(&self) -> u64 {
        self.summary.run.totals.matched_files
    }

    /// Returns whether the search covered all files.
    pub(in crate::tool::cli) fn is_complete(&self) -> bool {
        !self.summary.run.cuts.any() && !self.summary.timed_out()
    }

    /// Returns the reason why the index excluded no files, if it excluded none.
    pub(in crate::tool::cli) fn reason(&self) -> Option<&str> {
        if self.stats.files_too_large > 0 && self.searched_files() == 0 {
            // All files were too large to be searched, so the index had nothing to exclude.
            return None;
        }
        let known = self.explanation.reason.as_deref();
        let all_searched = self.stats.candidates_excluded == 0 && self.searched_files() > 0;
        known.or(all_searched.then_some(NONE_LEFT))
    }

    pub(in crate::tool::cli) fn to_json(&self) -> Value {
        let Explained {
            question,
            explanation,
            stats,
            ..
        } = self;
        json!({
            "pattern": self.pattern(),
            "fixed_strings": question.looked_for.fixed_strings,
            "word_regexp": question.looked_for.word,
            "case": self.fold(),
            "path": self.path(),
            "index": {
                "root": explanation.root.as_ref().map(|root| shown(root)),
                "state": stats.index_safety_state,
                "uncertain_reason": stats.index_uncertain_reason,
                "used": stats.index_exclusion_used,
                "storage_mode": stats.storage_mode,
                "storage_fallback_reason": stats.storage_fallback_reason,
            },
            "plan": explanation.plan,
            "files": {
                "in_scope": stats.candidates_total,
                "excluded": stats.candidates_excluded,
                "too_large": stats.files_too_large,
                "searched": self.searched_files(),
                "candidates_by_index": explanation.candidates,
                "confirmed": self.confirmed(),
            },
            // Whether standard output is a file, which is then not searched.
            "leaves_out_own_output": question.files.own_output.is_some(),
            "complete": self.is_complete(),
            "reason": self.reason(),
            "elsewhere": explanation.other_root_index.as_ref().map(show::elsewhere_json),
        })
    }

    pub(in crate::tool::cli) fn searched_files(&self) -> u64 {
        self.stats.candidates_scanned - self.stats.files_too_large
    }
}
