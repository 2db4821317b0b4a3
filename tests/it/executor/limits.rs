//! Tests the limits of a worker, how searches beyond them fail, and how workers end (EXEC §1, §8).

use std::io::Write;
use std::time::{Duration, Instant};

use forge_search::internal::exec::stop::SystemClock;
use forge_search::internal::tool::executor::confine::ConfinementLevel;
use forge_search::internal::tool::executor::worker::{Answer, MEMORY, WorkerRequest};

use super::*;

/// Writes a mailbox of at least `bytes` bytes.
fn mailbox(path: &Path, bytes: usize) {
    let mut out = std::io::BufWriter::new(fs::File::create(path).unwrap());
    let line = "some words that are not what is looked for, and some more of them\n";
    let body = line.repeat(60);
    let mut written = 0;
    let mut nth = 0;
    while written < bytes {
        let message = format!(
            "From x Thu Jan  1 00:00:00 2026\nFrom: a@x.example\nTo: b@x.example\nSubject: {nth}\nDate: Thu, 1 Jan 2026 07:00:00 +0000\nMessage-ID: <{nth}@x>\n\n{body}\n"
        );
        out.write_all(message.as_bytes()).unwrap();
        written += message.len();
        nth += 1;
    }
    out.flush().unwrap();
}

fn large() -> usize {
    let mib = std::env::var("FORGE_SEARCH_TEST_MBOX_MIB").ok();
    mib.map_or(64, |mib| mib.parse::<usize>().unwrap()) << 20
}

#[test]
fn a_large_mailbox_is_read_in_little_memory() {
    let mut world = World::new();
    mailbox(&world.path("m.mbox"), large());
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let began = Instant::now();
    let execution = world.run(&world.real(), "t", "SEARCH_EMAILS", "mail", "@x.example");
    let value = ok(&execution);
    assert!(value["count"].as_u64().unwrap() > 1_000);
    let peak = execution.peak_kib.unwrap();
    println!(
        "mbox of {} MiB: {:.1} s, {peak} KiB",
        large() >> 20,
        began.elapsed().as_secs_f64()
    );
    // The memory does not grow with the size of the mailbox.
    assert!(peak < 64 * 1024, "{peak}");
}

#[test]
fn a_directory_of_many_files_is_read_in_the_available_memory() {
    let count =
        std::env::var("FORGE_SEARCH_TEST_ENTRIES").map_or(20_000, |n| n.parse::<u64>().unwrap());
    let mut world = World::new();
    let dir = world.path("many");
    fs::create_dir(&dir).unwrap();
    for n in 0..count {
        fs::File::create(dir.join(format!("file-number-{n}"))).unwrap();
    }
    world.scope("many", ScopeKind::Files, "many");
    let began = Instant::now();
    let execution = world.run(&world.real(), "t", "SEARCH_FILES", "many", "number-1");
    let peak = execution.peak_kib.unwrap();
    println!(
        "{count} files: {:.1} s, {peak} KiB",
        began.elapsed().as_secs_f64()
    );
    let value = ok(&execution);
    assert_eq!(ids(&value)[..2], ["file-number-1", "file-number-10"]);
    let expected = (0..count)
        .filter(|n| n.to_string().starts_with('1'))
        .count();
    assert_eq!(value["count"], expected);
}

#[test]
fn a_task_that_takes_too_long_is_ended_and_returns_no_result() {
    let mut world = World::new();
    mailbox(&world.path("m.mbox"), 64 << 20);
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let hasty = Worker {
        time: Duration::from_millis(60),
        clock: Arc::new(SystemClock),
        ..worker()
    };
    let execution = world.run(
        &world.executor(hasty),
        "t",
        "SEARCH_EMAILS",
        "mail",
        "words",
    );
    failed(&execution, "RESOURCE_EXHAUSTED", "time");
    // The failure was not stored as a result, so the task may be tried again.
    assert_eq!(
        world
            .run(&world.real(), "t", "SEARCH_EMAILS", "mail", "words")
            .failure,
        None
    );
}

