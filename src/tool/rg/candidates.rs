//! The files that an index knows to be worth reading, or not to be, in ripgrep's command line.
//!
//! Owns the conditions under which an index may decide: a skipped file must print nothing. If the
//! index has found the same files as ripgrep's walk, its list takes the place of the walk. Globs,
//! types and limits that only exclude files are applied here, by ripgrep's own matchers. If the
//! walk may find other files, it takes place, and files that the index rules out are not read.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use grep_printer::Stats;

use super::Failure;
use super::args::{Args, Binary, Decoding, Mode, TypeRule};
use super::plan::{Plan, is_stdin};
use super::walk::{Haystack, sorts_while_walking};
use crate::exec::query::{Case, CaseRule};
use crate::exec::question::{
    FileIdentity, Follow, IgnoreRules, IndexList, PatternSpec, TraversalOptions, is_hidden,
};
use crate::tool::cli::candidates::{
    CandidateList, CandidateSearch, Candidates, Wanted, is_file, output_file,
};

/// The most entries of a tree that is not worth a question.
const SMALL_TREE: usize = 24;

/// The answer to the question which files have to be read.
pub(super) enum Known {
    /// These files, in the order of the typed paths.
    Files {
        files: Vec<Haystack>,
        /// The statistics of the files that are not read.
        others: Stats,
    },
    /// The walk finds the files, and these need not be read.
    RuledOut(RuledOut),
    /// No index decided. The walk finds the files.
    Nothing(AfterWalk),
}

/// The sizes of files, by the paths of the walk.
#[allow(clippy::disallowed_types, reason = "nothing iterates")]
type Sizes = std::collections::HashMap<OsString, u64>;

/// Files without a match.
#[derive(Debug, Default)]
pub(super) struct RuledOut {
    /// The bytes that a search of the file would read; zero unless they are counted.
    sizes: Sizes,
}

impl RuledOut {
    fn new(plan: &Plan, found: &CandidateList, dirs: &[PathBuf]) -> RuledOut {
        let mut sizes = Sizes::with_capacity(usize::try_from(found.files).unwrap_or(0));
        for files in &found.lists {
            let Some(dir) = dirs.get(files.target) else {
                continue;
            };
            let all = files.sizes().iter().copied().map(Some);
            let all = all.chain(std::iter::repeat(None));
            for (below, size) in files.iter().zip(all) {
                if size.is_some() || !plan.look.has_stats {
                    sizes.insert(dir.join(&below).into_os_string(), size.unwrap_or(0));
                }
            }
        }
        RuledOut { sizes }
    }

    /// Returns the number of bytes of a file that need not be read.
    pub(super) fn size_of(&self, haystack: &Haystack) -> Option<u64> {
        if self.sizes.is_empty() || haystack.is_named() {
            return None;
        }
        self.sizes.get(haystack.found_path().as_os_str()).copied()
    }
}

/// What is left to do after a walk.
pub(super) struct AfterWalk(Option<Box<(CandidateSearch, Wanted)>>);

impl AfterWalk {
    /// Starts the daemon of the tree for later calls, if the configuration asks for it and the walk
    /// found enough files.
    pub(super) fn end(self, files: u64) {
        let Some(asked) = self.0 else {
            return;
        };
        let (search, wanted) = *asked;
        if let Err(why) = search.start_daemon(wanted, files) {
            log::debug!("no daemon is started: {why}");
        }
    }
}

/// Asks the daemon of the tree or an index which files have to be read.
///
/// # Errors
///
/// [`Failure::Signal`] if a signal arrived meanwhile.
pub(super) fn known(plan: &Plan) -> Result<Known, Failure> {
    let walks = |why: &str| {
        log::debug!("no index is asked: {why}");
        Ok(Known::Nothing(AfterWalk(None)))
    };
    let mut wanted = match wanted(plan) {
        Ok(wanted) => wanted,
        Err(why) => return walks(why),
    };
    if is_small(plan) {
        return walks("the tree is small");
    }
    let search = match CandidateSearch::new() {
        Ok(search) => search,
        Err(why) => return walks(&why),
    };
    match finds_all(plan, &mut wanted, &search) {
        Ok(()) => match search.find(wanted.clone()) {
            Candidates::OtherFiles => log::debug!("ripgrep might find other files"),
            Candidates::Known(found) => match haystacks(plan, &found) {
                Some(files) => {
                    let others = others(plan, &found);
                    return Ok(Known::Files { files, others });
                }
                None => log::debug!("files of a repository are searched"),
            },
            Candidates::Unknown(why) if wanted.list.has_hidden() => {
                log::debug!("no index lists hidden files: {why}");
            }
            answer => return taken(plan, answer, search, wanted),
        },
        Err(why) if plan.args.mode == Mode::Files => return walks(why),
        Err(why) => log::debug!("an index does not find the files: {why}"),
    }
    if plan.args.mode == Mode::Files {
        return walks("ripgrep might find other files");
    }
    let found = |dir: &PathBuf| !is_stdin(dir) && dir.is_dir();
    wanted.dirs = plan
        .paths
        .list
        .iter()
        .filter(|dir| found(dir))
        .cloned()
        .collect();
    if wanted.dirs.is_empty() {
        return walks("no path is a directory");
    }
    wanted.list = match plan.look.has_stats {
        true => IndexList::RuledOutTexts,
        false => IndexList::RuledOut,
    };
    taken(plan, search.find(wanted.clone()), search, wanted)
}

