//! A tree that changes at random. The same seed makes the same changes, independently of the
//! requests between them.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use super::changes::open_up;
use super::words;
use crate::differential::Seeded;
use crate::support::Tree;

/// Trees with more files than this tend to lose files.
const CROWDED: usize = 70;

/// Trees with fewer files than this tend to gain files.
const SPARSE: usize = 30;

/// A directory at this depth gets no subdirectories.
pub(super) const DEEP: usize = 6;

/// The number of last changes that are recorded for the report of a mismatch.
const HISTORY: usize = 16;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Create,
    Rewrite,
    Patch,
    PatchKeepingTime,
    RewriteKeepingTime,
    Append,
    Truncate,
    Touch,
    Replace,
    RenameFile,
    RenameOver,
    RenameDir,
    RenameDirOntoEmpty,
    RenameDirInto,
    DeleteFile,
    DeleteDir,
    DeepDir,
    Chmod,
    ChmodBack,
    Symlink,
    SwapForLink,
    HardLink,
    WriteThroughLink,
    IgnoreFile,
    Exclude,
    Repository,
    FileToDir,
    DirToFile,
}

use Kind::*;

/// All kinds. Frequent kinds are listed more than once.
pub(crate) const ALL: &[Kind] = &[
    Create,
    Create,
    Create,
    Create,
    Create,
    Rewrite,
    Rewrite,
    Patch,
    Patch,
    PatchKeepingTime,
    PatchKeepingTime,
    RewriteKeepingTime,
    Append,
    Append,
    Truncate,
    Touch,
    Replace,
    Replace,
    RenameFile,
    RenameFile,
    RenameOver,
    RenameDir,
    RenameDirOntoEmpty,
    RenameDirInto,
    DeleteFile,
    DeleteDir,
    DeepDir,
    Chmod,
    ChmodBack,
    Symlink,
    SwapForLink,
    HardLink,
    HardLink,
    WriteThroughLink,
    WriteThroughLink,
    IgnoreFile,
    IgnoreFile,
    Exclude,
    Repository,
    FileToDir,
    DirToFile,
];

/// The kinds that change the content of files and leave names and directories alone.
pub(crate) const IN_PLACE: &[Kind] = &[
    Rewrite,
    Patch,
    Patch,
    PatchKeepingTime,
    PatchKeepingTime,
    RewriteKeepingTime,
    Append,
    Truncate,
    Touch,
    Chmod,
    ChmodBack,
    WriteThroughLink,
];

/// The kinds that write a new token.
pub(crate) const WRITING: &[Kind] = &[
    Create,
    Create,
    Rewrite,
    Rewrite,
    Patch,
    Patch,
    PatchKeepingTime,
    PatchKeepingTime,
    RewriteKeepingTime,
    Append,
    Append,
    Replace,
    Replace,
    DeepDir,
    WriteThroughLink,
    FileToDir,
    DirToFile,
    HardLink,
    RenameOver,
];

/// The writing kinds that change the content of files and leave names and directories alone.
pub(crate) const WRITING_IN_PLACE: &[Kind] = &[
    Rewrite,
    Patch,
    PatchKeepingTime,
    PatchKeepingTime,
    RewriteKeepingTime,
    Append,
    WriteThroughLink,
];

/// The contents of a tree, as sorted paths relative to its top.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<PathBuf>,
    /// The top is the first one.
    pub(super) dirs: Vec<PathBuf>,
    pub(super) links: Vec<PathBuf>,
}

/// A tree that changes.
pub(crate) struct Living {
    tree: Tree,
    pub(super) rng: Seeded,
    changes: u64,
    /// The token that was written last.
    pub(crate) written: String,
    /// A token that the last change removed.
    pub(crate) removed: Option<String>,
    history: VecDeque<String>,
}

impl Living {
    /// Makes a tree of some files. Half of the trees are git repositories.
    pub(crate) fn new(seed: u64) -> Living {
        let mut living = Living {
            tree: Tree::new(),
            rng: Seeded::new(seed),
            changes: 0,
            written: words::token(0),
            removed: None,
            history: VecDeque::new(),
        };
        if seed.is_multiple_of(2) {
            living.tree.dir(".git/info");
        }
        for _ in 0..45 {
            living.change(&[Create, Create, Create, Create, DeepDir, HardLink]);
        }
        living
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.tree.root()
    }

    /// Returns the last changes, the newest at the end.
    pub(crate) fn history(&self) -> Vec<String> {
        self.history.iter().cloned().collect()
    }

    /// Returns the real directories that a request can name, without the top.
    pub(crate) fn directories(&self) -> Vec<String> {
        nameable(self.list().dirs.into_iter().skip(1))
    }

    /// Returns the files that a request can name.
    pub(crate) fn files(&self) -> Vec<String> {
        nameable(self.list().files.into_iter())
    }

    /// Makes one change of a random kind out of `kinds`. Returns the kind.
    pub(crate) fn change(&mut self, kinds: &[Kind]) -> Kind {
        loop {
            let listing = self.list();
            let mut kind = self.rng.pick(kinds);
            let grows = kinds.contains(&Create);
            if listing.files.len() > CROWDED && grows && self.rng.one_in(3) {
                kind = self.rng.pick(&[DeleteFile, DeleteDir, RenameOver]);
            } else if listing.files.len() < SPARSE && grows && self.rng.one_in(2) {
                kind = Create;
            }
            if listing.files.is_empty() {
                kind = self.rng.pick(&[Create, ChmodBack]);
            }
            self.changes += 1;
            let token = words::token(self.changes);
            self.removed = None;
            // Some changes are impossible in the current tree.
            if let Ok(what) = self.make(kind, &listing, &token) {
                self.written = token;
                let what = format!("#{} {kind:?} {what}", self.changes);
                self.history.push_back(what);
                if self.history.len() > HISTORY {
                    self.history.pop_front();
                }
                return kind;
            }
        }
    }

    fn list(&self) -> Listing {
        let mut listing = Listing::default();
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            // An unreadable directory is listed too, without its contents.
            let entries = fs::read_dir(self.root().join(&dir)).into_iter().flatten();
            for entry in entries {
                let entry = entry.unwrap();
                let (path, kind) = (dir.join(entry.file_name()), entry.file_type().unwrap());
                match path.ends_with(".git") {
                    true => {}
                    false if kind.is_dir() => todo.push(path),
                    false if kind.is_symlink() => listing.links.push(path),
                    false => listing.files.push(path),
                }
            }
            listing.dirs.push(dir);
        }
        listing.files.sort();
        listing.dirs.sort();
        listing.links.sort();
        listing
    }
}

impl Drop for Living {
    /// Makes directories accessible again: one that can't be listed can't be removed.
    fn drop(&mut self) {
        for _ in 0..DEEP {
            for dir in self.list().dirs {
                let _ = open_up(&self.root().join(dir));
            }
        }
    }
}

fn nameable(paths: impl Iterator<Item = PathBuf>) -> Vec<String> {
    paths
        .filter_map(|path| path.into_os_string().into_string().ok())
        .collect()
}
