//! Sets of files, one bit for each rank.
//!
//! A *rank* is the position of a file in the catalog. (`exec::rank`, the ranking of answers, is
//! unrelated.) For example, `{0, 2}` holds the first and the third file. This module owns the
//! bitmaps for eligible files, candidates and results of globs, and their combination. A set takes
//! one bit per file of the catalog.

use std::ops::Range;

/// A set of ranks below a fixed limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSet {
    /// The bits, 64 ranks in each lane.
    lanes: Vec<u64>,
    len: u32,
}

impl RankSet {
    /// Returns the empty set for ranks below `len`.
    pub fn empty(len: u32) -> RankSet {
        RankSet {
            lanes: vec![0; (len as usize).div_ceil(64)],
            len,
        }
    }

    /// Returns the set of all ranks in a range, for ranks below `len`.
    pub fn of_range(range: Range<u32>, len: u32) -> RankSet {
        let mut set = RankSet::empty(len);
        for (n, lane) in set.lanes.iter_mut().enumerate() {
            *lane = ones(n, &(range.start.min(len)..range.end.min(len)));
        }
        set
    }

    /// Reads a set from bytes: rank `r` is bit `r % 8` of byte `r / 8`. Ignores bits beyond the
    /// last rank.
    pub fn from_bytes(bytes: &[u8], len: u32) -> RankSet {
        let mut set = RankSet::empty(len);
        for (lane, chunk) in set.lanes.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *lane = u64::from_le_bytes(whole);
        }
        let all = 0..len;
        if let Some(last) = set.lanes.len().checked_sub(1) {
            set.lanes[last] &= ones(last, &all);
        }
        set
    }

    /// Adds a rank. Returns false if the rank is not below the limit.
    #[inline]
    pub fn insert(&mut self, rank: u32) -> bool {
        if rank >= self.len {
            return false;
        }
        self.lanes[(rank / 64) as usize] |= 1 << (rank % 64);
        true
    }

    /// Adds rank `first + i` for each set bit `i` of a lane. Ignores ranks beyond the limit.
    #[inline]
    pub fn insert_lane(&mut self, first: usize, bits: u64) {
        let (lane, shift) = (first / 64, first % 64);
        let wide = u128::from(bits) << shift;
        let valid = 0..self.len;
        for (n, part) in [(lane, wide as u64), (lane + 1, (wide >> 64) as u64)] {
            if let Some(own) = self.lanes.get_mut(n) {
                *own |= part & ones(n, &valid);
            }
        }
    }

    /// Returns true if a rank is in the set.
    #[inline]
    pub fn contains(&self, rank: u32) -> bool {
        let lane = self.lanes.get((rank / 64) as usize);
        lane.is_some_and(|lane| lane >> (rank % 64) & 1 == 1)
    }

    /// Returns the number of ranks of a range in the set. Linear in the range, 64 ranks at a time.
    pub fn count(&self, range: Range<u32>) -> u64 {
        self.in_lanes(&range)
            .map(|(n, lane)| u64::from((lane & ones(n, &range)).count_ones()))
            .sum()
    }

    /// Returns the first rank of a range that is in the set.
    pub fn first(&self, range: Range<u32>) -> Option<u32> {
        self.in_lanes(&range).find_map(|(n, lane)| {
            let lane = lane & ones(n, &range);
            (lane != 0).then(|| n as u32 * 64 + lane.trailing_zeros())
        })
    }

    /// Returns the ranks of a range in the set, in ascending order.
    pub fn iter(&self, range: Range<u32>) -> impl Iterator<Item = u32> {
        self.in_lanes(&range).flat_map(move |(n, lane)| {
            let mut lane = lane & ones(n, &range);
            std::iter::from_fn(move || {
                let bit = (lane != 0).then(|| lane.trailing_zeros())?;
                lane &= lane - 1;
                Some(n as u32 * 64 + bit)
            })
        })
    }

    /// Adds the ranks that are in another set of the same files.
    pub fn unite(&mut self, other: &RankSet) {
        for (lane, other) in self.lanes.iter_mut().zip(&other.lanes) {
            *lane |= other;
        }
    }

    /// Removes the ranks that are in another set.
    pub fn subtract(&mut self, other: &RankSet) {
        for (lane, other) in self.lanes.iter_mut().zip(&other.lanes) {
            *lane &= !other;
        }
    }

    /// Removes a rank. Returns false if it was not in the set.
    pub fn remove(&mut self, rank: u32) -> bool {
        let had = self.contains(rank);
        if had {
            self.lanes[(rank / 64) as usize] &= !(1 << (rank % 64));
        }
        had
    }

    /// Returns true if no rank is in the set.
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| *lane == 0)
    }

    /// Returns the limit: every rank in the set is below it.
    pub fn capacity(&self) -> u32 {
        self.len
    }

    fn in_lanes<'a>(&'a self, range: &Range<u32>) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let end = range.end.min(self.len);
        let lanes = (range.start as usize / 64)..(end as usize).div_ceil(64);
        let start = lanes.start;
        let lanes = self.lanes.get(lanes).unwrap_or_default();
        lanes
            .iter()
            .enumerate()
            .map(move |(n, lane)| (start + n, *lane))
    }
}

