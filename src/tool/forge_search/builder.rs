//! The setup of a [`ForgeSearch`]: roots, sandbox, indexes and tools.
//!
//! This module owns the rules by which a host's settings become a configuration. Each setting takes
//! effect, or is an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{ForgeSearch, Tools, failed};
use crate::exec::as_text::shown;
use crate::tool::config::{Backend, Config, FilesBackend, IndexMode, IndexStorage, SearchConfig};
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::indexing::{CachePlaces, Indexes, LiveEnvironment};
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::FilesTool;

/// Sets up a [`ForgeSearch`].
///
/// # Examples
///
/// A live index in memory, over two trees:
///
/// ```
/// use std::time::Duration;
///
/// use forge_search::{ForgeSearch, SearchRequest};
///
/// # let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # std::fs::write(one.path().join("a.txt"), "needle\n")?;
/// # std::fs::write(two.path().join("b.txt"), "needle\n")?;
/// # let (project, library) = (one.path(), two.path());
/// let search = ForgeSearch::builder(project).add_root(library).live().build()?;
/// // Only a test needs to wait: until the index is there, searches read the tree.
/// assert!(search.wait_live(Duration::from_secs(60)));
///
/// // Relative paths, and requests without a path, mean the first tree.
/// let request = SearchRequest::new("needle");
/// assert_eq!(search.search(&request)?.content, "a.txt:1:1:needle\n");
/// // Absolute paths lead to the other one.
/// let mut request = SearchRequest::new("needle");
/// request.path = Some(library.to_string_lossy().into_owned());
/// assert_eq!(search.search(&request)?.count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "`build` sets the tools up"]
pub struct ForgeSearchBuilder {
    /// The roots; relative paths start at the first.
    roots: Vec<PathBuf>,
    config: Config,
    is_live: bool,
    index_dir: Option<PathBuf>,
    global_excludes: Option<PathBuf>,
}

impl ForgeSearchBuilder {
    /// Starts with the defaults, and with all tools enabled.
    pub(super) fn new(root: PathBuf) -> ForgeSearchBuilder {
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search_files.enabled = true;
        ForgeSearchBuilder {
            roots: vec![root],
            config,
            is_live: false,
            index_dir: None,
            global_excludes: None,
        }
    }

    /// Adds a further directory that may be searched.
    ///
    /// Requests without a path still search the first root only. A path in another root is
    /// absolute, in requests and in answers. Each root has an index of its own.
    ///
    /// If the configuration sets `allowed_roots`, the further roots are allowed in addition to
    /// them. The first root is allowed only as far as `allowed_roots` contains it.
    pub fn add_root(mut self, root: impl Into<PathBuf>) -> ForgeSearchBuilder {
        self.roots.push(root.into());
        self
    }

