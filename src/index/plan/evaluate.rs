//! The compiled form of a plan, and its evaluation over blocks of files.
//!
//! The compiler numbers the distinct n-grams of the requirements. The evaluation asks [`BlockRows`]
//! for the row of an n-gram by its number, so it does not know how rows are stored. This module
//! owns the order of the tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::gram::{Gram, NGRAM_CHARS};
use crate::index::plan::approx;
use crate::index::plan::char_seq::Position;
use crate::index::plan::mask::Mask;
use crate::index::plan::path;
use crate::index::plan::requirement::{Conjunction, TextRequirement};

/// Access to the rows of one block: which files may hold an n-gram.
pub trait BlockRows {
    /// Returns a superset of the files of `within` that hold n-gram number `gram` of
    /// [`SupersetSafe::grams`](super::SupersetSafe::grams). Files outside `within` may be in the
    /// set too; the caller removes them.
    fn mask(&mut self, gram: u32, within: &Mask) -> Mask;
}

/// Buffers that evaluations share. They reach their final size in the first block of a plan.
#[derive(Debug, Default)]
pub struct Scratch {
    reached: Vec<Mask>,
    next: Vec<Mask>,
}

/// N-grams and parts that are all required. An empty value requires nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct AllOf {
    /// The numbers of n-grams, without duplicates.
    grams: Vec<u32>,
    parts: Vec<Part>,
}

/// A requirement that takes more than one n-gram to test.
#[derive(Clone, Debug)]
enum Part {
    AnyOf(Vec<AllOf>),
    Path(Path),
    Approx(approx::Compiled),
}

/// A chain: some text of its positions must have all of its n-grams.
#[derive(Clone, Debug)]
struct Path {
    /// The number of characters of each position.
    sizes: Vec<usize>,
    /// For each three adjacent positions, starting at the end where the path begins, the numbers of
    /// all their n-grams. They are ordered by the first character, then by the second, then by the
    /// third.
    grams: Vec<u32>,
}

/// Numbers the n-grams in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Compiler {
    numbers: BTreeMap<Gram, u32>,
    grams: Vec<Gram>,
}

impl Compiler {
    /// Returns the n-grams, in the order of their numbers.
    pub(super) fn into_grams(self) -> Vec<Gram> {
        self.grams
    }

    fn number(&mut self, gram: Gram) -> u32 {
        *self.numbers.entry(gram).or_insert_with(|| {
            self.grams.push(gram);
            (self.grams.len() - 1) as u32
        })
    }

    pub(super) fn all_of(&mut self, needs: &Conjunction) -> AllOf {
        let mut grams = BTreeSet::new();
        let mut parts = Vec::new();
        self.add(needs, &mut grams, &mut parts);
        AllOf::new(grams.into_iter().collect(), parts)
    }

    fn add(&mut self, needs: &Conjunction, grams: &mut BTreeSet<u32>, parts: &mut Vec<Part>) {
        for need in needs {
            match need {
                TextRequirement::Literal(text) => {
                    grams.extend(Gram::all_in(text).map(|gram| self.number(gram)));
                }
                TextRequirement::Path(chain) => parts.push(Part::Path(self.path(chain))),
                TextRequirement::Approx(nearly) => {
                    let compiled = approx::Compiled::new(nearly, |gram| self.number(gram));
                    parts.push(Part::Approx(compiled));
                }
                TextRequirement::AllOf(needs) => self.add(needs, grams, parts),
                TextRequirement::AnyOf(alternatives) => {
                    let mut all: Vec<AllOf> = alternatives
                        .iter()
                        .map(|need| self.all_of(&Conjunction::from([need.clone()])))
                        .collect();
                    grams.extend(take_common(&mut all));
                    if !all.iter().any(AllOf::is_free) {
                        parts.push(Part::AnyOf(all));
                    }
                }
            }
        }
    }

