//! Building from an earlier segment: files that are copied give the same answers as files that are
//! read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::builder::{
    BuildOptions, BuiltSegment, EarlierSegment, build_from,
};
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::deny::DenySet;
use forge_search::internal::index::plan::SupersetSafe;
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::walk::{Follow, IgnoreRules, TraversalOptions, Walk};

use crate::differential::Seeded;
use crate::index_support::Host;
use crate::support::{Tree, seeds};

const WORDS: &[&str] = &[
    "alpha", "beta", "Gamma", "delta", "été", "return", "kmalloc", "x_y", "();",
];

fn text(rng: &mut Seeded) -> String {
    let lines = match rng.one_in(12) {
        // Long enough for several parts.
        true => 6_000,
        false => rng.below(40),
    };
    let mut out = String::new();
    for _ in 0..lines {
        for _ in 0..rng.below(8) {
            out.push_str(rng.pick(WORDS));
            out.push(' ');
        }
        if rng.one_in(10) {
            out.push_str(&format!("word{}", rng.below(300)));
        }
        out.push('\n');
    }
    out
}

fn walk(root: &Path) -> Walk {
    let options = TraversalOptions {
        hidden: false,
        follow: Follow::Never,
        rules: IgnoreRules::All,
        recursive: true,
    };
    let open = Arc::new(RootDir::open(root).unwrap());
    let deny = Arc::new(DenySet::new(&[], false).unwrap());
    Walk::new(
        open,
        PathBuf::new(),
        options,
        deny,
        Arc::new(|_: &Path| None),
        None,
    )
}

fn options() -> BuildOptions {
    BuildOptions {
        words: true,
        params: BloomParams::from_config(1 << 20, 0.01),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: 1 << 20,
        max_memory_bytes: 64 << 20,
    }
}

fn built(root: &Path, earlier: Option<&Segment>) -> (BuiltSegment, Segment) {
    let mut bytes = Vec::new();
    let host = Host::hasty();
    let built = build_from(
        &walk(root),
        &options(),
        &host,
        earlier.map(EarlierSegment::new),
        &mut bytes,
    );
    (built.unwrap(), Segment::open(Storage::from(bytes)).unwrap())
}

/// Asks a segment for the candidates of a literal, and checks that they include every file that
/// contains it. Returns the number of files that contain the literal, and the number of candidates.
fn check(root: &Path, segment: &Segment, literal: &str) -> (usize, usize) {
    let plan = SupersetSafe::for_literal(literal, false);
    let candidates = segment.candidates(&plan).unwrap();
    let (mut true_files, mut kept) = (0, 0);
    for rank in 0..segment.file_count() {
        let path = root.join(segment.path(rank).unwrap());
        let content = fs::read_to_string(&path).unwrap();
        let is_kept = candidates.files().contains(rank);
        kept += usize::from(is_kept);
        let Some(at) = content.find(literal) else {
            continue;
        };
        true_files += 1;
        assert!(is_kept, "{literal}: {} is left out", path.display());
        if let Some(spans) = segment.spans(rank, &candidates).unwrap() {
            let within = spans.iter().any(|span| span.contains(&(at as u64)));
            assert!(within, "{literal}: {} at {at}, {spans:?}", path.display());
        }
    }
    (true_files, kept)
}

#[test]
fn what_is_copied_answers_as_what_is_read() {
    let (mut rounds, mut copied, mut matches) = (0, 0, 0);
    for seed in 0..seeds(3) {
        let mut rng = Seeded::new(seed);
        let tree = Tree::new();
        let mut names: Vec<String> = (0..400).map(|n| format!("d{}/f{n}.txt", n % 17)).collect();
        for name in &names {
            tree.file(name, text(&mut rng));
        }
        let (_, mut segment) = built(tree.root(), None);
        for round in 0..4 {
            // Some rounds change so much that copying is not worthwhile.
            let most = if rng.one_in(4) { 350 } else { 40 };
            let changes = 1 + rng.below(most);
            for n in 0..changes {
                let at = rng.below(names.len());
                match rng.below(4) {
                    0 => drop(tree.file(&names[at], text(&mut rng))),
                    1 => {
                        let name = names.swap_remove(at);
                        fs::remove_file(tree.path(&name)).unwrap();
                    }
                    2 => {
                        let to = format!("e{}/g{round}-{n}.txt", rng.below(5));
                        tree.dir(to.split('/').next().unwrap());
                        fs::rename(tree.path(&names[at]), tree.path(&to)).unwrap();
                        names[at] = to;
                    }
                    _ => {
                        let name = format!("d{}/n{round}-{n}.txt", rng.below(20));
                        tree.dir(name.split('/').next().unwrap());
                        tree.file(&name, text(&mut rng));
                        names.push(name);
                    }
                }
            }
            let (fresh_built, fresh) = built(tree.root(), None);
            let (again_built, again) = built(tree.root(), Some(&segment));
            again.verify().unwrap();
            assert_eq!(again_built.by_status, fresh_built.by_status);
            assert_eq!(again_built.excludable, fresh_built.excludable);
            let (a, b) = (again.meta(), fresh.meta());
            assert_eq!((a.files, a.dirs, a.ngrams), (b.files, b.dirs, b.ngrams));
            let words: BTreeSet<String> = (0..16)
                .map(|_| format!("word{}", rng.below(320)))
                .chain(["kmalloc x_y".to_string(), "never there".to_string()])
                .collect();
            for word in &words {
                let (found, kept) = check(tree.root(), &again, word);
                let (_, kept_fresh) = check(tree.root(), &fresh, word);
                matches += found;
                // Copied blocks are folded differently, but keep only a few more files.
                assert!(
                    kept <= kept_fresh + 40,
                    "{word}: {kept} instead of {kept_fresh}"
                );
            }
            rounds += 1;
            copied += usize::from(a.groups > b.groups);
            segment = again;
        }
    }
    println!("{rounds} rounds, blocks copied in {copied}; {matches} matches, none left out");
    assert!(copied * 2 > rounds, "{copied} of {rounds}");
    assert!(matches as u64 > 60 * seeds(3), "{matches}");
}

