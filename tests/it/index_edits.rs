//! A call sees every kind of edit between the build of its index and the call, and edits during the
//! build.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use forge_search::internal::index::plan::SupersetSafe;
use forge_search::internal::tool::config::IndexStorage;
use serde_json::{Value, json};

use crate::differential::Seeded;
use crate::index_support::{Host, LIVE, VARIANTS, Variant, compare};
#[cfg(unix)]
use crate::permissions::unprivileged;
use crate::support::{SetAtEnd, Setup, Tree, is_turn, keeping_time, paths, seeds};
use crate::system::{overwrite, set_mode, symlink};

/// Returns the variants that compare the index with the tree on each call.
fn live() -> impl Iterator<Item = Variant> {
    VARIANTS.into_iter().filter(|variant| !variant.frozen)
}

fn search() -> Value {
    json!({"pattern": "needle"})
}

fn planted() -> Tree {
    Tree::of([
        ("a.txt", "needle one\n"),
        ("b.txt", "nothing at all\n"),
        ("d/c.txt", "nothing at all\n"),
        ("d/e/f.txt", "nothing at all\n"),
        ("d/e/g.txt", "needle two\n"),
        ("h/i.txt", "nothing at all\n"),
        ("z.txt", "nothing at all\n"),
    ])
}

/// Checks that the answer after an edit equals the one without an index, and that exactly the files
/// in `expected` have matches.
#[track_caller]
fn check(what: &str, edit: impl Fn(&Tree), expected: &[&str]) {
    // Each edit is tried with every second variant, or with all of them in the long proofs.
    let some = live().enumerate();
    for (nth, variant) in some.filter(|(nth, _)| is_turn(nth + what.len(), 2)) {
        let tree = planted();
        let setup = tree.setup().with_indexes(variant);
        setup.build(&Host::patient());
        let (tally, response) = compare(&setup, &search());
        assert_eq!(tally.excluded, 5, "{what}");
        assert_eq!(paths(&response.unwrap()), ["a.txt", "d/e/g.txt"]);
        edit(&tree);
        for tool in [setup.clone(), setup.reopened()] {
            let (_, response) = compare(&tool, &search());
            assert_eq!(
                paths(&response.unwrap()),
                expected,
                "{what} with {variant:?}"
            );
            // A limit must end the answer at the same place and after the same errors. Each variant
            // tries a third of the limits, or all of them in the long proofs.
            for max in (1..9).filter(|max| is_turn(max + 2 * nth, 3)) {
                compare(&tool, &json!({"pattern": "needle", "max_files": max}));
                compare(&tool, &json!({"pattern": "needle", "max_results": max}));
            }
            for path in ["d", "d/e", "h"] {
                compare(&tool, &json!({"pattern": "needle", "path": path}));
                let request = json!({"pattern": "needle", "path": path, "recursive": false});
                compare(&tool, &request);
            }
        }
    }
}

#[test]
fn edits_of_files_are_seen() {
    let both = ["a.txt", "d/e/g.txt"];
    check(
        "the same size",
        |tree| {
            tree.file("b.txt", "needle is new\n\n");
        },
        &["a.txt", "b.txt", "d/e/g.txt"],
    );
    check(
        "the same size at the same time",
        |tree| {
            let path = tree.path("d/c.txt");
            keeping_time(&path, || fs::write(&path, "needle is new\n\n")).unwrap();
        },
        &["a.txt", "d/c.txt", "d/e/g.txt"],
    );
    check(
        "a few bytes in the middle, at the same time",
        |tree| {
            let path = tree.path("d/e/f.txt");
            keeping_time(&path, || {
                let file = File::options().write(true).open(&path)?;
                overwrite(&file, b"needle", 4)
            })
            .unwrap();
        },
        &["a.txt", "d/e/f.txt", "d/e/g.txt"],
    );
    check(
        "appended",
        |tree| {
            let mut file = File::options()
                .append(true)
                .open(tree.path("z.txt"))
                .unwrap();
            file.write_all(b"needle\n").unwrap();
        },
        &["a.txt", "d/e/g.txt", "z.txt"],
    );
    check(
        "truncated",
        |tree| {
            File::create(tree.path("a.txt")).unwrap();
        },
        &["d/e/g.txt"],
    );
    check(
        "only touched",
        |tree| {
            let file = File::options()
                .write(true)
                .open(tree.path("b.txt"))
                .unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        },
        &both,
    );
    check(
        "replaced by another of the same size and time",
        |tree| {
            let time = fs::metadata(tree.path("b.txt"))
                .unwrap()
                .modified()
                .unwrap();
            tree.file("new", "needle is new\n\n");
            let file = File::options().write(true).open(tree.path("new")).unwrap();
            file.set_modified(time).unwrap();
            fs::rename(tree.path("new"), tree.path("b.txt")).unwrap();
        },
        &["a.txt", "b.txt", "d/e/g.txt"],
    );
    check(
        "two swap their names",
        |tree| {
            fs::rename(tree.path("d/e/f.txt"), tree.path("d/e/x")).unwrap();
            fs::rename(tree.path("d/e/g.txt"), tree.path("d/e/f.txt")).unwrap();
            fs::rename(tree.path("d/e/x"), tree.path("d/e/g.txt")).unwrap();
        },
        &["a.txt", "d/e/f.txt"],
    );
}

