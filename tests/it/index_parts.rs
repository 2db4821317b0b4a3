//! Large files, of which an index knows parts: whatever else a request asks for, the answer is the one without an
//! index.

use forge_search::index::plan::SupersetSafe;
use forge_search::index::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::differential::Seeded;
use crate::index_support::{Host, Tally, VARIANTS, compare};
use crate::support::Tree;

/// What is searched for, rare in the files, and what has all of its n-grams and is something else.
const NEEDLES: &[(&str, &str)] = &[
    ("needle", "need eedl edle"),
    ("Straße_9", "Straß traße_ raße_9"),
    ("two words", "two wo wo word words"),
];

const WORDS: &[&str] = &[
    "alpha", "beta", "let", "x =", "return", "été", "\t", "();", "//",
];

/// A text of some parts, with needles and decoys in few of its lines.
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
        // A line longer than a part, sometimes.
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
        for rank in candidates.files.iter(0..segment.file_count()) {
            count += usize::from(segment.spans(rank, &candidates).unwrap().is_some());
        }
    }
    count
}

#[test]
fn parts_of_files_change_no_answer() {
    let mut tally = Tally::default();
    let mut parts = 0;
    for seed in 0..8 {
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
    assert!(parts > 200, "{parts}");
    assert!(tally.used > 100, "{tally:?}");
}
