//! Pieces of a pattern: a match with few edits contains at least one of them unchanged.
//!
//! **Why.** Let `n` edits be allowed. Take `n + 1` pieces of a text that the expression matches,
//! without overlap. Each edit destroys at most one piece, so one stays whole. For example, with one
//! edit a match of `search` contains `sea` or `rch`. Pieces are taken from the characters that
//! every match of an alternative contains in order. Only assertions may stand between the
//! characters of one piece.

use regex_syntax::hir::{Class, ClassUnicode, Hir};

use crate::index::plan::literals::{Run, literal_runs};

/// The most characters of a piece. A longer piece is truncated, since more characters hardly filter
/// better.
pub(crate) const PIECE_LIMIT: usize = 32;

/// Returns expressions of which every line within `level` edits of `hir` matches at least one. They
/// are as long as possible. Returns `None` if there are no such expressions.
pub(crate) fn pieces(hir: &Hir, level: u32) -> Option<Vec<Hir>> {
    let spines = literal_runs(hir)?;
    let mut pieces = Vec::new();
    for spine in &spines {
        for piece in split(&spine.runs, level as usize + 1)? {
            let classes = piece
                .iter()
                .map(|class| Hir::class(Class::Unicode(class.clone())));
            let piece = Hir::concat(classes.collect());
            if !pieces.contains(&piece) {
                pieces.push(piece);
            }
        }
    }
    Some(pieces)
}

/// Cuts `count` pieces out of runs, so that the shortest piece is as long as possible.
fn split(runs: &[Run], count: usize) -> Option<Vec<&[ClassUnicode]>> {
    let fits = |len: usize| runs.iter().map(|run| run.len() / len).sum::<usize>() >= count;
    let longest = runs.iter().map(Vec::len).max()?;
    // Longer pieces mean fewer pieces, so the longest possible length comes first.
    let len = (1..=longest).rev().find(|&len| fits(len))?;
    let mut left = count;
    let mut pieces = Vec::new();
    let mut by_len: Vec<&Run> = runs.iter().collect();
    by_len.sort_by_key(|run| std::cmp::Reverse(run.len()));
    for run in by_len {
        let here = (run.len() / len).min(left);
        left -= here;
        for n in 0..here {
            let (start, end) = (run.len() * n / here, run.len() * (n + 1) / here);
            pieces.push(&run[start..end.min(start + PIECE_LIMIT)]);
        }
    }
    Some(pieces)
}
