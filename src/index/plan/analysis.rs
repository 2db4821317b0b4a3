//! What every match of an expression is made of.
//!
//! Owns the walk over the parsed expression, in the manner of Russ Cox's trigram analysis, with chains of
//! small character sets in place of strings. Each result says something that holds for *every* text that its
//! expression matches; where a limit is hit, it says less. Assertions only take matches away, so
//! they count as empty.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use crate::index::plan::chain::{
    self, Chain, Chains, MAX_CHAINS, MAX_SET, Position, distinct, empty, heads, known_edge,
    positions, product, tails,
};
use crate::index::plan::need::{Conjunction, any_of, both};
use crate::index::plan::path::{self, Unused};
use crate::index::plan::{FOLD, Reason, Strategy};

/// How many times a repetition is written out. What lies beyond is the same n-grams again, or more steps of a
/// path that is long enough.
const COPIES: u32 = 16;

/// How many optional copies of a repetition are written out, as alternatives.
const OPTIONAL_COPIES: u32 = 4;

/// The most positions that are looked at for requirements in one analysis. It bounds time and memory for
/// patterns made of thousands of alternatives, and is four times the longest pattern.
const MAX_EXAMINED: usize = 1 << 18;

/// What is known of the texts that an expression matches.
#[derive(Clone, Debug)]
enum Info {
    /// Each is a text of one of these chains.
    Exact(Chains),
    /// Each begins with a text of one of the first chains, ends with one of the last, and fulfils the
    /// requirements. Beginning and end may overlap.
    Inexact(Chains, Conjunction, Chains),
}

impl Info {
    /// The empty text.
    fn empty() -> Info {
        Info::Exact(empty())
    }

    /// Any text.
    fn unknown() -> Info {
        Info::Inexact(empty(), Conjunction::new(), empty())
    }
}

/// The walk over one expression.
#[derive(Debug)]
pub(super) struct Analysis {
    fold: bool,
    strategy: Strategy,
    examined: usize,
    unused: Unused,
    line_break: bool,
    replacement: bool,
    alternatives: bool,
    exceeded: bool,
}

impl Analysis {
    pub(super) fn new(fold: bool, strategy: Strategy) -> Analysis {
        Analysis {
            fold,
            strategy,
            examined: 0,
            unused: Unused::default(),
            line_break: false,
            replacement: false,
            alternatives: false,
            exceeded: false,
        }
    }

    /// Returns what a text must hold for the expression to match in it. The expression matches valid UTF-8
    /// only.
    pub(super) fn requirements(&mut self, hir: &Hir) -> Conjunction {
        let info = self.visit(hir);
        self.need_of(info)
    }

    /// Returns why parts of the expression were not used, the best explanation first.
    pub(super) fn reasons(&self) -> Vec<Reason> {
        [
            (self.line_break, Reason::LineBreak),
            (self.unused.normalization, Reason::Normalization),
            (self.replacement, Reason::ReplacementCharacter),
            (self.alternatives, Reason::Alternatives),
            (self.exceeded || self.unused.wide, Reason::TooManyNgrams),
            (self.unused.short, Reason::TooShort),
        ]
        .into_iter()
        .filter_map(|(applies, reason)| applies.then_some(reason))
        .collect()
    }

    /// Returns which parts those were, as far as that is known.
    pub(super) fn into_unused(self) -> Unused {
        self.unused
    }

    /// The number of characters of a position, and of chains side by side, under the strategy: only one of
    /// each, and it is a literal.
    fn limits(&self) -> (usize, usize) {
        match self.strategy {
            Strategy::RequiredLiteral => (1, 1),
            Strategy::Boolean => (MAX_SET, MAX_CHAINS),
        }
    }

