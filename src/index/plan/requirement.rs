//! Requirements on the text of a file, and the algebra of requirements.
//!
//! A [`TextRequirement`] is one requirement, for example that the literal `kmalloc` occurs. A
//! [`Conjunction`] requires all of its members. This module combines, compares and simplifies them;
//! `evaluate` compiles the result. A simplification may require less, never more, so that no
//! matching file is excluded.

use std::collections::BTreeSet;

use crate::index::gram::NGRAM_CHARS;
use crate::index::plan::approx::Approx;
use crate::index::plan::char_seq::{CharSeq, Position};
use crate::index::plan::path::{self, UnusedParts};

/// Size limit for comparing the requirements of a conjunction with each other, which takes
/// quadratic time. Larger conjunctions keep implied requirements, which are then tested needlessly.
const MAX_COMPARED: usize = 4096;

/// Requirements that all apply. An empty conjunction requires nothing.
pub(super) type Conjunction = BTreeSet<TextRequirement>;

/// A requirement on a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextRequirement {
    /// This text of at least three characters occurs.
    Literal(Vec<char>),
    /// A text occurs that has one character of each of these positions. There are at least three.
    Path(CharSeq),
    /// Texts of these positions occur, except for the changes of a limited number of edits.
    Approx(Approx),
    /// All of these hold.
    AllOf(Conjunction),
    /// At least one of these holds. An empty set cannot be fulfilled.
    AnyOf(BTreeSet<TextRequirement>),
}

impl TextRequirement {
    /// The requirement that no text fulfils.
    pub(super) fn never() -> TextRequirement {
        TextRequirement::AnyOf(BTreeSet::new())
    }
}

/// Returns the number of characters and positions, which bounds the time of a comparison.
fn size<'a>(needs: impl IntoIterator<Item = &'a TextRequirement>) -> usize {
    let one = |need: &TextRequirement| match need {
        TextRequirement::Literal(text) => text.len(),
        TextRequirement::Path(chain) => chain.len(),
        TextRequirement::Approx(nearly) => nearly.runs.iter().map(Vec::len).sum(),
        TextRequirement::AllOf(needs) | TextRequirement::AnyOf(needs) => size(needs),
    };
    needs.into_iter().map(one).sum()
}

/// Returns the requirements of both conjunctions.
pub(super) fn both(mut one: Conjunction, mut other: Conjunction) -> Conjunction {
    if one.len() < other.len() {
        std::mem::swap(&mut one, &mut other);
    }
    one.extend(other);
    one
}

/// Requires at least one of the alternatives. If one of them requires nothing, so does the result.
/// The flag is true if some of the alternatives, but not all, require nothing.
pub(super) fn any_of(alternatives: Vec<Conjunction>) -> (Conjunction, bool) {
    let free = alternatives.iter().filter(|needs| needs.is_empty()).count();
    if free > 0 {
        return (Conjunction::new(), free < alternatives.len());
    }
    let mut distinct: BTreeSet<Conjunction> = alternatives
        .into_iter()
        .filter(|needs| !needs.contains(&TextRequirement::never()))
        .collect();
    // The requirements that all alternatives share become requirements of the result. If an
    // alternative has no others, the result requires only the shared ones.
    let common = common(&distinct);
    if !common.is_empty() {
        distinct = distinct
            .into_iter()
            .map(|needs| needs.difference(&common).cloned().collect())
            .collect();
        if distinct.contains(&Conjunction::new()) {
            return (common, false);
        }
    }
    let mut all = distinct.into_iter();
    let needs = match (all.next(), all.next()) {
        (None, _) => Conjunction::from([TextRequirement::never()]),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let alternatives = [first, second].into_iter().chain(all).map(as_one);
            Conjunction::from([TextRequirement::AnyOf(alternatives.collect())])
        }
    };
    (both(common, needs), false)
}

/// Returns the requirements that are in all conjunctions.
fn common(all: &BTreeSet<Conjunction>) -> Conjunction {
    let mut rest = all.iter();
    let mut common = rest.next().cloned().unwrap_or_default();
    for needs in rest {
        if common.is_empty() {
            break;
        }
        common.retain(|need| needs.contains(need));
    }
    common
}

fn as_one(mut needs: Conjunction) -> TextRequirement {
    match needs.pop_first() {
        Some(only) if needs.is_empty() => only,
        Some(first) => {
            needs.insert(first);
            TextRequirement::AllOf(needs)
        }
        None => TextRequirement::AllOf(needs),
    }
}

/// The cost that requirements may have in one block of files.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The number of n-grams of paths that may still be tested.
    pub(super) path_grams: usize,
    /// Parts that are not used: from the analysis, and paths dropped for lack of `path_grams`.
    pub(super) unused: UnusedParts,
}

/// Brings requirements into the form that is evaluated. Drops requirements that others imply, and
/// paths that cost too much.
pub(super) fn settle(needs: Conjunction, allowance: &mut Allowance) -> Conjunction {
    let mut settled = Conjunction::new();
    for need in needs {
        match need {
            TextRequirement::Literal(_) => {
                settled.insert(need);
            }
            TextRequirement::Path(chain) => {
                let grams = path::grams(&chain);
                if grams <= allowance.path_grams {
                    allowance.path_grams -= grams;
                    settled.insert(TextRequirement::Path(chain));
                } else {
                    allowance.unused.add_wide(&chain);
                }
            }
            TextRequirement::Approx(nearly) => {
                let grams = nearly.grams();
                if grams <= allowance.path_grams {
                    allowance.path_grams -= grams;
                    settled.insert(TextRequirement::Approx(nearly));
                } else {
                    allowance.unused.wide = true;
                }
            }
            TextRequirement::AllOf(needs) => settled.append(&mut settle(needs, allowance)),
            TextRequirement::AnyOf(alternatives) => {
                let alternatives = alternatives
                    .into_iter()
                    .map(|need| settle(Conjunction::from([need]), allowance))
                    .collect();
                settled.append(&mut any_of(drop_stricter(alternatives)).0);
            }
        }
    }
    drop_implied(settled)
}

