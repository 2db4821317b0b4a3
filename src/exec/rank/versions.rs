//! Finds old code: versions that lie beside newer ones, such as `v3/` beside `v4/`, and copies of
//! files, such as `tools/include/list.h` of `include/list.h`.
//!
//! The score of a file ([`Scorer`](super::Scorer)) depends on it.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::Terms;

/// The directories of versions in a tree, and the copies of files.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The highest version in each directory that has versions.
    newest: BTreeMap<String, u32>,
    /// Paths that end with the whole path of another file.
    copies: BTreeSet<String>,
}

impl Versions {
    /// Collects the versions that some paths have, and the copies among them. There are no versions
    /// if the question asks for one.
    pub fn of<'p>(terms: &Terms, paths: impl Iterator<Item = &'p str>) -> Versions {
        let mut newest = BTreeMap::new();
        let asked = terms.words().iter().any(|word| version(word).is_some());
        let all: BTreeSet<&str> = paths.collect();
        let is_copy = |path: &str| {
            let mut ends = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
            ends.any(|end| end.contains('/') && all.contains(end))
        };
        let copies = all.iter().copied().filter(|path| is_copy(path));
        let copies = copies.map(str::to_string).collect();
        for path in all.into_iter().filter(|_| !asked) {
            each_version(path, |parent, version| match newest.get_mut(parent) {
                Some(most) => *most = version.max(*most),
                None => {
                    newest.insert(parent.to_string(), version);
                }
            });
        }
        Versions { newest, copies }
    }

    /// Returns true if a path is a copy, or lies in a version for which there is a newer one beside
    /// it.
    pub fn is_old(&self, path: &str) -> bool {
        let mut is_old = self.copies.contains(path);
        each_version(path, |parent, version| {
            is_old |= self.newest.get(parent).is_some_and(|most| version < *most);
        });
        is_old
    }
}

/// Calls `each` for each directory of a path that is a version: with the path of its parent.
fn each_version(path: &str, mut each: impl FnMut(&str, u32)) {
    for (at, _) in path.match_indices('/') {
        let (parent, name) = path[..at].rsplit_once('/').unwrap_or(("", &path[..at]));
        if let Some(version) = version(name) {
            each(parent, version);
        }
    }
}

/// Returns the number of a version: 3 for `v3`.
fn version(name: &str) -> Option<u32> {
    name.strip_prefix('v')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_with_a_newer_one_beside_them_are_old() {
        let paths = [
            "src/v3/types.ts",
            "src/v4/core/types.ts",
            "other/v1/a.rs",
            "v2/b.go",
        ];
        let of = |question| Versions::of(&Terms::new(question).unwrap(), paths.into_iter());
        let old = |question| paths.map(|path| of(question).is_old(path));
        assert_eq!(old("types of errors"), [true, false, false, false]);
        assert_eq!(old("types of v3"), [false; 4]);
        assert!(of("types").is_old("src/v3/x") && !of("types").is_old("src/v5/x"));
        assert!(!of("types").is_old("src/v/x") && !of("types").is_old(""));
    }

    #[test]
    fn a_file_with_the_path_of_another_one_at_its_end_is_a_copy() {
        let paths = [
            "include/linux/list.h",
            "tools/include/linux/list.h",
            "list.h",
            "scripts/list.h",
        ];
        let versions = Versions::of(&Terms::new("list").unwrap(), paths.into_iter());
        let copies = paths.map(|path| versions.is_old(path));
        // A name alone says too little.
        assert_eq!(copies, [false, true, false, false]);
    }
}
