//! The executor: runs one search task, authorized by a signed lease, over one configured source.
//!
//! This module owns the order of checks and execution, and the bytes of the answer. EXEC is the
//! specification of the executor; §2 to §9 are about this order, and `docs/conformance.md` says
//! which tests prove it. The steps, each a module:
//! - [`lease`] verifies the signed lease, [`manifest`] validates the task;
//! - [`store`] returns the result of a task that was executed before;
//! - [`host`] starts a confined [`worker`] process;
//! - the worker reads a [`source`] and matches its records ([`search`](mod@search)).
//!
//! Surfaces pass a manifest and a lease, and forward the answer.
//!
//! ```no_run
//! use std::path::{Path, PathBuf};
//! use forge_search::internal::tool::config::{Config, Loader, Profile};
//! use forge_search::internal::tool::executor::{Executor, host::Worker};
//!
//! let config = Loader::new(Profile::Library).file("forge.toml").build()?;
//! let worker = Worker::new(PathBuf::from("/usr/bin/forge-search"), vec!["execute-worker".into()]);
//! let results = PathBuf::from("/var/lib/forge/results.db");
//! let executor = Executor::new(&config.executor, results, worker)?;
//! let manifest = br#"{"task_id": "t1", "capability_id": "SEARCH_FILES",
//!     "target_scope": "docs", "query": "plan", "max_results": 10}"#;
//! let execution = executor.execute(manifest, "v4.public.…");
//! println!("{}", String::from_utf8_lossy(&execution.body));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod capability;
pub mod confine;
pub mod failure;
pub mod host;
pub mod lease;
pub mod manifest;
pub mod order;
pub mod search;
pub mod snippet;
pub mod source;
pub mod store;
pub(crate) mod trust;
pub mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::capability::Capability;
use self::failure::{ExecutorError, FailureResponse, Reason};
use self::host::{Host, HostResult};
use self::lease::{KeyError, KeyRing, PublicKey};
use self::manifest::{Manifest, UncheckedManifest};
use self::search::Match;
use self::store::{Store, StoredResult};
use self::worker::Job;
use crate::tool::config::{ExecutorConfig, ScopeConfig};
use crate::tool::indexing::{WallClock, wall_clock_ns};

/// Executes tasks that signed leases authorize.
pub struct Executor {
    keys: KeyRing,
    scopes: BTreeMap<String, ScopeConfig>,
    retention_s: i64,
    require_confinement: bool,
    store: PathBuf,
    host: Box<dyn Host>,
    clock: WallClock,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// The outcome of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The answer: one JSON object, a result (EXEC §7) or a failure.
    pub body: Vec<u8>,
    /// The reason of the failure; absent for a result.
    pub failure: Option<Reason>,
    /// How many items of the source were skipped because they are no records, see
    /// [`search::Source::scan`].
    pub passed_over: u64,
    /// The peak memory of the worker, in KiB, if a worker ran and the system reports it.
    pub peak_kib: Option<u64>,
    /// Whether the result was stored by an earlier execution.
    pub repeated: bool,
    /// Details for the operator about a failure or missing confinement. The caller must not get
    /// them.
    pub detail: Option<String>,
}

/// The JSON form of a result (EXEC §7).
#[derive(Debug, Serialize)]
struct Output<'a> {
    task_id: &'a str,
    capability_id: Capability,
    target_scope: &'a str,
    results: &'a [Match],
    count: u64,
    truncated: bool,
}

impl Executor {
    /// Builds an executor that keeps results in `store` and runs searches on `host`.
    ///
    /// # Errors
    ///
    /// A configured key is malformed.
    pub fn new(
        config: &ExecutorConfig,
        store: PathBuf,
        host: impl Host + 'static,
    ) -> Result<Executor, KeyError> {
        let keys: Result<Vec<_>, _> = config
            .keys
            .iter()
            .map(|key| PublicKey::parse(key))
            .collect();
        Ok(Executor {
            keys: KeyRing::new(keys?),
            scopes: config.scopes.clone(),
            retention_s: i64::from(config.retention_days) * 24 * 60 * 60,
            require_confinement: config.require_confinement,
            store,
            host: Box::new(host),
            clock: Arc::new(wall_clock_ns),
        })
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: WallClock) -> Executor {
        self.clock = clock;
        self
    }

    /// Checks and executes a task, or returns the stored result of an earlier execution.
    pub fn execute(&self, manifest: &[u8], lease: &str) -> Execution {
        match self.outcome(manifest, lease) {
            Ok(execution) => execution,
            Err(ExecutorError { reason, detail }) => Execution {
                // A failure holds constants only, so it always serializes.
                body: serde_json::to_vec(&FailureResponse::from(reason)).unwrap_or_default(),
                failure: Some(reason),
                passed_over: 0,
                peak_kib: None,
                repeated: false,
                detail,
            },
        }
    }

