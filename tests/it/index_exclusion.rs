//! Files that an index excludes have no match. Every file that the plan of a pattern excludes is
//! searched nevertheless, by the matcher that would have searched it, and must have no match.
//!
//! Patterns are drawn from the searched contents, changed a little, and put into expressions. One
//! tree has real sources, or is the tree that `FORGE_SEARCH_TREE` names; it must not change during
//! the test. The other trees are small, and as hostile as possible to normalization, decoding and
//! cutting into parts. `FORGE_SEARCH_PATTERNS` sets the number of patterns for the first tree.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use forge_search::internal::exec::engine::embedded::FileSearcher;
use forge_search::internal::exec::matching::matcher::LineMatcher;
use forge_search::internal::exec::question::query::{Case, Fold, Query, QueryOptions};
use forge_search::internal::exec::stop::Stop;
use forge_search::internal::index::plan::{Strategy, SupersetSafe};
use forge_search::internal::index::ranks::RankSet;
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::tool::config::IndexStorage;
use rayon::prelude::*;
use unicode_normalization::UnicodeNormalization;

use crate::differential::{Seeded, sources};
use crate::index_support::{Host, LIVE, Variant};
use crate::support::{Setup, Tree, seeds};

/// The index of a tree, and the contents of its files by rank.
pub(crate) struct World {
    pub(crate) contents: Vec<Vec<u8>>,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// A pattern with the options of its request.
#[derive(Clone, Debug)]
struct Asked {
    pattern: String,
    fixed: bool,
    word: bool,
    case: Case,
}

/// The results for a number of patterns.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    patterns: u64,
    /// Patterns for which every plan keeps all files.
    unused: u64,
    /// Patterns that match somewhere although some file was excluded.
    matching: u64,
    /// Pairs of a pattern and a file that some plan excluded.
    excluded: u64,
    /// Pairs of a pattern and a file that matches.
    matched: u64,
    /// Such pairs for which a plan also excluded parts of the file.
    in_parts: u64,
}

impl World {
    /// Indexes a tree with limits so small that there are many groups of blocks.
    fn new(setup: Setup, storage: IndexStorage) -> World {
        let variant = Variant { storage, ..LIVE };
        let setup = setup
            .config(|config| {
                config.index_max_memory_bytes = 1 << 20;
                config.index_max_tokenized_bytes = 64 << 20;
            })
            .with_indexes(variant);
        let (built, snapshot) = setup.build(&Host::hasty());
        assert!(built.errors.is_empty(), "{:?}", built.errors);
        let segment = snapshot.segment();
        segment.verify().unwrap();
        let root = &setup.working_dir;
        let contents: Vec<Vec<u8>> = (0..segment.file_count())
            .into_par_iter()
            .map(|rank| {
                let file = segment.file(rank).unwrap();
                let dir = root.join(segment.dir_path(file.dir).unwrap());
                fs::read(dir.join(segment.name(file.name).unwrap())).unwrap()
            })
            .collect();
        World { contents, snapshot }
    }

    /// Returns the tree of real sources, or the tree that the environment names.
    pub(crate) fn real() -> World {
        match std::env::var_os("FORGE_SEARCH_TREE") {
            Some(root) => {
                let root = PathBuf::from(root).canonicalize().unwrap();
                World::new(Setup::new(&root), IndexStorage::Mmap)
            }
            None => World::new(sources::tree().setup(), IndexStorage::Mmap),
        }
    }

    /// Returns the files that a plan for a literal keeps; `None` if it keeps all files.
    pub(crate) fn candidates(&self, literal: &str, case: Case) -> Option<RankSet> {
        let plan = SupersetSafe::for_literal(literal, case.fold(literal) == Fold::AsciiInsensitive);
        (!plan.keeps_everything()).then(|| {
            let candidates = self.snapshot.segment().candidates(&plan).unwrap();
            candidates.files().clone()
        })
    }