    fn visit(&mut self, hir: &Hir) -> Info {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Info::empty(),
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) => self.literal(text),
                Err(_) => Info::unknown(),
            },
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.iter().map(|range| (range.start(), range.end()));
                self.class(ranges)
            }
            HirKind::Class(Class::Bytes(class)) => {
                if !class.is_ascii() {
                    return Info::unknown();
                }
                let char_of = char::from;
                let ranges = class
                    .iter()
                    .map(|range| (char_of(range.start()), char_of(range.end())));
                self.class(ranges)
            }
            HirKind::Capture(capture) => self.visit(&capture.sub),
            HirKind::Repetition(repetition) => self.repetition(repetition),
            HirKind::Concat(subs) => {
                let mut info = Info::empty();
                for sub in subs {
                    let next = self.visit(sub);
                    info = self.concat(info, next);
                }
                info
            }
            HirKind::Alternation(subs) => {
                let infos = subs.iter().map(|sub| self.visit(sub)).collect();
                self.alternation(infos)
            }
        }
    }

    /// A literal, cut at the characters of which nothing is used.
    fn literal(&mut self, text: &str) -> Info {
        let mut info = Info::empty();
        for part in text.split_inclusive(is_unusable) {
            let used = part.trim_end_matches(is_unusable);
            let chain: Chain = used
                .chars()
                .map(|c| Position::One(self.folded(c)))
                .collect();
            info = self.concat(info, Info::Exact(vec![chain]));
            if let Some(c) = part[used.len()..].chars().next() {
                self.note_unusable(c);
                info = self.concat(info, Info::unknown());
            }
        }
        info
    }

    fn note_unusable(&mut self, c: char) {
        if c == char::REPLACEMENT_CHARACTER {
            self.replacement = true;
        } else {
            self.line_break = true;
        }
    }

    /// One character of a class: a position, if it has few characters that may be used.
    fn class(&mut self, ranges: impl Iterator<Item = (char, char)>) -> Info {
        let (most, _) = self.limits();
        let mut chars = Vec::new();
        for (start, end) in ranges {
            for c in start..=end {
                chars.push(self.folded(c));
                // Both cases of a letter are one character once they are folded.
                if chars.len() > 2 * MAX_SET {
                    return Info::unknown();
                }
            }
        }
        chars.sort_unstable();
        chars.dedup();
        path::drop_unnormal(&mut chars);
        if let [c] = chars[..] {
            return self.literal(c.encode_utf8(&mut [0; 4]));
        }
        if chars.len() > most || chars.iter().any(|&c| is_unusable(c)) {
            return Info::unknown();
        }
        match Position::new(chars) {
            Some(position) => Info::Exact(vec![vec![position]]),
            // Nothing matches an empty class. That is a proof, but it is not that of a literal.
            None if self.strategy == Strategy::RequiredLiteral => Info::unknown(),
            None => Info::Exact(Chains::new()),
        }
    }

    fn folded(&self, c: char) -> char {
        if self.fold { FOLD.fold(c) } else { c }
    }

    fn repetition(&mut self, repetition: &Repetition) -> Info {
        let sub = self.visit(&repetition.sub);
        let copies = repetition.min.min(COPIES);
        let mut info = Info::empty();
        for _ in 0..copies {
            info = self.concat(info, sub.clone());
        }
        if copies == repetition.min
            && let Some(most) = repetition.max
            && let Info::Exact(chains) = &info
            && let Some(chains) = self.optional_copies(chains, &sub, most - repetition.min)
        {
            return Info::Exact(chains);
        }
        if repetition.min == 0 {
            // That it can be left out may be the reason why nothing is excluded.
            self.alternatives |= !self.need_of(sub).is_empty();
            return Info::unknown();
        }
        match info {
            Info::Exact(chains) => Info::Inexact(chains.clone(), Conjunction::new(), chains),
            inexact => inexact,
        }
    }

    /// Follows chains by up to `more` copies; returns nothing if that is too much.
    fn optional_copies(&mut self, chains: &[Chain], sub: &Info, more: u32) -> Option<Chains> {
        if more == 0 {
            return Some(chains.to_vec());
        }
        let Info::Exact(copy) = sub else {
            return None;
        };
        if more > OPTIONAL_COPIES {
            return None;
        }
        let (_, most) = self.limits();
        let optional = distinct([copy.as_slice(), &empty()].concat());
        (0..more).try_fold(chains.to_vec(), |chains, _| {
            let longer = product(chains, &optional, most).ok()?;
            (longer.len() <= most).then_some(longer)
        })
    }

    fn concat(&mut self, before: Info, after: Info) -> Info {
        let (_, most) = self.limits();
        match (before, after) {
            (Info::Exact(before), Info::Exact(after)) => match product(before, &after, most) {
                Ok(chains) => Info::Exact(chains),
                Err(before) => {
                    let needs = self.across(&before, &after);
                    Info::Inexact(before, needs, after)
                }
            },
            (Info::Exact(before), Info::Inexact(first, needs, last)) => {
                match product(before, &first, most) {
                    Ok(first) => Info::Inexact(first, needs, last),
                    Err(before) => {
                        let more = both(self.across(&before, &first), self.need(&first));
                        Info::Inexact(before, both(needs, more), last)
                    }
                }
            }
            (Info::Inexact(first, needs, last), Info::Exact(after)) => {
                match product(last, &after, most) {
                    Ok(last) => Info::Inexact(first, needs, last),
                    Err(last) => {
                        let more = both(self.across(&last, &after), self.need(&last));
                        Info::Inexact(first, both(needs, more), after)
                    }
                }
            }
            (Info::Inexact(first, before, end), Info::Inexact(start, after, last)) => {
                let middle = match product(end, &start, most) {
                    Ok(middle) => self.need(&middle),
                    Err(end) => {
                        let parts = both(self.need(&end), self.need(&start));
                        both(self.across(&end, &start), parts)
                    }
                };
                Info::Inexact(first, both(both(before, after), middle), last)
            }
        }
    }

    /// Returns what the n-grams across the border of two ends require.
    fn across(&mut self, before: &[Chain], after: &[Chain]) -> Conjunction {
        let (_, most) = self.limits();
        match product(tails(before), &heads(after), most) {
            Ok(chains) => self.need(&chains),
            Err(_) => {
                self.exceeded = true;
                Conjunction::new()
            }
        }
    }

    fn alternation(&mut self, infos: Vec<Info>) -> Info {
        if self.strategy == Strategy::RequiredLiteral {
            return Info::unknown();
        }
        let (_, most) = self.limits();
        let exact: Option<Vec<&Chains>> = infos
            .iter()
            .map(|info| match info {
                Info::Exact(chains) => Some(chains),
                Info::Inexact(..) => None,
            })
            .collect();
        if let Some(exact) = exact {
            let chains = distinct(exact.into_iter().flatten().cloned().collect());
            if chains.len() <= most && positions(&chains) <= chain::MAX_POSITIONS {
                return Info::Exact(chains);
            }
        }
        // Which beginning goes with which end is lost, so each alternative settles its own requirements, and only
        // what n-grams across the borders need is kept of the ends.
        let (mut first, mut last, mut needs) = (Chains::new(), Chains::new(), Vec::new());
        for info in infos {
            match info {
                Info::Exact(chains) => {
                    needs.extend(
                        chains
                            .iter()
                            .map(|chain| self.need(std::slice::from_ref(chain))),
                    );
                    first.extend(heads(&chains));
                    last.extend(tails(&chains));
                }
                Info::Inexact(begin, inner, end) => {
                    first.extend(heads(&begin));
                    last.extend(tails(&end));
                    needs.push(self.need_of(Info::Inexact(begin, inner, end)));
                }
            }
        }
        let needs = self.any_of(needs);
        Info::Inexact(known_edge(first), needs, known_edge(last))
    }

    /// Returns all that a text must hold.
    fn need_of(&mut self, info: Info) -> Conjunction {
        match info {
            Info::Exact(chains) => self.need(&chains),
            Info::Inexact(first, needs, last) => {
                let edges = both(self.need(&first), self.need(&last));
                both(needs, edges)
            }
        }
    }

    /// Returns what a text must hold in which a text of one of the chains occurs.
    fn need(&mut self, chains: &[Chain]) -> Conjunction {
        if positions(chains) == 0 && !chains.is_empty() {
            return Conjunction::new();
        }
        self.examined += positions(chains);
        if self.examined > MAX_EXAMINED {
            self.exceeded = true;
            return Conjunction::new();
        }
        let needs = chains
            .iter()
            .map(|chain| path::requirements(chain, self.fold, &mut self.unused))
            .collect();
        self.any_of(needs)
    }

    fn any_of(&mut self, needs: Vec<Conjunction>) -> Conjunction {
        let (needs, some_free) = any_of(needs);
        self.alternatives |= some_free;
        needs
    }
}

/// Returns true for characters that give no n-grams: line breaks, because line ends are normalized in the
/// index and cut off before matching, and the character that stands in for invalid bytes.
pub(super) fn is_unusable(c: char) -> bool {
    matches!(c, '\r' | '\n' | char::REPLACEMENT_CHARACTER)
}
