//! The order of results, and the selection of results for an answer.
//!
//! Results are ordered by their score, then by the score of their text, then by path and place. The
//! selection gives each kind of file its share of the answer, and fills free places with the best
//! of the other results.

use std::cmp::Ordering;

use super::profile::{Bucket, Quota};

/// A candidate result with its sort keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<T> {
    /// Its score, in ten-thousandths.
    pub score: u64,
    /// The part of the score that the text alone contributes.
    pub lexical: u64,
    /// The path in the byte form by which paths are compared.
    pub path_key: Vec<u8>,
    /// The start of the place in its file.
    pub start: u64,
    /// The number of the file in the order of the tree.
    pub row: u64,
    /// The kind of the file.
    pub bucket: Bucket,
    /// The result to show.
    pub item: T,
}

impl<T> Ranked<T> {
    /// Compares two results: higher score first, then higher lexical score, then path, start and
    /// row.
    pub fn compare(&self, other: &Ranked<T>) -> Ordering {
        other
            .score
            .cmp(&self.score)
            .then(other.lexical.cmp(&self.lexical))
            .then_with(|| self.path_key.cmp(&other.path_key))
            .then(self.start.cmp(&other.start))
            .then(self.row.cmp(&other.row))
    }
}

/// Limits on the results of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Select {
    /// The total number of results.
    pub limit: usize,
    /// The largest share of each kind of file, in percent of `limit`.
    pub quota: Quota,
}

impl Select {
    /// Returns how many results of each kind of file there may be, unless other kinds leave room.
    pub fn shares(&self) -> [usize; 4] {
        self.quota.map(|percent| {
            let share = (self.limit as u64 * u64::from(percent)).div_ceil(100);
            usize::try_from(share).unwrap_or(usize::MAX)
        })
    }
}

/// The results that were chosen for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<T> {
    /// The chosen results, in order.
    pub chosen: Vec<Ranked<T>>,
    /// Where the first result that `is_surplus` excluded would stand among the chosen ones. Absent
    /// if no excluded result would be among them.
    pub first_surplus: Option<usize>,
}

/// Chooses the best results within the quotas; if room is left, the best of the others fill it.
/// Results for which `is_surplus` is true are excluded. Takes as much time as sorting.
pub fn select<T>(
    mut all: Vec<Ranked<T>>,
    select: Select,
    is_surplus: impl Fn(&T) -> bool,
) -> Selection<T> {
    all.sort_by(Ranked::compare);
    let kept = all.iter().zip(within(&all, select));
    let mut kept = kept.filter_map(|(one, within)| within.then_some(one));
    let first_surplus = kept.position(|one| is_surplus(&one.item));
    all.retain(|one| !is_surplus(&one.item));
    let mut within = within(&all, select).into_iter();
    all.retain(|_| within.next().unwrap_or(false));
    Selection {
        chosen: all,
        first_surplus,
    }
}

/// Returns which of some results, in order, are chosen.
fn within<T>(all: &[Ranked<T>], select: Select) -> Vec<bool> {
    let mut left = select.shares();
    let mut within = vec![false; all.len()];
    let mut taken = 0;
    for (one, within) in all.iter().zip(&mut within) {
        let left = &mut left[one.bucket as usize];
        if taken < select.limit && *left > 0 {
            *left -= 1;
            *within = true;
            taken += 1;
        }
    }
    for within in &mut within {
        if taken < select.limit && !*within {
            *within = true;
            taken += 1;
        }
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(item: T, score: u64, path: &str, start: u64) -> Ranked<T> {
        Ranked {
            score,
            lexical: 0,
            path_key: path.as_bytes().to_vec(),
            start,
            row: 0,
            bucket: Bucket::of(path),
            item,
        }
    }

    fn one(score: u64, path: &str, start: u64) -> Ranked<()> {
        with((), score, path, start)
    }

    fn paths(all: Vec<Ranked<()>>, limit: usize, quota: Quota) -> Vec<String> {
        let chosen = select(all, Select { limit, quota }, |()| false).chosen;
        let shown =
            |one: &Ranked<()>| format!("{}:{}", String::from_utf8_lossy(&one.path_key), one.start);
        chosen.iter().map(shown).collect()
    }

    #[test]
    fn an_excluded_result_is_noticed_only_if_there_was_room_for_it() {
        let marks = [false, false, true, false].into_iter().enumerate();
        let all: Vec<_> = marks
            .map(|(nth, is_surplus)| with(is_surplus, 9 - nth as u64, "a.rs", 0))
            .collect();
        for (limit, first_surplus, count) in
            [(1, None, 1), (2, None, 2), (3, Some(2), 3), (9, Some(2), 3)]
        {
            let quota = [100; 4];
            let found = select(all.clone(), Select { limit, quota }, |is_surplus| {
                *is_surplus
            });
            assert_eq!(found.first_surplus, first_surplus, "{limit}");
            assert_eq!(found.chosen.len(), count, "{limit}");
            assert!(found.chosen.iter().all(|one| !one.item));
        }
    }

    #[test]
    fn ties_are_broken_in_one_way_whatever_order_results_come_in() {
        let lexical = Ranked {
            lexical: 1,
            ..one(5, "z.rs", 9)
        };
        let mut all = vec![
            one(9, "b.rs", 0),
            lexical,
            one(5, "a.rs", 1),
            one(5, "a.rs", 7),
            Ranked {
                row: 1,
                ..one(5, "a.rs", 7)
            },
            one(5, "b.rs", 0),
        ];
        let expected = paths(all.clone(), 10, [100; 4]);
        assert_eq!(
            expected,
            ["b.rs:0", "z.rs:9", "a.rs:1", "a.rs:7", "a.rs:7", "b.rs:0"]
        );
        for turn in 0..all.len() {
            all.rotate_left(1);
            all.swap(0, turn);
            assert_eq!(paths(all.clone(), 10, [100; 4]), expected);
        }
    }

    #[test]
    fn a_quota_leaves_room_for_others_but_none_unused() {
        let docs = |n: u64| one(100 - n, "a.md", n);
        let mut all: Vec<_> = (0..4).map(docs).collect();
        all.push(one(1, "x.rs", 0));
        // A quota of 50 percent of four results allows two documents.
        let half = [100, 100, 50, 100];
        let expected = ["a.md:0", "a.md:1", "a.md:2", "x.rs:0"];
        assert_eq!(paths(all.clone(), 4, half), expected);
        assert_eq!(paths(all.clone(), 2, half), ["a.md:0", "x.rs:0"]);
        all.pop();
        assert_eq!(paths(all, 4, half).len(), 4);
    }
}
