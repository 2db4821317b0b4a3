//! Building: the first segment of a tree, and new segments while searches go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::reconcile::watch;
use super::status::Status;
use super::status_file::PROGRESS;
use super::worker::{LATER, RARELY, RETRY, Timers};
use super::{Shared, TreeState, Watching, lock};
use crate::index::builder::{BuildError, BuildRequest, BuiltSegment, EarlierSegment};
use crate::index::dirty::{DirtySet, Moment};
use crate::index::enumerate::Survey;
use crate::index::inputs::Inputs;
use crate::index::names::shown;
use crate::index::pace::millis;
use crate::index::refresh::{EnteredDirs, TreeKnowledge, can_be_listed};
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::stamp::Stamp;
use crate::index::state::{IndexState, Trigger, UncertainReason};

/// A new segment is built when more than one file in this many differs from the segment. It is also
/// built when the n-grams of the extra files take more than this share of the index's memory limit.
const MERGE_SHARE: usize = 8;

/// How long a live index does not count the words of files again after that failed, for example
/// because the index would exceed its size.
const WORDS_AGAIN: Duration = Duration::from_secs(3600);

/// Returns true if a new segment is worth its price, because every search pays for the extra files.
/// Also true if the segment holds distrusted files: another process that opens it would trust them.
/// For that reason alone a segment is built only if `is_time`, as a program that opens files for
/// writing but does not write would cause endless builds.
pub(super) fn is_spread_out(shared: &Shared, status: &Status, is_time: bool) -> bool {
    let Some(snapshot) = &status.published else {
        return false;
    };
    let (overlay, files) = (snapshot.overlay(), snapshot.segment().file_count() as usize);
    let most = (files / MERGE_SHARE).max(shared.live_options.merge_files);
    is_time && !overlay.distrusted().is_empty()
        || overlay.extras().len() > most
        || overlay.dead_count() as usize > most
        || overlay.footprint() > shared.index_host.options().max_memory_bytes / MERGE_SHARE as u64
}

/// Returns true if a build should count the words of files: a ranked question wants them, the
/// segment does not have them, and no such build has failed lately.
pub(super) fn lacks_words(status: &Status, now_ms: u64) -> bool {
    let segment = status.published.as_ref().map(|snapshot| snapshot.segment());
    let has_none = segment.is_some_and(|segment| !segment.has_words());
    has_none && status.words_wanted && status.words_from_ms <= now_ms
}

impl Status {
    /// Postpones the next build with words, after one failed for a lasting reason.
    fn postpone_words(&mut self, now_ms: u64, error: &BuildError) {
        if !is_passing(error) {
            self.words_from_ms = now_ms.saturating_add(millis(WORDS_AGAIN));
        }
    }
}

/// Returns whether the next build counts words, and takes the wish for them.
fn take_words_wanted(status: &mut Status, now_ms: u64) -> bool {
    let is_time = status.words_from_ms <= now_ms;
    is_time && std::mem::take(&mut status.words_wanted)
}

/// Returns true if the index is in memory although it should be stored. Another process was writing
/// when it was built.
pub(super) fn is_unkept(shared: &Shared, status: &Status) -> bool {
    status.storage() == Some(StorageMode::Memory) && shared.index_host.keeps()
}

