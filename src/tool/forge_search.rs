//! The entry point of programs that link the library: all tools over the trees of one program.
//!
//! [`ForgeSearch`] sets up the configuration, the sandbox, the indexes and the tools together. It
//! answers nothing itself: the tools do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::exec::indexes::IndexState;
use crate::tool::config::{
    Backend, Config, FilesBackend, IndexMode, IndexStorage, SearchConfig,
};
#[cfg(feature = "daemon")]
use crate::tool::daemon::find_code::FindCodeTool;
#[cfg(feature = "daemon")]
use crate::tool::daemon::service::{Parts, Service};
use crate::tool::engines::Engines;
use crate::tool::error::{DenialReason, ToolError};
#[cfg(feature = "daemon")]
use crate::tool::find_code::{FindCodeRequest, FindCodeResponse};
use crate::tool::find_files::{FindFilesTool, FindRequest, FindResponse};
use crate::tool::indexing::{CachePlaces, Foreground, Indexes, LiveEnvironment};
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::{FilesRequest, FilesResponse, FilesTool};
use crate::tool::tools::{Tool, ToolName};

/// All tools over one tree, or over several.
///
/// Cheap to clone: the clones share tools and indexes, and any number of threads may call them. The
/// indexes end with the last clone and the last of its [`tools`](ForgeSearch::tools). The calls
/// block; the [crate page](crate#asynchronous-callers) shows how a task calls them.
///
/// # Examples
///
/// ```
/// use forge_search::{ForgeSearch, SearchRequest};
///
/// # let dir = tempfile::tempdir()?;
/// # std::fs::write(dir.path().join("greeting.txt"), "hello\nworld\n")?;
/// # let root = dir.path();
/// let search = ForgeSearch::builder(root).build()?;
/// let response = search.search(&SearchRequest::new("w.rld"))?;
/// assert_eq!(response.content, "greeting.txt:2:1:world\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForgeSearch {
    tools: Arc<Tools>,
    context: ToolContext,
}

/// The tools and their indexes.
#[derive(Debug)]
struct Tools {
    search: Arc<SearchTool>,
    files: Arc<FilesTool>,
    #[cfg(feature = "daemon")]
    code: Arc<FindCodeTool>,
    /// The enabled tools in the order of [`ToolName::ALL`].
    all: Vec<Arc<dyn Tool>>,
    /// The different indexes of the tools.
    indexes: Vec<Arc<Indexes>>,
}

impl ForgeSearch {
    /// Starts the setup of the tools over a directory.
    pub fn builder(root: impl Into<PathBuf>) -> ForgeSearchBuilder {
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search_files.enabled = true;
        ForgeSearchBuilder {
            roots: vec![root.into()],
            config,
            is_live: false,
            index_dir: None,
            global_excludes: None,
        }
    }

