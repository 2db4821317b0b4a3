//! Converts paths, files and inputs to column values of the reference schema, and back.

use std::ffi::OsStr;
use std::path::{MAIN_SEPARATOR, Path};

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::format::error::FormatError;
use crate::format::manifest::{EligibilityInput, InputKind, InputStat};
use crate::format::segment::{FileRecord, StampRecord};
use crate::format::sort_key::sort_key;
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::segment::Segment;
use crate::index::token::TokenStatus;

/// Returns a name or path as a value: text if it is UTF-8, else a blob. So distinct names stay
/// distinct.
pub(super) fn text(bytes: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match std::str::from_utf8(bytes) {
        Ok(_) => ValueRef::Text(bytes),
        Err(_) => ValueRef::Blob(bytes),
    })
}

/// Returns the bytes of a value that [`text`] made.
pub(super) fn bytes_of(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
}

/// Returns the file identity of a stamp: device number and inode number, eight bytes each. `None`
/// if the platform has no such numbers.
pub(super) fn identity(stamp: &StampRecord) -> Option<[u8; 16]> {
    if (stamp.device, stamp.inode) == (0, 0) {
        return None;
    }
    let mut id = [0; 16];
    id[..8].copy_from_slice(&stamp.device.to_le_bytes());
    id[8..].copy_from_slice(&stamp.inode.to_le_bytes());
    Some(id)
}

/// Returns the device number and the inode number in a value of [`identity`].
pub(super) fn device_and_inode(id: Option<&[u8]>) -> Option<(u64, u64)> {
    let Some(id) = id else {
        return Some((0, 0));
    };
    let (device, inode) = id.split_at_checked(8)?;
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    Some((number(device)?, number(inode)?))
}

/// A row of `file_entries`, without the columns that are equal in all rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileRow {
    pub(super) rel_path: Vec<u8>,
    pub(super) sort_key: String,
    pub(super) readable: bool,
    pub(super) is_binary: bool,
    pub(super) token_status: &'static str,
    pub(super) tokenized_bytes: u64,
    pub(super) token_complete: bool,
}

/// Returns the row of a file.
pub(super) fn file_row(segment: &Segment, file: &FileRecord) -> Result<FileRow, FormatError> {
    let status = TokenStatus::ALL.get(usize::from(file.status)).copied();
    let status = status.unwrap_or(TokenStatus::Error);
    let path = segment.dir_path(file.dir)?.join(segment.name(file.name)?);
    Ok(FileRow {
        rel_path: slashed(&path),
        sort_key: sort_key(&path).into_owned(),
        readable: status != TokenStatus::Unreadable,
        is_binary: status == TokenStatus::SkippedBinary,
        // The reference schema has no value for this status.
        token_status: match status {
            TokenStatus::Withheld => TokenStatus::SkippedBinary.as_str(),
            status => status.as_str(),
        },
        tokenized_bytes: match status {
            TokenStatus::Full => file.stamp.len,
            _ => 0,
        },
        // Only such a file is excluded by a missing n-gram (FR-LSI-CAND-LIT-02).
        token_complete: file.excludable,
    })
}

/// Returns the code of a token status.
pub(super) fn status_number(name: &[u8]) -> Option<u8> {
    let mut all = TokenStatus::ALL.iter();
    let at = all.position(|status| status.as_str().as_bytes() == name)?;
    u8::try_from(at).ok()
}

/// Returns the last component of a path from [`FileRow::rel_path`].
pub(super) fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

fn slashed(path: &Path) -> Vec<u8> {
    let bytes = name_bytes(path.as_os_str());
    let slash = |&byte: &u8| match char::from(byte) {
        MAIN_SEPARATOR => b'/',
        _ => byte,
    };
    bytes.iter().map(slash).collect()
}

/// Returns the path of an input inside of the root as a relative path, and any other path
/// unchanged.
pub(super) fn relative_input<'a>(root: &[u8], path: &'a [u8]) -> &'a [u8] {
    let separator = MAIN_SEPARATOR as u8;
    let below = path.strip_prefix(root).and_then(|rest| match rest {
        [first, rest @ ..] if *first == separator => Some(rest),
        rest if root.ends_with(&[separator]) => Some(rest),
        _ => None,
    });
    match below {
        Some(rest) if !rest.is_empty() && absolute_input(root, rest) == path => rest,
        _ => path,
    }
}

/// Returns the path from which [`relative_input`] made `path`.
pub(super) fn absolute_input(root: &[u8], path: &[u8]) -> Vec<u8> {
    let name = name_from_bytes(path).unwrap_or_default();
    if path.is_empty() || Path::new(&name).is_absolute() {
        return path.to_vec();
    }
    let separator: &[u8] = match root.last() {
        Some(&last) if last == MAIN_SEPARATOR as u8 => b"",
        _ => &[MAIN_SEPARATOR as u8],
    };
    [root, separator, path].concat()
}

