pub(crate) mod changing;

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::index::overlay::{Content, ReadContent};
use crate::index::walk::RuleSets;
use changing::{Changing, heard, refresh};

/// The number of trees, and of changes to each.
const TREES: u64 = 12;
const CHANGES: usize = 120;

#[test]
fn the_tree_state_after_each_batch_is_that_of_the_tree() {
    for seed in 0..TREES {
        let mut tree = Changing::new(seed);
        tree.check();
        let mut made = 0;
        while made < CHANGES {
            for _ in 0..=tree.rng.below(6) {
                tree.change();
                made += 1;
                if tree.rng.one_in(4) {
                    tree.noise();
                }
            }
            tree.process_marks();
            tree.check();
            match tree.rng.below(12) {
                0 => tree.rebuild(),
                1 => tree.look_at_all(),
                _ => tree.read_some(),
            }
            tree.check();
        }
    }
}

#[test]
fn a_reconcile_finds_all_that_nobody_heard_of() {
    for seed in 100..100 + TREES {
        let mut tree = Changing::new(seed);
        for _ in 0..6 {
            for _ in 0..12 {
                tree.change();
            }
            tree.look_at_all();
            tree.check();
        }
    }
}

#[test]
fn each_directory_is_announced_before_it_is_listed() {
    let mut tree = Changing::new(7);
    tree.announced.lock().unwrap().clear();
    tree.look_at_all();
    let announced: BTreeSet<PathBuf> = tree.announced.lock().unwrap().drain(..).collect();
    assert_eq!(
        announced,
        tree.directories(RuleSets::NONE).into_iter().collect()
    );
    // A file that is created during the announcement is listed.
    let walk = tree.walk(Path::new(""));
    let mut cursor = Cursor::whole(&walk);
    let root = tree.root.clone();
    let enter = |dir: &Path| fs::write(root.join(dir).join("announced"), "x").unwrap();
    let refresh = Refresh {
        walk: &walk,
        segment: &tree.segment,
        enter: &enter,
        now_ns: i64::MAX,
    };
    while !cursor.is_done() {
        refresh.step(&mut tree.known, &mut cursor).unwrap();
    }
    tree.check();
}

/// Searches use the knowledge while a tree is compared, so the error of an unreadable directory
/// stays until that directory is listed again.
#[test]
fn an_error_of_a_directory_stays_until_the_directory_itself_is_listed() {
    let mut tree = Changing::new(5);
    fs::create_dir_all(tree.root.join("shut/below")).unwrap();
    let shut = PathBuf::from("shut");
    let error = (shut.clone(), "it could not be listed".to_string());
    tree.known.set_errors([error].into_iter());
    let walk = tree.walk(Path::new(""));
    let mut cursor = Cursor::whole(&walk);
    let refresh = refresh(&walk, &tree.segment);
    refresh.step(&mut tree.known, &mut cursor).unwrap();
    assert!(
        !cursor.is_done(),
        "the root was listed, and what is in it was not"
    );
    assert!(tree.known.errors().contains_key(&shut));
    while !cursor.is_done() {
        refresh.step(&mut tree.known, &mut cursor).unwrap();
    }
    assert!(tree.known.errors().is_empty(), "it can be listed");
    tree.check();
}

#[test]
fn directories_that_come_back_bring_the_entries_of_the_segment_to_life() {
    let mut tree = Changing::new(3);
    fs::create_dir_all(tree.root.join("kept/below")).unwrap();
    fs::write(tree.root.join("kept/below/file.txt"), "alpha\n").unwrap();
    tree.rebuild();
    let dead = tree.known.overlay.dead_count();
    let away = tree.root.parent().unwrap().join("elsewhere");
    fs::rename(tree.root.join("kept"), &away).unwrap();
    tree.look_at_all();
    tree.check();
    assert_eq!(tree.known.overlay.dead_count(), dead + 1);
    fs::rename(&away, tree.root.join("kept")).unwrap();
    tree.look_at_all();
    tree.check();
    assert_eq!(tree.known.overlay.dead_count(), dead);
    assert_eq!(
        tree.known
            .overlay
            .extra(Path::new("kept/below/file.txt"))
            .map(|extra| extra.path.clone()),
        None
    );
}

