//! The decisions that follow from the arguments: what is searched, and how results look.
//!
//! This module owns the defaults that depend on the surroundings (terminal, standard input, kind of
//! paths) and the combination of flags. `args` has the flags; `walk`, `search` and `print` carry
//! the plan out. (The plan by which an index skips files is `index::plan`.)

use std::fs::{self, Metadata};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use grep_matcher::LineTerminator;
use grep_printer::{ColorSpecs, HyperlinkConfig, default_color_specs};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use super::Surroundings;
use super::args::{Args, Binary, Colour, Decoding, Maps, Mode, SortKey, TypeRule};
use super::hyperlinks;
use super::patterns::Patterns;

/// The most threads that are started without `--threads`.
const MOST_THREADS: usize = 12;

/// The most threads that are started.
const MOST_ASKED_THREADS: usize = 256;

/// The most named files that are read as a whole without `--mmap`.
const MOST_MAPPED: usize = 10;

/// The decisions for one call.
#[derive(Debug)]
pub(super) struct Plan {
    /// The arguments on which the decisions are based.
    pub(super) args: Args,
    pub(super) patterns: Vec<String>,
    pub(super) paths: Paths,
    /// The directory at which globs are anchored.
    pub(super) working_dir: PathBuf,
    pub(super) globs: Override,
    pub(super) pre_globs: Override,
    pub(super) types: Types,
    /// The treatment of NUL bytes in named files, and in all others.
    pub(super) binary: (BinaryDetection, BinaryDetection),
    pub(super) threads: usize,
    /// Files are read as a whole.
    pub(super) maps: bool,
    /// The search ends at the first match.
    pub(super) stops_at_match: bool,
    pub(super) look: Look,
}

/// The appearance of results.
#[derive(Debug)]
pub(super) struct Look {
    /// Standard output is a terminal.
    pub(super) terminal: bool,
    pub(super) colour: termcolor::ColorChoice,
    pub(super) colours: ColorSpecs,
    pub(super) hyperlinks: HyperlinkConfig,
    pub(super) column: bool,
    pub(super) heading: bool,
    pub(super) line_number: bool,
    pub(super) with_filename: bool,
    pub(super) path_terminator: Option<u8>,
    /// Printed between the results of two files.
    pub(super) file_separator: Option<Vec<u8>>,
    pub(super) has_stats: bool,
}

/// The paths to search. There is at least one.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) list: Vec<PathBuf>,
    /// No path was typed.
    pub(super) implicit: bool,
    /// Only one file, or standard input, is searched.
    pub(super) one_file: bool,
}

