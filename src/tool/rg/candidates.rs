//! Decides how an index may help ripgrep's command line: replace the walk, or leave out files that
//! the walk finds.
//!
//! This module owns the conditions for that: a skipped file must print nothing. If the index has
//! found the same files as ripgrep's walk, its list takes the place of the walk. Globs, types and
//! limits that only exclude files are applied here, by ripgrep's own matchers. If the walk may find
//! other files, it takes place, and files that the index rules out are not read. `feed` hands the
//! files out. (`cli::answers::candidates` asks.)

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use grep_printer::Stats;

use super::Failure;
use super::args::{Args, Binary, Decoding, Mode, TypeRule};
use super::feed::{self, FileTaker, Listing, SkippedByWalk};
use super::plan::{Plan, is_stdin};
use super::walk::Haystack;
use crate::exec::question::query::{Case, CaseRule};
use crate::exec::question::{
    Follow, IgnoreRules, IndexList, PatternSpec, TraversalOptions, is_hidden,
};
use crate::tool::cli::answers::candidates::{CandidateSearch, Candidates, Wanted, output_file};

/// The most entries of a tree that is not worth a question.
const SMALL_TREE: usize = 24;

/// The answer to the question which files have to be read.
pub(super) enum Known {
    /// The index handed out every file to read.
    Files {
        /// The statistics of the files that are not read.
        others: Stats,
    },
    /// The walk finds the files, and skips these.
    Walk(SkippedByWalk, AfterWalk),
}

impl Known {
    /// Returns the answer for a search that wants no more files.
    fn ended() -> Known {
        log::debug!("an index decided: the search has ended, and the other files are skipped");
        let others = Stats::new();
        Known::Files { others }
    }
}

/// What is left to do after a walk.
pub(super) struct AfterWalk(Option<Wanted>);

impl AfterWalk {
    /// Starts the daemon of the tree for later calls, if the configuration asks for it and the walk
    /// found enough files.
    pub(super) fn end(self, files: u64) {
        let Some(wanted) = self.0 else {
            return;
        };
        let started = CandidateSearch::new().and_then(|search| search.start_daemon(&wanted, files));
        if let Err(why) = started {
            log::debug!("no daemon is started: {why}");
        }
    }
}

/// Asks the daemon of the tree or an index which files have to be read. `taker` receives each file
/// while the index still looks for more.
///
/// # Errors
///
/// [`Failure::Signal`] if a signal arrived meanwhile.
pub(super) fn known(plan: &Plan, taker: &mut FileTaker<'_>) -> Result<Known, Failure> {
    let walks = |why: &str| {
        log::debug!("no index is asked: {why}");
        Ok(Known::Walk(SkippedByWalk::default(), AfterWalk(None)))
    };
    let mut wanted = match wanted(plan) {
        Ok(wanted) => wanted,
        Err(why) => return walks(why),
    };
    if is_small(plan) {
        return walks("the tree is small");
    }
    if let Some(why) = wanted.keeps_everything() {
        log::debug!("no index is asked: {why}");
        let skipped = SkippedByWalk::default();
        return Ok(Known::Walk(skipped, AfterWalk(Some(wanted))));
    }
    let search = match CandidateSearch::new() {
        Ok(search) => search,
        Err(why) => return walks(&why),
    };
    let mut skipped = SkippedByWalk::default();
    match finds_all(plan, &mut wanted, &search) {
        Ok(()) => match feed::list(plan, &wanted, &search, taker)? {
            Listing::Complete(others) => return Ok(Known::Files { others }),
            Listing::Partial(searched) => skipped = searched,
            Listing::Undecided(searched, why) => {
                log::debug!("the tree is walked: {why}");
                return Ok(Known::Walk(searched, AfterWalk(Some(wanted))));
            }
        },
        Err(why) if plan.args.mode == Mode::Files => return walks(why),
        Err(why) => log::debug!("an index does not find the files: {why}"),
    }
    if plan.args.mode == Mode::Files {
        log::debug!("the tree is walked: ripgrep might find other files");
        return Ok(Known::Walk(skipped, AfterWalk(None)));
    }
    rule_out(plan, wanted, &search, skipped, taker)
}

/// Asks like [`known`], and returns the files that were handed out, which nobody searches yet.
///
/// # Errors
///
/// As [`known`].
pub(super) fn all_known(plan: &Plan) -> Result<(Known, Vec<(usize, Haystack)>), Failure> {
    let mut files = Vec::new();
    let known = known(plan, &mut |file| {
        files.extend(file);
        ControlFlow::Continue(())
    })?;
    Ok((known, files))
}

