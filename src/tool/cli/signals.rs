//! Interrupts and terminations.
//!
//! Owns what a signal does: a call that is under way is cancelled, so that its engines end with it, and
//! whatever else the process may be doing ends at once. A second signal always ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::{FAILED, Failure};
use crate::exec::stop::CancelHandle;
use crate::tool::error::ToolError;

/// The signals that end the process, from now on under its own control.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    /// Nothing is under way that would have to be cancelled first.
    idle: Arc<AtomicBool>,
    /// A signal came while a call was under way.
    cancelled: Arc<AtomicBool>,
    /// The number of that signal.
    number: Arc<AtomicUsize>,
}

impl Signals {
    /// Takes over the signals.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] if the system refuses.
    pub(super) fn take_over() -> Result<Signals, ToolError> {
        let signals = Signals {
            idle: Arc::new(AtomicBool::new(true)),
            cancelled: Arc::default(),
            number: Arc::default(),
        };
        let refused = |error| ToolError::ExecutionFailed {
            tool: "forge-search".to_string(),
            message: format!("signals can't be handled: {error}"),
        };
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            // They take effect in this order, so the first signal finds `cancelled` not yet raised.
            flag::register_conditional_shutdown(signal, 128 + signal, signals.idle.clone())
                .and_then(|_| {
                    let again = signals.cancelled.clone();
                    flag::register_conditional_shutdown(signal, 128 + signal, again)
                })
                .and_then(|_| flag::register_usize(signal, signals.number.clone(), number))
                .and_then(|_| flag::register(signal, signals.cancelled.clone()))
                .map_err(refused)?;
        }
        Ok(signals)
    }

    /// Returns the handle of calls that a signal cancels.
    pub(super) fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::from_flag(self.cancelled.clone())
    }

    /// Runs a call, which a signal cancels instead of ending the process.
    pub(super) fn while_calling<T>(&self, call: impl FnOnce() -> T) -> T {
        self.idle.store(false, Ordering::SeqCst);
        let answer = call();
        self.idle.store(true, Ordering::SeqCst);
        answer
    }

    /// Returns the exit status that tells of the signal which cancelled a call, if one did.
    pub(super) fn status(&self) -> Option<u8> {
        let cancelled = self.cancelled.load(Ordering::SeqCst);
        let status = 128 + self.number.load(Ordering::SeqCst);
        cancelled.then(|| u8::try_from(status).unwrap_or(FAILED))
    }

    /// Turns the failure of a call into that of the process.
    pub(super) fn failure(&self, error: ToolError) -> Failure {
        match (self.status(), error) {
            (Some(status), ToolError::Cancelled) => Failure::Signal(status),
            (_, error) => Failure::Tool(error),
        }
    }
}
