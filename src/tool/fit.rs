//! Fitting an answer into a number of bytes.
//!
//! This module owns the order in which parts are cut, for every tool and for text as well as
//! fields. First the ends of long lines are cut, and the list of errors is replaced by a count.
//! Then results are cut from the end. So the rest is always the beginning of the whole answer, and
//! a higher limit never gives fewer results.

use crate::tool::error::{DenialReason, ToolError};
use crate::tool::notes::Note;

/// The lengths in bytes to which lines are cut, one after the other, until an answer fits.
const SHORTER: [usize; 8] = [4096, 2048, 1024, 512, 256, 128, 64, 32];

/// The parts of an answer that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The maximum number of bytes per shown line, if limited.
    pub(crate) line: Option<usize>,
    /// The number of results, from the first on.
    pub(crate) results: usize,
    /// The number of listed errors, from the first on.
    pub(crate) errors: usize,
    /// The limit in bytes that cut the answer, if any.
    pub(crate) limit: Option<usize>,
}

impl Extent {
    /// Returns the notes of an answer with this extent. `notes` and `errors` are the notes and the
    /// number of errors of the whole answer. `shortened` is the number of lines shown in part.
    pub(crate) fn notes(self, notes: &[Note], errors: usize, shortened: u64) -> Vec<Note> {
        let further = errors.saturating_sub(self.errors) as u64;
        let mut all = Vec::from_iter((further > 0).then_some(Note::FurtherErrors(further)));
        all.extend_from_slice(notes);
        if let Some(limit) = self.limit {
            all.retain(|note| !matches!(note, Note::MaxResults(_) | Note::BestPlaces(_)));
            all.push(Note::Bytes(limit));
        }
        if let (1.., Some(line)) = (shortened, self.line) {
            all.push(Note::LongLines {
                lines: shortened,
                limit: line as u64,
            });
        }
        all
    }
}

/// The size of one result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its bytes, including the separator in front of it.
    pub(crate) bytes: usize,
    /// The number of its lines that are shown in part.
    pub(crate) shortened: u64,
}

/// An answer before it is written.
pub(crate) trait Draft {
    /// The word for results, in the plural.
    const RESULTS: &'static str;

    /// Returns the extent of the whole answer.
    fn whole(&self) -> Extent;

    /// Returns the size of each result, in order, with at most `line` bytes per line.
    fn pieces(&self, line: Option<usize>) -> impl Iterator<Item = Piece> + '_;

    /// Returns the size of the answer without its results, in bytes. `shortened` is the number of
    /// lines shown in part.
    fn frame(&self, extent: Extent, shortened: u64) -> usize;
}

/// Returns the largest extent that fits `max_bytes` bytes: as many results as possible, then as
/// much of long lines, then as many errors. The time for results is proportional to `max_bytes`.
///
/// # Errors
///
/// [`DenialReason::LimitsExceeded`] if not even an answer without results fits.
pub(crate) fn fit(draft: &impl Draft, max_bytes: Option<usize>) -> Result<Extent, ToolError> {
    let whole = draft.whole();
    let Some(max_bytes) = max_bytes else {
        return Ok(whole);
    };
    let bare = without_results(draft, max_bytes);
    let mut best: Option<(Extent, FirstResults)> = None;
    for line in lengths(whole.line) {
        let first = FirstResults::of(draft, line, max_bytes);
        let everything = Extent { line, ..whole };
        if first.fit(draft, everything, max_bytes) {
            return Ok(everything);
        }
        let cut = |results: usize| Extent {
            line,
            results,
            ..bare
        };
        let fits = |results: usize| first.fit(draft, cut(results), max_bytes);
        if let Some(results) = most(first.count(), fits)
            && best.as_ref().is_none_or(|(best, _)| best.results < results)
        {
            best = Some((cut(results), first));
        }
    }
    let Some((best, first)) = best else {
        return Err(too_small(draft, max_bytes));
    };
    let fits = |errors: usize| first.fit(draft, Extent { errors, ..best }, max_bytes);
    let errors = match fits(whole.errors) {
        true => Some(whole.errors),
        false => most(whole.errors.saturating_sub(1), fits),
    };
    Ok(Extent {
        errors: errors.unwrap_or_default(),
        ..best
    })
}

