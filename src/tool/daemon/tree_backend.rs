//! The interface between surfaces and the backend that answers for a tree.
//!
//! This module owns the operations that surfaces call, be it on a daemon or on a service of their
//! own process, and the cancellation of calls. It knows no protocol.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::request::ToolCall;
use super::service::RequestStop;
use crate::exec::stop::StopReason;
use crate::format::mutex::lock;
use crate::tool::error::ToolError;
use crate::tool::indexing::BuildReport;
use crate::tool::request::SearchRequest;

/// A backend that answers for a tree. All methods block.
pub trait TreeBackend: Send + Sync {
    /// Calls a tool, and returns its response, or `{"error": {"code", "message", …}}`.
    fn call(&self, call: &ToolCall, call_cancel: &CallCancel) -> Value;

    /// Returns the status of the backend.
    ///
    /// # Errors
    ///
    /// The backend can't be asked.
    fn status(&self) -> Result<Value, ToolError>;

    /// Runs the health checks of the backend.
    ///
    /// # Errors
    ///
    /// The backend can't be asked.
    fn health(&self) -> Result<Value, ToolError>;

    /// Runs a search and returns how an index contributed to it.
    ///
    /// # Errors
    ///
    /// The request is not valid.
    fn explain(&self, request: &SearchRequest) -> Result<Value, ToolError>;

    /// Returns the progress of the index build, while one runs.
    fn building(&self) -> Option<BuildReport>;
}

/// A call that can be cancelled while it is answered.
#[derive(Default)]
pub struct CallCancel {
    ending: RequestStop,
    on_cancel: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for CallCancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CallCancel").field(&self.ending).finish()
    }
}

impl CallCancel {
    /// Cancels the call.
    pub fn cancel(&self) {
        self.ending.end(StopReason::Cancelled);
        for end in self.hooks().drain(..) {
            end();
        }
    }

    /// Returns the handle that ends the call of a service.
    pub fn ending(&self) -> &RequestStop {
        &self.ending
    }

    /// Returns true once the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.ending.reason().is_some()
    }

    /// Runs `end` when the call is cancelled; at once, if it already was.
    pub fn on_cancel(&self, end: impl FnOnce() + Send + 'static) {
        let mut hooks = self.hooks();
        match self.is_cancelled() {
            true => end(),
            false => hooks.push(Box::new(end)),
        }
    }

    /// Returns a guard that cancels the call when it is dropped, because nothing waits for the
    /// answer.
    pub fn while_waited_for(self: &Arc<Self>) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        lock(&self.on_cancel)
    }
}

/// A guard of the task that waits for an answer. Cancels the call when dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Arc<CallCancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn mcp_whatever_belongs_to_a_call_ends_with_it_once() {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = || {
            let ended = ended.clone();
            move || {
                ended.fetch_add(1, Ordering::SeqCst);
            }
        };
        let call = CallCancel::default();
        call.on_cancel(count());
        assert!(!call.is_cancelled());
        call.cancel();
        call.cancel();
        assert!(call.is_cancelled());
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        call.on_cancel(count());
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    }
}
