//! Tests rules of the architecture that the compiler does not check.
//!
//! Each rule is a function of one file's path and text. The tests can therefore show that the rule
//! fails when a file violates it.

use crate::project_files::{
    check, code_only, dense, enforce, is_ident, lines_with_word, project_files, root, rust_files,
};

/// The layers, from the bottom. A layer may use itself and the layers before it.
const LAYERS: [&str; 4] = ["format", "index", "exec", "tool"];

/// The largest number of lines of a file in `src`. Longer files must be split by concern.
const MAX_LINES: usize = 600;

/// The largest number of lines of any other file.
const MAX_LINES_ELSEWHERE: usize = 900;

/// The files of `src` that may have up to [`MAX_LINES_ELSEWHERE`] lines.
const LONG_FILES: [&str; 1] = ["src/exec/rank/terms.rs"];

/// The only file that may contain unsafe code.
const UNSAFE_FILE: &str = "src/format/mmap.rs";

/// The only file that may start processes. Modules below it may do so as well.
const PROCESS_FILE: &str = "src/exec/process.rs";

/// Finds uses of upper layers. Comments count too: a lower layer that refers to an upper one in its
/// documentation depends on it.
fn upward_uses(path: &str, text: &str) -> Vec<String> {
    let Some(layer) = LAYERS.iter().position(|layer| {
        path.strip_prefix("src/")
            .and_then(|rest| rest.strip_prefix(layer))
            .is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    }) else {
        return Vec::new();
    };
    let dense = dense(text);
    let mut violations = Vec::new();
    for root in ["crate::", "forge_search::internal::", "super::"] {
        for (at, _) in dense.match_indices(root) {
            for name in names_after(&dense[at + root.len()..]) {
                if LAYERS[layer + 1..].contains(&name) {
                    violations.push(format!("`{}` must not use `{root}{name}`", LAYERS[layer]));
                }
            }
        }
    }
    violations
}

/// Returns the first name of the path at the start of `text`, or of each path in a braced group
/// there.
fn names_after(text: &str) -> Vec<&str> {
    let ident = |at: usize| {
        let rest = &text[at..];
        &rest[..rest.find(|c| !is_ident(c)).unwrap_or(rest.len())]
    };
    if !text.starts_with('{') {
        return vec![ident(0)];
    }
    let mut names = Vec::new();
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(c, '{' | ',') {
            names.push(ident(at + 1));
        }
    }
    names
}

#[test]
fn layers_use_only_what_is_below_them() {
    enforce(upward_uses, rust_files());
}

#[test]
fn an_upward_use_is_noticed() {
    check(
        upward_uses,
        "src/format/wire.rs",
        "use crate::index::Catalog;",
        1,
    );
    check(
        upward_uses,
        "src/format/wire.rs",
        "use crate::{\n  format::wire,\n  exec::plan,\n};",
        1,
    );
    check(
        upward_uses,
        "src/format.rs",
        "/// As [`crate::tool::Request`] says.",
        1,
    );
    check(
        upward_uses,
        "src/index/catalog.rs",
        "fn f(x: crate :: exec :: Plan) {}",
        1,
    );
    check(
        upward_uses,
        "src/index/a/b.rs",
        "use super::super::super::{tool, exec::Plan};",
        2,
    );
    check(
        upward_uses,
        "src/exec/plan.rs",
        "let x = forge_search::internal::tool::Request::new();",
        1,
    );
    check(
        upward_uses,
        "src/exec/plan.rs",
        "use crate::{index::{tool, a}, format::exec};",
        0,
    );
    check(
        upward_uses,
        "src/exec/plan.rs",
        "use crate::index::Catalog; use crate::executor::X;",
        0,
    );
    check(
        upward_uses,
        "src/tool/cli.rs",
        "use crate::{exec, index, format};",
        0,
    );
    check(
        upward_uses,
        "src/lib.rs",
        "pub use crate::tool::Request;",
        0,
    );
}

