use proptest::prelude::*;

use super::*;

fn worker(literal: &str, fold: Fold, threshold: f64) -> SimilarWorker {
    let pattern = Pattern::compile(literal, true, fold, false).unwrap();
    let matcher = SimilarMatcher::new(&pattern, Threshold::new(threshold)).unwrap();
    matcher.worker(Stop::new())
}

fn found(worker: &SimilarWorker, line: &str, most: usize) -> Vec<(usize, usize, u32)> {
    let mut spans = LineSpans::new();
    worker
        .find_in_line(line.as_bytes(), most, &mut spans)
        .unwrap();
    spans
        .iter()
        .map(|span| (span.start, span.end, span.edits))
        .collect()
}

#[test]
fn a_threshold_between_two_millionths_leaves_nothing_out() {
    let millionths = |score| Threshold::new(score).0;
    assert_eq!(millionths(0.666_666_6), 666_666);
    assert_eq!(millionths(2.0 / 3.0), 666_666);
    for n in 0..=1_000 {
        assert_eq!(millionths(f64::from(n) / 1_000.0), n * 1_000);
        assert_eq!(millionths(0.1 * f64::from(n % 11)), (n % 11) * 100_000);
    }
    // One edit of three characters.
    assert_eq!(
        found(&worker("zbc", Fold::Sensitive, 0.666_666_6), "abc", 9),
        [(0, 3, 1)]
    );
    assert_eq!(
        (millionths(f64::NAN), millionths(-1.0), millionths(7.0)),
        (0, 0, ONE)
    );
}

