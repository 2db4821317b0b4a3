//! The eligible files of a request, in the catalog and in addition to it.
//!
//! This module converts the subtree, the globs, the depth, the ignore rules and the denied patterns
//! of a request into sets of ranks. Used when a `CatalogSource` is created.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::{ChangeCheck, RequestedPart, without_dead};
use crate::exec::sources::eligible::{Globs, KnownWords};
use crate::format::error::FormatError;
use crate::format::segment::FileRecord;
use crate::format::sort_key::cmp_paths;
use crate::index::deny::is_withheld;
use crate::index::overlay::Extra;
use crate::index::plan::SupersetSafe;
use crate::index::ranks::RankSet;
use crate::index::segment::Segment;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::walk::RuleSets;

/// An eligible file that is not in the catalog (an extra file).
#[derive(Clone, Debug)]
pub(super) struct ExtraFile {
    /// The rank of the catalog file that follows this file.
    pub(super) before_rank: u32,
    /// Its path, relative to the index root.
    pub(super) path: PathBuf,
    /// Whether the file is searched; otherwise it is skipped.
    pub(super) wanted: bool,
    /// Its stamp, if it is known.
    pub(super) stamp: Option<Stamp>,
    /// The terms of a ranked question that it has, if known.
    pub(super) words: Option<Box<KnownWords>>,
}

/// Returns the files of the catalog that `is_wanted` chooses. Linear in the files.
fn chosen(
    segment: &Segment,
    is_wanted: impl Fn(&FileRecord) -> Result<bool, FormatError> + Sync,
) -> Result<RankSet, FormatError> {
    let ranks: Vec<u32> = (0..segment.file_count())
        .into_par_iter()
        .filter_map(
            |rank| match segment.file(rank).and_then(|file| is_wanted(&file)) {
                Ok(is_wanted) => is_wanted.then_some(Ok(rank)),
                Err(error) => Some(Err(error)),
            },
        )
        .collect::<Result<_, FormatError>>()?;
    let mut set = RankSet::empty(segment.file_count());
    for rank in ranks {
        set.insert(rank);
    }
    Ok(set)
}

/// Returns the files that are larger than `max` bytes.
pub(super) fn larger(segment: &Segment, max: u64) -> Result<RankSet, FormatError> {
    chosen(segment, |file| Ok(file.stamp.len > max))
}

/// Returns the files that the default denied patterns match, by their own name or by the name of a
/// parent directory.
fn withheld(segment: &Segment) -> Result<RankSet, FormatError> {
    let dirs: Vec<bool> = (0..segment.dir_count())
        .into_par_iter()
        .map(|number| Ok(is_withheld(segment.dir_path(number)?)))
        .collect::<Result<_, FormatError>>()?;
    chosen(segment, |file| {
        let of_dir = dirs.get(file.dir as usize).is_none_or(|withheld| *withheld);
        Ok(of_dir || is_withheld(Path::new(&segment.name(file.name)?)))
    })
}

/// Returns the files that are not eligible by all rule sets in `asked`.
fn of_other_rules(segment: &Segment, asked: RuleSets) -> Result<RankSet, FormatError> {
    chosen(segment, |file| Ok(!file.sets.hold(asked)))
}

/// Removes from `eligible` the files that are not eligible by all rule sets in `asked`. `None` for
/// `eligible`, and in the result, stands for all of `ranks`. The set of removed files is computed
/// once for each segment.
pub(crate) fn by_rules(
    snapshot: &Snapshot,
    asked: RuleSets,
    ranks: Range<u32>,
    eligible: Option<Arc<RankSet>>,
) -> Result<Option<Arc<RankSet>>, FormatError> {
    let segment = snapshot.segment();
    if segment.all_hold(asked)? {
        return Ok(eligible);
    }
    let name = format!("not by rules {}", asked.number());
    let others = snapshot.set(&name, || of_other_rules(segment, asked))?;
    Ok(without(segment, ranks, eligible, &others))
}

/// Removes the files `some` from `eligible`; `None` stands for all of `ranks`.
pub(super) fn without(
    segment: &Segment,
    ranks: Range<u32>,
    eligible: Option<Arc<RankSet>>,
    some: &RankSet,
) -> Option<Arc<RankSet>> {
    if some.count(ranks.clone()) == 0 {
        return eligible;
    }
    let mut left = match eligible {
        Some(eligible) => RankSet::clone(&eligible),
        None => RankSet::of_range(ranks, segment.file_count()),
    };
    left.subtract(some);
    Some(Arc::new(left))
}

/// Returns the eligible extra files, and whether `max_depth` excludes one. Extra files are those in
/// the segment's side list, which are always searched, and those of the overlay. Linear in their
/// number.
pub(super) fn extra_files(
    snapshot: &Snapshot,
    part: &RequestedPart,
    globs: &Globs,
    plan: &SupersetSafe,
    look: ChangeCheck,
) -> Result<(Vec<ExtraFile>, bool), FormatError> {
    let mut extra = ExtraFiles {
        snapshot,
        part,
        globs,
        found: Vec::new(),
        is_cut: false,
    };
    extra.add_side_files()?;
    let from_side = extra.found.len();
    extra.add_overlay_files(plan, look)?;
    let ExtraFiles {
        mut found, is_cut, ..
    } = extra;
    if from_side > 0 && from_side < found.len() {
        found.sort_by(|a, b| {
            let place = a.before_rank.cmp(&b.before_rank);
            place.then_with(|| cmp_paths(&a.path, &b.path))
        });
    }
    Ok((found, is_cut))
}