#[test]
fn edits_of_directories_are_seen() {
    let both = ["a.txt", "d/e/g.txt"];
    check(
        "created",
        |tree| {
            tree.file("d/e/a.txt", "needle\n");
        },
        &["a.txt", "d/e/a.txt", "d/e/g.txt"],
    );
    check(
        "created in a new directory",
        |tree| {
            tree.file("d/x/y/z", "needle\n");
        },
        &["a.txt", "d/e/g.txt", "d/x/y/z"],
    );
    check(
        "created and removed",
        |tree| {
            tree.file("d/x", "needle\n");
            fs::remove_file(tree.path("d/x")).unwrap();
        },
        &both,
    );
    check(
        "deleted with a match",
        |tree| fs::remove_file(tree.path("a.txt")).unwrap(),
        &["d/e/g.txt"],
    );
    check(
        "deleted without a match",
        |tree| fs::remove_file(tree.path("d/e/f.txt")).unwrap(),
        &both,
    );
    check(
        "renamed",
        |tree| fs::rename(tree.path("a.txt"), tree.path("h/a.txt")).unwrap(),
        &["d/e/g.txt", "h/a.txt"],
    );
    check(
        "a directory is renamed",
        |tree| fs::rename(tree.path("d/e"), tree.path("d/n")).unwrap(),
        &["a.txt", "d/n/g.txt"],
    );
    check(
        "a directory is hidden",
        |tree| fs::rename(tree.path("d"), tree.path(".d")).unwrap(),
        &["a.txt"],
    );
    check(
        "a directory takes another's place",
        |tree| {
            tree.file("../other/e/f.txt", "needle here\n");
            fs::rename(tree.path("d"), tree.path("../old")).unwrap();
            fs::rename(tree.path("../other"), tree.path("d")).unwrap();
        },
        &["a.txt", "d/e/f.txt"],
    );
    check(
        "a directory takes another's place, with the same time",
        |tree| {
            let time = fs::metadata(tree.path("d/e")).unwrap().modified().unwrap();
            tree.file("../other/f.txt", "needle here!!!\n")
                .file("../other/g.txt", "nothing");
            let dir = File::open(tree.path("../other")).unwrap();
            dir.set_modified(time).unwrap();
            let above = fs::metadata(tree.path("d")).unwrap().modified().unwrap();
            fs::rename(tree.path("d/e"), tree.path("../old")).unwrap();
            fs::rename(tree.path("../other"), tree.path("d/e")).unwrap();
            File::open(tree.path("d"))
                .unwrap()
                .set_modified(above)
                .unwrap();
        },
        &["a.txt", "d/e/f.txt"],
    );
    check(
        "the root is replaced",
        |tree| {
            fs::rename(tree.root(), tree.path("../old")).unwrap();
            tree.file("a.txt", "nothing at all\n")
                .file("d/e/h/g.txt", "needle\n")
                .file("h/x", "needle\n");
        },
        &["d/e/h/g.txt", "h/x"],
    );
    check(
        "a file becomes a directory and the reverse",
        |tree| {
            fs::remove_file(tree.path("b.txt")).unwrap();
            tree.file("b.txt/x", "needle\n");
            fs::remove_dir_all(tree.path("h")).unwrap();
            tree.file("h", "needle\n").dir("d/h");
            // `check` also searches `h` as a directory.
            fs::remove_file(tree.path("h")).unwrap();
            tree.file("h/needle", "needle\n");
        },
        &["a.txt", "b.txt/x", "d/e/g.txt", "h/needle"],
    );
    check(
        "a file becomes a link, a FIFO and nothing",
        |tree| {
            fs::remove_file(tree.path("a.txt")).unwrap();
            symlink("d/e/g.txt", tree.path("a.txt")).unwrap();
            fs::remove_file(tree.path("b.txt")).unwrap();
            tree.fifo("b.txt");
        },
        &["d/e/g.txt"],
    );
}

