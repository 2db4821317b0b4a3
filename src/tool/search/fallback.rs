//! Fuzzy fallback: a literal that no line has is looked for approximately (LSI §9).
//!
//! Owns when that happens and when it ends. Each attempt is a search like any other, with the query of a fuzzy request.

use std::sync::Arc;

use super::{Found, Plan, SearchTool};
use crate::exec::query::{Fuzziness, Query, QueryOptions};
use crate::exec::schedule::RunOptions;
use crate::tool::error::ToolError;
use crate::tool::indexing::Question;
use crate::tool::request::SearchRequest;
use crate::tool::response::{FallbackSkipped, FallbackUse};

impl Found {
    /// Returns true if everything was searched and no line matched (`ok_no_matches`, FR-LSI-EXIT-01).
    fn has_no_matches(&self) -> bool {
        let run = &self.run;
        run.count == 0 && run.truncation.is_none() && !run.timed_out && run.failure.is_none()
    }

    /// Returns true if a line matched, which context alone does not show (FR-LSI-FUZ-G-04).
    fn has_match(&self) -> bool {
        let mut events = self.run.files.iter().flat_map(|file| &file.events);
        events.any(|event| event.is_match())
    }
}

impl SearchTool {
    /// Returns what was found or, if that is nothing and fallback is configured, what the first of its levels finds that finds any
    /// match (FR-LSI-FUZ-02 to FR-LSI-FUZ-04, FR-LSI-FUZ-TH-02). All have the deadline of the request.
    ///
    /// Where no level finds a match, the answer is that of the search for the text as it is, and says that time ran out if it did in
    /// the middle of an attempt.
    ///
    /// # Errors
    ///
    /// [`ToolError::Cancelled`]. Whatever else goes wrong in an attempt ends it, and not the call, which has an answer.
    pub(super) fn or_approximately(
        &self,
        mut found: Found,
        request: &SearchRequest,
        plan: &Plan,
        mut question: Question,
        options: &RunOptions,
    ) -> Result<Found, ToolError> {
        let config = &self.config;
        let is_literal = request.fixed_strings && request.fuzzy.is_none();
        if !config.fuzzy_fallback || !is_literal || !found.has_no_matches() {
            return Ok(found);
        }
        let length = request.pattern.chars().count();
        if length < config.fuzzy_min_pattern_len {
            found.attempts.skipped = Some(FallbackSkipped::PatternTooShort);
            return Ok(found);
        }
        let mut attempts = FallbackUse::default();
        for (n, &level) in config.fuzzy_fallback_levels.iter().enumerate() {
            if length <= level.into() {
                attempts.skipped = Some(FallbackSkipped::PatternTooShort);
                continue;
            }
            let left = config.fuzzy_fallback_levels.len() - n;
            if options.deadline.remaining().is_zero() {
                attempts.without_time = left;
                break;
            }
            let fuzzy = Some(Fuzziness::Edits(level));
            let query = match Query::new(
                &request.pattern,
                &QueryOptions {
                    fuzzy,
                    ..plan.options
                },
            ) {
                Ok(query) => Arc::new(query),
                Err(_) => break,
            };
            let prepared = match self.searcher.prepare(self.engines(), &query, options) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => {
                    attempts.without_time = left;
                    break;
                }
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    attempts.skipped = Some(FallbackSkipped::CapabilityMissing);
                    break;
                }
            };
            question.query = query;
            attempts.tried.push(level);
            let next = match self.run(request, &question, Some(prepared), options) {
                Ok(next) => next,
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => break,
            };
            if next.has_match() {
                found = Found {
                    approximate: Some(level),
                    ..next
                };
                break;
            }
            found.run.timed_out |= next.run.timed_out;
            if next.run.timed_out || next.run.failure.is_some() {
                attempts.without_time = if next.run.timed_out { left - 1 } else { 0 };
                break;
            }
        }
        found.attempts = attempts;
        Ok(found)
    }
}
