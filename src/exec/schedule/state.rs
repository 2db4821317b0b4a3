//! The state of one search: queued, running and finished pieces of work, by position in emission
//! order.
//!
//! The scheduler and its workers share one [`State`] behind a lock. This module owns the choice of
//! the next piece of work, the order of emission, the limit on work ahead of the emission point,
//! and the number of workers. It starts no threads and never waits.

use super::*;
use crate::exec::answer::collect::weight;
use crate::exec::answer::listed::ListedFiles;

/// A position in emission order: the indices on the path through the source.
pub(super) type Position = Box<[u32]>;

pub(super) enum Task<U> {
    Expand(U),
    Search(Vec<EligibleFile>),
}

enum Finished {
    Files(Arc<Vec<EligibleFile>>, Outcomes),
    Listed(ListedFiles),
    Passed(u64),
    Error(FileError),
}

/// Outcomes of files, each with the index of its file in a piece of work.
pub(super) type Outcomes = Vec<(usize, FileOutcome)>;

/// The outcomes of a piece of work in progress that were not emitted yet.
pub(super) type Slot = Arc<Mutex<Outcomes>>;

/// Work that a worker has taken.
pub(super) enum Running {
    Expanding,
    Searching {
        files: Arc<Vec<EligibleFile>>,
        slot: Slot,
        /// The index of the first file whose last outcome was not emitted yet.
        next: usize,
    },
}

pub(super) struct State<U> {
    pub(super) queued: BTreeMap<Position, Task<U>>,
    pub(super) running: BTreeMap<Position, Running>,
    finished: BTreeMap<Position, Finished>,
    finished_bytes: usize,
    finished_results: usize,
    /// Eligible files in `finished`, including skipped files.
    finished_files: u64,
    /// Files to search that were enqueued so far. The size of pieces grows with this number, so
    /// that short searches do little work ahead. Skipped files do not count: they cost nothing, and
    /// the files between them are more likely to fill the answer early.
    enqueued: usize,
    pub(super) collector: Collector,
    /// Whether any part of the answer has been ready.
    pub(super) has_emitted: bool,
    pub(super) failure: Option<EngineError>,
    /// The most workers.
    threads: usize,
    /// Workers that exist or are about to start.
    pub(super) active: usize,
    /// The part of `active` that waits for work.
    pub(super) idle: usize,
    /// The part of `active` that waits within a file until its outcomes can be emitted.
    pub(super) paused: usize,
    /// The part of `active` that has not looked for work yet.
    starting: usize,
    /// The number of workers ever started; used for their names.
    hired: usize,
}

impl<U> State<U> {
    pub(super) fn new(limits: Limits, threads: usize) -> State<U> {
        State {
            queued: BTreeMap::new(),
            running: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_bytes: 0,
            finished_results: 0,
            finished_files: 0,
            enqueued: 0,
            collector: Collector::new(limits),
            has_emitted: false,
            failure: None,
            threads: threads.max(1),
            active: 0,
            idle: 0,
            paused: 0,
            starting: 0,
            hired: 0,
        }
    }

    /// Returns true if the result is known: everything was searched and emitted, or the rest can't
    /// change it.
    pub(super) fn is_decided(&self) -> bool {
        self.collector.is_closed() || self.is_done()
    }

    /// Returns true if no work is queued or running.
    pub(super) fn is_done(&self) -> bool {
        self.queued.is_empty() && self.running.is_empty()
    }

    /// Adds a worker and returns its number, if much more work is queued than there are workers.
    /// Workers call this when they take work.
    pub(super) fn hire_for_much(&mut self) -> Option<usize> {
        self.hire(self.active + NOT_WORTH_A_WORKER)
    }

    /// Adds a worker and returns its number, if work is queued that no starting worker will take.
    pub(super) fn hire_for_any(&mut self) -> Option<usize> {
        self.hire(self.starting)
    }

    /// Adds a worker if more than `spoken_for` pieces of work are queued.
    fn hire(&mut self, spoken_for: usize) -> Option<usize> {
        let (first, _) = self.queued.first_key_value()?;
        let wanted = self.active < self.threads
            && self.idle == 0
            && self.queued.len() > spoken_for
            && !self.beyond_limit(first);
        if !wanted {
            return None;
        }
        self.active += 1;
        self.starting += 1;
        self.hired += 1;
        Some(self.hired)
    }

    /// Records that a worker has started to look for work.
    pub(super) fn started(&mut self) {
        self.starting -= 1;
    }

    /// Removes a worker that could not be started, and stops adding workers. The other workers do
    /// all of the work.
    pub(super) fn no_more_workers(&mut self) {
        self.active -= 1;
        self.starting -= 1;
        self.threads = self.active;
    }

