//! Claims about approximate matching of any pattern in any text:
//!
//! - A match is within the number of edits.
//! - A higher level finds more lines, but no other part of a line that matched before.
//! - An exact match of the expression has no edits.
//! - No matching line is skipped.
//! - A literal's matches are equal to those of a plain edit-distance table.
//! - The parts that are similar to a short literal are equal to those of the definition.

use forge_search::internal::exec::answer::outcome::{LineSpans, Span};
use forge_search::internal::exec::matching::fuzzy::{
    FuzzyMatcher, FuzzyWorker, SimilarMatcher, Threshold,
};
use forge_search::internal::exec::matching::matcher::LineMatcher;
use forge_search::internal::exec::matching::pattern::Pattern;
use forge_search::internal::exec::question::query::Fold;
use forge_search::internal::exec::stop::Stop;
use grep_matcher::LineMatchKind;

/// Stands for the pattern in the text of an input. This makes matches likely.
const PATTERN_HERE: u8 = 1;

/// Longer inputs take longer and find no more errors.
const MOST_TEXT: usize = 2_048;

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
    text.truncate(MOST_TEXT);
    let flag = |n: u8| options & (1 << n) != 0;
    let fold = if flag(0) {
        Fold::AsciiInsensitive
    } else {
        Fold::Sensitive
    };
    let (fixed, word) = (flag(1), flag(2));
    let Ok(pattern) = Pattern::compile(expression, fixed, fold, word) else {
        return;
    };
    let level = 1 + u32::from(options >> 3 & 3);
    let plain: Option<Vec<char>> =
        (fixed && !word && !flag(0)).then(|| expression.chars().collect());
    check(&pattern, level, plain.as_deref(), &text);
    if let Some(plain) = plain {
        let threshold = u32::from(options >> 3) * 4;
        check_similar(&pattern, threshold.min(100), &plain, &text);
    }
}

/// Checks the parts that are similar to a literal, for a threshold in hundredths. Checks short
/// lines only, because the definition is slow to compute.
fn check_similar(pattern: &Pattern, hundredths: u32, literal: &[char], text: &[u8]) {
    let threshold = Threshold::new(f64::from(hundredths) / 100.0);
    let Ok(matcher) = SimilarMatcher::new(pattern, threshold) else {
        return;
    };
    if literal.len() > 10 {
        return;
    }
    let worker = matcher.worker(Stop::new());
    for line in text.split(|&byte| byte == b'\n').take(8) {
        let Some(line) = std::str::from_utf8(line)
            .ok()
            .filter(|line| line.len() <= 40)
        else {
            continue;
        };
        let mut found = LineSpans::new();
        let ended = worker.find_in_line(line.as_bytes(), usize::MAX, &mut found);
        assert_eq!(ended, Ok(()));
        let expected = similar_parts(literal, hundredths, line);
        assert_eq!(
            found.to_vec(),
            expected,
            "{literal:?} {hundredths}: {line:?}"
        );
        let candidate = worker.find_candidate_line(line.as_bytes());
        assert!(candidate.is_ok_and(|candidate| candidate.is_some() != expected.is_empty()));
    }
}

/// Returns the similar parts of a line by definition: the best part, then the best part that does
/// not overlap it, and so on.
fn similar_parts(literal: &[char], hundredths: u32, line: &str) -> Vec<Span> {
    let chars: Vec<char> = line.chars().collect();
    let bytes = |at: usize| chars[..at].iter().map(|c| c.len_utf8()).sum::<usize>();
    let mut all: Vec<(usize, usize, u32, u32)> = Vec::new();
    for start in 0..chars.len() {
        let mut row: Vec<u32> = (0..=literal.len() as u32).collect();
        for end in start + 1..=chars.len().min(start + 4 * literal.len()) {
            let mut before = row[0];
            row[0] += 1;
            for (n, p) in literal.iter().enumerate() {
                let changed = before + u32::from(*p != chars[end - 1]);
                before = row[n + 1];
                row[n + 1] = changed.min(row[n + 1] + 1).min(row[n] + 1);
            }
            let longer = literal.len().max(end - start) as u32;
            let edits = row[literal.len()];
            if (longer - edits) * 100 >= hundredths * longer {
                all.push((start, end, edits, longer));
            }
        }
    }
    let mut parts = Vec::new();
    while let Some(&(start, end, edits, _)) = all.iter().min_by(|a, b| {
        (a.2 * b.3)
            .cmp(&(b.2 * a.3))
            .then((a.0, a.1).cmp(&(b.0, b.1)))
    }) {
        parts.push(Span {
            start: bytes(start),
            end: bytes(end),
            edits,
        });
        all.retain(|part| part.1 <= start || part.0 >= end);
    }
    parts.sort_unstable_by_key(|part| part.start);
    parts
}

