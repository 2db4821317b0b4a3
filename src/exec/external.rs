//! Searching batches of files with an external program: [`ripgrep`] or [`ugrep`], which [`detect`]
//! finds.
//!
//! This module owns the parts that the external engines share: which files a program gets, how it
//! gets them, and how its reports become outcomes in the order of the batch. A program gets
//! explicit files as arguments, in order, as many at once as the system allows. It only reports
//! lines, in any order.
//!
//! Every reported line is confirmed from bytes that are read here, through the safe open of
//! [`EligibleFile`]. The engines for ripgrep and ugrep choose the arguments. `superset` writes the
//! expression, `report_parser` parses the output, `reports` collects it, and `confirm` checks each
//! line. [`exit`] classifies how a program ended.

pub(in crate::exec) mod confirm;
pub mod detect;
pub mod exit;
mod report_parser;
mod reports;
pub mod ripgrep;
mod superset;
pub mod ugrep;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::exec::answer::outcome::FileOutcome;
use crate::exec::engine::embedded::FileSearcher;
use crate::exec::engine::{Batching, EngineError, Prepared, Worker};
use crate::exec::external::confirm::LineSelection;
use crate::exec::external::detect::{Tool, Version};
use crate::exec::external::exit::{Completion, Exit, RunObservations, classify};
use crate::exec::external::report_parser::{Format, ReportError, ReportParser};
use crate::exec::external::superset::ARGUMENT_LIMIT;
use crate::exec::matching::matcher::LineMatcher;
use crate::exec::process::{self, Invocation, RunEnd, StopConditions};
use crate::exec::question::query::Query;
use crate::exec::sources::eligible::EligibleFile;
use crate::exec::stop::{Stop, StopReason};
use crate::index::text::utf16_mark;

use self::reports::{FileReport, Ordered, Reports};

/// Starting a program takes some milliseconds, so a task holds many files. But their paths should
/// fit into about one argument list.
const BATCHING: Batching = Batching {
    min_files: 64,
    max_files: 2000,
};

/// The most bytes of arguments for one run, including the system's pointers to them. Linux allows a
/// quarter of the stack's limit, 2 MiB by default; macOS 1 MiB; Windows 32,767 characters.
const ARGUMENTS_LIMIT: usize = if cfg!(windows) { 30_000 } else { 960_000 };

/// The length of an argument list that every system must accept. Shorter lists are not tried.
const ARGUMENTS_FLOOR: usize = ARGUMENT_LIMIT + (16 << 10);

/// The most bytes of files in one run of a program, unless a single file has more. Outcomes are
/// only known when the program has ended, so a call that runs out of time loses at most one run.
const CONTENT_LIMIT: u64 = 64 << 20;

/// The same limit for reports that include the matched text, which is kept in memory.
const PLACED_CONTENT_LIMIT: u64 = 2 << 20;

/// The most lines that are reported of one file. Later lines are searched in process.
const REPORT_LIMIT: u64 = 20_000;

/// Extra lines to report, because some reported lines are not confirmed.
const SLACK: u64 = 16;

/// The bytes of an argument besides its text: its end and the pointer to it.
const PER_ARGUMENT: usize = 9;

/// An external program and its arguments.
#[derive(Debug)]
pub(crate) struct External {
    /// The kind of program.
    pub(crate) tool: Tool,
    /// The version of the program.
    pub(crate) version: Version,
    /// The path of the program.
    pub(crate) program: PathBuf,
    /// The arguments before the files, with the expression and `--`. `None` if no line can match.
    pub(crate) flags: Option<Vec<OsString>>,
    /// The format of its reports.
    pub(crate) format: Format,
    /// The most reported lines that are kept of a file.
    pub(crate) lines_per_file: u64,
}

impl External {
    /// Returns how many lines of a file are worth reporting. Approximate matches can't be found in
    /// process, so for them every line that can be shown is reported.
    pub(crate) fn lines_worth_reporting(query: &Query, format: Format) -> u64 {
        let needed = query
            .max_matches_per_file
            .min(query.max_results_per_file() as u64)
            .saturating_add(SLACK);
        match format {
            Format::Placed => needed.min(1 << 30),
            Format::Noted | Format::Plain => needed.min(REPORT_LIMIT),
        }
    }

    fn failed(&self, what: &str, stderr: Option<String>) -> EngineError {
        EngineError::Failed {
            message: format!(
                "{} {} ({}) failed: {what}; run it by hand to see why, or configure the engine \
                 embedded, which needs no other program",
                self.tool,
                self.version,
                self.program.display()
            ),
            stderr: stderr.filter(|text| !text.is_empty()),
        }
    }
}