/// Asks which files the walk need not read. `skipped` has the files that are searched already.
fn rule_out(
    plan: &Plan,
    mut wanted: Wanted,
    search: &CandidateSearch,
    mut skipped: SkippedByWalk,
    taker: &mut FileTaker<'_>,
) -> Result<Known, Failure> {
    wanted.dirs.retain(|dir| !is_stdin(dir) && dir.is_dir());
    if wanted.dirs.is_empty() {
        log::debug!("the tree is walked: no path is a directory");
        return Ok(Known::Walk(skipped, AfterWalk(None)));
    }
    wanted.list = match plan.look.has_stats {
        true => IndexList::RuledOutTexts,
        false => IndexList::RuledOut,
    };
    if taker(None).is_break() {
        return Ok(Known::ended());
    }
    let mut is_ended = false;
    let answer = search.find(&wanted, &mut |files| {
        skipped.rule_out(plan, &files, &wanted.dirs);
        let wants_more = taker(None);
        is_ended = wants_more.is_break();
        wants_more
    });
    let why = match answer {
        Candidates::Signal(status) => return Err(Failure::Signal(status)),
        _ if is_ended => return Ok(Known::ended()),
        Candidates::Known(_) => {
            log::debug!(
                "an index decided: the tree is walked, and {} files are not read",
                skipped.ruled_out()
            );
            return Ok(Known::Walk(skipped, AfterWalk(None)));
        }
        Candidates::Unknown(why) => why,
        Candidates::OtherFiles => "ripgrep might find other files".to_string(),
    };
    log::debug!("the tree is walked: {why}");
    skipped.rule_nothing_out();
    Ok(Known::Walk(skipped, AfterWalk(Some(wanted))))
}

/// Returns the question about files, or the reason why all files have to be read.
fn wanted(plan: &Plan) -> Result<Wanted, &'static str> {
    let args = &plan.args;
    if !cfg!(unix) {
        return Err("indexes skip no files on this system");
    }
    Ok(Wanted {
        looked_for: match args.mode {
            Mode::Files => PatternSpec::default(),
            _ => looked_for(plan)?,
        },
        traversal: TraversalOptions {
            hidden: args.hidden,
            follow: Follow::Never,
            rules: IgnoreRules::All,
            recursive: true,
        },
        dirs: plan.paths.list.clone(),
        list: IndexList::Candidates {
            hidden: false,
            counted: plan.look.has_stats,
        },
    })
}

/// Returns whether the typed paths have so few entries that a walk is faster than a question.
fn is_small(plan: &Plan) -> bool {
    let mut left = SMALL_TREE;
    let mut dirs = plan.paths.list.clone();
    dirs.retain(|dir| !is_stdin(dir));
    while let Some(dir) = dirs.pop() {
        // A path that is no directory is read in any case.
        let Ok(entries) = fs::read_dir(dir) else {
            continue;
        };
        for entry in entries.flatten() {
            if is_hidden(&entry.file_name()) && !plan.args.hidden {
                continue;
            }
            if left == 0 {
                return false;
            }
            left -= 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    true
}

/// Checks that an index finds all files that the walk finds, and completes the question.
fn finds_all(
    plan: &Plan,
    wanted: &mut Wanted,
    search: &CandidateSearch,
) -> Result<(), &'static str> {
    if plan.look.has_stats && !keeps_visible(plan) {
        return Err("the files without a match are counted");
    }
    check_files(plan)?;
    wanted.traversal.rules = rules(&plan.args)?;
    if !search.has_index_of(wanted.traversal) {
        // A daemon lists the hidden files in addition.
        let with_hidden = std::mem::take(&mut wanted.traversal.hidden);
        if !with_hidden || !search.has_index_of(wanted.traversal) {
            return Err("indexes have other options");
        }
        wanted.list = IndexList::Candidates {
            hidden: true,
            counted: plan.look.has_stats,
        };
    }
    for path in &plan.paths.list {
        check_dir(path, &plan.working_dir)?;
    }
    Ok(())
}

/// Returns whether the arguments keep all files of an index that have no hidden name in their
/// paths. For example, `-g '!**/.git/**'` excludes only files with such a name.
fn keeps_visible(plan: &Plan) -> bool {
    let args = &plan.args;
    let is_hidden_name = |glob: &String| {
        let name = glob.strip_prefix('!').unwrap_or_default();
        let name = name.strip_prefix("**/").unwrap_or(name);
        let ends = ["/**", "/*", "/"];
        let name = ends
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        is_hidden(OsStr::new(name)) && name.bytes().all(is_plain)
    };
    let has_hidden_name = |dir: &PathBuf| {
        let mut names = dir.components();
        names.any(|name| matches!(name, Component::Normal(name) if is_hidden(name)))
    };
    args.globs.iter().all(is_hidden_name)
        && args.iglobs.is_empty()
        && plan.types.is_empty()
        && args.max_depth.is_none()
        && args.max_filesize.is_none()
        && output_file().is_none()
        && !plan.paths.list.iter().any(has_hidden_name)
}

/// Checks that an index finds all files that the walk finds.
fn check_files(plan: &Plan) -> Result<(), &'static str> {
    let args = &plan.args;
    // In ripgrep, such globs and types bring back hidden and ignored files.
    let selects = |rule: &TypeRule| matches!(rule, TypeRule::Select(_));
    if plan.globs.num_whitelists() > 0 {
        return Err("a glob includes files");
    }
    if args.type_rules.iter().any(selects) && !args.hidden {
        return Err("a type includes hidden files");
    }
    if args.follow {
        return Err("links are followed");
    }
    if args.one_file_system {
        return Err("--one-file-system is given");
    }
    Ok(())
}

