//! Tests of files that the process may not read.
//!
//! Root may read every file. When the tests run as root, the checks therefore run in a child
//! process without privileges. The child is this binary, linked into a directory where that user
//! can start it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use forge_search::internal::exec::stop::CancelHandle;
use forge_search::internal::format::lock::LockFile;
use forge_search::internal::tool::config::IndexMode;
use forge_search::internal::tool::indexing::{Condition, Foreground};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Setup, Tree, copy_program, events};

/// Environment variable that marks the child of a test. Its value is the root of the child's tree.
const CHILD: &str = "FORGE_SEARCH_TEST_UNPRIVILEGED";

/// Environment variable that names the step that the child performs.
const STEP: &str = "FORGE_SEARCH_TEST_STEP";

/// The id of a user and group without any rights.
const NOBODY: u32 = 65_534;

/// Runs `check` over a tree, without privileges. `test` is the path of the calling test.
pub(crate) fn unprivileged(test: &str, build: impl Fn(&Tree), check: impl Fn(&Setup)) {
    if let Some(root) = std::env::var_os(CHILD) {
        assert!(!rustix::process::geteuid().is_root());
        let setup = Setup::new(root.as_ref());
        check(&setup);
        println!("{CHECKED}");
        return;
    }
    let tree = Tree::new();
    build(&tree);
    world_readable(tree.root().parent().unwrap());
    world_readable(tree.root());
    if !rustix::process::geteuid().is_root() {
        check(&tree.setup());
        return;
    }
    Program::new(test).run(&tree, "", |child| {
        child.uid(NOBODY).gid(NOBODY);
    });
}

fn world_readable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The text that a child prints after its last check.
const CHECKED: &str = "checked as the child of a test";

/// This binary at a path from which any user can start it, to run one of its tests in a child
/// process.
struct Program<'a> {
    dir: TempDir,
    test: &'a str,
}

impl Program<'_> {
    fn new(test: &str) -> Program<'_> {
        let dir = tempfile::tempdir().unwrap();
        world_readable(dir.path());
        let program = Program { dir, test };
        let own = std::env::current_exe().unwrap();
        // A hard link needs the same filesystem. Otherwise the program is copied.
        if fs::hard_link(&own, program.path()).is_err() {
            copy_program(own, &program.path());
        }
        world_readable(&program.path());
        program
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("it")
    }

    /// Runs the test over a tree in a child, which performs `step`, and checks that it succeeds.
    #[track_caller]
    fn run(&self, tree: &Tree, step: &str, rights: impl Fn(&mut Command)) {
        let mut child = Command::new(self.path());
        child
            .args(["--exact", self.test, "--nocapture"])
            .env(CHILD, tree.root())
            .env(STEP, step)
            .current_dir("/");
        rights(&mut child);
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains(CHECKED),
            "{step}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.contains("1 passed"), "{text}");
    }
}

/// A process with certain rights, which uses the index of a tree.
struct Reader {
    setup: Setup,
    /// Whether this process may read the file `private`.
    may_read: bool,
}

impl Reader {
    /// Searches for a text that no file holds, and checks that the answer equals the answer without
    /// an index. Returns true if the process had an index of its own.
    fn search(&self) -> bool {
        let private = self.setup.working_dir.join("private");
        assert_eq!(fs::read(private).is_ok(), self.may_read);
        let request = json!({"pattern": "needle"});
        let plain = self.setup.clone().config(|config| {
            config.index_mode = IndexMode::Off;
            config.emit_stats = false;
        });
        let plain = plain.search(request.clone());
        let errors: Vec<&str> = plain.errors.iter().map(|e| e.path.as_str()).collect();
        let expected: &[&str] = if self.may_read { &[] } else { &["private"] };
        assert_eq!(errors, expected);
        let (tool, context) = self.setup.indexing_tool();
        let mut answer = tool.call(request, &context).unwrap();
        let stats = answer.stats.take().unwrap();
        assert_eq!(answer.to_json(), plain.to_json(), "{stats:?}");
        assert_eq!(stats.storage_mode, "mmap", "{stats:?}");
        let excluded = if self.may_read { 2 } else { 1 };
        match stats.index_safety_state.as_str() {
            "COMPLETE" => assert_eq!(stats.candidates_excluded, excluded, "{stats:?}"),
            state => assert_eq!(state, "ABSENT", "{stats:?}"),
        }
        stats.index_exclusion_used
    }

    fn build(&self) {
        let (tool, context) = self.setup.indexing_tool();
        let host = Foreground::new(CancelHandle::new());
        let root = &self.setup.working_dir;
        let indexes = tool.indexes().unwrap();
        indexes.build(root, context.sandbox.reach(), &host).unwrap();
    }

    /// Performs a step: a name as in [`STEP`], without the word for the kind of process.
    fn carry_out(&self, step: &str) {
        match step {
            "finds none and builds one" => {
                assert!(!self.search(), "it had an index that is not its own");
                self.build();
                assert!(self.search());
            }
            "finds its own" => assert!(self.search()),
            other => panic!("{other}"),
        }
    }
}

/// Two kinds of processes. Processes of one kind may read the file `private` of a tree.
struct Kinds<'a> {
    /// The path of the calling test.
    test: &'a str,
    /// Whether this process can start both kinds.
    possible: bool,
    /// The owner, the group and the mode of the file `private`.
    private: (u32, u32, u32),
    /// The user that both kinds of processes run as. This user owns the indexes.
    user: u32,
}

