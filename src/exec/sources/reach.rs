//! The reach of a search: the directories that it may read, and the denied patterns.
//!
//! This module owns the open handles of the allowed roots. It neither chooses these roots nor
//! checks the path of a request: the caller's sandbox does. It reads no files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::format::mutex::lock;
use crate::index::deny::DenySet;
use crate::index::root_dir::RootDir;
use crate::index::walk::{TraversalOptions, Walk};

pub use crate::index::root_dir::EntryKind;
pub(crate) use crate::index::walk::join;

/// The allowed roots, and the denied patterns in force.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use forge_search::internal::exec::sources::reach::Reach;
/// use forge_search::internal::index::deny::DenySet;
///
/// let dir = tempfile::tempdir()?;
/// let root = dir.path().canonicalize()?;
/// let deny = DenySet::for_roots(&["*.pem".to_string()], false, &[&root])?;
/// let reach = Reach::open(vec![root.clone()], Arc::new(deny)).map_err(|(_, error)| error)?;
/// let (_, relative) = reach.locate(&root.join("src/main.rs")).unwrap();
/// assert_eq!(relative, Path::new("src/main.rs"));
/// assert!(reach.locate(Path::new("/somewhere/else")).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reach {
    /// The allowed roots, deepest first. A path is opened through the first one that contains it.
    roots: Arc<[AllowedRoot]>,
    deny: Arc<DenySet>,
    /// The denied patterns that apply to indexes. These are fewer if callers with the default
    /// patterns share an index with callers without them.
    indexed_deny: Arc<DenySet>,
}

/// A path that a search may read.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The canonical absolute path. Only this spelling is used from here on.
    pub canonical: PathBuf,
    /// The deepest allowed root that contains it.
    pub root: Arc<RootDir>,
    /// The path relative to that root; empty for the root itself.
    pub relative: PathBuf,
}

/// An allowed root. Its directory can be removed and created again while the program runs (a fresh
/// clone, a restored backup). So the handle is replaced when the path names another directory.
#[derive(Debug)]
pub(crate) struct AllowedRoot {
    path: PathBuf,
    handle: Mutex<Arc<RootDir>>,
}

impl Reach {
    /// Opens the allowed roots, which are canonical paths. The same denied patterns apply to
    /// indexes.
    ///
    /// # Errors
    ///
    /// The first root that can't be opened, and the error of the system.
    pub fn open(
        mut paths: Vec<PathBuf>,
        deny: Arc<DenySet>,
    ) -> Result<Reach, (PathBuf, io::Error)> {
        let depth = |path: &PathBuf| path.components().count();
        paths.sort_by(|a, b| depth(b).cmp(&depth(a)).then_with(|| a.cmp(b)));
        paths.dedup();
        let roots: Vec<AllowedRoot> = paths
            .into_iter()
            .map(AllowedRoot::open)
            .collect::<Result<_, _>>()?;
        Ok(Reach {
            roots: roots.into(),
            indexed_deny: deny.clone(),
            deny,
        })
    }

    /// Shares indexes with the callers of another reach, which denies fewer patterns. An index then
    /// contains the paths of files that only the default patterns deny, and nothing else about
    /// them.
    #[must_use]
    pub fn sharing_indexes_with(&self, other: &Reach) -> Reach {
        Reach {
            indexed_deny: other.deny.clone(),
            ..self.clone()
        }
    }

    /// Finds the deepest allowed root that contains a canonical path, and the path relative to it.
    /// Returns `None` if no root contains the path, or if the root is gone. Denied patterns are not
    /// checked.
    ///
    /// The handle is for the directory that the root's path names now.
    pub fn locate(&self, canonical: &Path) -> Option<(Arc<RootDir>, PathBuf)> {
        let (root, relative) = self.containing(canonical)?;
        Some((root.current().ok()?, relative))
    }

    /// Finds the allowed root like [`Reach::locate`], but does not open it.
    pub(crate) fn containing(&self, canonical: &Path) -> Option<(&AllowedRoot, PathBuf)> {
        self.roots.iter().find_map(|root| {
            let relative = canonical.strip_prefix(&root.path).ok()?;
            Some((root, relative.to_path_buf()))
        })
    }

    /// Prepares a walk over a directory beneath one of the allowed roots, for a caller with the
    /// denied patterns `deny`.
    pub(crate) fn walk(
        self: &Arc<Self>,
        root: Arc<RootDir>,
        beneath: PathBuf,
        traversal: TraversalOptions,
        deny: &Arc<DenySet>,
        global_excludes: Option<&Path>,
    ) -> Walk {
        let reach = self.clone();
        let locate = Arc::new(move |path: &Path| reach.locate(path));
        Walk::new(
            root,
            beneath,
            traversal,
            deny.clone(),
            locate,
            global_excludes,
        )
    }

    /// Returns the denied patterns in force.
    pub fn deny(&self) -> &Arc<DenySet> {
        &self.deny
    }

    /// Returns the denied patterns that apply to indexes.
    pub fn indexed_deny(&self) -> &Arc<DenySet> {
        &self.indexed_deny
    }

    /// Returns true if this caller has denied patterns that do not apply to indexes.
    pub fn withholds(&self) -> bool {
        self.deny.patterns() != self.indexed_deny.patterns()
    }

    /// Returns the canonical paths of the allowed roots, deepest first.
    pub fn roots(&self) -> Vec<&Path> {
        self.roots.iter().map(|root| root.path.as_path()).collect()
    }

    /// Returns the denied patterns for the key of an index. The meaning of a relative pattern
    /// depends on the allowed roots, so the key then contains these, too.
    pub(crate) fn key_patterns(&self) -> Vec<String> {
        let mut patterns = self.indexed_deny.patterns().to_vec();
        let is_relative =
            |pattern: &String| !pattern.starts_with("**/") && !pattern.starts_with('/');
        if patterns.iter().any(is_relative) {
            let roots = self.roots.iter().map(|root| root.path.display());
            patterns.extend(roots.map(|root| format!("beneath {root}")));
        }
        patterns
    }
}

impl AllowedRoot {
    fn open(path: PathBuf) -> Result<Self, (PathBuf, io::Error)> {
        match RootDir::open(&path) {
            Ok(handle) => Ok(Self {
                path,
                handle: Mutex::new(Arc::new(handle)),
            }),
            Err(error) => Err((path, error)),
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a handle on the directory that the root's path names now.
    pub(crate) fn current(&self) -> io::Result<Arc<RootDir>> {
        let mut handle = lock(&self.handle);
        if !handle.is_current() {
            *handle = Arc::new(RootDir::open(&self.path)?);
        }
        Ok(Arc::clone(&handle))
    }
}
