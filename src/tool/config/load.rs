//! Loads a configuration from files, texts and single settings.

use std::fs;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::executor::EXECUTOR_KEYS;
use super::keys::{KEYS, Key};
use super::value::shown;
use super::{Config, ConfigError, Origin, Problem, Profile};

/// The tables below `tools` that this program reads. Other tables belong to other programs, and are
/// ignored.
const TABLES: [&str; 4] = ["search", "search_files", "daemon", "sandbox"];

/// Builds a [`Config`] from defaults and sources. If several sources set a key, the last source
/// wins.
#[derive(Clone, Debug)]
pub struct Loader {
    profile: Profile,
    sources: Vec<Source>,
}

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Text { text: String, origin: Origin },
    Setting(String),
}

impl Loader {
    /// Starts from the defaults of a profile.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            sources: Vec::new(),
        }
    }

    /// Adds a TOML file. [`build`](Self::build) reads it.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(Source::File(path.into()));
        self
    }

    /// Adds a TOML text that came from `origin`.
    #[must_use]
    pub fn toml_str(mut self, text: impl Into<String>, origin: Origin) -> Self {
        self.sources.push(Source::Text {
            text: text.into(),
            origin,
        });
        self
    }

    /// Adds one setting `KEY=VALUE`. `KEY` is a key of `[tools.search]`, or a full key such as
    /// `tools.sandbox.allow_absolute`. `VALUE` is TOML; a bare word means a string.
    #[must_use]
    pub fn set(mut self, setting: impl Into<String>) -> Self {
        self.sources.push(Source::Setting(setting.into()));
        self
    }

    /// Reads and checks all sources.
    ///
    /// # Errors
    ///
    /// All problems of all sources, as one [`ConfigError`].
    pub fn build(self) -> Result<Config, ConfigError> {
        let mut load = Load {
            config: Config::defaults(self.profile),
            problems: Vec::new(),
        };
        for source in &self.sources {
            match source {
                Source::File(path) => load.file(path),
                Source::Text { text, origin } => load.text(text, origin),
                Source::Setting(setting) => load.setting(setting),
            }
        }
        ConfigError::unless_empty(load.problems)?;
        Ok(load.config)
    }
}

/// The configuration so far, and the problems found so far.
struct Load {
    config: Config,
    problems: Vec<Problem>,
}

