//! Required literals: every match of an expression contains at least one of them.
//!
//! ugrep's dialect differs from ours, so ugrep searches for these literals instead of the
//! expression. This module owns the extraction from a parsed expression, and the spelling of
//! literals that every dialect understands. An assertion can only exclude matches, so it counts as
//! empty here.

use regex_syntax::hir::{Class, Hir, HirKind, Literal};

/// The shortest literal that is worth searching for, in bytes. Does not apply if the expression
/// matches nothing else.
pub(super) const SHORTEST: usize = 2;

/// The most literals of an expression.
const MOST: usize = 32;

/// The most members of a class that are listed one by one.
const CLASS: usize = 8;

/// The longest literal, in units. Of a longer literal only the beginning is required.
const LONGEST: usize = 256;

/// The most copies of a required repetition that are written out.
const COPIES: u32 = 8;

/// A byte of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    /// Exactly this byte.
    Byte(u8),
    /// This ASCII letter, stored in lower case, in either case.
    Letter(u8),
}

/// Alternative literals: each match contains one of them.
type Set = Vec<Vec<Unit>>;

/// The required literals of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Required {
    /// No searched line can match.
    Nothing,
    /// Every match contains at least one of these.
    Literals(Set),
    /// No literal is required, or only ones that are not worth searching for.
    Unknown,
}

/// Returns the literals to search for.
pub(super) fn literals(hir: &Hir) -> Required {
    let whole = exact(hir).is_some();
    match required(hir) {
        Some(set) if set.is_empty() => Required::Nothing,
        Some(set) if whole || shortest(&set) >= SHORTEST => Required::Literals(set),
        _ => Required::Unknown,
    }
}

/// Writes literals as an expression over bytes that means the same in every dialect.
pub(super) fn write(set: &Set) -> String {
    let mut out = String::new();
    for (n, literal) in set.iter().enumerate() {
        if n > 0 {
            out.push('|');
        }
        for &unit in literal {
            match unit {
                Unit::Byte(byte) => super::write_byte(byte, &mut out),
                Unit::Letter(letter) => {
                    let (upper, lower) = (letter.to_ascii_uppercase() as char, letter as char);
                    out.extend(['[', upper, lower, ']']);
                }
            }
        }
    }
    out
}

fn shortest(set: &Set) -> usize {
    set.iter().map(Vec::len).min().unwrap_or(0)
}

/// Returns all texts that an expression matches, ignoring assertions. The set is empty if there
/// can't be a match within a line. Returns `None` if there are too many texts, or if a text
/// contains NUL, because ugrep is not used for NUL.
fn exact(hir: &Hir) -> Option<Set> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(vec![Vec::new()]),
        HirKind::Literal(Literal(bytes)) => {
            if bytes.contains(&b'\n') {
                return Some(Vec::new());
            }
            (bytes.len() <= LONGEST && !bytes.contains(&0))
                .then(|| vec![bytes.iter().map(|&byte| Unit::Byte(byte)).collect()])
        }
        HirKind::Class(class) => exact_class(class),
        HirKind::Repetition(repetition) => {
            let sub = exact(&repetition.sub)?;
            if sub.is_empty() && repetition.min > 0 {
                return Some(sub);
            }
            if repetition.max != Some(repetition.min) || repetition.min > COPIES {
                return None;
            }
            (0..repetition.min).try_fold(vec![Vec::new()], |set, _| product(&set, &sub))
        }
        HirKind::Capture(capture) => exact(&capture.sub),
        HirKind::Concat(subs) => {
            let mut set = Some(vec![Vec::new()]);
            for sub in subs {
                match (exact(sub), &set) {
                    (Some(next), _) if next.is_empty() => return Some(next),
                    (Some(next), Some(before)) => set = product(before, &next),
                    // Continue: a later part may be impossible to match.
                    _ => set = None,
                }
            }
            set
        }
        HirKind::Alternation(subs) => {
            let sets: Option<Vec<Set>> = subs.iter().map(exact).collect();
            union(sets?)
        }
    }
}

