//! Unusable places for indexes: full disks, read-only directories and directories of other users.
//! Also wrong clocks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forge_search::internal::format::lock::LockFile;
use forge_search::internal::index::builder::{BuildHost, Progress};
use forge_search::internal::tool::config::IndexStorage;
use serde_json::json;

use super::edition::{Edition, key, load, names, store};
use crate::index_support::{Host, LIVE, Variant, compare};
use crate::permissions::unprivileged;
use crate::skipped::skipped;
use crate::support::{Setup, is_long};

const MAPPED: Variant = Variant {
    storage: IndexStorage::Mmap,
    ..LIVE
};

/// A shell script for a tree with a small cache. It builds an index that fits, one that does not
/// fit, and one that fits again. `$1` is the program, `$2` the tree. `limit` is prefixed to the
/// build that must fail.
const SCRIPT: &str = r#"
set -u
cd "$2"
fail() { echo "FAILED: $*"; exit 1; }
"$1" index build >out 2>&1 || fail "the first build: $(cat out)"
for n in $(seq 400); do head -c 3000 /dev/urandom | base64 >"many$n.txt"; done
if limited "$1" index build >out 2>&1; then fail "it was not too large"; fi
grep -q "could not write the new file" out || fail "what failed: $(cat out)"
grep -q "segment-2.seg" out || fail "where: $(cat out)"
grep -Eq "free some space|raise the limit on file size" out || fail "what to do: $(cat out)"
"$1" index verify >out 2>&1 || fail "the old index: $(cat out)"
"$1" "rare needle" >out 2>err || fail "a search: $(cat err)"
[ "$(grep -c "rare needle" out)" = 1 ] || fail "an answer: $(cat out)"
find "$XDG_CACHE_HOME" -name '*.tmp' | grep -q . && fail "something was left behind"
rm -f many*.txt
"$1" index build >out 2>&1 || fail "the last build: $(cat out)"
"$1" index verify >out 2>&1 || fail "the last index: $(cat out)"
echo ended well
"#;

/// Returns true if a process in this shell can mount a filesystem that only this process sees.
fn may_mount(shell: &[&str]) -> bool {
    let tried = Command::new(shell[0])
        .args(&shell[1..])
        .args(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "/tmp"])
        .output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// Runs a script over a small tree in `shell`.
#[track_caller]
fn run_script(shell: &[&str], script: &str) {
    let place = tempfile::tempdir().unwrap();
    let (tree, cache) = (place.path().join("tree"), place.path().join("cache"));
    fs::create_dir(&tree).unwrap();
    fs::create_dir(&cache).unwrap();
    fs::write(tree.join("a.txt"), "a rare needle\n").unwrap();
    // The script creates these files itself, so searches must ignore them.
    fs::write(tree.join(".ignore"), "out\nerr\n").unwrap();
    let output = Command::new(shell[0])
        .args(&shell[1..])
        .args(["bash", "-c", script, "bash"])
        .arg(env!("CARGO_BIN_EXE_forge-search"))
        .arg(&tree)
        .env("HOME", place.path())
        .env("XDG_CACHE_HOME", &cache)
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(said.ends_with("ended well\n"), "{said}\n{err}");
}

/// A user who can't mount a filesystem tests with a limit on the size of files instead. That
/// variant runs everywhere.
#[test]
fn a_full_disk_leaves_the_old_index_and_every_answer() {
    let limited = "limited() ( trap '' XFSZ; ulimit -f 40; exec \"$@\" )";
    run_script(&["env"], &format!("{limited}\n{SCRIPT}"));
    let mut mounted = 0;
    for shell in [&["unshare", "-Urm"][..], &["unshare", "-m"]] {
        if may_mount(shell) {
            let setup = "mount -t tmpfs -o size=160k,mode=700 none \"$XDG_CACHE_HOME\" || exit 1\nlimited() { \"$@\"; }";
            run_script(shell, &format!("{setup}\n{SCRIPT}"));
            mounted += 1;
            // The other way of mounting gives the same filesystem.
            if !is_long() {
                break;
            }
        }
    }
    match mounted {
        0 => skipped("nothing can be mounted, so that no filesystem is full"),
        _ => println!("a limit on the size of files, and {mounted} filesystems that were full"),
    }
}