/// Builds a new segment of the current tree, while searches use the old one (decision D53). Paths
/// that are marked meanwhile are marked again after the swap.
pub(super) fn merge(shared: &Shared, timers: &mut Timers) {
    let Some(watching) = shared.watching() else {
        return;
    };
    let begun_ms = shared.index_host.now_ms();
    let (losses, earlier, words) = {
        let mut status = shared.status();
        status.since_build = Some(DirtySet::new());
        let words = take_words_wanted(&mut status, begun_ms);
        (status.losses, status.published.clone(), words)
    };
    // The state stays that of an index in use, and is published when it changes.
    let progressed = || shared.publish_status(None);
    let enter = |dir: &Path| {
        shared.enter(Some(&watching), dir);
        progressed();
    };
    let index_host = &shared.index_host;
    let earlier = earlier.as_deref().map(earlier_of);
    let request = BuildRequest {
        earlier,
        words,
        keep: true,
    };
    let built = index_host
        .pool()
        .install(|| index_host.build(&enter, &progressed, request));
    shared.check_place();
    shared.status().works.merge = Some(shared.done(begun_ms, built.is_ok()));
    let built = built.map_err(|error| match error {
        BuildError::Format(error) if error.is_corrupt() => shared.damaged(&error),
        error => {
            let now_ms = index_host.now_ms();
            timers.merge_ms = Some(now_ms.saturating_add(millis(LATER)));
            if words {
                shared.status().postpone_words(now_ms, &error);
            } else if matches!(error, BuildError::OverMemory { .. }) {
                shared.fire(&[Trigger::MemoryExceeded]);
            }
            shared.status().why = Some(error.to_string());
        }
    });
    let new = built.and_then(|(built, snapshot)| {
        let mut new = tracked_of(shared, &snapshot).map_err(|_| ())?;
        new.known.set_errors(built.errors.into_iter());
        Ok(new)
    });
    let Ok(new) = new else {
        // Changed files that the merge was to read are now read separately, at once.
        timers.read_ms = Some(index_host.now_ms());
        let mut status = shared.status();
        status.since_build = None;
        status.lose_sight();
        return;
    };
    timers.merge_ms = None;
    timers.renew_ms = index_host.now_ms().saturating_add(millis(RARELY));
    // All under one lock. Marks that were processed on the old segment since the build began are
    // marked again. A thread that still processes marks on it discards its result, and a search
    // starts over.
    let mut status = shared.status();
    let now_ms = index_host.now_ms();
    if let Some(since) = status.since_build.take() {
        status.dirty.mark_again(&since);
    }
    if status.published.is_some() {
        status.published = Some(new.snapshot.clone());
    }
    shared.swap(&mut status, new);
    // A change that was lost during the build may be missing in the new segment too.
    status.reconcile_wanted |= status.losses != losses;
    status.news_ms = Some(now_ms);
    status.lose_sight();
}

/// Returns the part of a snapshot whose files need not be read again.
fn earlier_of(snapshot: &Snapshot) -> EarlierSegment<'_> {
    EarlierSegment::without(snapshot.segment(), snapshot.overlay().distrusted())
}

/// Puts a snapshot into use, with no further knowledge about the tree.
pub(super) fn take_over(shared: &Shared, snapshot: Arc<Snapshot>) -> Result<(), String> {
    let new = tracked_of(shared, &snapshot)?;
    let mut status = shared.status();
    status.published = Some(snapshot);
    shared.swap(&mut status, new);
    Ok(())
}

/// Creates the tracking state that starts from a snapshot.
fn tracked_of(shared: &Shared, snapshot: &Arc<Snapshot>) -> Result<TreeState, String> {
    Ok(TreeState {
        swap: 0,
        known: TreeKnowledge::new(snapshot.segment(), Inputs::clone(snapshot.inputs())),
        entered: EnteredDirs::default(),
        // If the rules above the tree have changed since, the inputs of the snapshot reveal it.
        walk: shared.index_host.walk()?,
        inputs_above: Inputs::default(),
        snapshot: snapshot.clone(),
    })
}

/// Measures whether the tree is large enough for an index.
pub(super) fn measure(shared: &Shared) {
    if !is_small(shared) {
        shared.fire(&[Trigger::AboveThreshold]);
    }
}

/// Returns true if the tree is below both thresholds, and no ranked question wants an index. Stops
/// as soon as a threshold is exceeded.
fn is_small(shared: &Shared) -> bool {
    let Some(thresholds) = shared.live_options.thresholds else {
        return false;
    };
    if shared.status().words_wanted {
        return false;
    }
    // Without a walk there is nothing to build; the build reports the error.
    let Ok(walk) = shared.index_host.walk() else {
        return false;
    };
    let mut stack = vec![walk.start()];
    let (mut files, mut bytes) = (0u64, 0u64);
    while let Some(node) = stack.pop() {
        let survey = Survey::of(&walk, &node);
        files += survey.files.len() as u64;
        let stamps = survey.files.iter().filter_map(|file| file.stamp);
        bytes = stamps.map(Stamp::len).fold(bytes, u64::saturating_add);
        if files > thresholds.files || bytes > thresholds.bytes {
            return false;
        }
        if shared.status().stop {
            return true;
        }
        stack.extend(survey.dirs);
    }
    true
}

/// Returns true if no known listing error hides files from a build.
fn is_listable(shared: &Shared) -> bool {
    // Without a walk there is nothing to build; the build reports the error.
    let Ok(walk) = shared.index_host.walk() else {
        return true;
    };
    can_be_listed(&walk, &|| shared.status().stop)
}

