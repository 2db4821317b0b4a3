//! The files that an index rules out, as a list.
//!
//! Owns which of the skipped files are listed, and which of them a search reads as they are.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memchr;
use rayon::prelude::*;

use super::CatalogSource;
use crate::exec::eligible::Item;
use crate::exec::listed::ListedFiles;
use crate::exec::stop::Stop;
use crate::format::error::FormatError;
use crate::index::ranks::RankSet;
use crate::index::root_dir::RootDir;
use crate::index::segment::Segment;
use crate::index::stamp::Stamp;
use crate::index::text::is_marked;

/// The size of the block that is read at once.
const BLOCK: usize = 64 << 10;

impl CatalogSource {
    /// Returns the skipped files of a unit as a list, without those that `changed`. A list of texts
    /// has sizes, and no files that the catalog lacks.
    pub(super) fn ruled_out(
        &self,
        unit: Range<u32>,
        changed: &[u32],
        stop: &Stop,
    ) -> Result<Vec<Item<Range<u32>>>, FormatError> {
        if stop.is_raised() {
            // Not all changes are known.
            return Ok(Vec::new());
        }
        let changed: BTreeSet<u32> = changed.iter().copied().collect();
        let segment = self.snapshot.segment();
        let mut files = ListedFiles::default();
        let mut last = (u32::MAX, Path::new(""));
        for rank in self.all(unit.clone()) {
            let is_read = self.candidates.files().contains(rank) || changed.contains(&rank);
            if is_read
                || self
                    .texts
                    .as_ref()
                    .is_some_and(|texts| !texts.contains(rank))
            {
                continue;
            }
            let file = segment.file(rank)?;
            if file.dir != last.0 {
                last = (file.dir, self.scope.logical(segment.dir_path(file.dir)?));
            }
            let name = Path::new(segment.name(file.name)?);
            match self.texts.is_some() {
                true => files.push_sized(last.1, name, file.stamp.len),
                false => files.push(last.1, name),
            }
        }
        if self.texts.is_none() {
            let extras = self.extra_files(&unit).iter().filter(|own| !own.wanted);
            extras.for_each(|own| files.push(Path::new(""), self.scope.logical(&own.path)));
        }
        Ok(vec![Item::Listed(files)])
    }
}

/// Returns the files of a segment that a search reads as they are: without a byte-order mark and
/// without a NUL byte. Reads all files, on the threads of the current pool. A file that differs
/// from its record is left out.
pub(super) fn texts(
    segment: &Segment,
    root: &RootDir,
    base: &Path,
) -> Result<RankSet, FormatError> {
    let found: Vec<u32> = (0..segment.file_count())
        .into_par_iter()
        .map_init(
            || vec![0; BLOCK],
            |block, rank| {
                let file = segment.file(rank)?;
                if !file.excludable {
                    return Ok(None);
                }
                let dir: PathBuf = base.join(segment.dir_path(file.dir)?);
                let path = dir.join(segment.name(file.name)?);
                let stamp = Stamp::from_record(file.stamp);
                Ok(is_text(root, &path, stamp, block).then_some(rank))
            },
        )
        .filter_map(Result::transpose)
        .collect::<Result<_, FormatError>>()?;
    let mut set = RankSet::empty(segment.file_count());
    found.into_iter().for_each(|rank| {
        set.insert(rank);
    });
    Ok(set)
}

/// Returns whether a file has the state `expected`, no byte-order mark and no NUL byte.
fn is_text(root: &RootDir, path: &Path, expected: Stamp, block: &mut [u8]) -> bool {
    let Ok((mut file, meta)) = root.open_file_with_meta(path) else {
        return false;
    };
    if Stamp::of(&meta) != Some(expected) {
        return false;
    }
    let mut size = 0;
    loop {
        let read = match file.read(block) {
            Ok(0) => return size == expected.len(),
            Ok(read) => &block[..read],
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return false,
        };
        if memchr(0, read).is_some() || size == 0 && is_marked(read) {
            return false;
        }
        size += read.len() as u64;
    }
}