#[test]
fn what_can_not_be_listed_is_known_until_it_can() {
    let mut tree = Changing::new(5);
    // The path is too long for the system, so no user can list it.
    let (half, aside) = (long_dir(), tree.root.parent().unwrap().join("half"));
    fs::create_dir_all(aside.join(&half)).unwrap();
    fs::create_dir_all(tree.root.join("long").join(&half)).unwrap();
    tree.rebuild();
    assert!(tree.known.errors().is_empty());
    let there = tree.root.join("long").join(&half).join("x");
    fs::rename(&aside, &there).unwrap();
    tree.look_at_all();
    tree.check();
    assert_eq!(tree.known.errors().len(), 1);
    fs::rename(&there, &aside).unwrap();
    tree.look_at_all();
    tree.check();
    assert!(tree.known.errors().is_empty());
    assert!(fs::metadata(&aside).unwrap().nlink() > 0);
}

#[test]
fn a_look_at_directories_stops_at_any_moment_and_can_be_repeated() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let mut tree = Changing::new(9);
    let dirs: Vec<PathBuf> = (0..7).map(|n| PathBuf::from(format!("new{n}"))).collect();
    for dir in &dirs {
        fs::create_dir(tree.root.join(dir)).unwrap();
        fs::write(tree.root.join(dir).join("file.txt"), "alpha\n").unwrap();
    }
    let named = |dir| (dir, vec![heard("file.txt", 0)]);
    let walk = tree.walk(Path::new(""));
    let refresh = refresh(&walk, &tree.segment);
    let mut entered = EnteredDirs::default();
    let before = tree.known.overlay.extras().len();
    let mut found = Vec::new();
    for count in [1, 2, 3, 7] {
        let dirs: Vec<_> = dirs[..count]
            .iter()
            .map(PathBuf::as_path)
            .map(named)
            .collect();
        for most in 0..40 {
            let (calls, known) = (AtomicUsize::new(0), &mut tree.known);
            let go_on = || calls.fetch_add(1, Ordering::Relaxed) < most;
            let taken = refresh
                .entries(known, &mut entered, &dirs, &mut Cursor::default(), &go_on)
                .unwrap();
            assert!(taken.iter().all(Vec::is_empty), "all exist");
            found.push(tree.known.overlay.extras().len() - before);
        }
        assert_eq!(found.last(), Some(&count));
    }
    assert!(
        found.is_sorted() && found.contains(&0) && found.contains(&4),
        "{found:?}"
    );
}

/// As long as the directory can't be read, its files may exist.
#[test]
fn what_is_in_a_directory_that_can_not_be_looked_at_is_not_taken_for_gone() {
    let mut tree = Changing::new(6);
    // The path is too long for the system, so no user can look it up.
    let (half, aside) = (long_dir(), tree.root.parent().unwrap().join("half"));
    fs::create_dir_all(aside.join(&half)).unwrap();
    fs::create_dir_all(tree.root.join("long").join(&half)).unwrap();
    let there = Path::new("long").join(&half).join("x");
    fs::rename(&aside, tree.root.join(&there)).unwrap();
    let dir = there.join(&half);
    let walk = tree.walk(Path::new(""));
    let refresh = refresh(&walk, &tree.segment);
    let mut entered = EnteredDirs::default();
    let mut cursor = Cursor::default();
    let dirs = [(&*dir, vec![heard("file.txt", 0)])];
    let known = &mut tree.known;
    refresh
        .entries(known, &mut entered, &dirs, &mut cursor, &|| true)
        .unwrap();
    let errors: Vec<&PathBuf> = tree.known.errors().keys().collect();
    assert_eq!(errors, [&dir.join("file.txt")]);
}

