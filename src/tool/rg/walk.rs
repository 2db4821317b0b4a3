//! The files to search: the walk with ripgrep's rules, and the order of its results.
//!
//! This module owns the translation of flags into the settings of the walk, and the decision
//! whether a found entry is searched. The crate `ignore` walks.

use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

use super::args::{Sort, SortKey};
use super::messages::Reporter;
use super::plan::{Plan, timestamp};

/// Prepares the walk. Reports ignore files that can't be read.
pub(super) fn walk(plan: &Plan, reporter: &Reporter) -> WalkBuilder {
    let args = &plan.args;
    let mut builder = WalkBuilder::empty();
    for path in &plan.paths.list {
        builder.add(path);
    }
    if !args.no_ignore_files {
        for path in &args.ignore_files {
            if let Some(error) = builder.add_ignore(path) {
                reporter.ignore_rule(&error.to_string());
            }
        }
    }
    builder
        .max_depth(args.max_depth)
        .follow_links(args.follow)
        .max_filesize(args.max_filesize)
        .threads(plan.threads)
        .same_file_system(args.one_file_system)
        .skip_stdout(args.mode.is_search())
        .overrides(plan.globs.clone())
        .types(plan.types.clone())
        .hidden(!args.hidden)
        .parents(!args.no_ignore_parent)
        .ignore(!args.no_ignore_dot)
        .git_global(!args.no_ignore_vcs && !args.no_ignore_global)
        .git_ignore(!args.no_ignore_vcs)
        .git_exclude(!args.no_ignore_vcs && !args.no_ignore_exclude)
        .require_git(!args.no_require_git)
        .ignore_case_insensitive(args.ignore_file_case_insensitive)
        .current_dir(&plan.working_dir);
    if !args.no_ignore_dot {
        builder.add_custom_ignore_filename(".rgignore");
    }
    if sorts_while_walking(plan) {
        builder.sort_by_file_name(Ord::cmp);
    }
    builder
}

/// Returns whether the walk itself has the order that `--sort` asks for: by path, below each typed
/// path on its own.
pub(super) fn sorts_while_walking(plan: &Plan) -> bool {
    let sort = plan.args.sort;
    sort.is_some_and(|sort| sort.key == SortKey::Path && !sort.reversed)
}

/// A file to search, or standard input.
#[derive(Debug)]
pub(super) struct Haystack {
    path: PathBuf,
    /// The user named this file, or standard input.
    named: bool,
    /// This is standard input.
    stdin: bool,
    /// No path was typed, so that `./` is not printed.
    implicit: bool,
}

impl Haystack {
    /// Takes an entry of the walk if it is to be searched. Reports its errors.
    pub(super) fn of(
        found: Result<DirEntry, ignore::Error>,
        plan: &Plan,
        reporter: &Reporter,
    ) -> Option<Haystack> {
        let entry = match found {
            Ok(entry) => entry,
            Err(error) => {
                reporter.error(&error.to_string());
                return None;
            }
        };
        if let Some(error) = entry.error() {
            reporter.ignore_rule(&error.to_string());
        }
        let named = entry.is_stdin() || (entry.depth() == 0 && !is_dir(&entry));
        // A link that was not followed is no file.
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if named || is_file {
            return Some(Haystack {
                named,
                stdin: entry.is_stdin(),
                implicit: plan.paths.implicit,
                path: entry.into_path(),
            });
        }
        if !is_dir(&entry) {
            log::debug!("{}: not a file", entry.path().display());
        }
        None
    }

    /// Takes a file that an index found below a typed directory.
    pub(super) fn found(path: PathBuf, plan: &Plan) -> Haystack {
        Haystack {
            path,
            named: false,
            stdin: false,
            implicit: plan.paths.implicit,
        }
    }

    /// Returns the path as results show it.
    pub(super) fn path(&self) -> &Path {
        let path = &*self.path;
        match path.strip_prefix("./") {
            Ok(stripped) if self.implicit => stripped,
            _ => path,
        }
    }

    /// Returns the path as the walk found it.
    pub(super) fn found_path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the user named this file, or standard input.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Returns whether this is standard input.
    pub(super) fn is_stdin(&self) -> bool {
        self.stdin
    }
}

fn is_dir(entry: &DirEntry) -> bool {
    let is_link_to_dir = || entry.path_is_symlink() && entry.path().is_dir();
    entry
        .file_type()
        .is_some_and(|kind| kind.is_dir() || is_link_to_dir())
}

/// Walks on this thread, and hands out the files in the order that `--sort` asks for.
pub(super) fn sequence<'a>(
    plan: &'a Plan,
    reporter: &'a Reporter,
) -> Box<dyn Iterator<Item = Haystack> + 'a> {
    let walk = walk(plan, reporter).build();
    let found = walk.filter_map(move |found| Haystack::of(found, plan, reporter));
    match plan.args.sort.filter(|_| !sorts_while_walking(plan)) {
        None => Box::new(found),
        Some(sort) => sorted(found, sort),
    }
}

/// Hands out files from an index in the order that `--sort` asks for. Each file has the position of
/// the typed path that it lies below. The files below one path come together.
pub(super) fn in_order(
    mut files: Vec<(usize, Haystack)>,
    plan: &Plan,
) -> Box<dyn Iterator<Item = Haystack>> {
    match sorts_while_walking(plan) {
        true => files.sort_by(|(a, one), (b, other)| (a, one.path()).cmp(&(b, other.path()))),
        false => files.sort_by_key(|(target, _)| *target),
    }
    let files = files.into_iter().map(|(_, file)| file);
    match plan.args.sort.filter(|_| !sorts_while_walking(plan)) {
        None => Box::new(files),
        Some(sort) => sorted(files, sort),
    }
}

fn sorted<'a>(
    found: impl Iterator<Item = Haystack> + 'a,
    sort: Sort,
) -> Box<dyn Iterator<Item = Haystack> + 'a> {
    let Some(read) = timestamp(sort.key) else {
        let mut all: Vec<_> = found.collect();
        all.sort_by(|a, b| b.path().cmp(a.path()));
        return Box::new(all.into_iter());
    };
    let mut dated: Vec<_> = found
        .map(|haystack| {
            let time = haystack.path().metadata().and_then(|meta| read(&meta));
            (time.ok(), haystack)
        })
        .collect();
    dated.sort_by(|(a, _), (b, _)| {
        // A file without a time comes last in ascending order.
        let order = (a.is_none(), a).cmp(&(b.is_none(), b));
        if sort.reversed {
            order.reverse()
        } else {
            order
        }
    });
    Box::new(dated.into_iter().map(|(_, haystack)| haystack))
}
