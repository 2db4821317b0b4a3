//! Tells which filesystems report every change.
//!
//! Some filesystems are changed by other machines, or by the programs behind them, without the
//! knowledge of this system's kernel. Others generate file contents while they are read.

use std::path::Path;

/// Whether every change of a filesystem's files raises an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// All changes go through this system's kernel, which reports them.
    Reliable,
    /// Files can change without an event. Holds the filesystem's name.
    Unreliable(&'static str),
    /// The filesystem is unknown.
    Unknown,
}

/// Returns whether every change on the filesystem at `path` raises an event. Mounts below it are
/// not checked.
///
/// Overlay filesystems count as reliable, because changing the layers of a mounted one is undefined
/// anyway. Cluster filesystems on shared disks do not: each machine sees only its own changes.
#[cfg(target_os = "linux")]
pub fn reliability(path: &Path) -> Reliability {
    match rustix::fs::statfs(path) {
        // Magic numbers have 32 bits on every platform, although the type differs.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(found) => of_magic(found.f_type as u32),
        Err(_) => Reliability::Unknown,
    }
}

/// Returns [`Reliability::Unknown`]: filesystems are not distinguished on this system.
#[cfg(not(target_os = "linux"))]
pub fn reliability(_path: &Path) -> Reliability {
    Reliability::Unknown
}

/// Classifies a magic number of `statfs(2)`, from the kernel's `magic.h` and the filesystems' own
/// sources.
#[cfg(target_os = "linux")]
fn of_magic(magic: u32) -> Reliability {
    use Reliability::{Reliable, Unknown, Unreliable};

    match magic {
        // ext2, ext3 and ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, JFS, Reiserfs, NILFS.
        0xEF53 | 0x5846_5342 | 0x9123_683E | 0xF2F5_2010 | 0x2FC1_2FC1 | 0xCA45_1A4E
        | 0x3153_464A | 0x5265_4973 | 0x3434 => Reliable,
        // tmpfs, ramfs, hugetlbfs, overlayfs, eCryptfs.
        0x0102_1994 | 0x8584_58F6 | 0x9584_58F6 | 0x794C_7630 | 0xF15F => Reliable,
        // FAT, exFAT, NTFS (ntfs3), HFS+, and the read-only ISO 9660, UDF, SquashFS, EROFS and
        // cramfs.
        0x4D44 | 0x2011_BAB0 | 0x7366_746E | 0x482B | 0x9660 | 0x1501_3346 | 0x7371_7368
        | 0xE0F5_E1E2 | 0x28CD_3D45 => Reliable,
        0x6969 => Unreliable("nfs"),
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => Unreliable("cifs"),
        // Also virtiofs, and other filesystems that programs provide.
        0x6573_5546 => Unreliable("fuse"),
        0x0102_1997 => Unreliable("9p"),
        0x00C3_6400 => Unreliable("ceph"),
        0x5346_414F | 0x6B41_4653 => Unreliable("afs"),
        0x7375_7245 => Unreliable("coda"),
        0x564C => Unreliable("ncp"),
        0x0BD0_0BD0 => Unreliable("lustre"),
        0x4750_4653 => Unreliable("gpfs"),
        0x1983_0326 => Unreliable("beegfs"),
        0x0116_1970 => Unreliable("gfs2"),
        0x7461_636F => Unreliable("ocfs2"),
        0x786F_4256 => Unreliable("vboxsf"),
        0xBACB_ACBC => Unreliable("vmhgfs"),
        0x9FA0 => Unreliable("proc"),
        0x6265_6572 => Unreliable("sysfs"),
        0x6462_6720 => Unreliable("debugfs"),
        0x7472_6163 => Unreliable("tracefs"),
        0x0027_E0EB | 0x6367_7270 => Unreliable("cgroup"),
        _ => Unknown,
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn known_filesystems_are_told_apart() {
        for (magic, expected) in [
            (0xEF53, Reliability::Reliable),
            (0x0102_1994, Reliability::Reliable),
            (0x794C_7630, Reliability::Reliable),
            (0x6969, Reliability::Unreliable("nfs")),
            (0x6573_5546, Reliability::Unreliable("fuse")),
            (0xFF53_4D42, Reliability::Unreliable("cifs")),
            (0x0102_1997, Reliability::Unreliable("9p")),
            (1, Reliability::Unknown),
        ] {
            assert_eq!(of_magic(magic), expected, "{magic:#x}");
        }
    }

    #[test]
    fn what_is_there_is_asked() {
        assert_eq!(
            reliability(Path::new("/proc/self")),
            Reliability::Unreliable("proc")
        );
        assert_eq!(
            reliability(Path::new("/does/not/exist")),
            Reliability::Unknown
        );
    }
}
