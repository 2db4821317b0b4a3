//! Reopening files that a search found, for example for a preview.
//!
//! This module owns the check that the opened file is the one that was found. Another file or a
//! link may have replaced it since, so paths are opened below a root without following links.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use encoding_rs_io::DecodeReaderBytesBuilder;

use crate::index::root_dir::RootDir;

/// The directories that contain the files of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tool::cli) struct Roots {
    /// The start of relative paths.
    first: PathBuf,
    /// Further directories, for absolute paths.
    others: Vec<PathBuf>,
}

impl Roots {
    /// Creates the roots. Relative paths start at `first`; absolute paths lie in `first` or in one
    /// of `others`.
    pub(in crate::tool::cli) fn new(first: &Path, others: &[PathBuf]) -> Roots {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let first = real(first);
        let others = others.iter().map(|other| real(&first.join(other)));
        Roots {
            others: others.collect(),
            first,
        }
    }

    /// Opens a file of an answer. Links are followed only with `follow`, and only within a root.
    ///
    /// # Errors
    ///
    /// The file does not exist any more, or lies outside of the roots.
    pub(in crate::tool::cli) fn open(&self, path: &Path, follow: bool) -> io::Result<File> {
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
                "now leads out of the searched directories",
            ));
        };
        RootDir::open(&root)?.open_file(&rel)
    }

    /// Opens a file by its displayed name, and returns its real name too.
    ///
    /// # Errors
    ///
    /// The file does not exist any more, or several files have the same displayed name.
    pub(in crate::tool::cli) fn find(&self, shown: &str) -> io::Result<(PathBuf, File)> {
        let name = name(&self.first, shown)?;
        let file = self.open(&name, false)?;
        Ok((name, file))
    }
}

/// Returns a reader of the text that a search sees. A file with a byte order mark is decoded.
pub(in crate::tool::cli) fn text(file: File) -> impl Read {
    DecodeReaderBytesBuilder::new()
        .utf8_passthru(true)
        .strip_bom(true)
        .build(file)
}

/// Returns the real name, relative to `root`, for a displayed path. They differ for names that are
/// not UTF-8, which are displayed with U+FFFD. For each such component, reads its directory.
///
/// # Errors
///
/// No file has this displayed name any more, or several have it.
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
                    "its name is not UTF-8, and another file's name is displayed the same way",
                ));
            }
            meant = Some(entry.file_name());
        }
        whole.push(meant.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?);
    }
    Ok(whole)
}