    /// Compiles a path to start at the end that has fewer n-grams. Files that are ruled out there
    /// need no tests of the others.
    fn path(&mut self, chain: &[Position]) -> Path {
        let backwards = path::window_sizes(chain)
            .rev()
            .lt(path::window_sizes(chain));
        let mut sets: Vec<&[char]> = chain.iter().map(Position::chars).collect();
        if backwards {
            sets.reverse();
        }
        let mut grams = Vec::new();
        for window in sets.windows(NGRAM_CHARS) {
            let &[first, second, third] = window else {
                continue;
            };
            for &a in first {
                for &b in second {
                    for &c in third {
                        let chars = if backwards { [c, b, a] } else { [a, b, c] };
                        grams.push(self.number(Gram::new(chars)));
                    }
                }
            }
        }
        Path {
            sizes: sets.iter().map(|set| set.len()).collect(),
            grams,
        }
    }
}

/// Removes the n-grams that all alternatives require and returns them, so that they are tested
/// once.
fn take_common(alternatives: &mut [AllOf]) -> Vec<u32> {
    let Some((first, others)) = alternatives.split_first() else {
        return Vec::new();
    };
    let common: Vec<u32> = first
        .grams
        .iter()
        .copied()
        .filter(|gram| {
            others
                .iter()
                .all(|other| other.grams.binary_search(gram).is_ok())
        })
        .collect();
    for one in alternatives {
        one.grams.retain(|gram| common.binary_search(gram).is_err());
    }
    common
}

impl AllOf {
    fn new(grams: Vec<u32>, parts: Vec<Part>) -> AllOf {
        let mut all = AllOf { grams, parts };
        all.parts.sort_by_key(Part::cost);
        all
    }

    /// Returns true if `self` requires nothing.
    pub(super) fn is_free(&self) -> bool {
        self.grams.is_empty() && self.parts.is_empty()
    }

    /// Returns the largest number of n-grams that are tested in one block.
    pub(super) fn cost(&self) -> usize {
        self.grams.len() + self.parts.iter().map(Part::cost).sum::<usize>()
    }

    /// Sorts the requirements by the number of files that fulfil them, fewest first. Returns an
    /// upper bound of the files that fulfil all. `frequencies` has a number for each n-gram; ties
    /// are ordered by `grams`.
    pub(super) fn order_by(&mut self, frequencies: &[u32], grams: &[Gram]) -> u64 {
        let frequency = |gram: u32| frequencies.get(gram as usize).copied().unwrap_or(u32::MAX);
        self.grams
            .sort_by_key(|&gram| (frequency(gram), grams.get(gram as usize)));
        let rarest = self.grams.first().map(|&gram| u64::from(frequency(gram)));
        let mut parts: Vec<(usize, u64, Part)> = std::mem::take(&mut self.parts)
            .into_iter()
            .map(|mut part| {
                let most = match &mut part {
                    Part::AnyOf(alternatives) => {
                        let mut ordered: Vec<(u64, AllOf)> = std::mem::take(alternatives)
                            .into_iter()
                            .map(|mut all| (all.order_by(frequencies, grams), all))
                            .collect();
                        let sum = ordered
                            .iter()
                            .fold(0u64, |sum, (files, _)| sum.saturating_add(*files));
                        // The most frequent alternative first: files that fulfil one need no
                        // further test.
                        ordered.sort_by_key(|(files, _)| std::cmp::Reverse(*files));
                        alternatives.extend(ordered.into_iter().map(|(_, all)| all));
                        sum
                    }
                    Part::Path(path) => path
                        .windows()
                        .map(|(_, grams)| grams.iter().map(|&g| u64::from(frequency(g))).sum())
                        .min()
                        .unwrap_or(u64::MAX),
                    // The n-grams of this part are always tested in the order of the text.
                    Part::Approx(_) => u64::MAX,
                };
                (part.cost(), most, part)
            })
            .collect();
        // Costs of the same size class count as equal.
        parts.sort_by_key(|&(cost, most, _)| (cost.max(1).ilog2() / 2, most));
        let fewest = parts.iter().map(|&(_, most, _)| most).min();
        self.parts
            .extend(parts.into_iter().map(|(_, _, part)| part));
        rarest.into_iter().chain(fewest).min().unwrap_or(u64::MAX)
    }

