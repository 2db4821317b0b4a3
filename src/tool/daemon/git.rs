//! What git says of a tree, as far as two small files tell.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file of git's that are read.
const MOST: u64 = 4 << 20;

/// Returns the commit that is checked out in the repository whose work tree starts at `root`; `None` if there is none, or none yet.
/// Nothing is run, and nothing but the repository's own files is read.
pub(super) fn head_sha(root: &Path) -> Option<String> {
    let dir = git_dir(root)?;
    let head = read(&dir.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return sha(&head);
    };
    // Branches are kept with the repository that a work tree is of.
    let common = read(&dir.join("commondir")).map(|common| dir.join(common));
    let dirs = [Some(dir), common];
    dirs.iter().flatten().find_map(|dir| {
        let loose = read(&dir.join(reference)).and_then(|text| sha(&text));
        loose.or_else(|| {
            let packed = read(&dir.join("packed-refs"))?;
            let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(_, name)| *name == reference);
            found.and_then(|(text, _)| sha(text))
        })
    })
}

fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot = root.join(".git");
    if dot.is_dir() {
        return Some(dot);
    }
    let text = read(&dot)?;
    Some(root.join(text.strip_prefix("gitdir: ")?))
}

fn read(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    if !meta.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(MOST).read_to_string(&mut text).ok()?;
    text.truncate(text.trim_end().len());
    Some(text)
}

fn sha(text: &str) -> Option<String> {
    let is_sha = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_sha.then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789012345678901234567890123456789";
    const B: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn ggrep_the_commit_is_found_wherever_git_keeps_it() {
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
        // A work tree of that repository, on another branch.
        put(root, "side/.git", "gitdir: ../.git/worktrees/side\n");
        put(root, ".git/worktrees/side/HEAD", "ref: refs/heads/other\n");
        put(root, ".git/worktrees/side/commondir", "../..\n");
        assert_eq!(head_sha(&root.join("side")).as_deref(), Some(A));
        put(root, ".git/HEAD", "nonsense");
        assert_eq!(head_sha(root), None);
    }
}
