//! Patterns: translates the user's texts into one normal form that every engine understands alike.
//!
//! The normal form is one expression. ASCII case folding is spelled out in it as classes, so it
//! does not depend on an engine's definition of "insensitive". Unicode case folding is written as
//! the flag `i`, which all engines that get it define in the same way. `\A` and `\z` become `^` and
//! `$`, because a pattern is matched against one line at a time. The flags `m` and `R` are removed.
//!
//! Several patterns become alternatives of one expression, and many literals become a `LiteralSet`.
//! This module knows only expressions: it reads no files and chooses no engine.

use std::ops::Range;
use std::sync::Arc;

use regex_syntax::ast::{self, Ast};
use regex_syntax::hir::{self, Hir, HirKind, Look};

use crate::exec::matching::literal_set::LiteralSet;
use crate::exec::matching::normalize;
use crate::exec::question::query::{CaseRule, Fold, QueryOptions};

/// Largest compiled form of an expression, in bytes of automaton.
pub const REGEX_SIZE_LIMIT: usize = 10 << 20;

/// Longest pattern, in bytes.
pub const PATTERN_LIMIT: usize = 64 << 10;

/// The characters with a special meaning in an expression.
const METACHARACTERS: [char; 14] = [
    '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$', '\\',
];

/// Deepest nesting of groups and repetitions in an expression.
pub const REGEX_NEST_LIMIT: u32 = 200;

/// The most literals that become alternatives of one expression. More of them become a set.
const MOST_ALTERNATIVES: usize = 256;

/// The cost of a set of literals, see [`Pattern::cost`]. It is so high that the set is compiled on
/// a thread that the call can abandon.
const COST_OF_SET: usize = 1 << 20;

/// Why a pattern is refused, as a message to the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatternError {
    /// The problem, and a pattern that would be accepted.
    pub message: String,
    /// The invalid bytes of the pattern, if known.
    pub span: Option<Range<usize>>,
    /// The number of the invalid pattern among several, from 0.
    pub pattern: Option<usize>,
    /// Whether the user can search for the pattern as a literal instead.
    pub as_text: bool,
}

impl PatternError {
    /// Creates an error about the pattern as a whole.
    pub fn new(message: String) -> PatternError {
        PatternError {
            message,
            span: None,
            pattern: None,
            as_text: false,
        }
    }
}

/// A pattern in normal form.
#[derive(Clone, Debug)]
pub struct Pattern {
    original: String,
    expression: String,
    hir: Hir,
    word: bool,
    fold: Fold,
    fixed: bool,
    cost: usize,
    sees_carriage_return: bool,
    literals: Option<Arc<LiteralSet>>,
}

impl Pattern {
    /// Translates texts into normal form. A line matches if it matches one of them.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if there is no text, an expression is invalid or too large, a text contains
    /// a line feed, or a construct needs backtracking. The message names the construct and an
    /// alternative.
    pub fn of(texts: &[String], options: &QueryOptions) -> Result<Pattern, PatternError> {
        let &QueryOptions {
            fixed_strings,
            word,
            whole_line,
            case,
            case_rule,
            ..
        } = options;
        let bytes: usize = texts.iter().map(String::len).sum();
        // Texts without metacharacters are equivalent to literals, of which more are allowed.
        let is_literal = |text: &String| !text.contains(METACHARACTERS);
        let is_list = texts.len() > 1 && bytes > PATTERN_LIMIT;
        let fixed_strings = fixed_strings || (is_list && texts.iter().all(is_literal));
        if fixed_strings && (texts.len() > MOST_ALTERNATIVES || bytes > PATTERN_LIMIT) {
            return Pattern::of_literals(texts, options);
        }
        let (text, fixed) = match texts {
            [] => {
                return Err(PatternError::new(
                    "no pattern is given; nothing can match".to_string(),
                ));
            }
            [one] if !whole_line => (one.clone(), fixed_strings),
            all => (together(all, fixed_strings, whole_line)?, false),
        };
        // Smart case looks at the texts themselves, not at the escapes that joining them adds.
        let fold = case.fold_of(texts, fixed_strings, case_rule);
        let pattern = Pattern::compile_as(&text, fixed, fold, word, case_rule)?;
        Ok(Pattern {
            original: match texts {
                [one] => one.clone(),
                _ => text,
            },
            ..pattern
        })
    }

