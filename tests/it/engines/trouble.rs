//! Tests programs and files that fail (FR-LS-ERR-02 to FR-LS-ERR-06, FR-LSI-EXIT-01,
//! FR-LSI-EXIT-02).

use std::time::Duration;

use forge_search::internal::exec::answer::collect::{Found, Limits};
use forge_search::internal::exec::question::query::Report;
use forge_search::internal::exec::schedule::{AbandonedWorkers, Run, RunOptions, run};
use forge_search::internal::exec::sources::eligible::ListSource;
use forge_search::internal::exec::stop::{CancelHandle, Deadline};
use std::ops::ControlFlow;

use super::*;
use crate::clocks::{FakeClock, until};
use crate::peers::peer;
use crate::support::GUARD;

fn failure(result: Result<Vec<FileOutcome>, EngineError>) -> (String, Option<String>) {
    match result {
        Err(EngineError::Failed { message, stderr }) => (message, stderr),
        other => panic!("{other:?}"),
    }
}

/// A deadline that only a search that hangs reaches.
fn unhurried() -> Deadline {
    Deadline::after(GUARD, Arc::new(SystemClock))
}

/// Returns the parts of an answer, and the final report of the run.
fn scheduled(
    engine: &dyn Engine,
    pattern: &str,
    tree: &Tree,
    deadline: Deadline,
) -> (Vec<Found>, Run) {
    let query = Arc::new(Query::new(&[pattern], &options()).unwrap());
    let options = RunOptions {
        limits: Limits {
            max_results: 1000,
            max_files: 1_000_000,
            report: Report::Lines,
        },
        threads: 2,
        deadline,
        cancel: CancelHandle::new(),
        abandoned: AbandonedWorkers::default(),
    };
    let prepared = engine.prepare(query).unwrap();
    let mut parts = Vec::new();
    let run = run(
        ListSource(tree.files.clone()),
        prepared,
        &options,
        &mut |found| {
            parts.push(found);
            ControlFlow::Continue(())
        },
    );
    (parts, run.unwrap())
}

#[test]
fn a_program_without_matches_is_no_error() {
    let mut tree = Tree::new();
    tree.add(b"a", b"nothing\n");
    for engine in engines() {
        let outcomes = search(engine.as_ref(), "absent", &options(), &tree.files).unwrap();
        assert_eq!(outcomes, [FileOutcome::nothing()]);
        // Without files, no process is started.
        assert_eq!(
            search(engine.as_ref(), "absent", &options(), &[]).unwrap(),
            []
        );
    }
}

#[test]
fn a_program_that_gives_up_is_a_backend_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    tree.add(b"a", b"foo\n");
    for (script, word, stderr) in [
        (
            "echo 'regex parse error: no' >&2; exit 2",
            "exit code 2",
            Some("regex parse error"),
        ),
        ("exit 2", "exit code 2", None),
        ("exit 77", "exit code 77", None),
        ("exit 0", "exit code 0", None),
        ("echo oops >&2; kill -SEGV $$", "signal 11", Some("oops")),
        (
            "head -c 3000000 /dev/zero >&2; exit 3",
            "exit code 3",
            Some("\0\0\0"),
        ),
    ] {
        for tool in [Tool::Ripgrep, Tool::Ugrep] {
            let engine = fake(tool, dir.path(), script);
            let (message, said) = failure(search(engine.as_ref(), "foo", &options(), &tree.files));
            assert!(message.contains(word), "{script}: {message}");
            assert!(message.contains("embedded"), "{message}");
            match stderr {
                Some(part) => assert!(said.unwrap().contains(part), "{script}"),
                None => assert_eq!(said, None),
            }
        }
    }
}

#[test]
fn broken_output_of_a_program_is_a_backend_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    tree.add(b"a", b"foo\n");
    let path = tree.path(b"a").canonicalize().unwrap();
    let path = path.to_str().unwrap();
    for script in [
        "printf '\\377\\376\\0garbage\\n'".to_string(),
        "echo '{\"type\":\"begin\"}'".to_string(),
        "printf '/etc/passwd\\0001:x\\n'".to_string(),
        format!("printf '{path}\\0001:x'"),
        "cat /dev/zero".to_string(),
        "while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done".to_string(),
    ] {
        let engine = fake(Tool::Ripgrep, dir.path(), &script);
        let (message, _) = failure(search(engine.as_ref(), "foo", &options(), &tree.files));
        assert!(message.contains("not in the expected format"), "{message}");
        assert!(message.len() < 1000);
    }
}

