//! Tests all ways of opening beneath a root: by the kernel, by component, and portably.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use super::*;

type Ask<T> = Box<dyn Fn(&Path) -> io::Result<T>>;

type AskMany = Box<dyn Fn(&Path, &[&str]) -> io::Result<DirStat>>;

/// One way of opening. Each check runs on all of them.
struct Way {
    name: &'static str,
    open: Ask<(File, EntryMeta)>,
    list: Ask<Vec<RawEntry>>,
    meta: Ask<EntryMeta>,
    stats: AskMany,
}

#[cfg(unix)]
fn by_component(path: &Path) -> RootDir {
    let root = sys::Root::open_without_openat2(path).unwrap();
    let identity = root.metadata(Path::new("")).unwrap().identity;
    RootDir {
        path: path.to_path_buf(),
        identity,
        root,
    }
}

fn ways(path: &Path) -> Vec<Way> {
    use std::sync::Arc;

    let roots = [
        ("system", Arc::new(RootDir::open(path).unwrap())),
        #[cfg(unix)]
        ("by component", Arc::new(by_component(path))),
    ];
    let mut ways: Vec<Way> = roots
        .into_iter()
        .map(|(name, root)| {
            let (open, list) = (Arc::clone(&root), Arc::clone(&root));
            let (meta, stats) = (Arc::clone(&root), root);
            Way {
                name,
                open: Box::new(move |rel| open.open_file_with_meta(rel)),
                list: Box::new(move |rel| list.open_dir_entries(rel)),
                meta: Box::new(move |rel| meta.metadata(rel)),
                stats: Box::new(move |rel, names| {
                    stats.stat_entries(rel, names.iter().map(OsStr::new))
                }),
            }
        })
        .collect();
    let root = Arc::new(portable::Root::open(path).unwrap());
    let (open, list) = (Arc::clone(&root), Arc::clone(&root));
    let (meta, stats) = (Arc::clone(&root), root);
    ways.push(Way {
        name: "portable",
        open: Box::new(move |rel| check_relative(rel).and_then(|()| open.open_file(rel))),
        list: Box::new(move |rel| check_relative(rel).and_then(|()| list.entries(rel))),
        meta: Box::new(move |rel| check_relative(rel).and_then(|()| meta.metadata(rel))),
        stats: Box::new(move |rel, names| {
            check_relative(rel).and_then(|()| stats.stat_entries(rel, names.iter().map(OsStr::new)))
        }),
    });
    ways
}

struct Tree {
    _dir: tempfile::TempDir,
    /// The allowed root.
    root: PathBuf,
    /// A directory next to the root, with the files `secret` and `f`.
    outside: PathBuf,
}

fn tree() -> Tree {
    let dir = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let (root, outside) = (base.join("root"), base.join("outside"));
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join("a/b/f"), "inside").unwrap();
    fs::write(root.join("top"), "top").unwrap();
    fs::write(outside.join("f"), "secret").unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    Tree {
        _dir: dir,
        root,
        outside,
    }
}

