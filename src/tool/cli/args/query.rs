//! The arguments of searches: patterns, files, output and limits.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::{FILES, HOW, LIMITS, OUTPUT, PATTERNS, SetupArgs, at_least_one, size};
use crate::exec::sources::types::TypeRule;
use crate::tool::cli::output::links::HyperlinkFormat;
use crate::tool::config::DaemonUse;

/// The patterns, and the files to search.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct QueryArgs {
    /// Regular expression to search for; with -e, -f or --files, the first path instead.
    pub(in crate::tool::cli) pattern: Option<OsString>,
    /// Files and directories to search; - is standard input [default: the working directory]
    ///
    /// Without a path and --root, a search reads standard input if it is a file or a pipe that the
    /// shell made.
    pub(in crate::tool::cli) paths: Vec<PathBuf>,

    /// Search for PATTERN, which may start with a dash; repeatable.
    ///
    /// A line matches if at least one pattern matches.
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true, help_heading = PATTERNS)]
    pub(in crate::tool::cli) regexp: Vec<String>,
    /// Search for the patterns in FILE, one per line; - is standard input; repeatable.
    #[arg(short = 'f', long, value_name = "FILE", help_heading = PATTERNS)]
    pub(in crate::tool::cli) file: Vec<PathBuf>,
    /// Treat each PATTERN as a literal text, not as a regular expression.
    #[arg(short = 'F', long, overrides_with = "no_fixed_strings", help_heading = PATTERNS)]
    pub(in crate::tool::cli) fixed_strings: bool,
    /// Undo an earlier -F.
    #[arg(long, hide = true, overrides_with = "fixed_strings")]
    pub(in crate::tool::cli) no_fixed_strings: bool,
    /// Match whole words only.
    #[arg(short = 'w', long, overrides_with = "line_regexp", help_heading = PATTERNS)]
    pub(in crate::tool::cli) word_regexp: bool,
    /// Match whole lines only.
    #[arg(short = 'x', long, overrides_with = "word_regexp", help_heading = PATTERNS)]
    pub(in crate::tool::cli) line_regexp: bool,
    /// Ignore case, by Unicode's simple case folding.
    #[arg(short = 'i', long, overrides_with_all = ["case_sensitive", "smart_case"], help_heading = PATTERNS)]
    pub(in crate::tool::cli) ignore_case: bool,
    /// Distinguish uppercase and lowercase letters.
    #[arg(short = 's', long, overrides_with_all = ["ignore_case", "smart_case"], help_heading = PATTERNS)]
    pub(in crate::tool::cli) case_sensitive: bool,
    /// Ignore case unless PATTERN has an uppercase letter [default].
    #[arg(short = 'S', long, overrides_with_all = ["ignore_case", "case_sensitive"], help_heading = PATTERNS)]
    pub(in crate::tool::cli) smart_case: bool,
    /// Match approximately, with at most LEVEL edits (1 to 4).
    ///
    /// An edit inserts, deletes or changes one character.
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u64).range(1..=4), help_heading = PATTERNS)]
    pub(in crate::tool::cli) fuzzy: Option<u64>,

    /// Search only files that match GLOB; with a leading !, skip them; repeatable.
    ///
    /// If several globs match a file, the last one decides. Globs have the syntax of .gitignore and
    /// start at the working directory, or at --root. A glob that matches a directory covers all
    /// files in it. Files that are named as paths are always searched.
    #[arg(short = 'g', long, value_name = "GLOB", help_heading = FILES)]
    pub(in crate::tool::cli) glob: Vec<String>,
    /// Search only files of TYPE, for example rust or py; repeatable.
    ///
    /// If several -t and -T match a file, the last one decides. --type-list prints all types.
    #[arg(short = 't', long = "type", value_name = "TYPE", help_heading = FILES)]
    pub(in crate::tool::cli) types: Vec<String>,
    /// Skip files of TYPE; repeatable.
    #[arg(short = 'T', long = "type-not", value_name = "TYPE", help_heading = FILES)]
    pub(in crate::tool::cli) types_not: Vec<String>,
    /// The values of -t and -T in the order given.
    #[arg(skip)]
    pub(in crate::tool::cli) type_rules: Vec<TypeRule>,
    /// Search hidden files and directories.
    #[arg(short = '.', long, overrides_with = "no_hidden", help_heading = FILES)]
    pub(in crate::tool::cli) hidden: bool,
    /// Undo an earlier --hidden.
    #[arg(long, hide = true, overrides_with = "hidden")]
    pub(in crate::tool::cli) no_hidden: bool,
    /// Follow symbolic links that stay inside the root.
    #[arg(short = 'L', long, overrides_with = "no_follow", help_heading = FILES)]
    pub(in crate::tool::cli) follow: bool,
    /// Undo an earlier -L.
    #[arg(long, hide = true, overrides_with = "follow")]
    pub(in crate::tool::cli) no_follow: bool,
    /// Disregard ignore files such as .gitignore.
    #[arg(long, overrides_with = "ignore", help_heading = FILES)]
    pub(in crate::tool::cli) no_ignore: bool,
    /// Undo an earlier --no-ignore.
    #[arg(long, hide = true, overrides_with = "no_ignore")]
    pub(in crate::tool::cli) ignore: bool,
    /// Same as --no-ignore; -uu is the same as --no-ignore --hidden.
    #[arg(short = 'u', long, action = ArgAction::Count, help_heading = FILES)]
    pub(in crate::tool::cli) unrestricted: u8,
    /// Descend at most NUM levels of directories; 1 searches only the directory itself.
    #[arg(short = 'd', long, value_name = "NUM", value_parser = at_least_one(), help_heading = FILES)]
    pub(in crate::tool::cli) max_depth: Option<u64>,
    /// Search only the directory itself; same as -d 1.
    #[arg(long, help_heading = FILES)]
    pub(in crate::tool::cli) no_recursive: bool,
    /// Skip files larger than NUM bytes; suffixes K, M and G mean KiB, MiB and GiB.
    #[arg(long, value_name = "NUM", value_parser = size, help_heading = FILES)]
    pub(in crate::tool::cli) max_filesize: Option<u64>,

    /// Choose whether to use an index [default: auto, or tools.search.index_mode].
    #[arg(long, value_name = "MODE", help_heading = HOW)]
    pub(in crate::tool::cli) index: Option<IndexUsage>,
    /// Choose whether the daemon of the tree answers [default: use, or tools.daemon.searches].
    #[arg(long, value_name = "WHEN", help_heading = HOW)]
    pub(in crate::tool::cli) daemon: Option<DaemonWhen>,
    /// Search with NUM threads; 0 means one per processor core, at most 32 [default: 0].
    #[arg(short = 'j', long, value_name = "NUM", help_heading = HOW)]
    pub(in crate::tool::cli) threads: Option<u64>,
}

