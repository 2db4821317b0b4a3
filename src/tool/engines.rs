//! The engines of a tool in order of preference, selected once by configuration.
//!
//! This module looks for the external programs that the configuration allows, and keeps the reasons
//! if no engine is usable.

use std::path::Path;
use std::sync::Arc;

use crate::exec::engine::embedded::Embedded;
use crate::exec::engine::list::ListEngine;
use crate::exec::engine::{Engine, EngineError, Prepared};
use crate::exec::external::detect::{DetectError, Detected, SearchPath, Tool, detect};
use crate::exec::external::ripgrep::Ripgrep;
use crate::exec::external::ugrep::Ugrep;
use crate::exec::question::query::Query;
use crate::exec::stop::Clock;
use crate::tool::config::{Backend, SearchConfig};
use crate::tool::error::ToolError;

/// The usable engines in order of preference.
#[derive(Clone, Debug)]
pub struct Engines {
    chain: Vec<Arc<dyn Engine>>,
    /// The reason why the chain is empty, if it is.
    missing: String,
}

impl Engines {
    /// Returns the embedded engine alone.
    pub fn embedded() -> Engines {
        Engines::new(vec![Arc::new(Embedded::default())], String::new())
    }

    /// Returns the engine that lists files.
    pub(crate) fn listing() -> Engines {
        Engines::new(vec![Arc::new(ListEngine::default())], String::new())
    }

    /// Creates a chain of engines. `missing` is the reason for an empty chain.
    pub fn new(chain: Vec<Arc<dyn Engine>>, missing: String) -> Engines {
        Engines { chain, missing }
    }

    /// Sets up the engines of a configuration. External programs are looked up in `place`. A
    /// program is started, to print its version, only if the configuration may use it.
    pub fn from_config(
        config: &SearchConfig,
        place: SearchPath<'_>,
        clock: &Arc<dyn Clock>,
    ) -> Engines {
        match config.backend {
            Backend::Embedded => Engines::embedded(),
            Backend::Auto | Backend::Ugrep | Backend::Rg => Engines::survey(config, place, clock).0,
        }
    }

    /// Sets up engines like [`Engines::from_config`], but examines every engine and returns a
    /// report on each.
    pub fn survey(
        config: &SearchConfig,
        place: SearchPath<'_>,
        clock: &Arc<dyn Clock>,
    ) -> (Engines, Vec<EngineReport>) {
        let embedded: Arc<dyn Engine> = Arc::new(Embedded::default());
        let mut chain: Vec<Arc<dyn Engine>> = Vec::new();
        let mut missing = Vec::new();
        let wants_embedded = config.backend == Backend::Embedded;
        let mut reports = vec![EngineReport {
            name: "embedded".to_string(),
            id: Some(embedded.id().to_string()),
            path: None,
            used: wants_embedded,
            reason: not_configured(wants_embedded, config.backend),
        }];
        if wants_embedded {
            chain.push(embedded);
        }
        for configured in [&config.binary, &config.fallback_binary] {
            match identify(Path::new(configured), place, clock) {
                Ok(detected) => {
                    let used = wants(config.backend, detected.tool);
                    let path = detected.path.display().to_string();
                    let engine: Arc<dyn Engine> = match detected.tool {
                        Tool::Ugrep => Arc::new(Ugrep::new(detected.clone())),
                        Tool::Ripgrep => Arc::new(Ripgrep::new(detected.clone())),
                    };
                    reports.push(EngineReport {
                        name: detected.tool.program().to_string(),
                        id: Some(engine.id().to_string()),
                        path: Some(path),
                        used,
                        reason: not_configured(used, config.backend),
                    });
                    if used {
                        chain.push(engine);
                    }
                }
                Err(why) => {
                    missing.push(why.to_string());
                    reports.push(EngineReport {
                        name: configured.clone(),
                        id: None,
                        path: None,
                        used: false,
                        reason: Some(why.to_string()),
                    });
                }
            }
        }
        let mut why = format!(
            "no engine for backend = \"{}\" can be used",
            config.backend.as_str()
        );
        for reason in missing {
            why.push_str(": ");
            why.push_str(&reason);
        }
        why.push_str("; or set backend = \"embedded\", which needs no program");
        (Engines::new(chain, why), reports)
    }

    /// Returns the engines, preferred first.
    pub fn chain(&self) -> &[Arc<dyn Engine>] {
        &self.chain
    }

    /// Compiles a query for the first engine that is capable of it.
    ///
    /// # Errors
    ///
    /// - [`ToolError::ExecutionFailed`]: there is no engine, or an engine failed.
    /// - [`ToolError::BadArgs`]: the query is invalid, or no engine supports it.
    pub(crate) fn prepare(
        &self,
        query: Arc<Query>,
        tool: &str,
    ) -> Result<Arc<dyn Prepared>, ToolError> {
        let mut reasons = Vec::new();
        for engine in &self.chain {
            match engine.prepare(query.clone()) {
                Ok(prepared) => return Ok(prepared),
                Err(EngineError::BadQuery(message)) => return Err(ToolError::bad_args(message)),
                Err(EngineError::NotCapable(message)) => reasons.push(message),
                Err(EngineError::Failed { message, .. }) => {
                    return Err(ToolError::failed(tool, message));
                }
            }
        }
        if reasons.is_empty() {
            return Err(ToolError::failed(tool, self.missing.as_str()));
        }
        Err(ToolError::bad_args(reasons.join("; ")))
    }
}

