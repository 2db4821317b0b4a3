//! Index roots, and the requests that each of them serves.

use std::path::PathBuf;

use serde_json::json;

use super::{World, listing, needle};

use crate::system::symlink;

#[test]
fn index_roots_are_those_configured_or_the_working_directory() {
    let world = World::new();
    let top = world.tree.root().to_path_buf();
    assert_eq!(world.open().roots(), std::slice::from_ref(&top));
    // Relative roots start at the working directory. Links are resolved, duplicates dropped, and
    // the deepest root comes first.
    symlink("a", top.join("link")).unwrap();
    let world = world.config(|config| {
        config.index_roots = vec![
            PathBuf::from("link"),
            top.join("a/b"),
            PathBuf::from("a/b/../b"),
            PathBuf::from("."),
        ];
    });
    let opened = world.open();
    assert_eq!(opened.roots(), [top.join("a/b"), top.join("a"), top]);
    assert_eq!(opened.indexes().rejected(), [""; 0]);
}

#[test]
fn an_unusable_index_root_is_rejected_with_a_diagnostic() {
    let world = World::new().config(|config| {
        config.index_roots = ["a", "missing", "nine.txt", "b/.hidden", "/", ".."]
            .map(PathBuf::from)
            .to_vec();
    });
    let world = World {
        setup: world.setup.clone().sandbox(|sandbox| {
            sandbox.denied_patterns = vec!["**/.hidden/**".to_string()];
        }),
        ..world
    };
    let opened = world.built();
    assert_eq!(opened.roots(), [world.tree.path("a")]);
    let rejected = opened.indexes().rejected();
    for (path, why) in [
        ("missing", "No such file"),
        ("nine.txt", "not a directory"),
        (".hidden", "denied by the pattern **/.hidden/**"),
        ("/:", "outside the allowed roots"),
        ("..", "outside the allowed roots"),
    ] {
        let named = rejected
            .iter()
            .find(|message| message.contains(&format!("{path}:")) || message.contains(path));
        let message = named.unwrap_or_else(|| panic!("{path} is missing: {rejected:?}"));
        assert!(
            rejected.iter().any(|message| message.contains(why)),
            "{rejected:?}"
        );
        assert!(message.contains("index_roots"), "no remedy: {message}");
    }
    assert_eq!(rejected.len(), 5);
    // The valid root works all the same.
    world.check_used(&opened, &json!({"pattern": "needle", "path": "a"}));
}

#[test]
fn the_deepest_root_that_contains_the_path_is_used() {
    let world = World::new().config(|config| {
        config.index_roots = ["a/b", "a"].map(PathBuf::from).to_vec();
    });
    let opened = world.open();
    let (a, b) = (world.tree.path("a"), world.tree.path("a/b"));
    let request = |path: &str| json!({"pattern": "needle", "path": path});
    for (path, root) in [
        ("a", Some(&a)),
        ("a/b", Some(&b)),
        ("a/b/c", Some(&b)),
        ("b", None),
        (".", None),
    ] {
        let explanation = opened.explain(&request(path));
        assert_eq!(explanation.root.as_ref(), root, "{path}");
        let path = world.tree.path(path);
        assert_eq!(opened.indexes().root_for(&path), root.cloned());
    }
    // Only the deeper root is built, so only requests inside of it use an index.
    let host = super::Foreground::new(super::CancelHandle::new());
    let sandbox = &opened.context.sandbox;
    opened.indexes().build(&b, sandbox.reach(), &host).unwrap();
    world.check_used(&opened, &request("a/b"));
    world.check_used(&opened, &request("a/b/c"));
    let stats = world.check_unused(&opened, &request("a"));
    assert_eq!(stats.index_safety_state, "ABSENT");
    // A request that no root contains uses no index.
    for path in ["b", "."] {
        world.check_unused(&opened, &request(path));
        let reason = opened.explain(&request(path)).reason.unwrap();
        assert_eq!(reason, "no index root contains the path");
    }
}

#[test]
fn a_path_that_only_starts_with_the_name_of_a_root_is_not_inside_it() {
    let world = World::new().config(|config| {
        config.index_roots = vec![PathBuf::from("a")];
    });
    world.tree.file("ab/x.txt", "a needle\n");
    let opened = world.built();
    let request = json!({"pattern": "needle", "path": "ab"});
    assert_eq!(opened.explain(&request).root, None);
    world.check_unused(&opened, &request);
}

#[test]
fn the_path_of_a_request_filters_the_one_index() {
    let world = World::new();
    let opened = world.built();
    let kept = world.kept();
    let before = listing(&world.cache);
    assert_eq!(kept.len(), 1);
    let mut totals = Vec::new();
    for path in [".", "a", "a/b", "a/b/c"] {
        let request = json!({"pattern": "needle", "path": path});
        totals.push(world.check_used(&opened, &request).candidates_total);
    }
    assert_eq!(totals, [8, 6, 4, 2]);
    assert_eq!(world.kept(), kept, "no index was made for a path");
    assert_eq!(listing(&world.cache), before, "nor was one built again");
}

#[test]
fn a_subtree_is_served_by_the_index_of_the_whole_tree() {
    let world = World::new();
    // These names sort around the name of the directory.
    for name in ["a.txt", "a-b/x.txt", "a b/y.txt", "a/b.txt", "a/b-c/z.txt"] {
        world.tree.file(name, "hay, and a needle\n");
    }
    let opened = world.built();
    let before = listing(&world.cache);
    for path in ["a", "a/b", "a-b", "a b", "a/b-c"] {
        for recursive in [true, false] {
            let request = json!({"pattern": "needle", "path": path, "recursive": recursive});
            let stats = world.check(&opened, &request);
            assert!(stats.index_exclusion_used, "{request}");
        }
    }
    assert_eq!(listing(&world.cache), before, "nothing was built");
    // The index does not cover directories that the enumeration did not enter.
    let hidden = json!({"pattern": "needle", "path": "b/.hidden"});
    let stats = world.check_unused(&opened, &hidden);
    assert_eq!(stats.candidates_total, 1);
    let reason = opened.explain(&hidden).reason.unwrap();
    assert!(
        reason.contains("the index does not cover the directory"),
        "{reason}"
    );
}

#[test]
fn no_index_spans_roots() {
    let world = World::new().config(|config| {
        config.index_roots = ["a", "b"].map(PathBuf::from).to_vec();
    });
    let opened = world.built();
    assert_eq!(world.kept().len(), 2);
    // Both roots have files of the request, but neither contains all of it.
    let stats = world.check_unused(&opened, &needle());
    assert_eq!(stats.index_safety_state, "ABSENT");
    for path in ["..", "/", "../tree/a"] {
        let request = json!({"pattern": "needle", "path": path});
        let error = opened.tool.call(request, &opened.context).unwrap_err();
        assert_eq!(error.code(), "path_outside_sandbox", "{path}");
    }
}

#[test]
fn a_file_is_searched_without_asking_an_index() {
    let world = World::new();
    let opened = world.built();
    let request = json!({"pattern": "needle", "path": "a/one.txt"});
    world.check_unused(&opened, &request);
    let reason = opened.explain(&request).reason.unwrap();
    assert!(reason.contains("is a file"), "{reason}");
}
