//! Requirements of approximate search: on a text that is within some edits of a match.
//!
//! This module turns the runs of an expression into windows of n-grams, and evaluates over a block
//! of files how many windows each file lacks. `SupersetSafe` in `plan` has the proof.

use regex_syntax::hir::{ClassUnicode, Hir};

use crate::index::gram::{Gram, NGRAM_CHARS};
use crate::index::plan::analysis::is_unusable;
use crate::index::plan::char_seq::{CharSeq, Position};
use crate::index::plan::evaluate::BlockRows;
use crate::index::plan::literals::{LiteralRuns, literal_runs};
use crate::index::plan::mask::Mask;
use crate::index::plan::path::{self, UnusedParts};
use crate::index::plan::requirement::{Conjunction, TextRequirement, any_of};
use crate::index::plan::{FOLD, Strategy};

/// Limit on the n-grams of three adjacent positions. Each is tested in each block, so several
/// adjacent classes are not worth the tests.
const MAX_WINDOW: usize = 64;

/// Limit on the edits. With more, only patterns of hundreds of characters could exclude files.
const MAX_EDITS: u32 = 64;

/// Runs of positions, in the order of every match, and the allowed edits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Approx {
    pub(super) edits: u32,
    pub(super) runs: Vec<CharSeq>,
}

/// Why there are no requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRequirement {
    /// The strategy does not use alternatives.
    Strategy,
    /// The expression has too many alternatives, or too long ones.
    TooManyNgrams,
    /// The allowed edits can change every required n-gram.
    Edits,
}

/// Returns the requirements on a text that contains a text within `edits` edits of a match of the
/// expression. The expression must match valid UTF-8 only.
pub(super) fn requirements(
    hir: &Hir,
    fold: bool,
    strategy: Strategy,
    edits: u32,
    unused: &mut UnusedParts,
) -> Result<Conjunction, NoRequirement> {
    let spines = literal_runs(hir).ok_or(NoRequirement::TooManyNgrams)?;
    if strategy == Strategy::RequiredLiteral && spines.len() > 1 {
        return Err(NoRequirement::Strategy);
    }
    if edits > MAX_EDITS {
        return Err(NoRequirement::Edits);
    }
    let needs = spines.iter().map(|spine| {
        let runs = usable(spine, fold, strategy, unused);
        match least_edits(&runs) > edits {
            true => Conjunction::from([TextRequirement::Approx(Approx { edits, runs })]),
            false => Conjunction::new(),
        }
    });
    let (needs, _) = any_of(needs.collect());
    match needs.is_empty() {
        true => Err(NoRequirement::Edits),
        false => Ok(needs),
    }
}

/// Returns the usable parts of the runs, cut at unusable positions.
fn usable(
    spine: &LiteralRuns,
    fold: bool,
    strategy: Strategy,
    unused: &mut UnusedParts,
) -> Vec<CharSeq> {
    let mut usable = Vec::new();
    for run in &spine.runs {
        let positions: Vec<Option<Position>> = run
            .iter()
            .map(|class| position(class, fold, strategy))
            .collect();
        for chain in positions.split(Option::is_none) {
            let chain: CharSeq = chain.iter().flatten().cloned().collect();
            for segment in path::normal_segments(&chain, fold, unused) {
                if segment.len() >= NGRAM_CHARS {
                    usable.push(segment.to_vec());
                }
            }
        }
    }
    usable
}

/// Returns the position of a class, or nothing if the class is not usable.
fn position(class: &ClassUnicode, fold: bool, strategy: Strategy) -> Option<Position> {
    let chars = class.iter().flat_map(|range| range.start()..=range.end());
    let mut chars: Vec<char> = chars.map(|c| if fold { FOLD.fold(c) } else { c }).collect();
    chars.sort_unstable();
    chars.dedup();
    path::drop_unnormal(&mut chars);
    let position = Position::new(chars)?;
    let usable = !position.chars().iter().any(|&c| is_unusable(c))
        && (strategy == Strategy::Boolean || position.single().is_some());
    usable.then_some(position)
}

