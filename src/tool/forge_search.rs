//! The entry point of programs that link the library: all tools over the trees of one program.
//!
//! [`ForgeSearch`] sets up the configuration, the sandbox, the indexes and the tools together. It
//! answers nothing itself: the tools do.

mod builder;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::exec::as_text::shown;
use crate::exec::indexes::IndexState;
use crate::tool::config::Config;
#[cfg(feature = "daemon")]
use crate::tool::daemon::find_code::FindCodeTool;
#[cfg(feature = "daemon")]
use crate::tool::daemon::service::{Parts, Service};
use crate::tool::error::{DenialReason, ToolError};
#[cfg(feature = "daemon")]
use crate::tool::find_code::{FindCodeRequest, FindCodeResponse};
use crate::tool::find_files::{FindFilesTool, FindRequest, FindResponse};
use crate::tool::indexing::{Foreground, Indexes};
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::{FilesRequest, FilesResponse, FilesTool};
use crate::tool::tools::{Tool, ToolName};
pub use builder::ForgeSearchBuilder;
use builder::check_indexes;

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
        ForgeSearchBuilder::new(root.into())
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

    /// Waits at most `timeout` for the live indexes. Returns true if searches can use all of them.
    /// Returns false at once if there are no live indexes, and as soon as one can't become usable
    /// by itself, for example because its build exceeded a limit.
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
                    false => failed(format!("the index of {}: {error}", shown(root))),
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
    let parts = Parts::new(
        search.clone(),
        files.clone(),
        context.clone(),
        context.sandbox.clone(),
        context.sandbox.working_dir().to_path_buf(),
        config,
    );
    FindCodeTool::new(|| {
        let service = Service::new(parts).map(Arc::new);
        service.map_err(|error| failed(format!("the threads that rank: {error}")))
    })
}

fn failed(message: String) -> ToolError {
    ToolError::failed("forge-search", message)
}

#[cfg(test)]
mod tests;
