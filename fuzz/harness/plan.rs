//! Claims about the plans for any pattern and any text:
//!
//! - If a line of the text matches, no plan excludes the text.
//! - Planning is deterministic.
//! - The result of a plan does not depend on the order of its tests.
//! - A plan asks for no more n-grams than its cost.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use forge_search::internal::exec::matching::fuzzy::{FuzzyMatcher, FuzzyWorker};
use forge_search::internal::exec::matching::matcher::{LineMatcher, WorkerMatcher};
use forge_search::internal::exec::matching::pattern::Pattern;
use forge_search::internal::exec::question::query::Fold;
use forge_search::internal::exec::stop::Stop;
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::gram::Gram;
use forge_search::internal::index::plan::{
    BLOCK_FILES, BlockRows, Mask, Scratch, Strategy, SupersetSafe,
};
use forge_search::internal::index::token::Tokenizer;

/// Stands for the pattern in the text of an input. This makes matches likely.
const PATTERN_HERE: u8 = 1;

/// The maximal cost of a plan for one block: that of a pattern of the greatest length, plus that of
/// paths.
const MAX_COST: usize = (1 << 18) + (1 << 14);

/// Reads a byte of options, the pattern up to a NUL byte, and the text.
pub(crate) fn run(data: &[u8]) {
    let Some((&options, rest)) = data.split_first() else {
        return;
    };
    let end = rest
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(rest.len());
    let Ok(expression) = std::str::from_utf8(&rest[..end]) else {
        return;
    };
    let mut text = Vec::new();
    for &byte in rest.get(end + 1..).unwrap_or_default() {
        match byte {
            PATTERN_HERE => text.extend_from_slice(expression.as_bytes()),
            byte => text.push(byte),
        }
    }
    let flag = |n: u8| options & (1 << n) != 0;
    let fold = if flag(0) {
        Fold::AsciiInsensitive
    } else {
        Fold::Sensitive
    };
    let edits = u32::from(options >> 3 & 3);
    if let Ok(pattern) = Pattern::compile(expression, flag(1), fold, flag(2)) {
        Claims::new(pattern, edits).check(&text);
    }
}

/// The result of a check with one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The text can't be excluded, for any pattern.
    NotExcludable,
    /// No plan tests anything.
    Untested,
    /// A line matched, and every plan kept the text.
    Proven,
    /// No line matched, and a plan excluded it.
    Excluded,
    /// No line matched, and no plan excluded it.
    Kept,
}

/// Decides whether a line matches.
#[derive(Debug)]
enum Matcher {
    Exact(WorkerMatcher),
    Fuzzy(FuzzyWorker),
}

/// The checks of one pattern.
#[derive(Debug)]
pub(crate) struct Claims {
    pattern: Pattern,
    /// The maximal number of edits of a match.
    edits: u32,
    matcher: OnceCell<Option<Matcher>>,
    plans: Vec<SupersetSafe>,
    tokenizer: Tokenizer,
}

impl Claims {
    /// Plans the search for a pattern. Checks the claims that do not depend on a text.
    pub(crate) fn new(pattern: Pattern, edits: u32) -> Claims {
        let strategies = [Strategy::RequiredLiteral, Strategy::Boolean];
        let mut plans: Vec<SupersetSafe> = strategies
            .iter()
            .map(|&strategy| plan(&pattern, strategy, edits))
            .collect();
        // Another order of tests must give the same result.
        let mut turned = plans.clone();
        for plan in &mut turned {
            plan.order_by(|gram| gram.chars()[1] as u32 % 5);
        }
        plans.extend(turned);
        Claims {
            matcher: OnceCell::new(),
            edits,
            plans,
            tokenizer: Tokenizer::new(Casefold::Ascii, 1 << 20),
            pattern,
        }
    }

