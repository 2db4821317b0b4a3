//! The configuration: `[tools.search]`, `[tools.search_files]`, `[tools.daemon]`, `[tools.sandbox]`
//! and `[executor]`.
//!
//! This module owns every configuration key of the `tools` tables. One table ([`KEYS`]) declares
//! the type, the defaults, the allowed values and the purpose of each key. Everything else follows
//! from [`KEYS`]: reading and checking TOML, the typed structs such as [`SearchConfig`] and
//! [`DaemonConfig`], and the list of values in effect with their origins. The module must not know
//! how the values are used. `[executor]` has operator-defined names, so [`ExecutorConfig`] reads
//! that table without [`KEYS`].
//!
//! Callers build a [`Config`] with a [`Loader`]. There are two sets of defaults ([`Profile`]).
//! Programs that link the library get the specified defaults, which leave every tool disabled. The
//! command line gets wider limits and enabled tools.
//!
//! ```
//! use forge_search::{Loader, Origin, Profile};
//!
//! let config = Loader::new(Profile::Library)
//!     .toml_str("[tools.search]\nenabled = true\nmax_files = 20_000\n", Origin::Set)
//!     .set("index_mode=on")
//!     .build()?;
//! assert_eq!(config.search.max_files, 20_000);
//! assert_eq!(config.origin("tools.search.max_files"), &Origin::Set);
//! assert_eq!(config.origin("tools.search.binary"), &Origin::Default);
//! # Ok::<(), forge_search::ConfigError>(())
//! ```

pub mod caps;
mod choice;
mod error;
mod executor;
mod keys;
mod load;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

pub use crate::exec::question::query::Case;
pub use choice::{
    Backend, DaemonUse, Embed, FilesBackend, IndexMode, IndexStorage, IntegrityCheck, Mode,
    RegexStrategy,
};
pub use error::{ConfigError, Problem};
pub use executor::{ExecutorConfig, ScopeConfig, ScopeKind};
pub use keys::{DaemonConfig, FilesConfig, KEYS, Key, SandboxConfig, SearchConfig};
pub use load::Loader;
pub use value::{Kind, Value};

/// The set of defaults that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// A program that links the library: gets the specified defaults.
    Library,
    /// A user at the command line, and the servers that the user starts there.
    CommandLine,
}

/// The source of a value in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The default: no source set the value.
    #[default]
    Default,
    /// A configuration file set the value.
    File(PathBuf),
    /// The caller set the value, with `--set` on the command line.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Set => f.write_str("--set"),
        }
    }
}

/// The configuration in effect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The keys of `[tools.search]`.
    pub search: SearchConfig,
    /// The keys of `[tools.search_files]`.
    pub search_files: FilesConfig,
    /// The keys of `[tools.daemon]`.
    #[doc(hidden)]
    pub daemon: DaemonConfig,
    /// The keys of `[tools.sandbox]`.
    pub sandbox: SandboxConfig,
    /// The keys of `[executor]`.
    #[doc(hidden)]
    pub executor: ExecutorConfig,
    /// The origin of every value that a source set, by full key.
    origins: BTreeMap<&'static str, Origin>,
}

/// One key of the configuration in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The key itself.
    pub key: &'static Key,
    /// Its value in effect.
    pub value: Value,
    /// The source of the value.
    pub origin: &'a Origin,
}

impl Config {
    /// Returns the defaults for a program that links the library.
    pub fn library_default() -> Self {
        Self::defaults(Profile::Library)
    }

    /// Returns the defaults for the command line.
    pub fn command_line_default() -> Self {
        Self::defaults(Profile::CommandLine)
    }

    /// Returns the defaults of a profile.
    pub fn defaults(profile: Profile) -> Self {
        Self {
            search: keys::search_defaults(profile),
            search_files: keys::files_defaults(profile),
            daemon: keys::daemon_defaults(profile),
            sandbox: keys::sandbox_defaults(profile),
            executor: ExecutorConfig::default(),
            origins: BTreeMap::new(),
        }
    }

    /// Allows and indexes `roots`, unless the configuration allows directories of its own. Returns
    /// true if the roots are allowed now.
    pub(crate) fn allow_by_default(&mut self, roots: &[PathBuf]) -> bool {
        if !self.sandbox.allowed_roots.is_empty() {
            return false;
        }
        self.sandbox.allowed_roots = roots.to_vec();
        if self.search.index_roots.is_empty() {
            self.search.index_roots = roots.to_vec();
        }
        true
    }

    /// Returns the source of a key's value, for a full key such as `tools.search.max_files`.
    pub fn origin(&self, full_key: &str) -> &Origin {
        self.origins.get(full_key).unwrap_or(&Origin::Default)
    }

    /// Lists every key with its value and origin, in the order of [`KEYS`].
    #[doc(hidden)]
    pub fn entries(&self) -> Vec<Entry<'_>> {
        KEYS.iter()
            .map(|key| Entry {
                key,
                value: key.read(self),
                origin: self.origin(key.full),
            })
            .collect()
    }

    /// Checks every value against the kind of its key. [`Loader::build`] checks
    /// loaded values. A program that sets fields itself calls this method.
    ///
    /// # Errors
    ///
    /// All values that are not allowed, as one [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let problems = self
            .entries()
            .into_iter()
            .filter_map(|entry| {
                let why = entry.key.kind.check(&entry.value).err()?;
                let message = format!("`{}` is not allowed: {why}", entry.value);
                Some(Problem::new(Some(entry.key.full), message).at(entry.origin.clone(), None))
            })
            .collect();
        ConfigError::unless_empty(problems)
    }
}

#[cfg(test)]
mod tests;
