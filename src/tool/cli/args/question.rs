//! Conversion of a search's arguments into a [`Question`], and into the paths that the output
//! shows.
//!
//! This module owns the meaning of positional arguments, of pattern files, and of paths outside the
//! working directory. It also rejects contradicting flags, with a message that names both.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use crate::exec::question::query::{BinaryRule, Case, CaseRule, Fuzziness, Report, Spans};
use crate::exec::question::{
    FallbackPlan, FileChoice, OutputSpec, PatternSpec, Question, QuestionError, QuestionLimits,
};
use crate::exec::question::{FileIdentity, Follow, IgnoreRules, IndexList, TraversalOptions};
use crate::tool::cli::args::{QueryArgs, SearchArgs, SetupArgs};
use crate::tool::cli::setup::Environment;
use crate::tool::config::{Config, Origin};
use crate::tool::error::ToolError;
use crate::tool::searcher::{fallback_plan, to_usize};

/// Maximum bytes of a pattern file.
const MOST_PATTERN_BYTES: u64 = 32 << 20;

/// The maximum number of paths for which ripgrep maps files into memory.
const MAPPED_AT_MOST: usize = 10;

/// An expression that never matches: a character that is both `a` and `b`.
const NEVER: &str = "[a&&b]";

/// The positional arguments, split into pattern and paths.
struct Positional<'a> {
    pattern: Option<&'a OsStr>,
    paths: Vec<&'a Path>,
}

/// Splits the positional arguments. With `lists` there is no pattern.
fn positional(args: &QueryArgs, lists: bool) -> Positional<'_> {
    let first = args.pattern.as_deref();
    let rest = args.paths.iter().map(PathBuf::as_path);
    if lists || !args.regexp.is_empty() || !args.file.is_empty() {
        return Positional {
            pattern: None,
            paths: first.map(Path::new).into_iter().chain(rest).collect(),
        };
    }
    Positional {
        pattern: first,
        paths: rest.collect(),
    }
}

/// Returns the patterns of a search. The list is empty if all patterns come from empty files.
///
/// # Errors
///
/// There is no pattern, or a pattern file can't be read.
fn patterns(args: &QueryArgs, environment: &Environment) -> Result<Vec<String>, ToolError> {
    let mut all = args.regexp.clone();
    for file in &args.file {
        all.extend(lines_of(file, environment)?);
    }
    if let Some(pattern) = positional(args, false).pattern {
        let text = pattern.to_str().ok_or_else(|| {
            ToolError::bad_args("the pattern is not valid UTF-8; write bytes as \\xFF with (?-u)")
        })?;
        all.push(text.to_string());
    }
    if all.is_empty() && args.file.is_empty() {
        return Err(ToolError::bad_args(
            "a PATTERN is missing: give PATTERN, -e PATTERN or -f FILE; -h has examples",
        ));
    }
    Ok(all)
}

