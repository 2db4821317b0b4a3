//! The reasons why a task has no result, and their failure codes.
//!
//! This module owns every message that leaves the executor. Messages are constants, so they can't
//! leak the content of a manifest, a lease or a source.

use serde::{Deserialize, Serialize};

use crate::tool::render::escape_controls;

/// The failure codes of EXEC §10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The lease does not permit this task.
    InvalidLease,
    /// The lease has expired.
    LeaseExpired,
    /// There is no such capability.
    UnsupportedCapability,
    /// The query or the number of results is not allowed.
    InvalidQuery,
    /// The scope is not configured for this capability.
    ScopeNotAllowed,
    /// The data of the scope is missing or can't be read.
    ScopeUnavailable,
    /// The search failed.
    ExecutionFailed,
    /// The search exceeded its limits on time, memory or output.
    ResourceExhausted,
}

macro_rules! reasons {
    ($($(#[$about:meta])* $name:ident = $code:ident, $message:literal;)*) => {
        /// The exact reason of a failure; each belongs to one [`Code`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Reason {
            $($(#[$about])* $name,)*
        }

        impl Reason {
            /// Every reason, in the order of the checks.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// Returns the failure code of the reason (EXEC §10).
            pub fn code(self) -> Code {
                match self {
                    $(Reason::$name => Code::$code,)*
                }
            }

            /// Returns the message of the reason.
            pub fn message(self) -> &'static str {
                match self {
                    $(Reason::$name => $message,)*
                }
            }
        }
    };
}

reasons! {
    /// The lease is no token.
    TokenMalformed = InvalidLease, "the lease is not a PASETO v4.public token";
    /// The lease's footer names no configured key.
    KeyUnknown = InvalidLease, "the lease is not signed with a configured key; its footer must \
         name the key by its PASERK id (kid)";
    /// The signature is invalid.
    SignatureInvalid = InvalidLease, "the signature of the lease is invalid";
    /// The signed bytes are no claims of a lease.
    ClaimsMalformed = InvalidLease, "the lease lacks one of the claims task_id, capability_id, \
         target_scope and expires_at (RFC 3339, UTC), or has other claims that would limit it";
    /// The manifest is no JSON object, or has a field twice, or is too long.
    ManifestMalformed = InvalidLease, "the manifest is not a JSON object with each field once, so \
         the lease can't be checked against it";
    /// The lease is for another task.
    TaskMismatch = InvalidLease, "the lease and the manifest have different task_ids";
    /// The lease has expired.
    Expired = LeaseExpired, "the lease has expired";
    /// The capability is unknown.
    CapabilityUnsupported = UnsupportedCapability, "capability_id must be SEARCH_FILES, \
         SEARCH_EMAILS or SEARCH_DATASETS";
    /// The lease is for another capability.
    CapabilityMismatch = InvalidLease, "the lease and the manifest have different capability_ids";
    /// The lease is for another scope.
    ScopeMismatch = InvalidLease, "the lease and the manifest have different target_scopes";
    /// The manifest has an unknown field.
    FieldUnknown = InvalidQuery, "the manifest has a field other than task_id, capability_id, target_scope, query and max_results";
    /// The query is missing or is no text.
    QueryNotText = InvalidQuery, "query is missing, is not a string, or is not valid UTF-8";
    /// The query is empty or too long.
    QueryLength = InvalidQuery, "query must have 1 to 4096 code points, without the whitespace \
         around it";
    /// The number of results is not allowed.
    MaxResults = InvalidQuery, "max_results must be a whole number from 1 to 1000";
    /// The scope is not configured.
    ScopeUnknown = ScopeNotAllowed, "target_scope is not configured";
    /// The scope is of another kind than the capability searches.
    ScopeKind = ScopeNotAllowed, "the capability can't search the kind of target_scope";
    /// The task was executed with another manifest.
    TaskIdReused = ExecutionFailed, "the task_id was used with another manifest";
    /// The task was executed, and its result was deleted since.
    ResultExpired = ExecutionFailed, "the task was executed, and its result is no longer stored; \
         use a new task_id";
    /// The store of results can't be used.
    StoreFailed = ExecutionFailed, "the store of results can't be used";
    /// The data of the scope does not exist.
    ScopeMissing = ScopeUnavailable, "the data of target_scope does not exist";
    /// The data of the scope, or a part of it, may not be read.
    ScopeDenied = ScopeUnavailable, "reading the data of target_scope, or a part of it, is not \
         permitted";
    /// The data of the scope is no file or directory as its kind requires, or reading it fails.
    ScopeUnreadable = ScopeUnavailable, "the data of target_scope can't be read";
    /// Another program has locked the data of the scope.
    ScopeLocked = ScopeUnavailable, "the data of target_scope is locked by another program; execute the task again";
    /// The data does not have the format of the scope's kind.
    SourceMalformed = ExecutionFailed, "the data of target_scope is not of the configured kind";
    /// The data changed while it was read.
    SourceChanged = ExecutionFailed, "the data of target_scope has changed while it was read; execute the task again";
    /// The worker could not be started.
    WorkerAbsent = ExecutionFailed, "the worker can't be started";
    /// The worker ended without an answer.
    WorkerFailed = ExecutionFailed, "the worker ended without an answer";
    /// The system can't confine the worker.
    NotConfined = ExecutionFailed, "this system lacks Landlock or seccomp, so the search would not \
         be confined; use a newer kernel, allow both in this container, or set require_confinement \
         = false in [executor]";
    /// The search exceeded its time limit.
    Time = ResourceExhausted, "the search took longer than 30 seconds";
    /// The search exceeded its memory limit.
    Memory = ResourceExhausted, "the search needed more than 256 MB of memory";
    /// The results exceed their size limit.
    Output = ResourceExhausted, "the results are longer than 64 MiB";
}

/// A failure, with details for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorError {
    /// The reason of the failure.
    pub reason: Reason,
    /// Details for the operator, on one line and without control characters. Answers never contain
    /// them.
    pub detail: Option<String>,
}

impl ExecutorError {
    /// Builds a failure with a detail.
    pub fn because(reason: Reason, detail: &dyn std::fmt::Display) -> ExecutorError {
        let detail = detail.to_string();
        ExecutorError {
            reason,
            detail: Some(escape_controls(&detail).into_owned()),
        }
    }
}

impl From<Reason> for ExecutorError {
    fn from(reason: Reason) -> ExecutorError {
        ExecutorError {
            reason,
            detail: None,
        }
    }
}

/// The JSON form of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureResponse {
    /// The code, the reason and the message.
    pub error: ErrorBody,
}

/// The error of a failed task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The code (EXEC §10).
    pub code: Code,
    /// The reason behind the code.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
}

impl From<Reason> for FailureResponse {
    fn from(reason: Reason) -> FailureResponse {
        FailureResponse {
            error: ErrorBody {
                code: reason.code(),
                reason,
                message: reason.message().to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_failure_code_has_a_reason_and_every_reason_a_message_of_its_own() {
        let codes: BTreeSet<Code> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        assert_eq!(codes.len(), 8);
        let messages: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.message()).collect();
        assert_eq!(messages.len(), Reason::ALL.len());
        let told = serde_json::to_value(FailureResponse::from(Reason::TaskIdReused)).unwrap();
        assert_eq!(told["error"]["code"], "EXECUTION_FAILED");
        assert_eq!(told["error"]["reason"], "task_id_reused");
    }
}
