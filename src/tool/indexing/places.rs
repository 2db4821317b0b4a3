//! Chooses where the indexes of a tool are stored: in the cache directory, or in memory.
//!
//! This module owns the order of the candidates, and the fallback if no directory is suitable. The
//! layout of the directory is up to [`Store`].

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::exec::as_text::shown;
use crate::exec::indexes::{Fallback, Place};
use crate::format::error::FormatError;
use crate::format::lock::check_private_dir;
use crate::format::storage::Privacy;
use crate::index::handles::Handles;
use crate::index::snapshot::StorageMode;
use crate::index::state::DisabledReason;
use crate::index::store::{Limits, Store};
use crate::tool::config::{IndexStorage, IntegrityCheck, SearchConfig};
use crate::tool::sandbox::Sandbox;

/// The candidate directories for indexes, from the environment.
#[derive(Clone, Debug, Default)]
pub struct CachePlaces {
    /// The user's cache directory, such as `~/.cache`.
    pub user_cache: Option<PathBuf>,
    /// The directory for temporary files, with a component for this user.
    pub temporary: Option<PathBuf>,
    /// Counts the open segments of all indexes that are set up with this value.
    pub handles: Handles,
}

impl CachePlaces {
    /// Returns the directory of indexes for a configuration, whether or not it exists. Relative
    /// paths start at `working_dir`. Returns `None` if no directory is known.
    pub fn cache_root(&self, config: &SearchConfig, working_dir: &Path) -> Option<PathBuf> {
        let configured = config.index_path.as_deref();
        let configured = configured.filter(|path| !path.as_os_str().is_empty());
        match (configured, &self.user_cache, &self.temporary) {
            (Some(path), _, _) => Some(working_dir.join(path)),
            (None, Some(cache), _) => Some(cache.join("forge").join("search-index")),
            (None, None, temporary) => temporary.clone(),
        }
    }

    /// Opens the store to inspect or clear it, for any indexed trees. Returns `None` if the
    /// directory does not exist, and does not create it.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if other users can access the directory and the configuration does not allow
    /// that.
    pub fn existing_store(
        &self,
        config: &SearchConfig,
        working_dir: &Path,
    ) -> Result<Option<Store>, FormatError> {
        match self.cache_root(config, working_dir) {
            Some(root) if root.exists() => open(&root, config).map(Some),
            _ => Ok(None),
        }
    }
}

/// Chooses the storage for the indexes of `trees`. Creates nothing: a search
/// that finds no index leaves no trace. `unknown_rights` is the error if the access rights of this
/// process are unknown; then only this process may use the index, so it stays in memory.
pub(super) fn choose<'a>(
    config: &SearchConfig,
    sandbox: &Sandbox,
    trees: impl Iterator<Item = &'a Path>,
    places: &CachePlaces,
    unknown_rights: Option<io::Error>,
) -> Place {
    let mut trees = trees.peekable();
    if config.index_storage == IndexStorage::Memory || trees.peek().is_none() {
        return Place::Memory(None);
    }
    if let Some(error) = unknown_rights {
        return Place::Memory(Some(Fallback::unknown_rights(&error)));
    }
    let fall_back = |code, message| Place::Memory(Some(Fallback { code, message }));
    let Some(root) = places.cache_root(config, sandbox.working_dir()) else {
        return Place::Nowhere(Fallback {
            code: DisabledReason::PersistenceNotPermitted.as_str(),
            message: "no directory for indexes can be determined; set index_path in [tools.search]"
                .to_string(),
        });
    };
    let place = shown(&root);
    let real = real_place(&root);
    if let Some(tree) = trees.find(|tree| real.starts_with(tree)) {
        return fall_back(
            "INSIDE_TREE",
            format!(
                "the index directory {place} lies inside of the indexed tree {}; set index_path in \
                 [tools.search] to a directory outside of it",
                shown(tree)
            ),
        );
    }
    if let Some(pattern) = sandbox
        .reach()
        .indexed_deny()
        .denies_path_or_parent(&real, &real)
    {
        return fall_back(
            "DENIED",
            format!(
                "the index directory {place} is denied by the pattern {pattern}; set index_path in \
                 [tools.search] to another directory"
            ),
        );
    }
    let mode = match config.index_storage {
        IndexStorage::Sqlite => StorageMode::Sqlite,
        IndexStorage::Mmap | IndexStorage::Memory => StorageMode::Mmap,
    };
    let counted = |store: Store| store.counted(places.handles.clone()).kept_as(mode);
    match open(&root, config).map(counted) {
        Ok(Some(store)) => Place::Store(store),
        // A configuration file with this setting is rejected, but a configuration need not come
        // from a file.
        Ok(None) => fall_back(
            "NOT_IN_THIS_BUILD",
            "this build lacks the feature `sqlite`; set index_storage in [tools.search] to \"mmap\""
                .to_string(),
        ),
        Err(error) => Place::Memory(Some(Fallback::denied(&error))),
    }
}

fn open(root: &Path, config: &SearchConfig) -> Result<Store, FormatError> {
    let privacy = match config.index_allow_insecure_persistence {
        true => Privacy::Waived,
        false => Privacy::Required,
    };
    let timeout = Duration::from_millis(config.index_lock_timeout_ms);
    let check = config.index_integrity_check != IntegrityCheck::Off;
    let limits = Limits {
        bytes: config.index_max_db_bytes,
        one: config.index_max_store_bytes,
        indexes: config.index_max_indexes,
    };
    // A link is checked before it is followed: a link of another user could lead elsewhere the next
    // time.
    check_private_dir(root, privacy)?;
    let store = Store::open(real_place(root), privacy, timeout)?;
    Ok(store
        .checked(check)
        .limited(limits)
        .mapped(config.index_map))
}

/// Resolves the links in a path that need not exist, as far as its ancestors exist.
fn real_place(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| {
        let real = above.canonicalize().ok()?;
        let mut real = real;
        real.extend(path.strip_prefix(above).ok()?.components());
        Some(real)
    });
    existing.unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::config::Config;

    #[test]
    fn where_rights_are_not_known_an_index_is_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut config = Config::library_default();
        config.search.index_path = Some(dir.path().join("cache"));
        let sandbox = Sandbox::new(&config.sandbox, &tree).unwrap();
        let choose = |config: &Config, unknown| {
            let trees = [&*tree].into_iter();
            let places = CachePlaces::default();
            choose(&config.search, &sandbox, trees, &places, unknown)
        };
        let refused = || Some(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(choose(&config, None), Place::Store(_)));
        let Place::Memory(Some(fallback)) = choose(&config, refused()) else {
            panic!("not in memory");
        };
        assert_eq!(fallback.code, "RIGHTS_UNKNOWN");
        let message = &fallback.message;
        assert!(message.contains("permission denied"), "{message}");
        assert!(message.contains("index_storage"), "{message}");
        // With index_storage = "memory", the index is in memory anyway, so there is no fallback.
        config.search.index_storage = IndexStorage::Memory;
        assert!(matches!(choose(&config, refused()), Place::Memory(None)));
    }
}
