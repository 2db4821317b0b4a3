use std::collections::BTreeSet;

use proptest::prelude::*;
use regex_automata::nfa::thompson::{self, NFA, State};
use regex_automata::util::look::LookMatcher;

use super::*;
use crate::exec::question::query::Fold;
use crate::exec::stop::StopReason;

fn pattern(text: &str, fixed: bool, word: bool) -> Pattern {
    Pattern::compile(text, fixed, Fold::Sensitive, word).unwrap()
}

fn matcher(pattern: &Pattern, level: u32) -> Option<FuzzyWorker> {
    Some(FuzzyMatcher::new(pattern, level).ok()?.worker(Stop::new()))
}

/// Returns the start of each character of a line, and the end of the line.
fn starts(line: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    let mut at = 0;
    while at < line.len() {
        at += alphabet::first_char(&line[at..]).1;
        starts.push(at);
    }
    starts
}

/// Returns the edits between a text and a part of a line, by the plain table.
fn distance(pattern: &[char], part: &[u8]) -> u32 {
    let mut row: Vec<u32> = (0..=pattern.len() as u32).collect();
    let places = starts(part);
    for place in places.windows(2) {
        let (c, _) = alphabet::first_char(&part[place[0]..]);
        let mut diagonal = row[0];
        row[0] += 1;
        for (n, &p) in pattern.iter().enumerate() {
            let substituted = diagonal + u32::from(c != Some(p));
            diagonal = row[n + 1];
            row[n + 1] = substituted.min(diagonal + 1).min(row[n] + 1);
        }
    }
    row[pattern.len()]
}

/// Returns the best part of a line: checks all parts.
fn best_part(pattern: &str, level: u32, line: &[u8]) -> Option<Span> {
    let pattern: Vec<char> = pattern.chars().collect();
    let places = starts(line);
    let mut best = None;
    for (n, &start) in places.iter().enumerate() {
        for &end in &places[n..] {
            let edits = distance(&pattern, &line[start..end]);
            if edits <= level {
                let key = (edits, start, end);
                best = Some(best.map_or(key, |best: (u32, usize, usize)| best.min(key)));
            }
        }
    }
    best.map(|(edits, start, end)| Span { start, end, edits })
}

/// Like [`best_part`], for an expression over ASCII: runs the library's automaton from each start
/// on its own.
fn best_way(nfa: &NFA, level: u32, line: &[u8]) -> Option<Span> {
    let looks = LookMatcher::new();
    let mut best: Option<(u32, usize, usize)> = None;
    for start in 0..=line.len() {
        // Paths by number of edits: the automaton states at each position.
        let mut seen = BTreeSet::new();
        let mut now = vec![(nfa.start_anchored(), start)];
        for edits in 0..=level {
            let mut next = Vec::new();
            while let Some((id, at)) = now.pop() {
                if !seen.insert((id, at)) {
                    continue;
                }
                if at < line.len() {
                    next.push((id, at + 1));
                }
                let mut over = |ranges: &[(u8, u8)], to| {
                    if ranges.is_empty() {
                        return;
                    }
                    next.push((to, at));
                    if let Some(&byte) = line.get(at) {
                        match ranges
                            .iter()
                            .any(|&(from, until)| (from..=until).contains(&byte))
                        {
                            true => now.push((to, at + 1)),
                            false => next.push((to, at + 1)),
                        }
                    }
                };
                match nfa.state(id) {
                    State::ByteRange { trans } => over(&[(trans.start, trans.end)], trans.next),
                    State::Sparse(sparse) => {
                        for trans in sparse.transitions.iter() {
                            over(&[(trans.start, trans.end)], trans.next);
                        }
                    }
                    State::Dense(_) => unreachable!("it is not made"),
                    State::Look { look, next } => {
                        if looks.matches(*look, line, at) {
                            now.push((*next, at));
                        }
                    }
                    State::Union { alternates } => {
                        now.extend(alternates.iter().map(|&id| (id, at)))
                    }
                    State::BinaryUnion { alt1, alt2 } => now.extend([(*alt1, at), (*alt2, at)]),
                    State::Capture { next, .. } => now.push((*next, at)),
                    State::Fail => {}
                    State::Match { .. } => {
                        let key = (edits, start, at);
                        best = Some(best.map_or(key, |best| best.min(key)));
                    }
                }
            }
            now = next;
        }
    }
    best.map(|(edits, start, end)| Span { start, end, edits })
}