impl Kinds<'_> {
    /// Checks that neither kind uses an index of the other. `rights` prepares a child so that it
    /// may read the file, or may not. `enter` does the same inside the child.
    ///
    /// If this process can't start both kinds, checks that all processes of one kind share one
    /// index.
    fn check(&self, rights: impl Fn(&mut Command, bool), enter: impl Fn(bool)) {
        if let Some(root) = std::env::var_os(CHILD) {
            let step = std::env::var(STEP).unwrap();
            let (who, step) = step.split_once(' ').unwrap();
            let may_read = who == "one";
            enter(may_read);
            let setup = Setup::new(root.as_ref()).config(|config| {
                config.index_mode = IndexMode::Auto;
                config.index_path = Some(Path::new(&root).with_file_name("cache"));
                config.emit_stats = true;
            });
            Reader { setup, may_read }.carry_out(step);
            println!("{CHECKED}");
            return;
        }
        let tree = Tree::of([
            ("private", "nothing but straw\n"),
            ("public", "more straw\n"),
        ]);
        let above = tree.root().parent().unwrap();
        let cache = above.join("cache");
        fs::create_dir(&cache).unwrap();
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
        world_readable(above);
        world_readable(tree.root());
        let program = Program::new(self.test);
        if !self.possible {
            for step in ["one finds none and builds one", "one finds its own"] {
                program.run(&tree, step, |_| {});
            }
            assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
            return;
        }
        let (owner, group, mode) = self.private;
        chown(tree.path("private"), Some(owner), Some(group)).unwrap();
        tree.mode("private", mode);
        chown(&cache, Some(self.user), Some(self.user)).unwrap();
        for step in [
            "one finds none and builds one",
            "other finds none and builds one",
            "one finds its own",
            "other finds its own",
        ] {
            program.run(&tree, step, |child| rights(child, step.starts_with("one")));
        }
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 2);
    }
}

#[test]
fn a_process_with_another_group_has_another_index() {
    let kinds = Kinds {
        test: "permissions::a_process_with_another_group_has_another_index",
        possible: rustix::process::geteuid().is_root(),
        private: (0, NOBODY, 0o640),
        user: NOBODY,
    };
    let rights = |child: &mut Command, may_read: bool| {
        child
            .uid(NOBODY)
            .gid(if may_read { NOBODY } else { NOBODY - 1 });
    };
    kinds.check(rights, |_| {});
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_with_other_supplementary_groups_has_another_index() {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

    let possible = rustix::process::geteuid().is_root();
    let kinds = Kinds {
        test: "permissions::a_process_with_other_supplementary_groups_has_another_index",
        possible,
        private: (0, 4, 0o640),
        user: NOBODY,
    };
    // The calls change this thread and the threads that it starts.
    let enter = |may_read: bool| {
        if possible {
            let groups = if may_read { [4, 5] } else { [5, 6] };
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_groups(&groups.map(Gid::from_raw)).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
        }
    };
    kinds.check(|_, _| {}, enter);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_with_other_capabilities_has_another_index() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    let sets = capabilities(None).unwrap();
    let needed = CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN;
    let possible = rustix::process::geteuid().is_root() && sets.effective.contains(needed);
    let kinds = Kinds {
        test: "permissions::a_process_with_other_capabilities_has_another_index",
        possible,
        private: (NOBODY, NOBODY, 0o600),
        user: 0,
    };
    // The call changes this thread and the threads that it starts.
    let enter = |may_read: bool| {
        if possible && !may_read {
            let mut without = sets;
            without.effective = CapabilitySet::empty();
            set_capabilities(None, without).unwrap();
        }
    };
    kinds.check(|_, _| {}, enter);
}

#[test]
fn an_unreadable_file_is_recorded_and_the_search_goes_on() {
    unprivileged(
        "permissions::an_unreadable_file_is_recorded_and_the_search_goes_on",
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
            // Errors are reported only up to the file at which the search ended.
            let cut = setup.search(json!({"pattern": "m", "max_results": 1}));
            let errors: Vec<&str> = cut.errors.iter().map(|e| e.path.as_str()).collect();
            assert_eq!((errors, cut.files_scanned), (vec!["b"], 3));
        },
    );
}

#[test]
fn an_unreadable_path_fails_the_call() {
    unprivileged(
        "permissions::an_unreadable_path_fails_the_call",
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
fn a_read_only_index_is_used() {
    unprivileged(
        "permissions::a_read_only_index_is_used",
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
                .build(&setup.working_dir, context.sandbox.reach(), &host)
                .unwrap();
            // No reader has opened this index yet.
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
            let condition = indexes.condition(&setup.working_dir, context.sandbox.reach());
            assert_eq!(condition, Some(Condition::Usable));
            // A process that can't write can't build either. The error names the cause.
            let refused = indexes.build(&setup.working_dir, context.sandbox.reach(), &host);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("ermission denied"), "{error}");
            // Without the lock file that readers share, no reader knows whether the index is
            // complete.
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
fn an_unreadable_ignore_file_has_no_rules() {
    unprivileged(
        "permissions::an_unreadable_ignore_file_has_no_rules",
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
