//! The checks of `health`.
//!
//! This module owns the decision which findings are `ok`, a warning or a failure. A check changes
//! nothing, and reports only facts that it has just read.

mod index_files;
mod paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::LiveIndexState;
use crate::exec::process::git::Untracked;
use crate::exec::sources::catalog::without_dead;
use crate::format::error::FormatError;
use crate::format::publish::is_unfinished;
use crate::index::live::Report;
use crate::index::snapshot::Snapshot;
use crate::index::state::IndexState;
use crate::index::walk::{Entry, IgnoreRules, Walk};
use crate::tool::daemon::git::git_dir;
use crate::tool::daemon::report::{Check, Health, Severity};
use crate::tool::daemon::service::Service;
use crate::tool::indexing::index_traversal;
use index_files::{failed, manifest, segments, word_table};
use paths::Paths;

/// The message of checks that need an index where there is no index.
const NO_INDEX: &str = "there is no index, so every search reads the whole tree";

/// How many files the check compares with the catalog.
const SAMPLE: usize = 1_000;

/// How many paths the check reads at most.
const PATHS: usize = 200_000;

/// The percentage of a budget from which on the check warns.
const NEAR: u64 = 90;

/// How long git may take to list files.
const HEALTH_GIT: Duration = Duration::from_secs(5);

/// The codes of the checks of each index.
const OF_INDEX: [&str; 7] = [
    "manifest_present",
    "segments_present",
    "tombstones_enforced",
    "path_safety",
    "casefold_collisions",
    "catalog_drift",
    "segment_growth",
];

impl Service {
    /// Returns the answer to `health`. Blocks: it reads the whole index, and runs git to count
    /// untracked files.
    pub fn health(&self) -> Health {
        let stale = self.is_stale();
        let in_use = self.in_use(self.parts.search.indexes(), stale);
        let report = in_use.as_ref().map(|one| &one.report);
        let snapshot = in_use.as_ref().and_then(|one| one.snapshot.as_deref());
        let mut checks = match &in_use {
            Some(in_use) => self.of_index(in_use),
            None => self.without_index(&OF_INDEX),
        };
        // `search_files` may have an index of its own; its findings count alike.
        let other = self.in_use(self.files_own(), stale);
        let has_own = |other: &&LiveIndexState<'_>| other.snapshot.is_some() || failed(other);
        if let Some(other) = other.as_ref().filter(has_own) {
            for (check, other) in checks.iter_mut().zip(self.of_index(other)) {
                check.severity = check.severity.max(other.severity);
                check.message = format!("{}; search_files: {}", check.message, other.message);
            }
        }
        checks.push(self.root_present());
        checks.push(self.watcher(report, stale));
        checks.push(self.hygiene());
        checks.push(self.leftovers(report));
        let mut budgets = self.budgets();
        for in_use in in_use.iter().chain(&other) {
            note_refusal(&mut budgets, in_use);
        }
        checks.extend(budgets);
        checks.push(word_table());
        checks.push(ok(
            "embed_limiter",
            "texts are compared while a question is answered; there are no batches to limit",
        ));
        if stale {
            checks.push(warn(
                "stale_config",
                "the configuration has changed since the daemon started; clients with the new \
                 configuration start another daemon",
            ));
        }
        let id = snapshot.map(|snapshot| self.name_of(snapshot));
        Health::new(self.served.store_id.clone(), id, checks)
    }

    /// Checks one index: one check for each of [`OF_INDEX`], in that order.
    fn of_index(&self, in_use: &LiveIndexState<'_>) -> Vec<Check> {
        let snapshot = in_use.snapshot.as_deref();
        let mut checks = vec![manifest(in_use), segments(in_use)];
        let looked_at = match snapshot {
            None => self.without_index(&OF_INDEX[2..]),
            Some(snapshot) => self.catalog(in_use, snapshot).unwrap_or_else(|error| {
                let damaged = format!(
                    "the index is damaged: {error}; `forge-search index build` replaces it"
                );
                OF_INDEX[2..]
                    .iter()
                    .map(|code| fail(code, damaged.as_str()))
                    .collect()
            }),
        };
        checks.extend(looked_at);
        checks
    }

    /// Checks the paths of the tree itself, where there is no index.
    fn without_index(&self, codes: &[&str]) -> Vec<Check> {
        let paths = self.walked();
        let of = |code: &&str| match *code {
            "path_safety" => paths.safety(),
            "casefold_collisions" => paths.collisions(),
            code => ok(code, NO_INDEX),
        };
        codes.iter().map(of).collect()
    }

