//! The arguments as they were typed, after parsing and before any decision.
//!
//! This module owns parsing: the last of several contradicting flags wins, and the arguments of the
//! file that `RIPGREP_CONFIG_PATH` names come before those of the command line. `flags` has the
//! effect of each flag; `plan` combines the arguments.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use grep_printer::{HyperlinkFormat, UserColorSpec};
use grep_searcher::Encoding;

use super::flags::{self, Effect, Flag, Value};
use super::messages::Reporter;
pub(super) use crate::exec::question::query::Case;

/// The arguments of one call. [`parse`] sets the values of a call without flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Args {
    /// A question about the program itself, which replaces everything else.
    pub(super) special: Option<Special>,
    /// The kind of result.
    pub(super) mode: Mode,
    /// The arguments that are not flags.
    pub(super) positional: Vec<OsString>,
    /// The patterns of `-e` and `-f`, in order.
    pub(super) patterns: Vec<PatternSource>,
    pub(super) binary: Binary,
    pub(super) boundary: Option<Boundary>,
    pub(super) buffering: Buffering,
    pub(super) byte_offset: bool,
    pub(super) case: Case,
    pub(super) colour: Colour,
    pub(super) colours: Vec<UserColorSpec>,
    pub(super) column: Option<bool>,
    pub(super) context: Context,
    /// `None` prints no separator.
    pub(super) context_separator: Option<Vec<u8>>,
    pub(super) crlf: bool,
    pub(super) decoding: Decoding,
    pub(super) dfa_size_limit: Option<usize>,
    pub(super) engine: Engine,
    pub(super) field_context_separator: Vec<u8>,
    pub(super) field_match_separator: Vec<u8>,
    pub(super) fixed_strings: bool,
    pub(super) follow: bool,
    pub(super) glob_case_insensitive: bool,
    pub(super) globs: Vec<String>,
    pub(super) heading: Option<bool>,
    pub(super) hidden: bool,
    pub(super) hostname_bin: Option<PathBuf>,
    pub(super) hyperlink_format: HyperlinkFormat,
    pub(super) iglobs: Vec<String>,
    pub(super) ignore_file_case_insensitive: bool,
    pub(super) ignore_files: Vec<PathBuf>,
    pub(super) include_zero: bool,
    pub(super) invert_match: bool,
    pub(super) line_number: Option<bool>,
    pub(super) logged: Logged,
    pub(super) maps: Maps,
    pub(super) max_columns: Option<u64>,
    pub(super) max_columns_preview: bool,
    pub(super) max_count: Option<u64>,
    pub(super) max_depth: Option<usize>,
    pub(super) max_filesize: Option<u64>,
    pub(super) multiline: bool,
    pub(super) multiline_dotall: bool,
    pub(super) no_config: bool,
    pub(super) no_ignore_dot: bool,
    pub(super) no_ignore_exclude: bool,
    pub(super) no_ignore_files: bool,
    pub(super) no_ignore_global: bool,
    pub(super) no_ignore_messages: bool,
    pub(super) no_ignore_parent: bool,
    pub(super) no_ignore_vcs: bool,
    pub(super) no_messages: bool,
    pub(super) no_require_git: bool,
    pub(super) no_unicode: bool,
    pub(super) null: bool,
    pub(super) null_data: bool,
    pub(super) one_file_system: bool,
    pub(super) only_matching: bool,
    pub(super) path_separator: Option<u8>,
    pub(super) pre: Option<PathBuf>,
    pub(super) pre_globs: Vec<String>,
    pub(super) quiet: bool,
    pub(super) regex_size_limit: Option<usize>,
    pub(super) replacement: Option<String>,
    pub(super) search_zip: bool,
    pub(super) sort: Option<Sort>,
    pub(super) stats: bool,
    pub(super) stop_on_nonmatch: bool,
    pub(super) threads: Option<usize>,
    pub(super) trim: bool,
    pub(super) type_rules: Vec<TypeRule>,
    /// How often `-u` was given.
    pub(super) unrestricted: u8,
    pub(super) vimgrep: bool,
    pub(super) with_filename: Option<bool>,
}

