//! Errors of a configuration: every problem, with its place.

use std::fmt;

use thiserror::Error;

use super::Origin;
use crate::tool::error::ToolError;

/// A configuration that can't be used, with all its problems.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", listed(.problems))]
#[non_exhaustive]
pub struct ConfigError {
    /// The problems, in the order of the sources and of their lines; never empty.
    problems: Vec<Problem>,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The full key concerned, such as `tools.search.max_files`; `None` if the problem concerns no
    /// key.
    pub key: Option<String>,
    /// The source that has the problem.
    pub origin: Origin,
    /// The line and column in the source, both 1-based. The column counts characters.
    pub position: Option<(usize, usize)>,
    /// The problem, and the values that are allowed.
    pub message: String,
}

impl ConfigError {
    /// Returns the problems, in the order of the sources and of their lines.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(super) fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }
}

impl From<ConfigError> for ToolError {
    fn from(error: ConfigError) -> Self {
        Self::bad_args(error.to_string())
    }
}

impl Problem {
    pub(super) fn new(key: Option<&str>, message: impl Into<String>) -> Self {
        let key = key.map(str::to_owned);
        Self {
            key,
            origin: Origin::Default,
            position: None,
            message: message.into(),
        }
    }

    pub(super) fn at(self, origin: Origin, position: Option<(usize, usize)>) -> Self {
        Self {
            origin,
            position,
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}", self.origin)?;
            if let Some((line, column)) = self.position {
                write!(f, ":{line}:{column}")?;
            }
            f.write_str(": ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.message)
    }
}

fn listed(problems: &[Problem]) -> String {
    match problems {
        [only] => format!("configuration: {only}"),
        several => {
            let lines: String = several
                .iter()
                .map(|problem| format!("\n  {problem}"))
                .collect();
            format!("configuration: {} problems{lines}", several.len())
        }
    }
}