    fn of_literals(texts: &[String], options: &QueryOptions) -> Result<Pattern, PatternError> {
        let fold = options.case.fold_of(texts, true, options.case_rule);
        let set = LiteralSet::new(texts, fold, options.word, options.whole_line)?;
        Ok(Pattern {
            original: format!("{} literals", texts.len()),
            expression: String::new(),
            // An empty expression promises nothing about a match.
            hir: Hir::empty(),
            word: options.word,
            fold,
            fixed: true,
            cost: COST_OF_SET,
            sees_carriage_return: set.sees_carriage_return(),
            literals: Some(Arc::new(set)),
        })
    }

    /// Translates `text` into normal form, with ASCII case folding.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the text is invalid, too large, contains a line feed, or needs
    /// backtracking.
    pub fn compile(
        text: &str,
        fixed: bool,
        fold: Fold,
        word: bool,
    ) -> Result<Pattern, PatternError> {
        Pattern::compile_as(text, fixed, fold, word, CaseRule::Ascii)
    }

    fn compile_as(
        text: &str,
        fixed: bool,
        fold: Fold,
        word: bool,
        rule: CaseRule,
    ) -> Result<Pattern, PatternError> {
        if text.len() > PATTERN_LIMIT {
            return Err(PatternError::new(format!(
                "the pattern is {} bytes long, more than the allowed {PATTERN_LIMIT}; search for a \
                 rare part of it",
                text.len()
            )));
        }
        let source = if fixed {
            regex_syntax::escape(text)
        } else {
            text.to_string()
        };
        let mut ast = ast::parse::ParserBuilder::new()
            .nest_limit(REGEX_NEST_LIMIT)
            .build()
            .parse(&source)
            .map_err(|error| explain_parse_error(text, &error))?;
        normalize::normalize(&mut ast, fold == Fold::AsciiInsensitive, rule);
        let mut expression = print(&ast)?;
        if fold == Fold::UnicodeInsensitive {
            expression = format!("(?i:{expression})");
        }
        let hir = parse_normal(&expression)
            .map_err(|error| explain_translation_error(text, &expression, &error))?;
        if has_line_feed(&hir) {
            return Err(PatternError::new(
                "the pattern contains a line feed, but a match lies within one line; search for a \
                 part on one line, or for each line separately"
                    .to_string(),
            ));
        }
        let cost = cost(&hir);
        let sees_carriage_return = sees_carriage_return(&hir, word);
        Ok(Pattern {
            original: text.to_string(),
            expression,
            hir,
            word,
            fold,
            fixed,
            cost,
            sees_carriage_return,
            literals: None,
        })
    }

    /// Returns the literals if the pattern is a set of them. Its expression is empty then.
    pub(crate) fn literals(&self) -> Option<&Arc<LiteralSet>> {
        self.literals.as_ref()
    }

    /// Returns the pattern as the request gave it.
    pub fn original(&self) -> &str {
        &self.original
    }

    /// Returns the normal form as an expression in the dialect of the `regex` crate, without the
    /// word boundaries of [`Pattern::word`]. It must be compiled in multi-line mode.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the parsed normal form, without the word boundaries.
    pub fn hir(&self) -> &Hir {
        &self.hir
    }

    /// Returns true if matches must stand between (half) word boundaries.
    pub fn word(&self) -> bool {
        self.word
    }

    /// Returns the case folding of the pattern.
    pub fn fold(&self) -> Fold {
        self.fold
    }

