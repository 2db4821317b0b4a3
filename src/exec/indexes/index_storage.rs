//! The storage of a tool's indexes: where they are, and how a build gets an index there.
//!
//! All roots of a tool share one [`IndexStorage`]. This module owns the store or the memory
//! fallback, and the build options. It holds the counter of open segments, [`Handles`]. It does not
//! decide which requests may use an index.

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::place::{Fallback, Place};
use super::roots::IndexRoot;
use crate::exec::sources::reach::Reach;
use crate::format::storage::Storage;
use crate::index::builder::{
    BuildError, BuildHost, BuildOptions, BuildRequest, BuiltSegment, EarlierSegment, MAX_SETTLE,
    build_from,
};
use crate::index::handles::Handles;
use crate::index::inputs::Inputs;
use crate::index::names::shown;
use crate::index::refresh::can_be_listed;
use crate::index::segment::Segment;
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::store::{Publication, Store};
use crate::index::walk::{IgnoreRules, Walk};

/// Where indexes are stored, and how they are built.
#[derive(Debug)]
pub(super) struct IndexStorage {
    options: BuildOptions,
    /// Counts open segments, including those in memory.
    handles: Handles,
    store: Option<Store>,
    /// Why indexes are not stored in the configured place. This may become known only when the
    /// directory is created.
    fallback: OnceLock<Fallback>,
    /// Why indexes are neither stored nor used.
    nowhere: Option<Fallback>,
}

impl IndexStorage {
    pub(super) fn new(place: Place, options: BuildOptions, handles: Handles) -> IndexStorage {
        let (store, fallback, nowhere) = match place {
            Place::Store(store) => (Some(store), None, None),
            Place::Memory(fallback) => (None, fallback, None),
            Place::Nowhere(why) => (None, None, Some(why)),
        };
        IndexStorage {
            options,
            handles,
            store,
            fallback: fallback.map_or_else(OnceLock::new, OnceLock::from),
            nowhere,
        }
    }

    pub(super) fn options(&self) -> &BuildOptions {
        &self.options
    }

    pub(super) fn store(&self) -> Option<&Store> {
        let store = self.store.as_ref();
        store.filter(|_| self.fallback.get().is_none())
    }

    pub(super) fn handles(&self) -> &Handles {
        &self.handles
    }

    pub(super) fn storage(&self) -> StorageMode {
        self.store().map_or(StorageMode::Memory, Store::mode)
    }

    pub(super) fn nowhere(&self) -> Option<&Fallback> {
        self.nowhere.as_ref()
    }

    pub(super) fn fallback(&self) -> Option<&Fallback> {
        self.fallback.get().or(self.nowhere.as_ref())
    }