/// Returns true if some requirement tests all n-grams of a chain.
pub(super) fn is_used<'a>(
    needs: impl IntoIterator<Item = &'a TextRequirement>,
    part: &[Position],
) -> bool {
    needs.into_iter().any(|need| match need {
        TextRequirement::Literal(_) | TextRequirement::Approx(_) => false,
        TextRequirement::Path(chain) => chain.windows(part.len()).any(|window| window == part),
        TextRequirement::AllOf(needs) | TextRequirement::AnyOf(needs) => is_used(needs, part),
    })
}

/// Drops requirements that another one implies: literals within a longer literal, paths within a
/// longer path, and disjunctions of which another requirement implies an alternative.
fn drop_implied(needs: Conjunction) -> Conjunction {
    if needs.len() < 2 || size(&needs) > MAX_COMPARED {
        return needs;
    }
    let implied: Vec<TextRequirement> = needs
        .iter()
        .filter(|&need| {
            needs
                .iter()
                .any(|other| other != need && implies(other, need))
        })
        .cloned()
        .collect();
    let mut needs = needs;
    for need in &implied {
        needs.remove(need);
    }
    needs
}

/// Drops alternatives that require everything another alternative does.
fn drop_stricter(mut alternatives: Vec<Conjunction>) -> Vec<Conjunction> {
    if size(alternatives.iter().flatten()) > MAX_COMPARED {
        return alternatives;
    }
    let mut n = 0;
    while n < alternatives.len() {
        let needs = &alternatives[n];
        let weaker = |other: &Conjunction| {
            let implied =
                |need: &TextRequirement| needs.iter().any(|own| own == need || implies(own, need));
            other.iter().all(implied)
        };
        // Only alternatives that are still in the list count, so one of two equal ones stays.
        if (alternatives.iter().enumerate()).any(|(m, other)| m != n && weaker(other)) {
            alternatives.remove(n);
        } else {
            n += 1;
        }
    }
    alternatives
}

/// Returns true if every text that fulfils `one` fulfils `other`. Detects only implications that
/// are visible without further analysis.
fn implies(one: &TextRequirement, other: &TextRequirement) -> bool {
    match (one, other) {
        (TextRequirement::Literal(long), TextRequirement::Literal(part)) => contains(long, part),
        (TextRequirement::Path(long), TextRequirement::Path(part)) => contains(long, part),
        (one, TextRequirement::AnyOf(alternatives)) => alternatives
            .iter()
            .any(|need| need == one || implies(one, need)),
        _ => false,
    }
}

fn contains<T: PartialEq>(long: &[T], part: &[T]) -> bool {
    part.len() >= NGRAM_CHARS && long.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::plan::char_seq::Position;

    fn literal(text: &str) -> TextRequirement {
        TextRequirement::Literal(text.chars().collect())
    }

    fn all(needs: &[TextRequirement]) -> Conjunction {
        needs.iter().cloned().collect()
    }

    fn settled(needs: Conjunction) -> Conjunction {
        let mut allowance = Allowance {
            path_grams: 0,
            unused: UnusedParts::default(),
        };
        settle(needs, &mut allowance)
    }

    #[test]
    fn an_alternative_that_requires_nothing_frees_all() {
        let foo = all(&[literal("foo")]);
        assert_eq!(any_of(vec![foo.clone(), all(&[])]), (all(&[]), true));
        assert_eq!(any_of(vec![all(&[]), all(&[])]), (all(&[]), false));
        assert_eq!(any_of(vec![foo.clone(), foo.clone()]), (foo.clone(), false));
        assert_eq!(any_of(vec![]), (all(&[TextRequirement::never()]), false));
        let never = all(&[TextRequirement::never(), literal("bar")]);
        assert_eq!(any_of(vec![never, foo.clone()]), (foo, false));
    }

    #[test]
    fn what_is_implied_is_dropped() {
        let either = TextRequirement::AnyOf(all(&[literal("oob"), literal("xyz")]));
        let needs = all(&[literal("foo"), literal("foobar"), literal("bar"), either]);
        assert_eq!(settled(needs), all(&[literal("foobar")]));
        let needs = all(&[literal("foo"), literal("bar")]);
        assert_eq!(settled(needs.clone()), needs);
    }

    #[test]
    fn a_path_beyond_the_allowance_frees_its_alternatives() {
        let mut path: CharSeq = "cd".chars().map(Position::One).collect();
        path.insert(0, Position::Of(['a', 'b'].into()));
        let either =
            TextRequirement::AnyOf(all(&[TextRequirement::Path(path.clone()), literal("xyz")]));
        let needs = all(&[either.clone(), literal("foo")]);
        assert_eq!(settled(needs.clone()), all(&[literal("foo")]));
        let mut allowance = Allowance {
            path_grams: 2,
            unused: UnusedParts::default(),
        };
        assert_eq!(settle(needs.clone(), &mut allowance), needs);
        assert!(!allowance.unused.wide && allowance.path_grams == 0);
    }
}
