//! The files that an index lists for a search, handed out while the index still looks for more.
//!
//! Each file is searched as soon as it is handed out. If the index then breaks off, the walk finds
//! all files, and skips those that are searched already. This module owns the conversion of lists
//! to files to search, and what the walk skips.

use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use grep_printer::Stats;

use super::Failure;
use super::plan::Plan;
use super::walk::Haystack;
use crate::exec::answer::listed::ListedFiles;
use crate::exec::question::FileIdentity;
use crate::tool::cli::answers::candidates::{
    CandidateSearch, Candidates, Wanted, is_file, output_file,
};

/// Receives a file to search, and the position of the typed path that it lies below. `None` asks
/// only whether more files are wanted.
pub(super) type FileTaker<'a> = dyn FnMut(Option<(usize, Haystack)>) -> ControlFlow<()> + 'a;

#[allow(clippy::disallowed_types, reason = "nothing iterates")]
type ByPath<T> = std::collections::HashMap<OsString, T>;

/// Files that the walk finds, but does not read. Their paths are those of the walk.
#[derive(Debug, Default)]
pub(super) struct SkippedByWalk {
    /// Files without a match: the bytes that a search of the file would read; zero unless they are
    /// counted.
    ruled_out: ByPath<u64>,
    /// Files that are searched already: how often the walk still skips them. Typed paths may
    /// overlap, and then ripgrep searches a file several times.
    searched: ByPath<AtomicU32>,
}

impl SkippedByWalk {
    /// Returns the set of files that are searched already.
    pub(super) fn of_searched(paths: impl IntoIterator<Item = PathBuf>) -> SkippedByWalk {
        let mut skipped = SkippedByWalk::default();
        for path in paths {
            let times = skipped.searched.entry(path.into_os_string()).or_default();
            *times.get_mut() += 1;
        }
        skipped
    }

    /// Returns the number of files without a match.
    pub(super) fn ruled_out(&self) -> usize {
        self.ruled_out.len()
    }

    /// Returns the number of bytes of a file without a match; `None` if the file has to be read.
    pub(super) fn size_of(&self, haystack: &Haystack) -> Option<u64> {
        if self.ruled_out.is_empty() || haystack.is_named() {
            return None;
        }
        let path = haystack.found_path().as_os_str();
        self.ruled_out.get(path).copied()
    }

    /// Returns whether a file is searched already. Each search counts once.
    pub(super) fn is_searched(&self, haystack: &Haystack) -> bool {
        if self.searched.is_empty() || haystack.is_named() {
            return false;
        }
        let times = self.searched.get(haystack.found_path().as_os_str());
        let one_less = |times: u32| times.checked_sub(1);
        times.is_some_and(|times| {
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            times.fetch_update(set, fetch, one_less).is_ok()
        })
    }

    /// Adds the files of a list, which have no match.
    pub(super) fn rule_out(&mut self, plan: &Plan, files: &ListedFiles, dirs: &[PathBuf]) {
        let Some(dir) = dirs.get(files.target) else {
            return;
        };
        let all = files.sizes().iter().copied().map(Some);
        let all = all.chain(std::iter::repeat(None));
        for (below, size) in files.iter().zip(all) {
            if size.is_some() || !plan.look.has_stats {
                let path = dir.join(&below).into_os_string();
                self.ruled_out.insert(path, size.unwrap_or(0));
            }
        }
    }

    /// Forgets the files without a match: the index broke off.
    pub(super) fn rule_nothing_out(&mut self) {
        self.ruled_out.clear();
    }
}

/// What an index listed.
pub(super) enum Listing {
    /// All files to read. These are the statistics of the others.
    Complete(Stats),
    /// These files, which are searched. The index may still rule others out.
    Partial(SkippedByWalk),
    /// These files, which are searched. No index decides about the others, for this reason.
    Undecided(SkippedByWalk, String),
}

