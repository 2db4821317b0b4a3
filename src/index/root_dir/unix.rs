//! Opening beneath a directory with `openat2`, or component by component with `openat`.
//!
//! This module owns the system calls and the wording of their failures.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::{
    DirStat, EntryKind, EntryMeta, FileIdentity, RawEntry, is_component, not_a_component,
    not_a_regular_file, symbolic_link,
};

/// Flags to open a file for reading: don't wait for the writer of a FIFO, don't become the
/// controlling terminal's process, and don't leak into a child.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Flags to open a directory that is to be listed.
const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Flags to open a directory that is only passed through. If the system supports it, this needs no
/// permission to list the directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PASS: OFlags = LIST;

/// The most attempts to open a path while other processes rename directories on it. Each attempt is
/// one system call. If all of them fail, the tree is under attack or constantly changing.
#[cfg(any(target_os = "linux", target_os = "android"))]
const TRIES: u32 = 32;

/// The open directory, and the method to resolve paths beneath it.
#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
    /// Set permanently once `openat2` is found missing or forbidden. A process can also forbid it
    /// later, by installing a filter.
    by_component: AtomicBool,
}

impl Root {
    pub(super) fn open(canonical: &Path) -> io::Result<Self> {
        let by_component = AtomicBool::new(!cfg!(any(target_os = "linux", target_os = "android")));
        let fd = Self::open_root(canonical, &by_component)?;
        Ok(Self { fd, by_component })
    }

    /// Opens the root as on a kernel without `openat2`.
    #[cfg(test)]
    pub(super) fn open_without_openat2(canonical: &Path) -> io::Result<Self> {
        let by_component = AtomicBool::new(true);
        let fd = Self::open_root(canonical, &by_component)?;
        Ok(Self { fd, by_component })
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open_root(canonical: &Path, by_component: &AtomicBool) -> io::Result<OwnedFd> {
        use rustix::fs::ResolveFlags;

        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if !by_component.load(Ordering::Relaxed) {
            match kernel::open(CWD, canonical.as_os_str().as_bytes(), PASS, resolve) {
                Err(Errno::NOSYS | Errno::PERM) if kernel::is_refused(CWD) => {
                    by_component.store(true, Ordering::Relaxed);
                }
                opened => return opened.map_err(describe),
            }
        }
        let slash = retry_on_intr(|| openat(CWD, c"/", PASS, Mode::empty())).map_err(describe)?;
        open_by_component(slash.as_fd(), canonical, PASS)
    }

    /// Without `O_PATH`, it is impossible to walk to the root through directories that can't be
    /// listed. So only the root itself is protected against replacement. Its parents are part of
    /// the user's own configuration.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn open_root(canonical: &Path, _by_component: &AtomicBool) -> io::Result<OwnedFd> {
        if std::fs::canonicalize(canonical)? != canonical {
            return Err(symbolic_link());
        }
        let flags = PASS | OFlags::NOFOLLOW;
        retry_on_intr(|| openat(CWD, canonical, flags, Mode::empty()))
            .map_err(|errno| describe_in(CWD, canonical.as_os_str(), errno))
    }

    pub(super) fn open_file(&self, rel: &Path) -> io::Result<(File, EntryMeta)> {
        let fd = self.open_at(rel, READ)?;
        let meta = meta_of(&fstat(&fd).map_err(describe)?);
        if meta.kind != EntryKind::File {
            return Err(not_a_regular_file());
        }
        Ok((File::from(fd), meta))
    }

    pub(super) fn entries(&self, rel: &Path) -> io::Result<Vec<RawEntry>> {
        let fd = self.open_at(rel, LIST)?;
        list(fd)
    }

