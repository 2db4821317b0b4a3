//! Records which parts of an answer were handed out, so that a second search can hand out the rest.
//!
//! A search may fail after a part of its answer was handed out: the catalog turns out to be
//! damaged, or the daemon that answers is killed. Then the same question is searched again, in the
//! same order. Parts that were already handed out are skipped.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::exec::collect::Found;
use crate::format::sort_key::cmp_paths;

/// The parts of an answer that were handed out, in emission order.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedOut {
    /// The last file: the index of its searched path, and its path relative to that.
    last: Option<(usize, PathBuf)>,
    /// Files and directories that could not be read. Their errors may come after files that follow
    /// them in the order.
    errors: BTreeSet<(usize, PathBuf)>,
}

impl HandedOut {
    /// Records a part that is handed out.
    pub(crate) fn note(&mut self, found: &Found) {
        match found {
            Found::File(file) => self.last = Some((file.target, file.path.clone())),
            Found::Error(error) => {
                self.errors.insert((error.target, error.path.clone()));
            }
        }
    }

    /// Returns true for a part that was handed out, or that precedes one that was.
    pub(crate) fn has(&self, found: &Found) -> bool {
        match found {
            Found::File(file) => self.last.as_ref().is_some_and(|(target, path)| {
                let by_target = file.target.cmp(target);
                by_target.then_with(|| cmp_paths(&file.path, path)).is_le()
            }),
            Found::Error(error) => self.errors.contains(&(error.target, error.path.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::event::{FileAnswer, FileError, FileOutcome};

    fn file(target: usize, path: &str) -> Found {
        Found::File(FileAnswer {
            target,
            path: path.into(),
            outcome: FileOutcome::nothing(),
        })
    }

    fn error(path: &str) -> Found {
        Found::Error(FileError {
            target: 0,
            path: path.into(),
            message: "unreadable".to_string(),
        })
    }

    #[test]
    fn parts_up_to_the_last_one_are_not_handed_out_again() {
        let mut handed_out = HandedOut::default();
        assert!(!handed_out.has(&file(0, "a")));
        for found in [file(0, "a"), error("z"), file(1, "b/c")] {
            handed_out.note(&found);
        }
        let all = [
            file(0, "a"),
            file(0, "zz"),
            error("z"),
            file(1, "b"),
            file(1, "b/c"),
        ];
        assert!(all.iter().all(|found| handed_out.has(found)));
        let rest = [file(1, "b/d"), file(2, "a"), error("b")];
        assert!(!rest.iter().any(|found| handed_out.has(found)));
    }
}