#[test]
fn a_program_that_can_not_start_is_an_execution_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    tree.add(b"a", b"foo\n");
    let engine = fake(Tool::Ripgrep, dir.path(), "exit 1");
    std::fs::remove_file(dir.path().join("rg")).unwrap();
    let (message, _) = failure(search(engine.as_ref(), "foo", &options(), &tree.files));
    assert!(
        message.contains("could not be started") && message.contains("configure"),
        "{message}"
    );
}

#[test]
fn a_wrong_report_never_shows_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    tree.add(b"a", b"bar\nfoo\nbar\n");
    let path = tree.path(b"a").canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let script = format!("printf '{path}\\0001:x\\n{path}\\0002:x\\n{path}\\00099:x\\n'");
    let engine = fake(Tool::Ripgrep, dir.path(), &script);
    let outcomes = search(engine.as_ref(), "foo", &options(), &tree.files).unwrap();
    assert_eq!(outcomes, embedded("foo", &options(), &tree.files));
}

#[test]
fn programs_report_unreadable_files_as_the_embedded_engine_does() {
    let mut tree = Tree::new();
    tree.add(b"a", b"foo\n");
    tree.list(b"gone");
    std::fs::create_dir(tree.path(b"dir")).unwrap();
    tree.list(b"dir");
    std::os::unix::fs::symlink("/etc/passwd", tree.path(b"link")).unwrap();
    tree.list(b"link");
    std::os::unix::net::UnixListener::bind(tree.path(b"socket")).unwrap();
    tree.list(b"socket");
    tree.add(b"z", b"foo\n");
    for engine in engines() {
        agree(engine.as_ref(), "foo", &options(), &tree).unwrap();
        agree(engine.as_ref(), "absent", &options(), &tree).unwrap();
    }
}

/// A file disappears between the check by this process and the read by the program.
#[test]
fn a_file_that_vanishes_meanwhile_is_an_error_of_that_file_only() {
    for tool in [Tool::Ripgrep, Tool::Ugrep] {
        let Some(real) = peer(tool) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new();
        for name in [&b"a"[..], b"b", b"c\nugrep: error: x", b"d", b"e"] {
            tree.add(name, b"foo\n");
        }
        tree.add(b"f", b"nothing\n");
        let script = format!(
            "rm '{0}'/b '{0}'/c*; exec '{1}' \"$@\"",
            tree.dir.path().display(),
            real.path.display()
        );
        let engine = fake(tool, dir.path(), &script);
        let outcomes = search(engine.as_ref(), "foo", &options(), &tree.files).unwrap();
        assert_eq!(outcomes, embedded("foo", &options(), &tree.files));
        assert!(outcomes[1].error.as_ref().unwrap().contains("No such file"));
        assert_eq!(outcomes[4].lines.len(), 1);
        let rest = comparable(outcomes[5..].to_vec());
        assert_eq!(rest, [FileOutcome::nothing()]);
    }
}

/// The file is replaced by a symbolic link between the check by this process and the program's
/// read.
#[test]
fn a_link_that_a_program_follows_shows_nothing() {
    for tool in [Tool::Ripgrep, Tool::Ugrep] {
        let Some(real) = peer(tool) else { continue };
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "secret foo\n").unwrap();
        let mut tree = Tree::new();
        tree.add(b"a", b"plain\n");
        let script = format!(
            "ln -sf '{}' '{}'; exec '{}' \"$@\"",
            outside.display(),
            tree.path(b"a").display(),
            real.path.display()
        );
        let engine = fake(tool, dir.path(), &script);
        let outcomes = search(engine.as_ref(), "foo", &options(), &tree.files).unwrap();
        assert!(outcomes[0].lines.is_empty());
        assert!(
            outcomes[0]
                .error
                .as_ref()
                .unwrap()
                .contains("symbolic link")
        );
    }
}