/// Merges adjacent inputs with the same path. A path with two entries changed during the build. It
/// gets a state that no file can have, so that a comparison always finds it changed.
pub(super) fn distinct_inputs(inputs: &[EligibilityInput]) -> Vec<EligibilityInput> {
    let mut distinct: Vec<EligibilityInput> = Vec::with_capacity(inputs.len());
    for input in inputs {
        match distinct.last_mut() {
            Some(last) if last.path == input.path => {
                last.stat = Some(InputStat {
                    kind: InputKind::File,
                    size: u64::MAX,
                    ..InputStat::default()
                });
            }
            _ => distinct.push(input.clone()),
        }
    }
    distinct
}

/// Returns the code of the file type of an input.
pub(super) fn kind_number(stat: Option<InputStat>) -> i64 {
    stat.map_or(0, |stat| i64::from(stat.kind as u8))
}

/// Returns the file type of a code from [`kind_number`].
pub(super) fn kind_of(number: i64) -> Option<Option<InputKind>> {
    match number {
        0 => Some(None),
        _ => InputKind::from_number(u8::try_from(number).ok()?).map(Some),
    }
}

/// Returns the name of a file or directory.
pub(super) fn name(bytes: &[u8]) -> Option<std::ffi::OsString> {
    name_from_bytes(bytes).map(OsStr::to_os_string)
}

/// Returns the bytes of a name.
pub(super) fn bytes(name: &OsStr) -> &[u8] {
    name_bytes(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_inside_of_the_root_are_relative_and_come_back() {
        let check = |root: &str, path: &str, expected: &str| {
            let relative = relative_input(root.as_bytes(), path.as_bytes());
            assert_eq!(relative, expected.as_bytes(), "{path} in {root}");
            let back = absolute_input(root.as_bytes(), relative);
            assert_eq!(back, path.as_bytes(), "{path} in {root}");
        };
        if MAIN_SEPARATOR != '/' {
            return;
        }
        check("/src", "/src/.gitignore", ".gitignore");
        check("/src", "/src/a/.ignore", "a/.ignore");
        check("/src", "/.gitignore", "/.gitignore");
        check("/src", "/srcs/.gitignore", "/srcs/.gitignore");
        check("/src", "/src", "/src");
        check("/src", "/src//x", "/src//x");
        check("/", "/.gitignore", ".gitignore");
        check("/", "/home/u/ignore", "home/u/ignore");
    }

    #[test]
    fn an_input_in_two_states_is_changed() {
        let input = |path: &str, size| EligibilityInput {
            path: path.as_bytes().to_vec(),
            stat: Some(InputStat {
                kind: InputKind::File,
                size,
                mtime_ns: 1,
                ctime_ns: 1,
                dev: 1,
                ino: 1,
            }),
        };
        let plain = [input("/a", 1), input("/b", 2)];
        assert_eq!(distinct_inputs(&plain), plain);
        let twice = distinct_inputs(&[input("/a", 1), input("/a", 2), input("/b", 2)]);
        assert_eq!(twice.len(), 2);
        assert_eq!(twice[0].stat.map(|stat| stat.size), Some(u64::MAX));
        assert_eq!(twice[1], plain[1]);
    }

    #[test]
    fn identities_come_back() {
        for (device, inode) in [(0, 0), (0, 7), (2049, 0), (u64::MAX, 1 << 63)] {
            let stamp = StampRecord {
                device,
                inode,
                ..StampRecord::default()
            };
            let id = identity(&stamp);
            let back = device_and_inode(id.as_ref().map(|id| &id[..]));
            assert_eq!(back, Some((device, inode)));
        }
        assert_eq!(device_and_inode(Some(b"short")), None);
        assert_eq!(device_and_inode(Some(&[0; 17])), None);
    }

    #[test]
    fn kinds_and_states_have_numbers() {
        for number in 0..5 {
            let kind = kind_of(number).unwrap();
            let stat = kind.map(|kind| InputStat {
                kind,
                ..InputStat::default()
            });
            assert_eq!(kind_number(stat), number);
        }
        assert_eq!(kind_of(5), None);
        assert_eq!(status_number(b"FULL"), Some(0));
        assert_eq!(status_number(b"full"), None);
        assert_eq!(last_component(b"a/b"), b"b");
        assert_eq!(last_component(b"b"), b"b");
    }

    #[test]
    fn what_is_no_utf_8_is_a_blob() {
        assert!(matches!(
            text(b"a"),
            ToSqlOutput::Borrowed(ValueRef::Text(b"a"))
        ));
        assert!(matches!(
            text(b"\xFF"),
            ToSqlOutput::Borrowed(ValueRef::Blob(b"\xFF"))
        ));
        assert_eq!(bytes_of(ValueRef::Blob(b"\xFF")), Some(&b"\xFF"[..]));
        assert_eq!(bytes_of(ValueRef::Null), None);
    }
}
