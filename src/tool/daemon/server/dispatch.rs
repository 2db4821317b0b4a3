//! One request: admits it, runs it, counts it and logs it.
//!
//! This module owns when a query may run, on which threads, and until when. The service does the
//! search.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::connection::Active;
use crate::exec::stop::{Deadline, StopReason};
use crate::index::pace::{lower_thread_priority, millis};
use crate::tool::daemon::admission::{Client, Kind, Share};
use crate::tool::daemon::gate::Permit;
use crate::tool::daemon::inspect::Load;
use crate::tool::daemon::metrics::{Outcome, exposition};
use crate::tool::daemon::person_search;
use crate::tool::daemon::reply::{Acknowledged, ErrorCode, Failure};
use crate::tool::daemon::report::Exposition;
use crate::tool::daemon::request::RequestBody;
use crate::tool::daemon::service::{Answer, QueryLogFields, RequestContext, ended, payload};

/// How long a search may overrun its time limit before its client gets a timeout without its
/// result.
const GRACE: Duration = Duration::from_secs(1);

/// A request before admission.
pub(super) struct PendingRequest<'a> {
    /// Receives the messages of an answer except for the last one.
    pub(super) parts: mpsc::Sender<Vec<u8>>,
    pub(super) active: &'a Arc<Active>,
    pub(super) client: &'a Client,
    pub(super) share: Share,
    pub(super) received_at: Instant,
}

/// Answers a request, and counts it if it is a query.
pub(super) async fn answer(
    body: RequestBody,
    pending: PendingRequest<'_>,
    shared: &Arc<Shared>,
) -> Vec<u8> {
    // The time limit, and the log fields that don't depend on the outcome.
    let (asked_for, log_fields) = match &body {
        RequestBody::Search(query) => (
            query.timeout_ms.map(Duration::from_millis),
            Some(QueryLogFields::for_query(query)),
        ),
        RequestBody::Tool(call) => (Some(shared.service.time_of(call)), None),
        RequestBody::Status | RequestBody::Health | RequestBody::Metrics => {
            let told = pending.active.stop_signal.notified();
            let mut ending = shared.ending.subscribe();
            // Cancellation is checked first: an inspection that it interrupted is incomplete.
            return tokio::select! {
                biased;
                () = told => cancelled_payload(&pending),
                _ = ending.wait_for(|ending| *ending) => cancelled_payload(&pending),
                looked = inspect(body, shared) => looked,
            };
        }
        RequestBody::Shutdown | RequestBody::Cancel => {
            return payload(&Acknowledged {
                done: true,
                request_id: pending.active.id.clone(),
            });
        }
    };
    let most = shared.settings.timeout;
    let time = asked_for.map_or(most, |time| time.min(most));
    let (received_at, clock) = (pending.received_at, shared.service.clock().clone());
    let deadline = Deadline::since(received_at, time, clock.clone());
    let kind = kind_of(&body);
    let (mut answer, waited) = match admit(&pending, kind, &deadline, shared).await {
        Ok(permit) => {
            let waited = clock.now().saturating_duration_since(received_at);
            let deadline = match &body {
                // A tool has its own time limit, and answers with its partial result.
                RequestBody::Tool(_) => Deadline::since(received_at, most, clock.clone()),
                _ => deadline,
            };
            let answer = run(body, permit, &pending, deadline, waited, shared).await;
            (answer, waited)
        }
        Err(failure) => {
            let waited = clock.now().saturating_duration_since(received_at);
            (Answer::from(failure.of(pending.active.id.clone())), waited)
        }
    };
    let took = clock.now().saturating_duration_since(received_at);
    answer.log_fields = answer.log_fields.or(log_fields);
    shared.metrics.ended(&answer, waited, took);
    note(&answer, pending.active.id.as_deref(), waited, took, shared);
    match answer.outcome {
        Outcome::Failed(ErrorCode::Cancelled) => cancelled_payload(&pending),
        _ => answer.payload,
    }
}

