//! `forge-search PATTERN`: a search for people.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::{SearchArgs, When};
use super::printer::{Printer, Style};
use super::setup::{Environment, prepare};
use super::{FAILED, Failure, complain};
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use crate::tool::request::{Case, SearchRequest};
use crate::tool::response::SearchResponse;
use crate::tool::search::SearchExtras;

/// Searches and prints.
pub(super) fn run(args: &SearchArgs, environment: &Environment) -> Result<u8, Failure> {
    if let Some(more) = args.more.first() {
        return Err(ToolError::bad_args(format!(
            "{} is one path too many: a search is of one file or directory; name a directory above them, and use \
             -g to choose from it",
            more.display()
        ))
        .into());
    }
    let (path, extra_root) = target(args, environment)?;
    let request = request(args, path)?;
    let setup = prepare(&args.setup, environment, extra_root.as_deref())?;
    let search = || {
        setup
            .tool
            .search_with(&request, extras(args), &setup.context)
    };
    let response = setup
        .signals
        .while_calling(search)
        .map_err(|error| setup.signals.failure(error))?;

    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        print_json(&response, &mut out)?;
    } else {
        let style = style(args, environment);
        let has_context = extras(args).context != Some((0, 0));
        Printer::new(style, &request, has_context, &setup.root).print(&response, &mut out)?;
    }
    out.flush()?;
    drop(out);
    report(args, &response);
    Ok(status(&response))
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
fn target(
    args: &SearchArgs,
    environment: &Environment,
) -> Result<(Option<String>, Option<PathBuf>), ToolError> {
    let Some(path) = &args.path else {
        return Ok((None, None));
    };
    let text = path.to_str().map(str::to_string).ok_or_else(|| {
        ToolError::bad_args(format!(
            "path {} is not valid UTF-8; name a directory above it and use -g",
            path.display()
        ))
    })?;
    if args.setup.root.is_some() {
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

fn request(args: &SearchArgs, path: Option<String>) -> Result<SearchRequest, ToolError> {
    let mut request = SearchRequest::new(args.pattern.clone().unwrap_or_default());
    request.path = path;
    request.case = match (args.ignore_case, args.case_sensitive) {
        (true, _) => Case::Insensitive,
        (_, true) => Case::Sensitive,
        _ => Case::Smart,
    };
    request.fixed_strings = args.fixed_strings;
    request.word_regexp = args.word_regexp;
    let (exclude, include): (Vec<String>, Vec<String>) = args
        .glob
        .iter()
        .cloned()
        .partition(|glob| glob.starts_with('!'));
    request.include_glob = (!include.is_empty()).then_some(include);
    let exclude: Vec<String> = exclude.iter().map(|glob| glob[1..].to_string()).collect();
    request.exclude_glob = (!exclude.is_empty()).then_some(exclude);
    request.recursive = !args.no_recursive;
    request.hidden = args.hidden;
    request.follow = args.follow;
    request.no_ignore = args.no_ignore;
    request.max_results = args.max_results;
    request.max_matches_per_file = args.max_count;
    request.max_files = args.max_files;
    request.max_file_size_bytes = args.max_filesize;
    request.timeout_ms = args.timeout_ms;
    request.fuzzy = args.fuzzy;
    request.validate()?;
    Ok(request)
}

fn extras(args: &SearchArgs) -> SearchExtras {
    let side =
        |own: Option<u64>| usize::try_from(own.or(args.context).unwrap_or(0)).unwrap_or(usize::MAX);
    SearchExtras {
        context: Some((side(args.before_context), side(args.after_context))),
    }
}

fn style(args: &SearchArgs, environment: &Environment) -> Style {
    let terminal = match args.color {
        When::Always => true,
        When::Never => {
            return Style {
                headings: io::stdout().is_terminal(),
                ..Style::plain(args.raw)
            };
        }
        When::Auto => io::stdout().is_terminal(),
    };
    let fancy = terminal && (args.color == When::Always || !environment.plain);
    Style {
        color: fancy,
        headings: terminal,
        links: fancy && io::stdout().is_terminal(),
        raw: args.raw,
    }
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
fn report(args: &SearchArgs, response: &SearchResponse) {
    for error in &response.errors {
        // A name is one line, whatever it holds.
        let path = escape_controls(&error.path);
        complain(&format!("{path}: {}", error.error));
    }
    if let Some(stderr) = &response.stderr {
        complain(&format!("the engine failed: {}", stderr.trim_end()));
    }
    // After one line for each event, `content` says what cut it off.
    for note in response.content.lines().skip(response.count) {
        complain(note.trim_matches(['[', ']']));
    }
    if args.stats {
        complain(&format!(
            "{} lines shown, {} files searched, {} errors",
            response.count,
            response.files_scanned,
            response.errors.len()
        ));
        if let Some(stats) = &response.stats {
            complain(&serde_json::to_string(stats).unwrap_or_default());
        }
    }
}
