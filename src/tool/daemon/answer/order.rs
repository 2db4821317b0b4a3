//! Orders the files of a ranked search: by the scores of their terms, then by the pieces of code
//! that answer the question best.

use crate::exec::rank::{Bucket, PieceScores, Scorer, Select};
use crate::exec::retrieve::{Candidate, Excerpts};

/// The first files, which are compared by their best pieces, too. Neither this number nor the next
/// depends on the limit of the question, so a larger limit only adds results.
pub(super) const RERANKED: usize = 20;

/// The first files of each kind, which are compared in the same way.
pub(super) const RERANKED_OF_KIND: usize = 5;

/// A file, and its score by its terms.
pub(super) struct ScoredFile<'a> {
    pub(super) candidate: &'a Candidate,
    kind: Bucket,
    /// How much the file [counts](Scorer::factor).
    pub(super) factor: f64,
    /// Its score, in ten-thousandths.
    pub(super) score: u64,
    /// The part of the score that the text alone contributes.
    pub(super) lexical: u64,
}

/// Returns the scores of the pieces of each file. The score of a text is its share of the highest
/// one. `best` are the [best] files. Only the first of them count.
pub(super) fn reranked(best: &[ScoredFile<'_>], read: &[Option<Excerpts>]) -> Vec<PieceScores> {
    let mut is_compared = among_first(RERANKED, [RERANKED_OF_KIND; Bucket::ALL.len()]);
    let scores = best.iter().zip(read).map(|(file, excerpts)| {
        let excerpts = excerpts.as_ref().filter(|_| is_compared(file.kind));
        excerpts.map_or_else(PieceScores::default, |excerpts| excerpts.scores)
    });
    let mut scores: Vec<PieceScores> = scores.collect();
    let most = scores.iter().fold(1e-9, |most, one| one.text.max(most));
    for one in &mut scores {
        one.text /= most;
    }
    scores
}

/// Returns the best files, in order: those that may be in an answer, and those that are compared by
/// their pieces.
///
/// An answer takes the best of each kind up to its quota, and then the best of all. So it has no
/// file that is neither among the first `limit` of all nor within the quota of its kind.
pub(super) fn best<'a>(
    candidates: &'a [Candidate],
    scorer: &Scorer,
    limits: Select,
) -> Vec<ScoredFile<'a>> {
    let scored = candidates.iter().map(|candidate| {
        let kind = Bucket::of(&candidate.key);
        let factor = scorer.factor(&candidate.key, kind);
        let (score, lexical) = scorer.score(&candidate.document, factor);
        ScoredFile {
            candidate,
            kind,
            factor,
            score,
            lexical,
        }
    });
    let mut scored: Vec<ScoredFile<'_>> = scored.collect();
    // The sort is stable, so equal files keep the order of the tree.
    scored.sort_by_key(|file| std::cmp::Reverse((file.score, file.lexical)));
    let of_kind = limits.shares().map(|share| share.max(RERANKED_OF_KIND));
    let mut is_read = among_first(limits.limit.max(RERANKED), of_kind);
    scored.retain(|file| is_read(file.kind));
    scored
}

/// Returns a function that gets the kinds of files, the best file first. It returns true for the
/// first `all` files, and for so many of each kind.
fn among_first(all: usize, of_kind: [usize; Bucket::ALL.len()]) -> impl FnMut(Bucket) -> bool {
    let mut seen = 0;
    let mut seen_of_kind = [0; Bucket::ALL.len()];
    move |kind| {
        let kind = kind as usize;
        seen += 1;
        seen_of_kind[kind] += 1;
        seen <= all || seen_of_kind[kind] <= of_kind[kind]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select as of;

    use super::*;
    use crate::exec::rank::{Profile, Ranked, select};

    #[test]
    fn a_kind_has_its_files_even_after_many_of_other_kinds() {
        let mut paths = vec!["a.rs"; 4];
        paths.extend(["test_a.py"; 3]);
        paths.extend(["a.md", "b.rs"]);
        let kept = |all, of_kind| {
            let mut is_among_first = among_first(all, of_kind);
            let kept = paths.iter().filter(|path| is_among_first(Bucket::of(path)));
            kept.copied().collect::<Vec<_>>()
        };
        assert_eq!(kept(2, [0; 4]), ["a.rs", "a.rs"]);
        let of_kind = [1, 2, 1, 1];
        let expected = ["a.rs", "a.rs", "test_a.py", "test_a.py", "a.md"];
        assert_eq!(kept(2, of_kind), expected);
        assert_eq!(kept(0, of_kind), expected[1..]);
        assert_eq!(kept(9, [0; 4]), paths);
    }

    proptest! {
        // Results come in the order of their first scores.
        #[test]
        fn every_file_that_an_answer_may_have_is_read(
            paths in vec(of(vec!["a.rs", "test_a.py", "a.md", "a.json"]), 1..40),
            profile in of(Profile::ALL.to_vec()),
            limit in 1..10usize,
        ) {
            let limits = Select { limit, quota: profile.quota() };
            let mut is_read = among_first(limit, limits.shares());
            let read: Vec<bool> = paths.iter().map(|path| is_read(Bucket::of(path))).collect();
            let all = paths.iter().enumerate().map(|(nth, path)| Ranked {
                score: 100 - nth as u64,
                lexical: 0,
                path_key: Vec::new(),
                start: 0,
                row: 0,
                bucket: Bucket::of(path),
                item: nth,
            });
            let chosen = select(all.collect(), limits, |_| false).chosen;
            prop_assert_eq!(chosen.len(), limit.min(paths.len()));
            prop_assert!(chosen.iter().all(|one| read[one.item]), "{:?}", paths);
        }
    }
}
