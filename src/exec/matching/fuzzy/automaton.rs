//! The automaton of an approximate pattern: which character may follow which (a Glushkov
//! automaton).
//!
//! Each position of the expression that matches a character, and each assertion, is a *node*. There
//! are no other nodes, so a pattern that is a sequence of characters is a chain of nodes. This
//! module knows expressions, but no texts. `scan` and `align` run the automaton.

use std::collections::BTreeMap;

use regex_automata::util::look::Look;
use regex_syntax::hir::{self, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

/// The most nodes of an automaton: characters and assertions of the pattern, repetitions written
/// out.
pub(crate) const NODE_LIMIT: usize = 4096;

/// The most edges: pairs of nodes of which one follows the other.
const EDGE_LIMIT: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Matches one character of the class with this number.
    Char(u32),
    /// Matches the empty text at positions where an assertion holds.
    Look(Look),
}

/// The automaton of an expression. It never matches the empty text.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    pub(crate) nodes: Vec<Node>,
    /// The classes, each once.
    pub(crate) classes: Vec<ClassUnicode>,
    /// The nodes that may come first, in ascending order.
    pub(crate) first: Vec<u32>,
    /// For each node: the nodes that may follow it, in ascending order.
    pub(crate) follow: Vec<Vec<u32>>,
    /// For each node: whether a match may end with it.
    pub(crate) last: Vec<bool>,
    /// The number of characters of the shortest match; `None` if the expression matches nothing.
    pub(crate) min_len: Option<usize>,
}

/// The most visited parts of an expression with repetitions written out. Parts without nodes count
/// too.
const PART_LIMIT: usize = 1 << 18;

/// Why an expression has no automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutomatonError {
    /// The expression matches bytes that are not characters.
    Bytes,
    /// The automaton has too many nodes or edges.
    TooLarge,
}

impl Automaton {
    /// Builds the automaton of an expression. Without `looks`, assertions are taken to hold
    /// everywhere, so the automaton matches at least as many texts.
    ///
    /// Takes time proportional to the nodes and edges. The parser's nesting limit bounds the
    /// recursion.
    pub(crate) fn new(hir: &Hir, looks: bool) -> Result<Automaton, AutomatonError> {
        let mut builder = Builder {
            looks,
            nodes: Vec::new(),
            classes: Vec::new(),
            numbers: BTreeMap::new(),
            follow: Vec::new(),
            edges: 0,
            parts: 0,
        };
        let part = builder.part(hir)?;
        let mut last = vec![false; builder.nodes.len()];
        for &node in &part.last {
            last[node as usize] = true;
        }
        let mut first = part.first;
        tidy(&mut first);
        let mut follow = builder.follow;
        follow.iter_mut().for_each(tidy);
        Ok(Automaton {
            nodes: builder.nodes,
            classes: builder.classes,
            first,
            follow,
            last,
            min_len: part.min_len,
        })
    }

    /// Returns true if the automaton is a chain. In a chain each node matches a character and is
    /// followed only by the next node; only the first node is a first node, and only the last node
    /// is a last node.
    pub(crate) fn is_chain(&self) -> bool {
        let n = self.nodes.len();
        let follows = |(node, follow): (usize, &Vec<u32>)| match node + 1 < n {
            true => *follow == [node as u32 + 1],
            false => follow.is_empty(),
        };
        let is_char = |node: &Node| matches!(node, Node::Char(_));
        n > 0
            && self.nodes.iter().all(is_char)
            && self.first == [0]
            && self.follow.iter().enumerate().all(follows)
            && self.last.iter().position(|&last| last) == Some(n - 1)
    }
}

fn tidy(nodes: &mut Vec<u32>) {
    nodes.sort_unstable();
    nodes.dedup();
}

/// The first and last nodes of a part of an expression, as its surroundings need them.
#[derive(Clone, Debug, Default)]
struct Part {
    first: Vec<u32>,
    last: Vec<u32>,
    /// Whether the part can match without passing a node.
    empty: bool,
    min_len: Option<usize>,
    /// Whether the part has nodes that match characters.
    chars: bool,
}

impl Part {
    fn empty() -> Part {
        Part {
            empty: true,
            min_len: Some(0),
            ..Part::default()
        }
    }

    fn node(node: u32, len: usize) -> Part {
        Part {
            first: vec![node],
            last: vec![node],
            empty: false,
            min_len: Some(len),
            chars: len > 0,
        }
    }

    fn optional(mut self) -> Part {
        self.empty = true;
        self.min_len = Some(0);
        self
    }
}