/// The output modes; the last flag wins. As in ripgrep, `-o` and `--vimgrep` are no modes: they
/// select how lines are printed.
const MODES: [&str; 8] = [
    "files_with_matches",
    "count",
    "count_matches",
    "files",
    "type_list",
    "json",
    "rg_json",
    "lines",
];

/// The values of `--daemon`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::tool::cli) enum DaemonWhen {
    /// Do not ask the daemon.
    Off,
    /// Ask the daemon if it is running.
    Use,
    /// Same as use; a search of a large tree also starts a missing daemon, without waiting for it.
    Start,
}

impl DaemonWhen {
    /// Returns the configuration setting for the flag's value.
    pub(super) fn setting(self) -> String {
        let value = match self {
            DaemonWhen::Off => DaemonUse::Off,
            DaemonWhen::Use => DaemonUse::Use,
            DaemonWhen::Start => DaemonUse::Start,
        };
        format!("tools.daemon.searches={value}")
    }
}

/// The values of `--index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::tool::cli) enum IndexUsage {
    /// Use no index.
    Off,
    /// Use the index if one exists.
    Auto,
    /// Use the index; build it first if no usable one exists.
    On,
}

impl QueryArgs {
    /// Returns the setup arguments, with the settings that flags stand for.
    pub(in crate::tool::cli) fn setup(&self, setup: &SetupArgs) -> SetupArgs {
        let mode = self.index.map(|usage| match usage {
            IndexUsage::Off => "index_mode=off".to_string(),
            IndexUsage::Auto => "index_mode=auto".to_string(),
            IndexUsage::On => "index_mode=on".to_string(),
        });
        let threads = self.threads.map(|threads| format!("threads={threads}"));
        let daemon = self.daemon.map(DaemonWhen::setting);
        let mut setup = setup.clone();
        setup
            .set
            .extend(mode.into_iter().chain(threads).chain(daemon));
        setup
    }

