//! The runs of characters that every match of an expression contains, in order.
//!
//! Approximate search uses them twice: `approx` plans with them, and approximate matching cuts
//! patterns into pieces. This module knows expressions, but neither n-grams nor edits. Assertions
//! count as empty, since they only remove matches.
//!
//! The runs of one alternative are its *spine*. For example, `foo.*ba[rz]` has one spine, with the
//! runs `foo` and `ba[rz]`.

use regex_syntax::hir::{
    Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal, Repetition,
};

/// Limit on the characters of a class. Larger classes end a run.
const CHARS_LIMIT: usize = 8;

/// Limit on the alternatives of an expression.
const ALTERNATIVES_LIMIT: usize = 16;

/// Limit on the characters of one alternative.
const LENGTH_LIMIT: usize = 4096;

/// Limit on the visited parts of an expression, with repetitions written out.
const PART_LIMIT: usize = 1 << 18;

/// Consecutive characters, each a small class. No class has a line feed, since a match lies in one
/// line.
pub(crate) type Run = Vec<ClassUnicode>;

/// The runs that every match of one alternative contains, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiteralRuns {
    pub(crate) runs: Vec<Run>,
    /// True if the next character directly follows the last run.
    open: bool,
}

impl LiteralRuns {
    fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    /// Ends the last run, because text of unknown length follows.
    fn close(&mut self) {
        self.open = false;
    }

    fn push(&mut self, class: ClassUnicode) {
        match self.runs.last_mut() {
            Some(run) if self.open => run.push(class),
            _ => self.runs.push(vec![class]),
        }
        self.open = true;
    }
}

/// Returns the spines of the alternatives, or nothing if the expression exceeds a limit.
pub(crate) fn literal_runs(hir: &Hir) -> Option<Vec<LiteralRuns>> {
    let mut spines = vec![LiteralRuns {
        open: true,
        ..LiteralRuns::default()
    }];
    extend(&mut spines, hir, &mut 0)?;
    Some(spines)
}

fn extend(spines: &mut Vec<LiteralRuns>, hir: &Hir, parts: &mut usize) -> Option<()> {
    *parts += 1;
    if *parts > PART_LIMIT {
        return None;
    }
    let close = |spines: &mut Vec<LiteralRuns>| spines.iter_mut().for_each(LiteralRuns::close);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(Literal(bytes)) => {
            for c in std::str::from_utf8(bytes).ok()?.chars() {
                let class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
                add(spines, class);
            }
        }
        HirKind::Class(class) => {
            let class = match class {
                Class::Unicode(class) => class.clone(),
                Class::Bytes(class) => class.to_unicode_class()?,
            };
            add(spines, class);
        }
        HirKind::Capture(capture) => extend(spines, &capture.sub, parts)?,
        HirKind::Concat(subs) => {
            for sub in subs {
                extend(spines, sub, parts)?;
            }
        }
        HirKind::Repetition(Repetition { min, max, sub, .. }) => {
            if *min == 0 {
                close(spines);
                return within_limits(spines);
            }
            for _ in 0..*min {
                let before = spines.iter().map(LiteralRuns::len).sum::<usize>();
                extend(spines, sub, parts)?;
                within_limits(spines)?;
                if spines.iter().map(LiteralRuns::len).sum::<usize>() == before {
                    // An empty copy: the other copies are empty too.
                    break;
                }
            }
            if *max != Some(*min) {
                close(spines);
            }
        }
        HirKind::Alternation(subs) => {
            let mut all = Vec::new();
            for sub in subs {
                let mut one = spines.clone();
                extend(&mut one, sub, parts)?;
                all.extend(one);
                if all.len() > ALTERNATIVES_LIMIT {
                    return None;
                }
            }
            *spines = all;
        }
    }
    within_limits(spines)
}

/// Appends one character of a class, without the line feed.
fn add(spines: &mut [LiteralRuns], mut class: ClassUnicode) {
    class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
    let chars = class.iter().map(|range| range.len()).sum::<usize>();
    match (1..=CHARS_LIMIT).contains(&chars) {
        true => spines
            .iter_mut()
            .for_each(|spine| spine.push(class.clone())),
        false => spines.iter_mut().for_each(LiteralRuns::close),
    }
}

fn within_limits(spines: &[LiteralRuns]) -> Option<()> {
    let fits = spines.len() <= ALTERNATIVES_LIMIT
        && spines.iter().all(|spine| spine.len() <= LENGTH_LIMIT);
    fits.then_some(())
}