    /// Returns the files of `live` that may fulfil all requirements.
    #[inline]
    pub(super) fn evaluate(
        &self,
        rows: &mut impl BlockRows,
        mut live: Mask,
        scratch: &mut Scratch,
    ) -> Mask {
        for &gram in &self.grams {
            if live.is_zero() {
                return live;
            }
            live = live.and(&rows.mask(gram, &live));
        }
        for part in &self.parts {
            if live.is_zero() {
                return live;
            }
            live = match part {
                Part::AnyOf(alternatives) => any_of(alternatives, rows, &live, scratch),
                Part::Path(path) => path.evaluate(rows, &live, scratch),
                Part::Approx(nearly) => nearly.evaluate(rows, &live, &mut scratch.reached),
            };
        }
        live
    }
}

/// Returns the files of `live` that may fulfil some alternative.
fn any_of(
    alternatives: &[AllOf],
    rows: &mut impl BlockRows,
    live: &Mask,
    scratch: &mut Scratch,
) -> Mask {
    let mut found = Mask::EMPTY;
    for all in alternatives {
        let open = live.without(&found);
        if open.is_zero() {
            break;
        }
        found = found.or(&all.evaluate(rows, open, scratch));
    }
    found
}

impl Part {
    fn cost(&self) -> usize {
        match self {
            Part::AnyOf(alternatives) => alternatives.iter().map(AllOf::cost).sum(),
            Part::Path(path) => path.grams.len(),
            Part::Approx(nearly) => nearly.cost(),
        }
    }
}

impl Path {
    /// Iterates over the sizes of each three adjacent positions and the numbers of their n-grams.
    fn windows(&self) -> impl Iterator<Item = ([usize; NGRAM_CHARS], &[u32])> {
        let mut rest = &self.grams[..];
        self.sizes.windows(NGRAM_CHARS).filter_map(move |sizes| {
            let (window, after) = rest.split_at(sizes.iter().product());
            rest = after;
            Some((sizes.try_into().ok()?, window))
        })
    }

    /// Returns the files of `live` in which some text of the path has all of its n-grams.
    ///
    /// The search visits the positions in order. For each pair of characters that the last two
    /// positions can take, it keeps the files in which some text reaches that pair. An n-gram is
    /// tested at most once for each place where it stands. It is tested only for files that reach
    /// its first two characters and do not yet reach its last two by another way.
    fn evaluate(&self, rows: &mut impl BlockRows, live: &Mask, scratch: &mut Scratch) -> Mask {
        let Scratch { reached, next } = scratch;
        let pairs = match self.sizes[..] {
            [first, second, ..] => first * second,
            _ => return *live,
        };
        reached.clear();
        reached.resize(pairs, *live);
        for ([_, seconds, thirds], grams) in self.windows() {
            next.clear();
            next.resize(seconds * thirds, Mask::EMPTY);
            let mut any = Mask::EMPTY;
            for (pair, (from, grams)) in reached.iter().zip(grams.chunks_exact(thirds)).enumerate()
            {
                if from.is_zero() {
                    continue;
                }
                let to = &mut next[pair % seconds * thirds..][..thirds];
                for (to, &gram) in to.iter_mut().zip(grams) {
                    let open = from.without(to);
                    if !open.is_zero() {
                        *to = to.or(&open.and(&rows.mask(gram, &open)));
                    }
                }
                for to in to {
                    any = any.or(to);
                }
            }
            if any.is_zero() {
                return any;
            }
            std::mem::swap(reached, next);
        }
        reached.iter().fold(Mask::EMPTY, |all, mask| all.or(mask))
    }
}
