//! The service of this process, which answers in place of a daemon or as the daemon itself.
//!
//! This module owns the way from a [`Setup`] to a [`Service`]. The command `serve` and the backends
//! of surfaces create their services here. [`crate::tool::daemon::service`] has the service.

use std::path::PathBuf;
use std::sync::Arc;

use crate::tool::cli::Failure;
use crate::tool::cli::answers::building;
use crate::tool::cli::answers::daemon::DaemonEndpoint;
use crate::tool::cli::setup::{Environment, Setup, load_config};
use crate::tool::config::SearchConfig;
use crate::tool::daemon::identity;
use crate::tool::daemon::service::{ConfigState, Parts, Service};
use crate::tool::error::ToolError;

/// Creates a service whose indexes follow the tree.
///
/// # Errors
///
/// Those of [`plain_service`].
pub(in crate::tool::cli) fn live_service(
    setup: Setup,
    endpoint: &DaemonEndpoint,
    log: Option<PathBuf>,
    environment: &Environment,
) -> Result<Service, Failure> {
    let low_impact = endpoint.config.daemon.low_impact;
    let pace = |config: SearchConfig| match low_impact {
        true => gentle(config),
        false => config,
    };
    building::follow(setup.tool.indexes(), &pace(setup.indexing_search()), &setup);
    if let Some(files) = &setup.files {
        building::follow(files.indexes(), &pace(setup.indexing_files()), &setup);
    }
    let arguments = endpoint.setup.clone();
    // Copy the environment: the process later changes its working directory.
    let began = environment.clone();
    let root = endpoint.root.clone();
    create(Parts {
        log,
        git: environment.programs(&endpoint.root).find("git"),
        git_settings: environment.git_settings.clone(),
        git_patience: environment.least_patience,
        fingerprint: Some(Arc::new(move || {
            let now = match load_config(&arguments, &began) {
                Ok(config) => {
                    let excludes = began.excludes_at(&root);
                    ConfigState::Is(identity::config_fingerprint(&config, excludes.as_deref()))
                }
                Err(_) => ConfigState::Wrong,
            };
            // If not even `/` can be opened (too many open files), the failure says nothing about
            // the configuration.
            match std::fs::File::open("/") {
                Ok(_) => now,
                Err(_) => ConfigState::Unreadable,
            }
        })),
        ..parts(setup)?
    })
}

/// Creates a service that answers from the tree, or from a stored index.
///
/// # Errors
///
/// [`ToolError::ExecutionFailed`] if the setup has no tool `search_files`, or if the system refuses
/// to create more threads.
pub(in crate::tool::cli) fn plain_service(setup: Setup) -> Result<Service, Failure> {
    parts(setup).and_then(create)
}

/// Reduces the load of indexing (GGREP, low-impact mode).
fn gentle(config: SearchConfig) -> SearchConfig {
    SearchConfig {
        index_build_max_cpu_percent: config.index_build_max_cpu_percent.min(20),
        // One day without searches, which practically disables the boost.
        index_idle_boost_ms: 24 * 60 * 60 * 1000,
        index_watch_debounce_ms: config.index_watch_debounce_ms.max(1_000),
        ..config
    }
}

/// Returns the parts of a service from a setup.
fn parts(setup: Setup) -> Result<Parts, Failure> {
    let Some(files) = setup.files else {
        return Err(failed("the tool search_files was not set up"));
    };
    Ok(Parts::new(
        setup.tool,
        files,
        setup.context,
        setup.people,
        setup.root,
        setup.config,
    ))
}

fn create(parts: Parts) -> Result<Service, Failure> {
    Service::new(parts).map_err(|error| failed(&error.to_string()))
}

/// Returns the failure of a service that can't be created or served.
pub(in crate::tool::cli) fn failed(message: &str) -> Failure {
    Failure::Tool(ToolError::failed("serve", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::config::Config;

    #[test]
    fn low_impact_mode_takes_less_and_waits_longer() {
        let config = Config::command_line_default().search;
        let gentle = gentle(config.clone());
        assert!(gentle.index_build_max_cpu_percent < config.index_build_max_cpu_percent);
        assert!(gentle.index_watch_debounce_ms > config.index_watch_debounce_ms);
        assert!(gentle.index_idle_boost_ms > config.index_idle_boost_ms);
        // Lower values stay.
        let least = SearchConfig {
            index_build_max_cpu_percent: 5,
            index_watch_debounce_ms: 9_000,
            ..config
        };
        let still = super::gentle(least);
        assert_eq!(still.index_build_max_cpu_percent, 5);
        assert_eq!(still.index_watch_debounce_ms, 9_000);
    }
}
