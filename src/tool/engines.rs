//! Which engine answers: the configured one, chosen once (FR-LS-EXE-01, CFG-LS-01).

use std::sync::Arc;

use crate::exec::embedded::Embedded;
use crate::exec::engine::{Engine, EngineError, Prepared};
use crate::exec::query::Query;
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
