//! Tests of stored results (EXEC §9).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use super::*;

fn world() -> World {
    let mut world = World::new();
    world.write("a.csv", "id,a\n1,needle\n");
    world.scope("a", ScopeKind::Csv, "a.csv");
    world
}

#[test]
fn a_task_is_executed_once_and_answered_alike_for_ever() {
    let world = world();
    let executor = world.real();
    let run = |query: &str| world.run(&executor, "t", "SEARCH_DATASETS", "a", query);
    let first = run("needle");
    ok(&first);
    assert!(!first.repeated);
    // The data changes, and later disappears.
    world.write("a.csv", "id,a\n1,needle\n2,needle\n");
    let second = run("needle");
    assert!(second.repeated);
    assert_eq!(second.body, first.body);
    fs::remove_file(world.path("a.csv")).unwrap();
    // Space around a query is not part of it.
    assert_eq!(run(" needle\n").body, first.body);
    failed(&run("needl"), "EXECUTION_FAILED", "task_id_reused");
    // Another process returns the same answer.
    assert_eq!(
        world
            .run(&world.real(), "t", "SEARCH_DATASETS", "a", "needle")
            .body,
        first.body
    );
}

#[test]
fn lease_checks_come_before_the_result_store() {
    let world = world();
    let executor = world.real();
    ok(&world.run(&executor, "t", "SEARCH_DATASETS", "a", "needle"));
    let late = world
        .real()
        .with_clock(Arc::new(|| ns("2026-01-01T12:00:01Z")));
    failed(
        &world.run(&late, "t", "SEARCH_DATASETS", "a", "needle"),
        "LEASE_EXPIRED",
        "expired",
    );
    let mut other = World::new();
    other.config.scopes = world.config.scopes.clone();
    let stranger = Executor::new(&other.config, world.path("store/results.db"), worker()).unwrap();
    let stranger = stranger.with_clock(Arc::new(|| ns(NOW)));
    failed(
        &world.run(&stranger, "t", "SEARCH_DATASETS", "a", "needle"),
        "INVALID_LEASE",
        "key_unknown",
    );
}

#[test]
fn an_expired_result_is_not_computed_again() {
    let mut world = world();
    world.config.retention_days = 1;
    let executor = |now: &'static str| world.real().with_clock(Arc::new(move || ns(now)));
    let manifest = manifest("t", "SEARCH_DATASETS", "a", "needle", 10);
    let lease = world.lease_for_ever("t", "SEARCH_DATASETS", "a");
    let first = executor("2026-01-01T12:00:00Z").execute(&manifest, &lease);
    ok(&first);
    let within = executor("2026-01-02T12:00:00Z").execute(&manifest, &lease);
    assert_eq!(within.body, first.body);
    let after = executor("2026-01-02T12:00:01Z").execute(&manifest, &lease);
    failed(&after, "EXECUTION_FAILED", "result_expired");
    // The result stays expired, even if the clock is set back.
    let again = executor("2026-01-01T12:00:00Z").execute(&manifest, &lease);
    failed(&again, "EXECUTION_FAILED", "result_expired");
}

/// A barrier: waits until a given number of threads have arrived, at most [`GUARD`].
#[derive(Default)]
struct Meeting(Mutex<usize>, Condvar);

impl Meeting {
    fn wait_for(&self, all: usize) {
        let mut come = self.0.lock().unwrap();
        *come += 1;
        self.1.notify_all();
        let waited = self
            .1
            .wait_timeout_while(come, GUARD, |come| *come < all)
            .unwrap();
        assert!(!waited.1.timed_out(), "{} of {all} have come", waited.0);
    }
}

