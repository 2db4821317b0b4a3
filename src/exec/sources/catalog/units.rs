//! Units of this source: ranges of ranks, which are positions in the catalog. A unit is listed on
//! demand. Each unit has at least as many entries as the unit before, up to a limit; the last unit
//! may be smaller.

use std::ops::Range;

/// Splits a source into units.
pub(super) struct Cutter {
    units: Vec<Range<u32>>,
    /// The start of the current unit.
    start: u32,
    /// The number of entries in the current unit, and its limit.
    held: u64,
    most: u64,
    largest: u64,
}

impl Cutter {
    /// Starts with the file at `start`. The first unit has `first` entries, and no unit has more
    /// than `largest`.
    pub(super) fn new(start: u32, first: u64, largest: u64) -> Cutter {
        Cutter {
            units: Vec::new(),
            start,
            held: 0,
            most: first,
            largest,
        }
    }

    /// Adds an extra file that is not in the catalog; it precedes the next catalog file.
    pub(super) fn extra(&mut self) {
        self.held += 1;
    }

    /// Adds a file.
    pub(super) fn file(&mut self, rank: u32) {
        self.held += 1;
        if self.held >= self.most {
            self.cut(rank + 1);
        }
    }

    /// Adds a directory. Directories that begin at the same rank can't be separated.
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

    /// Returns all units. If there are no files, returns one empty unit.
    pub(super) fn end(mut self, end: u32) -> Vec<Range<u32>> {
        if self.start < end || self.units.is_empty() {
            self.units.push(self.start..end);
        }
        self.units
    }
}