    /// Searches all files for one pattern, and checks that no excluded file or part has a match.
    fn check(&self, asked: &Asked) -> Counts {
        let options = QueryOptions {
            fixed_strings: asked.fixed,
            word: asked.word,
            case: asked.case,
            max_results: 1,
            max_matches_per_file: 1,
            max_file_size: u64::MAX,
            ..QueryOptions::default()
        };
        let mut counts = Counts {
            patterns: 1,
            ..Counts::default()
        };
        // Patterns that are refused are not searched.
        let Ok(query) = Query::new(&[&asked.pattern], &options) else {
            return Counts::default();
        };
        let Ok(matcher) = LineMatcher::new(&query.pattern) else {
            return Counts::default();
        };
        let query = Arc::new(query);
        let segment = self.snapshot.segment();
        let fold = query.pattern.fold() == Fold::AsciiInsensitive;
        let mut kept = Vec::new();
        for strategy in [Strategy::RequiredLiteral, Strategy::Boolean] {
            let mut plan = SupersetSafe::for_expression(query.pattern.hir(), fold, strategy);
            if !plan.keeps_everything() {
                segment.order(&mut plan).unwrap();
                kept.push((segment.candidates(&plan).unwrap(), strategy));
            }
        }
        if kept.is_empty() {
            counts.unused = 1;
            return counts;
        }
        let matching: Vec<u32> = (0..segment.file_count())
            .into_par_iter()
            .with_min_len(16)
            .map_init(
                || FileSearcher::new(query.clone(), &matcher, Stop::new()),
                |searcher, rank| {
                    let outcome = searcher.search_bytes(&self.contents[rank as usize]);
                    assert!(outcome.complete);
                    (outcome.has_match() || outcome.error.is_some()).then_some(rank)
                },
            )
            .flatten()
            .collect();
        for (kept, strategy) in &kept {
            for &rank in &matching {
                assert!(
                    kept.files().contains(rank),
                    "{asked:?} matches in {}, which is left out ({strategy:?}): {}",
                    self.path(rank).display(),
                    String::from_utf8_lossy(&self.contents[rank as usize])
                        .chars()
                        .take(2_000)
                        .collect::<String>()
                );
            }
            let parts_left_out: u64 = matching
                .par_iter()
                .map_init(
                    || FileSearcher::new(query.clone(), &matcher, Stop::new()),
                    |searcher, &rank| {
                        let Some(spans) = segment.spans(rank, kept).unwrap() else {
                            return 0;
                        };
                        // With empty lines in place of the kept parts, nothing may match in the
                        // rest.
                        let mut content = self.contents[rank as usize].clone();
                        for span in &spans {
                            content[span.start as usize..span.end as usize].fill(b'\n');
                        }
                        let outcome = searcher.search_bytes(&content);
                        assert!(outcome.complete);
                        assert!(
                            !outcome.has_match(),
                            "{asked:?} matches in {} outside of {spans:?} ({strategy:?}): {:?}",
                            self.path(rank).display(),
                            outcome.lines
                        );
                        1
                    },
                )
                .sum();
            counts.in_parts += parts_left_out;
            let candidates = kept.files().count(0..u32::MAX);
            counts.excluded += u64::from(segment.file_count()) - candidates;
        }
        counts.matched = matching.len() as u64;
        counts.matching = u64::from(!matching.is_empty() && counts.excluded > 0);
        counts
    }

    fn path(&self, rank: u32) -> PathBuf {
        let segment = self.snapshot.segment();
        let file = segment.file(rank).unwrap();
        let dir = segment.dir_path(file.dir).unwrap();
        dir.join(segment.name(file.name).unwrap())
    }
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.patterns += other.patterns;
        self.unused += other.unused;
        self.matching += other.matching;
        self.excluded += other.excluded;
        self.matched += other.matched;
        self.in_parts += other.in_parts;
    }
}