#[test]
fn what_is_distrusted_is_read_again() {
    let tree = Tree::new();
    let files: Vec<String> = (0..100).map(|n| format!("f{n:02}")).collect();
    for (n, file) in files.iter().enumerate() {
        tree.file(file, format!("some text with number{n} in it\n"));
    }
    let (_, segment) = built(tree.root(), None);
    let read = |distrusted: &BTreeSet<u32>| {
        let earlier = Some(EarlierSegment::without(&segment, distrusted));
        let mut bytes = Vec::new();
        let host = Host::hasty();
        let built = build_from(&walk(tree.root()), &options(), &host, earlier, &mut bytes);
        built.unwrap();
        let again = Segment::open(Storage::from(bytes)).unwrap();
        again.verify().unwrap();
        // Copied files are in the first group, and files that were read in the second.
        again.meta().groups
    };
    assert_eq!(read(&BTreeSet::new()), 1);
    assert_eq!(read(&BTreeSet::from([7, 42])), 2);
}

#[test]
fn nothing_is_read_that_is_known() {
    let tree = Tree::new();
    for n in 0..100 {
        tree.file(
            &format!("f{n}"),
            format!("some text with number{n} in it\n"),
        );
    }
    let (_, earlier) = built(tree.root(), None);
    tree.file("f7", "another text altogether");
    tree.file("g", "a new one");
    // Builds from the earlier segment: only `f7` and `g` have changed.
    let listed = built(tree.root(), Some(&earlier));
    let (_, again) = listed;
    let by_slots = |segment: &Segment| segment.meta().groups;
    assert_eq!(
        by_slots(&again),
        2,
        "one copied, one of the two that were read"
    );
    again.verify().unwrap();
    for (literal, files) in [
        ("number42", 1),
        ("number7 ", 0),
        ("another text", 1),
        ("a new one", 1),
    ] {
        assert_eq!(check(tree.root(), &again, literal).0, files, "{literal}");
    }
}

/// Files that a build could not vouch for are read again, even if they are unchanged: no copied
/// block contains them.
#[test]
fn files_that_may_not_be_excluded_are_not_copied() {
    let tree = Tree::new();
    for n in 0..100 {
        tree.file(&format!("f{n}"), format!("some text, number{n}\n"));
    }
    tree.file("binary", [&b"needle"[..], &[0xff; 99]].concat());
    tree.file("composed", "needle k\u{323}\n");
    tree.file("large", "needle\n".repeat(200_000));
    tree.file("empty", "");
    tree.file("short", "k\n");
    let always = ["binary", "composed", "empty", "large", "short"];
    let (_, mut segment) = built(tree.root(), None);
    for _ in 0..2 {
        tree.file("f7", "another text\n");
        let (_, again) = built(tree.root(), Some(&segment));
        again.verify().unwrap();
        assert!(again.meta().groups > segment.meta().groups.min(1));
        let plan = SupersetSafe::for_literal("is in no file", false);
        let candidates = again.candidates(&plan).unwrap();
        for rank in 0..again.file_count() {
            let path = again.path(rank).unwrap();
            let name = path.to_str().unwrap();
            let excludable = again.file(rank).unwrap().excludable;
            assert_eq!(excludable, !always.contains(&name), "{name}");
            assert!(excludable || candidates.files().contains(rank), "{name}");
        }
        segment = again;
    }
}

/// A live index builds segments until one has words. So a segment must say so even if no file has
/// a record.
#[test]
fn a_segment_says_whether_words_were_counted() {
    let dir = tempfile::tempdir().unwrap();
    // Binary data after text: such a file has no record.
    let late = format!("needle\n{}\0", "text\n".repeat(20_000));
    fs::write(dir.path().join("late.bin"), late).unwrap();
    fs::write(dir.path().join("new.txt"), "needle\n").unwrap();
    let without = |options: BuildOptions| {
        let mut bytes = Vec::new();
        let options = BuildOptions {
            words: false,
            ..options
        };
        build_from(
            &walk(dir.path()),
            &options,
            &Host::hasty(),
            None,
            &mut bytes,
        )
        .unwrap();
        Segment::open(Storage::from(bytes)).unwrap()
    };
    let plain = without(options());
    assert!(!plain.has_words());
    plain.verify().unwrap();
    // The segment without words is not the base of one with words, but the other way round.
    let (_, segment) = built(dir.path(), Some(&plain));
    assert!(segment.has_words());
    segment.verify().unwrap();
    fs::remove_file(dir.path().join("new.txt")).unwrap();
    let (_, segment) = built(dir.path(), Some(&segment));
    assert!(segment.has_words());
    segment.verify().unwrap();
}