    /// Returns whether flags set keys that don't affect answers, so that a daemon without those
    /// settings can answer.
    pub(in crate::tool::cli) fn has_settings_of_a_process(&self) -> bool {
        self.threads.is_some() || matches!(self.index, Some(IndexUsage::Auto | IndexUsage::On))
    }
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct ExplainArgs {
    /// The search to explain.
    #[command(flatten)]
    pub(in crate::tool::cli) query: QueryArgs,
    /// Print one JSON object.
    #[arg(long)]
    pub(in crate::tool::cli) json: bool,
    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}

/// The arguments of a search.
#[derive(Debug, Args)]
pub(in crate::tool::cli) struct SearchArgs {
    /// The patterns, and the files to search.
    #[command(flatten)]
    pub(in crate::tool::cli) query: QueryArgs,

    /// Show NUM lines after each match.
    #[arg(short = 'A', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(in crate::tool::cli) after_context: Option<u64>,
    /// Show NUM lines before each match.
    #[arg(short = 'B', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(in crate::tool::cli) before_context: Option<u64>,
    /// Show NUM lines around each match.
    #[arg(short = 'C', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(in crate::tool::cli) context: Option<u64>,
    /// Print only the paths of files with a match.
    #[arg(short = 'l', long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) files_with_matches: bool,
    /// Print the number of matching lines of each file with a match.
    #[arg(short = 'c', long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) count: bool,
    /// Print the number of matches in each file with a match.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) count_matches: bool,
    /// Print only the matches, each on its own line.
    #[arg(short = 'o', long, overrides_with = "lines", help_heading = OUTPUT)]
    pub(in crate::tool::cli) only_matching: bool,
    /// Print the paths of the files that would be searched, without searching.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) files: bool,
    /// Print the types for -t and -T, with their globs.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) type_list: bool,
    /// Print one line per match, for editors: path:line:column:text.
    #[arg(long, overrides_with = "lines", help_heading = OUTPUT)]
    pub(in crate::tool::cli) vimgrep: bool,
    /// Print results as JSON, one object per line, and a summary at the end.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) json: bool,
    /// Print results in the format of ripgrep's --json.
    #[arg(long, overrides_with_all = MODES, help_heading = OUTPUT)]
    pub(in crate::tool::cli) rg_json: bool,
    /// Print no results; the exit status tells whether a line matches.
    #[arg(short = 'q', long, help_heading = OUTPUT)]
    pub(in crate::tool::cli) quiet: bool,
    /// Print lines (the default).
    #[arg(long, hide = true, overrides_with_all = MODES)]
    #[arg(overrides_with_all = ["only_matching", "vimgrep"])]
    pub(in crate::tool::cli) lines: bool,