    /// Returns the code that `storage_fallback_reason` shows, if there is one.
    pub(super) fn fallback_code(&self) -> Option<&'static str> {
        self.fallback.get().map(|fallback| fallback.code)
    }

    /// Returns why other users may be able to read the stored indexes; `None` if they can't.
    pub(super) fn exposed(&self) -> Option<String> {
        let error = self.store()?.exposure()?;
        Some(format!(
            "{error}; indexes are stored there anyway, because index_allow_insecure_persistence is \
             true in [tools.search]: other users may learn names of files and parts of their \
             contents"
        ))
    }

    /// Logs a warning if other users may be able to read the indexes.
    pub(super) fn log_exposed(&self) {
        if let Some(why) = self.exposed() {
            tracing::warn!(target: "forge_search::index", "{why}");
        }
    }

    pub(super) fn make_place(&self) {
        let Some(store) = self.store() else {
            return;
        };
        let made = store.make_root().and_then(|()| match store.list() {
            // Indexes that are stored already remain usable in a read-only directory.
            Ok(kept) if kept.is_empty() => store.check_writable(),
            _ => Ok(()),
        });
        if let Err(error) = made {
            self.fallback.get_or_init(|| {
                let fallback = Fallback::denied(&error);
                let message = &fallback.message;
                tracing::warn!(target: "forge_search::index", "indexes are not kept: {message}");
                fallback
            });
        }
    }

    /// Builds the index of a root even if there is one, and puts it into use. Waits for locks no
    /// longer than `patience`.
    ///
    /// Unchanged files are copied from the earlier segment, or from an unfinished build. A database
    /// always reads the whole tree, since it can't store the gaps that copying leaves.
    pub(super) fn build(
        &self,
        root: &IndexRoot,
        reach: &Arc<Reach>,
        host: &dyn BuildHost,
        request: BuildRequest<'_>,
        patience: Duration,
    ) -> Result<(BuiltSegment, Arc<Snapshot>), BuildError> {
        if let Some(nowhere) = &self.nowhere {
            return Err(BuildError::NoPlace(nowhere.message.clone()));
        }
        self.make_place();
        self.log_exposed();
        let now_ms = host.now_ns() / 1_000_000;
        let excludes = root.global_excludes.as_deref();
        if !root.is_under(reach, root.traversal.rules, excludes) {
            return Err(BuildError::OtherPolicy(root.path.clone()));
        }
        let above = above(root, host);
        let walk = walk(root, reach).ok_or_else(|| BuildError::NotARoot(root.path.clone()))?;
        let has_words = |earlier: EarlierSegment<'_>| earlier.has_words();
        let options = BuildOptions {
            words: request.words || request.earlier.is_some_and(has_words),
            ..self.options
        };
        let earlier = request
            .earlier
            .filter(|_| self.storage() != StorageMode::Sqlite);
        let store = self.store().filter(|_| request.keep);
        let store = store.map(|store| store.waiting(patience));
        let unfinished = match (earlier, &store) {
            (None, Some(store)) => {
                // If another process is removing the unfinished build, this build starts from the
                // beginning.
                let store = store.waiting(Duration::ZERO);
                store.unfinished(&root.key, &mut |_| {})
            }
            _ => None,
        };
        let earlier = earlier.or(unfinished.as_ref().map(EarlierSegment::new));
        let build = |out: &mut dyn Write| build_from(&walk, &options, host, earlier, out);
        let (built, snapshot) = match &store {
            Some(store) => {
                let publication = Publication {
                    key: &root.key,
                    params: self.options.params,
                    above,
                    now_ms,
                };
                store.publish(&publication, host, build)?
            }
            None => {
                let handle = self.handles.take()?;
                let mut bytes = Vec::new();
                let built = build(&mut bytes)?;
                let limit = self.options.max_memory_bytes;
                if bytes.len() as u64 > limit {
                    let bytes = bytes.len() as u64;
                    return Err(BuildError::OverMemory { limit, bytes });
                }
                let segment = Segment::open_own(Storage::from(bytes))?;
                let mut inputs = above;
                inputs.append(built.inputs.clone());
                let snapshot = Snapshot::new(
                    root.key.clone(),
                    StorageMode::Memory,
                    segment,
                    inputs,
                    built.errors.len() as u64,
                );
                (built, snapshot.counted(handle))
            }
        };
        let snapshot = Arc::new(snapshot);
        root.set_open(self.store(), snapshot.clone());
        tracing::debug!(
            target: "forge_search::index",
            root = %shown(&root.path),
            storage = snapshot.storage().as_str(),
            "an index was built"
        );
        Ok((built, snapshot))
    }
}

/// Returns true if no known error would hide files from a build of an index root.
pub(super) fn is_listable(root: &IndexRoot, reach: &Arc<Reach>, host: &dyn BuildHost) -> bool {
    // Without a walk there is nothing to list; the build reports the reason.
    walk(root, reach).is_none_or(|walk| can_be_listed(&walk, &|| host.stopped()))
}

/// Prepares a walk over an index root with the current rules. Returns `None` if the root can't
/// be opened.
pub(super) fn walk(root: &IndexRoot, reach: &Arc<Reach>) -> Option<Walk> {
    let (allowed, base) = root.locate(reach)?;
    let excludes = root.global_excludes.as_deref();
    let deny = reach.indexed_deny();
    Some(reach.walk(allowed, base, root.traversal, deny, excludes))
}

/// Examines the ignore files above the tree and the global excludes. First waits until recent
/// changes have settled.
pub(super) fn above(root: &IndexRoot, host: &dyn BuildHost) -> Inputs {
    if root.traversal.rules == IgnoreRules::None {
        return Inputs::default();
    }
    let excludes = root.global_excludes.as_deref();
    let wait = Inputs::above(&root.path, excludes).settle_in(host.now_ns());
    if !wait.is_zero() {
        host.pause(wait.min(MAX_SETTLE));
    }
    let now_ns = host.now_ns();
    let mut above = Inputs::above(&root.path, excludes);
    above.distrust_unsettled(now_ns);
    above
}
