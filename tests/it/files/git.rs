//! Tests that a search of trees with generated ignore files reads the files that git does not
//! ignore.

use super::*;
use crate::differential::Seeded;
use crate::differential::ignores::{DIRS, FILES, rules};
use crate::skipped::skipped;
use crate::support::{git, seeds};

/// Plants files, directories and ignore files below `dir`.
fn plant(tree: &Tree, rng: &mut Seeded, dir: &str, depth: usize) {
    for name in FILES.iter().filter(|_| rng.one_in(2)) {
        tree.file(&format!("{dir}{name}"), "m\n");
    }
    if rng.one_in(2) {
        let text = rules(rng);
        tree.file(&format!("{dir}.gitignore"), format!("{text}# m\n"));
    }
    for name in DIRS {
        if depth == 0 || !rng.one_in(3) {
            continue;
        }
        let at = format!("{dir}{name}");
        if !tree.path(&at).exists() {
            plant(tree, rng, &format!("{at}/"), depth - 1);
        }
    }
}

#[test]
fn generated_ignore_files_leave_the_files_of_git() {
    let (mut files, mut left_out) = (0, 0);
    for seed in 0..seeds(120) {
        let mut rng = Seeded::new(seed);
        let tree = Tree::new();
        if let Err(error) = git(tree.root(), &["init", "-q"]) {
            return skipped(format!("git can't be run: {error}"));
        }
        if rng.one_in(2) {
            tree.file(".git/info/exclude", rules(&mut rng));
        }
        plant(&tree, &mut rng, "", 3);
        let all = git(tree.root(), &["ls-files", "-z", "--others"]).unwrap();
        let listed = git(
            tree.root(),
            &["ls-files", "-z", "--others", "--exclude-standard"],
        )
        .unwrap();
        let listed = std::str::from_utf8(&listed).unwrap();
        let expected: BTreeSet<&str> = listed.split_terminator('\0').collect();
        let request = json!({"path": ".", "query": "m", "include_hidden": true, "max_results": 100_000, "max_depth": 50,
            "max_files": 100_000, "max_matches_per_file": 1});
        let response = Files::new(tree.root()).config(widen).search(request);
        assert!(response.errors.is_empty(), "{:?}", response.errors);
        let found: BTreeSet<&str> = response.matches.iter().map(|one| &*one.path).collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        let extra: Vec<_> = found.difference(&expected).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "seed {seed}: git has {missing:?} beyond ours, we have {extra:?} beyond its"
        );
        let all = all.iter().filter(|byte| **byte == 0).count();
        (files, left_out) = (files + found.len(), left_out + all - found.len());
    }
    assert!(left_out as u64 > seeds(120), "{left_out}");
    println!("{files} files are searched and {left_out} left out, as by git");
}

/// Raises the limits so that they cut no answer.
fn widen(config: &mut Config) {
    config.search_files.max_results = 100_000;
    config.search_files.max_files = 100_000;
    config.search_files.max_depth = 50;
}
