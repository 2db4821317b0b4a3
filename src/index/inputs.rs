//! Eligibility inputs: the files outside of the searched ones that decide which files are searched.
//!
//! This module owns the record of ignore files and repository markers, including those that do not
//! exist, and the check whether any of them changed. It does not interpret the rules in them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rayon::prelude::*;

use crate::format::manifest::{EligibilityInput, InputKind, InputStat};
use crate::format::segment::StampRecord;
use crate::index::names::{name_bytes, name_from_bytes};
use crate::index::root_dir::{EntryKind, metadata_following};
use crate::index::rules::{ControlFiles, as_ripgrep, read_regular_file};
use crate::index::stamp::Stamp;

/// The least number of inputs per thread. For fewer, another thread does not pay off.
const LOOKED_AT_ONCE: usize = 64;

/// The inputs of one enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    list: Vec<EligibilityInput>,
}

impl Inputs {
    /// Records the possible inputs above `top`: the ignore files of each parent directory, whether
    /// or not they exist, and the global excludes.
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

    /// Records the ignore files and repository markers that were found in `dir`.
    pub fn add(&mut self, dir: &Path, found: ControlFiles) {
        found.inputs(dir, &mut |path| self.push(path));
    }

    /// Appends inputs that were recorded elsewhere.
    pub fn append(&mut self, other: Inputs) {
        self.list.extend(other.list);
    }

    /// Creates the record from stored inputs.
    pub fn from_list(list: Vec<EligibilityInput>) -> Inputs {
        Inputs { list }
    }

    /// Returns the inputs sorted by path and without repetitions, for storage.
    pub fn into_list(mut self) -> Vec<EligibilityInput> {
        self.list.sort_by(|a, b| a.path.cmp(&b.path));
        self.list.dedup();
        self.list
    }

    /// Returns the inputs in the order in which they were recorded.
    pub fn list(&self) -> &[EligibilityInput] {
        &self.list
    }

    /// Returns the path and text of each input that existed when it was recorded, sorted by path.
    /// The text is `None` if the path is no readable regular file now. Reads all these files.
    pub fn texts(&self) -> Vec<(&[u8], Option<Vec<u8>>)> {
        let there = self.list.iter().filter(|input| input.stat.is_some());
        let mut inputs: Vec<&EligibilityInput> = there.collect();
        inputs.sort_by(|a, b| a.path.cmp(&b.path));
        inputs.dedup_by(|a, b| a.path == b.path);
        // Opens the path as the rules do: a FIFO at the path of an ignore file does not block.
        let text = |input: &EligibilityInput| read_regular_file(&path_of(input)?).ok()?;
        let texts = inputs.into_iter();
        texts
            .map(|input| (input.path.as_slice(), text(input)))
            .collect()
    }

    /// Returns whether ripgrep reads the same rules from all inputs that exist, and reports no
    /// problem of them. Reads all ignore files, on the threads of the current pool.
    pub(crate) fn are_read_by_ripgrep(&self) -> bool {
        let list = self.list.par_iter().with_min_len(LOOKED_AT_ONCE);
        list.all(|input| {
            input.stat.is_none_or(|stat| {
                path_of(input).is_some_and(|path| as_ripgrep::reads(&path, stat.kind))
            })
        })
    }

    /// Returns the number of inputs.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the path of the first input that changed since it was recorded. Costs one lookup per
    /// input, on the threads of the current pool.
    pub fn changed(&self) -> Option<PathBuf> {
        let list = self.list.par_iter().with_min_len(LOOKED_AT_ONCE);
        list.find_map_first(if_changed)
    }

    /// Returns the paths of all inputs that changed, at the cost of [`Inputs::changed`].
    pub fn all_changed(&self) -> Vec<PathBuf> {
        let list = self.list.par_iter().with_min_len(LOOKED_AT_ONCE);
        list.filter_map(if_changed).collect()
    }

    /// Returns the time after `now_ns` until every later change is certain to show.
    pub fn settle_in(&self, now_ns: i64) -> Duration {
        let stats = self.list.iter().filter_map(|input| input.stat);
        stats
            .filter(|stat| stat.kind == InputKind::File)
            .map(|stat| stamp_of(&stat).settles_in(now_ns))
            .max()
            .unwrap_or_default()
    }

    /// Makes inputs that changed shortly before `now_ns` count as changed from now on: a later
    /// change might leave the same stamp.
    pub fn distrust_unsettled(&mut self, now_ns: i64) {
        for stat in self.list.iter_mut().filter_map(|input| input.stat.as_mut()) {
            if stat.kind == InputKind::File && !stamp_of(stat).is_settled(now_ns) {
                stat.kind = NEVER_SEEN;
            }
        }
    }

    fn push(&mut self, path: &Path) {
        let stat = look(path);
        self.list.push(EligibilityInput {
            path: name_bytes(path.as_os_str()).to_vec(),
            stat,
        });
    }
}

/// The kind of an input that always counts as changed. [`look`] follows links, so it never finds
/// this kind.
const NEVER_SEEN: InputKind = InputKind::Symlink;

fn path_of(input: &EligibilityInput) -> Option<PathBuf> {
    name_from_bytes(&input.path).map(PathBuf::from)
}