    /// Changes the configuration. The builder begins with [`Config::library_default`], and with all
    /// tools enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use forge_search::{ForgeSearch, SearchRequest};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("many.txt"), "needle\n".repeat(100))?;
    /// # let root = dir.path();
    /// let search = ForgeSearch::builder(root)
    ///     .configure(|config| config.search.max_matches_per_file = 10)
    ///     .build()?;
    /// assert_eq!(search.search(&SearchRequest::new("needle"))?.count, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> ForgeSearchBuilder {
        change(&mut self.config);
        self
    }

    /// Replaces the configuration, for example by that of a [`Loader`](crate::Loader).
    ///
    /// A tool that the configuration does not enable is not offered, and has no index. The defaults
    /// of [`Config::library_default`] enable no tool.
    ///
    /// The built-in engine answers, so another `backend` is an error of
    /// [`build`](ForgeSearchBuilder::build). `allow_absolute` has no effect: an absolute
    /// path inside an allowed root is always accepted, since it leads to the same files as a
    /// relative path.
    pub fn config(mut self, config: Config) -> ForgeSearchBuilder {
        self.config = config;
        self
    }

    /// Makes the indexes live: they are built in the background and follow every change of the
    /// trees. They are kept in memory, unless the builder or the configuration has a directory for
    /// them.
    ///
    /// To check that all changes were reported, a live index creates empty files in a directory of
    /// its own. Its status is in another one. Both are in the directory of the indexes, or else in
    /// the system's directory for temporary files, which `TMPDIR` names on Unix.
    ///
    /// [`build`](ForgeSearchBuilder::build) fails if the configuration rules a live index out:
    /// with `index_frozen` the trees never change, and with `index_default_follow` changes behind
    /// links are not detected.
    pub fn live(mut self) -> ForgeSearchBuilder {
        self.is_live = true;
        self
    }

    /// Stores indexes in a directory, so that the next process need not build them. The directory
    /// is private and outside of the indexed directories. [`build`](ForgeSearchBuilder::build)
    /// creates it if it is missing. A relative path starts at the current directory.
    ///
    /// Without [`live`](ForgeSearchBuilder::live), an index is built by
    /// [`ForgeSearch::build_index`] only, and each search compares it with the tree.
    pub fn index_dir(mut self, dir: impl Into<PathBuf>) -> ForgeSearchBuilder {
        self.index_dir = Some(dir.into());
        self
    }

    /// Sets the path of Git's `core.excludesFile`, which counts as an ignore file.
    pub fn global_excludes(mut self, file: impl Into<PathBuf>) -> ForgeSearchBuilder {
        self.global_excludes = Some(file.into());
        self
    }

    /// Sets the tools up. Reads no configuration files, and no environment variables other than
    /// `TMPDIR` for a [`live`](ForgeSearchBuilder::live) index.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: a root is no directory, a value of the configuration is not
    ///   allowed, a directory can't be indexed or not be followed by a live index, or indexes can't
    ///   be stored in the directory that was set for them.
    /// - [`ToolError::ExecutionFailed`]: the system can't start the threads of a live index.
    pub fn build(mut self) -> Result<ForgeSearch, ToolError> {
        let roots = self.canonical_roots()?;
        self.config.check()?;
        check_engines(&self.config)?;
        let sandbox = Arc::new(self.open_sandbox(&roots)?);
        self.set_up_indexing()?;
        let [of_search, of_files] = self.indexes(&sandbox)?;
        let mut indexes: Vec<Arc<Indexes>> = of_search.iter().chain(&of_files).cloned().collect();
        indexes.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let (config, engines) = (self.config, Engines::embedded());
        let files = FilesTool::new(&config, engines.clone()).with_indexes(of_files);
        let search = SearchTool::new(config.search.clone(), engines).with_indexes(of_search);
        let mut context = ToolContext::new(sandbox);
        context.global_excludes = self.global_excludes;
        Ok(ForgeSearch {
            tools: Arc::new(Tools::new(search, files, indexes, &context, config)),
            context,
        })
    }

    /// Returns the canonical paths of the roots, each once, the first root first.
    fn canonical_roots(&self) -> Result<Vec<PathBuf>, ToolError> {
        let mut roots = Vec::new();
        for root in &self.roots {
            let refused = |why: &dyn std::fmt::Display| {
                let shown = shown(root);
                let message = format!("the root {shown}: {why}; name a directory that exists");
                ToolError::bad_args(message)
            };
            let path = root.canonicalize().map_err(|error| refused(&error))?;
            if !path.is_dir() {
                return Err(refused(&"it is not a directory"));
            }
            if !roots.contains(&path) {
                roots.push(path);
            }
        }
        Ok(roots)
    }

    /// Opens the sandbox, and chooses the directories to index if the configuration names none.
    /// They are the roots, as far as they are allowed.
    fn open_sandbox(&mut self, roots: &[PathBuf]) -> Result<Sandbox, ToolError> {
        let (first, further) = roots
            .split_first()
            .ok_or_else(|| ToolError::bad_args("there is no root; name a directory that exists"))?;
        self.config.sandbox.allow_absolute = true;
        if !self.config.allow_by_default(roots) {
            self.config.sandbox.allowed_roots.extend_from_slice(further);
        }
        let sandbox = Sandbox::new(&self.config.sandbox, first)?;
        if self.config.search.index_roots.is_empty() {
            let allowed = sandbox.reach().roots();
            self.config.search.index_roots = allowed_parts(roots, &allowed);
        }
        Ok(sandbox)
    }

    /// Decides which tools have an index, and where it is stored.
    fn set_up_indexing(&mut self) -> Result<(), ToolError> {
        let dir = self.index_dir.as_deref().map(absolute).transpose()?;
        let wants_index = self.is_live || dir.is_some();
        let (search, files) = (&mut self.config.search, &mut self.config.search_files);
        let tools = [
            (
                search.enabled,
                &mut search.index_mode,
                &mut search.index_path,
                &mut search.index_storage,
            ),
            (
                files.enabled,
                &mut files.index_mode,
                &mut files.index_path,
                &mut files.index_storage,
            ),
        ];
        for (is_enabled, mode, path, storage) in tools {
            if !is_enabled {
                *mode = IndexMode::Off;
                continue;
            }
            if wants_index && *mode == IndexMode::Off {
                *mode = IndexMode::On;
            }
            if dir.is_some() && *storage == IndexStorage::Memory {
                return Err(ToolError::bad_args(
                    "`index_dir` is set, but `index_storage` is \"memory\"; set it to \"mmap\", or \
                     leave out `index_dir`",
                ));
            }
            if dir.is_some() {
                path.clone_from(&dir);
            } else if path.is_none() {
                *storage = IndexStorage::Memory;
            }
        }
        Ok(())
    }

    /// Creates the indexes of `Search` and of `search_files`, which share them if possible.
    fn indexes(&self, sandbox: &Sandbox) -> Result<[Option<Arc<Indexes>>; 2], ToolError> {
        let config = &self.config;
        let (engines, places) = (Engines::embedded(), CachePlaces::default());
        let excludes = self.global_excludes.as_deref();
        let both = Indexes::of_both_tools(config, [&engines; 2], sandbox, excludes, &places);
        let both = both.map(Arc::new);
        let own = || {
            let of_search = Indexes::new(&config.search, &engines, sandbox, excludes, &places);
            let of_files = FilesTool::indexes_for(config, &engines, sandbox, &places);
            [of_search.map(Arc::new), of_files.map(Arc::new)]
        };
        let all = both.map_or_else(own, |both| [Some(both.clone()), Some(both)]);
        let environment = LiveEnvironment::new(sandbox.reach().clone());
        let settings = [config.search.clone(), FilesTool::search_config(config)];
        for (indexes, config) in all.iter().zip(&settings) {
            let Some(indexes) = indexes else { continue };
            check_indexes(indexes).map_err(ToolError::bad_args)?;
            if self.is_live {
                check_live(config).map_err(ToolError::bad_args)?;
                // Indexes that are shared are live after the first call.
                let live = indexes.live(config, &environment);
                live.map_err(|error| failed(format!("a live index: {error}")))?;
            }
        }
        Ok(all)
    }
}

