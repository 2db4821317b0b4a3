//! Paths of files that are listed without being opened.
//!
//! Sources return them; `engine::list` is the engine for files that are listed one by one. Owns
//! [`ListedFiles`], which holds many paths in one buffer, because a list can have millions. The
//! order and the limits are those of every answer.

use std::borrow::Cow;
use std::path::Path;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::exec::as_text;

/// The end of a path. No path contains it, and it needs no escapes in JSON.
const END: &[u8] = b"//";

/// Listed files of one searched path, in emission order.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use forge_search::internal::exec::answer::listed::ListedFiles;
///
/// let mut files = ListedFiles::default();
/// files.push(Path::new("src"), Path::new("lib.rs"));
/// files.push(Path::new(""), Path::new("README.md"));
/// let paths: Vec<_> = files.iter().collect();
/// assert_eq!(paths, [Path::new("src/lib.rs"), Path::new("README.md")]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedFiles {
    /// The index of the searched path that contains the files, from 0.
    pub target: usize,
    /// The number of files.
    count: usize,
    /// The paths relative to the searched path, each followed by [`END`]. A searched path that is a
    /// file has the empty path.
    #[serde(with = "as_text::bytes")]
    paths: Vec<u8>,
    /// The size of each file in bytes, in lists with sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<u64>,
}

impl ListedFiles {
    /// Creates an empty list for the searched path with this index.
    pub fn of_target(target: usize) -> ListedFiles {
        ListedFiles {
            target,
            ..ListedFiles::default()
        }
    }

    /// Adds a file by its directory and its path from there.
    pub fn push(&mut self, dir: &Path, path: &Path) {
        if !dir.as_os_str().is_empty() {
            self.paths.extend_from_slice(&as_text::path_bytes(dir));
            self.paths.push(b'/');
        }
        self.paths.extend_from_slice(&as_text::path_bytes(path));
        self.paths.extend_from_slice(END);
        self.count += 1;
    }

    /// Adds a file with its size. The list must have the sizes of all files.
    pub(crate) fn push_sized(&mut self, dir: &Path, path: &Path, size: u64) {
        self.push(dir, path);
        self.sizes.push(size);
    }