impl Plan {
    /// Decides everything that the arguments leave open.
    ///
    /// # Errors
    ///
    /// A message if a pattern file, a glob, a type or a program can't be used.
    pub(super) fn new(mut args: Args, surroundings: &Surroundings) -> Result<Plan, String> {
        check_sort(&args)?;
        args.mode = match args.mode {
            Mode::CountMatches if args.invert_match => Mode::Count,
            Mode::Count if args.only_matching => Mode::CountMatches,
            mode => mode,
        };
        let working_dir = surroundings.working_dir()?;
        let patterns = Patterns::of(&mut args)?;
        let paths = Paths::of(&args, patterns.took_stdin)?;
        let look = Look::of(&args, &paths, surroundings);
        let types = types(&args.type_rules)?;
        let globs = globs(&args, &working_dir)?;
        let pre_globs = overrides(&working_dir, &args.pre_globs, &[], false)?;
        if let Some(program) = &args.pre {
            let program = grep_cli::resolve_binary(program).map_err(|error| error.to_string())?;
            args.pre = Some(program);
        }
        let threads = match args.threads {
            _ if args.sort.is_some() || paths.one_file => 1,
            Some(threads) => threads.min(MOST_ASKED_THREADS),
            None => std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS)),
        };
        let maps = match args.maps {
            // ripgrep maps no files there.
            _ if cfg!(target_os = "macos") => false,
            Maps::Always => true,
            Maps::Never => false,
            Maps::Auto => {
                paths.list.len() <= MOST_MAPPED && paths.list.iter().all(|path| path.is_file())
            }
        };
        log::debug!("threads: {threads}; files are read as a whole: {maps}");
        Ok(Plan {
            binary: binary(&args),
            stops_at_match: args.quiet && !look.has_stats,
            args,
            patterns: patterns.list,
            paths,
            working_dir,
            globs,
            pre_globs,
            types,
            threads,
            maps,
            look,
        })
    }

    /// Returns whether a search can find anything at all.
    pub(super) fn can_match(&self) -> bool {
        let has_patterns = !self.patterns.is_empty() || self.args.invert_match;
        has_patterns && self.args.max_count != Some(0)
    }

    /// Returns whether a NUL byte has a meaning of its own in some file.
    pub(super) fn nul_ends_text(&self) -> bool {
        self.binary.0 != BinaryDetection::none()
    }

    /// Creates the searcher of one thread.
    pub(super) fn searcher(&self) -> Searcher {
        let args = &self.args;
        let mut builder = SearcherBuilder::new();
        builder
            .max_matches(args.max_count)
            .line_terminator(match (args.crlf, args.null_data) {
                (true, _) => LineTerminator::crlf(),
                (false, true) => LineTerminator::byte(0),
                (false, false) => LineTerminator::byte(b'\n'),
            })
            .invert_match(args.invert_match)
            .line_number(self.look.line_number)
            .multi_line(args.multiline)
            .stop_on_nonmatch(args.stop_on_nonmatch);
        if args.context.all {
            builder.passthru(true);
        } else {
            builder
                .before_context(args.context.lines.before())
                .after_context(args.context.lines.after());
        }
        match &args.decoding {
            Decoding::Auto => {}
            Decoding::As(encoding) => {
                builder.encoding(Some(encoding.clone()));
            }
            Decoding::Raw => {
                builder.bom_sniffing(false);
            }
        }
        builder.build()
    }
}

impl Paths {
    fn of(args: &Args, stdin_taken: bool) -> Result<Paths, String> {
        let list: Vec<PathBuf> = args.positional.iter().map(PathBuf::from).collect();
        if stdin_taken && list.iter().any(|path| is_stdin(path)) {
            return Err(
                "error: attempted to read patterns from stdin while also searching stdin"
                    .to_string(),
            );
        }
        if let [first, rest @ ..] = list.as_slice() {
            // Anything but a directory is one file, for example a pipe of the shell.
            let one_file = rest.is_empty() && (is_stdin(first) || !first.is_dir());
            return Ok(Paths {
                list,
                implicit: false,
                one_file,
            });
        }
        let readable = grep_cli::is_readable_stdin();
        let from_stdin = readable && !stdin_taken && args.mode.is_search();
        log::debug!(
            "no path: standard input is readable: {readable}; it is searched: {from_stdin}"
        );
        let path = if from_stdin { "-" } else { "./" };
        Ok(Paths {
            list: vec![PathBuf::from(path)],
            implicit: true,
            one_file: from_stdin,
        })
    }

    fn is_stdin(&self) -> bool {
        matches!(&self.list[..], [path] if is_stdin(path))
    }
}

/// Returns whether a path stands for standard input, also if a directory has this name.
pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

