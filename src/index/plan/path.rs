//! Turns a chain into requirements: literals and paths that are worth testing.
//!
//! A literal is a run of positions with one character each. A path also has positions with several
//! characters: `ab[0-9]` has ten texts. This module decides which positions of a chain are usable,
//! where a chain is cut, and which paths can be expected to exclude files.

use std::collections::BTreeSet;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, is_nfc_quick};

use crate::format::nfc::is_normal;
use crate::index::gram::NGRAM_CHARS;
use crate::index::plan::FOLD;
use crate::index::plan::char_seq::{CharSeq, Position};
use crate::index::plan::requirement::{Conjunction, TextRequirement};

/// Limit on the n-grams of three adjacent positions, and so on the tests of one step of a path
/// search. Three digits have exactly that many.
pub(super) const MAX_WINDOW: usize = 1_000;

/// The assumed chance that a file holds some n-gram, as a power of two: the false-positive rate of
/// the filters plus a margin. It is used to judge paths while nothing is known of the files.
const HIT_LOG2: i32 = -5;

/// The largest expected share of files that a path may keep, as a power of two. Paths that keep
/// more are not worth their tests.
const WORTH_LOG2: i32 = -1;

/// Fixed-point unit of logarithms: 1024 stands for 1.
const UNIT: i32 = 1024;

/// Limits on the unused parts that are kept to be shown to users: their number, and the positions
/// of one part.
const MAX_SHOWN_PARTS: usize = 4;
const MAX_SHOWN_POSITIONS: usize = 64;

/// The reasons why parts of chains are not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnusedParts {
    /// A literal was too short.
    pub(super) short: bool,
    /// Normalization changes a literal.
    pub(super) normalization: bool,
    /// A path keeps too many files or has too many n-grams.
    pub(super) wide: bool,
    /// Some of these paths.
    pub(super) parts: Vec<CharSeq>,
}

impl UnusedParts {
    /// Records a path that keeps too many files or has too many n-grams.
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

/// Returns the requirements on a text that contains a text of this chain, as literals and paths.
///
/// With `fold`, the positions hold folded characters and are tested against folded n-grams.
pub(super) fn requirements(
    chain: &[Position],
    fold: bool,
    unused: &mut UnusedParts,
) -> Conjunction {
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

/// Returns the number of n-grams that are tested for a path. An n-gram counts once for each place
/// where it can stand.
pub(super) fn grams(chain: &[Position]) -> usize {
    window_sizes(chain).sum()
}

/// Returns the number of distinct n-grams of a path.
pub(super) fn distinct_grams(chain: &[Position]) -> usize {
    let mut distinct = BTreeSet::new();
    for window in chain.windows(NGRAM_CHARS) {
        if let [first, second, third] = window {
            distinct.extend(grams_of([first, second, third]));
        }
    }
    distinct.len()
}

/// Iterates over the n-grams of three adjacent positions. The last character changes first.
pub(super) fn grams_of(
    [first, second, third]: [&Position; NGRAM_CHARS],
) -> impl Iterator<Item = [char; NGRAM_CHARS]> {
    first.chars().iter().flat_map(move |&a| {
        let pairs = second.chars().iter();
        pairs.flat_map(move |&b| third.chars().iter().map(move |&c| [a, b, c]))
    })
}

/// Iterates over the number of n-grams of each three adjacent positions.
pub(super) fn window_sizes(
    chain: &[Position],
) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
    chain.windows(NGRAM_CHARS).map(|window| {
        let sizes = window.iter().map(|position| position.chars().len());
        sizes.product()
    })
}

/// Returns true if normalization never changes the character next to others of this kind: every
/// text of such characters is in Normalization Form C.
fn is_plain(c: char) -> bool {
    c < '\u{300}'
        || canonical_combining_class(c) == 0 && is_nfc_quick([c].into_iter()) == IsNormalized::Yes
}

/// Drops the characters of a class that no text in Normalization Form C has, such as the Kelvin
/// sign U+212A beside `k`. A file that has such a character is never excluded. A class of only such
/// characters stays unchanged.
pub(super) fn drop_unnormal(chars: &mut Vec<char>) {
    let occurs = |&c: &char| c < '\u{300}' || is_nfc_quick([c].into_iter()) != IsNormalized::No;
    if chars.iter().any(occurs) {
        chars.retain(occurs);
    }
}

/// Cuts a chain into segments whose texts are all in Normalization Form C, as given and with ASCII
/// letters in upper case. Plain characters can be combined freely. Other characters are used only
/// in a literal that normalization leaves unchanged as a whole. The rest of the chain is dropped.
pub(super) fn normal_segments<'a>(
    chain: &'a [Position],
    fold: bool,
    unused: &mut UnusedParts,
) -> Vec<&'a [Position]> {
    let plain: Vec<bool> = chain
        .iter()
        .map(|position| position.chars().iter().all(|&c| is_plain(c)))
        .collect();
    if plain.iter().all(|&plain| plain) {
        return vec![chain];
    }
    // A class could have a member that composes with the next character, if that is not plain.
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

/// Replaces every character by its fold, provided that no information is lost: each position that
/// has a letter also has its fold. Returns nothing if there is nothing to replace.
///
/// The filters hold the fold of each n-gram, so an exact search can test these few n-grams instead
/// of all spellings. For example, `[Kk][Mm]a` becomes `kma`.
fn lowered(segment: &[Position]) -> Option<CharSeq> {
    let mut changed = false;
    let mut lowered = CharSeq::with_capacity(segment.len());
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

/// Adds the literals and paths of a segment. Runs of single characters are literals. The remaining
/// parts are paths, cut at each pair of single characters. The cut loses nothing, because a path
/// search remembers only the last two characters.
fn add_needs(segment: &[Position], needs: &mut Conjunction, unused: &mut UnusedParts) {
    for run in segment.chunk_by(|a, b| a.single().is_some() && b.single().is_some()) {
        let text: Vec<char> = run.iter().filter_map(Position::single).collect();
        if text.len() >= NGRAM_CHARS {
            needs.insert(TextRequirement::Literal(text));
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

/// Adds the parts of a path that are worth testing: without windows that are too large, trimmed to
/// the parts that exclude most.
fn add_paths(path: &[Position], needs: &mut Conjunction, unused: &mut UnusedParts) {
    if path.len() < NGRAM_CHARS || path.iter().all(|position| position.single().is_some()) {
        return;
    }
    let mut start = 0;
    let mut wide: Option<(usize, usize)> = None;
    for (n, size) in window_sizes(path).enumerate() {
        if size > MAX_WINDOW {
            let end = n + NGRAM_CHARS;
            wide = match wide {
                // No position was left between the two windows.
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
/// Let `h` be the chance that a file holds some n-gram. A file holds all n-grams of one of the
/// path's texts with a probability of about `h^(n-2)` times the product of the sizes of the `n`
/// positions. So the weight of a position is its size times `h`, and the best part has the least
/// product of weights. Each part found takes linear time.
fn add_worthy(path: &[Position], needs: &mut Conjunction, unused: &mut UnusedParts) {
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
            needs.insert(TextRequirement::Path(part.to_vec()));
        }
        rest.extend([&path[..from], &path[to..]]);
    }
}

/// Returns the part, of at least three positions, with the least sum of weights, and that sum.
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
        // Of two equal starts, the later makes the shorter path.
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
