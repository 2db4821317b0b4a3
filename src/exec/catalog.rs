//! Eligible files from the catalog of an index, candidates among them.
//!
//! Owns the way from a snapshot to an ordered source: the subtree, the globs and the candidates as sets of ranks, and
//! the files that are passed over. It answers only for requests whose eligible files the catalog knows; which
//! those are is decided before a source is made.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::exec::eligible::{EligibleFile, FileSource, Globs, Item, Within};
use crate::exec::query::Reports;
use crate::exec::stop::Stop;
use crate::format::error::FormatError;
use crate::format::segment::FileRecord;
use crate::format::sort_key::cmp_paths;
use crate::index::beneath::RootDir;
use crate::index::plan::SupersetSafe;
use crate::index::ranks::RankSet;
use crate::index::segment::Segment;
use crate::index::segment::candidates::Candidates;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::token::TokenStatus;
use crate::index::walk::{FoundFile, Place, join};

/// Candidates in the first unit of a source, and in the largest. Units grow, so that searches that end early
/// do little ahead.
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
    /// Files of more bytes have no events.
    pub max_file_size: u64,
    /// Whether they have nothing else either, or an error that says so.
    pub reports: Reports,
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
    failure: Arc<OnceLock<FormatError>>,
}

/// An eligible file beside the catalog.
#[derive(Clone, Debug)]
struct Beside {
    /// The rank of the file of the catalog that follows it.
    before_rank: u32,
    /// Its path, relative to the index root.
    path: PathBuf,
    /// Whether it is searched; else it is passed over.
    wanted: bool,
    /// Its state, where that is known.
    stamp: Option<Stamp>,
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
        if !overlay.enters(segment, &scope.path)? {
            return Ok(None);
        }
        let (ranks, eligible) = match segment.find_dir(&scope.path)? {
            None => {
                // A new one. Nothing sorts between it and what is in it but what its name begins.
                let rank = segment.position(&scope.path)?;
                (rank..rank, None)
            }
            Some(number) => {
                let dir = segment.dir(number)?;
                let ranks = dir.first_rank..dir.end_rank;
                let whole = scope.recursive && globs.is_empty() && !shares_range(segment, number)?;
                let eligible = match whole {
                    true => None,
                    false => {
                        let name = format!("{:?} {} {}", scope.path, scope.recursive, globs.key());
                        let make = || eligible(segment, &scope, number, ranks.clone(), &globs);
                        Some(snapshot.set(&name, make)?)
                    }
                };
                (ranks, eligible)
            }
        };
        let eligible = without_dead(&snapshot, ranks.clone(), eligible);
        let mut candidates = segment.candidates(plan)?;
        if scope.reports == Reports::Matches {
            let name = format!("larger than {}", scope.max_file_size);
            let large = snapshot.set(&name, || larger(segment, scope.max_file_size))?;
            candidates.include(&large);
        }
        let beside = beside(&snapshot, &scope, &globs, plan, look)?;
        Ok(Some(CatalogSource {
            snapshot,
            scope,
            ranks,
            eligible,
            candidates,
            beside,
            look,
            failure: Arc::default(),
        }))
    }

    /// Returns the snapshot, if it says how each file is at the time of the request. One that is compared with the tree says of
    /// some files how they were.
    pub fn pinned(&self) -> Option<&Arc<Snapshot>> {
        (self.look != Look::All).then_some(&self.snapshot)
    }

    /// Returns where a source says that its snapshot turned out to be damaged while it was used. What it yielded is
    /// not all there is then.
    pub fn failure(&self) -> Arc<OnceLock<FormatError>> {
        self.failure.clone()
    }

    /// Returns how many files of the catalog the request is about, and how many of them are handed out: candidates that
    /// are not known to be too large. What is beside the catalog does not count.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for damage; the snapshot is of no use then.
    pub fn counts(&self) -> Result<(u64, u64), FormatError> {
        let all = self.count(self.ranks.clone());
        let mut candidates = 0;
        for rank in self.wanted(self.ranks.clone()) {
            let file = self.snapshot.segment().file(rank)?;
            candidates += u64::from(!self.is_too_large(&file));
        }
        Ok((all, candidates))
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

    /// Returns true for a file that the request has too large, if the catalog can be asked: where files have to be looked
    /// at, opening it tells as well. One that could not be opened is an error, however large it is.
    fn is_too_large(&self, file: &FileRecord) -> bool {
        let opened = [
            TokenStatus::Full,
            TokenStatus::SkippedTooLarge,
            TokenStatus::SkippedBinary,
        ];
        let vouched = match self.look {
            Look::None => true,
            Look::Linked => file.stamp.links <= 1,
            Look::All => false,
        };
        vouched
            && self.scope.reports == Reports::Lines
            && file.stamp.len > self.scope.max_file_size
            && opened.iter().any(|status| *status as u8 == file.status)
    }

    /// Cuts the range into units with a growing number of files to be looked at.
    fn units(&self) -> Vec<Range<u32>> {
        let mut units = Vec::new();
        let mut start = self.ranks.start;
        let mut most = FIRST_UNIT;
        let mut held = 0;
        let mut beside = self.beside.iter().filter(|own| own.wanted).peekable();
        let mut cut = |rank: u32| {
            held += 1;
            while beside.next_if(|own| own.before_rank <= rank).is_some() {
                held += 1;
            }
            if held >= most {
                units.push(start..rank + 1);
                start = rank + 1;
                held = 0;
                most = (most * 2).min(LARGEST_UNIT);
            }
        };
        match self.look {
            Look::All => self.all(self.ranks.clone()).for_each(&mut cut),
            Look::None | Look::Linked => self.wanted(self.ranks.clone()).for_each(&mut cut),
        }
        if start < self.ranks.end || units.is_empty() {
            units.push(start..self.ranks.end);
        }
        units
    }

    fn expand_unit(
        &self,
        unit: Range<u32>,
        stop: &Stop,
    ) -> Result<Vec<Item<Range<u32>>>, FormatError> {
        let segment = self.snapshot.segment();
        let mut chosen: Vec<u32> = self.wanted(unit.clone()).collect();
        if self.look != Look::None {
            chosen.extend(self.changed(unit.clone(), stop)?);
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
            if self.is_too_large(&file) {
                // Counted with the next one, as passed over.
                continue;
            }
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

    /// Looks at the files of a unit that are no candidates, as far as they are to be looked at; returns those that are not as
    /// they were.
    fn changed(&self, unit: Range<u32>, stop: &Stop) -> Result<Vec<u32>, FormatError> {
        let segment = self.snapshot.segment();
        let linked = match self.look {
            Look::Linked => Some(segment.linked()?),
            Look::None | Look::All => None,
        };
        let mut by_dir: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut add = |rank: u32| -> Result<(), FormatError> {
            if !self.candidates.files().contains(rank) {
                let dir = segment.file(rank)?.dir;
                by_dir.entry(dir).or_default().push(rank);
            }
            Ok(())
        };
        match linked {
            None => self.all(unit).try_for_each(&mut add)?,
            Some(linked) => linked
                .iter(unit)
                .filter(|&rank| self.eligible.as_ref().is_none_or(|own| own.contains(rank)))
                .try_for_each(&mut add)?,
        }
        let mut changed = Vec::new();
        for (dir, ranks) in by_dir {
            if stop.is_raised() {
                break;
            }
            let same = self
                .snapshot
                .unchanged(&self.scope.root, &self.scope.base, dir, &ranks)?;
            let pairs = ranks.into_iter().zip(same);
            changed.extend(pairs.filter(|(_, same)| !same).map(|(rank, _)| rank));
        }
        Ok(changed)
    }
}

/// Returns the files of more bytes than that.
fn larger(segment: &Segment, max: u64) -> Result<RankSet, FormatError> {
    let mut set = RankSet::empty(segment.file_count());
    for rank in 0..segment.file_count() {
        if segment.file(rank)?.stamp.len > max {
            set.insert(rank);
        }
    }
    Ok(set)
}

/// Finds the files beside the catalog that a request is about: those of the segment's side list, which are always searched,
/// and those of the overlay. Linear in their number.
fn beside(
    snapshot: &Snapshot,
    scope: &Scope,
    globs: &Globs,
    plan: &SupersetSafe,
    look: Look,
) -> Result<Vec<Beside>, FormatError> {
    let (segment, overlay) = (snapshot.segment(), snapshot.overlay());
    let is_eligible = |path: &Path| {
        let dir = path.parent().unwrap_or(Path::new(""));
        let logical = scope.logical(path);
        scope.covers(dir)
            && (globs.is_empty()
                || (kept_with_parents(globs, scope.logical(dir)) && globs.keep(logical, false)))
    };
    let mut found = Vec::new();
    for n in 0..segment.side_count() {
        let path = segment.side_path(n)?;
        if !overlay.is_side_dead(n) && is_eligible(&path) {
            found.push(Beside {
                before_rank: segment.side(n)?.before_rank,
                path,
                wanted: true,
                stamp: None,
            });
        }
    }
    let from_side = found.len();
    let extras = overlay.extras();
    if !extras.is_empty() {
        let count = u32::try_from(extras.len()).unwrap_or(u32::MAX);
        let name = format!("{:?} {} {}", scope.path, scope.recursive, globs.key());
        let eligible = snapshot.extra_set(&name, || {
            let mut set = RankSet::empty(count);
            for (at, extra) in (0..).zip(extras) {
                if is_eligible(&extra.path) {
                    set.insert(at);
                }
            }
            Ok(set)
        })?;
        let candidates = overlay.candidates(plan);
        for at in eligible.iter(0..count) {
            let extra = &extras[at as usize];
            let vouched = match look {
                Look::None => true,
                Look::Linked => extra.stamp.is_some_and(|stamp| stamp.links() <= 1),
                Look::All => false,
            };
            let larger = |stamp: Stamp| stamp.len() > scope.max_file_size;
            let too_large = scope.reports == Reports::Matches && extra.stamp.is_some_and(larger);
            found.push(Beside {
                before_rank: extra.before_rank,
                path: extra.path.clone(),
                wanted: !vouched || too_large || candidates.contains(at),
                stamp: extra.stamp,
            });
        }
    }
    if from_side > 0 && from_side < found.len() {
        found.sort_by(|a, b| {
            let place = a.before_rank.cmp(&b.before_rank);
            place.then_with(|| cmp_paths(&a.path, &b.path))
        });
    }
    Ok(found)
}

impl Scope {
    /// Returns true if files of a directory (relative to the index root) are what the request is about.
    fn covers(&self, dir: &Path) -> bool {
        match self.recursive {
            true => dir.starts_with(&self.path),
            false => dir == self.path,
        }
    }

    /// Returns a directory's path relative to the requested one.
    fn logical<'a>(&self, dir: &'a Path) -> &'a Path {
        dir.strip_prefix(&self.path).unwrap_or(dir)
    }
}

