use super::*;

fn never(pause: Duration) {
    panic!("waited {pause:?} for a lock that is free");
}

fn take(dir: &Path, exclusive: bool, timeout_ms: u64) -> (Result<DirLock, FormatError>, u128) {
    let mut waited = 0;
    let mut wait = |pause: Duration| waited += pause.as_millis();
    let timeout = Duration::from_millis(timeout_ms);
    let lock = if exclusive {
        DirLock::exclusive(dir, LockFile::Writers, timeout, &mut wait)
    } else {
        DirLock::shared(dir, LockFile::Writers, timeout, &mut wait)
    };
    (lock, waited)
}

#[test]
fn whether_a_lock_is_held_can_be_seen_without_taking_it() {
    let dir = tempfile::tempdir().unwrap();
    let held = || DirLock::is_held(dir.path(), LockFile::Writers);
    assert!(!held());
    let none = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(none, 0, "looking made a file");
    let lock = take(dir.path(), true, 0).0.unwrap();
    assert!(held() && held());
    assert!(!DirLock::is_held(dir.path(), LockFile::Readers));
    drop(lock);
    assert!(!held());
    // Shared locks don't count here.
    let _shared = take(dir.path(), false, 0).0.unwrap();
    assert!(!held());
}

#[test]
fn a_free_lock_is_taken_at_once_and_again_after_it_was_given_back() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let zero = Duration::ZERO;
        let lock = DirLock::exclusive(dir.path(), LockFile::Writers, zero, &mut never).unwrap();
        assert_eq!(lock.dir(), dir.path());
        assert!(lock.is_writer());
        let other = DirLock::exclusive(dir.path(), LockFile::Readers, zero, &mut never);
        assert!(!other.unwrap().is_writer());
    }
}

#[test]
fn waiting_is_bounded_and_added_up() {
    let dir = tempfile::tempdir().unwrap();
    let (held, _) = take(dir.path(), true, 0);
    for exclusive in [true, false] {
        for timeout in [0, 1, 2, 500] {
            let (refused, waited) = take(dir.path(), exclusive, timeout);
            let error = refused.unwrap_err();
            assert_eq!(waited, u128::from(timeout));
            let kind = error.kind();
            assert!(
                matches!(kind, FormatErrorKind::Locked { waited } if waited.as_millis() == u128::from(timeout)),
                "{kind:?}"
            );
            assert!(!error.is_corrupt());
            assert_eq!(error.path(), Some(dir.path()));
        }
    }
    drop(held);
    assert!(take(dir.path(), true, 0).0.is_ok());
}

#[test]
fn whoever_has_to_stop_waits_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let (held, _) = take(dir.path(), true, 0);
    let mut pauses = 0;
    let mut wait = |_| {
        pauses += 1;
        pauses < 3
    };
    let (lock, day) = ((LockFile::Writers, true), Duration::from_secs(86_400));
    let refused = DirLock::acquire_while(&RealDisk, dir.path(), lock, day, &mut wait);
    let error = refused.unwrap_err();
    // Pauses of 1, 2 and 4 milliseconds.
    let waited = Duration::from_millis(7);
    assert!(matches!(error.kind(), FormatErrorKind::Locked { waited: is } if *is == waited));
    assert_eq!(pauses, 3);
    drop(held);
    let lock = DirLock::acquire_while(&RealDisk, dir.path(), lock, day, &mut |_| false);
    assert!(lock.is_ok());
}

#[test]
fn a_lock_given_back_while_waiting_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut held = Some(take(dir.path(), true, 0).0.unwrap());
    let mut pauses = 0;
    let mut wait = |_| {
        pauses += 1;
        if pauses == 3 {
            held = None;
        }
    };
    let timeout = Duration::from_secs(1);
    let lock = DirLock::exclusive(dir.path(), LockFile::Writers, timeout, &mut wait);
    assert!(lock.unwrap().is_writer());
    assert_eq!(pauses, 3);
}

#[test]
fn shared_locks_keep_out_exclusive_ones_only() {
    let dir = tempfile::tempdir().unwrap();
    let (first, _) = take(dir.path(), false, 0);
    let (second, _) = take(dir.path(), false, 0);
    assert!(!first.as_ref().unwrap().is_writer());
    drop(first);
    assert!(take(dir.path(), true, 0).0.is_err());
    drop(second);
    assert!(take(dir.path(), true, 0).0.is_ok());
}

