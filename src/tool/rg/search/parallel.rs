//! The search by several threads, while files are still being found.
//!
//! This module owns the threads for files that an index hands out, the walk for the others, and the
//! results that the threads share.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use grep_printer::Stats;
use ignore::WalkState;

use super::{Searched, Seen, Worker, complain, is_closed};
use crate::format::mutex::lock;
use crate::tool::rg::Failure;
use crate::tool::rg::candidates::{self, Known};
use crate::tool::rg::feed::{FileTaker, SkippedByWalk};
use crate::tool::rg::messages::Reporter;
use crate::tool::rg::output::{SharedOutput, ThreadOutput};
use crate::tool::rg::patterns;
use crate::tool::rg::plan::Plan;
use crate::tool::rg::print;
use crate::tool::rg::walk::{self, Haystack};

/// The search by several threads, each of which writes the results of one file at a time.
struct Parallel<'p> {
    plan: &'p Plan,
    reporter: &'p Reporter,
    output: &'p SharedOutput,
    stats: Mutex<Stats>,
    searched: AtomicU64,
    matched: AtomicBool,
    /// No thread takes another file.
    ended: AtomicBool,
}

impl<'p> Parallel<'p> {
    fn new(plan: &'p Plan, output: &'p SharedOutput, reporter: &'p Reporter) -> Parallel<'p> {
        Parallel {
            plan,
            reporter,
            output,
            stats: Mutex::new(Stats::new()),
            searched: AtomicU64::new(0),
            matched: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    /// Searches one file, and says whether the thread goes on.
    fn search(&self, worker: &mut Worker<'_, ThreadOutput<'_>>, haystack: &Haystack) -> WalkState {
        let result = worker.search(haystack);
        let output = worker.printer.output();
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                output.drop_file();
                self.searched.fetch_add(1, Ordering::Relaxed);
                complain(self.reporter, haystack, &error);
                return WalkState::Continue;
            }
        };
        self.take(&result);
        match output.end_file() {
            Err(error) if is_closed(&error) => return self.quit(),
            Err(error) => complain(self.reporter, haystack, &error),
            Ok(()) => {}
        }
        if self.plan.stops_at_match && self.matched.load(Ordering::Relaxed) {
            return self.quit();
        }
        WalkState::Continue
    }

    fn take(&self, result: &Searched) {
        self.searched.fetch_add(1, Ordering::Relaxed);
        if result.has_match {
            self.matched.store(true, Ordering::Relaxed);
        }
        if let Some(stats) = &result.stats {
            self.add(stats);
        }
    }

    fn add(&self, stats: &Stats) {
        *lock(&self.stats) += stats;
    }

    /// Ends the search of all threads.
    fn quit(&self) -> WalkState {
        self.ended.store(true, Ordering::Relaxed);
        WalkState::Quit
    }

    /// Searches files that come from an index. Calls `ask` for them, which hands them out, and
    /// starts as many threads as there is work for. Returns the answer of `ask`.
    fn listed<T>(
        &self,
        first: &Worker<'_, ThreadOutput<'_>>,
        ask: impl FnOnce(&mut FileTaker<'_>) -> T,
    ) -> T {
        let (sender, receiver) = mpsc::channel::<Haystack>();
        let receiver = &Mutex::new(receiver);
        let next = || {
            let receiver = lock(receiver);
            receiver.recv().ok()
        };
        let work = |mut worker: Worker<'_, ThreadOutput<'_>>| {
            while let Some(haystack) = next() {
                let is_ended = self.ended.load(Ordering::Relaxed);
                if is_ended || self.search(&mut worker, &haystack) == WalkState::Quit {
                    return;
                }
            }
        };
        let mut threads = 0;
        thread::scope(|scope| {
            let asked = ask(&mut |file| {
                if let Some((_, haystack)) = file {
                    // The receiver lives as long as this function.
                    let _ = sender.send(haystack);
                    if threads < self.plan.threads {
                        threads += 1;
                        let worker = first.clone();
                        scope.spawn(move || work(worker));
                    }
                }
                match self.ended.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            drop(sender);
            asked
        })
    }

    /// Searches the files that the walk finds.
    fn walk(&self, first: &Worker<'_, ThreadOutput<'_>>, skipped: &SkippedByWalk) {
        let (plan, reporter) = (self.plan, self.reporter);
        walk::walk(plan, reporter).build_parallel().run(|| {
            let mut worker = first.clone();
            Box::new(move |found| {
                let Some(haystack) = Haystack::of(found, plan, reporter) else {
                    return WalkState::Continue;
                };
                if skipped.is_searched(&haystack) {
                    WalkState::Continue
                } else if let Some(size) = skipped.size_of(&haystack) {
                    self.take(&Searched::without_match(plan, size));
                    WalkState::Continue
                } else {
                    self.search(&mut worker, &haystack)
                }
            })
        });
    }

    fn end(&self, started: Instant) -> Seen {
        if self.plan.look.has_stats {
            let stats = lock(&self.stats);
            let mut output = self.output.of_thread();
            let printed = print::stats(self.plan, &stats, started.elapsed(), &mut output);
            // As above: a closed output is no error.
            let _ = printed.and_then(|()| output.end_file());
        }
        Seen {
            searched: self.searched.load(Ordering::Relaxed),
            matched: self.matched.load(Ordering::Relaxed),
        }
    }
}

/// Asks for all files, and searches them on several threads while they are handed out.
pub(super) fn in_parallel(
    plan: &Plan,
    reporter: &Reporter,
    started: Instant,
) -> Result<Seen, Failure> {
    let output = SharedOutput::new(plan);
    let all = Parallel::new(plan, &output, reporter);
    let first = Worker::new(plan, patterns::matcher(plan)?, output.of_thread());
    match all.listed(&first, |taker| candidates::known(plan, taker))? {
        Known::Files { others } => {
            all.add(&others);
            Ok(all.end(started).of_index(plan, reporter))
        }
        Known::Walk(skipped, after) => {
            if !all.ended.load(Ordering::Relaxed) {
                all.walk(&first, &skipped);
            }
            let seen = all.end(started);
            after.end(seen.searched);
            Ok(seen)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::tool::rg::{Surroundings, args};

    fn plan(dir: &Path, typed: &[&str]) -> Plan {
        let surroundings = Surroundings {
            config: None,
            working_dir: Ok(dir.to_path_buf()),
            shell_dir: None,
            wsl_distribution: None,
        };
        let mut typed: Vec<_> = typed.iter().map(Into::into).collect();
        typed.push(dir.into());
        let args = args::parse(&typed, None).unwrap();
        Plan::new(args, &surroundings).unwrap()
    }

    fn tree() -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<_> = (0..20)
            .map(|nth| dir.path().join(format!("{nth}.txt")))
            .collect();
        for (nth, file) in files.iter().enumerate() {
            // The sum of the sizes says which files were read.
            fs::write(file, "x".repeat(1 << nth)).unwrap();
        }
        (dir, files)
    }

    /// Hands out files, which are then searched, and walks for the others. Returns how many files
    /// were searched, and all their bytes.
    fn search(plan: &Plan, files: &[PathBuf]) -> (u64, u64) {
        let reporter = plan.args.reporter();
        let output = SharedOutput::new(plan);
        let all = Parallel::new(plan, &output, &reporter);
        let matcher = patterns::matcher(plan).unwrap();
        let first = Worker::new(plan, matcher, output.of_thread());
        all.listed(&first, |taker| {
            for file in files {
                let taken = taker(Some((0, Haystack::found(file.clone(), plan))));
                assert!(taken.is_continue());
            }
        });
        all.walk(&first, &SkippedByWalk::of_searched(files.iter().cloned()));
        let bytes = all.stats.lock().unwrap().bytes_searched();
        (all.searched.load(Ordering::Relaxed), bytes)
    }

    #[test]
    fn the_walk_after_a_list_skips_its_files() {
        let (dir, files) = tree();
        let plan = plan(dir.path(), &["--json", "-j2", "absent"]);
        for listed in [&files[..0], &files[..1], &files[5..15], &files] {
            assert_eq!(
                search(&plan, listed),
                (20, (1 << 20) - 1),
                "{}",
                listed.len()
            );
        }
        assert_eq!(walk::sequence(&plan, &plan.args.reporter()).count(), 20);
    }

    #[test]
    fn the_walk_skips_a_file_as_often_as_it_was_searched() {
        let (dir, files) = tree();
        let mut plan = plan(dir.path(), &["--json", "-j2", "absent"]);
        plan.paths.list.push(dir.path().to_path_buf());
        assert_eq!(search(&plan, &files[..1]), (40, 2 * ((1 << 20) - 1)));
    }

    #[test]
    fn the_first_match_ends_a_quiet_list() {
        let (dir, files) = tree();
        let plan = plan(dir.path(), &["-j2", "-q", "x"]);
        let reporter = plan.args.reporter();
        let output = SharedOutput::new(&plan);
        let all = Parallel::new(&plan, &output, &reporter);
        let matcher = patterns::matcher(&plan).unwrap();
        let first = Worker::new(&plan, matcher, output.of_thread());
        let is_stopped = all.listed(&first, |taker| {
            let mut taken = ControlFlow::Continue(());
            for file in &files {
                taken = taker(Some((0, Haystack::found(file.clone(), &plan))));
            }
            // The threads find the match within this time.
            for _ in 0..30_000 {
                if taken.is_break() {
                    break;
                }
                thread::sleep(std::time::Duration::from_millis(1));
                taken = taker(None);
            }
            taken.is_break()
        });
        assert!(is_stopped && all.matched.load(Ordering::Relaxed));
    }
}
