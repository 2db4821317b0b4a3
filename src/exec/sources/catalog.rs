//! A source of eligible files and candidates from the catalog of an index.
//!
//! The catalog lists the files of a tree in emission order. The *rank* of a file is its position in
//! that list.
//!
//! This module turns a snapshot into an ordered [`FileSource`]: restricts it to the requested
//! subtree and globs, and intersects sets of ranks to find the candidates. All other eligible files
//! can be skipped. Before it skips a file, the source may check it for changes. [`ChangeCheck`]
//! says which files: none, those with several hard links, or all. `comparing` compares directories
//! with the tree while the source returns files.
//!
//! The catalog can't answer every request. The caller checks that it can before it makes a source.

pub(crate) mod comparing;
mod eligible;
mod items;
mod ruled_out;
mod units;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::comparing::{Comparison, Refusal, TreeDifferences};
use self::eligible::{CatalogPart, ExtraFile, extra_files, larger};
use self::units::Cutter;
use crate::exec::answer::listed::ListedFiles;
use crate::exec::question::IndexList;
use crate::exec::sources::eligible::{FileSource, Globs, Item, PathUnit, WantedWords};
use crate::exec::stop::Stop;
use crate::exec::stop::allowance::Allowance;
use crate::format::error::FormatError;
use crate::index::plan::SupersetSafe;
use crate::index::ranks::RankSet;
use crate::index::root_dir::RootDir;
use crate::index::segment::candidates::Candidates;
use crate::index::segment::words::WordHits;
use crate::index::snapshot::Snapshot;
use crate::index::walk::RuleSets;

/// Sizes of the first unit of a source and of the largest, in candidates. Units grow, so that
/// searches that end early do little work ahead. With [`ChangeCheck::All`] all eligible files
/// count, and directories that are compared along the way count, too.
const FIRST_UNIT: u64 = 32;
const LARGEST_UNIT: u64 = 512;

/// Candidate parts of a file are read first if their size is at most the file's size divided by
/// this. If a line in them matches, the whole file is read again.
const SPAN_SHARE: u64 = 2;

/// The part of the catalog that a request is about.
#[derive(Clone, Debug)]
pub struct RequestedPart {
    /// The allowed root that holds the index root.
    pub root: Arc<RootDir>,
    /// The index root, relative to `root`.
    pub base: PathBuf,
    /// The requested directory, relative to the index root.
    pub path: PathBuf,
    /// Whether subdirectories count.
    pub recursive: bool,
    /// The most components of a file's path relative to `path`, if there is a limit.
    pub max_depth: Option<usize>,
    /// The largest file that is searched, in bytes. The answer names each larger file.
    pub max_file_size: u64,
    /// Whether the default denied patterns apply, which the catalog does not know.
    pub withholds: bool,
    /// Whether the request is for a list of all files.
    pub lists: bool,
    /// The list of files that is wanted in place of results.
    pub by_index: IndexList,
    /// The sets of ignore rules of the request. A file is eligible only if every set admits it.
    pub sets: RuleSets,
    /// The terms of a ranked question. Files whose words are known and that have none of them are
    /// skipped.
    pub words: Option<Arc<WantedWords>>,
}

/// Which of the files to skip are checked for changes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeCheck {
    /// No file: every change is noticed already, for example by a watcher.
    None,
    /// Files with several hard links: a change through another link may not be noticed.
    Linked,
    /// Every file to skip.
    All,
}

/// An ordered source of files over a snapshot.
pub struct CatalogSource {
    snapshot: Arc<Snapshot>,
    part: RequestedPart,
    ranks: Range<u32>,
    /// The ranks of the request's files. `None` if these are all in `ranks`.
    eligible: Option<Arc<RankSet>>,
    in_segment: InSegment,
    /// Eligible files that the catalog lacks, in the order of their places.
    extra_files: Vec<ExtraFile>,
    /// Files that are listed in addition, relative to the requested directory.
    listed: ListedFiles,
    look: ChangeCheck,
    /// Whether an eligible file lies deeper than `max_depth`.
    is_cut: bool,
    /// The sizes of the first unit and of the largest.
    unit_sizes: (u64, u64),
    /// Compares directories along the way. `None` if they were compared before.
    comparison: Option<Comparison>,
    failure: Arc<OnceLock<FormatError>>,
}

/// The files of a segment in which a request may find something, by their content when they were
/// indexed.
#[derive(Clone)]
struct InSegment {
    candidates: Candidates,
    /// The files that have a term of a ranked question.
    hits: WordHits,
}

