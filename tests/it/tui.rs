//! Tests `forge-search tui` on a terminal: the test types keys and checks the screen.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::command;
use crate::support::{GUARD, terminal};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forge-search");

/// A program with its own terminal. It is killed when this value is dropped.
struct Session {
    child: Child,
    keys: fs::File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    fn start(mut command: Command, columns: u16, rows: u16) -> Session {
        let (master, slave) = terminal();
        let size = rustix::termios::Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&slave, size).unwrap();
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(slave.try_clone().unwrap()))
            .stdout(Stdio::from(slave.try_clone().unwrap()))
            .stderr(Stdio::from(slave))
            .spawn()
            .unwrap();
        // The command holds the other end of the terminal open.
        drop(command);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            rows.try_into().unwrap(),
            columns.try_into().unwrap(),
            0,
        )));
        let (mut shown, parser) = (master.try_clone().unwrap(), screen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails once no process has the terminal open any more.
            while let Ok(count @ 1..) = shown.read(&mut bytes) {
                parser.lock().unwrap().process(&bytes[..count]);
            }
        });
        Session {
            child,
            keys: master,
            screen,
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen fulfils a condition, and returns its text.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let shown = self.shown();
            if is_so(&shown) {
                return shown;
            }
            assert!(began.elapsed() < GUARD, "{what} never came:\n{shown}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the program ends, and returns its exit code.
    fn end(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < GUARD, "it never ended:\n{}", self.shown());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A directory with a tree, and with separate directories for all other files.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (path, text) in [
        (
            "tree/src/delay.rs",
            "// The delay.\npub fn retry_delay() -> u64 {\n    42\n}\n",
        ),
        ("tree/src/use.rs", "fn main() {\n    retry_delay();\n}\n"),
        ("tree/esc.txt", "an \u{1b}[31mescape\u{7}\n"),
    ] {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place
}

fn tui(place: &Path, args: &[&str]) -> Command {
    tui_with(place, &[&["--no-daemon"], args].concat())
}

fn tui_with(place: &Path, args: &[&str]) -> Command {
    // The program gets this terminal instead of the terminal of the test run.
    let mut tui = command("setsid", &place.join("tree"));
    tui.args(["--ctty", PROGRAM, "tui"]).args(args);
    in_place(&mut tui, place);
    tui
}

fn in_place(tui: &mut Command, place: &Path) {
    for (name, dir) in [
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_CONFIG_HOME", "config"),
        ("HOME", "home"),
    ] {
        tui.env(name, place.join(dir));
    }
    // The editor records its arguments and changes the file.
    tui.env(
        "EDITOR",
        "sh -c 'echo \"$*\" >> ../edited; echo retry_delay >> \"$1\"' editor",
    );
}

#[test]
fn tui_says_at_its_end_that_it_has_started_a_daemon() {
    let place = place();
    for is_first in [true, false] {
        let mut session = Session::start(tui_with(place.path(), &["retry_del"]), 130, 30);
        session.until("what is found", |shown| shown.contains("2 lines,"));
        session.type_in("\u{1b}");
        assert_eq!(session.end(), Some(0));
        // The last output may still be on its way to the screen.
        if is_first {
            session.until("the note", |shown| shown.contains("a daemon was started"));
            continue;
        }
        assert!(!session.shown().contains("a daemon was started"));
    }
    let mut stop = command(env!("CARGO_BIN_EXE_ggrep"), &place.path().join("tree"));
    in_place(&mut stop, place.path());
    let stopped = stop.args(["stop"]).output().unwrap();
    assert_eq!(stopped.stdout, b"stopped\n", "{stopped:?}");
}

#[test]
fn tui_names_files_from_where_the_shell_is() {
    let place = place();
    let top = place.path().canonicalize().unwrap();
    let beside = format!("{}:2", top.join("tree/src/delay.rs").display());
    for (shell, root, first) in [
        ("tree", ".", "src/delay.rs:2"),
        ("tree/src", "..", "delay.rs:2"),
        (".", "tree", "tree/src/delay.rs:2"),
        ("config", "../tree", &beside),
    ] {
        fs::create_dir_all(top.join(shell)).unwrap();
        let mut program = tui(&top, &["--root", root, "retry_del"]);
        program.current_dir(top.join(shell));
        let mut session = Session::start(program, 250, 30);
        let shown = session.until("the preview", |shown| shown.contains("delay.rs:2"));
        let title = shown.split_whitespace().find(|word| word.ends_with(":2"));
        assert_eq!(
            title.map(|title| title.trim_start_matches('│')),
            Some(first),
            "{shown}"
        );
        session.type_in("\u{1b}");
        assert_eq!(session.end(), Some(0));
    }
}

#[test]
fn tui_shows_what_is_found_while_it_is_typed_and_opens_the_editor() {
    let place = place();
    let mut session = Session::start(tui(place.path(), &[]), 130, 30);
    session.until("the beginning", |shown| shown.contains("type a pattern"));
    session.type_in("retry_del");
    let shown = session.until("what is found", |shown| shown.contains("2 lines,"));
    assert!(
        shown.contains("src/delay.rs\n") || shown.contains("src/delay.rs "),
        "{shown}"
    );
    assert!(
        shown.contains("    2 pub fn retry_delay() -> u64 {"),
        "{shown}"
    );
    // The preview shows the lines around the first match.
    session.until("the preview", |shown| {
        shown.contains("1 // The delay.") && shown.contains("src/delay.rs:2")
    });
    session.type_in("\u{1b}[B");
    session.until("the next one", |shown| shown.contains("src/use.rs:2"));
    session.type_in("\r");
    // The next search finds the text that the editor wrote.
    session.until("what was edited", |shown| shown.contains("3 lines,"));
    let edited = fs::read_to_string(place.path().join("edited")).unwrap();
    assert!(edited.ends_with("tree/src/use.rs\n"), "{edited}");
    // An incomplete expression keeps the results on the screen.
    session.type_in("(");
    let shown = session.until("a complaint", |shown| !shown.contains("3 lines,"));
    assert!(shown.contains("src/delay.rs"), "{shown}");
    session.type_in("\u{15}escape");
    let shown = session.until("another one", |shown| shown.contains("1 line,"));
    assert!(shown.contains("an \\x1b[31mescape\\x07"), "{shown}");
    session.type_in("\u{1b}");
    assert_eq!(session.end(), Some(0));
    // The program restores the screen. The terminal can be read after the program has ended.
    session.until("the screen as it was", |shown| !shown.contains("1 line,"));
}

#[test]
fn tui_filters_marks_clicks_and_remembers() {
    use vt100::MouseProtocolMode;
    let place = place();
    let mouse = |session: &Session| {
        session
            .screen
            .lock()
            .unwrap()
            .screen()
            .mouse_protocol_mode()
    };
    let edited = || fs::read_to_string(place.path().join("edited")).unwrap_or_default();
    let mut session = Session::start(tui(place.path(), &["retry_del"]), 130, 30);
    session.until("what is found", |shown| shown.contains("2 lines,"));
    assert_eq!(mouse(&session), MouseProtocolMode::AnyMotion);
    // The key F1 shows the help, and the next key closes it.
    session.type_in("\u{1b}OP");
    session.until("the help", |shown| shown.contains("any key closes this"));
    session.type_in(" ");
    session.until("no help", |shown| !shown.contains("any key closes this"));
    session.type_in("\tuse.rs");
    session.until("what the filter keeps", |shown| shown.contains("1 line,"));
    session.type_in("\u{15}[");
    session.until("a complaint", |shown| shown.contains("\"[\" is invalid"));
    session.type_in("\u{15}\t");
    session.until("all lines", |shown| shown.contains("2 lines,"));
    // The key F8 marks both files, and Enter opens them together.
    session.type_in("\u{1b}[19~\u{1b}[A\u{1b}[19~");
    session.until("the marks", |shown| shown.contains("2 marked"));
    session.type_in("\r");
    session.until("what was edited", |shown| shown.contains("3 lines,"));
    assert!(edited().contains("tree/src/use.rs ") && edited().ends_with("tree/src/delay.rs\n"));
    assert_eq!(edited().lines().count(), 1);
    assert_eq!(mouse(&session), MouseProtocolMode::AnyMotion);
    // A double click on the first line, below the name of its file, opens it.
    session.type_in(&"\u{1b}[<0;5;4M\u{1b}[<0;5;4m".repeat(2));
    session.until("what was edited again", |shown| shown.contains("4 lines,"));
    assert!(edited().ends_with("tree/src/delay.rs\n"), "{}", edited());
    assert_eq!(edited().lines().count(), 2);
    session.type_in("\u{1b}");
    assert_eq!(session.end(), Some(0));
    session.until("the screen as it was", |shown| !shown.contains("4 lines,"));
    assert_eq!(mouse(&session), MouseProtocolMode::None);
    let history = place.path().join("state/forge-search/tui/history");
    assert_eq!(fs::read_to_string(&history).unwrap(), "retry_del\n");
    // The keys Alt-P get the pattern back, unless the history is off.
    for (args, pattern) in [
        (&[] as &[&str], "search retry_del"),
        (&["--no-history"], "search x"),
    ] {
        let mut session = Session::start(tui(place.path(), args), 130, 30);
        session.until("the beginning", |shown| shown.contains("type a pattern"));
        session.type_in("\u{1b}px");
        session.until(pattern, |shown| {
            shown.contains(pattern) && shown.contains(" lines,")
        });
        session.type_in("\u{3}");
        assert_eq!(session.end(), Some(0));
    }
    let kept = fs::read_to_string(&history).unwrap();
    assert_eq!(kept, "retry_del\nretry_delx\n");
}

#[test]
fn tui_begins_with_a_pattern_and_switches_what_it_is() {
    let place = place();
    let mut session = Session::start(tui(place.path(), &["retry.delay"]), 80, 24);
    session.until("what is found", |shown| shown.contains("2 lines,"));
    // The key F2 makes the pattern a literal.
    session.type_in("\u{1b}OQ");
    session.until("no such text", |shown| shown.contains("0 lines,"));
    // The key F5 allows an edit.
    session.type_in("\u{1b}[15~");
    session.until("with an edit", |shown| {
        shown.contains("2 lines,") && shown.contains("1 edit")
    });
    // The key F6 makes the pattern a ranked question.
    session.type_in("\u{1b}[17~");
    session.until("the ranked places", |shown| {
        shown.contains("ranked question") && shown.contains("2 places,")
    });
    session.type_in("\u{1b}[17~");
    session.until("the lines again", |shown| shown.contains("2 lines,"));
    session.type_in("\u{3}");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn tui_gives_the_terminal_back_when_a_signal_ends_it() {
    let place = place();
    let mut session = Session::start(tui(place.path(), &["retry"]), 80, 24);
    session.until("what is found", |shown| shown.contains("2 lines,"));
    assert!(session.screen.lock().unwrap().screen().alternate_screen());
    let pid = rustix::process::Pid::from_raw(session.child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(session.end(), Some(143));
    session.until("the old screen", |shown| !shown.contains("2 lines,"));
    assert!(!session.screen.lock().unwrap().screen().alternate_screen());
}

/// A shell script as the editor. It reports interrupts until it reads the line `more`.
///
/// It counts its runs in the file `$0`, and prints the count: the output of an earlier run may
/// still be on the screen.
const EDITOR: &str = "echo >> \"$0\"; n=$(($(wc -l < \"$0\"))); trap \"echo caught $n.\" INT; echo begun $n.; \
    until [ \"$line\" = more ]; do read line; done";

#[test]
fn tui_an_interrupt_in_the_editor_is_the_editors() {
    let place = place();
    let rounds = place.path().join("rounds");
    let mut tui = tui(place.path(), &["retry"]);
    tui.env("EDITOR", format!("sh -c '{EDITOR}' '{}'", rounds.display()));
    let mut session = Session::start(tui, 80, 24);
    session.until("what is found", |shown| {
        shown.contains("2 lines,") && !shown.contains('…')
    });
    for round in 1..=2 {
        session.type_in("\r");
        let begun = format!("begun {round}.");
        session.until("the editor", |shown| shown.contains(&begun));
        session.type_in("\u{3}");
        let caught = format!("caught {round}.");
        session.until("the interrupt", |shown| shown.contains(&caught));
        session.type_in("\nmore\n");
        // The results appear again, after the search was repeated.
        session.until("what was found", |shown| {
            shown.contains("2 lines,") && !shown.contains('…') && !shown.contains(&begun)
        });
    }
    session.type_in("\u{1b}");
    assert_eq!(session.end(), Some(0));
}

#[test]
fn tui_without_a_terminal_says_what_it_needs() {
    let place = place();
    let mut tui = command(PROGRAM, &place.path().join("tree"));
    let told = tui.arg("tui").stdin(Stdio::null()).output().unwrap();
    assert_eq!(told.status.code(), Some(2));
    let said = String::from_utf8(told.stderr).unwrap();
    assert!(said.contains("needs a terminal"), "{said}");
    assert_eq!(told.stdout, b"");
}
