//! The table `[executor]`: keys that leases are checked with, where results are kept, and the scopes that tasks may search.
//!
//! Owns what may stand there. It is no table of [`KEYS`](super::KEYS): scopes have names of the operator's choice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The keys of the table.
pub(super) const EXECUTOR_KEYS: [&str; 5] = [
    "keys",
    "require_confinement",
    "retention_days",
    "scopes",
    "store",
];

/// How long results are kept where nothing else is said, in days.
const RETENTION_DAYS: u32 = 30;

/// `[executor]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// Public keys that leases are checked with, in PASERK format.
    pub keys: Vec<String>,
    /// The database that results are kept in; the user's state directory has one where none is named.
    pub store: Option<PathBuf>,
    /// How long a result is kept, in days.
    pub retention_days: u32,
    /// Whether a task fails where the system lacks a way of confining its worker.
    pub require_confinement: bool,
    /// The scopes, by name: no task searches anything else (EXEC §3, allow list).
    pub scopes: BTreeMap<String, ScopeConfig>,
}

impl Default for ExecutorConfig {
    fn default() -> ExecutorConfig {
        ExecutorConfig {
            keys: Vec::new(),
            store: None,
            retention_days: RETENTION_DAYS,
            require_confinement: true,
            scopes: BTreeMap::new(),
        }
    }
}

/// `[executor.scopes.NAME]`: data that tasks may search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeConfig {
    /// What kind of data it is.
    pub kind: ScopeKind,
    /// The file or directory; a relative path starts at the configuration file's directory.
    pub location: PathBuf,
    /// The table of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The column or field that tells records apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_key: Option<String>,
}

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    /// A directory tree.
    Files,
    /// A directory of e-mails, one a file.
    Maildir,
    /// A file of e-mails.
    Mbox,
    /// A table of an SQLite database.
    Sqlite,
    /// A file of comma-separated values, with a line of names.
    Csv,
    /// A file of JSON objects, one a line.
    Jsonl,
}

impl ScopeKind {
    fn is_dataset(self) -> bool {
        matches!(self, ScopeKind::Sqlite | ScopeKind::Csv | ScopeKind::Jsonl)
    }
}

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default, deserialize_with = "keys")]
    keys: Option<Vec<String>>,
    store: Option<PathBuf>,
    retention_days: Option<u32>,
    require_confinement: Option<bool>,
    #[serde(default)]
    scopes: BTreeMap<String, toml::Spanned<ScopeConfig>>,
}

/// Reads the list of keys. What stands there instead is not told: it may be a secret key.
fn keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let wrong = || D::Error::custom("`keys` has to be a list of texts, each a public key");
    let toml::Value::Array(keys) = toml::Value::deserialize(deserializer)? else {
        return Err(wrong());
    };
    let text = |key| match key {
        toml::Value::String(key) => Ok(key),
        _ => Err(wrong()),
    };
    keys.into_iter()
        .map(text)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// A file, as far as it is about this table.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    executor: Table,
}

/// What is wrong, and where it is in the text, if that is known.
pub(super) type Wrong = (Option<usize>, Option<String>, String);

impl ExecutorConfig {
    /// Takes over what a text says; `place` is where relative paths start.
    pub(super) fn read(&mut self, text: &str, place: Option<&Path>) -> Vec<Wrong> {
        let table = match toml::from_str::<File>(text) {
            Ok(file) => file.executor,
            Err(error) => {
                let at = error.span().map(|span| span.start);
                let message = error.message().to_string();
                return vec![(at, Some("executor".to_string()), message)];
            }
        };
        let absolute = |path: PathBuf| match place {
            Some(place) => place.join(path),
            None => path,
        };
        let mut wrong = Vec::new();
        if let Some(keys) = table.keys {
            self.keys = keys;
        }
        if let Some(store) = table.store {
            self.store = Some(absolute(store));
        }
        if let Some(required) = table.require_confinement {
            self.require_confinement = required;
        }
        match table.retention_days {
            None => {}
            Some(0) => wrong.push((
                None,
                Some("executor.retention_days".to_string()),
                "0 is not allowed: a result has to be kept for a day at least".to_string(),
            )),
            Some(days) => self.retention_days = days,
        }
        for (name, scope) in table.scopes {
            let at = scope.span().start;
            let mut scope = scope.into_inner();
            if let Err(why) = check(&name, &scope) {
                wrong.push((Some(at), Some(format!("executor.scopes.{name}")), why));
                continue;
            }
            scope.location = absolute(scope.location);
            if scope.location.to_str().is_none() {
                let why = "has a location that is not UTF-8, which can't be handed to a worker";
                wrong.push((
                    Some(at),
                    Some(format!("executor.scopes.{name}")),
                    why.to_string(),
                ));
                continue;
            }
            self.scopes.insert(name, scope);
        }
        wrong
    }
}

fn check(name: &str, scope: &ScopeConfig) -> Result<(), String> {
    if name.is_empty() || name.len() > 256 {
        return Err("has a name that is empty or longer than 256 bytes".to_string());
    }
    if scope.location.as_os_str().is_empty() {
        return Err("has an empty location".to_string());
    }
    let (dataset, sqlite) = (scope.kind.is_dataset(), scope.kind == ScopeKind::Sqlite);
    match (&scope.table, &scope.primary_key) {
        (_, None) if dataset => {
            Err("needs primary_key, the column or field that tells records apart".to_string())
        }
        (None, _) if sqlite => Err("needs table, the table of the database".to_string()),
        (Some(_), _) if !sqlite => {
            Err("has a table, which only a scope of the kind \"sqlite\" has".to_string())
        }
        (_, Some(_)) if !dataset => Err("has a primary_key, which only datasets have".to_string()),
        _ => Ok(()),
    }
}
