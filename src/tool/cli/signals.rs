//! Interrupts and terminations.
//!
//! Owns what a signal does: a call that is under way is cancelled, so that its engines end with it, and
//! whatever else the process may be doing ends at once. A second signal always ends it.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(unix)]
use signal_hook::consts::{SIGCHLD, SIGQUIT};
use signal_hook::consts::{SIGINT, SIGTERM};
#[cfg(unix)]
use signal_hook::low_level::unregister;
use signal_hook::{SigId, flag};

use super::{FAILED, Failure};
use crate::exec::stop::CancelHandle;
use crate::tool::error::ToolError;

/// How often it is looked whether a call has ended that a signal cancelled.
const NAP: Duration = Duration::from_millis(10);

/// Has the system keep how children end until that is asked for, also where whoever started this program ignores the end of children, which is
/// inherited. A handler is enough for that: what it does is nothing.
pub(super) fn wait_for_children() {
    // Where the system refuses, what is not known of a program is treated as such.
    #[cfg(unix)]
    let _ = flag::register(SIGCHLD, Arc::default());
}

/// The signals that end the process, from now on under its own control.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    /// Nothing is under way that would have to be cancelled first.
    idle: Arc<AtomicBool>,
    /// A signal came while a call was under way.
    cancelled: Arc<AtomicBool>,
    /// The number of that signal.
    number: Arc<AtomicUsize>,
    /// A call is under way.
    calling: Arc<AtomicBool>,
    /// Something has to be ended in order when a signal comes, also between calls.
    lingers: Arc<AtomicBool>,
    /// What an interrupt does.
    interrupt: Arc<Mutex<Vec<SigId>>>,
}

impl Signals {
    /// Takes over the signals.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] if the system refuses.
    pub(super) fn take_over() -> Result<Signals, ToolError> {
        // What several parts of one process set up is ended by the same signals, in one way.
        static TAKEN: Mutex<Option<Signals>> = Mutex::new(None);
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signals) = &*taken {
            return Ok(signals.clone());
        }
        let signals = Signals {
            idle: Arc::new(AtomicBool::new(true)),
            cancelled: Arc::default(),
            number: Arc::default(),
            calling: Arc::default(),
            lingers: Arc::default(),
            interrupt: Arc::default(),
        };
        let refused = |error| ToolError::ExecutionFailed {
            tool: "forge-search".to_string(),
            message: format!("signals can't be handled: {error}"),
        };
        signals.register(SIGTERM).map_err(refused)?;
        *signals.interrupts() = signals.register(SIGINT).map_err(refused)?;
        *taken = Some(signals.clone());
        Ok(signals)
    }

    /// Has a signal end what is under way, or else the process.
    fn register(&self, signal: c_int) -> io::Result<Vec<SigId>> {
        let number = usize::try_from(signal).unwrap_or_default();
        // They take effect in this order, so the first signal finds `cancelled` not yet raised.
        Ok(vec![
            flag::register_conditional_shutdown(signal, 128 + signal, self.idle.clone())?,
            flag::register_conditional_shutdown(signal, 128 + signal, self.cancelled.clone())?,
            flag::register_usize(signal, self.number.clone(), number)?,
            flag::register(signal, self.cancelled.clone())?,
        ])
    }

    fn interrupts(&self) -> MutexGuard<'_, Vec<SigId>> {
        self.interrupt
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what has the terminal meanwhile, so that interrupts typed there are its own: this process does not notice them.
    ///
    /// # Errors
    ///
    /// The system refuses to have it as before; interrupts then go on without effect.
    #[cfg(unix)]
    pub(super) fn without_interrupts<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let mut interrupts = self.interrupts();
        // What nothing is to be done for is not left to the system either, which would end the process.
        for id in interrupts.drain(..) {
            unregister(id);
        }
        let quit = flag::register(SIGQUIT, Arc::default())?;
        let done = work();
        unregister(quit);
        *interrupts = self.register(SIGINT)?;
        Ok(done)
    }

    /// Returns the handle of calls that a signal cancels.
    pub(super) fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::from_flag(self.cancelled.clone())
    }

    /// Runs a call, which a signal cancels instead of ending the process.
    pub(super) fn while_calling<T>(&self, call: impl FnOnce() -> T) -> T {
        self.idle.store(false, Ordering::SeqCst);
        self.calling.store(true, Ordering::SeqCst);
        let answer = call();
        self.calling.store(false, Ordering::SeqCst);
        let lingers = self.lingers.load(Ordering::SeqCst);
        self.idle.store(!lingers, Ordering::SeqCst);
        answer
    }

    /// Has a signal between calls run `end` before it ends the process (FR-LSI-BG-40). A call that is under way is cancelled as
    /// ever, and whoever made it ends the process. A second signal ends it at once.
    ///
    /// # Errors
    ///
    /// Those of the system; signals then end the process as before.
    pub(super) fn linger(&self, end: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let (calling, cancelled) = (self.calling.clone(), self.cancelled.clone());
        std::thread::Builder::new()
            .name("forge-search-signals".to_string())
            .spawn(move || {
                // Not one that was somebody else's; what says so may be noticed a little later.
                let mut own = signals.forever().filter(|_| {
                    std::thread::sleep(NAP);
                    cancelled.load(Ordering::SeqCst)
                });
                let Some(signal) = own.next() else {
                    return;
                };
                while calling.load(Ordering::SeqCst) {
                    std::thread::sleep(NAP);
                }
                // Whoever made a call has a moment to end in order.
                std::thread::sleep(NAP);
                end();
                std::process::exit(128 + signal);
            })?;
        self.lingers.store(true, Ordering::SeqCst);
        self.idle.store(false, Ordering::SeqCst);
        Ok(())
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
