//! `forge-search PATTERN`: a person's search.
//!
//! This module converts the arguments to a question (`args::question`), decides about standard
//! input (`input`), asks the daemon or this process (`answers::person_search`), and prints the
//! results in an output mode (`output`). It owns the notes about missing results and the exit
//! status.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::exec::answer::collect::Found;
use crate::exec::answer::line_sink::lossy;
use crate::exec::answer::listed::ListedFiles;
use crate::exec::answer::outcome::{FileAnswer, FileOutcome, Gaps};
use crate::exec::question::Question;
use crate::exec::question::query::Report;
use crate::exec::sources::types::all_types;
use crate::exec::stop::{Clock, SystemClock};
use crate::tool::answer_notes::notes_of;
use crate::tool::answering::Summary;
use crate::tool::cli::answers::person_search::PersonSearch;
use crate::tool::cli::args::question::{
    SearchedPath, add_output, fallback_of, query_question, refused, ripgreps_rule, searched_paths,
};
use crate::tool::cli::args::{SearchArgs, SortBy, When};
use crate::tool::cli::input::{self, Input};
use crate::tool::cli::output::{
    Counts, End, Json, Lines, Matches, Names, Output, Quiet, RgJson, ShownFile, Style, joined,
    shown_bytes, stats,
};
use crate::tool::cli::setup::{Environment, load_config};
use crate::tool::cli::{FAILED, Failure, complain};
use crate::tool::config::{Config, Origin};
use crate::tool::error::ToolError;
use crate::tool::notes::{Note, Reader};
use crate::tool::render::escape_controls;
use crate::tool::response::{ErrorEntry, Stats};
use crate::tool::searcher::to_usize;

/// Searches and prints the results.
pub(in crate::tool::cli) fn run(
    args: &SearchArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    if args.type_list {
        let mut out = BufWriter::new(io::stdout().lock());
        for one in all_types() {
            writeln!(out, "{}: {}", one.name(), one.globs().join(", "))?;
        }
        out.flush()?;
        return Ok(0);
    }
    let clock = SystemClock;
    let began = clock.now();
    let setup_args = args.query.setup(&args.setup);
    let config = load_config(&setup_args, environment)?;
    let paths = searched_paths(&args.query, args.files, &args.setup, environment)?;
    let input = input_of(args, paths.as_deref());
    let is_stdin_named = paths.is_none();
    let paths = paths.unwrap_or_default();
    let mut question = query_question(&args.query, &paths, args.files, &config, environment)?;
    add_output(&mut question, args, &config)?;
    match args.rg_json {
        true => question.files.binary = ripgreps_rule(&paths),
        // ripgrep's messages can't express approximate matches.
        false => question.fallback = fallback_of(&question, &config),
    }
    let style = style_of(args, &config, environment);
    let timeout = timeout_of(args, &config);
    let most = question.limits.max_results;
    let mut printer = Printer::new(args, style, paths, most);
    if printer.order.is_some() && !args.quiet {
        // Sorting may put any file first, so all results are needed.
        question.limits.max_results = u64::MAX;
    }
    if input == Input::Stdin {
        let summary = crate::tool::cli::input::stdin::search(&question, timeout, &mut |found| {
            printer.take(found)
        });
        let (summary, received_at) = summary.map_err(|error| in_flags(error, &question))?;
        if !received_at && !summary.timed_out() && !is_stdin_named {
            let why =
                "it is empty, so nothing was searched; name a path, such as ., to search files";
            printer.error("standard input".to_string(), why.to_string());
        }
        return printer.end(&question, &summary, args, clock.now() - began);
    }
    if input == Input::TreeBesideSilentPipe && !args.no_messages {
        complain(
            "standard input is a pipe without data, so the working directory is searched; give - to search standard input",
        );
    }
    // Flags such as `--threads` don't change answers, so a daemon without them can answer.
    let without_flags = if args.query.has_settings_of_a_process() {
        Some(load_config(&args.setup, environment)?)
    } else {
        None
    };
    let search = PersonSearch {
        question: &question,
        timeout,
        setup: &setup_args,
        config: &config,
        of_daemon: without_flags.as_ref().unwrap_or(&config),
        extra_roots: &printer.extra_roots(),
        environment,
        began,
    };
    let summary = search.answer(&mut |found| printer.take(found));
    if let (Err(Failure::Tool(_)), true) = (&summary, args.no_messages)
        && let [path] = &printer.paths[..]
        && std::fs::metadata(&path.absolute).is_err()
    {
        // The only path does not exist. `--no-messages` suppresses the message.
        return Ok(crate::tool::cli::FAILED);
    }
    let summary = summary.map_err(|error| match error {
        Failure::Tool(error) => in_flags(error, &question),
        other => other,
    })?;
    let status = printer.end(&question, &summary, args, clock.now() - began)?;
    // Check at the end, when a writer has had time to write.
    if input == Input::Root && !args.no_messages && input::is_unread() {
        complain(
            "standard input is not searched, since --root names a directory; give - to search standard input",
        );
    }
    Ok(status)
}

