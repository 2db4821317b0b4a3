//! Who answers for a tree.
//!
//! Owns what surfaces ask of a tree, whoever answers for it, and how a call is given up. It knows no protocol.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::request::ToolCall;
use super::service::Ending;
use crate::exec::stop::StopReason;
use crate::tool::error::ToolError;
use crate::tool::indexing::BuildReport;
use crate::tool::request::SearchRequest;

/// A tree that can be searched. All of it blocks.
pub trait Tree: Send + Sync {
    /// Calls a tool, and returns its response, or `{"error": {"code", "message", …}}`.
    fn call(&self, call: &ToolCall, given_up: &GivenUp) -> Value;

    /// Says how it is.
    ///
    /// # Errors
    ///
    /// That can't be told.
    fn status(&self) -> Result<Value, ToolError>;

    /// Looks for whatever may be wrong.
    ///
    /// # Errors
    ///
    /// That can't be told.
    fn health(&self) -> Result<Value, ToolError>;

    /// Says what an index does for a search, for which the search is carried out.
    ///
    /// # Errors
    ///
    /// The request is not valid.
    fn explain(&self, request: &SearchRequest) -> Result<Value, ToolError>;

    /// Says how far the building of its index is, while one is being built.
    fn building(&self) -> Option<BuildReport>;
}

/// A call, which may be given up while it is answered.
#[derive(Default)]
pub struct GivenUp {
    ending: Ending,
    also: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GivenUp").field(&self.ending).finish()
    }
}

impl GivenUp {
    /// Gives it up.
    pub fn give_up(&self) {
        self.ending.end(StopReason::Cancelled);
        for end in self.hooks().drain(..) {
            end();
        }
    }

    /// Returns what ends the call of a service.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Returns true once it was given up.
    pub fn is_given_up(&self) -> bool {
        self.ending.reason().is_some()
    }

    /// Has `end` run when the call is given up; at once, if it was already.
    pub fn also(&self, end: impl FnOnce() + Send + 'static) {
        let mut hooks = self.hooks();
        match self.is_given_up() {
            true => end(),
            false => hooks.push(Box::new(end)),
        }
    }

    /// Has it given up when what is returned is dropped: when nobody waits for its answer any more.
    pub fn while_waited_for(self: &Arc<Self>) -> WaitedFor {
        WaitedFor(self.clone())
    }

    fn hooks(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        self.also.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever waits for the answer to a call. Gives it up when dropped.
#[derive(Debug)]
pub struct WaitedFor(Arc<GivenUp>);

impl Drop for WaitedFor {
    fn drop(&mut self) {
        self.0.give_up();
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
        let call = GivenUp::default();
        call.also(count());
        assert!(!call.is_given_up());
        call.give_up();
        call.give_up();
        assert!(call.is_given_up());
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        call.also(count());
        assert_eq!(ended.load(Ordering::SeqCst), 2);
    }
}
