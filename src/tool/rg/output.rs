//! Standard output that several threads share: the results of one file come together.
//!
//! This module owns the turns of the threads. The results of a file are kept until the file is
//! searched. If they get large, the thread takes its turn early and prints them in parts, so that
//! they need little memory. Until the file is searched, the other threads wait before they print.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, PoisonError};

use termcolor::{Buffer, BufferWriter, ColorSpec, WriteColor};

use super::plan::Plan;
use crate::format::mutex::lock;

/// The results of a file that are kept before they are printed in parts, in bytes.
const MOST_KEPT: usize = 4 << 20;

/// Standard output, and whose turn it is.
pub(super) struct SharedOutput {
    stdout: BufferWriter,
    /// Printed between the results of two files, with a line end.
    separator: Option<Vec<u8>>,
    turn: Mutex<Turn>,
    freed: Condvar,
}

/// The state of the output.
#[derive(Default)]
struct Turn {
    /// A thread prints the results of a file in parts.
    is_taken: bool,
    /// Results have been printed.
    has_printed: bool,
}

impl SharedOutput {
    pub(super) fn new(plan: &Plan) -> SharedOutput {
        SharedOutput {
            stdout: BufferWriter::stdout(plan.look.colour),
            separator: plan.look.file_separator.clone(),
            turn: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Returns the output of one thread.
    pub(super) fn of_thread(&self) -> ThreadOutput<'_> {
        ThreadOutput {
            shared: self,
            kept: self.stdout.buffer(),
            has_turn: false,
            is_closed: false,
        }
    }

    /// Waits until no thread prints a file in parts, and prints the separator if results come
    /// after others.
    fn take_turn(&self) -> io::Result<()> {
        let turn = lock(&self.turn);
        let mut turn = self
            .freed
            .wait_while(turn, |turn| turn.is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        turn.is_taken = true;
        let is_first = !std::mem::replace(&mut turn.has_printed, true);
        drop(turn);
        let Some(separator) = self.separator.as_ref().filter(|_| !is_first) else {
            return Ok(());
        };
        let mut buffer = self.stdout.buffer();
        buffer.write_all(separator)?;
        buffer.write_all(b"\n")?;
        self.stdout.print(&buffer)
    }

    fn end_turn(&self) {
        let mut turn = lock(&self.turn);
        turn.is_taken = false;
        drop(turn);
        self.freed.notify_one();
    }
}

/// The output of one thread, for one file after the other.
pub(super) struct ThreadOutput<'a> {
    shared: &'a SharedOutput,
    /// Results of the file that are not printed yet.
    kept: Buffer,
    has_turn: bool,
    /// The reader of standard output has closed it. The rest of the file is searched nonetheless,
    /// because the exit status depends on its matches.
    is_closed: bool,
}

impl ThreadOutput<'_> {
    /// Ends the results of a file, and prints those that are kept.
    ///
    /// # Errors
    ///
    /// Standard output can't be written.
    pub(super) fn end_file(&mut self) -> io::Result<()> {
        let printed = match self.kept.as_slice() {
            _ if self.is_closed => Err(io::ErrorKind::BrokenPipe.into()),
            [] => Ok(()),
            _ => self.print(),
        };
        self.drop_file();
        printed
    }

    /// Ends the results of a file without those that are kept.
    pub(super) fn drop_file(&mut self) {
        self.kept.clear();
        if std::mem::take(&mut self.has_turn) {
            self.shared.end_turn();
        }
    }

    /// Prints what is kept. Takes the turn if this thread does not have it.
    fn print(&mut self) -> io::Result<()> {
        let mut printed = Ok(());
        if !std::mem::replace(&mut self.has_turn, true) {
            printed = self.shared.take_turn();
        }
        let printed = printed.and_then(|()| self.shared.stdout.print(&self.kept));
        self.kept.clear();
        printed
    }
}

impl Clone for ThreadOutput<'_> {
    /// Returns an empty output for another thread.
    fn clone(&self) -> Self {
        self.shared.of_thread()
    }
}

impl Drop for ThreadOutput<'_> {
    fn drop(&mut self) {
        self.drop_file();
    }
}

impl Write for ThreadOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let written = self.kept.write(bytes)?;
        if self.kept.len() > MOST_KEPT {
            match self.print() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
                printed => printed?,
            }
        }
        Ok(written)
    }

    /// Results are printed when they are large, and at the end of the file.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteColor for ThreadOutput<'_> {
    fn supports_color(&self) -> bool {
        self.kept.supports_color()
    }

    fn supports_hyperlinks(&self) -> bool {
        self.kept.supports_hyperlinks()
    }

    fn set_color(&mut self, spec: &ColorSpec) -> io::Result<()> {
        self.kept.set_color(spec)
    }

    fn set_hyperlink(&mut self, link: &termcolor::HyperlinkSpec<'_>) -> io::Result<()> {
        self.kept.set_hyperlink(link)
    }

    fn reset(&mut self) -> io::Result<()> {
        self.kept.reset()
    }

    fn is_synchronous(&self) -> bool {
        self.kept.is_synchronous()
    }
}
