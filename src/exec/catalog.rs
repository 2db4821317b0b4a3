//! Eligible files from the catalog of an index, candidates among them.
//!
//! Owns the way from a snapshot to an ordered source: the subtree, the globs and the candidates as sets of ranks, and
//! the files that are passed over. `comparing` compares directories with the tree while files are handed out. It answers only for requests whose eligible files the catalog knows; which
//! those are is decided before a source is made.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::comparing::{CatchUp, Comparison, Refusal};
use self::eligible::{Beside, OfCatalog, beside, larger};
use self::units::Cutter;
use crate::exec::allowance::Allowance;
use crate::exec::eligible::{EligibleFile, FileSource, Globs, Item, Within};
use crate::exec::stop::Stop;
use crate::format::error::FormatError;
use crate::format::segment::FileRecord;
use crate::index::beneath::RootDir;
use crate::index::plan::SupersetSafe;
use crate::index::ranks::RankSet;
use crate::index::segment::candidates::Candidates;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::walk::{FoundFile, Place, RuleSets, join};

/// Candidates in the first unit of a source, and in the largest. Units grow, so that searches that end early
/// do little ahead. Where each file is looked at, all eligible files count; where directories are compared along the
/// way, these do, too.
const FIRST_UNIT: u64 = 32;
const LARGEST_UNIT: u64 = 512;

/// The parts of a file are looked at first if they are at most one in so many of its bytes: where a line matches, the
/// file is read again as a whole.
const SPAN_SHARE: u64 = 2;

/// Where the request looks, as the catalog has it.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The allowed root that holds the index root.
    pub root: Arc<RootDir>,
    /// The index root, relative to that.
    pub base: PathBuf,
    /// The requested directory, relative to the index root.
    pub path: PathBuf,
    /// Whether subdirectories count.
    pub recursive: bool,
    /// The most components of a file's path relative to `path`, if there is a limit.
    pub max_depth: Option<usize>,
    /// Larger files, in bytes, are not searched, and the answer says so of each.
    pub max_file_size: u64,
    /// The default denied patterns hold, which the catalog does not know.
    pub withholds: bool,
    /// The sets of ignore rules by which the request's files are eligible: a file has to be so by all of them.
    pub sets: RuleSets,
}

/// Which files that are to be passed over are looked at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// None: nothing changes without being noticed.
    None,
    /// Those with several names: what is written through another name may not be noticed.
    Linked,
    /// All.
    All,
}

/// An ordered source over a snapshot.
pub struct CatalogSource {
    snapshot: Arc<Snapshot>,
    scope: Scope,
    ranks: Range<u32>,
    /// The files of the catalog that the request is about; `None` if those are all in the range.
    eligible: Option<Arc<RankSet>>,
    candidates: Candidates,
    /// Eligible files beside the catalog, in the order of their places.
    beside: Vec<Beside>,
    look: Look,
    /// An eligible file lies deeper than `max_depth`.
    is_cut: bool,
    /// The sizes of the first unit and of the largest.
    unit_sizes: (u64, u64),
    /// What compares directories along the way, where they were not compared before.
    comparison: Option<Comparison>,
    failure: Arc<OnceLock<FormatError>>,
}

/// Takes the files that are gone or replaced off those that are eligible: every candidate of a segment comes through
/// here. `None` for `eligible`, and in the answer, stands for all of `ranks`. One pass over the set.
pub(crate) fn without_dead(
    snapshot: &Snapshot,
    ranks: Range<u32>,
    eligible: Option<Arc<RankSet>>,
) -> Option<Arc<RankSet>> {
    let Some(dead) = snapshot.overlay().dead() else {
        return eligible;
    };
    let mut live = match eligible {
        Some(eligible) => RankSet::clone(&eligible),
        None => RankSet::of_range(ranks, snapshot.segment().file_count()),
    };
    live.subtract(dead);
    Some(Arc::new(live))
}

