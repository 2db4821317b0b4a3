//! The nodes of a walk: directories to be listed, and the files found in them.
//!
//! Sibling directories whose names have the same ordering key form one node, because their entries
//! interleave.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Member;
use crate::format::manifest::RuleSets;
use crate::index::root_dir::{EntryMeta, RootDir};

/// The location of a directory: the path that leads to it, and its real path.
#[derive(Debug)]
pub struct Place {
    /// The allowed root that contains the directory.
    pub root: Arc<RootDir>,
    /// The real path, without symbolic links, relative to the root.
    pub real: PathBuf,
    /// The path that led to the directory, relative to the top of the walk; empty for the top.
    pub logical: PathBuf,
}

impl Place {
    /// Returns the real absolute path.
    pub fn absolute(&self) -> PathBuf {
        join(self.root.path(), &self.real)
    }
}

/// Joins two paths without the trailing separator that an empty `right` would leave.
pub fn join(left: &Path, right: &Path) -> PathBuf {
    if right.as_os_str().is_empty() {
        left.to_path_buf()
    } else {
        left.join(right)
    }
}

/// A file found by a walk.
#[derive(Clone, Debug)]
pub struct FoundFile {
    /// The directory that contains the entry.
    pub dir: Arc<Place>,
    /// The name of the entry.
    pub name: OsString,
    /// For a followed link: the root of the target, and the real path of the target in that root.
    pub target: Option<Arc<(Arc<RootDir>, PathBuf)>>,
}

impl FoundFile {
    /// Returns the path that led to the file, relative to the top of the walk.
    pub fn logical(&self) -> PathBuf {
        self.dir.logical.join(&self.name)
    }

    /// Returns the approximate length of [`logical`](Self::logical) in bytes.
    pub(crate) fn logical_len(&self) -> usize {
        self.dir.logical.as_os_str().len() + 1 + self.name.len()
    }

    /// Returns the real absolute path.
    pub fn absolute(&self) -> PathBuf {
        match &self.target {
            Some(target) => join(target.0.path(), &target.1),
            None => join(self.dir.root.path(), &self.dir.real).join(&self.name),
        }
    }

    /// Opens the file beneath its root. Fails if a component of the path has become a symbolic
    /// link.
    ///
    /// # Errors
    ///
    /// Any I/O error, with a message that suits the `errors` of a response.
    pub fn open(&self) -> io::Result<(File, EntryMeta)> {
        match &self.target {
            Some(target) => target.0.open_file_with_meta(&target.1),
            None => self
                .dir
                .root
                .open_file_with_meta(&self.dir.real.join(&self.name)),
        }
    }
}

/// A directory to be listed. Sibling directories whose names have the same ordering key form one
/// node, because their entries interleave.
#[derive(Clone, Debug)]
pub struct DirNode {
    pub(super) members: Vec<Member>,
}

impl DirNode {
    /// Returns the directories of the node: one, except for siblings with the same ordering key.
    pub fn places(&self) -> impl Iterator<Item = &Arc<Place>> {
        self.members.iter().map(|member| &member.place)
    }

    /// Returns the sets of ignore rules by which the first directory is eligible.
    pub fn sets(&self) -> RuleSets {
        let first = self.members.first();
        first.map_or(RuleSets::NONE, |member| member.rules.sets())
    }

    /// Returns, for each directory in order, the sets of ignore rules by which it is eligible.
    pub(crate) fn sets_of_each(&self) -> impl Iterator<Item = RuleSets> {
        self.members.iter().map(|member| member.rules.sets())
    }

    /// Splits the node into one node per directory, for callers that do not need one order of
    /// entries.
    pub fn into_singles(self) -> impl Iterator<Item = DirNode> {
        let members = self.members.into_iter();
        members.map(|member| DirNode {
            members: vec![member],
        })
    }
}
