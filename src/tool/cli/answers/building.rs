//! Index builds for which the user waits, and the start of live indexes.
//!
//! This module owns the progress display, the interruption of builds by signals, and the messages
//! about evicted indexes. `tool::indexing` and `index` do the builds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::exec::as_text::shown;
use crate::exec::question::Question;
use crate::exec::stop::Deadline;
use crate::index::builder::{BuildError, BuildHost};
use crate::index::state::UncertainReason;
use crate::index::store::Eviction;
use crate::tool::answering::maintenance;
use crate::tool::cli::args::question::refused;
use crate::tool::cli::output::progress::{Bar, WAITING};
use crate::tool::cli::output::show::{self, bytes};
use crate::tool::cli::setup::{Environment, Setup};
use crate::tool::cli::{Failure, complain};
use crate::tool::config::IndexMode;
#[cfg(unix)]
use crate::tool::config::SearchConfig;
use crate::tool::error::ToolError;
use crate::tool::indexing::{Condition, Foreground, Indexes, LiveEnvironment};

/// Time between two attempts while another process builds the index.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often to rebuild an index whose tree changes during the build. After that, requests are
/// answered without the index.
const ROUNDS: u32 = 3;

/// Runs `build` with a host that reports progress and stops on signals. On a terminal the host
/// shows a bar. Elsewhere it prints one message if it has to wait for another process.
pub(in crate::tool::cli) fn with_host<T>(
    setup: &Setup,
    environment: &Environment,
    build: impl FnOnce(&dyn BuildHost) -> T,
) -> T {
    let bar = Bar::on_terminal(environment);
    let is_told = AtomicBool::new(false);
    let host = Foreground::new(setup.signals.cancel_handle())
        .with_progress(|progress| {
            if let Some(bar) = &bar {
                bar.show(progress);
            }
        })
        .with_waiting(|| match &bar {
            Some(bar) => bar.show_waiting(),
            None if is_told.swap(true, Ordering::Relaxed) => {}
            None => complain(WAITING),
        });
    setup.signals.while_calling(|| build(&host))
}

/// Builds the index for a search if `index_mode` is `on` and no usable index exists. If the build
/// fails, prints a message, and the search goes on without the index.
///
/// # Errors
///
/// An invalid request, or a signal.
pub(in crate::tool::cli) fn before_search(
    setup: &Setup,
    environment: &Environment,
    question: &Question,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    if setup.config.search.index_mode != IndexMode::On {
        return Ok(());
    }
    // Report an invalid question before building anything.
    question.check().map_err(|error| refused(error, question))?;
    let root = setup.tool.index_root_of(question, &setup.context)?;
    let (Some(root), Some(indexes)) = (root, setup.tool.indexes()) else {
        return Ok(());
    };
    refuse_wide(setup, environment, &root)?;
    let allowance = maintenance(timeout, setup.config.search.index_maint_budget_fraction);
    let deadline = Deadline::after(allowance, setup.context.clock.clone());
    let ensured = with_host(setup, environment, |host| {
        indexes.ensure_for_search(&root, setup.context.sandbox.reach(), host, &deadline)
    });
    match ensured {
        Ok(built) => {
            if let Some(built) = &built {
                report_eviction(&built.eviction);
            }
            Ok(())
        }
        Err(BuildError::Stopped) => Err(setup.signals.failure(ToolError::Cancelled)),
        Err(error) => {
            complain(&format!(
                "{} could not be indexed, so the search reads the whole tree: {error}",
                shown(&root)
            ));
            Ok(())
        }
    }
}

