//! Derives from an expression the requirements that every match fulfils.
//!
//! The analysis walks the parsed expression in the manner of Russ Cox's trigram analysis, with
//! chains of small character sets in place of strings. Each result holds for *every* text that the
//! expression matches. Where a limit is exceeded, the result says less. Assertions count as empty,
//! since they only remove matches.

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use crate::index::plan::char_seq::{
    self, CharSeq, CharSeqs, MAX_CHAINS, MAX_SET, Position, distinct, empty, heads, known_edge,
    positions, product, tails,
};
use crate::index::plan::path::{self, UnusedParts};
use crate::index::plan::requirement::{Conjunction, any_of, both};
use crate::index::plan::{FOLD, Reason, Strategy};

/// Limit on the written-out copies of a repetition. Further copies add no new n-grams, or only more
/// positions to a path that is long enough.
const COPIES: u32 = 16;

/// Limit on the written-out optional copies of a repetition, each an alternative.
const OPTIONAL_COPIES: u32 = 4;

/// Limit on the positions that one analysis examines for requirements. It bounds time and memory
/// for patterns of thousands of alternatives, and is four times the longest pattern.
const MAX_EXAMINED: usize = 1 << 18;

/// Knowledge about the texts that an expression matches.
#[derive(Clone, Debug)]
enum Info {
    /// Each text is a text of one of these chains.
    Exact(CharSeqs),
    /// Each text begins with a text of one of the first chains, ends with a text of one of the last
    /// chains, and fulfils the requirements. Beginning and end may overlap.
    Inexact(CharSeqs, Conjunction, CharSeqs),
}

impl Info {
    /// Describes the empty text.
    fn empty() -> Info {
        Info::Exact(empty())
    }

    /// Describes any text.
    fn unknown() -> Info {
        Info::Inexact(empty(), Conjunction::new(), empty())
    }
}

/// The state of the walk over one expression.
#[derive(Debug)]
pub(super) struct Analysis {
    fold: bool,
    strategy: Strategy,
    examined: usize,
    unused: UnusedParts,
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
            unused: UnusedParts::default(),
            line_break: false,
            replacement: false,
            alternatives: false,
            exceeded: false,
        }
    }

    /// Returns the requirements on a text in which the expression matches. The expression must
    /// match valid UTF-8 only.
    pub(super) fn requirements(&mut self, hir: &Hir) -> Conjunction {
        let info = self.visit(hir);
        self.need_of(info)
    }

    /// Returns why parts of the expression are not used, the best explanation first.
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

    /// Returns the unused parts, as far as they are known.
    pub(super) fn into_unused(self) -> UnusedParts {
        self.unused
    }

    /// Returns the limits of the strategy: the number of characters of a position, and the number
    /// of alternative chains. With limits of one, each chain is a literal.
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

    /// Analyzes a literal. It is cut at characters that have no usable n-grams.
    fn literal(&mut self, text: &str) -> Info {
        let mut info = Info::empty();
        for part in text.split_inclusive(is_unusable) {
            let used = part.trim_end_matches(is_unusable);
            let chain: CharSeq = used
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

    /// Analyzes a character class: a position, if the class has few characters and all are usable.
    fn class(&mut self, ranges: impl Iterator<Item = (char, char)>) -> Info {
        let (most, _) = self.limits();
        let mut chars = Vec::new();
        for (start, end) in ranges {
            for c in start..=end {
                chars.push(self.folded(c));
                // Twice the limit, because folding maps both cases of a letter to one character.
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
            // Nothing matches an empty class. That is a proof, but not one about a literal.
            None if self.strategy == Strategy::RequiredLiteral => Info::unknown(),
            None => Info::Exact(CharSeqs::new()),
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
            // The optional part may be the reason why nothing is excluded.
            self.alternatives |= !self.need_of(sub).is_empty();
            return Info::unknown();
        }
        match info {
            Info::Exact(chains) => Info::Inexact(chains.clone(), Conjunction::new(), chains),
            inexact => inexact,
        }
    }

    /// Appends up to `more` optional copies to the chains. Returns nothing if that exceeds a limit.
    fn optional_copies(&mut self, chains: &[CharSeq], sub: &Info, more: u32) -> Option<CharSeqs> {
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

    /// Returns the requirements of the n-grams across the border of two neighbours.
    fn across(&mut self, before: &[CharSeq], after: &[CharSeq]) -> Conjunction {
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
        let exact: Option<Vec<&CharSeqs>> = infos
            .iter()
            .map(|info| match info {
                Info::Exact(chains) => Some(chains),
                Info::Inexact(..) => None,
            })
            .collect();
        if let Some(exact) = exact {
            let chains = distinct(exact.into_iter().flatten().cloned().collect());
            if chains.len() <= most && positions(&chains) <= char_seq::MAX_POSITIONS {
                return Info::Exact(chains);
            }
        }
        // The result does not say which beginning belongs to which end. So each alternative settles
        // its own requirements, and the ends keep only the positions of n-grams across the borders.
        let (mut first, mut last, mut needs) = (CharSeqs::new(), CharSeqs::new(), Vec::new());
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

    /// Returns all requirements of `info`.
    fn need_of(&mut self, info: Info) -> Conjunction {
        match info {
            Info::Exact(chains) => self.need(&chains),
            Info::Inexact(first, needs, last) => {
                let edges = both(self.need(&first), self.need(&last));
                both(needs, edges)
            }
        }
    }

    /// Returns the requirements on a text that contains a text of one of the chains.
    fn need(&mut self, chains: &[CharSeq]) -> Conjunction {
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

/// Returns true for characters that have no usable n-grams. Line breaks: the index normalizes line
/// ends, and the search cuts them off before matching. U+FFFD: it also stands for invalid bytes.
pub(super) fn is_unusable(c: char) -> bool {
    matches!(c, '\r' | '\n' | char::REPLACEMENT_CHARACTER)
}