    /// Walks the tree, up to [`PATHS`] files and as many directories.
    fn walked(&self) -> Paths {
        let mut paths = Paths {
            all: Vec::new(),
            of: None,
            outside: 0,
        };
        let sandbox = self.parts.context.sandbox.clone();
        let Some((root, real)) = sandbox.reach().locate(&self.parts.root) else {
            return paths;
        };
        let deny = sandbox.reach().deny().clone();
        let allowed: Vec<PathBuf> = sandbox
            .reach()
            .roots()
            .iter()
            .map(|root| root.into())
            .collect();
        let walk = Walk::new(
            root,
            real,
            index_traversal(&self.parts.config.search, IgnoreRules::All),
            deny,
            Arc::new(move |path: &Path| sandbox.reach().locate(path)),
            self.parts.context.global_excludes.as_deref(),
        );
        let mut todo = vec![walk.start()];
        for _ in 0..PATHS {
            let Some(node) = todo.pop() else {
                paths.of = Some(paths.all.len() as u64);
                break;
            };
            for entry in walk.list(&node, &|_, _| true) {
                match entry {
                    Entry::Dir(node) => todo.push(node),
                    Entry::File(file, _) => {
                        // A followed link may lead to any place that the sandbox allows.
                        let real = file.absolute();
                        let inside = allowed.iter().any(|root| real.starts_with(root));
                        paths.outside += usize::from(!inside);
                        paths.all.push(file.logical());
                    }
                    // Unreadable entries have no paths.
                    Entry::Error(..) => {}
                }
            }
            if paths.all.len() >= PATHS {
                break;
            }
        }
        paths
    }

    /// Runs the checks that read the catalog.
    fn catalog(
        &self,
        in_use: &LiveIndexState<'_>,
        snapshot: &Snapshot,
    ) -> Result<Vec<Check>, FormatError> {
        let paths = Paths::of(snapshot)?;
        Ok(vec![
            self.tombstones(in_use, snapshot)?,
            paths.safety(),
            paths.collisions(),
            self.drift(in_use, snapshot)?,
            growth(snapshot),
        ])
    }
}

impl Service {
    /// Compares the files of these ranks with the catalog; returns for each whether it is
    /// unchanged.
    fn unchanged(
        &self,
        in_use: &LiveIndexState<'_>,
        snapshot: &Snapshot,
        ranks: impl Iterator<Item = u32>,
    ) -> Result<BTreeMap<u32, bool>, FormatError> {
        let root = in_use.indexes.root_for(&self.parts.root);
        let Some((allowed, base)) =
            root.and_then(|root| self.parts.context.sandbox.reach().locate(&root))
        else {
            return Ok(BTreeMap::new());
        };
        let mut by_dir: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in ranks {
            let dir = snapshot.segment().file(rank)?.dir;
            by_dir.entry(dir).or_default().push(rank);
        }
        let mut all = BTreeMap::new();
        for (dir, ranks) in by_dir {
            let same = snapshot.unchanged(&allowed, &base, dir, &ranks)?;
            all.extend(ranks.into_iter().zip(same));
        }
        Ok(all)
    }

    /// Checks that no file that is gone or replaced is a candidate, and that each file with a
    /// tombstone is really gone or replaced.
    fn tombstones(
        &self,
        in_use: &LiveIndexState<'_>,
        snapshot: &Snapshot,
    ) -> Result<Check, FormatError> {
        let code = "tombstones_enforced";
        let overlay = snapshot.overlay();
        let Some(dead) = overlay.dead() else {
            return Ok(ok(code, "no file of the segment was deleted or replaced"));
        };
        let all = 0..snapshot.segment().file_count();
        let live = without_dead(snapshot, all.clone(), None);
        let is_live = |rank| live.as_ref().is_none_or(|live| live.contains(rank));
        let leaked = dead.iter(all.clone()).filter(|rank| is_live(*rank)).count();
        let sample: Vec<u32> = dead.iter(all).take(SAMPLE).collect();
        let mut wrong = 0;
        for (rank, same) in self.unchanged(in_use, snapshot, sample.iter().copied())? {
            let path = snapshot.segment().path(rank)?;
            wrong += u64::from(same && overlay.extra(&path).is_none());
        }
        let (count, seen) = (overlay.dead_count(), sample.len());
        Ok(match (leaked, wrong) {
            (0, 0) => ok(
                code,
                format!(
                    "deleted or replaced files of the segment: {count}; searches skip all of them \
                     ({seen} were checked)"
                ),
            ),
            (0, wrong) => fail(
                code,
                format!("{wrong} of {seen} files that are marked as deleted exist"),
            ),
            (leaked, _) => fail(
                code,
                format!(
                    "{leaked} of {count} files that were deleted or replaced are still \
                     candidates"
                ),
            ),
        })
    }

