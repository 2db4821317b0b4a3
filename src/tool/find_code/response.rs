//! The response of the `find_code` tool, as fields and as text.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exec::rank::Reason;
use crate::tool::error::ToolError;
use crate::tool::fit::{Draft, Extent, Piece, fit};
use crate::tool::notes::{Note, Reader};
use crate::tool::render::{escape_controls, escape_name};
use crate::tool::response::{json_len, json_len_of};

/// The text of a complete response without places.
const NOTHING: &str = "[no place was found]\n";

/// The response of the `find_code` tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FindCodeResponse {
    /// The places, best first.
    pub places: Vec<CodePlace>,
    /// The number of places in the response.
    pub returned: u64,
    /// Whether places are missing because of a limit.
    pub truncated: bool,
    /// Whether the time limit was reached. Then there are no places.
    pub timed_out: bool,
    /// Notes in words: what is missing from the response, and why.
    pub notes: Vec<String>,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum PlaceKind {
    /// A name is defined here.
    Definition,
    /// The text has words of the question.
    Content,
}

/// Lines of a file that a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CodePlace {
    /// The path, relative to the working directory if the file is inside it.
    pub path: String,
    /// The number of the first line shown, starting at 1.
    pub start_line: u64,
    /// The number of the last line shown.
    pub end_line: u64,
    /// Whether a name is defined here.
    pub kind: PlaceKind,
    /// The parts of the score that decided: the largest one, and the second one if it is at least
    /// half as large. Absent in answers of daemons of earlier versions.
    #[serde(default)]
    pub why: Vec<Reason>,
    /// The score in percent of the best score.
    pub match_pct: u64,
    /// The lines. A definition is whole if it has at most 50 lines.
    pub content: String,
}

impl FindCodeResponse {
    /// Returns the response as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the response as text for people and models: for each place the path, the reasons and
    /// the numbered lines, then notes in brackets.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (nth, place) in self.places.iter().enumerate() {
            text.push_str(&place.to_text(nth));
        }
        if self.returned == 0 && !self.truncated && !self.timed_out {
            text.push_str(NOTHING);
        }
        for note in &self.notes {
            let _ = writeln!(text, "[{note}]");
        }
        text
    }
}

impl CodePlace {
    /// Returns the text of the place with this number in the response, starting at 0.
    fn to_text(&self, nth: usize) -> String {
        let mut text = String::new();
        if nth > 0 {
            text.push('\n');
        }
        let path = escape_name(&self.path);
        let _ = match &self.why[..] {
            [] => writeln!(text, "{path}"),
            why => writeln!(text, "{path} ({})", Reason::joined(why)),
        };
        for (line, number) in self.content.lines().zip(self.start_line..) {
            let _ = writeln!(text, "{number}:{}", escape_controls(line));
        }
        text
    }
}

/// A response that is not yet fitted into its number of bytes.
pub(crate) struct FindCodeDraft {
    /// All fields except the notes.
    pub(crate) response: FindCodeResponse,
    /// The notes for the reader.
    pub(crate) notes: Vec<Note>,
    /// True if the limit applies to the response as text, and not as JSON.
    pub(crate) as_text: bool,
}

impl FindCodeDraft {
    /// Builds the response, in at most `max_bytes` bytes.
    ///
    /// # Errors
    ///
    /// `DenialReason::LimitsExceeded` if not even the notes fit the limit.
    pub(crate) fn fit(self, max_bytes: Option<usize>) -> Result<FindCodeResponse, ToolError> {
        let extent = fit(&self, max_bytes)?;
        let bare = self.bare(extent);
        let mut places = self.response.places;
        places.truncate(extent.results);
        Ok(FindCodeResponse { places, ..bare })
    }

    /// Returns the response without its places.
    fn bare(&self, extent: Extent) -> FindCodeResponse {
        let notes = extent.notes(&self.notes, 0, 0);
        let reader = match self.as_text {
            true => Reader::Model { at_cap: false },
            false => Reader::Program,
        };
        FindCodeResponse {
            places: Vec::new(),
            returned: extent.results as u64,
            truncated: self.response.truncated || extent.limit.is_some(),
            timed_out: self.response.timed_out,
            notes: notes.iter().map(|note| note.text(reader)).collect(),
        }
    }
}

impl Draft for FindCodeDraft {
    const RESULTS: &'static str = "places";

    fn whole(&self) -> Extent {
        Extent {
            // A place is shown whole or not at all.
            line: Some(0),
            results: self.response.places.len(),
            errors: 0,
            limit: None,
        }
    }

    fn pieces(&self, _: Option<usize>) -> impl Iterator<Item = Piece> + '_ {
        let places = self.response.places.iter().enumerate();
        places.map(|(nth, place)| Piece {
            bytes: match self.as_text {
                true => json_len(&place.to_text(nth)),
                false => json_len_of(place) + usize::from(nth > 0),
            },
            shortened: 0,
        })
    }

    fn frame(&self, extent: Extent, _: u64) -> usize {
        let bare = self.bare(extent);
        match self.as_text {
            true => json_len_of(&bare.to_text()),
            false => json_len_of(&bare),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str, content: &str) -> CodePlace {
        CodePlace {
            path: path.to_string(),
            start_line: 9,
            end_line: 10,
            kind: PlaceKind::Definition,
            why: vec![Reason::DefinedHere, Reason::Words],
            match_pct: 100,
            content: content.to_string(),
        }
    }

    fn draft(places: Vec<CodePlace>, as_text: bool) -> FindCodeDraft {
        FindCodeDraft {
            response: FindCodeResponse {
                returned: places.len() as u64,
                places,
                truncated: false,
                timed_out: false,
                notes: Vec::new(),
            },
            notes: Vec::new(),
            as_text,
        }
    }

    #[test]
    fn the_text_has_paths_and_numbered_lines() {
        let places = vec![place("a.rs", "fn a() {\n}\n"), place("b.rs", "fn b()")];
        let whole = draft(places, true).fit(None).unwrap();
        let expected = "a.rs (defined here, words)\n9:fn a() {\n10:}\n\n\
                        b.rs (defined here, words)\n9:fn b()\n";
        let odd = place("a\nb.rs", "fn a() {\r\n\x1b}\r\n");
        assert_eq!(
            odd.to_text(0),
            "a\\nb.rs (defined here, words)\n9:fn a() {\n10:\\x1b}\n"
        );
        assert_eq!(whole.to_text(), expected);
        let nothing = draft(Vec::new(), true).fit(None).unwrap();
        assert_eq!(nothing.to_text(), NOTHING);
    }

    #[test]
    fn a_low_limit_leaves_out_the_last_places_and_says_so() {
        let places = || vec![place("a.rs", "fn a()"), place("b.rs", "fn b()")];
        for as_text in [true, false] {
            let size = |response: &FindCodeResponse| match as_text {
                true => json_len_of(&response.to_text()),
                false => json_len_of(response),
            };
            let whole = size(&draft(places(), as_text).fit(None).unwrap());
            let mut before = 0;
            for max_bytes in 0..=whole {
                let Ok(fitted) = draft(places(), as_text).fit(Some(max_bytes)) else {
                    assert_eq!(before, 0);
                    continue;
                };
                assert!(size(&fitted) <= max_bytes);
                assert!(fitted.returned >= before);
                before = fitted.returned;
                assert_eq!(fitted.places.len() as u64, fitted.returned);
                assert_eq!(fitted.truncated, fitted.returned < 2);
                assert_eq!(fitted.notes.is_empty(), !fitted.truncated);
            }
            assert_eq!(before, 2);
        }
    }
}
