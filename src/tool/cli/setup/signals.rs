//! Handling of interrupts (SIGINT) and terminations (SIGTERM).
//!
//! This module owns the effect of a signal. A signal cancels the running call, so that external
//! engines end with it. If no call is running, the signal ends the process at once. A second signal
//! always ends the process at once. Long-running processes register a function that shuts them down
//! in order first ([`Signals::linger`]). In place of ripgrep, a signal has the system's default
//! effect ([`Signals::act_by_default`]).

#[cfg(not(unix))]
mod portable;
#[cfg(unix)]
mod unix;

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

#[cfg(not(unix))]
use portable as sys;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{SigId, flag};
#[cfg(unix)]
use unix as sys;

use crate::exec::stop::CancelHandle;
use crate::format::mutex::lock;
use crate::tool::cli::{FAILED, Failure};
use crate::tool::error::ToolError;

/// How often to check whether a cancelled call has ended.
const NAP: Duration = Duration::from_millis(10);

pub(in crate::tool::cli) use sys::wait_for_children;

/// The state of the signals that end the process. All clones share it.
#[derive(Clone, Debug)]
pub(in crate::tool::cli) struct Signals {
    /// No call is running, so a signal ends the process at once.
    idle: Arc<AtomicBool>,
    /// A signal arrived during a call, or it has to end the process in order.
    cancelled: Arc<AtomicBool>,
    /// The number of that signal.
    number: Arc<AtomicUsize>,
    /// A call is running.
    calling: Arc<AtomicBool>,
    /// [`Signals::linger`] was called: a signal between calls must not end the process at once.
    lingers: Arc<AtomicBool>,
    /// A signal has the system's default effect, whether or not a call is running.
    by_default: Arc<AtomicBool>,
    /// The registered actions for SIGINT.
    interrupt: Arc<Mutex<Vec<SigId>>>,
}

impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] if the system refuses.
    pub(in crate::tool::cli) fn take_over() -> Result<Signals, ToolError> {
        // Several parts of one process may call this, such as the trees of one MCP server. All
        // share one state.
        static TAKEN: Mutex<Option<Signals>> = Mutex::new(None);
        let mut taken = lock(&TAKEN);
        if let Some(signals) = &*taken {
            return Ok(signals.clone());
        }
        let signals = Signals {
            idle: Arc::new(AtomicBool::new(true)),
            cancelled: Arc::default(),
            number: Arc::default(),
            calling: Arc::default(),
            lingers: Arc::default(),
            by_default: Arc::default(),
            interrupt: Arc::default(),
        };
        let refused =
            |error| ToolError::failed("forge-search", format!("signals can't be handled: {error}"));
        signals.register(SIGTERM).map_err(refused)?;
        *signals.interrupts() = signals.register(SIGINT).map_err(refused)?;
        *taken = Some(signals.clone());
        Ok(signals)
    }

    /// Registers the actions of a signal: cancel the running call, or end the process.
    fn register(&self, signal: c_int) -> io::Result<Vec<SigId>> {
        let number = usize::try_from(signal).unwrap_or_default();
        // The actions run in this order. The first signal must not find `cancelled` set by itself.
        Ok(vec![
            flag::register_conditional_default(signal, self.by_default.clone())?,
            flag::register_conditional_shutdown(signal, 128 + signal, self.idle.clone())?,
            flag::register_conditional_shutdown(signal, 128 + signal, self.cancelled.clone())?,
            flag::register_usize(signal, self.number.clone(), number)?,
            flag::register(signal, self.cancelled.clone())?,
        ])
    }

    fn interrupts(&self) -> MutexGuard<'_, Vec<SigId>> {
        lock(&self.interrupt)
    }

    /// Returns the cancel handle for calls. A signal sets it.
    pub(in crate::tool::cli) fn cancel_handle(&self) -> CancelHandle {
        CancelHandle::from_flag(self.cancelled.clone())
    }

    /// Gives every later signal the system's default effect: it ends the process, and a parent
    /// process sees by which signal.
    pub(in crate::tool::cli) fn act_by_default(&self) {
        self.by_default.store(true, Ordering::SeqCst);
    }

    /// Runs a call. A signal meanwhile cancels the call and does not end the process.
    pub(in crate::tool::cli) fn while_calling<T>(&self, call: impl FnOnce() -> T) -> T {
        self.idle.store(false, Ordering::SeqCst);
        self.calling.store(true, Ordering::SeqCst);
        let answer = call();
        self.calling.store(false, Ordering::SeqCst);
        let lingers = self.lingers.load(Ordering::SeqCst);
        self.idle.store(!lingers, Ordering::SeqCst);
        answer
    }

    /// Makes a signal between calls run `end` before the process ends. A signal
    /// during a call cancels the call, and the caller ends the process. A second signal ends the
    /// process at once.
    ///
    /// # Errors
    ///
    /// Errors of the system. Signals then end the process at once, as before.
    pub(in crate::tool::cli) fn linger(
        &self,
        end: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let mut signals = sys::Arrivals::new()?;
        let (number, calling) = (self.number.clone(), self.calling.clone());
        let cancelled = self.cancelled.clone();
        std::thread::Builder::new()
            .name("forge-search-signals".to_string())
            .spawn(move || {
                let Some(signal) = signals.own(&cancelled, &number) else {
                    return;
                };
                while calling.load(Ordering::SeqCst) {
                    std::thread::sleep(NAP);
                }
                // Give the caller of the call time to end the process itself.
                std::thread::sleep(NAP);
                end();
                std::process::exit(128 + signal);
            })?;
        self.lingers.store(true, Ordering::SeqCst);
        self.idle.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the exit status for the signal that cancelled a call, if there was one.
    pub(in crate::tool::cli) fn status(&self) -> Option<u8> {
        let cancelled = self.cancelled.load(Ordering::SeqCst);
        let status = 128 + self.number.load(Ordering::SeqCst);
        cancelled.then(|| u8::try_from(status).unwrap_or(FAILED))
    }

    /// Converts the error of a call into the failure of the process. A cancelled call becomes
    /// [`Failure::Signal`].
    pub(in crate::tool::cli) fn failure(&self, error: ToolError) -> Failure {
        match (self.status(), error) {
            (Some(status), ToolError::Cancelled) => Failure::Signal(status),
            (_, error) => Failure::Tool(error),
        }
    }
}
