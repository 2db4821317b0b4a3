//! A compiled expression: a quick form at first, a thorough form once the search has read enough.
//!
//! Ripgrep's matcher spends up to some milliseconds on an expression: it makes the whole automaton
//! deterministic and looks for literals inside the expression. A scan of a tree regains that time,
//! an answer from a few files does not. So a search starts with the plain automaton, which builds
//! its states when the text needs them. One worker compiles the thorough form when the search has
//! read [`THOROUGH_AFTER`] bytes. Both forms find the same matches and differ only in time.
//!
//! An expression that is a single literal needs neither form: a substring search finds its matches.
//! The regular expression would call the same search behind several layers, which cost more than
//! the search itself where many lines match.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use grep_matcher::{LineMatchKind, Match, Matcher, NoError};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memmem};
use regex_automata::Input;
use regex_automata::meta::{BuildError, Regex};
use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Repetition,
};

use crate::exec::matching::pattern::{Pattern, PatternError, REGEX_NEST_LIMIT, REGEX_SIZE_LIMIT};

/// The most bytes of lazily built automaton that one worker keeps.
const CACHE_LIMIT: usize = 16 << 20;

/// The bytes that a call searches before it compiles thoroughly. The plain automaton needs 4 ms for
/// them in the worst case.
const THOROUGH_AFTER: usize = 2 << 20;

/// The bytes that a worker searches before it adds them to the shared count.
const TOLD_EVERY: usize = 64 << 10;

/// An expression compiled for finding matches, shared by the workers of a call.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    literal: Option<Arc<memmem::Finder<'static>>>,
    quick: Regex,
    progress: Arc<Progress>,
}

/// The progress of a call, and its thorough form.
#[derive(Debug)]
struct Progress {
    pattern: Pattern,
    /// The bytes that workers have searched and counted.
    searched: AtomicUsize,
    /// Whether a worker compiles the thorough form, or has done so.
    claimed: AtomicBool,
    /// The thorough form. The inner value is `None` if compiling it failed.
    thorough: OnceLock<Option<RegexMatcher>>,
}

impl Compiled {
    /// Compiles a pattern into its quick form.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the automaton of the expression would exceed the size limit.
    pub(crate) fn new(pattern: &Pattern) -> Result<Compiled, PatternError> {
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(REGEX_SIZE_LIMIT))
            .hybrid_cache_capacity(CACHE_LIMIT)
            .dfa(false)
            .onepass(false);
        let hir = pattern.full_hir();
        let quick = Regex::builder()
            .configure(config)
            .build_from_hir(&without_line_feed(&hir))
            .map_err(|error| PatternError::new(explain(&error)))?;
        Ok(Compiled {
            literal: literal(&hir),
            quick,
            progress: Arc::new(Progress {
                pattern: pattern.clone(),
                searched: AtomicUsize::new(0),
                claimed: AtomicBool::new(false),
                thorough: OnceLock::new(),
            }),
        })
    }

    /// Creates the finder of one worker, with its own caches.
    pub(crate) fn finder(&self) -> Finder {
        Finder {
            literal: self.literal.clone(),
            quick: self.quick.clone(),
            thorough: OnceCell::new(),
            untold: Cell::new(0),
            progress: self.progress.clone(),
        }
    }
}

/// Returns the substring search for an expression that is one text within a line.
fn literal(hir: &Hir) -> Option<Arc<memmem::Finder<'static>>> {
    match hir.kind() {
        HirKind::Literal(text) if memchr(b'\n', &text.0).is_none() => {
            Some(Arc::new(memmem::Finder::new(&text.0).into_owned()))
        }
        _ => None,
    }
}

fn explain(error: &BuildError) -> String {
    if error.size_limit().is_some() {
        format!(
            "the regular expression is too large: its automaton would exceed {REGEX_SIZE_LIMIT} bytes; use \
             smaller counted repetitions or smaller character classes"
        )
    } else {
        format!("invalid regular expression: {error}")
    }
}

impl Progress {
    /// Counts searched bytes. Returns the thorough form once there is one. The call may take the
    /// time to compile it.
    fn count(&self, bytes: usize) -> Option<&Option<RegexMatcher>> {
        let before = self.searched.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) < THOROUGH_AFTER {
            return None;
        }
        if self.thorough.get().is_none() && self.claimed.swap(true, Ordering::AcqRel) {
            // Another worker compiles it. Until it is ready, the quick form is used.
            return None;
        }
        Some(self.thorough.get_or_init(|| compile(&self.pattern)))
    }
}

