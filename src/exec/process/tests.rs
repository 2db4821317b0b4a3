use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::*;
use crate::exec::stop::{StopReason, SystemClock};

/// Writes a script that can be run at once. A script can't be run while a process has it open for
/// writing. Another process writes it, since child processes of other tests inherit the open files
/// of this process.
pub(crate) fn write_script(path: &std::path::Path, script: &str) {
    let text = tempfile::NamedTempFile::new().unwrap();
    fs::write(text.path(), format!("#!/bin/sh\n{script}\n")).unwrap();
    let copied = Command::new("cp").arg(text.path()).arg(path).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// How long a test waits before it counts as hung. Test programs that do not end by themselves run
/// for longer.
const GUARD: Duration = Duration::from_secs(300);

/// Runs a shell script; `$1` and so on are `args`.
fn shell(
    script: &str,
    args: &[&str],
    until: StopConditions<'_>,
    take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> RunEnd {
    let args = arguments(["-c", script, "sh"].iter().chain(args));
    let invocation = Invocation::new(Path::new("/bin/sh"), &args);
    run(invocation, until, take).unwrap()
}

/// Returns the output of a script, and how it ended.
fn output(script: &str) -> (Vec<u8>, RunEnd) {
    let mut all = Vec::new();
    let stop = Stop::new();
    let until = StopConditions {
        stop: &stop,
        deadline: None,
    };
    let ended = shell(script, &[], until, &mut |piece| {
        all.extend_from_slice(piece.bytes);
        ControlFlow::Continue(())
    });
    (all, ended)
}

/// Returns the existing processes in a group, including zombies of this process. The init process
/// reaps killed orphans at any later time.
fn members(group: i32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name in parentheses may contain any character; state, parent and group follow it.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let orphaned_zombie = fields[0] == "Z" && fields[1] != std::process::id().to_string();
        if fields[2] == group.to_string() && !orphaned_zombie {
            found.push(stat);
        }
    }
    found
}

/// Waits until killed processes are gone: other processes reap those that are not our children.
fn assert_gone(group: i32) {
    let began = Instant::now();
    loop {
        let left = members(group);
        if left.is_empty() {
            return;
        }
        assert!(began.elapsed() < GUARD, "still there: {left:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a script that prints the number of its group first, and raises the flag once that is known.
/// The script itself would run for longer than the guard.
fn stopped(script: &str) -> (RunEnd, i32) {
    let stop = Stop::new();
    let until = StopConditions {
        stop: &stop,
        deadline: None,
    };
    let mut group = 0;
    let (sender, receiver) = std::sync::mpsc::channel();
    let raiser = thread::spawn({
        let stop = stop.clone();
        move || {
            receiver.recv().unwrap();
            // Ensures that the run waits for the program and not for its caller.
            thread::sleep(Duration::from_millis(30));
            stop.raise(StopReason::TimedOut);
            Instant::now()
        }
    });
    let ended = shell(script, &[], until, &mut |piece| {
        if group == 0 {
            let text = String::from_utf8_lossy(piece.bytes).into_owned();
            group = text.lines().next().unwrap().trim().parse().unwrap();
            sender.send(()).unwrap();
        }
        ControlFlow::Continue(())
    });
    let end = Instant::now();
    let raised = raiser.join().unwrap();
    let took = end.saturating_duration_since(raised);
    assert!(took < GUARD, "the end took {took:?}");
    (ended, group)
}

#[test]
fn a_program_is_heard_to_its_end() {
    let (out, ended) = output("echo one; echo two >&2; printf three; exit 3");
    assert_eq!(out, b"one\nthree");
    assert_eq!(ended.exit, Some(Exit::Code(3)));
    assert_eq!(ended.stderr, b"two\n");
    assert_eq!(ended.interrupted, None);
    let (out, ended) = output("kill -SEGV $$");
    assert_eq!((out.len(), ended.exit), (0, Some(Exit::Signal(11))));
}

#[test]
fn a_program_gets_no_input_and_no_environment_of_ours() {
    let (out, _) = output("cat; env | sort; pwd");
    let text = String::from_utf8(out).unwrap();
    let names: Vec<&str> = text.lines().map(|l| l.split('=').next().unwrap()).collect();
    // The shell sets some variables of its own.
    assert!(
        names
            .iter()
            .all(|name| ["LC_ALL", "PWD", "OLDPWD", "SHLVL", "_", "/", "PATH"].contains(name)),
        "{text}"
    );
    assert!(
        text.contains("LC_ALL=C\n") && text.ends_with("/\n"),
        "{text}"
    );
}

#[test]
fn a_silent_program_ends_when_the_flag_is_set() {
    let (ended, group) = stopped("echo $$; exec sleep 1000");
    assert_eq!(ended.interrupted, Some(Interruption::Stopped));
    assert_eq!(ended.exit, Some(Exit::Signal(9)));
    assert_gone(group);
}

#[test]
fn a_program_that_ignores_signals_ends_with_its_children() {
    let script =
        "trap '' TERM INT HUP PIPE; sleep 1000 & sleep 1000 & echo $$; while :; do sleep 1; done";
    let (ended, group) = stopped(script);
    assert_eq!(ended.interrupted, Some(Interruption::Stopped));
    assert_gone(group);
}

#[test]
fn a_program_that_closes_its_pipes_and_stays_ends_with_the_flag() {
    let (ended, group) = stopped("echo $$; exec >&- 2>&-; exec sleep 1000");
    assert_eq!(ended.interrupted, Some(Interruption::Stopped));
    assert_gone(group);
}

#[test]
fn floods_end_with_the_flag_and_are_not_kept() {
    let (ended, group) = stopped("echo $$; exec cat /dev/zero >&2");
    assert_eq!(ended.stderr.len(), STDERR_LIMIT);
    assert!(ended.stderr_cut);
    assert_gone(group);
    let (_, group) = stopped("echo $$; exec cat /dev/zero");
    assert_gone(group);
}

#[test]
fn a_grandchild_that_keeps_the_pipes_open_does_not_keep_the_call() {
    let begin = Instant::now();
    let (out, ended) = output("sleep 1000 & echo $$; exit 1");
    assert!(begin.elapsed() < GUARD, "{:?}", begin.elapsed());
    assert_eq!(ended.exit, Some(Exit::Code(1)));
    assert_gone(String::from_utf8(out).unwrap().trim().parse().unwrap());
}

#[test]
fn a_large_standard_error_neither_blocks_nor_grows() {
    let (out, ended) = output("head -c 3000000 /dev/zero >&2; echo done");
    assert_eq!(out, b"done\n");
    assert_eq!(ended.stderr.len(), STDERR_LIMIT);
    assert!(ended.stderr_cut);
    assert_eq!(ended.exit, Some(Exit::Code(0)));
}

#[test]
fn the_caller_can_break_and_can_panic() {
    let stop = Stop::new();
    let until = StopConditions {
        stop: &stop,
        deadline: None,
    };
    let mut group = 0;
    let mut read = |piece: Piece<'_>| {
        group = String::from_utf8_lossy(piece.bytes).trim().parse().unwrap();
    };
    let ended = shell("echo $$; exec sleep 1000", &[], until, &mut |piece| {
        read(piece);
        ControlFlow::Break(())
    });
    assert_eq!(ended.interrupted, Some(Interruption::Enough));
    assert_gone(group);

    let (sender, receiver) = std::sync::mpsc::channel();
    let panicked = thread::spawn(move || {
        let stop = Stop::new();
        let until = StopConditions {
            stop: &stop,
            deadline: None,
        };
        shell("echo $$; exec sleep 1000", &[], until, &mut |piece| {
            let text = String::from_utf8_lossy(piece.bytes).into_owned();
            sender.send(text.trim().parse::<i32>().unwrap()).unwrap();
            panic!("on purpose");
        });
    })
    .join();
    assert!(panicked.is_err());
    assert_gone(receiver.recv().unwrap());
}

#[test]
fn a_deadline_of_its_own_ends_a_run() {
    let stop = Stop::new();
    let deadline = Deadline::after(Duration::from_millis(40), Arc::new(SystemClock));
    let until = StopConditions {
        stop: &stop,
        deadline: Some(&deadline),
    };
    let begin = Instant::now();
    let ended = shell("exec sleep 1000", &[], until, &mut |_| {
        ControlFlow::Continue(())
    });
    assert_eq!(ended.interrupted, Some(Interruption::TimedOut));
    assert!(begin.elapsed() < GUARD);
}

#[test]
fn what_can_not_be_started_says_so() {
    let stop = Stop::new();
    let until = StopConditions {
        stop: &stop,
        deadline: None,
    };
    let start = |program: &str, args: &[OsString]| {
        let invocation = Invocation::new(Path::new(program), args);
        run(invocation, until, &mut |_| ControlFlow::Continue(())).unwrap_err()
    };
    let error = start("/nonexistent/rg", &[]);
    assert!(
        error
            .to_string()
            .contains("/nonexistent/rg could not be started"),
        "{error}"
    );
    assert!(!error.is_too_long());
    assert!(start("/bin/true", &arguments(["x".repeat(1 << 20)])).is_too_long());
}

#[test]
fn threads_hear_what_polling_hears() {
    let run = |script: &str, stop: &Stop| {
        let args = arguments(["-c", script]);
        let invocation = Invocation::new(Path::new("/bin/sh"), &args);
        let until = StopConditions {
            stop,
            deadline: None,
        };
        let mut group = spawn(invocation, until).unwrap();
        let pipes = group.pipes().unwrap();
        let mut complaints = StderrBuffer::default();
        let mut out = Vec::new();
        let interrupted = portable::pump(&mut group, pipes, until, &mut complaints, &mut |piece| {
            out.extend_from_slice(piece.bytes);
            ControlFlow::Continue(())
        });
        let exit = group.end().map(exit_of);
        (out, complaints.kept, exit, interrupted.unwrap())
    };
    let stop = Stop::new();
    assert_eq!(
        run(
            "echo a; echo b >&2; head -c 300000 /dev/zero | tr '\\0' x | tail -c 2; exit 2",
            &stop
        ),
        (
            b"a\nxx".to_vec(),
            b"b\n".to_vec(),
            Some(Exit::Code(2)),
            None
        )
    );
    let begin = Instant::now();
    let (out, _, exit, _) = run("sleep 1000 & echo $!", &stop);
    assert_eq!(exit, Some(Exit::Code(0)));
    assert!(begin.elapsed() < GUARD);
    // The process that the program left behind is not killed by the run, so the test kills it.
    let left: i32 = String::from_utf8(out).unwrap().trim().parse().unwrap();
    let left = rustix::process::Pid::from_raw(left).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
    stop.raise(StopReason::Cancelled);
    let begin = Instant::now();
    let (_, _, exit, interrupted) = run("exec sleep 1000", &stop);
    assert_eq!(exit, Some(Exit::Signal(9)));
    assert_eq!(interrupted, Some(Interruption::Stopped));
    assert!(begin.elapsed() < GUARD);
}

/// The name of the next test. It runs in a process of its own, since ignoring a signal would affect
/// all tests.
const UNHEARD: &str = "exec::process::tests::programs_run_if_their_parent_ignores_their_end";

#[test]
// The test that starts this process sets the variable.
#[allow(clippy::disallowed_methods)]
fn programs_run_if_their_parent_ignores_their_end() {
    if std::env::var_os("FORGE_SEARCH_TEST_UNHEARD").is_none() {
        let script = "env --ignore-signal=CHLD true || exit 77
            FORGE_SEARCH_TEST_UNHEARD=1 exec env --ignore-signal=CHLD \"$1\" --exact \"$2\"";
        let itself = std::env::current_exe().unwrap();
        let (out, ended) = {
            let mut all = Vec::new();
            let stop = Stop::new();
            let until = StopConditions {
                stop: &stop,
                deadline: None,
            };
            let args = [itself.to_str().unwrap(), UNHEARD];
            let ended = shell(script, &args, until, &mut |piece| {
                all.extend_from_slice(piece.bytes);
                ControlFlow::Continue(())
            });
            (String::from_utf8_lossy(&all).into_owned(), ended)
        };
        if ended.exit == Some(Exit::Code(77)) {
            println!("passed over: env can't have signals ignored here");
            return;
        }
        assert_eq!(ended.exit, Some(Exit::Code(0)), "{out} {ended:?}");
        assert!(out.contains("1 passed"), "{out}");
        return;
    }
    // The whole output arrives, but the exit status is unknown.
    let (out, ended) = output("echo a; sleep 0.1; head -c 300000 /dev/zero; exit 3");
    assert_eq!(out.len(), 300_002);
    assert_eq!((ended.exit, ended.interrupted), (None, None));
    let (ended, group) = stopped("echo $$; exec sleep 1000");
    assert_eq!(ended.interrupted, Some(Interruption::Stopped));
    assert_gone(group);
}
