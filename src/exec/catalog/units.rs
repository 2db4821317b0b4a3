//! Units of a source: ranges of ranks, each with as many entries to be looked at as the last one or more.

use std::ops::Range;

/// Units that are being cut.
pub(super) struct Cutter {
    units: Vec<Range<u32>>,
    /// The start of the next one.
    start: u32,
    /// What is in that so far, and the most that may be.
    held: u64,
    most: u64,
    largest: u64,
}

impl Cutter {
    /// Begins with the file at `start`. The first unit holds `first` entries, and none more than `largest`.
    pub(super) fn new(start: u32, first: u64, largest: u64) -> Cutter {
        Cutter {
            units: Vec::new(),
            start,
            held: 0,
            most: first,
            largest,
        }
    }

    /// Takes in a file beside the catalog, which stands before the next one.
    pub(super) fn extra(&mut self) {
        self.held += 1;
    }

    /// Takes in a file.
    pub(super) fn file(&mut self, rank: u32) {
        self.held += 1;
        if self.held >= self.most {
            self.cut(rank + 1);
        }
    }

    /// Takes in a directory, which can't be told from others that begin at the same rank.
    pub(super) fn dir(&mut self, first_rank: u32) {
        if self.held >= self.most && first_rank > self.start {
            self.cut(first_rank);
        }
        self.held += 1;
    }

    fn cut(&mut self, at: u32) {
        self.units.push(self.start..at);
        self.start = at;
        self.held = 0;
        self.most = (self.most * 2).min(self.largest);
    }

    /// Returns all units. The last one is empty if there are no files.
    pub(super) fn end(mut self, end: u32) -> Vec<Range<u32>> {
        if self.start < end || self.units.is_empty() {
            self.units.push(self.start..end);
        }
        self.units
    }
}
