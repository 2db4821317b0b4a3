//! Reads the checked-out commit of a repository from its files. It runs no program:
//! `exec::process::git` does.

use std::path::{Path, PathBuf};

use crate::index::rules::read_regular_file;

/// Returns the commit that is checked out in the work tree at `root`; `None` without a repository
/// or without commits. Runs no program, and reads only the repository's own files.
pub(super) fn head_sha(root: &Path) -> Option<String> {
    let dir = git_dir(root)?;
    // A linked work tree keeps its branches in the main repository.
    let common = read(&dir.join("commondir")).map(|common| dir.join(common));
    let dirs: Vec<PathBuf> = [Some(dir.clone()), common].into_iter().flatten().collect();
    let real: Vec<PathBuf> = dirs
        .iter()
        .filter_map(|dir| dir.canonicalize().ok())
        .collect();
    // Links are resolved first: `HEAD` may be a link to a foreign file. Its content must not
    // leak.
    let read = |path: &Path| {
        let path = path.canonicalize().ok()?;
        let is_own = real.iter().any(|dir| path.starts_with(dir));
        is_own.then(|| read(&path)).flatten()
    };
    let head = read(&dir.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return sha(&head);
    };
    // A repository from an untrusted source may name any file. Its content must not leak.
    if !is_reference(reference) {
        return None;
    }
    dirs.iter().find_map(|dir| {
        let loose = read(&dir.join(reference)).and_then(|text| sha(&text));
        loose.or_else(|| {
            let packed = read(&dir.join("packed-refs"))?;
            let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(_, name)| *name == reference);
            found.and_then(|(text, _)| sha(text))
        })
    })
}

/// Returns whether this can be the name of a branch or another reference.
fn is_reference(name: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    name.starts_with("refs/") && name.split('/').all(is_part)
}

/// Returns the directory of the repository of the work tree at `root`, also if `.git` is a file.
pub(super) fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot = root.join(".git");
    if dot.is_dir() {
        return Some(dot);
    }
    let text = read(&dot)?;
    Some(root.join(text.strip_prefix("gitdir: ")?))
}

fn read(path: &Path) -> Option<String> {
    let bytes = read_regular_file(path).ok()??;
    // References that are not UTF-8 are never looked up.
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.truncate(text.trim_end().len());
    Some(text)
}

fn sha(text: &str) -> Option<String> {
    let is_sha = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_sha.then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const A: &str = "0123456789012345678901234567890123456789";
    const B: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_commit_is_found_wherever_git_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(head_sha(root), None);
        put(root, ".git/HEAD", &format!("{A}\n"));
        assert_eq!(head_sha(root).as_deref(), Some(A));
        put(root, ".git/HEAD", "ref: refs/heads/main\n");
        assert_eq!(head_sha(root), None, "no commit yet");
        put(
            root,
            ".git/packed-refs",
            &format!("# pack-refs\n{A} refs/heads/other\n{B} refs/heads/main\n"),
        );
        assert_eq!(head_sha(root).as_deref(), Some(B));
        put(root, ".git/refs/heads/main", &format!("{A}\n"));
        assert_eq!(head_sha(root).as_deref(), Some(A));
        // A linked work tree of that repository, on another branch.
        put(root, "side/.git", "gitdir: ../.git/worktrees/side\n");
        put(root, ".git/worktrees/side/HEAD", "ref: refs/heads/other\n");
        put(root, ".git/worktrees/side/commondir", "../..\n");
        assert_eq!(head_sha(&root.join("side")).as_deref(), Some(A));
        // A reference with a name that is not UTF-8, among others.
        let mut packed = fs::read(root.join(".git/packed-refs")).unwrap();
        packed.extend_from_slice(format!("{A} refs/tags/").as_bytes());
        packed.extend_from_slice(b"\xe9t\xe9\n");
        fs::write(root.join(".git/packed-refs"), packed).unwrap();
        fs::remove_file(root.join(".git/refs/heads/main")).unwrap();
        assert_eq!(head_sha(root).as_deref(), Some(B));
        put(root, ".git/HEAD", "nonsense");
        assert_eq!(head_sha(root), None);
    }

    #[test]
    fn a_repository_names_no_file_that_is_not_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        put(dir.path(), "key", A);
        put(&root, ".git/config", "");
        put(&root, ".git/refs/heads/main", A);
        put(&root, ".git/stray", A);
        for name in [
            "../../key",
            "refs/../../../key",
            "refs/heads/../../stray",
            "stray",
            "refs//heads/main",
            "refs/./heads/main",
            dir.path().join("key").to_str().unwrap(),
        ] {
            put(&root, ".git/HEAD", &format!("ref: {name}\n"));
            assert_eq!(head_sha(&root), None, "{name}");
        }
        put(&root, ".git/HEAD", "ref: refs/heads/main\n");
        assert_eq!(head_sha(&root).as_deref(), Some(A));
        #[cfg(unix)]
        for path in [".git/refs/heads/main", ".git/HEAD"] {
            use std::os::unix::fs::symlink;
            let path = root.join(path);
            fs::remove_file(&path).unwrap();
            symlink(dir.path().join("key"), &path).unwrap();
            assert_eq!(head_sha(&root), None, "{path:?}");
            fs::remove_file(&path).unwrap();
            fs::write(&path, format!("{A}\n")).unwrap();
            assert_eq!(head_sha(&root).as_deref(), Some(A));
        }
    }
}
