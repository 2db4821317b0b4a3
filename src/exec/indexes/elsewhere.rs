//! Indexes that are kept, but of other roots than those that are configured.
//!
//! Owns finding one that people may have had in mind when a search finds none. Which index a search uses is not
//! decided here (FR-LSI-IDX-ROOT-02), and nothing is opened.

use std::path::{Path, PathBuf};

use super::Indexes;
use crate::exec::reach::Reach;
use crate::format::manifest::KeyParts;
use crate::index::key::root_of;

/// An index of another root, made with the settings that are in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its root.
    pub root: PathBuf,
    /// Whether the root contains what is searched; else it lies below that.
    pub contains: bool,
    /// Whether it would be used if its root were among `index_roots`, everything else being as it is.
    pub as_root: bool,
    /// Whether searches use it as it is.
    pub used: bool,
}

impl Indexes {
    /// Finds an index that is kept and whose root contains `path`, the deepest such; else the first whose root lies
    /// below it. Reads what each index that is kept says of itself.
    pub(crate) fn elsewhere(&self, path: &Path, reach: &Reach) -> Option<Elsewhere> {
        let own = self.roots.first()?.key.parts();
        let listed = self.store()?.list().ok()?;
        let known: Vec<(PathBuf, bool, bool)> = listed
            .iter()
            .filter_map(|listed| listed.manifest.as_ref().ok())
            .filter(|manifest| is_alike(&manifest.key, own))
            .filter_map(|manifest| {
                let as_root = KeyParts {
                    root: own.root.clone(),
                    ..manifest.key.clone()
                };
                let root = root_of(&manifest.key)?;
                let is_same = as_root == *own;
                let as_root = is_same && reach.locate(&root).is_some();
                Some((root, as_root, is_same))
            })
            .filter(|(root, ..)| self.root_at(root).is_none())
            .collect();
        let found = |(root, as_root, is_same): &(PathBuf, bool, bool), contains| Elsewhere {
            root: root.clone(),
            contains,
            as_root: *as_root,
            used: contains && *is_same && self.found.is_some(),
        };
        let above = known.iter().filter(|(root, ..)| path.starts_with(root));
        let deepest = above.max_by_key(|(root, _, is_same)| (root.components().count(), *is_same));
        let below = || {
            known
                .iter()
                .filter(|(root, ..)| root.starts_with(path))
                .min()
        };
        match deepest {
            Some(one) => Some(found(one, true)),
            None => below().map(|one| found(one, false)),
        }
    }
}

/// Returns true for keys that differ in nothing but the tree, and what depends on it.
fn is_alike(one: &KeyParts, other: &KeyParts) -> bool {
    let same_place = KeyParts {
        root: other.root.clone(),
        deny_patterns: other.deny_patterns.clone(),
        excludes_base: other.excludes_base.clone(),
        ..one.clone()
    };
    same_place == *other
}
