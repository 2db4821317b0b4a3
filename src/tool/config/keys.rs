//! The table of all configuration keys.
//!
//! Each key is declared once, in `tables!` below: its name, type, default, allowed values and
//! purpose. The macro generates the typed structs, their defaults and [`KEYS`]. Reading, checking,
//! listing and documenting use [`KEYS`].

use std::path::PathBuf;

use super::caps::{self, Cap};
use super::choice::{
    Backend, DaemonUse, Embed, FilesBackend, IndexMode, IndexStorage, IntegrityCheck, Mode,
    RegexStrategy,
};
use super::value::{Field, Kind, Value};
use super::{Config, Profile};
use crate::exec::question::query::Case;

/// The longest duration that can be configured, in milliseconds: one day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MINUTE_MS: u64 = 60 * 1000;
const MIB: u64 = 1024 * 1024;

/// A duration in milliseconds, at least 1.
const TIMEOUT: Kind = Kind::Integer {
    min: 1,
    max: DAY_MS,
};
/// A duration in milliseconds; 0 is allowed.
const DELAY: Kind = Kind::Integer {
    min: 0,
    max: DAY_MS,
};
/// A pause in milliseconds, at most one minute.
const PAUSE: Kind = Kind::Integer {
    min: 0,
    max: MINUTE_MS,
};

const STORAGE: Kind = Kind::Choice {
    names: IndexStorage::NAMES,
    unavailable: match cfg!(feature = "sqlite") {
        true => &[],
        false => &[(
            "sqlite",
            "`sqlite` is not part of this build, which lacks the feature `sqlite`; use `\"mmap\"` or \
             `\"memory\"`",
        )],
    },
};

/// Allows values from 1 to the bound of a daemon's cap.
const fn up_to(cap: Cap) -> Kind {
    no_less(1, cap)
}

/// Allows values from `min` to the bound of a daemon's cap.
const fn no_less(min: u64, cap: Cap) -> Kind {
    Kind::Integer { min, max: cap.most }
}

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name of the table below `tools` that has the key: `search`, `search_files`, `daemon` or
    /// `sandbox`.
    pub table: &'static str,
    /// The key's name in that table.
    pub name: &'static str,
    /// The key's full name, such as `tools.search.max_files`.
    pub full: &'static str,
    /// The values that the key allows.
    pub kind: Kind,
    about: &'static str,
    read: fn(&Config) -> Value,
    write: fn(&mut Config, &Value),
}

impl Key {
    /// Returns the purpose of the key, in a sentence or two of Markdown.
    pub fn about(&self) -> &'static str {
        self.about.trim()
    }

    /// Returns the key's default in a profile.
    pub fn default(&self, profile: Profile) -> Value {
        self.read(&Config::defaults(profile))
    }

    /// Returns the key's value in a configuration.
    pub fn read(&self, config: &Config) -> Value {
        (self.read)(config)
    }

    /// Sets the key to a value. The caller must have checked the value against the key's kind.
    pub(super) fn write(&self, config: &mut Config, value: &Value) {
        (self.write)(config, value);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.full == other.full
    }
}

macro_rules! default_for {
    ($profile:ident, $everywhere:expr) => {{
        // A table may have no key whose default depends on the profile.
        let _ = $profile;
        $everywhere
    }};
    ($profile:ident, $library:expr, $command_line:expr) => {
        match $profile {
            Profile::Library => $library,
            Profile::CommandLine => $command_line,
        }
    };
}

