//! The places of the best files, of which the results of an answer are chosen.

use super::super::limits::Remarks;
use super::order::{ScoredFile, reranked};
use super::remarks::warn_changed;
use super::written::ResultDraft;
use super::{RankedSearch, Settings, model};
use crate::exec::rank::{Bucket, Comparison, Meaning, Ranked, Scorer};
use crate::exec::retrieve::{Retrieval, excerpts, shown_path};
use crate::tool::searcher::to_usize;

/// Each further place of a file has so many tenths of the score that it would have by itself, so
/// that one file does not crowd out others.
const FURTHER: u64 = 5;

/// The exponent of a place's share of the worth of the best place in its file.
const WORSE: f64 = 0.4;

impl RankedSearch<'_> {
    /// Reads the best files again, for their snippets. Of each file there is one place more than
    /// the answer may have, if there is such a place: it is surplus.
    pub(super) fn places(
        &self,
        best: &[ScoredFile<'_>],
        scorer: &Scorer,
        settings: Settings,
        options: &Retrieval<'_>,
        meaning: Option<&Meaning>,
        remarks: &mut Remarks,
    ) -> Vec<Ranked<ResultDraft>> {
        use rayon::prelude::*;
        let per_file = to_usize(settings.per_file);
        let read: Vec<_> = best
            .par_iter()
            .map_init(
                || Some(Comparison::with(model(self.caps.embed)?, meaning?)),
                |comparison, file| {
                    let comparison = comparison.as_mut();
                    excerpts(
                        file.candidate,
                        scorer.rarities(),
                        settings.snippet,
                        per_file.saturating_add(1),
                        options,
                        comparison,
                    )
                },
            )
            .collect();
        let reranked = reranked(best, &read);
        let mut places = Vec::new();
        for ((file, excerpts), scores) in best.iter().zip(read).zip(reranked) {
            let candidate = file.candidate;
            let of_pieces = scorer.pieces(scores, file.factor);
            let parts = scorer.contributions(&candidate.document, file.factor) + of_pieces;
            let score = file.score + of_pieces.total();
            let lexical = file.lexical + of_pieces.words;
            let real = candidate.found.absolute();
            let shown = real.strip_prefix(self.root).unwrap_or(&candidate.path);
            let (path, lossy) = shown_path(shown);
            let Some(excerpts) = excerpts else {
                if !self.stop.is_raised() {
                    warn_changed(remarks, &path);
                }
                continue;
            };
            let excerpts = excerpts.best;
            let most = excerpts
                .first()
                .map_or(1, |one| u64::from(one.chunk.worth).max(1));
            let row = places.len() as u64;
            // A linked file may be shown by another path, so its kind may differ, too.
            let bucket = Bucket::of(&path);
            for (nth, excerpt) in excerpts.into_iter().enumerate() {
                let worth = u64::from(excerpt.chunk.worth);
                let share = (worth.min(most) as f64 / most as f64).powf(WORSE);
                let part = |score: u64| {
                    let whole = (score as f64 * share).round() as u64;
                    (0..nth).fold(whole, |score, _| score * FURTHER / 10)
                };
                places.push(Ranked {
                    score: part(score),
                    lexical: part(lexical),
                    path_key: path.clone().into_bytes(),
                    start: excerpt.chunk.start as u64,
                    row,
                    bucket,
                    item: ResultDraft {
                        path: path.clone(),
                        lossy: lossy || excerpt.lossy,
                        text: excerpt.text,
                        at: excerpt.at,
                        start_line: excerpt.chunk.start_line,
                        end_line: excerpt.chunk.end_line,
                        defines: excerpt.chunk.defines,
                        why: parts.reasons(excerpt.chunk.defines),
                        is_anchor: nth == 0,
                        is_surplus: nth >= per_file,
                    },
                });
            }
        }
        places
    }
}