    /// Runs every check, in the order of EXEC §2 and §3.
    ///
    /// # Errors
    ///
    /// The reason of the first check that fails.
    pub fn check(&self, manifest: &[u8], lease: &str) -> Result<(Manifest, &ScopeConfig), Reason> {
        let lease = self.keys.verify(lease)?;
        let unchecked = UncheckedManifest::read(manifest).ok_or(Reason::ManifestMalformed)?;
        let task_id = unchecked.text("task_id").filter(|id| *id == lease.task_id);
        let task_id = task_id.ok_or(Reason::TaskMismatch)?;
        if timestamp((self.clock)()) >= lease.expires_at {
            return Err(Reason::Expired);
        }
        let capability = unchecked.text("capability_id");
        let capability = capability.as_deref().and_then(Capability::from_name);
        let capability = capability.ok_or(Reason::CapabilityUnsupported)?;
        if lease.capability_id != capability.as_str() {
            return Err(Reason::CapabilityMismatch);
        }
        let scope = unchecked
            .text("target_scope")
            .filter(|name| *name == lease.target_scope);
        let scope = scope.ok_or(Reason::ScopeMismatch)?;
        let manifest = unchecked.validate(task_id, capability, scope)?;
        let scope = self
            .scopes
            .get(&manifest.target_scope)
            .ok_or(Reason::ScopeUnknown)?;
        match Capability::of(scope.kind) == capability {
            true => Ok((manifest, scope)),
            false => Err(Reason::ScopeKind),
        }
    }

    fn outcome(&self, manifest: &[u8], lease: &str) -> Result<Execution, ExecutorError> {
        let (manifest, scope) = self.check(manifest, lease)?;
        let name = digest(&manifest)?;
        let store = Store::open(&self.store)?;
        let now_s = timestamp((self.clock)()).as_second();
        store.expire(now_s.saturating_sub(self.retention_s))?;
        if let Some(stored) = store.find(&manifest.task_id, &name)? {
            return Ok(to_execution(stored, None, true));
        }
        // Checked before a worker is started for a missing location.
        let location = std::fs::metadata(&scope.location);
        location.map_err(|error| {
            let place = scope.location.display();
            ExecutorError::because(
                source::unavailable(&error),
                &format_args!("{place}: {error}"),
            )
        })?;
        let done = self.host.run(&Job {
            scope: scope.clone(),
            query: manifest.query.clone(),
            max_results: manifest.max_results,
            require_confinement: self.require_confinement,
        })?;
        let HostResult {
            found,
            peak_kib,
            confined,
        } = done;
        let output = Output {
            task_id: &manifest.task_id,
            capability_id: manifest.capability_id,
            target_scope: &manifest.target_scope,
            results: &found.results,
            count: found.count,
            truncated: found.count > u64::from(manifest.max_results),
        };
        let result = StoredResult {
            body: serde_json::to_vec(&output).map_err(|_| Reason::WorkerFailed)?,
            passed_over: found.passed_over,
        };
        // If another process stored a result meanwhile, that one is returned, even if this one
        // differs.
        let kept = store.keep(&manifest.task_id, &name, &result, now_s)?;
        let repeated = kept != result;
        let lacks = confined.and_then(|confined| confined.lacks());
        Ok(Execution {
            detail: lacks.map(|lacks| {
                format!("the search was not confined by {lacks}, which this system lacks; require_confinement = false in [executor] allows that")
            }),
            ..to_execution(kept, peak_kib, repeated)
        })
    }
}

/// Returns the time of day of this machine.
pub fn now() -> Timestamp {
    timestamp(wall_clock_ns())
}

fn timestamp(ns: i64) -> Timestamp {
    // The nanoseconds of a 64-bit clock are always a valid time.
    Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::MAX)
}

fn to_execution(stored: StoredResult, peak_kib: Option<u64>, repeated: bool) -> Execution {
    Execution {
        body: stored.body,
        failure: None,
        passed_over: stored.passed_over,
        peak_kib,
        repeated,
        detail: None,
    }
}

/// Returns the digest by which two manifests are compared.
fn digest(manifest: &Manifest) -> Result<Vec<u8>, Reason> {
    let bytes = serde_json::to_vec(manifest).map_err(|_| Reason::ManifestMalformed)?;
    Ok(Sha256::digest(bytes).to_vec())
}
