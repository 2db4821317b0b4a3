//! Eligible files with an index: the next call sees every change of the rules, and the catalog
//! serves only requests with the options that it was made for.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use forge_search::internal::index::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::index_support::{Host, LIVE, compare};
use crate::support::{Setup, Tree, events, paths};
use crate::system::symlink;

/// Plants a tree in `w/top`, so that directories above the root belong to the test too. Some files
/// have the needle, and the others are there to be excluded.
fn planted(plant: impl Fn(&Tree)) -> (Tree, Setup) {
    let tree = Tree::new();
    for n in 0..6 {
        tree.file(&format!("w/top/sub/plain{n}.dat"), "nothing to see\n");
    }
    tree.file("w/top/a.txt", "needle\n")
        .file("w/top/a.log", "needle\n")
        .file("w/top/sub/b.log", "needle\n");
    plant(&tree);
    let setup = Setup::new(&tree.path("w/top"));
    (tree, setup)
}

fn search() -> Value {
    json!({"pattern": "needle"})
}

/// Returns the paths with matches; checks that the index was used and excluded files.
#[track_caller]
fn found_with_index(setup: &Setup, request: &Value) -> Vec<String> {
    let (tally, response) = compare(setup, request);
    assert!(tally.excluding == 1, "{request} does not use the index");
    paths(&response.unwrap())
}

/// Returns the paths with matches; checks that the index was not used.
#[track_caller]
fn found_without_index(setup: &Setup, request: &Value) -> Vec<String> {
    let (tally, response) = compare(setup, request);
    assert_eq!(tally.used, 0, "{request} uses the index");
    paths(&response.unwrap())
}

/// Checks that a call sees a change of eligibility, and that the change matters.
#[track_caller]
fn check_change(what: &str, plant: impl Fn(&Tree), change: impl Fn(&Tree)) {
    check_change_under(what, plant, change, |setup, _| setup);
}

#[track_caller]
fn check_change_under(
    what: &str,
    plant: impl Fn(&Tree),
    change: impl Fn(&Tree),
    configure: impl Fn(Setup, &Tree) -> Setup,
) {
    let (tree, setup) = planted(plant);
    let setup = configure(setup, &tree).with_indexes(LIVE);
    setup.build(&Host::patient());
    let before = found_with_index(&setup, &search());
    change(&tree);
    let (tally, response) = compare(&setup, &search());
    let after = paths(&response.unwrap());
    assert_ne!(before, after, "{what}: nothing changed");
    // The call listed the directories that the change affects, and used the index for the others.
    assert_eq!(tally.used, 1, "{what}");
    setup.build(&Host::patient());
    assert_eq!(found_with_index(&setup, &search()), after, "{what}");
}

/// Overwrites a file in place and restores its modification time.
fn write_unnoticeably(path: &Path, content: &str) {
    let before = fs::metadata(path).unwrap();
    assert_eq!(before.len(), content.len() as u64, "{}", path.display());
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
}

fn nothing(_: &Tree) {}

#[test]
fn a_repository_that_appears_or_disappears_changes_which_files_are_eligible() {
    // Git's rules count only in a repository.
    let rules = |tree: &Tree| {
        tree.file("w/top/.gitignore", "*.log\n");
    };
    for marker in ["w/top/.git", "w/.git", ".git", "w/top/.jj", "w/.jj"] {
        // The rules of a repository reach down from its top, so a repository above the root counts.
        check_change(&format!("{marker} appears"), rules, |tree| {
            tree.dir(marker);
        });
        check_change(
            &format!("{marker} disappears"),
            |tree| {
                rules(tree);
                tree.dir(marker);
            },
            |tree| fs::remove_dir(tree.path(marker)).unwrap(),
        );
    }
    check_change(
        "a repository inside cuts off the rules above",
        |tree| {
            rules(tree);
            tree.dir("w/top/.git");
        },
        |tree| {
            tree.dir("w/top/sub/.git");
        },
    );
}