    /// Compares files with the catalog. A difference is fine if a change of the tree is already
    /// known.
    fn drift(
        &self,
        in_use: &LiveIndexState<'_>,
        snapshot: &Snapshot,
    ) -> Result<Check, FormatError> {
        let code = "catalog_drift";
        let files = snapshot.segment().file_count();
        let dead = snapshot.overlay().dead();
        let step = usize::try_from(files)
            .unwrap_or(usize::MAX)
            .div_ceil(SAMPLE)
            .max(1);
        let ranks = (0..files)
            .step_by(step)
            .filter(|rank| !dead.is_some_and(|dead| dead.contains(*rank)));
        let compared = self.unchanged(in_use, snapshot, ranks)?;
        let changed = compared.values().filter(|same| !**same).count();
        let meta = snapshot.segment().meta();
        if meta.files != files {
            let message = format!(
                "the segment claims {} files, but its table has {files}",
                meta.files
            );
            return Ok(fail(code, message));
        }
        let known = in_use.report.dirty;
        let seen = compared.len();
        Ok(match changed {
            0 => ok(
                code,
                format!("{seen} of {files} files were compared and match the catalog"),
            ),
            changed if changed <= known => ok(
                code,
                format!(
                    "{changed} of {seen} files have just changed, and {known} changes are waiting \
                     to be processed"
                ),
            ),
            changed => warn(
                code,
                format!(
                    "{changed} of {seen} files differ from the catalog; every search reads changed \
                     files itself"
                ),
            ),
        })
    }

    fn root_present(&self) -> Check {
        let code = "root_present";
        match std::fs::read_dir(&self.parts.root) {
            Ok(_) => ok(code, "the root exists and can be listed"),
            Err(error) => fail(
                code,
                format!("the root can't be listed: {error}; every search fails until it can be"),
            ),
        }
    }

    fn watcher(&self, report: Option<&Report>, stale: bool) -> Check {
        let code = "watcher";
        let indexes = self.parts.search.indexes();
        let living =
            indexes.and_then(|indexes| indexes.living(&indexes.root_for(&self.parts.root)?));
        let processes: std::collections::BTreeSet<u32> =
            living.iter().flatten().map(|one| one.process).collect();
        match report {
            None if stale => warn(code, "the tree is no longer watched"),
            None => ok(code, "no live index is running"),
            Some(Report {
                unwatched: Some(why),
                ..
            }) => warn(
                code,
                format!("the tree is not watched, so each search compares it: {why}"),
            ),
            Some(_) if processes.len() > 1 => warn(
                code,
                format!(
                    "{} processes watch this tree, each with its own watches; processes with the \
                     same configuration could share a daemon",
                    processes.len()
                ),
            ),
            Some(Report {
                index_state: IndexState::Disabled(_),
                ..
            }) => ok(
                code,
                "no live index is running: none is needed, or none can be built",
            ),
            Some(report) => ok(
                code,
                format!(
                    "the tree is watched; the state is {}",
                    report.index_state.state().as_str()
                ),
            ),
        }
    }

    fn hygiene(&self) -> Check {
        let code = "repo_hygiene";
        let Some(dir) = git_dir(&self.parts.root) else {
            return ok(code, "the root is not the top of a git working tree");
        };
        let Some(git) = self.git(&dir, HEALTH_GIT) else {
            return ok(code, "there is no git on the search path");
        };
        match git.untracked() {
            Err(why) => warn(code, format!("git can't list untracked files: {why}")),
            Ok(Untracked { files: 0, .. }) => ok(code, "git tracks every file that is not ignored"),
            Ok(Untracked {
                files,
                bytes,
                whole,
            }) => {
                let more = if whole { "" } else { "at least " };
                warn(
                    code,
                    format!(
                        "{more}{files} files with {bytes} bytes are neither tracked nor ignored by \
                         git; searches find text in those that are not hidden"
                    ),
                )
            }
        }
    }

