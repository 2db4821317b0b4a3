use proptest::prelude::*;

use super::*;

const DEBOUNCE: Duration = Duration::from_millis(250);

impl DirtySet {
    /// Returns true if the path, or a directory above it, is marked.
    fn contains(&self, path: &Path) -> bool {
        let path = clean(path);
        self.marks.contains_key(path.as_os_str()) || self.dir_above(&path).is_some()
    }
}

fn paths(work: &[Work]) -> Vec<String> {
    let path = |work: &Work| work.path.to_str().unwrap().replace(MAIN_SEPARATOR, "/");
    work.iter().map(path).collect()
}

/// Returns all marks that are ready at a moment.
fn ready(set: &DirtySet, now_ms: u64) -> Vec<Work> {
    set.ready(usize::MAX, now_ms, DEBOUNCE)
}

#[test]
fn marks_of_subtrees_cover_what_is_below() {
    let mut set = DirtySet::new();
    assert!(set.is_empty() && !set.contains(Path::new("a")));
    set.mark(Path::new("src/a.rs"), Extent::File, 1);
    assert!(set.contains(Path::new("src/a.rs")));
    for other in ["src", "src/a", "src/a.rs.bak", "src/a.rs/below", ""] {
        assert!(!set.contains(Path::new(other)), "{other}");
    }
    set.mark(Path::new("src"), Extent::Subtree, 2);
    assert_eq!(set.len(), 1, "it stands for the file");
    for below in ["src", "src/a.rs", "src/deep/er/b"] {
        assert!(set.contains(Path::new(below)), "{below}");
    }
    for other in ["src-old", "sr", "lib/src"] {
        assert!(!set.contains(Path::new(other)), "{other}");
    }
    set.mark(Path::new(""), Extent::Subtree, 3);
    assert_eq!(set.len(), 1);
    assert!(set.contains(Path::new("lib/src")));
}

#[test]
fn the_oldest_come_first_and_ties_by_path() {
    let mut set = DirtySet::new();
    for (path, at) in [("b", 20), ("z", 10), ("a/x", 20), ("a-b", 20), ("B", 20)] {
        set.mark(Path::new(path), Extent::File, at);
    }
    assert_eq!(paths(&ready(&set, 1_000)), ["z", "B", "a-b", "a/x", "b"]);
    assert_eq!(paths(&set.ready(2, 1_000, DEBOUNCE)), ["z", "B"]);
    // A later change of the same file does not move it back.
    set.mark(Path::new("z"), Extent::File, 30);
    assert_eq!(paths(&ready(&set, 1_000))[0], "z");
    // A subtree is as old as the oldest change in it.
    set.mark(Path::new("a"), Extent::Subtree, 40);
    assert_eq!(paths(&ready(&set, 1_000)), ["z", "B", "a", "a-b", "b"]);
}

#[test]
fn changes_are_waited_for_but_not_forever() {
    let mut set = DirtySet::new();
    let path = Path::new("log");
    set.mark(path, Extent::File, 1_000);
    assert!(set.contains(path), "at once");
    assert!(ready(&set, 1_249).is_empty());
    assert_eq!(paths(&ready(&set, 1_250)), ["log"]);
    for at in (1_000..5_900).step_by(100) {
        set.mark(path, Extent::File, at);
        assert!(ready(&set, at + 50).is_empty(), "{at}");
    }
    set.mark(path, Extent::File, 5_999);
    assert_eq!(paths(&ready(&set, 6_000)), ["log"]);
    // After the clock was set back, no mark waits for years: the next event makes it ready.
    set.mark(path, Extent::File, 10);
    assert_eq!(paths(&ready(&set, 260)), ["log"]);
}

#[test]
fn what_changes_while_it_is_worked_off_stays() {
    let mut set = DirtySet::new();
    set.mark(Path::new("a"), Extent::File, 0);
    set.mark(Path::new("dir"), Extent::Subtree, 0);
    let work = ready(&set, 1_000);
    assert_eq!(paths(&work), ["a", "dir"]);
    set.mark(Path::new("a"), Extent::File, 1_001);
    set.mark(Path::new("dir/file"), Extent::File, 1_001);
    assert!(!set.done(&work[0]) && !set.done(&work[1]));
    assert_eq!(set.len(), 2);
    let again = ready(&set, 2_000);
    assert!(set.done(&again[0]) && set.done(&again[1]));
    assert!(set.is_empty() && ready(&set, 9_000).is_empty());
    assert!(!set.done(&again[0]), "it is off already");
}

#[test]
fn whether_a_name_was_written_to_last_is_kept_apart() {
    let mut set = DirtySet::new();
    let (path, dir) = (Path::new("a/b"), Path::new("a"));
    assert!(!set.is_written(path));
    set.mark(path, Extent::File, 1);
    assert!(set.is_written(path) && !set.is_written(dir));
    // The file was removed or replaced.
    set.mark(path, Extent::Subtree, 2);
    assert!(!set.is_written(path));
    set.mark(path, Extent::File, 3);
    assert!(set.is_written(path));
    let work = ready(&set, 1_000);
    assert_eq!(
        (work[0].extent, work[0].is_written),
        (Extent::Subtree, true)
    );
    // Its directory was removed.
    set.mark(dir, Extent::Subtree, 4);
    assert!(!set.is_written(path) && !set.is_written(dir));
    set.mark(path, Extent::File, 5);
    assert!(!set.is_written(path), "the mark above stands for it");
}