    /// Print line numbers (the default).
    #[arg(short = 'n', long, hide = true, overrides_with = "no_line_number")]
    pub(in crate::tool::cli) line_number: bool,
    /// Omit line numbers and columns.
    #[arg(short = 'N', long, overrides_with = "line_number", help_heading = OUTPUT)]
    pub(in crate::tool::cli) no_line_number: bool,
    /// Print paths (the default).
    #[arg(short = 'H', long, hide = true, overrides_with = "no_filename")]
    pub(in crate::tool::cli) with_filename: bool,
    /// Omit the paths of files.
    #[arg(short = 'I', long, overrides_with = "with_filename", help_heading = OUTPUT)]
    pub(in crate::tool::cli) no_filename: bool,
    /// Print columns (the default for lines without a heading).
    #[arg(long, hide = true, overrides_with = "no_column")]
    pub(in crate::tool::cli) column: bool,
    /// Omit column numbers.
    #[arg(long, overrides_with = "column", help_heading = OUTPUT)]
    pub(in crate::tool::cli) no_column: bool,
    /// Print the path once, above the lines of a file [default on a terminal].
    #[arg(long, overrides_with = "no_heading", help_heading = OUTPUT)]
    pub(in crate::tool::cli) heading: bool,
    /// Print the path in each line [default in a pipe].
    #[arg(long, overrides_with = "heading", help_heading = OUTPUT)]
    pub(in crate::tool::cli) no_heading: bool,
    /// Print a zero byte after each path, for xargs -0.
    #[arg(short = '0', long, help_heading = OUTPUT)]
    pub(in crate::tool::cli) null: bool,
    /// Show at most NUM bytes of each line, around its match; 0 shows all [default: 0]
    ///
    /// Has an effect on plain lines and --json. tools.search.max_line_bytes sets another default.
    #[arg(short = 'M', long, value_name = "NUM", help_heading = OUTPUT)]
    pub(in crate::tool::cli) max_columns: Option<usize>,
    /// Omit white space at the start of each line.
    #[arg(long, overrides_with = "no_trim", help_heading = OUTPUT)]
    pub(in crate::tool::cli) trim: bool,
    /// Undo an earlier --trim.
    #[arg(long, hide = true, overrides_with = "trim")]
    pub(in crate::tool::cli) no_trim: bool,
    /// Sort files by path or by modification time, oldest first [default: path]
    ///
    /// `modified` prints nothing until all files are searched.
    #[arg(long, value_name = "BY", overrides_with = "sortr", help_heading = OUTPUT)]
    pub(in crate::tool::cli) sort: Option<SortBy>,
    /// Sort files in reverse: the last path, or the newest file, comes first.
    ///
    /// Prints nothing until all files are searched.
    #[arg(long, value_name = "BY", overrides_with = "sort", help_heading = OUTPUT)]
    pub(in crate::tool::cli) sortr: Option<SortBy>,
    /// Choose when to use colours; hyperlinks also need a terminal.
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT)]
    pub(in crate::tool::cli) color: When,
    /// Print as on a terminal; same as --color always --heading --line-number.
    #[arg(short = 'p', long, help_heading = OUTPUT)]
    pub(in crate::tool::cli) pretty: bool,
    /// Link paths to FORMAT: none, file, vscode, vscodium, cursor, zed, idea, macvim, or a URL.
    ///
    /// A URL must contain {path}, and may contain {host}, {line} and {column}.
    #[arg(long, value_name = "FORMAT", default_value = "file", help_heading = OUTPUT)]
    pub(in crate::tool::cli) hyperlink_format: HyperlinkFormat,
    /// Print control characters as they are, instead of escaped.
    #[arg(long, help_heading = OUTPUT)]
    pub(in crate::tool::cli) raw: bool,
    /// Print statistics about the search and its index to standard error.
    ///
    /// --json also adds them to its summary.
    #[arg(long, help_heading = OUTPUT)]
    pub(in crate::tool::cli) stats: bool,
    /// Suppress messages about files that could not be read.
    #[arg(long, overrides_with = "messages", help_heading = OUTPUT)]
    pub(in crate::tool::cli) no_messages: bool,
    /// Print messages about files that could not be read (the default).
    #[arg(long, hide = true, overrides_with = "no_messages")]
    pub(in crate::tool::cli) messages: bool,

    /// Show at most NUM matching lines of each file; only --json reports that there are more.
    #[arg(short = 'm', long, value_name = "NUM", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(in crate::tool::cli) max_count: Option<u64>,
    /// Show at most NUM lines, including context; 0 shows all [default: 200 on a terminal, else 0]
    ///
    /// The default of 200 applies to plain lines only. With -l, -c, --count-matches and --files,
    /// NUM counts files.
    #[arg(long, value_name = "NUM", help_heading = LIMITS)]
    pub(in crate::tool::cli) max_results: Option<u64>,
    /// Search at most NUM files [default: no limit].
    #[arg(long, value_name = "NUM", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(in crate::tool::cli) max_files: Option<u64>,
    /// Stop the search after MS milliseconds [default: no limit].
    #[arg(long, value_name = "MS", value_parser = at_least_one(), help_heading = LIMITS)]
    pub(in crate::tool::cli) timeout_ms: Option<u64>,

    /// The root and the configuration.
    #[command(flatten)]
    pub(in crate::tool::cli) setup: SetupArgs,
}

/// The values of `--sort` and `--sortr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::tool::cli) enum SortBy {
    /// Sort by path.
    Path,
    /// Sort by modification time; files with the same time by path.
    Modified,
}

/// The values of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::tool::cli) enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always, also without a terminal.
    Always,
    /// Never, not even on a terminal.
    Never,
}

impl When {
    /// Returns true if an output gets colours. `auto` says whether a terminal shows them.
    pub(in crate::tool::cli) fn applies(self, auto: bool) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => auto,
        }
    }
}
