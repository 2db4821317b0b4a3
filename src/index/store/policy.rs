//! Purges indexes of a tree that were built under weaker denied patterns.
//!
//! The patterns are part of the key, so an index is never used under other patterns. But an index
//! that was built under fewer patterns still has the names and n-grams of files that are denied
//! now, and must be removed. For example, adding the pattern `**/*.secret` removes the index that
//! was built without it.

use std::path::PathBuf;
use std::time::Duration;

use super::evict::lock_now;
use super::{Evicted, Eviction, NotEvicted, Store, empty, files};
use crate::format::error::FormatError;
use crate::format::lock::LockFile;
use crate::format::manifest::KeyParts;
use crate::index::deny::DEFAULT_DENIES;
use crate::index::key::root_of;

/// An index of the same tree that was built under other denied patterns.
struct OtherPolicyIndex {
    dir: PathBuf,
    key: KeyParts,
    bytes: u64,
    accessed_ms: Option<i64>,
}

impl Store {
    /// Compares the other indexes of the tree of `key` with its denied patterns. `None` if no index
    /// has other patterns; `Some(true)` if an index lacks a pattern of `key`. Reads the manifest of
    /// every index, and does not wait for locks.
    pub fn other_policies(&self, key: &KeyParts) -> Option<bool> {
        let others = self.others(key);
        let is_laxer = others.iter().any(|other| is_laxer(&other.key, key));
        (!others.is_empty()).then_some(is_laxer)
    }

    /// Removes the indexes and unfinished builds of the tree of `key` that lack one of its deny
    /// patterns. An index that a process writes or opens stays until the next call. Processes that
    /// have an index open keep it.
    pub fn purge_laxer(&self, key: &KeyParts) -> Eviction {
        let mut done = Eviction::default();
        let others = self.others(key).into_iter();
        for other in others.filter(|other| is_laxer(&other.key, key)) {
            let (dir, root) = (other.dir.clone(), root_of(&other.key));
            match self.purge(&other) {
                Ok(()) => done.purged.push(Evicted {
                    dir,
                    root,
                    bytes: other.bytes,
                    accessed_ms: other.accessed_ms,
                }),
                // Another process removed the index first.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let problem = (!error.is_locked()).then(|| error.to_string());
                    done.unpurged.push(NotEvicted { dir, root, problem });
                }
            }
        }
        done
    }

    fn purge(&self, other: &OtherPolicyIndex) -> Result<(), FormatError> {
        let disk = &*self.settings.disk;
        let readers = lock_now(disk, &other.dir, LockFile::Readers)?;
        let writers = lock_now(disk, &other.dir, LockFile::Writers)?;
        empty(disk, writers, Some(readers))
    }

    /// Finds the indexes of the tree of `key` with other denied patterns.
    fn others(&self, key: &KeyParts) -> Vec<OtherPolicyIndex> {
        let store = self.waiting(Duration::ZERO);
        let listed = store.list_with_unfinished().unwrap_or_default();
        let others = listed.into_iter().filter_map(|listed| {
            let found = match &listed.manifest {
                Ok(manifest) => manifest.key.clone(),
                Err(_) => files::unfinished_key(&store.settings, &listed.dir)?,
            };
            let is_other = found.root == key.root && own_patterns(&found).ne(own_patterns(key));
            is_other.then_some(OtherPolicyIndex {
                dir: listed.dir,
                key: found,
                bytes: listed.bytes,
                accessed_ms: listed.accessed_ms,
            })
        });
        others.collect()
    }
}

/// Returns true if an index may have entries for files that are denied under the key `now`.
fn is_laxer(found: &KeyParts, now: &KeyParts) -> bool {
    let known: Vec<&String> = own_patterns(found).collect();
    own_patterns(now).any(|pattern| !known.contains(&pattern))
}

/// Returns the denied patterns of a key without the default ones. Of files that a default pattern
/// denies, every index has at most the path.
fn own_patterns(key: &KeyParts) -> impl Iterator<Item = &String> {
    let is_default = |pattern: &&String| DEFAULT_DENIES.contains(&pattern.as_str());
    key.deny_patterns
        .iter()
        .filter(move |pattern| !is_default(pattern))
}