    /// Returns the size of each file, in the order of the files. Empty for a list without sizes.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is no file.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the paths, relative to the searched path.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, Path>> {
        let finder = memmem::Finder::new(END);
        let mut rest = &self.paths[..];
        std::iter::from_fn(move || {
            let end = finder.find(rest)?;
            let path = as_text::path_from(&rest[..end]);
            rest = &rest[end + END.len()..];
            Some(path)
        })
    }

    /// Returns the last path. Looks only at the end of the list.
    pub(crate) fn last(&self) -> Option<Cow<'_, Path>> {
        let paths = self.paths.strip_suffix(END)?;
        let start = memmem::rfind(paths, END).map_or(0, |end| end + END.len());
        Some(as_text::path_from(&paths[start..]))
    }

    /// Keeps the first `most` files.
    pub(crate) fn truncate(&mut self, most: usize) {
        if most >= self.count {
            return;
        }
        let end = match most.checked_sub(1) {
            None => 0,
            Some(nth) => memmem::find_iter(&self.paths, END)
                .nth(nth)
                .map_or(0, |end| end + END.len()),
        };
        self.paths.truncate(end);
        self.sizes.truncate(most);
        self.count = most;
    }

    /// Splits the list into parts whose paths need up to `bytes`, or of one file.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use forge_search::internal::exec::answer::listed::ListedFiles;
    /// let mut files = ListedFiles::default();
    /// files.push(Path::new(""), Path::new("README.md"));
    /// files.push(Path::new("src"), Path::new("lib.rs"));
    ///
    /// let parts: Vec<ListedFiles> = files.parts(16).collect();
    /// assert_eq!(parts.len(), 2);
    /// assert_eq!(parts[1].iter().collect::<Vec<_>>(), [Path::new("src/lib.rs")]);
    /// ```
    pub fn parts(&self, bytes: usize) -> impl Iterator<Item = ListedFiles> {
        let (mut rest, mut sizes) = (&self.paths[..], &self.sizes[..]);
        std::iter::from_fn(move || {
            let window = &rest[..bytes.min(rest.len())];
            let mut ends = memmem::find_iter(window, END);
            let (count, last) = match ends.next() {
                Some(first) => ends.fold((1, first), |(count, _), end| (count + 1, end)),
                None => (1, memmem::find(rest, END)?),
            };
            let (paths, after) = rest.split_at(last + END.len());
            let (own_sizes, later) = sizes.split_at(count.min(sizes.len()));
            (rest, sizes) = (after, later);
            Some(ListedFiles {
                target: self.target,
                count,
                paths: paths.to_vec(),
                sizes: own_sizes.to_vec(),
            })
        })
    }

    /// Drops files from the start while `is_unwanted` holds for them.
    pub(crate) fn drop_while(&mut self, is_unwanted: impl Fn(&Path) -> bool) {
        let mut kept = ListedFiles::of_target(self.target);
        for path in self.iter().skip_while(|path| is_unwanted(path)) {
            kept.push(Path::new(""), &path);
        }
        kept.sizes = self
            .sizes
            .split_off(self.sizes.len().saturating_sub(kept.count));
        *self = kept;
    }

    /// Estimates the bytes that the paths keep in memory.
    pub(crate) fn footprint(&self) -> usize {
        size_of::<ListedFiles>() + self.paths.len() + size_of_val(&self.sizes[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paths: &[&str]) -> ListedFiles {
        let mut files = ListedFiles::default();
        for path in paths {
            files.push(Path::new(""), Path::new(path));
        }
        files
    }

    #[test]
    fn the_first_files_are_kept() {
        let all = ["a", "b/c", "", "d"];
        for most in 0..6 {
            let mut files = of(&all);
            files.truncate(most);
            let kept = most.min(all.len());
            assert_eq!(files, of(&all[..kept]));
            assert_eq!((files.len(), files.is_empty()), (kept, kept == 0));
            assert_eq!(files.iter().count(), kept);
            assert_eq!(files.last(), files.iter().last());
        }
    }

    #[test]
    fn a_long_list_is_split_into_parts() {
        let all = ["a", "b/c", "", "d", "a/rather/long/path", "e"];
        let mut sized = ListedFiles::default();
        for (size, path) in (0..).zip(all) {
            sized.push_sized(Path::new(""), Path::new(path), size);
        }
        for (bytes, list) in (0..40).flat_map(|bytes| [(bytes, of(&all)), (bytes, sized.clone())]) {
            let (mut paths, mut sizes) = (Vec::new(), Vec::new());
            for part in list.parts(bytes) {
                assert!(part.len() == 1 || part.paths.len() <= bytes);
                assert_eq!(part.len(), part.iter().count());
                paths.extend(part.iter().map(Cow::into_owned));
                sizes.extend_from_slice(part.sizes());
            }
            assert_eq!(paths, all.map(std::path::PathBuf::from), "{bytes} bytes");
            assert_eq!(sizes, list.sizes());
        }
        assert_eq!(of(&[]).parts(9).count(), 0);
    }

    #[test]
    fn files_are_dropped_from_the_start_only() {
        let mut files = of(&["a", "b", "c", "a"]);
        files.drop_while(|path| path < Path::new("c"));
        assert_eq!(files, of(&["c", "a"]));
    }

    #[cfg(unix)]
    #[test]
    fn paths_that_are_no_text_are_sent_as_they_are() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let mut files = of(&["ü"]);
        for _ in 0..2 {
            let sent = serde_json::to_string(&files).unwrap();
            assert_eq!(serde_json::from_str::<ListedFiles>(&sent).unwrap(), files);
            files.push(Path::new("d"), Path::new(OsStr::from_bytes(b"\xff")));
        }
        assert_eq!(files.len(), 3);
    }
}