#[test]
fn what_is_marked_again_is_as_it_was() {
    let mut since = DirtySet::new();
    for (path, extent) in [
        ("came", Extent::Subtree),
        ("came", Extent::File),
        ("went", Extent::File),
        ("went", Extent::Subtree),
        ("dir/file", Extent::File),
        ("written", Extent::File),
    ] {
        since.mark(Path::new(path), extent, 5);
    }
    let mut set = DirtySet::new();
    set.mark(Path::new("dir"), Extent::Subtree, 3);
    set.mark(Path::new("written"), Extent::File, 9);
    let before = ready(&set, 1_000);
    set.mark_again(&since);
    // Their earlier processing came too early.
    assert!(before.iter().all(|work| !set.done(work)));
    assert_eq!(
        paths(&ready(&set, 1_000)),
        ["dir", "came", "went", "written"]
    );
    let written =
        ["came", "went", "dir/file", "written"].map(|path| set.is_written(Path::new(path)));
    assert_eq!(written, [true, false, false, true]);
}

#[test]
fn what_a_build_has_seen_is_cleared() {
    let mut set = DirtySet::new();
    set.mark(Path::new("before"), Extent::File, 1);
    set.mark(Path::new("both"), Extent::File, 1);
    set.mark(Path::new("dir"), Extent::Subtree, 1);
    let started = set.now();
    set.mark(Path::new("both"), Extent::File, 1);
    set.mark(Path::new("dir/file"), Extent::File, 1);
    set.mark(Path::new("during"), Extent::File, 1);
    set.clear_until(started);
    assert_eq!(paths(&ready(&set, 1_000)), ["both", "dir", "during"]);
    set.clear_until(set.now());
    assert!(set.is_empty());
}

#[test]
fn too_many_marks_become_coarser() {
    let mut set = DirtySet::new();
    let all: Vec<PathBuf> = (0..MAX_MARKS + 1)
        .map(|n| PathBuf::from(format!("d{}/f{n}", n % 100)))
        .collect();
    for (n, path) in all.iter().enumerate() {
        set.mark(path, Extent::File, n as u64);
    }
    assert_eq!(set.len(), 100);
    assert!(all.iter().all(|path| set.contains(path)));
    assert!(!set.contains(Path::new("d100/f")));
    assert_eq!(paths(&set.ready(2, 1 << 40, DEBOUNCE)), ["d0", "d1"]);
    let mut set = DirtySet::new();
    for n in 0..MAX_MARKS + 1 {
        set.mark(Path::new(&format!("d{n}/f")), Extent::File, 1);
    }
    assert_eq!(set.len(), 1);
    assert!(set.contains(Path::new("anything")));
}

/// An operation on a set.
#[derive(Clone, Debug)]
enum Step {
    Mark(String, bool),
    Done(usize),
    Clear,
    Begin,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Some names sort between `a` and `a/`, or between `a/` and all that follows it.
    let path = || "(a|b|a-|a0)(/(a|b|a-|é)){0,3}";
    prop::collection::vec(
        prop_oneof![
            6 => (path(), any::<bool>()).prop_map(|(path, all)| Step::Mark(path, all)),
            2 => (0usize..4).prop_map(Step::Done),
            1 => Just(Step::Clear),
            1 => Just(Step::Begin),
        ],
        0..60,
    )
}

proptest! {
    /// No mark is lost that was made after its processing or a build began.
    #[test]
    fn no_mark_is_lost(steps in steps()) {
        let mut set = DirtySet::new();
        // Every mark ever made, with its number, as long as it must still be there.
        let mut owed: Vec<(PathBuf, Extent, u64)> = Vec::new();
        let (mut taken, mut number): (Option<(Work, u64)>, u64) = (None, 0);
        let (mut began, mut began_at) = (set.now(), 0);
        let covers = |work: &Work, path: &Path| match work.extent {
            Extent::File => work.path == path,
            Extent::Subtree => path.starts_with(&work.path),
        };
        for (now_ms, step) in (0u64..).zip(steps) {
            match step {
                Step::Mark(path, all) => {
                    number += 1;
                    let extent = if all { Extent::Subtree } else { Extent::File };
                    set.mark(Path::new(&path), extent, now_ms);
                    owed.push((path.into(), extent, number));
                }
                Step::Done(n) => {
                    // Work that was taken earlier is finished now, with marks made in between.
                    if let Some((work, at)) = taken.take() {
                        let off = set.done(&work);
                        if off {
                            owed.retain(|(path, _, made)| *made > at || !covers(&work, path));
                        }
                    }
                    let all = set.ready(usize::MAX, u64::MAX, DEBOUNCE);
                    taken = all.into_iter().nth(n).map(|work| (work, number));
                }
                Step::Clear => {
                    set.clear_until(began);
                    owed.retain(|(_, _, made)| *made > began_at);
                }
                Step::Begin => (began, began_at) = (set.now(), number),
            }
            for (path, extent, _) in &owed {
                prop_assert!(set.contains(path), "{path:?}");
                let below = path.join("a/b");
                prop_assert!(*extent == Extent::File || set.contains(&below), "{below:?}");
            }
            // No mark covers another, and the marked subtrees are counted.
            let all = set.ready(usize::MAX, u64::MAX, DEBOUNCE);
            let marks = all.iter().map(|work| (&*work.path, work.extent));
            let marks: Vec<(&Path, Extent)> = marks.collect();
            for (path, extent) in &marks {
                let inside = |other: &&(&Path, Extent)| other.0 != *path && other.0.starts_with(path);
                prop_assert!(*extent == Extent::File || !marks.iter().any(|other| inside(&other)));
            }
            prop_assert_eq!(set.len(), marks.len());
            let is_subtree = |mark: &&(&Path, Extent)| mark.1 == Extent::Subtree;
            prop_assert_eq!(set.subtrees, marks.iter().filter(is_subtree).count());
        }
    }
}
