//! Tests the globs of all tools: prefixes such as `./` or the root's path mean the same in each
//! tool. The expected files are those that git matches.

use std::collections::BTreeSet;
use std::sync::Arc;

use forge_search::internal::tool::config::Config;
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use forge_search::internal::tool::search_files::FilesTool;
use serde_json::{Value, json};

use crate::skipped::skipped;
use crate::support::{Tree, git};
use crate::system::shown_path;

/// The tools over one tree.
struct Tools {
    search: SearchTool,
    files: FilesTool,
    context: ToolContext,
}

/// The files of an answer, and its messages about globs.
type Answer = (BTreeSet<String>, String);

impl Tools {
    fn over(tree: &Tree) -> Tools {
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search_files.enabled = true;
        config.sandbox.allow_absolute = true;
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, tree.root()).unwrap());
        Tools {
            files: FilesTool::new(&config, Engines::embedded()),
            search: SearchTool::new(config.search, Engines::embedded()),
            context: ToolContext::new(sandbox),
        }
    }

    /// Asks each tool for the files that a glob includes, or does not exclude. `path` names a
    /// directory.
    fn ask(&self, path: &str, glob: &str, includes: bool) -> [Answer; 3] {
        let context = &self.context;
        let list = if includes {
            "include_glob"
        } else {
            "exclude_glob"
        };
        let request = json!({"pattern": "m", "path": path, list: [glob]});
        let found = self.search.call(request, context).unwrap();
        let paths = found.matches.iter().map(|one| one.data.path.text.clone());
        let search = (paths.collect(), found.content);

        let request = json!({"query": "m", "path": path, format!("{list}s"): [glob]});
        let found = self.files.call(request, context).unwrap();
        let paths = found.matches.iter().map(|one| match path {
            "." => one.path.clone(),
            path => format!("{path}/{}", one.path),
        });
        let said = found
            .errors
            .iter()
            .map(|error| format!("[{}]\n", error.error));
        let files = (paths.collect(), said.collect());

        let sign = if includes { "" } else { "!" };
        let request = json!({"path": path, "globs": [format!("{sign}{glob}")]});
        let found = self.search.call_find_files(request, context).unwrap();
        let paths = found.files.into_iter().map(|one| one.path);
        let find = (paths.collect(), found.notes.join("\n"));
        [search, files, find]
    }
}

/// Lists files with a git command.
fn listed(tree: &Tree, args: &[&str]) -> std::io::Result<BTreeSet<String>> {
    let names = String::from_utf8(git(tree.root(), args)?).unwrap();
    Ok(names.lines().map(str::to_string).collect())
}

fn tree() -> Tree {
    Tree::of([
        ("lib.rs", "m\n"),
        ("src/lib.rs", "m\n"),
        ("src/exec/a.rs", "m\n"),
        ("src/exec/b.c", "m\n"),
        ("src/exec/deep/c.rs", "m\n"),
        ("docs/[x]/d.md", "m\n"),
        ("docs/e.md", "m\n"),
    ])
}

