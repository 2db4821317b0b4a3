//! What is queued, running and finished, by position in emission order.
//!
//! Owns which piece of work comes next, what may be emitted, how far ahead is looked and how many workers
//! there should be. It starts nothing and waits for nobody.

use super::*;
use crate::exec::collect::weight;

/// A position in emission order: the indices on the way through the source.
pub(super) type Position = Box<[u32]>;

pub(super) enum Task<U> {
    Expand(U),
    Search(Vec<EligibleFile>),
}

enum Finished {
    Files(Arc<Vec<EligibleFile>>, Vec<FileOutcome>),
    Passed(u64),
    Error(FileError),
}

/// Outcomes of a piece of work in progress, readable by the waiting call at any time.
pub(super) type Slot = Arc<Mutex<Vec<FileOutcome>>>;

/// Work that a thread has taken.
pub(super) enum Running {
    Expanding,
    Searching(Arc<Vec<EligibleFile>>, Slot),
}

pub(super) struct State<U> {
    pub(super) queued: BTreeMap<Position, Task<U>>,
    pub(super) running: BTreeMap<Position, Running>,
    finished: BTreeMap<Position, Finished>,
    finished_bytes: usize,
    finished_results: usize,
    /// Eligible files in `finished`, those that were passed over included.
    finished_files: u64,
    /// Files to be searched that were enqueued so far; pieces grow with it, so that short searches do little
    /// ahead. Files that are passed over do not count: they cost nothing, and those between them that remain
    /// are all the likelier to fill the answer early.
    enqueued: usize,
    pub(super) collector: Collector,
    /// Some part of the answer was ready at some time.
    pub(super) has_emitted: bool,
    pub(super) failure: Option<EngineError>,
    /// Workers that there may be at most.
    threads: usize,
    /// Workers that are there, or about to start.
    pub(super) active: usize,
    /// Of these, the ones that found nothing to do.
    pub(super) idle: usize,
    /// Of these, the ones that have not looked for work yet.
    starting: usize,
    /// Workers that ever were, for their names.
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
            starting: 0,
            hired: 0,
        }
    }

    /// Whether the result is known: everything was searched and emitted, or what is left can't change it.
    pub(super) fn is_decided(&self) -> bool {
        self.collector.is_closed() || self.is_done()
    }

    /// Whether there is no work left, neither to take nor in progress.
    pub(super) fn is_done(&self) -> bool {
        self.queued.is_empty() && self.running.is_empty()
    }

    /// Counts one more worker in and returns its number, if much more work waits than there are workers. That is
    /// what workers ask for when they come by.
    pub(super) fn hire_for_much(&mut self) -> Option<usize> {
        self.hire(self.active + NOT_WORTH_A_WORKER)
    }

    /// Counts one more worker in and returns its number, if any work waits that no worker is about to start with.
    pub(super) fn hire_for_any(&mut self) -> Option<usize> {
        self.hire(self.starting)
    }

    /// Counts one more worker in if it has something to do besides `spoken_for` pieces of work.
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

    /// Hears of a worker that starts with its work.
    pub(super) fn started(&mut self) {
        self.starting -= 1;
    }

    /// Counts a worker out that could not be started. The others will do all of the work.
    pub(super) fn no_more_workers(&mut self) {
        self.active -= 1;
        self.starting -= 1;
        self.threads = self.active;
    }

    /// Puts the items of an expanded unit at `parent` in their places.
    pub(super) fn enqueue(&mut self, parent: &[u32], items: Vec<Item<U>>, batching: Batching) {
        let mut next = 0u32;
        let mut run: Vec<EligibleFile> = Vec::new();
        // Files passed over since the last one in `run`.
        let mut passed = 0u64;
        let mut place = || {
            let mut position = Vec::with_capacity(parent.len() + 1);
            position.extend_from_slice(parent);
            position.push(next);
            next += 1;
            position.into_boxed_slice()
        };
        // The end is one more item behind which nothing is open any more.
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

    /// Hands everything to the collector that no earlier work is missing for.
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
                Finished::Files(files, outcomes) => {
                    self.finished_bytes -= footprint(&outcomes);
                    self.finished_results -= self.weight(&outcomes);
                    let count = eligible(&files, &outcomes);
                    self.finished_files = self.finished_files.saturating_sub(count);
                    for (at, outcome) in outcomes.into_iter().enumerate() {
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
        // The limit of files may end the search before the file that would be next.
        let queued = self.queued.first_key_value();
        let running = self.running.first_key_value();
        let next = match (queued, running) {
            (Some((at, task)), running) if running.is_none_or(|(other, _)| at < other) => {
                match task {
                    Task::Search(files) => files.first(),
                    Task::Expand(_) => None,
                }
            }
            (_, Some((_, Running::Searching(files, _)))) => files.first(),
            _ => None,
        };
        if let Some(file) = next {
            self.collector.announce(file);
        }
    }

    /// Emits what can be, then what the thread at the gap has found so far.
    pub(super) fn emit_up_to_gap(&mut self) {
        self.emit();
        if self.collector.is_closed() {
            return;
        }
        let first_queued = self.queued.first_key_value().map(|(position, _)| position);
        if let Some((position, Running::Searching(files, slot))) = self.running.first_key_value()
            && first_queued.is_none_or(|queued| position < queued)
        {
            let outcomes = std::mem::take(&mut *lock(slot));
            for (at, outcome) in outcomes.into_iter().enumerate() {
                self.collector.file(files, at, outcome);
            }
        }
    }

    /// Puts the outcomes of a searched piece into the window.
    pub(super) fn finish(
        &mut self,
        position: Position,
        files: Arc<Vec<EligibleFile>>,
        outcomes: Vec<FileOutcome>,
    ) {
        self.finished_bytes += footprint(&outcomes);
        self.finished_results += self.weight(&outcomes);
        let count = eligible(&files, &outcomes);
        self.finished_files = self.finished_files.saturating_add(count);
        self.finished
            .insert(position, Finished::Files(files, outcomes));
    }

    /// Returns how many results outcomes have.
    fn weight(&self, outcomes: &[FileOutcome]) -> usize {
        let report = self.collector.report();
        outcomes.iter().map(|outcome| weight(outcome, report)).sum()
    }

    /// Whether what is finished reaches beyond a limit of the call already: then nothing behind it can be
    /// part of the result.
    fn beyond_limit(&self, position: &Position) -> bool {
        let enough = self.finished_results > self.collector.room()
            || self.finished_files > self.collector.files_left();
        enough
            && self
                .finished
                .last_key_value()
                .is_some_and(|(last, _)| position > last)
    }

    /// Whether what is finished but can't be emitted fills the window.
    fn window_full(&self) -> bool {
        self.finished.len() >= WINDOW_PIECES || self.finished_bytes >= WINDOW_BYTES
    }

    /// Takes the earliest piece of work that should be done now.
    pub(super) fn take(&mut self, batching: Batching) -> Option<Taken<U>> {
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
        // Engines with a high cost per task want more files: list further before searching few.
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
            // More files are about to be known.
            return None;
        }
        let position = match expand {
            Some(position) => position,
            None => self.queued.first_key_value()?.0.clone(),
        };
        match self.queued.remove(&position)? {
            Task::Expand(unit) => {
                self.running.insert(position.clone(), Running::Expanding);
                Some(Taken::Expand(position, unit))
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
                Some(Taken::Search(pieces))
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
        let running = Running::Searching(files.clone(), slot.clone());
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

pub(super) enum Taken<U> {
    Expand(Position, U),
    Search(VecDeque<Piece>),
}

/// Counts the eligible files that a searched piece stands for: the files and those passed over before them.
fn eligible(files: &[EligibleFile], outcomes: &[FileOutcome]) -> u64 {
    files
        .iter()
        .zip(outcomes)
        .map(|(file, _)| file.passed_before.saturating_add(1))
        .fold(0, u64::saturating_add)
}

pub(super) fn footprint(outcomes: &[FileOutcome]) -> usize {
    outcomes.iter().map(FileOutcome::footprint).sum()
}
