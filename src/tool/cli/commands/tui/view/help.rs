//! The overlay that explains all keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::Span;
use ratatui::widgets::{Block, Clear, Row, Table};

use crate::tool::cli::commands::tui::state::KEYS;

/// The width of the first column: the longest name of keys.
const WIDTH: u16 = 33;

/// Draws the help in the middle of the screen.
pub(super) fn draw(frame: &mut Frame<'_>) {
    let screen = frame.area();
    let width = screen.width.min(2 * WIDTH + 20);
    let height = screen.height.min(KEYS.len() as u16 + 2);
    let area = Rect {
        x: screen.x + (screen.width - width) / 2,
        y: screen.y + (screen.height - height) / 2,
        width,
        height,
    };
    let rows = KEYS
        .iter()
        .map(|(keys, effect)| Row::new([Span::raw(*keys).bold(), Span::raw(*effect)]));
    let block = Block::bordered()
        .title(" keys; any key closes this ")
        .border_style(Color::Cyan);
    let table = Table::new(rows, [Constraint::Length(WIDTH), Constraint::Fill(1)]).block(block);
    frame.render_widget(Clear, area);
    frame.render_widget(table, area);
}
