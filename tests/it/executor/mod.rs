//! The executor (EXEC): leases, checks, searches, limits and results that stay.

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

use forge_search::exec::stop::Clock;
use forge_search::tool::config::{ExecutorConfig, ScopeConfig, ScopeKind};
use forge_search::tool::executor::failure::Reason;
use forge_search::tool::executor::host::{Done, Host, Worker};
use forge_search::tool::executor::lease::{Lease, SecretKey};
use forge_search::tool::executor::search::search;
use forge_search::tool::executor::source::InMemory;
use forge_search::tool::executor::worker::Job;
use forge_search::tool::executor::{Execution, Executor};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::GUARD;

/// The moment at which all of it happens.
const NOW: &str = "2026-01-01T12:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// A place with a key, scopes and a store.
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

    /// Adds a scope; datasets have the key `id`, and databases the table `records`.
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
            .with_clock(Arc::new(|| at(NOW)))
    }

    /// One whose worker is the program.
    fn real(&self) -> Executor {
        self.executor(worker())
    }

    fn lease(&self, task: &str, capability: &str, scope: &str) -> String {
        self.key.sign(&lease(task, capability, scope)).unwrap()
    }

    /// Executes a task that is in order.
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

/// A clock that takes ten seconds for one: the 30 seconds of a search are [`GUARD`].
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

/// Searches a few records, whatever the scope says.
fn in_memory(job: &Job) -> Result<Done, Reason> {
    let field = |name: &str, text: &str| (name.to_string(), text.to_string());
    let mut source = InMemory {
        records: vec![
            (
                "10".to_string(),
                vec![field("a", "needle ten"), field("b", "needle")],
            ),
            (
                "9".to_string(),
                vec![field("a", "nothing"), field("b", "a needle nine")],
            ),
            ("x".to_string(), vec![field("a", "Needle")]),
        ],
    };
    let found = search(&mut source, &job.query, job.max_results as usize)?;
    Ok(Done {
        found,
        peak_kib: None,
        confined: None,
    })
}

#[track_caller]
fn ok(execution: &Execution) -> Value {
    assert_eq!(execution.failure, None, "{execution:?}");
    let value: Value = serde_json::from_slice(&execution.body).unwrap();
    // EXEC §7, all of it and nothing else.
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

/// Ids, fields and snippets of results.
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
    /// A lease by the clock of this machine.
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
