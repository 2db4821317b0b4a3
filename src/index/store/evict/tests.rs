use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use super::super::access;
use super::*;
use crate::format::disk::RealDisk;
use crate::format::storage::Privacy;

/// A store in its own directory, with directories that look like indexes.
struct World {
    place: tempfile::TempDir,
    limits: Limits,
}

impl World {
    fn new(limits: Limits) -> World {
        let place = tempfile::tempdir().unwrap();
        World { place, limits }
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("store")
    }

    fn store(&self) -> Store {
        let store = Store::open(self.root(), Privacy::Required, Duration::ZERO).unwrap();
        store.make_root().unwrap();
        store.limited(self.limits)
    }

    fn dir(&self, n: usize) -> PathBuf {
        self.root().join(format!("{n:032x}"))
    }

    /// Creates an index of `bytes` bytes that was last used at `accessed_ms`. Its content is not
    /// valid.
    fn index(&self, n: usize, bytes: usize, accessed_ms: i64) -> PathBuf {
        let dir = self.dir(n);
        self.store();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(LockFile::Writers.name()), "").unwrap();
        fs::write(dir.join("manifest"), vec![b'x'; bytes]).unwrap();
        access::note_first(&RealDisk, &dir, accessed_ms);
        dir
    }

    /// Returns the numbers of the remaining directories.
    fn kept(&self) -> BTreeSet<usize> {
        let entries = fs::read_dir(self.root()).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = entries.map(|entry| name(entry).into_string().unwrap());
        names
            .map(|name| usize::from_str_radix(&name, 16).unwrap())
            .collect()
    }
}

const ONE: Limits = Limits {
    bytes: u64::MAX,
    indexes: 1,
    ..Limits::NONE
};

/// An index in the model: number, bytes, time of last use, and whether a lock is held.
#[derive(Clone, Debug)]
struct Modelled {
    n: usize,
    bytes: u64,
    accessed_ms: i64,
    lock: Option<LockFile>,
}