struct Builder {
    looks: bool,
    nodes: Vec<Node>,
    classes: Vec<ClassUnicode>,
    numbers: BTreeMap<Vec<(char, char)>, u32>,
    follow: Vec<Vec<u32>>,
    edges: usize,
    parts: usize,
}

impl Builder {
    fn part(&mut self, hir: &Hir) -> Result<Part, AutomatonError> {
        self.parts += 1;
        if self.parts > PART_LIMIT {
            return Err(AutomatonError::TooLarge);
        }
        match hir.kind() {
            HirKind::Empty => Ok(Part::empty()),
            HirKind::Literal(hir::Literal(bytes)) => {
                let text = std::str::from_utf8(bytes).map_err(|_| AutomatonError::Bytes)?;
                let mut whole = Part::empty();
                for c in text.chars() {
                    let class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
                    let next = self.class(class)?;
                    whole = self.concat(whole, next)?;
                }
                Ok(whole)
            }
            HirKind::Class(Class::Unicode(class)) => self.class(class.clone()),
            HirKind::Class(Class::Bytes(class)) => {
                self.class(class.to_unicode_class().ok_or(AutomatonError::Bytes)?)
            }
            HirKind::Look(_) if !self.looks => Ok(Part::empty()),
            HirKind::Look(look) => {
                // Both libraries number assertions in the same way.
                let look = Look::from_repr(look.as_repr()).ok_or(AutomatonError::TooLarge)?;
                Ok(Part::node(self.node(Node::Look(look))?, 0))
            }
            HirKind::Repetition(repetition) => self.repetition(repetition),
            HirKind::Capture(capture) => self.part(&capture.sub),
            HirKind::Concat(subs) => {
                let mut whole = Part::empty();
                for sub in subs {
                    let next = self.part(sub)?;
                    whole = self.concat(whole, next)?;
                }
                Ok(whole)
            }
            HirKind::Alternation(subs) => {
                let mut whole = Part::default();
                for sub in subs {
                    let other = self.part(sub)?;
                    whole.first.extend(other.first);
                    whole.last.extend(other.last);
                    whole.empty |= other.empty;
                    whole.chars |= other.chars;
                    whole.min_len = match (whole.min_len, other.min_len) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                }
                Ok(whole)
            }
        }
    }

    fn node(&mut self, node: Node) -> Result<u32, AutomatonError> {
        if self.nodes.len() >= NODE_LIMIT {
            return Err(AutomatonError::TooLarge);
        }
        self.nodes.push(node);
        self.follow.push(Vec::new());
        Ok(self.nodes.len() as u32 - 1)
    }

    fn class(&mut self, class: ClassUnicode) -> Result<Part, AutomatonError> {
        if class.ranges().is_empty() {
            // An empty class matches no character, so no number of edits makes a text match it.
            return Ok(Part::default());
        }
        let key = class.iter().map(|range| (range.start(), range.end()));
        let next = self.classes.len() as u32;
        let number = *self.numbers.entry(key.collect()).or_insert(next);
        if number == next {
            self.classes.push(class);
        }
        Ok(Part::node(self.node(Node::Char(number))?, 1))
    }

    fn join(&mut self, last: &[u32], first: &[u32]) -> Result<(), AutomatonError> {
        self.edges = self.edges.saturating_add(last.len() * first.len());
        if self.edges > EDGE_LIMIT {
            return Err(AutomatonError::TooLarge);
        }
        for &from in last {
            self.follow[from as usize].extend(first);
        }
        Ok(())
    }

    fn concat(&mut self, mut a: Part, b: Part) -> Result<Part, AutomatonError> {
        let Some(min_len) = a.min_len.zip(b.min_len).map(|(a, b)| a.saturating_add(b)) else {
            return Ok(Part::default());
        };
        self.join(&a.last, &b.first)?;
        if a.empty {
            a.first.extend(&b.first);
        }
        let last = match b.empty {
            true => [b.last, a.last].concat(),
            false => b.last,
        };
        Ok(Part {
            first: a.first,
            last,
            empty: a.empty && b.empty,
            min_len: Some(min_len),
            chars: a.chars || b.chars,
        })
    }

