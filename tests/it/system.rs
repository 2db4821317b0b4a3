//! What tests need of the filesystem of a system: names from bytes, links and permissions.
//!
//! On Windows, names and link targets have to be UTF-8, and permissions are not set: access control
//! lists replace them.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

#[cfg(unix)]
pub(crate) use std::os::unix::fs::symlink;

/// Returns the name that consists of `bytes`.
#[cfg(unix)]
pub(crate) fn name_of(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// Returns the name that consists of `bytes`.
#[cfg(windows)]
pub(crate) fn name_of(bytes: Vec<u8>) -> OsString {
    String::from_utf8(bytes)
        .expect("a name in UTF-8, since the system stores names as text")
        .into()
}

/// Returns a path as answers and messages show it: `C:/tree`, not `\\?\C:\tree`.
pub(crate) fn shown_path(path: &Path) -> String {
    let text = path.to_str().unwrap();
    match cfg!(windows) {
        true => text.trim_start_matches(r"\\?\").replace('\\', "/"),
        false => text.to_string(),
    }
}

/// Returns the reason why the system has no file of this name.
pub(crate) fn why_no_name(name: &[u8]) -> Option<&'static str> {
    let reserved = |byte: &u8| *byte < b' ' || b"\"*:<>?\\|".contains(byte);
    let mut parts = name.split(|byte| *byte == b'/');
    match std::str::from_utf8(name) {
        _ if cfg!(unix) => None,
        Err(_) => Some("names are valid Unicode"),
        _ if name.iter().any(reserved) => Some("a name has a reserved character"),
        _ if parts.any(|part| matches!(part, [.., b'.' | b' '])) => {
            Some("names end with neither a dot nor a blank")
        }
        _ if name.len() > 200 => Some("Wine fails for paths of more than 260 characters"),
        _ => None,
    }
}

/// Returns true if the system can create links. Wine 8 reports success, and creates none.
pub(crate) fn has_links() -> bool {
    if cfg!(unix) {
        return true;
    }
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    symlink("target", &link).is_ok() && link.is_symlink()
}

/// Creates a link. A link knows whether its target is a directory, which therefore must exist.
#[cfg(windows)]
pub(crate) fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (target, link) = (target.as_ref(), link.as_ref());
    let parent = link.parent().unwrap_or(link);
    match parent.join(target).is_dir() {
        true => std::os::windows::fs::symlink_dir(target, link),
        false => std::os::windows::fs::symlink_file(target, link),
    }
}

/// Sets the permissions of a file or directory.
#[cfg(unix)]
pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, mode)
}

/// Does nothing: access control lists take the place of permissions.
#[cfg(windows)]
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn set_mode(_path: impl AsRef<Path>, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Overwrites a part of a file in place, from the offset `at`.
pub(crate) fn overwrite(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Returns the metadata of a file that no program should change: permissions, links, identity,
/// owner and time of change.
#[cfg(unix)]
pub(crate) fn status_of(meta: &Metadata) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let (owner, group) = (meta.uid().into(), meta.gid().into());
    let changed = [meta.ctime() as u64, meta.ctime_nsec() as u64];
    let status = [meta.mode().into(), meta.nlink(), meta.ino(), owner, group];
    [&status[..], &changed].concat()
}

/// Returns the metadata of a file that no program should change: attributes and creation time.
#[cfg(windows)]
pub(crate) fn status_of(meta: &Metadata) -> Vec<u64> {
    use std::os::windows::fs::MetadataExt;
    vec![meta.file_attributes().into(), meta.creation_time()]
}

/// Creates a named pipe.
#[cfg(unix)]
pub(crate) fn fifo(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    Ok(mkfifoat(CWD, path, Mode::RWXU)?)
}

/// Fails: directories hold no pipes.
#[cfg(windows)]
pub(crate) fn fifo(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