    pub(super) fn metadata(&self, rel: &Path) -> io::Result<EntryMeta> {
        let bytes = rel.as_os_str().as_bytes();
        if is_self(bytes) {
            return Ok(meta_of(&fstat(&self.fd).map_err(describe)?));
        }
        // A single component needs no resolution.
        let (parent, name) = split(bytes);
        let held;
        let dir = if is_self(parent) {
            self.fd.as_fd()
        } else {
            held = self.open_at(Path::new(OsStr::from_bytes(parent)), PASS)?;
            held.as_fd()
        };
        statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| meta_of(&stat))
            .map_err(describe)
    }

    pub(super) fn stat_entries<'a>(
        &self,
        rel: &Path,
        names: impl Iterator<Item = &'a OsStr>,
    ) -> io::Result<DirStat> {
        let dir = self.open_at(rel, PASS)?;
        let entries = names
            .map(|name| match is_component(name) {
                true => statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| meta_of(&stat))
                    .map_err(describe),
                false => Err(not_a_component()),
            })
            .collect();
        let dir = meta_of(&fstat(&dir).map_err(describe)?);
        Ok(DirStat { dir, entries })
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open_at(&self, rel: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        use rustix::fs::ResolveFlags;

        const BENEATH: ResolveFlags = ResolveFlags::BENEATH
            .union(ResolveFlags::NO_SYMLINKS)
            .union(ResolveFlags::NO_MAGICLINKS);

        if !self.by_component.load(Ordering::Relaxed) {
            let bytes = rel.as_os_str().as_bytes();
            let name = if bytes.is_empty() { b"." } else { bytes };
            match kernel::open(self.fd.as_fd(), name, flags, BENEATH) {
                // A single file may fail with the same error, so try the root itself.
                Err(Errno::NOSYS | Errno::PERM) if kernel::is_refused(self.fd.as_fd()) => {
                    self.by_component.store(true, Ordering::Relaxed);
                }
                opened => return opened.map_err(describe),
            }
        }
        open_by_component(self.fd.as_fd(), rel, flags)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn open_at(&self, rel: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        debug_assert!(self.by_component.load(Ordering::Relaxed));
        open_by_component(self.fd.as_fd(), rel, flags)
    }

    #[cfg(test)]
    pub(super) fn resolves_by_component(&self) -> bool {
        self.by_component.load(Ordering::Relaxed)
    }
}

/// Resolution by the kernel in one call.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use rustix::fs::{ResolveFlags, openat2};

    use super::{BorrowedFd, Errno, Mode, OFlags, OwnedFd, TRIES};

    pub(super) fn open(
        dir: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut tries = TRIES;
        loop {
            match openat2(dir, path, flags, Mode::empty(), resolve) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if tries > 1 => {
                    tries -= 1;
                    std::thread::yield_now();
                }
                opened => return opened,
            }
        }
    }

    /// Returns true if the call itself is missing or forbidden, by opening a directory that is
    /// already open.
    pub(super) fn is_refused(dir: BorrowedFd<'_>) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        matches!(
            open(dir, b".", flags, ResolveFlags::BENEATH),
            Err(Errno::NOSYS | Errno::PERM)
        )
    }
}

/// Opens `rel` by opening each directory on the way, without following links.
fn open_by_component(root: BorrowedFd<'_>, rel: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut parts = rel.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let mut next = parts.find(|part| !is_self(part));
    let mut held: Option<OwnedFd> = None;
    while let Some(part) = next {
        next = parts.find(|part| !is_self(part));
        let dir = held.as_ref().map_or(root, OwnedFd::as_fd);
        let flags = OFlags::NOFOLLOW | if next.is_some() { PASS } else { flags };
        let opened = retry_on_intr(|| openat(dir, part, flags, Mode::empty()))
            .map_err(|errno| describe_in(dir, OsStr::from_bytes(part), errno))?;
        held = Some(opened);
    }
    match held {
        Some(opened) => Ok(opened),
        None => retry_on_intr(|| openat(root, c".", flags, Mode::empty())).map_err(describe),
    }
}

/// Returns true if a component, or a whole relative path, stands for its own directory.
fn is_self(part: &[u8]) -> bool {
    part.is_empty() || part == b"."
}

