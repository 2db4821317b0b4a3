//! Asks the daemon or an index, for ripgrep's command line, which files a search has to read.
//!
//! This module owns the question, and the reasons why an index can't answer. It does not know
//! ripgrep's flags, and opens none of the files. (`rg::candidates` decides what the answer means
//! for ripgrep.)

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::exec::answer::collect::Found;
use crate::exec::answer::listed::ListedFiles;
use crate::exec::answer::outcome::FileOutcome;
use crate::exec::indexes::IndexState;
use crate::exec::question::query::Report;
use crate::exec::question::{
    FallbackPlan, FileChoice, FileIdentity, IgnoreRules, IndexList, OutputSpec, PatternSpec,
    Question, QuestionLimits, TraversalOptions,
};
use crate::exec::stop::{Clock, SystemClock};
use crate::tool::cli::Failure;
use crate::tool::cli::answers::person_search::PersonSearch;
use crate::tool::cli::args::SetupArgs;
use crate::tool::cli::args::question::{own_output, searched_path};
use crate::tool::cli::setup::signals::Signals;
use crate::tool::cli::setup::{Environment, load_config};
use crate::tool::config::{Config, DaemonUse, IndexMode, Origin};

/// The files that the question is about.
#[derive(Clone, Debug)]
pub(in crate::tool) struct Wanted {
    /// The patterns. Without patterns all files are listed.
    pub(in crate::tool) looked_for: PatternSpec,
    /// The rules for which files are found.
    pub(in crate::tool) traversal: TraversalOptions,
    /// The searched directories.
    pub(in crate::tool) dirs: Vec<PathBuf>,
    /// The files that are listed.
    pub(in crate::tool) list: IndexList,
}

/// The answer to the question.
#[derive(Debug)]
pub(in crate::tool) enum Candidates {
    /// An index decided.
    Known(FileCounts),
    /// There is an index, but ripgrep might find other files.
    OtherFiles,
    /// No index decided, for this reason.
    Unknown(String),
    /// A signal ended the question. The exit status names it.
    Signal(u8),
}

/// The number of all files, and of those that the index rules out.
#[derive(Debug)]
pub(in crate::tool) struct FileCounts {
    pub(in crate::tool) files: u64,
    pub(in crate::tool) skipped: u64,
}

/// Receives the listed files while an index still looks for more. Each list belongs to one
/// directory.
pub(in crate::tool) type ListTaker<'a> = dyn FnMut(ListedFiles) -> ControlFlow<()> + 'a;

/// The surroundings in which a daemon or an index is looked for.
pub(in crate::tool) struct CandidateSearch {
    environment: Environment,
    config: Config,
    setup: SetupArgs,
}

impl Wanted {
    /// Returns the reason why no index can rule a file out for these patterns, whatever its
    /// configuration. Patterns that are refused are such a reason; the search itself reports them.
    pub(in crate::tool) fn keeps_everything(&self) -> Option<String> {
        self.looked_for.patterns.as_ref()?;
        match self.question(Vec::new()).query(None) {
            Ok(query) => query.keeps_everything(),
            Err(error) => Some(error.to_string()),
        }
    }

    fn question(&self, paths: Vec<PathBuf>) -> Question {
        Question {
            looked_for: self.looked_for.clone(),
            files: FileChoice {
                globs_from: Some(PathBuf::new()),
                ..FileChoice::of(paths, self.traversal)
            },
            shown: OutputSpec {
                report: Report::Presence,
                by_index: self.list,
                ..OutputSpec::default()
            },
            limits: QuestionLimits::NONE,
            fallback: FallbackPlan::default(),
        }
    }
}

impl CandidateSearch {
    /// Reads the environment and the configuration.
    ///
    /// # Errors
    ///
    /// The reason why no index can be used.
    pub(in crate::tool) fn new() -> Result<CandidateSearch, String> {
        let environment = Environment::read();
        let setup = SetupArgs::default();
        let config = load_config(&setup, &environment).map_err(|error| error.to_string())?;
        Ok(CandidateSearch {
            environment,
            config,
            setup,
        })
    }

    /// Returns whether indexes cover the files of these options by default.
    pub(in crate::tool) fn has_index_of(&self, traversal: TraversalOptions) -> bool {
        let indexed = &self.config.search;
        let has_rules = traversal.rules != IgnoreRules::None;
        (
            indexed.index_default_hidden,
            indexed.index_default_no_ignore,
        ) == (traversal.hidden, !has_rules)
    }

    /// Asks for the list, which `taker` receives in parts. If no index decides in the end, the
    /// parts so far still list files that ripgrep's walk finds, and that have to be read.
    pub(in crate::tool) fn find(&self, wanted: &Wanted, taker: &mut ListTaker<'_>) -> Candidates {
        match self.checked(wanted, taker) {
            Ok(candidates) => candidates,
            Err(why) => Candidates::Unknown(why),
        }
    }

