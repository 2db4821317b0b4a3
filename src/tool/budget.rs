//! Fitting an answer into a number of bytes.
//!
//! Owns the order in which parts give way, for every tool, and for text as for fields. The ends of
//! long lines go before any result does, and so does the list of errors, which are counted then.
//! Results go from the end. So the rest is the beginning of the whole answer, and a larger limit
//! never gives fewer results.

use crate::tool::error::{DenialReason, ToolError};
use crate::tool::notes::Note;

/// The lengths, in bytes, that lines are cut to one after the other until an answer fits.
const SHORTER: [usize; 8] = [4096, 2048, 1024, 512, 256, 128, 64, 32];

/// How much of an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The most bytes of a line that are shown, if there is a limit.
    pub(crate) line: Option<usize>,
    /// How many results, from the first on.
    pub(crate) results: usize,
    /// How many entries of the list of errors, from the first on.
    pub(crate) errors: usize,
    /// The limit in bytes that cut the answer, if one did.
    pub(crate) limit: Option<usize>,
}

impl Extent {
    /// Returns the notes of an answer that is written so. `notes` are those of the whole answer,
    /// which has `errors` errors; `shortened` lines are shown in part.
    pub(crate) fn notes(self, notes: &[Note], errors: usize, shortened: u64) -> Vec<Note> {
        let further = errors.saturating_sub(self.errors) as u64;
        let mut all = Vec::from_iter((further > 0).then_some(Note::FurtherErrors(further)));
        all.extend_from_slice(notes);
        if let Some(limit) = self.limit {
            all.retain(|note| !matches!(note, Note::MaxResults(_)));
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

/// The share of one result in the bytes of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes, with the separator in front of it.
    pub(crate) bytes: usize,
    /// Lines that are shown in part.
    pub(crate) shortened: u64,
}

/// An answer that is not written yet.
pub(crate) trait Draft {
    /// The word for results, in the plural.
    const RESULTS: &'static str;

    /// Returns the extent of the whole answer.
    fn whole(&self) -> Extent;

    /// Returns the share of each result, in order, where lines have at most `line` bytes.
    fn pieces(&self, line: Option<usize>) -> impl Iterator<Item = Piece> + '_;

    /// Returns the bytes of the answer without those of its results. `shortened` lines are shown in
    /// part.
    fn frame(&self, extent: Extent, shortened: u64) -> usize;
}

/// Returns how much of an answer fits `budget` bytes: as many results as possible, then as much of
/// long lines, then as many errors. Takes time in proportion to the budget, as far as results go.
///
/// # Errors
///
/// [`DenialReason::LimitsExceeded`] if not even an answer without results fits.
pub(crate) fn fit(draft: &impl Draft, budget: Option<usize>) -> Result<Extent, ToolError> {
    let whole = draft.whole();
    let Some(budget) = budget else {
        return Ok(whole);
    };
    let bare = without_results(draft, budget);
    let mut best: Option<(Extent, FirstResults)> = None;
    for line in lengths(whole.line) {
        let first = FirstResults::of(draft, line, budget);
        let everything = Extent { line, ..whole };
        if first.fit(draft, everything, budget) {
            return Ok(everything);
        }
        let cut = |results: usize| Extent {
            line,
            results,
            ..bare
        };
        let fits = |results: usize| first.fit(draft, cut(results), budget);
        if let Some(results) = most(first.count(), fits)
            && best.as_ref().is_none_or(|(best, _)| best.results < results)
        {
            best = Some((cut(results), first));
        }
    }
    let Some((best, first)) = best else {
        return Err(too_small(draft, budget));
    };
    let fits = |errors: usize| first.fit(draft, Extent { errors, ..best }, budget);
    let errors = match fits(whole.errors) {
        true => Some(whole.errors),
        false => most(whole.errors.saturating_sub(1), fits),
    };
    Ok(Extent {
        errors: errors.unwrap_or_default(),
        ..best
    })
}

/// Returns the extent of the shortest answer that a limit cuts.
fn without_results(draft: &impl Draft, limit: usize) -> Extent {
    let whole = draft.whole();
    let none = Extent {
        results: 0,
        errors: 0,
        limit: Some(limit),
        ..whole
    };
    // An error may take less room than the words that there is one.
    let all = Extent {
        errors: whole.errors,
        ..none
    };
    match whole.errors == 1 && draft.frame(all, 0) < draft.frame(none, 0) {
        true => all,
        false => none,
    }
}

/// Returns the lengths that lines are cut to, where they have at most `whole` bytes anyway.
fn lengths(whole: Option<usize>) -> impl Iterator<Item = Option<usize>> {
    let shorter = SHORTER.into_iter();
    let shorter = shorter.filter(move |length| whole.is_none_or(|whole| *length < whole));
    [whole].into_iter().chain(shorter.map(Some))
}

/// The first results together: an entry for each number of them, from 0 on, as long as
/// they alone fit the budget.
struct FirstResults(Vec<Piece>);

impl FirstResults {
    fn of(draft: &impl Draft, line: Option<usize>, budget: usize) -> FirstResults {
        let mut sum = Piece::default();
        let sums = draft.pieces(line).map(|piece| {
            sum.bytes = sum.bytes.saturating_add(piece.bytes);
            sum.shortened += piece.shortened;
            sum
        });
        let sums = sums.take_while(|sum| sum.bytes <= budget);
        FirstResults([Piece::default()].into_iter().chain(sums).collect())
    }

    /// Returns how many results fit the budget at most.
    fn count(&self) -> usize {
        self.0.len() - 1
    }

    /// Returns the bytes of an answer, if its results alone fit the budget.
    fn len(&self, draft: &impl Draft, extent: Extent) -> Option<usize> {
        let sum = self.0.get(extent.results)?;
        Some(sum.bytes + draft.frame(extent, sum.shortened))
    }

    fn fit(&self, draft: &impl Draft, extent: Extent, budget: usize) -> bool {
        self.len(draft, extent).is_some_and(|len| len <= budget)
    }
}

/// Returns the largest number up to `all` that fits; a smaller number fits if a larger one does.
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

/// Returns the error of a budget that is too small for anything, with one that would do.
fn too_small<D: Draft>(draft: &D, budget: usize) -> ToolError {
    let whole = draft.whole();
    let bare = |limit: usize| draft.frame(without_results(draft, limit), 0);
    let mut room = bare(budget);
    // The number itself may have more digits under a larger budget.
    while bare(room) > room {
        room = bare(room);
    }
    // Where hardly anything was found, all of it may be shorter than saying that it was cut.
    let everything = lengths(whole.line).filter_map(|line| {
        let first = FirstResults::of(draft, line, room);
        first.len(draft, Extent { line, ..whole })
    });
    let room = everything.chain([room]).min().unwrap_or(room);
    let results = D::RESULTS;
    DenialReason::LimitsExceeded {
        message: format!(
            "not even a response without {results} fits {budget} bytes; it needs {room}. Allow more output"
        ),
    }
    .into()
}

// What agents get as text is part of them.
#[cfg(all(test, feature = "mcp"))]
mod tests;
