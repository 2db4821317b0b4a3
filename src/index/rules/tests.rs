//! Tests the rules of directories, with all kinds of rules files.

use std::fs;

use super::*;

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn rules_of(top: &Path, dir: &str) -> Arc<Rules> {
    let (rules, unread) = rules_and_unread(top, dir);
    assert_eq!(unread, []);
    rules
}

fn rules_and_unread(top: &Path, dir: &str) -> (Arc<Rules>, Vec<RulesReadError>) {
    let mut unread = Vec::new();
    let mut rules = Rules::above(top, IgnoreRules::All, None, &mut unread);
    let mut at = top.to_path_buf();
    rules = Rules::child(&rules, &at, ControlFiles::probe(&at), &mut unread);
    for part in Path::new(dir) {
        at.push(part);
        rules = Rules::child(&rules, &at, ControlFiles::probe(&at), &mut unread);
    }
    (rules, unread)
}

#[test]
fn precedence_is_ripgreps() {
    let tmp = tempfile::tempdir().unwrap();
    let top = tmp.path().canonicalize().unwrap();
    write(
        &top,
        &[
            (".git/info/exclude", "*.excluded\n"),
            (".gitignore", "*.log\n!keep.log\n"),
            (".ignore", "!back.log\n"),
            (".rgignore", "never.log\n"),
            ("sub/.gitignore", "!sub.log\n"),
        ],
    );
    let rules = rules_of(&top, "");
    let verdict = |name: &str| rules.decide(&top.join(name), false);
    assert_eq!(verdict("a.log"), Verdict::Ignored);
    assert_eq!(verdict("keep.log"), Verdict::Kept);
    assert_eq!(verdict("back.log"), Verdict::Kept);
    assert_eq!(verdict("never.log"), Verdict::Ignored);
    assert_eq!(verdict("a.excluded"), Verdict::Ignored);
    assert_eq!(verdict("a.txt"), Verdict::Neutral);
    let sub = rules_of(&top, "sub");
    assert_eq!(sub.decide(&top.join("sub/sub.log"), false), Verdict::Kept);
    assert_eq!(sub.decide(&top.join("sub/a.log"), false), Verdict::Ignored);
}

#[test]
fn gitignore_counts_only_in_a_repository() {
    let tmp = tempfile::tempdir().unwrap();
    let top = tmp.path().canonicalize().unwrap();
    write(&top, &[(".gitignore", "*.log\n"), (".ignore", "*.tmp\n")]);
    let rules = rules_of(&top, "");
    assert_eq!(rules.decide(&top.join("a.log"), false), Verdict::Neutral);
    assert_eq!(rules.decide(&top.join("a.tmp"), false), Verdict::Ignored);
    // A repository further down does not make the rules above it apply inside.
    write(&top, &[("repo/.git/HEAD", "x")]);
    let rules = rules_of(&top, "repo");
    assert_eq!(
        rules.decide(&top.join("repo/a.log"), false),
        Verdict::Neutral
    );
}

#[test]
fn a_worktree_finds_its_excludes() {
    let tmp = tempfile::tempdir().unwrap();
    let top = tmp.path().canonicalize().unwrap();
    let git = top.join("main/.git/worktrees/w");
    write(
        &top,
        &[
            ("main/.git/info/exclude", "*.x\n"),
            ("main/.git/worktrees/w/commondir", "../..\n"),
            ("w/.git", &format!("gitdir: {}\n", git.display())),
        ],
    );
    let rules = rules_of(&top.join("w"), "");
    assert_eq!(rules.decide(&top.join("w/a.x"), false), Verdict::Ignored);
    write(&top, &[("w/.git", "gitdir: ../main/.git/worktrees/w\n")]);
    let rules = rules_of(&top.join("w"), "");
    assert_eq!(rules.decide(&top.join("w/a.x"), false), Verdict::Ignored);
}

#[test]
fn malformed_lines_are_found() {
    let tmp = tempfile::tempdir().unwrap();
    let file = tmp.path().join(".ignore");
    fs::write(&file, b"*.ok\n{a\n\xFF\n{b\n").unwrap();
    let lines: Vec<usize> = malformed_lines(&file)
        .into_iter()
        .map(|(line, _)| line)
        .collect();
    assert_eq!(lines, [2, 3]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_in_place_of_an_ignore_file_does_not_hang() {
    let tmp = tempfile::tempdir().unwrap();
    let top = tmp.path().canonicalize().unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, top.join(".ignore"), rustix::fs::Mode::RWXU).unwrap();
    assert!(rules_of(&top, "").is_empty());
}

/// A regular file that exists but can't be read: the memory of this process, from its first byte.
#[cfg(target_os = "linux")]
#[test]
fn what_could_not_be_read_is_told_and_what_is_not_there_for_anybody_is_not() {
    use std::os::unix::fs::symlink;
    let tmp = tempfile::tempdir().unwrap();
    let top = tmp.path().canonicalize().unwrap();
    write(&top, &[("sub/a", ""), ("unreadable/a", ""), ("repo/a", "")]);
    symlink("/proc/self/mem", top.join("unreadable/.ignore")).unwrap();
    symlink("/proc/self/mem", top.join("repo/.git")).unwrap();
    symlink("nowhere", top.join("sub/.ignore")).unwrap();
    symlink(".gitignore", top.join("sub/.gitignore")).unwrap();
    symlink("x".repeat(300), top.join("sub/.rgignore")).unwrap();
    fs::create_dir(top.join("sub/.jj")).unwrap();
    let (rules, unread) = rules_and_unread(&top, "sub");
    assert!(rules.is_empty());
    assert_eq!(unread, []);
    let paths = |dir| -> Vec<PathBuf> {
        let (_, unread) = rules_and_unread(&top, dir);
        unread.into_iter().map(|unread| unread.path).collect()
    };
    assert_eq!(paths("unreadable"), [top.join("unreadable/.ignore")]);
    assert_eq!(paths("repo"), [top.join("repo/.git")]);
    // Errors of parent directories count as well.
    let mut unread = Vec::new();
    let dir = top.join("unreadable/sub");
    Rules::above(&dir, IgnoreRules::All, None, &mut unread);
    assert_eq!(unread.len(), 1);
    assert!(unread[0].why.contains("rules have no effect"), "{unread:?}");
}
