//! A disk in memory, which can lose its power.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::sync::{Arc, Mutex};

use super::*;
use crate::format::disk::RealDisk;

/// A disk in memory that models a power failure: any part of the unsynced data may be lost.
#[derive(Clone, Debug, Default)]
pub(super) struct MemDisk {
    state: Arc<Mutex<MemState>>,
}

#[derive(Clone, Debug, Default)]
struct MemState {
    files: Vec<MemFile>,
    /// The names that the process sees.
    names: BTreeMap<PathBuf, usize>,
    /// The names that survive.
    durable: BTreeMap<PathBuf, usize>,
    /// Changes of names that may survive or not, in order.
    pending: Vec<Change>,
}

#[derive(Clone, Debug, Default)]
struct MemFile {
    content: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Create(path, file) => {
                names.insert(path.clone(), *file);
            }
            Self::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

impl MemDisk {
    fn change(&self, change: Change) {
        let mut state = self.state.lock().unwrap();
        change.apply(&mut state.names);
        state.pending.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let state = self.state.lock().unwrap();
        let found = state.names.get(path).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns every possible content of `path` after a power failure now.
    pub(super) fn after_power_loss(&self, path: &Path) -> Vec<Option<Vec<u8>>> {
        let state = self.state.lock().unwrap();
        let mut outcomes = Vec::new();
        for survives in 0_u32..1 << state.pending.len() {
            let mut names = state.durable.clone();
            for (index, change) in state.pending.iter().enumerate() {
                if survives >> index & 1 == 1 {
                    change.apply(&mut names);
                }
            }
            match names.get(path) {
                None => outcomes.push(None),
                Some(file) => {
                    let MemFile { content, durable } = &state.files[*file];
                    outcomes.push(Some(durable.clone()));
                    outcomes.push(Some(content.clone()));
                    if content != durable {
                        // The length was written, the bytes were not.
                        outcomes.push(Some(vec![0; content.len()]));
                    }
                }
            }
        }
        outcomes
    }
}

impl Disk for MemDisk {
    // Supports only the operations that publishing uses.
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        RealDisk.open(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        RealDisk.open_lock(path, exclusive)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        if self.find(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let index = {
            let mut state = self.state.lock().unwrap();
            state.files.push(MemFile::default());
            state.files.len() - 1
        };
        self.change(Change::Create(path.to_path_buf(), index));
        Ok(Box::new(MemHandle {
            disk: self.clone(),
            index,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        self.change(Change::Rename(from.to_path_buf(), to.to_path_buf(), file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        self.change(Change::Remove(path.to_path_buf()));
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.durable = state.names.clone();
        state.pending.clear();
        Ok(())
    }

    fn names(&self, _dir: &Path) -> io::Result<Vec<OsString>> {
        let state = self.state.lock().unwrap();
        let names = state.names.keys().filter_map(|path| path.file_name());
        Ok(names.map(OsString::from).collect())
    }
}

struct MemHandle {
    disk: MemDisk,
    index: usize,
}

impl Write for MemHandle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state.lock().unwrap();
        state.files[self.index].content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemHandle {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state.lock().unwrap();
        let file = &mut state.files[self.index];
        file.durable = file.content.clone();
        Ok(())
    }
}
