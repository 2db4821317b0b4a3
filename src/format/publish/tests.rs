mod faulty_disk;
mod memory_disk;

use std::time::Duration;

use super::*;
use crate::format::disk::RealDisk;
use crate::format::lock::LockFile;
use faulty_disk::{Fault, Faulty};
use memory_disk::MemDisk;

const NAME: &str = "manifest";

/// More than the buffer size, so that there are several writes.
fn new_content() -> Vec<u8> {
    (0..600_000_u32).map(|i| (i % 247) as u8).collect()
}

const OLD: &[u8] = b"old content";

#[track_caller]
fn lock(dir: &Path) -> DirLock {
    DirLock::exclusive(dir, LockFile::Writers, Duration::ZERO, &mut |_| {}).unwrap()
}

fn put(disk: &dyn Disk, lock: &DirLock, content: &[u8]) -> Result<(), FormatError> {
    publish(disk, lock, NAME, |out| {
        for part in content.chunks(10_000) {
            out.write_all(part)
                .map_err(|e| FormatError::io("write", e))?;
        }
        Ok(())
    })
}

/// The steps of a publication without a failure.
fn steps(disk: &dyn Disk, lock: &DirLock) -> Vec<&'static str> {
    let faulty = Faulty::new(disk, usize::MAX, Fault::Once);
    put(&faulty, lock, &new_content()).unwrap();
    faulty.done()
}

#[test]
fn the_steps_are_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let steps = steps(&MemDisk::default(), &lock(dir.path()));
    let writes = steps.iter().filter(|step| **step == "write").count();
    let others: Vec<_> = steps.iter().filter(|step| **step != "write").collect();
    assert!(writes > 1, "{steps:?}");
    assert_eq!(others, [&"create", &"sync", &"rename", &"sync_dir"]);
    assert_eq!(steps[writes + 1], "sync", "{steps:?}");
}

#[test]
fn whatever_fails_the_old_file_or_the_new_one_is_there_after_a_loss_of_power() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    let path = dir.path().join(NAME);
    let new = new_content();
    let total = steps(&MemDisk::default(), &lock).len();
    for at in 0..=total {
        for fault in [Fault::Once, Fault::Crash, Fault::CannotRemove] {
            for old in [None, Some(OLD)] {
                let disk = MemDisk::default();
                if let Some(old) = old {
                    put(&disk, &lock, old).unwrap();
                }
                let result = put(&Faulty::new(&disk, at, fault), &lock, &new);
                assert_eq!(result.is_ok(), at == total, "{at} {fault:?}");
                let outcomes = disk.after_power_loss(&path);
                for outcome in &outcomes {
                    let is_new = outcome.as_ref() == Some(&new);
                    let is_old = outcome.as_deref() == old;
                    assert!(is_new || is_old && result.is_err(), "{at} {fault:?}");
                }
                // Before the last step, an error means that nothing has changed.
                if at < total - 1 {
                    assert!(outcomes.iter().all(|outcome| outcome.as_deref() == old));
                }
            }
        }
    }
}

#[test]
fn the_loss_of_power_finds_what_is_not_synced() {
    // The premise of the test above: each missing sync has an effect.
    let path = Path::new("d/manifest");
    let other = Path::new("d/x");
    let run = |sync: bool, sync_dir: bool| {
        let disk = MemDisk::default();
        let mut file = disk.create_new(other).unwrap();
        file.write_all(b"new").unwrap();
        if sync {
            file.sync().unwrap();
        }
        disk.rename(other, path).unwrap();
        if sync_dir {
            disk.sync_dir(Path::new("d")).unwrap();
        }
        let outcomes = disk.after_power_loss(path);
        outcomes.iter().all(|o| o.as_deref() == Some(b"new"))
    };
    assert!(run(true, true));
    assert!(!run(false, true) && !run(true, false));
}

fn read_dir(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = RealDisk.names(dir).unwrap();
    names.sort();
    let names = names.into_iter().map(|name| name.into_string().unwrap());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

#[test]
fn whatever_fails_the_real_directory_is_sound_and_is_cleaned_up() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    let path = dir.path().join(NAME);
    let new = new_content();
    let total = steps(&RealDisk, &lock).len();
    for at in 0..=total {
        for fault in [Fault::Once, Fault::Crash, Fault::CannotRemove] {
            put(&RealDisk, &lock, OLD).unwrap();
            assert_eq!(read_dir(dir.path()), [NAME]);
            let faulty = Faulty::new(&RealDisk, at, fault);
            let result = put(&faulty, &lock, &new);
            let content = std::fs::read(&path).unwrap();
            match &result {
                Ok(()) => assert!(content == new),
                Err(error) => {
                    assert!(content == new || content == OLD, "{at} {fault:?}");
                    assert!(!error.is_corrupt());
                    assert!(error.to_string().contains("injected"), "{error}");
                }
            }
            // The file was created and could not be renamed.
            let left = at > 0 && at < total - 1 && fault != Fault::Once;
            let names = read_dir(dir.path());
            assert_eq!(
                names.len(),
                1 + usize::from(left),
                "{at} {fault:?} {names:?}"
            );
            let removed = remove_leftovers(&RealDisk, &lock).unwrap();
            assert_eq!(removed, usize::from(left));
            assert_eq!(read_dir(dir.path()), [NAME]);
        }
    }
}

