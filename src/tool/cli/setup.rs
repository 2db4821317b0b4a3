//! From arguments, environment and files to a tool that is ready to answer.
//!
//! The one place of the command line that looks at the environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::signals::Signals;
use crate::exec::detect::SearchPath;
use crate::tool::cli::args::SetupArgs;
use crate::tool::config::{Config, Loader, Profile, SearchConfig};
#[cfg(unix)]
use crate::tool::daemon::socket::SocketPlaces;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::indexing::{CachePlaces, Indexes};
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::FilesTool;

/// Where git looks for what the user, and whoever manages the machine, have configured.
#[cfg(unix)]
const GIT_SETTINGS: [&str; 5] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// What the process was started with.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    /// The working directory, or why there is none; with --root it need not be there.
    pub(super) working_dir: Result<PathBuf, ToolError>,
    /// `PATH`, for finding external engines.
    pub(super) path: Option<std::ffi::OsString>,
    /// The configuration file that the environment names.
    pub(super) named_config: Option<PathBuf>,
    /// Where one is looked for otherwise.
    pub(super) usual_config: Option<PathBuf>,
    /// Git's `core.excludesFile`.
    pub(super) global_excludes: Option<PathBuf>,
    /// Where indexes may be kept.
    pub(super) cache: CachePlaces,
    /// Where logs are kept.
    pub(super) state: Option<PathBuf>,
    /// Where sockets of daemons may be.
    #[cfg(unix)]
    pub(super) sockets: SocketPlaces,
    /// What of it leads git to the user's own configuration.
    #[cfg(unix)]
    pub(super) git_settings: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// The user's editor.
    #[cfg(unix)]
    pub(super) editor: Option<std::ffi::OsString>,
    /// `NO_COLOR` is set, or `TERM` is `dumb`.
    pub(super) plain: bool,
    /// `TERM` is `dumb`: the terminal can't move its cursor.
    pub(super) dumb: bool,
}

impl Environment {
    /// Reads it.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn read() -> Environment {
        let working_dir = std::env::current_dir().map_err(|error| {
            ToolError::bad_args(format!(
                "the working directory can't be determined: {error}; change to one that exists, or give --root \
                 an absolute path"
            ))
        });
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let config_home = set("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")));
        let named_config = set("FORGE_SEARCH_CONFIG").map(PathBuf::from);
        let usual_config = config_home.map(|home| home.join("forge-search").join("config.toml"));
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Environment {
            global_excludes: global_excludes(working_dir.as_deref().ok()),
            working_dir,
            path: set("PATH"),
            named_config,
            usual_config,
            cache: cache_places(&set),
            state: absolute(set("XDG_STATE_HOME"))
                .or_else(|| Some(absolute(set("HOME"))?.join(".local").join("state"))),
            #[cfg(unix)]
            sockets: SocketPlaces {
                runtime_dir: absolute(set("XDG_RUNTIME_DIR")),
                home: absolute(set("HOME")),
            },
            #[cfg(unix)]
            git_settings: GIT_SETTINGS
                .iter()
                .filter_map(|name| Some((name.into(), set(name)?)))
                .collect(),
            #[cfg(unix)]
            editor: set("VISUAL").or_else(|| set("EDITOR")),
            plain: set("NO_COLOR").is_some() || dumb,
            dumb,
        }
    }

    /// The same as it is now: git's global excludes may have come to be since it was read, or be others.
    pub(super) fn now(&self) -> Environment {
        Environment {
            global_excludes: self.excludes_now(),
            ..self.clone()
        }
    }

    /// Returns git's file of what is to be ignored everywhere, if it is there now.
    pub(super) fn excludes_now(&self) -> Option<PathBuf> {
        global_excludes(self.working_dir.as_deref().ok())
    }

    /// Returns the configuration file that counts when no argument names one. The usual one need not be there, and may come to be while a process lives.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        let usual = || self.usual_config.clone().filter(|file| file.exists());
        self.named_config.clone().or_else(usual)
    }

    /// Returns where programs are looked for; a configured relative path starts at `root`.
    pub(super) fn programs<'a>(&'a self, root: &'a Path) -> SearchPath<'a> {
        SearchPath {
            path: self.path.as_deref(),
            working_dir: root,
        }
    }

    /// Makes a path absolute.
    ///
    /// # Errors
    ///
    /// A relative path, and no working directory that it could start from.
    pub(super) fn absolute(&self, path: &Path) -> Result<PathBuf, ToolError> {
        if path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        Ok(self.working_dir.clone()?.join(path))
    }
}

/// Returns git's file of what is to be ignored everywhere, if it is there. Reads git's own configuration.
fn global_excludes(working_dir: Option<&Path>) -> Option<PathBuf> {
    let file = ignore::gitignore::gitconfig_excludes_path()?;
    let file = match file.is_absolute() {
        true => file,
        false => working_dir?.join(file),
    };
    file.exists().then_some(file)
}

