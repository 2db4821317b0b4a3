//! `forge-search PATTERN`: a search for people.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::again::{EveryMatch, Roots};
use super::args::{QueryArgs, SearchArgs, SetupArgs, SortBy, When};
use super::building::before_search;
#[cfg(unix)]
use super::daemon;
use super::patterns::{globs_of, pattern, positional};
use super::printer::{Printer, Style};
use super::setup::{Environment, load_config, prepare};
use super::shapes::{Counted, Names};
use super::show::{count, things};
use super::{FAILED, Failure, complain, rg_json, shapes};
use crate::exec::list::Lister;
use crate::exec::stop::{Clock, SystemClock};
use crate::tool::engines::Engines;
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::request::{Case, SearchRequest};
use crate::tool::response::{SearchResponse, Stats};
use crate::tool::search::{SearchExtras, SearchTool};

/// Searches and prints.
pub(super) fn run(args: &SearchArgs, environment: &Environment) -> Result<u8, Failure> {
    if args.type_list {
        let mut out = BufWriter::new(io::stdout().lock());
        shapes::print_types(&mut out)?;
        out.flush()?;
        return Ok(0);
    }
    check(args)?;
    // What was found could be shown.
    let mut is_whole = true;
    let (path, extra_root) = target(&args.query, args.files, &args.setup, environment)?;
    let (request, and_glob) = request(&args.query, path, args.files, environment)?;
    let extras = SearchExtras {
        and_glob,
        ..extras(args)
    };
    let wanted = limited(args, request)?;
    let request = whole(args, wanted.clone());
    let mut setup_args = args.query.setup(&args.setup);
    if args.stats {
        setup_args.set.push("emit_stats=true".to_string());
    }
    if is_each_match(args) {
        // Of a part of a line it can't be told what matches.
        setup_args.set.push("max_line_bytes=0".to_string());
    }
    let clock = SystemClock;
    let began = clock.now();
    #[cfg(unix)]
    let answered = match extra_root {
        // A daemon answers about one tree, and lists no files.
        Some(_) => None,
        None if args.files => None,
        None => daemon::search::ask(&request, &extras, &setup_args, environment),
    };
    #[cfg(not(unix))]
    let answered: Option<std::convert::Infallible> = None;
    let mut others: Vec<PathBuf> = extra_root.iter().cloned().collect();
    let (mut response, root) = match answered {
        #[cfg(unix)]
        Some(answered) => {
            others.extend(answered.allowed);
            (answered.response, answered.root)
        }
        #[cfg(not(unix))]
        Some(never) => match never {},
        None => {
            // What a daemon did not answer has taken some of the time.
            let spent = clock.now().saturating_duration_since(began);
            let mut setup = prepare(&setup_args, environment, extra_root.as_deref())?;
            if args.files {
                // Looking into none needs no index.
                let lister = match args.max_filesize {
                    Some(_) => Lister::of_size(),
                    None => Lister::default(),
                };
                let lister = Engines::new(vec![Arc::new(lister)], String::new());
                setup.tool = SearchTool::new(setup.config.search.clone(), lister);
            } else {
                before_search(&setup, environment, &request)?;
            }
            setup.context.came = clock.now().checked_sub(spent);
            others.extend(setup.config.sandbox.allowed_roots.iter().cloned());
            let search = || {
                setup
                    .tool
                    .search_with(&request, extras.clone(), &setup.context)
            };
            let response = setup
                .signals
                .while_calling(search)
                .map_err(|error| setup.signals.failure(error))?;
            (response, setup.root)
        }
    };

    // After one line for each event, `content` says what cut it off.
    let notes = response.content.lines().skip(response.count);
    let mut notes: Vec<String> = notes
        .map(|note| note.trim_matches(['[', ']']).to_string())
        .collect();
    if let Some((by, reversed)) = order(args) {
        let most = most(args, &wanted, &setup_args, environment)?;
        if shapes::sort(&mut response, by, reversed, &root, most) {
            response.truncated = true;
            let what = match is_per_file(args) {
                true => format!("there are more than max_results = {most} files"),
                false => format!("more than max_results = {most} lines match"),
            };
            notes.push(format!(
                "truncated: {what}; narrow the search, or raise --max-results"
            ));
        }
    }
    let roots = Roots::new(&root, &others);
    let each = || EveryMatch::new(&request, &roots);
    let has_context = extras.context != Some((0, 0));
    let printer = || Printer::new(style(args, environment), &request, has_context, &root);
    let mut out = BufWriter::new(io::stdout().lock());
    if args.quiet {
        // Its status says it.
    } else if args.json {
        print_json(&response, &mut out)?;
    } else if args.rg_json {
        let took = clock.now().saturating_duration_since(began);
        let context = extras.context.unwrap_or_default();
        is_whole = rg_json::print(&response, &request, context, &roots, took, &mut out)?;
    } else if args.vimgrep {
        // For programs.
        let plain = Style {
            raw: args.raw,
            ..Style::default()
        };
        let printer = Printer::new(plain, &request, false, &root);
        shapes::print_each_match(&response, &each(), &printer, false, &mut out)?;
    } else if args.only_matching {
        shapes::print_each_match(&response, &each(), &printer(), true, &mut out)?;
    } else if is_per_file(args) {
        let each = args.count_matches.then(each);
        let counted = match &each {
            Some(each) => Counted::Matches(each),
            None if args.count => Counted::Lines,
            None => Counted::Nothing,
        };
        let names = Names {
            printer: printer(),
            raw: args.raw,
            null: args.null,
        };
        shapes::print_paths(&response, &counted, &names, &mut out)?;
    } else {
        printer().print(&response, &mut out)?;
    }
    out.flush()?;
    drop(out);
    if args.quiet && response.count > 0 {
        // That there are more is no news.
        notes.clear();
    }
    report(args, &response, &notes);
    Ok(match is_whole {
        // One match is all that is asked for.
        _ if args.quiet && response.count > 0 => 0,
        true => status(&response),
        false => FAILED,
    })
}