/// Returns the ignore rules of the walk, if an index can have the same ones.
fn rules(args: &Args) -> Result<IgnoreRules, &'static str> {
    if !args.no_ignore_files && !args.ignore_files.is_empty() {
        return Err("--ignore-file is given");
    }
    let of_vcs = [args.no_ignore_global, args.no_ignore_exclude];
    let all_of_vcs = args.no_ignore_vcs || of_vcs.iter().all(|is_off| *is_off);
    if args.no_ignore_vcs && args.no_ignore_dot && args.no_ignore_parent && all_of_vcs {
        return Ok(IgnoreRules::None);
    }
    let others = [
        args.no_ignore_vcs,
        args.no_ignore_dot,
        args.no_ignore_parent,
        args.no_require_git,
        args.ignore_file_case_insensitive,
    ];
    match others.iter().chain(&of_vcs).any(|is_on| *is_on) {
        true => Err("only some ignore rules apply"),
        false => Ok(IgnoreRules::All),
    }
}

/// Returns the patterns in the form for indexes, if files without a match print nothing.
fn looked_for(plan: &Plan) -> Result<PatternSpec, &'static str> {
    let args = &plan.args;
    let is_quiet_without_match = matches!(
        args.mode,
        Mode::Lines | Mode::Json | Mode::FilesWithMatches | Mode::Count | Mode::CountMatches
    );
    let prints = !is_quiet_without_match || args.invert_match || args.include_zero;
    if prints || args.context.all {
        return Err("files without a match are printed");
    }
    let changes_text = args.search_zip || args.pre.is_some() || args.no_unicode;
    if changes_text || !matches!(args.decoding, Decoding::Auto) {
        return Err("the text of files is not what an index has");
    }
    // With `--crlf`, only `$`, `.` and excluding classes mean something else, of which a plan makes
    // no use.
    if args.multiline || args.null_data {
        return Err("lines end in another way");
    }
    if args.binary != Binary::Auto {
        return Err("binary files are searched");
    }
    // Without case, a class that excludes characters excludes more of them.
    let has_class = |text: &String| ["[", r"\P", "!="].iter().any(|part| text.contains(part));
    if args.case == Case::Smart && !args.fixed_strings && plan.patterns.iter().any(has_class) {
        return Err("smart case decides about a class of characters");
    }
    Ok(PatternSpec {
        patterns: Some(plan.patterns.clone()),
        fixed_strings: args.fixed_strings,
        // `-w` and `-x` only restrict what matches.
        word: false,
        whole_line: false,
        case: match args.case {
            Case::Sensitive => Case::Sensitive,
            // ripgrep decides about smart case. Without case, more matches.
            Case::Insensitive | Case::Smart => Case::Insensitive,
        },
        case_rule: CaseRule::Unicode,
        fuzzy: None,
    })
}

/// Checks that a typed path is a directory that no link and no `..` leads to. The ignore rules
/// above it are then those of its own path.
fn check_dir(path: &Path, working_dir: &Path) -> Result<(), &'static str> {
    if is_stdin(path) {
        return Err("standard input is searched");
    }
    if path
        .as_os_str()
        .as_encoded_bytes()
        .windows(2)
        .any(|two| two == b"//")
    {
        return Err("a path is written in an unusual way");
    }
    match path.canonicalize() {
        Ok(canonical) if canonical != working_dir.join(path) => Err("a path leads through a link"),
        Ok(canonical) if canonical.is_dir() => Ok(()),
        _ => Err("a path is no directory"),
    }
}
