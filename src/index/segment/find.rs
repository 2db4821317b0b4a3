//! Finds files and directories by their paths, relative to the root of the tree.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{DirPaths, Segment};
use crate::format::error::FormatError;
use crate::format::segment::DirRecord;
use crate::format::sort_key::cmp_paths;
use crate::index::names::name_bytes;

impl Segment {
    /// Finds a directory by its path, relative to the root. Returns `None` if the enumeration did
    /// not enter it. Takes logarithmic time in the number of directories.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn find_dir(&self, path: &Path) -> Result<Option<u32>, FormatError> {
        let DirPaths { paths, sorted } = self.paths()?;
        let bytes = |path: &Path| name_bytes(path.as_os_str()).to_vec();
        let wanted = bytes(path);
        let at = sorted.binary_search_by(|&number| {
            let path = paths.get(number as usize).map(PathBuf::as_path);
            name_bytes(path.unwrap_or(Path::new("")).as_os_str()).cmp(&wanted)
        });
        Ok(at.ok().and_then(|at| sorted.get(at).copied()))
    }

    /// Returns the rank of the first file at or after a path in emission order. Takes logarithmic
    /// time in the number of files.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn position(&self, path: &Path) -> Result<u32, FormatError> {
        self.position_in(0..self.meta.files, path)
    }

    /// Finds a file by its path, relative to the root. Takes logarithmic time in the numbers of
    /// directories, and of files below the file's directory.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn find_file(&self, path: &Path) -> Result<Option<u32>, FormatError> {
        let Some(dir) = self.find_dir(path.parent().unwrap_or(Path::new("")))? else {
            return Ok(None);
        };
        let DirRecord {
            first_rank,
            end_rank,
            ..
        } = self.dir(dir)?;
        let rank = self.position_in(first_rank..end_rank, path)?;
        Ok((rank < end_rank && self.path(rank)? == path).then_some(rank))
    }

    /// Returns the rank of the first file at or after a path among the files of a range.
    fn position_in(&self, ranks: Range<u32>, path: &Path) -> Result<u32, FormatError> {
        let (mut low, mut high) = (ranks.start, ranks.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if cmp_paths(&self.path(middle)?, path).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