/// Compiles the thorough form. `None` if that fails, which only costs time.
fn compile(pattern: &Pattern) -> Option<RegexMatcher> {
    RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .word(pattern.word())
        .nest_limit(REGEX_NEST_LIMIT + 16)
        .size_limit(REGEX_SIZE_LIMIT)
        .dfa_size_limit(CACHE_LIMIT)
        .build(pattern.expression())
        .ok()
}

/// The finder of one worker.
#[derive(Debug)]
pub(crate) struct Finder {
    literal: Option<Arc<memmem::Finder<'static>>>,
    quick: Regex,
    thorough: OnceCell<Option<RegexMatcher>>,
    /// The searched bytes that are not in the shared count yet.
    untold: Cell<usize>,
    progress: Arc<Progress>,
}

impl Finder {
    /// Finds the leftmost match that starts at or after `at`.
    pub(crate) fn find_at(&self, haystack: &[u8], at: usize) -> Option<Match> {
        if let Some(literal) = &self.literal {
            let found = at + literal.find(&haystack[at..])?;
            return Some(Match::new(found, found + literal.needle().len()));
        }
        match self.thorough() {
            Some(matcher) => sure(matcher.find_at(haystack, at)),
            None => self
                .quick
                .find(Input::new(haystack).range(at..))
                .map(|found| Match::new(found.start(), found.end())),
        }
    }

    /// Finds a position at which a match that starts at or after `at` is known to end.
    pub(crate) fn shortest_match_at(&self, haystack: &[u8], at: usize) -> Option<usize> {
        if self.literal.is_some() {
            return self.find_at(haystack, at).map(|found| found.end());
        }
        match self.thorough() {
            Some(matcher) => sure(matcher.shortest_match_at(haystack, at)),
            None => self
                .quick
                .search_half(&Input::new(haystack).range(at..))
                .map(|found| found.offset()),
        }
    }

    /// Finds a position in the first of `lines` that may match. `lines` are whole lines.
    pub(crate) fn find_candidate_line(&self, lines: &[u8]) -> Option<LineMatchKind> {
        if let Some(literal) = &self.literal {
            return literal.find(lines).map(LineMatchKind::Confirmed);
        }
        let found = match self.thorough() {
            Some(matcher) => return sure(matcher.find_candidate_line(lines)),
            None => self.shortest_match_at(lines, 0),
        };
        self.count(found.unwrap_or(lines.len()));
        found.map(LineMatchKind::Confirmed)
    }

    fn thorough(&self) -> Option<&RegexMatcher> {
        self.thorough.get().and_then(Option::as_ref)
    }

    fn count(&self, bytes: usize) {
        let untold = self.untold.get().saturating_add(bytes);
        if untold < TOLD_EVERY || self.thorough.get().is_some() {
            self.untold.set(untold);
            return;
        }
        self.untold.set(0);
        if let Some(compiled) = self.progress.count(untold) {
            // Set only here, and only once.
            let _ = self.thorough.set(compiled.clone());
        }
    }
}

/// The error type of ripgrep's matcher never occurs.
fn sure<T>(result: Result<Option<T>, NoError>) -> Option<T> {
    result.ok().flatten()
}