/// Builds the index.
pub(super) fn build(shared: &Shared, timers: &mut Timers) {
    let begun_ms = shared.index_host.now_ms();
    let (earlier, index_state) = {
        let status = shared.status();
        (status.published.clone(), status.index_state)
    };
    let is_first = earlier.is_none();
    let is_incomplete = |earlier: &Arc<Snapshot>| earlier.incomplete().is_some();
    if earlier.as_ref().is_some_and(is_incomplete) && !is_listable(shared) {
        // The new index would be as incomplete as the old one.
        timers.rest(shared, begun_ms);
        return;
    }
    let other_policy = IndexState::Uncertain(UncertainReason::PolicyChanged);
    let is_there_none =
        index_state == IndexState::Absent || is_first && index_state == other_policy;
    if is_there_none && is_small(shared) {
        leave_unindexed(shared);
        return;
    }
    let Some(keep) = wait_for_writers(shared, timers, is_first) else {
        return;
    };
    // Watch before the tree is listed (FR-LSI-BG-60).
    let watching = watch(shared).ok();
    let (moment, losses) = {
        let mut status = shared.status();
        status.reconcile_wanted = false;
        (status.dirty.now(), status.losses)
    };
    shared.fire(&[Trigger::BuildStarted]);
    shared.publish_status(None);
    shared.status().published_status.begin();
    let built = build_segment(
        shared,
        watching.as_ref(),
        earlier.as_deref(),
        keep,
        begun_ms,
    );
    timers.rest(shared, begun_ms);
    shared.check_place();
    shared.status().works.build = Some(shared.done(begun_ms, built.is_ok()));
    match built {
        Ok((built, snapshot)) => {
            if let Err(why) = take_over(shared, snapshot) {
                // The root is gone, and may come back, as in `open`.
                shared.fire_because(Trigger::BuildFailedClean, why);
                timers.retry_ms = Some(shared.index_host.now_ms().saturating_add(millis(RETRY)));
                return;
            }
            let since = BuildStart {
                moment,
                losses,
                is_watched: watching.is_some(),
            };
            adopt(shared, timers, built.errors, since);
        }
        Err(error) => failed(shared, timers, &error, is_first, keep),
    }
    shared.wake.notify_all();
}

/// Notes that the tree is too small for an index.
fn leave_unindexed(shared: &Shared) {
    // Also if there was an index for other denied patterns: this tree needs no index.
    shared.fire(&[Trigger::IndexMissing]);
    shared.status().build_wanted = false;
    shared.fire_because(
        Trigger::BelowThreshold,
        "the tree is below index_auto_threshold_files and index_auto_threshold_bytes, so it is \
         searched without an index",
    );
}

/// Builds the segment. If the words of files do not fit into memory, it is built without them.
fn build_segment(
    shared: &Shared,
    watching: Option<&Watching>,
    earlier: Option<&Snapshot>,
    keep: bool,
    begun_ms: u64,
) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
    let progressed = || shared.publish_status(Some(PROGRESS));
    let enter = |dir: &Path| {
        shared.enter(watching, dir);
        progressed();
    };
    let index_host = &shared.index_host;
    let earlier = earlier.map(earlier_of);
    let words = take_words_wanted(&mut shared.status(), begun_ms);
    let build = |words| {
        let request = BuildRequest {
            earlier,
            words,
            keep,
        };
        let pool = index_host.pool();
        pool.install(|| index_host.build(&enter, &progressed, request))
    };
    let mut built = build(words);
    if let (true, Err(error)) = (words, &built) {
        shared.status().postpone_words(index_host.now_ms(), error);
        if matches!(error, BuildError::OverMemory { .. }) {
            // Searches are to have an index all the same.
            built = build(false);
        }
    }
    built
}

/// The state in which a build began.
struct BuildStart {
    moment: Moment,
    losses: u64,
    is_watched: bool,
}