/// Files that an edit did not change are still excluded, without a new build.
#[test]
fn an_edit_does_not_end_exclusion() {
    type Edit = fn(&Tree);
    let edits: [(&str, u64, Edit); 9] = [
        ("a save by renaming", 4, |tree| {
            tree.file("d/new", "needle is new\n");
            fs::rename(tree.path("d/new"), tree.path("d/c.txt")).unwrap();
        }),
        ("a new file", 5, |tree| {
            tree.file("h/j.txt", "needle\n");
        }),
        ("a swap file that came and went", 5, |tree| {
            tree.file("d/.swp", "needle\n");
            fs::remove_file(tree.path("d/.swp")).unwrap();
        }),
        ("a new directory", 5, |tree| {
            tree.file("d/x/y", "needle\n");
        }),
        ("a directory that is gone", 4, |tree| {
            fs::remove_dir_all(tree.path("h")).unwrap()
        }),
        ("a directory that is renamed", 4, |tree| {
            fs::rename(tree.path("h"), tree.path("k")).unwrap();
        }),
        ("an ignore file of the whole tree", 4, |tree| {
            tree.file(".ignore", "z.txt\n");
        }),
        ("an ignore file of a subtree", 4, |tree| {
            tree.file("d/.ignore", "e\n");
        }),
        ("a repository", 4, |tree| {
            tree.file("d/.gitignore", "c.txt\n").dir("d/.git");
        }),
    ];
    for variant in live() {
        for (what, excluded, edit) in edits {
            let tree = planted();
            let setup = tree.setup().with_indexes(variant);
            setup.build(&Host::patient());
            edit(&tree);
            let mut tools = vec![setup.clone()];
            if variant.storage != IndexStorage::Memory {
                tools.push(setup.reopened());
            }
            for tool in tools {
                let (tally, _) = compare(&tool, &search());
                assert_eq!(
                    (tally.used, tally.excluded),
                    (1, excluded),
                    "{what}, {variant:?}"
                );
            }
        }
    }
}

/// A root below another allowed root has its own handle. After the directories above it are
/// replaced, the index must not be compared with the old ones.
#[test]
fn a_root_that_was_replaced_under_its_name_is_noticed_through_another_root() {
    let tree = Tree::new();
    for n in 0..4 {
        tree.file(&format!("w/top/sub/plain{n}"), "nothing\n");
    }
    let mut setup = Setup::new(&tree.path("w/top/sub"));
    setup.sandbox.allowed_roots = vec![tree.path("w/top"), tree.path("w/top/sub")];
    let mut config = setup.config.clone();
    config.index_roots = vec![tree.path("w/top")];
    setup.config = config;
    let setup = setup.with_indexes(LIVE);
    // All calls are in one process with one sandbox.
    let context = setup.context();
    let tool = setup.tool();
    setup
        .kept()
        .indexes
        .build(
            &tree.path("w/top"),
            context.sandbox.reach(),
            &Host::patient(),
        )
        .unwrap();
    let count = || {
        let response = tool.call(search(), &context).unwrap();
        (response.count, response.stats.unwrap().candidates_excluded)
    };
    assert_eq!(count(), (0, 4));
    fs::rename(tree.path("w"), tree.path("old")).unwrap();
    tree.file("w/top/sub/plain0", "needle\n");
    assert_eq!(count(), (1, 0));
    // A new build reads the new directories.
    let built = setup
        .kept()
        .indexes
        .build(
            &tree.path("w/top"),
            context.sandbox.reach(),
            &Host::patient(),
        )
        .unwrap();
    assert_eq!(built.0.meta.files, 1);
    assert_eq!(count(), (1, 0));
    tree.file("w/top/sub/plain1", "nothing\n");
    assert_eq!(count(), (1, 0));
}