/// Returns a random part of a random line, exactly as in the file. It is valid UTF-8, since
/// patterns are.
pub(crate) fn drawn(rng: &mut Seeded, contents: &[Vec<u8>], chars: usize) -> Option<String> {
    let content = &contents[rng.below(contents.len())];
    if content.is_empty() {
        return None;
    }
    let at = rng.below(content.len());
    let rest = &content[at..];
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = &line[..line.len().min(chars * 4)];
    let chunk = line.utf8_chunks().find(|chunk| !chunk.valid().is_empty())?;
    let text: String = chunk.valid().chars().take(chars).collect();
    Some(text)
}

/// Changes a text a little.
pub(crate) fn mutated(rng: &mut Seeded, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let at = rng.below(chars.len().max(1));
    let odd = [
        'x', 'K', 'k', '\u{212A}', '\u{17F}', 's', '\u{301}', '\u{323}', '\u{1161}', '\u{11A8}',
        '\r', '\u{FEFF}', '\u{FFFD}', 'é', '\0', '\u{E000}',
    ];
    match rng.below(9) {
        0 => chars.insert(at, rng.pick(&odd)),
        1 if !chars.is_empty() => chars[at] = rng.pick(&odd),
        2 if !chars.is_empty() => {
            chars.remove(at);
        }
        3 => return text.nfc().collect(),
        4 => return text.nfd().collect(),
        5 => return text.to_uppercase(),
        6 => return text.to_lowercase(),
        7 => {
            for c in &mut chars {
                if rng.one_in(2) {
                    *c = match c.is_ascii_uppercase() {
                        true => c.to_ascii_lowercase(),
                        false => c.to_ascii_uppercase(),
                    };
                }
            }
        }
        _ => chars.reverse(),
    }
    chars.into_iter().collect()
}

/// Puts two texts into an expression.
fn expression(rng: &mut Seeded, a: &str, b: &str) -> String {
    let split = |text: &str, rng: &mut Seeded| {
        let chars: Vec<char> = text.chars().collect();
        let at = rng.below(chars.len() + 1);
        let escape = |part: &[char]| regex_syntax::escape(&part.iter().collect::<String>());
        (escape(&chars[..at]), escape(&chars[at..]))
    };
    let (head, tail) = split(a, rng);
    let (a, b) = (regex_syntax::escape(a), regex_syntax::escape(b));
    let class = rng.pick(&[
        "[a-z]",
        "[0-9A-F]",
        "[^ ]",
        ".",
        r"\w",
        "[kK\u{212A}]",
        "[xyz]",
        r"\d",
    ]);
    match rng.below(16) {
        0 => format!("{a}|{b}"),
        1 => format!("(?:{a}|{b})$"),
        2 => format!("^{a}"),
        3 => format!("{head}{class}{tail}"),
        4 => format!("{head}{class}?{tail}"),
        5 => format!("{head}.*{tail}"),
        6 => format!("(?:{head})?{tail}"),
        7 => format!(r"\b{a}\b"),
        8 => format!(r"\B{a}"),
        9 => format!("(?i){a}"),
        10 => format!("{head}(?i:{tail})"),
        11 => format!("{head}{class}{{2}}{tail}|{b}"),
        12 => format!(r"{head}\s*{tail}\r?$"),
        13 => format!("(?:{head}){{1,3}}{tail}"),
        14 => format!("(?-u:{head}){tail}"),
        _ => format!("[a-z]{{3}}_[0-9]{{1,2}}|{head}{class}+{tail}"),
    }
}

/// Returns a random pattern.
fn asked(rng: &mut Seeded, contents: &[Vec<u8>]) -> Option<Asked> {
    let mut length = || match rng.below(8) {
        0 => 1 + rng.below(3),
        1 => 20 + rng.below(60),
        _ => 3 + rng.below(12),
    };
    let (one, two) = (length(), length());
    let mut a = drawn(rng, contents, one)?;
    let b = drawn(rng, contents, two)?;
    let fixed = rng.one_in(2);
    if rng.one_in(3) {
        a = mutated(rng, &a);
    }
    let pattern = if fixed { a } else { expression(rng, &a, &b) };
    (!pattern.trim().is_empty()).then(|| Asked {
        pattern,
        fixed,
        word: rng.one_in(6),
        case: rng.pick(&[Case::Sensitive, Case::Insensitive, Case::Smart]),
    })
}

