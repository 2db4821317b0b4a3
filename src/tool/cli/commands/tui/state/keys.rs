//! The meaning of keys, and of pasted text.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use tui_input::Input;
use tui_input::backend::crossterm::to_input_request;

use super::{Action, State};
use crate::tool::request::Case;

/// Maximum number of edits in a fuzzy search.
const MAX_FUZZY: u64 = 4;

/// All keys, each with its effect. The help shows them.
pub(in super::super) const KEYS: &[(&str, &str)] = &[
    ("Up, Down, Ctrl-P, Ctrl-N", "choose a line"),
    ("PageUp, PageDown", "go a page further"),
    ("Ctrl-Home, Ctrl-End", "go to the first or last line"),
    ("Enter", "open the line or all marks in the editor"),
    ("F8, Ctrl-Space", "mark the line, or remove its mark"),
    ("Alt-Up, Alt-Down", "scroll the preview"),
    (
        "Shift-PageUp, Shift-PageDown",
        "scroll the preview by a page",
    ),
    ("Tab, F7", "type a filter: *.rs !gen/ src/ type:rust"),
    ("F2, Alt-T", "search for text or an expression"),
    ("F3, Alt-W", "match whole words only"),
    ("F4, Alt-C", "change how case matters"),
    ("F5, Alt-E", "allow up to 4 edits"),
    ("F6, Alt-R", "ask a ranked question"),
    ("Ctrl-R", "search again"),
    (
        "Ctrl-Up, Ctrl-Down, Alt-P, Alt-N",
        "go through earlier patterns",
    ),
    ("Ctrl-U, Ctrl-W, Ctrl-K", "delete all, a word, or the rest"),
    ("Esc", "clear the marks, leave the filter, or quit"),
    ("Ctrl-C, Ctrl-D, Ctrl-Q", "quit"),
    ("wheel", "go through the list, or scroll the preview"),
    ("click, double click", "choose a line, open it"),
    ("Shift and mouse", "select text"),
];

impl State {
    /// Handles a key.
    pub(in super::super) fn key(&mut self, key: KeyEvent) -> Action {
        self.notice = None;
        if std::mem::take(&mut self.is_help) {
            return Action::Nothing;
        }
        if let Some(action) = self.go(key) {
            return action;
        }
        if self.switch(key) {
            return Action::Ask;
        }
        let control = key.modifiers == KeyModifiers::CONTROL;
        let alt = key.modifiers == KeyModifiers::ALT;
        match key.code {
            KeyCode::F(1) => self.is_help = true,
            KeyCode::Char('?') if alt => self.is_help = true,
            KeyCode::Esc if !self.marked.is_empty() => self.marked.clear(),
            KeyCode::Esc if self.is_in_filter => self.is_in_filter = false,
            KeyCode::Esc => return self.quit(),
            KeyCode::Char('c' | 'd' | 'q') if control => return self.quit(),
            KeyCode::Enter => return self.open(),
            KeyCode::F(8) => self.mark(),
            KeyCode::Char(' ') if control => self.mark(),
            KeyCode::F(7) | KeyCode::Tab => self.is_in_filter = !self.is_in_filter,
            _ => return self.change(key),
        }
        Action::Nothing
    }

    /// Handles the keys that go through the list, the preview and the history.
    fn go(&mut self, key: KeyEvent) -> Option<Action> {
        let is = |modifiers| key.modifiers == modifiers;
        let (control, alt) = (is(KeyModifiers::CONTROL), is(KeyModifiers::ALT));
        let [list, preview] = self.areas.map(|area| area.height.saturating_sub(1).max(1));
        let page = usize::from(list);
        let turns = alt || is(KeyModifiers::SHIFT);
        Some(match key.code {
            KeyCode::Up if control => self.go_back(true),
            KeyCode::Down if control => self.go_back(false),
            KeyCode::Char('p') if alt => self.go_back(true),
            KeyCode::Char('n') if alt => self.go_back(false),
            KeyCode::Up if alt => self.scroll(-1),
            KeyCode::Down if alt => self.scroll(1),
            KeyCode::PageUp if turns => self.scroll(-(preview as isize)),
            KeyCode::PageDown if turns => self.scroll(preview as isize),
            KeyCode::Up => self.choose(self.chosen.saturating_sub(1)),
            KeyCode::Down => self.choose(self.chosen + 1),
            KeyCode::Char('p') if control => self.choose(self.chosen.saturating_sub(1)),
            KeyCode::Char('n') if control => self.choose(self.chosen + 1),
            KeyCode::PageUp => self.choose(self.chosen.saturating_sub(page)),
            KeyCode::PageDown => self.choose(self.chosen + page),
            KeyCode::Home if control => self.choose(0),
            KeyCode::End if control => self.choose(usize::MAX),
            _ => return None,
        })
    }

    /// Handles the keys that change the question without a change of its text. Returns true for
    /// such a key.
    fn switch(&mut self, key: KeyEvent) -> bool {
        let alt = key.modifiers == KeyModifiers::ALT;
        match key.code {
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
            KeyCode::Char('r') if key.modifiers == KeyModifiers::CONTROL => {}
            _ => return false,
        }
        true
    }

    fn turn_case(&mut self) {
        self.case = match self.case {
            Case::Smart => Case::Sensitive,
            Case::Sensitive => Case::Insensitive,
            Case::Insensitive => Case::Smart,
        };
    }

    fn quit(&mut self) -> Action {
        self.remember();
        Action::Quit
    }

    /// Replaces the pattern by an earlier one, or by a later one.
    fn go_back(&mut self, is_back: bool) -> Action {
        let pattern = match is_back {
            true => self.history.older(self.input.value()),
            false => self.history.newer(),
        };
        match pattern {
            Some(pattern) => {
                self.input = Input::new(pattern.to_string());
                Action::Ask
            }
            None => Action::Nothing,
        }
    }

    /// Scrolls the preview by a number of lines. The screen limits it to the lines that exist.
    pub(super) fn scroll(&mut self, lines: isize) -> Action {
        self.scrolled = self.scrolled.saturating_add(lines);
        Action::Nothing
    }

    /// The input that keys change: the pattern or the filter.
    fn typed(&mut self) -> &mut Input {
        match self.is_in_filter {
            true => &mut self.filter,
            false => &mut self.input,
        }
    }

    /// Changes the text of an input, or moves its cursor.
    fn change(&mut self, key: KeyEvent) -> Action {
        let Some(request) = to_input_request(&Event::Key(key)) else {
            return Action::Nothing;
        };
        let changed = self.typed().handle(request);
        if !changed.is_some_and(|changed| changed.value) {
            return Action::Nothing;
        }
        self.history.leave();
        Action::Ask
    }

    /// Inserts pasted text as one line.
    pub(in super::super) fn paste(&mut self, text: &str) -> Action {
        let pasted = text.trim_end_matches(['\n', '\r']).chars();
        let pasted: Vec<char> = pasted
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        // Insert all at once: each change of the input costs time in proportion to its length.
        let input = self.typed();
        let at = input.cursor();
        let before = input.value().chars().take(at);
        let after = input.value().chars().skip(at);
        let value: String = before.chain(pasted.iter().copied()).chain(after).collect();
        *input = Input::new(value).with_cursor(at + pasted.len());
        self.history.leave();
        Action::Ask
    }
}
