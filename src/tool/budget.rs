//! Fitting a response of `Search` into a number of bytes.
//!
//! Owns what gives way when not everything fits: first the ends of long lines, then the events at
//! the end, then the errors at the end. What is left is a prefix of the events.

use std::sync::Arc;

use crate::exec::event::Line;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::notes::{Note, closing_notes};
use crate::tool::render::push_line;
use crate::tool::response::{ErrorEntry, Record, SearchResponse, json_len};

/// The lengths, in bytes, that lines are cut to one after the other until an answer fits. A line of
/// usual length is never cut.
pub(crate) const SHORTER: [usize; 5] = [4096, 2048, 1024, 512, 256];

/// A response without its events, and the lines they are made from.
pub(crate) struct Draft {
    /// Everything but `matches`, `count` and `content`.
    pub(crate) response: SearchResponse,
    /// The lines, each with the path that it is shown with.
    pub(crate) lines: Vec<(Arc<str>, Line)>,
    /// What the reader has to know.
    pub(crate) notes: Vec<Note>,
    /// The most bytes of a line that are shown, if there is a limit.
    pub(crate) max_line_bytes: Option<usize>,
}

impl Draft {
    /// Makes the response, in at most `budget` bytes of JSON. Linear in the response.
    ///
    /// # Errors
    ///
    /// [`DenialReason::LimitsExceeded`] if not even a response without events fits.
    pub(crate) fn fit(self, budget: Option<usize>) -> Result<SearchResponse, ToolError> {
        let whole = self.max_line_bytes;
        let Some(budget) = budget else {
            return Ok(self.write(whole, self.lines.len(), &self.notes));
        };
        let shorter = SHORTER
            .into_iter()
            .filter(|most| whole.is_none_or(|whole| *most < whole));
        let mut most = whole;
        for next in [whole].into_iter().chain(shorter.map(Some)) {
            most = next;
            let shown: usize = self.lengths(most).sum();
            if shown > budget {
                continue;
            }
            let response = self.write(most, self.lines.len(), &self.notes);
            if response.to_json().len() <= budget {
                return Ok(response);
            }
        }
        self.cut(most, budget)
    }

    /// Makes the response with as many events from the first on as fit.
    fn cut(mut self, most: Option<usize>, budget: usize) -> Result<SearchResponse, ToolError> {
        self.notes
            .retain(|note| !matches!(note, Note::MaxResults(_)));
        self.notes.push(Note::Bytes(budget));
        self.response.truncated = true;
        let room = self.write(most, 0, &self.notes).to_json().len();
        let mut room = without_errors(&mut self.response.errors, room, budget);
        if room > budget {
            return Err(too_small(budget, "events", |limit| {
                let mut notes = self.notes.clone();
                notes.retain(|note| !matches!(note, Note::Bytes(_)));
                notes.push(Note::Bytes(limit));
                self.write(most, 0, &notes).to_json().len()
            }));
        }
        let mut kept = 0;
        for length in self.lengths(most) {
            room += length;
            if room > budget {
                break;
            }
            kept += 1;
        }
        loop {
            let response = self.write(most, kept, &self.notes);
            // The number of events, and of lines that are shortened, has digits too.
            if kept == 0 || response.to_json().len() <= budget {
                return Ok(response);
            }
            kept -= 1;
        }
    }

    /// Returns what each event adds to the JSON, besides commas.
    fn lengths(&self, most: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        let mut line = String::new();
        self.lines.iter().map(move |(path, event)| {
            let record = Record::of(path, event, most);
            line.clear();
            push_line(&mut line, &record);
            length_of(&record) + json_len(&line)
        })
    }

    /// Writes the response with the first `kept` events.
    fn write(&self, most: Option<usize>, kept: usize, notes: &[Note]) -> SearchResponse {
        let lines = self.lines.iter().take(kept);
        let matches: Vec<Record> = lines
            .map(|(path, line)| Record::of(path, line, most))
            .collect();
        let mut content = String::new();
        matches
            .iter()
            .for_each(|record| push_line(&mut content, record));
        let shortened = matches.iter().filter(|one| one.left_out.is_some()).count() as u64;
        let mut notes = notes.to_vec();
        if let (1.., Some(most)) = (shortened, most) {
            notes.push(Note::LongLines {
                lines: shortened,
                limit: most as u64,
            });
        }
        content.push_str(&closing_notes(&notes));
        let mut response = SearchResponse {
            count: matches.len(),
            matches,
            content,
            ..self.response.clone()
        };
        if let Some(stats) = &mut response.stats {
            stats.lines_shortened = shortened;
        }
        response
    }
}

fn length_of(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX / 4, |json| json.len())
}

/// Returns the error of a budget that is too small for anything. `needed` says how many bytes a
/// response without results has under a budget, which it may name.
pub(crate) fn too_small(
    budget: usize,
    results: &str,
    needed: impl Fn(usize) -> usize,
) -> ToolError {
    let mut room = needed(budget);
    // The number itself may have more digits under a larger budget.
    while needed(room) > room {
        room = needed(room);
    }
    DenialReason::LimitsExceeded {
        message: format!(
            "not even a response without {results} fits {budget} bytes; it needs {room}. Allow more output"
        ),
    }
    .into()
}

/// Drops errors from the end until a response that takes `room` bytes fits; returns what it takes
/// then. Errors go only where they alone are too much: without them an answer would look cleaner
/// than it is.
fn without_errors(errors: &mut Vec<ErrorEntry>, mut room: usize, budget: usize) -> usize {
    while room > budget
        && let Some(error) = errors.pop()
    {
        room -= length_of(&error) + usize::from(!errors.is_empty());
    }
    room
}