impl InSegment {
    fn of(
        snapshot: &Snapshot,
        part: &RequestedPart,
        plan: &SupersetSafe,
    ) -> Result<InSegment, FormatError> {
        let segment = snapshot.segment();
        let hits = match &part.words {
            Some(words) => segment.word_hits(&words.keys, &words.is_wanted)?,
            None => WordHits::default(),
        };
        let mut candidates = match &part.words {
            Some(_) => Candidates::with_words(segment, &hits)?,
            None => segment.candidates(plan)?,
        };
        if part.max_file_size < u64::MAX {
            // The answer names each file that is too large, so these must not be skipped.
            let name = format!("larger than {}", part.max_file_size);
            let large = snapshot.set(&name, || larger(segment, part.max_file_size))?;
            candidates.include(&large);
        }
        Ok(InSegment { candidates, hits })
    }
}

/// Removes the files that are gone or replaced from the eligible ones. Every set of candidates of a
/// segment must pass through here. `None` for `eligible`, and in the result, stands for all of
/// `ranks`. Costs one pass over the set.
pub(crate) fn without_dead(
    snapshot: &Snapshot,
    ranks: Range<u32>,
    eligible: Option<Arc<RankSet>>,
) -> Option<Arc<RankSet>> {
    match snapshot.overlay().dead() {
        Some(dead) => eligible::without(snapshot.segment(), ranks, eligible, dead),
        None => eligible,
    }
}

impl CatalogSource {
    /// Creates a source of the files below `part` that `globs` keep. Files that `plan` rules out
    /// are skipped. Under `look` some of these are first checked for changes, and searched if they
    /// changed. Returns `None` if enumeration did not enter the requested directory.
    ///
    /// The files that globs keep are computed once for each snapshot and cached. That costs one
    /// match for each file, on the threads of the current pool.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the snapshot is damaged. It is unusable then.
    pub fn new(
        snapshot: Arc<Snapshot>,
        part: RequestedPart,
        globs: Globs,
        plan: &SupersetSafe,
        look: ChangeCheck,
    ) -> Result<Option<CatalogSource>, FormatError> {
        CatalogSource::with(None, snapshot, part, globs, plan, look)
    }

    /// Creates a source. `known` is what was found for the same request in the same segment.
    fn with(
        known: Option<InSegment>,
        snapshot: Arc<Snapshot>,
        part: RequestedPart,
        globs: Globs,
        plan: &SupersetSafe,
        look: ChangeCheck,
    ) -> Result<Option<CatalogSource>, FormatError> {
        let segment = snapshot.segment();
        let overlay = snapshot.overlay();
        if !overlay.enters(segment, &part.path, part.sets)? {
            return Ok(None);
        }
        let (ranks, eligible, deep_files) = match segment.find_dir(&part.path)? {
            None => {
                // The directory is new. Only paths that start with its name sort between it and its
                // contents.
                let rank = segment.position(&part.path)?;
                (rank..rank, None, false)
            }
            Some(number) => {
                let dir = segment.dir(number)?;
                let ranks = dir.first_rank..dir.end_rank;
                let of_catalog = CatalogPart {
                    snapshot: &snapshot,
                    globs: &globs,
                    number,
                    ranks: ranks.clone(),
                };
                let (eligible, is_cut) = of_catalog.eligible(&part)?;
                (ranks, eligible, is_cut)
            }
        };
        let in_segment = match known {
            Some(known) => known,
            None => InSegment::of(&snapshot, &part, plan)?,
        };
        let (extra_files, deep_extras) = extra_files(&snapshot, &part, &globs, plan, look)?;
        Ok(Some(CatalogSource {
            snapshot,
            part,
            ranks,
            eligible,
            in_segment,
            extra_files,
            listed: ListedFiles::default(),
            look,
            is_cut: deep_files || deep_extras,
            unit_sizes: (FIRST_UNIT, LARGEST_UNIT),
            comparison: None,
            failure: Arc::default(),
        }))
    }

    /// Creates a source that checks each file before it is skipped, and compares each directory
    /// with the tree before its files are handed out. Where a directory differs, `tree` updates the
    /// snapshot.
    ///
    /// [`may_wait`](comparing::may_wait) must hold. `part` must have no `max_depth`, because files
    /// that lie too deep are counted before. While `allowance` lasts, directories are also read for
    /// the comparison alone.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the snapshot is damaged. It is unusable then.
    pub(crate) fn comparing_along(
        snapshot: Arc<Snapshot>,
        part: RequestedPart,
        globs: Globs,
        plan: &SupersetSafe,
        allowance: Arc<Allowance>,
        tree: Box<dyn TreeDifferences>,
    ) -> Result<Option<CatalogSource>, FormatError> {
        let made = CatalogSource::new(snapshot, part, globs.clone(), plan, ChangeCheck::All)?;
        let Some(mut source) = made else {
            return Ok(None);
        };
        let (snapshot, part, plan) = (&source.snapshot, &source.part, plan.clone());
        let comparison = Comparison::new(snapshot, part, globs, plan, allowance, tree)?;
        source.comparison = Some(comparison);
        Ok(Some(source))
    }