/// A shell script with a cache on a filesystem that is mounted read-only. `$1` is the program, `$2`
/// the tree.
const READ_ONLY: &str = r#"
set -u
cd "$2"
fail() { echo "FAILED: $*"; exit 1; }
mount -t tmpfs -o size=4m,mode=700 none "$XDG_CACHE_HOME" || fail "no filesystem"
echo straw >b.txt
# Later, these would make the directory another than the one that was listed.
: >out
: >err
"$1" index build >out 2>&1 || fail "the first build: $(cat out)"
mount -o remount,ro "$XDG_CACHE_HOME" || fail "it stays writable"
if touch "$XDG_CACHE_HOME/x" 2>out; then fail "root may write"; fi
"$1" --index auto --stats "rare needle" >out 2>err || fail "a search: $(cat err)"
[ "$(grep -c "rare needle" out)" = 1 ] || fail "an answer: $(cat out)"
grep -Eq "^ *candidates_excluded +1$" err || fail "the index is of no use: $(cat err)"
"$1" index verify >out 2>&1 || fail "the index: $(cat out)"
if "$1" index build >out 2>&1; then fail "it was built"; fi
grep -q "Read-only file system" out || fail "why: $(cat out)"
grep -q "choose another directory" out || fail "what to do: $(cat out)"
if "$1" index clear >out 2>&1; then fail "it was removed"; fi
echo "a rare needle, too" >c.txt
# The index is behind now and stays so; answers do not.
for mode in auto on; do
    "$1" --index "$mode" "rare needle" >out 2>err || fail "a search: $(cat err)"
    [ "$(grep -c "rare needle" out)" = 2 ] || fail "an answer with $mode: $(cat out)"
done
grep -q "Read-only file system" err || fail "said nothing: $(cat err)"
if "$1" doctor >out 2>&1; then fail "nothing needs doing: $(cat out)"; fi
grep -q "Read-only file system" out || fail "what needs doing: $(cat out)"
"$1" call --wait-index '{"pattern": "rare needle"}' >out 2>err || fail "a search that waits: $(cat out err)"
grep -q '"count":2' out || fail "its answer: $(cat out)"
grep -q "Read-only file system" err || fail "it says nothing: $(cat err)"
# One that lives follows the tree with cookies elsewhere, and knows what changed since it was kept.
for n in $(seq 600); do
    echo '{"pattern": "rare needle"}'
    sleep 0.1
    if grep -q '"index_safety_state":"COMPLETE"' out; then break; fi
done | "$1" call --jsonl --set index_mode=on --set emit_stats=true >out 2>err || fail "a living index: $(cat err)"
grep -q '"index_safety_state":"COMPLETE"' out || fail "it never knows: $(cat out err)"
if grep -vq '"count":2' out; then fail "answers beside a living index: $(cat out)"; fi
mount -o remount,rw "$XDG_CACHE_HOME" || fail "it stays read-only"
"$1" index build >out 2>&1 || fail "the last build: $(cat out)"
# Where there has never been one.
mount -t tmpfs -o ro none "$XDG_CACHE_HOME" || fail "no second filesystem"
"$1" --index on --stats "rare needle" >out 2>err || fail "a search: $(cat err)"
[ "$(grep -c "rare needle" out)" = 2 ] || fail "an answer: $(cat out)"
grep -Eq "^ *storage_mode +memory$" err || fail "where it is: $(cat err)"
grep -Eq "^ *storage_fallback_reason +PERMISSION_DENIED$" err || fail "why it is there: $(cat err)"
echo ended well
"#;

/// On such a filesystem, permissions do not matter: root can't write there either.
#[test]
fn an_index_on_a_read_only_filesystem_serves_and_changes_no_answer() {
    let mut mounted = 0;
    for shell in [&["unshare", "-Urm"][..], &["unshare", "-m"]] {
        if may_mount(shell) {
            run_script(shell, READ_ONLY);
            mounted += 1;
        }
    }
    match mounted {
        0 => skipped("nothing can be mounted for reading only"),
        _ => println!("{mounted} filesystems that were mounted for reading only"),
    }
}

