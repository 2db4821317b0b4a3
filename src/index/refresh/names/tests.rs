use std::fs;
use std::path::Path;

use super::*;
use crate::index::refresh::tests::changing::Changing;

/// Creates a tree with some files, and returns a comparison with its current state.
fn tree() -> (Changing, Arc<Snapshot>) {
    let mut tree = Changing::new(3);
    for dir in [".git", "src/sub", "other"] {
        fs::create_dir_all(tree.root.join(dir)).unwrap();
    }
    for (file, text) in [
        ("src/a.rs", "alpha\n"),
        ("src/b.rs", "bravo\n"),
        ("src/sub/c.rs", "charlie\n"),
        ("src/.gitignore", "*.o\n"),
    ] {
        fs::write(tree.root.join(file), text).unwrap();
    }
    tree.rebuild();
    let built = tree.snapshot();
    (tree, built)
}

fn are_same(tree: &Changing, built: &Arc<Snapshot>, dir: &str) -> bool {
    let names = NameComparison::new(built.clone(), tree.walk(Path::new("")));
    let number = built.segment().find_dir(Path::new(dir)).unwrap().unwrap();
    names.are_same(number, &|| true).unwrap()
}

#[test]
fn a_saved_file_and_names_that_are_left_out_change_no_name() {
    let (tree, built) = tree();
    let src = tree.root.join("src");
    assert!(are_same(&tree, &built, "src"));
    // An editor renames a new file to the old one.
    fs::write(src.join("a.rs.tmp"), "new\n").unwrap();
    assert!(!are_same(&tree, &built, "src"));
    fs::rename(src.join("a.rs.tmp"), src.join("a.rs")).unwrap();
    assert!(are_same(&tree, &built, "src"));
    // Hidden, ignored, and a link.
    fs::write(src.join(".a.rs.swp"), "swap\n").unwrap();
    fs::write(src.join("a.o"), "object\n").unwrap();
    std::os::unix::fs::symlink("a.rs", src.join("link.rs")).unwrap();
    assert!(are_same(&tree, &built, "src"));
}

#[test]
fn each_change_of_an_eligible_name_is_noticed() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 7] = [
        ("a new file", |src| {
            fs::write(src.join("d.rs"), "d\n").unwrap()
        }),
        ("a new directory", |src| {
            fs::create_dir(src.join("new")).unwrap()
        }),
        ("a removed file", |src| {
            fs::remove_file(src.join("b.rs")).unwrap()
        }),
        ("a renamed file", |src| {
            fs::rename(src.join("b.rs"), src.join("z.rs")).unwrap();
        }),
        ("a directory in place of a file", |src| {
            fs::remove_file(src.join("a.rs")).unwrap();
            fs::create_dir(src.join("a.rs")).unwrap();
        }),
        ("a link in place of a file", |src| {
            fs::remove_file(src.join("a.rs")).unwrap();
            std::os::unix::fs::symlink("b.rs", src.join("a.rs")).unwrap();
        }),
        ("a new ignore file", |src| {
            fs::write(src.join(".ignore"), "b.rs\n").unwrap();
        }),
    ];
    for (what, change) in changes {
        let (tree, built) = tree();
        assert!(are_same(&tree, &built, "src"), "{what}");
        change(&tree.root.join("src"));
        assert!(!are_same(&tree, &built, "src"), "{what}");
        assert!(are_same(&tree, &built, "other"), "{what}");
    }
    let (tree, built) = tree();
    fs::remove_dir_all(tree.root.join("src")).unwrap();
    assert!(!are_same(&tree, &built, "src"));
}

#[test]
fn a_hidden_file_that_a_rule_keeps_is_eligible() {
    let (tree, built) = tree();
    fs::write(tree.root.join("src/.gitignore"), "!.kept\n").unwrap();
    fs::write(tree.root.join("src/.kept"), "kept\n").unwrap();
    assert!(!are_same(&tree, &built, "src"));
}

#[test]
fn a_directory_that_is_gone_differs_itself() {
    let (tree, built) = tree();
    fs::remove_dir_all(tree.root.join("src/sub")).unwrap();
    assert!(are_same(&tree, &built, "src"));
    assert!(!are_same(&tree, &built, "src/sub"));
    fs::write(tree.root.join("src/sub"), "a file\n").unwrap();
    assert!(!are_same(&tree, &built, "src"));
}

#[test]
fn directories_that_were_exchanged_are_compared_by_their_names() {
    let (tree, built) = tree();
    let exchange = |a: &str, b: &str| {
        let (a, b, aside) = (
            tree.root.join(a),
            tree.root.join(b),
            tree.root.join("aside"),
        );
        fs::rename(&a, &aside).unwrap();
        fs::rename(&b, &a).unwrap();
        fs::rename(&aside, &b).unwrap();
    };
    exchange("src", "other");
    assert!(!are_same(&tree, &built, "src"));
    assert!(!are_same(&tree, &built, "other"));
}

#[test]
fn nothing_is_compared_when_the_time_is_over() {
    let (tree, built) = tree();
    let names = NameComparison::new(built.clone(), tree.walk(Path::new("")));
    assert!(!names.are_same(0, &|| false).unwrap());
    let mut differences = Differences {
        inputs: Vec::new(),
        dirs: vec!["src".into(), "other".into()],
    };
    names.remove_same(&mut differences, &|| false).unwrap();
    assert_eq!(differences.dirs.len(), 2);
    names.remove_same(&mut differences, &|| true).unwrap();
    assert!(differences.is_empty());
}