/// Returns the extent of the shortest answer that reports a cut.
fn without_results(draft: &impl Draft, limit: usize) -> Extent {
    let whole = draft.whole();
    let none = Extent {
        results: 0,
        errors: 0,
        limit: Some(limit),
        ..whole
    };
    // A single error may be shorter than the note that counts it.
    let all = Extent {
        errors: whole.errors,
        ..none
    };
    match whole.errors == 1 && draft.frame(all, 0) < draft.frame(none, 0) {
        true => all,
        false => none,
    }
}

/// Returns the line lengths to try. `whole` is the limit of lines in the whole answer.
fn lengths(whole: Option<usize>) -> impl Iterator<Item = Option<usize>> {
    let shorter = SHORTER.into_iter();
    let shorter = shorter.filter(move |length| whole.is_none_or(|whole| *length < whole));
    [whole].into_iter().chain(shorter.map(Some))
}

/// The total sizes of the first 0, 1, 2, … results, as long as these results alone fit the limit.
struct FirstResults(Vec<Piece>);

impl FirstResults {
    fn of(draft: &impl Draft, line: Option<usize>, max_bytes: usize) -> FirstResults {
        let mut sum = Piece::default();
        let sums = draft.pieces(line).map(|piece| {
            sum.bytes = sum.bytes.saturating_add(piece.bytes);
            sum.shortened += piece.shortened;
            sum
        });
        let sums = sums.take_while(|sum| sum.bytes <= max_bytes);
        FirstResults([Piece::default()].into_iter().chain(sums).collect())
    }

    /// Returns the maximum number of results that fit the limit.
    fn count(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the size of an answer, if its results alone fit the limit.
    fn len(&self, draft: &impl Draft, extent: Extent) -> Option<usize> {
        let sum = self.0.get(extent.results)?;
        Some(sum.bytes + draft.frame(extent, sum.shortened))
    }

    fn fit(&self, draft: &impl Draft, extent: Extent, max_bytes: usize) -> bool {
        self.len(draft, extent).is_some_and(|len| len <= max_bytes)
    }
}

/// Returns the largest number up to `all` that fits. If a number fits, every smaller one must fit
/// too.
fn most(all: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut fitting, mut beyond) = (fits(0).then_some(0)?, all + 1);
    while fitting + 1 < beyond {
        let middle = fitting + (beyond - fitting) / 2;
        match fits(middle) {
            true => fitting = middle,
            false => beyond = middle,
        }
    }
    Some(fitting)
}

/// Returns the error of a limit that is too small for any answer. The error names a sufficient
/// limit.
fn too_small<D: Draft>(draft: &D, max_bytes: usize) -> ToolError {
    let whole = draft.whole();
    let bare = |limit: usize| draft.frame(without_results(draft, limit), 0);
    let mut room = bare(max_bytes);
    // The limit in the note may have more digits under a higher limit.
    while bare(room) > room {
        room = bare(room);
    }
    // A small answer may be shorter as a whole than with a note that it was cut.
    let everything = lengths(whole.line).filter_map(|line| {
        let first = FirstResults::of(draft, line, room);
        first.len(draft, Extent { line, ..whole })
    });
    let room = everything.chain([room]).min().unwrap_or(room);
    let results = D::RESULTS;
    DenialReason::LimitsExceeded {
        message: format!(
            "even a response without {results} does not fit into {max_bytes} bytes; it needs {room}. \
             Allow more output"
        ),
    }
    .into()
}

// The tests also cover the text for agents.
#[cfg(all(test, feature = "mcp"))]
mod tests;
