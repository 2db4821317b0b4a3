//! Processes of their own: a test starts this very program to run itself, and finds itself in the child.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// What a child says when it is where it should be.
const READY: &str = "child is ready";

/// A process that runs one test of this program.
pub(crate) struct Started {
    process: Child,
    /// Open for as long as the child may say something.
    _said: BufReader<ChildStdout>,
}

impl Started {
    /// Starts a test with something in its environment; returns when the child has said that it is ready.
    pub(crate) fn new<V: AsRef<OsStr>>(test: &str, environment: &[(&str, V)]) -> Started {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut seen = String::new();
        while !seen.contains(READY) {
            let read = out.read_line(&mut seen).unwrap();
            assert_ne!(read, 0, "the child ended: {seen}");
        }
        Started {
            process,
            _said: out,
        }
    }

    /// Lets it go on where it waits, and waits for its end.
    pub(crate) fn finish(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }

    /// Ends it where it is.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// In the child: says that it is ready.
pub(crate) fn say_ready() {
    println!("{READY}");
}

/// In the child: says that it is ready, then waits until it is told to go on, or killed.
pub(crate) fn pause() {
    say_ready();
    let mut told = Vec::new();
    std::io::stdin().read_to_end(&mut told).unwrap();
}
