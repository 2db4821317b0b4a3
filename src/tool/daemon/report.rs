//! The answers to `status`, `health` and `metrics`.
//!
//! Owns their shapes, which are part of the contract like those of [`reply`](super::reply). They
//! hold metadata only, never text of a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reply::{SCHEMA_VERSION, SchemaVersions};

/// The answer to `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Status {
    /// The version of this shape.
    #[schemars(extend("const" = 1))]
    pub schema_version: u64,
    /// The store.
    pub store_id: String,
    /// The root of its tree.
    pub canonical_root: String,
    /// The configuration that the daemon has, or where there is none, the one that it would have.
    pub config_fingerprint: String,
    /// The ignore files that count.
    pub ignore_fingerprint: String,
    /// The process.
    pub daemon: DaemonStatus,
    /// What new queries search.
    pub snapshot: SnapshotStatus,
    /// How that is kept up to date.
    pub sync: SyncStatus,
    /// Queries.
    pub queries: QueryStatus,
    /// What is used, of what may be.
    pub resources: Resources,
    /// How long things take.
    pub performance: Performance,
}

/// The process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct DaemonStatus {
    /// Whether there is one.
    pub running: bool,
    /// Its number.
    pub pid: Option<u32>,
    /// Since when.
    pub started_at: Option<String>,
    /// Its release.
    pub binary_version: Option<String>,
    /// The version of the protocol that it speaks.
    pub protocol_version: Option<i64>,
    /// Whether the configuration has changed since.
    pub stale: bool,
    /// What it writes.
    pub supported_schema_versions: Option<SchemaVersions>,
}

/// What new queries search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct SnapshotStatus {
    /// Its id; nothing where there is no index.
    pub active_snapshot_id: Option<String>,
    /// The commit that is checked out.
    pub head_sha: Option<String>,
    /// Whether the tree differs from it; nothing where that was not looked at.
    pub dirty: Option<bool>,
    /// Whether files count that git does not know.
    pub untracked_included: Option<bool>,
    /// Whether queries have to search the whole tree.
    pub degraded: bool,
    /// When this process first knew it.
    pub created_at: Option<String>,
}

/// How the index is kept up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct SyncStatus {
    /// `idle`, `building`, `syncing`, `waiting` (something is in the way), `off` or `stale`.
    #[schemars(extend("enum" = ["idle", "building", "syncing", "waiting", "off", "stale"]))]
    pub state: String,
    /// When it was last built or compared with the tree as a whole.
    pub last_sync_at: Option<String>,
    /// How that ended: `ok` or `failed`.
    pub last_result: Option<String>,
    /// How long it took.
    pub last_duration_ms: Option<u64>,
    /// What is being built.
    pub staging_txn_id: Option<String>,
}

/// Queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct QueryStatus {
    /// How many may run.
    pub max_concurrent: u64,
    /// How many may wait.
    pub max_queue_depth: u64,
    /// How long they may take.
    pub timeout_ms: u64,
    /// How many run.
    pub in_flight: u64,
    /// How many wait.
    pub queue_depth: u64,
    /// How many were refused.
    pub busy_total: u64,
    /// How many were not answered in time.
    pub timeouts_total: u64,
    /// How many took longer than a slow one may.
    pub slow_total: u64,
}

/// What is used, of what may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Resources {
    /// Embeddings, of which there are none.
    pub embed_global: EmbedUse,
    /// Space.
    pub disk: DiskUse,
    /// Open segments.
    pub open_handles: HandleUse,
}

/// Embeddings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct EmbedUse {
    /// Batches at once.
    pub max_concurrent: u64,
    /// Batches now.
    pub in_use: u64,
    /// Whether a lock was left behind.
    pub stale_lock: bool,
}

/// Space, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct DiskUse {
    /// The indexes of this tree.
    pub store_bytes: u64,
    /// What they may take: twice what one may, for there is one for each tool.
    pub store_budget_bytes: u64,
    /// All indexes in the same cache directory.
    pub cache_bytes: u64,
    /// What they may take.
    pub cache_budget_bytes: u64,
    /// The log, with the one before.
    pub log_bytes: u64,
    /// What it may take.
    pub log_budget_bytes: u64,
}

/// Open segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct HandleUse {
    /// How many are open.
    pub segments_open: u64,
    /// How many may be.
    pub segments_budget: u64,
}

/// How long things take, and how long they should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Performance {
    /// What half of the last queries took at most.
    pub query_latency_p50_ms: Option<u64>,
    /// What nineteen of twenty took at most.
    pub query_latency_p95_ms: Option<u64>,
    /// What half of them should take at most.
    pub query_latency_budget_p50_ms: u64,
    /// What nineteen of twenty should take at most.
    pub query_latency_budget_p95_ms: u64,
    /// The most segments that a query has read.
    pub segments_touched_max: Option<u64>,
    /// The most that it may read.
    pub segments_touched_budget: u64,
    /// How long the last build of an index took.
    pub publish_time_last_ms: Option<u64>,
    /// How long one may take.
    pub publish_time_budget_ms: u64,
    /// How long the last comparison with the whole tree took, which is what finds files that are gone.
    pub gc_time_last_ms: Option<u64>,
    /// How long one should take.
    pub gc_time_budget_ms: u64,
    /// How long the last merge took.
    pub compaction_time_last_ms: Option<u64>,
    /// How long one may take.
    pub compaction_time_budget_ms: u64,
}

/// How much is wrong.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Severity {
    /// Nothing.
    Ok,
    /// Something that somebody should look at.
    Warn,
    /// Something that has to be mended.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Check {
    /// What, for programs.
    pub code: String,
    /// How much is wrong.
    pub severity: Severity,
    /// What was found, for people.
    pub message: String,
}

/// The answer to `health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Health {
    /// The version of this shape.
    #[schemars(extend("const" = 1))]
    pub schema_version: u64,
    /// The store.
    pub store_id: String,
    /// The snapshot that new queries get.
    pub active_snapshot_id: Option<String>,
    /// Whether no check failed.
    pub ok: bool,
    /// What was looked at.
    pub checks: Vec<Check>,
}

impl Health {
    /// Builds an answer from its checks.
    pub fn new(store_id: String, active_snapshot_id: Option<String>, checks: Vec<Check>) -> Health {
        Health {
            schema_version: SCHEMA_VERSION,
            store_id,
            active_snapshot_id,
            ok: checks.iter().all(|check| check.severity != Severity::Fail),
            checks,
        }
    }
}

/// The answer to `metrics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Exposition {
    /// What the text is.
    pub content_type: String,
    /// Numbers with their names, in the text format of Prometheus.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ggrep_health_is_ok_unless_a_check_failed() {
        let with = |severity| {
            let check = Check {
                code: "c".to_string(),
                severity,
                message: "m".to_string(),
            };
            Health::new("s".to_string(), None, vec![check]).ok
        };
        assert!(with(Severity::Ok) && with(Severity::Warn) && !with(Severity::Fail));
    }
}