/// Removes the line feed from every class of the expression. The parser's nesting limit bounds the
/// recursion.
fn without_line_feed(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(without_line_feed(&repetition.sub)),
            ..repetition.clone()
        }),
        HirKind::Capture(capture) => Hir::capture(Capture {
            sub: Box::new(without_line_feed(&capture.sub)),
            ..capture.clone()
        }),
        HirKind::Concat(subs) => Hir::concat(subs.iter().map(without_line_feed).collect()),
        HirKind::Alternation(subs) => {
            Hir::alternation(subs.iter().map(without_line_feed).collect())
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Look(_) => hir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::question::query::Fold;

    fn compiled(text: &str, fold: Fold, word: bool) -> Compiled {
        Compiled::new(&Pattern::compile(text, false, fold, word).unwrap()).unwrap()
    }

    /// Creates a finder that uses the expression, also if that is a single literal.
    fn quick(compiled: &Compiled) -> Finder {
        Finder {
            literal: None,
            ..compiled.finder()
        }
    }

    /// Creates a finder that has searched enough to use the thorough form.
    fn thorough(compiled: &Compiled) -> Finder {
        let finder = quick(compiled);
        finder.count(THOROUGH_AFTER);
        assert!(finder.thorough().is_some());
        finder
    }

    /// Returns positions inside the matching lines.
    fn lines(finder: &Finder, text: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut from = 0;
        while from < text.len() {
            let rest = &text[from..];
            let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
            let Some(kind) = finder.find_candidate_line(rest) else {
                break;
            };
            let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = kind;
            let start = from + memchr::memrchr(b'\n', &rest[..at]).map_or(0, |feed| feed + 1);
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |n| start + n);
            let line = &text[start..end];
            let matches = finder.find_at(line, 0);
            assert_eq!(
                finder.shortest_match_at(line, 0).is_some(),
                matches.is_some()
            );
            if matches!(kind, LineMatchKind::Confirmed(_)) || matches.is_some() {
                found.push(start);
            }
            from = end + 1;
        }
        found
    }

    const PATTERNS: [&str; 26] = [
        "ab",
        "a|b|ab",
        "a+?b",
        "^a",
        "a$",
        "^$",
        "^",
        "$",
        r"\bab\b",
        r"\Bb",
        r"\w+",
        r"\W\w",
        r"\s+b",
        r"[^a]b",
        "[^a]",
        ".b",
        ".*b.*",
        r"(a|b)+é",
        "é|k",
        "(?-u:\\xC3)",
        r"(?s:.)b",
        "a{2,3}",
        r"\w+ab\w+",
        r"[^\s]+b",
        "",
        r"\p{Lu}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn all_forms_find_the_same(
            text in prop::collection::vec(prop::sample::select(b"aabbk \n\r.\xC3\xA9\xE2\xFF".to_vec()), 0..60),
            pattern in prop::sample::select(PATTERNS.to_vec()),
            insensitive: bool,
            word: bool,
        ) {
            let fold = if insensitive { Fold::AsciiInsensitive } else { Fold::Sensitive };
            let compiled = compiled(pattern, fold, word);
            let (own, quick, thorough) = (compiled.finder(), quick(&compiled), thorough(&compiled));
            for line in text.split(|&b| b == b'\n') {
                for at in 0..=line.len() {
                    prop_assert_eq!(quick.find_at(line, at), thorough.find_at(line, at));
                    prop_assert_eq!(own.find_at(line, at), thorough.find_at(line, at));
                }
            }
            // If a look-around sees a stray byte across a line's start, both forms report too many
            // lines. The line matcher removes them.
            if !pattern.contains('B') && !word {
                prop_assert_eq!(lines(&quick, &text), lines(&thorough, &text));
                prop_assert_eq!(lines(&own, &text), lines(&thorough, &text));
            }
        }
    }

    #[test]
    fn no_match_reaches_across_lines() {
        for pattern in [r"a\s+b", r"a[^x]b", r"(?s)a.b", "a(?-u:[^x])b", r"(a\W)*b"] {
            let compiled = compiled(pattern, Fold::Sensitive, false);
            for finder in [compiled.finder(), thorough(&compiled)] {
                let found = finder.find_at(b"a\nb", 0).map(|found| found.start());
                let expected = (pattern == r"(a\W)*b").then_some(2);
                assert_eq!(found, expected, "{pattern}");
            }
        }
    }

    #[test]
    fn an_expression_that_is_one_text_is_found_as_a_text() {
        for (pattern, fold, word, is_text) in [
            ("needle", Fold::Sensitive, false, true),
            (r"need\.le", Fold::Sensitive, false, true),
            ("needle", Fold::AsciiInsensitive, false, false),
            ("42", Fold::AsciiInsensitive, false, true),
            ("needle", Fold::Sensitive, true, false),
            ("needle|hay", Fold::Sensitive, false, false),
            ("", Fold::Sensitive, false, false),
        ] {
            let compiled = compiled(pattern, fold, word);
            assert_eq!(
                compiled.literal.is_some(),
                is_text,
                "{pattern} {fold:?} {word}"
            );
        }
    }

    #[test]
    fn one_worker_compiles_thoroughly_when_enough_was_searched() {
        let compiled = compiled(r"\w+needle", Fold::Sensitive, false);
        let (first, second) = (compiled.finder(), compiled.finder());
        let text = vec![b'.'; THOROUGH_AFTER / 4];
        for _ in 0..3 {
            assert!(first.find_candidate_line(&text).is_none());
        }
        assert!(compiled.progress.thorough.get().is_none());
        assert!(second.find_candidate_line(&text).is_none());
        assert!(second.thorough().is_some() && first.thorough().is_none());
        assert!(first.find_candidate_line(&text).is_none());
        assert!(first.thorough().is_some());
    }

    #[test]
    fn matches_near_the_start_of_a_text_count_only_what_was_looked_at() {
        let compiled = compiled("a", Fold::Sensitive, false);
        let finder = quick(&compiled);
        let text = [vec![b'a'], vec![b'.'; THOROUGH_AFTER]].concat();
        for _ in 0..100 {
            let found = finder.find_candidate_line(&text);
            assert!(matches!(found, Some(LineMatchKind::Confirmed(1))));
        }
        assert_eq!(finder.untold.get(), 100);
    }
}
