use std::fs;

use regex_syntax::ParserBuilder;

use super::*;
use crate::exec::question::IndexList;
use crate::exec::sources::eligible::WalkSource;
use crate::index::plan::Strategy;
use crate::index::refresh::tests::changing::{Changing, WORDS};
use crate::index::walk::{Follow, IgnoreRules, TraversalOptions, Walk};

/// Globs of requests: to include, to exclude.
pub(super) const GLOBS: [(&[&str], &[&str]); 6] = [
    (&[], &[]),
    (&["x*"], &[]),
    (&[], &["a/"]),
    (&["*", "!z"], &["/b/**"]),
    (&["é"], &[]),
    (&["a/", "B"], &["x.y"]),
];

pub(super) fn plan(expression: &str) -> SupersetSafe {
    let hir = ParserBuilder::new().utf8(false).build().parse(expression);
    SupersetSafe::for_expression(&hir.unwrap(), false, Strategy::Boolean)
}

pub(super) fn globs((include, exclude): (&[&str], &[&str])) -> Globs {
    let own = |all: &[&str]| all.iter().map(|glob| glob.to_string()).collect::<Vec<_>>();
    Globs::new(&own(include), &own(exclude)).unwrap()
}

/// Expands all of a source. Returns its files, each with the number of files skipped before it, and
/// the number skipped at the end.
fn expanded<S: FileSource>(source: &S) -> (Vec<(PathBuf, u64)>, u64) {
    let stop = Stop::new();
    let (mut files, mut passed) = (Vec::new(), 0);
    let mut todo: Vec<Item<S::Unit>> = source.start();
    todo.reverse();
    while let Some(item) = todo.pop() {
        match item {
            Item::File(file) => {
                files.push((file.logical(), passed + file.passed_before));
                passed = 0;
            }
            Item::Passed(count) => passed += count,
            Item::Unit(unit) => todo.extend(source.expand(unit, &stop).into_iter().rev()),
            Item::Listed(listed) => files.extend(listed.iter().map(|path| (path.into_owned(), 0))),
            Item::Error(error) => panic!("{error:?}"),
        }
    }
    (files, passed)
}

pub(super) fn subtree(tree: &Changing, dir: &Path, rules: IgnoreRules, recursive: bool) -> Walk {
    let allowed = tree.allowed();
    let deny = crate::index::deny::DenySet::new(&[], false).unwrap();
    let options = TraversalOptions {
        hidden: false,
        follow: Follow::Never,
        rules,
        recursive,
    };
    Walk::new(
        allowed.clone(),
        dir.to_path_buf(),
        options,
        Arc::new(deny),
        Arc::new(|_: &Path| None),
        None,
    )
}

/// Picks a directory that these rules enter.
fn searched_dir(tree: &mut Changing, rules: IgnoreRules) -> PathBuf {
    match tree.rng.one_in(3) {
        true => PathBuf::new(),
        false => {
            let dirs = tree.directories(rules.sets());
            tree.rng.pick(&dirs).unwrap()
        }
    }
}

/// Returns the position of each file in a walk, as the numbers of skipped files tell them.
fn positions(
    files: &[(PathBuf, u64)],
    last: u64,
    all: &[(PathBuf, u64)],
    what: &str,
) -> Vec<usize> {
    let mut at = 0;
    let mut found = Vec::new();
    for (path, passed) in files {
        at += *passed as usize;
        assert_eq!(all.get(at).map(|(path, _)| path), Some(path), "{what}");
        found.push(at);
        at += 1;
    }
    assert_eq!(at + last as usize, all.len(), "{what}");
    found
}