/// Reads a pattern file, with one pattern per line.
fn lines_of(file: &Path, environment: &Environment) -> Result<Vec<String>, ToolError> {
    let wrong = |why: &str| ToolError::bad_args(format!("-f {}: {why}", file.display()));
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin()
            .lock()
            .take(MOST_PATTERN_BYTES + 1)
            .read_to_end(&mut bytes),
        false => std::fs::File::open(environment.absolute(file)?)
            .and_then(|file| file.take(MOST_PATTERN_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| wrong(&error.to_string()))?;
    if bytes.len() as u64 > MOST_PATTERN_BYTES {
        return Err(wrong(&format!(
            "the file has more than {MOST_PATTERN_BYTES} bytes, the limit for the patterns of a \
             search; search for some of them at a time"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("the file is not valid UTF-8"))?;
    Ok(text.lines().map(str::to_string).collect())
}

/// A path to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tool::cli) struct SearchedPath {
    /// The path in the question, which the sandbox checks.
    pub(in crate::tool::cli) asked: PathBuf,
    /// The path in the output: as the user typed it. An absolute path inside the working directory
    /// becomes relative. Empty if the user typed no path.
    pub(in crate::tool::cli) shown: PathBuf,
    /// The canonical path, or the typed path if it does not exist.
    pub(in crate::tool::cli) absolute: PathBuf,
    /// Whether the path is a file. Results then have no path below it.
    pub(in crate::tool::cli) is_file: bool,
    /// A directory outside of the root that the sandbox must allow for this path.
    pub(in crate::tool::cli) extra_root: Option<PathBuf>,
}

/// Returns the paths to search, or `None` for standard input (`-`).
///
/// # Errors
///
/// There is no working directory, or `-` is combined with other paths.
pub(in crate::tool::cli) fn searched_paths(
    args: &QueryArgs,
    lists: bool,
    setup: &SetupArgs,
    environment: &Environment,
) -> Result<Option<Vec<SearchedPath>>, ToolError> {
    let typed = positional(args, lists).paths;
    if typed.contains(&Path::new("-")) {
        if typed.len() > 1 || lists {
            return Err(ToolError::bad_args(
                "- is standard input, which is searched alone; leave out the other paths and \
                 --files, or write ./- for a file of that name",
            ));
        }
        return Ok(None);
    }
    let here = match environment.working_dir.clone() {
        Ok(here) => Some(here.canonicalize().unwrap_or(here)),
        Err(error) if setup.root.is_none() => return Err(error),
        Err(_) => None,
    };
    let root = setup.root.as_deref();
    if typed.is_empty() {
        let top = root.unwrap_or(Path::new("."));
        let asked = PathBuf::from(".");
        let mut path = searched(asked, top, None, environment, here.as_deref())?;
        if top == Path::new(".") {
            // The user typed no path, so the output shows no prefix.
            path.shown = PathBuf::new();
        }
        return Ok(Some(vec![path]));
    }
    typed
        .into_iter()
        .map(|path| searched_path(path, root, environment, here.as_deref()))
        .collect::<Result<_, _>>()
        .map(Some)
}

pub(in crate::tool::cli) fn searched_path(
    typed: &Path,
    root: Option<&Path>,
    environment: &Environment,
    here: Option<&Path>,
) -> Result<SearchedPath, ToolError> {
    if let Some(root) = root {
        let whole = root.join(typed);
        return searched(typed.to_path_buf(), &whole, None, environment, here);
    }
    let Ok(canonical) = environment.absolute(typed)?.canonicalize() else {
        // The search itself reports the missing path.
        return searched(typed.to_path_buf(), typed, None, environment, here);
    };
    if let Some(inside) = here.and_then(|here| canonical.strip_prefix(here).ok()) {
        // Use a relative path, which works even if absolute paths are not allowed.
        let inside = match inside.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => inside.to_path_buf(),
        };
        return searched(inside, typed, None, environment, here);
    }
    let extra_root = match canonical.is_dir() {
        true => canonical.clone(),
        false => canonical.parent().unwrap_or(Path::new("/")).to_path_buf(),
    };
    searched(canonical, typed, Some(extra_root), environment, here)
}

fn searched(
    asked: PathBuf,
    typed: &Path,
    extra_root: Option<PathBuf>,
    environment: &Environment,
    here: Option<&Path>,
) -> Result<SearchedPath, ToolError> {
    let absolute = environment.absolute(typed)?;
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    let inside = here.and_then(|here| absolute.strip_prefix(here).ok());
    Ok(SearchedPath {
        asked,
        shown: match inside {
            Some(inside) if typed.is_absolute() && !typed.is_symlink() => inside.to_path_buf(),
            // Keep `./` or `../` in front, as ripgrep does.
            _ => typed.to_path_buf(),
        },
        is_file: absolute.is_file(),
        absolute,
        extra_root,
    })
}

/// Creates a question with patterns and files. [`add_output`] adds the output options.
///
/// # Errors
///
/// Patterns that can't be read, and contradicting flags.
pub(in crate::tool::cli) fn query_question(
    args: &QueryArgs,
    paths: &[SearchedPath],
    lists: bool,
    config: &Config,
    environment: &Environment,
) -> Result<Question, ToolError> {
    let patterns = match lists {
        true => None,
        false => Some(patterns(args, environment)?),
    };
    // An empty pattern file matches nothing, as in ripgrep.
    let has_none = patterns.as_ref().is_some_and(Vec::is_empty);
    let patterns = match has_none {
        true => Some(vec![NEVER.to_string()]),
        false => patterns,
    };
    let takes_back = |glob: &&String| glob.starts_with("!!");
    if let Some(glob) = args.glob.iter().find(takes_back) {
        return Err(ToolError::bad_args(format!(
            "-g {glob}: a glob has at most one leading !, which excludes files; remove the others"
        )));
    }
    let unrestricted = args.unrestricted;
    if unrestricted > 2 {
        return Err(ToolError::bad_args(
            "-uuu would search binary files too, which is not supported; -uu is the maximum",
        ));
    }
    let depth = args.max_depth.map(to_usize);
    Ok(Question {
        looked_for: PatternSpec {
            patterns,
            fixed_strings: args.fixed_strings && !has_none,
            word: args.word_regexp,
            whole_line: args.line_regexp,
            case: match (args.ignore_case, args.case_sensitive) {
                (true, _) => Case::Insensitive,
                (_, true) => Case::Sensitive,
                _ => Case::Smart,
            },
            case_rule: CaseRule::Unicode,
            fuzzy: args.fuzzy.map(|level| Fuzziness::Edits(level as u8)),
        },
        files: FileChoice {
            paths: paths.iter().map(|path| path.asked.clone()).collect(),
            traversal: TraversalOptions {
                hidden: args.hidden || unrestricted > 1,
                follow: if args.follow {
                    Follow::All
                } else {
                    Follow::Never
                },
                rules: if args.no_ignore || unrestricted > 0 {
                    IgnoreRules::None
                } else {
                    IgnoreRules::All
                },
                recursive: !args.no_recursive && depth != Some(1),
            },
            // A depth limit that the user chose is not reported as a cut.
            max_depth: depth,
            depth_cuts: false,
            include: Vec::new(),
            exclude: Vec::new(),
            globs: args.glob.clone(),
            types: args.type_rules.clone(),
            globs_from: Some(PathBuf::new()),
            no_git_dirs: false,
            binary: BinaryRule::UntilNul,
            own_output: own_output(),
        },
        shown: OutputSpec::default(),
        limits: limits_of(args, config),
        fallback: FallbackPlan::default(),
    })
}

/// Returns the identity of the file that standard output is redirected to, if there is one. That
/// file is not searched. If the system hides the identity, the file is searched.
pub(in crate::tool::cli) fn own_output() -> Option<FileIdentity> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        use std::os::unix::fs::MetadataExt;
        let output = io::stdout().as_fd().try_clone_to_owned().ok()?;
        let meta = std::fs::File::from(output).metadata().ok()?;
        let identity = FileIdentity {
            device: meta.dev(),
            inode: meta.ino(),
        };
        if meta.is_file() {
            tracing::debug!(
                ?identity,
                "standard output is a file, which is not searched"
            );
            return Some(identity);
        }
    }
    None
}

