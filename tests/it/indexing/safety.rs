//! The conditions for relying on an index, and the data that an index is kept away from.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use forge_search::internal::tool::config::{Config, IndexMode};
use forge_search::internal::tool::search::ReadEvidence;
use serde_json::json;

use super::{Opened, World, needle};
use crate::project_files::{code_only, rust_files};

const UNLOOKED: Option<&str> = Some("OPEN_REQUIRES_VALIDATION");

#[test]
fn each_condition_for_exclusion_is_needed() {
    let world = World::new();
    let opened = world.built();
    // All conditions hold.
    world.check_used(&opened, &needle());
    // Condition: there is an index.
    let kept = world.cache.join(&world.kept()[0]);
    let aside = kept.with_file_name("aside");
    fs::rename(&kept, &aside).unwrap();
    world.check_unused(&opened, &needle());
    fs::rename(&aside, &kept).unwrap();
    world.check_used(&opened, &needle());
    // Condition: its key matches the request and the configuration.
    world.check_unused(&opened, &json!({"pattern": "needle", "hidden": true}));
    let mut other = world.setup.clone();
    other.config.index_max_tokenized_bytes += 1;
    let (tool, context) = other.indexing_tool();
    world.check_unused(&Opened { tool, context }, &needle());
    // Condition: the pattern allows excluding files.
    world.check_unused(&opened, &json!({"pattern": "n"}));
    world.check_unused(&opened, &json!({"pattern": "needle|n"}));
    // Condition: the tree is unchanged, or the differences were listed again.
    world.tree.file("a/b/new.txt", "straw\n");
    world.check_used(&opened, &needle());
}

#[test]
fn no_file_is_excluded_in_any_state_but_complete() {
    #[track_caller]
    fn check(world: &World, opened: &Opened, state: &str, reason: Option<&str>) {
        let stats = world.check_unused(opened, &needle());
        assert_eq!(stats.index_safety_state, state);
        assert_eq!(stats.index_uncertain_reason.as_deref(), reason);
        // The state stays until the cause is removed.
        let stats = world.check_unused(opened, &needle());
        assert_eq!(stats.index_safety_state, state);
    }
    let world = World::new();
    world.tree.file("a/.ignore", "one.txt\n");
    check(&world, &world.open(), "ABSENT", None);
    let opened = world.built();
    world.check_used(&opened, &needle());
    // Until the index is built again, each search lists the changed directories again.
    world.tree.dir("a/new");
    world.check_used(&opened, &needle());
    assert_eq!(opened.ensure(), [true]);
    world.tree.file("a/.ignore", "two.txt\n");
    world.check_used(&opened, &needle());
    assert_eq!(opened.ensure(), [true]);
    let mut stricter = world.setup.clone();
    stricter.sandbox.denied_patterns = vec!["**/one.txt".to_string()];
    let elsewhere = Opened {
        tool: world
            .setup
            .tool()
            .with_indexes(Some(opened.indexes().clone())),
        context: stricter.context(),
    };
    let stats = elsewhere.search(&needle()).stats.unwrap();
    assert!(!stats.index_exclusion_used);
    assert_eq!(stats.index_safety_state, "UNCERTAIN");
    assert_eq!(
        stats.index_uncertain_reason.as_deref(),
        Some("POLICY_CHANGED")
    );
    world.check_used(&opened, &needle());
    let manifest = world.cache.join(&world.kept()[0]).join("manifest");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[1..]).unwrap();
    check(&world, &world.open(), "CORRUPT", None);
    let mut nowhere = world.setup.clone();
    nowhere.config.index_path = None;
    let (tool, context) = nowhere.indexing_tool();
    let reason = Some("PERSISTENCE_NOT_PERMITTED");
    check(&world, &Opened { tool, context }, "DISABLED", reason);
    let world = world.config(|config| config.index_mode = IndexMode::Off);
    check(&world, &world.open(), "DISABLED", None);
}

