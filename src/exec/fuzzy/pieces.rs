//! Pieces of a pattern of which a match with few edits must have one as it is.
//!
//! **Why.** Take any word that the expression matches, and in it `level + 1` pieces that do not overlap. Each edit changes, takes away
//! or parts at most one of them, so that `level` edits leave one whole. The pieces are taken from what every match of an
//! alternative has, in order: characters that follow each other without anything between them but assertions.

use regex_syntax::hir::{Class, ClassUnicode, Hir};

use crate::index::plan::spine::{Run, spines};

/// The most characters of a piece. Where it is there, its beginning is, and more of them tell no more.
pub(crate) const PIECE_LIMIT: usize = 32;

/// Returns expressions one of which every line that is within `level` edits of the expression matches; as long ones as possible. Nothing
/// if there are none.
pub(crate) fn pieces(hir: &Hir, level: u32) -> Option<Vec<Hir>> {
    let spines = spines(hir)?;
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

/// Cuts so many pieces out of runs, the shortest of them as long as possible.
fn split(runs: &[Run], count: usize) -> Option<Vec<&[ClassUnicode]>> {
    let fits = |len: usize| runs.iter().map(|run| run.len() / len).sum::<usize>() >= count;
    let longest = runs.iter().map(Vec::len).max()?;
    // The longer the pieces, the fewer there are.
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