#[test]
fn an_empty_directory_that_can_not_be_written_is_no_place_for_indexes() {
    unprivileged(
        "fault_injection::places::an_empty_directory_that_can_not_be_written_is_no_place_for_indexes",
        |tree| {
            tree.file("a.txt", "a needle\n").file("b.txt", "straw\n");
            let cache = tree.path("../cache");
            fs::create_dir(&cache).unwrap();
            if rustix::process::geteuid().is_root() {
                chown(&cache, Some(65_534), Some(65_534)).unwrap();
            }
            fs::set_permissions(&cache, fs::Permissions::from_mode(0o500)).unwrap();
        },
        |setup| {
            let tree = setup.working_dir.clone();
            let cache = tree.with_file_name("cache");
            let setup = Setup::new(&tree).with_indexes_at(MAPPED, &cache);
            setup.build(&Host::hasty());
            let indexes = &setup.kept().indexes;
            assert_eq!(indexes.storage().as_str(), "memory");
            assert_eq!(indexes.fallback().unwrap().code, "PERMISSION_DENIED");
            let request = json!({"pattern": "needle"});
            assert_eq!(compare(&setup, &request).0.excluded, 1);
            assert_eq!(names(&cache), [""; 0]);
            fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
        },
    );
}

#[test]
fn where_nothing_can_be_written_the_old_index_serves_and_the_next_build_says_why() {
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    unprivileged(
        "fault_injection::places::where_nothing_can_be_written_the_old_index_serves_and_the_next_build_says_why",
        |tree| {
            tree.file("a.txt", "a needle\n").file("b.txt", "straw\n");
            let cache = tree.path("../cache");
            fs::create_dir(&cache).unwrap();
            chmod(&cache, 0o700);
            if rustix::process::geteuid().is_root() {
                chown(&cache, Some(65_534), Some(65_534)).unwrap();
            }
        },
        |setup| {
            let tree = setup.working_dir.clone();
            let cache = tree.with_file_name("cache");
            let setup = Setup::new(&tree).with_indexes_at(MAPPED, &cache);
            setup.build(&Host::hasty());
            let request = json!({"pattern": "needle"});
            assert_eq!(compare(&setup, &request).0.excluded, 1);
            let dir = setup.kept().dir();
            // Neither the files nor their directories are writable.
            let files = names(&dir).into_iter().map(|name| dir.join(name));
            files.for_each(|file| chmod(&file, 0o400));
            chmod(&dir, 0o500);
            chmod(&cache, 0o500);
            let opened = setup.clone().reopened();
            assert_eq!(compare(&opened, &request).0.excluded, 1);
            let error = opened.build_root(&tree, &Host::hasty()).unwrap_err();
            let said = error.to_string();
            let dir_shown = dir.to_str().unwrap();
            assert!(
                said.contains("could not ") && said.contains(dir_shown),
                "{said}"
            );
            assert!(said.contains("allow this user to write there"), "{said}");
            assert_eq!(compare(&opened, &request).0.excluded, 1);
            chmod(&cache, 0o700);
            chmod(&dir, 0o700);
            for which in [LockFile::Readers, LockFile::Writers] {
                chmod(&dir.join(which.name()), 0o600);
            }
            opened.build(&Host::hasty());
            assert_eq!(compare(&opened, &request).0.excluded, 1);
        },
    );
}