/// A question about the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    /// The help (`-h`).
    Help,
    /// The help with an introduction (`--help`).
    LongHelp,
    /// The version (`-V`).
    Version,
    /// The version and what is built in (`--version`).
    LongVersion,
    /// The version of PCRE2.
    Pcre2Version,
}

/// The kind of result. The last flag wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// The selected lines.
    #[default]
    Lines,
    /// The paths of files with a match.
    FilesWithMatches,
    /// The paths of files without a match.
    FilesWithoutMatch,
    /// The number of selected lines of each file.
    Count,
    /// The number of matches of each file.
    CountMatches,
    /// Messages in JSON.
    Json,
    /// The paths of all files; no search.
    Files,
    /// The file types; no search.
    Types,
    /// A generated text; no search.
    Generate(Generated),
}

impl Mode {
    pub(super) fn is_search(self) -> bool {
        !matches!(self, Mode::Files | Mode::Types | Mode::Generate(_))
    }
}

/// A text that the program prints about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generated {
    Man,
    Bash,
    Zsh,
    Fish,
    PowerShell,
}

/// One source of patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternSource {
    Text(String),
    File(PathBuf),
}

/// The treatment of binary files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Binary {
    /// A file that was named is searched as with `Search`. Others are left at the first NUL byte.
    #[default]
    Auto,
    /// Files are searched to their end, but only the fact of a match is printed.
    Search,
    /// A NUL byte is a byte like others.
    AsText,
}

/// The place at which a match must begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    Line,
    Word,
}

/// When the output is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Buffering {
    /// By lines on a terminal, else in blocks.
    #[default]
    Auto,
    Line,
    Block,
}

/// When to print colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Colour {
    #[default]
    Auto,
    Never,
    Always,
    /// Always, and with escape sequences on Windows too.
    Ansi,
}

/// The lines around matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// All lines of the file are printed; the numbers have no effect.
    pub(super) all: bool,
    pub(super) lines: Lines,
}

impl Context {
    /// A context of all lines.
    pub(super) fn all() -> Context {
        Context {
            all: true,
            lines: Lines::default(),
        }
    }

    /// Returns the numbers of lines to change. They replace a context of all lines.
    pub(super) fn limited(&mut self) -> &mut Lines {
        if self.all {
            *self = Context::default();
        }
        &mut self.lines
    }
}

/// The numbers of lines that `-A`, `-B` and `-C` ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
    /// Counts where the more specific flag is missing, also if it stands after them.
    pub(super) both: Option<usize>,
}

impl Lines {
    pub(super) fn before(self) -> usize {
        self.before.or(self.both).unwrap_or(0)
    }

    pub(super) fn after(self) -> usize {
        self.after.or(self.both).unwrap_or(0)
    }
}

/// The encoding of files.
#[derive(Clone, Debug, Default)]
pub(super) enum Decoding {
    /// UTF-8, unless a byte order mark says otherwise.
    #[default]
    Auto,
    As(Encoding),
    /// The bytes as they are, byte order marks included.
    Raw,
}

/// The regex engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Engine {
    #[default]
    Default,
    Pcre2,
    /// PCRE2 if the default engine can't compile the pattern.
    Auto,
}

/// The messages for developers on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Logged {
    #[default]
    Nothing,
    Debug,
    Trace,
}

/// Whether files are read as a whole, as if they were mapped into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Maps {
    /// If only a few files are searched.
    #[default]
    Auto,
    Always,
    Never,
}

/// The order of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) key: SortKey,
    pub(super) reversed: bool,
}

/// The property by which results are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortKey {
    Path,
    Modified,
    Accessed,
    Created,
}

/// A change of the file types, or a choice of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TypeRule {
    Clear(String),
    Add(String),
    Select(String),
    Negate(String),
}