/// Returns the numbers of the lines that are found in the way that a searcher uses.
fn found_lines(worker: &FuzzyWorker, text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let Some(kind) = worker.find_candidate_line(&text[from..]).unwrap() else {
            break;
        };
        let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = kind;
        let at = from + at;
        let start = memrchr(b'\n', &text[..at]).map_or(0, |feed| feed + 1);
        let end = memchr(b'\n', &text[at..]).map_or(text.len(), |feed| at + feed);
        let matches = worker.find_in_line(&text[start..end]).unwrap().is_some();
        if matches {
            found.push(memchr::memchr_iter(b'\n', &text[..start]).count());
        } else {
            assert!(
                matches!(kind, LineMatchKind::Candidate(_)),
                "{start}..{end}"
            );
        }
        from = end + 1;
    }
    found
}

fn matching_lines(worker: &FuzzyWorker, text: &[u8]) -> Vec<usize> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| worker.find_in_line(line).unwrap().is_some())
        .map(|(n, _)| n)
        .collect()
}

/// Forces the worker to look for pieces, or not to, independently of the benefit.
fn insist(worker: &mut FuzzyWorker, on_pieces: bool) {
    worker.tried.set(PieceStats {
        bytes: usize::MAX / 2,
        wasted: 0,
    });
    if !on_pieces {
        worker.pieces = None;
    }
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a", "b", "c", "ab", "abc", "bca", "[ab]", "[^a]", ".", r"\b", "^", "$", r"\B", "[b-c]",
        r"\w", "", "a{2}",
    ]);
    leaf.prop_map(str::to_string)
        .prop_recursive(4, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                prop::collection::vec(inner.clone(), 1..4)
                    .prop_map(|parts| format!("(?:{})", parts.join("|"))),
                (
                    inner,
                    prop::sample::select(vec!["?", "*", "+", "{2}", "{1,3}", "{2,}", "{0,2}"])
                )
                    .prop_map(|(part, times)| format!("(?:{part}){times}")),
            ]
        })
}

/// ASCII only, so that the library's automaton uses one byte for each character.
fn ascii(expression: &str) -> String {
    format!("(?-u:{expression})")
        .replace("[^a]", "[b-z -]")
        .replace('.', "[a-z -]")
}

/// The number of test cases: at least `cases`, or more if the environment says so.
fn cases(least: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").is_ok();
    let config = ProptestConfig::default();
    let cases = if asked {
        config.cases.max(least)
    } else {
        least
    };
    ProptestConfig { cases, ..config }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn approximate_literals_match_where_the_table_says(
        pattern_text in prop::collection::vec(prop::sample::select(vec!['a', 'b', 'c', 'é', '😀']), 1..9),
        line in prop::collection::vec(prop::sample::select(vec![&b"a"[..], b"b", b"c", "é".as_bytes(), "😀".as_bytes(), b"\xFF", b"\xE2\x82"]), 0..14),
        level in 1u32..6,
    ) {
        let text: String = pattern_text.iter().collect();
        let line = line.concat();
        match matcher(&pattern(&text, true, false), level) {
            None => prop_assert!(pattern_text.len() <= level as usize),
            Some(worker) => prop_assert_eq!(worker.find_in_line(&line).unwrap(), best_part(&text, level, &line)),
        }
    }

    #[test]
    fn approximate_expressions_match_where_another_automaton_says(
        text in expression(),
        line in prop::collection::vec(prop::sample::select(b"aabbcc -".to_vec()), 0..12),
        level in 1u32..4,
        word: bool,
    ) {
        let pattern = pattern(&ascii(&text), false, word);
        let Some(worker) = matcher(&pattern, level) else {
            return Ok(());
        };
        let nfa = thompson::Compiler::new().build_from_hir(&pattern.full_hir()).unwrap();
        prop_assert_eq!(worker.find_in_line(&line).unwrap(), best_way(&nfa, level, &line), "{}", text);
    }

    #[test]
    fn every_stage_of_an_approximate_search_finds_the_lines_that_match(
        text in expression(),
        lines in prop::collection::vec(prop::sample::select(b"aabbcc -\n\n\xC3\xA9\xFF".to_vec()), 0..60),
        level in 1u32..4,
        word: bool,
    ) {
        let pattern = pattern(&text, false, word);
        let Some(mut worker) = matcher(&pattern, level) else {
            return Ok(());
        };
        let expected = matching_lines(&worker, &lines);
        prop_assert_eq!(found_lines(&worker, &lines), expected.clone(), "{}", &text);
        insist(&mut worker, true);
        prop_assert_eq!(found_lines(&worker, &lines), expected.clone(), "{} by pieces", &text);
        insist(&mut worker, false);
        prop_assert_eq!(found_lines(&worker, &lines), expected, "{} without pieces", &text);
    }

    /// A line that matches with fewer edits also matches at a higher level.
    #[test]
    fn higher_fuzzy_levels_find_supersets(
        text in expression(),
        line in prop::collection::vec(prop::sample::select(b"aabbcc -".to_vec()), 0..16),
    ) {
        let pattern = pattern(&text, false, false);
        let exact = crate::exec::matching::matcher::LineMatcher::new(&pattern).unwrap().worker(Stop::new());
        let mut fewer = exact.find_in_line(&line).unwrap().map(|span| (0, span.start));
        for level in 1..=4 {
            let Some(worker) = matcher(&pattern, level) else {
                break;
            };
            let span = worker.find_in_line(&line).unwrap();
            if let Some(fewer) = fewer {
                let found = span.map(|span| (span.edits, span.start));
                prop_assert!(found.is_some_and(|found| found <= fewer), "{} at {}: {:?}", text, level, span);
            }
            fewer = span.map(|span| (span.edits, span.start));
        }
    }

}