fn exact_class(class: &Class) -> Option<Set> {
    let mut bytes: Set = Vec::new();
    let mut add = |text: &[u8]| {
        if text == [0] {
            return false;
        }
        if text != b"\n" {
            bytes.push(text.iter().map(|&byte| Unit::Byte(byte)).collect());
        }
        bytes.len() <= CLASS
    };
    match class {
        Class::Unicode(class) => {
            for range in class.ranges() {
                for c in range.start()..=range.end() {
                    if !add(c.encode_utf8(&mut [0; 4]).as_bytes()) {
                        return None;
                    }
                }
            }
        }
        Class::Bytes(class) => {
            for range in class.ranges() {
                for byte in range.start()..=range.end() {
                    if !add(&[byte]) {
                        return None;
                    }
                }
            }
        }
    }
    // Both cases of a letter become one unit.
    let has = |byte: u8| bytes.contains(&vec![Unit::Byte(byte)]);
    let folded = bytes
        .iter()
        .filter_map(|text| match text[..] {
            [Unit::Byte(byte @ b'a'..=b'z')] if has(byte.to_ascii_uppercase()) => {
                Some(vec![Unit::Letter(byte)])
            }
            [Unit::Byte(byte @ b'A'..=b'Z')] if has(byte.to_ascii_lowercase()) => None,
            _ => Some(text.clone()),
        })
        .collect();
    Some(folded)
}

/// Returns literals of which every match contains at least one; `None` if no such literals are
/// known. The set is empty if there can't be a match.
fn required(hir: &Hir) -> Option<Set> {
    if let Some(set) = exact(hir) {
        return worth(set);
    }
    match hir.kind() {
        HirKind::Literal(Literal(bytes)) => {
            let parts = bytes.split(|&byte| byte == 0);
            let longest = parts.max_by_key(|part| part.len())?;
            let begin = longest.iter().take(LONGEST);
            worth(vec![begin.map(|&byte| Unit::Byte(byte)).collect()])
        }
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Alternation(subs) => {
            let sets: Option<Vec<Set>> = subs.iter().map(required).collect();
            union(sets?)
        }
        HirKind::Concat(subs) => required_of_row(subs),
        _ => None,
    }
}

/// Returns the required literals of a concatenation. Adjacent exact parts are joined into longer
/// literals, and the best set of these is chosen.
fn required_of_row(subs: &[Hir]) -> Option<Set> {
    let mut best: Option<Set> = None;
    let mut impossible = false;
    let mut offer = |set: Option<Set>| {
        let Some(set) = set else { return };
        impossible |= set.is_empty();
        let better = best.as_ref().is_none_or(|best| {
            (shortest(&set).min(8), best.len()) > (shortest(best).min(8), set.len())
        });
        if better {
            best = Some(set);
        }
    };
    let mut run = vec![Vec::new()];
    for sub in subs {
        if let Some(set) = exact(sub)
            && let Some(longer) = product(&run, &set)
        {
            run = longer;
            continue;
        }
        // At least one copy of a repeated part is adjacent to the parts before and after.
        let copy = match sub.kind() {
            HirKind::Repetition(repetition) if repetition.min > 0 => exact(&repetition.sub),
            _ => None,
        };
        let next = match &copy {
            Some(copy) => {
                offer(product(&run, copy).and_then(worth));
                copy.clone()
            }
            None => exact(sub).unwrap_or_else(|| vec![Vec::new()]),
        };
        offer(worth(std::mem::replace(&mut run, next)));
        offer(required(sub));
    }
    offer(worth(run));
    if impossible { Some(Vec::new()) } else { best }
}

/// Returns `None` for a set that contains the empty text, since it requires nothing.
fn worth(set: Set) -> Option<Set> {
    (!set.iter().any(Vec::is_empty)).then_some(set)
}

