//! A file that is streamed has the same outcome as a file that is read at once.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;
use crate::exec::question::query::{QueryOptions, Report, Spans};
use crate::index::root_dir::RootDir;
use crate::index::text::BINARY_PROBE_BYTES;
use crate::index::walk::{FoundFile, Place};

/// Parts of texts: matches, line ends, NUL bytes, and invalid UTF-8.
const PARTS: [&[u8]; 12] = [
    b"needle",
    b"x",
    b" ",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xff",
    "é".as_bytes(),
    b"NEEDLE",
    b"nee",
];

/// Lines that leave a few bytes free in the part where a NUL byte makes a file binary.
fn filler() -> Vec<u8> {
    b"a filler line\n".repeat(BINARY_PROBE_BYTES / 14)
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop::collection::vec(prop::sample::select(&PARTS[..]), 0..24);
    let start = prop::sample::select(vec![&b""[..], b"\xef\xbb\xbf", b"\0", b"needle\n"]);
    (start, parts.clone(), any::<bool>(), parts).prop_map(|(start, before, fills, after)| {
        let middle = if fills { filler() } else { Vec::new() };
        [start, &before.concat(), &middle, &after.concat()].concat()
    })
}

fn options() -> impl Strategy<Value = QueryOptions> {
    let reports = vec![
        Report::Lines,
        Report::Matches,
        Report::Counts,
        Report::Presence,
    ];
    let spans = vec![Spans::First, Spans::Each, Spans::Every];
    let most = prop::sample::select(vec![1, 2, u64::MAX]);
    let around = (0usize..3, 0usize..3);
    let chosen = (prop::sample::select(reports), prop::sample::select(spans));
    (chosen, around, most, any::<bool>()).prop_map(
        |((report, spans), (before, after), most, places)| QueryOptions {
            report,
            spans,
            before,
            after,
            places,
            max_matches_per_file: most,
            ..QueryOptions::default()
        },
    )
}

proptest! {
    #[test]
    fn a_streamed_text_has_the_outcome_of_one_in_memory(
        text in text(),
        options in options(),
        pattern in prop::sample::select(vec!["needle", r"e\s*$", "^x?", r"needle\r", r"[^e]", "(?-u:\\xff)"]),
        is_named in any::<bool>(),
    ) {
        let query = Arc::new(Query::new(&[pattern], &options).unwrap());
        let matcher = LineMatcher::of(&query).unwrap();
        let mut searcher = FileSearcher::new(query, &matcher, Stop::new());
        let asked = FileSearch { is_named, ..FileSearch::all() };
        let mut whole = searcher.search_text(&text, asked);
        let decoded = searcher.decoder(Cursor::new(text));
        let mut streamed = searcher.search_stream(decoded, asked, None).unwrap();
        // The search reads only as much as it needs.
        prop_assert!(streamed.searched_bytes <= whole.searched_bytes);
        (streamed.searched_bytes, whole.searched_bytes) = (0, 0);
        prop_assert_eq!(streamed, whole);
    }
}

#[test]
fn a_carriage_return_before_a_line_feed_matches_nothing_behind_a_zero_byte() {
    let options = QueryOptions {
        places: true,
        ..QueryOptions::default()
    };
    let query = Arc::new(Query::new(&[r"needle\r"], &options).unwrap());
    let matcher = LineMatcher::of(&query).unwrap();
    let mut searcher = FileSearcher::new(query, &matcher, Stop::new());
    let text = &b"\0needle\r\n"[..];
    let asked = FileSearch {
        is_named: true,
        ..FileSearch::all()
    };
    assert_eq!(searcher.search_text(text, asked), FileOutcome::nothing());
    let decoded = searcher.decoder(text);
    let streamed = searcher.search_stream(decoded, asked, None).unwrap();
    assert_eq!(streamed, FileOutcome::nothing());
}

#[test]
fn the_parts_of_a_large_file_are_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let root = RootDir::open(&dir.path().canonicalize().unwrap()).unwrap();
    let place = Arc::new(Place {
        root: Arc::new(root),
        real: "".into(),
        logical: "".into(),
    });
    // One text is read at once, the other is streamed.
    for (name, lines) in [("read", 30_000), ("streamed", 300_000)] {
        let line = |n: usize| match n % 7 {
            0 => "a needle, and another needle\r\n",
            1..=5 => "a line with the needle\n",
            _ => "a line without\n",
        };
        let mut text: String = (0..lines).map(line).collect();
        text.push_str("\0needle\n");
        assert_eq!(text.len() as u64 > WHOLE_FILE_LIMIT, name == "streamed");
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let file = |name: &str| -> EligibleFile {
        FoundFile {
            dir: place.clone(),
            name: name.into(),
            target: None,
        }
        .into()
    };
    let files = [file("read"), file("streamed")];
    let limited = QueryOptions {
        max_matches_per_file: 20_000,
        ..QueryOptions::default()
    };
    let with_context = QueryOptions {
        report: Report::Matches,
        spans: Spans::Each,
        before: 1,
        places: true,
        ..QueryOptions::default()
    };
    for options in [QueryOptions::default(), limited, with_context] {
        let outcomes = |in_parts: bool| {
            let options = QueryOptions {
                in_parts,
                ..options
            };
            let query = Arc::new(Query::new(&[r"needle\r?"], &options).unwrap());
            let matcher = LineMatcher::of(&query).unwrap();
            let mut searcher = FileSearcher::new(query, &matcher, Stop::new());
            let mut outcomes = Vec::new();
            let emit = &mut |n: usize, outcome: FileOutcome| outcomes.push((n, outcome));
            searcher.search(&files, emit).unwrap();
            outcomes
        };
        let mut joined = vec![FileOutcome::default(); files.len()];
        let mut parts = [0; 2];
        for (n, mut outcome) in outcomes(true) {
            let before = &mut joined[n];
            parts[n] += 1;
            outcome.matched_lines += before.matched_lines;
            outcome.matches += before.matches;
            before.lines.append(&mut outcome.lines);
            outcome.lines = std::mem::take(&mut before.lines);
            joined[n] = outcome;
        }
        assert!(parts.iter().all(|parts| *parts > 2), "{parts:?}");
        let whole: Vec<FileOutcome> = outcomes(false).into_iter().map(|(_, one)| one).collect();
        assert!(joined == whole, "the outcomes differ");
    }
}
