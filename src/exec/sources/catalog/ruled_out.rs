//! Makes the lists of files that a request wants in place of results ([`IndexList`]).
//!
//! This module owns which files are listed with their paths, and which are only counted. Files that
//! the index rules out may be counted if they are *plain*: without a byte-order mark and without a
//! NUL byte, so a search would see their bytes unchanged. This module reads the files to find out;
//! `plain_files` keeps the results.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

use memchr::memchr;

use super::CatalogSource;
use crate::exec::answer::listed::ListedFiles;
use crate::exec::question::{IndexList, is_hidden};
use crate::exec::sources::eligible::{Item, PathUnit};
use crate::exec::stop::Stop;
use crate::format::error::FormatError;
use crate::index::plain_files::PlainGroup;
use crate::index::stamp::Stamp;
use crate::index::text::is_marked;

/// The size of the block that is read at once.
const BLOCK: usize = 64 << 10;

impl CatalogSource {
    /// Returns the files of a unit that the request wants as a list, given the `changed` files.
    /// The first list that depends on texts reads the files.
    pub(super) fn by_index(
        &self,
        unit: Range<u32>,
        changed: &[u32],
        stop: &Stop,
    ) -> Result<Vec<Item<PathUnit>>, FormatError> {
        if stop.is_raised() {
            // Not all changes are known.
            return Ok(Vec::new());
        }
        let changed: BTreeSet<u32> = changed.iter().copied().collect();
        let segment = self.snapshot.segment();
        let list = self.part.by_index;
        let mut texts = Texts {
            source: self,
            stop,
            group: None,
            block: Vec::new(),
        };
        let mut files = ListedFiles::default();
        let (mut counted, mut bytes) = (0, 0);
        let mut last = (u32::MAX, Path::new(""), false);
        for rank in self.all(unit.clone()) {
            let is_read =
                self.in_segment.candidates.files().contains(rank) || changed.contains(&rank);
            if is_read && list.is_ruled_out() {
                continue;
            }
            let is_text = match list.needs_texts() && !is_read {
                true => texts.contain(rank)?,
                false => Some(false),
            };
            let Some(is_text) = is_text else {
                return Ok(Vec::new());
            };
            let file = segment.file(rank)?;
            if file.dir != last.0 {
                let dir = self.part.logical(segment.dir_path(file.dir)?);
                last = (file.dir, dir, dir.iter().any(is_hidden));
            }
            let name = segment.name(file.name)?;
            match list {
                IndexList::RuledOutTexts if is_text => {
                    files.push_sized(last.1, Path::new(name), file.stamp.len);
                }
                IndexList::RuledOutTexts => {}
                _ if is_text && !last.2 && !is_hidden(name) => {
                    counted += 1;
                    bytes += file.stamp.len;
                }
                _ => files.push(last.1, Path::new(name)),
            }
        }
        if list != IndexList::RuledOutTexts {
            let extras = self.extra_files(&unit).iter();
            let extras = extras.filter(|own| !(own.wanted && list.is_ruled_out()));
            extras.for_each(|own| files.push(Path::new(""), self.part.logical(&own.path)));
        }
        let mut items = vec![Item::Listed(files)];
        if counted > 0 {
            let mut sum = ListedFiles::default();
            sum.push_sized(Path::new(""), Path::new(""), bytes);
            items.extend([Item::Passed(counted), Item::Listed(sum)]);
        }
        Ok(items)
    }
}

/// The files that a search reads as they are: without a byte-order mark and without a NUL byte. A
/// file that differs from its record is not among them.
struct Texts<'a> {
    source: &'a CatalogSource,
    stop: &'a Stop,
    /// The group of the last file.
    group: Option<PlainGroup>,
    /// The memory of [`Texts::examine`].
    block: Vec<u8>,
}

impl Texts<'_> {
    /// Returns whether a file is one of them. Reads its group, unless that was done before for this
    /// segment. Returns `None` after a stop.
    fn contain(&mut self, rank: u32) -> Result<Option<bool>, FormatError> {
        if let Some(is_text) = self.group.and_then(|group| group.contains(rank)) {
            return Ok(Some(is_text));
        }
        let (source, stop) = (self.source, self.stop);
        let segment = source.snapshot.segment();
        let is_stopped = || stop.is_raised();
        self.group =
            segment
                .plain_files
                .group(rank, segment.file_count(), &is_stopped, |rank| {
                    self.examine(rank)
                })?;
        Ok(self.group.and_then(|group| group.contains(rank)))
    }

    /// Reads a file of the segment. Returns `None` after a stop.
    fn examine(&mut self, rank: u32) -> Result<Option<bool>, FormatError> {
        let segment = self.source.snapshot.segment();
        let file = segment.file(rank)?;
        if !file.excludable {
            return Ok(Some(false));
        }
        let dir = self.source.part.base.join(segment.dir_path(file.dir)?);
        let path = dir.join(segment.name(file.name)?);
        Ok(self.is_text(&path, Stamp::from_record(file.stamp)))
    }

    /// Returns whether a file has the state `expected`, no byte-order mark and no NUL byte. Returns
    /// `None` after a stop.
    fn is_text(&mut self, path: &Path, expected: Stamp) -> Option<bool> {
        if self.stop.is_raised() {
            return None;
        }
        let Ok((mut file, meta)) = self.source.part.root.open_file_with_meta(path) else {
            return Some(false);
        };
        if Stamp::of(&meta) != Some(expected) {
            return Some(false);
        }
        self.block.resize(BLOCK, 0);
        let mut size = 0;
        loop {
            let read = match file.read(&mut self.block) {
                Ok(0) => return Some(size == expected.len()),
                Ok(read) => &self.block[..read],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Some(false),
            };
            if memchr(0, read).is_some() || size == 0 && is_marked(read) {
                return Some(false);
            }
            size += read.len() as u64;
            if self.stop.is_raised() {
                return None;
            }
        }
    }
}