/// The files of the top layer that may use `index`, together with the modules below them.
///
/// They set up, manage or explain indexes, or read files for other purposes than a search. All
/// other files use `exec`.
const ADMINISTRATION: [&str; 17] = [
    "src/tool/cli/commands/tui/answer_files.rs",
    "src/tool/cli/answers/building.rs",
    "src/tool/cli/commands/daemon/serve.rs",
    "src/tool/cli/commands/doctor.rs",
    "src/tool/cli/commands/explain.rs",
    "src/tool/cli/commands/index.rs",
    "src/tool/cli/output/progress.rs",
    "src/tool/cli/setup.rs",
    "src/tool/config/value.rs",
    "src/tool/daemon/git.rs",
    "src/tool/daemon/identity.rs",
    "src/tool/daemon/inspect.rs",
    "src/tool/daemon/server/dispatch.rs",
    "src/tool/daemon/service.rs",
    "src/tool/executor.rs",
    "src/tool/indexing.rs",
    "src/tool/sandbox.rs",
];

fn searches_past_exec(path: &str, text: &str) -> Vec<String> {
    let is_search = path.starts_with("src/tool/")
        && !ADMINISTRATION
            .iter()
            .filter_map(|allowed| path.strip_prefix(allowed.trim_end_matches(".rs")))
            .any(|rest| rest == ".rs" || rest.starts_with('/'));
    let dense = dense(text);
    let mut roots = dense
        .match_indices("crate::")
        .map(|(at, root)| &dense[at + root.len()..]);
    if is_search && roots.any(|rest| names_after(rest).contains(&"index")) {
        return vec!["a search uses indexes through `exec`, not `index`".to_string()];
    }
    Vec::new()
}

#[test]
fn a_search_goes_through_exec_to_the_index() {
    enforce(searches_past_exec, rust_files());
}

#[test]
fn a_search_that_goes_past_exec_is_noticed() {
    let uses = "use crate::index::plan::SupersetSafe;";
    check(searches_past_exec, "src/tool/answering.rs", uses, 1);
    check(searches_past_exec, "src/tool/mcp/tools.rs", uses, 1);
    check(searches_past_exec, "src/tool/sandboxed.rs", uses, 1);
    for uses in [
        "use crate::{exec::stop::Stop, index::walk::Walk};",
        "use crate::index;",
        "crate::index::walk::join(a, b);",
    ] {
        check(searches_past_exec, "src/tool/answering.rs", uses, 1);
    }
    check(searches_past_exec, "src/tool/indexing/places.rs", uses, 0);
    check(searches_past_exec, "src/exec/indexes/decision.rs", uses, 0);
    let asks = "use crate::exec::indexes::Indexes;";
    check(searches_past_exec, "src/tool/answering.rs", asks, 0);
}

fn unsafe_code(path: &str, text: &str) -> Vec<String> {
    if path == UNSAFE_FILE {
        return Vec::new();
    }
    let lines = lines_with_word(&code_only(text), "unsafe");
    lines
        .iter()
        .map(|line| format!("line {line}: `unsafe` belongs in {UNSAFE_FILE}"))
        .collect()
}

#[test]
fn unsafe_stays_in_one_file() {
    enforce(unsafe_code, rust_files());
}

#[test]
fn unsafe_elsewhere_is_noticed() {
    check(
        unsafe_code,
        "src/format/wire.rs",
        "let x = unsafe { y() };",
        1,
    );
    check(
        unsafe_code,
        "tests/it/x.rs",
        "unsafe impl Send for X {}\nunsafe fn f() {}",
        2,
    );
    check(
        unsafe_code,
        "src/lib.rs",
        "#![deny(unsafe_code)] // unsafe\nlet x = \"unsafe\";",
        0,
    );
    check(unsafe_code, UNSAFE_FILE, "unsafe { map() }", 0);
}

/// Finds conditions on the operating system in `format`, outside of the module for its differences.
/// The order of paths depends on the bytes of names, which each system stores in its own way.
fn system_conditions(path: &str, text: &str) -> Vec<String> {
    let allowed = ["src/format/sys.rs", "src/format/sort_key.rs"];
    if !path.starts_with("src/format/") || allowed.contains(&path) || path.ends_with("tests.rs") {
        return Vec::new();
    }
    let code = code_only(text);
    let tests = ["#[cfg(test)]", "#[cfg(all(test"];
    let ends = tests.iter().filter_map(|start| code.find(start));
    let code = dense(&code[..ends.min().unwrap_or(code.len())]);
    let conditions = [
        "cfg(unix)",
        "cfg(windows)",
        "cfg(not(",
        "cfg!(",
        "target_os",
    ];
    let found = conditions.iter().filter(|one| code.contains(**one));
    found
        .map(|one| format!("`{one}` belongs in src/format/sys.rs"))
        .collect()
}