#[test]
fn rules_above_the_root_count_with_their_existence() {
    for name in [
        "w/.ignore",
        "w/.rgignore",
        ".ignore",
        "w/.gitignore",
        ".gitignore",
    ] {
        let repository = |tree: &Tree| {
            tree.dir(".git");
        };
        check_change(&format!("{name} is created"), repository, |tree| {
            tree.file(name, "*.log\n");
        });
        let with_rules = |tree: &Tree| {
            repository(tree);
            tree.file(name, "*.log\n");
        };
        check_change(&format!("{name} is removed"), with_rules, |tree| {
            fs::remove_file(tree.path(name)).unwrap();
        });
        check_change(&format!("{name} is changed"), with_rules, |tree| {
            write_unnoticeably(&tree.path(name), "*.txt\n");
        });
        check_change(
            &format!("what {name} links to is changed"),
            |tree| {
                repository(tree);
                tree.file("rules", "*.log\n").link(name, "{root}/rules");
            },
            |tree| write_unnoticeably(&tree.path("rules"), "*.txt\n"),
        );
    }
}

#[test]
fn rules_inside_the_tree_count_with_their_existence() {
    for name in [
        "w/top/.gitignore",
        "w/top/.ignore",
        "w/top/.rgignore",
        "w/top/sub/.ignore",
        "w/top/sub/.gitignore",
        "w/top/.git/info/exclude",
        "w/.git/info/exclude",
    ] {
        let repository = |tree: &Tree| {
            // Rules of an outer repository do not reach into an inner one, so each case has one
            // repository.
            let git = if name.starts_with("w/.git/") {
                "w/.git"
            } else {
                "w/top/.git"
            };
            tree.dir(git).file("w/top/sub/b.txt", "needle\n");
        };
        check_change(&format!("{name} is created"), repository, |tree| {
            tree.file(name, "*.log\n");
        });
        let with_rules = |tree: &Tree| {
            repository(tree);
            tree.file(name, "*.log\n");
        };
        check_change(&format!("{name} is removed"), with_rules, |tree| {
            fs::remove_file(tree.path(name)).unwrap();
        });
        check_change(&format!("{name} is changed"), with_rules, |tree| {
            write_unnoticeably(&tree.path(name), "*.txt\n");
        });
        check_change(&format!("{name} grows"), with_rules, |tree| {
            tree.file(name, "*.log\n*.txt\n");
        });
        check_change(&format!("{name} is replaced"), with_rules, |tree| {
            tree.file("other", "*.txt\n");
            fs::rename(tree.path("other"), tree.path(name)).unwrap();
        });
    }
}

#[test]
fn a_worktree_has_its_rules_in_the_main_repository() {
    let worktree = |tree: &Tree| {
        tree.file("w/top/.git", "gitdir: ../../main/.git/worktrees/w\n")
            .file("main/.git/worktrees/w/commondir", "../..\n")
            .file("main/.git/info/exclude", "*.log\n")
            .file("other/.git/info/exclude", "*.txt\n");
    };
    check_change("the excludes change", worktree, |tree| {
        write_unnoticeably(&tree.path("main/.git/info/exclude"), "*.txt\n");
    });
    check_change("the excludes are removed", worktree, |tree| {
        fs::remove_file(tree.path("main/.git/info/exclude")).unwrap();
    });
    check_change("the common directory is another", worktree, |tree| {
        let other = tree.path("other/.git");
        tree.file("main/.git/worktrees/w/commondir", other.to_str().unwrap());
    });
    check_change("the common directory is no more known", worktree, |tree| {
        fs::remove_file(tree.path("main/.git/worktrees/w/commondir")).unwrap();
    });
    check_change("the worktree is another's", worktree, |tree| {
        tree.file("other/.git/worktrees/w/commondir", "../..\n")
            .file("w/top/.git", "gitdir: ../../other/.git/worktrees/w\n");
    });
}

#[test]
fn a_submodule_has_its_excludes_in_its_own_git_directory() {
    let submodule = |tree: &Tree| {
        tree.file("w/top/.git", "gitdir: ../../modules/m\n")
            .file("modules/m/info/exclude", "*.log\n")
            .file("other/info/exclude", "*.txt\n");
    };
    check_change("its excludes change", submodule, |tree| {
        write_unnoticeably(&tree.path("modules/m/info/exclude"), "*.txt\n");
    });
    check_change("its excludes are removed", submodule, |tree| {
        fs::remove_file(tree.path("modules/m/info/exclude")).unwrap();
    });
    check_change("it becomes a worktree", submodule, |tree| {
        tree.file("modules/m/commondir", "../../other\n");
    });
    check_change("its git directory is another", submodule, |tree| {
        tree.file("w/top/.git", "gitdir: ../../other\n");
    });
}