/// Converts the answer to the question which files need not be read.
fn taken(
    plan: &Plan,
    answer: Candidates,
    search: CandidateSearch,
    wanted: Wanted,
) -> Result<Known, Failure> {
    let why = match answer {
        Candidates::Known(found) => {
            let ruled_out = RuledOut::new(plan, &found, &wanted.dirs);
            log::debug!(
                "an index decided: the tree is walked, and {} files are not read",
                ruled_out.sizes.len()
            );
            return Ok(Known::RuledOut(ruled_out));
        }
        Candidates::Signal(status) => return Err(Failure::Signal(status)),
        Candidates::Unknown(why) => why,
        Candidates::OtherFiles => "ripgrep might find other files".to_string(),
    };
    log::debug!("the tree is walked: {why}");
    Ok(Known::Nothing(AfterWalk(Some(Box::new((search, wanted))))))
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
        name.starts_with('.') && name.bytes().all(is_plain)
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

/// Returns the candidates as files to search. Leaves out those that the arguments exclude. Returns
/// `None` if files of a repository itself are searched, which an index does not list.
fn haystacks(plan: &Plan, found: &CandidateList) -> Option<Vec<Haystack>> {
    let output = output_file().filter(|_| plan.args.mode.is_search());
    let mut by_dir: Vec<Vec<Haystack>> = Vec::new();
    by_dir.resize_with(plan.paths.list.len(), Vec::new);
    for files in found.lists.iter().filter(|files| files.sizes().is_empty()) {
        let dir = plan.paths.list.get(files.target);
        let (Some(dir), Some(kept)) = (dir, by_dir.get_mut(files.target)) else {
            continue;
        };
        for below in files.iter() {
            let path = dir.join(&below);
            if is_repository(&path) {
                match leaves_out_below(plan, dir, &below, &path) {
                    true => continue,
                    false => return None,
                }
            }
            if is_kept(plan, dir, &below, &path, output) {
                kept.push(Haystack::found(path, plan));
            }
        }
    }
    if sorts_while_walking(plan) {
        for files in &mut by_dir {
            files.sort_by(|a, b| a.path().cmp(b.path()));
        }
    }
    let files: Vec<Haystack> = by_dir.into_iter().flatten().collect();
    log::debug!(
        "an index decided: {} of {} files are skipped, {} are read",
        found.skipped,
        found.files,
        files.len()
    );
    Some(files)
}

/// Returns the statistics of the texts without a match, which are counted but not listed.
fn others(plan: &Plan, found: &CandidateList) -> Stats {
    let mut stats = Stats::new();
    if plan.look.has_stats {
        stats.add_searches(found.skipped);
        let sizes = found.lists.iter().flat_map(|files| files.sizes());
        sizes.for_each(|size| stats.add_bytes_searched(*size));
    }
    stats
}

/// Returns whether a listed path is the directory of a repository, which stands for its files.
fn is_repository(path: &Path) -> bool {
    path.ends_with(".git") && fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// Returns whether the arguments exclude all files below a directory.
fn leaves_out_below(plan: &Plan, dir: &Path, below: &Path, path: &Path) -> bool {
    let depth = below.components().count();
    if plan.args.max_depth.is_some_and(|most| depth >= most) || !globs_keep(plan, dir, below, true)
    {
        return true;
    }
    let Ok(mut entries) = fs::read_dir(path) else {
        return false;
    };
    entries.all(|entry| {
        let is_left_out = |entry: fs::DirEntry| {
            let is_dir = entry.file_type().ok()?.is_dir();
            Some(!globs_keep(
                plan,
                dir,
                &below.join(entry.file_name()),
                is_dir,
            ))
        };
        entry.ok().and_then(is_left_out).unwrap_or(false)
    })
}

/// Returns whether the globs keep a path below a searched directory, and the directories above it.
fn globs_keep(plan: &Plan, dir: &Path, below: &Path, is_dir: bool) -> bool {
    if plan.globs.is_empty() {
        return true;
    }
    let depth = below.components().count();
    let mut so_far: PathBuf = dir.to_path_buf();
    (1..).zip(below.components()).all(|(nth, name)| {
        so_far.push(name);
        let shown = so_far.strip_prefix("./").unwrap_or(&so_far);
        !plan.globs.matched(shown, nth < depth || is_dir).is_ignore()
    })
}

/// Returns whether the arguments keep a file, given its path below a searched directory.
fn is_kept(
    plan: &Plan,
    dir: &Path,
    below: &Path,
    path: &Path,
    output: Option<FileIdentity>,
) -> bool {
    let args = &plan.args;
    let depth = below.components().count();
    if args.max_depth.is_some_and(|most| depth > most) || !globs_keep(plan, dir, below, false) {
        return false;
    }
    if plan.types.matched(path, false).is_ignore() {
        return false;
    }
    let is_too_large = |most: u64| fs::symlink_metadata(path).is_ok_and(|meta| meta.len() > most);
    if args.max_filesize.is_some_and(is_too_large) {
        return false;
    }
    // A file that can't be examined is searched, which reports the error.
    !output.is_some_and(|output| is_file(path, output).unwrap_or(false))
}
