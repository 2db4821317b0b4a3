//! Eligibility inputs: everything outside of the searched files that decides which files are searched.
//!
//! Owns the record of ignore files and repository markers, existence included, and the check whether any of them
//! changed. What the rules say is another module's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::format::manifest::{EligibilityInput, InputKind, InputStat};
use crate::format::segment::StampRecord;
use crate::index::beneath::{EntryKind, metadata_following};
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::rules::ControlFiles;
use crate::index::stamp::Stamp;

/// The inputs of one enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    list: Vec<EligibilityInput>,
}

impl Inputs {
    /// Looks at everything above `top` that can decide: files with rules in each directory above it, whether or
    /// not they exist, and the global excludes.
    pub fn above(top: &Path, global_excludes: Option<&Path>) -> Inputs {
        let mut inputs = Inputs::default();
        for dir in top.ancestors().skip(1) {
            inputs.add(dir, ControlFiles::ALL);
        }
        if let Some(path) = global_excludes {
            inputs.push(path);
        }
        inputs
    }

    /// Looks at the files with rules that were found in `dir`.
    pub fn add(&mut self, dir: &Path, found: ControlFiles) {
        for path in found.inputs(dir) {
            self.push(&path);
        }
    }

    /// Adds inputs that were looked at elsewhere.
    pub fn append(&mut self, other: Inputs) {
        self.list.extend(other.list);
    }

    /// Takes inputs from where they were kept.
    pub fn from_list(list: Vec<EligibilityInput>) -> Inputs {
        Inputs { list }
    }

    /// Returns the inputs in a fixed order, to be kept.
    pub fn into_list(mut self) -> Vec<EligibilityInput> {
        self.list.sort_by(|a, b| a.path.cmp(&b.path));
        self.list.dedup();
        self.list
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the first input that is not as it was. One lookup an input.
    pub fn changed(&self) -> Option<PathBuf> {
        self.list.iter().find_map(|input| {
            let path = path_of(input)?;
            (look(&path) != input.stat).then_some(path)
        })
    }

    /// Returns how long after `now_ns` every later change is certain to show.
    pub fn settle_in(&self, now_ns: i64) -> Duration {
        let stats = self.list.iter().filter_map(|input| input.stat);
        stats
            .filter(|stat| stat.kind == InputKind::File)
            .map(|stat| stamp_of(&stat).settles_in(now_ns))
            .max()
            .unwrap_or_default()
    }

    fn push(&mut self, path: &Path) {
        // A path that can't be kept can't be checked either, and nothing is to depend on it: its state is taken for
        // one that it can't have.
        let stat = look(path);
        self.list.push(EligibilityInput {
            path: name_bytes(path.as_os_str()).to_vec(),
            stat,
        });
    }
}

fn path_of(input: &EligibilityInput) -> Option<PathBuf> {
    name_from_bytes(&input.path).map(PathBuf::from)
}

/// Looks at one input. Of a directory only counts that it is there: a repository's changes all the time.
fn look(path: &Path) -> Option<InputStat> {
    let meta = metadata_following(path).ok()?;
    let kind = match meta.kind {
        EntryKind::File => InputKind::File,
        EntryKind::Dir => InputKind::Directory,
        EntryKind::Symlink | EntryKind::Other => InputKind::Other,
    };
    let record = match kind {
        InputKind::File => Stamp::of(&meta)?.record(),
        _ => StampRecord::default(),
    };
    Some(InputStat {
        kind,
        size: record.len,
        mtime_ns: record.modified_ns,
        ctime_ns: record.changed_ns,
        dev: record.device,
        ino: record.inode,
    })
}

fn stamp_of(stat: &InputStat) -> Stamp {
    Stamp::from_record(StampRecord {
        len: stat.size,
        modified_ns: stat.mtime_ns,
        changed_ns: stat.ctime_ns,
        device: stat.dev,
        inode: stat.ino,
        links: 0,
    })
}

/// Returns true for a name that no kept path can have: the catalog and lists of paths hold lines.
pub fn has_line_break(name: &OsStr) -> bool {
    name.as_encoded_bytes().contains(&b'\n')
}