    fn repetition(&mut self, repetition: &Repetition) -> Result<Part, AutomatonError> {
        let (min, max) = (repetition.min, repetition.max);
        let before = self.nodes.len();
        let one = self.part(&repetition.sub)?;
        if max == Some(0) {
            return Ok(Part::empty());
        }
        if one.min_len.is_none() {
            return Ok(match min {
                0 => Part::empty(),
                _ => one,
            });
        }
        if !one.chars {
            // Assertions that hold once hold any number of times.
            return Ok(match min {
                0 => one.optional(),
                _ => one,
            });
        }
        if min == 0 && max == Some(1) {
            return Ok(one.optional());
        }
        // A repetition that would be too large is refused early: each copy has as many nodes as the
        // first one.
        let (nodes, copies) = (self.nodes.len() - before, max.unwrap_or(min).max(1));
        if (copies as usize).saturating_mul(nodes) > NODE_LIMIT {
            return Err(AutomatonError::TooLarge);
        }
        let mut one = Some(one);
        let mut copy = |builder: &mut Builder| match one.take() {
            Some(first) => Ok(first),
            None => builder.part(&repetition.sub),
        };
        let Some(max) = max else {
            let mut whole = Part::empty();
            for _ in 1..min {
                let next = copy(self)?;
                whole = self.concat(whole, next)?;
            }
            let mut loops = copy(self)?;
            self.join(&loops.last.clone(), &loops.first.clone())?;
            if min == 0 {
                loops = loops.optional();
            }
            return self.concat(whole, loops);
        };
        let mut whole = Part::empty();
        for _ in 0..min {
            let next = copy(self)?;
            whole = self.concat(whole, next)?;
        }
        let mut rest = Part::empty();
        for _ in min..max {
            let next = copy(self)?;
            rest = self.concat(next, rest)?.optional();
        }
        self.concat(whole, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::matching::pattern::Pattern;
    use crate::exec::question::query::Fold;

    fn automaton(text: &str) -> Result<Automaton, AutomatonError> {
        let pattern = Pattern::compile(text, false, Fold::Sensitive, false).unwrap();
        Automaton::new(&pattern.full_hir(), true)
    }

    #[test]
    fn a_sequence_of_characters_is_a_chain() {
        for (text, is_chain, min_len) in [
            ("a", true, 1),
            ("ab[cd]é.", true, 5),
            ("ab{3}", true, 4),
            ("(ab){2}c", true, 5),
            ("ab+", false, 2),
            ("ab?", false, 1),
            ("a|bc", false, 1),
            ("ab(?:|abc)", false, 2),
            ("^a", false, 1),
            ("a{2,4}", false, 2),
            ("(a|bcd)x{3,}", false, 4),
        ] {
            let automaton = automaton(text).unwrap();
            assert_eq!(automaton.is_chain(), is_chain, "{text}");
            assert_eq!(automaton.min_len, Some(min_len), "{text}");
        }
    }

    #[test]
    fn what_matches_nothing_has_no_shortest_match() {
        for text in [
            r"[^\s\S]",
            r"a[^\s\S]b",
            r"[^\s\S]+",
            r"(?:[^\s\S]|[^\w\W])x",
        ] {
            assert_eq!(automaton(text).unwrap().min_len, None, "{text}");
        }
        for (text, min_len) in [
            (r"a(?:[^\s\S])*b", 2),
            (r"a|[^\s\S]", 1),
            ("", 0),
            ("a*", 0),
        ] {
            assert_eq!(automaton(text).unwrap().min_len, Some(min_len), "{text}");
        }
    }

    #[test]
    fn bytes_and_large_expressions_are_refused() {
        for text in [r"(?-u:\xFF)", r"(?-u:[^a])", r"a(?-u:.)"] {
            assert_eq!(
                automaton(text).unwrap_err(),
                AutomatonError::Bytes,
                "{text}"
            );
        }
        assert!(automaton(r"(?-u:[a-c]\b)").is_ok());
        for text in [
            "a{4097}",
            "(a{64}){65}",
            "(a?){2000}",
            r"(\b{0,1000}a){4097}",
            &format!("({}a){{4000}}", "()".repeat(100)),
            "(a{0,900}){0,900}",
        ] {
            assert_eq!(
                automaton(text).unwrap_err(),
                AutomatonError::TooLarge,
                "{text}"
            );
        }
        assert_eq!(automaton("a{4096}").unwrap().nodes.len(), 4096);
        assert_eq!(automaton(r"(\b|^){0,4000000}a").unwrap().nodes.len(), 3);
    }

    #[test]
    fn without_assertions_they_hold_everywhere() {
        let pattern = Pattern::compile(r"^ab\b", false, Fold::Sensitive, true).unwrap();
        let hir = pattern.full_hir();
        assert!(Automaton::new(&hir, false).unwrap().is_chain());
        assert_eq!(Automaton::new(&hir, true).unwrap().nodes.len(), 6);
    }
}
