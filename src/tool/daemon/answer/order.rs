//! Orders the files of a ranked search: by the scores of their terms, then by the pieces of code
//! that answer the question best.

use crate::exec::rank::{Bucket, Scorer};
use crate::exec::retrieve::{Candidate, Excerpts};

/// The number of files of each kind that are compared by their best pieces, too. It does not depend
/// on the limit of the question, so that a larger limit only adds results.
pub(super) const RERANKED: usize = 30;

/// What the best pieces of a file add to its score.
#[derive(Clone, Copy, Default)]
pub(super) struct Reranked {
    /// The score of the best piece, as a share of the highest one.
    pub(super) share: f64,
    /// How alike the meanings of the question and of a piece are.
    pub(super) likeness: f64,
}

/// Returns what the pieces of each file add. Only the best files of each kind count.
pub(super) fn reranked(
    best: &[(&Candidate, u64, u64)],
    read: &[Option<Excerpts>],
) -> Vec<Reranked> {
    let mut taken = [0; Bucket::ALL.len()];
    let counts = best.iter().zip(read).map(|((candidate, ..), excerpts)| {
        let taken = &mut taken[Bucket::of(&candidate.key) as usize];
        *taken += 1;
        let excerpts = excerpts.as_ref().filter(|_| *taken <= RERANKED);
        excerpts.map_or_else(Reranked::default, |excerpts| Reranked {
            share: excerpts.piece,
            likeness: excerpts.likeness,
        })
    });
    let mut counts: Vec<Reranked> = counts.collect();
    let most = counts.iter().fold(1e-9, |most, one| one.share.max(most));
    for one in &mut counts {
        one.share /= most;
    }
    counts
}

/// Returns the best files: `limit` of each bucket, since a quota may need as many.
pub(super) fn best<'a>(
    candidates: &'a [Candidate],
    scorer: &Scorer,
    limit: usize,
) -> Vec<(&'a Candidate, u64, u64)> {
    let mut scored: Vec<(&Candidate, u64, u64)> = candidates
        .iter()
        .map(|candidate| {
            let (score, lexical) = scorer.score(&candidate.document, &candidate.key);
            (candidate, score, lexical)
        })
        .collect();
    // The sort is stable, so equal files keep the order of the tree.
    scored.sort_by_key(|(_, score, lexical)| std::cmp::Reverse((*score, *lexical)));
    let mut taken = [0; Bucket::ALL.len()];
    scored.retain(|(candidate, ..)| {
        let taken = &mut taken[Bucket::of(&candidate.key) as usize];
        *taken += 1;
        *taken <= limit
    });
    scored
}