/// Returns every text of `before` followed by every text of `after`, if these are few and short.
fn product(before: &Set, after: &Set) -> Option<Set> {
    if before.len() * after.len() > MOST {
        return None;
    }
    let mut set = Vec::new();
    for start in before {
        for end in after {
            if start.len() + end.len() > LONGEST {
                return None;
            }
            set.push([start.as_slice(), end].concat());
        }
    }
    set.sort_unstable();
    set.dedup();
    Some(set)
}

fn union(sets: Vec<Set>) -> Option<Set> {
    let mut all: Set = sets.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    (all.len() <= MOST).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::matching::pattern::Pattern;
    use crate::exec::question::query::Fold;

    fn found(text: &str, fold: Fold) -> String {
        let pattern = Pattern::compile(text, false, fold, false).unwrap();
        match literals(pattern.hir()) {
            Required::Nothing => "never".to_string(),
            Required::Literals(set) => write(&set),
            Required::Unknown => "unknown".to_string(),
        }
    }

    #[test]
    fn every_match_holds_one_of_the_literals() {
        for (text, literals) in [
            ("foo", "foo"),
            ("a", "a"),
            ("a|é", r"a|\xC3\xA9"),
            ("[ab]", "a|b"),
            ("^foo$", "foo"),
            (r"\bfoo\b", "foo"),
            ("fo+", "fo"),
            ("fo+bar", "obar"),
            ("(foo)+", "foo"),
            ("(?:foo){2}", "foofoo"),
            ("(?:foo){2,}", "foo"),
            (r"foo\d+barbar", "barbar"),
            (r"\w+_suffix", r"\x5Fsuffix"),
            (r"foo.*|bar\s", "bar|foo"),
            ("(?:foo|ba[rz])qux", "barqux|bazqux|fooqux"),
            ("foo(?:x|)", "foo|foox"),
            (r"a\.b", r"a\x2Eb"),
            ("foo[a-z]bar", "foo"),
            (r"(?:\x00|foo)bar", "bar"),
            (r"a\x00longer", "longer"),
            (r"foo.*\x00", "foo"),
            ("(?-u:\\xFF\\xFE)", r"\xFF\xFE"),
            (r"(a.b|cc)+dd", "dd"),
        ] {
            assert_eq!(found(text, Fold::Sensitive), literals, "{text}");
        }
        for (text, literals) in [
            ("foo", "[Ff][Oo][Oo]"),
            ("k1é", r"[Kk]1\xC3\xA9"),
            ("[a-c]x", "[Aa][Xx]|[Bb][Xx]|[Cc][Xx]"),
        ] {
            assert_eq!(found(text, Fold::AsciiInsensitive), literals, "{text}");
        }
    }

    #[test]
    fn where_nothing_is_required_nothing_is_found() {
        for text in [
            "",
            "x*",
            "^$",
            r"\w+",
            r"\d{4}",
            "a?b?",
            "foo|",
            "foo|x*",
            r"a.b",
            r".",
            "(?:foo)?",
            r"x\d+y",
            r"\x00",
            r"\x00+",
            r"[\x00a]",
            r"(?:a\x00|\x00)",
        ] {
            assert_eq!(found(text, Fold::Sensitive), "unknown", "{text}");
        }
        for text in [r"[^\s\S]", r"foo[^\s\S]", r"(?:a[^\s\S]|[^\s\S])"] {
            assert_eq!(found(text, Fold::Sensitive), "never", "{text}");
        }
        // Long literals are truncated, and too many literals are dropped.
        let long = "ab".repeat(2000);
        assert_eq!(found(&long, Fold::Sensitive).len(), LONGEST);
        let many: Vec<String> = (10..60).map(|n| format!("x{n}")).collect();
        assert_eq!(found(&many.join("|"), Fold::Sensitive), "unknown");
    }
}
