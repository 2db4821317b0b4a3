//! Names as bytes: how names of files are kept.
//!
//! Owns the conversion, which loses nothing: on Unix names are bytes; elsewhere those that are no Unicode can't
//! be kept, and who keeps them has to say so.

use std::ffi::{OsStr, OsString};

/// Returns the bytes under which a name is kept.
pub(crate) fn name_bytes(name: &OsStr) -> &[u8] {
    name.as_encoded_bytes()
}

/// Returns true if a name comes back from its bytes.
pub(super) fn can_be_kept(name: &OsStr) -> bool {
    cfg!(unix) || name.to_str().is_some()
}

/// Returns the name that is kept as `bytes`; `None` for bytes that no name of this system has.
pub(crate) fn name_from_bytes(bytes: &[u8]) -> Option<OsString> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Some(OsStr::from_bytes(bytes).to_os_string())
    }
    #[cfg(not(unix))]
    {
        std::str::from_utf8(bytes).ok().map(OsString::from)
    }
}

/// Returns true for a name that no path of the catalog has: programs are handed lists of lines, and some of them take
/// a carriage return for a part of the line's end (FR-LSI-BE-UG-03).
pub(super) fn has_line_break(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fr_lsi_be_ug_03_both_characters_are_line_breaks() {
        for (name, expected) in [("a\nb", true), ("\r", true), ("é", false), ("", false)] {
            assert_eq!(has_line_break(OsStr::new(name)), expected, "{name:?}");
        }
    }

    #[test]
    fn names_come_back() {
        for name in ["", "a", "é", "\u{1F600} x"] {
            let name = OsStr::new(name);
            assert!(can_be_kept(name));
            assert_eq!(name_from_bytes(name_bytes(name)).as_deref(), Some(name));
        }
        #[cfg(unix)]
        assert_eq!(
            name_from_bytes(b"\xFF").map(|name| name_bytes(&name).to_vec()),
            Some(b"\xFF".to_vec())
        );
    }
}