#[test]
fn globs_of_every_tool_start_at_the_searched_path_however_they_are_written() {
    let tree = tree();
    if let Err(error) = listed(&tree, &["init", "-q"]) {
        return skipped(format!("git can't be run: {error}"));
    }
    let tools = Tools::over(&tree);
    let root = tree.root().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    // The path, the glob, and the equivalent glob from the root for git.
    for (path, glob, same) in [
        (".", "src/**", "src/**"),
        (".", "./src/**", "src/**"),
        (".", ".//src/exec/*.rs", "src/exec/*.rs"),
        (".", "././src/*.rs", "src/*.rs"),
        (".", "{root}/src/**", "src/**"),
        (".", "{root}/*.rs", "*.rs"),
        (".", "{root}", "**"),
        (".", "{root}/", "**"),
        (".", "./", "**"),
        ("src", "exec/**", "src/exec/**"),
        ("src", "./exec/*.rs", "src/exec/*.rs"),
        ("src", "/exec/*.rs", "src/exec/*.rs"),
        ("src", "{root}/src/exec/*.rs", "src/exec/*.rs"),
        ("src", "{root}/src", "src/**"),
        ("src", "src/exec/*.rs", "src/exec/*.rs"),
        ("src", "./src/exec/*.rs", "src/exec/*.rs"),
        ("src", "/src/exec/**", "src/exec/**"),
        ("src/exec", "src/exec/*.rs", "src/exec/*.rs"),
        ("src/exec", "{root}/src/exec/deep/*", "src/exec/deep/*"),
        ("docs/[x]", "{root}/docs/[x]/*.md", "docs/\\[x\\]/*.md"),
        // These globs match nothing.
        ("src", "{root}/docs/**", "src/docs/**"),
        ("src", "docs/**", "src/docs/**"),
        (".", "{root}s/*.rs", "none/*.rs"),
    ] {
        let glob = glob.replace("{root}", root);
        let below = match path {
            "." => String::new(),
            path => format!("{path}/"),
        };
        let matched = |spec: &str| listed(&tree, &["ls-files", "-o", "--", spec]).unwrap();
        let all = listed(&tree, &["ls-files", "-o"]).unwrap();
        let all: BTreeSet<String> = all
            .into_iter()
            .filter(|one| one.starts_with(&below))
            .collect();
        let names = |paths: BTreeSet<String>| -> BTreeSet<String> {
            paths
                .iter()
                .map(|path| path.trim_matches('"').to_string())
                .collect()
        };
        let included = names(matched(&format!(":(glob){same}")));
        let repeats = glob.trim_start_matches(['.', '/']).starts_with(&below) && path != ".";
        for includes in [true, false] {
            let expected: BTreeSet<String> = match includes {
                true => included.clone(),
                false => names(all.clone()).difference(&included).cloned().collect(),
            };
            for (tool, (found, said)) in ["Search", "search_files", "find_files"]
                .into_iter()
                .zip(tools.ask(path, &glob, includes))
            {
                let place = format!("{tool}: {path}, {glob}, {includes}: {said}");
                assert_eq!(found, expected, "{place}");
                // If a tool guesses the meaning of a glob, it says so.
                assert_eq!(said.contains("was taken as `"), repeats, "{place}");
            }
        }
    }
}

#[test]
fn a_glob_that_may_be_meant_literally_is_left_alone() {
    let tree = tree();
    tree.file("src/src/exec/f.rs", "m\n");
    let tools = Tools::over(&tree);
    for answer in tools.ask("src", "src/exec/*.rs", true) {
        assert_eq!(answer.0, BTreeSet::from(["src/src/exec/f.rs".to_string()]));
        assert!(!answer.1.contains("was taken as"), "{}", answer.1);
    }
    // The tools suggest another glob only if the glob matches nothing.
    for answer in tools.ask("src", "src/deep/*.c", true) {
        assert!(answer.0.is_empty());
        assert!(
            answer.1.contains("did you mean `/deep/*.c`?"),
            "{}",
            answer.1
        );
    }
}

#[test]
fn a_named_file_is_matched_by_its_name_wherever_a_glob_starts() {
    let tree = tree();
    let tools = Tools::over(&tree);
    let root = tree.root().canonicalize().unwrap();
    let whole = format!("{}/src/lib.rs", shown_path(&root));
    for glob in [
        "lib.rs",
        "/lib.rs",
        "./lib.rs",
        "src/lib.rs",
        "./src/lib.rs",
        &whole,
    ] {
        for path in ["src/lib.rs", &whole] {
            let request = json!({"pattern": "m", "path": path, "include_glob": [glob]});
            let found = tools.search.call(request, &tools.context).unwrap();
            assert_eq!(found.count, 1, "{path} {glob}: {}", found.content);
            let request = json!({"path": path, "globs": [glob]});
            let found = tools
                .search
                .call_find_files(request, &tools.context)
                .unwrap();
            assert_eq!(found.returned, 1, "{path} {glob}: {:?}", found.notes);
        }
    }
}

#[test]
fn exclamation_marks_stay_in_front_of_rewritten_globs() {
    let tree = tree();
    let tools = Tools::over(&tree);
    let root = tree.root().canonicalize().unwrap();
    for undone in [
        "!./src/exec/**".to_string(),
        format!("!{}/src/exec/**", shown_path(&root)),
    ] {
        let globs = json!(["./src/**", undone]);
        let found = |value: Value| -> BTreeSet<String> {
            let found = value["files"].as_array().unwrap().iter();
            found
                .map(|one| one["path"].as_str().unwrap().to_string())
                .collect()
        };
        let request = json!({"globs": globs});
        let find = tools
            .search
            .call_find_files(request, &tools.context)
            .unwrap();
        let find = found(serde_json::from_str(&find.to_json()).unwrap());
        assert_eq!(find, BTreeSet::from(["src/lib.rs".to_string()]), "{undone}");
        let request = json!({"pattern": "m", "include_glob": globs});
        let search = tools.search.call(request, &tools.context).unwrap();
        assert_eq!(search.matches[0].data.path.text, "src/lib.rs", "{undone}");
        assert_eq!(search.count, 1, "{undone}");
    }
}
