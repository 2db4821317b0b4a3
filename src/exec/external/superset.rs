//! Translates a pattern into an expression for ripgrep or ugrep that matches at least the same
//! lines.
//!
//! Every line that a program reports is confirmed in process, so a program may report more lines
//! than the pattern matches, never fewer. This module turns a parsed pattern into such a superset,
//! in the program's dialect. It knows expressions, and no processes.
//!
//! ripgrep shares our dialect, so it gets the pattern itself, weakened. A parsed pattern has no
//! negation, because negated classes are spelled out as the characters that they contain. So it
//! matches more lines when one of its parts matches more, and each of these steps can only add
//! lines:
//!
//! - An assertion is left out.
//! - A class with many ranges beyond ASCII gets all characters beyond ASCII.
//! - `^` also matches after a byte-order mark, `$` also before a carriage return.
//!
//! The line feed is removed from classes. That loses nothing, because no line contains one. NUL
//! stays in them: a line with NUL is not shown, but if it matches, the answer says that it is
//! missing.
//!
//! ugrep has its own dialect, and its own search for literals, so it only gets literals, of which
//! every match must contain one.

mod required;

use regex_syntax::ast;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Literal,
    Look, Repetition,
};

use crate::exec::external::superset::required::Required;
use crate::exec::matching::pattern::{Pattern, REGEX_NEST_LIMIT};

/// The longest expression for a program, in bytes. A system may limit one argument to 128 KiB.
pub(crate) const ARGUMENT_LIMIT: usize = 100 << 10;

/// A class with more ranges beyond ASCII than this gets all characters beyond ASCII. The Unicode
/// tables differ between the programs' versions, and compiling them takes longer than most
/// searches.
const RANGE_LIMIT: usize = 16;

/// The lines that a program has to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Superset {
    /// No line: the pattern can't match.
    Nothing,
    /// The lines that this expression matches.
    Expression(String),
}

/// Writes the expression for ripgrep.
///
/// # Errors
///
/// The reason why ripgrep can't search for the pattern, as the end of a sentence.
pub(crate) fn for_ripgrep(pattern: &Pattern) -> Result<Superset, String> {
    let Some(weak) = weaken(pattern.hir()) else {
        return Ok(Superset::Nothing);
    };
    let mut text = String::new();
    write_unicode(&weak, &mut text, Place::Alone);
    // In a line with only a carriage return, `$` matches before the carriage return, and a `^`
    // after the `$` would have to match after it. In other lines only empty matches can follow `$`,
    // and `^` is the only one of them that could fail.
    let looks = pattern.hir().properties().look_set();
    let has = |some: [Look; 2]| some.iter().any(|&look| looks.contains(look));
    let both = has([Look::Start, Look::StartLF]) && has([Look::End, Look::EndLF]);
    if both && pattern.hir().properties().minimum_len() == Some(0) {
        text = format!(r"(?:{text})|(?m:^)\x{{FEFF}}?\r?(?m:$)");
    }
    check_length(&text)?;
    let depth = ast::parse::ParserBuilder::new()
        .nest_limit(REGEX_NEST_LIMIT)
        .build()
        .parse(&text);
    match depth {
        Ok(_) => Ok(Superset::Expression(text)),
        Err(error) => Err(format!(
            "the expression can't be passed to the program: {}",
            error.kind()
        )),
    }
}

/// Writes the expression for ugrep: literals of which every match contains at least one. It is an
/// expression over bytes, for ugrep's option `-U`. It consists only of byte values, classes with
/// both cases of a letter, and alternatives.
///
/// # Errors
///
/// The reason why ugrep can't search for the pattern, as the end of a sentence.
pub(crate) fn for_ugrep(pattern: &Pattern) -> Result<Superset, String> {
    match required::literals(pattern.hir()) {
        Required::Nothing => Ok(Superset::Nothing),
        Required::Literals(literals) => Ok(Superset::Expression(required::write(&literals))),
        Required::Unknown => Err(format!(
            "no literal of at least {} bytes was found in every match",
            required::SHORTEST
        )),
    }
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > ARGUMENT_LIMIT {
        return Err(format!(
            "it is {} bytes long when written out, more than the {ARGUMENT_LIMIT} that a program \
             can be passed; shorten it, or search for its parts one after the other",
            text.len()
        ));
    }
    Ok(())
}

/// Weakens an expression. Returns `None` if no searched line can match it.
///
/// The nesting limit of patterns bounds the recursion.
fn weaken(hir: &Hir) -> Option<Hir> {
    match hir.kind() {
        HirKind::Empty => Some(Hir::empty()),
        HirKind::Literal(Literal(bytes)) => (!bytes.contains(&b'\n')).then(|| hir.clone()),
        HirKind::Class(Class::Unicode(class)) => {
            let class = weaken_class(class);
            (!class.ranges().is_empty()).then(|| Hir::class(Class::Unicode(class)))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            (!class.ranges().is_empty()).then(|| Hir::class(Class::Bytes(class)))
        }
        HirKind::Look(look) => {
            let kept = match look {
                Look::Start | Look::StartLF | Look::StartCRLF => Some(Look::StartLF),
                Look::End | Look::EndLF | Look::EndCRLF => Some(Look::EndLF),
                _ => None,
            };
            Some(match kept {
                Some(look) => Hir::look(look),
                None => Hir::empty(),
            })
        }
        HirKind::Repetition(repetition) => match weaken(&repetition.sub) {
            Some(sub) => Some(Hir::repetition(Repetition {
                min: repetition.min,
                max: repetition.max,
                greedy: true,
                sub: Box::new(sub),
            })),
            None => (repetition.min == 0).then(Hir::empty),
        },
        HirKind::Capture(capture) => weaken(&capture.sub),
        HirKind::Concat(subs) => {
            let subs: Option<Vec<Hir>> = subs.iter().map(weaken).collect();
            subs.map(Hir::concat)
        }
        HirKind::Alternation(subs) => {
            let subs: Vec<Hir> = subs.iter().filter_map(weaken).collect();
            (!subs.is_empty()).then(|| Hir::alternation(subs))
        }
    }
}