/// Refuses what would otherwise have no effect.
///
/// # Errors
///
/// Flags that mean nothing together.
fn check(args: &SearchArgs) -> Result<(), ToolError> {
    if args.null && !is_per_file(args) {
        return Err(ToolError::bad_args(
            "-0 ends paths, which -l, -c, --count-matches and --files print; give one of them too",
        ));
    }
    let has_context = [args.context, args.before_context, args.after_context];
    if (args.only_matching || args.vimgrep) && has_context.iter().flatten().any(|lines| *lines > 0)
    {
        return Err(ToolError::bad_args(
            "-o and --vimgrep print matches only, so there are no lines around them; leave out -A, -B and -C, or use --json",
        ));
    }
    let looks =
        !args.query.regexp.is_empty() || !args.query.file.is_empty() || args.query.fuzzy.is_some();
    if args.files && (looks || args.max_count.is_some()) {
        return Err(ToolError::bad_args(
            "--files looks for nothing, so that -e, -f, --fuzzy and -m mean nothing with it; -l prints files with a match",
        ));
    }
    let takes_back = |glob: &&String| glob.starts_with("!!");
    if let Some(glob) = args.query.glob.iter().find(takes_back) {
        return Err(ToolError::bad_args(format!(
            "-g {glob}: with two !, it takes back what another glob leaves out; leave that one out, or write what is meant without !!"
        )));
    }
    if args.query.unrestricted > 2 {
        return Err(ToolError::bad_args(
            "-uuu would search binary files too, which are never searched; -uu is the most there is",
        ));
    }
    Ok(())
}

/// Returns true if what is printed is about each match of a line.
fn is_each_match(args: &SearchArgs) -> bool {
    args.vimgrep || args.only_matching || args.count_matches || args.rg_json
}

/// Returns true if what is printed is about files and not their lines.
fn is_per_file(args: &SearchArgs) -> bool {
    args.files || args.files_with_matches || args.count || args.count_matches
}

/// Returns in which order files are shown, if it is not the one they come in.
fn order(args: &SearchArgs) -> Option<(SortBy, bool)> {
    match (args.sortr, args.sort) {
        (Some(by), _) => Some((by, true)),
        (None, SortBy::Modified) => Some((SortBy::Modified, false)),
        (None, SortBy::Path) => None,
    }
}

/// Asks for everything where only that has the answer: all files with matches, their counts, and those that another order puts first.
fn whole(args: &SearchArgs, mut request: SearchRequest) -> SearchRequest {
    if args.files || args.files_with_matches {
        request.max_matches_per_file = Some(1);
    }
    if args.quiet {
        request.max_results = Some(1);
    } else if order(args).is_some() || (is_per_file(args) && request.max_results.is_none()) {
        request.max_results = Some(u64::MAX);
    }
    request
}

/// Returns how many lines are shown at most, of those in another order.
fn most(
    args: &SearchArgs,
    wanted: &SearchRequest,
    setup: &SetupArgs,
    environment: &Environment,
) -> Result<usize, ToolError> {
    let most = match wanted.max_results {
        Some(most) => most,
        None if is_per_file(args) => u64::MAX,
        None => load_config(setup, environment)?.search.default_max_results,
    };
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}

/// As ripgrep's: an error wins over matches. "No match" is only said by a search that looked everywhere.
fn status(response: &SearchResponse) -> u8 {
    match response.exit_code {
        _ if !response.errors.is_empty() => FAILED,
        Some(1) if response.timed_out || response.truncated => FAILED,
        Some(0) => 0,
        Some(1) => 1,
        _ => FAILED,
    }
}

