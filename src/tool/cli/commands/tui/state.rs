//! The state of the interactive search.
//!
//! Owns the meaning of keys, the decision which answer counts, and the selection. [`State::key`]
//! and [`State::hear`] take input, and return an [`Action`] for the event loop. The module accesses
//! no terminal, no clock and no tree.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::ListState;
use tui_input::Input;
use tui_input::backend::crossterm::to_input_request;

use super::background::{BackgroundMessage, NumberedQuestion, Place};
use crate::tool::cli::output::here::seen_from;
use crate::tool::request::{Case, SearchRequest};
use crate::tool::response::{Record, SearchResponse};

/// Maximum lines of an answer.
const MAX_RESULTS: u64 = 500;

/// Maximum number of edits in a fuzzy search.
const MAX_FUZZY: u64 = 4;

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
    /// Open a file in the editor.
    Edit {
        /// The path of the file.
        path: String,
        /// The 1-based number of the line.
        line: u64,
    },
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
}

/// Everything that the screen shows.
#[derive(Debug)]
pub(super) struct State {
    /// The root of the tree.
    pub(super) root: String,
    /// The working directory of the shell.
    pub(super) here: PathBuf,
    /// The pattern that the user types.
    pub(super) input: Input,
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
    pub(super) answer: Option<(SearchResponse, Duration)>,
    /// The error message for the current question.
    pub(super) problem: Option<String>,
    /// An error message about something other than the question, shown until the next key.
    pub(super) notice: Option<String>,
    /// Whether the answer to the current question is still missing.
    pub(super) waits: bool,
    /// The position of the chosen line in the answer.
    pub(super) chosen: usize,
    /// The scroll position of the list.
    pub(super) list: ListState,
    /// The lines around the chosen line.
    pub(super) preview: Option<Preview>,
    /// The status of the index, in words.
    pub(super) index: String,
    /// The number of lines on a page of the list.
    pub(super) page: usize,
    number: u64,
}

