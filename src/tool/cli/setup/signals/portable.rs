//! Signals of systems that are not Unix. Windows has Ctrl-C (SIGINT), and never sends SIGTERM.
//!
//! This module guarantees that an interrupt is noticed within [`PAUSE`]. Interrupts that arrive
//! within one pause count as one.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGINT;

use super::c_int;

/// How often to check whether a signal has arrived.
const PAUSE: Duration = Duration::from_millis(50);

/// Does nothing: the exit statuses of children can't be discarded here.
pub(in crate::tool::cli) fn wait_for_children() {}

/// The interrupts that arrive.
pub(super) struct Arrivals;

impl Arrivals {
    /// Needs no preparation.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn new() -> io::Result<Arrivals> {
        Ok(Arrivals)
    }

    /// Waits for the next signal for this process, and returns its number.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn own(&mut self, cancelled: &AtomicBool, number: &AtomicUsize) -> Option<c_int> {
        while !cancelled.load(Ordering::SeqCst) {
            std::thread::sleep(PAUSE);
        }
        let number = number.load(Ordering::SeqCst);
        Some(c_int::try_from(number).unwrap_or(SIGINT))
    }
}