/// A query that an external program searches for.
pub(crate) struct PreparedExternal {
    /// The query to search for.
    pub(crate) query: Arc<Query>,
    /// The matcher that confirms reported lines.
    pub(crate) matcher: LineMatcher,
    /// The program and its arguments.
    pub(crate) external: Arc<External>,
}

impl Prepared for PreparedExternal {
    fn batching(&self) -> Batching {
        BATCHING
    }

    fn worker(&self, stop: Stop) -> Box<dyn Worker> {
        Box::new(ExternalWorker {
            external: self.external.clone(),
            query: self.query.clone(),
            searcher: FileSearcher::new(self.query.clone(), &self.matcher, stop.clone()),
            stop,
            arguments_limit: ARGUMENTS_LIMIT,
        })
    }
}

struct ExternalWorker {
    external: Arc<External>,
    query: Arc<Query>,
    searcher: FileSearcher,
    stop: Stop,
    arguments_limit: usize,
}

/// How a file gets its outcome.
#[derive(Debug)]
enum Plan {
    /// The outcome is known already.
    Known(FileOutcome),
    /// This process searches the file.
    Here,
    /// The program searches the file.
    Ask,
}

/// Files for one run of the program.
#[derive(Debug, Default)]
struct Chunk {
    /// One plan for each file.
    plans: Vec<Plan>,
    /// The files for the program: the number of the file in the chunk, and its path.
    asked: Vec<(usize, OsString)>,
}

impl Worker for ExternalWorker {
    fn search(
        &mut self,
        files: &[EligibleFile],
        emit: &mut dyn FnMut(usize, FileOutcome),
    ) -> Result<(), EngineError> {
        let mut from = 0;
        while from < files.len() && !self.stop.is_raised() {
            let chunk = self.chunk(&files[from..]);
            let count = chunk.plans.len();
            let run = Run {
                external: &self.external,
                searcher: &mut self.searcher,
                stop: &self.stop,
                files: &files[from..from + count],
                plans: chunk.plans,
                emit: &mut |n, outcome| emit(from + n, outcome),
            };
            match run.search(chunk.asked)? {
                Searched::All => from += count,
                Searched::Stopped => break,
                // No file was searched yet, so the same files are tried with a shorter list.
                Searched::TooLong if self.arguments_limit > ARGUMENTS_FLOOR => {
                    self.arguments_limit = (self.arguments_limit / 2).max(ARGUMENTS_FLOOR);
                }
                Searched::TooLong => {
                    let what = "the system accepts no argument list of useful length";
                    return Err(self.external.failed(what, None));
                }
            }
        }
        Ok(())
    }
}

impl ExternalWorker {
    /// Plans as many files, from the first on, as one run can take.
    fn chunk(&self, files: &[EligibleFile]) -> Chunk {
        let mut chunk = Chunk::default();
        let flags = self.external.flags.as_deref().unwrap_or_default();
        let mut bytes: usize = flags.iter().map(|flag| flag.len() + PER_ARGUMENT).sum();
        bytes += self.external.program.as_os_str().len() + PER_ARGUMENT;
        let content_limit = match self.external.format {
            Format::Placed => PLACED_CONTENT_LIMIT,
            Format::Noted | Format::Plain => CONTENT_LIMIT,
        };
        let mut content = 0;
        for file in files {
            if self.stop.is_raised() {
                break;
            }
            let (mut plan, len) = self.plan(file);
            if let Plan::Ask = plan {
                let path = file.absolute().into_os_string();
                bytes += path.len() + PER_ARGUMENT;
                content += len;
                let is_full = bytes > self.arguments_limit || content > content_limit;
                if is_full && !chunk.asked.is_empty() {
                    break;
                }
                if path.len() > ARGUMENT_LIMIT {
                    plan = self.instead("the path is too long to be passed to the program");
                } else {
                    chunk.asked.push((chunk.plans.len(), path));
                }
            }
            chunk.plans.push(plan);
        }
        self.split_duplicates(&mut chunk);
        chunk
    }

