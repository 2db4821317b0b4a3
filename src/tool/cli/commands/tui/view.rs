//! Drawing of the interactive search.
//!
//! This module owns the layout of the screen, and shortens lines to fit. Control characters and
//! direction marks of files never reach the terminal: they are escaped, as in all other output.

mod help;
mod preview;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{List, ListItem, Paragraph};
use tui_input::Input;
use unicode_width::UnicodeWidthChar;

use super::background::Place;
use super::state::{Row, State};
use crate::tool::render::escape_controls;
use crate::tool::request::Case;
use crate::tool::response::Record;

/// Minimum width, in columns, for the preview beside the list.
const WIDE: u16 = 110;

/// Minimum height, in rows, for the preview below the list.
const HIGH: u16 = 18;

/// The most important keys, below the results.
const HELP: &str = "F1 help · Enter edit · Tab filter · F2 text · F6 ranked · Esc quit";

/// The filter that is shown as an example while none is typed.
const EXAMPLE: &str = "*.rs !gen/ src/ type:rust";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [question, options, middle, said, help] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let is_focused = !state.is_in_filter;
    draw_input(frame, question, ["search ", ""], &state.input, is_focused);
    match state.is_in_filter {
        true => draw_input(frame, options, ["filter ", EXAMPLE], &state.filter, true),
        false => frame.render_widget(options_line(state), options),
    }
    let (list, preview) = if middle.width >= WIDE {
        let [list, preview] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)])
                .areas(middle);
        (list, Some(preview))
    } else if middle.height >= HIGH {
        let [list, preview] =
            Layout::vertical([Constraint::Percentage(55), Constraint::Percentage(45)])
                .areas(middle);
        (list, Some(preview))
    } else {
        (middle, None)
    };
    state.areas = [list, preview.unwrap_or_default()];
    draw_list(frame, list, state);
    if let Some(area) = preview {
        preview::draw(frame, area, state);
    }
    frame.render_widget(said_line(state), said);
    let index = Line::from(state.index.as_str()).dark_gray().right_aligned();
    frame.render_widget(Line::from(HELP).dark_gray(), help);
    let width = u16::try_from(index.width()).unwrap_or(0);
    if help.width > width + HELP.chars().count() as u16 {
        frame.render_widget(index, help);
    }
    if state.is_help {
        help::draw(frame);
    }
}

/// Draws a text that the user types, or an example of one. Shows the cursor if keys change this
/// text.
fn draw_input(
    frame: &mut Frame<'_>,
    area: Rect,
    [prompt, example]: [&'static str; 2],
    input: &Input,
    is_focused: bool,
) {
    let prompt = Span::from(prompt).bold().cyan();
    let start = area.x + prompt.width() as u16;
    let width = usize::from(area.width.saturating_sub(prompt.width() as u16 + 1));
    let scroll = input.visual_scroll(width);
    frame.render_widget(prompt, area);
    let rest = Rect {
        x: start.min(area.right()),
        width: area.right().saturating_sub(start),
        ..area
    };
    let text = match input.value() {
        "" => Line::from(example).dark_gray(),
        typed => Line::from(typed),
    };
    frame.render_widget(Paragraph::new(text).scroll((0, scroll as u16)), rest);
    if is_focused {
        let cursor = input.visual_cursor().max(scroll) - scroll;
        frame.set_cursor_position(Position::new(start + cursor as u16, area.y));
    }
}

/// Returns the line with the search options.
fn options_line(state: &State) -> Line<'_> {
    let on = |is: bool| match is {
        true => Style::new().fg(Color::Yellow),
        false => Style::new().fg(Color::DarkGray),
    };
    let mut place = vec![Span::raw("  in ").dark_gray()];
    if !state.filter.value().trim().is_empty() {
        let filter = shown(state.filter.value());
        place = vec![Span::raw(" · ").dark_gray(), Span::styled(filter, on(true))];
        place.push(Span::raw("  in ").dark_gray());
    }
    place.push(Span::raw(shown(&state.root)).dark_gray());
    if state.is_ranked {
        place.insert(0, Span::styled("ranked question", on(true)));
        return Line::from(place);
    }
    let case = match state.case {
        Case::Smart => "smart case",
        Case::Sensitive => "with case",
        Case::Insensitive => "without case",
    };
    let kind = if state.is_text { "text" } else { "expression" };
    let words = if state.words {
        "whole words"
    } else {
        "words or parts"
    };
    let edits = match state.fuzzy {
        0 => "exactly".to_string(),
        1 => "1 edit".to_string(),
        n => format!("{n} edits"),
    };
    let mut spans = vec![
        Span::styled(kind, on(state.is_text)),
        Span::raw(" · ").dark_gray(),
        Span::styled(words, on(state.words)),
        Span::raw(" · ").dark_gray(),
        Span::styled(case, on(state.case != Case::Smart)),
        Span::raw(" · ").dark_gray(),
        Span::styled(edits, on(state.fuzzy > 0)),
    ];
    spans.extend(place);
    Line::from(spans)
}

