//! A source for tests: wraps another source and skips some of its files.

use super::{EligibleFile, FileSource, Item};
use crate::exec::stop::Stop;

/// How a source reports skipped files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipReports {
    /// On the file that follows them, if there is one.
    OnTheFile,
    /// Always as an item of its own for each skipped file.
    OneByOne,
}

/// Decides which files are skipped.
pub(crate) type SkipFilter = dyn Fn(&EligibleFile) -> bool + Send + Sync;

/// A source that skips files of another source.
pub(crate) struct Filtered<S> {
    inner: S,
    pass_over: Box<SkipFilter>,
    said: SkipReports,
}

impl<S: FileSource> Filtered<S> {
    pub(crate) fn new(
        inner: S,
        said: SkipReports,
        pass_over: impl Fn(&EligibleFile) -> bool + Send + Sync + 'static,
    ) -> Filtered<S> {
        Filtered {
            inner,
            pass_over: Box::new(pass_over),
            said,
        }
    }

    fn filter(&self, items: Vec<Item<S::Unit>>) -> Vec<Item<S::Unit>> {
        let mut kept = Vec::new();
        let mut passed = 0;
        for item in items {
            match item {
                Item::File(file) if (self.pass_over)(&file) => {
                    let count = file.passed_before + 1;
                    if self.said == SkipReports::OneByOne {
                        kept.push(Item::Passed(count));
                    } else {
                        passed += count;
                    }
                }
                Item::File(mut file) => {
                    file.passed_before += std::mem::take(&mut passed);
                    kept.push(Item::File(file));
                }
                other => {
                    if passed > 0 {
                        kept.push(Item::Passed(std::mem::take(&mut passed)));
                    }
                    kept.push(other);
                }
            }
        }
        if passed > 0 {
            kept.push(Item::Passed(passed));
        }
        kept
    }
}

impl<S: FileSource> FileSource for Filtered<S> {
    type Unit = S::Unit;

    fn start(&self) -> Vec<Item<S::Unit>> {
        self.filter(self.inner.start())
    }

    fn expand(&self, unit: S::Unit, stop: &Stop) -> Vec<Item<S::Unit>> {
        self.filter(self.inner.expand(unit, stop))
    }

    fn has_failed(&self) -> bool {
        self.inner.has_failed()
    }
}