/// Finds out what the path argument means. A person may name any path: one outside the root becomes a root
/// of its own, unless --root says where to stay.
pub(super) fn target(
    args: &QueryArgs,
    lists: bool,
    setup: &SetupArgs,
    environment: &Environment,
) -> Result<(Option<String>, Option<PathBuf>), ToolError> {
    let positional = positional(args, lists);
    if let Some(more) = positional.more {
        return Err(ToolError::bad_args(format!(
            "{} is one path too many: a search is of one file or directory; name a directory above them, and use \
             -g to choose from it",
            more.display()
        )));
    }
    let Some(path) = positional.path else {
        return Ok((None, None));
    };
    let text = path.to_str().map(str::to_string).ok_or_else(|| {
        ToolError::bad_args(format!(
            "path {} is not valid UTF-8; name a directory above it and use -g",
            path.display()
        ))
    })?;
    if setup.root.is_some() {
        return Ok((Some(text), None));
    }
    let absolute = environment.absolute(path)?;
    let Ok(canonical) = absolute.canonicalize() else {
        // The tool says what is wrong with it.
        return Ok((Some(text), None));
    };
    let working_dir = environment.absolute(Path::new("."))?;
    let working_dir = working_dir.canonicalize().unwrap_or(working_dir);
    if let Ok(inside) = canonical.strip_prefix(&working_dir) {
        // As a path that holds where absolute ones are not allowed.
        let inside = if inside.as_os_str().is_empty() {
            Path::new(".")
        } else {
            inside
        };
        return Ok((inside.to_str().map(str::to_string).or(Some(text)), None));
    }
    let root = if canonical.is_dir() {
        canonical.clone()
    } else {
        canonical.parent().unwrap_or(Path::new("/")).to_path_buf()
    };
    Ok((
        canonical.to_str().map(str::to_string).or(Some(text)),
        Some(root),
    ))
}

/// Makes a request of what is searched for and where, without limits; and globs that files have to match beside those of it. `lists` if nothing is
/// looked for.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn request(
    args: &QueryArgs,
    path: Option<String>,
    lists: bool,
    environment: &Environment,
) -> Result<(SearchRequest, Vec<String>), ToolError> {
    let (pattern, fixed_strings) = match lists {
        true => ("^".to_string(), false),
        false => pattern(args, environment)?,
    };
    let mut request = SearchRequest::new(pattern);
    request.path = path;
    request.case = match (args.ignore_case, args.case_sensitive) {
        (true, _) => Case::Insensitive,
        (_, true) => Case::Sensitive,
        _ => Case::Smart,
    };
    request.fixed_strings = fixed_strings;
    request.word_regexp = args.word_regexp;
    request.fuzzy = args.fuzzy;
    let (exclude, mut include): (Vec<String>, Vec<String>) = args
        .glob
        .iter()
        .cloned()
        .partition(|glob| glob.starts_with('!'));
    let mut and_glob = globs_of(&args.types)?;
    if include.is_empty() {
        // One list will do.
        std::mem::swap(&mut include, &mut and_glob);
    }
    request.include_glob = (!include.is_empty()).then_some(include);
    // First what takes something back.
    let mut excluded = globs_of(&args.types_not)?;
    excluded.extend(exclude.iter().map(|glob| glob[1..].to_string()));
    let exclude = excluded;
    request.exclude_glob = (!exclude.is_empty()).then_some(exclude);
    request.recursive = !args.no_recursive;
    request.hidden = args.hidden || args.unrestricted > 1;
    request.follow = args.follow;
    request.no_ignore = args.no_ignore || args.unrestricted > 0;
    request.validate()?;
    Ok((request, and_glob))
}

/// Adds the limits of a search.
fn limited(args: &SearchArgs, mut request: SearchRequest) -> Result<SearchRequest, ToolError> {
    request.max_results = args.max_results;
    request.max_matches_per_file = args.max_count;
    request.max_files = args.max_files;
    request.max_file_size_bytes = args.max_filesize;
    request.timeout_ms = args.timeout_ms;
    request.validate()?;
    Ok(request)
}

fn extras(args: &SearchArgs) -> SearchExtras {
    let side =
        |own: Option<u64>| usize::try_from(own.or(args.context).unwrap_or(0)).unwrap_or(usize::MAX);
    SearchExtras {
        context: Some((side(args.before_context), side(args.after_context))),
        ..SearchExtras::default()
    }
}

fn style(args: &SearchArgs, environment: &Environment) -> Style {
    let is_terminal = io::stdout().is_terminal();
    let fancy = match args.color {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal && !environment.plain,
    };
    let headings = is_terminal || args.color == When::Always;
    Style {
        color: fancy,
        headings: args.heading || (headings && !args.no_heading),
        links: (fancy && is_terminal && args.hyperlink_format.is_some())
            .then(|| (args.hyperlink_format.clone(), host())),
        raw: args.raw,
    }
}

