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
use crate::exec::stop::Stop;
use crate::format::error::FormatError;
use crate::format::segment::FileRecord;
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
}

/// An ordered source over a snapshot.
pub struct CatalogSource {
    snapshot: Arc<Snapshot>,
    scope: Scope,
    ranks: Range<u32>,
    globs: Globs,
    /// The files of the catalog that the request is about; `None` if those are all in the range.
    eligible: Option<Arc<RankSet>>,
    candidates: Candidates,
    /// Whether files that are to be passed over are looked at first.
    validate: bool,
    failure: Arc<OnceLock<FormatError>>,
}

impl CatalogSource {
    /// Makes a source of the files below `scope` that `globs` keep, of which those that `plan` rules out are passed
    /// over; with `validate`, only after a look at each that shows it unchanged. `None` if enumeration did not enter
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
        validate: bool,
    ) -> Result<Option<CatalogSource>, FormatError> {
        let segment = snapshot.segment();
        let Some(number) = segment.find_dir(&scope.path)? else {
            return Ok(None);
        };
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
        let candidates = segment.candidates(plan)?;
        Ok(Some(CatalogSource {
            snapshot,
            scope,
            ranks,
            globs,
            eligible,
            candidates,
            validate,
            failure: Arc::default(),
        }))
    }

    /// Returns where a source says that its snapshot turned out to be damaged while it was used. What it yielded is
    /// not all there is then.
    pub fn failure(&self) -> Arc<OnceLock<FormatError>> {
        self.failure.clone()
    }

    /// Returns how many files of the catalog the request is about, and how many of them are handed out: candidates that
    /// are not known to be too large.
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

    /// Counts the eligible files in a range.
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

    /// Returns true for a file that the request has too large, if the catalog can be asked: where files have to be looked
    /// at, opening it tells as well. One that could not be opened is an error, however large it is.
    fn is_too_large(&self, file: &FileRecord) -> bool {
        let opened = [
            TokenStatus::Full,
            TokenStatus::SkippedTooLarge,
            TokenStatus::SkippedBinary,
        ];
        !self.validate
            && file.stamp.len > self.scope.max_file_size
            && opened.iter().any(|status| *status as u8 == file.status)
    }

    /// Cuts the range into units with a growing number of files to be looked at.
    fn units(&self) -> Vec<Range<u32>> {
        let mut units = Vec::new();
        let mut start = self.ranks.start;
        let mut most = FIRST_UNIT;
        let mut held = 0;
        let mut cut = |rank: u32| {
            held += 1;
            if held == most {
                units.push(start..rank + 1);
                start = rank + 1;
                held = 0;
                most = (most * 2).min(LARGEST_UNIT);
            }
        };
        if self.validate {
            self.all(self.ranks.clone()).for_each(&mut cut);
        } else {
            self.wanted(self.ranks.clone()).for_each(&mut cut);
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
        if self.validate {
            chosen.extend(self.changed(unit.clone(), stop)?);
            chosen.sort_unstable();
        }
        let mut places = Places::new(self);
        let mut items = Vec::with_capacity(chosen.len() + 1);
        let mut next = unit.start;
        let mut side = self.side_files(&unit, &mut places)?.into_iter().peekable();
        let mut add = |found: FoundFile, passed_before: u64, within: Option<Box<Within>>| {
            items.push(Item::File(EligibleFile {
                found,
                passed_before,
                within,
            }));
        };
        for rank in chosen {
            while let Some((before, found)) = side.next_if(|(before, _)| *before <= rank) {
                add(found, self.count(next..before), None);
                next = before.max(next);
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
            add(found, self.count(next..rank), self.within(rank, &file)?);
            next = rank + 1;
        }
        for (before, found) in side {
            add(found, self.count(next..before), None);
            next = before.max(next);
        }
        let rest = self.count(next..unit.end);
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
            let stamp = self.validate.then(|| Stamp::from_record(file.stamp));
            Box::new(Within::new(spans, stamp))
        }))
    }

    /// Looks at the files of a unit that are no candidates; returns those that are not as they were.
    fn changed(&self, unit: Range<u32>, stop: &Stop) -> Result<Vec<u32>, FormatError> {
        let segment = self.snapshot.segment();
        let mut by_dir: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in self
            .all(unit)
            .filter(|&rank| !self.candidates.files().contains(rank))
        {
            by_dir
                .entry(segment.file(rank)?.dir)
                .or_default()
                .push(rank);
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

    /// Returns the files of the side list that belong into a unit, each with the rank it stands before.
    fn side_files(
        &self,
        unit: &Range<u32>,
        places: &mut Places<'_>,
    ) -> Result<Vec<(u32, FoundFile)>, FormatError> {
        let segment = self.snapshot.segment();
        let mut files = Vec::new();
        for n in 0..segment.side_count() {
            let side = segment.side(n)?;
            let last = unit.end == self.ranks.end && side.before_rank == unit.end;
            if !unit.contains(&side.before_rank) && !last {
                continue;
            }
            let path = segment.dir_path(side.dir)?;
            let name = segment.name(side.name)?;
            if !self.scope.covers(path) {
                continue;
            }
            let place = places.get(side.dir)?;
            if !kept_with_parents(&self.globs, &place.logical)
                || !self.globs.keep(&place.logical.join(&name), false)
            {
                continue;
            }
            let found = FoundFile {
                dir: place,
                name,
                target: None,
            };
            files.push((side.before_rank, found));
        }
        Ok(files)
    }
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
        let side = self.snapshot.segment().side_count() > 0;
        let mut items = Vec::new();
        for unit in self.units() {
            // What has nothing to be looked at is only counted.
            let only_passed = !self.validate && !side && self.wanted(unit.clone()).next().is_none();
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
}

impl<'a> Places<'a> {
    fn new(source: &'a CatalogSource) -> Places<'a> {
        Places {
            source,
            known: BTreeMap::new(),
        }
    }

    fn get(&mut self, dir: u32) -> Result<Arc<Place>, FormatError> {
        if let Some(place) = self.known.get(&dir) {
            return Ok(place.clone());
        }
        let path = self.source.snapshot.segment().dir_path(dir)?;
        let scope = &self.source.scope;
        let place = Arc::new(Place {
            root: scope.root.clone(),
            real: join(&scope.base, path),
            logical: scope.logical(path).to_path_buf(),
        });
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
