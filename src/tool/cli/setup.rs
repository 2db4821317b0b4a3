//! Setup: reads the arguments, the environment and the configuration, and creates the tools.
//!
//! This is the only module of the command line that reads environment variables. [`Environment`]
//! holds their values, and [`prepare`] returns a [`Setup`]: the tools, the context of calls, and
//! the configuration. `places` finds the user's directories, `signals` handles interrupts, and
//! `logging` prints the program's own events.

pub(in crate::tool::cli) mod logging;
pub(in crate::tool::cli) mod places;
pub(in crate::tool::cli) mod signals;

use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(unix)]
use std::time::Duration;

use ignore::gitignore::gitconfig_excludes_path;

use crate::exec::as_text::shown;
use crate::exec::external::detect::SearchPath;
use crate::index::rules::as_ripgrep::reads_excludes;
use crate::index::rules::settings::{SettingFiles, excludes_file};
use crate::tool::cli::args::SetupArgs;
use crate::tool::cli::setup::places::absolute;
use crate::tool::cli::setup::signals::Signals;
use crate::tool::config::{
    Config, IndexMode, Loader, Origin, Profile, SandboxConfig, SearchConfig,
};
#[cfg(unix)]
use crate::tool::daemon::socket::SocketPlaces;
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::indexing::{CachePlaces, Indexes};
use crate::tool::sandbox::Sandbox;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::search_files::FilesTool;

/// Environment variables that locate git's user and system configuration.
#[cfg(unix)]
const GIT_SETTINGS: [&str; 5] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// Variables that name the directory of a client's configuration.
const CLIENT_DIRS: [&str; 2] = ["CLAUDE_CONFIG_DIR", "CODEX_HOME"];

/// The environment of the process at its start.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    /// The working directory, or the reason why there is none. With an absolute `--root` it may be
    /// missing.
    pub(super) working_dir: Result<PathBuf, ToolError>,
    /// `PATH`, for finding external engines.
    pub(super) path: Option<std::ffi::OsString>,
    /// The configuration file that `FORGE_SEARCH_CONFIG` names.
    pub(super) named_config: Option<PathBuf>,
    /// The usual configuration file, which need not exist.
    pub(super) usual_config: Option<PathBuf>,
    /// The files in which git looks for settings.
    pub(super) git_files: SettingFiles,
    /// Places where indexes may be stored.
    pub(super) cache: CachePlaces,
    /// The user's home directory.
    pub(super) home: Option<PathBuf>,
    /// The directory of the user's configuration files.
    pub(super) config_home: Option<PathBuf>,
    /// The directories of configuration that variables name for other programs.
    pub(super) client_dirs: Vec<(&'static str, PathBuf)>,
    /// Places for the sockets, notes and logs of daemons.
    #[cfg(unix)]
    pub(super) sockets: SocketPlaces,
    /// The environment variables that lead git to the user's configuration.
    #[cfg(unix)]
    pub(super) git_settings: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// The user's editor.
    #[cfg(unix)]
    pub(super) editor: Option<std::ffi::OsString>,
    /// `NO_COLOR` is set, or `TERM` is `dumb`: print no colours.
    pub(super) plain: bool,
    /// The minimum for short timeouts of daemons and git. Undocumented: tests set it, so that a
    /// busy machine does not change answers.
    #[cfg(unix)]
    pub(super) least_patience: Option<Duration>,
    /// `TERM` is `dumb`: the terminal can't move its cursor.
    pub(super) dumb: bool,
}

/// Returns the event filter from `RUST_LOG`; empty for the default.
#[allow(clippy::disallowed_methods)]
pub(super) fn event_filter() -> String {
    std::env::var("RUST_LOG").unwrap_or_default()
}