#[cfg(unix)]
#[test]
fn a_deleted_lock_file_locks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LockFile::Writers.name());
    let (held, _) = take(dir.path(), true, 0);
    let early = RealDisk.open_lock(&path, true).unwrap();
    assert_eq!(try_once(&early, &path, true).unwrap(), LockAttempt::Busy);
    // As a process that clears the directory does: delete the file, then unlock.
    fs::remove_file(&path).unwrap();
    drop(held);
    assert_eq!(try_once(&early, &path, true).unwrap(), LockAttempt::Stale);
    let late = RealDisk.open_lock(&path, true).unwrap();
    assert_eq!(try_once(&early, &path, true).unwrap(), LockAttempt::Stale);
    assert_eq!(try_once(&late, &path, true).unwrap(), LockAttempt::Taken);
    assert!(take(dir.path(), true, 0).0.is_err());
}

#[test]
fn a_missing_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = take(&dir.path().join("none"), true, 0).0.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[cfg(unix)]
mod permissions {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn check_insecure(path: &Path, needle: &str) {
        let error = create_private_dir(path, Privacy::Required).unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, FormatErrorKind::Insecure { .. }), "{kind:?}");
        let text = error.to_string();
        assert!(text.contains(needle), "{text}");
        assert!(!error.is_corrupt());
    }

    #[test]
    fn new_directories_are_private_all_the_way_down() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        create_private_dir(&path, Privacy::Required).unwrap();
        for path in [&path, path.parent().unwrap(), &dir.path().join("a")] {
            assert_eq!(mode(path), 0o700);
        }
        create_private_dir(&path, Privacy::Required).unwrap();
        let lock = take(&path, true, 0).0.unwrap();
        assert_eq!(mode(&lock.dir().join(LockFile::Writers.name())), 0o600);
    }

    #[test]
    fn a_directory_others_can_reach_into_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create_private_dir(&path, Privacy::Required).unwrap();
        for bits in [0o750, 0o710, 0o705, 0o701, 0o777] {
            chmod(&path, bits);
            check_insecure(&path, "other users have access");
            create_private_dir(&path, Privacy::Waived).unwrap();
            assert_eq!(mode(&path), bits, "what is there is not changed");
        }
    }

    #[test]
    fn a_check_makes_nothing_and_says_what_making_would() {
        let dir = tempfile::tempdir().unwrap();
        let check = |path: &Path| {
            let checked = check_private_dir(path, Privacy::Required);
            checked.map_err(|error| error.to_string())
        };
        let path = dir.path().join("a/b");
        check(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        create_private_dir(&path, Privacy::Required).unwrap();
        check(&path).unwrap();
        check(&path.join("c")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        symlink("nowhere", dir.path().join("link")).unwrap();
        chmod(&path, 0o750);
        for refused in [&path, &dir.path().join("file"), &dir.path().join("link")] {
            let same = create_private_dir(refused, Privacy::Required).unwrap_err();
            assert_eq!(check(refused), Err(same.to_string()));
        }
        check_private_dir(&path, Privacy::Waived).unwrap();
        check(&dir.path().join("file/below")).unwrap_err();
        // An administrator may write despite the mode.
        chmod(&path, 0o500);
        let writes = fs::create_dir(path.join("probe")).is_ok();
        assert_eq!(check(&path.join("c/d")).is_ok(), writes);
        chmod(&path, 0o700);
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        check_insecure(&path, "not a directory");
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        check_insecure(&link, "a symbolic link");
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create_private_dir(&path, Privacy::Required).unwrap();
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        for link in [link.clone(), link.join(""), link.join(".")] {
            check_insecure(&link, "a symbolic link; choose another directory");
        }
        create_private_dir(&link, Privacy::Waived).unwrap();
        // A link in a parent is accepted.
        create_private_dir(&link.join("b"), Privacy::Required).unwrap();
        assert!(path.join("b").is_dir());
    }

    /// Only an administrator can change the owner.
    #[test]
    fn what_belongs_to_others_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create_private_dir(&path, Privacy::Required).unwrap();
        std::os::unix::fs::lchown(&path, Some(12345), None).unwrap();
        check_insecure(&path, "a directory of user 12345");
        create_private_dir(&path, Privacy::Waived).unwrap();
    }
}
