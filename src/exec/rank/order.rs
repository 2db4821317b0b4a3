//! The order of results, and which of them an answer has (`IPC.MUST.004`).

use std::cmp::Ordering;

use super::profile::{Bucket, Quota};

/// A place that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<T> {
    /// Its score, in ten-thousandths.
    pub score: u64,
    /// What the text alone contributes to that.
    pub lexical: u64,
    /// The bytes by which paths compare.
    pub path_key: Vec<u8>,
    /// Where it starts in its file.
    pub start: u64,
    /// The number of the file in the order of the tree.
    pub row: u64,
    /// Which kind of file it is in.
    pub bucket: Bucket,
    /// What is shown.
    pub item: T,
}

impl<T> Ranked<T> {
    /// Compares: the better first; of equal ones that with more in its text, then by path, place and number.
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

/// How many results an answer has.
#[derive(Clone, Copy, Debug)]
pub struct Select {
    /// In all.
    pub limit: usize,
    /// Of one kind of file, in percent of that.
    pub quota: Quota,
}

/// Sorts, and takes the best: within the quotas first, then, if room is left, of what these left out. Returns them in order. As much work as
/// sorting them.
pub fn select<T>(mut all: Vec<Ranked<T>>, select: Select) -> Vec<Ranked<T>> {
    all.sort_by(Ranked::compare);
    let mut left = select.quota.map(|percent| {
        let share = (select.limit as u64 * u64::from(percent)).div_ceil(100);
        usize::try_from(share).unwrap_or(usize::MAX)
    });
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
    let mut keep = within.into_iter();
    all.retain(|_| keep.next().unwrap_or(false));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(score: u64, path: &str, start: u64) -> Ranked<()> {
        Ranked {
            score,
            lexical: 0,
            path_key: path.as_bytes().to_vec(),
            start,
            row: 0,
            bucket: Bucket::of(path),
            item: (),
        }
    }

    fn paths(all: Vec<Ranked<()>>, limit: usize, quota: Quota) -> Vec<String> {
        let chosen = select(all, Select { limit, quota });
        let shown =
            |one: &Ranked<()>| format!("{}:{}", String::from_utf8_lossy(&one.path_key), one.start);
        chosen.iter().map(shown).collect()
    }

    #[test]
    fn ipc_must_004_ties_are_broken_in_one_way_whatever_order_they_come_in() {
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
        // Half of four may be documents.
        let half = [100, 100, 50, 100];
        let expected = ["a.md:0", "a.md:1", "a.md:2", "x.rs:0"];
        assert_eq!(paths(all.clone(), 4, half), expected);
        assert_eq!(paths(all.clone(), 2, half), ["a.md:0", "x.rs:0"]);
        all.pop();
        assert_eq!(paths(all, 4, half).len(), 4);
    }
}