    /// Puts the items of the unit at `parent` in their positions.
    pub(super) fn enqueue(&mut self, parent: &[u32], items: Vec<Item<U>>, batching: Batching) {
        let mut next = 0u32;
        let mut run: Vec<EligibleFile> = Vec::new();
        // Files skipped since the last file in `run`.
        let mut passed = 0u64;
        let mut place = || {
            let mut position = Vec::with_capacity(parent.len() + 1);
            position.extend_from_slice(parent);
            position.push(next);
            next += 1;
            position.into_boxed_slice()
        };
        // A final `None` closes the open run.
        for item in items.into_iter().map(Some).chain([None]) {
            let most = batching.max_files.max(1);
            let piece = (self.enqueued / 16).clamp(most.min(4), most);
            let goes_on = matches!(item, Some(Item::File(_) | Item::Passed(_)));
            if !run.is_empty() && (run.len() >= piece || !goes_on) {
                self.enqueued += run.len();
                self.queued
                    .insert(place(), Task::Search(std::mem::take(&mut run)));
            }
            if passed > 0 && !goes_on {
                self.finished_files = self.finished_files.saturating_add(passed);
                self.finished
                    .insert(place(), Finished::Passed(std::mem::take(&mut passed)));
            }
            match item {
                Some(Item::File(mut file)) => {
                    let before = std::mem::take(&mut passed);
                    file.passed_before = file.passed_before.saturating_add(before);
                    run.push(file);
                }
                Some(Item::Passed(count)) => passed = passed.saturating_add(count),
                Some(Item::Listed(files)) => {
                    self.finished_bytes += files.footprint();
                    self.finished_results += files.len();
                    self.finished_files = self.finished_files.saturating_add(files.len() as u64);
                    self.finished.insert(place(), Finished::Listed(files));
                }
                Some(Item::Unit(unit)) => {
                    self.queued.insert(place(), Task::Expand(unit));
                }
                Some(Item::Error(error)) => {
                    self.finished.insert(place(), Finished::Error(error));
                }
                None => {}
            }
        }
    }

    /// Passes finished work to the collector, up to the first position where earlier work is
    /// missing.
    pub(super) fn emit(&mut self) {
        while !self.collector.is_closed()
            && let Some(entry) = self.finished.first_entry()
        {
            let gap = [
                self.queued.first_key_value().map(|(p, _)| p),
                self.running.first_key_value().map(|(p, _)| p),
            ];
            if gap
                .into_iter()
                .flatten()
                .any(|position| position < entry.key())
            {
                break;
            }
            match entry.remove() {
                Finished::Error(error) => self.collector.error(error),
                Finished::Passed(count) => {
                    self.finished_files = self.finished_files.saturating_sub(count);
                    self.collector.passed(count);
                }
                Finished::Listed(files) => {
                    self.finished_bytes -= files.footprint();
                    self.finished_results -= files.len();
                    self.finished_files = self.finished_files.saturating_sub(files.len() as u64);
                    self.collector.listed(files);
                }
                Finished::Files(files, outcomes) => {
                    self.finished_bytes -= footprint(&outcomes);
                    self.finished_results -= self.weight(&outcomes);
                    let count = eligible(&files, &outcomes);
                    self.finished_files = self.finished_files.saturating_sub(count);
                    for (at, outcome) in outcomes {
                        self.collector.file(&files, at, outcome);
                    }
                }
            }
        }
        debug_assert!(
            !self.finished.is_empty()
                || (
                    self.finished_files,
                    self.finished_results,
                    self.finished_bytes
                ) == (0, 0, 0),
            "what was emitted is counted as waiting"
        );
        // The limit of files may end the search before the next file.
        let queued = self.queued.first_key_value();
        let running = self.running.first_key_value();
        let next = match (queued, running) {
            (Some((at, task)), running) if running.is_none_or(|(other, _)| at < other) => {
                match task {
                    Task::Search(files) => files.first(),
                    Task::Expand(_) => None,
                }
            }
            (_, Some((_, Running::Searching { files, next, .. }))) => files.get(*next),
            _ => None,
        };
        if let Some(file) = next {
            self.collector.announce(file);
        }
    }

    /// Emits finished work, and then the outcomes so far of the worker at the gap.
    pub(super) fn emit_up_to_gap(&mut self) {
        self.emit();
        if self.collector.is_closed() {
            return;
        }
        let first_queued = self.queued.first_key_value().map(|(position, _)| position);
        if let Some(mut entry) = self.running.first_entry()
            && first_queued.is_none_or(|queued| entry.key() < queued)
            && let Running::Searching { files, slot, next } = entry.get_mut()
        {
            for (at, outcome) in std::mem::take(&mut *lock(slot)) {
                *next = at + usize::from(!outcome.continues);
                self.collector.file(files, at, outcome);
            }
        }
    }

