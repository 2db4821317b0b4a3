//! Index roots: which directories are indexed, and what is known of the index of each.
//!
//! Owns the choice and validation of roots (FR-LSI-IDX-ROOT-01), and the memory of what was found on disk. What is
//! done with an index is decided elsewhere.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::error::{FormatError, FormatErrorKind};
use crate::index::key::IndexKey;
use crate::index::snapshot::Snapshot;
use crate::index::stamp::Stamp;
use crate::index::store::{AccessNotes, Store};
use crate::index::walk::TraversalOptions;
use crate::tool::config::SearchConfig;
use crate::tool::indexing::wall_clock_ns;
use crate::tool::sandbox::Sandbox;

/// A directory that is indexed.
#[derive(Debug)]
pub(super) struct IndexRoot {
    pub(super) path: PathBuf,
    pub(super) key: IndexKey,
    /// The traversal options of the one index of the root (FR-LSI-IDX-SCHED-01).
    pub(super) traversal: TraversalOptions,
    /// Git's global excludes, and the directory that their patterns are relative to.
    pub(super) global_excludes: Option<(PathBuf, PathBuf)>,
    known: Mutex<Known>,
    /// When its use was last noted in the store.
    notes: AccessNotes,
}

/// What is known of a root's index.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// There is none.
    Absent,
    /// It is open.
    Open(Arc<Snapshot>),
    /// It is damaged: why.
    Corrupt(String),
    /// It can't be opened, though it may be sound: why.
    Unavailable(String),
}

impl State {
    /// Returns false if the file of an open index was written to or cut off in its place.
    fn is_unchanged(&self) -> bool {
        match self {
            State::Open(snapshot) => snapshot.segment().storage().is_unchanged(),
            State::Absent | State::Corrupt(_) | State::Unavailable(_) => true,
        }
    }
}

/// A state, and the publication that it is of.
#[derive(Debug, Default)]
struct Known {
    state: Option<State>,
    publication: Option<Stamp>,
}

impl IndexRoot {
    pub(super) fn new(
        path: PathBuf,
        key: IndexKey,
        traversal: TraversalOptions,
        global_excludes: Option<(PathBuf, PathBuf)>,
    ) -> IndexRoot {
        IndexRoot {
            path,
            key,
            traversal,
            global_excludes,
            known: Mutex::default(),
            notes: AccessNotes::default(),
        }
    }

    /// Returns true if a sandbox and global excludes make the same files eligible as those for which the index is.
    pub(super) fn is_under(&self, sandbox: &Sandbox, global_excludes: Option<&Path>) -> bool {
        let asked = global_excludes.map(|path| (path, sandbox.working_dir()));
        let own = self.global_excludes.as_ref();
        deny_of(sandbox) == self.key.parts().deny_patterns
            && asked == own.map(|(path, base)| (&**path, &**base))
    }

    /// Returns the state of the index. Opens the kept one if nobody has, or if another process has built or
    /// removed it since; otherwise costs one look at one file. Notes that it is in use: on opening, and then once a
    /// minute at most (`FR-LSI-IDX-RM-02`).
    pub(super) fn state(&self, store: Option<&Store>) -> State {
        let Some(store) = store else {
            return self.lock().state.clone().unwrap_or(State::Absent);
        };
        let state = self.state_in(store);
        if matches!(state, State::Open(_)) {
            let now_ms = wall_clock_ns() / 1_000_000;
            if self.notes.is_due(now_ms) {
                store.note_access(self.key.parts(), now_ms);
            }
        }
        state
    }

    fn state_in(&self, store: &Store) -> State {
        // Looked at first: if it is replaced while it is opened, the next call opens it again.
        let publication = store.publication(self.key.parts());
        let mut known = self.lock();
        match &known.state {
            Some(state) if known.publication == publication && state.is_unchanged() => {
                return state.clone();
            }
            _ => {}
        }
        known.publication = publication;
        let (state, keep) = match store.load(self.key.parts(), &mut std::thread::sleep) {
            Ok(Some(snapshot)) => (State::Open(Arc::new(snapshot)), true),
            Ok(None) => (State::Absent, true),
            Err(error) if error.is_corrupt() => (State::Corrupt(error.to_string()), true),
            // Where it is locked or out of reach for now, the next call tries again.
            Err(error) => {
                let newer = matches!(error.kind(), FormatErrorKind::NewerVersion { .. });
                (State::Unavailable(error.to_string()), newer)
            }
        };
        known.state = keep.then(|| state.clone());
        self.notes.reset();
        state
    }

