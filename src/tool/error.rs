//! The errors of tool calls.
//!
//! This module owns the kinds of error, their stable codes and their messages. It does not know the
//! causes, nor how a surface prints an error.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::exec::as_text::shown;
use crate::exec::stop::millis;
use crate::tool::tools::ToolName;

/// The error of a tool call without a response.
///
/// Every kind has a stable [`code`](ToolError::code) for programs, and a
/// [`message`](ToolError::message) that tells the caller how to fix the call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The request or the configuration is not valid.
    #[error("{message}")]
    BadArgs {
        /// The invalid argument, the problem, and the allowed values.
        message: String,
    },
    /// The call did not finish within its timeout.
    #[error(
        "`{tool}` was stopped after {} ms; search a smaller `path`, or allow it more time",
        .elapsed.as_millis()
    )]
    Timeout {
        /// The tool that was called.
        tool: String,
        /// The time from its start until it was stopped.
        elapsed: Duration,
    },
    /// The sandbox refuses the call.
    #[error(transparent)]
    SandboxViolation(#[from] DenialReason),
    /// The call was valid, but carrying it out failed.
    #[error("{message}")]
    ExecutionFailed {
        /// The tool that was called.
        tool: String,
        /// The operation that failed, its place, and a remedy.
        message: String,
    },
    /// The host cancelled the call.
    #[error("the call was cancelled before it finished; repeat it if its answer is still needed")]
    Cancelled,
    /// No tool has that name.
    #[error("there is no tool `{name}`; use {}", ToolName::listed())]
    UnknownTool {
        /// The requested name.
        name: String,
    },
}

/// The reason why the sandbox denies a call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DenialReason {
    /// The path is absolute although the sandbox forbids that, contains `..`, or leads outside
    /// every allowed root.
    #[error("{}", outside(.attempted, .resolved))]
    PathOutsideSandbox {
        /// The path as the caller wrote it.
        attempted: PathBuf,
        /// The canonical path, as far as validation got; the path as written if its form alone is
        /// denied.
        resolved: PathBuf,
    },
    /// The path, or a directory above it, matches a denied pattern.
    #[error(
        "path `{}` is denied by the pattern `{pattern}`; choose another path, such as `.`, or change \
         `denied_patterns` or `include_default_denies` in `[tools.sandbox]`",
        .attempted.display()
    )]
    DeniedPatternMatched {
        /// The path as the caller wrote it.
        attempted: PathBuf,
        /// The denied pattern, as configured.
        pattern: String,
    },
    /// The call exceeds a limit of the host.
    #[error("{message}")]
    LimitsExceeded {
        /// The limit, its value, and the requested value.
        message: String,
    },
    /// The tool is switched off.
    #[error(
        "the tool is disabled; set `enabled = true` in `[tools.search]` (for `search_files` in `[tools.search_files]`) to allow it"
    )]
    Disabled,
}

/// Returns the message for a path outside the sandbox. The remedy depends on the form of the path,
/// which the caller can see and change.
fn outside(attempted: &Path, resolved: &Path) -> String {
    let path = attempted.display();
    if attempted
        .components()
        .any(|part| part == Component::ParentDir)
    {
        return format!(
            "path `{path}` contains a `..` component, which is never followed; write the path \
             without it, relative to the working directory, such as `src/lib.rs`"
        );
    }
    if attempted.has_root() && attempted == resolved {
        return format!(
            "path `{path}` is not allowed: it is absolute or outside the allowed roots; use a \
             path relative to the working directory, such as `src/lib.rs`, add its directory to `allowed_roots` in \
             `[tools.sandbox]`, or permit absolute paths with `allow_absolute = true`"
        );
    }
    format!(
        "path `{path}` leads to `{}`, which is outside the allowed roots; choose a path inside \
         them, such as `.`, or add its directory to `allowed_roots` in `[tools.sandbox]`",
        shown(resolved)
    )
}

impl ToolError {
    /// Creates a [`ToolError::BadArgs`].
    pub fn bad_args(message: impl Into<String>) -> Self {
        Self::BadArgs {
            message: message.into(),
        }
    }

    /// Creates a [`ToolError::ExecutionFailed`].
    pub(crate) fn failed(tool: impl Into<String>, message: impl Into<String>) -> Self {
        Self::ExecutionFailed {
            tool: tool.into(),
            message: message.into(),
        }
    }

    /// Returns the stable code of the error, in snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadArgs { .. } => "bad_args",
            Self::Timeout { .. } => "timeout",
            Self::SandboxViolation(reason) => reason.code(),
            Self::ExecutionFailed { .. } => "execution_failed",
            Self::Cancelled => "cancelled",
            Self::UnknownTool { .. } => "unknown_tool",
        }
    }

    /// Returns the name of the error's kind, such as `SandboxViolation`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::BadArgs { .. } => "BadArgs",
            Self::Timeout { .. } => "Timeout",
            Self::SandboxViolation(_) => "SandboxViolation",
            Self::ExecutionFailed { .. } => "ExecutionFailed",
            Self::Cancelled => "Cancelled",
            Self::UnknownTool { .. } => "UnknownTool",
        }
    }

    /// Returns the problem and its remedy, as one line of text.
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Returns the error as `{"error":{"code","kind","message",…}}`. The fields of its kind follow
    /// these three; `elapsed` becomes `elapsed_ms`, in milliseconds.
    pub fn to_json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), self.code().into());
        error.insert("kind".into(), self.kind().into());
        error.insert("message".into(), self.message().into());
        match self {
            // Their only field is `message`, which is set above.
            Self::BadArgs { .. } | Self::Cancelled => {}
            Self::Timeout { tool, elapsed } => {
                error.insert("tool".into(), tool.as_str().into());
                error.insert("elapsed_ms".into(), millis(*elapsed).into());
            }
            Self::ExecutionFailed { tool, .. } => {
                error.insert("tool".into(), tool.as_str().into());
            }
            Self::UnknownTool { name } => {
                error.insert("name".into(), name.as_str().into());
            }
            Self::SandboxViolation(reason) => reason.add_fields(&mut error),
        }
        json!({ "error": error })
    }
}

