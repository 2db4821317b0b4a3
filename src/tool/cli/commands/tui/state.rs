//! The state of the interactive search.
//!
//! This module owns the decision which answer counts, the selection and the marks. The modules
//! below own the meaning of keys and of the mouse. [`State::key`], [`State::mouse`] and
//! [`State::handle_message`] take input, and return an [`Action`] for the event loop. The module
//! accesses no terminal, no clock and no tree.

mod keys;
mod mouse;

pub(super) use keys::KEYS;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ratatui::layout::Rect;
use ratatui::widgets::ListState;
use tui_input::Input;

use super::background::{BackgroundMessage, Found, NumberedQuestion, Place};
use super::colour::{Language, language_of};
use super::filter;
use super::history::History;
use crate::tool::cli::output::here::seen_from;
use crate::tool::request::{Case, SearchRequest};
use crate::tool::response::Record;

/// Maximum lines of an answer.
const MAX_RESULTS: u64 = 500;

/// An action for the event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Do nothing further.
    Nothing,
    /// End the program.
    Quit,
    /// Send the current question.
    Ask,
    /// Load the lines around a place.
    Show(Place),
    /// Open files in the editor, each at a line.
    Edit(Vec<Place>),
}

/// The lines of a file around a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Preview {
    /// The place that is shown.
    pub(super) place: Place,
    /// The 1-based number of the first line.
    pub(super) first: u64,
    /// The lines, or an error message.
    pub(super) lines: Result<Vec<String>, String>,
    /// The language of the file, for colours.
    pub(super) language: Option<Language>,
}

/// A row of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row<'a> {
    /// The path of a file, above its lines.
    File(&'a str),
    /// A line, by its position in the answer.
    Line(usize),
}

/// Everything that the screen shows.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The root of the tree.
    pub(super) root: String,
    /// The working directory of the shell.
    pub(super) here: PathBuf,
    /// The pattern that the user types.
    pub(super) input: Input,
    /// The filter of files that the user types.
    pub(super) filter: Input,
    /// Whether keys change the filter instead of the pattern.
    pub(super) is_in_filter: bool,
    /// Whether the pattern is a literal text.
    pub(super) is_text: bool,
    /// Whether to match whole words only.
    pub(super) words: bool,
    /// How letters compare.
    pub(super) case: Case,
    /// The number of edits; 0 for an exact search.
    pub(super) fuzzy: u64,
    /// Whether the pattern is a question in words, answered with ranked places.
    pub(super) is_ranked: bool,
    /// The last answer, and the duration of its search.
    pub(super) answer: Option<(Found, Duration)>,
    /// The error message for the current question.
    pub(super) problem: Option<String>,
    /// An error message about something other than the question, shown until the next key.
    pub(super) notice: Option<String>,
    /// Whether the answer to the current question is still missing.
    pub(super) waits: bool,
    /// The position of the chosen line in the answer.
    pub(super) chosen: usize,
    /// The places to open together.
    pub(super) marked: Vec<Place>,
    /// The scroll position of the list.
    pub(super) list: ListState,
    /// The lines around the chosen line.
    pub(super) preview: Option<Preview>,
    /// The number of lines by which the preview is scrolled away from the chosen line.
    pub(super) scrolled: isize,
    /// The status of the index, in words.
    pub(super) index: String,
    /// Whether the keys are shown.
    pub(super) is_help: bool,
    /// The areas of the list and of the preview on the screen.
    pub(super) areas: [Rect; 2],
    /// The patterns of earlier searches.
    pub(super) history: History,
    /// The line of the last click, and the time of the click since the start.
    clicked: Option<(usize, Duration)>,
    number: u64,
}

impl State {
    /// Creates the state with a pattern, which may be empty. The shell's directory is the root.
    pub(super) fn new(root: String, pattern: String) -> State {
        State {
            here: PathBuf::from(&root),
            root,
            input: Input::new(pattern),
            ..State::default()
        }
    }

    /// Sets the working directory of the shell.
    pub(super) fn with_shell_in(mut self, here: PathBuf) -> State {
        self.here = here;
        self
    }

    /// Returns a path that opens a file of the tree from the shell's working directory.
    pub(super) fn seen(&self, path: &str) -> String {
        let seen = seen_from(&self.here, Path::new(&self.root), Path::new(path));
        seen.display().to_string()
    }

    /// The matching lines of the last answer.
    pub(super) fn found(&self) -> &[Record] {
        let answer = self.answer.as_ref();
        answer.map_or(&[], |(found, _)| &found.response.matches)
    }

