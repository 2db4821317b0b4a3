//! The results of an answer: places of the best files, and their snippets.

use super::super::limits::Remarks;
use super::super::reply::{Found, Score};
use super::order::reranked;
use super::remarks::warn_changed;
use super::{RankedSearch, Settings, to_usize};
use crate::exec::rank::{Bucket, Comparison, Meaning, Ranked, Scorer};
use crate::exec::retrieve::{Candidate, Retrieval, excerpts, shown_path};
use crate::tool::render::{escape_lines, escape_name};

/// Each further place of a file has so many tenths of the score that it would have by itself, so
/// that one file does not crowd out others.
const FURTHER: u64 = 5;

/// The exponent of a place's share of the worth of the best place in its file.
const WORSE: f64 = 0.4;

/// A result before it is written.
pub(super) struct ResultDraft {
    path: String,
    lossy: bool,
    text: String,
    /// The offset of the first hit in the text.
    at: usize,
    start_line: u64,
    end_line: u64,
    defines: bool,
    is_anchor: bool,
}

impl ResultDraft {
    /// Escapes control characters in the path and the text.
    fn escaped(self) -> ResultDraft {
        let at = self
            .text
            .get(..self.at)
            .map_or(0, |text| escape_lines(text).len());
        ResultDraft {
            path: escape_name(&self.path).into_owned(),
            text: escape_lines(&self.text).into_owned(),
            at,
            ..self
        }
    }
}

impl RankedSearch<'_> {
    /// Reads the best files again, for their snippets.
    pub(super) fn places(
        &self,
        best: &[(&Candidate, u64, u64)],
        scorer: &Scorer,
        settings: Settings,
        options: &Retrieval<'_>,
        meaning: Option<&Meaning>,
        remarks: &mut Remarks,
    ) -> Vec<Ranked<ResultDraft>> {
        use rayon::prelude::*;
        let read: Vec<_> = best
            .par_iter()
            .map_init(
                || meaning.and_then(Comparison::with),
                |comparison, (candidate, ..)| {
                    let rarity = scorer.rarity();
                    let comparison = comparison.as_mut();
                    let per_file = to_usize(settings.per_file);
                    excerpts(
                        candidate,
                        rarity,
                        settings.snippet,
                        per_file,
                        options,
                        comparison,
                    )
                },
            )
            .collect();
        let reranked = reranked(best, &read);
        let mut places = Vec::new();
        for (((candidate, score, lexical), excerpts), counts) in best.iter().zip(read).zip(reranked)
        {
            let piece = scorer.piece(counts.share, &candidate.key);
            let meaning = scorer.meaning(counts.likeness, &candidate.key);
            let (score, lexical) = (score + piece + meaning, lexical + piece);
            let real = candidate.found.absolute();
            let shown = real.strip_prefix(self.root).unwrap_or(&candidate.path);
            let (path, lossy) = shown_path(shown);
            let Some(excerpts) = excerpts else {
                if !self.stop.is_raised() {
                    warn_changed(remarks, &path);
                }
                continue;
            };
            if excerpts.more {
                remarks.limit("per_file", settings.per_file, None, None);
            }
            let excerpts = excerpts.best;
            let most = excerpts
                .first()
                .map_or(1, |one| u64::from(one.chunk.worth).max(1));
            let row = places.len() as u64;
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
                    bucket: Bucket::of(&path),
                    item: ResultDraft {
                        path: path.clone(),
                        lossy: lossy || excerpt.lossy,
                        text: excerpt.text,
                        at: excerpt.at,
                        start_line: excerpt.chunk.start_line,
                        end_line: excerpt.chunk.end_line,
                        defines: excerpt.chunk.defines,
                        is_anchor: nth == 0,
                    },
                });
            }
        }
        places
    }

    /// Builds the results within the caps on snippets. Unless `raw` is set, control characters are
    /// escaped.
    pub(super) fn written(
        &self,
        chosen: Vec<Ranked<ResultDraft>>,
        raw: bool,
        remarks: &mut Remarks,
    ) -> Vec<Found> {
        let most = chosen.first().map_or(1, |one| one.score.max(1));
        let mut left = to_usize(self.caps.max_total_snippet_bytes);
        let each = to_usize(self.caps.max_snippet_bytes_per_result);
        let mut results = Vec::with_capacity(chosen.len());
        for Ranked { score, item, .. } in chosen {
            let item = if raw { item } else { item.escaped() };
            if item.lossy {
                let message = "some bytes are not valid UTF-8 and are shown as U+FFFD";
                remarks.warn("invalid_utf8", message, Some(&item.path));
            }
            let whole = item.text.len();
            if whole > each {
                let (cap, seen) = (each as u64, Some(whole as u64));
                remarks.limit("max_snippet_bytes_per_result", cap, seen, Some(&item.path));
            }
            if whole.min(each) > left {
                let cap = self.caps.max_total_snippet_bytes;
                remarks.limit("max_total_snippet_bytes", cap, None, None);
            }
            let shown = char_window(&item.text, item.at, each.min(left));
            let feeds = |text: &str| text.matches('\n').count() as u64;
            let start_line = item.start_line + feeds(&item.text[..shown.start]);
            // Without a snippet the lines are those of the whole place.
            let end_line = match shown.is_empty() {
                true => item.end_line,
                false => item.end_line - feeds(&item.text[shown.end..]),
            };
            let start_line = start_line.min(end_line);
            let content = item.text[shown].to_string();
            left -= content.len();
            results.push(Found {
                path: item.path,
                score: Score(score),
                match_pct: score * 100 / most,
                content,
                chunk_type: match item.defines {
                    true => "definition".to_string(),
                    false => "content".to_string(),
                },
                start_line,
                end_line,
                is_anchor: item.is_anchor,
            });
        }
        results
    }
}

/// Returns a range of at most `most` bytes around an offset, a quarter of it before the offset. It
/// begins and ends at character boundaries.
fn char_window(text: &str, at: usize, most: usize) -> std::ops::Range<usize> {
    if text.len() <= most {
        return 0..text.len();
    }
    let start = at.saturating_sub(most / 4).min(text.len() - most);
    let start = text.ceil_char_boundary(start);
    start
        ..text
            .floor_char_boundary(start.saturating_add(most).min(text.len()))
            .max(start)
}
