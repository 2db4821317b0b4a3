//! Drawing of the lines around the chosen line.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::{behind, head, marked, parts, shown};
use crate::tool::cli::commands::tui::colour::{Kind, Language, Open};
use crate::tool::cli::commands::tui::state::State;

/// Maximum length of a line with colours, in bytes.
const LONGEST: usize = 10_000;

/// Draws the preview. Limits its scroll position to the lines that exist.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let side = match area.x > 0 {
        true => Borders::LEFT,
        false => Borders::TOP,
    };
    let block = Block::new().borders(side).border_style(Color::DarkGray);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (Some(preview), Some(record)) = (&state.preview, state.chosen()) else {
        return;
    };
    let [name, text] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
    let seen = state.seen(&preview.place.path);
    let title = format!("{}:{}", shown(&seen), preview.place.line);
    frame.render_widget(Line::from(title).bold().magenta(), name);
    let lines = match &preview.lines {
        Ok(lines) => lines,
        Err(why) => return frame.render_widget(Line::from(shown(why)).red(), text),
    };
    // Place the chosen line a third from the top.
    let at = preview.place.line.saturating_sub(preview.first);
    let at = usize::try_from(at).unwrap_or(0);
    let height = usize::from(text.height);
    let usual = at.saturating_sub(height / 3);
    let last = lines.len().saturating_sub(height).max(usual);
    let start = usual.saturating_add_signed(state.scrolled).min(last);
    let (before, matched, after) = parts(record);
    let (before, matched) = (shown(before), shown(matched));
    // Scroll all lines to the right if the match would not be visible otherwise.
    let room = usize::from(text.width).saturating_sub(6);
    let end = before.width() + matched.width().min(room);
    let left = match end > room {
        true => before.width().saturating_sub(room / 3),
        false => 0,
    };
    let mut open = None;
    let mut rows = Vec::new();
    for (nth, (number, line)) in (preview.first..)
        .zip(lines)
        .enumerate()
        .take(start + height)
    {
        let is_chosen = number == preview.place.line;
        let line_shown = shown(line);
        // A comment may begin above the visible lines.
        let coloured = coloured(preview.language.as_ref(), &line_shown, &mut open);
        if nth < start {
            continue;
        }
        let mut spans = vec![Span::raw(format!("{number:>5} ")).dark_gray()];
        // The line may have been edited since the search.
        if is_chosen && *line == record.data.lines.text {
            spans.push(Span::raw(behind(&before, left).to_string()));
            spans.push(Span::styled(head(&matched, room).to_string(), marked()));
            spans.push(Span::raw(head(&shown(after), room).to_string()));
            rows.push(Line::from(spans).bold());
            continue;
        }
        spans.extend(cut(&coloured, left, room));
        rows.push(Line::from(spans));
    }
    frame.render_widget(Paragraph::new(rows), text);
    state.scrolled = start as isize - usual as isize;
}

/// Splits a line into parts with colours. `open` is the comment or text that a line before began.
fn coloured<'a>(
    language: Option<&Language>,
    line: &'a str,
    open: &mut Open,
) -> Vec<(Style, &'a str)> {
    let Some(language) = language.filter(|_| line.len() <= LONGEST) else {
        return vec![(Style::new(), line)];
    };
    let parts = language.parts(line, open).into_iter();
    parts.map(|(kind, part)| (style(kind), part)).collect()
}

fn style(kind: Kind) -> Style {
    match kind {
        Kind::Plain => Style::new(),
        Kind::Comment => Style::new().fg(Color::DarkGray),
        Kind::Text => Style::new().fg(Color::Green),
        Kind::Number => Style::new().fg(Color::Cyan),
        Kind::Keyword => Style::new().fg(Color::Magenta),
    }
}

/// Returns the parts of a line without its first `left` columns, at most `room` columns wide.
pub(super) fn cut(parts: &[(Style, &str)], mut left: usize, mut room: usize) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for (style, part) in parts {
        let rest = behind(part, left);
        let kept = head(rest, room);
        left = left.saturating_sub(part.width());
        room = room.saturating_sub(kept.width());
        spans.push(Span::styled(kept.to_string(), *style));
        if kept.len() < rest.len() {
            break;
        }
    }
    spans
}