impl Look {
    fn of(args: &Args, paths: &Paths, surroundings: &Surroundings) -> Look {
        let terminal = io::stdout().is_terminal();
        let mut specs = default_color_specs();
        specs.extend(args.colours.iter().cloned());
        let column = args.column.unwrap_or(args.vimgrep);
        let heading = args.heading.unwrap_or(terminal) && !args.vimgrep;
        let is_lines = args.mode == Mode::Lines;
        let lines = args.context.lines;
        let has_context = !args.context.all && (lines.before() > 0 || lines.after() > 0);
        let file_separator = match (is_lines, heading) {
            (true, true) => Some(Vec::new()),
            (true, false) if has_context => args.context_separator.clone(),
            _ => None,
        };
        let line_number = args.line_number.unwrap_or(match args.mode {
            _ if args.quiet => false,
            Mode::Json => true,
            Mode::Lines => (terminal && !paths.is_stdin()) || column || args.vimgrep,
            _ => false,
        });
        Look {
            terminal,
            colour: match args.colour {
                Colour::Auto if terminal => termcolor::ColorChoice::Auto,
                Colour::Auto | Colour::Never => termcolor::ColorChoice::Never,
                Colour::Always => termcolor::ColorChoice::Always,
                Colour::Ansi => termcolor::ColorChoice::AlwaysAnsi,
            },
            colours: ColorSpecs::new(&specs),
            hyperlinks: hyperlinks::config(args, surroundings),
            column,
            heading,
            line_number,
            with_filename: args
                .with_filename
                .unwrap_or(args.vimgrep || !paths.one_file),
            path_terminator: args.null.then_some(0),
            file_separator,
            has_stats: args.mode.is_search() && (args.stats || args.mode == Mode::Json),
        }
    }
}

/// Returns the treatment of NUL bytes in named files, and in all others.
fn binary(args: &Args) -> (BinaryDetection, BinaryDetection) {
    let convert = BinaryDetection::convert(0);
    match args.binary {
        _ if args.null_data => (BinaryDetection::none(), BinaryDetection::none()),
        Binary::AsText => (BinaryDetection::none(), BinaryDetection::none()),
        Binary::Search => (convert.clone(), convert),
        Binary::Auto => (convert, BinaryDetection::quit(0)),
    }
}

fn types(rules: &[TypeRule]) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for rule in rules {
        match rule {
            TypeRule::Clear(name) => {
                builder.clear(name);
            }
            TypeRule::Add(definition) => {
                builder
                    .add_def(definition)
                    .map_err(|error| error.to_string())?;
            }
            TypeRule::Select(name) => {
                builder.select(name);
            }
            TypeRule::Negate(name) => {
                builder.negate(name);
            }
        }
    }
    builder.build().map_err(|error| error.to_string())
}

fn globs(args: &Args, working_dir: &Path) -> Result<Override, String> {
    overrides(
        working_dir,
        &args.globs,
        &args.iglobs,
        args.glob_case_insensitive,
    )
}

/// Builds globs in which later ones win over earlier ones. The `caseless` ones ignore case, and
/// the others as well if `ignores_case`.
fn overrides(
    working_dir: &Path,
    globs: &[String],
    caseless: &[String],
    ignores_case: bool,
) -> Result<Override, String> {
    if globs.is_empty() && caseless.is_empty() {
        return Ok(Override::empty());
    }
    let text = |error: ignore::Error| error.to_string();
    let mut builder = OverrideBuilder::new(working_dir);
    for (globs, ignores_case) in [(globs, ignores_case), (caseless, true)] {
        // Counts for the globs that are added later.
        builder.case_insensitive(ignores_case).map_err(text)?;
        for glob in globs {
            builder.add(glob).map_err(text)?;
        }
    }
    builder.build().map_err(text)
}

/// Checks that the system has the times by which to sort.
fn check_sort(args: &Args) -> Result<(), String> {
    let Some(sort) = args.sort else {
        return Ok(());
    };
    let Some(read) = timestamp(sort.key) else {
        return Ok(());
    };
    let own = std::env::current_exe().and_then(fs::metadata);
    let key = match sort.key {
        SortKey::Path => "path",
        SortKey::Modified => "last modified",
        SortKey::Accessed => "last accessed",
        SortKey::Created => "creation time",
    };
    match own.and_then(|meta| read(&meta)) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("sorting by {key} isn't supported: {error}")),
    }
}

/// Returns the function that reads the time by which to sort; `None` for paths.
pub(super) fn timestamp(key: SortKey) -> Option<fn(&Metadata) -> io::Result<SystemTime>> {
    match key {
        SortKey::Path => None,
        SortKey::Modified => Some(Metadata::modified),
        SortKey::Accessed => Some(Metadata::accessed),
        SortKey::Created => Some(Metadata::created),
    }
}