#[test]
fn global_excludes_count_with_their_existence() {
    let configure = |mut setup: Setup, tree: &Tree| {
        setup.global_excludes = Some(tree.path("excludes"));
        setup
    };
    let repository = |tree: &Tree| {
        tree.dir("w/top/.git");
    };
    let with_rules = |tree: &Tree| {
        repository(tree);
        tree.file("excludes", "*.log\n");
    };
    check_change_under(
        "the global excludes are created",
        repository,
        |tree| {
            tree.file("excludes", "*.log\n");
        },
        configure,
    );
    check_change_under(
        "the global excludes are changed",
        with_rules,
        |tree| write_unnoticeably(&tree.path("excludes"), "*.txt\n"),
        configure,
    );
    check_change_under(
        "the global excludes are removed",
        with_rules,
        |tree| fs::remove_file(tree.path("excludes")).unwrap(),
        configure,
    );
}

#[test]
fn each_call_has_its_own_global_excludes() {
    let (tree, mut setup) = planted(|tree| {
        tree.dir("w/top/.git")
            .file("excludes", "/sub/*.log\n")
            .file("others", "*.txt\n");
    });
    setup.global_excludes = Some(tree.path("excludes"));
    setup.sandbox.allow_absolute = true;
    setup.sandbox.allowed_roots = vec![tree.path("w/top")];
    let setup = setup.with_indexes(LIVE);
    setup.build(&Host::patient());
    assert_eq!(found_with_index(&setup, &search()), ["a.log", "a.txt"]);
    // Another file with global excludes.
    let mut other = setup.clone();
    other.global_excludes = Some(tree.path("others"));
    assert_eq!(
        found_without_index(&other, &search()),
        ["a.log", "sub/b.log"]
    );
    other.global_excludes = None;
    assert_eq!(found_without_index(&other, &search()).len(), 3);
    // The same file has the same rules, wherever the call is made.
    let mut elsewhere = setup.clone();
    elsewhere.working_dir = tree.path("w/top/sub");
    let request = json!({"pattern": "needle", "path": tree.path("w/top").to_str().unwrap()});
    assert_eq!(found_with_index(&elsewhere, &request).len(), 2);
    assert_eq!(found_with_index(&setup, &request).len(), 2);
}

#[test]
fn each_call_has_its_own_denied_patterns() {
    let (tree, mut setup) = planted(nothing);
    setup.sandbox.denied_patterns = vec!["*.log".to_string()];
    let setup = setup.with_indexes(LIVE);
    setup.build(&Host::patient());
    assert_eq!(found_with_index(&setup, &search()), ["a.txt", "sub/b.log"]);
    let mut other = setup.clone();
    other.sandbox.denied_patterns = vec![];
    assert_eq!(found_without_index(&other, &search()).len(), 3);
    // Patterns relative to a root deny other files below another root.
    let mut beneath = setup.clone();
    beneath.sandbox.allowed_roots = vec![tree.path("w/top"), tree.path("w/top/sub")];
    assert_eq!(found_without_index(&beneath, &search()), ["a.txt"]);
}

/// Modification times that are out of range cannot be compared. Such a file always counts as
/// changed.
#[test]
fn rules_with_a_time_that_can_not_be_stored_are_not_trusted() {
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000_000_000);
    let set = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(far).unwrap();
        fs::metadata(path).unwrap().modified().unwrap() == far
    };
    let (tree, setup) = planted(|tree| {
        tree.file("w/top/.ignore", "*.log\n");
    });
    let rules = tree.path("w/top/.ignore");
    if !set(&rules) {
        return crate::skipped::skipped("the filesystem has no time after 2262");
    }
    let setup = setup.with_indexes(LIVE);
    setup.build(&Host::patient());
    assert_eq!(found_with_index(&setup, &search()), ["a.txt"]);
    fs::write(&rules, "*.txt\n").unwrap();
    assert!(set(&rules));
    assert_eq!(found_with_index(&setup, &search()), ["a.log", "sub/b.log"]);
}