#[test]
fn a_source_beside_the_segment_has_the_files_of_a_walk_in_their_order() {
    let (mut passed_over, mut extra_files, mut asked) = (0, 0, 0);
    for seed in 200..212 {
        let mut tree = Changing::new(seed);
        for _ in 0..25 {
            for _ in 0..=tree.rng.below(5) {
                tree.change();
            }
            tree.process_marks();
            tree.read_some();
            let snapshot = tree.snapshot();
            extra_files += snapshot.overlay().extras().len();
            for n in 0..6 {
                let rules = [IgnoreRules::All, IgnoreRules::Git][n % 2];
                let dir = searched_dir(&mut tree, rules);
                let recursive = !tree.rng.one_in(4);
                let given = GLOBS[tree.rng.below(GLOBS.len())];
                let word = tree
                    .rng
                    .pick(&[&WORDS[..], &["absent", "."]].concat())
                    .unwrap();
                let look = tree
                    .rng
                    .pick(&[ChangeCheck::Linked, ChangeCheck::All])
                    .unwrap();
                let part = RequestedPart {
                    root: tree.allowed().clone(),
                    base: PathBuf::new(),
                    path: dir.clone(),
                    recursive,
                    max_depth: None,
                    words: None,
                    max_file_size: u64::MAX,
                    withholds: false,
                    lists: false,
                    by_index: IndexList::None,
                    sets: rules.sets(),
                };
                let what = format!(
                    "seed {seed}: {word} in {dir:?}, {rules:?} {recursive} {given:?} {look:?}\n  {}",
                    tree.history()
                );
                let plan = plan(word);
                let source = |lists: bool| {
                    let part = RequestedPart {
                        lists,
                        ..part.clone()
                    };
                    CatalogSource::new(snapshot.clone(), part, globs(given), &plan, look)
                        .unwrap()
                        .unwrap_or_else(|| panic!("not entered: {what}"))
                };
                let (list, source) = (source(true), source(false));
                let walk = WalkSource::new(subtree(&tree, &dir, rules, recursive), globs(given));
                let (all, _) = expanded(&walk);
                assert_eq!(expanded(&list), (all.clone(), 0), "{what}");
                let (files, last) = expanded(&source);
                assert!(source.failure().get().is_none(), "{what}");
                // A skipped file can't match.
                let found = positions(&files, last, &all, &what);
                for (n, (path, _)) in all.iter().enumerate() {
                    let text = fs::read_to_string(tree.root.join(&dir).join(path)).unwrap();
                    let may_match = word == "." || text.contains(word);
                    assert!(
                        !may_match || found.contains(&n),
                        "{path:?} is left out: {what}"
                    );
                }
                let (total, _) = source.counts();
                // Extra files do not count.
                assert!(total as usize <= all.len(), "{what}");
                passed_over += all.len() - files.len();
                asked += 1;
            }
        }
    }
    assert!(
        passed_over * 2 > asked && extra_files > 1000,
        "{passed_over} {asked} {extra_files}"
    );
}

#[test]
fn a_directory_that_is_not_entered_has_no_source() {
    let mut tree = Changing::new(1);
    fs::create_dir_all(tree.root.join("gone/below")).unwrap();
    fs::create_dir_all(tree.root.join(".hidden")).unwrap();
    tree.rebuild();
    let is_there = |tree: &Changing, dir: &str| {
        let part = RequestedPart {
            root: tree.allowed().clone(),
            base: PathBuf::new(),
            path: PathBuf::from(dir),
            recursive: true,
            max_depth: None,
            words: None,
            max_file_size: u64::MAX,
            withholds: false,
            lists: false,
            by_index: IndexList::None,
            sets: RuleSets::EVERY,
        };
        let none = globs((&[], &[]));
        let source = CatalogSource::new(
            tree.snapshot(),
            part,
            none,
            &plan("alpha"),
            ChangeCheck::Linked,
        );
        source.unwrap().is_some()
    };
    assert!(is_there(&tree, "gone/below"));
    assert!(!is_there(&tree, ".hidden"));
    fs::remove_dir_all(tree.root.join("gone")).unwrap();
    fs::create_dir_all(tree.root.join("new/below")).unwrap();
    tree.look_at_all();
    assert!(!is_there(&tree, "gone/below"));
    assert!(!is_there(&tree, "gone"));
    assert!(is_there(&tree, "new/below"));
}
