//! What a text must hold that is within some edits of what an expression matches.
//!
//! Owns the way from runs of characters to windows of n-grams that edits can change, and the evaluation of these over blocks of files.

use regex_syntax::hir::{ClassUnicode, Hir};

use crate::index::gram::{Gram, NGRAM_CHARS};
use crate::index::plan::analysis::is_unusable;
use crate::index::plan::chain::{Chain, Position};
use crate::index::plan::evaluate::BlockRows;
use crate::index::plan::mask::Mask;
use crate::index::plan::need::{Conjunction, Need, any_of};
use crate::index::plan::path::{self, Unused};
use crate::index::plan::spine::{Spine, spines};
use crate::index::plan::{FOLD, Strategy};

/// The most n-grams of three adjacent positions. Each is tested in each block, so that a few classes next to each other are not
/// worth it.
const MAX_WINDOW: usize = 64;

/// The most edits that are planned for. With more of them whatever is left to be excluded takes a pattern of hundreds of characters.
const MAX_EDITS: u32 = 64;

/// Runs of positions, in the order in which every match has them, and how many edits there may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nearly {
    pub(super) edits: u32,
    pub(super) runs: Vec<Chain>,
}

/// Why there are no requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Free {
    /// The strategy uses no alternatives.
    Strategy,
    /// There are too many alternatives, or too much of them.
    TooManyNgrams,
    /// So many edits can change every n-gram that is required.
    Edits,
}

/// Returns what a text must hold in which something is within `edits` edits of a text of the expression, which matches valid UTF-8
/// only.
pub(super) fn requirements(
    hir: &Hir,
    fold: bool,
    strategy: Strategy,
    edits: u32,
    unused: &mut Unused,
) -> Result<Conjunction, Free> {
    let spines = spines(hir).ok_or(Free::TooManyNgrams)?;
    if strategy == Strategy::RequiredLiteral && spines.len() > 1 {
        return Err(Free::Strategy);
    }
    if edits > MAX_EDITS {
        return Err(Free::Edits);
    }
    let needs = spines.iter().map(|spine| {
        let runs = usable(spine, fold, strategy, unused);
        match least_edits(&runs) > edits {
            true => Conjunction::from([Need::Nearly(Nearly { edits, runs })]),
            false => Conjunction::new(),
        }
    });
    let (needs, _) = any_of(needs.collect());
    match needs.is_empty() {
        true => Err(Free::Edits),
        false => Ok(needs),
    }
}

/// Returns what of the runs can be looked for in an index, cut where something can't.
fn usable(spine: &Spine, fold: bool, strategy: Strategy, unused: &mut Unused) -> Vec<Chain> {
    let mut usable = Vec::new();
    for run in &spine.runs {
        let positions: Vec<Option<Position>> = run
            .iter()
            .map(|class| position(class, fold, strategy))
            .collect();
        for chain in positions.split(Option::is_none) {
            let chain: Chain = chain.iter().flatten().cloned().collect();
            for segment in path::normal_segments(&chain, fold, unused) {
                if segment.len() >= NGRAM_CHARS {
                    usable.push(segment.to_vec());
                }
            }
        }
    }
    usable
}

/// Returns the characters of a class that may be used.
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

/// Returns how many edits can change every n-gram that is tested.
fn least_edits(runs: &[Chain]) -> u32 {
    let mut least = 0;
    for run in runs {
        let tested: Vec<bool> = path::window_sizes(run)
            .map(|size| size <= MAX_WINDOW)
            .collect();
        let mut at = 0;
        while at < tested.len() {
            match tested[at] {
                // One edit of the last character of this n-gram.
                true => (least, at) = (least + 1, at + NGRAM_CHARS),
                false => at += 1,
            }
        }
    }
    least
}

impl Nearly {
    /// Returns the n-grams of each three adjacent positions, run by run; none where there are too many to be tested.
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

    /// Returns how many n-grams are tested.
    pub(super) fn grams(&self) -> usize {
        self.windows().flatten().map(|window| window.len()).sum()
    }
}

/// The compiled form.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    edits: usize,
    /// For each run and each three adjacent positions, the numbers of the n-grams of which one has to be there.
    runs: Vec<Vec<Vec<u32>>>,
}

impl Compiled {
    pub(super) fn new(nearly: &Nearly, mut number: impl FnMut(Gram) -> u32) -> Compiled {
        let mut numbered = |window: Vec<Gram>| window.into_iter().map(&mut number).collect();
        Compiled {
            edits: nearly.edits as usize,
            runs: nearly
                .windows()
                .map(|run| run.into_iter().map(&mut numbered).collect())
                .collect(),
        }
    }

    /// Returns the most n-grams that are tested in one block.
    pub(super) fn cost(&self) -> usize {
        self.runs.iter().flatten().map(Vec::len).sum()
    }

    /// Returns the files of `live` that lack no more n-grams than so many edits can change.
    ///
    /// For each place of the runs and each number of edits it knows the files in which all n-grams before that place are there but for
    /// those that so many edits change, each of them up to three that follow each other. Tests each n-gram at most once for each place
    /// where it stands; takes time in proportion to these, plus the places times the edits.
    pub(super) fn evaluate(
        &self,
        rows: &mut impl BlockRows,
        live: &Mask,
        columns: &mut Vec<Mask>,
    ) -> Mask {
        let levels = self.edits + 1;
        columns.clear();
        // The places up to three before the current one, in turn.
        columns.resize(levels * (NGRAM_CHARS + 1), *live);
        let column = |place: usize| place % (NGRAM_CHARS + 1) * levels;
        let mut most = *live;
        for run in &self.runs {
            // Where the run begins, it is as where the last one ended, which is at place 0.
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
                    // What one edit more may lack.
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