#[test]
fn many_executions_at_once_keep_one_result() {
    let world = world();
    static NTH: AtomicU64 = AtomicU64::new(0);
    let together = Arc::new(Meeting::default());
    let bodies: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| {
                let (world, together) = (&world, together.clone());
                scope.spawn(move || {
                    let executor = world.executor(move |job: &Job| {
                        // Each execution would find a different count.
                        let mut done = in_memory(job)?;
                        done.found.count = 100 + NTH.fetch_add(1, Ordering::SeqCst);
                        together.wait_for(8);
                        Ok(done)
                    });
                    let execution = world.run(&executor, "t", "SEARCH_DATASETS", "a", "needle");
                    ok(&execution);
                    execution.body
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(NTH.load(Ordering::SeqCst), 8);
    assert!(bodies.iter().all(|body| *body == bodies[0]));
}

/// One of the executions makes the new store, while the others open it.
#[test]
fn many_processes_may_open_a_new_result_store_at_once() {
    for round in 0..30 {
        let world = world();
        let together = Meeting::default();
        std::thread::scope(|scope| {
            for nth in 0..8 {
                let (world, together) = (&world, &together);
                scope.spawn(move || {
                    let executor = world.executor(in_memory);
                    together.wait_for(8);
                    let task = format!("t{nth}");
                    let execution = world.run(&executor, &task, "SEARCH_DATASETS", "a", "needle");
                    assert_eq!(execution.detail, None, "round {round}");
                    ok(&execution);
                });
            }
        });
    }
}

#[test]
fn an_unusable_result_store_is_reported_and_no_task_is_executed() {
    let world = world();
    world.write(
        "store/results.db",
        "this is no database, and longer than nothing",
    );
    let execution = world.run(
        &world.executor(|_: &Job| -> Result<HostResult, Reason> { panic!("executed") }),
        "t",
        "SEARCH_DATASETS",
        "a",
        "needle",
    );
    failed(&execution, "EXECUTION_FAILED", "store_failed");
    assert!(execution.detail.unwrap().contains("results.db"));
    assert_eq!(
        fs::read(world.path("store/results.db")).unwrap(),
        b"this is no database, and longer than nothing"
    );
}

/// Errors of a store that fails after it was opened also go to the operator.
#[test]
fn the_operator_learns_why_a_result_can_not_be_found_or_kept() {
    let world = world();
    let executor = world.executor(in_memory);
    let run = |task: &str| world.run(&executor, task, "SEARCH_DATASETS", "a", "needle");
    ok(&run("t"));
    let store = rusqlite::Connection::open(world.path("store/results.db")).unwrap();
    for (sql, part) in [
        (
            "CREATE TRIGGER no BEFORE INSERT ON results BEGIN SELECT RAISE(FAIL, 'not kept'); END",
            "not kept",
        ),
        (
            "DROP TRIGGER no; ALTER TABLE results RENAME COLUMN manifest TO other",
            "manifest",
        ),
        ("DROP TABLE results", "no such table"),
    ] {
        store.execute_batch(sql).unwrap();
        let execution = run("u");
        failed(&execution, "EXECUTION_FAILED", "store_failed");
        let detail = execution.detail.unwrap();
        assert!(
            detail.contains(part) && detail.contains("results.db"),
            "{detail}"
        );
        assert!(!String::from_utf8_lossy(&execution.body).contains(part));
    }
}

#[test]
fn a_result_store_is_for_its_user_only_whatever_links_there_are() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = world();
    let executor = world.executor(in_memory);
    let run = || world.run(&executor, "t", "SEARCH_DATASETS", "a", "needle");
    let (store, target) = (world.path("store/results.db"), world.path("elsewhere.db"));
    fs::create_dir(world.path("store")).unwrap();
    symlink(&target, &store).unwrap();
    let execution = run();
    failed(&execution, "EXECUTION_FAILED", "store_failed");
    let detail = execution.detail.unwrap();
    assert!(
        detail.contains("a symbolic link without a target"),
        "{detail}"
    );
    assert!(!target.exists());
    // An existing file is used, and keeps its owner.
    fs::write(&target, "").unwrap();
    ok(&run());
    assert!(fs::metadata(&target).unwrap().len() > 0);
    fs::remove_file(&store).unwrap();
    ok(&run());
    let mode = fs::metadata(&store).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A user who may write to the store's directory must not choose which file is written.
#[test]
fn a_result_store_is_not_created_through_a_planted_link() {
    let world = world();
    fs::create_dir(world.path("store")).unwrap();
    let victim = world.write("victim", "precious");
    // The file name that an earlier version used, for every possible thread.
    for thread in 0..2_000 {
        let name = format!("store/results.db.{}-ThreadId({thread})", std::process::id());
        std::os::unix::fs::symlink(&victim, world.path(&name)).unwrap();
    }
    let executor = world.executor(in_memory);
    ok(&world.run(&executor, "t", "SEARCH_DATASETS", "a", "needle"));
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn threads_of_one_process_share_a_result_store_without_taking_each_others_locks() {
    let world = world();
    let executor = world.executor(in_memory);
    let all = 64;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (world, executor) = (&world, &executor);
            scope.spawn(move || {
                for nth in 0..all / 8 {
                    let task = format!("t{thread}-{nth}");
                    ok(&world.run(executor, &task, "SEARCH_DATASETS", "a", "needle"));
                }
            });
        }
        // Other processes open and close the store meanwhile.
        for nth in 0..8 {
            let other = rusqlite::Connection::open(world.path("store/results.db"));
            drop(other);
            let task = format!("t{nth}-0");
            let again = world.run(
                &world.executor(in_memory),
                &task,
                "SEARCH_DATASETS",
                "a",
                "needle",
            );
            ok(&again);
        }
    });
    let store = rusqlite::Connection::open(world.path("store/results.db")).unwrap();
    let count: i64 = store
        .query_row("SELECT count(*) FROM results", (), |row| row.get(0))
        .unwrap();
    assert_eq!(count, all);
    let names: Vec<_> = fs::read_dir(world.path("store"))
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| name.to_string_lossy().starts_with("results.db")),
        "{names:?}"
    );
    assert!(names.len() <= 3, "nothing is left of making it: {names:?}");
}

