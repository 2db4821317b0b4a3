//! The search of one file after the other.
//!
//! This module owns how a file is read: as a whole or in blocks, through a decompression program,
//! or through the program of `--pre`. The crate `grep-searcher` matches, and the printer prints.
//!
//! ripgrep maps files into memory if only a few were named. This program reads such files as a
//! whole, which gives the same results: a NUL byte counts at the start of a file and in matches.

mod parallel;

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use grep_cli::{CommandReaderBuilder, DecompressionReaderBuilder};
use grep_printer::Stats;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink};
use ignore::WalkState;
use termcolor::WriteColor;

use super::Failure;
use super::candidates::{self, Known};
use super::feed::SkippedByWalk;
use super::messages::Reporter;
use super::patterns;
use super::plan::Plan;
use super::print::{self, Printer};
use super::walk::{self, Haystack};
use crate::exec::process;

/// The size of the largest file that is read as a whole where ripgrep maps it. Larger ones are read
/// in blocks.
const MOST_WHOLE: u64 = 64 << 20;

/// The number of paths that may wait to be printed.
const WAITING_PATHS: usize = 4096;

/// The search of files by one thread.
#[derive(Clone)]
struct Worker<'p, W> {
    plan: &'p Plan,
    matcher: RegexMatcher,
    searcher: Searcher,
    printer: Printer<W>,
    /// Runs the program of `--pre`.
    programs: CommandReaderBuilder,
    /// Decompresses files, if `--search-zip` is given.
    decompression: Option<DecompressionReaderBuilder>,
    /// The last file that was read as a whole. Its memory is used again.
    whole: Vec<u8>,
}

/// The result of one file.
struct Searched {
    has_match: bool,
    stats: Option<Stats>,
}

impl Searched {
    /// Returns the result of a file without a match.
    fn without_match(plan: &Plan, size: u64) -> Searched {
        Searched {
            has_match: false,
            stats: plan.look.has_stats.then(|| {
                let mut stats = Stats::new();
                stats.add_searches(1);
                stats.add_bytes_searched(size);
                stats
            }),
        }
    }
}

