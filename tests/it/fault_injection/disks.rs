//! Disks for tests: one that fails at chosen operations, and one that records its operations.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forge_search::internal::format::disk::{Disk, DiskFile, RealDisk};

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Failure {
    /// An error of the system, by its number.
    Error(i32),
    /// A write takes only a part of its bytes. Other operations succeed.
    ShortWrite,
}

/// The operations that fail: the one with number `at`, counted from 0, or also all later ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) from_then_on: bool,
    pub(super) failure: Failure,
}

/// A disk that fails at chosen operations.
#[derive(Debug)]
pub(super) struct Faulty(Arc<Mutex<Steps>>);

/// A disk that calls a function before it opens a file.
pub(super) struct Overtaken<F>(pub(super) F);

impl<F> std::fmt::Debug for Overtaken<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Overtaken")
    }
}

impl<F: Fn(&Path) + Send + Sync> Disk for Overtaken<F> {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.0(path);
        RealDisk.open(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        RealDisk.open_lock(path, exclusive)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.create_new(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        RealDisk.names(dir)
    }
}

#[derive(Debug)]
struct Steps {
    fault: Option<Fault>,
    done: Vec<String>,
    /// True if the last write was interrupted. The next write is not, or the caller would retry for
    /// ever.
    interrupted: bool,
}

impl Faulty {
    pub(super) fn new(fault: Option<Fault>) -> Arc<Faulty> {
        Arc::new(Faulty(Arc::new(Mutex::new(Steps {
            fault,
            done: Vec::new(),
            interrupted: false,
        }))))
    }

    /// Returns the operations that were tried so far.
    pub(super) fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().done.clone()
    }

    fn step(&self, what: &str, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.0.lock().unwrap().step(format!("{what} {name}"))
    }
}

impl Steps {
    /// Records an operation. Fails if the fault says so.
    fn step(&mut self, what: String) -> io::Result<()> {
        match self.failing(what) {
            Some(Failure::Error(code)) => Err(io::Error::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }

    fn failing(&mut self, what: String) -> Option<Failure> {
        let now = self.done.len();
        self.done.push(what);
        let fault = self.fault?;
        let fails = now == fault.at || fault.from_then_on && now > fault.at;
        fails.then_some(fault.failure)
    }
}

impl Disk for Faulty {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.step("make", dir)?;
        RealDisk.make_dir(dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.step("remove", dir)?;
        RealDisk.remove_dir(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        self.step("open", path)?;
        RealDisk.open(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        self.step("open", path)?;
        RealDisk.open_lock(path, exclusive)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step("create", path)?;
        let inner = RealDisk.create_new(path)?;
        let steps = Arc::clone(&self.0);
        Ok(Box::new(FaultyFile { inner, steps }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", to)?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step("remove", path)?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // Syncs nothing: these tests do not need the real sync, which is slow.
        self.step("sync", dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.step("list", dir)?;
        RealDisk.names(dir)
    }
}

struct FaultyFile {
    inner: Box<dyn DiskFile>,
    steps: Arc<Mutex<Steps>>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let half = bytes.len().div_ceil(2);
        let mut steps = self.steps.lock().unwrap();
        match steps.failing("write".to_string()) {
            Some(Failure::ShortWrite) => self.inner.write(&bytes[..half]),
            Some(Failure::Error(code)) => {
                let error = io::Error::from_raw_os_error(code);
                if error.kind() == io::ErrorKind::Interrupted {
                    steps.interrupted = !steps.interrupted;
                    if !steps.interrupted {
                        return self.inner.write(bytes);
                    }
                } else {
                    // A failed write may have written a part.
                    self.inner.write_all(&bytes[..half])?;
                }
                Err(error)
            }
            None => self.inner.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl DiskFile for FaultyFile {
    fn sync(&mut self) -> io::Result<()> {
        self.steps.lock().unwrap().step("sync".to_string())
    }

    fn seal(&mut self) {
        self.inner.seal();
    }
}

/// An operation on a disk.
#[derive(Clone, Debug)]
pub(super) enum Op {
    MakeDir(PathBuf),
    RemoveDir(PathBuf),
    /// Creates a file, which gets a number.
    Create(PathBuf, usize),
    Write(usize, Vec<u8>),
    Sync(usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir(PathBuf),
}

/// The syncs that a [`Recording`] disk does not record, as if the program had forgotten them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Forgotten {
    Nothing,
    /// The syncs of files.
    Sync,
    /// The syncs of directories.
    SyncDir,
}

/// A disk that records its operations and performs them.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    log: Arc<Mutex<Log>>,
    forgotten: Forgotten,
}

#[derive(Debug, Default)]
struct Log {
    ops: Vec<Op>,
    files: usize,
}

impl Recording {
    pub(super) fn new(forgotten: Forgotten) -> Recording {
        let log = Arc::default();
        Recording { log, forgotten }
    }

    /// Returns the operations that were done so far.
    pub(super) fn ops(&self) -> Vec<Op> {
        self.log.lock().unwrap().ops.clone()
    }

    fn note(&self, op: Op) {
        self.log.lock().unwrap().ops.push(op);
    }

    fn new_file(&self) -> usize {
        let mut log = self.log.lock().unwrap();
        log.files += 1;
        log.files - 1
    }
}

impl Disk for Recording {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
        RealDisk.make_dir(dir)?;
        for made in missing.into_iter().rev() {
            self.note(Op::MakeDir(made.to_path_buf()));
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir(dir)?;
        self.note(Op::RemoveDir(dir.to_path_buf()));
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        RealDisk.open(path)
    }

    fn open_lock(&self, path: &Path, exclusive: bool) -> io::Result<File> {
        let made = !path.exists();
        let file = RealDisk.open_lock(path, exclusive)?;
        if made {
            self.note(Op::Create(path.to_path_buf(), self.new_file()));
        }
        Ok(file)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let inner = RealDisk.create_new(path)?;
        let number = self.new_file();
        self.note(Op::Create(path.to_path_buf(), number));
        let disk = self.clone();
        Ok(Box::new(RecordingFile {
            inner,
            disk,
            number,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)?;
        self.note(Op::Rename(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)?;
        self.note(Op::Remove(path.to_path_buf()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.forgotten != Forgotten::SyncDir {
            self.note(Op::SyncDir(dir.to_path_buf()));
        }
        Ok(())
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        RealDisk.names(dir)
    }
}

struct RecordingFile {
    inner: Box<dyn DiskFile>,
    disk: Recording,
    number: usize,
}

impl Write for RecordingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        let bytes = bytes[..written].to_vec();
        self.disk.note(Op::Write(self.number, bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl DiskFile for RecordingFile {
    fn sync(&mut self) -> io::Result<()> {
        if self.disk.forgotten != Forgotten::Sync {
            self.disk.note(Op::Sync(self.number));
        }
        Ok(())
    }

    fn seal(&mut self) {
        self.inner.seal();
    }
}

/// The contents of a directory and of those below it, by path. A directory has no content.
pub(super) type Image = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Reads a directory and those below it. The image has the paths unchanged. A running program may
/// rename files meanwhile: then the directory is read again.
pub(super) fn image_of(dir: &Path) -> Image {
    for _ in 0..1_000 {
        match try_image_of(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            image => return image.unwrap(),
        }
    }
    panic!("files of {} vanish all the time", dir.display());
}

fn try_image_of(dir: &Path) -> io::Result<Image> {
    let mut image = Image::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                image.insert(path.clone(), None);
                dirs.push(path);
            } else {
                let content = std::fs::read(&path)?;
                image.insert(path, Some(content));
            }
        }
    }
    Ok(image)
}