/// The simplest possible model: the indexes to evict, in order, and the indexes to spare.
fn model(all: &[Modelled], limits: Limits, but: Option<usize>) -> (Vec<usize>, Vec<usize>) {
    let mut left = all.to_vec();
    let (mut gone, mut spared) = (Vec::new(), Vec::new());
    loop {
        let bytes: u64 = left.iter().map(|one| one.bytes).sum();
        if bytes <= limits.bytes && left.len() as u64 <= limits.indexes {
            return (gone, spared);
        }
        let mut next: Option<&Modelled> = None;
        for one in &left {
            if Some(one.n) == but || spared.contains(&one.n) {
                continue;
            }
            let before = |other: &Modelled| {
                if one.accessed_ms != other.accessed_ms {
                    one.accessed_ms < other.accessed_ms
                } else if one.bytes != other.bytes {
                    one.bytes > other.bytes
                } else {
                    one.n < other.n
                }
            };
            if next.is_none_or(before) {
                next = Some(one);
            }
        }
        let Some(next) = next.cloned() else {
            return (gone, spared);
        };
        if next.lock.is_some() {
            spared.push(next.n);
        } else {
            gone.push(next.n);
            left.retain(|one| one.n != next.n);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn indexes_are_evicted_in_the_order_of_the_model(
        all in prop::collection::vec((0u64..4, 0i64..4, 0u8..8), 0..9),
        bytes in 0u64..20,
        indexes in 0u64..9,
        but in prop::option::of(0usize..9),
    ) {
        let limits = Limits { bytes, indexes, ..Limits::NONE };
        let world = World::new(limits);
        let but = but.filter(|n| *n < all.len());
        let mut modelled = Vec::new();
        let mut locks = Vec::new();
        // Created in another order than that of their names.
        for (n, (bytes, accessed_ms, held)) in all.into_iter().enumerate().rev() {
            let dir = world.index(n, bytes as usize, accessed_ms * 1_000);
            let lock = match held {
                0 => Some(LockFile::Writers),
                1 => Some(LockFile::Readers),
                _ => None,
            };
            locks.extend(lock.map(|which| lock_now(&RealDisk, &dir, which).unwrap()));
            modelled.push(Modelled { n, bytes, accessed_ms, lock });
        }
        let before: BTreeSet<usize> = modelled.iter().map(|one| one.n).collect();
        let but_dir = but.map(|n| world.dir(n));
        let done = world.store().make_room(but_dir.as_deref());

        let (gone, spared) = model(&modelled, limits, but);
        let dirs = |all: &[usize]| all.iter().map(|n| world.dir(*n)).collect::<Vec<_>>();
        let evicted: Vec<PathBuf> = done.evicted.iter().map(|one| one.dir.clone()).collect();
        prop_assert_eq!(evicted, dirs(&gone));
        let kept: Vec<PathBuf> = done.spared.iter().map(|one| one.dir.clone()).collect();
        prop_assert_eq!(kept, dirs(&spared));
        prop_assert!(done.spared.iter().all(|one| one.problem.is_none()));
        let left: BTreeSet<usize> = before.iter().copied().filter(|n| !gone.contains(n)).collect();
        prop_assert_eq!(world.kept(), left.clone());
        let left: Vec<&Modelled> = modelled.iter().filter(|one| left.contains(&one.n)).collect();
        let over = left.len() as u64 > indexes || left.iter().map(|one| one.bytes).sum::<u64>() > bytes;
        prop_assert_eq!(done.over_limits, over);
        for one in &done.evicted {
            prop_assert!(!one.dir.exists());
        }
    }
}

#[test]
fn no_index_is_evicted_within_the_limits() {
    let world = World::new(Limits {
        bytes: 30,
        indexes: 3,
        ..Limits::NONE
    });
    for n in 0..3 {
        world.index(n, 10, n as i64);
    }
    assert_eq!(world.store().make_room(None), Eviction::default());
    assert_eq!(world.kept().len(), 3);
    let less = world.store().limited(Limits {
        bytes: 29,
        indexes: 3,
        ..Limits::NONE
    });
    assert_eq!(less.make_room(None).evicted.len(), 1);
    assert_eq!(world.kept(), BTreeSet::from([1, 2]));
    let unlimited = less.limited(Limits::NONE);
    assert_eq!(unlimited.make_room(None), Eviction::default());
}

#[test]
fn an_index_that_is_being_written_or_opened_is_not_evicted() {
    let world = World::new(ONE);
    for which in [LockFile::Writers, LockFile::Readers] {
        let dir = world.index(1, 10, 1);
        world.index(2, 10, 2);
        let lock = lock_now(&RealDisk, &dir, which).unwrap();
        let done = world.store().make_room(Some(&world.dir(2)));
        assert!(done.evicted.is_empty() && done.over_limits, "{done:?}");
        let (root, problem) = (None, None);
        let expected = NotEvicted {
            dir: dir.clone(),
            root,
            problem,
        };
        assert_eq!(done.spared, [expected]);
        assert_eq!(fs::read(dir.join("manifest")).unwrap(), b"xxxxxxxxxx");
        drop(lock);
        let done = world.store().make_room(Some(&world.dir(2)));
        assert_eq!(done.evicted[0].dir, dir);
        assert_eq!((done.evicted[0].bytes, done.over_limits), (10, false));
        fs::remove_dir_all(world.dir(2)).unwrap();
    }
}

#[test]
fn an_index_that_can_not_be_removed_stays_whole_and_is_named() {
    let world = World::new(ONE);
    let dir = world.index(1, 10, 1);
    world.index(2, 10, 2);
    // A directory can't be removed as a file, even by an administrator.
    fs::remove_file(dir.join("manifest")).unwrap();
    fs::create_dir(dir.join("manifest")).unwrap();
    fs::write(dir.join("segment-1.seg"), "yy").unwrap();
    let done = world.store().make_room(Some(&world.dir(2)));
    assert!(done.evicted.is_empty() && done.over_limits, "{done:?}");
    let problem = done.spared[0].problem.as_ref().unwrap();
    assert!(problem.contains("remove"), "{problem}");
    assert_eq!(fs::read(dir.join("segment-1.seg")).unwrap(), b"yy");
    assert_eq!(access::last(&dir), Some(1));
    assert!(dir.join(LockFile::Writers.name()).exists());
}

#[test]
fn remains_of_an_index_do_not_count_as_one_and_are_removed_later() {
    let world = World::new(ONE);
    let dir = world.index(1, 10, 1);
    let newer = world.index(2, 10, 2);
    // A segment that the system refuses to remove.
    let stuck = dir.join("segment-1.seg");
    fs::create_dir(&stuck).unwrap();
    let done = world.store().make_room(Some(&newer));
    assert_eq!(done.evicted[0].dir, dir);
    assert!(done.spared.is_empty() && !done.over_limits, "{done:?}");
    assert!(stuck.exists() && !dir.join("manifest").exists());
    // It does not count as an index, and causes no error.
    assert_eq!(world.store().make_room(Some(&newer)), Eviction::default());
    assert!(stuck.exists());
    fs::remove_dir(&stuck).unwrap();
    assert_eq!(world.store().make_room(Some(&newer)), Eviction::default());
    assert!(!dir.exists() && newer.exists());
}

#[test]
fn what_a_build_that_was_killed_left_behind_goes_and_one_that_runs_stays() {
    let world = World::new(Limits::NONE);
    world.store();
    for n in [1, 2] {
        fs::create_dir(world.dir(n)).unwrap();
        fs::write(world.dir(n).join(".segment-1.seg.77.0.tmp"), "zz").unwrap();
        fs::write(world.dir(n).join(LockFile::Writers.name()), "").unwrap();
    }
    let building = lock_now(&RealDisk, &world.dir(2), LockFile::Writers).unwrap();
    assert_eq!(world.store().make_room(None), Eviction::default());
    assert_eq!(world.kept(), BTreeSet::from([2]));
    assert!(world.dir(2).join(".segment-1.seg.77.0.tmp").exists());
    drop(building);
}

#[test]
fn foreign_directories_are_never_touched() {
    let world = World::new(Limits {
        bytes: 0,
        indexes: 0,
        ..Limits::NONE
    });
    world.index(1, 10, 1);
    let root = world.root();
    let elsewhere = world.place.path().join("elsewhere");
    let all = [
        // No lock of ours, another name, both, and not in the store.
        root.join(format!("{:032x}", 2)),
        root.join("documents"),
        root.join(format!("{:031x}", 3)),
        elsewhere.clone(),
    ];
    for dir in &all {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("manifest"), "precious").unwrap();
        fs::write(dir.join("segment-1.seg"), "precious").unwrap();
    }
    for dir in &all[1..] {
        fs::write(dir.join(LockFile::Writers.name()), "").unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(&elsewhere, root.join(format!("{:032x}", 4))).unwrap();
    fs::write(root.join(format!("{:032x}", 5)), "precious").unwrap();
    // Also a foreign file in the directory of an index.
    fs::write(world.dir(1).join("notes"), "precious").unwrap();

    let done = world.store().make_room(None);
    assert_eq!(done.evicted.len(), 1);
    assert!(done.spared.is_empty(), "{done:?}");
    for dir in &all {
        assert_eq!(fs::read(dir.join("manifest")).unwrap(), b"precious");
        assert_eq!(fs::read(dir.join("segment-1.seg")).unwrap(), b"precious");
    }
    assert_eq!(fs::read(world.dir(5)).unwrap(), b"precious");
    assert_eq!(fs::read(world.dir(1).join("notes")).unwrap(), b"precious");
    #[cfg(unix)]
    assert!(root.join(format!("{:032x}", 4)).is_symlink());
}

#[test]
fn an_index_of_which_nobody_knows_when_it_was_used_goes_first() {
    let world = World::new(ONE);
    world.index(1, 10, 1);
    let unknown = world.index(2, 1, 2);
    fs::remove_file(unknown.join(access::ACCESSED)).unwrap();
    let done = world.store().make_room(None);
    assert_eq!(done.evicted.len(), 1);
    assert_eq!(
        (&done.evicted[0].dir, done.evicted[0].accessed_ms),
        (&unknown, None)
    );
}