    /// Returns true if the request gave a literal.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Estimates the number of automaton states. The slowest engine's time for each byte can grow
    /// by this factor.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Returns true if a carriage return before a line's end could change the matches, so that it
    /// must be removed before matching.
    pub fn sees_carriage_return(&self) -> bool {
        self.sees_carriage_return
    }

    /// Returns the normal form with its word boundaries, for building automata.
    pub(crate) fn full_hir(&self) -> Hir {
        if !self.word {
            return self.hir.clone();
        }
        Hir::concat(vec![
            Hir::look(Look::WordStartHalfUnicode),
            self.hir.clone(),
            Hir::look(Look::WordEndHalfUnicode),
        ])
    }
}

/// Joins texts as alternatives of one expression.
///
/// # Errors
///
/// [`PatternError`] if one of the texts is invalid by itself. For example, two texts with half a
/// group each are not patterns.
fn together(all: &[String], fixed: bool, whole_line: bool) -> Result<String, PatternError> {
    let mut parts = Vec::with_capacity(all.len());
    for (nth, one) in all.iter().enumerate() {
        if !fixed && !one.is_empty() {
            Pattern::compile(one, false, Fold::Sensitive, false).map_err(|error| PatternError {
                pattern: Some(nth),
                ..error
            })?;
        }
        parts.push(match one.as_str() {
            // The empty pattern matches every line.
            "" => "(?:)".to_string(),
            one if fixed => regex_syntax::escape(one),
            one => format!("(?:{one})"),
        });
    }
    let any = parts.join("|");
    Ok(match whole_line {
        true => format!("^(?:{any})$"),
        false => any,
    })
}

/// Prints a syntax tree as an expression.
fn print(ast: &Ast) -> Result<String, PatternError> {
    let mut text = String::new();
    ast::print::Printer::new()
        .print(ast, &mut text)
        .map_err(|_| PatternError::new("the expression can't be normalised".to_string()))?;
    Ok(text)
}

/// Parses an expression in normal form.
fn parse_normal(expression: &str) -> Result<Hir, Box<regex_syntax::Error>> {
    regex_syntax::ParserBuilder::new()
        .utf8(false)
        .multi_line(true)
        // Folding replaces a letter by a class, which nests one level deeper.
        .nest_limit(REGEX_NEST_LIMIT + 8)
        .build()
        .parse(expression)
        .map_err(Box::new)
}

/// Explains the error of an expression that parses but has no meaning, such as `\p{Foo}`. The
/// position is looked up in the text of the request, which may differ from `expression`.
fn explain_translation_error(
    text: &str,
    expression: &str,
    error: &regex_syntax::Error,
) -> PatternError {
    let (kind, span) = match error {
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), Some(error.span())),
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), Some(error.span())),
        other => (other.to_string(), None),
    };
    let construct = span.and_then(|span| expression.get(span.start.offset..span.end.offset));
    let at = construct.and_then(|construct| {
        let start = text.find(construct)?;
        Some(start..start + construct.len())
    });
    let place = at
        .as_ref()
        .map_or(String::new(), |at| format!(" at byte {}", at.start));
    PatternError {
        message: format!("invalid regular expression{place}: {kind}"),
        span: at,
        pattern: None,
        as_text: true,
    }
}