/// The bytes to search.
enum Input<'a> {
    /// A file, in blocks.
    File(&'a File),
    /// A whole file.
    Bytes(&'a [u8]),
    /// The output of a program, or standard input.
    Stream(&'a mut dyn Read),
}

impl<'p, W: WriteColor> Worker<'p, W> {
    fn new(plan: &'p Plan, matcher: RegexMatcher, output: W) -> Worker<'p, W> {
        let mut programs = CommandReaderBuilder::new();
        programs.async_stderr(true);
        let decompression = plan.args.search_zip.then(|| {
            let mut builder = DecompressionReaderBuilder::new();
            builder.async_stderr(true);
            builder
        });
        Worker {
            plan,
            matcher,
            searcher: plan.searcher(),
            printer: Printer::new(plan, output),
            programs,
            decompression,
            whole: Vec::new(),
        }
    }

    fn search(&mut self, haystack: &Haystack) -> io::Result<Searched> {
        let path = haystack.path();
        let (named, found) = &self.plan.binary;
        let detection = if haystack.is_named() { named } else { found };
        self.searcher.set_binary_detection(detection.clone());
        if haystack.is_stdin() {
            return self.search_input(path, Input::Stream(&mut io::stdin().lock()));
        }
        if let Some(program) = self
            .plan
            .args
            .pre
            .as_deref()
            .filter(|_| self.is_preprocessed(path))
        {
            return self.search_output(path, program);
        }
        let is_compressed =
            |builder: &&DecompressionReaderBuilder| builder.get_matcher().has_command(path);
        if let Some(builder) = self.decompression.as_ref().filter(is_compressed) {
            let mut reader = builder.build(path)?;
            let searched = self.search_input(path, Input::Stream(&mut reader));
            let closed = reader.close();
            return searched.and_then(|searched| closed.map(|()| searched));
        }
        let mut file = File::open(path)?;
        if !self.is_read_whole(&file) {
            return self.search_input(path, Input::File(&file));
        }
        let mut bytes = mem::take(&mut self.whole);
        bytes.clear();
        let searched = file
            .read_to_end(&mut bytes)
            .and_then(|_| self.search_input(path, Input::Bytes(&bytes)));
        self.whole = bytes;
        searched
    }

    fn is_preprocessed(&self, path: &Path) -> bool {
        let globs = &self.plan.pre_globs;
        globs.is_empty() || !globs.matched(path, false).is_ignore()
    }

    /// Searches the output of a program that gets a file.
    fn search_output(&mut self, path: &Path, program: &Path) -> io::Result<Searched> {
        let mut command = process::for_reader(program, Some(path))?;
        let failed = |what: &str, command: &dyn std::fmt::Debug, error: &dyn std::fmt::Display| {
            io::Error::other(format!(
                "preprocessor command {what}: '{command:?}': {error}"
            ))
        };
        let mut reader = self
            .programs
            .build(&mut command)
            .map_err(|error| failed("could not start", &command, &error))?;
        let searched = self
            .search_input(path, Input::Stream(&mut reader))
            .map_err(|error| failed("failed", &command, &error));
        let closed = reader.close();
        searched.and_then(|searched| closed.map(|()| searched))
    }

    /// Returns whether ripgrep would map the file. A file without a size may be one of the kernel,
    /// which can't be mapped.
    fn is_read_whole(&self, file: &File) -> bool {
        let size = |meta: Metadata| meta.is_file().then_some(meta.len());
        let size = file
            .metadata()
            .ok()
            .filter(|_| self.plan.maps)
            .and_then(size);
        size.is_some_and(|size| (1..=MOST_WHOLE).contains(&size))
    }

    fn search_input(&mut self, path: &Path, input: Input<'_>) -> io::Result<Searched> {
        let (searcher, matcher) = (&mut self.searcher, &self.matcher);
        match &mut self.printer {
            Printer::Lines(printer) => {
                let mut sink = printer.sink_with_path(matcher, path);
                feed(searcher, matcher, input, &mut sink)?;
                Ok(Searched {
                    has_match: sink.has_match(),
                    stats: sink.stats().cloned(),
                })
            }
            Printer::Summary(printer) => {
                let mut sink = printer.sink_with_path(matcher, path);
                feed(searcher, matcher, input, &mut sink)?;
                Ok(Searched {
                    has_match: sink.has_match(),
                    stats: sink.stats().cloned(),
                })
            }
            Printer::Json(printer) => {
                let mut sink = printer.sink_with_path(matcher, path);
                feed(searcher, matcher, input, &mut sink)?;
                Ok(Searched {
                    has_match: sink.has_match(),
                    stats: Some(sink.stats().clone()),
                })
            }
        }
    }
}

fn feed<S: Sink<Error = io::Error>>(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    input: Input<'_>,
    sink: &mut S,
) -> io::Result<()> {
    match input {
        Input::File(file) => searcher.search_file(matcher, file, sink),
        Input::Bytes(bytes) => searcher.search_slice(matcher, bytes, sink),
        Input::Stream(stream) => searcher.search_reader(matcher, stream, sink),
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn complain(reporter: &Reporter, haystack: &Haystack, error: &io::Error) {
    reporter.error(&format!("{}: {error}", haystack.path().display()));
}

/// Searches all files of the plan. Returns whether a file has a match.
///
/// # Errors
///
/// A message if a pattern can't be compiled, and a signal.
pub(super) fn run(plan: &Plan, reporter: &Reporter, started: Instant) -> Result<bool, Failure> {
    let seen = match plan.threads > 1 {
        true => parallel::in_parallel(plan, reporter, started)?,
        false => on_this_thread(plan, reporter, started)?,
    };
    if plan.paths.implicit && seen.searched == 0 {
        // Clients look for this text, which is ripgrep's.
        reporter.error(
            "No files were searched, which means ripgrep probably applied a filter you didn't \
             expect.\nRunning with --debug will show why files are being skipped.",
        );
    }
    Ok(seen.matched)
}

/// The outcome of all files.
struct Seen {
    /// The number of searched files.
    searched: u64,
    /// A file has a match.
    matched: bool,
}

impl Seen {
    /// Completes the outcome of a search without a walk. If no file was read, looks whether a walk
    /// finds one. If so, ripgrep has no warning that no file was searched.
    fn of_index(self, plan: &Plan, reporter: &Reporter) -> Seen {
        let is_any = self.searched > 0
            || plan.paths.implicit && walk::sequence(plan, reporter).next().is_some();
        Seen {
            searched: is_any.into(),
            ..self
        }
    }
}

/// Asks for all files, and then searches them on this thread.
fn on_this_thread(plan: &Plan, reporter: &Reporter, started: Instant) -> Result<Seen, Failure> {
    let (known, listed) = candidates::all_known(plan)?;
    let search = |haystacks: Box<dyn Iterator<Item = Haystack> + '_>, skipped, others| {
        let worker = Worker::new(plan, patterns::matcher(plan)?, print::stdout(plan));
        one_by_one(haystacks, skipped, worker, others, reporter, started)
    };
    match known {
        Known::Files { others } => {
            let files = walk::in_order(listed, plan);
            Ok(search(files, &SkippedByWalk::default(), others)?.of_index(plan, reporter))
        }
        // The listed files are not searched yet, so the walk searches them too.
        Known::Walk(skipped, after) => {
            // A sorted walk reports its errors before those of the patterns.
            let files = walk::sequence(plan, reporter);
            let seen = search(files, &skipped, Stats::new())?;
            after.end(seen.searched);
            Ok(seen)
        }
    }
}

/// Searches files on this thread, in the given order. Adds to the statistics of other files.
fn one_by_one(
    haystacks: impl Iterator<Item = Haystack>,
    skipped: &SkippedByWalk,
    mut worker: Worker<'_, grep_cli::StandardStream>,
    mut stats: Stats,
    reporter: &Reporter,
    started: Instant,
) -> Result<Seen, String> {
    let plan = worker.plan;
    let mut seen = Seen {
        searched: 0,
        matched: false,
    };
    for haystack in haystacks {
        seen.searched += 1;
        let searched = match skipped.size_of(&haystack) {
            Some(size) => Ok(Searched::without_match(plan, size)),
            None => worker.search(&haystack),
        };
        match searched {
            Ok(searched) => {
                seen.matched |= searched.has_match;
                if let Some(more) = &searched.stats {
                    stats += more;
                }
            }
            Err(error) if is_closed(&error) => break,
            Err(error) => complain(reporter, &haystack, &error),
        }
        if seen.matched && plan.stops_at_match {
            break;
        }
    }
    if plan.look.has_stats {
        // An output that can't be written ends the search without a message, as a closed pipe does.
        let _ = print::stats(plan, &stats, started.elapsed(), worker.printer.output());
    }
    Ok(seen)
}

/// Prints the paths of all files of the plan. Returns whether there are any.
pub(super) fn list(plan: &Plan, reporter: &Reporter) -> Result<bool, Failure> {
    let (known, listed) = candidates::all_known(plan)?;
    match known {
        Known::Files { .. } => print_paths(plan, walk::in_order(listed, plan)),
        Known::Walk(..) if plan.threads == 1 => print_paths(plan, walk::sequence(plan, reporter)),
        Known::Walk(..) => list_in_parallel(plan, reporter),
    }
}

fn list_in_parallel(plan: &Plan, reporter: &Reporter) -> Result<bool, Failure> {
    let mut printer = print::paths(plan);
    let found = &AtomicBool::new(false);
    let (sender, receiver) = mpsc::sync_channel::<Haystack>(WAITING_PATHS);
    let printed = thread::scope(|scope| {
        let printing = scope.spawn(move || -> io::Result<()> {
            for haystack in receiver {
                printer.write(haystack.path())?;
            }
            Ok(())
        });
        walk::walk(plan, reporter).build_parallel().run(|| {
            let sender = sender.clone();
            Box::new(move |entry| {
                let Some(haystack) = Haystack::of(entry, plan, reporter) else {
                    return WalkState::Continue;
                };
                found.store(true, Ordering::Relaxed);
                // The printer goes away if the output can't be written.
                if plan.stops_at_match || sender.send(haystack).is_err() {
                    return WalkState::Quit;
                }
                WalkState::Continue
            })
        });
        drop(sender);
        printing.join()
    });
    match printed {
        Ok(Err(error)) if !is_closed(&error) => Err(Failure::Output(error)),
        _ => Ok(found.load(Ordering::Relaxed)),
    }
}

fn print_paths(plan: &Plan, haystacks: impl Iterator<Item = Haystack>) -> Result<bool, Failure> {
    let mut printer = print::paths(plan);
    let mut found = false;
    for haystack in haystacks {
        found = true;
        if plan.stops_at_match {
            break;
        }
        match printer.write(haystack.path()) {
            Err(error) if is_closed(&error) => break,
            Err(error) => return Err(Failure::Output(error)),
            Ok(()) => {}
        }
    }
    Ok(found)
}