/// Returns ripgrep's rule for binary files. The rule depends on whether ripgrep would map files
/// into memory, which it does if all paths are files and there are few of them.
pub(in crate::tool::cli) fn ripgreps_rule(paths: &[SearchedPath]) -> BinaryRule {
    let maps = paths.len() <= MAPPED_AT_MOST && paths.iter().all(|path| path.is_file);
    BinaryRule::AsRipgrep { maps }
}

/// Adds the output options and limits to a question.
///
/// # Errors
///
/// Contradicting flags.
pub(in crate::tool::cli) fn add_output(
    question: &mut Question,
    args: &SearchArgs,
    config: &Config,
) -> Result<(), ToolError> {
    check(args)?;
    let side = |own: Option<u64>| to_usize(own.or(args.context).unwrap_or(0));
    let report = report_of(args);
    let has_lines = report == Report::Lines;
    question.shown = OutputSpec {
        report,
        spans: spans_of(args),
        places: args.rg_json,
        // Sorting needs all results at once, and takes each file as one.
        in_parts: args.sort.is_none() && args.sortr.is_none(),
        before: if has_lines {
            side(args.before_context)
        } else {
            0
        },
        after: if has_lines {
            side(args.after_context)
        } else {
            0
        },
        matching_context: true,
        by_index: IndexList::None,
    };
    let is_for_programs = args.vimgrep || args.only_matching || args.json || args.rg_json;
    let limits = &mut question.limits;
    limits.max_results = match args.max_results {
        Some(0) => u64::MAX,
        Some(most) => most,
        None if args.quiet => 1,
        None if has_lines && !is_for_programs && has_cap(config) => {
            config.search.default_max_results
        }
        None => u64::MAX,
    };
    if let Some(most) = args.max_count {
        limits.max_matches_per_file = most;
    }
    if let Some(most) = args.max_files {
        limits.max_files = most;
    }
    Ok(())
}

