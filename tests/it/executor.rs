//! Tests of the executor (EXEC): leases, checks, searches, limits and stored results.

mod checks;
mod limits;
mod mail;
mod program;
mod results;
mod sources;
mod tokens;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use forge_search::internal::exec::stop::Clock;
use forge_search::internal::tool::config::{ExecutorConfig, ScopeConfig, ScopeKind};
use forge_search::internal::tool::executor::failure::Reason;
use forge_search::internal::tool::executor::host::{Host, HostResult, Worker};
use forge_search::internal::tool::executor::lease::{Lease, SecretKey};
use forge_search::internal::tool::executor::order::{Key, Order, Place};
use forge_search::internal::tool::executor::search::{Fields, Record, Source, Visit, search};
use forge_search::internal::tool::executor::worker::Job;
use forge_search::internal::tool::executor::{Execution, Executor};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::GUARD;

/// The time of the clock in these tests.
const NOW: &str = "2026-01-01T12:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// Returns a time in nanoseconds since 1970.
fn ns(time: &str) -> i64 {
    i64::try_from(at(time).as_nanosecond()).unwrap()
}

/// A directory with a key, scopes and a store.
struct World {
    dir: tempfile::TempDir,
    key: SecretKey,
    config: ExecutorConfig,
}

impl World {
    fn new() -> World {
        let key = SecretKey::generate().unwrap();
        let config = ExecutorConfig {
            keys: vec![key.public().unwrap().to_paserk().unwrap()],
            ..ExecutorConfig::default()
        };
        World {
            dir: tempfile::tempdir().unwrap(),
            key,
            config,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Adds a scope. Datasets have the primary key `id`, and databases the table `records`.
    fn scope(&mut self, name: &str, kind: ScopeKind, location: &str) {
        let dataset = matches!(kind, ScopeKind::Sqlite | ScopeKind::Csv | ScopeKind::Jsonl);
        let scope = ScopeConfig {
            kind,
            location: self.path(location),
            table: (kind == ScopeKind::Sqlite).then(|| "records".to_string()),
            primary_key: dataset.then(|| "id".to_string()),
        };
        self.config.scopes.insert(name.to_string(), scope);
    }

    fn executor(&self, host: impl Host + 'static) -> Executor {
        Executor::new(&self.config, self.path("store/results.db"), host)
            .unwrap()
            .with_clock(Arc::new(|| ns(NOW)))
    }

    /// Returns an executor that runs the program as its worker.
    fn real(&self) -> Executor {
        self.executor(worker())
    }

    fn lease(&self, task: &str, capability: &str, scope: &str) -> String {
        self.key.sign(&lease(task, capability, scope)).unwrap()
    }

    /// Executes a task with a valid lease and manifest.
    fn run(
        &self,
        executor: &Executor,
        task: &str,
        capability: &str,
        scope: &str,
        query: &str,
    ) -> Execution {
        let manifest = manifest(task, capability, scope, query, 10);
        executor.execute(&manifest, &self.lease(task, capability, scope))
    }
}

/// A clock that runs at a tenth of the real speed, so that the 30 seconds of a search last
/// [`GUARD`].
#[derive(Debug)]
struct SlowClock(Instant);

impl Clock for SlowClock {
    fn now(&self) -> Instant {
        self.0 + self.0.elapsed() / 10
    }
}

fn worker() -> Worker {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_forge-search"));
    let worker = Worker::new(program, vec!["execute-worker".into()]);
    Worker {
        patience: worker.patience / 10,
        clock: Arc::new(SlowClock(Instant::now())),
        ..worker
    }
}

fn lease(task: &str, capability: &str, scope: &str) -> Lease {
    Lease {
        task_id: task.to_string(),
        capability_id: capability.to_string(),
        target_scope: scope.to_string(),
        expires_at: at("2026-01-01T12:00:01Z"),
        iss: None,
        iat: None,
        jti: None,
    }
}

fn manifest(task: &str, capability: &str, scope: &str, query: &str, max: u32) -> Vec<u8> {
    let manifest = json!({
        "task_id": task,
        "capability_id": capability,
        "target_scope": scope,
        "query": query,
        "max_results": max,
    });
    serde_json::to_vec(&manifest).unwrap()
}

/// A few records in memory: keys, and fields with their texts.
const RECORDS: [(&str, &[(&str, &str)]); 3] = [
    ("10", &[("a", "needle ten"), ("b", "needle")]),
    ("9", &[("a", "nothing"), ("b", "a needle nine")]),
    ("x", &[("a", "Needle")]),
];

/// The source of [`RECORDS`].
struct InMemory;

impl Source for InMemory {
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        let mut fields = Fields::default();
        for (nth, (key, texts)) in (0..).zip(RECORDS) {
            fields.clear();
            for (name, text) in texts {
                fields.push(name, text);
            }
            visit(Record {
                fields: &fields,
                id: &|| key.to_string(),
                order: &|| Order::Key(Key::written(key), Place::Nth(nth)),
            });
        }
        Ok(0)
    }
}

/// Searches a few records in memory and ignores the scope.
fn in_memory(job: &Job) -> Result<HostResult, Reason> {
    let found = search(&mut InMemory, &job.query, job.max_results as usize)?;
    Ok(HostResult {
        found,
        peak_kib: None,
        confined: None,
    })
}

#[track_caller]
fn ok(execution: &Execution) -> Value {
    assert_eq!(execution.failure, None, "{execution:?}");
    let value: Value = serde_json::from_slice(&execution.body).unwrap();
    // The answer has exactly the fields of EXEC §7.
    let names: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "capability_id",
            "count",
            "results",
            "target_scope",
            "task_id",
            "truncated"
        ]
    );
    value
}

#[track_caller]
fn failed(execution: &Execution, code: &str, reason: &str) {
    let value: Value = serde_json::from_slice(&execution.body).unwrap();
    assert_eq!(value["error"]["code"], code, "{value}");
    assert_eq!(value["error"]["reason"], reason, "{value}");
    assert!(!value["error"]["message"].as_str().unwrap().is_empty());
    assert!(value.get("results").is_none());
}

/// Returns the id, the field and the snippet of each result.
fn results(value: &Value) -> Vec<(String, String, String)> {
    let text = |one: &Value| one.as_str().unwrap().to_string();
    let all = value["results"].as_array().unwrap().iter();
    all.map(|one| {
        (
            text(&one["id"]),
            text(&one["match_field"]),
            text(&one["match_snippet"]),
        )
    })
    .collect()
}

fn ids(value: &Value) -> Vec<String> {
    results(value).into_iter().map(|(id, _, _)| id).collect()
}

impl World {
    /// Signs a lease that does not expire by the real clock.
    fn lease_for_ever(&self, task: &str, capability: &str, scope: &str) -> String {
        let lease = Lease {
            expires_at: at("9999-01-01T00:00:00Z"),
            ..lease(task, capability, scope)
        };
        self.key.sign(&lease).unwrap()
    }

    /// Writes the configuration to a file.
    fn write_config(&self) -> PathBuf {
        let mut text = format!(
            "[executor]\nkeys = {:?}\nstore = {:?}\n",
            self.config.keys,
            self.path("store/results.db")
        );
        for (name, scope) in &self.config.scopes {
            let scope = toml::to_string(scope).unwrap();
            text += &format!("[executor.scopes.{name:?}]\n{scope}");
        }
        self.write("config.toml", text)
    }
}
