//! Decides whether ripgrep reads the same rules from a file, without a message about the file.
//!
//! This module compares how this program and ripgrep read an ignore file or find a repository. It
//! decides about each file alone; the precedence among files is the same in both programs.

use std::path::Path;

use ignore::gitignore::GitignoreBuilder;

use super::file::MAX_LINES;
use super::{IGNORE_FILE_LIMIT, read_regular_file};
use crate::format::manifest::InputKind;

/// Returns whether ripgrep reads the same rules from an eligibility input of this kind, and reports
/// no problem of it. Reads an ignore file.
///
/// A `.git` that is a file leads to another `info/exclude` in ripgrep.
pub(crate) fn reads(path: &Path, kind: InputKind) -> bool {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(".git") => kind == InputKind::Directory,
        Some(".jj") => true,
        _ => kind == InputKind::File && is_plain(path),
    }
}

/// Returns whether the patterns of git's global excludes mean the same in both programs. ripgrep
/// has them start at the working directory, and this program at the top of a repository. So no
/// pattern may be relative to a directory.
#[cfg(feature = "cli")]
pub(crate) fn reads_excludes(path: &Path) -> bool {
    let is_relative = |text: &[u8]| {
        text.split(|byte| *byte == b'\n').any(|line| {
            let line = line.trim_ascii_end();
            line.strip_suffix(b"/").unwrap_or(line).contains(&b'/')
        })
    };
    let text = read_regular_file(path).ok().flatten();
    text.is_some_and(|text| !is_relative(&text)) && is_plain(path)
}

/// Returns whether all lines of a file are used, none of them is malformed, and all can be compiled
/// together.
fn is_plain(path: &Path) -> bool {
    let Ok(Some(text)) = read_regular_file(path) else {
        return false;
    };
    let lines = text.split(|byte| *byte == b'\n').count();
    if text.len() as u64 >= IGNORE_FILE_LIMIT || lines > MAX_LINES {
        return false;
    }
    let mut builder = GitignoreBuilder::new("/");
    builder.add(path).is_none() && builder.build().is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_ripgrep_complains_about_or_reads_in_part_is_read_differently() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".ignore");
        let many = "a\n".repeat(MAX_LINES + 1);
        for (text, expected) in [
            (&b""[..], true),
            (b"*.o\n!keep.o\r\n# [\n\n/build/\n", true),
            ("\u{feff}*.o\n".as_bytes(), true),
            (b"*.o\n[\n", true),
            (b"*.o\n[z-a]\n", false),
            (b"*.o\n\xff\n", false),
            (many.as_bytes(), false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(reads(&path, InputKind::File), expected, "{text:?}");
            assert!(!reads(&path, InputKind::Other));
        }
        assert!(!reads(&dir.path().join("absent"), InputKind::File));
    }

    #[test]
    fn a_repository_has_to_be_a_directory() {
        let git = Path::new("/r/.git");
        assert!(reads(git, InputKind::Directory));
        assert!(!reads(git, InputKind::File));
        assert!(reads(Path::new("/r/.jj"), InputKind::File));
    }

    #[cfg(feature = "cli")]
    #[test]
    fn global_excludes_must_not_name_directories_above() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ignore");
        for (text, expected) in [
            ("*.swp\n.idea/\n", true),
            ("a/b\n", false),
            ("/a\n", false),
            ("[z-a]\n", false),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(reads_excludes(&path), expected, "{text}");
        }
        assert!(!reads_excludes(&dir.path().join("absent")));
    }
}