/// Returns the failure of a cancelled request. If the daemon ended, rather than the client
/// cancelled, `retry_after_ms` says that a retry is worthwhile.
fn cancelled_payload(pending: &PendingRequest<'_>) -> Vec<u8> {
    let failure = match pending.active.is_cancelled() {
        true => ended(StopReason::Cancelled),
        false => {
            let message = "the daemon ended before it answered";
            let mut failure = Failure::new(ErrorCode::Cancelled, message);
            failure.error.retry_after_ms = Some(0);
            failure
        }
    };
    payload(&failure.of(pending.active.id.clone()))
}

/// Returns the kind of a query, from which admission estimates its duration.
fn kind_of(body: &RequestBody) -> Kind {
    match body {
        RequestBody::Tool(call) if call.tool == person_search::NAME => Kind::Person,
        RequestBody::Tool(_) => Kind::Tool,
        _ => Kind::Search,
    }
}

/// Logs a query, without its text. The fields of ranked searches are left out for tool calls.
/// Refusals are logged as a number, and rarely, since refused clients come again and again.
pub(super) fn note(
    answer: &Answer,
    id: Option<&str>,
    waited: Duration,
    took: Duration,
    shared: &Shared,
) {
    let is_refusal = answer.outcome == Outcome::Failed(ErrorCode::Busy);
    let refusals = match is_refusal {
        true => shared.gate.count_refusal(),
        false => shared.gate.due_refusals(),
    };
    if let Some(count) = refusals {
        let status = ErrorCode::Busy.as_str();
        tracing::info!(target: "forge_search::query", status, count, "refused");
    }
    if is_refusal {
        return;
    }
    let log_fields = answer.log_fields.as_ref();
    let timings = log_fields.map(|log_fields| log_fields.timings);
    tracing::info!(
        target: "forge_search::query",
        request_id = log_fields.and_then(|log_fields| log_fields.request_id.as_deref()).or(id),
        snapshot_id = log_fields.and_then(|log_fields| log_fields.snapshot_id.as_deref()),
        profile = log_fields.map(|log_fields| log_fields.profile.as_str()),
        max_results = log_fields.map(|log_fields| log_fields.max_results),
        per_file = log_fields.map(|log_fields| log_fields.per_file),
        snippet = log_fields.map(|log_fields| log_fields.snippet.as_str()),
        admission_ms = millis(waited),
        snapshot_read_ms = timings.map(|timings| timings.snapshot_read),
        retrieve_ms = timings.map(|timings| timings.retrieve),
        rank_ms = timings.map(|timings| timings.rank),
        format_ms = timings.map(|timings| timings.format),
        total_ms = millis(took),
        status = answer.outcome.as_str(),
    );
}

/// Answers `status`, `health` and `metrics`. They never wait for queries, nor queries for them.
async fn inspect(body: RequestBody, shared: &Arc<Shared>) -> Vec<u8> {
    let (counts, (running, waiting)) = (shared.metrics.counts(), shared.gate.counts());
    if body == RequestBody::Metrics {
        return payload(&Exposition {
            content_type: "text/plain; version=0.0.4; charset=utf-8".to_string(),
            text: exposition(&counts, running, waiting),
        });
    }
    let turns = match body {
        RequestBody::Health => &shared.healths,
        _ => &shared.statuses,
    };
    let busy = || {
        let message = "other clients are asking the same at the moment";
        let mut failure = Failure::new(ErrorCode::Busy, message);
        failure.error.retry_after_ms = Some(250);
        payload(&failure)
    };
    let Ok(Ok(_turn)) = timeout(shared.settings.patience, turns.acquire()).await else {
        return busy();
    };
    let service = shared.service.clone();
    let looked = tokio::task::spawn_blocking(move || match body {
        RequestBody::Health => payload(&service.health()),
        _ => payload(&service.status(&Load {
            counts,
            running,
            waiting,
        })),
    });
    looked.await.unwrap_or_else(|_| {
        let message = "the check ended unexpectedly; please report how to reproduce it";
        payload(&Failure::new(ErrorCode::Internal, message))
    })
}

