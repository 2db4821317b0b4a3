//! Changes whose events are lost.

use std::fs;
use std::path::Path;

use super::*;

/// Runs `happens` while the queue is full, so that the only event is the loss.
pub(super) fn unheard(scene: &Scene, happens: impl FnOnce()) {
    const LOST: u64 = 0;

    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    let (one, other) = (scene.at("noise/1"), scene.at("noise/2"));
    fs::write(&one, "").unwrap();
    scene.hold(true);
    for _ in 0..queue / 2 {
        // Two events for each rename: twice as many as the queue can hold.
        fs::rename(&one, &other).unwrap();
        fs::rename(&other, &one).unwrap();
    }
    happens();
    scene.watcher.touch(LOST).unwrap();
    scene.hold(false);
    let is_cookie = |heard: &FsEvent| *heard == FsEvent::Cookie(LOST);
    // A caller that waits for a lost cookie must not wait forever.
    while !lock(&scene.notes.heard).iter().any(is_cookie) {
        std::thread::yield_now();
    }
    let heard = scene.heard();
    assert!(heard.contains(&FsEvent::Overflow));
}

/// A directory keeps its watch when it is renamed, so the watch has been on all its names.
#[test]
fn a_directory_renamed_there_and_back_unheard_is_heard_under_its_name() {
    let scene = Scene::watching(&["noise", "a", "b", "a/s"]);
    let all = ["", "noise", "a", "b"];
    for (from, to) in [("a/s", "b/s"), ("b/s", "a/s")] {
        unheard(&scene, || scene.rename(from, to));
        all.iter().for_each(|dir| scene.watch(dir));
        scene.watch(to);
        scene.check_live(to);
    }
    unheard(&scene, || {
        scene.rename("a/s", "b/s");
        scene.watch("b/s");
        scene.rename("b/s", "a/s");
    });
    all.iter().for_each(|dir| scene.watch(dir));
    scene.watch("a/s");
    scene.check_live("a/s");
}

#[test]
fn a_directory_that_went_unheard_is_not_watched_any_more() {
    let scene = Scene::watching(&["noise", "a", "a/s", "b"]);
    unheard(&scene, || {
        fs::remove_dir_all(scene.at("a")).unwrap();
        scene.rename("b", "../elsewhere");
    });
    scene.watch("");
    scene.watch("noise");
    assert_eq!(scene.watcher.watched(), 2);
    fs::write(scene.base.path().join("above/elsewhere/f"), "x").unwrap();
    assert_eq!(scene.heard(), []);
}

/// A parent of a directory may be replaced by a symbolic link after it was listed. The path then
/// leads to another directory of the tree, which may be watched already.
#[test]
fn a_directory_reached_by_a_link_too_is_heard_under_its_own_name() {
    let scene = Scene::watching(&["d", "d/s", "e", "e/s"]);
    scene.rename("d", "../elsewhere");
    std::os::unix::fs::symlink("e", scene.at("d")).unwrap();
    scene.heard();
    // A user that listed `d` before would do this.
    let _either_way = scene.watcher.watch(Path::new("d/s"));
    scene.check_live("e/s");
    // The same in the opposite direction.
    fs::remove_file(scene.at("d")).unwrap();
    fs::create_dir_all(scene.at("d/s")).unwrap();
    scene.heard();
    scene.watch("d");
    scene.watch("d/s");
    scene.check_live("d/s");
    scene.check_live("e/s");
}

#[test]
fn directories_that_change_places_are_watched_again() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let scene = Scene::watching(&["a", "a/s", "b", "b/s"]);
    scene.write("f");
    let exchange = |one: &str, other: &str| {
        let (one, other) = (scene.at(one), scene.at(other));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    };
    for early in [false, true].repeat(50) {
        exchange("a", "b");
        let all = ["a", "a/s", "b", "b/s"];
        if early {
            all.iter().for_each(|dir| scene.watch(dir));
        }
        let heard = scene.heard();
        assert!(heard.contains(&subtree("a")) && heard.contains(&subtree("b")));
        all.iter().for_each(|dir| scene.watch(dir));
        all.iter().for_each(|dir| scene.check_live(dir));
        exchange("a", "f");
        if early {
            let _luck = scene.watcher.watch(Path::new("a"));
            scene.watch("f");
        }
        let heard = scene.heard();
        assert!(heard.contains(&subtree("a")) && heard.contains(&subtree("f")));
        scene.watch("f");
        scene.watch("f/s");
        scene.check_live("f/s");
        exchange("f", "a");
        scene.heard();
        all.iter().for_each(|dir| scene.watch(dir));
        all.iter().for_each(|dir| scene.check_live(dir));
        assert_eq!(scene.watcher.watched(), 5);
    }
}

/// A look at the tree while the root is away finds nothing, so it has to be repeated.
#[test]
fn a_root_that_is_away_for_a_moment_is_heard_of() {
    let scene = Scene::watching(&["noise", "d"]);
    let (above, away) = (
        scene.base.path().join("above"),
        scene.base.path().join("away"),
    );
    for round in 0..3 {
        fs::rename(&above, &away).unwrap();
        assert!(!scene.watcher.is_in_place() && scene.watcher.touch(0).is_err());
        fs::rename(&away, &above).unwrap();
        assert!(scene.watcher.is_in_place());
        let heard = scene.heard();
        assert!(heard.contains(&FsEvent::Moved), "{round}: {heard:?}");
        scene.check_live("d");
        // The next queue reports it too.
        unheard(&scene, || {});
        ["", "noise", "d"].iter().for_each(|dir| scene.watch(dir));
    }
    assert_eq!(scene.heard(), []);
    // Changes next to the root are not reported.
    fs::create_dir(scene.base.path().join("beside")).unwrap();
    fs::write(above.join("beside"), "x").unwrap();
    fs::rename(scene.base.path().join("beside"), above.join("other")).unwrap();
    assert_eq!(scene.heard(), []);
}

/// The directories above the root change when some are renamed and others created in their places.
#[test]
fn a_root_is_heard_of_that_is_away_because_of_a_directory_that_came_later() {
    let scene = Scene::watching(&["d"]);
    let base = scene.base.path();
    let away = base.with_extension("away");
    let there_and_back = || {
        fs::rename(base, &away).unwrap();
        fs::rename(&away, base).unwrap();
        scene.heard()
    };
    assert!(there_and_back().contains(&FsEvent::Moved));
    for round in 0..3 {
        // Another directory replaces the parent of the root.
        fs::rename(base, &away).unwrap();
        fs::create_dir(base).unwrap();
        fs::rename(away.join("above"), base.join("above")).unwrap();
        fs::remove_dir_all(&away).unwrap();
        let heard = scene.heard();
        assert!(heard.contains(&FsEvent::Moved), "{round}: {heard:?}");
        scene.watch("");
        let heard = there_and_back();
        assert!(heard.contains(&FsEvent::Moved), "{round}: {heard:?}");
        scene.check_live("d");
    }
    // The directory that was moved away is not watched any more.
    assert_eq!(scene.heard(), []);
}
