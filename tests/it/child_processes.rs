//! Child processes for tests: a test starts this test binary again to run itself, and notices from
//! the environment that it is the child.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The child prints this line when it has reached the point that the test waits for.
const READY: &str = "child is ready";

/// A process that runs one test of this test binary.
pub(crate) struct Started {
    process: Child,
    /// Keeps the pipe open, so that the child can still print.
    _said: BufReader<ChildStdout>,
}

impl Started {
    /// Starts a test with additional environment variables. Returns when the child has reported
    /// that it is ready.
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

    /// Lets a paused child go on, and checks that it succeeds.
    pub(crate) fn finish(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }

    /// Kills the child where it is.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// In the child: reports that it is ready.
pub(crate) fn say_ready() {
    println!("{READY}");
}

/// In the child: reports that it is ready, then waits until the parent lets it go on or kills it.
pub(crate) fn pause() {
    say_ready();
    let mut told = Vec::new();
    std::io::stdin().read_to_end(&mut told).unwrap();
}