#[test]
fn a_cache_that_others_own_or_reach_into_is_refused() {
    unprivileged(
        "fault_injection::places::a_cache_that_others_own_or_reach_into_is_refused",
        |tree| {
            tree.file("a.txt", "a needle\n").file("b.txt", "straw\n");
            let make = |name: &str, owner: u32, mode: u32| {
                let dir = tree.path(&format!("../{name}"));
                fs::create_dir(&dir).unwrap();
                fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
                if rustix::process::geteuid().is_root() {
                    chown(&dir, Some(owner), Some(owner)).unwrap();
                }
                dir
            };
            let own = make("own", 65_534, 0o700);
            make("wide", 65_534, 0o777);
            make("group", 65_534, 0o770);
            symlink(own, tree.path("../link")).unwrap();
            if rustix::process::geteuid().is_root() {
                make("theirs", 0, 0o755);
                make("their-wide", 0, 0o777);
            }
        },
        |setup| {
            let tree = setup.working_dir.clone();
            let request = json!({"pattern": "needle"});
            let mut refused = 0;
            for (name, why) in [
                ("own", None),
                ("wide", Some("other users have access to it (mode 0777)")),
                ("group", Some("other users have access to it (mode 0770)")),
                ("theirs", Some("a directory of user 0")),
                ("their-wide", Some("a directory of user 0")),
                ("link", Some("a symbolic link")),
            ] {
                let cache = tree.with_file_name(name);
                // Only root can give a directory to another user.
                if !cache.exists() {
                    continue;
                }
                let opened = Setup::new(&tree).with_indexes_at(MAPPED, &cache);
                // Some problems show only when the store creates a directory, so build.
                opened.build(&Host::hasty());
                let fallback = opened.kept().indexes.fallback();
                let said = fallback.map(|fallback| fallback.message.clone());
                match why {
                    None => assert_eq!(said, None),
                    Some(why) => {
                        let said = said.unwrap_or_else(|| panic!("{name} was taken"));
                        assert!(said.contains(why), "{name}: {said}");
                        assert!(said.contains("choose another directory"), "{said}");
                        assert!(
                            fs::read_dir(&cache)
                                .is_ok_and(|mut dir| name == "link" || dir.next().is_none())
                        );
                        refused += 1;
                    }
                }
                // The index in memory excludes as many files.
                assert_eq!(compare(&opened, &request).0.excluded, 1, "{name}");
            }
            println!("{refused} directories refused");
            assert!(refused >= 3);
        },
    );
}

/// A host with a wrong clock.
struct Skewed {
    seconds: i64,
}

impl BuildHost for Skewed {
    fn now_ns(&self) -> i64 {
        Host::hasty().now_ns() + self.seconds * 1_000_000_000
    }

    fn pause(&self, _: Duration) {}

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn a_clock_that_is_set_back_or_forward_changes_no_answer() {
    const YEARS: i64 = 20 * 365 * 86_400;

    let tree = crate::support::Tree::of([("a.txt", "a needle\n"), ("b.txt", "straw\n")]);
    let setup = tree.setup().with_indexes(MAPPED);
    let request = json!({"pattern": "needle"});
    for (round, years) in [0, 1, -1, 1, 0, -1, -1, 0].into_iter().enumerate() {
        let seconds = years * YEARS;
        let sandbox = setup.context().sandbox;
        let indexes = &setup.kept().indexes;
        let host = Skewed { seconds };
        indexes.build(tree.root(), sandbox.reach(), &host).unwrap();
        let opened = setup.clone().reopened();
        let tally = compare(&opened, &request).0;
        // A file with a time in the future may still be changing, so it is not excluded.
        assert_eq!(tally.excluded, u64::from(years >= 0), "round {round}");
        let marker = format!("marker{round}x");
        tree.file("b.txt", format!("{marker}\n"));
        let (_, found) = compare(&opened, &json!({"pattern": marker}));
        assert_eq!(found.unwrap().count, 1);
    }
    // Publications are numbered independently of the clock. The last publication is the one that is
    // loaded.
    let place = tempfile::tempdir().unwrap();
    let store = store(&place.path().join("store"), None);
    let mut last = 0;
    for (number, now_ms) in [
        (1, 0),
        (2, i64::MAX / 2_000_000),
        (3, -5),
        (4, 1_700_000_000_000),
    ] {
        let edition = Edition::new(number);
        edition.publish_at(&store, &key(1), now_ms).unwrap();
        assert_eq!(load(&store, &key(1)).unwrap(), Some(edition.answer));
        let listed = store.look_at(&store.dir_of(&key(1)));
        let sequence = listed.manifest.unwrap().state.sequence;
        assert!(sequence > last);
        last = sequence;
    }
}

/// The number in a damaged manifest can't be read. The names of the other files contain it too.
#[test]
fn a_number_of_a_damaged_index_is_not_given_again() {
    let place = tempfile::tempdir().unwrap();
    let store = store(&place.path().join("store"), None);
    let dir = store.dir_of(&key(1));
    for round in 0..6 {
        let edition = Edition::new(round);
        edition.publish(&store, &key(1)).unwrap();
        let manifest = store.look_at(&dir).manifest.unwrap();
        assert_eq!(manifest.state.sequence, round + 1);
        let path = dir.join("manifest");
        match round % 3 {
            0 => fs::remove_file(&path).unwrap(),
            1 => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                fs::write(&path, "damaged").unwrap();
            }
            _ => {}
        }
    }
}
