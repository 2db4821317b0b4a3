//! Directories that must not change while they are read.
//!
//! A file that is moved to another directory during a search is found twice, or not at all. So the
//! state of each directory is recorded before it is listed, and compared at the end.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::{SETTLING, unavailable, unsettled};
use crate::index::root_dir::{EntryMeta, RawEntry, RootDir};
use crate::tool::executor::failure::Reason;

/// A directory, by its number.
pub(super) type Id = usize;

/// The directories below one root. Each takes a few bytes more than its name, since there may be
/// very many.
#[derive(Debug)]
pub(super) struct Dirs<'a> {
    root: &'a RootDir,
    names: Vec<u8>,
    all: Vec<Dir>,
}

#[derive(Debug)]
struct Dir {
    parent: u32,
    /// The end of the name, which starts at the end of the previous one.
    name: usize,
    /// The state when the directory was listed.
    was: Option<State>,
}

/// A hash of the compared parts of a directory's state; 0 if the directory does not exist.
type State = u64;

impl<'a> Dirs<'a> {
    /// The root itself.
    pub(super) const ROOT: Id = 0;

    pub(super) fn of(root: &'a RootDir) -> Dirs<'a> {
        let itself = Dir {
            parent: 0,
            name: 0,
            was: None,
        };
        Dirs {
            root,
            names: Vec::new(),
            all: vec![itself],
        }
    }

    /// Adds a directory.
    ///
    /// # Errors
    ///
    /// [`Reason::Memory`] if there are too many.
    pub(super) fn add(&mut self, parent: Id, name: &OsStr) -> Result<Id, Reason> {
        self.names.extend_from_slice(name.as_bytes());
        self.all.push(Dir {
            parent: u32::try_from(parent).map_err(|_| Reason::Memory)?,
            name: self.names.len(),
            was: None,
        });
        Ok(self.all.len() - 1)
    }

    /// Returns the path of a directory, relative to the root.
    pub(super) fn path(&self, mut id: Id) -> PathBuf {
        let mut names = Vec::new();
        while id != Self::ROOT {
            let start = self.all[id - 1].name;
            names.push(OsStr::from_bytes(&self.names[start..self.all[id].name]));
            id = self.all[id].parent as usize;
        }
        names.into_iter().rev().collect()
    }

    /// Lists a directory and records its state; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The directory can't be listed, or it keeps changing.
    pub(super) fn list(&mut self, id: Id) -> Result<Option<Vec<RawEntry>>, Reason> {
        let path = self.path(id);
        let mut tries = SETTLING;
        let state = loop {
            let meta = meta(self.root, &path)?;
            let last = meta
                .as_ref()
                .map(|meta| meta.changed_ns.unwrap_or(meta.modified_ns));
            let Some(rest) = last.and_then(unsettled) else {
                break state(meta.as_ref());
            };
            if tries == 0 {
                return Err(Reason::SourceChanged);
            }
            tries -= 1;
            std::thread::sleep(rest);
        };
        self.all[id].was = Some(state);
        match self.root.open_dir_entries(&path) {
            Ok(entries) => Ok(Some(entries)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// Checks that all listed directories are unchanged.
    ///
    /// # Errors
    ///
    /// [`Reason::SourceChanged`] if one has changed.
    pub(super) fn unchanged(&self) -> Result<(), Reason> {
        for (id, dir) in self.all.iter().enumerate() {
            let Some(was) = dir.was else { continue };
            let is = meta(self.root, &self.path(id)).map(|meta| state(meta.as_ref()));
            if is != Ok(was) {
                return Err(Reason::SourceChanged);
            }
        }
        Ok(())
    }
}

fn meta(root: &RootDir, path: &Path) -> Result<Option<EntryMeta>, Reason> {
    match root.metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unavailable(&error)),
    }
}

fn state(meta: Option<&EntryMeta>) -> State {
    let Some(meta) = meta else { return 0 };
    let (device, inode) = meta.identity.map_or((0, 0), |one| (one.device, one.inode));
    let numbers = [
        i128::from(device),
        i128::from(inode),
        meta.modified_ns,
        meta.changed_ns.unwrap_or_default(),
    ];
    xxh3_64(&numbers.map(i128::to_le_bytes).concat())
}