/// Decides which source the search reads.
fn input_of(args: &SearchArgs, paths: Option<&[SearchedPath]>) -> Input {
    let Some(paths) = paths else {
        return Input::Stdin;
    };
    let named = paths.iter().any(|path| path.asked.as_os_str() != ".");
    let is_taken = args.query.file.iter().any(|file| file.as_os_str() == "-");
    let has_path = named || !args.query.paths.is_empty() || names_a_path(args);
    if has_path || is_taken || args.files {
        return Input::Tree;
    }
    match args.setup.root {
        Some(_) => Input::Root,
        None => input::decide(),
    }
}

/// Returns whether the first positional argument is a path.
fn names_a_path(args: &SearchArgs) -> bool {
    let has_pattern = !args.query.regexp.is_empty() || !args.query.file.is_empty();
    has_pattern && args.query.pattern.is_some()
}

/// Converts the error of a question into a message of the command line.
pub(in crate::tool::cli) fn in_flags(error: ToolError, question: &Question) -> Failure {
    let again = match &error {
        ToolError::BadArgs { .. } => question.check(),
        _ => Ok(()),
    };
    match again {
        Err(asked) => Failure::Tool(refused(asked, question)),
        Ok(()) => Failure::Tool(error),
    }
}

/// Returns the time limit of the search. A person's search has no limit by default.
fn timeout_of(args: &SearchArgs, config: &Config) -> Option<Duration> {
    let configured = || match config.origin("tools.search.default_timeout_ms") {
        Origin::Default => None,
        _ => Some(config.search.default_timeout_ms),
    };
    args.timeout_ms
        .or_else(configured)
        .map(Duration::from_millis)
}