proptest! {
    #![proptest_config(cases(30))]

    /// Patterns with more nodes than one word has bits.
    #[test]
    fn long_approximate_literals_match_where_the_table_says(
        parts in prop::collection::vec(prop::sample::select(vec!["a", "b", "cd", "é", "ab"]), 40..110),
        edits in prop::collection::vec((0usize..90, 0u8..3), 0..6),
        level in 1u32..5,
    ) {
        let text = parts.concat();
        let mut line: Vec<char> = text.chars().collect();
        for (at, kind) in edits {
            let at = at % line.len();
            match kind {
                0 => line.insert(at, 'x'),
                1 => { line.remove(at); }
                _ => line[at] = 'x',
            }
        }
        let line: String = ["xx ", &line.into_iter().collect::<String>(), " xx"].concat();
        let pattern = pattern(&text, true, false);
        let mut worker = matcher(&pattern, level).unwrap();
        let pattern_chars: Vec<char> = text.chars().collect();
        // All parts would take too long. The start and the end are each at most this far off.
        let places = starts(line.as_bytes());
        let ends = |at: usize| at.saturating_sub(12)..(at + 13).min(places.len());
        let mut best: Option<(u32, usize, usize)> = None;
        for start in ends(3) {
            for end in ends(places.len() - 4) {
                let edits = distance(&pattern_chars, &line.as_bytes()[places[start]..places[end]]);
                if edits <= level {
                    let key = (edits, places[start], places[end]);
                    best = Some(best.map_or(key, |best| best.min(key)));
                }
            }
        }
        let expected = best.map(|(edits, start, end)| Span { start, end, edits });
        prop_assert_eq!(worker.find_in_line(line.as_bytes()).unwrap(), expected);
        let half: String = text.chars().take(text.chars().count() / 2).collect();
        let lines = format!("{text}\nother\n{line}\n{half}");
        for on_pieces in [true, false] {
            insist(&mut worker, on_pieces);
            let matching = matching_lines(&worker, lines.as_bytes());
            prop_assert_eq!(found_lines(&worker, lines.as_bytes()), matching);
        }
    }
}

#[test]
fn the_match_with_the_fewest_edits_comes_first_then_the_start_then_the_end() {
    for (text, level, line, expected) in [
        ("hello", 1, "say helo", Some((4, 8, 1))),
        ("hello", 2, "say helo, hello", Some((10, 15, 0))),
        ("hello", 1, "hxllo hellx", Some((0, 5, 1))),
        ("hello", 1, "goodbye", None),
        // The shortest such text: the last letter is deleted and no other letter is inserted.
        ("hello", 1, "hell yes", Some((0, 4, 1))),
        ("naïve", 1, "naive", Some((0, 5, 1))),
        ("^hello$", 1, "xhello", Some((0, 6, 1))),
        ("^hello$", 1, "hello!", Some((0, 6, 1))),
        ("^hello$", 1, "hello!!", None),
        (r"\bhello\b", 1, "xhello", Some((0, 6, 1))),
        ("colou?r", 1, "colr", Some((0, 4, 1))),
        (r"\d{4}-\d{2}", 1, "on 2024/05", Some((3, 10, 1))),
        ("(foo|quux)bar", 2, "quxbr", Some((0, 5, 2))),
    ] {
        let worker = matcher(&pattern(text, false, false), level).unwrap();
        let found = worker.find_in_line(line.as_bytes()).unwrap();
        let expected = expected.map(|(start, end, edits)| Span { start, end, edits });
        assert_eq!(found, expected, "{text} in {line}");
    }
}

