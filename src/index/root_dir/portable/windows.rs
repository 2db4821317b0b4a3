//! Metadata of Windows, read from an open handle.
//!
//! This module guarantees the kind, the length, the time of writing, and where the filesystem has
//! them the identity and the number of links. Junctions and symbolic links are links. Handles are
//! shared, so that no other program is kept from writing, renaming or deleting.
//!
//! Two facts are missing. Windows keeps the time of the last change of a file, but neither the
//! standard library nor an established safe library returns it. And the number of a file has 64
//! bits here, which may repeat on ReFS.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

use super::{EntryMeta, FileIdentity, meta_of};

/// The right to read the attributes of a file (`FILE_READ_ATTRIBUTES`). Even a file that another
/// program has locked grants it.
const READ_ATTRIBUTES: u32 = 0x80;

/// Allows opening directories (`FILE_FLAG_BACKUP_SEMANTICS`).
const ALSO_DIRECTORIES: u32 = 0x0200_0000;

/// Opens a link itself, not its target (`FILE_FLAG_OPEN_REPARSE_POINT`).
const LINK_ITSELF: u32 = 0x0020_0000;

/// Opens a file for reading. A link at the end of the path is opened itself, and is no regular
/// file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(LINK_ITSELF).open(path)
}

/// Returns the metadata at `path`. A link at its end is followed only with `follow`.
pub(super) fn metadata(path: &Path, follow: bool) -> io::Result<EntryMeta> {
    let link = if follow { 0 } else { LINK_ITSELF };
    let mut options = OpenOptions::new();
    options.access_mode(READ_ATTRIBUTES);
    let file = options.custom_flags(ALSO_DIRECTORIES | link).open(path)?;
    metadata_of(&file)
}

/// Returns the metadata of an open file.
pub(super) fn metadata_of(file: &File) -> io::Result<EntryMeta> {
    let mut meta = meta_of(&file.metadata()?);
    // Some network filesystems don't report these.
    if let Ok(info) = winapi_util::file::information(file) {
        meta.links = info.number_of_links();
        meta.identity = Some(FileIdentity {
            device: info.volume_serial_number(),
            inode: info.file_index(),
        });
    }
    Ok(meta)
}
