//! Collects the facts for `status` and `health`.
//!
//! This module owns which facts are read. Nothing here changes anything, and answers hold only
//! facts that were just read. The checks of `health` are in `health.rs`.

mod health;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::handshake::{PROTOCOL_VERSIONS, ServedTree};
use super::metrics::{Counts, Outcome};
use super::reply::{ErrorCode, SCHEMA_VERSION, SchemaVersions};
use super::report::{
    DaemonStatus, DiskUse, EmbedUse, HandleUse, Performance, QueryStatus, Resources,
    SnapshotStatus, Status, SyncStatus,
};
use super::service::Service;
use crate::exec::as_text::shown;
use crate::exec::process::git::Git;
use crate::index::live::{Report, TaskRun};
use crate::index::snapshot::Snapshot;
use crate::index::state::IndexState;
use crate::tool::config::Config;
use crate::tool::indexing::Indexes;

/// The budget of half of all queries, in milliseconds: a wait that a person does not notice.
const P50_BUDGET_MS: u64 = 100;

/// The budget of 95% of all queries, in milliseconds.
const P95_BUDGET_MS: u64 = 500;

/// How long git may take to compare the tree for `status`.
const STATUS_GIT: Duration = Duration::from_secs(1);

/// The load of the daemon at one moment.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// The counters of queries.
    pub counts: Counts,
    /// Queries that run.
    pub running: usize,
    /// Queries that wait.
    pub waiting: usize,
}

/// The state of a live index.
struct LiveIndexState<'a> {
    indexes: &'a Arc<Indexes>,
    report: Report,
    snapshot: Option<Arc<Snapshot>>,
}

impl Service {
    /// Returns the answer to `status`. Blocks: it reads the metadata of index files, and runs git
    /// for at most a second unless a longer time is configured.
    pub fn status(&self, load: &Load) -> Status {
        let stale = self.is_stale();
        let in_use = self.in_use(self.parts.search.indexes(), stale);
        let report = in_use.as_ref().map(|one| &one.report);
        let snapshot = in_use.as_ref().and_then(|one| one.snapshot.as_deref());
        let id = snapshot.map(|snapshot| self.name_of(snapshot));
        let relied_on = report.is_some_and(|report| report.index_state.allows_exclusion());
        let created_at = id.as_deref().and_then(super::identity::created_ms);
        let count = |outcome| load.counts.of(Outcome::Failed(outcome));
        let works = report.map(|report| report.works).unwrap_or_default();
        let ms = |us: Option<u64>| us.map(|us| us.div_ceil(1_000));
        let took = |done: Option<TaskRun>| done.map(|done| done.took_ms);
        let none = self.absent();
        Status {
            ignore_fingerprint: self.ignores(snapshot),
            daemon: DaemonStatus {
                running: true,
                pid: Some(std::process::id()),
                started_at: time(self.started_ns),
                binary_version: Some(env!("CARGO_PKG_VERSION").to_string()),
                protocol_version: PROTOCOL_VERSIONS.iter().max().copied(),
                stale,
                supported_schema_versions: Some(SchemaVersions::own()),
            },
            snapshot: SnapshotStatus {
                active_snapshot_id: id,
                dirty: self.is_dirty(),
                untracked_included: Some(true),
                degraded: !relied_on,
                created_at: created_at.and_then(|ms| time(ms.saturating_mul(1_000_000))),
                ..none.snapshot
            },
            sync: sync(report, stale),
            queries: QueryStatus {
                in_flight: load.running as u64,
                queue_depth: load.waiting as u64,
                busy_total: count(ErrorCode::Busy),
                timeouts_total: count(ErrorCode::Timeout),
                slow_total: load.counts.slow,
                ..none.queries
            },
            resources: self.resources(none.resources),
            performance: Performance {
                query_latency_p50_ms: ms(load.counts.p50_us),
                query_latency_p95_ms: ms(load.counts.p95_us),
                segments_touched_max: load.counts.segments_most,
                publish_time_last_ms: took(works.build),
                gc_time_last_ms: took(works.reconcile),
                compaction_time_last_ms: took(works.merge),
                ..none.performance
            },
            ..none
        }
    }

    /// Returns whether the working tree differs from its last commit; `None` if git can't tell in
    /// time.
    fn is_dirty(&self) -> Option<bool> {
        let dir = super::git::git_dir(&self.parts.root)?;
        self.git(&dir, STATUS_GIT)?.is_dirty().ok()
    }

    /// Returns a handle for git commands on the repository in `dir`; `None` without a git program.
    fn git<'b>(&'b self, dir: &'b Path, time: Duration) -> Option<Git<'b>> {
        Some(Git {
            program: self.parts.git.as_deref()?,
            root: &self.parts.root,
            dir,
            excludes: self.parts.context.global_excludes.as_deref(),
            user: &self.parts.git_settings,
            time: self
                .parts
                .git_patience
                .map_or(time, |least| time.max(least)),
            clock: self.parts.context.clock.clone(),
            stop: &self.looking,
        })
    }