/// Returns the name of this machine.
fn host() -> String {
    #[cfg(unix)]
    return rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    String::new()
}

fn print_json(response: &SearchResponse, out: &mut dyn Write) -> io::Result<()> {
    for record in &response.matches {
        serde_json::to_writer(&mut *out, record)?;
        out.write_all(b"\n")?;
    }
    let mut summary = json!({"type": "summary", "data": {
        "count": response.count,
        "truncated": response.truncated,
        "timed_out": response.timed_out,
        "files_scanned": response.files_scanned,
        "errors": response.errors,
        "exit_code": response.exit_code,
    }});
    if let Some(stats) = &response.stats {
        summary["data"]["stats"] = serde_json::to_value(stats)?;
    }
    writeln!(out, "{summary}")
}

/// Says on standard error what could not be read, what is missing, and with --stats what was done.
fn report(args: &SearchArgs, response: &SearchResponse, notes: &[String]) {
    for error in &response.errors {
        // A name is one line, whatever it holds.
        let path = escape_controls(&error.path);
        complain(&format!("{path}: {}", error.error));
    }
    if let Some(stderr) = &response.stderr {
        complain(&format!("the engine failed: {}", stderr.trim_end()));
    }
    for note in notes {
        complain(note);
    }
    if args.stats {
        complain(&format!(
            "{} shown, {} covered, {}",
            things(response.count as u64, "line"),
            things(response.files_scanned, "file"),
            things(response.errors.len() as u64, "error")
        ));
        if let Some(stats) = &response.stats {
            print_stats(stats, &mut io::stderr().lock());
        }
    }
}

/// Prints every field of the diagnostics, one a line. Where they can't be written, there is nobody left to tell.
fn print_stats(stats: &Stats, out: &mut dyn Write) {
    let or_none = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    let levels = stats.fuzzy_levels_tried.iter().map(u8::to_string);
    let levels = levels.collect::<Vec<_>>().join(" ");
    let mut fields = vec![
        ("stats_version", stats.stats_version.to_string()),
        ("index_safety_state", stats.index_safety_state.clone()),
        (
            "index_uncertain_reason",
            or_none(&stats.index_uncertain_reason),
        ),
        ("index_exclusion_used", yes(stats.index_exclusion_used)),
        ("storage_mode", stats.storage_mode.clone()),
        (
            "storage_fallback_reason",
            or_none(&stats.storage_fallback_reason),
        ),
        ("candidates_total", count(stats.candidates_total)),
        ("candidates_excluded", count(stats.candidates_excluded)),
        ("candidates_scanned", count(stats.candidates_scanned)),
        ("fallback_used", yes(stats.fallback_used)),
        ("fallback_reason", or_none(&stats.fallback_reason)),
        (
            "fuzzy_levels_tried",
            or_none(&Some(levels).filter(|levels| !levels.is_empty())),
        ),
    ];
    if stats.fallback_skipped_reason.is_some() {
        let why = or_none(&stats.fallback_skipped_reason);
        fields.push(("fallback_skipped_reason", why));
    }
    if stats.fallback_passes_skipped > 0 {
        let skipped = stats.fallback_passes_skipped.to_string();
        fields.push(("fallback_passes_skipped", skipped));
    }
    fields.push(("elapsed_ms", count(stats.elapsed_ms)));
    if let Some(build) = &stats.build {
        fields.extend([
            ("build_phase", build.build_phase.clone()),
            ("build_files_total", count(build.build_files_total)),
            ("build_files_done", count(build.build_files_done)),
            ("build_elapsed_ms", count(build.build_elapsed_ms)),
        ]);
    }
    for (name, value) in fields {
        let _ = writeln!(out, "  {name:<25}{value}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tool::response::{BuildStats, IndexUse};

    #[test]
    fn fr_lsi_bg_21_people_are_shown_how_far_a_build_is() {
        let shown = |build| {
            let mut stats = Stats::new(IndexUse::not_used(), 3, 0, Duration::ZERO);
            stats.build = build;
            let mut out = Vec::new();
            print_stats(&stats, &mut out);
            String::from_utf8(out).unwrap()
        };
        let without = shown(None);
        let with = shown(Some(BuildStats {
            build_phase: "TOKENIZE".to_string(),
            build_files_total: 78_495,
            build_files_done: 1_024,
            build_elapsed_ms: 950,
        }));
        assert!(!without.contains("build"), "{without}");
        let more = with.strip_prefix(&without).unwrap();
        let words: Vec<&str> = more.split_whitespace().collect();
        let expected = [
            "build_phase",
            "TOKENIZE",
            "build_files_total",
            "78,495",
            "build_files_done",
            "1,024",
            "build_elapsed_ms",
            "950",
        ];
        assert_eq!(words, expected);
    }
}
