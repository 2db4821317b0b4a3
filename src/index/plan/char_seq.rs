//! Chains: consecutive positions of a text, each with the few characters that can stand there.
//!
//! This module owns the algebra of chains and its limits. A limit only makes callers drop
//! information: a chain never says more than the expression does.

use std::fmt;

/// Limit on the characters of a position, just above the 63 ASCII word characters. A larger
/// position multiplies the texts of a path faster than its three n-grams can rule them out.
pub(super) const MAX_SET: usize = 64;

/// Limit on the number of alternative chains. Alternatives beyond it still form a disjunction, but
/// are no longer multiplied with their neighbours.
pub(super) const MAX_CHAINS: usize = 64;

/// Limit on the positions of all alternative chains, which bounds the time of one step of the
/// analysis. A longer literal is cut in two that share the n-grams across the cut, so nothing is
/// lost.
pub(super) const MAX_POSITIONS: usize = 4096;

/// Number of positions on either side of a cut that together hold every n-gram across the cut.
pub(super) const EDGE: usize = 2;

/// The characters that can stand at one place of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Position {
    /// This character and no other.
    One(char),
    /// One of these characters. There are at least two, in ascending order.
    Of(Box<[char]>),
}

impl Position {
    pub(super) fn chars(&self) -> &[char] {
        match self {
            Position::One(c) => std::slice::from_ref(c),
            Position::Of(chars) => chars,
        }
    }

    /// Returns the character, if the position has only one.
    pub(super) fn single(&self) -> Option<char> {
        match self {
            Position::One(c) => Some(*c),
            Position::Of(_) => None,
        }
    }

    /// Creates a position from distinct characters in ascending order. Returns nothing for no
    /// characters.
    pub(super) fn new(chars: Vec<char>) -> Option<Position> {
        match chars[..] {
            [] => None,
            [one] => Some(Position::One(one)),
            _ => Some(Position::Of(chars.into())),
        }
    }
}

/// Writes a position in the syntax of expressions, for example `[0-9a]`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |c: char, f: &mut fmt::Formatter<'_>| {
            if matches!(c, '[' | ']' | '-' | '^') {
                write!(f, "\\{c}")
            } else {
                write!(f, "{}", c.escape_debug())
            }
        };
        let mut rest = match self {
            Position::One(c) => return write(*c, f),
            Position::Of(chars) => &chars[..],
        };
        f.write_str("[")?;
        while let Some(&first) = rest.first() {
            let run = rest
                .iter()
                .zip(first..=char::MAX)
                .take_while(|&(&c, expected)| c == expected)
                .count();
            let (run, after) = rest.split_at(run.max(1));
            rest = after;
            match run {
                [first, _, .., last] => {
                    write(*first, f)?;
                    f.write_str("-")?;
                    write(*last, f)?;
                }
                few => few.iter().try_for_each(|&c| write(c, f))?,
            }
        }
        f.write_str("]")
    }
}

/// A sequence of positions.
pub(super) type CharSeq = Vec<Position>;

/// Alternative chains. A chain without positions stands for the empty text.
pub(super) type CharSeqs = Vec<CharSeq>;

/// Returns the chains of the empty text.
pub(super) fn empty() -> CharSeqs {
    vec![CharSeq::new()]
}

/// Returns the total number of positions.
pub(super) fn positions(chains: &[CharSeq]) -> usize {
    chains.iter().map(Vec::len).sum()
}

fn is_empty_text(chains: &[CharSeq]) -> bool {
    matches!(chains, [only] if only.is_empty())
}

/// Concatenates every chain of `before` with every chain of `after`. Returns `before` as the error
/// if the product has more than `most` chains or too many positions.
pub(super) fn product(
    mut before: CharSeqs,
    after: &[CharSeq],
    most: usize,
) -> Result<CharSeqs, CharSeqs> {
    if is_empty_text(after) {
        return Ok(before);
    }
    if is_empty_text(&before) {
        return Ok(after.to_vec());
    }
    let size = positions(&before) * after.len() + positions(after) * before.len();
    if before.len() * after.len() > most || size > MAX_POSITIONS {
        return Err(before);
    }
    if let [after] = after {
        for chain in &mut before {
            chain.extend_from_slice(after);
        }
        return Ok(before);
    }
    let mut all = CharSeqs::with_capacity(before.len() * after.len());
    for start in &before {
        for end in after {
            all.push([start.as_slice(), end].concat());
        }
    }
    Ok(distinct(all))
}