#[test]
fn an_opened_index_is_uncertain_until_it_was_compared_with_the_tree() {
    let world = World::new();
    world.check_used(&world.built(), &needle());
    // A request that can't use the index does not compare it with the tree.
    let unlooked = json!({"pattern": "n"});
    let opened = world.open();
    let stats = world.check_unused(&opened, &unlooked);
    assert_eq!(stats.index_safety_state, "UNCERTAIN");
    assert_eq!(stats.index_uncertain_reason.as_deref(), UNLOOKED);
    world.check_used(&opened, &needle());
    // In any state, changes since the last use are found. The first process has the index open, the
    // second one opens it.
    world.tree.file("a/new.txt", "a new needle\n");
    for opened in [&opened, &world.open()] {
        world.check_used(opened, &needle());
        assert_eq!(opened.search(&needle()).count, 4);
    }
    fs::remove_file(world.tree.path("a/new.txt")).unwrap();
    opened.build();
    // A file that was edited in place is found among the files that could be excluded.
    world.tree.file("b/seven.txt", "a needle in a barn\n");
    let opened = world.open();
    let stats = world.check_used(&opened, &needle());
    assert_eq!(opened.search(&needle()).count, 4);
    assert_eq!(stats.candidates_excluded, 4);
}

#[test]
fn the_reported_state_is_that_of_the_key_as_the_call_knows_it() {
    let world = World::new();
    let opened = world.built();
    let state = |opened: &Opened, pattern: &str| {
        let stats = world.check(opened, &json!({"pattern": pattern}));
        (stats.index_safety_state, stats.index_uncertain_reason)
    };
    let uncertain = |reason: &str| ("UNCERTAIN".to_string(), Some(reason.to_string()));
    let complete = ("COMPLETE".to_string(), None);
    // The state depends on the comparison with the tree, not on earlier searches.
    for _ in 0..2 {
        assert_eq!(state(&opened, "needle"), complete);
        for pattern in ["n", "n|needle"] {
            assert_eq!(state(&opened, pattern), uncertain(UNLOOKED.unwrap()));
            let reason = opened.explain(&json!({"pattern": pattern})).reason.unwrap();
            assert!(
                reason.contains("was not compared with the tree"),
                "{reason}"
            );
            assert!(
                reason.contains("no need to build the index again"),
                "{reason}"
            );
        }
    }
    // A frozen index needs no comparison.
    let mut frozen = world.setup.clone();
    frozen.config.index_frozen = true;
    let (tool, context) = frozen.indexing_tool();
    let frozen = Opened { tool, context };
    for pattern in ["needle", "n", "n|needle"] {
        assert_eq!(state(&frozen, pattern), complete, "{pattern}");
    }
    let file = json!({"pattern": "needle", "path": "b/seven.txt"});
    let stats = world.check_unused(&frozen, &file);
    assert_eq!(stats.index_safety_state, "COMPLETE");
    assert!(!stats.index_exclusion_used);
}

