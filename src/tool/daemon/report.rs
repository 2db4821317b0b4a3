//! The answers to `status`, `health` and `metrics`.
//!
//! This module owns their shapes, on which clients rely as on those of [`reply`](super::reply).
//! They hold metadata only, never text of a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reply::{SCHEMA_VERSION, SchemaVersions};

/// The response to `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Status {
    /// The version of this schema.
    #[schemars(extend("const" = 1))]
    pub schema_version: u64,
    /// The id of the tree: a hash of its root's path.
    pub store_id: String,
    /// The canonical path of the root, with forward slashes. U+FFFD replaces invalid UTF-8.
    pub canonical_root: String,
    /// The fingerprint of the daemon's configuration. If no daemon is running, of the configuration
    /// that it would use.
    pub config_fingerprint: String,
    /// The fingerprint of the ignore files that apply.
    pub ignore_fingerprint: String,
    /// The daemon process.
    pub daemon: DaemonStatus,
    /// The snapshot that new queries search.
    pub snapshot: SnapshotStatus,
    /// How the index follows the tree.
    pub sync: SyncStatus,
    /// The queries of the daemon.
    pub queries: QueryStatus,
    /// The resources in use, and their budgets.
    pub resources: Resources,
    /// Measured durations, and their budgets.
    pub performance: Performance,
}

/// The daemon process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct DaemonStatus {
    /// Whether a daemon is running.
    pub running: bool,
    /// The process id.
    pub pid: Option<u32>,
    /// The start time, as RFC 3339.
    pub started_at: Option<String>,
    /// The release of the daemon, such as `0.1.0`.
    pub binary_version: Option<String>,
    /// The latest protocol version that the daemon supports.
    pub protocol_version: Option<i64>,
    /// Whether the configuration has changed since the daemon started.
    pub stale: bool,
    /// The schema versions of the daemon's messages.
    pub supported_schema_versions: Option<SchemaVersions>,
}

/// The snapshot that new queries search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct SnapshotStatus {
    /// The id of the snapshot; `null` if there is no index.
    pub active_snapshot_id: Option<String>,
    /// The id of the commit that is checked out, if known.
    pub head_sha: Option<String>,
    /// Whether the working tree differs from that commit; `null` if not determined.
    pub dirty: Option<bool>,
    /// Whether untracked files are searched.
    pub untracked_included: Option<bool>,
    /// Whether queries search the whole tree because they can't use the index.
    pub degraded: bool,
    /// When the snapshot was created, as RFC 3339.
    pub created_at: Option<String>,
}

/// How the index follows the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct SyncStatus {
    /// The state: `idle`, `building`, `syncing`, `waiting` (blocked), `off` or `stale`.
    #[schemars(extend("enum" = ["idle", "building", "syncing", "waiting", "off", "stale"]))]
    pub state: String,
    /// When the last build, merge or comparison with the whole tree ended, as RFC 3339.
    pub last_sync_at: Option<String>,
    /// The outcome of that work: `ok` or `failed`.
    pub last_result: Option<String>,
    /// The duration of that work, in milliseconds.
    pub last_duration_ms: Option<u64>,
    /// The id of the running build; `null` if none is running.
    pub staging_txn_id: Option<String>,
}

/// The queries of a daemon: limits, and counts since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct QueryStatus {
    /// Maximum number of queries that run at once.
    pub max_concurrent: u64,
    /// Maximum number of queries that wait.
    pub max_queue_depth: u64,
    /// Maximum duration of a query, in milliseconds.
    pub timeout_ms: u64,
    /// Number of running queries.
    pub in_flight: u64,
    /// Number of waiting queries.
    pub queue_depth: u64,
    /// Number of queries that failed with `busy`.
    pub busy_total: u64,
    /// Number of queries that failed with `timeout`.
    pub timeouts_total: u64,
    /// Number of queries that took longer than `slow_query_ms`.
    pub slow_total: u64,
}

/// The resources in use, and their budgets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Resources {
    /// Batches of embeddings. Texts are compared while a question is answered, so there are none,
    /// and every number is 0.
    pub embed_global: EmbedUse,
    /// Use of disk space.
    pub disk: DiskUse,
    /// Open index segments.
    pub open_handles: HandleUse,
}

/// Use of embeddings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct EmbedUse {
    /// Maximum number of batches at once.
    pub max_concurrent: u64,
    /// Number of running batches.
    pub in_use: u64,
    /// Whether an abandoned lock exists.
    pub stale_lock: bool,
}

/// Disk space, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct DiskUse {
    /// Size of the indexes of this tree.
    pub store_bytes: u64,
    /// Budget of the indexes of this tree: twice `index_max_store_bytes`, because each tool can
    /// have its own index.
    pub store_budget_bytes: u64,
    /// Size of all indexes in the same cache directory.
    pub cache_bytes: u64,
    /// Budget of all these indexes: `index_max_db_bytes`.
    pub cache_budget_bytes: u64,
    /// Size of the current and the previous log file.
    pub log_bytes: u64,
    /// Budget of the log files: `max_log_bytes`.
    pub log_budget_bytes: u64,
}

/// Open index segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct HandleUse {
    /// Number of open segments.
    pub segments_open: u64,
    /// Maximum number of open segments: `max_open_segments_global`.
    pub segments_budget: u64,
}

/// Measured durations, and their budgets. Durations are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Performance {
    /// Median duration of the last queries.
    pub query_latency_p50_ms: Option<u64>,
    /// 95th percentile of the duration of the last queries.
    pub query_latency_p95_ms: Option<u64>,
    /// Budget of the median duration.
    pub query_latency_budget_p50_ms: u64,
    /// Budget of the 95th percentile.
    pub query_latency_budget_p95_ms: u64,
    /// Maximum number of segments that a query has read.
    pub segments_touched_max: Option<u64>,
    /// Maximum number of segments that a query may read.
    pub segments_touched_budget: u64,
    /// Duration of the last index build.
    pub publish_time_last_ms: Option<u64>,
    /// Budget of an index build.
    pub publish_time_budget_ms: u64,
    /// Duration of the last comparison with the whole tree, which finds removed files.
    pub gc_time_last_ms: Option<u64>,
    /// Budget of such a comparison.
    pub gc_time_budget_ms: u64,
    /// Duration of the last merge.
    pub compaction_time_last_ms: Option<u64>,
    /// Budget of a merge.
    pub compaction_time_budget_ms: u64,
}

/// The severity of a finding.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Severity {
    /// There is no problem.
    Ok,
    /// A problem that someone should look at.
    Warn,
    /// A problem that must be fixed.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Check {
    /// The name of the check, for programs.
    pub code: String,
    /// The severity of the finding.
    pub severity: Severity,
    /// The finding in words, for people.
    pub message: String,
}

/// The response to `health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Health {
    /// The version of this schema.
    #[schemars(extend("const" = 1))]
    pub schema_version: u64,
    /// The id of the tree: a hash of its root's path.
    pub store_id: String,
    /// The id of the snapshot that new queries search; `null` if there is no index.
    pub active_snapshot_id: Option<String>,
    /// Whether no check has the severity `fail`.
    pub ok: bool,
    /// The checks with their results.
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

/// The response to `metrics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Exposition {
    /// The media type of the text.
    pub content_type: String,
    /// The metrics, in the text format of Prometheus.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_ok_unless_a_check_failed() {
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