/// Sorts the chains and drops duplicates.
pub(super) fn distinct(mut chains: CharSeqs) -> CharSeqs {
    chains.sort_unstable();
    chains.dedup();
    chains
}

/// Returns the first positions of every chain, as many as n-grams across a cut before them contain.
pub(super) fn heads(chains: &[CharSeq]) -> CharSeqs {
    distinct(
        chains
            .iter()
            .map(|chain| chain[..chain.len().min(EDGE)].to_vec())
            .collect(),
    )
}

/// Returns the last positions of every chain, as many as n-grams across a cut after them contain.
pub(super) fn tails(chains: &[CharSeq]) -> CharSeqs {
    distinct(
        chains
            .iter()
            .map(|chain| chain[chain.len().saturating_sub(EDGE)..].to_vec())
            .collect(),
    )
}

/// Returns the chains with which texts begin or end, one of `edges` each. If an edge is empty or
/// there are too many, nothing is known: the result is the empty text.
pub(super) fn known_edge(edges: CharSeqs) -> CharSeqs {
    let edges = distinct(edges);
    let unknown = edges.len() > MAX_CHAINS || edges.iter().any(Vec::is_empty);
    if unknown { empty() } else { edges }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(text: &str) -> CharSeq {
        text.chars().map(Position::One).collect()
    }

    fn texts(chains: &[CharSeq]) -> Vec<String> {
        chains
            .iter()
            .map(|chain| chain.iter().map(ToString::to_string).collect())
            .collect()
    }

    #[test]
    fn positions_are_written_as_classes() {
        let of = |chars: &str| Position::new(chars.chars().collect()).unwrap().to_string();
        assert_eq!(of("a"), "a");
        assert_eq!(of("]"), r"\]");
        assert_eq!(of("ab"), "[ab]");
        assert_eq!(of("0123456789abcf"), "[0-9a-cf]");
        assert_eq!(of("\t-"), r"[\t\-]");
        assert_eq!(of("a\u{10FFFE}\u{10FFFF}"), r"[a\u{10fffe}\u{10ffff}]");
        assert_eq!(Position::new(Vec::new()), None);
    }

    #[test]
    fn products_pair_everything_with_everything() {
        let (a, b) = (vec![chain("a"), chain("bb")], vec![chain("x"), chain("")]);
        let all = product(a.clone(), &b, MAX_CHAINS).unwrap();
        assert_eq!(texts(&all), ["a", "ax", "bb", "bbx"]);
        assert_eq!(product(a.clone(), &empty(), 1), Ok(a.clone()));
        assert_eq!(product(empty(), &a, 1), Ok(a.clone()));
        assert_eq!(product(a.clone(), &[], 1), Ok(vec![]));
    }

    #[test]
    fn products_that_grow_too_large_are_refused() {
        let (a, b) = (vec![chain("a"), chain("b")], vec![chain("x"), chain("y")]);
        assert_eq!(product(a.clone(), &b, 3), Err(a.clone()));
        assert_eq!(product(a.clone(), &b, 4).unwrap().len(), 4);
        let long = vec![chain(&"l".repeat(MAX_POSITIONS))];
        assert_eq!(product(long.clone(), &a[..1], 4), Err(long));
    }

    #[test]
    fn edges_hold_what_lies_across_a_cut() {
        let chains = vec![chain("abcd"), chain("xbcd"), chain("a"), chain("")];
        assert_eq!(texts(&heads(&chains)), ["", "a", "ab", "xb"]);
        assert_eq!(texts(&tails(&chains)), ["", "a", "cd"]);
        assert_eq!(known_edge(heads(&chains)), empty());
        assert_eq!(known_edge(heads(&chains[..2])).len(), 2);
    }
}
