//! The configuration file of a client: reading it, keeping a copy, and replacing it.
//!
//! This module guarantees that a reader sees the old file or the new one. A link stays a link: its
//! target is replaced. Owner and permissions stay.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::tool::error::ToolError;

/// The ending of the copy that is kept beside a changed file.
const BACKUP: &str = "before-forge-search";

/// Who may read a file that did not exist.
#[derive(Clone, Copy)]
pub(super) enum NewFile {
    /// The user: clients keep secrets in it later.
    Private,
    /// Everyone who may read other new files of the user.
    Shared,
}

/// A configuration file, which need not exist.
pub(super) struct ClientFile {
    /// The file itself, not a link to it.
    pub(super) path: PathBuf,
    /// The content; `None` if there is no file.
    pub(super) text: Option<String>,
}

impl ClientFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If the file can't be read, is no UTF-8, or is a link that leads nowhere.
    pub(super) fn read(path: &Path) -> Result<ClientFile, ToolError> {
        let path = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_ok() {
                    return Err(failed(
                        path,
                        "the link leads to no file; remove it, or create its target",
                    ));
                }
                let path = path.to_path_buf();
                return Ok(ClientFile { path, text: None });
            }
            Err(error) => return Err(failed(path, error)),
        };
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        let text =
            String::from_utf8(bytes).map_err(|_| failed(&path, "the file is no UTF-8 text"))?;
        let text = Some(text);
        Ok(ClientFile { path, text })
    }

    /// Returns the path of the copy.
    fn backup(&self) -> PathBuf {
        self.path.with_added_extension(BACKUP)
    }

    /// Returns the content of the copy, if there is one.
    pub(super) fn backup_text(&self) -> Option<String> {
        fs::read_to_string(self.backup()).ok()
    }

    /// Keeps a copy of the file, and returns its path. An older copy is replaced or removed if
    /// `is_original` is true, and stays otherwise.
    pub(super) fn back_up(&self, is_original: bool) -> Result<Option<PathBuf>, ToolError> {
        let backup = self.backup();
        let has_older = backup.symlink_metadata().is_ok();
        match &self.text {
            _ if has_older && !is_original => Ok(None),
            Some(text) => {
                replace(&backup, text, self.metadata()?.as_ref(), NewFile::Shared)?;
                Ok(Some(backup))
            }
            None => {
                self.remove_backup()?;
                Ok(None)
            }
        }
    }

    /// Removes the copy, if there is one.
    pub(super) fn remove_backup(&self) -> Result<(), ToolError> {
        let backup = self.backup();
        match fs::remove_file(&backup) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&backup, error)),
            _ => Ok(()),
        }
    }

    /// Refuses a file that its owner has protected. Replacing would not need the permission.
    pub(super) fn check_writable(&self) -> Result<(), ToolError> {
        match self.metadata()? {
            Some(metadata) if metadata.permissions().readonly() => Err(failed(
                &self.path,
                "the file is read-only; nothing was changed. Make it writable, or edit its source",
            )),
            _ => Ok(()),
        }
    }

    /// Replaces the content. `None` removes the file.
    ///
    /// # Errors
    ///
    /// If the file was changed after it was read, or if the system refuses an operation.
    pub(super) fn replace(&self, text: Option<&str>, new: NewFile) -> Result<(), ToolError> {
        if ClientFile::read(&self.path)?.text != self.text {
            return Err(failed(
                &self.path,
                "another program has just changed the file; run the command again",
            ));
        }
        match text {
            Some(text) => replace(&self.path, text, self.metadata()?.as_ref(), new),
            None => fs::remove_file(&self.path).map_err(|error| failed(&self.path, error)),
        }
    }

    fn metadata(&self) -> Result<Option<Metadata>, ToolError> {
        if self.text.is_none() {
            return Ok(None);
        }
        let metadata = fs::metadata(&self.path).map_err(|error| failed(&self.path, error))?;
        Ok(Some(metadata))
    }
}

/// Writes a file under another name, and renames it. Creates missing directories.
fn replace(
    path: &Path,
    text: &str,
    like: Option<&Metadata>,
    new: NewFile,
) -> Result<(), ToolError> {
    let write = || -> io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let mut new = create(dir, new)?;
        if let Some(like) = like {
            keep_owner(new.as_file(), like)?;
            new.as_file().set_permissions(like.permissions())?;
        }
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(path)?;
        Ok(())
    };
    write().map_err(|error| failed(path, error))
}

/// Creates a file. The system removes permissions that the user's new files don't have.
fn create(dir: &Path, new: NewFile) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".forge-search-");
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(match new {
        NewFile::Private => 0o600,
        NewFile::Shared => 0o666,
    });
    #[cfg(not(unix))]
    let _ = new;
    #[cfg(unix)]
    builder.permissions(permissions);
    builder.tempfile_in(dir)
}

#[cfg(unix)]
fn keep_owner(file: &File, like: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (like.uid(), like.gid()) {
        return Ok(());
    }
    fchown(file, Some(like.uid()), Some(like.gid()))
}

#[cfg(not(unix))]
fn keep_owner(_file: &File, _like: &Metadata) -> io::Result<()> {
    Ok(())
}

fn failed(path: &Path, why: impl std::fmt::Display) -> ToolError {
    ToolError::bad_args(format!("{}: {why}", path.display()))
}