/// Returns the bits of lane `n` that stand for ranks of a range.
#[inline]
fn ones(n: usize, range: &Range<u32>) -> u64 {
    let base = n as u64 * 64;
    let below = |end: u32| match u64::from(end).saturating_sub(base) {
        bits @ 0..64 => (1u64 << bits) - 1,
        _ => u64::MAX,
    };
    below(range.end) & !below(range.start)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lanes_are_inserted_anywhere(len in 0u32..300, first in 0usize..320, bits: u64, more: u64) {
            let mut set = RankSet::empty(len);
            set.insert_lane(first, bits);
            set.insert_lane(first + 7, more);
            let expected: Vec<u32> = (0..len)
                .filter(|&rank| {
                    let bit = |bits: u64, first: usize| {
                        (rank as usize).checked_sub(first).is_some_and(|n| n < 64 && bits >> n & 1 == 1)
                    };
                    bit(bits, first) || bit(more, first + 7)
                })
                .collect();
            prop_assert_eq!(set.iter(0..len).collect::<Vec<_>>(), expected);
            prop_assert_eq!(set.count(0..u32::MAX), set.iter(0..len).count() as u64);
        }

        #[test]
        fn a_set_is_a_set(
            len in 0u32..300,
            members in prop::collection::btree_set(0u32..400, 0..60),
            start in 0u32..320,
            end in 0u32..420,
        ) {
            let mut set = RankSet::empty(len);
            for &rank in &members {
                prop_assert_eq!(set.insert(rank), rank < len);
            }
            let expected: BTreeSet<u32> = members.iter().copied().filter(|&r| r < len).collect();
            let within: Vec<u32> =
                expected.iter().copied().filter(|r| (start..end).contains(r)).collect();
            prop_assert_eq!(set.iter(start..end).collect::<Vec<_>>(), within.clone());
            prop_assert_eq!(set.count(start..end), within.len() as u64);
            prop_assert_eq!(set.first(start..end), within.first().copied());
            prop_assert!((0..420).all(|rank| set.contains(rank) == expected.contains(&rank)));
            let mut cut = set.clone();
            cut.subtract(&RankSet::of_range(0..start, len));
            cut.subtract(&RankSet::of_range(end..len, len));
            prop_assert_eq!(cut.iter(0..len).collect::<Vec<_>>(), within.clone());
            let mut rest = set.clone();
            rest.subtract(&cut);
            let outside = expected.iter().copied().filter(|rank| !within.contains(rank));
            prop_assert_eq!(rest.iter(0..len).collect::<Vec<_>>(), outside.collect::<Vec<_>>());
            for &rank in &within {
                prop_assert!(cut.remove(rank));
                prop_assert!(!cut.remove(rank));
            }
            prop_assert!(cut.is_empty());
            let mut bytes = vec![0u8; (len as usize).div_ceil(8)];
            for rank in set.iter(0..len) {
                bytes[rank as usize / 8] |= 1 << (rank % 8);
            }
            prop_assert_eq!(RankSet::from_bytes(&bytes, len), set);
        }
    }
}
