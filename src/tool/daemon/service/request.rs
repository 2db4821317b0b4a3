//! An admitted request: its context, and the handle that ends it.

use std::time::{Duration, Instant};

use crate::exec::stop::{CancelHandle, Deadline, Stop, StopReason};

/// Ends a running request.
#[derive(Clone, Debug, Default)]
pub struct RequestStop {
    pub(super) stop: Stop,
    pub(super) cancel: CancelHandle,
}

impl RequestStop {
    /// Creates a handle for a request that `cancel` cancels.
    pub(crate) fn of(cancel: CancelHandle) -> RequestStop {
        RequestStop {
            stop: Stop::cancelled_by(cancel.clone()),
            cancel,
        }
    }

    /// Ends the request. The first reason stays.
    pub fn end(&self, reason: StopReason) {
        self.stop.raise(reason);
        self.cancel.cancel();
    }

    /// Returns why the request was ended, once it was.
    pub fn reason(&self) -> Option<StopReason> {
        self.stop.reason()
    }
}

/// The context of an admitted request.
pub struct RequestContext<'a> {
    /// The id that the client gave the request.
    pub id: Option<String>,
    /// Ends the request.
    pub ending: &'a RequestStop,
    /// When the answer is due.
    pub deadline: Deadline,
    /// When the request was received; now, if absent.
    pub received_at: Option<Instant>,
    /// How long the request waited.
    pub waited: Duration,
    /// Whether the request waited for other queries.
    pub queued: bool,
    /// The largest response, in bytes.
    pub max_response_bytes: usize,
    /// Whether the request runs with low priority.
    pub is_low_priority: bool,
}

impl<'a> RequestContext<'a> {
    /// Builds the context of a request of this process: no wait, no limit on the length of its
    /// answer.
    pub(crate) fn at_once(ending: &'a RequestStop, deadline: Deadline) -> RequestContext<'a> {
        RequestContext {
            id: None,
            ending,
            deadline,
            received_at: None,
            waited: Duration::ZERO,
            queued: false,
            max_response_bytes: usize::MAX,
            is_low_priority: false,
        }
    }
}
