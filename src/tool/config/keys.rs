//! The table of all configuration keys.
//!
//! Each key is declared once, in `tables!` below: its name, type, default, allowed values and
//! purpose. The macro generates the typed structs, their defaults and [`KEYS`]. Reading, checking,
//! listing and documenting use [`KEYS`].

use std::path::PathBuf;

use super::caps::{self, Cap};
use super::choice::{
    Backend, Case, DaemonUse, FilesBackend, IndexMode, IndexStorage, IntegrityCheck, Mode,
    RegexStrategy,
};
use super::value::{Field, Kind, Value};
use super::{Config, Profile};

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
    words: IndexStorage::WORDS,
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
        /// Whether the tool answers at all; a call to a disabled tool is refused.
        enabled: bool = false, command_line true; Kind::Boolean;
        /// Which engine looks into the files: the built-in one, a named program, or (`auto`) the
        /// first of `binary` and `fallback_binary` that can answer.
        backend: Backend = Backend::Embedded; Kind::choice(Backend::WORDS);
        /// The ugrep program: a name to be found on `PATH`, or a path.
        binary: String = "ugrep".into(); Kind::Program;
        /// The ripgrep program: a name to be found on `PATH`, or a path.
        fallback_binary: String = "rg".into(); Kind::Program;
        /// The time limit of a request that names none, in milliseconds.
        default_timeout_ms: u64 = 20_000; TIMEOUT;
        /// The number of events returned to a request that names none.
        default_max_results: u64 = 200; Kind::POSITIVE;
        /// Hard cap on the matches taken from one file, and the limit of a request that names
        /// none; a request for more is refused.
        max_matches_per_file: u64 = 50, command_line 100_000; Kind::POSITIVE;
        /// Hard cap on the files searched by one request, and the limit of a request that names
        /// none; a request for more is refused.
        max_files: u64 = 10_000, command_line 5_000_000; Kind::POSITIVE;
        /// Hard cap on the size of a searched file in bytes, and the limit of a request that names
        /// none; larger files are skipped, a request for more is refused.
        max_file_size_bytes: u64 = 2_000_000, command_line 64 * MIB; Kind::POSITIVE;
        /// The number of threads that search; 0 means one for each processor core.
        threads: usize = 0; Kind::Integer { min: 0, max: 256 };

        /// Whether an index is built and used: never, for trees above the thresholds, or always.
        index_mode: IndexMode = IndexMode::Off, command_line IndexMode::Auto;
            Kind::choice(IndexMode::WORDS);
        /// Where an index lives. `sqlite` needs a build with the feature of that name.
        index_storage: IndexStorage = IndexStorage::Mmap; STORAGE;
        /// With `index_storage = "mmap"`, whether files are really mapped. Else they are read as
        /// they are looked at: a little slower, but a program that cuts off such a file can't end
        /// the process.
        index_map: bool = true, command_line false; Kind::Boolean;
        /// The directory of stored indexes; empty for the user's cache directory. It must not lie
        /// inside a searched tree.
        index_path: Option<PathBuf> = None; Kind::OptionalPath;
        /// The directories to be indexed; where there are none, the working directory.
        index_roots: Vec<PathBuf> = Vec::new(); Kind::Paths;
        /// Whether the index covers hidden files. Only requests with the same `hidden`, `follow`
        /// and `no_ignore` as the index can use it.
        index_default_hidden: bool = false; Kind::Boolean;
        /// Whether the index follows symbolic links. Such an index is built but leaves out no file:
        /// changes behind a link are not noticed.
        index_default_follow: bool = false; Kind::Boolean;
        /// Whether the index covers files that ignore files leave out.
        index_default_no_ignore: bool = false; Kind::Boolean;
        /// With `index_mode = "auto"`, a tree with more files than this is indexed.
        index_auto_threshold_files: u64 = 2_000; Kind::COUNT;
        /// With `index_mode = "auto"`, a tree with more bytes than this is indexed.
        index_auto_threshold_bytes: u64 = 500_000_000; Kind::COUNT;
        /// With `index_mode = "auto"`, a tree below the thresholds is measured again after this
        /// many searches.
        index_auto_reeval_calls: u64 = 100; Kind::POSITIVE;
        /// The time limit of a build in the background, in milliseconds. `index build`, `--index
        /// on` and `call --wait-index` build for as long as it takes; the last one waits no longer
        /// than this for a build of another process.
        index_build_timeout_ms: u64 = 300_000; TIMEOUT;
        /// The number of files that a build in the background may index; it stops where there are
        /// more. 0 means unlimited. A build that somebody waits for has no such limit.
        index_build_max_files: u64 = 0; Kind::COUNT;
        /// The number of bytes that a build in the background may read; it stops where there are
        /// more. 0 means unlimited. A build that somebody waits for has no such limit.
        index_build_max_bytes: u64 = 0; Kind::COUNT;
        /// The share of all processors that building in the background takes at most, in percent.
        index_build_max_cpu_percent: u8 = 50; Kind::Integer { min: 1, max: 100 };
        /// The pause between batches of files while an index is built in the background, in
        /// milliseconds.
        index_build_throttle_ms: u64 = 10; PAUSE;
        /// After this long without a search building in the background makes no pauses and takes
        /// all processors, in milliseconds.
        index_idle_boost_ms: u64 = 1_000; DELAY;
        /// Whether a build that failed for a passing reason is tried again by itself.
        index_retry_on_failure: bool = false; Kind::Boolean;
        /// How long indexing stays disabled after it took more memory than
        /// `index_max_memory_bytes`, until it is tried again, in milliseconds. 0 means as long as
        /// the process lives.
        index_cooldown_ms: u64 = 3_600_000; Kind::COUNT;
        /// Whether what a build in the background has done is kept when it is ended or runs out of
        /// its time, for the next one to go on from; with `index_storage = "mmap"`.
        index_checkpoint_on_shutdown: bool = true; Kind::Boolean;
        /// How long shutdown waits for the indexer, in milliseconds.
        index_shutdown_timeout_ms: u64 = 5_000; DELAY;
        /// Whether indexed trees are watched for changes.
        index_watch: bool = true; Kind::Boolean;
        /// How long changes are collected before they are indexed, in milliseconds. A changed file
        /// is searched at once all the same.
        index_watch_debounce_ms: u64 = 250; PAUSE;
        /// The space that stored indexes may take together, in bytes. Those that were not used for
        /// longest make room for a new one; one that takes more by itself is not kept.
        index_max_db_bytes: u64 = 1024 * MIB; Kind::POSITIVE;
        /// The space that one stored index may take, in bytes. A larger one is not kept; what was
        /// there before stays.
        index_max_store_bytes: u64 = 1024 * MIB; Kind::POSITIVE;
        /// The memory that indexing may take, in bytes. Files of more than a quarter of it are
        /// always searched, and such that would take more than half of it together with their
        /// n-grams.
        index_max_memory_bytes: u64 = 512 * MIB; Kind::POSITIVE;
        /// The number of indexes that are kept. Those that were not used for longest make room for
        /// a new one.
        index_max_indexes: u64 = 10; Kind::POSITIVE;
        /// How long an index that another process has locked is waited for, in milliseconds. A
        /// search waits no longer than `index_maint_budget_fraction` allows; then it goes on
        /// without.
        index_lock_timeout_ms: u64 = 250; DELAY;
        /// When a stored index is checked for damage as a whole: `off`, `on_open` for one in an
        /// SQLite database (that of mapped files is checked page by page when it is read, whatever
        /// this says), or `periodic`: also after some searches of a process that follows the tree.
        index_integrity_check: IntegrityCheck = IntegrityCheck::OnOpen;
            Kind::choice(IntegrityCheck::WORDS);
        /// With `index_integrity_check = "periodic"`, the number of searches between two checks.
        index_integrity_period_calls: u64 = 200; Kind::POSITIVE;
        /// The size up to which a file is indexed, in bytes; larger ones are always searched, since
        /// a line of more than 256 MiB is an error whether or not anything matches.
        index_max_tokenized_bytes: u64 = MIB, command_line 64 * MIB;
            Kind::Integer { min: 2, max: 256 * MIB };
        /// The number of characters of an n-gram; no other one is supported.
        /// Has no effect.
        bloom_ngram_k: u64 = 3; Kind::Integer { min: 3, max: 3 };
        /// The rate of needless candidates from which the parameters of an index's logical filter
        /// follow. What is stored has a density of its own, and keeps fewer files in vain.
        bloom_target_fp_rate: f64 = 0.01; Kind::Number { min: 0.0, max: 1.0, inclusive: false };
        /// Which regular expressions may exclude files by the index: those with a literal that
        /// every match contains, or all from which a combination of n-grams follows.
        index_regex_strategy: RegexStrategy = RegexStrategy::RequiredLiteral,
            command_line RegexStrategy::Boolean;
            Kind::choice(RegexStrategy::WORDS);
        /// Whether an index may be stored where other users could read it.
        index_allow_insecure_persistence: bool = false; Kind::Boolean;
        /// Vouches that indexed trees never change (read-only mounts, corpora): they are not
        /// checked for changes, and a tree that does change is searched wrongly.
        index_frozen: bool = false; Kind::Boolean;
        /// The number of files that one slice of comparing an index with the disk looks at.
        reconcile_max_files: u64 = 50_000; Kind::POSITIVE;
        /// The time that one slice of comparing an index with the disk takes, in milliseconds.
        reconcile_max_ms: u64 = 2_000; TIMEOUT;
        /// The share of a request's time limit that may go into its index: waiting for others that
        /// lock or open it, bringing it up to date, and comparing it with the tree. When that time
        /// is over, the request is answered without the index.
        index_maint_budget_fraction: f64 = 0.25;
            Kind::Number { min: 0.0, max: 1.0, inclusive: true };

        /// The bytes of JSON that a response has at most, zero for any number. The ends of long
        /// lines go first, then events at the end. Callers can ask for less.
        max_output_bytes: u64 = 0; Kind::COUNT;
        /// The bytes of a line that a response shows at most, zero for all of them. A longer one is
        /// shown in part, around its match.
        max_line_bytes: u64 = 0, command_line 2_000; Kind::COUNT;
        /// Whether responses carry a `stats` block.
        emit_stats: bool = false; Kind::Boolean;

        /// Whether a literal search without matches is repeated as a fuzzy one.
        fuzzy_fallback: bool = false; Kind::Boolean;
        /// The fuzzy levels that such a search tries in this order, up to the first with matches.
        fuzzy_fallback_levels: Vec<u8> = vec![1, 2, 3]; Kind::Integers { min: 1, max: 4 };
        /// Patterns shorter than this, in characters, are not repeated as fuzzy ones.
        fuzzy_min_pattern_len: usize = 4; Kind::POSITIVE;
    }

    /// The configuration of `[tools.search_files]`. `[tools.search]` provides all settings of
    /// engines and indexes that are missing here.
    search_files: FilesConfig, files_defaults {
        /// Whether the tool answers at all; a call to a disabled tool is refused.
        enabled: bool = false, command_line true; Kind::Boolean;
        /// Which engine looks into the files: the built-in one, or a named program, which is found
        /// as `[tools.search]` says. What is similar is always looked for by the built-in one: no
        /// program finds all of it.
        backend: FilesBackend = FilesBackend::Native; Kind::choice(FilesBackend::WORDS);
        /// How a request that does not say it looks for its query: as it is, as an expression, or
        /// for what is similar.
        mode: Mode = Mode::Exact; Kind::choice(Mode::WORDS);
        /// How letters compare for a request that does not say it.
        case: Case = Case::Smart; Kind::choice(Case::WORDS);
        /// Whether ignore files of git count for a request that does not say it, and for the index.
        respect_gitignore: bool = true; Kind::Boolean;
        /// Whether hidden files are searched for a request that does not say it, and are in the
        /// index.
        include_hidden: bool = false; Kind::Boolean;
        /// Whether symbolic links to files are followed for a request that does not say it. No
        /// index serves requests that do.
        follow_symlinks: bool = false; Kind::Boolean;
        /// Hard cap on the matches of a response, and the limit of a request that names none.
        max_results: u64 = 200; Kind::POSITIVE;
        /// Hard cap on the matches taken from one file, and the limit of a request that names none.
        max_matches_per_file: u64 = 20; Kind::POSITIVE;
        /// Hard cap on the size of a searched file in bytes, and the limit of a request that names
        /// none; larger files are reported as errors.
        max_file_size_bytes: u64 = 2_000_000, command_line 64 * MIB;
            Kind::Integer { min: 1, max: 256 * MIB };
        /// Hard cap on the files searched by one request, and the limit of a request that names
        /// none.
        max_files: u64 = 5_000, command_line 5_000_000; Kind::POSITIVE;
        /// Hard cap on the depth of searched files, and the limit of a request that names none;
        /// files directly in the searched directory have a depth of 1.
        max_depth: u64 = 12, command_line 100; Kind::POSITIVE;
        /// The time limit of a call to which the host gives none, in milliseconds.
        default_timeout_ms: u64 = 20_000; TIMEOUT;

        /// Whether an index is built and used: never, for trees above the thresholds, or always.
        index_mode: IndexMode = IndexMode::Off, command_line IndexMode::Auto;
            Kind::choice(IndexMode::WORDS);
        /// Where an index lives. `sqlite` needs a build with the feature of that name.
        index_storage: IndexStorage = IndexStorage::Mmap; STORAGE;
        /// The directory of stored indexes; empty for the user's cache directory. It must not lie
        /// inside a searched tree.
        index_path: Option<PathBuf> = None; Kind::OptionalPath;
        /// With `index_mode = "auto"`, a tree with more files than this is indexed.
        index_auto_threshold_files: u64 = 2_000; Kind::COUNT;
        /// With `index_mode = "auto"`, a tree with more bytes than this is indexed.
        index_auto_threshold_bytes: u64 = 500_000_000; Kind::COUNT;
        /// Whether indexed trees are watched for changes. Of an index that both tools use,
        /// `[tools.search]` says so.
        index_watch: bool = true; Kind::Boolean;
        /// How long changes are collected before they are indexed, in milliseconds. A changed file
        /// is searched at once all the same. Of an index that both tools use, `[tools.search]` says
        /// so.
        index_watch_debounce_ms: u64 = 250; PAUSE;
        /// Whether git may be asked which files there are. The tree is always listed, because git
        /// does not know of new files before they are added.
        /// Has no effect.
        index_use_git: bool = true; Kind::Boolean;

        /// Whether an exact search without matches is repeated as a fuzzy one.
        fuzzy_fallback: bool = false; Kind::Boolean;
        /// How often it is repeated, up to the first time with matches.
        fuzzy_passes: u64 = 3; Kind::Integer { min: 1, max: 100 };
        /// How much lower the least score is each time, never below 0.
        fuzzy_threshold_step: f64 = 0.1; Kind::Number { min: 0.0, max: 1.0, inclusive: true };
        /// The least score of a match of a fuzzy search: the share of its characters, or of the
        /// query's if those are more, that need no edit.
        fuzzy_threshold: f64 = 0.8; Kind::Number { min: 0.0, max: 1.0, inclusive: true };

        /// The bytes of JSON that a response has at most, zero for any number. The ends of long
        /// lines go first, then matches at the end. Callers can ask for less.
        max_output_bytes: u64 = 0; Kind::COUNT;
        /// The bytes of a line that a response shows at most, zero for all of them. A longer one is
        /// shown in part, around its match.
        max_line_bytes: u64 = 0, command_line 2_000; Kind::COUNT;
        /// Whether `stats` say what an index had to do with a response.
        emit_stats: bool = false; Kind::Boolean;
    }

    /// The configuration of `[tools.daemon]`: the query daemon, which `serve` starts. Each limit
    /// has an upper bound that is fixed at compile time.
    daemon: DaemonConfig, daemon_defaults {
        /// Whether the searches and calls of the command line are answered by the daemon of their
        /// tree: never, if it runs, or so that one is started where none runs and the tree has more
        /// than index_auto_threshold_files files.
        searches: DaemonUse = DaemonUse::Use;
            Kind::choice(DaemonUse::WORDS);
        /// The queries that run at once.
        max_concurrent_queries: u64 = caps::MAX_CONCURRENT_QUERIES.default; up_to(caps::MAX_CONCURRENT_QUERIES);
        /// The queries that wait to be run; where there are more, they are refused as `busy`.
        max_query_queue_depth: u64 = caps::MAX_QUERY_QUEUE_DEPTH.default; up_to(caps::MAX_QUERY_QUEUE_DEPTH);
        /// How long a query may take, the wait included, in milliseconds. Queries can ask for less.
        query_timeout_ms: u64 = caps::QUERY_TIMEOUT_MS.default; up_to(caps::QUERY_TIMEOUT_MS);
        /// From how many milliseconds on a query is counted as a slow one.
        slow_query_ms: u64 = caps::SLOW_QUERY_MS.default; up_to(caps::SLOW_QUERY_MS);
        /// The bytes of a request; a longer one is not read, and ends its connection.
        max_request_bytes: u64 = caps::MAX_REQUEST_BYTES.default; no_less(4096, caps::MAX_REQUEST_BYTES);
        /// The bytes of a response, which is cut to that length and says so.
        max_response_bytes: u64 = caps::MAX_RESPONSE_BYTES.default; no_less(4096, caps::MAX_RESPONSE_BYTES);
        /// The files that a question ranks; where more hold its words, those that hold most of them
        /// count.
        max_candidates: u64 = caps::MAX_CANDIDATES.default; up_to(caps::MAX_CANDIDATES);
        /// The bytes of all snippets of an answer.
        max_total_snippet_bytes: u64 = caps::MAX_TOTAL_SNIPPET_BYTES.default; up_to(caps::MAX_TOTAL_SNIPPET_BYTES);
        /// The bytes of one snippet.
        max_snippet_bytes_per_result: u64 = caps::MAX_SNIPPET_BYTES_PER_RESULT.default;
            up_to(caps::MAX_SNIPPET_BYTES_PER_RESULT);
        /// The segments of indexes that a query may have open. It needs one, so every value is
        /// enough.
        max_open_segments_per_query: u64 = caps::MAX_OPEN_SEGMENTS_PER_QUERY.default;
            up_to(caps::MAX_OPEN_SEGMENTS_PER_QUERY);
        /// The segments that a daemon has open. One that would be more is not opened, so that
        /// searches go on with the last one, or without.
        max_open_segments_global: u64 = caps::MAX_OPEN_SEGMENTS_GLOBAL.default; up_to(caps::MAX_OPEN_SEGMENTS_GLOBAL);
        /// The bytes of the log of a daemon, the one before included.
        max_log_bytes: u64 = caps::MAX_LOG_BYTES.default; no_less(65_536, caps::MAX_LOG_BYTES);
        /// How long a daemon that was started by a client may be without requests until it ends, in
        /// milliseconds. 0 means for ever.
        idle_exit_ms: u64 = 4 * 60 * MINUTE_MS; DELAY;
        /// Whether a daemon takes less of the machine: a quarter of the queries at once, building
        /// with at most a fifth of the processors and never faster, and changes read after a second
        /// at the earliest.
        low_impact: bool = false; Kind::Boolean;
        /// Whether users of the group that the directory of the socket has can use a daemon. That
        /// directory then has the mode 0770; give it with --socket.
        group_access: bool = false; Kind::Boolean;
        /// How long changes of the configuration are collected before a daemon takes note of them,
        /// in milliseconds.
        config_debounce_ms: u64 = 2_000; PAUSE;
    }

    /// The configuration of `[tools.sandbox]`.
    sandbox: SandboxConfig, sandbox_defaults {
        /// The directories that calls may search, with everything in them; relative ones start at
        /// the working directory. Where there are none, the working directory is the only one.
        allowed_roots: Vec<PathBuf> = Vec::new(); Kind::Paths;
        /// Globs of paths that are never opened, relative to a root or absolute; `**/` in front
        /// makes one apply at any depth.
        denied_patterns: Vec<String> = Vec::new(); Kind::Globs;
        /// Whether a call may name an absolute path; it must lie inside an allowed root all the
        /// same.
        allow_absolute: bool = false, command_line true; Kind::Boolean;
        /// Whether the patterns that protect keys and certificates (`**/.ssh/**`, `**/.gnupg/**`,
        /// `**/id_rsa*`, `**/*.pem`, `**/*.key`) are denied as well. Unless it is set, they are
        /// denied to agents, and not to a person's own search at the command line.
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
    pub fn as_search(&self, search: &SearchConfig) -> SearchConfig {
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
