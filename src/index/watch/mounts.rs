//! Tracks the mounts of a tree.
//!
//! A filesystem mounted over a watched directory hides it, and no event reports that. This module
//! compares the system's mount table with its earlier state. It also finds directories that are
//! visible under two paths, because their events arrive under one path only.

#[cfg(any(target_os = "linux", test))]
use std::path::{Path, PathBuf};

/// The relevant fields of one line of the mount table.
#[cfg(any(target_os = "linux", test))]
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    id: String,
    device: String,
    /// The mounted directory of the filesystem.
    source: PathBuf,
    /// The mount point.
    target: PathBuf,
}

/// The mounts at, above and below one root.
#[cfg(any(target_os = "linux", test))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    mounts: Vec<Mount>,
}

#[cfg(any(target_os = "linux", test))]
impl Table {
    /// Parses the mount table (`proc_pid_mountinfo(5)`) and keeps the mounts related to `root`.
    /// Lines that can't be parsed are skipped.
    fn parse(text: &[u8], root: &Path) -> Table {
        let lines = text.split(|&byte| byte == b'\n');
        let mounts = lines.filter_map(Mount::parse);
        let related =
            |mount: &Mount| mount.target.starts_with(root) || root.starts_with(&mount.target);
        Table {
            mounts: mounts.filter(related).collect(),
        }
    }

    /// Returns the mounts below the root that share a directory with another part of the tree.
    fn seen_twice(&self, root: &Path) -> Vec<PathBuf> {
        // The tree itself, as a path in its filesystem. Of several mounts above it, the lowest and
        // last one counts.
        let above = self
            .mounts
            .iter()
            .filter(|mount| root.starts_with(&mount.target));
        let tree = above
            .max_by_key(|mount| mount.target.components().count())
            .and_then(|mount| {
                let rest = root.strip_prefix(&mount.target).ok()?;
                Some((mount.device.as_str(), mount.source.join(rest)))
            });
        let below: Vec<&Mount> = self
            .mounts
            .iter()
            .filter(|mount| mount.target != root && mount.target.starts_with(root))
            .collect();
        let overlap = |device: &str, source: &Path, mount: &Mount| {
            device == mount.device
                && (source.starts_with(&mount.source) || mount.source.starts_with(source))
        };
        let is_twice = |mount: &Mount, at: usize| {
            let in_tree = tree
                .as_ref()
                .is_some_and(|(device, source)| overlap(device, source, mount));
            in_tree
                || below.iter().enumerate().any(|(other_at, other)| {
                    at != other_at && overlap(&other.device, &other.source, mount)
                })
        };
        let twice = below
            .iter()
            .enumerate()
            .filter(|(at, mount)| is_twice(mount, *at));
        twice.map(|(_, mount)| mount.target.clone()).collect()
    }
}

#[cfg(any(target_os = "linux", test))]
impl Mount {
    fn parse(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|&byte| byte == b' ');
        let mut text = || {
            fields
                .next()
                .map(|field| String::from_utf8_lossy(field).into_owned())
        };
        let (id, _parent, device) = (text()?, text()?, text()?);
        let mut path = || fields.next().map(unescaped);
        let (source, target) = (path()?, path()?);
        Some(Mount {
            id,
            device,
            source,
            target,
        })
    }
}