    /// Searches with the tool `Search`.
    ///
    /// # Errors
    ///
    /// - [`ToolError::BadArgs`]: the request is invalid.
    /// - [`ToolError::SandboxViolation`]: the path must not be read, or a limit is exceeded.
    /// - [`ToolError::ExecutionFailed`]: the path does not exist.
    /// - [`ToolError::Cancelled`]: the host cancelled the call.
    ///
    /// A timeout is no error: the response has `timed_out` set.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchResponse, ToolError> {
        self.tools.search.search(request, &self.context)
    }

    /// Searches with the tool `search_files`.
    ///
    /// # Errors
    ///
    /// The errors of [`ForgeSearch::search`], and [`ToolError::Timeout`].
    pub fn search_files(&self, request: &FilesRequest) -> Result<FilesResponse, ToolError> {
        self.tools.files.search(request, &self.context)
    }

    /// Finds files by name with the tool `find_files`.
    ///
    /// # Errors
    ///
    /// The errors of [`ForgeSearch::search`].
    ///
    /// # Examples
    ///
    /// ```
    /// use forge_search::{FindRequest, ForgeSearch};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::create_dir(dir.path().join("src"))?;
    /// # std::fs::write(dir.path().join("src/lib.rs"), "")?;
    /// # std::fs::write(dir.path().join("notes.md"), "")?;
    /// # let root = dir.path();
    /// let search = ForgeSearch::builder(root).build()?;
    /// let found = search.find_files(&FindRequest::named("srlib"))?;
    /// assert_eq!(found.files[0].path, "src/lib.rs");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_files(&self, request: &FindRequest) -> Result<FindResponse, ToolError> {
        self.tools.search.find_files(request, &self.context)
    }

    /// Finds the code that a question is about with the tool `find_code`, in the first root or in
    /// the directory that the request names. The first call starts the threads that rank.
    ///
    /// # Errors
    ///
    /// The errors of [`ForgeSearch::search`].
    ///
    /// # Examples
    ///
    /// ```
    /// use forge_search::{FindCodeRequest, ForgeSearch};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("retry.rs"), "fn retry_limit() -> u32 {\n    3\n}\n")?;
    /// # let root = dir.path();
    /// let search = ForgeSearch::builder(root).build()?;
    /// let found = search.find_code(&FindCodeRequest::new("where are retries limited"))?;
    /// assert_eq!(found.places[0].path, "retry.rs");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "daemon")]
    pub fn find_code(&self, request: &FindCodeRequest) -> Result<FindCodeResponse, ToolError> {
        self.tools.code.find_code(request, &self.context)
    }

    /// Returns the enabled tools, for a model that calls them.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools.all
    }

    /// Returns the tool with this name or alias.
    ///
    /// # Errors
    ///
    /// [`ToolError::SandboxViolation`] if the tool is disabled, and [`ToolError::UnknownTool`] for
    /// the name of no tool.
    pub fn tool(&self, name: &str) -> Result<&Arc<dyn Tool>, ToolError> {
        let id = ToolName::of(name)?;
        let tool = self.tools.all.iter().find(|tool| tool.id() == id);
        tool.ok_or_else(|| DenialReason::Disabled.into())
    }

    /// Returns a context for one call. Its [`CancelHandle`](crate::CancelHandle) is a child of the
    /// handle of [`with_context`](ForgeSearch::with_context), if there is one: the host cancels
    /// this call alone, or all of them. The host may add limits in bytes, or replace the sandbox.
    pub fn context(&self) -> ToolContext {
        ToolContext {
            cancel: self.context.cancel.child(),
            received_at: None,
            ..self.context.clone()
        }
    }

    /// Returns the same tools for calls in another context. For example, the context cancels a
    /// call, or limits its answer.
    ///
    /// # Examples
    ///
    /// ```
    /// use forge_search::{ForgeSearch, SearchRequest};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("many.txt"), "needle\n".repeat(500))?;
    /// # let root = dir.path();
    /// let search = ForgeSearch::builder(root).build()?;
    /// let mut context = search.context();
    /// context.max_output_bytes = Some(2_000);
    /// let response = search.with_context(context).search(&SearchRequest::new("needle"))?;
    /// assert!(response.truncated && response.to_json().len() <= 2_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_context(&self, context: ToolContext) -> ForgeSearch {
        ForgeSearch {
            tools: self.tools.clone(),
            context,
        }
    }

    /// Returns the canonical directory at which relative paths start.
    pub fn root(&self) -> &Path {
        self.context.sandbox.working_dir()
    }

    /// Waits until the live indexes can be used, or until `timeout`. Returns true if there are some
    /// and searches can use all of them now. Returns false at once if there are none, and as soon as
    /// one can't become usable by itself, for example because a build exceeded its limit.
    ///
    /// Searches need not wait: without an index they read the tree.
    pub fn wait_live(&self, timeout: Duration) -> bool {
        let clock = &self.context.clock;
        let until = clock.now().checked_add(timeout);
        let left = || {
            until.map_or(timeout, |until| {
                until.saturating_duration_since(clock.now())
            })
        };
        let mut roots = self.index_roots().peekable();
        roots.peek().is_some()
            && roots.all(|(indexes, root)| {
                let state = indexes.wait_live(root, left());
                state.flatten() == Some(IndexState::Complete)
            })
    }

    /// Builds the indexes that are missing, damaged or stale, and waits for them. A program without
    /// a live index calls this before a series of searches. Does nothing without an index.
    ///
    /// # Errors
    ///
    /// [`ToolError::ExecutionFailed`] if an index can't be built or stored, and
    /// [`ToolError::Cancelled`].
    pub fn build_index(&self) -> Result<(), ToolError> {
        let cancel = &self.context.cancel;
        let host = Foreground::new(cancel.clone());
        for (indexes, root) in self.index_roots() {
            check_indexes(indexes).map_err(failed)?;
            let built = indexes.ensure(root, self.context.sandbox.reach(), &host);
            if let Err(error) = built {
                return Err(match cancel.is_cancelled() {
                    true => ToolError::Cancelled,
                    false => failed(format!("the index of {}: {error}", root.display())),
                });
            }
        }
        Ok(())
    }

    /// Ends the live indexes in order and waits for their threads. Later searches read the tree.
    /// Returns false if a thread did not end in time.
    pub fn shut_down(&self) -> bool {
        let ended = self.tools.indexes.iter().map(|indexes| indexes.shut_down());
        ended.fold(true, |all, one| all & one)
    }

    fn index_roots(&self) -> impl Iterator<Item = (&Indexes, &Path)> {
        let all = self.tools.indexes.iter();
        all.flat_map(|indexes| indexes.roots().map(|root| (&**indexes, root)))
    }
}

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
    /// its own, and it writes its status there. The directory is in the directory of the indexes, or
    /// else in the system's directory for temporary files, which `TMPDIR` names on Unix.
    ///
    /// [`build`](ForgeSearchBuilder::build) fails if the configuration rules a live index out:
    /// with `index_frozen` the trees never change, and with `index_default_follow` changes behind
    /// links are not detected.
    pub fn live(mut self) -> ForgeSearchBuilder {
        self.is_live = true;
        self
    }

    /// Stores indexes in a directory, so that the next process need not build them. The directory
    /// is private and outside of all roots. [`build`](ForgeSearchBuilder::build) creates it if it
    /// is missing. A relative path starts at the current directory.
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
        let (config, is_live, global_excludes) =
            (self.config, self.is_live, self.global_excludes);
        let of_files = FilesTool::search_config(&config);
        let (engines, places) = (Engines::embedded(), CachePlaces::default());
        let excludes = global_excludes.as_deref();
        let both = Indexes::of_both_tools(&config, [&engines; 2], &sandbox, excludes, &places);
        let shared = both.map(Arc::new);
        let of_search = shared.clone().or_else(|| {
            Indexes::new(&config.search, &engines, &sandbox, excludes, &places).map(Arc::new)
        });
        let of_files_only = match shared {
            Some(_) => None,
            None => FilesTool::indexes_for(&config, &engines, &sandbox, &places).map(Arc::new),
        };
        for indexes in of_search.iter().chain(&of_files_only) {
            check_indexes(indexes).map_err(ToolError::bad_args)?;
        }
        if is_live {
            let environment = LiveEnvironment::new(sandbox.reach().clone());
            let settings = [(&of_search, &config.search), (&of_files_only, &of_files)];
            for (indexes, config) in settings {
                let Some(indexes) = indexes else { continue };
                check_live(config).map_err(ToolError::bad_args)?;
                let live = indexes.live(config, &environment);
                live.map_err(|error| failed(format!("a live index: {error}")))?;
            }
        }
        let indexes = of_search.iter().chain(&of_files_only).cloned().collect();
        let files = FilesTool::new(&config, engines.clone());
        let files = files.with_indexes(shared.or(of_files_only));
        let search = SearchTool::new(config.search.clone(), engines).with_indexes(of_search);
        let mut context = ToolContext::new(sandbox);
        context.global_excludes = global_excludes;
        Ok(ForgeSearch {
            tools: Arc::new(Tools::new(search, files, indexes, &context, config)),
            context,
        })
    }

    /// Returns the canonical paths of the roots, each once, the first root first.
    fn canonical_roots(&self) -> Result<Vec<PathBuf>, ToolError> {
        let mut roots = Vec::new();
        for root in &self.roots {
            let why = match root.canonicalize() {
                Ok(path) if !path.is_dir() => "it is not a directory".to_string(),
                Ok(path) if roots.contains(&path) => continue,
                Ok(path) => {
                    roots.push(path);
                    continue;
                }
                Err(error) => error.to_string(),
            };
            return Err(ToolError::bad_args(format!(
                "the root {}: {why}; name a directory that exists",
                root.display()
            )));
        }
        Ok(roots)
    }

    /// Opens the sandbox, and chooses the directories to index if the configuration names none.
    /// They are the roots, as far as they are allowed.
    fn open_sandbox(&mut self, roots: &[PathBuf]) -> Result<Sandbox, ToolError> {
        let (first, further) = roots.split_first().ok_or_else(|| {
            ToolError::bad_args("there is no root; name a directory that exists")
        })?;
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

    /// Decides where indexes are stored, and whether there are any.
    fn set_up_indexing(&mut self) -> Result<(), ToolError> {
        let dir = self.index_dir.as_deref().map(absolute).transpose()?;
        let wants_index = self.is_live || dir.is_some();
        let (search, files) = (&mut self.config.search, &mut self.config.search_files);
        for (is_enabled, mode) in [
            (search.enabled, &mut search.index_mode),
            (files.enabled, &mut files.index_mode),
        ] {
            if !is_enabled {
                *mode = IndexMode::Off;
            } else if wants_index && *mode == IndexMode::Off {
                *mode = IndexMode::On;
            }
        }
        for (is_enabled, path, storage) in [
            (search.enabled, &mut search.index_path, &mut search.index_storage),
            (files.enabled, &mut files.index_path, &mut files.index_storage),
        ] {
            if is_enabled && dir.is_some() && *storage == IndexStorage::Memory {
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
}

/// Refuses a configuration with an external program: the builder does not look for programs.
fn check_engines(config: &Config) -> Result<(), ToolError> {
    let (search, files) = (&config.search, &config.search_files);
    let (table, configured, only) = if search.enabled && search.backend != Backend::Embedded {
        ("search", search.backend.as_str(), Backend::Embedded.as_str())
    } else if files.enabled && files.backend != FilesBackend::Native {
        ("search_files", files.backend.as_str(), FilesBackend::Native.as_str())
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
        return Err("`live` follows changes of the trees, but with `index_frozen` they never \
                    change; set it to false, or call `build_index` and leave out `live`");
    }
    if config.index_default_follow {
        return Err("`live` follows changes of the trees, but with `index_default_follow` changes \
                    behind links are not detected; set it to false, or leave out `live`");
    }
    Ok(())
}

/// Makes the path of an index directory absolute.
fn absolute(dir: &Path) -> Result<PathBuf, ToolError> {
    std::path::absolute(dir).map_err(|error| {
        ToolError::bad_args(format!(
            "`index_dir` {}: {error}; name an absolute path",
            dir.display()
        ))
    })
}

/// Checks that all directories can be indexed, and that the indexes are stored in the place that was
/// set for them. Creates that place.
fn check_indexes(indexes: &Indexes) -> Result<(), String> {
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

impl Tools {
    #[cfg_attr(not(feature = "daemon"), expect(unused_variables))]
    fn new(
        search: SearchTool,
        files: FilesTool,
        indexes: Vec<Arc<Indexes>>,
        context: &ToolContext,
        config: Config,
    ) -> Tools {
        let (search, files) = (Arc::new(search), Arc::new(files));
        #[cfg(feature = "daemon")]
        let code = Arc::new(find_code(&search, &files, context, config));
        let mut all: Vec<Arc<dyn Tool>> = vec![
            search.clone(),
            files.clone(),
            Arc::new(FindFilesTool::new(search.clone())),
            #[cfg(feature = "daemon")]
            code.clone(),
        ];
        // The tools that find files and code search with the tool `Search`.
        all.retain(|tool| match tool.id() {
            ToolName::SearchFiles => files.config().enabled,
            _ => search.config().enabled,
        });
        Tools {
            all,
            search,
            files,
            #[cfg(feature = "daemon")]
            code,
            indexes,
        }
    }
}

/// Creates the tool `find_code` over the indexes of the other tools.
#[cfg(feature = "daemon")]
fn find_code(
    search: &Arc<SearchTool>,
    files: &Arc<FilesTool>,
    context: &ToolContext,
    config: Config,
) -> FindCodeTool {
    let parts = Parts {
        search: search.clone(),
        files: files.clone(),
        context: context.clone(),
        people: context.sandbox.clone(),
        root: context.sandbox.working_dir().to_path_buf(),
        config,
        wall: Arc::new(crate::tool::indexing::wall_clock_ns),
        log: None,
        git: None,
        git_settings: Vec::new(),
        git_patience: None,
        fingerprint: None,
    };
    FindCodeTool::new(|| {
        let service = Service::new(parts).map(Arc::new);
        service.map_err(|error| failed(format!("the threads that rank: {error}")))
    })
}

fn failed(message: String) -> ToolError {
    ToolError::ExecutionFailed {
        tool: "forge-search".to_string(),
        message,
    }
}

#[cfg(test)]
mod tests;