#[test]
fn a_program_is_killed_at_the_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    for n in 0..300 {
        tree.add(format!("{n:03}").as_bytes(), b"foo\n");
    }
    let first = tree.path(b"000").canonicalize().unwrap();
    let second = tree.path(b"001").canonicalize().unwrap();
    let pid = dir.path().join("pid");
    for (tool, rest) in [(Tool::Ripgrep, ":x"), (Tool::Ugrep, "")] {
        // The program reports the first two files, if it gets them as arguments, and then hangs.
        let said = dir.path().join(format!("said-{tool}"));
        let script = format!(
            "trap '' TERM; echo $$ >> '{pid}'
             case \" $* \" in *' {first} '*)
                 printf '{first}\\0001{rest}\\n{second}\\0001{rest}\\n'; : > '{said}' ;;
             esac
             while :; do sleep 1; done",
            pid = pid.display(),
            said = said.display(),
            first = first.display(),
            second = second.display(),
        );
        let engine = fake(tool, dir.path(), &script);
        // The time runs out after the program has reported them.
        let clock = FakeClock::new();
        let deadline = Deadline::after(Duration::from_millis(400), Arc::new(clock.clone()));
        let (_, run) = std::thread::scope(|scope| {
            scope.spawn(|| {
                until("the program reports", || said.exists());
                clock.jump(Duration::from_millis(400));
            });
            scheduled(engine.as_ref(), "foo", &tree, deadline)
        });
        assert!(run.timed_out && run.failure.is_none(), "{run:?}");
        // Neither file counts, because the program might have reported more of its lines.
        assert_eq!(run.totals.results, 0);
        until("no process is left", || {
            let numbers = std::fs::read_to_string(&pid).unwrap();
            let mut processes = numbers
                .lines()
                .map(|number| Path::new("/proc").join(number));
            processes.all(|process| !process.exists())
        });
    }
}

#[test]
fn no_event_of_a_program_follows_after_max_results() {
    let mut tree = Tree::new();
    for n in 0..3000 {
        tree.add(
            format!("{n:04}").as_bytes(),
            "foo and foo\n".repeat(200).as_bytes(),
        );
    }
    for engine in engines() {
        let (parts, run) = scheduled(engine.as_ref(), "foo", &tree, unhurried());
        assert_eq!((run.totals.results, run.timed_out), (1000, false));
        assert!(run.cuts.max_results && run.failure.is_none());
        assert_eq!(run.totals.files_scanned, 6);
        let same = scheduled(&Embedded::default(), "foo", &tree, unhurried());
        assert_eq!((parts, run.totals.files_scanned), (same.0, 6));
    }
}

/// Returns the arguments that a script in place of the program gets.
fn arguments(tool: Tool, pattern: &str, tree: &Tree) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let script = "printf '%s\\0' \"$@\" > \"${0%/*}/arguments\"; exit 1";
    let engine = fake(tool, dir.path(), script);
    let options = QueryOptions {
        fixed_strings: true,
        ..options()
    };
    search(engine.as_ref(), pattern, &options, &tree.files).unwrap();
    let bytes = std::fs::read(dir.path().join("arguments")).unwrap();
    let mut arguments: Vec<Vec<u8>> = bytes.split(|&b| b == 0).map(<[u8]>::to_vec).collect();
    arguments.pop();
    arguments
}

#[test]
fn programs_are_started_without_a_shell() {
    let mut tree = Tree::new();
    let hostile = "$(touch x); `touch x` && 'a' | *";
    tree.add(hostile.as_bytes(), b"foo\n");
    for tool in [Tool::Ripgrep, Tool::Ugrep] {
        let given = arguments(tool, hostile, &tree);
        let path = tree.path(hostile.as_bytes());
        assert!(
            given.last().unwrap().ends_with(hostile.as_bytes()),
            "{path:?}"
        );
    }
    assert!(!tree.path(b"x").exists());
}

#[test]
fn programs_are_asked_for_machine_readable_output() {
    let mut tree = Tree::new();
    tree.add(b"a", b"foo\n");
    for tool in [Tool::Ripgrep, Tool::Ugrep] {
        let given = arguments(tool, "foo", &tree);
        for wanted in [
            "--null",
            "--with-filename",
            "--line-number",
            "--color=never",
        ] {
            assert!(given.contains(&wanted.as_bytes().to_vec()), "{wanted}");
        }
    }
}

