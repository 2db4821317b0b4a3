//! Large files, which an index knows in parts. Whatever else a request asks for, the answer equals
//! the one without an index.

use std::ffi::OsString;
use std::path::PathBuf;

use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::plan::SupersetSafe;
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::differential::Seeded;
use crate::fuzz_replay::assembled::{Texts, assembled};
use crate::index_support::{Host, Tally, VARIANTS, compare};
use crate::support::{Tree, seeds};

/// Texts to search for, which are rare in the files. Each has a decoy with all of its n-grams that
/// does not contain the text.
const NEEDLES: &[(&str, &str)] = &[
    ("needle", "need eedl edle"),
    ("Straße_9", "Straß traße_ raße_9"),
    ("two words", "two wo wo word words"),
];

const WORDS: &[&str] = &[
    "alpha", "beta", "let", "x =", "return", "été", "\t", "();", "//",
];

/// Returns a text of several parts; a few of its lines have needles and decoys.
fn text(rng: &mut Seeded) -> Vec<u8> {
    let end = rng.pick(&["\n", "\r\n", "\r\r\n"]);
    let mut out = Vec::new();
    if rng.one_in(4) {
        out.extend_from_slice("\u{FEFF}".as_bytes());
    }
    let bytes = 20_000 + rng.below(180_000);
    while out.len() < bytes {
        for _ in 0..rng.below(12) {
            out.extend_from_slice(rng.pick(WORDS).as_bytes());
            out.push(b' ');
        }
        if rng.one_in(900) {
            let (needle, decoy) = rng.pick(NEEDLES);
            let word = if rng.one_in(3) { needle } else { decoy };
            out.extend_from_slice(word.as_bytes());
        }
        if rng.one_in(20_000) {
            out.extend_from_slice(b"\xFF\xC3(");
        }
        if rng.one_in(40_000) {
            out.push(0);
        }
        // Sometimes a line is longer than a part.
        if !rng.one_in(9_000) {
            out.extend_from_slice(end.as_bytes());
        } else {
            out.extend_from_slice("very long ".repeat(4_000).as_bytes());
        }
    }
    out
}

fn request(rng: &mut Seeded) -> Value {
    let (needle, _) = rng.pick(NEEDLES);
    let patterns = [
        needle.to_string(),
        format!("{needle}$"),
        format!("^.*{needle}"),
        format!("{needle}|Absent"),
        format!("{needle}[a-z]*\\s?"),
        needle.to_uppercase(),
    ];
    let mut request = json!({"pattern": patterns[rng.below(patterns.len())]});
    let mut sometimes = |field: &str, value: Value| {
        if rng.one_in(3) {
            request[field] = value;
        }
    };
    sometimes("case", "insensitive".into());
    sometimes("case", "smart".into());
    sometimes("word_regexp", true.into());
    sometimes("fuzzy", 1.into());
    sometimes("context", 2.into());
    sometimes("max_matches_per_file", 1.into());
    sometimes("max_results", 3.into());
    sometimes("max_files", 4.into());
    sometimes("max_file_size_bytes", 100_000.into());
    request
}

/// Counts the files of which only parts are candidates for one of the needles.
fn in_parts(snapshot: &Snapshot) -> usize {
    let segment = snapshot.segment();
    let mut count = 0;
    for (needle, _) in NEEDLES {
        let plan = SupersetSafe::for_literal(needle, false);
        let candidates = segment.candidates(&plan).unwrap();
        for rank in candidates.files().iter(0..segment.file_count()) {
            count += usize::from(segment.spans(rank, &candidates).unwrap().is_some());
        }
    }
    count
}

#[test]
fn parts_of_files_change_no_answer() {
    let mut tally = Tally::default();
    let mut parts = 0;
    for seed in 0..seeds(8) {
        let mut rng = Seeded::new(900 + seed);
        let tree = Tree::new();
        for n in 0..10 {
            let text = text(&mut rng);
            tree.file(&format!("{}/{n}", n % 3), text);
        }
        let requests: Vec<Value> = (0..12).map(|_| request(&mut rng)).collect();
        for variant in VARIANTS {
            let setup = tree.setup().with_indexes(variant);
            let (_, snapshot) = setup.build(&Host::hasty());
            parts += in_parts(&snapshot);
            for request in &requests {
                println!("seed {seed}, {variant:?}: {request}");
                let (one, response) = compare(&setup, request);
                assert!(response.is_some(), "{request} is refused");
                tally.add(one);
            }
        }
    }
    println!("{tally:?}, parts of {parts} files");
    assert!(parts as u64 > 25 * seeds(8), "{parts}");
    assert!(tally.used > 12 * seeds(8), "{tally:?}");
}

/// Builds a segment of these texts.
fn segment(texts: &[&str], casefold: Casefold) -> Segment {
    let files = texts.iter().zip(0..).map(|(text, n)| {
        let name: OsString = format!("{n:04}").into();
        (0, name, text.as_bytes().to_vec())
    });
    let texts = Texts {
        dirs: vec![(PathBuf::new(), 0, 0..texts.len() as u32)],
        files: files.collect(),
        side: Vec::new(),
    };
    let segment = Segment::open(Storage::from(assembled(&texts, casefold))).unwrap();
    segment.verify().unwrap();
    segment
}

#[test]
fn candidates_of_one_segment_say_nothing_about_another() {
    let filler = "words that fill a line\n".repeat(10_000);
    let [first, last] = [format!("needle\n{filler}"), format!("{filler}needle\n")];
    let plan = SupersetSafe::for_literal("needle", false);
    let spans = |text: &str| {
        let segment = segment(&[text], Casefold::Ascii);
        let candidates = segment.candidates(&plan).unwrap();
        let spans = segment.spans(0, &candidates).unwrap().unwrap();
        (segment, candidates, spans)
    };
    let (segment, candidates, found) = spans(&first);
    let (other, others, elsewhere) = spans(&last);
    assert!(found.len() == 1 && elsewhere.len() == 1 && found[0].end < elsewhere[0].start);
    assert_eq!(segment.spans(0, &others).unwrap(), None);
    assert_eq!(other.spans(0, &candidates).unwrap(), None);
}

#[test]
fn a_plan_with_another_case_folding_excludes_nothing() {
    // With ASCII folding, É and é differ. With Unicode folding, both are stored as é.
    let texts = ["x\u{C9}Y\n", "none of it\n"];
    let plan = SupersetSafe::for_literal("X\u{C9}y", true);
    let kept = |casefold| {
        let candidates = segment(&texts, casefold).candidates(&plan).unwrap();
        candidates.files().iter(0..2).collect::<Vec<_>>()
    };
    assert_eq!(kept(Casefold::Ascii), [0]);
    assert_eq!(kept(Casefold::UnicodeSimple), [0, 1]);
}
