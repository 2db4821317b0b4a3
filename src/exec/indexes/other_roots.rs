//! Stored indexes of other roots than the configured ones.
//!
//! This module owns the search for an index that the user may have meant when the requested tree
//! has no index. The result only appears in messages and reports. This module does not decide which
//! index a search uses, and opens no index.

use std::path::{Path, PathBuf};

use super::Indexes;
use crate::exec::sources::reach::Reach;
use crate::format::manifest::KeyParts;
use crate::index::key::root_of;

/// A stored index of another root that was built with the settings in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRootIndex {
    /// The root of the index.
    pub root: PathBuf,
    /// Whether the root contains the searched path; otherwise the root lies below that path.
    pub contains: bool,
    /// Whether the index would be used if its root were among `index_roots` and all other settings
    /// stayed the same.
    pub as_root: bool,
    /// Whether searches use the index already, since they use indexes of enclosing directories.
    pub used: bool,
}

impl Indexes {
    /// Returns a stored index of another root that is near `path`. Prefers the deepest root that
    /// contains `path`; otherwise returns the first root below it. Reads the manifest of each
    /// stored index.
    pub(crate) fn index_of_other_root(&self, path: &Path, reach: &Reach) -> Option<OtherRootIndex> {
        let own = &self.roots.first()?.key;
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
        let found = |(root, as_root, is_same): &(PathBuf, bool, bool), contains| OtherRootIndex {
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

/// Returns true for keys that differ only in the root and in settings that depend on the root.
fn is_alike(one: &KeyParts, other: &KeyParts) -> bool {
    let same_place = KeyParts {
        root: other.root.clone(),
        deny_patterns: other.deny_patterns.clone(),
        excludes_base: other.excludes_base.clone(),
        ..one.clone()
    };
    same_place == *other
}
