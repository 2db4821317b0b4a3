//! Tests how the daemon asks git about a working tree, and what it reports.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forge_search::internal::tool::daemon::server::Settings;
use serde_json::Value;

use super::inspect::{health, severity, status};
use super::program::{Place, ok};
use super::{World, small};

/// Runs git in a tree, without the settings of this machine. Returns false if there is no git.
fn run_git(world: &World, args: &[&str]) -> bool {
    run_git_in(world.tree.root(), args)
}

fn run_git_in(dir: &Path, args: &[&str]) -> bool {
    let Some(git) = super::git() else {
        crate::skipped::skipped("there is no git");
        return false;
    };
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let ran = Command::new(git)
        .arg("-C")
        .arg(dir)
        .args(who)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(ran.success(), "{args:?}");
    true
}

#[test]
fn status_reports_whether_the_tree_equals_its_commit() {
    let world = World::over(small(), Settings::default());
    let dirty = || status(&world)["snapshot"]["dirty"].clone();
    assert_eq!(dirty(), Value::Null, "there is no repository");
    if !run_git(&world, &["init", "-q"]) {
        return;
    }
    assert_eq!(dirty(), true, "no file is known");
    run_git(&world, &["add", "-A"]);
    assert_eq!(dirty(), true, "nothing is committed");
    run_git(&world, &["commit", "-q", "-m", "all"]);
    assert_eq!(dirty(), false);
    let file = world.tree.path("src/other.rs");
    let before = fs::read(&file).unwrap();
    fs::write(&file, "pub fn related() {}\n").unwrap();
    assert_eq!(dirty(), true, "changed");
    fs::write(&file, &before).unwrap();
    assert_eq!(dirty(), false, "written, and as it was");
    fs::write(world.tree.path(".gitignore"), "*.tmp\n").unwrap();
    run_git(&world, &["add", ".gitignore"]);
    run_git(&world, &["commit", "-q", "-m", "ignore"]);
    fs::write(world.tree.path("a.tmp"), "ignored").unwrap();
    assert_eq!(dirty(), false);
    fs::write(world.tree.path("a.txt"), "not ignored").unwrap();
    assert_eq!(dirty(), true);
}

#[test]
fn asking_git_runs_no_program_that_the_repository_names() {
    let world = World::over(small(), Settings::default());
    if !run_git(&world, &["init", "-q"]) {
        return;
    }
    run_git(&world, &["add", "-A"]);
    run_git(&world, &["commit", "-q", "-m", "all"]);
    let trace = world.tree.path("trace");
    let bad = format!("touch {}; cat", trace.display());
    for name in ["filter.bad.clean", "filter.a b=c.process", "core.fsmonitor"] {
        run_git(&world, &["config", name, &bad]);
    }
    run_git(&world, &["config", "filter.bad.required", "true"]);
    fs::write(world.tree.path(".git/info/attributes"), "* filter=bad\n").unwrap();
    for name in ["post-index-change", "fsmonitor-watchman"] {
        hook(&world, name, &bad);
    }
    let file = world.tree.path("src/other.rs");
    let text = fs::read(&file).unwrap();
    fs::write(&file, &text).unwrap();
    let dirty = || status(&world)["snapshot"]["dirty"].clone();
    assert_eq!(
        dirty(),
        Value::Null,
        "one filter can't be turned off by its name"
    );
    run_git(&world, &["config", "--unset", "filter.a b=c.process"]);
    assert_eq!(dirty(), false);
    assert_eq!(severity(&health(&world), "repo_hygiene").0, "ok");
    assert!(!trace.exists(), "a program of the repository's was run");
    // Proof that the trace works: plain `git status` runs a program of the repository.
    run_git(&world, &["-c", "core.fsmonitor=false", "status"]);
    assert!(trace.exists());
}