#[test]
fn the_catalog_answers_for_its_own_options_only() {
    let plant = |tree: &Tree| {
        tree.file("w/top/.hidden/c.txt", "needle\n")
            .file("w/top/.d.txt", "needle\n")
            .file("w/top/.ignore", "ignored\n")
            .file("w/top/ignored/e.txt", "needle\n")
            .link("w/top/link", "ignored");
    };
    let options = [
        ("hidden", "index_default_hidden"),
        ("no_ignore", "index_default_no_ignore"),
        ("follow", "index_default_follow"),
    ];
    for chosen in 0..4 {
        let (_tree, setup) = planted(plant);
        let setup = setup.config(|config| {
            config.index_default_hidden = chosen == 1;
            config.index_default_no_ignore = chosen == 2;
            config.index_default_follow = chosen == 3;
        });
        let setup = setup.with_indexes(LIVE);
        setup.build(&Host::patient());
        let mut seen = std::collections::BTreeSet::new();
        for asked in 0..8 {
            let mut request = search();
            for (n, (option, _)) in options.iter().enumerate() {
                request[*option] = (asked >> n & 1 == 1).into();
            }
            let own = match chosen {
                0 => 0,
                n => 1 << (n - 1),
            };
            // Targets of links are not tracked, so nothing is excluded where links are followed.
            let answered = asked == own && own != 4;
            let found = match answered {
                true => found_with_index(&setup, &request),
                false => found_without_index(&setup, &request),
            };
            seen.insert(found);
        }
        assert!(seen.len() > 4, "the options make no difference: {seen:?}");
    }
}

#[test]
fn a_named_directory_that_is_not_in_the_catalog_is_searched() {
    let (tree, setup) = planted(|tree| {
        tree.file("w/top/.hidden/c.txt", "needle\n")
            .file("w/top/.hidden/deep/c.txt", "needle\n")
            .file("w/top/.ignore", "ignored\n/sub/out/\n")
            .file("w/top/ignored/e.txt", "needle\n")
            .file("w/top/ignored/deep/e.txt", "needle\n")
            .file("w/top/sub/out/f.txt", "needle\n")
            .file("w/top/sub/out/in/f.txt", "needle\n")
            .link("w/top/to_hidden", ".hidden")
            .link("w/top/to_sub", "sub");
    });
    let setup = setup.with_indexes(LIVE);
    setup.build(&Host::patient());
    for (path, found) in [
        (".hidden", 2),
        (".hidden/deep", 1),
        ("ignored", 2),
        ("ignored/deep", 1),
        ("sub/out", 2),
        ("sub/out/in", 1),
        ("to_hidden", 2),
        ("to_hidden/deep", 1),
    ] {
        let request = json!({"pattern": "needle", "path": path});
        assert_eq!(found_without_index(&setup, &request).len(), found, "{path}");
    }
    // A directory named through a link is the target of the link.
    for path in ["sub", "to_sub", "./sub", "sub/."] {
        let request = json!({"pattern": "needle", "path": path});
        assert_eq!(found_with_index(&setup, &request), ["sub/b.log"], "{path}");
    }
    // A file is not a directory, and a missing path is refused as without an index.
    for path in ["sub/b.log", ".hidden/c.txt", "sub/none", "none"] {
        let (tally, _) = compare(&setup, &json!({"pattern": "needle", "path": path}));
        assert_eq!(tally.used, 0);
    }
    // A directory that was created after the build is listed.
    tree.file("w/top/sub/new/g.txt", "needle\n");
    let request = json!({"pattern": "needle", "path": "sub/new"});
    assert_eq!(found_with_index_or_not(&setup, &request), ["sub/new/g.txt"]);
}

/// Returns the paths in a catalog, in its order. Also returns the paths on the side list, each with
/// the path before which it stands.
fn catalog(snapshot: &Snapshot) -> (Vec<String>, Vec<(String, Option<String>)>) {
    let segment = snapshot.segment();
    let path = |dir: u32, name| {
        let dir = segment.dir_path(dir).unwrap();
        dir.join(segment.name(name).unwrap())
            .to_str()
            .map(str::to_string)
    };
    let files: Vec<String> = (0..segment.file_count())
        .map(|rank| {
            let file = segment.file(rank).unwrap();
            path(file.dir, file.name).unwrap_or_else(|| "(invalid)".to_string())
        })
        .collect();
    let side = (0..segment.side_count())
        .map(|n| {
            let side = segment.side(n).unwrap();
            let before = files.get(side.before_rank as usize).cloned();
            (path(side.dir, side.name).unwrap(), before)
        })
        .collect();
    (files, side)
}