impl State {
    /// Creates the state with a pattern, which may be empty. The shell's directory is the root.
    pub(super) fn new(root: String, pattern: String) -> State {
        State {
            here: PathBuf::from(&root),
            root,
            input: Input::new(pattern),
            is_text: false,
            words: false,
            case: Case::default(),
            fuzzy: 0,
            is_ranked: false,
            answer: None,
            problem: None,
            notice: None,
            waits: false,
            chosen: 0,
            list: ListState::default(),
            preview: None,
            index: String::new(),
            page: 10,
            number: 0,
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
        answer.map_or(&[], |(answer, _)| &answer.matches)
    }

    /// The chosen line.
    pub(super) fn chosen(&self) -> Option<&Record> {
        self.found().get(self.chosen)
    }

    /// The path and number of the chosen line.
    pub(super) fn place(&self) -> Option<Place> {
        self.chosen().map(|record| Place {
            path: record.data.path.text.clone(),
            line: record.data.line_number,
        })
    }

    /// Returns the current question with a new number. Answers with older numbers are ignored from
    /// now on.
    pub(super) fn begin(&mut self) -> NumberedQuestion {
        self.number += 1;
        let pattern = self.input.value().to_string();
        let is_empty = match self.is_ranked {
            true => pattern.trim().is_empty(),
            false => pattern.is_empty(),
        };
        let request = (!is_empty).then(|| SearchRequest {
            fixed_strings: self.is_text,
            word_regexp: self.words,
            case: self.case,
            fuzzy: (self.fuzzy > 0).then_some(self.fuzzy),
            max_results: Some(MAX_RESULTS),
            ..SearchRequest::new(pattern)
        });
        self.waits = request.is_some();
        if request.is_none() {
            self.answer = None;
            self.problem = None;
            self.preview = None;
        }
        NumberedQuestion {
            number: self.number,
            request,
            is_ranked: self.is_ranked,
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
                    Ok(answer) => {
                        let before = self.place();
                        self.problem = None;
                        self.answer = Some((*answer, took));
                        self.chosen = 0;
                        // Keep the chosen line if the new answer contains it.
                        let same = before.and_then(|before| {
                            self.found().iter().position(|Record { data, .. }| {
                                data.path.text == before.path && data.line_number == before.line
                            })
                        });
                        self.chosen = same.unwrap_or(0);
                        return self.show();
                    }
                }
            }
            BackgroundMessage::Answer { .. } => {}
        }
        Action::Nothing
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
        self.show()
    }

    /// Inserts pasted text as one line.
    pub(super) fn paste(&mut self, text: &str) -> Action {
        let pasted = text.trim_end_matches(['\n', '\r']).chars();
        let pasted: Vec<char> = pasted
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        // Insert all at once: each change of the input costs time in proportion to its length.
        let at = self.input.cursor();
        let before = self.input.value().chars().take(at);
        let after = self.input.value().chars().skip(at);
        let value: String = before.chain(pasted.iter().copied()).chain(after).collect();
        self.input = Input::new(value).with_cursor(at + pasted.len());
        Action::Ask
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        self.notice = None;
        let control = key.modifiers == KeyModifiers::CONTROL;
        let alt = key.modifiers == KeyModifiers::ALT;
        match key.code {
            KeyCode::Esc => return Action::Quit,
            KeyCode::Char('c' | 'd' | 'q') if control => return Action::Quit,
            KeyCode::Up => return self.choose(self.chosen.saturating_sub(1)),
            KeyCode::Down => return self.choose(self.chosen + 1),
            KeyCode::Char('p') if control => return self.choose(self.chosen.saturating_sub(1)),
            KeyCode::Char('n') if control => return self.choose(self.chosen + 1),
            KeyCode::PageUp => return self.choose(self.chosen.saturating_sub(self.page)),
            KeyCode::PageDown => return self.choose(self.chosen + self.page),
            KeyCode::Home if control => return self.choose(0),
            KeyCode::End if control => return self.choose(usize::MAX),
            KeyCode::Enter => {
                // Open a file only if the answer belongs to the current question.
                let is_meant = !self.waits && self.problem.is_none();
                return match self.place().filter(|_| is_meant) {
                    Some(Place { path, line }) => Action::Edit { path, line },
                    None => Action::Nothing,
                };
            }
            KeyCode::F(2) => self.is_text = !self.is_text,
            KeyCode::Char('t') if alt => self.is_text = !self.is_text,
            KeyCode::F(3) => self.words = !self.words,
            KeyCode::Char('w') if alt => self.words = !self.words,
            KeyCode::F(4) => self.turn_case(),
            KeyCode::Char('c') if alt => self.turn_case(),
            KeyCode::F(5) => self.fuzzy = (self.fuzzy + 1) % (MAX_FUZZY + 1),
            KeyCode::Char('e') if alt => self.fuzzy = (self.fuzzy + 1) % (MAX_FUZZY + 1),
            KeyCode::F(6) => self.is_ranked = !self.is_ranked,
            KeyCode::Char('r') if alt => self.is_ranked = !self.is_ranked,
            // Search again: files may have been edited.
            KeyCode::Char('r') if control => {}
            _ => {
                let Some(request) = to_input_request(&Event::Key(key)) else {
                    return Action::Nothing;
                };
                let changed = self.input.handle(request);
                return match changed.is_some_and(|changed| changed.value) {
                    true => Action::Ask,
                    false => Action::Nothing,
                };
            }
        }
        Action::Ask
    }

    fn turn_case(&mut self) {
        self.case = match self.case {
            Case::Smart => Case::Sensitive,
            Case::Sensitive => Case::Insensitive,
            Case::Insensitive => Case::Smart,
        };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Returns an answer with the given lines. Each line must contain `fn`.
    pub(in super::super) fn answer(number: u64, lines: &[(&str, u64, &str)]) -> BackgroundMessage {
        let matches: Vec<_> = lines
            .iter()
            .map(|(path, line, text)| {
                let column = text.find("fn").unwrap() + 1;
                let data = json!({"path": {"text": path}, "line_number": line, "column": column,
                    "lines": {"text": text}, "match_text": "fn"});
                json!({"type": "match", "data": data})
            })
            .collect();
        let response = json!({"pattern": "fn", "path": "/t", "count": matches.len(), "matches": matches, "truncated": false,
            "timed_out": false, "files_scanned": 9, "errors": [], "content": ""});
        BackgroundMessage::Answer {
            number,
            answer: Ok(serde_json::from_value(response).unwrap()),
            took: Duration::from_micros(2_340),
        }
    }

    pub(in super::super) fn press(state: &mut State, code: KeyCode) -> Action {
        state.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn control(state: &mut State, c: char) -> Action {
        state.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))
    }

    fn alt(state: &mut State, c: char) -> Action {
        state.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::ALT))
    }

    fn place(path: &str, line: u64) -> Place {
        Place {
            path: path.to_string(),
            line,
        }
    }

    #[test]
    fn tui_each_key_that_changes_the_pattern_asks() {
        let mut state = State::new("/t".to_string(), String::new());
        assert_eq!(state.begin().request, None);
        for c in "fnx".chars() {
            assert_eq!(press(&mut state, KeyCode::Char(c)), Action::Ask);
        }
        assert_eq!(press(&mut state, KeyCode::Backspace), Action::Ask);
        assert_eq!(press(&mut state, KeyCode::Left), Action::Nothing);
        assert_eq!(press(&mut state, KeyCode::Enter), Action::Nothing);
        let asked = state.begin();
        assert_eq!(asked.number, 2);
        let request = asked.request.unwrap();
        assert_eq!(request.pattern, "fn");
        assert_eq!(request.max_results, Some(MAX_RESULTS));
        assert_eq!((request.fixed_strings, request.fuzzy), (false, None));
        // Pasted line breaks become spaces, and don't act as Enter.
        assert_eq!(state.paste("a\nb\n"), Action::Ask);
        assert_eq!(state.input.value(), "fa bn");
        assert_eq!(state.input.cursor(), 4);
        assert_eq!(state.paste("é"), Action::Ask);
        assert_eq!(state.input.value(), "fa bén");
        assert_eq!(control(&mut state, 'u'), Action::Ask);
        assert_eq!(state.begin().request, None);
    }

    #[test]
    fn tui_what_is_switched_is_asked_for() {
        let mut state = State::new("/t".to_string(), "fn".to_string());
        for code in [2, 3, 4, 5, 5] {
            assert_eq!(press(&mut state, KeyCode::F(code)), Action::Ask);
        }
        let request = state.begin().request.unwrap();
        assert!(request.fixed_strings && request.word_regexp);
        assert_eq!((request.case, request.fuzzy), (Case::Sensitive, Some(2)));
        for code in [2, 3, 4, 4, 5, 5, 5] {
            press(&mut state, KeyCode::F(code));
        }
        let request = state.begin().request.unwrap();
        assert!(!request.fixed_strings && !request.word_regexp);
        assert_eq!((request.case, request.fuzzy), (Case::Smart, None));
        assert_eq!(press(&mut state, KeyCode::F(6)), Action::Ask);
        assert!(state.begin().is_ranked);
        assert_eq!(alt(&mut state, 'r'), Action::Ask);
        assert!(!state.begin().is_ranked);
    }

    #[test]
    fn tui_a_blank_text_is_a_pattern_but_no_question() {
        let mut state = State::new("/t".to_string(), "  ".to_string());
        assert!(state.begin().request.is_some());
        press(&mut state, KeyCode::F(6));
        assert_eq!(state.begin().request, None);
    }

    #[test]
    fn tui_only_the_last_question_is_answered() {
        let mut state = State::new("/t".to_string(), "fn".to_string());
        let first = state.begin().number;
        let second = state.begin().number;
        assert_eq!(
            state.handle_message(answer(first, &[("a.rs", 1, "fn a")])),
            Action::Nothing
        );
        assert!(state.answer.is_none() && state.waits);
        let shown = state.handle_message(answer(second, &[("b.rs", 2, "fn b")]));
        assert_eq!(shown, Action::Show(place("b.rs", 2)));
        assert!(!state.waits);
        // An invalid question keeps the previous answer.
        let third = state.begin().number;
        let told = BackgroundMessage::Answer {
            number: third,
            answer: Err("no".to_string()),
            took: Duration::ZERO,
        };
        assert_eq!(state.handle_message(told), Action::Nothing);
        assert_eq!(state.problem.as_deref(), Some("no"));
        assert_eq!(state.found().len(), 1);
    }

    #[test]
    fn tui_the_chosen_line_is_shown_and_edited_and_kept() {
        let mut state = State::new("/t".to_string(), "fn".to_string());
        let number = state.begin().number;
        let all = [
            ("a.rs", 1, "fn a"),
            ("a.rs", 5, "fn b"),
            ("b.rs", 2, "fn c"),
        ];
        state.handle_message(answer(number, &all));
        assert_eq!(press(&mut state, KeyCode::Up), Action::Nothing);
        assert_eq!(
            press(&mut state, KeyCode::Down),
            Action::Show(place("a.rs", 5))
        );
        assert_eq!(
            press(&mut state, KeyCode::PageDown),
            Action::Show(place("b.rs", 2))
        );
        assert_eq!(press(&mut state, KeyCode::Down), Action::Nothing);
        let edit = Action::Edit {
            path: "b.rs".to_string(),
            line: 2,
        };
        assert_eq!(press(&mut state, KeyCode::Enter), edit);
        let lines = |path: &str, line| BackgroundMessage::Lines {
            place: place(path, line),
            first: 1,
            lines: Ok(vec!["x".to_string()]),
        };
        // While a new answer is missing, Enter does not open the old one.
        state.begin();
        assert_eq!(press(&mut state, KeyCode::Enter), Action::Nothing);
        let number = state.number;
        state.handle_message(answer(number, &all));
        // A preview of another line is ignored.
        state.handle_message(lines("a.rs", 5));
        assert_eq!(state.preview, None);
        state.handle_message(lines("b.rs", 2));
        assert_eq!(state.preview.as_ref().unwrap().place, place("b.rs", 2));
        let number = state.begin().number;
        state.handle_message(answer(number, &all[1..]));
        assert_eq!(state.place(), Some(place("b.rs", 2)));
        let number = state.begin().number;
        state.handle_message(answer(number, &[]));
        assert_eq!((state.place(), state.chosen), (None, 0));
        assert_eq!(state.preview, None);
    }

    #[test]
    fn tui_some_keys_end_it() {
        let mut state = State::new("/t".to_string(), String::new());
        assert_eq!(press(&mut state, KeyCode::Esc), Action::Quit);
        assert_eq!(control(&mut state, 'c'), Action::Quit);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Ask);
    }
}
