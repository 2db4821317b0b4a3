//! The meaning of the mouse: the wheel, clicks and double clicks.

use std::time::Duration;

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::{Action, Row, State};

/// Lines for each step of the wheel.
const WHEEL: isize = 3;

/// Maximum time between the clicks of a double click.
const DOUBLE: Duration = Duration::from_millis(500);

impl State {
    /// Handles an event of the mouse. `at` is its time since the start.
    pub(in super::super) fn mouse(&mut self, event: MouseEvent, at: Duration) -> Action {
        let pointer = Position::new(event.column, event.row);
        let lines = match event.kind {
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::Down(MouseButton::Left) => return self.click(pointer, at),
            _ => return Action::Nothing,
        };
        let [list, preview] = self.areas;
        if preview.contains(pointer) {
            self.scroll(lines)
        } else if list.contains(pointer) {
            self.choose(self.chosen.saturating_add_signed(lines))
        } else {
            Action::Nothing
        }
    }

    /// Chooses the line at the pointer, or opens it if this is the second click.
    fn click(&mut self, pointer: Position, at: Duration) -> Action {
        self.notice = None;
        let before = self.clicked.take();
        if std::mem::take(&mut self.is_help) || !self.areas[0].contains(pointer) {
            return Action::Nothing;
        }
        let row = self.list.offset() + usize::from(pointer.y - self.areas[0].y);
        let Some(Row::Line(nth)) = self.rows().nth(row) else {
            return Action::Nothing;
        };
        let is_second = |(earlier, then): (usize, Duration)| {
            earlier == nth && at.saturating_sub(then) <= DOUBLE
        };
        if before.is_some_and(is_second) && self.chosen == nth && self.is_answered() {
            self.remember();
            return Action::Edit(self.place().into_iter().collect());
        }
        self.clicked = Some((nth, at));
        self.choose(nth)
    }
}