impl Load {
    fn file(&mut self, path: &Path) {
        let origin = Origin::File(path.to_path_buf());
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let problem = Problem::new(None, format!("can't be read: {error}"));
                self.problems.push(problem.at(origin, None));
                return;
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => self.text(&text, &origin),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let start = String::from_utf8_lossy(error.as_bytes().get(..valid).unwrap_or(b""));
                let position = position(&start, start.len());
                let problem = Problem::new(None, "is not UTF-8 from here on; save it as UTF-8");
                self.problems.push(problem.at(origin, Some(position)));
            }
        }
    }

    fn text(&mut self, text: &str, origin: &Origin) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (root, syntax_errors) = DeTable::parse_recoverable(text);
        let mut found: Vec<(usize, Problem)> = Vec::new();
        for error in &syntax_errors {
            let at = error.span().map_or(0, |span| span.start);
            let message = format!("is not valid TOML: {}", error.message());
            found.push((at, Problem::new(None, message)));
        }
        // The recovering parser may produce wrong values for a broken line. Report only its syntax
        // error.
        let line = |at: usize| position(text, at).0;
        let broken: Vec<usize> = found.iter().map(|(at, _)| line(*at)).collect();
        let mut wrong = |at: usize, problem: Problem| {
            if !broken.contains(&line(at)) {
                found.push((at, problem));
            }
        };
        let mut values: Vec<(&Spanned<_>, &Spanned<DeValue<'_>>, &str)> = Vec::new();
        for (name, value) in root.get_ref().iter() {
            if let Some(problem) = misplaced(name.get_ref(), value.get_ref()) {
                wrong(name.span().start, problem);
            }
        }
        if let Some((name, tools)) = root.get_ref().get_key_value("tools") {
            match tools.get_ref() {
                DeValue::Table(tools) => {
                    for table in TABLES {
                        let Some((name, value)) = tools.get_key_value(table) else {
                            continue;
                        };
                        match value.get_ref() {
                            DeValue::Table(keys) => {
                                values.extend(keys.iter().map(|(key, value)| (key, value, table)));
                            }
                            other => wrong(name.span().start, not_a_table(table, other)),
                        }
                    }
                    for (name, value) in tools.iter() {
                        let key = name.get_ref();
                        let value = value.get_ref();
                        if let Some(meant) = misspelt(key, value).or_else(|| loose(key, value)) {
                            wrong(name.span().start, meant);
                        }
                    }
                }
                other => wrong(
                    name.span().start,
                    Problem::new(
                        Some("tools"),
                        format!("is {}, but must be a table", shown(other)),
                    ),
                ),
            }
        }
        for (name, value, table) in values {
            match find(table, name.get_ref()) {
                Ok(key) => match key.kind.read(value.get_ref()) {
                    Ok(read) => self.assign(key, &read, origin),
                    Err(why) => wrong(value.span().start, not_allowed(key, value.get_ref(), &why)),
                },
                Err(problem) => wrong(name.span().start, problem),
            }
        }
        if let (true, Some((name, executor))) = (
            syntax_errors.is_empty(),
            root.get_ref().get_key_value("executor"),
        ) {
            let place = match origin {
                Origin::File(path) => path.parent(),
                Origin::Default | Origin::Set => None,
            };
            let (at, table) = (name.span().start, executor.get_ref());
            found.extend(self.config.executor.read(at, table, place));
        }
        found.sort_by_key(|(at, _)| *at);
        let placed = found
            .into_iter()
            .map(|(at, problem)| problem.at(origin.clone(), Some(position(text, at))));
        self.problems.extend(placed);
    }

    fn setting(&mut self, setting: &str) {
        if let Err(problem) = self.try_setting(setting) {
            self.problems.push(problem.at(Origin::Set, None));
        }
    }

    fn try_setting(&mut self, setting: &str) -> Result<(), Problem> {
        let Some((name, text)) = setting.split_once('=') else {
            let message = format!("`{setting}` is not of the form KEY=VALUE");
            return Err(Problem::new(None, message));
        };
        let (name, text) = (name.trim(), text.trim());
        let key = find_setting(name)?;
        let value = match DeValue::parse(text) {
            Ok(value) => value.into_inner(),
            Err(error) if starts_like_toml(text) => {
                let message = format!("`{text}` is not valid TOML: {}", error.message());
                return Err(Problem::new(Some(key.full), message));
            }
            Err(_) => DeValue::String(text.into()),
        };
        let read = key
            .kind
            .read(&value)
            .map_err(|why| not_allowed(key, &value, &why))?;
        self.assign(key, &read, &Origin::Set);
        Ok(())
    }

    fn assign(&mut self, key: &'static Key, value: &super::Value, origin: &Origin) {
        key.write(&mut self.config, value);
        self.config.origins.insert(key.full, origin.clone());
    }
}

/// Returns whether a value looks like TOML. A broken value of that kind is an error, and no bare
/// word.
fn starts_like_toml(text: &str) -> bool {
    text.starts_with(['"', '\'', '[', '{'])
}

