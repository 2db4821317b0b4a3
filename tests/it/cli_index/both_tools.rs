//! Both tools, `Search` and `search_files`, use one index (D116).

use serde_json::json;

use super::World;

/// Two contents of `.ignore`. The second one hides other files than the first.
const RULES: [&str; 2] = ["data/\n!built/\n!kept.log\n", "src/\n!*.log\n"];

/// Returns the paths that a tool finds, and whether an index excluded files.
fn found(world: &World, tool: &str, set: &[&str]) -> (Vec<String>, bool) {
    let request = match tool {
        "Search" => json!({"pattern": "needle"}),
        _ => json!({"path": ".", "query": "needle"}),
    };
    let request = request.to_string();
    let mut args = vec!["call", "--tool", tool, &request, "--set", "emit_stats=true"];
    args.extend(["--set", "tools.search_files.emit_stats=true"]);
    args.extend(set.iter().flat_map(|set| ["--set", set]));
    let response = world.run(&args).ok().json();
    let matches = response["matches"].as_array().unwrap().iter();
    let mut paths: Vec<String> = matches
        .map(|one| match tool {
            "Search" => &one["data"]["path"]["text"],
            _ => &one["path"],
        })
        .map(|path| path.as_str().unwrap().to_string())
        .collect();
    paths.sort();
    paths.dedup();
    let used = response["stats"]["index_exclusion_used"] == json!(true);
    (paths, used)
}

/// Returns a tree in which the two tools find different files.
fn world() -> World {
    let world = World::new();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    world.write(".gitignore", "built/\n*.log\n");
    world.write(".ignore", RULES[0]);
    for path in [
        "src/needle.rs",
        "data/table.csv",
        "data/deep/table.csv",
        "built/out.js",
        "kept.log",
        "src/deep/other.log",
    ] {
        world.write(path, "a needle\n");
    }
    world
}

#[test]
fn one_index_serves_both_tools() {
    let world = world();
    world.run(&["index", "build"]).ok();
    assert_eq!(world.kept().len(), 1);
    let listed = world.run(&["index", "list", "--json"]).ok().json();
    assert_eq!(listed["indexes"][0]["ignore_rules"], "all, git");
    let off = [
        "index_mode=\"off\"",
        "tools.search_files.index_mode=\"off\"",
    ];
    let check = |what: &str, search: &[&str], files: &[&str]| {
        for (tool, expected) in [("Search", search), ("search_files", files)] {
            let (paths, used) = found(&world, tool, &[]);
            assert!(used, "{what}: {tool}");
            assert_eq!(paths, expected, "{what}: {tool}");
            assert_eq!(found(&world, tool, &off), (paths, false), "{what}: {tool}");
        }
    };
    check(
        "as built",
        &["built/out.js", "kept.log", "src/needle.rs"],
        &["data/deep/table.csv", "data/table.csv", "src/needle.rs"],
    );
    world.write("data/new.csv", "a needle\n");
    world.write("built/new.js", "a needle\n");
    check(
        "with new files",
        &["built/new.js", "built/out.js", "kept.log", "src/needle.rs"],
        &[
            "data/deep/table.csv",
            "data/new.csv",
            "data/table.csv",
            "src/needle.rs",
        ],
    );
    world.write(".ignore", RULES[1]);
    check(
        "with another .ignore",
        &[
            "data/deep/table.csv",
            "data/new.csv",
            "data/table.csv",
            "kept.log",
        ],
        &[
            "data/deep/table.csv",
            "data/new.csv",
            "data/table.csv",
            "src/needle.rs",
        ],
    );
    assert_eq!(world.kept().len(), 1);
}

/// The user's global excludes are not rules of the repository, so only `Search` obeys them.
#[test]
fn global_excludes_count_for_one_tool_with_and_without_an_index() {
    let world = world();
    world.write(".config/git/ignore", "needle.rs\n");
    let config = format!(
        "core.excludesFile={:?}",
        world.tree.join(".config/git/ignore")
    );
    let setting = world.tree.join(".git/config");
    let (_, file) = config.split_once('=').unwrap();
    std::fs::write(setting, format!("[core]\n  excludesFile = {file}\n")).unwrap();
    let off = [
        "index_mode=\"off\"",
        "tools.search_files.index_mode=\"off\"",
    ];
    let answers = |set: &[&str]| ["Search", "search_files"].map(|tool| found(&world, tool, set));
    let [(search, _), (files, _)] = answers(&off);
    assert!(!search.contains(&"src/needle.rs".to_string()), "{search:?}");
    assert!(files.contains(&"src/needle.rs".to_string()), "{files:?}");
    world.run(&["index", "build"]).ok();
    assert_eq!(answers(&[]), [(search, true), (files, true)]);
}

#[test]
fn tools_that_are_configured_differently_have_an_index_each() {
    let world = world();
    let set = "tools.search_files.include_hidden=true";
    for (tool, request) in [
        ("Search", r#"{"pattern": "needle"}"#),
        ("search_files", r#"{"path": ".", "query": "needle"}"#),
    ] {
        let call = [
            "call",
            "--wait-index",
            "--set",
            set,
            "--tool",
            tool,
            request,
        ];
        world.run(&call).ok();
    }
    let listed = world.run(&["index", "list", "--json"]).ok().json();
    let listed = listed["indexes"].as_array().unwrap().iter();
    let mut rules: Vec<&str> = listed
        .map(|one| one["ignore_rules"].as_str().unwrap())
        .collect();
    rules.sort_unstable();
    assert_eq!(rules, ["all", "git"]);
}