#[test]
fn names_with_line_breaks_are_searched_beside_the_catalog() {
    let names = [
        r"a\nb",
        r"a\rb",
        "ab",
        r"d\n/x",
        r"d\r/x",
        "d/x",
        r"d/\n",
        r"e\nf/g\rh/i",
        r"\n",
        r"z\r",
    ];
    let tree = Tree::new();
    for name in names {
        tree.file(name, "needle\n");
        // A file next to it, which a search can exclude.
        tree.file(&format!("{name}.other"), "nothing\n");
    }
    let setup = tree.setup().with_indexes(LIVE);
    let (_, snapshot) = setup.build(&Host::patient());
    let (files, side) = catalog(&snapshot);
    assert!(
        files.iter().all(|path| !path.contains(['\n', '\r'])),
        "{files:?}"
    );
    assert_eq!(files, ["ab", "ab.other", "d/x", "d/x.other"]);
    assert_eq!(side.len(), 2 * names.len() - 4);
    assert!(
        side.contains(&("a\nb".to_string(), Some("ab".to_string()))),
        "{side:?}"
    );
    assert!(side.contains(&("z\r".to_string(), None)), "{side:?}");
    // Each match is in its place, whatever the limits are.
    let found = found_with_index(&setup, &search());
    assert_eq!(found.len(), names.len());
    for max in 1..=names.len() {
        let request = json!({"pattern": "needle", "max_results": max});
        assert_eq!(found_with_index_or_not(&setup, &request), found[..max]);
    }
    for max in 1..=2 * names.len() {
        let request = json!({"pattern": "needle", "max_files": max});
        compare(&setup, &request);
    }
    for path in ["d", "d\n", "d\r", "e\nf", "e\nf/g\rh"] {
        for recursive in [true, false] {
            let request = json!({"pattern": "needle", "path": path, "recursive": recursive});
            let (_, response) = compare(&setup, &request);
            assert_eq!(response.unwrap().count > 0, path != "e\nf" || recursive);
        }
    }
    for (include, exclude, count) in [
        ("\\n", "", 0),
        ("d*/**", "", 4),
        ("**", "a*", 7),
        ("x", "d?/", 1),
    ] {
        let mut request = json!({"pattern": "needle", "include_glob": [include]});
        if !exclude.is_empty() {
            request["exclude_glob"] = json!([exclude]);
        }
        let (_, response) = compare(&setup, &request);
        assert_eq!(response.unwrap().count, count, "{request}");
    }
    // Files with such names change or appear.
    tree.file(r"a\nb", "nothing at all\n");
    assert_eq!(found_with_index(&setup, &search()).len(), names.len() - 1);
    tree.file(r"d\n/y", "needle\n");
    assert_eq!(found_with_index(&setup, &search()).len(), names.len());
}

#[track_caller]
fn found_with_index_or_not(setup: &Setup, request: &Value) -> Vec<String> {
    paths(&compare(setup, request).1.unwrap())
}

#[test]
fn a_tree_of_nothing_but_names_with_line_breaks() {
    let tree = Tree::of([(r"a\n", "needle\n"), (r"b\r/c", "nothing\n")]);
    let setup = tree.setup().with_indexes(LIVE);
    let (built, _) = setup.build(&Host::patient());
    assert_eq!((built.meta.files, built.meta.side), (0, 2));
    for request in [search(), json!({"pattern": "needle", "path": "b\r"})] {
        let (tally, _) = compare(&setup, &request);
        assert_eq!((tally.used, tally.excluded), (1, 0));
    }
}