    /// Returns true if the work at a position is the next to be emitted, apart from finished work.
    pub(super) fn is_at_gap(&self, position: &Position) -> bool {
        let is_first = |first: Option<&Position>| first.is_none_or(|first| position <= first);
        is_first(self.queued.first_key_value().map(|(first, _)| first))
            && is_first(self.running.first_key_value().map(|(first, _)| first))
    }

    /// Puts the outcomes of a searched piece into the window of finished work.
    pub(super) fn finish(
        &mut self,
        position: Position,
        files: Arc<Vec<EligibleFile>>,
        outcomes: Outcomes,
    ) {
        self.finished_bytes += footprint(&outcomes);
        self.finished_results += self.weight(&outcomes);
        let count = eligible(&files, &outcomes);
        self.finished_files = self.finished_files.saturating_add(count);
        self.finished
            .insert(position, Finished::Files(files, outcomes));
    }

    /// Returns the number of results in outcomes.
    fn weight(&self, outcomes: &Outcomes) -> usize {
        let report = self.collector.report();
        let weights = outcomes.iter().map(|(_, outcome)| weight(outcome, report));
        weights.sum()
    }

    /// Returns true if finished work already exceeds a limit of the call. Then work after it can't
    /// be part of the result.
    fn beyond_limit(&self, position: &Position) -> bool {
        let enough = self.finished_results > self.collector.room()
            || self.finished_files > self.collector.files_left();
        enough
            && self
                .finished
                .last_key_value()
                .is_some_and(|(last, _)| position > last)
    }

    /// Returns true if finished work that can't be emitted yet fills the window.
    fn window_full(&self) -> bool {
        self.finished.len() >= WINDOW_PIECES || self.finished_bytes >= WINDOW_BYTES
    }

    /// Takes the earliest piece of work that should be done now.
    pub(super) fn take(&mut self, batching: Batching) -> Option<TakenTask<U>> {
        let (first, _) = self.queued.first_key_value()?;
        if self.beyond_limit(first)
            || self.collector.ready_bytes() >= READY_BYTES
            || self.window_full()
                && self
                    .running
                    .first_key_value()
                    .is_some_and(|(running, _)| running < first)
        {
            return None;
        }
        // Engines with a high cost per task need many files: list more directories before searching
        // a few files.
        let mut files = 0;
        let mut expand = None;
        for (position, task) in &self.queued {
            match task {
                Task::Search(run) => files += run.len(),
                Task::Expand(_) => {
                    if files < batching.min_files {
                        expand = Some(position.clone());
                    }
                    break;
                }
            }
            if files >= batching.min_files {
                break;
            }
        }
        if expand.is_none() && files < batching.min_files && self.expanding() {
            // A running expansion will provide more files.
            return None;
        }
        let position = match expand {
            Some(position) => position,
            None => self.queued.first_key_value()?.0.clone(),
        };
        match self.queued.remove(&position)? {
            Task::Expand(unit) => {
                self.running.insert(position.clone(), Running::Expanding);
                Some(TakenTask::Expand(position, unit))
            }
            Task::Search(files) => {
                let mut pieces = VecDeque::new();
                let mut total = files.len();
                self.take_piece(position, files, &mut pieces);
                while total < batching.min_files
                    && let Some(entry) = self.queued.first_entry()
                    && let Task::Search(next) = entry.get()
                    && total + next.len() <= batching.max_files
                {
                    let (position, task) = entry.remove_entry();
                    if let Task::Search(files) = task {
                        total += files.len();
                        self.take_piece(position, files, &mut pieces);
                    }
                }
                Some(TakenTask::Search(pieces))
            }
        }
    }

    fn take_piece(
        &mut self,
        position: Position,
        files: Vec<EligibleFile>,
        pieces: &mut VecDeque<Piece>,
    ) {
        let files = Arc::new(files);
        let slot = Slot::default();
        let running = Running::Searching {
            files: files.clone(),
            slot: slot.clone(),
            next: 0,
        };
        self.running.insert(position.clone(), running);
        pieces.push_back(Piece {
            position,
            files,
            slot,
        });
    }

    fn expanding(&self) -> bool {
        self.running
            .values()
            .any(|running| matches!(running, Running::Expanding))
    }
}

/// A run of files at one position.
pub(super) struct Piece {
    pub(super) position: Position,
    pub(super) files: Arc<Vec<EligibleFile>>,
    pub(super) slot: Slot,
}

pub(super) enum TakenTask<U> {
    Expand(Position, U),
    Search(VecDeque<Piece>),
}

/// Counts the eligible files that outcomes complete: these files and the skipped files before them.
fn eligible(files: &[EligibleFile], outcomes: &Outcomes) -> u64 {
    outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.continues)
        .map(|(at, _)| files[*at].passed_before.saturating_add(1))
        .fold(0, u64::saturating_add)
}

fn footprint(outcomes: &Outcomes) -> usize {
    outcomes
        .iter()
        .map(|(_, outcome)| outcome.footprint())
        .sum()
}