    /// Lists some files in addition, given by their paths relative to the index root.
    pub(crate) fn listing(mut self, files: &[PathBuf]) -> CatalogSource {
        for path in files {
            self.listed.push(Path::new(""), self.part.logical(path));
        }
        self
    }

    /// Sets the sizes of the first unit and of the largest.
    #[cfg(test)]
    fn in_units_of(self, first: u64, largest: u64) -> CatalogSource {
        CatalogSource {
            unit_sizes: (first, largest),
            ..self
        }
    }

    /// Returns the snapshot, if its records of all files are valid at the time of the request.
    /// Under [`ChangeCheck::All`] some of them may be outdated.
    pub fn pinned(&self) -> Option<&Arc<Snapshot>> {
        (self.look != ChangeCheck::All).then_some(&self.snapshot)
    }

    /// Returns whether ripgrep reads the same rules from the ignore files of the tree, and reports
    /// no problem of them. Reads these files on the first call for a snapshot.
    pub(crate) fn has_ripgreps_rules(&self) -> bool {
        self.snapshot.has_ripgreps_rules()
    }

    /// Returns true if an eligible file lies deeper than `max_depth`.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the cell that holds the error if the snapshot turns out to be damaged while it is
    /// used. The source has not yielded all files then.
    pub fn failure(&self) -> Arc<OnceLock<FormatError>> {
        self.failure.clone()
    }

    /// Returns the cell that holds the reason why a comparison along the way can't continue. The
    /// source has not yielded all files then. `None` if directories were compared before.
    pub(crate) fn refusal(&self) -> Option<Arc<OnceLock<Refusal>>> {
        Some(self.comparison.as_ref()?.refusal().clone())
    }

    /// Returns how many files of the catalog the request covers, and how many of them are handed
    /// out. Files that the catalog lacks do not count.
    pub fn counts(&self) -> (u64, u64) {
        let all = self.count(self.ranks.clone());
        let candidates = self.wanted(self.ranks.clone()).count() as u64;
        (all, candidates)
    }

    /// Counts the eligible files of the catalog in a range.
    fn count(&self, ranks: Range<u32>) -> u64 {
        match &self.eligible {
            Some(eligible) => eligible.count(ranks),
            None => u64::from(ranks.end.saturating_sub(ranks.start)),
        }
    }

    /// Iterates over the eligible ranks in a range.
    fn all(&self, ranks: Range<u32>) -> impl Iterator<Item = u32> {
        let set = self.eligible.as_deref();
        let every = set.is_none().then_some(ranks.clone()).into_iter().flatten();
        every.chain(set.into_iter().flat_map(move |set| set.iter(ranks.clone())))
    }

    /// Iterates over the eligible candidates in a range.
    fn wanted(&self, ranks: Range<u32>) -> impl Iterator<Item = u32> {
        let eligible = self.eligible.as_deref();
        self.in_segment
            .candidates
            .files()
            .iter(ranks)
            .filter(move |&rank| eligible.is_none_or(|eligible| eligible.contains(rank)))
    }

    /// Returns the files of a unit that the catalog lacks.
    fn extra_files(&self, unit: &Range<u32>) -> &[ExtraFile] {
        let before = |rank: u32| {
            self.extra_files
                .partition_point(|own| own.before_rank < rank)
        };
        let start = match unit.start == self.ranks.start {
            true => 0,
            false => before(unit.start),
        };
        let end = match unit.end == self.ranks.end {
            true => self.extra_files.len(),
            false => before(unit.end),
        };
        self.extra_files.get(start..end).unwrap_or_default()
    }

    /// Splits the range into units. Each has as many files and directories to look at as the one
    /// before, or more.
    fn units(&self) -> Vec<Range<u32>> {
        let (first, largest) = self.unit_sizes;
        let mut cutter = Cutter::new(self.ranks.start, first, largest);
        let mut extra_files = self.extra_files.iter().filter(|own| own.wanted).peekable();
        let comparison = self.comparison.iter();
        let mut dirs = comparison.flat_map(Comparison::first_ranks).peekable();
        let mut cut = |rank: u32| {
            while let Some(first_rank) = dirs.next_if(|first_rank| *first_rank <= rank) {
                cutter.dir(first_rank);
            }
            while extra_files.next_if(|own| own.before_rank <= rank).is_some() {
                cutter.extra();
            }
            cutter.file(rank);
        };
        let lists = self.part.lists || self.part.by_index.looks_at_all();
        match lists || self.look == ChangeCheck::All {
            true => self.all(self.ranks.clone()).for_each(&mut cut),
            false => self.wanted(self.ranks.clone()).for_each(&mut cut),
        }
        dirs.for_each(|first_rank| cutter.dir(first_rank));
        cutter.end(self.ranks.end)
    }