/// Checks that the program gets the files as the last arguments, one by one, as absolute paths
/// below the root. No file contains a list of them.
fn explicit_files(tool: Tool) {
    let mut tree = Tree::new();
    for name in [&b"-a"[..], b"b c", b"d\ne"] {
        tree.add(name, b"foo\n");
    }
    let given = arguments(tool, "foo", &tree);
    let end = given.iter().position(|argument| argument == b"--").unwrap();
    let root = tree.dir.path().canonicalize().unwrap();
    let expected: Vec<Vec<u8>> = ["-a", "b c", "d\ne"]
        .iter()
        .map(|name| root.join(name).into_os_string().into_encoded_bytes())
        .collect();
    assert_eq!(given[end + 1..], expected);
    assert!(
        !given[..end]
            .iter()
            .any(|argument| String::from_utf8_lossy(argument).contains("from"))
    );
    // The run left no other file in the directory.
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 3);
}

#[test]
fn ripgrep_searches_exactly_the_files_that_it_is_given() {
    explicit_files(Tool::Ripgrep);
}

#[test]
fn ugrep_searches_exactly_the_files_that_it_is_given() {
    explicit_files(Tool::Ugrep);
}

#[test]
fn programs_search_files_with_line_breaks_in_their_names() {
    let mut tree = Tree::new();
    for name in [&b"a\n1:foo"[..], b"\r\n", b"x\rfoo"] {
        tree.add(name, b"bar\nfoo\n");
    }
    for engine in engines() {
        let outcomes = search(engine.as_ref(), "foo", &options(), &tree.files).unwrap();
        for outcome in outcomes {
            assert_eq!(outcome.lines.len(), 1);
            assert_eq!(outcome.lines[0].number, 2);
        }
    }
}

#[test]
fn messages_of_programs_are_decoded_lossily() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new();
    tree.add(b"a", b"foo\n");
    let engine = fake(
        Tool::Ripgrep,
        dir.path(),
        "printf 'a\\377b\\303' >&2; exit 3",
    );
    let (_, stderr) = failure(search(engine.as_ref(), "foo", &options(), &tree.files));
    assert_eq!(stderr.unwrap(), "a\u{FFFD}b\u{FFFD}");
}

/// A wrapper adds arguments, to test the exit codes and messages of the real programs.
#[test]
fn exit_codes_and_messages_of_each_program_are_classified() {
    for tool in [Tool::Ripgrep, Tool::Ugrep] {
        let Some(real) = peer(tool) else { continue };
        let real = real.path.display();
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new();
        tree.add(b"a", b"foo\n");
        let with = |script: String| {
            let engine = fake(tool, dir.path(), &script);
            search(engine.as_ref(), "foo", &options(), &tree.files)
        };
        let plain = with(format!("exec '{real}' \"$@\"")).unwrap();
        assert_eq!(plain[0].lines.len(), 1);
        // A file that does not exist is no error of the whole run.
        let beside = with(format!("exec '{real}' \"$@\" /nonexistent/file")).unwrap();
        assert_eq!(beside, plain);
        // A wrong option and a wrong expression are errors of the whole run.
        for wrong in ["--no-such-option", "--regexp=a("] {
            let (message, stderr) = failure(with(format!("exec '{real}' '{wrong}' \"$@\"")));
            assert!(message.contains("exit code 2"), "{tool}: {message}");
            assert!(
                stderr.is_some_and(|text| !text.is_empty()),
                "{tool} {wrong}"
            );
        }
    }
}

#[test]
fn chunks_of_arguments_do_not_move_the_cut() {
    let mut tree = Tree::new();
    let long = "n".repeat(230);
    for n in 0..6000u32 {
        tree.add(
            format!("{long}{n:05}").as_bytes(),
            if n % 5 == 0 {
                b"foo\nfoo\n"
            } else {
                b"bar\n\n\n\n"
            },
        );
    }
    let expected = scheduled(&Embedded::default(), "foo", &tree, unhurried());
    for engine in engines() {
        let found = scheduled(engine.as_ref(), "foo", &tree, unhurried());
        assert_eq!(found.0, expected.0);
        assert_eq!(found.1.cuts, expected.1.cuts);
        let scanned = |run: &Run| run.totals.files_scanned;
        assert_eq!(scanned(&found.1), scanned(&expected.1));
        // A single task with all files gives the same, and only the worker splits it.
        agree(engine.as_ref(), "foo", &options(), &tree).unwrap();
    }
}