/// Waits at the gate until the deadline or a cancellation.
async fn admit(
    pending: &PendingRequest<'_>,
    kind: Kind,
    deadline: &Deadline,
    shared: &Shared,
) -> Result<Permit, Failure> {
    if let Some(reason) = pending.active.ending.reason() {
        return Err(ended(reason));
    }
    tokio::select! {
        permit = shared.gate.enter(pending.client, pending.share, kind) => permit,
        () = sleep(deadline.remaining()) => Err(ended(StopReason::TimedOut)),
        () = pending.active.stop_signal.notified() => Err(ended(StopReason::Cancelled)),
    }
}

/// Runs a search on a blocking thread.
fn on_pool(search: impl FnOnce() -> Answer + Send + 'static) -> oneshot::Receiver<Answer> {
    let (tell, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // The receiver is gone if the client has disconnected.
        let _ = tell.send(search());
    });
    told
}

/// Runs a search on a thread of its own with a lower priority, which the threads that it starts
/// inherit. A thread can't raise its priority again, so it ends with the search.
fn behind(search: impl FnOnce() -> Answer + Send + 'static) -> oneshot::Receiver<Answer> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("forge-search-behind".to_string());
    let started = thread.spawn(move || {
        lower_thread_priority();
        let _ = tell.send(search());
    });
    // If the thread can't start, the receiver fails and the client gets an error.
    drop(started);
    told
}

/// Runs an admitted query on a blocking thread.
async fn run(
    body: RequestBody,
    permit: Permit,
    pending: &PendingRequest<'_>,
    deadline: Deadline,
    waited: Duration,
    shared: &Arc<Shared>,
) -> Answer {
    let (active, received_at) = (pending.active, pending.received_at);
    let (shared, running, parts) = (shared.clone(), active.clone(), pending.parts.clone());
    let left = deadline.clone();
    let (is_low_priority, queued) = (permit.is_low_priority(), permit.was_queued());
    let search = move || {
        // Held until the search has really ended.
        let _permit = permit;
        let admitted = RequestContext {
            id: running.id.clone(),
            ending: &running.ending,
            deadline,
            received_at: Some(received_at),
            waited,
            queued,
            max_response_bytes: shared.settings.max_response_bytes,
            is_low_priority,
        };
        match &body {
            RequestBody::Tool(call) if call.tool == person_search::NAME => {
                let send = |part| match parts.blocking_send(part) {
                    Ok(()) => ControlFlow::Continue(()),
                    // The connection has ended.
                    Err(_) => ControlFlow::Break(()),
                };
                // A client may search by itself while it waits for admission. This message ends
                // that wait.
                let _ = send(person_search::going_on());
                shared.service.answer_question(call, admitted, &send)
            }
            RequestBody::Tool(call) => shared.service.call(call, admitted),
            RequestBody::Search(query) => shared.service.answer(query, admitted),
            // Other requests need no admission.
            _ => Failure::new(ErrorCode::Internal, "this request is not a query").into(),
        }
    };
    let mut search = match is_low_priority {
        false => on_pool(search),
        true => behind(search),
    };
    let late = async {
        sleep(left.remaining()).await;
        active.ending.end(StopReason::TimedOut);
        sleep(GRACE).await;
    };
    let id = || active.id.clone();
    tokio::select! {
        answer = &mut search => answer.unwrap_or_else(|_| {
            let message = "the query ended unexpectedly; please report how to reproduce it";
            Failure::new(ErrorCode::Internal, message).of(id()).into()
        }),
        () = late => ended(StopReason::TimedOut).of(id()).into(),
    }
}
