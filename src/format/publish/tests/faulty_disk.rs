//! A disk that fails at a chosen step.

use std::ffi::OsString;
use std::fs::File;
use std::sync::{Arc, Mutex};

use super::*;

/// The behavior of a [`Faulty`] disk at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// Fails once, as with a full disk. Later operations work.
    Once,
    /// Fails, and so does every later operation: the process was killed.
    Crash,
    /// Fails, and removing files fails too.
    CannotRemove,
}

/// A disk that fails at the operation with a given number, counted from 0.
#[derive(Debug)]
pub(super) struct Faulty<'a> {
    inner: &'a dyn Disk,
    state: Arc<Mutex<FaultState>>,
}

#[derive(Debug)]
struct FaultState {
    at: usize,
    fault: Fault,
    done: Vec<&'static str>,
}

impl FaultState {
    pub(super) fn step(&mut self, what: &'static str) -> io::Result<()> {
        let now = self.done.len();
        self.done.push(what);
        let fails = match self.fault {
            Fault::Once => now == self.at,
            Fault::Crash => now >= self.at,
            Fault::CannotRemove => now == self.at || what == "remove",
        };
        if fails {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "injected"));
        }
        Ok(())
    }
}

impl<'a> Faulty<'a> {
    pub(super) fn new(inner: &'a dyn Disk, at: usize, fault: Fault) -> Self {
        let done = Vec::new();
        let state = Arc::new(Mutex::new(FaultState { at, fault, done }));
        Self { inner, state }
    }

    pub(super) fn step(&self, what: &'static str) -> io::Result<()> {
        self.state.lock().unwrap().step(what)
    }

    pub(super) fn done(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().done.clone()
    }
}

impl Disk for Faulty<'_> {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.inner.open(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        self.inner.open_lock(path, exclusive)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step("create")?;
        let inner = self.inner.create_new(path)?;
        let state = Arc::clone(&self.state);
        Ok(Box::new(FaultyFile { inner, state }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename")?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove")?;
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step("sync_dir")?;
        self.inner.sync_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.names(dir)
    }
}

struct FaultyFile {
    inner: Box<dyn DiskFile>,
    state: Arc<Mutex<FaultState>>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let step = self.state.lock().unwrap().step("write");
        // A failing write may have written half of its bytes.
        let bytes = if step.is_ok() {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        self.inner.write_all(bytes)?;
        step.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl DiskFile for FaultyFile {
    fn sync(&mut self) -> io::Result<()> {
        self.state.lock().unwrap().step("sync")?;
        self.inner.sync()
    }
}