impl Environment {
    /// Reads the environment of the process.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn read() -> Environment {
        let working_dir = std::env::current_dir().map_err(|error| {
            ToolError::bad_args(format!(
                "the working directory can't be determined: {error}; change to an existing \
                 directory, or give --root an absolute path"
            ))
        });
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let named_config = set("FORGE_SEARCH_CONFIG").map(PathBuf::from);
        let usual_config =
            places::config_home(&set).map(|home| home.join("forge-search").join("config.toml"));
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        Environment {
            git_files: git_files(working_dir.as_deref().ok()),
            working_dir,
            path: set("PATH"),
            named_config,
            usual_config,
            cache: cache_places(&set),
            home: places::home(&set).filter(|home| home.is_absolute()),
            config_home: places::config_home(&set).filter(|dir| dir.is_absolute()),
            client_dirs: CLIENT_DIRS
                .iter()
                .filter_map(|name| Some((*name, absolute(set(name))?)))
                .collect(),
            #[cfg(unix)]
            sockets: SocketPlaces {
                runtime_dir: absolute(set("XDG_RUNTIME_DIR")),
                state: absolute(set("XDG_STATE_HOME"))
                    .or_else(|| Some(absolute(set("HOME"))?.join(".local").join("state"))),
                temporary: absolute(set("TMPDIR")),
            },
            #[cfg(unix)]
            git_settings: GIT_SETTINGS
                .iter()
                .filter_map(|name| Some((name.into(), set(name)?)))
                .collect(),
            #[cfg(unix)]
            editor: set("VISUAL").or_else(|| set("EDITOR")),
            plain: set("NO_COLOR").is_some() || dumb,
            #[cfg(unix)]
            least_patience: set("FORGE_SEARCH_PATIENCE_MS")
                .and_then(|ms| ms.to_str()?.parse().ok())
                .map(Duration::from_millis),
            dumb,
        }
    }

    /// Returns a timeout: `usual`, or the minimum from the environment if that is longer.
    #[cfg(unix)]
    pub(super) fn patience(&self, usual: Duration) -> Duration {
        self.least_patience.map_or(usual, |least| usual.max(least))
    }

    /// Returns git's global ignore file (`core.excludesFile`), if it exists now. Reads git's
    /// settings each time, including those of the repository around `root`.
    pub(super) fn excludes_at(&self, root: &Path) -> Option<PathBuf> {
        excludes_file(&self.git_files, root).filter(|file| file.exists())
    }

    /// Returns whether git's global excludes mean the same to ripgrep, which looks for them in its
    /// own way, as to this program. `root` is the root of the search.
    pub(super) fn has_ripgreps_excludes(&self, root: &Path) -> bool {
        let ripgreps = gitconfig_excludes_path().filter(|file| file.is_file());
        match (self.excludes_at(root), ripgreps) {
            (None, None) => true,
            (Some(own), Some(ripgreps)) => own == ripgreps && reads_excludes(&own),
            _ => false,
        }
    }

    /// Returns the configuration file if no argument names one. The usual file may be created while
    /// a process runs.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        let usual = || self.usual_config.clone().filter(|file| file.exists());
        self.named_config.clone().or_else(usual)
    }

    /// Returns the search path for external programs. Relative paths in the configuration start at
    /// `root`.
    pub(super) fn programs<'a>(&'a self, root: &'a Path) -> SearchPath<'a> {
        SearchPath {
            path: self.path.as_deref(),
            working_dir: root,
        }
    }

    /// Makes a path absolute, starting at the working directory.
    ///
    /// # Errors
    ///
    /// A relative path without a working directory.
    pub(super) fn absolute(&self, path: &Path) -> Result<PathBuf, ToolError> {
        if path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        Ok(self.working_dir.clone()?.join(path))
    }
}

/// Determines git's configuration files by git's own rules. Relative names start at the working
/// directory.
#[allow(clippy::disallowed_methods)]
fn git_files(working_dir: Option<&Path>) -> SettingFiles {
    let set = |name: &str| std::env::var_os(name);
    let some = |name: &str| set(name).filter(|value| !value.is_empty());
    let home = places::home(&some);
    let config_home = some("XDG_CONFIG_HOME").map(PathBuf::from);
    let of_git = config_home.or_else(|| Some(home.as_ref()?.join(".config")));
    let of_git = of_git.map(|dir| dir.join("git"));
    let is_on = |value: std::ffi::OsString| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        !matches!(&value[..], "" | "0" | "false" | "no" | "off")
    };
    let mut files = Vec::new();
    if !set("GIT_CONFIG_NOSYSTEM").is_some_and(is_on) {
        files.push(set("GIT_CONFIG_SYSTEM").map_or("/etc/gitconfig".into(), PathBuf::from));
    }
    match set("GIT_CONFIG_GLOBAL") {
        Some(file) => files.push(file.into()),
        None => {
            files.extend(of_git.as_ref().map(|dir| dir.join("config")));
            files.extend(home.as_ref().map(|home| home.join(".gitconfig")));
        }
    }
    let start = working_dir.unwrap_or(Path::new("/"));
    SettingFiles {
        files: files.iter().map(|file| start.join(file)).collect(),
        home,
        usual: of_git.map(|dir| dir.join("ignore")),
    }
}