/// Finds the key of a setting by its short or full name.
fn find_setting(name: &str) -> Result<&'static Key, Problem> {
    if name.is_empty() {
        return Err(Problem::new(
            None,
            "the name of a key is missing before `=`",
        ));
    }
    if let Some(key) = KEYS.iter().find(|key| key.full == name) {
        return Ok(key);
    }
    if !name.contains('.') {
        return find("search", name);
    }
    let table = TABLES.into_iter().find(|table| {
        name.strip_prefix("tools.")
            .and_then(|rest| rest.strip_prefix(table))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    match table {
        Some(table) => match name
            .strip_prefix("tools.")
            .and_then(|rest| rest.split_once('.'))
        {
            Some((_, key)) => find(table, key),
            None => {
                let message =
                    format!("is a table; set its keys one by one, as `--set {name}.KEY=VALUE`");
                Err(Problem::new(Some(name), message))
            }
        },
        None => {
            // If the table is misspelt, the hint about the table is better than the nearest full
            // key.
            let of_table = name.strip_prefix("tools.").and_then(|rest| {
                let (table, key) = rest.split_once('.')?;
                let table = TABLES.into_iter().find(|known| is_nearly(known, table))?;
                Some((table, key))
            });
            if let Some((table, key)) = of_table {
                let message = format!("is not in a known table; write `tools.{table}.{key}`");
                return Err(Problem::new(Some(name), message));
            }
            let nearest = nearest(KEYS.iter().map(|key| key.full), name);
            let message = format!(
                "is not a key of `[tools.search]`, `[tools.search_files]`, `[tools.daemon]` or `[tools.sandbox]`; \
                 the nearest one is `{nearest}`"
            );
            Err(Problem::new(Some(name), message))
        }
    }
}

/// Finds a key of a table. The error names the key that the user probably meant.
fn find(table: &str, name: &str) -> Result<&'static Key, Problem> {
    if let Some(key) = KEYS
        .iter()
        .find(|key| key.table == table && key.name == name)
    {
        return Ok(key);
    }
    let full = format!("tools.{table}.{name}");
    let message = match KEYS.iter().find(|key| key.name == name) {
        Some(elsewhere) => format!(
            "is not a key of `[tools.{table}]` but of `[tools.{}]`; write `{}`",
            elsewhere.table, elsewhere.full
        ),
        None => {
            let names = KEYS
                .iter()
                .filter(|key| key.table == table)
                .map(|key| key.name);
            unknown(&format!("tools.{table}"), names, name)
        }
    };
    Err(Problem::new(Some(&full), message))
}

/// Returns the message for an unknown key of a table, with the nearest known key.
pub(super) fn unknown(
    table: &str,
    known: impl IntoIterator<Item = &'static str>,
    name: &str,
) -> String {
    let nearest = nearest(known.into_iter(), name);
    format!("is not a key of `[{table}]`; the nearest one is `{nearest}`")
}