/// Declares tables of keys. A key reads `name: type = default; kind;`. If the command line has
/// another default, the key reads `name: type = default, command_line default; kind;`.
macro_rules! tables {
    ($(
        $(#[doc = $table_about:literal])+
        $table:ident: $config:ident, $defaults:ident {
            $(
                $(#[doc = $about:literal])+
                $name:ident: $type:ty = $default:expr $(, command_line $wider:expr)?; $kind:expr;
            )+
        }
    )+) => {
        $(
            $(#[doc = $table_about])+
            #[derive(Clone, Debug, PartialEq)]
            #[non_exhaustive]
            pub struct $config {
                $( $(#[doc = $about])+ pub $name: $type, )+
            }

            impl Default for $config {
                /// Returns the defaults for a program that links the library.
                fn default() -> Self {
                    $defaults(Profile::Library)
                }
            }

            pub(super) fn $defaults(profile: Profile) -> $config {
                $config { $( $name: default_for!(profile, $default $(, $wider)?), )+ }
            }
        )+

        /// All configuration keys, grouped by table, in the order of declaration.
        pub static KEYS: &[Key] = &[
            $($( Key {
                table: stringify!($table),
                name: stringify!($name),
                full: concat!("tools.", stringify!($table), ".", stringify!($name)),
                kind: $kind,
                about: concat!($($about),+),
                read: |config| config.$table.$name.to_value(),
                write: |config, value| config.$table.$name.assign(value),
            }, )+)+
        ];
    };
}

tables! {
    /// The configuration of `[tools.search]`.
    search: SearchConfig, search_defaults {
        /// Whether the tool is enabled. A call of a disabled tool fails.
        enabled: bool = false, command_line true; Kind::Boolean;
        /// The engine that searches the files. `embedded` is the built-in engine. `ugrep` and `rg`
        /// run that program. `auto` runs the first of `binary` and `fallback_binary` that supports
        /// the request.
        backend: Backend = Backend::Embedded; Kind::choice(Backend::NAMES);
        /// The ugrep program: a path, or a name that is looked up in `PATH`.
        binary: String = "ugrep".into(); Kind::Program;
        /// The ripgrep program: a path, or a name that is looked up in `PATH`.
        fallback_binary: String = "rg".into(); Kind::Program;
        /// Default time limit of a request, in milliseconds.
        default_timeout_ms: u64 = 20_000; TIMEOUT;
        /// Default number of lines in a response, lines of context included.
        default_max_results: u64 = 200; Kind::POSITIVE;
        /// Maximum and default number of matches from one file in a tool call. A call for more
        /// fails. If its response is text, as with MCP, the number is lowered instead.
        max_matches_per_file: u64 = 50, command_line 100_000; Kind::POSITIVE;
        /// Maximum and default number of files that a tool call searches. A call for more fails. If
        /// its response is text, as with MCP, the number is lowered instead.
        max_files: u64 = 10_000, command_line 5_000_000; Kind::POSITIVE;
        /// Maximum and default size of a searched file in a tool call, in bytes. Larger files are
        /// skipped. A call for more fails. If its response is text, as with MCP, the number is
        /// lowered instead.
        max_file_size_bytes: u64 = 2_000_000, command_line 64 * MIB; Kind::POSITIVE;
        /// Number of search threads. 0 means one thread for each processor core.
        threads: usize = 0; Kind::Integer { min: 0, max: 256 };

        /// When an index is built and used. `off`: never. `auto`: for trees above
        /// `index_auto_threshold_files` or `index_auto_threshold_bytes`, and once a daemon gets a
        /// ranked question about a smaller tree. `on`: always.
        index_mode: IndexMode = IndexMode::Off, command_line IndexMode::Auto;
            Kind::choice(IndexMode::NAMES);
        /// Where an index is stored: in memory, in mapped files, or in an SQLite database. `sqlite`
        /// requires a build with that feature.
        index_storage: IndexStorage = IndexStorage::Mmap; STORAGE;
        /// Whether index files are mapped into memory; applies to storage in `mmap`. If false, they
        /// are read on demand. That is a little slower, but a program that truncates an index file
        /// can't crash the process.
        index_map: bool = true, command_line false; Kind::Boolean;
        /// The directory of stored indexes. If empty, the user's cache directory. It must not be
        /// inside a searched tree.
        index_path: Option<PathBuf> = None; Kind::OptionalPath;
        /// The directories to index. If empty, the working directory.
        index_roots: Vec<PathBuf> = Vec::new(); Kind::Paths;
        /// Whether the index covers hidden files. An index serves only requests with the same
        /// `hidden`, `follow` and `no_ignore`.
        index_default_hidden: bool = false; Kind::Boolean;
        /// Whether the index follows symbolic links. Such an index is built but excludes no file,
        /// because changes behind a link are not detected.
        index_default_follow: bool = false; Kind::Boolean;
        /// Whether the index covers files that ignore files exclude.
        index_default_no_ignore: bool = false; Kind::Boolean;
        /// With `index_mode = "auto"`, trees with more files than this are indexed.
        index_auto_threshold_files: u64 = 2_000; Kind::COUNT;
        /// With `index_mode = "auto"`, trees with more bytes than this are indexed.
        index_auto_threshold_bytes: u64 = 500_000_000; Kind::COUNT;
        /// With `index_mode = "auto"`, the number of searches after which a tree below the
        /// thresholds is measured again.
        index_auto_reeval_calls: u64 = 100; Kind::POSITIVE;
        /// Time limit of a background build, in milliseconds. Builds by `index build`, `--index on`
        /// and `call --wait-index` have no time limit. `call --wait-index` also waits at most this
        /// long for a build by another process.
        index_build_timeout_ms: u64 = 300_000; TIMEOUT;
        /// Maximum number of files in a background build. The build stops if the tree has more. 0
        /// means no limit. Builds that a caller waits for have no such limit.
        index_build_max_files: u64 = 0; Kind::COUNT;
        /// Maximum number of bytes that a background build reads. The build stops if the tree has
        /// more. 0 means no limit. Builds that a caller waits for have no such limit.
        index_build_max_bytes: u64 = 0; Kind::COUNT;
        /// Maximum share of all processors that a background build uses, in percent.
        index_build_max_cpu_percent: u8 = 50; Kind::Integer { min: 1, max: 100 };
        /// Pause between batches of files during a background build, in milliseconds.
        index_build_throttle_ms: u64 = 10; PAUSE;
        /// After this many milliseconds without a search, a background build stops pausing and uses
        /// all processors.
        index_idle_boost_ms: u64 = 1_000; DELAY;
        /// Whether a first build that failed is retried, unless it exceeded a limit. Failed
        /// rebuilds are always retried.
        index_retry_on_failure: bool = false; Kind::Boolean;
        /// How long indexing stays disabled after it exceeded `index_max_memory_bytes`, in
        /// milliseconds. 0 means until the process ends.
        index_cooldown_ms: u64 = 3_600_000; Kind::COUNT;
        /// Whether the progress of a first background build is saved if the build is stopped or
        /// exceeds its time limit. The next build continues from there. Applies to storage in
        /// `mmap`.
        index_checkpoint_on_shutdown: bool = true; Kind::Boolean;
        /// How long a shutdown waits for the indexer, in milliseconds.
        index_shutdown_timeout_ms: u64 = 5_000; DELAY;
        /// Whether indexed trees are watched for changes.
        index_watch: bool = true; Kind::Boolean;
        /// How long changes are collected before they are indexed, in milliseconds. Searches see a
        /// changed file at once.
        index_watch_debounce_ms: u64 = 250; PAUSE;
        /// Maximum size of all stored indexes together, in bytes. The least recently used indexes
        /// are evicted. An index that is larger by itself is not stored.
        index_max_db_bytes: u64 = 1024 * MIB; Kind::POSITIVE;
        /// Maximum size of one stored index, in bytes. A larger index is not stored; the previous
        /// one is kept.
        index_max_store_bytes: u64 = 1024 * MIB; Kind::POSITIVE;
        /// Maximum memory for indexing, in bytes. A file larger than a quarter of it is always
        /// searched. So is a file that needs more than half of it together with its n-grams.
        index_max_memory_bytes: u64 = 512 * MIB; Kind::POSITIVE;
        /// Maximum number of stored indexes. The least recently used indexes are evicted.
        index_max_indexes: u64 = 10; Kind::POSITIVE;
        /// How long to wait for an index that another process has locked, in milliseconds. A search
        /// waits at most as long as `index_maint_budget_fraction` allows, and then continues
        /// without the index.
        index_lock_timeout_ms: u64 = 250; DELAY;
        /// When a whole stored index is checked for damage. `off`: never. `on_open`: when an SQLite
        /// database is opened. `periodic`: also after every `index_integrity_period_calls` searches
        /// of a long-running process. Mapped files are always checked page by page as they are
        /// read.
        index_integrity_check: IntegrityCheck = IntegrityCheck::OnOpen;
            Kind::choice(IntegrityCheck::NAMES);
        /// With `index_integrity_check = "periodic"`, the number of searches between two checks.
        index_integrity_period_calls: u64 = 200; Kind::POSITIVE;
        /// Maximum size of an indexed file, in bytes. Larger files are always searched.
        index_max_tokenized_bytes: u64 = MIB, command_line 64 * MIB;
            Kind::Integer { min: 2, max: 256 * MIB };
        /// The number of characters of an n-gram. Only 3 is supported.
        /// Has no effect.
        bloom_ngram_k: u64 = 3; Kind::Integer { min: 3, max: 3 };
        /// Target rate of false positives, from which the parameters of an index's filter are
        /// computed. The stored filter has its own density, with fewer false positives.
        bloom_target_fp_rate: f64 = 0.01; Kind::Number { min: 0.0, max: 1.0, inclusive: false };
        /// The regular expressions that can use the index. `required_literal`: those with a literal
        /// that every match contains. `boolean`: also those whose matches must contain some
        /// combination of n-grams.
        index_regex_strategy: RegexStrategy = RegexStrategy::RequiredLiteral,
            command_line RegexStrategy::Boolean;
            Kind::choice(RegexStrategy::NAMES);
        /// Whether an index may be stored where other users could read it.
        index_allow_insecure_persistence: bool = false; Kind::Boolean;
        /// Declares that indexed trees never change, such as read-only mounts. They are not checked
        /// for changes. If a tree does change, its search results are wrong.
        index_frozen: bool = false; Kind::Boolean;
        /// Maximum number of files that one step of reconciling an index with the tree checks.
        reconcile_max_files: u64 = 50_000; Kind::POSITIVE;
        /// Maximum duration of one step of reconciling an index with the tree, in milliseconds.
        reconcile_max_ms: u64 = 2_000; TIMEOUT;
        /// The fraction of a request's time limit that it may spend on its index: on waiting for
        /// locks, opening, updating and reconciling. After that, the request continues without the
        /// index.
        index_maint_budget_fraction: f64 = 0.25;
            Kind::Number { min: 0.0, max: 1.0, inclusive: true };

        /// Maximum size of a response as JSON, in bytes. 0 means no limit. Long lines are shortened
        /// first, then lines at the end are omitted. A caller can set a lower limit.
        max_output_bytes: u64 = 0; Kind::COUNT;
        /// Maximum number of bytes shown of a line. 0 means no limit. Of a longer line, the part
        /// around its match is shown.
        max_line_bytes: u64 = 0, command_line 2_000; Kind::COUNT;
        /// Whether responses have a `stats` block.
        emit_stats: bool = false; Kind::Boolean;

        /// Whether a literal search without matches is repeated as a fuzzy search.
        fuzzy_fallback: bool = false; Kind::Boolean;
        /// The numbers of edits to try in a fuzzy fallback, in this order. It ends at the first
        /// level with matches.
        fuzzy_fallback_levels: Vec<u8> = vec![1, 2, 3]; Kind::Integers { min: 1, max: 4 };
        /// Minimum length of a pattern for fuzzy fallback, in characters.
        fuzzy_min_pattern_len: usize = 4; Kind::POSITIVE;
    }

    /// The configuration of `[tools.search_files]`. `[tools.search]` provides all settings of
    /// engines and indexes that are missing here.
    search_files: FilesConfig, files_defaults {
        /// Whether the tool is enabled. A call of a disabled tool fails.
        enabled: bool = false, command_line true; Kind::Boolean;
        /// The engine that searches the files: `native` is the built-in engine; `rg` and `ugrep`
        /// run the program that `[tools.search]` names. Fuzzy searches always use the built-in
        /// engine, because the programs don't find all similar text.
        backend: FilesBackend = FilesBackend::Native; Kind::choice(FilesBackend::NAMES);
        /// Default of `mode`: search for the query as literal text (`exact`), as a regular
        /// expression (`regex`) or for similar text (`fuzzy`).
        mode: Mode = Mode::Exact; Kind::choice(Mode::NAMES);
        /// Default of `case`. `smart`: case-sensitive if the query has an ASCII uppercase letter.
        case: Case = Case::Smart; Kind::choice(Case::NAMES);
        /// Default of `respect_gitignore`, and whether the index excludes files that git ignores.
        respect_gitignore: bool = true; Kind::Boolean;
        /// Default of `include_hidden`, and whether the index covers hidden files.
        include_hidden: bool = false; Kind::Boolean;
        /// Default of `follow_symlinks`: whether symbolic links to files are followed. Requests
        /// that follow links don't use an index.
        follow_symlinks: bool = false; Kind::Boolean;
        /// Maximum and default number of matches in a response.
        max_results: u64 = 200; Kind::POSITIVE;
        /// Maximum and default number of matches from one file.
        max_matches_per_file: u64 = 20; Kind::POSITIVE;
        /// Maximum and default size of a searched file, in bytes. Larger files are reported as
        /// errors.
        max_file_size_bytes: u64 = 2_000_000, command_line 64 * MIB;
            Kind::Integer { min: 1, max: 256 * MIB };
        /// Maximum and default number of files that a request searches.
        max_files: u64 = 5_000, command_line 5_000_000; Kind::POSITIVE;
        /// Maximum and default depth of searched files. Files directly in the searched directory
        /// have depth 1.
        max_depth: u64 = 12, command_line 100; Kind::POSITIVE;
        /// Time limit of a call, in milliseconds, unless the host sets one.
        default_timeout_ms: u64 = 20_000; TIMEOUT;

        /// When an index is built and used. `off`: never. `auto`: for trees above
        /// `index_auto_threshold_files` or `index_auto_threshold_bytes`. `on`: always.
        index_mode: IndexMode = IndexMode::Off, command_line IndexMode::Auto;
            Kind::choice(IndexMode::NAMES);
        /// Where an index is stored: in memory, in mapped files, or in an SQLite database. `sqlite`
        /// requires a build with that feature.
        index_storage: IndexStorage = IndexStorage::Mmap; STORAGE;
        /// The directory of stored indexes. If empty, the user's cache directory. It must not be
        /// inside a searched tree.
        index_path: Option<PathBuf> = None; Kind::OptionalPath;
        /// With `index_mode = "auto"`, trees with more files than this are indexed.
        index_auto_threshold_files: u64 = 2_000; Kind::COUNT;
        /// With `index_mode = "auto"`, trees with more bytes than this are indexed.
        index_auto_threshold_bytes: u64 = 500_000_000; Kind::COUNT;
        /// Whether indexed trees are watched for changes. For an index that both tools share, the
        /// value of `[tools.search]` applies.
        index_watch: bool = true; Kind::Boolean;
        /// How long changes are collected before they are indexed, in milliseconds. Searches see a
        /// changed file at once. For an index that both tools share, the value of `[tools.search]`
        /// applies.
        index_watch_debounce_ms: u64 = 250; PAUSE;
        /// Whether git may list the files of a tree. The tree is always walked instead, because git
        /// doesn't list new files before they are added.
        /// Has no effect.
        index_use_git: bool = true; Kind::Boolean;

        /// Whether an exact search without matches is repeated as a fuzzy search.
        fuzzy_fallback: bool = false; Kind::Boolean;
        /// Maximum number of passes of a fuzzy fallback. It ends at the first pass with matches.
        fuzzy_passes: u64 = 3; Kind::Integer { min: 1, max: 100 };
        /// How much each pass of a fuzzy fallback lowers the minimum score. The first pass uses
        /// `fuzzy_threshold`; the score is never below 0.
        fuzzy_threshold_step: f64 = 0.1; Kind::Number { min: 0.0, max: 1.0, inclusive: true };
        /// Minimum score of a match of a fuzzy search. The score is 1 minus the number of edits
        /// divided by the number of characters of the match or the query, whichever is longer.
        fuzzy_threshold: f64 = 0.8; Kind::Number { min: 0.0, max: 1.0, inclusive: true };

        /// Maximum size of a response as JSON, in bytes. 0 means no limit. Long lines are shortened
        /// first, then matches at the end are omitted. A caller can set a lower limit.
        max_output_bytes: u64 = 0; Kind::COUNT;
        /// Maximum number of bytes shown of a line. 0 means no limit. Of a longer line, the part
        /// around its match is shown.
        max_line_bytes: u64 = 0, command_line 2_000; Kind::COUNT;
        /// Whether `stats` has fields about the index.
        emit_stats: bool = false; Kind::Boolean;
    }

    /// The configuration of `[tools.daemon]`: the query daemon, which `serve` starts. Each limit
    /// has an upper bound that is fixed at compile time.
    daemon: DaemonConfig, daemon_defaults {
        /// Whether the daemon of a tree answers searches and calls of the command line. `off`:
        /// never. `use`: if it is running. `start`: also, a search that reads more than
        /// `index_auto_threshold_files` files starts a daemon for later searches.
        searches: DaemonUse = DaemonUse::Use;
            Kind::choice(DaemonUse::NAMES);
        /// Maximum number of queries that run at once.
        max_concurrent_queries: u64 = caps::MAX_CONCURRENT_QUERIES.default; up_to(caps::MAX_CONCURRENT_QUERIES);
        /// Maximum number of queries that wait. Further queries fail with `busy`.
        max_query_queue_depth: u64 = caps::MAX_QUERY_QUEUE_DEPTH.default; up_to(caps::MAX_QUERY_QUEUE_DEPTH);
        /// Maximum duration of a query including its wait, in milliseconds. A query can set a lower
        /// limit.
        query_timeout_ms: u64 = caps::QUERY_TIMEOUT_MS.default; up_to(caps::QUERY_TIMEOUT_MS);
        /// Queries that take longer than this count as slow, in milliseconds.
        slow_query_ms: u64 = caps::SLOW_QUERY_MS.default; up_to(caps::SLOW_QUERY_MS);
        /// Maximum size of a request, in bytes. A longer request is not read, and its connection is
        /// closed.
        max_request_bytes: u64 = caps::MAX_REQUEST_BYTES.default; no_less(4096, caps::MAX_REQUEST_BYTES);
        /// Maximum size of a response, in bytes. A longer response is shortened, and says so.
        max_response_bytes: u64 = caps::MAX_RESPONSE_BYTES.default; no_less(4096, caps::MAX_RESPONSE_BYTES);
        /// Maximum number of files that a question ranks. If more files match, the most promising
        /// ones are ranked: chiefly those with the most words of the question.
        max_candidates: u64 = caps::MAX_CANDIDATES.default; up_to(caps::MAX_CANDIDATES);
        /// How questions compare the meanings of texts. `words` uses the word table of the program,
        /// which knows that `delete` and `remove` are alike; `off` counts only the words of the
        /// question.
        embed: Embed = Embed::Words; Kind::choice(Embed::NAMES);
        /// Maximum size of all snippets of a response together, in bytes.
        max_total_snippet_bytes: u64 = caps::MAX_TOTAL_SNIPPET_BYTES.default; up_to(caps::MAX_TOTAL_SNIPPET_BYTES);
        /// Maximum size of one snippet, in bytes.
        max_snippet_bytes_per_result: u64 = caps::MAX_SNIPPET_BYTES_PER_RESULT.default;
            up_to(caps::MAX_SNIPPET_BYTES_PER_RESULT);
        /// Maximum number of index segments that a query opens. A query opens only one, so every
        /// value is sufficient.
        max_open_segments_per_query: u64 = caps::MAX_OPEN_SEGMENTS_PER_QUERY.default;
            up_to(caps::MAX_OPEN_SEGMENTS_PER_QUERY);
        /// Maximum number of index segments that a daemon has open. Beyond it, a new segment is not
        /// opened, and searches use the previous one or no index.
        max_open_segments_global: u64 = caps::MAX_OPEN_SEGMENTS_GLOBAL.default; up_to(caps::MAX_OPEN_SEGMENTS_GLOBAL);
        /// Maximum size of a daemon's log files together, in bytes: the current one and the
        /// previous one.
        max_log_bytes: u64 = caps::MAX_LOG_BYTES.default; no_less(65_536, caps::MAX_LOG_BYTES);
        /// How long a daemon that a client started runs without requests before it exits, in
        /// milliseconds. 0 means that it never exits by itself.
        idle_exit_ms: u64 = 4 * 60 * MINUTE_MS; DELAY;
        /// Whether the daemon uses fewer resources. It runs a quarter of the queries at once.
        /// Builds use at most 20 percent of the processors, even without searches. Changes are
        /// indexed after at least one second.
        low_impact: bool = false; Kind::Boolean;
        /// Whether members of a group can use the daemon: the group that owns the socket's
        /// directory. That directory must have mode 0770; name the socket with `--socket`.
        group_access: bool = false; Kind::Boolean;
        /// Interval at which a daemon checks its configuration for changes, in milliseconds. A
        /// change counts once two checks in a row see it.
        config_debounce_ms: u64 = 2_000; PAUSE;
    }

    /// The configuration of `[tools.sandbox]`.
    sandbox: SandboxConfig, sandbox_defaults {
        /// The directories that calls may search, including their subdirectories. Relative paths
        /// start at the working directory. If empty, only the working directory is allowed.
        allowed_roots: Vec<PathBuf> = Vec::new(); Kind::Paths;
        /// Globs of paths that are never opened. They are relative to a root, or absolute. A
        /// leading `**/` matches at any depth.
        denied_patterns: Vec<String> = Vec::new(); Kind::Globs;
        /// Whether a call may use absolute paths. They must still be inside an allowed root.
        allow_absolute: bool = false, command_line true; Kind::Boolean;
        /// Whether the patterns of private keys and certificates are denied too: `**/.ssh/**`,
        /// `**/.gnupg/**`, `**/id_rsa*`, `**/*.pem`, `**/*.key`. If the configuration doesn't set
        /// this, they are denied to agents, but not to a person's search at the command line.
        include_default_denies: bool = true; Kind::Boolean;
    }
}

impl DaemonConfig {
    /// Returns how many queries run at once. In low-impact mode this is a quarter of the configured
    /// number.
    pub fn concurrent_queries(&self) -> u64 {
        match self.low_impact {
            true => self.max_concurrent_queries.div_ceil(4),
            false => self.max_concurrent_queries,
        }
    }
}

impl FilesConfig {
    /// Returns the configuration of engines and indexes for `search_files`. The fields of `self`
    /// override those of `search`.
    pub(crate) fn as_search(&self, search: &SearchConfig) -> SearchConfig {
        SearchConfig {
            enabled: self.enabled,
            backend: match self.backend {
                FilesBackend::Native => Backend::Embedded,
                FilesBackend::Rg => Backend::Rg,
                FilesBackend::Ugrep => Backend::Ugrep,
            },
            default_timeout_ms: self.default_timeout_ms,
            max_matches_per_file: self.max_matches_per_file,
            max_files: self.max_files,
            max_file_size_bytes: self.max_file_size_bytes,
            index_mode: self.index_mode,
            index_storage: self.index_storage,
            index_path: self.index_path.clone(),
            index_default_hidden: self.include_hidden,
            index_default_follow: false,
            index_default_no_ignore: !self.respect_gitignore,
            index_auto_threshold_files: self.index_auto_threshold_files,
            index_auto_threshold_bytes: self.index_auto_threshold_bytes,
            index_watch: self.index_watch,
            index_watch_debounce_ms: self.index_watch_debounce_ms,
            emit_stats: self.emit_stats,
            ..search.clone()
        }
    }
}
