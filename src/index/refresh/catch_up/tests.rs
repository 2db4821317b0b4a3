use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::index::refresh::tests::changing::Changing;
use crate::index::walk::RuleSets;

/// How long a test waits after a build. A change in the same tick of the filesystem's clock does
/// not change the state of a directory; the program itself rules that out when it builds.
const TICK: Duration = Duration::from_millis(20);

/// Catches up with a tree for a search below `subtree`.
fn caught_up(tree: &Changing, built: &Snapshot, subtree: &Path) -> CaughtUp {
    let all = || true;
    let differences = built
        .differences(&all, tree.allowed(), Path::new(""), subtree)
        .unwrap()
        .unwrap();
    catch_up(
        built,
        &differences,
        &tree.walk(Path::new("")),
        subtree,
        &all,
    )
    .unwrap()
}

/// Returns the files below `subtree` that a search by the rules `asked` gets.
fn files(snapshot: &Snapshot, subtree: &Path, asked: RuleSets) -> Vec<PathBuf> {
    let (segment, overlay) = (snapshot.segment(), snapshot.overlay());
    let mut all = Vec::new();
    for rank in 0..segment.file_count() {
        let holds = segment.file(rank).unwrap().sets.hold(asked);
        if holds && overlay.dead().is_none_or(|dead| !dead.contains(rank)) {
            all.push(segment.path(rank).unwrap());
        }
    }
    for n in (0..segment.side_count()).filter(|&n| !overlay.is_side_dead(n)) {
        if segment.side(n).unwrap().sets.hold(asked) {
            all.push(segment.side_path(n).unwrap());
        }
    }
    let extras = overlay.extras().iter();
    let extras = extras.filter(|extra| extra.sets.hold(asked));
    all.extend(extras.map(|extra| extra.path.clone()));
    all.retain(|path| path.starts_with(subtree));
    all.sort();
    all
}

#[test]
fn what_is_caught_up_is_what_a_walk_finds() {
    for seed in 0..20 {
        let mut tree = Changing::new(seed);
        let built = tree.snapshot();
        std::thread::sleep(TICK);
        for step in 0..10 {
            tree.change();
            let asked = [RuleSets::ALL, RuleSets::GIT][step % 2];
            let there = tree.files(asked);
            let subtrees = tree.directories(asked);
            let subtree = tree.rng.pick(&subtrees).unwrap();
            for subtree in [PathBuf::new(), subtree] {
                let found = match caught_up(&tree, &built, &subtree) {
                    CaughtUp::Same => files(&built, &subtree, asked),
                    CaughtUp::Later(later) => {
                        let enters = later.overlay().enters(later.segment(), &subtree, asked);
                        assert!(enters.unwrap());
                        files(&later, &subtree, asked)
                    }
                    CaughtUp::Unknown(stale) => panic!("{stale:?}"),
                };
                let mut expected = there.clone();
                expected.retain(|path| path.starts_with(&subtree));
                expected.sort();
                let history = tree.history();
                assert_eq!(
                    found, expected,
                    "{seed}, {step}, below {subtree:?}\n  {history}"
                );
            }
        }
    }
}

#[test]
fn only_what_changed_is_listed() {
    let mut tree = Changing::new(1);
    for dir in ["p/q/r", "p/s", "t"] {
        fs::create_dir_all(tree.root.join(dir)).unwrap();
        fs::write(tree.root.join(dir).join("x"), "alpha\n").unwrap();
    }
    tree.rebuild();
    let built = tree.snapshot();
    std::thread::sleep(TICK);
    assert!(matches!(
        caught_up(&tree, &built, Path::new("")),
        CaughtUp::Same
    ));
    // Save by renaming a new file.
    fs::write(tree.root.join("p/q/new"), "bravo\n").unwrap();
    fs::rename(tree.root.join("p/q/new"), tree.root.join("p/q/x")).unwrap();
    let walk = tree.walk(Path::new(""));
    let all = || true;
    let none = built
        .differences(&all, tree.allowed(), Path::new(""), Path::new("t"))
        .unwrap();
    assert_eq!(none, Some(Differences::default()));
    let found = built
        .differences(&all, tree.allowed(), Path::new(""), Path::new(""))
        .unwrap();
    let differences = Differences {
        inputs: Vec::new(),
        dirs: vec![PathBuf::from("p/q")],
    };
    assert_eq!(found.as_ref(), Some(&differences));
    let CaughtUp::Later(later) =
        catch_up(&built, &differences, &walk, Path::new(""), &all).unwrap()
    else {
        panic!("the tree has changed");
    };
    let extras: Vec<&Path> = later.overlay().extras().iter().map(|e| &*e.path).collect();
    assert_eq!(extras, [Path::new("p/q/x")]);
    // Ignore files decide about everything below them.
    fs::write(tree.root.join("p/.ignore"), "r\n").unwrap();
    let CaughtUp::Later(later) = caught_up(&tree, &built, Path::new("")) else {
        panic!("the tree has changed");
    };
    let there = files(&later, Path::new("p"), RuleSets::ALL);
    assert_eq!(there, [Path::new("p/q/x"), Path::new("p/s/x")]);
}

#[test]
fn a_comparison_that_is_ended_or_meets_an_error_is_of_no_use() {
    let tree = Changing::new(2);
    fs::create_dir_all(tree.root.join("p")).unwrap();
    let built = tree.snapshot();
    std::thread::sleep(TICK);
    fs::write(tree.root.join("p-new"), "alpha\n").unwrap();
    let differences = built
        .differences(&|| true, tree.allowed(), Path::new(""), Path::new(""))
        .unwrap()
        .unwrap();
    let walk = tree.walk(Path::new(""));
    let ended = catch_up(&built, &differences, &walk, Path::new(""), &|| false).unwrap();
    assert!(
        matches!(ended, CaughtUp::Unknown(Stale::Unfinished)),
        "{ended:?}"
    );
    let unfinished = built
        .differences(&|| false, tree.allowed(), Path::new(""), Path::new(""))
        .unwrap();
    assert_eq!(unfinished, None);
}

#[test]
fn what_is_in_a_directory_is_found_with_and_without_going_through_the_catalog() {
    for seed in 0..20 {
        let tree = Changing::new(seed);
        let built = tree.snapshot();
        let segment = built.segment();
        let lists = || -> Vec<(Vec<u32>, Vec<u32>)> {
            let numbers = 0..segment.dir_count();
            let of = |number| {
                let files = segment.files_in(number).unwrap().to_vec();
                (files, segment.dirs_in(number).unwrap().to_vec())
            };
            numbers.map(of).collect()
        };
        let without = lists();
        // This goes through the whole segment.
        segment.linked().unwrap();
        assert_eq!(without, lists(), "{seed}");
    }
}