#[test]
fn deleted_results_are_gone_from_the_file() {
    let mut world = World::new();
    world.config.retention_days = 1;
    world.write("a.csv", "id,a\n1,a needle of gold\n");
    world.scope("a", ScopeKind::Csv, "a.csv");
    let lease = |task: &str| world.lease_for_ever(task, "SEARCH_DATASETS", "a");
    let run = |task: &str, now: &'static str| {
        let executor = world.real().with_clock(Arc::new(move || ns(now)));
        let manifest = manifest(task, "SEARCH_DATASETS", "a", "needle", 10);
        executor.execute(&manifest, &lease(task))
    };
    ok(&run("t", "2026-01-01T12:00:00Z"));
    let holds = |part: &str| {
        let files = fs::read_dir(world.path("store")).unwrap();
        let mut texts = files.map(|one| fs::read(one.unwrap().path()).unwrap());
        texts.any(|text| {
            text.windows(part.len())
                .any(|window| window == part.as_bytes())
        })
    };
    assert!(holds("needle of gold"));
    failed(
        &run("t", "2026-02-01T12:00:00Z"),
        "EXECUTION_FAILED",
        "result_expired",
    );
    assert!(!holds("needle of gold"));
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let world = world();
    fs::create_dir(world.path("store")).unwrap();
    let path = world.path("store/results.db");
    for (sql, part) in [
        ("CREATE TABLE other (a)", "another program"),
        ("DROP TABLE other; PRAGMA user_version = 7", "later version"),
    ] {
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let before = fs::read(&path).unwrap();
        let execution = world.run(
            &world.executor(in_memory),
            "t",
            "SEARCH_DATASETS",
            "a",
            "needle",
        );
        failed(&execution, "EXECUTION_FAILED", "store_failed");
        assert!(
            execution.detail.as_deref().unwrap().contains(part),
            "{execution:?}"
        );
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

/// Kills the executing process at random moments. The next answer must be complete, and equal to an
/// earlier answer.
#[test]
fn a_process_killed_at_any_moment_keeps_no_partial_result() {
    let kills = std::env::var("FORGE_SEARCH_TEST_KILLS").map_or(12, |n| n.parse::<u32>().unwrap());
    let mut world = World::new();
    let lines: String = (0..2_000).map(|n| format!("{n},needle {n}\n")).collect();
    world.write("a.csv", format!("id,a\n{lines}"));
    world.scope("a", ScopeKind::Csv, "a.csv");
    let config = world.write_config();
    let expected = {
        let execution = world.run(&world.real(), "whole", "SEARCH_DATASETS", "a", "needle");
        ok(&execution)["results"].clone()
    };
    let (mut before, mut after) = (0, 0);
    for nth in 0..kills {
        let task = format!("t{nth}");
        let lease = world.write("lease", world.lease_for_ever(&task, "SEARCH_DATASETS", "a"));
        let manifest = world.write(
            "manifest",
            manifest(&task, "SEARCH_DATASETS", "a", "needle", 10),
        );
        let execute = || {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forge-search"));
            command.args(["execute", "--config"]);
            command.args([&config, Path::new("--lease-file"), &lease, &manifest]);
            command.stdout(std::process::Stdio::piped());
            command
        };
        let mut killed = execute().spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(u64::from(nth % 40) * 2));
        killed.kill().unwrap();
        let told = killed.wait_with_output().unwrap().stdout;
        let again = execute().output().unwrap();
        assert!(again.status.success(), "{again:?}");
        let value: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(value["results"], expected);
        match told.is_empty() {
            true => before += 1,
            false => {
                after += 1;
                // The second answer repeats the first one.
                assert!(again.stdout.starts_with(&told));
            }
        }
    }
    println!("kills: {before} before anything was told, {after} after");
}