/// Returns a path of the environment; a relative one says nothing.
fn absolute(value: Option<std::ffi::OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Finds the directories in which indexes may be kept (FR-LSI-CACHE-ROOT-01).
fn cache_places(set: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> CachePlaces {
    let path = |name: &str| absolute(set(name));
    let home = path("HOME");
    let user_cache = if cfg!(windows) {
        path("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library").join("Caches"))
    } else {
        path("XDG_CACHE_HOME").or_else(|| home.map(|home| home.join(".cache")))
    };
    #[cfg(unix)]
    let user = rustix::process::geteuid().as_raw().to_string();
    #[cfg(not(unix))]
    let user = set("USERNAME").map_or("user".to_string(), |name| {
        name.to_string_lossy().into_owned()
    });
    let temporary = path("TMPDIR").unwrap_or_else(std::env::temp_dir);
    CachePlaces {
        user_cache,
        temporary: Some(temporary.join(format!("forge-search-{user}"))),
        ..CachePlaces::default()
    }
}

/// A tool, the context of its calls, and how they came about.
#[derive(Debug)]
pub(super) struct Setup {
    /// The tool `Search`.
    pub(super) tool: SearchTool,
    /// The tool `search_files`, where it is the one that is called.
    pub(super) files: Option<FilesTool>,
    /// The context of every call.
    pub(super) context: ToolContext,
    /// What cancels them.
    pub(super) signals: Signals,
    /// The configuration in effect.
    pub(super) config: Config,
    /// The sandbox root and working directory of the calls.
    pub(super) root: PathBuf,
}

impl SetupArgs {
    /// Returns the same for a root, holding wherever a process goes.
    ///
    /// # Errors
    ///
    /// As [`Environment::absolute`].
    pub(super) fn anywhere(
        &self,
        root: Option<&Path>,
        environment: &Environment,
    ) -> Result<SetupArgs, ToolError> {
        let file = self.config.as_ref();
        Ok(SetupArgs {
            root: root.map(Path::to_path_buf),
            config: file.map(|file| environment.absolute(file)).transpose()?,
            set: self.set.clone(),
        })
    }
}

/// Loads the configuration that the arguments name.
///
/// # Errors
///
/// Every problem of it.
pub(super) fn load_config(
    args: &SetupArgs,
    environment: &Environment,
) -> Result<Config, ToolError> {
    let mut loader = Loader::new(Profile::CommandLine);
    if let Some(file) = args.config.clone().or_else(|| environment.config_file()) {
        loader = loader.file(environment.absolute(&file)?);
    }
    for setting in &args.set {
        loader = loader.set(setting.clone());
    }
    Ok(loader.build()?)
}

/// Prepares the tool. `extra_root` is a further directory that may be searched: a person may name any path.
///
/// # Errors
///
/// Problems of the configuration and of the root.
pub(super) fn prepare(
    args: &SetupArgs,
    environment: &Environment,
    extra_root: Option<&Path>,
) -> Result<Setup, ToolError> {
    let mut config = load_config(args, environment)?;
    let root = args.root.as_deref().unwrap_or(Path::new("."));
    let root = environment
        .absolute(root)?
        .canonicalize()
        .map_err(|error| {
            ToolError::bad_args(format!(
                "--root {}: {error}; name a directory that exists",
                root.display()
            ))
        })?;
    if let Some(extra) = extra_root
        && config.sandbox.allowed_roots.is_empty()
    {
        config.sandbox.allowed_roots = vec![root.clone(), extra.to_path_buf()];
        // A tree that was indexed from within is used from without.
        if config.search.index_roots.is_empty() {
            config.search.index_roots = vec![root.clone(), extra.to_path_buf()];
        }
    }
    let sandbox = Arc::new(Sandbox::new(&config.sandbox, &root)?);
    let mut context = ToolContext::new(sandbox);
    let engines = Engines::from_config(&config.search, environment.programs(&root), &context.clock);
    context.global_excludes = environment.global_excludes.clone();
    let signals = Signals::take_over()?;
    context.cancel = signals.cancel_handle();
    let indexes = Indexes::new(
        &config.search,
        &engines,
        &context.sandbox,
        context.global_excludes.as_deref(),
        &environment.cache,
    );
    Ok(Setup {
        tool: SearchTool::new(config.search.clone(), engines).with_indexes(indexes.map(Arc::new)),
        files: None,
        context,
        signals,
        config,
        root,
    })
}

impl Setup {
    /// Sets up the tool `search_files` as the one that is called.
    pub(super) fn for_files(self, environment: &Environment) -> Setup {
        let search = FilesTool::search_config(&self.config);
        let programs = environment.programs(&self.root);
        let engines = Engines::from_config(&search, programs, &self.context.clock);
        let sandbox = &self.context.sandbox;
        let indexes = FilesTool::indexes_for(&self.config, &engines, sandbox, &environment.cache);
        let tool = FilesTool::new(&self.config, engines).with_indexes(indexes.map(Arc::new));
        Setup {
            files: Some(tool),
            ..self
        }
    }

    /// Returns the indexes of the tool that is called.
    pub(super) fn indexes(&self) -> Option<&Arc<Indexes>> {
        match &self.files {
            Some(files) => files.indexes(),
            None => self.tool.indexes(),
        }
    }

    /// Returns the configuration of these indexes.
    pub(super) fn indexing(&self) -> SearchConfig {
        match &self.files {
            Some(_) => self.indexing_files(),
            None => self.config.search.clone(),
        }
    }

    /// Returns the configuration of the indexes of `search_files`.
    pub(super) fn indexing_files(&self) -> SearchConfig {
        FilesTool::search_config(&self.config)
    }
}