/// Converts a parser's error into a message with a way to correct the pattern.
fn explain_parse_error(text: &str, error: &ast::Error) -> PatternError {
    use ast::ErrorKind as K;
    let span = error.span().start.offset..error.span().end.offset;
    let at = span.start;
    let construct: String = text.get(span.clone()).unwrap_or("").to_string();
    let mut as_text = false;
    let message = match error.kind() {
        K::UnsupportedLookAround => format!(
            "lookaround (`{construct}`, at byte {at}) is not supported: expressions are matched in linear \
             time; match the surrounding text too, or use \\b for word boundaries"
        ),
        K::UnsupportedBackreference => no_backreferences(&construct, at),
        // References by name: to the parser, `\k<name>` is an unknown escape and `(?P=name)` an
        // unknown flag.
        K::EscapeUnrecognized if construct == r"\k" => no_backreferences(&construct, at),
        K::FlagUnrecognized if text.get(at..).is_some_and(|rest| rest.starts_with("P=")) => {
            no_backreferences("(?P=", at.saturating_sub(2))
        }
        K::NestLimitExceeded(limit) => {
            as_text = true;
            format!("the regular expression nests deeper than {limit} levels; simplify it")
        }
        kind => {
            as_text = true;
            format!("invalid regular expression at byte {at}: {kind}")
        }
    };
    PatternError {
        message,
        span: Some(span),
        pattern: None,
        as_text,
    }
}

fn no_backreferences(construct: &str, at: usize) -> String {
    format!(
        "backreferences (`{construct}`, at byte {at}) are not supported: expressions are matched \
         in linear time; write out the alternatives, as in (aa|bb), or search for the repeated \
         part and filter"
    )
}