    /// The rows of the list.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let mut before = None;
        self.found()
            .iter()
            .enumerate()
            .flat_map(move |(nth, record)| {
                let path = record.data.path.text.as_str();
                let name = (before.replace(path) != Some(path)).then_some(Row::File(path));
                name.into_iter().chain([Row::Line(nth)])
            })
    }

    /// The chosen line.
    pub(super) fn chosen(&self) -> Option<&Record> {
        self.found().get(self.chosen)
    }

    /// The path and number of the chosen line.
    pub(super) fn place(&self) -> Option<Place> {
        self.chosen().map(Place::of)
    }

    /// Returns the current question with a new number. Answers with older numbers are ignored from
    /// now on.
    pub(super) fn begin(&mut self) -> NumberedQuestion {
        self.number += 1;
        let pattern = self.input.value();
        let is_empty = match self.is_ranked {
            true => pattern.trim().is_empty(),
            false => pattern.is_empty(),
        };
        let request = match is_empty {
            true => Ok(None),
            false => self.request().map(Some),
        };
        if let Ok(None) = request {
            self.answer = None;
            self.problem = None;
            self.preview = None;
        }
        let request = request.unwrap_or_else(|problem| {
            self.problem = Some(problem);
            None
        });
        self.waits = request.is_some();
        NumberedQuestion {
            number: self.number,
            request,
            is_ranked: self.is_ranked,
        }
    }

    /// Returns the request for the pattern and the filter.
    ///
    /// # Errors
    ///
    /// The message that the filter is invalid, or not available for ranked questions.
    fn request(&self) -> Result<SearchRequest, String> {
        let mut request = SearchRequest {
            fixed_strings: self.is_text,
            word_regexp: self.words,
            case: self.case,
            fuzzy: (self.fuzzy > 0).then_some(self.fuzzy),
            max_results: Some(MAX_RESULTS),
            ..SearchRequest::new(self.input.value())
        };
        filter::add(self.filter.value(), &mut request)?;
        let has_globs = !request.includes().is_empty() || !request.excludes().is_empty();
        match self.is_ranked && has_globs {
            true => Err(
                "the filter of a ranked question is one directory, such as src/, without globs and \
                 types; F7 changes the filter"
                    .to_string(),
            ),
            false => Ok(request),
        }
    }

    /// Shows an error message until the next key.
    pub(super) fn complain(&mut self, why: String) {
        self.notice = Some(why);
    }

    /// Handles a message from the background threads.
    pub(super) fn handle_message(&mut self, told: BackgroundMessage) -> Action {
        match told {
            BackgroundMessage::Index(index) => self.index = index,
            BackgroundMessage::Lines {
                place,
                first,
                lines,
            } if Some(&place) == self.place().as_ref() => {
                self.preview = Some(Preview {
                    language: language_of(&place.path),
                    place,
                    first,
                    lines,
                });
            }
            BackgroundMessage::Lines { .. } => {}
            BackgroundMessage::Answer {
                number,
                answer,
                took,
            } if number == self.number => {
                self.waits = false;
                match answer {
                    // Keep the previous answer: a half-typed pattern is often invalid.
                    Err(why) => self.problem = Some(why),
                    Ok(found) => return self.take(*found, took),
                }
            }
            BackgroundMessage::Answer { .. } => {}
        }
        Action::Nothing
    }

    /// Shows a new answer. Keeps the chosen line if the answer contains it.
    fn take(&mut self, found: Found, took: Duration) -> Action {
        let before = self.place();
        self.problem = None;
        self.answer = Some((found, took));
        let is_same = |record: &Record| before.as_ref() == Some(&Place::of(record));
        let same = self.found().iter().position(is_same);
        if same.is_none() {
            self.scrolled = 0;
        }
        self.chosen = same.unwrap_or(0);
        self.show()
    }

    /// Requests the lines around the chosen line. The file may have changed, so nothing is cached.
    fn show(&mut self) -> Action {
        match self.place() {
            Some(place) => Action::Show(place),
            None => {
                self.preview = None;
                Action::Nothing
            }
        }
    }

    fn choose(&mut self, nth: usize) -> Action {
        let last = self.found().len().saturating_sub(1);
        let nth = nth.min(last);
        if nth == self.chosen {
            return Action::Nothing;
        }
        self.chosen = nth;
        self.scrolled = 0;
        self.show()
    }

    /// Returns true if the answer belongs to the current question.
    fn is_answered(&self) -> bool {
        !self.waits && self.problem.is_none() && self.answer.is_some()
    }

    /// Opens the marked places, or else the chosen one. A file with several marks is opened at the
    /// first one.
    fn open(&mut self) -> Action {
        let mut files = std::mem::take(&mut self.marked);
        if files.is_empty() {
            files.extend(self.place().filter(|_| self.is_answered()));
        }
        let mut paths = std::collections::BTreeSet::new();
        files.retain(|place| paths.insert(place.path.clone()));
        self.remember();
        match files.is_empty() {
            true => Action::Nothing,
            false => Action::Edit(files),
        }
    }

    /// Marks the chosen line, or removes its mark.
    fn mark(&mut self) {
        let Some(place) = self.place() else { return };
        match self.marked.iter().position(|marked| *marked == place) {
            Some(nth) => drop(self.marked.remove(nth)),
            None => self.marked.push(place),
        }
    }

    /// Adds the pattern to the history if it was answered without an error.
    fn remember(&mut self) {
        if self.is_answered() {
            self.history.add(self.input.value());
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