#[test]
fn a_result_store_that_others_can_replace_is_refused() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let world = world();
    let executor = world.executor(in_memory);
    let run = |task: &str| world.run(&executor, task, "SEARCH_DATASETS", "a", "needle");
    let dir = world.path("store");
    let mode = |dir: &Path, mode| {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = |dir: &Path, why: &str| {
        let refused = run("t");
        failed(&refused, "EXECUTION_FAILED", "store_failed");
        let detail = refused.detail.unwrap();
        let named = dir.display().to_string();
        assert!(detail.contains(&named) && detail.contains(why), "{detail}");
    };
    fs::create_dir(&dir).unwrap();
    for is_there in [false, true] {
        let top = world.dir.path();
        for (place, open) in [(&*dir, 0o777), (&dir, 0o702), (&dir, 0o770), (top, 0o777)] {
            mode(place, open);
            refused(place, "can be written by others");
            mode(place, 0o700);
        }
        assert_eq!(dir.join("results.db").exists(), is_there);
        // In a sticky directory, other users can't replace the store.
        mode(&dir, 0o1777);
        ok(&run(&format!("t-{is_there}")));
        mode(&dir, 0o700);
    }
    if rustix::process::geteuid().is_root() {
        chown(&dir, Some(65_534), None).unwrap();
        refused(&dir, "belongs to another user");
        chown(&dir, Some(0), None).unwrap();
    }
    // The target of a link can be replaced in the target's own directory.
    let other = world.path("other");
    fs::create_dir(&other).unwrap();
    fs::rename(dir.join("results.db"), other.join("real.db")).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    symlink(other.join("real.db"), dir.join("results.db")).unwrap();
    mode(&other, 0o777);
    refused(&other, "can be written by others");
    mode(&other, 0o700);
    ok(&run("t-link"));
}

#[test]
fn a_result_store_that_others_can_write_is_refused() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let world = world();
    let executor = world.real();
    let run = |task: &str| world.run(&executor, task, "SEARCH_DATASETS", "a", "needle");
    ok(&run("t1"));
    let store = world.path("store/results.db");
    let mode = |mode| fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o620, 0o602] {
        mode(open);
        let refused = run("t2");
        failed(&refused, "EXECUTION_FAILED", "store_failed");
        assert!(refused.detail.unwrap().contains("chmod go-w"));
    }
    mode(0o600);
    if rustix::process::geteuid().is_root() {
        chown(&store, Some(65_534), None).unwrap();
        let refused = run("t2");
        failed(&refused, "EXECUTION_FAILED", "store_failed");
        assert!(refused.detail.unwrap().contains("another user"));
        chown(&store, Some(0), None).unwrap();
    }
    ok(&run("t2"));
}
