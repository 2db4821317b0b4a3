//! The table `[executor]`: keys that verify leases, the result store, and the scopes that tasks may
//! search.
//!
//! This module owns the keys and values of that table. The table is not part of
//! [`KEYS`](super::KEYS), because the operator chooses the names of scopes, such as
//! `[executor.scopes.docs]`. `Loader` calls `ExecutorConfig::read`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::de::{DeArray, DeTable, DeValue};

use super::error::Problem;
use super::load::unknown;
use super::value::{Kind, Value, quoted, shown};
use crate::format::choices::choices;

/// The keys of the table.
pub(super) const EXECUTOR_KEYS: [&str; 5] = [
    "keys",
    "require_confinement",
    "retention_days",
    "scopes",
    "store",
];

/// The keys of the table except `scopes`, with the values that each key takes.
const KEYS: [(&str, AcceptedValue); 4] = [
    ("keys", AcceptedValue::PublicKeys),
    ("require_confinement", AcceptedValue::Kind(Kind::Boolean)),
    (
        "retention_days",
        AcceptedValue::Kind(Kind::Integer {
            min: 1,
            max: u32::MAX as u64,
        }),
    ),
    ("store", AcceptedValue::Path),
];

/// The keys of a scope, with the values that each key takes.
const SCOPE_KEYS: [(&str, AcceptedValue); 4] = [
    ("kind", AcceptedValue::Kind(Kind::choice(ScopeKind::NAMES))),
    ("location", AcceptedValue::Path),
    ("primary_key", AcceptedValue::Text),
    ("table", AcceptedValue::Text),
];

/// The values that a key takes.
#[derive(Clone, Copy, Debug)]
enum AcceptedValue {
    Kind(Kind),
    /// A non-empty path.
    Path,
    Text,
    /// A list of strings. Messages never quote them: the user may have pasted a secret key.
    PublicKeys,
}

impl AcceptedValue {
    /// Reads a value. The error says why the value is not allowed, and which value is.
    fn read(self, value: &DeValue<'_>) -> Result<Value, String> {
        let texts = |items: &DeArray<'_>| {
            let texts = items.iter().map(|item| item.get_ref().as_str());
            let texts: Option<Vec<&str>> = texts.collect();
            texts.map(|texts| texts.into_iter().map(str::to_string).collect())
        };
        let must = match (self, value) {
            (AcceptedValue::Kind(kind), value) => {
                let read = kind.read(value);
                return read.map_err(|why| format!("{} is not allowed: {why}", shown(value)));
            }
            (AcceptedValue::PublicKeys, value) => {
                let read = value.as_array().and_then(texts).map(Value::Texts);
                return read.ok_or("must be a list of strings, each a public key".to_string());
            }
            (AcceptedValue::Path, DeValue::String(text)) if text.is_empty() => {
                "a path that is not empty"
            }
            (_, DeValue::String(text)) => return Ok(Value::Text(text.to_string())),
            (AcceptedValue::Path, _) => "a string with a path",
            (AcceptedValue::Text, _) => "a string",
        };
        Err(format!("{} is not allowed: must be {must}", shown(value)))
    }
}

/// Default for the days that results are kept.
const RETENTION_DAYS: u32 = 30;

/// The configuration of `[executor]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// Public keys that verify leases, in PASERK format.
    pub keys: Vec<String>,
    /// The database of results; `None` for a database in the user's state directory.
    pub store: Option<PathBuf>,
    /// The days that a result is kept.
    pub retention_days: u32,
    /// Whether a task fails if the system can't confine its worker.
    pub require_confinement: bool,
    /// The scopes, by name. Tasks can search only these (EXEC §3, allow list).
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
    /// The kind of the data.
    pub kind: ScopeKind,
    /// The file or directory. A relative path starts at the configuration file's directory.
    pub location: PathBuf,
    /// The table of a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The column or field that identifies a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_key: Option<String>,
}

choices! {
    /// The kind of a scope's data.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    ScopeKind {
        /// A directory tree.
        Files = "files",
        /// A directory with one e-mail per file.
        Maildir = "maildir",
        /// An mbox file, with all e-mails in one file.
        Mbox = "mbox",
        /// A table of an SQLite database.
        Sqlite = "sqlite",
        /// A file of comma-separated values, with a header line.
        Csv = "csv",
        /// A file with one JSON object per line.
        Jsonl = "jsonl",
    }
}

impl ScopeKind {
    fn is_dataset(self) -> bool {
        matches!(self, ScopeKind::Sqlite | ScopeKind::Csv | ScopeKind::Jsonl)
    }
}

/// A problem, and its byte offset in the text.
pub(super) type PlacedProblem = (usize, Problem);

impl ExecutorConfig {
    /// Reads the keys of the table into `self`, and returns the problems. `at` is the byte offset
    /// of the table's name. Relative paths start at `place`.
    pub(super) fn read(
        &mut self,
        at: usize,
        executor: &DeValue<'_>,
        place: Option<&Path>,
    ) -> Vec<PlacedProblem> {
        let mut wrong = Vec::new();
        let DeValue::Table(table) = executor else {
            return vec![(at, no_table("executor", "executor", executor))];
        };
        for (name, value) in table.iter() {
            let (at, value_at) = (name.span().start, value.span().start);
            let (name, value) = (name.get_ref().as_ref(), value.get_ref());
            let full = format!("executor.{name}");
            if name == "scopes" {
                wrong.extend(self.read_scopes(at, value, place));
                continue;
            }
            let Some((_, takes)) = KEYS.iter().find(|(known, _)| *known == name) else {
                let message = unknown("executor", EXECUTOR_KEYS, name);
                wrong.push((at, Problem::new(Some(&full), message)));
                continue;
            };
            match takes.read(value) {
                Ok(value) => self.assign(name, value, place),
                Err(message) => wrong.push((value_at, Problem::new(Some(&full), message))),
            }
        }
        wrong
    }