/// Splits a relative path before its last component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let path = &path[..end];
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn list(fd: OwnedFd) -> io::Result<Vec<RawEntry>> {
    use std::mem::MaybeUninit;

    // One system call lists several hundred names, and the longest possible name always fits.
    let mut buffer = [MaybeUninit::<u8>::uninit(); 32 * 1024];
    let mut dir = rustix::fs::RawDir::new(fd.as_fd(), &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = dir.next() {
        match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                push(&mut entries, fd.as_fd(), name, entry.file_type());
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(describe(errno)),
        }
    }
    Ok(entries)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn list(fd: OwnedFd) -> io::Result<Vec<RawEntry>> {
    // The listing owns its descriptor. Unknown kinds are looked up through another one.
    let mut dir = rustix::fs::Dir::read_from(&fd).map_err(describe)?;
    let mut entries = Vec::new();
    while let Some(entry) = dir.read() {
        match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                push(&mut entries, fd.as_fd(), name, entry.file_type());
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(describe(errno)),
        }
    }
    Ok(entries)
}

fn push(entries: &mut Vec<RawEntry>, dir: BorrowedFd<'_>, name: &[u8], kind: FileType) {
    if name == b"." || name == b".." {
        return;
    }
    let kind = if kind == FileType::Unknown {
        match kind_of_unlisted(dir, name) {
            Some(kind) => kind,
            None => return,
        }
    } else {
        kind_of(kind)
    };
    entries.push(RawEntry {
        name: OsStr::from_bytes(name).to_os_string(),
        kind,
    });
}

/// Looks up the kind of an entry, which some filesystems don't list. Returns `None` if the entry is
/// gone.
fn kind_of_unlisted(dir: BorrowedFd<'_>, name: &[u8]) -> Option<EntryKind> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(meta_of(&stat).kind),
        Err(Errno::NOENT) => None,
        // An entry of unknown kind must not vanish silently: treated as a file, it is opened, and
        // that reports the error.
        Err(_) => Some(EntryKind::File),
    }
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Dir,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

// The sizes and signs of these fields differ between systems.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
fn meta_of(stat: &Stat) -> EntryMeta {
    let nanoseconds = |seconds: i128, rest: i128| seconds * 1_000_000_000 + rest;
    EntryMeta {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: nanoseconds(stat.st_mtime as i128, stat.st_mtime_nsec as i128),
        changed_ns: Some(nanoseconds(
            stat.st_ctime as i128,
            stat.st_ctime_nsec as i128,
        )),
        identity: Some(FileIdentity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
        }),
        links: stat.st_nlink as u64,
    }
}

/// Returns the identity of the entry that `path` names now; a link at its end is not followed.
pub(super) fn identity_at(path: &Path) -> io::Result<Option<FileIdentity>> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(describe)?;
    Ok(meta_of(&stat).identity)
}

pub(super) fn metadata_following(path: &Path) -> io::Result<EntryMeta> {
    let stat = statat(CWD, path, AtFlags::empty()).map_err(describe)?;
    Ok(meta_of(&stat))
}

/// Converts an error to a message for a user, who sees it together with the path.
fn describe(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP => symbolic_link(),
        // A socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => not_a_regular_file(),
        Errno::XDEV => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "leads out of its allowed root",
        ),
        Errno::AGAIN => io::Error::new(
            io::ErrorKind::WouldBlock,
            "is being renamed or held by another program; search again",
        ),
        Errno::MFILE | Errno::NFILE => io::Error::other(format!(
            "too many files are open; raise the limit with `ulimit -n` or use fewer threads ({})",
            io::Error::from(errno)
        )),
        errno => io::Error::from(errno),
    }
}

/// Converts an error of opening `name` in `dir` without following links. Systems report links with
/// different errors, so this checks the entry.
fn describe_in(dir: BorrowedFd<'_>, name: &OsStr, errno: Errno) -> io::Error {
    if matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::MLINK)
        && statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| meta_of(&stat).kind == EntryKind::Symlink)
    {
        return symbolic_link();
    }
    describe(errno)
}