impl FileSource for CatalogSource {
    type Unit = Range<u32>;

    fn start(&self) -> Vec<Item<Range<u32>>> {
        let mut items = Vec::new();
        for unit in self.units() {
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
        if stop.is_raised() || self.failure.get().is_some() {
            return Vec::new();
        }
        self.expand_unit(unit, stop).unwrap_or_else(|error| {
            // The first one counts.
            let _ = self.failure.set(error);
            Vec::new()
        })
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

/// Returns true if files of other directories lie between those below a directory, because its name sorts as
/// that of another does. Such directories are numbered one after the other.
fn shares_range(segment: &Segment, number: u32) -> Result<bool, FormatError> {
    let dir = segment.dir(number)?;
    let path = segment.dir_path(number)?;
    let neighbours = [number.checked_sub(1), number.checked_add(1)];
    for other in neighbours.into_iter().flatten() {
        if other >= segment.dir_count() {
            continue;
        }
        let neighbour = segment.dir(other)?;
        let same = neighbour.first_rank == dir.first_rank && neighbour.end_rank == dir.end_rank;
        let other = segment.dir_path(other)?;
        if same && !other.starts_with(path) && !path.starts_with(other) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Decides for each file of a range whether the request is about it.
fn eligible(
    segment: &Segment,
    scope: &Scope,
    number: u32,
    ranks: Range<u32>,
    globs: &Globs,
) -> Result<RankSet, FormatError> {
    /// Files that one thread decides about before it takes more.
    const CHUNK: u32 = 4096;
    let dirs: Vec<bool> = (number..segment.dir_count())
        .into_par_iter()
        .map(|number| {
            let path = segment.dir_path(number)?;
            let covered = scope.covers(path);
            Ok(covered && (globs.is_empty() || kept_with_parents(globs, scope.logical(path))))
        })
        .collect::<Result<_, FormatError>>()?;
    let starts: Vec<u32> = ranks.clone().step_by(CHUNK as usize).collect();
    let chunks: Vec<Vec<u32>> = starts
        .into_par_iter()
        .map(|start| {
            let mut kept = Vec::new();
            for rank in start..start.saturating_add(CHUNK).min(ranks.end) {
                let file = segment.file(rank)?;
                let dir = file.dir.checked_sub(number);
                if !dir
                    .and_then(|dir| dirs.get(dir as usize))
                    .is_some_and(|kept| *kept)
                {
                    continue;
                }
                if !globs.is_empty() {
                    let dir = scope.logical(segment.dir_path(file.dir)?);
                    if !globs.keep(&dir.join(segment.name(file.name)?), false) {
                        continue;
                    }
                }
                kept.push(rank);
            }
            Ok(kept)
        })
        .collect::<Result<_, FormatError>>()?;
    let mut set = RankSet::empty(segment.file_count());
    for rank in chunks.into_iter().flatten() {
        set.insert(rank);
    }
    Ok(set)
}

/// Returns true if a walk with these globs would enter a directory.
fn kept_with_parents(globs: &Globs, dir: &Path) -> bool {
    let ancestors = dir.ancestors().filter(|path| !path.as_os_str().is_empty());
    globs.is_empty() || ancestors.into_iter().all(|path| globs.keep(path, true))
}

#[cfg(all(test, unix))]
mod tests;