/// Refuses to index the home directory, or a directory above it such as `/`, unless the user named
/// it. A user who starts a command there rarely intends that.
///
/// # Errors
///
/// [`ToolError::BadArgs`] for such a root.
pub(in crate::tool::cli) fn refuse_wide(
    setup: &Setup,
    environment: &Environment,
    root: &Path,
) -> Result<(), ToolError> {
    let home = environment.home.as_deref();
    let home = home.map(|home| home.canonicalize().unwrap_or(home.to_path_buf()));
    let is_wide = root.parent().is_none() || home.is_some_and(|home| home.starts_with(root));
    let is_named = setup.named_roots.iter().any(|named| named == root);
    if !is_wide || is_named {
        return Ok(());
    }
    let root = show::path(root);
    Err(ToolError::bad_args(format!(
        "the index would cover everything below {root}; change to the tree to index, or confirm \
         this one with --root {root}"
    )))
}

/// Prints to standard error which indexes were evicted for the new one, and whether the store still
/// exceeds its limits.
pub(in crate::tool::cli) fn report_eviction(eviction: &Eviction) {
    let tree = |root: &Option<PathBuf>| match root {
        Some(root) => show::path(root),
        None => "an unknown tree".to_string(),
    };
    for one in &eviction.evicted {
        complain(&format!(
            "the index of {}, {}, last used {}, was removed to make room for this one: \
             index_max_db_bytes and index_max_indexes of [tools.search] set the limits",
            tree(&one.root),
            bytes(one.bytes),
            one.accessed_ms
                .map_or("at an unknown time".to_string(), show::time)
        ));
    }
    for one in &eviction.spared {
        complain(&format!(
            "the index of {} in {} should be removed to make room for this one, but {}",
            tree(&one.root),
            show::path(&one.dir),
            one.problem.as_deref().unwrap_or("is in use"),
        ));
    }
    for one in &eviction.purged {
        complain(&format!(
            "an index of {}, {}, was removed: it was built with fewer denied patterns, and had \
             entries for files that are denied now",
            tree(&one.root),
            bytes(one.bytes),
        ));
    }
    for one in &eviction.unpurged {
        complain(&format!(
            "the index of {} in {} was built with fewer denied patterns, and has entries for files \
             that are denied now, but {}; the next build tries again to remove it",
            tree(&one.root),
            show::path(&one.dir),
            one.problem.as_deref().unwrap_or("is in use"),
        ));
    }
    if eviction.over_limits {
        complain(
            "the stored indexes exceed index_max_db_bytes or index_max_indexes of [tools.search]; \
             `forge-search index list` shows them, and the next build tries again to make room",
        );
    }
}

/// Waits until every root has a usable index, and builds missing ones. Waits for other processes
/// that build.
///
/// # Errors
///
/// Indexing is disabled, no root can be indexed, or a signal arrived. A failed build is only
/// printed to standard error, because answers don't depend on indexes.
pub(in crate::tool::cli) fn wait(
    setup: &Setup,
    environment: &Environment,
) -> Result<(), ToolError> {
    let Some(indexes) = setup.indexes() else {
        return Err(ToolError::bad_args(
            "--wait-index needs an index, but index_mode is off; set index_mode to auto or on, or \
             leave out --wait-index",
        ));
    };
    let roots = roots(indexes)?;
    for root in roots {
        refuse_wide(setup, environment, &root)?;
        wait_for(setup, environment, indexes, &root)?;
    }
    Ok(())
}

/// Starts live indexes, which follow their trees. If that fails, prints a message, and calls go on
/// without indexes.
#[cfg(unix)]
pub(in crate::tool::cli) fn follow(
    indexes: Option<&Arc<Indexes>>,
    config: &SearchConfig,
    setup: &Setup,
) {
    let Some(indexes) = indexes else {
        return;
    };
    let around = LiveEnvironment::new(setup.context.sandbox.reach().clone());
    if let Err(error) = indexes.live(config, &around) {
        complain(&format!("indexes are not kept up to date: {error}"));
    }
}

