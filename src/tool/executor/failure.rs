//! Why a task has no result: codes, and the reasons behind them.
//!
//! Owns every message that leaves the executor. Messages are constants, so none of them can hold what a manifest, a lease
//! or a source says.

use serde::{Deserialize, Serialize};

use crate::tool::render::escape_controls;

/// The failure codes of EXEC §10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The lease is not one that allows this task.
    InvalidLease,
    /// The lease's time is over.
    LeaseExpired,
    /// There is no such capability.
    UnsupportedCapability,
    /// The query, or the number of results that is asked for, is not allowed.
    InvalidQuery,
    /// The scope is not one that is configured for this capability.
    ScopeNotAllowed,
    /// The scope's data is missing or can't be read.
    ScopeUnavailable,
    /// The search failed.
    ExecutionFailed,
    /// The search needed more time or memory than it may have.
    ResourceExhausted,
}

macro_rules! reasons {
    ($($(#[$about:meta])* $name:ident = $code:ident, $message:literal;)*) => {
        /// What exactly was wrong; each belongs to one [`Code`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Reason {
            $($(#[$about])* $name,)*
        }

        impl Reason {
            /// Every reason, in the order of the checks.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];

            /// Returns the failure code that the reason belongs to (EXEC §10).
            pub fn code(self) -> Code {
                match self {
                    $(Reason::$name => Code::$code,)*
                }
            }

            /// Returns what people are told.
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
    /// The lease's footer names no key, or none that is configured.
    KeyUnknown = InvalidLease, "the lease is not signed with a key that is configured; its footer has to name one by its PASERK id (kid)";
    /// The signature does not hold.
    SignatureInvalid = InvalidLease, "the signature of the lease does not hold";
    /// What is signed is no lease.
    ClaimsMalformed = InvalidLease, "the lease does not have the claims task_id, capability_id, target_scope and expires_at (RFC 3339, UTC), or has others that would limit it";
    /// The manifest is no JSON object, or has a field twice, or is too long.
    ManifestMalformed = InvalidLease, "the manifest is not a JSON object with each field once, so that the lease is not for it";
    /// The lease is for another task.
    TaskMismatch = InvalidLease, "the lease is for another task_id than the manifest";
    /// The lease's time is over.
    Expired = LeaseExpired, "the time of the lease is over";
    /// The capability is not one of three.
    CapabilityUnsupported = UnsupportedCapability, "capability_id is none of SEARCH_FILES, SEARCH_EMAILS and SEARCH_DATASETS";
    /// The lease is for another capability.
    CapabilityMismatch = InvalidLease, "the lease is for another capability_id than the manifest";
    /// The lease is for another scope.
    ScopeMismatch = InvalidLease, "the lease is for another target_scope than the manifest";
    /// The manifest has a field that is not known.
    FieldUnknown = InvalidQuery, "the manifest has a field other than task_id, capability_id, target_scope, query and max_results";
    /// The query is missing or is no text.
    QueryNotText = InvalidQuery, "query is missing, is no string, or is not valid UTF-8";
    /// The query is empty or too long.
    QueryLength = InvalidQuery, "query has to have 1 to 4096 code points once the space around it is taken off";
    /// The number of results is not allowed.
    MaxResults = InvalidQuery, "max_results has to be a whole number from 1 to 1000";
    /// There is no such scope.
    ScopeUnknown = ScopeNotAllowed, "target_scope is not configured";
    /// The scope is of another kind.
    ScopeKind = ScopeNotAllowed, "target_scope is not of the kind that the capability searches";
    /// The task was executed with another manifest.
    TaskIdReused = ExecutionFailed, "the task_id was used with another manifest";
    /// The task was executed, and its result is not kept any more.
    ResultExpired = ExecutionFailed, "the task was executed, and its result is not kept any more; use a new task_id";
    /// Results can't be kept or found.
    StoreFailed = ExecutionFailed, "the store of results can't be used";
    /// There is nothing where the scope's data should be.
    ScopeMissing = ScopeUnavailable, "the data of target_scope is not there";
    /// The scope's data, or a part of it, may not be read.
    ScopeDenied = ScopeUnavailable, "the data of target_scope, or a part of it, may not be read";
    /// The scope's data is not a file or directory, as its kind has it, or reading it fails.
    ScopeUnreadable = ScopeUnavailable, "the data of target_scope can't be read";
    /// Another program keeps the scope's data to itself.
    ScopeLocked = ScopeUnavailable, "the data of target_scope is locked by another program; execute the task again";
    /// The data is not what the scope's kind says.
    SourceMalformed = ExecutionFailed, "the data of target_scope is not of the kind that is configured";
    /// The data has changed while it was read.
    SourceChanged = ExecutionFailed, "the data of target_scope has changed while it was read; execute the task again";
    /// The worker could not be started.
    WorkerAbsent = ExecutionFailed, "the worker can't be started";
    /// The worker ended without an answer.
    WorkerFailed = ExecutionFailed, "the worker ended without an answer";
    /// The system can't confine the worker.
    NotConfined = ExecutionFailed, "this system lacks Landlock or seccomp, so that the search would not be confined; use a newer kernel, allow both in this container, or set require_confinement = false in [executor]";
    /// The search took longer than it may.
    Time = ResourceExhausted, "the search took longer than 30 seconds";
    /// The search needed more memory than it may have.
    Memory = ResourceExhausted, "the search needed more than 256 MB of memory";
    /// The results are longer than they may be.
    Output = ResourceExhausted, "the results are longer than 64 MiB";
}

/// Why something did not work, with what only the operator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason.
    pub reason: Reason,
    /// What an operator should know, on one line and without control characters; it never gets into an answer.
    pub detail: Option<String>,
}

impl Fault {
    /// Makes one with a detail.
    pub fn because(reason: Reason, detail: &dyn std::fmt::Display) -> Fault {
        let detail = detail.to_string();
        Fault {
            reason,
            detail: Some(escape_controls(&detail).into_owned()),
        }
    }
}

impl From<Reason> for Fault {
    fn from(reason: Reason) -> Fault {
        Fault {
            reason,
            detail: None,
        }
    }
}

/// A failure as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// What went wrong.
    pub error: Told,
}

/// What is told of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The code (EXEC §10).
    pub code: Code,
    /// The reason behind it.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl From<Reason> for Failed {
    fn from(reason: Reason) -> Failed {
        Failed {
            error: Told {
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
    fn exec_10_every_code_has_a_reason_and_every_reason_a_message_of_its_own() {
        let codes: BTreeSet<Code> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        assert_eq!(codes.len(), 8);
        let messages: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.message()).collect();
        assert_eq!(messages.len(), Reason::ALL.len());
        let told = serde_json::to_value(Failed::from(Reason::TaskIdReused)).unwrap();
        assert_eq!(told["error"]["code"], "EXECUTION_FAILED");
        assert_eq!(told["error"]["reason"], "task_id_reused");
    }
}
