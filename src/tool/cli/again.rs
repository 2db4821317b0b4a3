//! Files that were found, looked into once more.
//!
//! Owns that only the file is opened that was meant: what has come to its place since may lead anywhere.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use encoding_rs_io::DecodeReaderBytesBuilder;

use crate::index::beneath::RootDir;

/// What the paths of an answer are relative to, and where all of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roots {
    /// Relative paths start here.
    first: PathBuf,
    /// Absolute paths are in one of these.
    others: Vec<PathBuf>,
}

impl Roots {
    /// Relative paths start at `first`; absolute ones are there or in one of `others`.
    pub(super) fn new(first: &Path, others: &[PathBuf]) -> Roots {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let first = real(first);
        let others = others.iter().map(|other| real(&first.join(other)));
        Roots {
            others: others.collect(),
            first,
        }
    }

    /// Opens a file that was found. Only with `follow` a link may lead there, within a root.
    ///
    /// # Errors
    ///
    /// It is none any more.
    pub(super) fn open(&self, path: &Path, follow: bool) -> io::Result<File> {
        let whole = self.first.join(path);
        let real = match follow {
            true => whole.canonicalize()?,
            false => whole,
        };
        let within = |root: &PathBuf| {
            let rel = real.strip_prefix(root).ok()?;
            Some((root.clone(), rel.to_path_buf()))
        };
        let all = [&self.first].into_iter().chain(&self.others);
        let Some((root, rel)) = all.filter_map(within).next() else {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "leads out of where was searched by now",
            ));
        };
        RootDir::open(&root)?.open_file(&rel)
    }

    /// Opens a file by what its name is shown as, and returns the name, too.
    ///
    /// # Errors
    ///
    /// It is none any more, or it can't be told which one was meant.
    pub(super) fn find(&self, shown: &str) -> io::Result<(PathBuf, File)> {
        let name = name(&self.first, shown)?;
        let file = self.open(&name, false)?;
        Ok((name, file))
    }
}

/// Returns what is searched of a file: its text, decoded if it begins with a byte order mark.
pub(super) fn text(file: File) -> impl Read {
    DecodeReaderBytesBuilder::new()
        .utf8_passthru(true)
        .strip_bom(true)
        .build(file)
}

/// Returns the name, relative to `root`, that is shown as `path`; it is another one if it is not UTF-8. Costs a look into each directory of such a name.
///
/// # Errors
///
/// There is none any more, or there are several.
fn name(root: &Path, path: &str) -> io::Result<PathBuf> {
    let mut whole = PathBuf::new();
    if !path.contains(char::REPLACEMENT_CHARACTER) {
        whole.push(path);
        return Ok(whole);
    }
    for component in Path::new(path).components() {
        let shown = component.as_os_str().to_string_lossy();
        if !shown.contains(char::REPLACEMENT_CHARACTER) {
            whole.push(component);
            continue;
        }
        let mut meant: Option<OsString> = None;
        for entry in fs::read_dir(root.join(&whole))? {
            let entry = entry?;
            let is_same = entry.file_name().to_string_lossy() == shown;
            if !is_same || entry.file_type()?.is_symlink() {
                continue;
            }
            if meant.is_some() {
                return Err(io::Error::other(
                    "its name is not UTF-8, and another one is shown in the same way",
                ));
            }
            meant = Some(entry.file_name());
        }
        whole.push(meant.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?);
    }
    Ok(whole)
}