#[test]
fn differences_between_systems_are_in_one_module_of_format() {
    enforce(system_conditions, rust_files());
}

#[test]
fn a_condition_on_the_system_elsewhere_is_noticed() {
    let file = "src/format/lock.rs";
    check(system_conditions, file, "#[cfg(unix)]\nfn f() {}", 1);
    check(system_conditions, file, "if cfg!(windows) { f() }", 1);
    check(
        system_conditions,
        file,
        "#[cfg(target_os = \"linux\")] use x;",
        1,
    );
    check(
        system_conditions,
        file,
        "#[cfg(test)]\nmod tests { #[cfg(unix)] fn f() {} }",
        0,
    );
    check(system_conditions, "src/format/sys.rs", "#[cfg(unix)]", 0);
}

fn long_file(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let most = match path.starts_with("src/") && !LONG_FILES.contains(&path) {
        true => MAX_LINES,
        false => MAX_LINES_ELSEWHERE,
    };
    if lines <= most {
        return Vec::new();
    }
    vec![format!(
        "{lines} lines are more than {most}: split the file by concern"
    )]
}

#[test]
fn source_files_stay_short() {
    enforce(long_file, rust_files());
}

#[test]
fn a_long_file_is_noticed() {
    for (path, most) in [
        ("src/lib.rs", MAX_LINES),
        ("tests/it/x.rs", MAX_LINES_ELSEWHERE),
        (LONG_FILES[0], MAX_LINES_ELSEWHERE),
    ] {
        check(long_file, path, &"\n".repeat(most), 0);
        check(long_file, path, &"\n".repeat(most + 1), 1);
    }
}

/// Finds modules that a reader does not find where they are expected. A module is named by its file
/// (`x.rs`, not `x/mod.rs`). A file first declares its modules, and its tests at the end.
fn misplaced_modules(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if path.ends_with("/mod.rs") {
        found.push("a module is named by its file: move `x/mod.rs` to `x.rs`".to_string());
    }
    let mut has_item = false;
    let mut has_tests = false;
    for line in code_only(text).lines() {
        let is_item = line.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_item {
            continue;
        }
        if has_tests {
            found.push(format!("`mod tests` is not the last item: `{line}`"));
        }
        let is_module =
            line.starts_with("mod ") || line.starts_with("pub") && line.contains(" mod ");
        if is_module && line.ends_with("mod tests;") {
            has_tests = true;
        } else if is_module && line.ends_with(';') && has_item {
            found.push(format!("declare the module before other items: `{line}`"));
        }
        has_item |= !is_module;
    }
    found
}

#[test]
fn modules_are_declared_where_they_are_expected() {
    enforce(misplaced_modules, rust_files());
}

#[test]
fn a_misplaced_module_is_noticed() {
    check(misplaced_modules, "src/a/mod.rs", "mod b;\nuse c;", 1);
    check(misplaced_modules, "tests/it/a/mod.rs", "", 1);
    for (text, count) in [
        (
            "//! A.\n\nmod b;\npub mod c;\n\nuse b::B;\n\n#[cfg(test)]\nmod tests;",
            0,
        ),
        ("mod b {\n    use c;\n}\nmod d;\nfn e() {}", 0),
        ("use c;\nmod b;", 1),
        ("pub(in crate::a) mod b;\nmod d;", 0),
        ("fn c() {}\npub(crate) mod b;", 1),
        ("mod tests;\nuse c;", 1),
        ("// use c;\nmod b;\nfn d() { \"mod e;\" }", 0),
    ] {
        check(misplaced_modules, "src/a.rs", text, count);
    }
}

