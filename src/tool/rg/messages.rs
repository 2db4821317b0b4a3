//! Messages on standard error.
//!
//! This module owns their form (`rg: …`), which of them are printed, and the fact that an error
//! occurred, which decides the exit status. Log records have the same form.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints the messages of one call.
#[derive(Debug)]
pub(super) struct Reporter {
    shown: bool,
    ignore_shown: bool,
    failed: AtomicBool,
}

impl Reporter {
    /// Creates a reporter that prints messages if `shown`, and messages about ignore files if
    /// `ignore_shown` as well.
    pub(super) fn new(shown: bool, ignore_shown: bool) -> Reporter {
        Reporter {
            shown,
            ignore_shown,
            failed: AtomicBool::new(false),
        }
    }

    /// Reports an error after which the search goes on.
    pub(super) fn error(&self, message: &str) {
        self.failed.store(true, Ordering::Relaxed);
        self.note(message);
    }

    /// Reports a problem that does not change the exit status.
    pub(super) fn note(&self, message: &str) {
        if self.shown {
            complain(message);
        }
    }

    /// Reports a problem of an ignore file, which does not change the exit status.
    pub(super) fn ignore_rule(&self, message: &str) {
        if self.ignore_shown {
            self.note(message);
        }
    }

    /// Returns whether an error was reported.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Writes a message to standard error.
///
/// Standard output is locked meanwhile, so that the message does not split a line of results on a
/// terminal. Write errors are ignored: there is no other place to report them.
pub(super) fn complain(message: &str) {
    let _stdout = io::stdout().lock();
    let _ = io::stderr()
        .lock()
        .write_all(format!("rg: {message}\n").as_bytes());
}

/// Prints log records of this level and above from now on.
pub(super) fn log(level: log::LevelFilter) {
    // The logger may be installed already: the arguments are parsed twice.
    let _ = log::set_logger(&StderrLogger);
    log::set_max_level(level);
}

/// Prints log records as messages.
struct StderrLogger;

impl log::Log for StderrLogger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let place = match (record.file(), record.line()) {
            (Some(file), Some(line)) => format!("|{file}:{line}"),
            _ => String::new(),
        };
        let (level, target) = (record.level(), record.target());
        complain(&format!("{level}|{target}{place}: {}", record.args()));
    }

    fn flush(&self) {}
}
