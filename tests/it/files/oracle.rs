//! Tests random trees and requests. The answers with and without an index must be equal, and match
//! another implementation of the rules.

use super::*;
use crate::support::{generous, seeds};

/// A deterministic random number generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

const WORDS: [&str; 12] = [
    "needle",
    "neadle",
    "nedle",
    "thread",
    "Thread",
    "straw",
    "haystack",
    "hay stack",
    "größe",
    "x",
    "needleneedle",
    "",
];

fn random_tree(rng: &mut Rng) -> Tree {
    let tree = Tree::new();
    for n in 0..4 + rng.below(10) {
        let dir = rng.pick(&["", "a/", "a/b/", "a.b/", "ä/", ".h/"]);
        let mut bytes = Vec::new();
        for _ in 0..rng.below(12) {
            for _ in 0..rng.below(4) {
                bytes.extend_from_slice(rng.pick(&WORDS).as_bytes());
                bytes.push(b' ');
            }
            bytes.extend_from_slice(rng.pick(&["\n", "\n", "\r\n"]).as_bytes());
        }
        match rng.below(16) {
            0 => bytes.push(0xFF),
            1 => bytes.push(0),
            2 => bytes.extend(std::iter::repeat_n(b'y', 3_000)),
            _ => {}
        }
        tree.file(&format!("{dir}f{n}"), bytes);
    }
    tree
}

fn random_request(rng: &mut Rng) -> Value {
    let mode = *rng.pick(&["exact", "exact", "regex", "fuzzy"]);
    let query = match mode {
        "regex" => *rng.pick(&["ne[ae]dle", "thr.*d", "(?:hay|straw)", "needle$", "x*", "^"]),
        _ => *rng.pick(&[
            "needle",
            "Thread",
            "straw",
            "haystack",
            "größe",
            "nothing",
            "hat stack",
            "n",
        ]),
    };
    let mut request = json!({
        "path": rng.pick(&[".", ".", "a", "a/b"]),
        "query": query,
        "mode": mode,
        "case": rng.pick(&["smart", "sensitive", "insensitive"]),
        "context_lines": rng.below(3),
    });
    let fields = request.as_object_mut().unwrap();
    let mut maybe = |rng: &mut Rng, name: &str, value: Value| {
        if rng.below(4) == 0 {
            fields.insert(name.into(), value);
        }
    };
    let number = |rng: &mut Rng, most: u64| json!(1 + rng.below(most));
    let (results, matches, files) = (number(rng, 6), number(rng, 3), number(rng, 8));
    maybe(rng, "max_results", results);
    maybe(rng, "max_matches_per_file", matches);
    maybe(rng, "max_files", files);
    maybe(rng, "max_file_size_bytes", json!(2_000));
    let depth = number(rng, 3);
    maybe(rng, "max_depth", depth);
    maybe(rng, "exclude_globs", json!(["f1*"]));
    maybe(rng, "include_hidden", json!(true));
    request
}

#[test]
fn search_files_answers_the_same_with_and_without_an_index() {
    let (mut compared, mut excluding) = (0, 0);
    for seed in 0..seeds(60) {
        let mut rng = Rng(seed);
        let tree = random_tree(&mut rng);
        tree.dir("a/b");
        let variant = *rng.pick(&VARIANTS);
        let files = Files::new(tree.root()).config(|config| {
            config.search_files.fuzzy_fallback = seed % 3 == 0;
            config.search_files.fuzzy_threshold = *rng.pick(&[0.8, 0.7, 0.5]);
        });
        let files = files.indexed(variant);
        for _ in 0..60 {
            let (_, index) = files.ask(random_request(&mut rng));
            compared += 1;
            excluding += u64::from(index.candidates_excluded > 0);
        }
    }
    println!("{compared} compared, files left out in {excluding}");
    assert!(excluding * 5 > compared, "{excluding} of {compared}");
}

/// The tool `Search` finds the same lines and columns, as far as its rules are the same.
#[test]
fn first_matches_of_lines_are_those_of_the_other_tool() {
    let mut seen = 0;
    for seed in 100..100 + seeds(36) {
        let mut rng = Rng(seed);
        let tree = random_tree(&mut rng);
        let files = Files::new(tree.root()).config(|config| {
            config.search_files.max_results = 100_000;
            config.search_files.max_matches_per_file = 100_000;
        });
        let mut setup = tree.setup();
        setup.config = generous();
        for (query, mode) in [
            ("needle", "exact"),
            ("thr[a-z]+d", "regex"),
            ("größe", "exact"),
            ("n", "exact"),
        ] {
            let own = files.search(json!({"path": ".", "query": query, "mode": mode}));
            let mut own: Vec<_> = own
                .matches
                .iter()
                .map(|one| (one.path.clone(), one.line, one.column))
                .collect();
            own.dedup_by_key(|one| (one.0.clone(), one.1));
            let request = json!({"pattern": query, "fixed_strings": mode == "exact"});
            let other = setup.search(request);
            // `Search` shows lines of files that are not UTF-8, and lines before a NUL byte.
            let is_text = |path: &str| {
                let bytes = fs::read(tree.path(path)).unwrap();
                !bytes.contains(&0) && String::from_utf8(bytes).is_ok()
            };
            let other = other.matches.iter().map(|record| &record.data);
            let other = other.filter(|data| is_text(&data.path.text));
            let other: Vec<_> = other
                .map(|data| {
                    (
                        data.path.text.clone(),
                        data.line_number,
                        data.column.unwrap(),
                    )
                })
                .collect();
            assert_eq!(own, other, "seed {seed}: {query}");
            seen += own.len();
        }
    }
    assert!(seen as u64 > 25 * seeds(36), "{seen}");
}