/// Refuses a configuration with an external program: the builder does not look for programs.
fn check_engines(config: &Config) -> Result<(), ToolError> {
    let (search, files) = (&config.search, &config.search_files);
    let (table, configured, only) = if search.enabled && search.backend != Backend::Embedded {
        (
            "search",
            search.backend.as_str(),
            Backend::Embedded.as_str(),
        )
    } else if files.enabled && files.backend != FilesBackend::Native {
        (
            "search_files",
            files.backend.as_str(),
            FilesBackend::Native.as_str(),
        )
    } else {
        return Ok(());
    };
    Err(ToolError::bad_args(format!(
        "`backend` of [tools.{table}] is \"{configured}\", but the library searches with the \
         built-in engine only; set it to \"{only}\""
    )))
}

/// Checks that the configuration permits a live index.
fn check_live(config: &SearchConfig) -> Result<(), &'static str> {
    if config.index_frozen {
        return Err(
            "`live` follows changes of the trees, but with `index_frozen` they never \
                    change; set it to false, or call `build_index` and leave out `live`",
        );
    }
    if config.index_default_follow {
        return Err(
            "`live` follows changes of the trees, but with `index_default_follow` changes \
                    behind links are not detected; set it to false, or leave out `live`",
        );
    }
    Ok(())
}

/// Makes the path of an index directory absolute.
fn absolute(dir: &Path) -> Result<PathBuf, ToolError> {
    std::path::absolute(dir).map_err(|error| {
        ToolError::bad_args(format!(
            "`index_dir` {}: {error}; name an absolute path",
            shown(dir)
        ))
    })
}

/// Checks that all directories can be indexed, and that the indexes are stored in the place that
/// was set for them. Creates that place.
pub(super) fn check_indexes(indexes: &Indexes) -> Result<(), String> {
    if !indexes.rejected().is_empty() {
        return Err(indexes.rejected().join("; "));
    }
    indexes.make_place();
    indexes.fallback().map_or(Ok(()), |fallback| {
        let message = &fallback.message;
        let setters = "`index_dir`, or index_path in [tools.search],";
        let message = message.replace("index_path in [tools.search]", setters);
        Err(format!("indexes can't be stored: {message}"))
    })
}

/// Returns each root that is allowed as a whole, and the allowed directories in the others.
fn allowed_parts(roots: &[PathBuf], allowed: &[&Path]) -> Vec<PathBuf> {
    let parts = roots.iter().flat_map(|root| {
        if allowed.iter().any(|allowed| root.starts_with(allowed)) {
            return vec![root.clone()];
        }
        let inside = allowed.iter().filter(|allowed| allowed.starts_with(root));
        inside.map(|allowed| allowed.to_path_buf()).collect()
    });
    parts.collect()
}
