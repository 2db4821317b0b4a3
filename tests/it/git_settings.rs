//! Git's `core.excludesFile`: as this crate reads it, as git itself reports it, and as the command
//! line uses it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use forge_search::internal::index::rules::settings::{SettingFiles, excludes_file};
use serde_json::json;

use crate::cli::forge_search;
use crate::line_processes::ByTheLine;
use crate::support::Tree;

/// A user's files, with a repository in `repo`.
struct Place {
    _tmp: tempfile::TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Place {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().canonicalize().unwrap();
        for path in ["home", "repo/.git/refs", "repo/.git/objects", "repo/sub"] {
            fs::create_dir_all(dir.join(path)).unwrap();
        }
        let place = Place { _tmp: tmp, dir };
        place.write("repo/.git/HEAD", "ref: refs/heads/topic/one\n");
        place.write(REPOSITORY, "");
        place
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn settings(&self) -> SettingFiles {
        SettingFiles {
            files: ["system", "home/.config/git/config", "home/.gitconfig"]
                .map(|file| self.dir.join(file))
                .to_vec(),
            home: Some(self.dir.join("home")),
            usual: Some(self.dir.join("home/.config/git/ignore")),
        }
    }

    /// Returns the file that the settings name, relative to the place.
    fn named(&self) -> String {
        let file = excludes_file(&self.settings(), &self.dir.join("repo/sub"));
        let Some(file) = file else {
            return "nothing".to_string();
        };
        let below = file.strip_prefix(&self.dir);
        below.unwrap_or(&file).to_str().unwrap().to_string()
    }

    /// Returns the file that git reads from the settings; `None` if git can't be run.
    fn named_by_git(&self) -> Option<String> {
        let mut git = Command::new("git");
        let args = ["config", "--type=path", "--get", "core.excludesFile"];
        git.arg("-C").arg(self.dir.join("repo/sub")).args(args);
        for name in [
            "GIT_DIR",
            "GIT_CONFIG_GLOBAL",
            "XDG_CONFIG_HOME",
            "GIT_CONFIG_NOSYSTEM",
        ] {
            git.env_remove(name);
        }
        git.env("HOME", self.dir.join("home"));
        git.env("GIT_CONFIG_SYSTEM", self.dir.join("system"));
        let output = git.output().ok()?;
        let named = String::from_utf8(output.stdout.clone()).unwrap();
        let named = named.strip_suffix('\n').unwrap_or(&named);
        Some(match (output.status.code(), named) {
            (Some(1), _) => "home/.config/git/ignore".to_string(),
            (Some(0), "") => "nothing".to_string(),
            (Some(0), named) => {
                let file = self.dir.join("repo").join(named);
                let below = file.strip_prefix(&self.dir);
                below.unwrap_or(&file).to_str().unwrap().to_string()
            }
            _ => panic!("{output:?}"),
        })
    }

    /// Checks the file that the settings name, here and according to git.
    #[track_caller]
    fn check(&self, expected: &str) {
        assert_eq!(self.named(), expected);
        if let Some(named) = self.named_by_git() {
            assert_eq!(named, expected, "by git");
        }
    }
}

const USER: &str = "home/.gitconfig";
const REPOSITORY: &str = "repo/.git/config";

#[test]
fn only_the_key_of_its_git_section_counts_and_the_last_one_wins() {
    let place = Place::new();
    place.check("home/.config/git/ignore");
    for (text, expected) in [
        ("[core]\nexcludesFile = /x\n", "/x"),
        ("[CORE]\n\tExcludesFILE=/x", "/x"),
        ("[core]excludesfile=/x\n[other]\nexcludesfile=/y\n", "/x"),
        (
            "[core \"sub\"]\nexcludesfile = /y\n",
            "home/.config/git/ignore",
        ),
        ("[core.sub]\nexcludesfile = /y\n", "home/.config/git/ignore"),
        (
            "[alias]\nx = \"!excludesfile = /y\"\n",
            "home/.config/git/ignore",
        ),
        ("# [core]\n;excludesfile = /y\n", "home/.config/git/ignore"),
        ("[core]\nexcludesfile = /x\nexcludesfile = /y\n", "/y"),
        (
            "[core]\nexcludesfile = /x\n[a]\nb\n[core]\nexcludesfile = /y\n",
            "/y",
        ),
        ("[core]\nexcludesfile = ~/own\n", "home/own"),
        ("[core]\nexcludesfile = relative/one\n", "repo/relative/one"),
        ("[core]\nexcludesfile =\n", "nothing"),
        ("[core]\nexcludesfile = \"\"\n", "nothing"),
        ("[core]\r\nexcludesfile = /x y \t # no\r\n", "/x y"),
        ("[core]\nexcludesfile = \"/x # y \" ; no\n", "/x # y "),
        ("[core]\nexcludesfile = /x\\\"\\\\y\n", "/x\"\\y"),
        ("[core]\nexcludesfile = /a\\\n  b\n", "/a  b"),
        ("[core]\nexcludesfile = \"/a\" b\"c\"\n", "/a bc"),
        ("\u{feff}[core]\nexcludesfile = /x\n", "/x"),
        ("[a \"b\\\"]c\"] [core] excludesfile = /x\n", "/x"),
    ] {
        place.write(USER, text);
        assert_eq!(place.named(), expected, "{text:?}");
        place.check(expected);
    }
}

#[test]
fn later_git_settings_win_and_those_of_the_repository_are_last() {
    let place = Place::new();
    let files = [
        ("system", "/system"),
        ("home/.config/git/config", "/xdg"),
        (USER, "/user"),
        (REPOSITORY, "/repository"),
    ];
    for (file, named) in files {
        place.write(file, &format!("[core]\nexcludesFile = {named}\n"));
        place.check(named);
    }
    // The settings of the worktree count only if those of the repository enable them.
    place.write(
        "repo/.git/config.worktree",
        "[core]\nexcludesFile = /worktree\n",
    );
    place.check("/repository");
    place.write(
        REPOSITORY,
        "[core]\nrepositoryformatversion = 1\nexcludesFile = /repository\n[extensions]\nworktreeConfig = true\n",
    );
    place.check("/worktree");
}

#[test]
fn included_git_settings_count_where_they_are_included() {
    let place = Place::new();
    let dir = place.dir.to_str().unwrap().to_string();
    place.write("home/more", "[core]\nexcludesFile = /more\n");
    place.write("home/deep/more", "[include]\npath = ../more\n");
    let with = |text: &str| format!("[core]\nexcludesFile = /first\n{text}");
    let holds = |condition: &str| with(&format!("[includeIf \"{condition}\"]\npath = more\n"));
    for (text, expected) in [
        (with("[include]\npath = more\n"), "/more"),
        (with("[include]\npath = ~/more\n"), "/more"),
        (with("[include]\npath = deep/more\n"), "/more"),
        (with("[include]\npath = missing\n"), "/first"),
        (
            with("[include]\npath = more\n[core]\nexcludesFile = /last\n"),
            "/last",
        ),
        (holds(&format!("gitdir:{dir}/repo/")), "/more"),
        (holds(&format!("gitdir:{dir}/repo/.git")), "/more"),
        (holds(&format!("gitdir:{dir}/repo")), "/first"),
        (holds(&format!("gitdir:{dir}/other/")), "/first"),
        (holds("gitdir:repo/"), "/more"),
        (holds("gitdir:REPO/"), "/first"),
        (holds("gitdir/i:REPO/"), "/more"),
        (holds("gitdir:~/"), "/first"),
        (holds("gitdir:*/.git"), "/more"),
        (holds("onbranch:topic/"), "/more"),
        (holds("onbranch:topic/*"), "/more"),
        (holds("onbranch:topic"), "/first"),
        (holds("nothing:known"), "/first"),
    ] {
        place.write(USER, &text);
        assert_eq!(place.named(), expected, "{text:?}");
        place.check(expected);
    }
    place.write(USER, "[includeIf \"gitdir:./../repo/\"]\npath = more\n");
    assert_eq!(
        place.named(),
        place.named_by_git().unwrap_or_else(|| place.named())
    );
    // `./` is the directory of the file with the condition.
    place.write("all", "[includeIf \"gitdir:./repo/\"]\npath = home/more\n");
    place.write(USER, "[include]\npath = ../all\n");
    place.check("/more");
    place.write("all", "[includeIf \"gitdir:./other/\"]\npath = home/more\n");
    place.check("home/.config/git/ignore");
}

#[test]
fn git_settings_are_read_up_to_a_line_that_git_refuses() {
    let place = Place::new();
    for rest in [
        "[core\n",
        "=\n",
        "[core]\nx \"",
        "[a \"b",
        "[core]\nx = \"y\n",
        "x = \\q\n",
    ] {
        place.write(USER, &format!("[core]\nexcludesFile = /x\n{rest}"));
        assert_eq!(place.named(), "/x", "{rest:?}");
    }
    // An include cycle ends.
    place.write(
        USER,
        "[include]\npath = .gitconfig\npath = .gitconfig\n[core]\nexcludesFile = ~other/x\n",
    );
    assert_eq!(place.named(), "nothing");
}

#[test]
fn submodules_and_directories_without_a_repository_have_git_settings_of_their_own() {
    let place = Place::new();
    place.write("modules/m/config", "[core]\nexcludesFile = own\n");
    place.write("repo/sub/.git", "gitdir: ../../modules/m\n");
    assert_eq!(place.named(), "repo/sub/own");
    let nowhere = excludes_file(&place.settings(), &place.dir.join("home"));
    assert_eq!(nowhere, place.settings().usual);
}

#[test]
fn json_lines_are_answered_by_the_current_git_settings() {
    let tree = Tree::of([("ignored.tmp", "sometimes\n"), ("own", "*.tmp\n")]);
    tree.dir(".git");
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("other"), "/nothing\n").unwrap();
    let mut program = forge_search(tree.root());
    program
        .env("HOME", home.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_CONFIG_GLOBAL")
        .args(["call", "--jsonl"]);
    let mut process = ByTheLine::of(program);
    let mut count = || process.answer(&json!({"pattern": "sometimes"}))["count"].clone();
    let user = home.path().join(".gitconfig");
    let repository = tree.path(".git/config");
    let own = tree.path("own");
    let own = own.to_str().unwrap();
    assert_eq!(count(), 1);
    // The key is in another section.
    fs::write(&user, format!("[other]\nexcludesFile = {own}\n")).unwrap();
    assert_eq!(count(), 1);
    fs::write(home.path().join("more"), "[core]\nexcludesFile = own\n").unwrap();
    fs::write(&user, "[include]\npath = more\n").unwrap();
    assert_eq!(count(), 0);
    // The repository's own settings are read last.
    fs::write(&repository, "[core]\nexcludesFile = ~/other\n").unwrap();
    assert_eq!(count(), 1);
    fs::write(&repository, format!("[core]\nexcludesFile = {own}\n")).unwrap();
    assert_eq!(count(), 0);
    process.end();
}