    /// Assigns a value to any key except `scopes`.
    fn assign(&mut self, name: &str, value: Value, place: Option<&Path>) {
        match (name, value) {
            ("keys", Value::Texts(keys)) => self.keys = keys,
            ("store", Value::Text(store)) => self.store = Some(absolute(&store, place)),
            ("require_confinement", Value::Boolean(required)) => {
                self.require_confinement = required;
            }
            ("retention_days", Value::Integer(days)) => {
                self.retention_days = u32::try_from(days).unwrap_or(u32::MAX);
            }
            _ => {}
        }
    }

    fn read_scopes(
        &mut self,
        at: usize,
        value: &DeValue<'_>,
        place: Option<&Path>,
    ) -> Vec<PlacedProblem> {
        let DeValue::Table(scopes) = value else {
            let problem = no_table("executor.scopes", "executor.scopes.NAME", value);
            return vec![(at, problem)];
        };
        let mut wrong = Vec::new();
        for (name, value) in scopes.iter() {
            let at = name.span().start;
            let full = format!("executor.scopes.{}", as_key(name.get_ref()));
            let DeValue::Table(keys) = value.get_ref() else {
                let problem = no_table(&full, "executor.scopes.NAME", value.get_ref());
                wrong.push((at, problem));
                continue;
            };
            match read_scope(name.get_ref(), keys, &full, place) {
                Ok(scope) => {
                    self.scopes.insert(name.get_ref().to_string(), scope);
                }
                Err(problems) => {
                    let placed = problems.into_iter();
                    wrong.extend(placed.map(|(place, problem)| (place.unwrap_or(at), problem)));
                }
            }
        }
        wrong
    }
}

/// Reads the keys of a scope. A problem that concerns the whole scope has no offset of its own.
fn read_scope(
    name: &str,
    keys: &DeTable<'_>,
    full: &str,
    place: Option<&Path>,
) -> Result<ScopeConfig, Vec<(Option<usize>, Problem)>> {
    let mut wrong = Vec::new();
    let mut given: BTreeMap<&str, String> = BTreeMap::new();
    for (key, value) in keys.iter() {
        let (at, value_at) = (key.span().start, value.span().start);
        let of_key = Some(format!("{full}.{}", as_key(key.get_ref())));
        let Some((known, takes)) = SCOPE_KEYS.iter().find(|(known, _)| known == key.get_ref())
        else {
            let names = SCOPE_KEYS.iter().map(|(known, _)| *known);
            let message = unknown(full, names, key.get_ref());
            wrong.push((Some(at), Problem::new(of_key.as_deref(), message)));
            continue;
        };
        match takes.read(value.get_ref()) {
            Ok(Value::Text(text)) => {
                given.insert(known, text);
            }
            Ok(_) => {}
            Err(message) => {
                wrong.push((Some(value_at), Problem::new(of_key.as_deref(), message)));
            }
        }
    }
    let about_all = |why: &str| vec![(None, Problem::new(Some(full), why))];
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let kind = given
        .remove("kind")
        .and_then(|name| ScopeKind::from_name(&name));
    let (Some(kind), Some(location)) = (kind, given.remove("location")) else {
        return Err(about_all(
            "needs `kind` and `location`, such as kind = \"files\" and location = \"docs\"",
        ));
    };
    let scope = ScopeConfig {
        kind,
        location: absolute(&location, place),
        table: given.remove("table"),
        primary_key: given.remove("primary_key"),
    };
    match check(name, &scope) {
        Ok(()) => Ok(scope),
        Err(why) => Err(about_all(&why)),
    }
}

fn absolute(path: &str, place: Option<&Path>) -> PathBuf {
    place.map_or_else(|| path.into(), |place| place.join(path))
}

/// Returns the problem of a value that must be a table, with the correct notation.
fn no_table(key: &str, written: &str, value: &DeValue<'_>) -> Problem {
    let message = format!(
        "is {}, but must be a table; write `[{written}]`",
        shown(value)
    );
    Problem::new(Some(key), message)
}

/// Writes a name as a TOML key, quoted if necessary.
fn as_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_string(),
        false => quoted(&name.chars().take(256).collect::<String>()),
    }
}

fn check(name: &str, scope: &ScopeConfig) -> Result<(), String> {
    if name.is_empty() || name.len() > 256 {
        return Err("has a name that is empty or longer than 256 bytes".to_string());
    }
    if scope.location.to_str().is_none() {
        return Err(
            "has a location that is not UTF-8, which can't be passed to a worker".to_string(),
        );
    }
    let (dataset, sqlite) = (scope.kind.is_dataset(), scope.kind == ScopeKind::Sqlite);
    match (&scope.table, &scope.primary_key) {
        (_, None) if dataset => {
            Err("needs primary_key, the column or field that identifies a record".to_string())
        }
        (None, _) if sqlite => {
            Err("needs table, the name of the table in the database".to_string())
        }
        (Some(_), _) if !sqlite => {
            Err("has a table, but only scopes of the kind \"sqlite\" take one".to_string())
        }
        (_, Some(_)) if !dataset => {
            Err("has a primary_key, but only datasets take one".to_string())
        }
        _ => Ok(()),
    }
}
