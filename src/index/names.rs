//! File names as bytes, the form in which an index stores them.
//!
//! The conversion is lossless. On Unix every name can be stored. Elsewhere a name that is not valid
//! Unicode can't be stored, and the caller has to report that.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// Returns the bytes under which a name is stored.
pub(crate) fn name_bytes(name: &OsStr) -> &[u8] {
    name.as_encoded_bytes()
}

/// Returns true if ripgrep hides a file or directory of this name: the name starts with a dot.
/// ripgrep 15.2 does not hide names that also end with a dot, such as `...`.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    let name = name_bytes(name);
    name.starts_with(b".") && !name.ends_with(b".")
}

/// Returns true if the stored bytes convert back to the name.
pub(super) fn can_be_kept(name: &OsStr) -> bool {
    cfg!(unix) || name.to_str().is_some()
}

/// Returns the name stored as `bytes`; `None` for bytes that are no name on this system.
pub(crate) fn name_from_bytes(bytes: &[u8]) -> Option<&OsStr> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Some(OsStr::from_bytes(bytes))
    }
    #[cfg(not(unix))]
    {
        std::str::from_utf8(bytes).ok().map(OsStr::new)
    }
}

/// Returns a number of paths in words: `1 file or directory`, `2 files or directories`.
pub(crate) fn files_or_directories(count: u64) -> String {
    match count {
        1 => "1 file or directory".to_string(),
        count => format!("{count} files or directories"),
    }
}

/// Returns the message for paths that could not be listed. `when` is empty, or says when that was.
pub(crate) fn unlisted(count: u64, when: &str) -> String {
    let them = if count == 1 { "it" } else { "them" };
    format!(
        "{} could not be listed{when}, and may hide further files; make {them} readable, or deny \
         {them}",
        files_or_directories(count)
    )
}

/// Returns a path as answers and messages show it, with U+FFFD for invalid UTF-8. For Windows with
/// forward slashes, and without the prefix of a resolved path: `C:/tree`.
pub(crate) fn shown(path: &Path) -> Cow<'_, str> {
    let text = path.to_string_lossy();
    match cfg!(windows) {
        true => without_verbatim_prefix(&text).into(),
        false => text,
    }
}

/// Converts a path of Windows to forward slashes. Removes the prefix `\\?\` of a resolved path.
pub(crate) fn without_verbatim_prefix(path: &str) -> String {
    let slashed = path.replace('\\', "/");
    if let Some(share) = slashed.strip_prefix("//?/UNC/") {
        return format!("//{share}");
    }
    slashed
        .strip_prefix("//?/")
        .map_or_else(|| slashed.clone(), str::to_owned)
}

/// Returns true for a name that the catalog can't hold. External programs receive paths as lines,
/// and some of them treat a carriage return as part of the line end.
pub(super) fn has_line_break(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_and_a_carriage_return_are_line_breaks_in_names() {
        for (name, expected) in [("a\nb", true), ("\r", true), ("é", false), ("", false)] {
            assert_eq!(has_line_break(OsStr::new(name)), expected, "{name:?}");
        }
    }

    #[test]
    fn names_between_two_dots_are_not_hidden() {
        for (name, expected) in [(".a", true), ("a.", false), (".a.", false), ("...", false)] {
            assert_eq!(is_hidden(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn windows_paths_lose_their_verbatim_prefix() {
        assert_eq!(without_verbatim_prefix(r"\\?\C:\a\b"), "C:/a/b");
        assert_eq!(
            without_verbatim_prefix(r"\\?\UNC\server\share\x"),
            "//server/share/x"
        );
        assert_eq!(without_verbatim_prefix(r"C:\a"), "C:/a");
    }

    #[test]
    fn names_come_back() {
        for name in ["", "a", "é", "\u{1F600} x"] {
            let name = OsStr::new(name);
            assert!(can_be_kept(name));
            assert_eq!(name_from_bytes(name_bytes(name)), Some(name));
        }
        #[cfg(unix)]
        assert_eq!(
            name_from_bytes(b"\xFF").map(|name| name_bytes(name).to_vec()),
            Some(b"\xFF".to_vec())
        );
    }
}