/// Checks the given number of random patterns.
fn check(world: &World, rng: &mut Seeded, patterns: u64) -> Counts {
    let mut counts = Counts::default();
    while counts.patterns < patterns {
        if let Some(asked) = asked(rng, &world.contents) {
            counts.add(world.check(&asked));
        }
    }
    counts
}

#[test]
fn exclusion_has_no_false_negatives() {
    let patterns = match std::env::var("FORGE_SEARCH_PATTERNS") {
        Ok(count) => count.parse().expect("FORGE_SEARCH_PATTERNS is a number"),
        Err(_) => seeds(2_000),
    };
    let world = World::real();
    let counts = check(&world, &mut Seeded::new(1), patterns);
    println!("{counts:?} over {} files", world.contents.len());
    assert!(counts.matching * 3 > counts.patterns, "{counts:?}");
    assert!(counts.in_parts > counts.patterns / 4, "{counts:?}");
    let pairs = counts.patterns * world.contents.len() as u64;
    assert!(
        counts.excluded > pairs,
        "less than half is excluded: {counts:?}"
    );
}

/// Characters that normalization composes, decomposes or reorders, characters with unusual case
/// folding, and characters with a meaning in decoding.
const ODD: &[&str] = &[
    "\u{301}",
    "\u{323}",
    "\u{331}",
    "\u{307}\u{323}",
    "e\u{301}",
    "é",
    "\u{1100}",
    "\u{1161}",
    "\u{11A8}",
    "\u{AC00}",
    "\u{AC00}\u{11A8}",
    "\u{AC01}",
    "\u{212A}",
    "K",
    "k",
    "\u{17F}",
    "s",
    "S",
    "ß",
    "İ",
    "ı",
    "\u{FFFD}",
    "\u{FEFF}",
    "\u{2126}",
    "\u{FB01}",
    "\u{93C}",
    "\u{915}\u{93C}",
    "\u{1F600}",
    "\u{10FFFF}",
    "\r",
    "\r\r",
    "\u{85}",
    "\u{2028}",
    "\t",
    "日本",
];

/// Bytes that are not UTF-8.
const INVALID: &[&[u8]] = &[
    b"\xFF",
    b"\xC3",
    b"\xE2\x84",
    b"\xF0\x9F\x98",
    b"\xED\xA0\x80",
    b"\xC0\x80",
    b"\xF4\x90\x80\x80",
    b"\x80",
    b"\xEF\xBB",
    b"\xFE\xFF",
];

const MARKS: &[&[u8]] = &[
    b"\xEF\xBB\xBF",
    b"\xFF\xFE",
    b"\xFE\xFF",
    b"\xFF\xFE\0\0",
    b"\0\0\xFE\xFF",
    b"\xEF\xBB\xBF\xEF\xBB\xBF",
];

const WORDS: &[&str] = &[
    "kmalloc", "KMALLOC", "needle", "task", "aak", "kernel_", "Straße", "0x1f", "self.", "fn ",
    "ab", "hangul",
];

/// Returns a few words and unusual characters.
fn phrase(rng: &mut Seeded, invalid: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + rng.below(8) {
        match rng.below(12) {
            0..=4 => out.extend_from_slice(rng.pick(WORDS).as_bytes()),
            5..=8 => out.extend_from_slice(rng.pick(ODD).as_bytes()),
            9 if invalid => out.extend_from_slice(rng.pick(INVALID)),
            10 => out.push(b' '),
            _ => out.push(b'a' + rng.below(26) as u8),
        }
    }
    out
}