/// Parses a command line without the name of the program. The arguments of the configuration file
/// `config` come first.
///
/// # Errors
///
/// A message if a flag is unknown or its value can't be used. An unreadable configuration file is
/// reported, and then ignored.
pub(super) fn parse(typed: &[OsString], config: Option<&Path>) -> Result<Args, String> {
    let args = parse_all(typed)?;
    args.start_logging();
    let Some(config) = config.filter(|_| args.special.is_none() && !args.no_config) else {
        return Ok(args);
    };
    let configured = match fs::read(config) {
        Ok(bytes) => configured(&bytes, config, &args.reporter()),
        Err(error) => {
            args.reporter().note(&format!(
                "failed to read the file specified in RIPGREP_CONFIG_PATH: {}: {error}",
                config.display()
            ));
            Vec::new()
        }
    };
    if configured.is_empty() {
        return Ok(args);
    }
    log::debug!("{}: arguments {configured:?}", config.display());
    let args = parse_all(&[&configured, typed].concat())?;
    args.start_logging();
    Ok(args)
}

/// Returns the arguments in a configuration file: one a line, except empty lines and comments.
fn configured(bytes: &[u8], path: &Path, reporter: &Reporter) -> Vec<OsString> {
    let mut args = Vec::new();
    for (number, line) in (1..).zip(bytes.lines()) {
        let line = line.trim_with(char::is_whitespace);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match line.to_os_str() {
            Ok(line) => args.push(line.to_os_string()),
            Err(error) => reporter.note(&format!("{}:{number}: {error}", path.display())),
        }
    }
    args
}

fn parse_all(typed: &[OsString]) -> Result<Args, String> {
    use lexopt::Arg;

    let mut args = Args {
        case: Case::Sensitive,
        context_separator: Some(b"--".to_vec()),
        field_context_separator: b"-".to_vec(),
        field_match_separator: b":".to_vec(),
        ..Args::default()
    };
    let mut parser = lexopt::Parser::from_args(typed);
    let invalid = |error: lexopt::Error| format!("invalid CLI arguments: {error}");
    while let Some(arg) = parser.next().map_err(invalid)? {
        let (flag, is_negated, name) = match arg {
            Arg::Value(value) => {
                args.positional.push(value);
                continue;
            }
            Arg::Long("help") => {
                args.special = Some(Special::LongHelp);
                continue;
            }
            Arg::Long("version") => {
                args.special = Some(Special::LongVersion);
                continue;
            }
            Arg::Short(letter) => match flags::with_short(letter) {
                Some(flag) => (flag, false, format!("-{letter}")),
                None => return Err(format!("unrecognized flag -{letter}")),
            },
            Arg::Long(long) => match flags::with_long(long) {
                Some((flag, is_negated)) => (flag, is_negated, format!("--{long}")),
                None => return Err(unrecognized(long)),
            },
        };
        apply(flag, is_negated, &mut parser, &name, &mut args)?;
    }
    Ok(args)
}

fn apply(
    flag: &Flag,
    is_negated: bool,
    parser: &mut lexopt::Parser,
    name: &str,
    args: &mut Args,
) -> Result<(), String> {
    let taken = match flag.effect {
        Effect::Switch(set) => {
            set(args, !is_negated);
            Ok(())
        }
        Effect::Repeated(add) => add(args),
        Effect::Value { unset, .. } if is_negated => {
            unset(args);
            Ok(())
        }
        Effect::Value { set, .. } => {
            let value = parser.value();
            let missing = |error| format!("missing value for flag {name}: {error}");
            set(args, Value(value.map_err(missing)?))
        }
    };
    taken.map_err(|error| format!("error parsing flag {name}: {error}"))
}

fn unrecognized(long: &str) -> String {
    let mut message = format!("unrecognized flag --{long}");
    let similar = flags::similar_to(long);
    if !similar.is_empty() {
        message.push_str("\n\nsimilar flags that are available: --");
        message.push_str(&similar.join(", --"));
    }
    message
}

impl Args {
    /// Returns the reporter of messages that these arguments ask for.
    pub(super) fn reporter(&self) -> Reporter {
        Reporter::new(!self.no_messages, !self.no_ignore_messages)
    }

    fn start_logging(&self) {
        super::messages::log(match self.logged {
            Logged::Nothing => log::LevelFilter::Warn,
            Logged::Debug => log::LevelFilter::Debug,
            Logged::Trace => log::LevelFilter::Trace,
        });
    }
}

#[cfg(test)]
mod tests;
