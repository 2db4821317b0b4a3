//! From chains to literals and paths that are worth testing.
//!
//! Owns what may not be used of a chain, where a chain is cut, and what a path is good for.

use std::collections::BTreeSet;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, is_nfc_quick};

use crate::format::nfc::is_normal;
use crate::index::gram::NGRAM_CHARS;
use crate::index::plan::FOLD;
use crate::index::plan::chain::{Chain, Position};
use crate::index::plan::need::{Conjunction, Need};

/// The most n-grams of three adjacent positions, so that one step of a path search tests no more than that.
/// Three digits are just within it.
pub(super) const MAX_WINDOW: usize = 1_000;

/// How likely a file is to hold some n-gram, as a power of two, for judging paths before anything is known
/// about the files: what filters answer falsely, and a little more.
const HIT_LOG2: i32 = -5;

/// The largest share of files that a path may be expected to keep, as a power of two; one that keeps more is
/// not worth its tests.
const WORTH_LOG2: i32 = -1;

/// Logarithms are counted in units of this part of one.
const UNIT: i32 = 1024;

/// The most parts that are remembered for not being used, and the most positions of one of them: what people can
/// be shown.
const MAX_SHOWN_PARTS: usize = 4;
const MAX_SHOWN_POSITIONS: usize = 64;

/// Why parts of chains were not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unused {
    /// There was a literal, and it was too short.
    pub(super) short: bool,
    /// Normalization changes a literal.
    pub(super) normalization: bool,
    /// There was a path that keeps too many files or has too many n-grams.
    pub(super) wide: bool,
    /// Some of those paths.
    pub(super) parts: Vec<Chain>,
}

impl Unused {
    /// Notes a path that keeps too many files or has too many n-grams.
    pub(super) fn add_wide(&mut self, part: &[Position]) {
        self.wide = true;
        if self.parts.len() < MAX_SHOWN_PARTS
            && part.len() <= MAX_SHOWN_POSITIONS
            && !self.parts.iter().any(|known| known == part)
        {
            self.parts.push(part.to_vec());
        }
    }
}

/// Returns what a text must hold in which a text of this chain occurs, as literals and paths.
///
/// With `fold`, the positions hold folded characters and are tested against folded n-grams.
pub(super) fn requirements(chain: &[Position], fold: bool, unused: &mut Unused) -> Conjunction {
    let mut needs = Conjunction::new();
    for segment in normal_segments(chain, fold, unused) {
        if segment.len() < NGRAM_CHARS {
            unused.short |= segment.iter().any(|position| position.single().is_some());
            continue;
        }
        let lowered = if fold { None } else { lowered(segment) };
        add_needs(lowered.as_deref().unwrap_or(segment), &mut needs, unused);
    }
    needs
}

/// Returns the number of n-grams of a path, as often as they are tested: once for each place they can have.
pub(super) fn grams(chain: &[Position]) -> usize {
    window_sizes(chain).sum()
}

/// Returns the number of different n-grams of a path.
pub(super) fn distinct_grams(chain: &[Position]) -> usize {
    let mut distinct = BTreeSet::new();
    for window in chain.windows(NGRAM_CHARS) {
        if let [first, second, third] = window {
            distinct.extend(grams_of([first, second, third]));
        }
    }
    distinct.len()
}

/// Iterates over the n-grams of three adjacent positions, the last one changing first.
pub(super) fn grams_of(
    [first, second, third]: [&Position; NGRAM_CHARS],
) -> impl Iterator<Item = [char; NGRAM_CHARS]> {
    first.chars().iter().flat_map(move |&a| {
        let pairs = second.chars().iter();
        pairs.flat_map(move |&b| third.chars().iter().map(move |&c| [a, b, c]))
    })
}

/// Iterates over how many n-grams each three adjacent positions have.
pub(super) fn window_sizes(
    chain: &[Position],
) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
    chain.windows(NGRAM_CHARS).map(|window| {
        let sizes = window.iter().map(|position| position.chars().len());
        sizes.product()
    })
}

/// Returns true for characters that normalization leaves alone among others of their kind: any text of them is
/// in Normalization Form C.
fn is_plain(c: char) -> bool {
    c < '\u{300}'
        || canonical_combining_class(c) == 0 && is_nfc_quick([c].into_iter()) == IsNormalized::Yes
}

/// Drops the characters of a class that no text in Normalization Form C has, such as the Kelvin sign
/// U+212A beside `k`: a file that has one is never left out. A class of nothing else stays as it is.
pub(super) fn drop_unnormal(chars: &mut Vec<char>) {
    let occurs = |&c: &char| c < '\u{300}' || is_nfc_quick([c].into_iter()) != IsNormalized::No;
    if chars.iter().any(occurs) {
        chars.retain(occurs);
    }
}