/// Finds unfinished code and tests that do not run.
fn placeholders(_path: &str, text: &str) -> Vec<String> {
    let dense = dense(&code_only(text));
    let mut found = Vec::new();
    for (needle, what) in [
        ("#[ignore]", "an ignored test"),
        ("#[ignore=", "an ignored test"),
        (",ignore)]", "an ignored test"),
        ("todo!", "unfinished code"),
        ("unimplemented!", "unfinished code"),
    ] {
        for (at, _) in dense.match_indices(needle) {
            if !(needle.starts_with(is_ident) && dense[..at].ends_with(is_ident)) {
                found.push(format!("{what}: `{needle}`"));
            }
        }
    }
    for line in text.lines() {
        let line = line.trim_start();
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let fence = doc.and_then(|doc| doc.trim_start().strip_prefix("```"));
        if fence.is_some_and(|info| info.split(',').any(|word| word.trim() == "ignore")) {
            found.push(format!("an example that is not compiled: `{line}`"));
        }
    }
    found
}

#[test]
fn nothing_is_unfinished_or_ignored() {
    enforce(placeholders, rust_files());
}

#[test]
fn a_placeholder_is_noticed() {
    check(placeholders, "src/a.rs", "fn f() { todo!() }", 1);
    check(placeholders, "src/a.rs", "unimplemented!(\"later\")", 1);
    check(
        placeholders,
        "tests/it/a.rs",
        "#[test]\n#[ignore]\nfn f() {}",
        1,
    );
    check(placeholders, "tests/it/a.rs", "#[ignore = \"slow\"]", 1);
    check(
        placeholders,
        "tests/it/a.rs",
        "#[cfg_attr(windows, ignore)]",
        1,
    );
    check(placeholders, "src/a.rs", "/// ```ignore\n/// x\n/// ```", 1);
    check(
        placeholders,
        "src/a.rs",
        "// todo! soon\nlet ignore = \"todo!\"; mytodo!();",
        0,
    );
}

/// Finds started processes. They may start in one place only, which gives them their own group and
/// always ends them.
fn started_processes(path: &str, text: &str) -> Vec<String> {
    // Modules below the file hold the parts that are specific to a platform.
    let inside = PROCESS_FILE.trim_end_matches(".rs");
    let in_place = path
        .strip_prefix(inside)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    // This program does not start another one, it becomes it.
    let is_launcher = path == "src/bin/ggrep.rs";
    if !path.starts_with("src/") || in_place || is_launcher {
        return Vec::new();
    }
    let dense = dense(&code_only(text));
    let mut found = Vec::new();
    for (at, _) in dense.match_indices("Command::new") {
        if !dense[..at].ends_with("clap::") {
            found.push(format!("`Command::new` belongs in {PROCESS_FILE}"));
        }
    }
    for (at, _) in dense.match_indices("process::") {
        if names_after(&dense[at + "process::".len()..]).contains(&"Command") {
            found.push(format!("`process::Command` belongs in {PROCESS_FILE}"));
        }
    }
    found
}

#[test]
fn processes_are_started_in_one_place() {
    enforce(started_processes, rust_files());
}

#[test]
fn a_process_started_elsewhere_is_noticed() {
    check(
        started_processes,
        "src/exec/external/ugrep.rs",
        "let x = Command::new(\"ugrep\");",
        1,
    );
    check(
        started_processes,
        "src/main.rs",
        "use std::process::Command;",
        1,
    );
    check(
        started_processes,
        "src/tool/a.rs",
        "use std::process::{Stdio, Command as C};",
        1,
    );
    check(
        started_processes,
        "src/tool/a.rs",
        "clap::Command::new(\"x\"); std::process::exit(1)",
        0,
    );
    check(
        started_processes,
        PROCESS_FILE,
        "std::process::Command::new(program)",
        0,
    );
    let part = "src/exec/process/unix.rs";
    check(started_processes, part, "use std::process::Command;", 0);
    let beside = "src/exec/process_list.rs";
    check(started_processes, beside, "Command::new(program)", 1);
    check(started_processes, "tests/it/cli.rs", "Command::new(exe)", 0);
}

/// Finds paths of the machine on which a file was written.
fn local_paths(_path: &str, text: &str) -> Vec<String> {
    // The parts are joined here, so that this file does not contain the paths itself.
    let needles = [concat!("/wo", "rk/"), concat!("../sha", "red/")];
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for needle in needles {
            let mut hits = line.match_indices(needle);
            // The path `a/work/b` is a different directory.
            let local =
                |at: usize| !line[..at].ends_with(|c: char| is_ident(c) || "-.~}".contains(c));
            if hits.any(|(at, _)| local(at)) {
                found.push(format!(
                    "line {}: names the local path `{needle}`",
                    number + 1
                ));
            }
        }
    }
    found
}