fn style_of(args: &SearchArgs, config: &Config, environment: &Environment) -> Style {
    let terminal = io::stdout().is_terminal();
    let color = args.color.applies(terminal && !environment.plain);
    let headings = terminal || args.color == When::Always;
    // The default limit is for agents only.
    let configured = match config.origin("tools.search.max_line_bytes") {
        Origin::Default => None,
        _ => Some(config.search.max_line_bytes),
    };
    let most = match (args.max_columns, configured) {
        (Some(0), _) | (None, None | Some(0)) => None,
        (Some(most), _) => Some(most),
        (None, Some(most)) => Some(to_usize(most)),
    };
    let sides = [args.context, args.before_context, args.after_context];
    Style {
        color,
        headings: args.heading || (headings && !args.no_heading),
        links: (color && terminal && args.hyperlink_format.is_some())
            .then(|| (args.hyperlink_format.clone(), host())),
        raw: args.raw,
        terminal,
        no_paths: args.no_filename,
        no_numbers: args.no_line_number,
        no_columns: args.no_column,
        null: args.null,
        max_line_bytes: most,
        trim: args.trim,
        has_context: sides.iter().flatten().any(|lines| *lines > 0),
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

fn output_of(args: &SearchArgs, style: Style) -> Box<dyn Output> {
    // Editors need whole lines without colours and links.
    let plain = Style {
        color: false,
        links: None,
        ..style.clone()
    };
    if args.quiet {
        Box::new(Quiet)
    } else if args.json {
        Box::new(Json::new(style.max_line_bytes))
    } else if args.rg_json {
        Box::new(RgJson::default())
    } else if args.files || args.files_with_matches {
        Box::new(Names::new(style))
    } else if args.count || args.count_matches {
        Box::new(Counts::new(style, args.counts_matches()))
    } else if args.only_matching {
        Box::new(Matches::alone(if args.vimgrep { plain } else { style }))
    } else if args.vimgrep {
        Box::new(Matches::in_lines(plain))
    } else {
        Box::new(Lines::new(style))
    }
}

/// Prints the results as they arrive, or sorted at the end.
struct Printer<'a> {
    output: Box<dyn Output>,
    out: BufWriter<io::StdoutLock<'a>>,
    paths: Vec<SearchedPath>,
    order: Option<(SortBy, bool)>,
    /// The results that are still to be sorted, and the maximum number of results.
    kept: Vec<FileAnswer>,
    most: u64,
    errors: Vec<ErrorEntry>,
    messages: bool,
    /// The error that made writing fail.
    failure: Option<io::Error>,
    /// Whether the first lines were flushed, so that a reader sees them early.
    has_begun: bool,
}

impl<'a> Printer<'a> {
    fn new(args: &SearchArgs, style: Style, paths: Vec<SearchedPath>, most: u64) -> Printer<'a> {
        Printer {
            output: output_of(args, style),
            out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
            paths,
            order: match (args.sortr, args.sort) {
                (Some(by), _) => Some((by, true)),
                (None, Some(SortBy::Modified)) => Some((SortBy::Modified, false)),
                (None, _) => None,
            },
            kept: Vec::new(),
            most,
            errors: Vec::new(),
            messages: !args.no_messages,
            failure: None,
            has_begun: false,
        }
    }

    fn extra_roots(&self) -> Vec<PathBuf> {
        let roots = self.paths.iter();
        roots.filter_map(|path| path.extra_root.clone()).collect()
    }

    /// Takes a part of the answer. Returns `Break` once writing has failed.
    fn take(&mut self, found: Found) -> ControlFlow<()> {
        match found {
            Found::Error(error) => {
                let path = self.shown(error.target, &error.path);
                self.error(lossy(&shown_bytes(&path)), error.message);
            }
            Found::File(file) if self.order.is_some() => self.kept.push(file),
            Found::File(file) => return self.printed(|printer| printer.print(&file)),
            Found::Listed(files) => return self.printed(|printer| printer.listed(&files)),
        }
        ControlFlow::Continue(())
    }

    /// Prints something. Returns `Break` if writing has failed.
    fn printed(&mut self, print: impl FnOnce(&mut Self) -> io::Result<()>) -> ControlFlow<()> {
        match print(self) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Prints listed files, or keeps them to be sorted.
    fn listed(&mut self, files: &ListedFiles) -> io::Result<()> {
        let mut file = FileAnswer {
            target: files.target,
            path: PathBuf::new(),
            outcome: FileOutcome::listed(),
        };
        for path in files.iter() {
            file.path.clear();
            file.path.push(&path);
            match self.order {
                Some(_) => self.kept.push(file.clone()),
                None => self.print(&file)?,
            }
        }
        Ok(())
    }

    fn error(&mut self, path: String, error: String) {
        if self.messages {
            // Escape the path, so that it stays on one line.
            complain(&format!("{}: {error}", escape_controls(&path)));
        }
        self.errors.push(ErrorEntry { path, error });
    }

    /// Returns the path of a file in the output.
    fn shown(&self, target: usize, path: &std::path::Path) -> PathBuf {
        match self.paths.get(target) {
            Some(searched) => joined(&searched.shown, path, searched.is_file),
            None => PathBuf::new(),
        }
    }

    fn print(&mut self, file: &FileAnswer) -> io::Result<()> {
        let path = self.shown(file.target, &file.path);
        let shown = ShownFile {
            path: &path,
            searched: self.paths.get(file.target),
            file,
        };
        self.output.file(&shown, &mut self.out)?;
        self.gaps(&path, file.outcome.gaps);
        if !self.has_begun {
            self.out.flush()?;
            self.has_begun = true;
        }
        Ok(())
    }

    /// Reports lines that are missing from a file, unless the output mode does so itself.
    fn gaps(&mut self, path: &std::path::Path, gaps: Gaps) {
        let name = || lossy(&shown_bytes(path));
        let is_named = || self.paths.iter().any(|one| one.shown == path);
        if let Some(size) = gaps.too_large.filter(|_| is_named()) {
            let why = format!("not searched: the file has {size} bytes, more than the limit");
            self.error(name(), why);
        }
        if let Some(binary) = gaps.binary.filter(|binary| binary.matches)
            && !self.output.tells_of_binary()
        {
            let nul = binary.nul;
            let why = format!(
                "binary file matches (found a zero byte at offset {nul}); lines from there on are not shown"
            );
            self.error(name(), why);
        }
    }

    /// Prints the end of the output and the notes, and returns the exit status.
    fn end(
        mut self,
        question: &Question,
        summary: &Summary,
        args: &SearchArgs,
        took: Duration,
    ) -> Result<u8, Failure> {
        let is_cut = self.print_sorted(question)?;
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        let mut remarks = Vec::new();
        for note in self.notes(question, summary, args, is_cut) {
            let text = note.text(Reader::Person);
            if !self.output.note(&text, &mut self.out)? {
                remarks.push(text);
            }
        }
        let status = status(summary, &self.errors, args);
        let stats = args.stats.then(|| stats_of(question, summary, took));
        let end = End {
            run: &summary.run,
            timed_out: summary.timed_out(),
            errors: &self.errors,
            stats: stats.as_ref(),
            took,
            status,
        };
        self.output.end(&end, &mut self.out)?;
        self.out.flush()?;
        drop(self.out);
        if let Some(failure) = &summary.run.failure {
            complain(&format!("the engine failed: {failure}"));
        }
        remarks.iter().for_each(|text| remark(text));
        if let Some(stats) = &stats {
            stats::report(summary, self.errors.len(), stats);
        }
        Ok(status)
    }

    /// Returns the notes about the answer as a whole.
    fn notes(
        &self,
        question: &Question,
        summary: &Summary,
        args: &SearchArgs,
        is_cut: bool,
    ) -> Vec<Note> {
        if args.quiet && summary.run.totals.results > 0 {
            return Vec::new();
        }
        let timeout = args.timeout_ms.map(Duration::from_millis);
        let all = notes_of(question, summary, timeout);
        let all = all.into_iter().filter(|note| !is_asked_for(note, args));
        let cut = is_cut.then_some(Note::MaxResults(self.most));
        cut.into_iter().chain(all).collect()
    }

    /// Prints the kept results in sorted order. Returns true if some results exceed the maximum.
    fn print_sorted(&mut self, question: &Question) -> io::Result<bool> {
        let Some((by, reversed)) = self.order else {
            return Ok(false);
        };
        let mut kept = std::mem::take(&mut self.kept);
        if by == SortBy::Modified {
            let modified = |file: &FileAnswer| -> Option<SystemTime> {
                let searched = self.paths.get(file.target)?;
                // A file that no longer exists sorts first.
                let path = joined(&searched.absolute, &file.path, searched.is_file);
                path.metadata().and_then(|meta| meta.modified()).ok()
            };
            kept.sort_by_cached_key(modified);
        }
        if reversed {
            kept.reverse();
        }
        let mut room = self.most;
        for mut file in kept {
            let results = match question.shown.report {
                Report::Lines => file.outcome.lines.len() as u64,
                _ => u64::from(file.outcome.has_match()),
            };
            if results > room {
                let left = to_usize(room);
                file.outcome.lines.truncate(left);
                if left > 0 && question.shown.report == Report::Lines {
                    self.print(&file)?;
                }
                return Ok(true);
            }
            room -= results;
            self.print(&file)?;
        }
        Ok(false)
    }
}

/// Returns whether the user set this limit on purpose, so that no note is necessary.
fn is_asked_for(note: &Note, args: &SearchArgs) -> bool {
    match note {
        // JSON has a field for the limit. Text output omits the note, as ripgrep does.
        Note::MaxMatchesPerFile(_) => args.max_count.is_some() && !args.json,
        Note::MaxDepth(_) => true,
        Note::MaxResults(_) => args.quiet,
        _ => false,
    }
}

/// Prints a note to standard error in brackets, without the program's name: it is no error.
fn remark(text: &str) {
    // Write errors are ignored: there is no other place to report them.
    let _ = writeln!(io::stderr(), "[{}]", escape_controls(text));
}

/// Returns the exit status, by ripgrep's rules: errors take precedence over matches. The status "no
/// match" requires a complete search.
fn status(summary: &Summary, errors: &[ErrorEntry], args: &SearchArgs) -> u8 {
    let run = &summary.run;
    // With `--rg-json`, a match after a zero byte does not count, as in ripgrep.
    let has_match = match args.rg_json {
        true => run.totals.results > 0,
        false => run.totals.matched_files > 0,
    };
    let is_cut = run.cuts.max_results || run.cuts.max_files || summary.timed_out();
    let hides = run.totals.files_too_large > 0 && args.query.max_filesize.is_none();
    if args.quiet && has_match {
        // With `--quiet`, one match decides.
        return 0;
    }
    if !errors.is_empty() || run.failure.is_some() {
        return FAILED;
    }
    match (has_match, is_cut || hides) {
        (true, _) => 0,
        (false, true) => FAILED,
        (false, false) => 1,
    }
}

fn stats_of(question: &Question, summary: &Summary, took: Duration) -> Stats {
    let totals = &summary.run.totals;
    let (scanned, excluded) = (totals.files_scanned, totals.files_excluded);
    Stats {
        files_too_large: totals.files_too_large,
        ..Stats::new(summary.index.clone(), scanned, excluded, took)
            .with_fallback(summary.fallback.to_use(question))
    }
}
