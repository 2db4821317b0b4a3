//! Indexes of one tree that were built under different denied patterns.
//!
//! The patterns are part of the key, so that an index is never used under others. But an index that
//! was built under fewer patterns still has the names and n-grams of files that are denied now: it
//! is removed (SEC-LSI-02). For example, with the new pattern `**/*.secret` the index without it
//! goes.

use std::path::PathBuf;
use std::time::Duration;

use super::evict::lock_now;
use super::{Evicted, Eviction, Spared, Store, empty, files};
use crate::format::error::FormatError;
use crate::format::lock::LockFile;
use crate::format::manifest::KeyParts;
use crate::index::deny::DEFAULT_DENIES;
use crate::index::key::root_of;

/// An index of the same tree, built under other denied patterns.
struct Other {
    dir: PathBuf,
    key: KeyParts,
    bytes: u64,
    accessed_ms: Option<i64>,
}

impl Store {
    /// Returns how the indexes of the tree of `key` that were built under other denied patterns
    /// compare with it: `None` if there are none, and else whether one of them lacks a pattern of
    /// `key`. Reads the manifest of each index, and waits for nobody.
    pub fn other_policies(&self, key: &KeyParts) -> Option<bool> {
        let others = self.others(key);
        let is_laxer = others.iter().any(|other| is_laxer(&other.key, key));
        (!others.is_empty()).then_some(is_laxer)
    }

    /// Removes the indexes of the tree of `key` that lack one of its denied patterns, also what
    /// builds that are not finished have left. Those that somebody writes or opens right now stay
    /// for the next time. Whoever has one open keeps it until it is closed.
    ///
    /// Serves `SEC-LSI-02`.
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
                // Another process was faster.
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    let problem = (!error.is_locked()).then(|| error.to_string());
                    done.unpurged.push(Spared { dir, root, problem });
                }
            }
        }
        done
    }

    fn purge(&self, other: &Other) -> Result<(), FormatError> {
        let disk = &*self.terms.disk;
        let _readers = lock_now(disk, &other.dir, LockFile::Readers)?;
        let writers = lock_now(disk, &other.dir, LockFile::Writers)?;
        empty(disk, &writers)
    }

    /// Finds the indexes of the tree of `key` with other denied patterns.
    fn others(&self, key: &KeyParts) -> Vec<Other> {
        let store = self.waiting(Duration::ZERO);
        let listed = store.list_with_unfinished().unwrap_or_default();
        let others = listed.into_iter().filter_map(|listed| {
            let found = match &listed.manifest {
                Ok(manifest) => manifest.key.clone(),
                Err(_) => files::unfinished_key(&store.terms, &listed.dir)?,
            };
            let is_other = found.root == key.root && own_patterns(&found).ne(own_patterns(key));
            is_other.then_some(Other {
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

/// Returns the denied patterns of a key without the default ones: of what those name, no index has
/// more than the path.
fn own_patterns(key: &KeyParts) -> impl Iterator<Item = &String> {
    let is_default = |pattern: &&String| DEFAULT_DENIES.contains(&pattern.as_str());
    key.deny_patterns
        .iter()
        .filter(move |pattern| !is_default(pattern))
}
