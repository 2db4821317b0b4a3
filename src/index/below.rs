//! Maps by path: the entries at and below a path.
//!
//! Paths are ordered by components, so the entries below a path follow it without a gap. Each
//! function takes logarithmic time in the number of all entries, and linear time in those below.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Returns the entries at and below a path, in order.
pub(super) fn below<'a, T>(
    map: &'a BTreeMap<PathBuf, T>,
    path: &'a Path,
) -> impl Iterator<Item = (&'a PathBuf, &'a T)> {
    map.range::<Path, _>((Bound::Included(path), Bound::Unbounded))
        .take_while(move |(below, _)| below.starts_with(path))
}

/// Returns the paths of the entries at and below a path, in order.
pub(super) fn paths_below<T>(map: &BTreeMap<PathBuf, T>, path: &Path) -> Vec<PathBuf> {
    below(map, path).map(|(path, _)| path.clone()).collect()
}

/// Removes the entries at and below a path. Returns true if there were any.
pub(super) fn remove_below<T>(map: &mut BTreeMap<PathBuf, T>, path: &Path) -> bool {
    let paths = paths_below(map, path);
    for path in &paths {
        map.remove(path);
    }
    !paths.is_empty()
}