    /// Decides how a file is searched, and returns its length. Costs one open and one small read.
    fn plan(&self, file: &EligibleFile) -> (Plan, u64) {
        let (mut opened, meta) = match file.open() {
            Ok(opened) => opened,
            Err(error) => return (Plan::Known(FileOutcome::failed(error.to_string())), 0),
        };
        let known = if self.query.leaves_out(file, &meta) {
            Some(FileOutcome::nothing())
        } else if meta.len > self.query.max_file_size {
            Some(FileOutcome::too_large(meta.len))
        } else {
            let nothing = FileOutcome::nothing;
            self.external.flags.is_none().then(nothing)
        };
        if let Some(outcome) = known {
            return (Plan::Known(outcome), meta.len);
        }
        // Programs decode UTF-16 in their own ways, so such files are searched here. If the read
        // fails, the search here reports why.
        let mut head = [0; 2];
        let is_ripgreps = self.query.binary.is_ripgreps();
        let plan = match self.external.format {
            Format::Placed => Plan::Ask,
            // Under ripgrep's rule, NUL bytes may end lines in a named file. The program counts
            // lines without them.
            _ if is_ripgreps && file.is_named => Plan::Here,
            Format::Noted | Format::Plain => match opened.read(&mut head) {
                Ok(n) if utf16_mark(&head[..n]).is_none() => Plan::Ask,
                _ => Plan::Here,
            },
        };
        (plan, meta.len)
    }

    /// Returns the plan for a file that can't be given to the program.
    fn instead(&self, why: &str) -> Plan {
        match self.external.format {
            Format::Placed => Plan::Known(FileOutcome::failed(why.to_string())),
            _ => Plan::Here,
        }
    }

    /// Ensures that no path is given to the program twice, because reports name files by their
    /// paths. A file is twice in a batch if it was reached through a link, too.
    fn split_duplicates(&self, chunk: &mut Chunk) {
        let mut order: Vec<usize> = (0..chunk.asked.len()).collect();
        order.sort_by(|&a, &b| (&chunk.asked[a].1, a).cmp(&(&chunk.asked[b].1, b)));
        let mut again: Vec<usize> = order
            .windows(2)
            .filter(|pair| chunk.asked[pair[0]].1 == chunk.asked[pair[1]].1)
            .map(|pair| pair[1])
            .collect();
        again.sort_unstable();
        let Some(&first) = again.first() else {
            return;
        };
        if self.external.format == Format::Placed {
            // The next run takes the files from here on.
            chunk.plans.truncate(chunk.asked[first].0);
            chunk.asked.truncate(first);
            return;
        }
        for &twice in again.iter().rev() {
            let (file, _) = chunk.asked.remove(twice);
            chunk.plans[file] = Plan::Here;
        }
    }
}

/// How a run ended.
enum Searched {
    /// Every file of the run has its outcome.
    All,
    /// The stop flag was raised.
    Stopped,
    /// The program could not be started because its arguments are too long.
    TooLong,
}

/// One run of the program, from its start to the outcomes of all of its files.
struct Run<'a> {
    external: &'a External,
    searcher: &'a mut FileSearcher,
    stop: &'a Stop,
    files: &'a [EligibleFile],
    plans: Vec<Plan>,
    emit: &'a mut dyn FnMut(usize, FileOutcome),
}