fn check(pattern: &Pattern, level: u32, plain: Option<&[char]>, text: &[u8]) {
    let Ok(matcher) = FuzzyMatcher::new(pattern, level) else {
        return;
    };
    let worker = matcher.worker(Stop::new());
    let higher = FuzzyMatcher::new(pattern, level + 1).ok();
    let higher = higher.map(|matcher| matcher.worker(Stop::new()));
    let exact = LineMatcher::new(pattern).ok();
    let exact = exact.map(|matcher| matcher.worker(Stop::new()));
    let mut expected = Vec::new();
    for (n, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let found = find(&worker, line);
        if let Some(span) = found {
            assert!(span.edits <= level && span.start <= span.end && span.end <= line.len());
            expected.push(n);
        }
        if let Some(higher) = &higher {
            let more = find(higher, line);
            match found {
                Some(_) => assert_eq!(more, found, "{pattern:?} {level}: {line:?}"),
                None => assert!(more.is_none_or(|span| span.edits == level + 1)),
            }
        }
        if let Some(exact) = &exact
            && let Ok(Some(Span { start, end, .. })) = exact.find_in_line(line)
        {
            let nearest = found.map(|span| (span.edits, span.start));
            assert_eq!(nearest, Some((0, start)), "{pattern:?} {level}: {line:?}");
            assert!(found.is_some_and(|span| span.end <= end));
        }
        if let Some(plain) = plain {
            let best = best_part(plain, level, line);
            assert_eq!(found, best, "{pattern:?} {level}: {line:?}");
        }
    }
    let last = text.split(|&byte| byte == b'\n').count() - 1;
    if text.ends_with(b"\n") || text.is_empty() {
        // There is no line after the last line feed.
        expected.retain(|&n| n != last);
    }
    assert_eq!(
        lines(&worker, text),
        expected,
        "{pattern:?} {level}: {text:?}"
    );
}

fn find(worker: &FuzzyWorker, line: &[u8]) -> Option<Span> {
    worker.find_in_line(line).unwrap_or_default()
}

/// Returns the numbers of the lines that match, in the way of a searcher.
fn lines(worker: &FuzzyWorker, text: &[u8]) -> Vec<usize> {
    let (mut found, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let Ok(Some(kind)) = worker.find_candidate_line(&text[from..]) else {
            break;
        };
        let (LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at)) = kind;
        let at = from + at;
        let line = text[..at].iter().filter(|&&byte| byte == b'\n').count();
        let start = text[..at].iter().rposition(|&byte| byte == b'\n');
        let start = start.map_or(0, |feed| feed + 1);
        let end = text[at..].iter().position(|&byte| byte == b'\n');
        let end = end.map_or(text.len(), |feed| at + feed);
        let matches = find(worker, &text[start..end]).is_some();
        if matches {
            found.push(line);
        }
        assert!(matches || matches!(kind, LineMatchKind::Candidate(_)));
        from = end + 1;
    }
    found
}

/// Returns the part of a line with the fewest edits. Of several, it takes the first, and then the
/// shortest.
///
/// A table holds, for each prefix of the pattern and each place of the line, the fewest edits and
/// the first start with so many.
fn best_part(pattern: &[char], level: u32, line: &[u8]) -> Option<Span> {
    let mut column: Vec<(u32, usize)> = (0..=pattern.len() as u32).map(|n| (n, 0)).collect();
    let mut at = 0;
    let mut best: Option<(u32, usize, usize)> = None;
    let mut take = |(edits, start): (u32, usize), end: usize| {
        let part = (edits, start, end);
        if edits <= level && best.is_none_or(|best| part < best) {
            best = Some(part);
        }
    };
    take(column[pattern.len()], 0);
    for chunk in line.utf8_chunks() {
        let valid = chunk.valid().chars().map(|c| (Some(c), c.len_utf8()));
        let invalid = Some((None, chunk.invalid().len()));
        for (c, len) in valid.chain(invalid.filter(|(_, len)| *len > 0)) {
            let mut diagonal = column[0];
            column[0] = (0, at + len);
            for (n, &p) in pattern.iter().enumerate() {
                let (edits, start) = diagonal;
                diagonal = column[n + 1];
                let changed = (edits + u32::from(c != Some(p)), start);
                let more = |(edits, start): (u32, usize)| (edits + 1, start);
                column[n + 1] = changed.min(more(diagonal)).min(more(column[n]));
            }
            at += len;
            take(column[pattern.len()], at);
        }
    }
    best.map(|(edits, start, end)| Span { start, end, edits })
}