/// Twins have the same ordering key. If the filesystem keeps both, they are two files, and each is
/// found once.
#[test]
fn names_that_differ_in_composition_are_each_once_in_the_catalog() {
    let (composed, decomposed) = ("\u{E9}", "e\u{301}");
    let tree = Tree::new();
    // The ångström sign is a third spelling of its twin names.
    let names = ["\u{C5}", "A\u{30A}", "\u{212B}"];
    for (n, dir) in [composed, decomposed, "e", "f"]
        .into_iter()
        .chain(names)
        .enumerate()
    {
        for name in [composed, decomposed, "x"] {
            tree.file(&format!("{dir}/{name}"), format!("needle {n}\n"));
            tree.file(&format!("{dir}/deep/{name}"), "needle\n");
            tree.file(&format!("{dir}/{name}.other"), "nothing\n");
        }
    }
    let setup = tree.setup().with_indexes(LIVE);
    let (_, snapshot) = setup.build(&Host::patient());
    let (files, side) = catalog(&snapshot);
    let mut distinct = files.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((distinct.len(), files.len(), side.len()), (63, 63, 0));
    let found = found_with_index(&setup, &search());
    assert_eq!(found.len(), 42);
    // A request that names one twin gets the files in that one.
    for dir in [composed, decomposed, "e", "f"].into_iter().chain(names) {
        for (path, count) in [(dir.to_string(), 6), (format!("{dir}/deep"), 3)] {
            let request = json!({"pattern": "needle", "path": path});
            assert_eq!(
                found_with_index_or_not(&setup, &request).len(),
                count,
                "{path}"
            );
            let flat = json!({"pattern": "needle", "path": path, "recursive": false});
            assert_eq!(found_with_index_or_not(&setup, &flat).len(), 3, "{path}");
        }
        let request = json!({"pattern": "needle", "include_glob": [format!("/{dir}/*")]});
        assert_eq!(found_with_index(&setup, &request).len(), 6, "{dir}");
        let request = json!({"pattern": "needle", "exclude_glob": [format!("{dir}/")]});
        assert_eq!(found_with_index(&setup, &request).len(), 36, "{dir}");
    }
    for max in 1..=42 {
        let request = json!({"pattern": "needle", "max_results": max});
        assert_eq!(found_with_index_or_not(&setup, &request), found[..max]);
    }
    for max in 1..=63 {
        compare(&setup, &json!({"pattern": "absent", "max_files": max}));
    }
}

#[test]
fn exclusion_does_not_depend_on_composition() {
    let (composed, decomposed) = ("caf\u{E9} creme", "cafe\u{301} creme");
    let tree = Tree::of([
        ("composed", composed),
        ("decomposed", decomposed),
        ("plain", "cafe creme"),
        ("other", "something else"),
        ("upper", "CAFE\u{301} CR\u{C8}ME"),
    ]);
    let setup = tree.setup().with_indexes(LIVE);
    let (built, _) = setup.build(&Host::patient());
    assert_eq!(built.meta.files, 5);
    for (pattern, case, expected) in [
        (composed, "sensitive", &["composed"][..]),
        (decomposed, "sensitive", &["decomposed"]),
        ("cafe", "insensitive", &["decomposed", "plain", "upper"]),
        (" creme", "sensitive", &["composed", "decomposed", "plain"]),
        ("\u{301} creme", "sensitive", &["decomposed"]),
        ("\u{301} cr", "insensitive", &["decomposed", "upper"]),
        ("af\u{E9}", "insensitive", &["composed"]),
    ] {
        for fixed in [true, false] {
            let request = json!({"pattern": pattern, "case": case, "fixed_strings": fixed});
            let (_, response) = compare(&setup, &request);
            assert_eq!(paths(&response.unwrap()), expected, "{request}");
        }
    }
    assert_eq!(
        found_with_index(&setup, &json!({"pattern": composed})),
        ["composed"]
    );
}

#[test]
fn names_that_are_not_utf8_are_in_the_catalog() {
    let tree = Tree::of([
        (r"a\xFFb", "needle\n"),
        (r"a\xFEb", "needle\n"),
        ("a\u{FFFD}b", "needle\n"),
        (r"d\xFF/c", "needle\n"),
        (r"d\xFE/c", "nothing\n"),
        ("d\u{FFFD}/c", "nothing\n"),
        (r"\xC3", "nothing\n"),
        (r"\xA9", "needle\n"),
    ]);
    let setup = tree.setup().with_indexes(LIVE);
    let (built, _) = setup.build(&Host::patient());
    assert_eq!((built.meta.files, built.meta.side), (8, 0));
    let (tally, response) = compare(&setup, &search());
    assert_eq!(tally.excluded, 3);
    assert_eq!(
        events(&response.unwrap()),
        [
            "a\u{FFFD}b:1:1:needle|needle",
            "a\u{FFFD}b:1:1:needle|needle",
            "a\u{FFFD}b:1:1:needle|needle",
            "d\u{FFFD}/c:1:1:needle|needle",
            "\u{FFFD}:1:1:needle|needle",
        ]
    );
    for max in 1..=8 {
        compare(&setup, &json!({"pattern": "needle", "max_files": max}));
        compare(&setup, &json!({"pattern": "needle", "max_results": max}));
    }
}