/// Returns true if every match, or an alternative of it, needs a line feed.
fn has_line_feed(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(hir::Literal(bytes)) => bytes.contains(&b'\n'),
        HirKind::Repetition(rep) => has_line_feed(&rep.sub),
        HirKind::Capture(capture) => has_line_feed(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs.iter().any(has_line_feed),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Returns true if the expression asserts a line's end, can match a carriage return, or can match
/// the empty text under a condition. Such an empty match may stand between the carriage return and
/// the line feed, and the line without its terminator lacks that place.
fn sees_carriage_return(hir: &Hir, word: bool) -> bool {
    let looks = hir.properties().look_set();
    if looks.contains(Look::EndLF) || looks.contains(Look::End) {
        return true;
    }
    let can_be_empty = hir.properties().minimum_len().is_none_or(|len| len == 0);
    if can_be_empty && (word || !looks.is_empty()) {
        return true;
    }
    matches_byte(hir, b'\r')
}

/// Returns true if a match can contain the ASCII byte `byte`.
fn matches_byte(hir: &Hir, byte: u8) -> bool {
    match hir.kind() {
        HirKind::Literal(hir::Literal(bytes)) => bytes.contains(&byte),
        HirKind::Class(hir::Class::Unicode(class)) => class
            .iter()
            .any(|range| range.start() <= byte as char && byte as char <= range.end()),
        HirKind::Class(hir::Class::Bytes(class)) => class
            .iter()
            .any(|range| range.start() <= byte && byte <= range.end()),
        HirKind::Repetition(rep) => matches_byte(&rep.sub, byte),
        HirKind::Capture(capture) => matches_byte(&capture.sub, byte),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => {
            subs.iter().any(|sub| matches_byte(sub, byte))
        }
        HirKind::Empty | HirKind::Look(_) => false,
    }
}

/// Estimates the number of automaton states, saturating.
fn cost(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(hir::Literal(bytes)) => bytes.len(),
        HirKind::Class(hir::Class::Unicode(class)) => 1 + class.ranges().len(),
        HirKind::Class(hir::Class::Bytes(class)) => 1 + class.ranges().len() / 8,
        HirKind::Repetition(rep) => {
            let times = rep.max.unwrap_or(rep.min.saturating_add(1)).max(1) as usize;
            cost(&rep.sub).saturating_add(1).saturating_mul(times)
        }
        HirKind::Capture(capture) => cost(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs
            .iter()
            .fold(1usize, |sum, sub| sum.saturating_add(cost(sub))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str, fold: Fold) -> String {
        Pattern::compile(text, false, fold, false)
            .unwrap()
            .expression()
            .to_string()
    }

    fn refused(text: &str) -> String {
        Pattern::compile(text, false, Fold::Sensitive, false)
            .unwrap_err()
            .message
    }

    #[test]
    fn the_normal_form_spells_out_ascii_folding() {
        let i = Fold::AsciiInsensitive;
        assert_eq!(normal("kK1é", i), "[kK][Kk]1é");
        assert_eq!(normal("[a-c]", i), "[a-cA-C]");
        assert_eq!(normal("[^k]", i), "[^kK]");
        assert_eq!(normal("(?i)k", Fold::Sensitive), "[kK]");
        assert_eq!(normal("(?i:k)k", Fold::Sensitive), "(?:[kK])k");
        assert_eq!(normal("(?-i:k)k", i), "(?:k)[kK]");
        assert_eq!(normal("(?-i)k|k", i), "k|k");
        assert_eq!(normal("(?:(?-i)k|k)k", i), "(?:k|k)[kK]");
        assert_eq!(normal("É", i), "É");
    }

    #[test]
    fn text_anchors_become_line_anchors() {
        assert_eq!(normal(r"\Ab\z", Fold::Sensitive), "^b$");
        assert_eq!(normal(r"(?-m)^b$", Fold::Sensitive), "^b$");
        assert_eq!(normal(r"(?R)^b$", Fold::Sensitive), "^b$");
        for text in [r"\A(?-m:^a)$\z", r"(?-m)(^|\A)b", r"(?R-m:$)|\z"] {
            let pattern = Pattern::compile(text, false, Fold::Sensitive, true).unwrap();
            let looks = pattern.full_hir().properties().look_set();
            assert!(!looks.contains_anchor_haystack(), "{text}");
        }
    }

    #[test]
    fn unsupported_constructs_are_named_with_an_alternative() {
        let look = refused("foo(?=bar)");
        assert!(
            look.contains("lookaround") && look.contains("(?=") && look.contains(r"\b"),
            "{look}"
        );
        let back = refused(r"(a)\1");
        assert!(
            back.contains("backreferences") && back.contains(r"\1"),
            "{back}"
        );
        let error = Pattern::compile("a{", false, Fold::Sensitive, false).unwrap_err();
        assert_eq!((error.span, error.as_text), (Some(1..2), true));
        assert!(
            refused(&format!("{}a{}", "(".repeat(500), ")".repeat(500))).contains("nests deeper")
        );
    }

    #[test]
    fn a_pattern_beyond_the_limit_is_refused() {
        let message = refused(&"a".repeat(PATTERN_LIMIT + 1));
        assert!(
            message.contains("65537 bytes") && message.contains("65536"),
            "{message}"
        );
        let longest = "a".repeat(PATTERN_LIMIT);
        assert!(Pattern::compile(&longest, true, Fold::AsciiInsensitive, true).is_ok());
    }

    #[test]
    fn line_feeds_are_refused_wherever_a_match_needs_them() {
        for text in ["a\nb", r"a\nb", r"[\n]", "x|a\n", "(?:\n)+"] {
            assert!(refused(text).contains("line feed"), "{text:?}");
        }
        assert!(Pattern::compile("a\nb", true, Fold::Sensitive, false).is_err());
        assert!(Pattern::compile(r"a\s", false, Fold::Sensitive, false).is_ok());
    }

    #[test]
    fn carriage_returns_matter_only_where_the_pattern_can_see_them() {
        let sees = |text: &str| {
            Pattern::compile(text, false, Fold::Sensitive, false)
                .unwrap()
                .sees_carriage_return()
        };
        for text in [
            "a$",
            "a.",
            r"a\s",
            "[^a]",
            "a\rb",
            r"a\z",
            r"\B",
            r"(\b|a)",
            r"\b{start-half}",
        ] {
            assert!(sees(text), "{text}");
        }
        for text in ["a", r"\ba\b", "^a", r"\w+", "[a-z]{3}", "a*", r"\Ba"] {
            assert!(!sees(text), "{text}");
        }
        let word = |text: &str| {
            Pattern::compile(text, false, Fold::Sensitive, true)
                .unwrap()
                .sees_carriage_return()
        };
        assert!(word("a?") && !word("a"));
    }
}