#[test]
fn changed_ignore_files_are_reconciled_before_any_file_is_excluded() {
    for (name, rule) in [
        (".gitignore", "/a/two.txt\n"),
        ("a/b/.gitignore", "*.rs\n"),
        (".ignore", "nine.txt\n"),
        ("b/.rgignore", "/seven.txt\n"),
        (".git/info/exclude", "*.txt\n"),
    ] {
        let world = World::new();
        world.tree.dir(".git/info");
        let opened = world.built();
        let check_stale = |what: &str| {
            // A process that has the index open searches twice, and a new process opens it.
            for opened in [&opened, &opened, &world.open()] {
                // The search handles the change itself. The stored index stays uncertain.
                let stats = world.check(opened, &needle());
                assert_eq!(stats.index_safety_state, "COMPLETE", "{name} {what}");
                let index_state = opened.condition(world.tree.root()).index_state();
                let reason = index_state.reason();
                // A new or removed ignore file may show only as a change of its directory.
                assert!(
                    reason == Some("ELIGIBILITY_CHANGED")
                        || reason == UNLOOKED && what != "changes",
                    "{name} {what}: {reason:?}"
                );
            }
            opened.build();
        };
        world.check(&opened, &needle());
        world.tree.file(name, rule);
        check_stale("appears");
        world.check(&opened, &needle());
        world.tree.file(name, format!("{rule}# more\n"));
        check_stale("changes");
        fs::remove_file(world.tree.path(name)).unwrap();
        check_stale("goes");
        world.check_used(&opened, &needle());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn denied_files_are_never_opened_for_an_index() {
    use std::mem::MaybeUninit;

    use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

    let mut world = World::new();
    let denied = ["a/secret.txt", "a/server.pem", ".ssh/config", "a/b/id_rsa"];
    for path in denied {
        world.tree.file(path, "a needle\n");
    }
    world.setup.sandbox.denied_patterns = vec!["**/secret.*".to_string()];
    world.setup.config.index_default_hidden = true;
    let queue = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let watch = |path: &str| {
        let flags = WatchFlags::OPEN | WatchFlags::ACCESS;
        add_watch(&queue, world.tree.path(path), flags).unwrap()
    };
    let watched: Vec<i32> = denied.into_iter().map(watch).collect();
    let open = watch("a/one.txt");
    let opened = world.built();
    let request = json!({"pattern": "needle", "hidden": true});
    world.check_used(&opened, &request);
    assert_eq!(opened.search(&request).count, 4);
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(&queue, &mut buffer);
    let mut seen = Vec::new();
    while let Ok(event) = events.next() {
        seen.push(event.wd());
    }
    // The watches report the files that were read.
    assert!(seen.contains(&open), "{seen:?}");
    assert!(!seen.iter().any(|wd| watched.contains(wd)), "{seen:?}");
}

#[test]
fn stats_are_given_on_request_and_change_nothing() {
    for defaults in [Config::library_default(), Config::command_line_default()] {
        assert!(!defaults.search.emit_stats);
    }
    let world = World::new();
    world.tree.file("a/.ignore", "nothing\n");
    let mut silent = world.setup.clone();
    silent.config.emit_stats = false;
    let (tool, context) = silent.indexing_tool();
    let silent = Opened { tool, context };
    let opened = world.open();
    let mut seen = Vec::new();
    let mut look = || {
        // In every state, a response is truncated in the same way. Without `stats`, it is the same
        // altogether.
        let mut states = BTreeSet::new();
        for max in 1..5 {
            let request = json!({"pattern": "needle", "max_results": max});
            let mut response = opened.search(&request);
            let stats = response.stats.take().unwrap();
            assert_eq!(response.truncated, max < 3);
            assert_eq!(response.count, max.min(3));
            assert_eq!(response, world.plain(&request));
            let answer = silent.search(&request);
            assert_eq!(answer, response);
            assert!(!answer.to_json().contains("stats"));
            let reason = stats.index_uncertain_reason.unwrap_or_default();
            states.insert(format!("{} {reason}", stats.index_safety_state));
        }
        assert_eq!(states.len(), 1, "{states:?}");
        seen.extend(states);
    };
    look();
    opened.build();
    look();
    world.tree.file("new/new.txt", "straw\n");
    look();
    world.tree.file("a/.ignore", "nothing.txt\n");
    look();
    opened.build();
    look();
    let kept = world.cache.join(&world.kept()[0]).join("manifest");
    fs::remove_file(&kept).unwrap();
    fs::write(&kept, "damaged").unwrap();
    look();
    opened.build();
    look();
    assert_eq!(
        seen,
        [
            "ABSENT ",
            "COMPLETE ",
            "COMPLETE ",
            "COMPLETE ",
            "COMPLETE ",
            "CORRUPT ",
            "COMPLETE ",
        ]
    );
}

#[test]
fn an_index_entry_is_no_evidence_that_the_file_was_read() {
    /// Compiles only as long as `ReadEvidence` has no values.
    fn impossible(evidence: ReadEvidence) -> PathBuf {
        match evidence {}
    }
    let world = World::new();
    // The build reads each file. Searches check the fingerprints of all files and read some of
    // them.
    let opened = world.built();
    world.check_used(&opened, &needle());
    let response = opened.search(&needle());
    assert!(response.count > 0);
    let evidence = opened.tool.read_evidence(&response);
    assert_eq!(evidence.map(impossible), None);
    // Only the tools know `ReadEvidence`. Fingerprints, catalogs and other stored data do not.
    let aware: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| file.path.starts_with("src/") && !file.path.ends_with("tests.rs"))
        .filter(|file| code_only(&file.text).contains("ReadEvidence"))
        .map(|file| file.path)
        .collect();
    assert_eq!(aware, ["src/tool/search.rs", "src/tool/search_files.rs"]);
}