/// Returns the known name that is most similar to `name`. Case and separators don't count. A name
/// that is part of a known one is similar even if the rest is missing: `bytes` resembles
/// `max_bytes`.
pub(super) fn nearest(known: impl Iterator<Item = &'static str>, name: &str) -> &'static str {
    let letters = |name: &str| -> String {
        // Comparing takes quadratic time. No key is nearly that long.
        let letters = name.chars().filter(|c| c.is_alphanumeric()).take(100);
        letters.flat_map(char::to_lowercase).collect()
    };
    let name = letters(name);
    let likeness = |known: &str| {
        let known = letters(known);
        let edits = strsim::normalized_damerau_levenshtein(&known, &name);
        if !name.is_empty() && known.contains(&name) {
            (1.0 + edits) / 2.0
        } else {
            edits
        }
    };
    known
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .unwrap_or_default()
}

/// Finds a misspelt table below `tools`, such as `[tools.sandbx]`, and `[tools.executor]`, which
/// belongs at the top of a file. Ignoring them would be unsafe: denied patterns in `[tools.sandbx]`
/// would protect nothing.
fn misspelt(name: &str, value: &DeValue<'_>) -> Option<Problem> {
    if TABLES.contains(&name) {
        return None;
    }
    let meant = match TABLES.into_iter().find(|table| is_nearly(table, name)) {
        Some(table) => format!("`[tools.{table}]`"),
        None if has_executor_keys(name, value) => "`[executor]`".to_string(),
        None => return None,
    };
    Some(no_table(&format!("tools.{name}"), &meant))
}

fn no_table(name: &str, meant: &str) -> Problem {
    let message = format!("is not a known table; write {meant}");
    Problem::new(Some(name), message)
}

/// Returns whether two names differ by at most one edit. Case and characters that are no letters or
/// digits don't count.
fn is_nearly(known: &str, name: &str) -> bool {
    let letters = |name: &str| -> String {
        let letters = name.chars().filter(|c| c.is_alphanumeric()).take(20);
        letters.flat_map(char::to_lowercase).collect()
    };
    strsim::damerau_levenshtein(&letters(known), &letters(name)) <= 1
}

/// Finds a table or key at the top of a file that belongs below `tools`, such as `[tool.sandbox]`,
/// `[sandbox]` or `max_files`. A table without any of our names belongs to another program.
fn misplaced(name: &str, value: &DeValue<'_>) -> Option<Problem> {
    let known = |table: &str, key: &str| {
        let full = format!("tools.{table}.{key}");
        KEYS.iter().any(|one| one.full == full)
    };
    let meant = match value {
        DeValue::Table(keys) => {
            let has =
                |is_ours: &dyn Fn(&str) -> bool| keys.keys().any(|key| is_ours(key.get_ref()));
            let is_tools = name != "tools" && is_nearly("tools", name);
            let is_executors = match name {
                "executor" => false,
                _ if is_tools => keys
                    .iter()
                    .any(|(key, value)| has_executor_keys(key.get_ref(), value.get_ref())),
                _ => has_executor_keys(name, value),
            };
            if is_tools && has(&|key| TABLES.contains(&key)) {
                "`tools`, as in `[tools.search]`".to_string()
            } else if is_executors {
                "`[executor]`".to_string()
            } else {
                // A key without `_`, such as `enabled`, may belong to another program.
                let is_ours = |table: &str, key: &str| key.contains('_') && known(table, key);
                let ours = |table: &&str| is_nearly(table, name) && has(&|key| is_ours(table, key));
                format!("`[tools.{}]`", TABLES.into_iter().find(ours)?)
            }
        }
        value => return loose(name, value),
    };
    Some(no_table(name, &meant))
}

/// Finds a key outside of its table: at the top of a file or right below `tools`. A key without `_`
/// may belong to another program, and is ignored.
fn loose(name: &str, value: &DeValue<'_>) -> Option<Problem> {
    if matches!(value, DeValue::Table(_)) || !name.contains('_') {
        return None;
    }
    let is_its = |table: &&str| {
        KEYS.iter()
            .any(|key| key.table == *table && key.name == name)
    };
    let table = match TABLES.into_iter().find(is_its) {
        Some(table) => format!("tools.{table}"),
        None if EXECUTOR_KEYS.contains(&name) => "executor".to_string(),
        None => return None,
    };
    let message = format!("is outside its table; write it below `[{table}]`");
    Some(Problem::new(Some(name), message))
}

/// Returns whether a table has a name like `executor` and at least one key of that table.
fn has_executor_keys(name: &str, value: &DeValue<'_>) -> bool {
    let DeValue::Table(keys) = value else {
        return false;
    };
    let mut names = keys.keys().map(|key| key.get_ref());
    is_nearly("executor", name) && names.any(|key| EXECUTOR_KEYS.contains(&key.as_ref()))
}

fn not_a_table(table: &str, value: &DeValue<'_>) -> Problem {
    let key = format!("tools.{table}");
    let message = match value {
        DeValue::Array(_) => {
            format!("must be a table; write `[tools.{table}]` once and with single brackets")
        }
        other => format!("is {}, but must be a table", shown(other)),
    };
    Problem::new(Some(&key), message)
}

fn not_allowed(key: &Key, value: &DeValue<'_>, why: &str) -> Problem {
    Problem::new(
        Some(key.full),
        format!("{} is not allowed: {why}", shown(value)),
    )
}

/// Returns the line and column of a byte offset, both 1-based. The column counts characters.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