/// Installs a hook that runs a command.
fn hook(world: &World, name: &str, command: &str) {
    let path = world.tree.path(".git/hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    crate::support::write_script(&path, command);
}

/// Removes an object from a repository, which can fetch it from a promisor remote.
fn lack(world: &World, object: &str, settings: &[(&str, &str)]) {
    let output = Command::new(super::git().unwrap())
        .arg("-C")
        .arg(world.tree.root())
        .args(["rev-parse", object])
        .output()
        .unwrap();
    let id = String::from_utf8(output.stdout).unwrap();
    let (dir, name) = id.trim_end().split_at(2);
    fs::remove_file(world.tree.path(".git/objects").join(dir).join(name)).unwrap();
    let always = [
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
    ];
    for (name, value) in always.iter().chain(settings) {
        run_git(world, &["config", name, value]);
    }
}

#[test]
fn asking_git_fetches_no_missing_object() {
    let traces = tempfile::tempdir().unwrap();
    let trace = traces.path().join("trace");
    let touch = format!("touch {}", trace.display());
    let world = World::over(small(), Settings::default());
    if !run_git(&world, &["init", "-q"]) {
        return;
    }
    // If `.gitignore` is not in the tree, git reads it from the objects of the repository.
    fs::write(world.tree.path(".gitignore"), "*.tmp\n").unwrap();
    run_git(&world, &["add", "-A"]);
    run_git(&world, &["commit", "-q", "-m", "all"]);
    run_git(&world, &["update-index", "--skip-worktree", ".gitignore"]);
    fs::remove_file(world.tree.path(".gitignore")).unwrap();
    fs::write(world.tree.path("u.txt"), "unknown").unwrap();
    let url = world.tree.root().to_str().unwrap().to_string();
    let upload = format!("{touch}; git-upload-pack");
    let settings = [
        ("remote.origin.url", url.as_str()),
        ("remote.origin.uploadpack", upload.as_str()),
    ];
    lack(&world, ":.gitignore", &settings);
    let found = health(&world);
    assert!(!trace.exists(), "health has fetched");
    let (_, message) = severity(&found, "repo_hygiene");
    assert!(message.starts_with("1 files"), "{message}");
    status(&world);
    assert!(!trace.exists(), "status has fetched");
    // Proof that the trace works: plain `git ls-files` fetches the object.
    let args = ["ls-files", "--others", "--exclude-standard"];
    let mut ask = Command::new(super::git().unwrap());
    ask.arg("-C").arg(world.tree.root()).args(args);
    ask.output().unwrap();
    assert!(trace.exists(), "nothing would have been fetched anyway");
}

#[test]
fn asking_git_unpacks_no_bundle() {
    let traces = tempfile::tempdir().unwrap();
    let trace = traces.path().join("trace");
    let bundle = traces.path().join("b");
    let world = World::over(small(), Settings::default());
    if !run_git(&world, &["init", "-q"]) {
        return;
    }
    run_git(&world, &["add", "-A"]);
    run_git(&world, &["commit", "-q", "-m", "all"]);
    run_git(
        &world,
        &["bundle", "create", "-q", bundle.to_str().unwrap(), "--all"],
    );
    hook(
        &world,
        "reference-transaction",
        &format!("touch {}", trace.display()),
    );
    let bundle = format!("file://{}", bundle.display());
    let settings = [
        ("remote.origin.url", "https://localhost:9/x"),
        ("fetch.bundleURI", bundle.as_str()),
    ];
    lack(&world, "HEAD^{tree}", &settings);
    // `git config` may have run the hook.
    let _ = fs::remove_file(&trace);
    let found = status(&world);
    assert_eq!(found["snapshot"]["dirty"], Value::Null, "{found}");
    health(&world);
    assert!(!trace.exists(), "a hook was run");
    assert!(!world.tree.path(".git/refs/bundles").exists());
}

#[test]
fn status_does_not_call_a_file_changed_that_a_filter_may_make_equal() {
    let world = World::over(small(), Settings::default());
    if !run_git(&world, &["init", "-q"]) {
        return;
    }
    let dirty = || status(&world)["snapshot"]["dirty"].clone();
    fs::write(world.tree.path(".gitattributes"), "*.up filter=up\n").unwrap();
    fs::write(world.tree.path("a.up"), "text\n").unwrap();
    // Git compares the content of every file that is as new as its index, so the file gets an old
    // time.
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = fs::File::options()
        .append(true)
        .open(world.tree.path("a.up"));
    let file = file.unwrap();
    file.set_modified(old).unwrap();
    run_git(&world, &["config", "filter.up.clean", "tr a-z A-Z"]);
    run_git(&world, &["add", "-A"]);
    run_git(&world, &["commit", "-q", "-m", "all"]);
    assert_eq!(dirty(), false);
    // The content is the same, but git has to read the file again.
    let touch = |name: &str| {
        let path = world.tree.path(name);
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, text).unwrap();
    };
    touch("a.up");
    assert_eq!(dirty(), Value::Null, "only the filter knows");
    // A changed file without a filter makes the tree dirty, whatever filters other files have.
    fs::write(world.tree.path("src/other.rs"), "pub fn related() {}\n").unwrap();
    assert_eq!(dirty(), true);
    fs::write(world.tree.path("src/other.rs"), "pub fn unrelated() {}\n").unwrap();
    assert_eq!(dirty(), Value::Null);
    fs::write(world.tree.path("new.txt"), "new").unwrap();
    assert_eq!(dirty(), true, "a file that is not known has none");
    fs::remove_file(world.tree.path("new.txt")).unwrap();
    fs::remove_file(world.tree.path("a.up")).unwrap();
    assert_eq!(dirty(), true, "what is gone has none");
}

