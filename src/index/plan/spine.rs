//! What every match of an expression has, in order: runs of characters that follow each other.
//!
//! Knows expressions, and nothing of n-grams or of edits. Assertions count as empty, since they only take matches away.

use regex_syntax::hir::{
    Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal, Repetition,
};

/// A class with more characters than this says too little to be looked for.
const CHARS_LIMIT: usize = 8;

/// The most alternatives that are told apart.
const ALTERNATIVES_LIMIT: usize = 16;

/// The most characters of an alternative that are looked at.
const LENGTH_LIMIT: usize = 4096;

/// The most parts of an expression that are looked at, repetitions written out.
const PART_LIMIT: usize = 1 << 18;

/// Characters that follow each other, each one of a few. None is a line feed, since a match lies in one line.
pub(crate) type Run = Vec<ClassUnicode>;

/// What every match of an alternative has, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spine {
    pub(crate) runs: Vec<Run>,
    /// Whether what comes next follows the last run at once.
    open: bool,
}

impl Spine {
    fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    /// Something of unknown length follows.
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

/// Returns what every match has, for each alternative; nothing if that is too much to look at.
pub(crate) fn spines(hir: &Hir) -> Option<Vec<Spine>> {
    let mut spines = vec![Spine {
        open: true,
        ..Spine::default()
    }];
    extend(&mut spines, hir, &mut 0)?;
    Some(spines)
}

fn extend(spines: &mut Vec<Spine>, hir: &Hir, parts: &mut usize) -> Option<()> {
    *parts += 1;
    if *parts > PART_LIMIT {
        return None;
    }
    let close = |spines: &mut Vec<Spine>| spines.iter_mut().for_each(Spine::close);
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
                let before = spines.iter().map(Spine::len).sum::<usize>();
                extend(spines, sub, parts)?;
                within_limits(spines)?;
                if spines.iter().map(Spine::len).sum::<usize>() == before {
                    // Nor do the others add anything.
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

/// Adds a character of a class, as far as it can stand in a line.
fn add(spines: &mut [Spine], mut class: ClassUnicode) {
    class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
    let chars = class.iter().map(|range| range.len()).sum::<usize>();
    match (1..=CHARS_LIMIT).contains(&chars) {
        true => spines
            .iter_mut()
            .for_each(|spine| spine.push(class.clone())),
        false => spines.iter_mut().for_each(Spine::close),
    }
}

fn within_limits(spines: &[Spine]) -> Option<()> {
    let fits = spines.len() <= ALTERNATIVES_LIMIT
        && spines.iter().all(|spine| spine.len() <= LENGTH_LIMIT);
    fits.then_some(())
}