/// Decodes the escapes of the table: a backslash and three octal digits.
#[cfg(any(target_os = "linux", test))]
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let octal = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match octal {
            Some(escaped) => {
                bytes.push(escaped);
                rest = after.get(3..).unwrap_or_default();
            }
            None => bytes.push(byte),
        }
    }
    #[cfg(unix)]
    {
        let name: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(bytes);
        PathBuf::from(name)
    }
    #[cfg(not(unix))]
    {
        PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::Mounts;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{self, Read, Seek};
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    use rustix::event::{PollFd, PollFlags, Timespec};

    use super::super::lock;
    use super::Table;

    /// The kernel's mount table.
    const TABLE: &str = "/proc/self/mountinfo";

    /// The mounts of a tree, as last seen.
    #[derive(Debug)]
    pub(in super::super) struct Mounts {
        root: PathBuf,
        seen: Mutex<Seen>,
    }

    #[derive(Debug)]
    struct Seen {
        /// Kept open: the kernel signals each open file once when the table changes.
        file: File,
        table: Table,
        twice: Vec<PathBuf>,
    }

    impl Mounts {
        /// Reads the mounts of the tree at `root`, which is canonical.
        pub(in super::super) fn open(root: &Path) -> io::Result<Mounts> {
            let name = |error: io::Error| io::Error::new(error.kind(), format!("{TABLE}: {error}"));
            let mut file = File::open(TABLE).map_err(name)?;
            let table = read(&mut file, root).map_err(name)?;
            let twice = table.seen_twice(root);
            Ok(Mounts {
                root: root.to_path_buf(),
                seen: Mutex::new(Seen { file, table, twice }),
            })
        }

        /// Returns true if the mounts changed since the last call. An unreadable table counts as
        /// changed.
        pub(in super::super) fn changed(&self) -> bool {
            let mut seen = lock(&self.seen);
            let mut polled = [PollFd::new(&seen.file, PollFlags::PRI)];
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            match rustix::event::poll(&mut polled, Some(&at_once)) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
            let Ok(table) = read(&mut seen.file, &self.root) else {
                return true;
            };
            if seen.table == table {
                return false;
            }
            seen.twice = table.seen_twice(&self.root);
            seen.table = table;
            true
        }

        /// Returns the mount that contains `path`, if it is also visible elsewhere in the tree.
        pub(in super::super) fn seen_twice(&self, path: &Path) -> Option<PathBuf> {
            let seen = lock(&self.seen);
            let found = seen.twice.iter().find(|target| path.starts_with(target));
            found.cloned()
        }
    }

    fn read(file: &mut File, root: &Path) -> io::Result<Table> {
        let mut text = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        Ok(Table::parse(&text, root))
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use portable::Mounts;

/// Mounts are not tracked on these systems, where cookies prove nothing either.
#[cfg(not(target_os = "linux"))]
mod portable {
    use std::io;
    use std::path::{Path, PathBuf};

    #[derive(Debug)]
    pub(in super::super) struct Mounts;

    impl Mounts {
        pub(in super::super) fn open(_root: &Path) -> io::Result<Mounts> {
            Ok(Mounts)
        }

        pub(in super::super) fn changed(&self) -> bool {
            false
        }

        pub(in super::super) fn seen_twice(&self, _path: &Path) -> Option<PathBuf> {
            None
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const BASE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 27 0:21 / /proc rw - proc proc rw
";

    fn table(more: &str, root: &str) -> Table {
        Table::parse(format!("{BASE}{more}").as_bytes(), Path::new(root))
    }

    #[track_caller]
    fn check_twice(more: &str, expected: &[&str]) {
        let found = table(more, "/home/tree").seen_twice(Path::new("/home/tree"));
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(found, expected, "{more}");
    }

    #[test]
    fn only_mounts_of_the_tree_count() {
        let root = "/home/tree";
        let plain = table("", root);
        assert_eq!(plain.mounts.len(), 1);
        for other in [
            "40 27 0:40 / /home/other rw - tmpfs x rw",
            "40 27 0:40 / /home/tree2 rw - tmpfs x rw",
            "40 27 0:40 / /home/tree\\040 rw - tmpfs x rw",
            "",
            "nonsense",
        ] {
            assert_eq!(table(other, root), plain, "{other}");
        }
        for ours in [
            "40 27 0:40 / /home rw - tmpfs x rw",
            "40 27 0:40 / /home/tree rw - tmpfs x rw",
            "40 27 0:40 / /home/tree/a\\040b rw - tmpfs x rw",
        ] {
            assert_ne!(table(ours, root), plain, "{ours}");
        }
    }

    #[test]
    fn escapes_are_undone() {
        for (field, path) in [
            ("/a", "/a"),
            ("/a\\040b\\011\\012\\134c", "/a b\t\n\\c"),
            ("/a\\", "/a\\"),
            ("/a\\04", "/a\\04"),
            ("/a\\999", "/a\\999"),
        ] {
            assert_eq!(unescaped(field.as_bytes()), PathBuf::from(path));
        }
    }

    #[test]
    fn what_is_mounted_twice_is_noticed() {
        check_twice("", &[]);
        check_twice("40 27 0:40 / /home/tree/a rw - tmpfs x rw", &[]);
        // Mounted directories: one of the tree, one above the tree, and one elsewhere.
        check_twice(
            "40 27 254:0 /home/tree/b /home/tree/a rw - ext4 x rw",
            &["/home/tree/a"],
        );
        check_twice(
            "40 27 254:0 /home /home/tree/a rw - ext4 x rw",
            &["/home/tree/a"],
        );
        check_twice("40 27 254:0 /var /home/tree/a rw - ext4 x rw", &[]);
        check_twice("40 27 254:0 /home/tree2 /home/tree/a rw - ext4 x rw", &[]);
        // The same filesystem at two places.
        let two =
            "40 27 0:40 / /home/tree/a rw - tmpfs x rw\n41 27 0:40 /d /home/tree/b rw - tmpfs x rw";
        check_twice(two, &["/home/tree/a", "/home/tree/b"]);
        // The tree itself is on a filesystem that is mounted over another one.
        let over = "40 27 0:40 /t /home/tree rw - tmpfs x rw\n41 40 254:0 /home/tree /home/tree/a rw - ext4 x rw";
        check_twice(over, &[]);
        let over =
            "40 27 0:40 /t /home/tree rw - tmpfs x rw\n41 40 0:40 /t/s /home/tree/a rw - ext4 x rw";
        check_twice(over, &["/home/tree/a"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_changes_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mounts = Mounts::open(&root).unwrap();
        for _ in 0..3 {
            assert!(!mounts.changed());
        }
        assert_eq!(mounts.seen_twice(&root), None);
    }
}