#[test]
fn git_is_asked_about_the_searched_tree_only() {
    let around = small();
    if !run_git_in(around.root(), &["init", "-q"]) {
        return;
    }
    // A tree without a repository of its own does not use the repository around it.
    let tree = crate::support::Tree::of([("a.txt", "a\n")]);
    let world = World::over(tree, Settings::default());
    let dirty = || status(&world)["snapshot"]["dirty"].clone();
    let made = |path: &str| world.tree.path(path);
    run_git(&world, &["init", "-q"]);
    run_git(&world, &["add", "-A"]);
    run_git(&world, &["commit", "-q", "-m", "all"]);
    assert_eq!(dirty(), false);
    fs::rename(made(".git"), made("hidden.git")).unwrap();
    fs::create_dir(made(".git")).unwrap();
    assert_eq!(dirty(), Value::Null, "that is no repository");
    // Directories in the tree that look like a bare repository are not used either.
    for name in ["HEAD", "objects", "refs"] {
        let (from, to) = (made("hidden.git").join(name), made(name));
        fs::rename(from, to).unwrap();
    }
    assert_eq!(dirty(), Value::Null);
    assert_eq!(severity(&health(&world), "repo_hygiene").0, "warn");
    for name in ["HEAD", "objects", "refs"] {
        let (from, to) = (made(name), made("hidden.git").join(name));
        fs::rename(from, to).unwrap();
    }
    fs::remove_dir(made(".git")).unwrap();
    fs::rename(made("hidden.git"), made(".git")).unwrap();
    // The setting `core.worktree` of the repository is ignored.
    fs::write(around.path("other.txt"), "other").unwrap();
    run_git(
        &world,
        &["config", "core.worktree", around.root().to_str().unwrap()],
    );
    assert_eq!(dirty(), false);
    assert_eq!(severity(&health(&world), "repo_hygiene").0, "ok");
}

/// Starts a daemon for a place, and returns whether it reports the tree as dirty.
fn dirty_in(place: &Place) -> Value {
    let said = ok(&place.ggrep(&["status", "--json"]));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["daemon"]["running"], true);
    said["snapshot"]["dirty"].clone()
}

#[test]
fn an_empty_repository_inside_another_one_is_not_taken_for_it() {
    let place = Place::new();
    if !run_git_in(place.dir(), &["init", "-q"]) {
        return;
    }
    fs::create_dir(place.root().join(".git")).unwrap();
    ok(&place.forge_search(&["serve", "--detach"]));
    assert_eq!(dirty_in(&place), Value::Null);
}

#[test]
fn the_git_configuration_of_the_user_counts() {
    let place = Place::new();
    let root = place.root();
    if !run_git_in(&root, &["init", "-q"]) {
        return;
    }
    place.write("crlf.txt", "a\r\nb\r\n");
    run_git_in(&root, &["-c", "core.autocrlf=true", "add", "-A"]);
    run_git_in(&root, &["commit", "-q", "-m", "all"]);
    let path = root.join("crlf.txt");
    fs::remove_file(&path).unwrap();
    place.write("crlf.txt", "a\r\nb\r\n");
    ok(&place.forge_search(&["serve", "--detach"]));
    assert_eq!(dirty_in(&place), true, "the line ends are others");
    let home = place.dir().join("home");
    fs::create_dir_all(&home).unwrap();
    let settings = "[core]\n\tautocrlf = true\n";
    fs::write(home.join(".gitconfig"), settings).unwrap();
    assert_eq!(dirty_in(&place), false);
    // Git reads a repository of another user only if the own configuration allows it.
    if !rustix::process::geteuid().is_root() {
        crate::skipped::skipped_unless_root("only root can give a tree away");
        return;
    }
    for path in [root.clone(), root.join(".git")] {
        std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
    }
    assert_eq!(dirty_in(&place), Value::Null);
    let more = format!("{settings}[safe]\n\tdirectory = {}\n", root.display());
    fs::write(home.join(".gitconfig"), more).unwrap();
    assert_eq!(dirty_in(&place), false);
}