#[test]
fn links_are_neither_in_the_catalog_nor_a_way_out() {
    let (tree, setup) = planted(|tree| {
        tree.file("outside/secret.txt", "needle\n")
            .link("w/top/file_link", "a.txt")
            .link("w/top/dir_link", "sub")
            .link("w/top/out_link", "{root}/outside")
            .link("w/top/out_file_link", "{root}/outside/secret.txt")
            .link("w/top/dangling", "nowhere")
            .link("w/top/loop", "loop")
            .link("w/top/sub/up", "..");
    });
    let setup = setup.with_indexes(LIVE);
    let (_, snapshot) = setup.build(&Host::patient());
    let (files, _) = catalog(&snapshot);
    assert_eq!(files.len(), 9, "{files:?}");
    assert_eq!(
        found_with_index(&setup, &search()),
        ["a.log", "a.txt", "sub/b.log"]
    );
    let mut follow = search();
    follow["follow"] = true.into();
    assert_eq!(found_without_index(&setup, &follow).len(), 5);
    for path in ["out_link", "out_file_link"] {
        let error = setup.refused(json!({"pattern": "needle", "path": path}));
        assert_eq!(error.code(), "path_outside_sandbox", "{path}");
    }
    // A file and a directory are replaced by links to similar ones.
    tree.file("outside/plain0.dat", "needle\n");
    let replaced = tree.path("w/top/sub/plain0.dat");
    fs::remove_file(&replaced).unwrap();
    symlink(tree.path("outside/plain0.dat"), &replaced).unwrap();
    assert_eq!(found_with_index(&setup, &search()).len(), 3);
    setup.build(&Host::patient());
    assert_eq!(found_with_index(&setup, &search()).len(), 3);
    fs::rename(tree.path("w/top/sub"), tree.path("outside/sub")).unwrap();
    symlink(tree.path("outside/sub"), tree.path("w/top/sub")).unwrap();
    assert_eq!(found_with_index_or_not(&setup, &search()).len(), 2);
}

#[test]
fn a_write_under_another_name_of_a_file_is_seen() {
    let (tree, setup) = planted(|tree| {
        tree.file("w/top/one/linked.txt", "nothing\n")
            .dir("w/top/two")
            .hard_link("w/top/two/linked.txt", "w/top/one/linked.txt")
            .hard_link("w/outside.txt", "w/top/one/linked.txt")
            .dir("w/top/three")
            .file("w/top/three/later.txt", "nothing\n");
    });
    let setup = setup.with_indexes(LIVE);
    setup.build(&Host::patient());
    let linked = ["one/linked.txt", "two/linked.txt"];
    let found = || {
        let mut found = found_with_index(&setup, &search());
        found.retain(|path| path.contains("linked") || path.contains("later"));
        found
    };
    assert_eq!(found(), [""; 0]);
    let content = ["needle!\n", "nothing\n"];
    // Write through each name in turn, inside and outside of the tree.
    for name in [
        "w/top/two/linked.txt",
        "w/outside.txt",
        "w/top/one/linked.txt",
    ] {
        write_unnoticeably(&tree.path(name), content[0]);
        assert_eq!(found(), linked, "written as {name}");
        for (path, expected) in [("one", linked[0]), ("two", linked[1])] {
            let request = json!({"pattern": "needle", "path": path});
            assert_eq!(found_with_index_or_not(&setup, &request), [expected]);
        }
        write_unnoticeably(&tree.path(name), content[1]);
        assert_eq!(found(), [""; 0], "written as {name}");
    }
    // This name is created after the build.
    tree.hard_link("w/later.txt", "w/top/three/later.txt");
    assert_eq!(found(), [""; 0]);
    write_unnoticeably(&tree.path("w/later.txt"), content[0]);
    assert_eq!(found(), ["three/later.txt"]);
}