/// A write call may still be in progress when the file's stamp has settled. Its event arrives at
/// the end.
#[test]
fn a_file_with_an_event_after_its_state_has_settled_is_read_again() {
    let mut tree = Changing::new(8);
    fs::create_dir(tree.root.join("dir")).unwrap();
    for name in ["dir/one.txt", "dir/two.txt"] {
        fs::write(tree.root.join(name), "alpha\n").unwrap();
    }
    fs::hard_link(
        tree.root.join("dir/two.txt"),
        tree.root.join("dir/three.txt"),
    )
    .unwrap();
    tree.rebuild();
    let dead = tree.known.overlay.dead_count();
    let stamp = |tree: &Changing, path: &str| -> Stamp {
        let position = tree.segment.position(Path::new(path)).unwrap();
        Stamp::from_record(tree.segment.file(position).unwrap().stamp)
    };
    let unread = |tree: &Changing, path: &str| {
        let extra = tree.known.overlay.extra(Path::new(path));
        extra.map(|extra| extra.status().is_none())
    };
    let settles_ns = |stamp: Stamp| stamp.settles_in(0).as_nanos() as i64;
    let one = stamp(&tree, "dir/one.txt");
    tree.known.take_news();
    // The event arrives in time, as nearly always.
    tree.hear_at("dir/one.txt", settles_ns(one) - 1);
    assert_eq!(unread(&tree, "dir/one.txt"), None);
    assert!(!tree.known.take_news());
    tree.hear_at("dir/one.txt", settles_ns(one));
    assert_eq!(unread(&tree, "dir/one.txt"), Some(true));
    assert!(tree.known.take_news());
    assert_eq!(tree.known.overlay.distrusted().len(), 1);
    // Listing the file again, or moving it away and back, does not restore trust in the segment's
    // version.
    tree.look_at_all();
    assert_eq!(unread(&tree, "dir/one.txt"), Some(true));
    fs::rename(tree.root.join("dir"), tree.root.join("else")).unwrap();
    tree.look_at_all();
    assert_eq!(unread(&tree, "dir/one.txt"), None);
    fs::rename(tree.root.join("else"), tree.root.join("dir")).unwrap();
    tree.look_at_all();
    assert_eq!(unread(&tree, "dir/one.txt"), Some(true));
    assert_eq!(tree.known.overlay.dead_count(), dead + 1);
    // Once read, the content counts until the next such event.
    let given_out = |tree: &Changing| {
        let extra = tree.known.overlay.extra(Path::new("dir/one.txt"));
        extra.unwrap().clone()
    };
    let read = || {
        Content::Read(Arc::new(ReadContent {
            grams: Vec::new(),
            words: None,
        }))
    };
    let extra = given_out(&tree);
    assert!(tree.known.overlay.read(&extra, read()));
    tree.hear_at("dir/one.txt", settles_ns(one) - 1);
    assert_eq!(unread(&tree, "dir/one.txt"), Some(false));
    tree.hear_at("dir/one.txt", i64::MAX);
    assert_eq!(unread(&tree, "dir/one.txt"), Some(true));
    // Also if it is being read.
    let extra = given_out(&tree);
    tree.hear_at("dir/one.txt", i64::MAX);
    assert!(!tree.known.overlay.read(&extra, read()));
    assert!(tree.known.overlay.read(&given_out(&tree), read()));
    // An event for one name applies to the other names.
    tree.hear_at("dir/two.txt", i64::MAX);
    assert_eq!(unread(&tree, "dir/three.txt"), Some(true));
    assert_eq!(tree.known.overlay.distrusted().len(), 3);
}

/// Returns a path of two and a half thousand bytes.
fn long_dir() -> PathBuf {
    std::iter::repeat_n("l".repeat(250), 10).collect()
}

/// Only the reconcile sees this change. A removed name stays removed when the file is found under
/// its other name.
#[test]
fn a_removed_name_does_not_come_back_with_the_other_name() {
    let mut tree = Changing::new(9);
    fs::write(tree.root.join("first"), "alpha\n").unwrap();
    fs::hard_link(tree.root.join("first"), tree.root.join("second")).unwrap();
    fs::create_dir(tree.root.join("dir")).unwrap();
    fs::hard_link(tree.root.join("first"), tree.root.join("dir/third")).unwrap();
    tree.rebuild();
    fs::remove_file(tree.root.join("second")).unwrap();
    tree.look_at_all();
    tree.check();
    fs::remove_file(tree.root.join("dir/third")).unwrap();
    tree.look_at_all();
    tree.check();
}