/// Starts live indexes for a long-running process. If that fails, prints a message, and calls go on
/// without indexes. With `wait`, returns once each index is usable or can't become usable. The wait
/// also ends after `index_build_timeout_ms`, or with a signal.
pub(in crate::tool::cli) fn live(setup: &Setup, wait: bool) {
    let Some(indexes) = setup.indexes() else {
        return;
    };
    let around = LiveEnvironment::new(setup.context.sandbox.reach().clone());
    if let Err(error) = indexes.live(&setup.indexing(), &around) {
        complain(&format!("indexes are not kept up to date: {error}"));
        return;
    }
    let ending = indexes.clone();
    let lingers = setup.signals.linger(move || {
        ending.shut_down();
    });
    if let Err(error) = lingers {
        complain(&format!(
            "a signal will end a build without storing its progress: {error}"
        ));
    }
    if !wait {
        return;
    }
    let most = Duration::from_millis(setup.config.search.index_build_timeout_ms);
    let deadline = Deadline::after(most, setup.context.clock.clone());
    setup.signals.while_calling(|| {
        for root in indexes.roots() {
            while indexes.wait_live(root, PATIENCE) == Some(None) {
                if setup.context.cancel.is_cancelled() {
                    return;
                }
                if deadline.remaining().is_zero() {
                    // Not an error: answers don't depend on the index.
                    let why = indexes.live_report(root).and_then(|report| report.why);
                    complain(&format!(
                        "the index of {} is not ready after {most:?} (index_build_timeout_ms); \
                         searches start without it: {}",
                        shown(root),
                        why.as_deref().unwrap_or("it is still being built")
                    ));
                    break;
                }
            }
        }
    });
}

/// Returns the roots of the indexes.
///
/// # Errors
///
/// No root can be indexed; the message has the reasons.
pub(in crate::tool::cli) fn roots(indexes: &Indexes) -> Result<Vec<PathBuf>, ToolError> {
    let roots: Vec<PathBuf> = indexes.roots().map(PathBuf::from).collect();
    if roots.is_empty() {
        let rejected = indexes.rejected().join("; ");
        return Err(ToolError::bad_args(format!(
            "there is nothing to index: {rejected}"
        )));
    }
    Ok(roots)
}

fn wait_for(
    setup: &Setup,
    environment: &Environment,
    indexes: &Arc<Indexes>,
    root: &Path,
) -> Result<(), ToolError> {
    let sandbox = setup.context.sandbox.reach();
    let most = Duration::from_millis(setup.config.search.index_build_timeout_ms);
    let deadline = Deadline::after(most, setup.context.clock.clone());
    for _ in 0..ROUNDS {
        let built = with_host(setup, environment, |host| {
            loop {
                match indexes.ensure(root, sandbox, host) {
                    Err(error) if is_locked(&error) && !deadline.remaining().is_zero() => {
                        host.waiting();
                        host.pause(PATIENCE);
                        if host.stopped() {
                            return Err(BuildError::Stopped);
                        }
                    }
                    ended => return ended,
                }
            }
        });
        match built {
            Ok(built) => {
                if let Some(built) = &built {
                    report_eviction(&built.eviction);
                }
            }
            Err(BuildError::Stopped) => return Err(ToolError::Cancelled),
            Err(error) => {
                // Not an error: answers don't depend on the index.
                complain(&format!(
                    "the index of {} could not be built; searches start without it: {error}",
                    shown(root)
                ));
                return Ok(());
            }
        }
        match indexes.condition(root, sandbox) {
            Some(Condition::Usable) | None => return Ok(()),
            Some(Condition::Stale { reason, .. })
                if reason != UncertainReason::EnumerationError => {}
            Some(_) => break,
        }
    }
    // Not an error: answers don't depend on the index.
    let why = indexes
        .condition(root, sandbox)
        .and_then(|condition| condition.why());
    complain(&format!(
        "the index of {} is built, but can't be used: {}",
        shown(root),
        why.unwrap_or_default()
    ));
    Ok(())
}

/// Converts a build error into the error of the command.
pub(in crate::tool::cli) fn failed(error: BuildError) -> ToolError {
    match error {
        BuildError::Stopped => ToolError::Cancelled,
        error => ToolError::failed("index", error.to_string()),
    }
}

fn is_locked(error: &BuildError) -> bool {
    matches!(error, BuildError::Format(error) if error.is_locked())
}