/// Returns whether text output ends after `default_max_results` lines. It does on a terminal, where
/// nobody reads more, and if the user configured that key. Other output has all lines.
fn has_cap(config: &Config) -> bool {
    let origin = config.origin("tools.search.default_max_results");
    *origin != Origin::Default || io::stdout().is_terminal()
}

/// Returns the limits of a search. The default limits are for agents: a person's search applies
/// only configured ones.
fn limits_of(args: &QueryArgs, config: &Config) -> QuestionLimits {
    let configured = |key: &str, value: u64| match config.origin(key) {
        Origin::Default => u64::MAX,
        _ => value,
    };
    let search = &config.search;
    QuestionLimits {
        max_matches_per_file: configured(
            "tools.search.max_matches_per_file",
            search.max_matches_per_file,
        ),
        max_files: configured("tools.search.max_files", search.max_files),
        max_file_size: args.max_filesize.unwrap_or_else(|| {
            configured(
                "tools.search.max_file_size_bytes",
                search.max_file_size_bytes,
            )
        }),
        ..QuestionLimits::NONE
    }
}

/// Returns the approximate searches to try if nothing matches.
pub(in crate::tool::cli) fn fallback_of(question: &Question, config: &Config) -> FallbackPlan {
    let looked_for = &question.looked_for;
    match looked_for.patterns.as_deref() {
        Some([literal]) if looked_for.fixed_strings && looked_for.fuzzy.is_none() => {
            fallback_plan(&config.search, literal)
        }
        _ => FallbackPlan::default(),
    }
}

fn report_of(args: &SearchArgs) -> Report {
    if args.files || args.files_with_matches || args.quiet {
        Report::Presence
    } else if args.count || args.count_matches {
        Report::Counts
    } else {
        Report::Lines
    }
}

fn spans_of(args: &SearchArgs) -> Spans {
    if args.count && !args.counts_matches() {
        Spans::First
    } else {
        Spans::Every
    }
}