#[test]
fn a_task_that_needs_too_much_memory_is_ended_and_returns_no_result() {
    let mut world = World::new();
    // One field, one message and one line, each larger than the memory of a worker.
    let huge = "needle ".repeat(40 << 20);
    world.write("huge.csv", format!("id,a\n1,{huge}\n"));
    world.write("huge.jsonl", format!("{{\"id\": 1, \"a\": \"{huge}\"}}\n"));
    world.write(
        "huge.mbox",
        format!("From x\nDate: Thu, 1 Jan 2026 07:00:00 +0000\n\n{huge}\n"),
    );
    drop(huge);
    world.scope("csv", ScopeKind::Csv, "huge.csv");
    world.scope("jsonl", ScopeKind::Jsonl, "huge.jsonl");
    world.scope("mbox", ScopeKind::Mbox, "huge.mbox");
    let executor = world.real();
    for (scope, capability) in [
        ("csv", "SEARCH_DATASETS"),
        ("jsonl", "SEARCH_DATASETS"),
        ("mbox", "SEARCH_EMAILS"),
    ] {
        let execution = world.run(&executor, scope, capability, scope, "needle");
        failed(&execution, "RESOURCE_EXHAUSTED", "memory");
    }
}

/// SQLite converts these texts to UTF-8. It assumes that the memory for this is always there.
#[test]
fn a_text_that_becomes_too_long_as_utf_8_needs_too_much_memory() {
    let mut world = World::new();
    let data = rusqlite::Connection::open(world.path("utf16.db")).unwrap();
    data.execute_batch(
        "PRAGMA encoding = 'UTF-16le'; CREATE TABLE records (id TEXT, name TEXT);
         INSERT INTO records VALUES ('needle', 'needle');",
    )
    .unwrap();
    world.scope("utf16", ScopeKind::Sqlite, "utf16.db");
    let executor = world.real();
    let run = |task: &str| world.run(&executor, task, "SEARCH_DATASETS", "utf16", "needle");
    assert_eq!(ok(&run("short"))["count"], 2);
    data.execute_batch("INSERT INTO records VALUES ('long', printf('%.*c', 40000000, 'x'));")
        .unwrap();
    failed(&run("long"), "RESOURCE_EXHAUSTED", "memory");
    data.execute_batch(
        "DELETE FROM records; INSERT INTO records VALUES (printf('%.*c', 40000000, 'x'), 'x');",
    )
    .unwrap();
    failed(&run("key"), "RESOURCE_EXHAUSTED", "memory");
}

#[test]
fn a_worker_that_does_not_start_or_ends_by_itself_is_reported() {
    let mut world = World::new();
    world.write("a.csv", "id,a\n1,needle\n");
    world.scope("a", ScopeKind::Csv, "a.csv");
    let with = |program: &str, args: &[&str]| {
        let worker = Worker::new(
            PathBuf::from(program),
            args.iter().map(Into::into).collect(),
        );
        world.run(
            &world.executor(worker),
            "t",
            "SEARCH_DATASETS",
            "a",
            "needle",
        )
    };
    let absent = with("/nowhere/worker", &[]);
    failed(&absent, "EXECUTION_FAILED", "worker_absent");
    let detail = absent.detail.unwrap();
    assert!(
        detail.contains("/nowhere/worker") && detail.contains("No such file"),
        "{detail}"
    );
    // The cause goes to the operator and not into the answer. It is one line without control
    // characters.
    let script = "echo first >&2; printf 'a reason\\033[31m\\n\\n' >&2; exit 3";
    let ended = with("/bin/sh", &["-c", script]);
    failed(&ended, "EXECUTION_FAILED", "worker_failed");
    assert_eq!(
        ended.detail.as_deref(),
        Some("the worker ended with exit code 3: a reason\\x1b[31m")
    );
    assert!(!String::from_utf8_lossy(&ended.body).contains("a reason"));
    let long = with("/bin/sh", &["-c", "yes é | tr -d '\\n' | head -c 9999 >&2"]);
    assert!(long.detail.unwrap().chars().count() < 600);
    failed(
        &with("/bin/sh", &["-c", "exit 3"]),
        "EXECUTION_FAILED",
        "worker_failed",
    );
    failed(
        &with("/bin/sh", &["-c", "exit 0"]),
        "EXECUTION_FAILED",
        "worker_failed",
    );
    failed(
        &with("/bin/sh", &["-c", "kill -SEGV $$"]),
        "EXECUTION_FAILED",
        "worker_failed",
    );
    failed(
        &with("/bin/sh", &["-c", "echo '{\"found\": 1'"]),
        "EXECUTION_FAILED",
        "worker_failed",
    );
    failed(
        &with("/bin/sh", &["-c", "yes"]),
        "RESOURCE_EXHAUSTED",
        "output",
    );
}

