//! The approximate searches that follow an exact search without a match.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AnswerRun, Summary};
use crate::exec::answer::collect::Found;
use crate::exec::question::Question;
use crate::exec::question::query::Fuzziness;
use crate::exec::schedule::{Run, Taker};
use crate::tool::error::ToolError;
use crate::tool::response::{FallbackSkipped, FallbackUse};

/// The outcome of approximate searches after an exact search without a match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fallback {
    /// Whether the exact search ended without a match.
    pub(crate) wanted: bool,
    /// The approximate searches that ran, in order.
    pub(crate) tried: Vec<Fuzziness>,
    /// The reason why the remaining ones were skipped, if any.
    pub(crate) ended: Option<FallbackEnd>,
}

impl Fallback {
    /// Returns the outcome in the form of `stats`.
    pub(crate) fn to_use(&self, question: &Question) -> FallbackUse {
        let is_short = self.wanted && question.fallback.too_short;
        FallbackUse {
            tried: self.tried.iter().filter_map(|one| one.level()).collect(),
            skipped: match self.ended {
                Some(FallbackEnd::Found) => None,
                Some(FallbackEnd::Refused) => Some(FallbackSkipped::CapabilityMissing),
                _ => is_short.then_some(FallbackSkipped::PatternTooShort),
            },
            without_time: match self.ended {
                Some(FallbackEnd::NoTime(left) | FallbackEnd::TimedOut(left)) => left as u64,
                _ => 0,
            },
        }
    }
}

/// The reason why approximate searches ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FallbackEnd {
    /// The last one found a match.
    Found,
    /// This many searches were skipped because no time was left.
    NoTime(usize),
    /// The last search ran out of time, and this many others were skipped.
    TimedOut(usize),
    /// The pattern can't be searched approximately.
    Refused,
    /// One of the searches failed.
    Failed,
}

/// Returns true if every file was searched and no line matched (`ok_no_matches`).
pub(super) fn is_ended_without_match(run: &Run) -> bool {
    let is_cut = run.cuts.max_results || run.cuts.max_files;
    run.totals.results == 0 && !is_cut && !run.timed_out && run.failure.is_none()
}

/// A buffer for parts of an answer until one of them has a match. Until then, an approximate search
/// may replace all of them.
pub(super) struct PartsBuffer {
    parts: Vec<Found>,
    holds: bool,
    pub(super) has_match: bool,
}

impl PartsBuffer {
    pub(super) fn new(holds: bool) -> PartsBuffer {
        PartsBuffer {
            parts: Vec::new(),
            holds,
            has_match: false,
        }
    }

    pub(super) fn take(&mut self, found: Found, taker: &mut Taker<'_>) -> ControlFlow<()> {
        self.has_match |= match &found {
            Found::File(file) => file.outcome.has_match(),
            Found::Listed(_) => true,
            Found::Error(_) => false,
        };
        if self.holds && !self.has_match {
            self.parts.push(found);
            return ControlFlow::Continue(());
        }
        self.hand_over(taker)?;
        taker(found)
    }

    fn hand_over(&mut self, taker: &mut Taker<'_>) -> ControlFlow<()> {
        std::mem::take(&mut self.parts)
            .into_iter()
            .try_for_each(taker)
    }

    /// Passes the remaining parts on.
    pub(super) fn flush(mut self, taker: &mut Taker<'_>) {
        // No part follows, so the taker's answer does not matter.
        let _ = self.hand_over(taker);
    }
}

impl AnswerRun<'_> {
    /// Runs the approximate searches of the question's fallback, in order, until one finds a match.
    /// If no search does, passes on the parts of the exact search.
    pub(super) fn approximately(
        &mut self,
        summary: &mut Summary,
        exact: PartsBuffer,
        taker: &mut Taker<'_>,
    ) -> Result<(), ToolError> {
        let attempts = &self.question.fallback.attempts;
        for (nth, &fuzzy) in attempts.iter().enumerate() {
            let left = attempts.len() - nth;
            if self.options.deadline.remaining().is_zero() {
                summary.fallback.ended = Some(FallbackEnd::NoTime(left));
                break;
            }
            let Ok(query) = self.question.query(Some(fuzzy)).map(Arc::new) else {
                summary.fallback.ended = Some(FallbackEnd::Refused);
                break;
            };
            let searcher = self.searcher;
            let engine = match searcher.prepare(searcher.engines_for(&query), &query, self.options)
            {
                Ok(Some(engine)) => engine,
                Ok(None) => {
                    summary.fallback.ended = Some(FallbackEnd::NoTime(left));
                    break;
                }
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    summary.fallback.ended = Some(FallbackEnd::Refused);
                    break;
                }
            };
            summary.fallback.tried.push(fuzzy);
            let mut held = PartsBuffer::new(true);
            match self.search(&query, engine, &mut |found| held.take(found, taker)) {
                Ok((run, index)) if held.has_match => {
                    summary.run = run;
                    summary.index = index;
                    summary.approximate = Some(fuzzy);
                    summary.fallback.ended = Some(FallbackEnd::Found);
                    return Ok(());
                }
                Ok((run, _)) if run.timed_out => {
                    summary.fallback.ended = Some(FallbackEnd::TimedOut(left - 1));
                    break;
                }
                Ok((run, _)) if run.failure.is_some() => {
                    summary.fallback.ended = Some(FallbackEnd::Failed);
                    break;
                }
                Ok(_) => {}
                Err(ToolError::Cancelled) => return Err(ToolError::Cancelled),
                Err(_) => {
                    summary.fallback.ended = Some(FallbackEnd::Failed);
                    break;
                }
            }
        }
        exact.flush(taker);
        Ok(())
    }
}