/// Returns the path of an input if it changed since it was recorded.
fn if_changed(input: &EligibilityInput) -> Option<PathBuf> {
    // Bytes that are no path on this system can't be checked, so they count as changed.
    let Some(path) = path_of(input) else {
        let text = String::from_utf8_lossy(&input.path);
        return Some(PathBuf::from(text.into_owned()));
    };
    let now = look(&path);
    let is_known = now.is_none_or(|stat| stat.kind != NEVER_SEEN);
    (!is_known || now != input.stat).then_some(path)
}

/// Looks up one input. For a directory only its existence counts: a repository changes all the
/// time.
fn look(path: &Path) -> Option<InputStat> {
    let meta = metadata_following(path).ok()?;
    let kind = match meta.kind {
        EntryKind::File => InputKind::File,
        EntryKind::Dir => InputKind::Directory,
        EntryKind::Symlink | EntryKind::Other => InputKind::Other,
    };
    let (kind, record) = match (kind, Stamp::of(&meta)) {
        (InputKind::File, Some(stamp)) => (kind, stamp.record()),
        // The time does not fit into a stamp, so a later change might not show.
        (InputKind::File, None) => (NEVER_SEEN, StampRecord::default()),
        _ => (kind, StampRecord::default()),
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_input_above_counts_existence_included() {
        let tmp = tempfile::tempdir().unwrap();
        let base = tmp.path().canonicalize().unwrap();
        let top = base.join("a/b");
        fs::create_dir_all(&top).unwrap();
        let excludes = base.join("excludes");
        fs::write(&excludes, "*.x").unwrap();
        let look = || Inputs::from_list(Inputs::above(&top, Some(&excludes)).into_list());
        assert_eq!(look().changed(), None);
        let touched = [
            ".gitignore",
            ".ignore",
            ".rgignore",
            "a/.gitignore",
            "a/.jj",
            "excludes",
        ];
        for path in touched {
            let before = look();
            fs::write(base.join(path), "new content").unwrap();
            assert_eq!(before.changed(), Some(base.join(path)));
        }
        let before = look();
        fs::create_dir_all(base.join(".git/info")).unwrap();
        assert_eq!(before.changed(), Some(base.join(".git")));
        let before = look();
        fs::write(base.join(".git/info/exclude"), "x").unwrap();
        assert_eq!(before.changed(), Some(base.join(".git/info/exclude")));
        let before = look();
        fs::write(base.join(".git/index.lock"), "x").unwrap();
        assert_eq!(
            before.changed(),
            None,
            "a repository at work changes no rules"
        );
        fs::remove_file(base.join("a/.gitignore")).unwrap();
        assert_eq!(before.changed(), Some(base.join("a/.gitignore")));
    }

    #[test]
    fn a_worktree_depends_on_what_its_git_file_points_to() {
        let tmp = tempfile::tempdir().unwrap();
        let base = tmp.path().canonicalize().unwrap();
        let git = base.join("main/.git/worktrees/w");
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("commondir"), "../..\n").unwrap();
        fs::create_dir_all(base.join("w/top")).unwrap();
        fs::write(base.join("w/.git"), format!("gitdir: {}\n", git.display())).unwrap();
        let before = Inputs::above(&base.join("w/top"), None);
        assert_eq!(before.changed(), None);
        fs::create_dir_all(base.join("main/.git/info")).unwrap();
        fs::write(base.join("main/.git/info/exclude"), "*.x").unwrap();
        let changed = before.changed().unwrap();
        assert!(changed.ends_with("info/exclude"), "{changed:?}");
        fs::write(git.join("commondir"), "../../..\n").unwrap();
        assert!(before.changed().is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn eligibility_inputs_that_are_no_files_count_as_empty_and_do_not_block() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().canonicalize().unwrap();
        let fifo = |name: &str| {
            use rustix::fs::{CWD, Mode, mkfifoat};
            mkfifoat(CWD, dir.join(name), Mode::RWXU).unwrap();
        };
        fifo(".git");
        fifo(".ignore");
        std::os::unix::fs::symlink("/dev/zero", dir.join(".gitignore")).unwrap();
        fs::write(dir.join(".rgignore"), "*.x").unwrap();
        let mut inputs = Inputs::default();
        inputs.add(&dir, ControlFiles::ALL);
        let texts = inputs.texts();
        let said = texts.iter().filter_map(|(_, text)| text.clone());
        assert_eq!((texts.len(), said.collect()), (4, vec![b"*.x".to_vec()]));
    }

    #[test]
    fn what_has_just_changed_is_not_trusted() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().canonicalize().unwrap();
        fs::write(dir.join(".ignore"), "x").unwrap();
        let mut inputs = Inputs::default();
        inputs.add(&dir, ControlFiles::ALL);
        let stat = inputs.list.iter().find_map(|input| input.stat).unwrap();
        // Windows has no time of change.
        let changed_ns = stat.ctime_ns.max(stat.mtime_ns);
        assert!(!inputs.settle_in(changed_ns).is_zero());
        let mut settled = inputs.clone();
        settled.distrust_unsettled(changed_ns + 3_000_000_000);
        assert_eq!(settled.changed(), None);
        inputs.distrust_unsettled(changed_ns);
        assert_eq!(inputs.changed(), Some(dir.join(".ignore")));
    }
}
