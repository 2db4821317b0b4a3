//! Processes that answer one request a line, such as `forge-search call --jsonl`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A line-based process with its standard input and output.
pub(crate) struct ByTheLine {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl ByTheLine {
    /// Starts the program.
    pub(crate) fn of(mut program: Command) -> ByTheLine {
        let program = program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().unwrap();
        ByTheLine {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and returns the line of the answer.
    pub(crate) fn ask(&mut self, request: &Value) -> String {
        writeln!(self.stdin, "{request}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line.pop(), Some('\n'), "no answer to {request}");
        line
    }

    /// Sends a request and returns the answer as JSON.
    pub(crate) fn answer(&mut self, request: &Value) -> Value {
        serde_json::from_str(&self.ask(request)).unwrap()
    }

    /// Closes standard input and checks that the process exits with 0.
    pub(crate) fn end(mut self) {
        drop(self.stdin);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
