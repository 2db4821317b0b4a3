//! A command without a daemon compares each directory with the index before it hands out the files
//! in it. The answers stay the same, wherever something was edited and wherever a search ends.

use std::fs;
use std::path::Path;

use forge_search::internal::tool::request::SearchRequest;
use serde_json::{Value, json};

use crate::differential::Seeded;
use crate::index_support::{Host, LIVE, Tally, VARIANTS, compare};
use crate::support::{Setup, Tree, seeds};

/// Plants 700 files, so that a search has many units.
fn planted(rng: &mut Seeded) -> Tree {
    let tree = Tree::new();
    for n in 0..700 {
        let dir = match n % 7 {
            0 => format!("a{}", n % 5),
            1 => format!("b/c{}/d", n % 11),
            2 => format!("b/c{}", n % 11),
            3 => "e".to_string(),
            4 => format!("e/f/g{}", n % 3),
            5 => format!("h{}/i/j/k", n % 9),
            _ => format!("z{}", n % 4),
        };
        tree.file(&format!("{dir}/{n:03}"), text(rng));
    }
    for n in 0..5 {
        tree.dir(&format!("empty{n}/below"));
    }
    tree.dir("zzz/last/of/all");
    tree
}

fn text(rng: &mut Seeded) -> &'static str {
    match rng.below(9) {
        0 => "needle here\n",
        1 => "needle\nneedle\n",
        2 => "thread\n",
        _ => "nothing at all\n",
    }
}

/// Returns the directories of a tree, relative to its root.
fn dirs_of(root: &Path) -> Vec<String> {
    let mut todo = vec![root.to_path_buf()];
    let mut all = Vec::new();
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let name = path.strip_prefix(root).unwrap();
                all.push(name.to_str().unwrap().to_string());
                todo.push(path);
            }
        }
    }
    all.sort();
    all
}

/// Edits a directory or its content; returns a description of the edit.
fn edit(tree: &Tree, rng: &mut Seeded) -> String {
    let dir = rng.pick(&dirs_of(tree.root()));
    let at = tree.path(&dir);
    let entries = || {
        let files = fs::read_dir(&at)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
        files.sort();
        files
    };
    let files = entries();
    let name = rng.pick(&["000", "350", "999", "-", "n e w", "d"]);
    let free = !at.join(name).exists();
    match rng.below(11) {
        0 if free => {
            tree.file(&format!("{dir}/{name}"), text(rng));
            format!("new file {name} in {dir}")
        }
        1 if !files.is_empty() => {
            let file = rng.pick(&files);
            fs::remove_file(&file).unwrap();
            format!("no file {file:?}")
        }
        2 if !files.is_empty() && free => {
            let file = rng.pick(&files);
            fs::rename(&file, at.join(name)).unwrap();
            format!("{file:?} is {name}")
        }
        3 if free => {
            tree.file(&format!("{dir}/{name}/x/y"), text(rng));
            format!("new directory {name} in {dir}")
        }
        4 if rng.one_in(2) => {
            fs::remove_dir_all(&at).unwrap();
            format!("no directory {dir}")
        }
        5 => {
            files.iter().for_each(|file| fs::remove_file(file).unwrap());
            format!("{dir} is emptied")
        }
        6 => {
            tree.file(&format!("{dir}/.ignore"), "*5\n");
            format!("rules in {dir}")
        }
        7 if !files.is_empty() => {
            let file = rng.pick(&files);
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            fs::write(file.join("x"), text(rng)).unwrap();
            format!("{file:?} is a directory")
        }
        8 if !files.is_empty() => {
            let file = rng.pick(&files);
            fs::write(&file, "the needle is new here\n").unwrap();
            format!("{file:?} is written")
        }
        9 if !files.is_empty() => {
            let file = rng.pick(&files);
            fs::write(at.join("saved"), text(rng)).unwrap();
            fs::rename(at.join("saved"), &file).unwrap();
            format!("{file:?} is saved")
        }
        10 => {
            let to = format!("m{}", rng.below(100));
            if tree.path(&to).exists() {
                return String::new();
            }
            fs::rename(&at, tree.path(&to)).unwrap();
            format!("{dir} is {to}")
        }
        _ => String::new(),
    }
}