/// Collects the eligible extra files of a request.
struct ExtraFiles<'a> {
    snapshot: &'a Snapshot,
    part: &'a RequestedPart,
    globs: &'a Globs,
    found: Vec<ExtraFile>,
    /// Whether `max_depth` excludes a file.
    is_cut: bool,
}

impl ExtraFiles<'_> {
    /// Adds the files of the segment's side list.
    fn add_side_files(&mut self) -> Result<(), FormatError> {
        let segment = self.snapshot.segment();
        for n in 0..segment.side_count() {
            let path = segment.side_path(n)?;
            let side = segment.side(n)?;
            if self.snapshot.overlay().is_side_dead(n) || !self.is_eligible(&path, side.sets) {
                continue;
            }
            if self.is_too_deep(&path) {
                self.is_cut = true;
                continue;
            }
            self.found.push(ExtraFile {
                before_rank: side.before_rank,
                path,
                wanted: true,
                stamp: None,
                words: None,
            });
        }
        Ok(())
    }

    /// Adds the files of the overlay. Those that the plan excludes are not wanted.
    fn add_overlay_files(
        &mut self,
        plan: &SupersetSafe,
        look: ChangeCheck,
    ) -> Result<(), FormatError> {
        let (part, overlay) = (self.part, self.snapshot.overlay());
        let extras = overlay.extras();
        if extras.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(extras.len()).unwrap_or(u32::MAX);
        let eligible = self.eligible_of(extras, count)?;
        let candidates = match &part.words {
            None => overlay.candidates(plan),
            Some(_) => RankSet::of_range(0..count, count),
        };
        for at in eligible.iter(0..count) {
            let extra = &extras[at as usize];
            if self.is_too_deep(&extra.path) {
                self.is_cut = true;
                continue;
            }
            let vouched = match look {
                ChangeCheck::None => true,
                ChangeCheck::Linked => extra.stamp.is_some_and(|stamp| stamp.links() <= 1),
                ChangeCheck::All => false,
            };
            let larger = |stamp: Stamp| stamp.len() > part.max_file_size;
            let too_large = extra.stamp.is_some_and(larger);
            let record = extra.words().filter(|_| vouched && !too_large);
            let words = part.words.as_ref().zip(record);
            let words = words.map(|(wanted, record)| (wanted, Box::new(wanted.of(record))));
            let is_excluded = words
                .as_ref()
                .is_some_and(|(wanted, own)| !own.hits.iter().any(|hit| wanted.wants(hit)));
            self.found.push(ExtraFile {
                before_rank: extra.before_rank,
                path: extra.path.clone(),
                wanted: !is_excluded && (!vouched || too_large || candidates.contains(at)),
                stamp: extra.stamp,
                words: words.map(|(_, own)| own),
            });
        }
        Ok(())
    }

    /// Returns the places of the eligible files among those of the overlay, without regard to
    /// `max_depth`. Computed once for each snapshot.
    fn eligible_of(&self, extras: &[Arc<Extra>], count: u32) -> Result<Arc<RankSet>, FormatError> {
        let unlimited = RequestedPart {
            max_depth: None,
            ..self.part.clone()
        };
        self.snapshot.extra_set(&unlimited.name(self.globs), || {
            let mut set = RankSet::empty(count);
            for (at, extra) in (0..).zip(extras) {
                if self.is_eligible(&extra.path, extra.sets) {
                    set.insert(at);
                }
            }
            Ok(set)
        })
    }

    fn is_eligible(&self, path: &Path, sets: RuleSets) -> bool {
        let (part, globs) = (self.part, self.globs);
        let dir = path.parent().unwrap_or(Path::new(""));
        let logical = part.logical(path);
        sets.hold(part.sets)
            && part.covers(dir)
            && !(part.withholds && is_withheld(path))
            && (globs.is_empty()
                || (kept_with_parents(globs, part.logical(dir)) && globs.keep(logical, false)))
    }

    fn is_too_deep(&self, path: &Path) -> bool {
        let max_depth = self.part.max_depth;
        max_depth.is_some_and(|max| depth(self.part.logical(path)) > max)
    }
}

impl RequestedPart {
    /// Returns true if the request covers files of a directory (relative to the index root).
    pub(super) fn covers(&self, dir: &Path) -> bool {
        match self.recursive {
            true => dir.starts_with(&self.path),
            false => dir == self.path,
        }
    }

    /// Returns true if files directly in a directory are within the depth limit. `dir` is relative
    /// to the requested directory.
    fn is_within_depth(&self, dir: &Path) -> bool {
        self.max_depth.is_none_or(|max| depth(dir) < max)
    }