#[test]
fn an_error_of_the_content_leaves_nothing_behind() {
    #[derive(Debug)]
    enum Mine {
        Stopped,
        Format(FormatError),
    }
    impl From<FormatError> for Mine {
        fn from(error: FormatError) -> Self {
            Self::Format(error)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    put(&RealDisk, &lock, OLD).unwrap();
    let result: Result<(), Mine> = publish(&RealDisk, &lock, NAME, |out| {
        let written = out.write_all(b"half");
        assert!(written.is_ok());
        Err(Mine::Stopped)
    });
    assert!(matches!(result, Err(Mine::Stopped)), "{result:?}");
    assert_eq!(read_dir(dir.path()), [NAME]);
    assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), OLD);
    let result: Result<(), Mine> = publish(&RealDisk, &lock, "a/b", |_| Ok(()));
    let Err(Mine::Format(error)) = result else {
        panic!("{result:?}");
    };
    assert!(!error.is_corrupt());
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    put(&RealDisk, &lock, OLD).unwrap();
    let result = std::panic::catch_unwind(|| {
        let _: Result<(), FormatError> =
            publish(&RealDisk, &lock, NAME, |_| panic!("a bug in the content"));
    });
    assert!(result.is_err());
    assert_eq!(read_dir(dir.path()), [NAME]);
    assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), OLD);
}

#[test]
fn leftovers_of_the_same_name_are_not_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    // Leftovers of an earlier process with the same id: the names that this process tries next.
    let next = NEXT.load(Ordering::Relaxed);
    for number in next..next + 50 {
        let process = std::process::id();
        let name = format!(".{NAME}.{process}.{number}{UNFINISHED}");
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    put(&RealDisk, &lock, OLD).unwrap();
    assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), OLD);
    assert_eq!(remove_leftovers(&RealDisk, &lock).unwrap(), 50);
}

#[test]
fn only_leftovers_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    let keep = [
        "manifest",
        ".hidden.tmp",
        "a.1.2.tmp",
        ".writers.lock.tmp",
        "note.tmp",
    ];
    for name in keep {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    std::fs::write(dir.path().join(".seg-1.fsx.77.3.tmp"), "").unwrap();
    assert_eq!(remove_leftovers(&RealDisk, &lock).unwrap(), 1);
    let mut left = read_dir(dir.path());
    left.sort();
    let mut expected = keep.map(str::to_owned);
    expected.sort();
    assert_eq!(left, expected);
    let faulty = Faulty::new(&RealDisk, 0, Fault::Once);
    std::fs::write(dir.path().join(".a.1.2.tmp"), "").unwrap();
    assert!(remove_leftovers(&faulty, &lock).is_err());
}

#[test]
fn writing_needs_the_writers_lock() {
    let dir = tempfile::tempdir().unwrap();
    let take = |which, exclusive: bool| {
        if exclusive {
            DirLock::exclusive(dir.path(), which, Duration::ZERO, &mut |_| {}).unwrap()
        } else {
            DirLock::shared(dir.path(), which, Duration::ZERO, &mut |_| {}).unwrap()
        }
    };
    for (which, exclusive) in [
        (LockFile::Readers, true),
        (LockFile::Readers, false),
        (LockFile::Writers, false),
    ] {
        let lock = take(which, exclusive);
        for error in [
            put(&RealDisk, &lock, OLD).unwrap_err(),
            remove_leftovers(&RealDisk, &lock).unwrap_err(),
        ] {
            let kind = error.kind();
            assert!(matches!(kind, FormatErrorKind::Refused { .. }), "{kind:?}");
        }
        assert!(read_dir(dir.path()).is_empty());
    }
}