fn weaken_class(class: &ClassUnicode) -> ClassUnicode {
    let mut weak = class.clone();
    weak.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
    let beyond = |range: &&ClassUnicodeRange| range.end() > '\x7F';
    if weak.ranges().iter().filter(beyond).count() > RANGE_LIMIT {
        weak.push(ClassUnicodeRange::new('\u{80}', char::MAX));
    }
    weak
}

/// The context of an expression that is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// On its own, or in parentheses.
    Alone,
    /// Part of a sequence.
    Concat,
    /// Before a repetition operator.
    Repeated,
}

/// Writes an expression in the dialect of the `regex` crate. Uses only syntax that all of its
/// versions share.
fn write_unicode(hir: &Hir, out: &mut String, place: Place) {
    match hir.kind() {
        HirKind::Empty => out.push_str("(?:)"),
        HirKind::Literal(Literal(bytes)) => {
            let one = std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1);
            group(place == Place::Repeated && !one, out, |out| {
                for chunk in bytes.utf8_chunks() {
                    for c in chunk.valid().chars() {
                        write_char(c, out);
                    }
                    for byte in chunk.invalid() {
                        out.push_str(&format!(r"(?-u:\x{byte:02X})"));
                    }
                }
            });
        }
        HirKind::Class(Class::Unicode(class)) => {
            out.push('[');
            for range in class.ranges() {
                write_char(range.start(), out);
                if range.start() != range.end() {
                    out.push('-');
                    write_char(range.end(), out);
                }
            }
            out.push(']');
        }
        HirKind::Class(Class::Bytes(class)) => {
            out.push_str("(?-u:");
            write_byte_class(class.ranges(), out);
            out.push(')');
        }
        HirKind::Look(Look::StartLF) => group(place == Place::Repeated, out, |out| {
            out.push_str(r"(?m:^)\x{FEFF}?");
        }),
        HirKind::Look(Look::EndLF) => group(place == Place::Repeated, out, |out| {
            out.push_str(r"\r?(?m:$)");
        }),
        // Weakening removed all other assertions.
        HirKind::Look(_) => {}
        HirKind::Repetition(repetition) => group(place == Place::Repeated, out, |out| {
            write_unicode(&repetition.sub, out, Place::Repeated);
            write_operator(repetition, out);
        }),
        HirKind::Capture(capture) => write_unicode(&capture.sub, out, place),
        HirKind::Concat(subs) => group(place == Place::Repeated, out, |out| {
            for sub in subs {
                write_unicode(sub, out, Place::Concat);
            }
        }),
        HirKind::Alternation(subs) => group(place > Place::Alone, out, |out| {
            for (n, sub) in subs.iter().enumerate() {
                if n > 0 {
                    out.push('|');
                }
                write_unicode(sub, out, Place::Concat);
            }
        }),
    }
}

fn group(needed: bool, out: &mut String, write: impl FnOnce(&mut String)) {
    if needed {
        out.push_str("(?:");
    }
    write(out);
    if needed {
        out.push(')');
    }
}

fn write_operator(repetition: &Repetition, out: &mut String) {
    match (repetition.min, repetition.max) {
        (0, Some(1)) => out.push('?'),
        (0, None) => out.push('*'),
        (1, None) => out.push('+'),
        (min, None) => out.push_str(&format!("{{{min},}}")),
        (min, Some(max)) if min == max => out.push_str(&format!("{{{min}}}")),
        (min, Some(max)) => out.push_str(&format!("{{{min},{max}}}")),
    }
}

fn write_byte_class(ranges: &[ClassBytesRange], out: &mut String) {
    if let [range] = ranges
        && range.start() == range.end()
    {
        return write_byte(range.start(), out);
    }
    out.push('[');
    for range in ranges {
        write_byte(range.start(), out);
        if range.start() != range.end() {
            out.push('-');
            write_byte(range.end(), out);
        }
    }
    out.push(']');
}

/// Writes a byte so that it is literal in every context.
fn write_byte(byte: u8, out: &mut String) {
    if byte.is_ascii_alphanumeric() {
        out.push(byte as char);
    } else {
        out.push_str(&format!(r"\x{byte:02X}"));
    }
}

/// Writes a character so that it is literal in every context.
fn write_char(c: char, out: &mut String) {
    if c.is_ascii() {
        write_byte(c as u8, out);
    } else {
        out.push_str(&format!(r"\x{{{:X}}}", c as u32));
    }
}

#[cfg(test)]
mod tests;
