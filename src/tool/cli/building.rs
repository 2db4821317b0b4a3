//! Building indexes while somebody waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::progress::{Bar, WAITING};
use super::question::refused;
use super::setup::{Environment, Setup};
use super::show::{self, bytes};
use super::{Failure, complain};
use crate::exec::question::Question;
use crate::exec::stop::Deadline;
use crate::index::builder::{BuildError, BuildHost};
use crate::index::state::UncertainReason;
use crate::index::store::Eviction;
use crate::tool::answering::maintenance;
use crate::tool::config::{IndexMode, SearchConfig};
use crate::tool::error::ToolError;
use crate::tool::indexing::{Condition, Foreground, Indexes, Surroundings};

/// How long to wait for another process that builds before looking again.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often a tree may change while its index is built, before requests are answered without it.
const ROUNDS: u32 = 3;

/// Runs `build` with a host that a signal stops, and with a bar where there is a terminal. Elsewhere it
/// says once that another process is waited for.
pub(super) fn with_host<T>(
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

/// Builds the index that a search would use, if index_mode asks for that and it can't be used as it is. Where it
/// can't be built, says so and leaves the search to do without (FR-LSI-IDX-05).
///
/// # Errors
///
/// An invalid request, or a signal.
pub(super) fn before_search(
    setup: &Setup,
    environment: &Environment,
    question: &Question,
    timeout: Option<Duration>,
) -> Result<(), Failure> {
    if setup.config.search.index_mode != IndexMode::On {
        return Ok(());
    }
    // What is wrong with a question is said before anything is built.
    question.check().map_err(|error| refused(error, question))?;
    let root = setup.tool.index_root_of(question, &setup.context)?;
    let (Some(root), Some(indexes)) = (root, setup.tool.indexes()) else {
        return Ok(());
    };
    refuse_wide(setup, environment, &root)?;
    let budget = maintenance(timeout, setup.config.search.index_maint_budget_fraction);
    let budget = Deadline::after(budget, setup.context.clock.clone());
    let ensured = with_host(setup, environment, |host| {
        indexes.ensure_for_search(&root, setup.context.sandbox.reach(), host, &budget)
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
                "{} could not be indexed, so everything is searched: {error}",
                root.display()
            ));
            Ok(())
        }
    }
}

/// Refuses to index everything there is, or the whole home directory, unless somebody named that root:
/// who types a command there rarely means it.
///
/// # Errors
///
/// [`ToolError::BadArgs`] for such a root.
pub(super) fn refuse_wide(
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
        "the index would be of everything below {root}; go to the tree that you mean, or name this one with --root {root}"
    )))
}

/// Says on standard error which indexes a new one has cost, and whether there are still too many.
pub(super) fn report_eviction(eviction: &Eviction) {
    let tree = |root: &Option<PathBuf>| match root {
        Some(root) => show::path(root),
        None => "an unknown tree".to_string(),
    };
    for one in &eviction.evicted {
        complain(&format!(
            "the index of {}, {}, last used {}, made room for this one: index_max_db_bytes and index_max_indexes of \
             [tools.search] say how much is kept",
            tree(&one.root),
            bytes(one.bytes),
            one.accessed_ms
                .map_or("at an unknown time".to_string(), show::time)
        ));
    }
    for one in &eviction.spared {
        complain(&format!(
            "the index of {} in {} should make room for this one, but {}",
            tree(&one.root),
            show::path(&one.dir),
            one.problem.as_deref().unwrap_or("is in use"),
        ));
    }
    for one in &eviction.purged {
        complain(&format!(
            "an index of {}, {}, was removed: it was built under fewer denied patterns, and had entries for files that \
             are denied now",
            tree(&one.root),
            bytes(one.bytes),
        ));
    }
    for one in &eviction.unpurged {
        complain(&format!(
            "the index of {} in {} was built under fewer denied patterns, and has entries for files that are denied \
             now, but {}; the next build tries again to remove it",
            tree(&one.root),
            show::path(&one.dir),
            one.problem.as_deref().unwrap_or("is in use"),
        ));
    }
    if eviction.over_limits {
        complain(
            "more is kept than index_max_db_bytes and index_max_indexes of [tools.search] allow; `forge-search index \
             list` shows it, and the next build tries again to make room",
        );
    }
}

/// Waits until the index of every root can be used, building those that can't; another process that is building one
/// is waited for.
///
/// # Errors
///
/// No index could ever be used, or a signal came. One that can't be built is said on standard error, and no error: answers
/// don't depend on it.
pub(super) fn wait(setup: &Setup, environment: &Environment) -> Result<(), ToolError> {
    let Some(indexes) = setup.indexes() else {
        return Err(ToolError::bad_args(
            "--wait-index waits for ever where index_mode is off; set index_mode to auto or on, or leave it out",
        ));
    };
    let roots = roots(indexes)?;
    for root in roots {
        refuse_wide(setup, environment, &root)?;
        wait_for(setup, environment, indexes, &root)?;
    }
    Ok(())
}

/// Has indexes follow the tree from now on. Where that can't be, calls do without, and it is said.
pub(super) fn follow(indexes: Option<&Arc<Indexes>>, config: &SearchConfig, setup: &Setup) {
    let Some(indexes) = indexes else {
        return;
    };
    let around = Surroundings::new(setup.context.sandbox.reach().clone());
    if let Err(error) = indexes.live(config, &around) {
        complain(&format!("indexes are not kept up to date: {error}"));
    }
}

/// Has the indexes live from now on, beside the calls. Where that can't be, calls do without, and it is said. If `wait`, returns when
/// each can be used, or will not come to that by itself, or that takes longer than a build may, or a signal came.
pub(super) fn live(setup: &Setup, wait: bool) {
    let Some(indexes) = setup.indexes() else {
        return;
    };
    let around = Surroundings::new(setup.context.sandbox.reach().clone());
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
            "a signal will end a build without keeping what it did: {error}"
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
                    // Answers don't depend on it.
                    let why = indexes.live_report(root).and_then(|report| report.why);
                    complain(&format!(
                        "the index of {} is not there after {most:?} (index_build_timeout_ms), and is not waited for: {}",
                        root.display(),
                        why.as_deref().unwrap_or("it is still being built")
                    ));
                    break;
                }
            }
        }
    });
}

/// Returns the index roots.
///
/// # Errors
///
/// There are none: why.
pub(super) fn roots(indexes: &Indexes) -> Result<Vec<PathBuf>, ToolError> {
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
                // Answers don't depend on it.
                complain(&format!(
                    "the index of {} could not be built, and is not waited for: {error}",
                    root.display()
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
    // Answers don't depend on it.
    let why = indexes
        .condition(root, sandbox)
        .and_then(|condition| condition.why());
    complain(&format!(
        "the index of {} is built, but can't be used: {}",
        root.display(),
        why.unwrap_or_default()
    ));
    Ok(())
}

/// Turns the failure of a build into that of a command.
pub(super) fn failed(error: BuildError) -> ToolError {
    match error {
        BuildError::Stopped => ToolError::Cancelled,
        error => ToolError::ExecutionFailed {
            tool: "index".to_string(),
            message: error.to_string(),
        },
    }
}

fn is_locked(error: &BuildError) -> bool {
    matches!(error, BuildError::Format(error) if error.is_locked())
}