#[test]
fn names_are_plain() {
    for name in [
        "manifest",
        "seg-0001.fsx",
        "A_b",
        &"x".repeat(MAX_NAME_BYTES),
    ] {
        assert!(is_plain_name(name), "{name}");
        let unfinished = format!(".{name}.12.0.tmp");
        assert!(!is_plain_name(&unfinished), "{unfinished}");
        assert!(is_unfinished(OsStr::new(&unfinished)), "{unfinished}");
    }
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for name in [
        "", ".", "..", ".a", "a/b", "/a", "a\\b", "a\0", "ä", "a b", "a:b", &long,
    ] {
        assert!(!is_plain_name(name), "{name}");
        let unfinished = format!(".{name}.12.0.tmp");
        assert!(!is_unfinished(OsStr::new(&unfinished)), "{unfinished}");
    }
    for name in [
        "",
        ".tmp",
        ".a.tmp",
        ".a.1.tmp",
        ".a.1.x.tmp",
        ".a..1.tmp",
        "a.1.2.tmp",
        ".a.1.2.tmq",
    ] {
        assert!(!is_unfinished(OsStr::new(name)), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn new_files_are_private_and_can_be_mapped() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    put(&RealDisk, &lock, OLD).unwrap();
    let path = dir.path().join(NAME);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o400);
    let mapped = crate::format::storage::Storage::map(&path).unwrap();
    assert_eq!(mapped.as_bytes(), OLD);
}

const NEW: &[u8] = b"new content, of another length";

/// Publishes with a library that leaves companion files.
fn put_by_path(disk: &dyn Disk, lock: &DirLock, fail: bool) -> Result<(), FormatError> {
    publish_path(disk, lock, NAME, |path| {
        let write = |path: &Path| std::fs::write(path, NEW).unwrap();
        write(path);
        COMPANIONS
            .iter()
            .for_each(|end| write(&with_end(path, end)));
        match fail {
            true => Err(FormatError::inconsistent("the test", 0, "it fails")),
            false => Ok(()),
        }
    })
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = RealDisk
        .names(dir)
        .unwrap()
        .into_iter()
        .map(|name| name.into_string().unwrap())
        .filter(|name| name != LockFile::Writers.name())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_written_by_its_path_comes_without_companions() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    put(&RealDisk, &lock, OLD).unwrap();
    for end in COMPANIONS {
        std::fs::write(with_end(&dir.path().join(NAME), end), "of the old file").unwrap();
    }
    put_by_path(&RealDisk, &lock, true).unwrap_err();
    assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), OLD);
    assert_eq!(names_in(dir.path()).len(), 4, "nothing new is left");
    put_by_path(&RealDisk, &lock, false).unwrap();
    assert_eq!(names_in(dir.path()), [NAME]);
    assert_eq!(std::fs::read(dir.path().join(NAME)).unwrap(), NEW);
}

#[test]
fn a_file_written_by_its_path_is_the_old_one_or_the_new_one() {
    for fault in [Fault::Once, Fault::Crash, Fault::CannotRemove] {
        for at in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let lock = lock(dir.path());
            put(&RealDisk, &lock, OLD).unwrap();
            let disk = Faulty::new(&RealDisk, at, fault);
            let result = put_by_path(&disk, &lock, false);
            let content = std::fs::read(dir.path().join(NAME)).unwrap();
            assert!(content == OLD || content == NEW, "{fault:?} {at}");
            let done = disk.done();
            remove_leftovers(&RealDisk, &lock).unwrap();
            assert_eq!(names_in(dir.path()), [NAME], "{fault:?} {at}");
            if at >= done.len() {
                // If companions can't be removed, nothing is published: they might be read with the
                // new file.
                assert_eq!(result.is_ok(), fault != Fault::CannotRemove, "{done:?}");
                assert_eq!(content == NEW, result.is_ok());
                break;
            }
            assert!(result.is_err(), "{fault:?} {at}: {done:?}");
        }
    }
}

#[test]
fn companions_of_unfinished_files_are_unfinished() {
    for name in [".a.1.2.tmp-wal", ".a.1.2.tmp-shm", ".a.b.1.2.tmp-journal"] {
        assert!(is_unfinished(OsStr::new(name)), "{name}");
    }
    for name in [
        ".a.1.2-wal",
        ".a.1.2.tmp-wax",
        "a.1.2.tmp-wal",
        "a-wal",
        ".a.1.2.tmp-wal-wal",
    ] {
        assert!(!is_unfinished(OsStr::new(name)), "{name}");
    }
}

#[test]
fn a_file_that_is_replaced_is_the_old_one_or_the_new_one_and_is_not_synced() {
    let dir = tempfile::tempdir().unwrap();
    let lock = lock(dir.path());
    replace(&RealDisk, &lock, "state", b"first").unwrap();
    let read = || std::fs::read(dir.path().join("state")).unwrap();
    let count = || std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!((read(), count()), (b"first".to_vec(), 2));
    let mut at = 0;
    loop {
        let disk = Faulty::new(&RealDisk, at, Fault::Once);
        let replaced = replace(&disk, &lock, "state", b"second");
        assert!(!disk.done().iter().any(|step| step.starts_with("sync")));
        // No file is left behind.
        assert_eq!(count(), 2, "{at}");
        if replaced.is_ok() {
            assert_eq!(read(), b"second");
            break;
        }
        assert_eq!(read(), b"first", "{at}");
        at += 1;
    }
    assert_eq!(at, 3, "create, write, rename");
    for name in ["", ".hidden", "a/b"] {
        assert!(replace(&RealDisk, &lock, name, b"").is_err(), "{name}");
    }
    let zero = Duration::ZERO;
    let readers = DirLock::exclusive(dir.path(), LockFile::Readers, zero, &mut |_| {}).unwrap();
    assert!(replace(&RealDisk, &readers, "state", b"third").is_err());
    assert_eq!(read(), b"second");
}
