//! The search of one file after the other, on one thread or on several.
//!
//! Owns how a file is read: as a whole or in blocks, through a decompression program, or through
//! the program of `--pre`. The crate `grep-searcher` matches, and the printer prints.
//!
//! ripgrep maps files into memory if only a few were named. This program reads such files as a
//! whole, which gives the same results: a NUL byte counts at the start of a file and in matches.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use grep_cli::{CommandReaderBuilder, DecompressionReaderBuilder};
use grep_printer::Stats;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink};
use ignore::WalkState;
use termcolor::{Buffer, BufferWriter, WriteColor};

use super::Failure;
use super::candidates::{self, Known, RuledOut};
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
    /// Files that need not be read.
    ruled_out: &'p RuledOut,
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
    /// Returns the result of a file of this size without a match.
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
    fn new(
        plan: &'p Plan,
        ruled_out: &'p RuledOut,
        matcher: RegexMatcher,
        output: W,
    ) -> Worker<'p, W> {
        let mut programs = CommandReaderBuilder::new();
        programs.async_stderr(true);
        let decompression = plan.args.search_zip.then(|| {
            let mut builder = DecompressionReaderBuilder::new();
            builder.async_stderr(true);
            builder
        });
        Worker {
            plan,
            ruled_out,
            matcher,
            searcher: plan.searcher(),
            printer: Printer::new(plan, output),
            programs,
            decompression,
            whole: Vec::new(),
        }
    }

    fn search(&mut self, haystack: &Haystack) -> io::Result<Searched> {
        if let Some(size) = self.ruled_out.size_of(haystack) {
            return Ok(Searched::without_match(self.plan, size));
        }
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
    let seen = match candidates::known(plan)? {
        Known::Files { files, others } => {
            let seen = over_known(plan, files, others, reporter, started)?;
            // The walk would find a file that is not read.
            let searched = seen.searched > 0
                || plan.paths.implicit && walk::sequence(plan, reporter).next().is_some();
            Seen {
                searched: searched.into(),
                ..seen
            }
        }
        Known::RuledOut(ruled_out) => by_walk(plan, &ruled_out, reporter, started)?,
        Known::Nothing(after) => {
            let seen = by_walk(plan, &RuledOut::default(), reporter, started)?;
            after.end(seen.searched);
            seen
        }
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

/// Searches the files that the walk finds.
fn by_walk(
    plan: &Plan,
    ruled_out: &RuledOut,
    reporter: &Reporter,
    started: Instant,
) -> Result<Seen, String> {
    if plan.threads > 1 {
        return in_parallel(plan, ruled_out, reporter, started);
    }
    // A sorted walk reports its errors before those of the patterns.
    let haystacks = walk::sequence(plan, reporter);
    let worker = Worker::new(
        plan,
        ruled_out,
        patterns::matcher(plan)?,
        print::stdout(plan),
    );
    one_by_one(haystacks, worker, Stats::new(), reporter, started)
}

/// Searches files on this thread, in the given order. Adds to the statistics of other files.
fn one_by_one(
    haystacks: impl Iterator<Item = Haystack>,
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
        match worker.search(&haystack) {
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

/// The search by several threads, each of which writes the results of one file at a time.
struct Parallel<'p> {
    plan: &'p Plan,
    reporter: &'p Reporter,
    buffers: BufferWriter,
    stats: Mutex<Stats>,
    searched: AtomicU64,
    matched: AtomicBool,
}

impl<'p> Parallel<'p> {
    fn new(plan: &'p Plan, stats: Stats, reporter: &'p Reporter) -> Parallel<'p> {
        Parallel {
            plan,
            reporter,
            buffers: print::buffers(plan),
            stats: Mutex::new(stats),
            searched: AtomicU64::new(0),
            matched: AtomicBool::new(false),
        }
    }

    /// Searches one file, and says whether the thread goes on.
    fn search(&self, worker: &mut Worker<'_, Buffer>, haystack: &Haystack) -> WalkState {
        self.searched.fetch_add(1, Ordering::Relaxed);
        worker.printer.output().clear();
        let result = match worker.search(haystack) {
            Ok(result) => result,
            Err(error) => {
                complain(self.reporter, haystack, &error);
                return WalkState::Continue;
            }
        };
        if result.has_match {
            self.matched.store(true, Ordering::Relaxed);
        }
        if let Some(stats) = &result.stats {
            *self.stats.lock().unwrap_or_else(PoisonError::into_inner) += stats;
        }
        match self.buffers.print(worker.printer.output()) {
            Err(error) if is_closed(&error) => return WalkState::Quit,
            Err(error) => complain(self.reporter, haystack, &error),
            Ok(()) => {}
        }
        if self.plan.stops_at_match && self.matched.load(Ordering::Relaxed) {
            return WalkState::Quit;
        }
        WalkState::Continue
    }

    fn end(&self, started: Instant) -> Seen {
        if self.plan.look.has_stats {
            let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
            let mut buffer = self.buffers.buffer();
            let printed = print::stats(self.plan, &stats, started.elapsed(), &mut buffer);
            // As above: a closed output is no error.
            let _ = printed.and_then(|()| self.buffers.print(&buffer));
        }
        Seen {
            searched: self.searched.load(Ordering::Relaxed),
            matched: self.matched.load(Ordering::Relaxed),
        }
    }
}

fn in_parallel(
    plan: &Plan,
    ruled_out: &RuledOut,
    reporter: &Reporter,
    started: Instant,
) -> Result<Seen, String> {
    let all = &Parallel::new(plan, Stats::new(), reporter);
    let first = Worker::new(
        plan,
        ruled_out,
        patterns::matcher(plan)?,
        all.buffers.buffer(),
    );
    walk::walk(plan, reporter).build_parallel().run(|| {
        let mut worker = first.clone();
        Box::new(move |found| match Haystack::of(found, plan, reporter) {
            Some(haystack) => all.search(&mut worker, &haystack),
            None => WalkState::Continue,
        })
    });
    Ok(all.end(started))
}

/// Searches the files that an index left, with as many threads as there is work for. Adds to the
/// statistics of the `others`.
fn over_known(
    plan: &Plan,
    files: Vec<Haystack>,
    others: Stats,
    reporter: &Reporter,
    started: Instant,
) -> Result<Seen, String> {
    let matcher = patterns::matcher(plan)?;
    let threads = plan.threads.min(files.len());
    let ruled_out = &RuledOut::default();
    if threads <= 1 {
        let files = walk::in_order(files, plan);
        let worker = Worker::new(plan, ruled_out, matcher, print::stdout(plan));
        return one_by_one(files, worker, others, reporter, started);
    }
    let all = &Parallel::new(plan, others, reporter);
    let first = Worker::new(plan, ruled_out, matcher, all.buffers.buffer());
    let (next, files) = (&AtomicUsize::new(0), &files);
    thread::scope(|scope| {
        for _ in 0..threads {
            let mut worker = first.clone();
            scope.spawn(move || {
                while let Some(haystack) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if all.search(&mut worker, haystack) == WalkState::Quit {
                        // No thread takes another file.
                        next.store(files.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(all.end(started))
}

/// Prints the paths of all files of the plan. Returns whether there are any.
pub(super) fn list(plan: &Plan, reporter: &Reporter) -> Result<bool, Failure> {
    match candidates::known(plan)? {
        Known::Files { files, .. } => print_paths(plan, walk::in_order(files, plan)),
        Known::RuledOut(_) | Known::Nothing(_) if plan.threads == 1 => {
            print_paths(plan, walk::sequence(plan, reporter))
        }
        Known::RuledOut(_) | Known::Nothing(_) => list_in_parallel(plan, reporter),
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
