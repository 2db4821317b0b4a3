//! Records which parts of an answer a caller has got, so that a second search can pass on the rest.
//!
//! A part is *handed out* once the caller has got it. A search may fail after that: the catalog
//! turns out to be damaged, or the daemon that answers is killed. Then the same question is
//! searched again, in the same order. Parts that were already handed out are skipped.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::exec::answer::collect::Found;
use crate::exec::answer::outcome::FileAnswer;
use crate::format::sort_key::cmp_paths;

/// The parts of an answer that were handed out, in emission order.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandedOut {
    /// The last file: the index of its searched path, and its path relative to that.
    last: Option<(usize, PathBuf)>,
    /// The number of the last line of that file, if more of its lines follow.
    unfinished_at: Option<u64>,
    /// Files and directories that could not be read. Their errors may come after files that follow
    /// them in the order.
    errors: BTreeSet<(usize, PathBuf)>,
}

impl HandedOut {
    /// Records a part that is handed out.
    pub(crate) fn note(&mut self, found: &Found) {
        match found {
            Found::File(file) => {
                let last_line = file.outcome.lines.last().map(|line| line.number);
                self.unfinished_at = last_line.filter(|_| file.outcome.continues);
                self.last = Some((file.target, file.path.clone()));
            }
            Found::Listed(files) => {
                self.unfinished_at = None;
                if let Some(last) = files.last() {
                    self.last = Some((files.target, last.into_owned()));
                }
            }
            Found::Error(error) => {
                self.errors.insert((error.target, error.path.clone()));
            }
        }
    }

    /// Returns what is left of a part after the parts that were handed out. `None` if the part was
    /// handed out, or precedes one that was.
    pub(crate) fn rest(&self, found: Found) -> Option<Found> {
        match found {
            Found::File(file) => self.rest_of_file(file).map(Found::File),
            Found::Listed(mut files) => {
                if let Some((target, last)) = &self.last {
                    match files.target.cmp(target) {
                        Ordering::Less => return None,
                        Ordering::Equal => {
                            files.drop_while(|path| cmp_paths(path, last).is_le());
                        }
                        Ordering::Greater => {}
                    }
                }
                (!files.is_empty()).then_some(Found::Listed(files))
            }
            Found::Error(error) => {
                let was_handed_out = self.errors.contains(&(error.target, error.path.clone()));
                (!was_handed_out).then_some(Found::Error(error))
            }
        }
    }

    fn rest_of_file(&self, mut file: FileAnswer) -> Option<FileAnswer> {
        let Some((target, path)) = &self.last else {
            return Some(file);
        };
        let by_target = file.target.cmp(target);
        match by_target.then_with(|| cmp_paths(&file.path, path)) {
            Ordering::Greater => return Some(file),
            Ordering::Less => return None,
            Ordering::Equal => {}
        }
        let last_line = self.unfinished_at?;
        let outcome = &mut file.outcome;
        outcome.lines.retain(|line| line.number > last_line);
        if outcome.continues && outcome.lines.is_empty() {
            return None;
        }
        // Counts without lines are those of a whole file, which is never unfinished.
        let matching = outcome.lines.iter().filter(|line| line.is_match());
        outcome.matched_lines = matching.count() as u64;
        let spans = outcome.lines.iter().map(|line| line.spans.len() as u64);
        outcome.matches = spans.sum();
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::answer::outcome::{FileError, FileOutcome, Line, LineKind, LineSpans, Span};

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
        assert!(handed_out.rest(file(0, "a")).is_some());
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
        for found in all {
            assert_eq!(handed_out.rest(found), None);
        }
        for found in [file(1, "b/d"), file(2, "a"), error("b")] {
            assert_eq!(handed_out.rest(found.clone()), Some(found));
        }
    }

    #[test]
    fn lines_of_an_unfinished_file_are_not_handed_out_again() {
        let lines = |numbers: &[u64]| {
            let line = |number: &u64| Line {
                kind: LineKind::Match,
                number: *number,
                text: b"needle".as_slice().into(),
                spans: LineSpans::from_slice(&[Span {
                    start: 0,
                    end: 6,
                    edits: 0,
                }]),
                place: None,
            };
            FileOutcome::part(numbers.iter().map(line).collect())
        };
        let part = |outcome: FileOutcome| {
            Found::File(FileAnswer {
                target: 0,
                path: "b".into(),
                outcome,
            })
        };
        let last = |numbers: &[u64]| FileOutcome {
            continues: false,
            ..lines(numbers)
        };
        let mut handed_out = HandedOut::default();
        handed_out.note(&part(lines(&[1, 4])));
        assert_eq!(handed_out.rest(file(0, "a")), None);
        assert_eq!(
            handed_out.rest(part(last(&[1, 4, 5, 9]))),
            Some(part(last(&[5, 9])))
        );
        assert_eq!(handed_out.rest(part(lines(&[1, 4]))), None);
        assert_eq!(handed_out.rest(file(0, "c")), Some(file(0, "c")));
        handed_out.note(&part(last(&[5, 9])));
        assert_eq!(handed_out.rest(part(last(&[1, 4, 5, 9]))), None);
    }
}