/// Returns the edits between two texts, by the plain table.
fn distance(a: &[char], b: &[char]) -> u32 {
    let mut row: Vec<u32> = (0..=b.len() as u32).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i as u32 + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + u32::from(x != y);
            before = row[j + 1];
            row[j + 1] = changed.min(row[j + 1] + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Returns the matches by definition: checks all parts of the line one by one.
fn by_definition(
    literal: &str,
    fold: Fold,
    threshold: f64,
    line: &str,
) -> Vec<(usize, usize, u32)> {
    let folds = fold == Fold::AsciiInsensitive;
    let literal: Vec<char> = literal.chars().map(|c| folded(c, folds)).collect();
    let chars: Vec<char> = line.chars().map(|c| folded(c, folds)).collect();
    let bytes = |at: usize| line.chars().take(at).map(char::len_utf8).sum::<usize>();
    let mut all = Vec::new();
    for start in 0..chars.len() {
        for end in start + 1..=chars.len().min(start + 4 * literal.len()) {
            let edits = distance(&literal, &chars[start..end]);
            let longer = (end - start).max(literal.len());
            let score = (longer as f64 - f64::from(edits)) / longer as f64;
            if score >= threshold - 1e-9 {
                all.push((start, end, edits, longer));
            }
        }
    }
    let mut out = Vec::new();
    // Highest score first, then the first text, then the shortest.
    while let Some(&(start, end, edits, _)) = all.iter().min_by(|a, b| {
        let score = (u64::from(a.2) * b.3 as u64).cmp(&(u64::from(b.2) * a.3 as u64));
        score.then(a.0.cmp(&b.0)).then(a.1.cmp(&b.1))
    }) {
        out.push((bytes(start), bytes(end), edits));
        all.retain(|one| one.1 <= start || one.0 >= end);
    }
    out.sort_unstable();
    out
}

proptest! {
    #[test]
    fn what_is_found_is_what_the_definition_says(
        literal in "[abé]{1,8}",
        line in "[abAé ]{0,24}",
        threshold in prop::sample::select(vec![
            0.0, 0.05, 0.2, 0.25, 0.3, 1.0 / 3.0, 0.5, 0.6, 0.65, 2.0 / 3.0, 0.7, 0.75, 0.8, 0.82, 0.9, 1.0,
        ]),
        folds: bool,
    ) {
        let fold = if folds { Fold::AsciiInsensitive } else { Fold::Sensitive };
        let worker = worker(&literal, fold, threshold);
        let expected = by_definition(&literal, fold, threshold, &line);
        let all = found(&worker, &line, usize::MAX);
        prop_assert_eq!(&all, &expected, "{:?} {:?} {}", literal, line, threshold);
        prop_assert_eq!(found(&worker, &line, 2), &expected[..expected.len().min(2)]);
        let candidate = worker.find_candidate_line(line.as_bytes()).unwrap();
        prop_assert_eq!(candidate.is_some(), !expected.is_empty());
    }

    #[test]
    fn the_lines_that_are_looked_at_are_those_that_match(
        literal in "[abcd]{2,12}",
        lines in prop::collection::vec("[abcde]{0,20}", 1..8),
        threshold in prop::sample::select(vec![0.4, 0.6, 0.7, 0.8, 0.9]),
    ) {
        let worker = worker(&literal, Fold::Sensitive, threshold);
        let first = lines.iter().position(|line| {
            !by_definition(&literal, Fold::Sensitive, threshold, line).is_empty()
        });
        let text = lines.join("\n");
        let found = worker.find_candidate_line(text.as_bytes()).unwrap();
        let at = found.map(|(LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at))| {
            text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
        });
        prop_assert_eq!(at, first);
    }
}

/// The sieve alone, with literals that are too long for the check by definition. The texts are
/// similar by construction.
#[test]
fn what_is_similar_passes_the_sieve() {
    let literal = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZäö";
    assert_eq!(literal.chars().count(), 64);
    let chars: Vec<Option<char>> = literal.chars().map(Some).collect();
    for (threshold, len) in [(0.5, 64), (0.6, 40), (0.8, 64), (0.9, 63), (0.7, 5)] {
        let literal = &chars[..len];
        let threshold = Threshold::new(threshold);
        let sieve = SimilarityFilter::new(literal, false, threshold.halves(len).unwrap()).unwrap();
        // The most edits of one kind that a match may have, spread over the literal.
        let edits = (1.0 - threshold.score()) * len as f64 + 1e-9;
        let changed = edits as usize;
        let mut put_in = 0;
        while threshold.allows(put_in as u32 + 1, len + put_in + 1) {
            put_in += 1;
        }
        let text = |edit: &dyn Fn(usize, char) -> String| {
            let parts = literal.iter().flatten().enumerate();
            parts.map(|(at, c)| edit(at, *c)).collect::<String>()
        };
        let every = |count: usize, at: usize| count > 0 && (at * count) % len < count;
        let texts = [
            text(&|at, c| {
                if every(changed, at) {
                    '~'.into()
                } else {
                    c.into()
                }
            }),
            text(&|at, c| {
                if every(changed, at) {
                    String::new()
                } else {
                    c.into()
                }
            }),
            text(&|at, c| match at {
                0 => format!("{c}{}", "~".repeat(put_in)),
                _ => c.into(),
            }),
        ];
        for text in texts {
            let found = sieve.find(text.as_bytes(), &Stop::new());
            assert!(found.is_ok_and(|found| found.is_some()), "{text}");
        }
        let none = sieve.find("~".repeat(500).as_bytes(), &Stop::new());
        assert_eq!(none, Ok(None));
    }
}

#[test]
fn fallback_thresholds_go_down_in_even_steps_and_not_below_zero() {
    let step = Threshold::new(0.1);
    let steps = (0..12).map(|n| Threshold::new(0.8).lowered(step, n).score());
    assert_eq!(
        steps.collect::<Vec<_>>(),
        [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(
        Threshold::new(0.8).lowered(Threshold::new(1.0), u32::MAX),
        Threshold::new(0.0)
    );
    assert_eq!(Threshold::new(f64::NAN), Threshold::new(0.0));
}

#[test]
fn as_many_edits_as_leave_the_score() {
    for (threshold, chars, edits) in [
        (1.0, 10, Some(0)),
        (0.8, 4, Some(1)),
        (0.8, 3, Some(0)),
        (0.8, 12, Some(3)),
        (0.6, 12, Some(8)),
        (0.5, 12, None),
        (0.0, 12, None),
    ] {
        assert_eq!(
            Threshold::new(threshold).max_edits(chars),
            edits,
            "{threshold} {chars}"
        );
    }
    assert_eq!(score(1, 5, 4), 0.8);
    assert_eq!(score(1, 4, 5), 0.8);
}

#[test]
fn what_can_t_be_looked_for_is_refused() {
    let refused = |text: &str, fixed: bool| {
        let pattern = Pattern::compile(text, fixed, Fold::Sensitive, false).unwrap();
        SimilarMatcher::new(&pattern, Threshold::new(0.8))
            .unwrap_err()
            .to_string()
    };
    assert!(refused("a+", false).contains("only literal text"));
    assert!(refused(&"x".repeat(LITERAL_LIMIT + 1), true).contains("513 characters"));
}

#[test]
fn a_raised_flag_stops_it() {
    let pattern = Pattern::compile("needle", true, Fold::Sensitive, false).unwrap();
    let matcher = SimilarMatcher::new(&pattern, Threshold::new(0.2)).unwrap();
    let stop = Stop::new();
    let worker = matcher.worker(stop.clone());
    stop.raise(crate::exec::stop::StopReason::TimedOut);
    let line = vec![b'x'; 1 << 20];
    assert_eq!(
        worker.find_in_line(&line, 1, &mut LineSpans::new()),
        Err(Stopped)
    );
    assert_eq!(worker.find_candidate_line(&line).unwrap_err(), Stopped);
}
