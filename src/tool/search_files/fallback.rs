//! Fuzzy fallback: an exact search without a match is repeated for what is similar (SFI §3.4).
//!
//! Owns when that happens and when it ends. Each pass is a search like any other, by the limits and in the time of the request.

use super::{FallbackEnd, FallbackStats, FilesRequest, FilesTool, Found, Plan};
use crate::exec::fuzzy::Threshold;
use crate::exec::schedule::RunOptions;
use crate::tool::config::Mode;
use crate::tool::error::ToolError;
use crate::tool::indexing::Question;

impl FilesTool {
    /// Returns what was found or, if that is nothing and fallback is configured, what the first pass finds that finds anything
    /// (`FR-SFI-FUZ-01` to `FR-SFI-FUZ-04`). Where none does, the answer is that of the exact search.
    ///
    /// # Errors
    ///
    /// [`ToolError::Cancelled`]. Whatever else goes wrong in a pass ends fallback, and not the call, which has an answer.
    pub(super) fn or_similar(
        &self,
        mut found: Found,
        request: &FilesRequest,
        plan: &Plan,
        mut question: Question,
        options: &RunOptions,
    ) -> Result<Found, ToolError> {
        let config = &self.config;
        let is_empty = found.run.count == 0 && found.run.truncation.is_none();
        if !config.fuzzy_fallback || plan.mode != Mode::Exact || !is_empty {
            return Ok(found);
        }
        let step = Threshold::new(config.fuzzy_threshold_step);
        let mut stats = FallbackStats {
            initial_mode: Mode::Exact,
            fallback_used: false,
            fuzzy_passes_used: 0,
            fallback_ended: None,
        };
        for pass in 0..config.fuzzy_passes {
            if options.deadline.remaining().is_zero() {
                stats.fallback_ended = Some(FallbackEnd::Timeout);
                break;
            }
            let times = u32::try_from(pass).unwrap_or(u32::MAX);
            let threshold = self.threshold().lowered(step, times);
            let query = plan.query(request, Mode::Fuzzy, threshold)?;
            let prepared = match self.prepare(&query, options) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => {
                    stats.fallback_ended = Some(FallbackEnd::Timeout);
                    break;
                }
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    stats.fallback_ended = Some(FallbackEnd::QueryTooLong);
                    break;
                }
            };
            question.query = query;
            stats.fallback_used = true;
            stats.fuzzy_passes_used += 1;
            let next = match self.run(request, &question, Some(prepared), options) {
                Ok(next) => next,
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    stats.fallback_ended = Some(FallbackEnd::Failed);
                    break;
                }
            };
            if next.run.timed_out {
                stats.fallback_ended = Some(FallbackEnd::Timeout);
                break;
            }
            if next.run.count > 0 {
                found = Found {
                    mode: Some(Mode::Fuzzy),
                    ..next
                };
                break;
            }
        }
        found.fallback = Some(stats);
        Ok(found)
    }
}