/// Asks for the files to read, and hands them to `taker`.
///
/// # Errors
///
/// [`Failure::Signal`] if a signal arrived meanwhile.
pub(super) fn list(
    plan: &Plan,
    wanted: &Wanted,
    search: &CandidateSearch,
    taker: &mut FileTaker<'_>,
) -> Result<Listing, Failure> {
    let mut feed = FileFeed {
        plan,
        taker,
        output: output_file().filter(|_| plan.args.mode.is_search()),
        lists: Vec::new(),
        files: 0,
        others: Stats::new(),
        ended: None,
    };
    let answer = search.find(wanted, &mut |files| feed.take(files));
    Ok(match (feed.ended, answer) {
        (_, Candidates::Signal(status)) => return Err(Failure::Signal(status)),
        (Some(Ended::Enough), _) => {
            let read = feed.files;
            log::debug!("an index decided: the other files are skipped, at most {read} are read");
            Listing::Complete(Stats::new())
        }
        (Some(Ended::Repository), _) => {
            log::debug!("files of a repository are searched");
            Listing::Partial(feed.searched())
        }
        (None, Candidates::Known(counts)) => {
            log::debug!(
                "an index decided: {} of {} files are skipped, {} are read",
                counts.skipped,
                counts.files,
                feed.files
            );
            let mut others = feed.others;
            if plan.look.has_stats {
                others.add_searches(counts.skipped);
            }
            Listing::Complete(others)
        }
        (None, Candidates::OtherFiles) => {
            log::debug!("ripgrep might find other files");
            Listing::Partial(feed.searched())
        }
        (None, Candidates::Unknown(why)) if wanted.list.has_hidden() => {
            log::debug!("no index lists hidden files: {why}");
            Listing::Partial(feed.searched())
        }
        (None, Candidates::Unknown(why)) => Listing::Undecided(feed.searched(), why),
    })
}

/// The files of an index on their way to a search.
struct FileFeed<'a, 'b> {
    plan: &'a Plan,
    taker: &'a mut FileTaker<'b>,
    /// The file that standard output is redirected to, which is not searched.
    output: Option<FileIdentity>,
    /// All lists whose files were handed out.
    lists: Vec<ListedFiles>,
    /// The number of files that were handed out.
    files: usize,
    /// The statistics of the files that are not read.
    others: Stats,
    ended: Option<Ended>,
}

/// Why no more files are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The search wants no more.
    Enough,
    /// Files of a repository itself are searched, which an index does not list.
    Repository,
}

impl FileFeed<'_, '_> {
    fn take(&mut self, files: ListedFiles) -> ControlFlow<()> {
        let taken = match files.sizes() {
            [] => self.hand_out(files),
            sizes => {
                let sizes = sizes.iter();
                sizes.for_each(|size| self.others.add_bytes_searched(*size));
                (self.taker)(None)
            }
        };
        if taken.is_break() {
            self.ended = self.ended.or(Some(Ended::Enough));
        }
        taken
    }

    fn hand_out(&mut self, files: ListedFiles) -> ControlFlow<()> {
        let Some(haystacks) = haystacks(self.plan, &files, self.output) else {
            self.ended = Some(Ended::Repository);
            return ControlFlow::Break(());
        };
        let target = files.target;
        self.lists.push(files);
        self.files += haystacks.len();
        haystacks
            .into_iter()
            .try_for_each(|file| (self.taker)(Some((target, file))))
    }

    /// Returns all files that were handed out.
    fn searched(self) -> SkippedByWalk {
        let dirs = &self.plan.paths.list;
        SkippedByWalk::of_searched(self.lists.iter().flat_map(|files| {
            let dir = dirs.get(files.target).into_iter();
            dir.flat_map(|dir| files.iter().map(move |below| dir.join(below)))
        }))
    }
}

/// Returns the files of a list as files to search. Leaves out those that the arguments exclude.
/// Returns `None` if files of a repository itself are searched, which an index does not list.
fn haystacks(
    plan: &Plan,
    files: &ListedFiles,
    output: Option<FileIdentity>,
) -> Option<Vec<Haystack>> {
    let Some(dir) = plan.paths.list.get(files.target) else {
        return Some(Vec::new());
    };
    let mut kept = Vec::with_capacity(files.len());
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
    Some(kept)
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