/// Returns the least number of edits that can change every tested n-gram.
fn least_edits(runs: &[CharSeq]) -> u32 {
    let mut least = 0;
    for run in runs {
        let tested: Vec<bool> = path::window_sizes(run)
            .map(|size| size <= MAX_WINDOW)
            .collect();
        let mut at = 0;
        while at < tested.len() {
            match tested[at] {
                // One edit of the last character of this n-gram changes it and the next two.
                true => (least, at) = (least + 1, at + NGRAM_CHARS),
                false => at += 1,
            }
        }
    }
    least
}

impl Approx {
    /// Returns, run by run, the n-grams of each three adjacent positions. A window with too many
    /// n-grams is empty and is not tested.
    fn windows(&self) -> impl Iterator<Item = Vec<Vec<Gram>>> {
        self.runs.iter().map(|run| {
            let windows = run.windows(NGRAM_CHARS).zip(path::window_sizes(run));
            let grams = windows.map(|(window, size)| match (window, size) {
                ([a, b, c], ..=MAX_WINDOW) => path::grams_of([a, b, c]).map(Gram::new).collect(),
                _ => Vec::new(),
            });
            grams.collect()
        })
    }

    /// Returns the number of tested n-grams.
    pub(super) fn grams(&self) -> usize {
        self.windows().flatten().map(|window| window.len()).sum()
    }
}

/// The compiled form of [`Approx`].
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    edits: usize,
    /// For each run and each three adjacent positions, the numbers of the alternative n-grams.
    runs: Vec<Vec<Vec<u32>>>,
}

impl Compiled {
    pub(super) fn new(nearly: &Approx, mut number: impl FnMut(Gram) -> u32) -> Compiled {
        let mut numbered = |window: Vec<Gram>| window.into_iter().map(&mut number).collect();
        Compiled {
            edits: nearly.edits as usize,
            runs: nearly
                .windows()
                .map(|run| run.into_iter().map(&mut numbered).collect())
                .collect(),
        }
    }

    /// Returns the largest number of n-grams that are tested in one block.
    pub(super) fn cost(&self) -> usize {
        self.runs.iter().flatten().map(Vec::len).sum()
    }

    /// Returns the files of `live` that lack no more n-grams than the allowed edits can change.
    ///
    /// For each place in the runs and each number of edits, the evaluation computes a set of files.
    /// These files lack no n-grams before the place, except n-grams that so many edits change. One
    /// edit changes up to three consecutive n-grams. Each n-gram is tested at most once for each
    /// place where it stands. The rest takes time in proportion to the number of places times the
    /// number of edits.
    pub(super) fn evaluate(
        &self,
        rows: &mut impl BlockRows,
        live: &Mask,
        columns: &mut Vec<Mask>,
    ) -> Mask {
        let levels = self.edits + 1;
        columns.clear();
        // A ring buffer: the current place and the three places before it.
        columns.resize(levels * (NGRAM_CHARS + 1), *live);
        let column = |place: usize| place % (NGRAM_CHARS + 1) * levels;
        let mut most = *live;
        for run in &self.runs {
            // Place 0 of a run starts with the result of the run before.
            for (at, window) in run.iter().enumerate() {
                let (before, now) = (column(at), column(at + 1));
                let changed = column((at + 1).saturating_sub(NGRAM_CHARS));
                let mut there = Mask::EMPTY;
                for &gram in window {
                    let open = most.without(&there);
                    if open.is_zero() {
                        break;
                    }
                    there = there.or(&open.and(&rows.mask(gram, &open)));
                }
                if window.is_empty() {
                    there = most;
                }
                let mut fewer = Mask::EMPTY;
                for edits in 0..levels {
                    let all = columns[before + edits].and(&there).or(&fewer);
                    // The files at this place after one more edit, which may change the last three
                    // n-grams.
                    fewer = columns[changed + edits];
                    columns[now + edits] = all;
                }
                most = columns[now + levels - 1];
                if most.is_zero() {
                    return most;
                }
            }
            let end = column(run.len());
            columns.copy_within(end..end + levels, 0);
        }
        most
    }
}