    /// Checks that no unfinished files were left behind.
    fn leftovers(&self, report: Option<&Report>) -> Check {
        let code = "artifact_integrity";
        let mut begun = Vec::new();
        for indexes in self.indexes() {
            for dir in indexes.dirs() {
                let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
                let names = entries.map(|entry| entry.file_name());
                begun.extend(names.filter(|name| is_unfinished(name)));
            }
        }
        let at_work = report.is_some_and(|report| report.busy);
        match begun.is_empty() {
            false if at_work => ok(code, "an index is being written at the moment"),
            true => ok(
                code,
                "there are no unfinished files; there are no models or grammars",
            ),
            false => warn(
                code,
                format!(
                    "unfinished files: {}; the next build removes them",
                    begun.len()
                ),
            ),
        }
    }

    fn budgets(&self) -> Vec<Check> {
        let resources = self.resources(self.absent().resources);
        let disk = &resources.disk;
        let handles = &resources.open_handles;
        // Each index has a budget of its own.
        let sizes = self.indexes().filter_map(|indexes| {
            let store = indexes.store()?;
            indexes.dirs().map(|dir| store.look_at(&dir).bytes).max()
        });
        vec![
            budget(
                "disk_store",
                sizes.max().unwrap_or(0),
                self.parts.config.search.index_max_store_bytes,
                "bytes of the larger index of this tree",
            ),
            budget(
                "disk_cache",
                disk.cache_bytes,
                disk.cache_budget_bytes,
                "bytes of all indexes",
            ),
            budget(
                "disk_log",
                disk.log_bytes,
                disk.log_budget_bytes,
                "bytes of logs",
            ),
            budget(
                "open_handles",
                handles.segments_open,
                handles.segments_budget,
                "open segments",
            ),
        ]
    }
}

/// Checks that the overlay is small compared with the segment.
fn growth(snapshot: &Snapshot) -> Check {
    let overlay = snapshot.overlay();
    let (files, dead, beside) = (
        u64::from(snapshot.segment().file_count()),
        u64::from(overlay.dead_count()),
        overlay.extras().len() as u64,
    );
    let bytes = snapshot.segment().storage().len();
    let message = format!(
        "1 segment with {files} files and {bytes} bytes, {dead} tombstones, {beside} files besides \
         the segment"
    );
    // A merge is due at an eighth of the files, or at 2,048 changes if that is more. The overlay
    // grows on where no merge is possible.
    match dead + beside > 2 * (files / 8).max(2_048) {
        true => warn("segment_growth", format!("{message}; a merge is overdue")),
        false => ok("segment_growth", message),
    }
}

/// Warns about the budget for which an index was refused, even if the current use is within it.
fn note_refusal(budgets: &mut [Check], in_use: &LiveIndexState<'_>) {
    let Some(why) = in_use.report.why.as_ref().filter(|_| failed(in_use)) else {
        return;
    };
    let keys = [
        ("disk_store", "index_max_store_bytes"),
        ("disk_cache", "index_max_db_bytes"),
    ];
    for check in budgets {
        let key = keys.iter().find(|(code, _)| *code == check.code);
        if key.is_none_or(|(_, key)| !why.contains(key)) {
            continue;
        }
        check.severity = check.severity.max(Severity::Warn);
        // The reason of the refusal already says what to do.
        check.message = format!(
            "{}; an index of this tree was refused: {why}",
            check.message
        );
    }
}

fn budget(code: &str, used: u64, most: u64, what: &str) -> Check {
    let message = format!("{used} of {most} {what}");
    match used {
        used if used > most => fail(
            code,
            format!("{message}: nothing more is stored until there is room"),
        ),
        used if u128::from(used) * 100 >= u128::from(most) * u128::from(NEAR) => {
            warn(code, format!("{message}: nearly the limit"))
        }
        _ => ok(code, message),
    }
}

fn ok(code: &str, message: impl Into<String>) -> Check {
    check(code, Severity::Ok, message)
}

fn warn(code: &str, message: impl Into<String>) -> Check {
    check(code, Severity::Warn, message)
}

fn fail(code: &str, message: impl Into<String>) -> Check {
    check(code, Severity::Fail, message)
}

fn check(code: &str, severity: Severity, message: impl Into<String>) -> Check {
    Check {
        code: code.to_string(),
        severity,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests;