    fn checked(&self, wanted: &Wanted, taker: &mut ListTaker<'_>) -> Result<Candidates, String> {
        if self.config.search.index_mode == IndexMode::Off {
            return Err("the configuration turns indexes off".to_string());
        }
        if self.has_denied_names() {
            return Err("the configuration denies names, which ripgrep does not".to_string());
        }
        let here = self.environment.working_dir.clone();
        let here = here.map_err(|error| error.to_string())?;
        if wanted.list.is_of_candidates()
            && wanted.traversal.rules != IgnoreRules::None
            && !self.environment.has_ripgreps_excludes(&here)
        {
            return Ok(Candidates::OtherFiles);
        }
        let (question, extra_roots) = self.question(wanted, &here)?;
        let mut problem = None;
        let mut take = |part: Found| match part {
            Found::Listed(files) => taker(files),
            Found::Error(error) => {
                problem = Some(error.message);
                ControlFlow::Break(())
            }
            Found::File(file) if file.outcome != FileOutcome::nothing() => {
                problem = Some("the daemon searched instead of listing files".to_string());
                ControlFlow::Break(())
            }
            Found::File(file) => {
                let mut files = ListedFiles::of_target(file.target);
                files.push(Path::new(""), &file.path);
                taker(files)
            }
        };
        // ripgrep handles no signals, so that a shell sees which one ended it.
        let signals = Signals::take_over().map_err(|error| error.to_string())?;
        signals.act_by_default();
        let summary = match self.search(&question, &extra_roots).answer(&mut take) {
            Ok(summary) => summary,
            Err(Failure::Signal(status)) => return Ok(Candidates::Signal(status)),
            Err(Failure::Tool(error)) => return Err(error.to_string()),
            Err(Failure::Output(error)) => return Err(error.to_string()),
        };
        if let Some(problem) = problem {
            return Err(problem);
        }
        let (run, index) = (&summary.run, &summary.index);
        let is_cut = run.cuts.any() || summary.timed_out() || run.failure.is_some();
        if is_cut || !index.exclusion_used {
            let state = index.index_state.state().as_str();
            let asks_candidates = question.shown.by_index.is_of_candidates();
            if asks_candidates && index.index_state == IndexState::Complete {
                return Ok(Candidates::OtherFiles);
            }
            let reason = index.index_state.reason();
            let reason = reason.map_or_else(String::new, |reason| format!(", {reason}"));
            return Err(format!("no index decided: {state}{reason}"));
        }
        Ok(Candidates::Known(FileCounts {
            files: run.totals.files_scanned,
            skipped: run.totals.files_excluded,
        }))
    }

    /// Returns whether some names are denied to people.
    fn has_denied_names(&self) -> bool {
        let config = &self.config;
        let is_set = *config.origin("tools.sandbox.include_default_denies") != Origin::Default;
        !config.sandbox.denied_patterns.is_empty()
            || is_set && config.sandbox.include_default_denies
    }

    fn question(&self, wanted: &Wanted, here: &Path) -> Result<(Question, Vec<PathBuf>), String> {
        let (mut paths, mut extra_roots) = (Vec::new(), Vec::new());
        for dir in &wanted.dirs {
            let path = searched_path(dir, None, &self.environment, Some(here));
            let path = path.map_err(|error| error.to_string())?;
            extra_roots.extend(path.extra_root);
            paths.push(path.asked);
        }
        Ok((wanted.question(paths), extra_roots))
    }

    fn search<'a>(
        &'a self,
        question: &'a Question,
        extra_roots: &'a [PathBuf],
    ) -> PersonSearch<'a> {
        PersonSearch {
            question,
            timeout: None,
            setup: &self.setup,
            config: &self.config,
            of_daemon: &self.config,
            extra_roots,
            environment: &self.environment,
            began: SystemClock.now(),
        }
    }

    /// Starts the daemon of the tree after a search that read `files` files, if the configuration
    /// asks for it and the tree is large enough.
    ///
    /// # Errors
    ///
    /// The reason why none can be started.
    pub(in crate::tool) fn start_daemon(&self, wanted: &Wanted, files: u64) -> Result<(), String> {
        if self.config.daemon.searches != DaemonUse::Start {
            return Ok(());
        }
        let signals = Signals::take_over().map_err(|error| error.to_string())?;
        signals.act_by_default();
        let here = self.environment.working_dir.clone();
        let here = here.map_err(|error| error.to_string())?;
        let (question, extra_roots) = self.question(wanted, &here)?;
        let started = self
            .search(&question, &extra_roots)
            .start_daemon_after(files);
        started.map_err(|failure| match failure {
            Failure::Tool(error) => error.to_string(),
            Failure::Output(error) => error.to_string(),
            Failure::Signal(status) => format!("a signal arrived: {status}"),
        })
    }
}

/// Returns the file that standard output is redirected to, if there is one.
pub(in crate::tool) fn output_file() -> Option<FileIdentity> {
    own_output()
}

/// Returns whether a path names the file with this identity.
///
/// # Errors
///
/// The file can't be examined.
pub(in crate::tool) fn is_file(path: &Path, identity: FileIdentity) -> io::Result<bool> {
    let meta = std::fs::symlink_metadata(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let own = FileIdentity {
            device: meta.dev(),
            inode: meta.ino(),
        };
        Ok(own == identity)
    }
    #[cfg(not(unix))]
    {
        // The identity of standard output is not known there.
        let _ = (meta, identity);
        Ok(false)
    }
}