/// The target of a link decides whether there is a repository, for searches of the root and of
/// directories in it.
#[test]
fn a_link_to_nowhere_is_no_repository() {
    let tree = planted();
    tree.link(".git", "nowhere").file(".gitignore", "g.txt\n");
    let setup = tree.setup().with_indexes(LIVE);
    setup.build(&Host::patient());
    for path in [".", "d", "d/e"] {
        let request = json!({"pattern": "needle", "path": path});
        let (_, response) = compare(&setup, &request);
        let found = paths(&response.unwrap());
        assert!(
            found.contains(&"d/e/g.txt".to_string()),
            "{path}: {found:?}"
        );
    }
    tree.dir("nowhere");
    for path in [".", "d", "d/e"] {
        let request = json!({"pattern": "needle", "path": path});
        let (tally, response) = compare(&setup, &request);
        assert_eq!(tally.used, 1);
        let found = paths(&response.unwrap());
        assert!(
            !found.contains(&"d/e/g.txt".to_string()),
            "{path}: {found:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn permissions_that_change_are_seen() {
    unprivileged(
        "index_edits::permissions_that_change_are_seen",
        |_| {},
        |_| {
            let chmod = |tree: &Tree, name: &str, mode: u32| {
                set_mode(tree.path(name), mode).unwrap();
            };
            for (name, needles, errors) in [
                ("b.txt", 2, 1),
                ("a.txt", 1, 1),
                ("d/e", 1, 1),
                ("d", 1, 1),
                ("h", 2, 1),
            ] {
                let tree = planted();
                let setup = tree.setup().with_indexes(LIVE);
                setup.build(&Host::patient());
                assert_eq!(compare(&setup, &search()).0.excluded, 5);
                chmod(&tree, name, 0o000);
                let response = compare(&setup, &search()).1.unwrap();
                assert_eq!(
                    (response.count, response.errors.len()),
                    (needles, errors),
                    "{name}"
                );
                for max in 1..8 {
                    compare(&setup, &json!({"pattern": "needle", "max_files": max}));
                    compare(&setup, &json!({"pattern": "needle", "max_results": max}));
                }
                // An index that was built without unreadable paths excludes nothing, or only files
                // that it could read.
                setup.build(&Host::patient());
                let (tally, response) = compare(&setup, &search());
                assert_eq!(response.unwrap().errors.len(), errors);
                assert_eq!(tally.used, u64::from(name.ends_with(".txt")), "{name}");
                chmod(&tree, name, 0o755);
                let (_, response) = compare(&setup, &search());
                assert_eq!(response.unwrap().count, 2, "{name}");
            }
        },
    );
}

/// Makes a random edit in a tree of some directories and files.
fn edit(tree: &Tree, rng: &mut Seeded) {
    let name = |rng: &mut Seeded| format!("{}/{}", rng.pick(&["p", "q", "r"]), rng.below(6));
    let content = rng.pick(&["needle\n", "thread\n", "nothing\n", "needles", ""]);
    // Some edits fail in the current state of the tree.
    let _ = match rng.below(10) {
        0..=4 => fs::write(tree.path(&name(rng)), content),
        5 => fs::rename(tree.path(&name(rng)), tree.path(&name(rng))),
        6 => fs::remove_file(tree.path(&name(rng))),
        7 => fs::write(
            tree.path(rng.pick(&["p/.ignore", ".ignore", "q/.ignore"])),
            rng.pick(&["1\n", "[234]\n", "#\n"]),
        ),
        8 => fs::rename(tree.path("r"), tree.path("s"))
            .and_then(|()| fs::rename(tree.path("s"), tree.path("r"))),
        _ => fs::hard_link(tree.path(&name(rng)), tree.path(&name(rng))),
    };
}

/// Changes during a build, and at the moment in which it ends, are in the index or are noticed.
#[test]
fn edits_while_the_index_is_built_are_seen() {
    let mut used = 0;
    for round in 0..seeds(80) {
        let tree = Tree::new();
        for n in 0..6 {
            tree.file(&format!("p/{n}"), "nothing\n")
                .file(&format!("q/{n}"), "needle\n")
                .file(&format!("r/{n}"), "thread\n");
        }
        let setup = tree.setup().with_indexes(LIVE);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _at_end = SetAtEnd(&done);
            scope.spawn(|| {
                let mut rng = Seeded::new(round);
                while !done.load(Ordering::Relaxed) {
                    edit(&tree, &mut rng);
                    if rng.one_in(3) {
                        std::thread::sleep(std::time::Duration::from_micros(rng.next() % 30_000));
                    }
                }
            });
            setup.build(&Host::patient());
            if round % 2 != 0 {
                // The edits go on for a moment.
                std::thread::sleep(std::time::Duration::from_millis(round % 8));
            }
        });
        for pattern in ["needle", "thread", "absent"] {
            compare(&setup, &json!({"pattern": pattern}));
            compare(&setup, &json!({"pattern": pattern, "path": "p"}));
        }
        // Now edit right after a build that no edit disturbed.
        setup.build(&Host::patient());
        let mut rng = Seeded::new(round + 1_000);
        for _ in 0..6 {
            edit(&tree, &mut rng);
            for pattern in ["needle", "thread", "absent"] {
                used += compare(&setup, &json!({"pattern": pattern})).0.used;
            }
        }
    }
    println!("the index was used {used} times after quiet builds");
    assert!(used > seeds(80), "the index was used {used} times only");
}

