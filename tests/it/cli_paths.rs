//! Every path that a search prints can be opened from the directory in which the search started.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::forge_search;
use crate::system::symlink;

/// Returns the file that an output line names.
type PathOf = fn(&str) -> Option<String>;

/// Output modes, each with the function that finds the path in a line.
const FORMS: [(&[&str], PathOf); 8] = [
    (&["needle"], before_colon),
    (&["--vimgrep", "needle"], before_colon),
    (&["-o", "needle"], before_colon),
    (&["-c", "needle"], before_colon),
    (&["-l", "needle"], whole),
    (&["--files"], whole),
    (&["--json", "needle"], field),
    (&["--rg-json", "needle"], field),
];

fn before_colon(line: &str) -> Option<String> {
    line.split(':').next().map(String::from)
}

fn whole(line: &str) -> Option<String> {
    Some(line.to_string())
}

fn field(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).unwrap();
    message["data"]["path"]["text"].as_str().map(String::from)
}

#[cfg(unix)]
#[test]
fn paths_can_be_opened_from_where_the_search_was_started() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for name in ["tree/a.rs", "tree/src/deep/b.rs", "tree/docs/c.rs"] {
        fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
        fs::write(top.join(name), "a needle\n").unwrap();
    }
    fs::create_dir(top.join("side")).unwrap();
    symlink(top.join("tree/src"), top.join("link")).unwrap();
    let absolute = top.join("tree").to_str().unwrap().to_string();
    let of_root = ["--root", &absolute];
    for (here, more, first) in [
        ("tree", &[][..], "a.rs"),
        ("tree", &["."], "./a.rs"),
        ("tree", &["./src"], "./src/deep/b.rs"),
        ("tree", &["./src/deep/b.rs"], "./src/deep/b.rs"),
        ("tree/src", &[], "deep/b.rs"),
        ("link", &[], "deep/b.rs"),
        ("tree/src", &[".."], "../a.rs"),
        ("tree/src", &["../docs"], "../docs/c.rs"),
        ("tree/src/deep", &["../.."], "../../a.rs"),
        ("side", &["../tree"], "../tree/a.rs"),
        ("side", &["../link/deep/b.rs"], "../link/deep/b.rs"),
        ("side", &[&absolute], ""),
        (".", &["tree"], "tree/a.rs"),
        ("side", &["--root", "../tree"], "../tree/a.rs"),
        ("side", &["--root", "../tree", "docs"], "../tree/docs/c.rs"),
        ("tree/docs", &["--root", ".."], "../a.rs"),
        ("side", &of_root, ""),
    ] {
        let here = top.join(here);
        for (form, path_of) in FORMS {
            for way in [&["--index", "off"][..], &["--index", "on"]] {
                let (flags, paths) = match more {
                    ["--root", root, paths @ ..] => (&["--root", root][..], paths),
                    paths => (&[][..], paths),
                };
                let mut program = forge_search(&here);
                program.args(way).args(flags).args(form).args(paths);
                let output = program.output().unwrap();
                let text = String::from_utf8(output.stdout).unwrap();
                let shown: Vec<String> = text.lines().filter_map(path_of).collect();
                let what = format!("{here:?} {form:?} {way:?} {more:?}: {text}");
                assert!(!shown.is_empty(), "{what}");
                for path in &shown {
                    assert!(here.join(path).is_file(), "{path} of {what}");
                    assert_eq!(Path::new(path).is_absolute(), first.is_empty(), "{what}");
                }
                assert!(
                    first.is_empty() || shown.iter().any(|path| path == first),
                    "{what}"
                );
            }
        }
    }
}
