//! Measures the cost of watching. This module prints figures (`cargo test -- --nocapture`); only
//! success is checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{LONG, Scene};

/// Returns the duration of the call.
fn timed(call: impl FnOnce()) -> Duration {
    #[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    let begin = Instant::now();
    call();
    begin.elapsed()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 1_000];
    println!(
        "{what}: p50 {:?}, p99 {:?}, max {:?} of {}",
        at(500),
        at(990),
        at(1_000),
        times.len()
    );
}

fn barriers(scene: &Scene, count: usize) -> Vec<Duration> {
    let pass = |_| {
        std::thread::sleep(Duration::from_micros(400));
        timed(|| scene.notes.barrier.pass(&*scene.watcher, LONG).unwrap())
    };
    (0..count).map(pass).collect()
}

#[test]
fn barriers_cost_little_also_while_much_is_written() {
    let dirs: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
    let names: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let scene = Scene::watching(&names);
    print("barrier, idle", barriers(&scene, 2_000));
    // Another watcher, because the barrier owns the numbers of its own.
    let other = Scene::watching(&[]);
    let touches = (0..2_000).map(|n| timed(|| other.watcher.touch(1_000_000 + n).unwrap()));
    print("touch", touches.collect());
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            const A_SECOND: f64 = 10_000.0;
            let mut spent = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                spent += timed(|| {
                    for dir in &dirs {
                        let n = written.fetch_add(1, Ordering::Relaxed) / 10 % 100;
                        fs::write(scene.at(dir).join(n.to_string()), "x").unwrap();
                    }
                    let due = written.load(Ordering::Relaxed) as f64 / A_SECOND;
                    std::thread::sleep(Duration::from_secs_f64(due).saturating_sub(spent));
                });
            }
        });
        let mut times = Vec::new();
        let took = timed(|| times = barriers(&scene, 2_000));
        is_over.store(true, Ordering::Relaxed);
        let rate = written.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
        print(
            &format!("barrier, with {rate:.0} files written a second"),
            times,
        );
    });
    let mounts = (0..1_000).map(|_| timed(|| assert!(!scene.watcher.mounts_changed())));
    print("mounts", mounts.collect());
}

#[test]
fn many_directories_are_watched_and_removed() {
    const WIDTH: usize = 50;
    let scene = Scene::watching(&[]);
    let mut dirs = Vec::new();
    for above in 0..WIDTH {
        let above = PathBuf::from(above.to_string());
        fs::create_dir(scene.at("").join(&above)).unwrap();
        dirs.push(above.clone());
        for below in 0..WIDTH {
            let below = above.join(below.to_string());
            fs::create_dir(scene.at("").join(&below)).unwrap();
            dirs.push(below);
        }
    }
    let watch = |dir: &Path| timed(|| scene.watcher.watch(dir).unwrap());
    print("watch", dirs.iter().map(|dir| watch(dir)).collect());
    print("watch again", dirs.iter().map(|dir| watch(dir)).collect());
    assert_eq!(scene.watcher.watched(), dirs.len() + 1);
    let removal = timed(|| {
        for dir in dirs.iter().take(dirs.len() / 2) {
            let _with_what_is_above = fs::remove_dir_all(scene.at("").join(dir));
        }
    });
    print(
        "barrier after half of them were removed",
        barriers(&scene, 1),
    );
    println!("(removing took {removal:?})");
    let left = (WIDTH / 2..WIDTH).map(|above| above.to_string());
    for above in left {
        scene.check_live(&above);
    }
}