#[test]
fn files_that_are_too_large_for_a_request_are_told_of_with_any_index() {
    let text = "the needle\n".repeat(100);
    let request = json!({"pattern": "needle", "max_file_size_bytes": 1_000});
    for variant in VARIANTS {
        let tree = Tree::of([
            ("a.txt", "needle one\n"),
            ("large.txt", &text),
            ("z", "none"),
        ]);
        let setup = tree.setup().with_indexes(variant);
        setup.build(&Host::patient());
        let (tally, response) = compare(&setup, &request);
        let response = response.unwrap();
        assert_eq!(paths(&response), ["a.txt"]);
        assert_eq!(tally.excluded, 1);
        let note = "[1 file is larger than max_file_size_bytes = 1000 bytes and was not searched.";
        assert!(response.content.contains(note), "{}", response.content);
    }
}

#[test]
fn edits_in_parts_of_a_large_file_are_seen() {
    // One part has all n-grams of the needle, so the file is a candidate. No part has the needle.
    let decoy = "some need and eedl but edle\n";
    let mut text = String::new();
    for n in 0..8_000 {
        text.push_str(&format!("{n:06} words that fill a line\n"));
        if n == 6_000 {
            text.push_str(decoy);
        }
    }
    let place = text.find(" words").unwrap();
    for variant in live() {
        let tree = Tree::of([("a.txt", "needle one\n"), ("large.txt", &text)]);
        let setup = tree.setup().with_indexes(variant);
        let (_, snapshot) = setup.build(&Host::patient());
        let segment = snapshot.segment();
        let plan = SupersetSafe::for_literal("needle", false);
        let candidates = segment.candidates(&plan).unwrap();
        let spans = segment.spans(1, &candidates).unwrap().unwrap();
        let [span] = &spans[..] else {
            panic!("one part, not {spans:?}");
        };
        let decoy_at = text.find(decoy).unwrap() as u64;
        assert!(span.contains(&decoy_at) && span.start > 0 && span.end < text.len() as u64);
        let (_, response) = compare(&setup, &search());
        assert_eq!(paths(&response.unwrap()), ["a.txt"]);
        let path = tree.path("large.txt");
        keeping_time(&path, || {
            let file = File::options().write(true).open(&path)?;
            overwrite(&file, b"needle", place as u64)
        })
        .unwrap();
        for tool in [setup.clone(), setup.reopened()] {
            for request in [search(), json!({"pattern": "needle", "path": "large.txt"})] {
                let (_, response) = compare(&tool, &request);
                let found = paths(&response.unwrap());
                assert!(
                    found.contains(&"large.txt".to_string()),
                    "{variant:?}: {found:?}"
                );
            }
        }
    }
}