#[test]
fn fuzzy_levels_at_which_every_line_would_match_are_refused() {
    for (text, level, word) in [
        ("ab", 2, "use 1 at most"),
        ("a", 1, "search exactly"),
        ("a*", 1, "search exactly"),
        ("abc|de", 2, "use 1 at most"),
        ("^$", 1, "search exactly"),
        ("a{4}", 4, "use 3 at most"),
    ] {
        let error = FuzzyMatcher::new(&pattern(text, false, false), level).unwrap_err();
        assert!(error.message.contains(word), "{error}");
    }
    let error = FuzzyMatcher::new(&pattern(r"(?-u:\xFF)abc", false, false), 1).unwrap_err();
    assert!(error.message.contains("(?-u:"), "{error}");
    let error = FuzzyMatcher::new(&pattern("a{5000}", false, false), 1).unwrap_err();
    assert!(error.message.contains("too large"), "{error}");
    // A pattern that matches nothing matches no line.
    let worker = matcher(&pattern(r"abc[^\s\S]", false, false), 1).unwrap();
    assert_eq!(worker.find_in_line(b"abcd").unwrap(), None);
}

#[test]
fn looking_for_pieces_ends_where_it_does_not_pay() {
    let pattern = pattern("abababab", true, false);
    let worker = matcher(&pattern, 3).unwrap();
    let text = "ab-\n".repeat(TRIAL);
    assert!(worker.pieces.is_some() && worker.pays());
    assert!(
        worker
            .find_candidate_line(text.as_bytes())
            .unwrap()
            .is_none()
    );
    assert!(!worker.pays());
    let worker = matcher(&pattern, 3).unwrap();
    let text = "xy-\n".repeat(TRIAL);
    assert!(
        worker
            .find_candidate_line(text.as_bytes())
            .unwrap()
            .is_none()
    );
    assert!(worker.pays());
}

#[test]
fn a_raised_flag_stops_every_stage() {
    let line = vec![b'a'; 4 << 20];
    for (text, fixed) in [
        ("ababab", true),
        (&*"ab".repeat(60), true),
        ("a(b|c)*d{2}", false),
        (r"(a|b){100}c?d", false),
    ] {
        let stop = Stop::new();
        let worker = FuzzyMatcher::new(&pattern(text, fixed, false), 2)
            .unwrap()
            .worker(stop.clone());
        stop.raise(StopReason::TimedOut);
        assert_eq!(worker.find_in_line(&line), Err(Stopped), "{text}");
        assert_eq!(
            worker.find_candidate_line(&line).unwrap_err(),
            Stopped,
            "{text}"
        );
    }
}

/// A match lies within one line, and so does each of its pieces.
#[test]
fn pieces_of_approximate_literals_do_not_lie_across_lines() {
    for text in [r"acd[\nx]efghijkl|qqcd", r"acd[\nxy]efghijkl|qqcd"] {
        let worker = matcher(&pattern(text, false, false), 1).unwrap();
        assert_eq!(found_lines(&worker, b"qacd\nefzz\n"), [0], "{text:?}");
    }
}

#[test]
fn an_approximate_search_checks_the_flag_between_short_lines() {
    // Too many nodes for sets, and no pieces.
    let pattern = pattern("[a-z]{40}[0-9]+[a-z]{40}", false, false);
    let stop = Stop::new();
    let worker = FuzzyMatcher::new(&pattern, 1).unwrap().worker(stop.clone());
    let lines = b"short\n".repeat(10);
    assert!(worker.find_candidate_line(&lines).unwrap().is_none());
    stop.raise(StopReason::TimedOut);
    assert!(worker.find_candidate_line(&lines).is_err());
}

#[test]
fn large_expressions_without_characters_are_refused_at_once() {
    let text = format!("({}a){{4000}}b{{10}}", "()".repeat(30_000));
    let error = FuzzyMatcher::new(&pattern(&text, false, false), 1).unwrap_err();
    assert!(error.message.contains("too large"), "{}", error.message);
    let spines =
        crate::index::plan::literals::literal_runs(&pattern(&text, false, false).full_hir());
    assert!(spines.is_none());
}

/// Pieces are searched in parts of the text, and lines may be longer than these parts.
#[test]
fn approximate_lines_are_found_wherever_the_parts_end() {
    let mut worker = matcher(&pattern("needle in a haystack", true, false), 2).unwrap();
    for len in 0..200 {
        let mut text = b"needle\n".repeat(len % 3);
        text.extend(b"x".repeat(len));
        text.extend_from_slice("neédle in a haystakc".as_bytes());
        text.extend(b"y".repeat(300 - len));
        text.extend_from_slice(b"\nhaystack\nneedle in haystack");
        insist(&mut worker, true);
        let expected = matching_lines(&worker, &text);
        assert_eq!(expected.len(), 2, "{len}: {expected:?}");
        assert_eq!(found_lines(&worker, &text), expected, "{len}");
    }
}