fn read(way: &Way, rel: &str) -> io::Result<String> {
    let (mut file, meta) = (way.open)(Path::new(rel))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    assert_eq!(meta.len, text.len() as u64);
    Ok(text)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(
    way: &Way,
    result: io::Result<T>,
    kind: io::ErrorKind,
    words: &str,
) {
    let error = result.expect_err(way.name);
    assert_eq!(error.kind(), kind, "{}: {error}", way.name);
    assert!(error.to_string().contains(words), "{}: {error}", way.name);
}

#[test]
fn files_beneath_the_root_are_read() {
    let tree = tree();
    for way in ways(&tree.root) {
        for rel in ["a/b/f", "./a/b/f", "a//b/f", "a/./b/f"] {
            assert_eq!(read(&way, rel).unwrap(), "inside", "{}", way.name);
        }
        assert_eq!(read(&way, "top").unwrap(), "top", "{}", way.name);
        let missing = read(&way, "a/none");
        assert_eq!(
            missing.unwrap_err().kind(),
            io::ErrorKind::NotFound,
            "{}",
            way.name
        );
    }
}

#[test]
fn a_path_that_is_absolute_or_climbs_is_refused() {
    let tree = tree();
    let absolute = tree.root.join("top");
    for way in ways(&tree.root) {
        for rel in ["..", "../outside/f", "a/../top", "a/.."] {
            let rel = Path::new(rel);
            let kind = io::ErrorKind::InvalidInput;
            assert_refused(&way, (way.open)(rel), kind, "`..`");
            assert_refused(&way, (way.list)(rel), kind, "`..`");
            assert_refused(&way, (way.meta)(rel), kind, "`..`");
        }
        let kind = io::ErrorKind::InvalidInput;
        assert_refused(&way, (way.open)(&absolute), kind, "not relative");
        assert_refused(&way, (way.open)(Path::new("a\0b")), kind, "NUL");
        // Two dots are special only as a whole name.
        assert_eq!(
            (way.open)(Path::new("..a")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}

#[test]
fn directories_are_listed_and_the_empty_path_is_the_root() {
    let tree = tree();
    for way in ways(&tree.root) {
        let mut entries = (way.list)(Path::new("")).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = [
            RawEntry {
                name: "a".into(),
                kind: EntryKind::Dir,
            },
            RawEntry {
                name: "top".into(),
                kind: EntryKind::File,
            },
        ];
        assert_eq!(entries, expected, "{}", way.name);
        assert_eq!((way.list)(Path::new("a")).unwrap().len(), 1, "{}", way.name);
        assert_eq!(
            (way.list)(Path::new("a/b/")).unwrap().len(),
            1,
            "{}",
            way.name
        );
        assert!((way.list)(Path::new("top")).is_err(), "{}", way.name);
        let missing = (way.list)(Path::new("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound, "{}", way.name);
        assert_eq!(
            (way.meta)(Path::new("")).unwrap().kind,
            EntryKind::Dir,
            "{}",
            way.name
        );
    }
}

#[test]
fn a_large_directory_is_listed_whole() {
    let tree = tree();
    let many = tree.root.join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..1200 {
        fs::write(many.join(format!("{number:0>200}")), "").unwrap();
    }
    for way in ways(&tree.root) {
        let mut names: Vec<_> = (way.list)(Path::new("many"))
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1200, "{}", way.name);
    }
}

#[test]
fn a_directory_is_no_file() {
    let tree = tree();
    for way in ways(&tree.root) {
        for rel in ["a", "a/b", ""] {
            let result = (way.open)(Path::new(rel));
            assert_refused(
                &way,
                result,
                io::ErrorKind::InvalidInput,
                "not a regular file",
            );
        }
        assert!((way.open)(Path::new("top/f")).is_err(), "{}", way.name);
    }
}

#[test]
fn metadata_describes_the_entry() {
    let tree = tree();
    fs::write(tree.root.join("a/b/g"), vec![b'x'; 5000]).unwrap();
    for way in ways(&tree.root) {
        let meta = (way.meta)(Path::new("a/b/g")).unwrap();
        assert_eq!(
            (meta.kind, meta.len, meta.links),
            (EntryKind::File, 5000, 1),
            "{}",
            way.name
        );
        let year_2020 = 1_577_836_800_i128 * 1_000_000_000;
        assert!(meta.modified_ns > year_2020, "{}", way.name);
        assert_eq!(
            (way.meta)(Path::new("a/b/")).unwrap().kind,
            EntryKind::Dir,
            "{}",
            way.name
        );
        let missing = (way.meta)(Path::new("a/none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound, "{}", way.name);
        let (_, opened) = (way.open)(Path::new("a/b/g")).unwrap();
        assert_eq!(opened, meta, "{}", way.name);
    }
}

#[test]
fn the_root_must_be_an_absolute_directory() {
    let tree = tree();
    assert!(RootDir::open(Path::new("a")).is_err());
    assert!(RootDir::open(&tree.root.join("top")).is_err());
    assert!(RootDir::open(&tree.root.join("none")).is_err());
    assert_eq!(RootDir::open(&tree.root).unwrap().path(), tree.root);
}

#[cfg(unix)]
mod unix_only {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    const LINK: &str = "is or passes through a symbolic link";
    const DENIED: io::ErrorKind = io::ErrorKind::PermissionDenied;

    #[test]
    fn a_file_swapped_for_a_link_after_validation_is_not_read() {
        let tree = tree();
        for way in ways(&tree.root) {
            let _ = fs::remove_file(tree.root.join("a/b/f"));
            fs::write(tree.root.join("a/b/f"), "inside").unwrap();
            assert_eq!(read(&way, "a/b/f").unwrap(), "inside");
            for target in [
                tree.outside.join("f"),
                tree.root.join("top"),
                "../../top".into(),
            ] {
                fs::remove_file(tree.root.join("a/b/f")).unwrap();
                symlink(target, tree.root.join("a/b/f")).unwrap();
                assert_refused(&way, (way.open)(Path::new("a/b/f")), DENIED, LINK);
            }
        }
    }

    #[test]
    fn a_directory_swapped_for_a_link_after_validation_is_not_entered() {
        let tree = tree();
        let ways = ways(&tree.root);
        for way in &ways {
            assert_eq!(read(way, "a/b/f").unwrap(), "inside");
        }
        fs::rename(tree.root.join("a/b"), tree.root.join("a/real")).unwrap();
        for target in [tree.outside.clone(), "real".into()] {
            let _ = fs::remove_file(tree.root.join("a/b"));
            symlink(target, tree.root.join("a/b")).unwrap();
            for way in &ways {
                assert_refused(way, (way.open)(Path::new("a/b/f")), DENIED, LINK);
                assert_refused(way, (way.list)(Path::new("a/b")), DENIED, LINK);
                assert_refused(way, (way.meta)(Path::new("a/b/f")), DENIED, LINK);
                let entries = (way.list)(Path::new("a")).unwrap();
                let b = entries.iter().find(|entry| entry.name == "b").unwrap();
                assert_eq!(b.kind, EntryKind::Symlink, "{}", way.name);
                let meta = (way.meta)(Path::new("a/b")).unwrap();
                assert_eq!(meta.kind, EntryKind::Symlink, "{}", way.name);
            }
        }
    }

    #[test]
    fn swaps_during_opening_never_show_files_outside_of_the_root() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let tree = tree();
        let roots = [RootDir::open(&tree.root).unwrap(), by_component(&tree.root)];
        let (link, real, b) = (
            tree.root.join("a/link"),
            tree.root.join("a/real"),
            tree.root.join("a/b"),
        );
        symlink(&tree.outside, &link).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    fs::rename(&b, &real).unwrap();
                    fs::rename(&link, &b).unwrap();
                    fs::rename(&b, &link).unwrap();
                    fs::rename(&real, &b).unwrap();
                }
            });
            let mut seen = 0;
            for _ in 0..20_000 {
                for root in &roots {
                    if let Ok(mut file) = root.open_file(Path::new("a/b/f")) {
                        let mut text = String::new();
                        file.read_to_string(&mut text).unwrap();
                        assert_eq!(text, "inside");
                        seen += 1;
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(seen > 0, "the file was never there: nothing was tested");
        });
    }

    #[cfg(not(target_vendor = "apple"))]
    #[test]
    fn a_fifo_or_a_socket_is_refused_without_waiting() {
        let tree = tree();
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.root.join("fifo"), 0o600.into()).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(tree.root.join("sock")).unwrap();
        for way in ways(&tree.root) {
            for rel in ["fifo", "sock"] {
                let result = (way.open)(Path::new(rel));
                assert_refused(
                    &way,
                    result,
                    io::ErrorKind::InvalidInput,
                    "not a regular file",
                );
                let kind = (way.meta)(Path::new(rel)).unwrap().kind;
                assert_eq!(kind, EntryKind::Other, "{}", way.name);
            }
        }
    }

    #[test]
    fn names_that_are_not_utf_8_and_long_paths_work() {
        let tree = tree();
        let name = std::ffi::OsStr::from_bytes(b"bad\xff\xfe name");
        fs::write(tree.root.join(name), "bytes").unwrap();
        let mut long = PathBuf::new();
        for _ in 0..5 {
            long.push("d".repeat(200));
        }
        fs::create_dir_all(tree.root.join(&long)).unwrap();
        long.push("f");
        fs::write(tree.root.join(&long), "long").unwrap();
        for way in ways(&tree.root) {
            assert_eq!(
                (way.open)(Path::new(name)).unwrap().1.len,
                5,
                "{}",
                way.name
            );
            let listed = (way.list)(Path::new("")).unwrap();
            assert!(
                listed.iter().any(|entry| entry.name == name),
                "{}",
                way.name
            );
            assert_eq!((way.open)(&long).unwrap().1.len, 4, "{}", way.name);
        }
    }

    #[test]
    fn identity_and_links_are_those_of_the_file() {
        let tree = tree();
        fs::hard_link(tree.root.join("top"), tree.root.join("a/top")).unwrap();
        let expected = fs::metadata(tree.root.join("top")).unwrap();
        for root in [RootDir::open(&tree.root).unwrap(), by_component(&tree.root)] {
            let one = root.metadata(Path::new("top")).unwrap();
            let other = root.metadata(Path::new("a/top")).unwrap();
            assert_eq!(one, other);
            assert_eq!(one.links, 2);
            let identity = FileIdentity {
                device: expected.dev(),
                inode: expected.ino(),
            };
            assert_eq!(one.identity, Some(identity));
            let modified = i128::from(expected.mtime()) * 1_000_000_000;
            assert_eq!(
                one.modified_ns,
                modified + i128::from(expected.mtime_nsec())
            );
        }
    }

    #[test]
    fn the_root_itself_is_not_opened_through_a_link() {
        let tree = tree();
        let link = tree.outside.join("link");
        symlink(&tree.root, &link).unwrap();
        for path in [link.clone(), link.join("a")] {
            let refused = RootDir::open(&path).unwrap_err();
            assert_eq!(refused.to_string(), LINK);
            let refused = sys::Root::open_without_openat2(&path).unwrap_err();
            assert_eq!(refused.to_string(), LINK);
            assert_eq!(portable::Root::open(&path).unwrap_err().to_string(), LINK);
        }
    }

    #[test]
    fn a_root_that_was_replaced_is_noticed_and_the_old_one_stays_open() {
        let tree = tree();
        let root = RootDir::open(&tree.root).unwrap();
        assert!(root.is_current());
        fs::rename(&tree.root, tree.outside.join("moved")).unwrap();
        assert!(!root.is_current());
        fs::create_dir(&tree.root).unwrap();
        assert!(!root.is_current());
        assert!(root.open_file(Path::new("top")).is_ok());
        assert!(RootDir::open(&tree.root).unwrap().is_current());
    }

    #[test]
    fn a_directory_that_may_be_entered_but_not_listed_can_be_passed_through() {
        let tree = tree();
        fs::set_permissions(tree.root.join("a"), fs::Permissions::from_mode(0o311)).unwrap();
        for way in ways(&tree.root) {
            assert_eq!(read(&way, "a/b/f").unwrap(), "inside", "{}", way.name);
        }
        fs::set_permissions(tree.root.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn opened_files_are_not_inherited_by_child_processes() {
        let tree = tree();
        for root in [RootDir::open(&tree.root).unwrap(), by_component(&tree.root)] {
            let file = root.open_file(Path::new("a/b/f")).unwrap();
            let flags = rustix::io::fcntl_getfd(&file).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_way_of_resolution_is_the_expected_one() {
        let tree = tree();
        let root = by_component(&tree.root);
        assert!(root.root.resolves_by_component());
        let system = RootDir::open(&tree.root).unwrap();
        // These tests may also run on a kernel or in a container without the call. Then both ways
        // are the same.
        if !system.root.resolves_by_component() {
            assert!(system.open_file(Path::new("top")).is_ok());
            assert!(!system.root.resolves_by_component());
        }
    }
}

#[test]
fn entries_are_looked_at_as_one_by_one() {
    let tree = tree();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&tree.outside, tree.root.join("a/link")).unwrap();
    for way in ways(&tree.root) {
        let stat = (way.stats)(Path::new("a"), &["b", "missing", "../top", "b/f", "."]).unwrap();
        assert_eq!(
            stat.dir,
            (way.meta)(Path::new("a")).unwrap(),
            "{}",
            way.name
        );
        let b = stat.entries[0].as_ref().unwrap();
        assert_eq!(*b, (way.meta)(Path::new("a/b")).unwrap(), "{}", way.name);
        let kinds: Vec<io::ErrorKind> = stat.entries[1..]
            .iter()
            .map(|entry| entry.as_ref().unwrap_err().kind())
            .collect();
        let refused = io::ErrorKind::InvalidInput;
        assert_eq!(
            kinds,
            [io::ErrorKind::NotFound, refused, refused, refused],
            "{}",
            way.name
        );
        assert!(
            (way.stats)(Path::new("a/none"), &["x"]).is_err(),
            "{}",
            way.name
        );
        #[cfg(unix)]
        {
            let link = (way.stats)(Path::new("a"), &["link"]).unwrap();
            let link = link.entries.into_iter().next().unwrap().unwrap();
            assert_eq!(link.kind, EntryKind::Symlink, "{}", way.name);
            assert!(
                (way.stats)(Path::new("a/link"), &["f"]).is_err(),
                "{}",
                way.name
            );
        }
    }
}

#[test]
fn a_link_is_followed_where_only_the_state_counts() {
    let tree = tree();
    let meta = metadata_following(&tree.root.join("top")).unwrap();
    assert_eq!((meta.kind, meta.len), (EntryKind::File, 3));
    #[cfg(unix)]
    {
        let link = tree.root.join("link");
        std::os::unix::fs::symlink(tree.outside.join("secret"), &link).unwrap();
        assert_eq!(metadata_following(&link).unwrap().len, 6);
    }
    assert!(metadata_following(&tree.root.join("none")).is_err());
}
