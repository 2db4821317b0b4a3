//! The items of a unit: the files that a source returns. An item has the place of a file, its
//! stamp, and the parts of it that have to be read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::eligible::ExtraFile;
use super::{CatalogSource, ChangeCheck, SPAN_SHARE};
use crate::exec::answer::listed::ListedFiles;
use crate::exec::sources::eligible::{CandidateSpans, EligibleFile, Item, KnownWords, PathUnit};
use crate::format::error::FormatError;
use crate::format::segment::FileRecord;
use crate::index::stamp::Stamp;
use crate::index::walk::{FoundFile, Place, join};

impl CatalogSource {
    /// Returns the eligible files of a unit as a list.
    pub(super) fn listed(&self, unit: Range<u32>) -> Result<Vec<Item<PathUnit>>, FormatError> {
        let segment = self.snapshot.segment();
        let mut files = ListedFiles::default();
        let add_extra = |files: &mut ListedFiles, own: &ExtraFile| {
            files.push(Path::new(""), self.part.logical(&own.path));
        };
        let mut extra_files = self.extra_files(&unit).iter().peekable();
        // The directory of the last file, and its path.
        let mut last = (u32::MAX, Path::new(""));
        for rank in self.all(unit.clone()) {
            while let Some(own) = extra_files.next_if(|own| own.before_rank <= rank) {
                add_extra(&mut files, own);
            }
            let file = segment.file(rank)?;
            if file.dir != last.0 {
                last = (file.dir, self.part.logical(segment.dir_path(file.dir)?));
            }
            files.push(last.1, Path::new(segment.name(file.name)?));
        }
        extra_files.for_each(|own| add_extra(&mut files, own));
        Ok(vec![Item::Listed(files)])
    }

    /// Returns the items of a unit: its candidates, its `changed` files, and the files that the
    /// catalog lacks.
    pub(super) fn items(
        &self,
        unit: Range<u32>,
        changed: Vec<u32>,
    ) -> Result<Vec<Item<PathUnit>>, FormatError> {
        let segment = self.snapshot.segment();
        let mut chosen: Vec<u32> = self.wanted(unit.clone()).collect();
        if !changed.is_empty() {
            chosen.extend(changed);
            chosen.sort_unstable();
        }
        let mut places = Places::new(self);
        let mut items = Vec::with_capacity(chosen.len() + 1);
        let mut next = unit.start;
        // The number of files that the catalog lacks and that were skipped since the last one that
        // was not.
        let mut passed = 0;
        let mut extra_files = self.extra_files(&unit).iter().peekable();
        let is_pinned = self.pinned().is_some();
        let mut add = |found: FoundFile,
                       passed_before: u64,
                       stamp: Option<Stamp>,
                       within: Option<Box<CandidateSpans>>,
                       words: Option<Box<KnownWords>>| {
            items.push(Item::File(EligibleFile {
                found,
                passed_before,
                stamp: stamp.filter(|_| is_pinned),
                within,
                words,
                target: 0,
                is_named: false,
            }));
        };
        for rank in chosen.into_iter().map(Some).chain([None]) {
            let is_before = |own: &&ExtraFile| rank.is_none_or(|rank| own.before_rank <= rank);
            while let Some(own) = extra_files.next_if(is_before) {
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
                    own.words.clone().filter(|_| is_pinned),
                );
                (next, passed) = (before, 0);
            }
            let Some(rank) = rank else { break };
            let file = segment.file(rank)?;
            let found = FoundFile {
                dir: places.get(file.dir)?,
                name: segment.name(file.name)?.to_os_string(),
                target: None,
            };
            let within = self.within(rank, &file)?;
            let stamp = Some(Stamp::from_record(file.stamp));
            let words = match is_pinned {
                true => self.words(rank)?,
                false => None,
            };
            add(found, self.count(next..rank) + passed, stamp, within, words);
            (next, passed) = (rank + 1, 0);
        }
        let rest = self.count(next..unit.end) + passed;
        if rest > 0 {
            items.push(Item::Passed(rest));
        }
        Ok(items)
    }

    /// Returns the terms of a ranked question that a file of the segment has. Returns `None` if its
    /// words are not known, or have to be looked at again because the file has several names.
    fn words(&self, rank: u32) -> Result<Option<Box<KnownWords>>, FormatError> {
        let segment = self.snapshot.segment();
        if self.part.words.is_none()
            || !segment.word_ranks()?.contains(rank)
            || self.look == ChangeCheck::Linked && segment.linked()?.contains(rank)
        {
            return Ok(None);
        }
        Ok(self.in_segment.hits.get(rank).map(|(counts, hits)| {
            let hits = hits.to_vec();
            Box::new(KnownWords { counts, hits })
        }))
    }

    /// Returns the parts of a file in which matches can be, if reading them first promises to be
    /// less work than reading the whole file.
    fn within(
        &self,
        rank: u32,
        file: &FileRecord,
    ) -> Result<Option<Box<CandidateSpans>>, FormatError> {
        // A changed file is searched although it is not a candidate. Its parts are unknown.
        if !self.in_segment.candidates.files().contains(rank) {
            return Ok(None);
        }
        let spans = self
            .snapshot
            .segment()
            .spans(rank, &self.in_segment.candidates)?;
        let worth = |spans: &Vec<Range<u64>>| {
            let bytes: u64 = spans.iter().map(|span| span.end - span.start).sum();
            bytes <= file.stamp.len / SPAN_SHARE
        };
        Ok(spans.filter(worth).map(|spans| {
            // The search opens the file anyway, and then knows its state.
            let stamp = (self.look != ChangeCheck::None).then(|| Stamp::from_record(file.stamp));
            Box::new(CandidateSpans::new(spans, stamp))
        }))
    }
}

/// Cache of the directories of files that are handed out.
struct Places<'a> {
    source: &'a CatalogSource,
    known: BTreeMap<u32, Arc<Place>>,
    /// The directory of the last file that the catalog lacks.
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
        let part = &self.source.part;
        Arc::new(Place {
            root: part.root.clone(),
            real: join(&part.base, dir),
            logical: part.logical(dir).to_path_buf(),
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