impl DenialReason {
    /// Returns the stable code of the reason, in snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::PathOutsideSandbox { .. } => "path_outside_sandbox",
            Self::DeniedPatternMatched { .. } => "denied_pattern_matched",
            Self::LimitsExceeded { .. } => "limits_exceeded",
            Self::Disabled => "disabled",
        }
    }

    fn add_fields(&self, error: &mut Map<String, Value>) {
        match self {
            Self::PathOutsideSandbox {
                attempted,
                resolved,
            } => {
                error.insert("attempted".into(), attempted.to_string_lossy().into());
                error.insert("resolved".into(), shown(resolved).into());
            }
            Self::DeniedPatternMatched { attempted, pattern } => {
                error.insert("attempted".into(), attempted.to_string_lossy().into());
                error.insert("pattern".into(), pattern.as_str().into());
            }
            Self::LimitsExceeded { .. } | Self::Disabled => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside_error(attempted: &str, resolved: &str) -> ToolError {
        DenialReason::PathOutsideSandbox {
            attempted: attempted.into(),
            resolved: resolved.into(),
        }
        .into()
    }

    fn every_kind() -> Vec<(ToolError, &'static str, &'static str)> {
        vec![
            (
                ToolError::bad_args("`context` is -1"),
                "bad_args",
                "BadArgs",
            ),
            (
                ToolError::Timeout {
                    tool: "Search".into(),
                    elapsed: Duration::from_millis(1500),
                },
                "timeout",
                "Timeout",
            ),
            (
                outside_error("a/b", "/etc/b"),
                "path_outside_sandbox",
                "SandboxViolation",
            ),
            (
                DenialReason::DeniedPatternMatched {
                    attempted: "k/id_rsa".into(),
                    pattern: "**/id_rsa*".into(),
                }
                .into(),
                "denied_pattern_matched",
                "SandboxViolation",
            ),
            (
                DenialReason::LimitsExceeded {
                    message: "too many".into(),
                }
                .into(),
                "limits_exceeded",
                "SandboxViolation",
            ),
            (
                DenialReason::Disabled.into(),
                "disabled",
                "SandboxViolation",
            ),
            (
                ToolError::ExecutionFailed {
                    tool: "Search".into(),
                    message: "no engine".into(),
                },
                "execution_failed",
                "ExecutionFailed",
            ),
            (ToolError::Cancelled, "cancelled", "Cancelled"),
            (
                ToolError::UnknownTool {
                    name: "grep".into(),
                },
                "unknown_tool",
                "UnknownTool",
            ),
        ]
    }

    #[test]
    fn every_kind_has_its_code_and_says_something() {
        for (error, code, kind) in every_kind() {
            assert_eq!(error.code(), code);
            assert_eq!(error.kind(), kind);
            assert!(
                !error.message().is_empty() && !error.message().contains('\n'),
                "{error:?}"
            );
            let json = error.to_json();
            assert_eq!(json["error"]["code"], code);
            assert_eq!(json["error"]["kind"], kind);
            assert_eq!(json["error"]["message"], error.message());
            assert_eq!(json.as_object().unwrap().len(), 1);
        }
    }

    #[test]
    fn json_carries_the_fields_of_the_kind() {
        let timeout = ToolError::Timeout {
            tool: "Search".into(),
            elapsed: Duration::from_micros(20_500),
        };
        assert_eq!(timeout.to_json()["error"]["elapsed_ms"], 20);
        assert_eq!(timeout.to_json()["error"]["tool"], "Search");

        let denied: ToolError = DenialReason::DeniedPatternMatched {
            attempted: "a/id_rsa".into(),
            pattern: "**/id_rsa*".into(),
        }
        .into();
        assert_eq!(denied.to_json()["error"]["attempted"], "a/id_rsa");
        assert_eq!(denied.to_json()["error"]["pattern"], "**/id_rsa*");

        let outside = outside_error("link/x", "/etc/x").to_json();
        assert_eq!(outside["error"]["attempted"], "link/x");
        assert_eq!(outside["error"]["resolved"], "/etc/x");

        let unknown = ToolError::UnknownTool {
            name: "grep".into(),
        }
        .to_json();
        assert_eq!(unknown["error"]["name"], "grep");
    }

    #[test]
    fn a_refused_path_is_told_what_to_change() {
        assert!(outside_error("../x", "../x").message().contains("`..`"));
        assert!(
            outside_error("/etc", "/etc")
                .message()
                .contains("allow_absolute")
        );
        let linked = outside_error("link/x", "/etc/x").message();
        assert!(linked.contains("`/etc/x`") && linked.contains("allowed_roots"));
    }

    #[test]
    fn an_endless_duration_does_not_overflow() {
        let error = ToolError::Timeout {
            tool: "Search".into(),
            elapsed: Duration::MAX,
        };
        assert_eq!(error.to_json()["error"]["elapsed_ms"], u64::MAX);
    }
}