/// Returns true if a backend may use a program.
fn wants(backend: Backend, tool: Tool) -> bool {
    match backend {
        Backend::Embedded => false,
        Backend::Auto => true,
        Backend::Ugrep => tool == Tool::Ugrep,
        Backend::Rg => tool == Tool::Ripgrep,
    }
}

fn not_configured(used: bool, backend: Backend) -> Option<String> {
    (!used).then(|| format!("backend = \"{}\"", backend.as_str()))
}

/// Identifies a configured program. Its name decides which kind is tried first.
fn identify(
    configured: &Path,
    place: SearchPath<'_>,
    clock: &Arc<dyn Clock>,
) -> Result<Detected, DetectError> {
    let name = configured.file_name().unwrap_or_default().to_string_lossy();
    let order = if name.contains("ugrep") {
        [Tool::Ugrep, Tool::Ripgrep]
    } else {
        [Tool::Ripgrep, Tool::Ugrep]
    };
    let first = detect(order[0], configured, place, clock.clone());
    match first {
        Err(DetectError::NotRecognised { .. }) => {
            detect(order[1], configured, place, clock.clone()).or(first)
        }
        first => first,
    }
}

/// The findings about one engine, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EngineReport {
    /// `embedded`, `ugrep` or `rg`.
    pub name: String,
    /// Its identity with version, if it is usable.
    pub id: Option<String>,
    /// The path of an external program.
    pub path: Option<String>,
    /// Whether the configuration in force lets it answer requests.
    pub used: bool,
    /// The reason why it is unusable or unused.
    pub reason: Option<String>,
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::exec::process::tests::write_script;
    use crate::exec::stop::SystemClock;
    use crate::tool::config::Config;

    /// Writes a program to `dir` that prints `answer` as its version.
    fn program(dir: &Path, name: &str, answer: &str) {
        let path = dir.join(name);
        write_script(&path, &format!("echo '{answer}'"));
    }

    fn ids(dir: &Path, backend: Backend, binary: &str, fallback: &str) -> (Vec<String>, Engines) {
        let mut config = Config::library_default().search;
        config.backend = backend;
        config.binary = binary.to_string();
        config.fallback_binary = fallback.to_string();
        let place = SearchPath {
            path: Some(dir.as_os_str()),
            working_dir: dir,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let engines = Engines::from_config(&config, place, &clock);
        let (surveyed, reports) = Engines::survey(&config, place, &clock);
        let names = |engines: &Engines| -> Vec<String> {
            engines
                .chain()
                .iter()
                .map(|engine| engine.id().to_string())
                .collect()
        };
        assert_eq!(names(&engines), names(&surveyed));
        assert_eq!(
            reports.iter().filter(|report| report.used).count(),
            engines.chain().len()
        );
        assert!(
            reports
                .iter()
                .all(|report| report.used || report.reason.is_some())
        );
        (names(&engines), engines)
    }

    #[test]
    fn unusable_programs_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        program(dir.path(), "ugrep", "ugrep 2.9.9 old");
        program(dir.path(), "rg", "ripgrep 14.1.0");
        let (names, _) = ids(dir.path(), Backend::Auto, "ugrep", "rg");
        assert_eq!(names, ["rg@14.1.0"]);
        program(dir.path(), "ugrep", "ugrep 3.9.0 x86_64");
        let (names, _) = ids(dir.path(), Backend::Auto, "ugrep", "rg");
        assert_eq!(names, ["ugrep@3.9.0", "rg@14.1.0"]);
        assert_eq!(ids(dir.path(), Backend::Rg, "ugrep", "rg").0, ["rg@14.1.0"]);
        assert_eq!(
            ids(dir.path(), Backend::Ugrep, "ugrep", "rg").0,
            ["ugrep@3.9.0"]
        );
        assert_eq!(
            ids(dir.path(), Backend::Embedded, "ugrep", "rg").0,
            ["embedded"]
        );
        // The output of a program identifies it, not its name.
        program(dir.path(), "find-it", "ugrep 7.1.0");
        assert_eq!(
            ids(dir.path(), Backend::Auto, "find-it", "absent").0,
            ["ugrep@7.1.0"]
        );
    }

    #[test]
    fn the_error_without_any_program_gives_the_reasons() {
        let dir = tempfile::tempdir().unwrap();
        let (names, engines) = ids(dir.path(), Backend::Auto, "ugrep", "rg");
        assert!(names.is_empty());
        for part in [
            "ugrep was not found",
            "rg was not found",
            "backend = \"embedded\"",
        ] {
            assert!(engines.missing.contains(part), "{}", engines.missing);
        }
    }
}