    fn expand_unit(
        &self,
        unit: Range<u32>,
        stop: &Stop,
    ) -> Result<Vec<Item<PathUnit>>, FormatError> {
        let Some(comparison) = &self.comparison else {
            if self.part.lists {
                return self.listed(unit);
            }
            let changed = self.changed(self.passed_over(unit.clone())?, stop)?;
            return match self.part.by_index.looks_at_all() {
                true => self.by_index(unit, &changed, stop),
                false => self.items(unit, changed),
            };
        };
        if let Some(twin) = comparison.twin() {
            return twin.expand_unit(unit, stop);
        }
        let by_dir = self.passed_over(unit.clone())?;
        match comparison.changed(self, &unit, by_dir, stop)? {
            Some(changed) => self.items(unit, changed),
            None => match comparison.make_twin(self, stop) {
                Some(twin) => twin.expand_unit(unit, stop),
                None => Ok(Vec::new()),
            },
        }
    }

    /// Returns the files of a unit to check before they are skipped, by directory.
    fn passed_over(&self, unit: Range<u32>) -> Result<BTreeMap<u32, Vec<u32>>, FormatError> {
        let mut by_dir: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        if self.look == ChangeCheck::None {
            return Ok(by_dir);
        }
        let segment = self.snapshot.segment();
        let mut add = |rank: u32| -> Result<(), FormatError> {
            if !self.in_segment.candidates.files().contains(rank) {
                let dir = segment.file(rank)?.dir;
                by_dir.entry(dir).or_default().push(rank);
            }
            Ok(())
        };
        if self.look == ChangeCheck::All {
            self.all(unit).try_for_each(&mut add)?;
        } else {
            let is_eligible =
                |rank: &u32| self.eligible.as_ref().is_none_or(|own| own.contains(*rank));
            let mut linked = segment.linked()?.iter(unit).filter(is_eligible);
            linked.try_for_each(&mut add)?;
        }
        Ok(by_dir)
    }

    /// Checks files that may be skipped. Returns those that changed.
    fn changed(
        &self,
        by_dir: BTreeMap<u32, Vec<u32>>,
        stop: &Stop,
    ) -> Result<Vec<u32>, FormatError> {
        let (root, base) = (&self.part.root, &self.part.base);
        let mut changed = Vec::new();
        for (dir, ranks) in by_dir {
            if stop.is_raised() {
                break;
            }
            let same = self.snapshot.unchanged(root, base, dir, &ranks)?;
            let pairs = ranks.into_iter().zip(same);
            changed.extend(pairs.filter(|(_, same)| !same).map(|(rank, _)| rank));
        }
        Ok(changed)
    }
}

impl FileSource for CatalogSource {
    type Unit = PathUnit;

    fn start(&self) -> Vec<Item<PathUnit>> {
        let units = self.units();
        if let Some(comparison) = &self.comparison {
            comparison.assign(&units);
        }
        let mut items = Vec::new();
        for unit in units {
            // A unit without files to look at is only counted.
            let only_passed = self.look == ChangeCheck::None
                && !self.part.lists
                && !self.part.by_index.looks_at_all()
                && self.extra_files(&unit).is_empty()
                && self.wanted(unit.clone()).next().is_none();
            items.push(match only_passed {
                true => Item::Passed(self.count(unit)),
                false => Item::Unit(PathUnit::Ranks(unit)),
            });
        }
        if !self.listed.is_empty() {
            items.push(Item::Listed(self.listed.clone()));
        }
        items
    }

    fn expand(&self, unit: PathUnit, stop: &Stop) -> Vec<Item<PathUnit>> {
        let PathUnit::Ranks(unit) = unit else {
            return Vec::new();
        };
        if stop.is_raised() || self.has_failed() {
            return Vec::new();
        }
        self.expand_unit(unit, stop).unwrap_or_else(|error| {
            // The first error is kept.
            let _ = self.failure.set(error);
            Vec::new()
        })
    }

    fn has_failed(&self) -> bool {
        let comparison = self.comparison.as_ref();
        let refusal = comparison.and_then(|comparison| comparison.refusal().get());
        self.failure.get().is_some() || refusal.is_some()
    }
}

#[cfg(all(test, unix))]
mod tests;