/// Returns the status line: an error, or the number of matches.
fn said_line(state: &State) -> Line<'_> {
    if let Some(problem) = state.notice.as_ref().or(state.problem.as_ref()) {
        let first = problem.lines().next().unwrap_or_default();
        return Line::from(shown(first)).red();
    }
    let Some((found, took)) = &state.answer else {
        return match state.waits {
            true => Line::from("searching…").dark_gray(),
            false if state.is_ranked => Line::from("type a question").dark_gray(),
            false => Line::from("type a pattern").dark_gray(),
        };
    };
    let answer = &found.response;
    let kind = if state.is_ranked { "place" } else { "line" };
    let plural = if answer.count == 1 { "" } else { "s" };
    let mut said = format!(
        "{} {kind}{plural}, {:.1} ms",
        answer.count,
        took.as_secs_f64() * 1e3
    );
    if !state.marked.is_empty() {
        said += &format!("; {} marked", state.marked.len());
    }
    let mut is_whole = found.note.is_none() && !answer.truncated && !answer.timed_out;
    if let Some(note) = &found.note {
        said += &format!("; {}", shown(note));
    } else if answer.truncated {
        said += "; these are the first results: more exist";
    }
    if found.note.is_none() && answer.timed_out {
        said += "; the search timed out: results may be missing";
    }
    if !answer.errors.is_empty() {
        said += &format!("; {} could not be read", answer.errors.len());
        is_whole = false;
    }
    if state.waits {
        said += " …";
    }
    match is_whole {
        true => Line::from(said).green(),
        false => Line::from(said).yellow(),
    }
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let width = usize::from(area.width);
    let rows: Vec<Row<'_>> = state.rows().collect();
    let chosen = rows.iter().position(|row| *row == Row::Line(state.chosen));
    let items = rows.iter().filter_map(|row| match row {
        Row::File(path) => Some(Line::from(shown(&state.seen(path))).bold().magenta()),
        Row::Line(nth) => {
            let record = state.found().get(*nth)?;
            let is_marked = state.marked.contains(&Place::of(record));
            Some(found_line(record, is_marked, width))
        }
    });
    let items: Vec<ListItem<'static>> = items.map(ListItem::new).collect();
    let list = List::new(items).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    state.list.select(chosen);
    if chosen == Some(1) {
        // Keep the first file's name in view.
        *state.list.offset_mut() = 0;
    }
    frame.render_stateful_widget(list, area, &mut state.list);
}

/// Formats a matching line, scrolled so that the match is visible.
fn found_line(record: &Record, is_marked: bool, width: usize) -> Line<'static> {
    let number = format!("{:>5}", record.data.line_number);
    let room = width.saturating_sub(number.len() + 1);
    let (before, matched, after) = parts(record);
    let before = shown(before.trim_start());
    // Keep at most half of the width for the text before the match.
    let cut = tail(&before, room / 2);
    let mut spans = vec![
        Span::raw(number).dark_gray(),
        Span::raw(if is_marked { "*" } else { " " }).bold().yellow(),
    ];
    if cut.len() < before.len() {
        spans.push(Span::raw("…").dark_gray());
    }
    spans.push(Span::raw(cut.to_string()));
    spans.push(Span::styled(
        head(&shown(matched), room).to_string(),
        marked(),
    ));
    spans.push(Span::raw(head(&shown(after), room).to_string()));
    Line::from(spans)
}

fn marked() -> Style {
    Style::new().fg(Color::Black).bg(Color::Yellow)
}

/// Splits a line into the parts before, in and after the match. If the match is not in the text,
/// the third part is the whole line.
fn parts(record: &Record) -> (&str, &str, &str) {
    let line = record.data.lines.text.as_str();
    let parts = record.place_of_match().and_then(|(start, end)| {
        Some((line.get(..start)?, line.get(start..end)?, line.get(end..)?))
    });
    parts.unwrap_or(("", "", line))
}

/// Returns the longest suffix that is at most `columns` wide.
fn tail(text: &str, columns: usize) -> &str {
    let mut width = 0;
    for (at, c) in text.char_indices().rev() {
        width += c.width().unwrap_or(0);
        if width > columns {
            return &text[at + c.len_utf8()..];
        }
    }
    text
}

/// Returns the longest prefix that is at most `columns` wide.
fn head(text: &str, columns: usize) -> &str {
    let mut width = 0;
    for (at, c) in text.char_indices() {
        width += c.width().unwrap_or(0);
        if width > columns {
            return &text[..at];
        }
    }
    text
}

/// Returns the text without its first `columns` columns.
fn behind(text: &str, columns: usize) -> &str {
    text.get(head(text, columns).len()..).unwrap_or_default()
}

/// Escapes a text for the terminal.
fn shown(text: &str) -> String {
    escape_controls(text).replace('\t', "    ")
}

#[cfg(test)]
mod tests;