#[test]
fn no_file_names_local_paths() {
    enforce(local_paths, project_files());
}

#[test]
fn a_local_path_is_noticed() {
    let work = concat!("/wo", "rk/");
    check(local_paths, "README.md", &format!("see {work}x"), 1);
    check(
        local_paths,
        "a.toml",
        &format!("root = \"{work}tree\"\n`{work}`"),
        2,
    );
    check(
        local_paths,
        "a.md",
        concat!("as ../sha", "red/spec says"),
        1,
    );
    check(
        local_paths,
        "a.rs",
        &format!("\"home{work}x\", \"$HOME{work}y\""),
        0,
    );
}

/// Returns errors for modules that `tests/it/main.rs` does not list.
fn unlisted_modules(main: &str, files: &[&str]) -> Vec<String> {
    let code = code_only(main);
    let listed: Vec<&str> = code
        .lines()
        .filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let mut missing = Vec::new();
    for file in files {
        let module = file
            .split('/')
            .next()
            .unwrap_or(file)
            .trim_end_matches(".rs");
        if module != "main" && !listed.contains(&module) {
            missing.push(format!(
                "tests/it/{file} is not part of the tests: add `mod {module};`"
            ));
        }
    }
    missing
}

#[test]
fn every_test_file_is_listed() {
    let files = rust_files();
    let names: Vec<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("tests/it/"))
        .collect();
    assert!(names.contains(&"layering.rs"));
    let main = std::fs::read_to_string(root().join("tests/it/main.rs")).unwrap();
    let missing = unlisted_modules(&main, &names);
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

#[test]
fn a_forgotten_test_file_is_noticed() {
    let main = "//! Tests.\nmod a;\n// mod b;\nmod c;\n";
    assert_eq!(
        unlisted_modules(main, &["a.rs", "b.rs", "c.rs", "d/x.rs", "main.rs"]).len(),
        2
    );
    assert!(unlisted_modules(main, &["a.rs", "c.rs", "c/x.rs"]).is_empty());
}

/// The sentence in the documentation of a key that no code reads.
const NO_EFFECT: &str = "Has no effect.";

/// Finds keys of the index and of fuzzy fallback with documentation that is wrong about `code`,
/// which holds all code that could read them.
fn misdescribed_keys(keys: &str, code: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut said = false;
    for line in keys.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            said |= text.trim() == NO_EFFECT;
            continue;
        }
        let name = line.split(':').next().unwrap_or_default();
        let ours = ["index_", "bloom_", "reconcile_", "fuzzy_"];
        if line.contains(": ") && ours.iter().any(|prefix| name.starts_with(prefix)) {
            let read = !lines_with_word(code, name).is_empty();
            if read == said {
                wrong.push(format!(
                    "{name}: read {read}, documented as without effect {said}"
                ));
            }
        }
        said = false;
    }
    wrong
}

#[test]
fn keys_that_nothing_reads_say_so() {
    const KEYS: &str = "src/tool/config/keys.rs";
    let keys = std::fs::read_to_string(root().join(KEYS)).unwrap();
    assert!(keys.contains("index_watch: bool"));
    let code: String = rust_files()
        .iter()
        .filter(|file| file.path.starts_with("src/") && !file.path.starts_with("src/tool/config"))
        .map(|file| code_only(&file.text))
        .collect();
    let wrong = misdescribed_keys(&keys, &code);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_misdescribed_key_is_noticed() {
    let keys =
        format!("/// One.\n/// {NO_EFFECT}\nindex_a: u64 = 1;\n/// Two.\nindex_b: u64 = 2;\n");
    assert!(misdescribed_keys(&keys, "x.index_b").is_empty());
    assert_eq!(misdescribed_keys(&keys, "x.index_a + x.index_b").len(), 1);
    assert_eq!(misdescribed_keys(&keys, "x.index_a").len(), 2);
    assert_eq!(misdescribed_keys(&keys, "").len(), 1);
}