/// Returns the content of a file that is hostile in one way or several.
fn hostile(rng: &mut Seeded) -> Vec<u8> {
    let odd_allowed = rng.one_in(2);
    let invalid = rng.one_in(3);
    let end = rng.pick(&[&b"\n"[..], b"\r\n", b"\r\r\n", b"\n\r"]);
    let mut out = Vec::new();
    if rng.one_in(5) {
        out.extend_from_slice(rng.pick(MARKS));
    }
    let line = |out: &mut Vec<u8>, rng: &mut Seeded| {
        if odd_allowed {
            out.extend(phrase(rng, invalid));
        } else {
            for _ in 0..1 + rng.below(6) {
                out.extend_from_slice(rng.pick(WORDS).as_bytes());
            }
        }
    };
    match rng.below(10) {
        // Empty, or almost empty.
        0 => {
            let chars = rng.below(4);
            let text: String = (0..chars)
                .map(|_| rng.pick(&['a', 'é', '\n', '\r', '\u{301}', 'k']))
                .collect();
            out.extend_from_slice(text.as_bytes());
        }
        // Some lines.
        1..=5 => {
            for _ in 0..1 + rng.below(20) {
                line(&mut out, rng);
                out.extend_from_slice(end);
            }
            line(&mut out, rng);
        }
        // Many parts, with rare words in lines everywhere, also where parts meet.
        6 | 7 => {
            let filler = rng.pick(&["lorem ipsum dolor", "x", "die Größe", "if (a) return b;"]);
            let size = 33_000 + rng.below(200_000);
            while out.len() < size {
                if rng.one_in(40) {
                    line(&mut out, rng);
                } else {
                    out.extend_from_slice(filler.as_bytes());
                }
                out.extend_from_slice(end);
            }
            let parts = out.len().div_ceil(32 << 10);
            let length = out.len().div_ceil(parts);
            // Words across the places where cutting starts, and next to them.
            for n in 1..parts {
                for shift in [-9isize, -4, 0, 3] {
                    if rng.one_in(2) {
                        continue;
                    }
                    let at = (n * length).saturating_add_signed(shift);
                    let text = format!("border{n}{}", rng.pick(WORDS));
                    let end = (at + text.len()).min(out.len());
                    out.splice(at.min(end)..end, text.bytes());
                }
            }
        }
        // Lines longer than a part.
        8 => {
            for _ in 0..1 + rng.below(3) {
                let size = 20_000 + rng.below(120_000);
                let from = out.len();
                while out.len() < from + size {
                    if rng.one_in(200) {
                        line(&mut out, rng);
                    } else {
                        out.extend_from_slice(b"abc, ");
                    }
                }
                out.extend_from_slice(end);
            }
        }
        // A NUL byte at the start, somewhere, or so late that the text before it is searched.
        _ => {
            let size = rng.pick(&[10, 1_000, 66_000, 100_000]);
            while out.len() < size {
                line(&mut out, rng);
                out.extend_from_slice(end);
            }
            let at = rng.pick(&[
                0,
                out.len() / 2,
                out.len() - 1,
                65_535.min(out.len()),
                out.len(),
            ]);
            out.insert(at, 0);
            line(&mut out, rng);
        }
    }
    out
}

#[test]
fn exclusion_has_no_false_negatives_in_hostile_files() {
    let mut counts = Counts::default();
    for seed in 0..seeds(12) {
        let mut rng = Seeded::new(seed);
        let tree = Tree::new();
        for n in 0..90 {
            tree.file(&format!("{}/{n}", n % 7), hostile(&mut rng));
        }
        let storage = match seed % 2 {
            0 => IndexStorage::Memory,
            _ => IndexStorage::Mmap,
        };
        let world = World::new(tree.setup(), storage);
        assert_eq!(world.contents.len(), 90);
        counts.add(check(&world, &mut rng, 250));
    }
    println!("{counts:?}");
    assert!(counts.matching * 4 > counts.patterns, "{counts:?}");
    assert!(counts.in_parts > counts.patterns / 4, "{counts:?}");
    assert!(counts.excluded > counts.patterns * 30, "{counts:?}");
}