/// Rejects flags that would have no effect.
fn check(args: &SearchArgs) -> Result<(), ToolError> {
    let has_context = [args.context, args.before_context, args.after_context];
    let prints_matches = report_of(args) == Report::Lines && (args.only_matching || args.vimgrep);
    if prints_matches && has_context.iter().flatten().any(|lines| *lines > 0) {
        return Err(ToolError::bad_args(
            "-o and --vimgrep print only matches, without lines around them; leave out -A, -B and \
             -C, or use --json",
        ));
    }
    let looks =
        !args.query.regexp.is_empty() || !args.query.file.is_empty() || args.query.fuzzy.is_some();
    if args.files && (looks || args.max_count.is_some()) {
        return Err(ToolError::bad_args(
            "--files searches for no pattern, so -e, -f, --fuzzy and -m have no effect; -l prints \
             files with a match",
        ));
    }
    if args.rg_json && args.query.fuzzy.is_some() {
        return Err(ToolError::bad_args(
            "--rg-json can't represent approximate matches; leave out --fuzzy, or use --json",
        ));
    }
    Ok(())
}

/// Converts the error of an invalid question into a message of the command line, which marks the
/// place in the pattern.
pub(in crate::tool::cli) fn refused(error: QuestionError, question: &Question) -> ToolError {
    let error = match error {
        QuestionError::Pattern(error) => error,
        QuestionError::Glob(error) => return ToolError::bad_args(error.to_string()),
        QuestionError::Type(error) => {
            let message = format!("{error}; --type-list shows all, and -g takes globs");
            return ToolError::bad_args(message);
        }
    };
    let mut message = error.message.clone();
    if error.as_text {
        message.push_str("; -F searches for the text as it is");
    }
    let patterns = question.looked_for.patterns.as_deref().unwrap_or_default();
    let pattern = patterns.get(error.pattern.unwrap_or(0));
    if let (Some(pattern), Some(span)) = (pattern, error.span) {
        message.push_str(&marked(pattern, span));
    } else if let (Some(pattern), 2..) = (pattern, patterns.len()) {
        message.push_str(&format!("\n  in the pattern {pattern:?}"));
    }
    ToolError::bad_args(message)
}

/// Shows a pattern with a mark under the faulty part, if the pattern is short enough for one line.
fn marked(pattern: &str, span: std::ops::Range<usize>) -> String {
    const WIDEST: usize = 200;
    let is_plain = !pattern.contains(|c: char| c.is_control());
    let (Some(before), Some(part)) = (pattern.get(..span.start), pattern.get(span.clone())) else {
        return String::new();
    };
    if pattern.chars().count() > WIDEST || !is_plain {
        return String::new();
    }
    let width = |text: &str| unicode_width::UnicodeWidthStr::width(text);
    let marks = "^".repeat(width(part).max(1));
    format!("\n  {pattern}\n  {}{marks}", " ".repeat(width(before)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::matching::pattern::Pattern;
    use crate::exec::question::query::QueryOptions;

    fn question(patterns: &[&str]) -> Question {
        Question {
            looked_for: PatternSpec {
                patterns: Some(patterns.iter().map(|one| one.to_string()).collect()),
                ..PatternSpec::default()
            },
            files: FileChoice {
                globs_from: Some(PathBuf::new()),
                ..FileChoice::of(
                    Vec::new(),
                    TraversalOptions {
                        hidden: false,
                        follow: Follow::Never,
                        rules: IgnoreRules::All,
                        recursive: true,
                    },
                )
            },
            shown: OutputSpec::default(),
            limits: QuestionLimits::NONE,
            fallback: FallbackPlan::default(),
        }
    }

    #[test]
    fn the_place_in_a_pattern_is_marked() {
        let refusal = |patterns: &[&str]| {
            let question = question(patterns);
            let texts = question.looked_for.patterns.clone().unwrap();
            let error = Pattern::of(&texts, &QueryOptions::default()).unwrap_err();
            refused(error.into(), &question).message()
        };
        let message = refusal(&["é(ab"]);
        assert!(message.ends_with("\n  é(ab\n   ^"), "{message}");
        assert!(message.contains("-F searches"), "{message}");
        let message = refusal(&["fine", "a[b"]);
        assert!(message.ends_with("\n  a[b\n   ^"), "{message}");
    }
}