impl Run<'_> {
    /// Runs the program on `asked`, and gives every file of the run its outcome.
    fn search(mut self, asked: Vec<(usize, OsString)>) -> Result<Searched, EngineError> {
        let external = self.external;
        let (numbers, paths): (Vec<usize>, Vec<OsString>) = asked.into_iter().unzip();
        let (Some(flags), false) = (&external.flags, paths.is_empty()) else {
            return self.finish(BTreeMap::new(), false);
        };
        let mut args = flags.clone();
        args.extend(paths);
        let names = &args[flags.len()..];
        let mut reports = Reports::new(names, external.lines_per_file);
        let mut parser = ReportParser::new(external.format);
        let mut garbled = None;
        let ended = process::run(
            Invocation::new(&external.program, &args),
            StopConditions {
                stop: self.stop,
                deadline: None,
            },
            &mut |piece| match parser.add(piece.bytes, &mut |report| reports.add(report)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    garbled = Some(error);
                    ControlFlow::Break(())
                }
            },
        );
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_too_long() => return Ok(Searched::TooLong),
            Err(error) => return Err(external.failed(&error.to_string(), None)),
        };
        if ended.interrupted.is_none() && garbled.is_none() {
            garbled = parser.finish().err();
        }
        if !self.understand(&ended, reports.count(), garbled, names)? {
            return Ok(Searched::Stopped);
        }
        let complained = !ended.stderr.is_empty() || ended.exit == Some(Exit::Code(2));
        let by_file = reports.into_files();
        let by_file = by_file.map(|(asked, report)| (numbers[asked], report));
        self.finish(by_file.collect(), complained)
    }

    /// Emits the outcome of each file, in order. `reports` has the number of the file as its key.
    /// If the program `complained`, it may have left out lines.
    fn finish(
        &mut self,
        mut reports: BTreeMap<usize, FileReport>,
        complained: bool,
    ) -> Result<Searched, EngineError> {
        for (n, plan) in std::mem::take(&mut self.plans).into_iter().enumerate() {
            if self.stop.is_raised() {
                return Ok(Searched::Stopped);
            }
            let file = &self.files[n];
            let outcome = match plan {
                Plan::Known(outcome) => outcome,
                Plan::Here => self.searcher.search_file(file),
                Plan::Ask => match reports.remove(&n) {
                    Some(report) => self.confirm(file, report, complained)?,
                    None if complained => self.ask_no_more(file),
                    None => FileOutcome::nothing(),
                },
            };
            let complete = outcome.complete;
            (self.emit)(n, outcome);
            if !complete {
                return Ok(Searched::Stopped);
            }
        }
        Ok(Searched::All)
    }

    /// Confirms the reported lines of a file.
    fn confirm(
        &mut self,
        file: &EligibleFile,
        report: FileReport,
        complained: bool,
    ) -> Result<FileOutcome, EngineError> {
        Ok(match (self.external.format, report.into_wanted()) {
            (Format::Placed, Ordered::Places(places)) => self
                .searcher
                .search_lines(file, LineSelection::Approximate(&places)),
            (Format::Noted | Format::Plain, Ordered::Lines(mut lines)) => {
                lines.and_rest |= complained;
                self.searcher
                    .search_lines(file, LineSelection::Reported(&lines))
            }
            (Format::Noted | Format::Plain, Ordered::Unknown) => self.searcher.search_file(file),
            (..) => {
                let what = "it reported only a part of the lines of a file, and out of order";
                return Err(self.external.failed(what, None));
            }
        })
    }

    /// Returns the outcome of a file without a report, if the program may not have read all of it.
    fn ask_no_more(&mut self, file: &EligibleFile) -> FileOutcome {
        match (self.external.format, file.open()) {
            (_, Err(error)) => FileOutcome::failed(error.to_string()),
            (Format::Placed, Ok(_)) => FileOutcome::nothing(),
            (_, Ok(_)) => self.searcher.search_file(file),
        }
    }

    /// Decides whether the run is complete, so that its files can get their outcomes. Returns false
    /// if it was stopped before that.
    fn understand(
        &self,
        ended: &RunEnd,
        reports: u64,
        garbled: Option<ReportError>,
        names: &[OsString],
    ) -> Result<bool, EngineError> {
        let stopped = match ended.interrupted {
            Some(_) if garbled.is_none() => {
                Some(self.stop.reason().unwrap_or(StopReason::Satisfied))
            }
            _ => None,
        };
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let messages = whole_messages(&stderr, ended.stderr_cut, names);
        let completion = classify(&RunObservations {
            tool: self.external.tool,
            reports,
            garbled: garbled.is_some(),
            stderr: &messages,
            exit: ended.exit,
            stopped,
        });
        match completion {
            Completion::OkWithMatches | Completion::OkNoMatches => Ok(true),
            Completion::Truncated | Completion::TimedOut => Ok(false),
            Completion::BackendError => {
                let what = match (garbled, ended.exit) {
                    (Some(ReportError(what)), _) => {
                        format!("its output is not in the expected format ({what})")
                    }
                    (None, Some(Exit::Code(0))) => {
                        "it ended with exit code 0 without reporting a line, or after an error"
                            .to_string()
                    }
                    (None, Some(exit)) => format!("it ended with {exit}"),
                    (None, None) => "waiting for it failed".to_string(),
                };
                Err(self.external.failed(&what, Some(stderr.into_owned())))
            }
        }
    }
}

/// Returns the complete messages of a standard error. Names of searched files that contain line
/// feeds are replaced, because a part of one could look like a message.
fn whole_messages(stderr: &str, cut: bool, names: &[OsString]) -> String {
    let whole = match stderr.rfind('\n') {
        Some(end) if cut => &stderr[..end],
        _ => stderr,
    };
    let mut messages = whole.to_string();
    for name in names {
        if name.as_encoded_bytes().contains(&b'\n') {
            messages = messages.replace(&*name.to_string_lossy(), "?");
        }
    }
    messages
}

#[cfg(all(test, unix))]
mod tests;