/// Updates the state after a built index was put into use. `errors` are the paths that it could not
/// list.
fn adopt(shared: &Shared, timers: &mut Timers, errors: Vec<(PathBuf, String)>, since: BuildStart) {
    if let Some(tree_state) = shared.tree_state() {
        lock(&tree_state).known.set_errors(errors.iter().cloned());
    }
    let mut status = shared.status();
    status.clear(since.moment);
    status.tracking = since.is_watched && status.unwatched.is_none();
    // The findings of earlier searches were about the old index.
    status.outdated = false;
    // If coverage was lost meanwhile, the state says so, and a reconcile follows.
    let was_lost = status.losses != since.losses;
    if errors.is_empty() {
        status.fire(&[Trigger::BuildCompleted]);
    } else {
        status.fire_unlisted(errors.len());
        timers.look_again(shared);
        // Listing again now would find the same errors. Marks or the timer start the next
        // attempt.
        status.reconcile_wanted &= was_lost;
    }
    status.reconcile_wanted &= status.tracking;
    let unwatched = status.unwatched.clone();
    if let Some(why) = &unwatched {
        // The index is complete, but later changes won't be noticed.
        status.fire_unwatched(why.clone(), errors.len());
        status.reconcile_wanted = false;
    }
    status.news_ms = Some(shared.index_host.now_ms());
    if is_unkept(shared, &status) {
        timers.merge_ms = Some(shared.index_host.now_ms().saturating_add(millis(LATER)));
    }
    let again = if status.away { RETRY } else { LATER };
    drop(status);
    if unwatched.is_some() {
        timers.reconcile_ms = shared.index_host.now_ms().saturating_add(millis(again));
        // Watches that prove nothing are released for other processes.
        shared.unwatch();
    }
}

/// Waits until no other process writes the index. Returns whether to store the built index, or
/// `None` to build later: the index that the other process publishes can be opened then. If the
/// other process keeps writing for too long, it may be suspended. Then the index is built in
/// memory.
fn wait_for_writers(shared: &Shared, timers: &mut Timers, is_first: bool) -> Option<bool> {
    let error = match shared.index_host.may_write() {
        Err(error) if error.is_locked() => error,
        // The build reports any other error.
        _ => {
            timers.locked_since_ms = None;
            return Some(true);
        }
    };
    let now_ms = shared.index_host.now_ms();
    let since_ms = *timers.locked_since_ms.get_or_insert(now_ms);
    if !is_first {
        timers.rest(shared, now_ms);
        return None;
    }
    if now_ms.saturating_sub(since_ms) >= millis(LATER) {
        return Some(false);
    }
    shared.fire_because(Trigger::LockTimeout, error.to_string());
    timers.retry_ms = Some(now_ms.saturating_add(millis(RETRY)));
    None
}

/// Returns true if the next build may succeed although nothing changes until then.
fn is_passing(error: &BuildError) -> bool {
    match error {
        BuildError::Stopped => true,
        BuildError::Format(error) => error.is_locked(),
        _ => false,
    }
}

/// Handles a failed build.
fn failed(shared: &Shared, timers: &mut Timers, error: &BuildError, is_first: bool, is_kept: bool) {
    let now_ms = shared.index_host.now_ms();
    let again = |time: Duration| Some(now_ms.saturating_add(millis(time)));
    let root = shown(shared.index_host.root());
    let message = format!("the index of {root} was not built: {error}");
    match is_passing(error) {
        true => tracing::debug!(target: "forge_search::index", "{message}"),
        false => tracing::warn!(target: "forge_search::index", "{message}"),
    }
    // Recorded together with the state, so that other threads see both.
    let why = || error.to_string();
    match error {
        BuildError::Stopped => shared.fire_because(Trigger::BuildFailedClean, why()),
        BuildError::BudgetExceeded(_) => shared.fire_because(Trigger::BuildBudgetExceeded, why()),
        BuildError::OverMemory { .. } if is_kept || !shared.index_host.keeps() => {
            shared.fire_because(Trigger::MemoryExceeded, why());
        }
        // The index was to stay in memory only because another process writes. Start to wait for
        // that process again.
        BuildError::OverMemory { .. } => {
            shared.fire_because(Trigger::BuildFailedClean, why());
            timers.locked_since_ms = Some(now_ms);
            timers.retry_ms = again(RETRY);
        }
        // Another process builds the index. Its result is opened later.
        BuildError::Format(error) if error.is_locked() => {
            shared.fire_because(Trigger::BuildFailedClean, why());
            timers.retry_ms = again(RETRY);
        }
        // Publishing is one rename, so the old index still exists after any failure.
        _ => {
            shared.fire_because(Trigger::BuildFailedClean, why());
            if shared.live_options.retry || !is_first {
                timers.retry_ms = again(LATER);
            }
        }
    }
    let mut status = shared.status();
    status.why = Some(error.to_string());
    status.build_wanted = false;
    if status.published.is_none() {
        // There is no index to compare with the tree, so no reconcile is needed.
        status.reconcile_wanted = false;
    }
}