/// Determines the directories in which indexes may be stored.
fn cache_places(set: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> CachePlaces {
    let temporary = absolute(set("TMPDIR")).unwrap_or_else(std::env::temp_dir);
    let user = places::user(set);
    CachePlaces {
        user_cache: places::cache_home(set),
        temporary: Some(temporary.join(format!("forge-search-{user}"))),
        ..CachePlaces::default()
    }
}

/// The tools, the context of their calls, and the configuration.
#[derive(Debug)]
pub(super) struct Setup {
    /// The tool `Search`.
    pub(super) tool: Arc<SearchTool>,
    /// The tool `search_files`, if it is to be called.
    pub(super) files: Option<Arc<FilesTool>>,
    /// Whether both tools use the same indexes.
    is_shared: bool,
    /// The context of every call.
    pub(super) context: ToolContext,
    /// The sandbox for a person's own search.
    pub(super) people: Arc<Sandbox>,
    /// The signal state, which cancels calls.
    pub(super) signals: Signals,
    /// The configuration in effect.
    pub(super) config: Config,
    /// The root of the sandbox, and the working directory of calls.
    pub(super) root: PathBuf,
    /// The roots that `--root` or the configuration names.
    pub(super) named_roots: Vec<PathBuf>,
}

#[cfg(unix)]
impl SetupArgs {
    /// Returns the arguments with another root and an absolute configuration path. They hold in any
    /// working directory.
    ///
    /// # Errors
    ///
    /// A relative configuration path without a working directory.
    pub(super) fn with_absolute_paths(
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
/// All problems of the configuration.
pub(super) fn load_config(
    args: &SetupArgs,
    environment: &Environment,
) -> Result<Config, ToolError> {
    let mut loader = Loader::new(Profile::CommandLine);
    if let Some(file) = args.config.clone().or_else(|| environment.config_file()) {
        let file = environment.absolute(&file)?;
        tracing::debug!(target: "forge_search::config", file = %file.display(), "reading");
        loader = loader.file(file);
    }
    for setting in &args.set {
        loader = loader.set(setting.clone());
    }
    Ok(loader.build()?)
}

/// Creates the setup. `extra_roots` are further directories that may be searched, since a person
/// may name any path.
///
/// # Errors
///
/// Problems of the configuration and of the root.
pub(super) fn prepare(
    args: &SetupArgs,
    environment: &Environment,
    extra_roots: &[PathBuf],
) -> Result<Setup, ToolError> {
    let mut config = load_config(args, environment)?;
    let has_own_roots = !config.search.index_roots.is_empty();
    let root = args.root.as_deref().unwrap_or(Path::new("."));
    let root = environment
        .absolute(root)?
        .canonicalize()
        .map_err(|error| {
            ToolError::bad_args(format!(
                "--root {}: {error}; name a directory that exists",
                shown(root)
            ))
        })?;
    let mut named_roots = config.search.index_roots.clone();
    named_roots.extend(args.root.is_some().then(|| root.clone()));
    if !extra_roots.is_empty() {
        // A search from outside can then use an index that was built inside the tree. Arguments
        // don't widen a sandbox that the configuration narrows.
        config.allow_by_default(&[std::slice::from_ref(&root), extra_roots].concat());
    }
    let (sandbox, people) = sandboxes(&config, &root)?;
    let mut context = ToolContext::new(sandbox);
    let engines = Engines::from_config(&config.search, environment.programs(&root), &context.clock);
    context.global_excludes = environment.excludes_at(&root);
    let signals = Signals::take_over()?;
    context.cancel = signals.cancel_handle();
    let of_files = FilesTool::search_config(&config);
    let of_files = Engines::from_config(&of_files, environment.programs(&root), &context.clock);
    let (excludes, cache) = (context.global_excludes.as_deref(), &environment.cache);
    let both = [&engines, &of_files];
    let shared = Indexes::of_both_tools(&config, both, &context.sandbox, excludes, cache);
    let is_shared = shared.is_some();
    let own = || Indexes::new(&config.search, &engines, &context.sandbox, excludes, cache);
    let indexes = shared.or_else(own).map(|indexes| match has_own_roots {
        true => indexes,
        false => indexes.finding_roots(),
    });
    Ok(Setup {
        tool: Arc::new(
            SearchTool::new(config.search.clone(), engines).with_indexes(indexes.map(Arc::new)),
        ),
        files: None,
        is_shared,
        context,
        people,
        signals,
        config,
        root,
        named_roots,
    })
}

/// Creates the sandboxes for agents and for people. The default denied patterns apply to people
/// only if the configuration sets them explicitly. Both sandboxes use the same indexes.
///
/// # Errors
///
/// Errors of [`Sandbox::new`].
fn sandboxes(config: &Config, root: &Path) -> Result<(Arc<Sandbox>, Arc<Sandbox>), ToolError> {
    let of_agents = config.sandbox.include_default_denies;
    let is_set = *config.origin("tools.sandbox.include_default_denies") != Origin::Default;
    if is_set || !of_agents {
        let both = Arc::new(Sandbox::new(&config.sandbox, root)?);
        return Ok((both.clone(), both));
    }
    let of_people = SandboxConfig {
        include_default_denies: false,
        ..config.sandbox.clone()
    };
    let people = Sandbox::new(&of_people, root)?;
    let agents = Sandbox::new(&config.sandbox, root)?.sharing_indexes_with(&people);
    Ok((Arc::new(agents), Arc::new(people)))
}

impl Setup {
    /// Switches to the sandbox for people, which applies only configured denied patterns.
    pub(super) fn for_people(mut self) -> Setup {
        self.context.sandbox = self.people.clone();
        self
    }

    /// Adds the tool `search_files`, as the tool that is called.
    pub(super) fn for_files(self, environment: &Environment) -> Setup {
        let search = FilesTool::search_config(&self.config);
        let programs = environment.programs(&self.root);
        let engines = Engines::from_config(&search, programs, &self.context.clock);
        let (sandbox, cache) = (&self.context.sandbox, &environment.cache);
        let indexes = match self.is_shared {
            true => self.tool.indexes().cloned(),
            false => {
                let own = FilesTool::indexes_for(&self.config, &engines, sandbox, cache);
                let own = own.map(|indexes| match search.index_roots.is_empty() {
                    true => indexes.finding_roots(),
                    false => indexes,
                });
                own.map(Arc::new)
            }
        };
        let tool = FilesTool::new(&self.config, engines).with_indexes(indexes);
        Setup {
            files: Some(Arc::new(tool)),
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

    /// Returns the configuration of [`Setup::indexes`].
    pub(super) fn indexing(&self) -> SearchConfig {
        match &self.files {
            Some(_) if !self.is_shared => self.indexing_files(),
            _ => self.indexing_search(),
        }
    }

    /// Returns the configuration of the indexes of `Search`. If both tools share an index, the
    /// index is built as soon as either tool would need it.
    pub(super) fn indexing_search(&self) -> SearchConfig {
        let mut config = self.config.search.clone();
        if !self.is_shared {
            return config;
        }
        let files = &self.config.search_files;
        if files.index_mode == IndexMode::On {
            config.index_mode = IndexMode::On;
        }
        let (most_files, most_bytes) = (
            &mut config.index_auto_threshold_files,
            &mut config.index_auto_threshold_bytes,
        );
        *most_files = files.index_auto_threshold_files.min(*most_files);
        *most_bytes = files.index_auto_threshold_bytes.min(*most_bytes);
        config
    }

    /// Returns the configuration of the indexes of `search_files`.
    pub(super) fn indexing_files(&self) -> SearchConfig {
        FilesTool::search_config(&self.config)
    }
}