/// A worker with a process between itself and its host would go on after the end of the host.
#[test]
fn a_worker_whose_parent_is_not_its_host_does_nothing() {
    let world = World::new();
    let script = format!(
        "{} execute-worker; exit $?",
        env!("CARGO_BIN_EXE_forge-search")
    );
    let between = Worker::new(PathBuf::from("/bin/sh"), vec!["-c".into(), script.into()]);
    let fault = between
        .ask(&WorkerRequest::Try(world.path("x")))
        .unwrap_err();
    assert_eq!(fault.reason, Reason::WorkerFailed);
    let detail = fault.detail.unwrap();
    assert!(
        detail.contains("exit code 2: the worker can't work: "),
        "{detail}"
    );
    assert!(detail.contains("another process started it"), "{detail}");
}

#[test]
fn the_host_limits_the_worker_itself() {
    let world = World::new();
    let shell = |script: &str| Worker {
        memory: MEMORY,
        ..Worker::new(PathBuf::from("/bin/sh"), vec!["-c".into(), script.into()])
    };
    let answer = shell("ulimit -v; exit 9").ask(&WorkerRequest::Try(world.path("x")));
    assert_eq!(
        answer.map_err(|fault| fault.reason),
        Err(Reason::WorkerFailed)
    );
    // The host may set the limit a moment after the start of the worker.
    let limited = shell(
        "until [ \"$(ulimit -v)\" = 250000 ]; do sleep 0.01; done
         exec printf '{\"failed\": \"time\"}'",
    );
    assert_eq!(
        limited.ask(&WorkerRequest::Try(world.path("x"))),
        Ok(Answer::Failed(Reason::Time))
    );
}

#[test]
fn a_worker_can_neither_write_nor_connect_nor_start_anything() {
    let world = World::new();
    let dir = world.path("try");
    world.write("try/file", "x");
    world.write("try/secret", "x");
    let Ok(Answer::Tried { confined, allowed }) = worker().ask(&WorkerRequest::Try(dir.clone()))
    else {
        panic!("no answer");
    };
    println!("confined: {confined:?}, allowed: {allowed:?}");
    if confined.seccomp == ConfinementLevel::Wholly {
        // Seccomp leaves only reading allowed, which Landlock forbids.
        let left: Vec<&String> = allowed.iter().filter(|what| *what != "read").collect();
        assert!(left.is_empty(), "{allowed:?}");
    }
    if confined.landlock != ConfinementLevel::Not {
        assert!(!allowed.contains(&"read".to_string()), "{allowed:?}");
    }
    assert_eq!(fs::read(dir.join("file")).unwrap(), b"x");
}

#[test]
fn a_worker_has_no_file_of_its_host_open() {
    use std::os::unix::process::CommandExt;
    let world = World::new();
    let config = world.write_config();
    let mut host = std::process::Command::new("/bin/sh");
    // The worker inherits the files that the shell opens.
    let script = "exec 7>\"$1\"; \"$0\" execute-worker <&6 & p=$!; n=0
        while [ -e /proc/$p/fd/6 -o -e /proc/$p/fd/7 ] && [ $n -lt 3000 ]; do
            sleep 0.1; n=$((n + 1))
        done
        ls -l /proc/$p/fd; kill $p";
    host.arg0("sh")
        .args(["-c", &format!("exec 6<>\"$2\"; {script}")]);
    let fifo = world.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    host.arg(env!("CARGO_BIN_EXE_forge-search"))
        .arg(world.path("out"))
        .arg(&fifo)
        .arg(config);
    let output = host.output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains(" 0 -> "), "{output:?}");
    assert!(
        !listed.contains(" 7 -> ") && !listed.contains(" 6 -> "),
        "{listed}"
    );
}

#[test]
fn a_worker_does_not_outlive_its_host() {
    let mut world = World::new();
    mailbox(&world.path("m.mbox"), 64 << 20);
    world.scope("mail", ScopeKind::Mbox, "m.mbox");
    let config = world.write_config();
    let lease = world.write("lease", world.lease_for_ever("t", "SEARCH_EMAILS", "mail"));
    let manifest = world.write(
        "manifest",
        manifest("t", "SEARCH_EMAILS", "mail", "words", 10),
    );
    let mut host = std::process::Command::new(env!("CARGO_BIN_EXE_forge-search"))
        .args(["execute", "--config"])
        .args([&config, Path::new("--lease-file"), &lease, &manifest])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", host.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|pid| pid.parse::<i32>().ok())
            .next()
    };
    let began = Instant::now();
    let worker = loop {
        match children() {
            Some(worker) => break worker,
            None => assert!(began.elapsed() < GUARD, "no worker"),
        }
    };
    host.kill().unwrap();
    host.wait().unwrap();
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while is_there() {
        assert!(began.elapsed() < GUARD, "the worker goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}