    /// Checks the plans with a text.
    pub(crate) fn check(&mut self, text: &[u8]) -> Outcome {
        let tokens = self.tokenizer.tokenize(text);
        if !tokens.excludable {
            return Outcome::NotExcludable;
        }
        if self.plans.iter().all(SupersetSafe::keeps_everything) {
            return Outcome::Untested;
        }
        let grams: BTreeSet<Gram> = tokens
            .sensitive
            .iter()
            .chain(tokens.insensitive.iter())
            .collect();
        let kept: Vec<bool> = self.plans.iter().map(|plan| keeps(plan, &grams)).collect();
        assert_eq!(kept[..2], kept[2..], "the order of tests matters");
        let excluded = kept.contains(&false);
        match (self.matches(text), excluded) {
            (true, true) => panic!(
                "kept are {kept:?} for {:?} (as {:?}) within {} edits in {:?}",
                self.pattern.original(),
                self.pattern.expression(),
                self.edits,
                String::from_utf8_lossy(text)
            ),
            (true, false) => Outcome::Proven,
            (false, true) => Outcome::Excluded,
            (false, false) => Outcome::Kept,
        }
    }

    /// Returns true if a line matches, without its terminator as in a search, or with the carriage
    /// return before it.
    fn matches(&self, text: &[u8]) -> bool {
        // A search refuses an automaton that is too large before it plans.
        let compile = || match self.edits {
            0 => {
                let matcher = LineMatcher::new(&self.pattern).ok()?;
                Some(Matcher::Exact(matcher.worker(Stop::new())))
            }
            edits => {
                let matcher = FuzzyMatcher::new(&self.pattern, edits).ok()?;
                Some(Matcher::Fuzzy(matcher.worker(Stop::new())))
            }
        };
        let Some(matcher) = self.matcher.get_or_init(compile) else {
            return false;
        };
        text.split(|&byte| byte == b'\n').any(|line| {
            let bare = line.strip_suffix(b"\r").unwrap_or(line);
            [line, bare].iter().any(|line| match matcher {
                Matcher::Exact(exact) => matches!(exact.find_in_line(line), Ok(Some(_))),
                Matcher::Fuzzy(fuzzy) => matches!(fuzzy.find_in_line(line), Ok(Some(_))),
            })
        })
    }
}

/// Plans the search for a pattern. Checks the claims that do not depend on a text.
fn plan(pattern: &Pattern, strategy: Strategy, edits: u32) -> SupersetSafe {
    let fold = pattern.fold() == Fold::AsciiInsensitive;
    let plan = || match edits {
        0 => SupersetSafe::for_expression(pattern.hir(), fold, strategy),
        edits => SupersetSafe::nearly(pattern.hir(), fold, strategy, edits),
    };
    let (plan, again) = (plan(), plan());
    assert_eq!(plan.grams(), again.grams());
    let description = plan.describe();
    assert_eq!(description, again.describe());
    assert_eq!(plan.keeps_everything(), plan.reason().is_some());
    assert_eq!(plan.keeps_everything(), description.requires.is_none());
    assert_eq!(
        plan.keeps_everything(),
        plan.cost() == 0 && description.requires.is_none()
    );
    assert!(!description.to_string().is_empty());
    let distinct: BTreeSet<&Gram> = plan.grams().iter().collect();
    assert_eq!(distinct.len(), plan.grams().len());
    assert!(plan.cost() <= MAX_COST, "{}", plan.cost());
    if pattern.is_fixed() && edits == 0 {
        let literal = SupersetSafe::for_literal(pattern.original(), fold);
        assert_eq!(literal.keeps_everything(), plan.keeps_everything());
    }
    plan
}

/// Returns true if a plan keeps a text with these n-grams.
fn keeps(plan: &SupersetSafe, grams: &BTreeSet<Gram>) -> bool {
    let mut rows = Rows {
        plan,
        grams,
        asked: 0,
    };
    let kept = plan.evaluate(&mut rows, Mask::FULL, &mut Scratch::default());
    assert!(rows.asked <= plan.cost());
    let (first, last) = (kept.contains(0), kept.contains(BLOCK_FILES - 1));
    assert_eq!(first, last, "the same text twice");
    assert!(first || kept.is_zero(), "more n-grams exclude more");
    first
}

/// A block with two files that contain the n-grams. The other files contain no n-gram.
struct Rows<'a> {
    plan: &'a SupersetSafe,
    grams: &'a BTreeSet<Gram>,
    asked: usize,
}

impl BlockRows for Rows<'_> {
    fn mask(&mut self, gram: u32, _within: &Mask) -> Mask {
        self.asked += 1;
        let mut files = Mask::EMPTY;
        if self.grams.contains(&self.plan.grams()[gram as usize]) {
            files.insert(0);
            files.insert(BLOCK_FILES - 1);
        }
        files
    }
}
