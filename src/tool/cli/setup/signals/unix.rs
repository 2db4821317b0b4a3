//! Signals of Unix.
//!
//! This module guarantees that the signals of [`Arrivals`] are received one by one, and that exit
//! statuses of children are kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCHLD, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::unregister;

use super::{NAP, Signals, c_int};

/// Installs an empty SIGCHLD handler. The parent process may have set SIGCHLD to be ignored, which
/// is inherited, and the kernel then discards the exit statuses of children. Any handler reverts
/// that.
pub(in crate::tool::cli) fn wait_for_children() {
    // If the system refuses, callers treat missing exit statuses as unknown.
    let _ = flag::register(SIGCHLD, Arc::default());
}

/// The interrupts and terminations that arrive.
pub(super) struct Arrivals(signal_hook::iterator::Signals);

impl Arrivals {
    /// Starts to receive signals.
    pub(super) fn new() -> io::Result<Arrivals> {
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map(Arrivals)
    }

    /// Waits for the next signal for this process, and returns its number. `None` if no more
    /// signals are received.
    pub(super) fn own(&mut self, cancelled: &AtomicBool, _number: &AtomicUsize) -> Option<c_int> {
        // Skip interrupts for the editor (`without_interrupts`): they don't set `cancelled`. Wait
        // first, because the flag may be set slightly later.
        self.0.forever().find(|_| {
            std::thread::sleep(NAP);
            cancelled.load(Ordering::SeqCst)
        })
    }
}

impl Signals {
    /// Runs `work`, such as an editor that owns the terminal. This process ignores interrupts typed
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// The system refuses to restore the interrupt handler. Interrupts then have no effect.
    pub(in crate::tool::cli) fn without_interrupts<T>(
        &self,
        work: impl FnOnce() -> T,
    ) -> io::Result<T> {
        let mut interrupts = self.interrupts();
        // `signal-hook` keeps its handler after `unregister`, so the signal has no effect. The
        // default action would end the process.
        for id in interrupts.drain(..) {
            unregister(id);
        }
        let quit = flag::register(SIGQUIT, Arc::default())?;
        let done = work();
        unregister(quit);
        *interrupts = self.register(SIGINT)?;
        Ok(done)
    }
}
