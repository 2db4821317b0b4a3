//! Metadata from the standard library alone.
//!
//! This module guarantees the kind, the length and the time of writing. Files have no identity and
//! no time of change here, so an index that is built here proves nothing.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::{EntryMeta, meta_of};

/// Opens a file for reading.
pub(super) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the metadata at `path`. A link at its end is followed only with `follow`.
pub(super) fn metadata(path: &Path, follow: bool) -> io::Result<EntryMeta> {
    let meta = match follow {
        true => fs::metadata(path),
        false => fs::symlink_metadata(path),
    };
    meta.map(|meta| meta_of(&meta))
}

/// Returns the metadata of an open file.
pub(super) fn metadata_of(file: &File) -> io::Result<EntryMeta> {
    file.metadata().map(|meta| meta_of(&meta))
}