#[test]
fn searches_that_compare_along_the_way_find_what_a_walk_finds_after_any_edits() {
    let mut tally = Tally::default();
    for round in 0..seeds(8) {
        let mut rng = Seeded::new(round + 7_000);
        let tree = planted(&mut rng);
        let variant = rng.pick(&VARIANTS);
        let variant = if variant.frozen { LIVE } else { variant };
        let setup = tree.setup().with_indexes(variant);
        setup.build(&Host::patient());
        let mut edits = Vec::new();
        for step in 0..10 {
            if step > 0 {
                edits.push(edit(&tree, &mut rng));
            }
            let dir = rng.pick(&dirs_of(tree.root()));
            for request in [
                json!({"pattern": "needle"}),
                json!({"pattern": "absent"}),
                json!({"pattern": "needle", "max_results": 1 + rng.below(8)}),
                json!({"pattern": "needle", "max_results": 1 + rng.below(200)}),
                json!({"pattern": "needle", "max_files": 1 + rng.below(700)}),
                json!({"pattern": "needle", "include_glob": ["*5"]}),
                json!({"pattern": "needle", "path": dir}),
                json!({"pattern": "needle", "path": dir, "recursive": false}),
                json!({"pattern": "needlf", "fuzzy": 1, "max_results": 1 + rng.below(50)}),
            ] {
                println!("{round}: {request} after {edits:?}");
                tally.add(compare(&setup, &request).0);
            }
        }
    }
    tally.check(2);
}

/// More directories than a search ever reconciles.
const MANY: usize = 1_200;

/// Builds a tree in which all directories after the first 400 change after the build.
fn mostly_changed() -> (Tree, Setup) {
    let tree = Tree::new();
    for n in 0..MANY {
        let text = if n % 10 == 0 { "needle\n" } else { "straw\n" };
        tree.file(&format!("s/d{n:04}/x"), text);
    }
    let setup = tree.setup().with_indexes(LIVE);
    setup.build(&Host::patient());
    for n in 400..MANY {
        tree.file(&format!("s/d{n:04}/new"), "needle\n");
    }
    (tree, setup)
}

fn stats(setup: &Setup, request: &Value) -> Value {
    let answer = setup.call(request.clone()).unwrap();
    let stats = serde_json::to_value(answer.stats.unwrap()).unwrap();
    let fields = [
        "index_safety_state",
        "index_uncertain_reason",
        "index_exclusion_used",
        "candidates_excluded",
    ];
    fields.into_iter().map(|name| stats[name].clone()).collect()
}

#[test]
fn where_too_much_differs_the_rest_is_searched_by_a_walk() {
    let (_tree, setup) = mostly_changed();
    let unused = json!(["UNCERTAIN", "OPEN_REQUIRES_VALIDATION", false, 0]);
    let used = json!(["COMPLETE", null, true, 9]);
    let all = json!({"pattern": "needle"});
    let cut = json!({"pattern": "needle", "max_results": 500});
    let few = json!({"pattern": "needle", "max_results": 1});
    for request in [&all, &cut, &few] {
        compare(&setup, request);
    }
    assert_eq!(stats(&setup, &all), unused);
    assert_eq!(stats(&setup, &cut), unused);
    // This search ends before the first directory that changed.
    assert_eq!(stats(&setup, &few), used);
    // `explain` is about the whole tree.
    let explained = setup
        .tool()
        .explain(&SearchRequest::from_value(all).unwrap(), &setup.context());
    let explained = explained.unwrap();
    assert_eq!(explained.candidates, None);
    assert!(explained.reason.unwrap().contains("s/d0400"));
}

/// Changes in other directories do not matter to a search of one directory.
#[test]
fn each_searched_directory_is_compared_for_itself() {
    let (_tree, setup) = mostly_changed();
    for path in ["s/d0000", "s/d0390", "s/d0400", "s/d1199"] {
        let request = json!({"pattern": "needle", "path": path});
        let (tally, _) = compare(&setup, &request);
        assert_eq!(tally.used, 1, "{path}");
    }
}

/// In a large tree, a search for a frequent text fills its limit from a few hundred files, before
/// the index could be asked about all files.
#[test]
fn a_search_that_is_soon_full_does_not_ask_a_large_index() {
    let tree = Tree::new();
    for n in 0..8_400 {
        let text = match n {
            _ if n % 2_000 == 7 => "needle pin\n",
            _ if n % 2 == 1 => "needle\n",
            _ => "straw\n",
        };
        tree.file(&format!("d{:02}/{n}", n / 100), text);
    }
    let setup = tree.setup().with_indexes(LIVE);
    setup.build(&Host::patient());
    for (request, is_used) in [
        (json!({"pattern": "needle", "max_results": 5}), false),
        (json!({"pattern": "needle", "max_results": 4_000}), true),
        (json!({"pattern": "pin", "max_results": 5}), true),
        (json!({"pattern": "absent", "max_results": 5}), true),
    ] {
        let (tally, _) = compare(&setup, &request);
        assert_eq!(tally.used, u64::from(is_used), "{request}");
        assert_eq!(stats(&setup, &request)[2], json!(is_used), "{request}");
    }
    let few = SearchRequest::from_value(json!({"pattern": "needle", "max_results": 5})).unwrap();
    let explained = setup.tool().explain(&few, &setup.context()).unwrap();
    let reason = explained.reason.unwrap();
    assert!(reason.contains("stops after few results"), "{reason}");
}
