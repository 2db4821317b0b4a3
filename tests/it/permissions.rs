//! Files that may not be read. Root may read everything, so where the tests run as root the checks run in
//! a child process without privileges: this binary again, copied to where that user can start it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use forge_search::exec::stop::CancelHandle;
use forge_search::format::lock::LockFile;
use forge_search::tool::config::IndexMode;
use forge_search::tool::indexing::{Condition, Foreground};
use serde_json::json;

use crate::support::{Setup, Tree, events};

/// Says in the child's environment that it is the child, and where its tree is.
const CHILD: &str = "FORGE_SEARCH_TEST_UNPRIVILEGED";

/// A user without any rights.
const NOBODY: u32 = 65_534;

/// Runs `check` over a tree without privileges; `test` is the path of the calling test.
pub(crate) fn unprivileged(test: &str, build: impl Fn(&Tree), check: impl Fn(&Setup)) {
    if let Some(root) = std::env::var_os(CHILD) {
        assert!(!rustix::process::geteuid().is_root());
        let setup = Setup::new(root.as_ref());
        check(&setup);
        println!("checked without privileges");
        return;
    }
    let tree = Tree::new();
    build(&tree);
    let world_readable = |path: &std::path::Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    world_readable(tree.root().parent().unwrap());
    world_readable(tree.root());
    if !rustix::process::geteuid().is_root() {
        check(&tree.setup());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    world_readable(dir.path());
    let program = dir.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    world_readable(&program);
    let start = || {
        Command::new(&program)
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, tree.root())
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
    };
    let mut outcome = start();
    for _ in 0..100 {
        // A process that another test has just forked may still hold the copy open for writing.
        match &outcome {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            _ => break,
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        outcome = start();
    }
    let output = outcome.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("checked without privileges"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn t_ls_err_01_unreadable_file_is_recorded() {
    unprivileged(
        "permissions::t_ls_err_01_unreadable_file_is_recorded",
        |tree| {
            tree.file("a", "m\n")
                .file("b", "m\n")
                .mode("b", 0o000)
                .file("c", "m\n")
                .file("d/e", "m\n")
                .mode("d", 0o000)
                .file("f", "m\n");
        },
        |setup| {
            fs::read(setup.working_dir.join("b")).unwrap_err();
            let response = setup.search(json!({"pattern": "m"}));
            assert_eq!(
                events(&response),
                ["a:1:1:m|m", "c:1:1:m|m", "f:1:1:m|m"],
                "the search goes on"
            );
            let errors: Vec<(&str, bool)> = response
                .errors
                .iter()
                .map(|e| {
                    (
                        e.path.as_str(),
                        e.error.to_lowercase().contains("permission denied"),
                    )
                })
                .collect();
            assert_eq!(errors, [("b", true), ("d", true)]);
            assert_eq!(response.exit_code, Some(0));
            assert_eq!(response.files_scanned, 4, "the unreadable file is eligible");
            // Only up to where the search ended.
            let cut = setup.search(json!({"pattern": "m", "max_results": 1}));
            let errors: Vec<&str> = cut.errors.iter().map(|e| e.path.as_str()).collect();
            assert_eq!((errors, cut.files_scanned), (vec!["b"], 3));
        },
    );
}

#[test]
fn fr_ls_val_05_unreadable_path_fails_the_call() {
    unprivileged(
        "permissions::fr_ls_val_05_unreadable_path_fails_the_call",
        |tree| {
            tree.file("b", "m\n")
                .mode("b", 0o000)
                .file("d/e", "m\n")
                .mode("d", 0o000)
                .file("x/y/z", "m\n")
                .mode("x", 0o600);
        },
        |setup| {
            for path in ["b", "d", "d/e", "x/y"] {
                let error = setup.refused(json!({"pattern": "m", "path": path}));
                assert_eq!(error.code(), "execution_failed", "{path}: {error}");
                let message = error.message();
                assert!(message.contains(&format!("`{path}`")), "{message}");
                assert!(message.contains("Permission denied"), "{message}");
            }
        },
    );
}

#[test]
fn fr_lsi_idx_conc_01_an_index_that_can_only_be_read_is_used() {
    unprivileged(
        "permissions::fr_lsi_idx_conc_01_an_index_that_can_only_be_read_is_used",
        |tree| {
            tree.file("a", "a needle\n").file("b", "hay\n");
        },
        |setup| {
            let dir = tempfile::tempdir().unwrap();
            let cache = dir.path().join("cache");
            let mut setup = setup.clone();
            setup.config.index_mode = IndexMode::Auto;
            setup.config.index_path = Some(cache.clone());
            setup.config.emit_stats = true;
            let used = || {
                let (tool, context) = setup.indexing_tool();
                let response = tool.call(json!({"pattern": "needle"}), &context).unwrap();
                assert_eq!(response.count, 1);
                response.stats.unwrap().index_exclusion_used
            };
            let (tool, context) = setup.indexing_tool();
            let indexes = tool.indexes().unwrap();
            let host = Foreground::new(CancelHandle::new());
            indexes
                .build(&setup.working_dir, &context.sandbox, &host)
                .unwrap();
            // Before anybody has read it.
            let kept = fs::read_dir(&cache).unwrap().next().unwrap().unwrap();
            let chmod = |files: u32, dirs: u32| {
                for file in fs::read_dir(kept.path()).unwrap() {
                    let path = file.unwrap().path();
                    fs::set_permissions(path, fs::Permissions::from_mode(files)).unwrap();
                }
                for dir in [kept.path(), cache.clone()] {
                    fs::set_permissions(dir, fs::Permissions::from_mode(dirs)).unwrap();
                }
            };
            chmod(0o400, 0o500);
            fs::write(kept.path().join("probe"), "").unwrap_err();
            assert!(used(), "nothing of it can be written");
            let (_, context) = setup.indexing_tool();
            let condition = indexes.condition(&setup.working_dir, &context.sandbox);
            assert_eq!(condition, Some(Condition::Usable));
            // Who may not write may not build either, and is told what is in the way.
            let refused = indexes.build(&setup.working_dir, &context.sandbox, &host);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("ermission denied"), "{error}");
            // Without the lock that readers share it is not known to be whole.
            chmod(0o600, 0o700);
            fs::remove_file(kept.path().join(LockFile::Readers.name())).unwrap();
            chmod(0o400, 0o500);
            assert!(!used());
            chmod(0o600, 0o700);
            assert!(used());
        },
    );
}

#[test]
fn fr_ls_err_05_unreadable_ignore_file_has_no_rules() {
    unprivileged(
        "permissions::fr_ls_err_05_unreadable_ignore_file_has_no_rules",
        |tree| {
            tree.file(".ignore", "a\n")
                .mode(".ignore", 0o000)
                .file("a", "m\n");
        },
        |setup| {
            let response = setup.search(json!({"pattern": "m"}));
            assert_eq!(events(&response), ["a:1:1:m|m"]);
            assert!(response.errors.is_empty());
        },
    );
}