    /// Returns the state of an index; `None` if it is not live, or if the configuration is stale.
    fn in_use<'a>(
        &self,
        indexes: Option<&'a Arc<Indexes>>,
        stale: bool,
    ) -> Option<LiveIndexState<'a>> {
        let indexes = indexes?;
        if stale {
            // A stale daemon has shut its indexes down.
            return None;
        }
        let root = indexes.root_for(&self.parts.root)?;
        Some(LiveIndexState {
            indexes,
            report: indexes.live_report(&root)?,
            snapshot: indexes.live_snapshot(&root),
        })
    }

    /// Returns the status of the tree as if no daemon was running.
    fn absent(&self) -> Status {
        let excludes = self.parts.context.global_excludes.as_deref();
        absent(&self.served, &self.parts.root, &self.parts.config, excludes)
    }

    /// Returns the resources in use; budgets are taken from `none`.
    fn resources(&self, none: Resources) -> Resources {
        let mut disk = none.disk;
        let mut roots = std::collections::BTreeSet::new();
        for indexes in self.indexes() {
            let Some(store) = indexes.store() else {
                continue;
            };
            for dir in indexes.dirs() {
                disk.store_bytes += store.look_at(&dir).bytes;
            }
            if roots.insert(store.root().to_path_buf()) {
                let all = store.list_with_unfinished().unwrap_or_default();
                disk.cache_bytes += all.iter().map(|one| one.bytes).sum::<u64>();
            }
        }
        let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
        if let Some(log) = &self.parts.log {
            disk.log_bytes = size(log.clone()) + size(super::log::before(log));
        }
        let open = self
            .indexes()
            .next()
            .map_or(0, |indexes| indexes.open_segments());
        Resources {
            disk,
            open_handles: HandleUse {
                segments_open: open as u64,
                ..none.open_handles
            },
            ..none
        }
    }
}

/// Returns how the index follows the tree.
fn sync(report: Option<&Report>, stale: bool) -> SyncStatus {
    let works = report.map(|report| report.works).unwrap_or_default();
    let done = [works.build, works.merge, works.reconcile];
    let last = done.into_iter().flatten().max_by_key(|done| done.ended_ns);
    let building = report.is_some_and(|report| report.index_state == IndexState::Building);
    let state = match report {
        _ if stale => "stale",
        None => "off",
        Some(report) => match report.index_state {
            IndexState::Building => "building",
            IndexState::Disabled(_) => "off",
            IndexState::Complete if !report.busy && report.dirty == 0 => "idle",
            IndexState::Complete => "syncing",
            IndexState::Absent | IndexState::Corrupt | IndexState::Uncertain(_) => {
                match report.busy {
                    true => "syncing",
                    false => "waiting",
                }
            }
        },
    };
    // Builds run one after the other, so the number of a build identifies it.
    let epoch = report.map_or(0, |report| report.epoch);
    SyncStatus {
        state: state.to_string(),
        last_sync_at: last.and_then(|done| time(done.ended_ns)),
        last_result: last.map(|done| match done.succeeded {
            true => "ok".to_string(),
            false => "failed".to_string(),
        }),
        last_duration_ms: last.map(|done| done.took_ms),
        staging_txn_id: building.then(|| format!("{}-{}", std::process::id(), epoch + 1)),
    }
}

/// Formats a time as RFC 3339, to the second.
fn time(ns: i64) -> Option<String> {
    let seconds = ns.div_euclid(1_000_000_000);
    Some(Timestamp::from_second(seconds).ok()?.to_string())
}

/// Returns the status of a tree without a daemon.
pub fn absent(
    served: &ServedTree,
    root: &Path,
    config: &Config,
    global_excludes: Option<&Path>,
) -> Status {
    let daemon = &config.daemon;
    let search = &config.search;
    Status {
        schema_version: SCHEMA_VERSION,
        store_id: served.store_id.clone(),
        canonical_root: shown(root).into_owned(),
        config_fingerprint: served.config_fingerprint.clone(),
        ignore_fingerprint: super::identity::ignore_fingerprint(&super::identity::inputs_at(
            root,
            global_excludes,
        )),
        daemon: DaemonStatus::default(),
        snapshot: SnapshotStatus {
            head_sha: super::git::head_sha(root),
            degraded: true,
            ..SnapshotStatus::default()
        },
        sync: SyncStatus {
            state: "off".to_string(),
            ..SyncStatus::default()
        },
        queries: QueryStatus {
            max_concurrent: daemon.concurrent_queries(),
            max_queue_depth: daemon.max_query_queue_depth,
            timeout_ms: daemon.query_timeout_ms,
            ..QueryStatus::default()
        },
        resources: Resources {
            embed_global: EmbedUse::default(),
            disk: DiskUse {
                store_budget_bytes: search.index_max_store_bytes.saturating_mul(2),
                cache_budget_bytes: search.index_max_db_bytes,
                log_budget_bytes: daemon.max_log_bytes,
                ..DiskUse::default()
            },
            open_handles: HandleUse {
                segments_open: 0,
                segments_budget: daemon.max_open_segments_global,
            },
        },
        performance: Performance {
            query_latency_budget_p50_ms: P50_BUDGET_MS,
            query_latency_budget_p95_ms: P95_BUDGET_MS,
            segments_touched_budget: daemon.max_open_segments_per_query,
            publish_time_budget_ms: search.index_build_timeout_ms,
            gc_time_budget_ms: search.index_build_timeout_ms,
            compaction_time_budget_ms: search.index_build_timeout_ms,
            ..Performance::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_contract_has_them() {
        assert_eq!(
            time(1_767_268_800_999_999_999).unwrap(),
            "2026-01-01T12:00:00Z"
        );
    }
}