    /// Returns a name for the set of eligible files that is unique among the sets of a snapshot.
    fn name(&self, globs: &Globs) -> String {
        let (path, recursive, depth) = (&self.path, self.recursive, self.max_depth);
        let (withholds, sets) = (self.withholds, self.sets.number());
        let globs = globs.key();
        format!("{path:?} {recursive} {depth:?} {withholds} {sets} {globs}")
    }

    /// Returns a directory's path relative to the requested one.
    pub(super) fn logical<'a>(&self, dir: &'a Path) -> &'a Path {
        dir.strip_prefix(&self.path).unwrap_or(dir)
    }
}

/// Returns true if the rank range of a directory also contains files of other directories, since
/// their names have the same sort key. Such directories have consecutive numbers.
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

/// The catalog of a snapshot, and the ranks in it that a request covers.
pub(super) struct CatalogPart<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) globs: &'a Globs,
    /// The number of the requested directory, and the ranks of the files below it.
    pub(super) number: u32,
    pub(super) ranks: Range<u32>,
}

impl CatalogPart<'_> {
    /// Returns the eligible files (`None` for all of the ranks), and whether `max_depth` excludes
    /// at least one file that would be eligible otherwise.
    pub(super) fn eligible(
        &self,
        part: &RequestedPart,
    ) -> Result<(Option<Arc<RankSet>>, bool), FormatError> {
        let Some(max_depth) = part.max_depth else {
            return Ok((self.live(part)?, false));
        };
        let segment = self.snapshot.segment();
        let unlimited = RequestedPart {
            max_depth: None,
            ..part.clone()
        };
        let mut is_deep = false;
        for number in self.number..segment.dir_count() {
            let path = segment.dir_path(number)?;
            is_deep |= part.covers(path) && depth(part.logical(path)) >= max_depth;
            if is_deep {
                break;
            }
        }
        let all = self.live(&unlimited)?;
        if !is_deep {
            return Ok((all, false));
        }
        let count = |set: &Option<Arc<RankSet>>| match set {
            Some(set) => set.count(self.ranks.clone()),
            None => u64::from(self.ranks.end - self.ranks.start),
        };
        let some = self.live(part)?;
        let is_cut = count(&some) < count(&all);
        Ok((some, is_cut))
    }

    /// Returns the eligible files without deleted and replaced files.
    fn live(&self, part: &RequestedPart) -> Result<Option<Arc<RankSet>>, FormatError> {
        let segment = self.snapshot.segment();
        let whole = part.recursive
            && part.max_depth.is_none()
            && self.globs.is_empty()
            && !shares_range(segment, self.number)?;
        let eligible = match whole {
            true => None,
            false => Some(
                self.snapshot
                    .set(&part.name(self.globs), || self.decide(part))?,
            ),
        };
        let live = without_dead(self.snapshot, self.ranks.clone(), eligible);
        let live = by_rules(self.snapshot, part.sets, self.ranks.clone(), live)?;
        if !part.withholds {
            return Ok(live);
        }
        let withheld = self.snapshot.set("withheld", || withheld(segment))?;
        Ok(without(segment, self.ranks.clone(), live, &withheld))
    }

    /// Returns the files that the request covers, by examining each file.
    fn decide(&self, part: &RequestedPart) -> Result<RankSet, FormatError> {
        /// The number of files that a thread processes at a time.
        const CHUNK: u32 = 4096;
        let (segment, globs, number) = (self.snapshot.segment(), self.globs, self.number);
        let dirs: Vec<bool> = (number..segment.dir_count())
            .into_par_iter()
            .map(|number| {
                let path = segment.dir_path(number)?;
                Ok(part.covers(path)
                    && part.is_within_depth(part.logical(path))
                    && (globs.is_empty() || kept_with_parents(globs, part.logical(path))))
            })
            .collect::<Result<_, FormatError>>()?;
        let starts: Vec<u32> = self.ranks.clone().step_by(CHUNK as usize).collect();
        let chunks: Vec<Vec<u32>> = starts
            .into_par_iter()
            .map(|start| {
                let mut kept = Vec::new();
                for rank in start..start.saturating_add(CHUNK).min(self.ranks.end) {
                    let file = segment.file(rank)?;
                    let dir = file.dir.checked_sub(number);
                    if !dir
                        .and_then(|dir| dirs.get(dir as usize))
                        .is_some_and(|kept| *kept)
                    {
                        continue;
                    }
                    if !globs.is_empty() {
                        let dir = part.logical(segment.dir_path(file.dir)?);
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
}

/// Returns the number of components of a path.
fn depth(path: &Path) -> usize {
    path.components().count()
}

/// Returns true if a walk with these globs would enter a directory.
fn kept_with_parents(globs: &Globs, dir: &Path) -> bool {
    let ancestors = dir.ancestors().filter(|path| !path.as_os_str().is_empty());
    globs.is_empty() || ancestors.into_iter().all(|path| globs.keep(path, true))
}