    /// Returns true if [`IndexRoot::state`] would not open anything.
    pub(super) fn is_known(&self, store: Option<&Store>) -> bool {
        let Some(store) = store else {
            return true;
        };
        let publication = store.publication(self.key.parts());
        // Whoever has the lock may be opening it.
        let known = self.known.try_lock();
        known.is_ok_and(|known| {
            let unchanged = known.state.as_ref().is_some_and(State::is_unchanged);
            unchanged && known.publication == publication
        })
    }

    /// Notes what was just built.
    pub(super) fn set_open(&self, store: Option<&Store>, snapshot: Arc<Snapshot>) {
        let publication = store.and_then(|store| store.publication(self.key.parts()));
        *self.lock() = Known {
            state: Some(State::Open(snapshot)),
            publication,
        };
    }

    /// Lets go of what is open; it is opened again when it is needed.
    pub(super) fn forget(&self) {
        *self.lock() = Known::default();
    }

    /// Notes damage that showed while the index was used: it is not used again before it was built anew.
    pub(super) fn set_damaged(&self, error: &FormatError) {
        self.lock().state = Some(State::Corrupt(error.to_string()));
    }

    /// Locks even after a panic elsewhere: the state is replaced as a whole.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the index roots, deepest first, and says which configured ones can't be (FR-LSI-IDX-ROOT-01).
pub(super) fn index_roots(config: &SearchConfig, sandbox: &Sandbox) -> (Vec<PathBuf>, Vec<String>) {
    let configured: Vec<PathBuf> = match &config.index_roots[..] {
        [] => vec![sandbox.working_dir().to_path_buf()],
        roots => roots
            .iter()
            .map(|root| sandbox.working_dir().join(root))
            .collect(),
    };
    let (mut roots, mut rejected) = (Vec::new(), Vec::new());
    for root in configured {
        match validate(&root, sandbox) {
            Ok(canonical) => roots.push(canonical),
            Err(why) => rejected.push(format!("index root {}: {why}", root.display())),
        }
    }
    roots.sort_by(|a, b| {
        let depth = |path: &PathBuf| path.components().count();
        depth(b).cmp(&depth(a)).then_with(|| a.cmp(b))
    });
    roots.dedup();
    (roots, rejected)
}

/// Returns the canonical path of an index root; or what is wrong with it and what to do.
fn validate(root: &Path, sandbox: &Sandbox) -> Result<PathBuf, String> {
    let canonical = root.canonicalize().map_err(|error| {
        format!("{error}; name a directory that exists in index_roots of [tools.search]")
    })?;
    if !canonical.is_dir() {
        return Err("it is no directory; name one in index_roots of [tools.search]".to_string());
    }
    let Some((_, relative)) = sandbox.locate(&canonical) else {
        return Err(
            "it lies outside of the allowed roots; add it to allowed_roots of [tools.sandbox], or remove \
             it from index_roots of [tools.search]"
                .to_string(),
        );
    };
    match sandbox.deny().denies_path_or_parent(&canonical, &relative) {
        Some(pattern) => Err(format!(
            "it is denied by the pattern {pattern}; remove it from index_roots of [tools.search], or the \
             pattern from denied_patterns of [tools.sandbox]"
        )),
        None => Ok(canonical),
    }
}

/// Returns the denied patterns as a key has them. Relative ones depend on the allowed roots, so these belong to it.
pub(super) fn deny_of(sandbox: &Sandbox) -> Vec<String> {
    let mut deny = sandbox.deny().patterns().to_vec();
    if deny
        .iter()
        .any(|pattern| !pattern.starts_with("**/") && !pattern.starts_with('/'))
    {
        let roots = sandbox.roots();
        deny.extend(
            roots
                .iter()
                .map(|root| format!("beneath {}", root.display())),
        );
    }
    deny
}