impl CatalogSource {
    /// Makes a source of the files below `scope` that `globs` keep, of which those that `plan` rules out are passed
    /// over, some only after a look at each that shows it unchanged. `None` if enumeration did not enter
    /// the requested directory.
    ///
    /// The result of globs is made once for each snapshot and kept: one match a file, on the threads of the
    /// current pool.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub fn new(
        snapshot: Arc<Snapshot>,
        scope: Scope,
        globs: Globs,
        plan: &SupersetSafe,
        look: Look,
    ) -> Result<Option<CatalogSource>, FormatError> {
        let segment = snapshot.segment();
        let overlay = snapshot.overlay();
        if !overlay.enters(segment, &scope.path, scope.sets)? {
            return Ok(None);
        }
        let (ranks, eligible, deep_files) = match segment.find_dir(&scope.path)? {
            None => {
                // A new directory. Nothing sorts between it and its contents but what its name
                // begins.
                let rank = segment.position(&scope.path)?;
                (rank..rank, None, false)
            }
            Some(number) => {
                let dir = segment.dir(number)?;
                let ranks = dir.first_rank..dir.end_rank;
                let of_catalog = OfCatalog {
                    snapshot: &snapshot,
                    globs: &globs,
                    number,
                    ranks: ranks.clone(),
                };
                let (eligible, is_cut) = of_catalog.eligible(&scope)?;
                (ranks, eligible, is_cut)
            }
        };
        let mut candidates = segment.candidates(plan)?;
        if scope.max_file_size < u64::MAX {
            // An answer says of each file that is too large that it was not searched.
            let name = format!("larger than {}", scope.max_file_size);
            let large = snapshot.set(&name, || larger(segment, scope.max_file_size))?;
            candidates.include(&large);
        }
        let (beside, deep_extras) = beside(&snapshot, &scope, &globs, plan, look)?;
        Ok(Some(CatalogSource {
            snapshot,
            scope,
            ranks,
            eligible,
            candidates,
            beside,
            look,
            is_cut: deep_files || deep_extras,
            unit_sizes: (FIRST_UNIT, LARGEST_UNIT),
            comparison: None,
            failure: Arc::default(),
        }))
    }

    /// Makes a source that looks at each file before it is passed over, and compares each directory with the tree
    /// before its files are handed out. [`may_wait`](comparing::may_wait) has to hold, and there must be no
    /// `max_depth`: what lies too deep is counted before. `catch_up` brings the snapshot up to the tree where a directory differs.
    /// Directories are looked at for nothing but the comparison while `allowance` lasts.
    ///
    /// # Errors
    ///
    /// As [`CatalogSource::new`].
    pub(crate) fn comparing_along(
        snapshot: Arc<Snapshot>,
        scope: Scope,
        globs: Globs,
        plan: &SupersetSafe,
        allowance: Arc<Allowance>,
        catch_up: CatchUp,
    ) -> Result<Option<CatalogSource>, FormatError> {
        let made = CatalogSource::new(snapshot, scope, globs.clone(), plan, Look::All)?;
        let Some(mut source) = made else {
            return Ok(None);
        };
        let (snapshot, scope, plan) = (&source.snapshot, &source.scope, plan.clone());
        let comparison = Comparison::new(snapshot, scope, globs, plan, allowance, catch_up)?;
        source.comparison = Some(comparison);
        Ok(Some(source))
    }

    /// Sets how many files there are in the first unit, and in the largest.
    #[cfg(test)]
    fn in_units_of(self, first: u64, largest: u64) -> CatalogSource {
        CatalogSource {
            unit_sizes: (first, largest),
            ..self
        }
    }

    /// Returns the snapshot, if it says how each file is at the time of the request. One that is compared with the tree says of
    /// some files how they were.
    pub fn pinned(&self) -> Option<&Arc<Snapshot>> {
        (self.look != Look::All).then_some(&self.snapshot)
    }

    /// Returns true if an eligible file lies deeper than `max_depth`.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns where a source says that its snapshot turned out to be damaged while it was used. What it yielded is
    /// not all there is then.
    pub fn failure(&self) -> Arc<OnceLock<FormatError>> {
        self.failure.clone()
    }

    /// Returns where a source that compares along the way says why it can't go on. What it yielded is not all there is
    /// then. `None` if all was compared before.
    pub(crate) fn refusal(&self) -> Option<Arc<OnceLock<Refusal>>> {
        Some(self.comparison.as_ref()?.refusal().clone())
    }

    /// Returns how many files of the catalog the request covers, and how many of them are handed
    /// out. Files beside the catalog do not count.
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

    /// Iterates over the ranks in a range that are eligible.
    fn all(&self, ranks: Range<u32>) -> impl Iterator<Item = u32> {
        let set = self.eligible.as_deref();
        let every = set.is_none().then_some(ranks.clone()).into_iter().flatten();
        every.chain(set.into_iter().flat_map(move |set| set.iter(ranks.clone())))
    }

    /// Iterates over the eligible candidates in a range.
    fn wanted(&self, ranks: Range<u32>) -> impl Iterator<Item = u32> {
        let eligible = self.eligible.as_deref();
        self.candidates
            .files()
            .iter(ranks)
            .filter(move |&rank| eligible.is_none_or(|eligible| eligible.contains(rank)))
    }

    /// Returns the files beside the catalog that belong into a unit.
    fn beside(&self, unit: &Range<u32>) -> &[Beside] {
        let before = |rank: u32| self.beside.partition_point(|own| own.before_rank < rank);
        let start = match unit.start == self.ranks.start {
            true => 0,
            false => before(unit.start),
        };
        let end = match unit.end == self.ranks.end {
            true => self.beside.len(),
            false => before(unit.end),
        };
        self.beside.get(start..end).unwrap_or_default()
    }

    /// Cuts the range into units with a growing number of files and directories to be looked at.
    fn units(&self) -> Vec<Range<u32>> {
        let (first, largest) = self.unit_sizes;
        let mut cutter = Cutter::new(self.ranks.start, first, largest);
        let mut beside = self.beside.iter().filter(|own| own.wanted).peekable();
        let comparison = self.comparison.iter();
        let mut dirs = comparison.flat_map(Comparison::first_ranks).peekable();
        let mut cut = |rank: u32| {
            while let Some(first_rank) = dirs.next_if(|first_rank| *first_rank <= rank) {
                cutter.dir(first_rank);
            }
            while beside.next_if(|own| own.before_rank <= rank).is_some() {
                cutter.extra();
            }
            cutter.file(rank);
        };
        match self.look {
            Look::All => self.all(self.ranks.clone()).for_each(&mut cut),
            Look::None | Look::Linked => self.wanted(self.ranks.clone()).for_each(&mut cut),
        }
        dirs.for_each(|first_rank| cutter.dir(first_rank));
        cutter.end(self.ranks.end)
    }

    fn expand_unit(
        &self,
        unit: Range<u32>,
        stop: &Stop,
    ) -> Result<Vec<Item<Range<u32>>>, FormatError> {
        let Some(comparison) = &self.comparison else {
            let changed = self.changed(self.passed_over(unit.clone())?, stop)?;
            return self.items(unit, changed);
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

    /// Returns the items of a unit: its candidates, those of its other files that are `changed`, and files beside the catalog.
    fn items(
        &self,
        unit: Range<u32>,
        changed: Vec<u32>,
    ) -> Result<Vec<Item<Range<u32>>>, FormatError> {
        let segment = self.snapshot.segment();
        let mut chosen: Vec<u32> = self.wanted(unit.clone()).collect();
        if !changed.is_empty() {
            chosen.extend(changed);
            chosen.sort_unstable();
        }
        let mut places = Places::new(self);
        let mut items = Vec::with_capacity(chosen.len() + 1);
        let mut next = unit.start;
        // Files beside the catalog that are passed over since the last one that is not.
        let mut passed = 0;
        let mut beside = self.beside(&unit).iter().peekable();
        let is_pinned = self.pinned().is_some();
        let mut add = |found: FoundFile,
                       passed_before: u64,
                       stamp: Option<Stamp>,
                       within: Option<Box<Within>>| {
            items.push(Item::File(EligibleFile {
                found,
                passed_before,
                stamp: stamp.filter(|_| is_pinned),
                within,
                target: 0,
                is_named: false,
            }));
        };
        for rank in chosen {
            while let Some(own) = beside.next_if(|own| own.before_rank <= rank) {
                if !own.wanted {
                    passed += 1;
                    continue;
                }
                let before = own.before_rank.max(next);
                add(
                    places.found(&own.path),
                    self.count(next..before) + passed,
                    own.stamp,
                    None,
                );
                (next, passed) = (before, 0);
            }
            let file = segment.file(rank)?;
            let found = FoundFile {
                dir: places.get(file.dir)?,
                name: segment.name(file.name)?,
                target: None,
            };
            let within = self.within(rank, &file)?;
            let stamp = Some(Stamp::from_record(file.stamp));
            add(found, self.count(next..rank) + passed, stamp, within);
            (next, passed) = (rank + 1, 0);
        }
        for own in beside {
            if !own.wanted {
                passed += 1;
                continue;
            }
            let before = own.before_rank.clamp(next, unit.end.max(next));
            add(
                places.found(&own.path),
                self.count(next..before) + passed,
                own.stamp,
                None,
            );
            (next, passed) = (before, 0);
        }
        let rest = self.count(next..unit.end) + passed;
        if rest > 0 {
            items.push(Item::Passed(rest));
        }
        Ok(items)
    }

    /// Returns where in a file events can be, if looking there first promises to be less work than reading it whole.
    fn within(&self, rank: u32, file: &FileRecord) -> Result<Option<Box<Within>>, FormatError> {
        // One that changed is no candidate, but is searched.
        if !self.candidates.files().contains(rank) {
            return Ok(None);
        }
        let spans = self.snapshot.segment().spans(rank, &self.candidates)?;
        let worth = |spans: &Vec<Range<u64>>| {
            let bytes: u64 = spans.iter().map(|span| span.end - span.start).sum();
            bytes <= file.stamp.len / SPAN_SHARE
        };
        Ok(spans.filter(worth).map(|spans| {
            // The file is opened anyway, and then its state is known.
            let stamp = (self.look != Look::None).then(|| Stamp::from_record(file.stamp));
            Box::new(Within::new(spans, stamp))
        }))
    }

    /// Returns the files of a unit that are no candidates, as far as they are to be looked at, by directory.
    fn passed_over(&self, unit: Range<u32>) -> Result<BTreeMap<u32, Vec<u32>>, FormatError> {
        let mut by_dir: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        if self.look == Look::None {
            return Ok(by_dir);
        }
        let segment = self.snapshot.segment();
        let mut add = |rank: u32| -> Result<(), FormatError> {
            if !self.candidates.files().contains(rank) {
                let dir = segment.file(rank)?.dir;
                by_dir.entry(dir).or_default().push(rank);
            }
            Ok(())
        };
        if self.look == Look::All {
            self.all(unit).try_for_each(&mut add)?;
        } else {
            let is_eligible =
                |rank: &u32| self.eligible.as_ref().is_none_or(|own| own.contains(*rank));
            let mut linked = segment.linked()?.iter(unit).filter(is_eligible);
            linked.try_for_each(&mut add)?;
        }
        Ok(by_dir)
    }

    /// Looks at files that may be passed over; returns those that are not as they were.
    fn changed(
        &self,
        by_dir: BTreeMap<u32, Vec<u32>>,
        stop: &Stop,
    ) -> Result<Vec<u32>, FormatError> {
        let (root, base) = (&self.scope.root, &self.scope.base);
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
    type Unit = Range<u32>;

    fn start(&self) -> Vec<Item<Range<u32>>> {
        let units = self.units();
        if let Some(comparison) = &self.comparison {
            comparison.assign(&units);
        }
        let mut items = Vec::new();
        for unit in units {
            // What has nothing to be looked at is only counted.
            let only_passed = self.look == Look::None
                && self.beside(&unit).is_empty()
                && self.wanted(unit.clone()).next().is_none();
            items.push(match only_passed {
                true => Item::Passed(self.count(unit)),
                false => Item::Unit(unit),
            });
        }
        items
    }

    fn expand(&self, unit: Range<u32>, stop: &Stop) -> Vec<Item<Range<u32>>> {
        if stop.is_raised() || self.has_failed() {
            return Vec::new();
        }
        self.expand_unit(unit, stop).unwrap_or_else(|error| {
            // The first one counts.
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

/// The directories of files that are handed out.
struct Places<'a> {
    source: &'a CatalogSource,
    known: BTreeMap<u32, Arc<Place>>,
    /// The one of the last file beside the catalog.
    last: Option<(PathBuf, Arc<Place>)>,
}

impl<'a> Places<'a> {
    fn new(source: &'a CatalogSource) -> Places<'a> {
        Places {
            source,
            known: BTreeMap::new(),
            last: None,
        }
    }

    /// Returns a file by its path relative to the index root.
    fn found(&mut self, path: &Path) -> FoundFile {
        let dir = path.parent().unwrap_or(Path::new(""));
        let place = match &self.last {
            Some((last, place)) if last == dir => place.clone(),
            _ => {
                let place = self.make(dir);
                self.last = Some((dir.to_path_buf(), place.clone()));
                place
            }
        };
        FoundFile {
            dir: place,
            name: path.file_name().unwrap_or_default().to_os_string(),
            target: None,
        }
    }

    fn make(&self, dir: &Path) -> Arc<Place> {
        let scope = &self.source.scope;
        Arc::new(Place {
            root: scope.root.clone(),
            real: join(&scope.base, dir),
            logical: scope.logical(dir).to_path_buf(),
        })
    }

    fn get(&mut self, dir: u32) -> Result<Arc<Place>, FormatError> {
        if let Some(place) = self.known.get(&dir) {
            return Ok(place.clone());
        }
        let place = self.make(self.source.snapshot.segment().dir_path(dir)?);
        self.known.insert(dir, place.clone());
        Ok(place)
    }
}

pub(crate) mod comparing;
mod eligible;
mod units;

#[cfg(all(test, unix))]
mod tests;