/// Cuts a chain such that every text of every segment is in Normalization Form C, for what is searched and for
/// its letters in upper case: plain characters combine freely, others are used only in a literal
/// that normalization leaves alone as a whole. What is left out for that reason is not used at all.
pub(super) fn normal_segments<'a>(
    chain: &'a [Position],
    fold: bool,
    unused: &mut Unused,
) -> Vec<&'a [Position]> {
    let plain: Vec<bool> = chain
        .iter()
        .map(|position| position.chars().iter().all(|&c| is_plain(c)))
        .collect();
    if plain.iter().all(|&plain| plain) {
        return vec![chain];
    }
    // A class before a character that is not plain could hold one that composes with it.
    let mut usable: Vec<bool> = (0..chain.len())
        .map(|n| plain[n] && plain.get(n + 1).is_none_or(|&next| next))
        .collect();
    let mut from = 0;
    for run in chain.chunk_by(|a, b| a.single().is_some() == b.single().is_some()) {
        let text: String = run.iter().filter_map(Position::single).collect();
        if !text.is_empty() {
            let normal = is_normal(&text) && (!fold || is_normal(&text.to_ascii_uppercase()));
            unused.normalization |= !normal;
            usable[from..from + run.len()].fill(normal);
        }
        from += run.len();
    }
    let mut segments = Vec::new();
    let mut start = 0;
    for end in 1..=chain.len() {
        let joined = end < chain.len()
            && usable[end - 1]
            && usable[end]
            && (plain[end - 1] && plain[end]
                || chain[end - 1].single().is_some() && chain[end].single().is_some());
        if !joined {
            if usable[end - 1] {
                segments.push(&chain[start..end]);
            }
            start = end;
        }
    }
    segments
}

/// Replaces every character by its fold, if that loses nothing: if no position tells a letter from its fold.
/// The filters hold the fold of each n-gram beside it, so an exact search can test these few instead
/// of all spellings. Returns nothing if there is nothing to replace.
fn lowered(segment: &[Position]) -> Option<Chain> {
    let mut changed = false;
    let mut lowered = Chain::with_capacity(segment.len());
    for position in segment {
        let chars = position.chars();
        let mut folds = Vec::with_capacity(chars.len());
        for &c in chars {
            let folded = FOLD.fold(c);
            if folded == c {
                folds.push(c);
            } else if chars.binary_search(&folded).is_ok() {
                changed = true;
            } else {
                return None;
            }
        }
        lowered.push(Position::new(folds)?);
    }
    changed.then_some(lowered)
}

/// Adds the literals and paths of a segment. Two single characters side by side are all that a path search
/// remembers, so cutting there loses nothing: what is left between such pairs are paths, and
/// the runs of single characters are literals.
fn add_needs(segment: &[Position], needs: &mut Conjunction, unused: &mut Unused) {
    for run in segment.chunk_by(|a, b| a.single().is_some() && b.single().is_some()) {
        let text: Vec<char> = run.iter().filter_map(Position::single).collect();
        if text.len() >= NGRAM_CHARS {
            needs.insert(Need::Literal(text));
        }
    }
    let single = |n: usize| segment[n].single().is_some();
    let mut start = 0;
    for end in 1..segment.len() {
        let pair = single(end - 1) && single(end);
        if pair {
            add_paths(&segment[start..=end], needs, unused);
            start = end - 1;
        }
    }
    add_paths(&segment[start..], needs, unused);
}

/// Adds what is worth testing of a path: parts without windows that are too large, trimmed to what excludes
/// most.
fn add_paths(path: &[Position], needs: &mut Conjunction, unused: &mut Unused) {
    if path.len() < NGRAM_CHARS || path.iter().all(|position| position.single().is_some()) {
        return;
    }
    let mut start = 0;
    let mut wide: Option<(usize, usize)> = None;
    for (n, size) in window_sizes(path).enumerate() {
        if size > MAX_WINDOW {
            let end = n + NGRAM_CHARS;
            wide = match wide {
                // Nothing was left between the two.
                Some((from, _)) if start == n => Some((from, end)),
                other => {
                    if let Some((from, to)) = other {
                        unused.add_wide(&path[from..to]);
                    }
                    Some((n, end))
                }
            };
            add_worthy(&path[start..end - 1], needs, unused);
            start = n + 1;
        }
    }
    if let Some((from, to)) = wide {
        unused.add_wide(&path[from..to]);
    }
    add_worthy(&path[start..], needs, unused);
}

/// Adds the parts of a path that can be expected to exclude files.
///
/// A file keeps up with a path by chance if it holds all n-grams of one of its texts: with `h` the chance of an
/// n-gram, about `h^(n - 2)` times the product of the sizes of its `n` positions. So every position counts by
/// its size times `h`, and the best part is the one with the least product. Linear in the path for
/// every part that is found.
fn add_worthy(path: &[Position], needs: &mut Conjunction, unused: &mut Unused) {
    let mut rest = vec![path];
    while let Some(path) = rest.pop() {
        let Some((from, to, weight)) = best_part(path) else {
            continue;
        };
        if weight - 2 * HIT_LOG2 * UNIT > WORTH_LOG2 * UNIT {
            unused.add_wide(path);
            continue;
        }
        let part = &path[from..to];
        if part.iter().any(|position| position.single().is_none()) {
            needs.insert(Need::Path(part.to_vec()));
        }
        rest.extend([&path[..from], &path[to..]]);
    }
}

/// Returns the part of at least three positions whose weights have the least sum, with that sum.
fn best_part(path: &[Position]) -> Option<(usize, usize, i32)> {
    let mut sums = Vec::with_capacity(path.len() + 1);
    let mut sum = 0;
    sums.push(sum);
    for position in path {
        sum += weight(position);
        sums.push(sum);
    }
    let mut best: Option<(usize, usize, i32)> = None;
    let mut from = 0;
    for to in NGRAM_CHARS..=path.len() {
        // The later of two equal starts makes the shorter path.
        if sums[to - NGRAM_CHARS] >= sums[from] {
            from = to - NGRAM_CHARS;
        }
        let part = (from, to, sums[to] - sums[from]);
        if best.is_none_or(|(_, _, least)| part.2 < least) {
            best = Some(part);
        }
    }
    best
}

fn weight(position: &Position) -> i32 {
    let size = position.chars().len();
    ((size as f64).log2() * f64::from(UNIT)) as i32 + HIT_LOG2 * UNIT
}
