//! Drawing of the interactive search.
//!
//! Owns the layout of the screen, and shortens lines to fit. Control characters never reach the
//! terminal: they are escaped, as in all other output.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, List, ListItem, Paragraph};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::state::State;
use crate::tool::render::escape_controls;
use crate::tool::request::Case;
use crate::tool::response::Record;

/// Minimum width, in columns, for the preview beside the list.
const WIDE: u16 = 110;

/// Minimum height, in rows, for the preview below the list.
const HIGH: u16 = 18;

const HELP: &str =
    "↑↓ · Enter edit · F2 text · F3 words · F4 case · F5 edits · F6 ranked · Esc quit";

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
    draw_question(frame, question, state);
    frame.render_widget(options_line(state), options);
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
    draw_list(frame, list, state);
    if let Some(area) = preview {
        draw_preview(frame, area, state);
    }
    frame.render_widget(said_line(state), said);
    let index = Line::from(state.index.as_str()).dark_gray().right_aligned();
    frame.render_widget(Line::from(HELP).dark_gray(), help);
    let width = u16::try_from(index.width()).unwrap_or(0);
    if help.width > width + HELP.chars().count() as u16 {
        frame.render_widget(index, help);
    }
}

fn draw_question(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let prompt = Span::from("search ").bold().cyan();
    let start = area.x + prompt.width() as u16;
    let width = usize::from(area.width.saturating_sub(prompt.width() as u16 + 1));
    let scroll = state.input.visual_scroll(width);
    frame.render_widget(prompt, area);
    let rest = Rect {
        x: start.min(area.right()),
        width: area.right().saturating_sub(start),
        ..area
    };
    let text = Paragraph::new(state.input.value()).scroll((0, scroll as u16));
    frame.render_widget(text, rest);
    let cursor = state.input.visual_cursor().max(scroll) - scroll;
    frame.set_cursor_position(Position::new(start + cursor as u16, area.y));
}

/// Returns the line with the search options.
fn options_line(state: &State) -> Line<'_> {
    let on = |is: bool| match is {
        true => Style::new().fg(Color::Yellow),
        false => Style::new().fg(Color::DarkGray),
    };
    if state.is_ranked {
        return Line::from(vec![
            Span::styled("ranked question", on(true)),
            Span::raw("  in ").dark_gray(),
            Span::raw(shown(&state.root)).dark_gray(),
        ]);
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
    Line::from(vec![
        Span::styled(kind, on(state.is_text)),
        Span::raw(" · ").dark_gray(),
        Span::styled(words, on(state.words)),
        Span::raw(" · ").dark_gray(),
        Span::styled(case, on(state.case != Case::Smart)),
        Span::raw(" · ").dark_gray(),
        Span::styled(edits, on(state.fuzzy > 0)),
        Span::raw("  in ").dark_gray(),
        Span::raw(shown(&state.root)).dark_gray(),
    ])
}

/// Returns the status line: an error, or the number of matches.
fn said_line(state: &State) -> Line<'_> {
    if let Some(problem) = state.notice.as_ref().or(state.problem.as_ref()) {
        let first = problem.lines().next().unwrap_or_default();
        return Line::from(shown(first)).red();
    }
    let Some((answer, took)) = &state.answer else {
        return match state.waits {
            true => Line::from("searching…").dark_gray(),
            false if state.is_ranked => Line::from("type a question").dark_gray(),
            false => Line::from("type a pattern").dark_gray(),
        };
    };
    let kind = if state.is_ranked { "place" } else { "line" };
    let plural = if answer.count == 1 { "" } else { "s" };
    let mut said = format!(
        "{} {kind}{plural}, {:.1} ms",
        answer.count,
        took.as_secs_f64() * 1e3
    );
    let mut is_whole = true;
    if answer.truncated {
        said += "; these are the first results: more exist";
        is_whole = false;
    }
    if answer.timed_out {
        said += "; the search timed out: results may be missing";
        is_whole = false;
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
    let mut items = Vec::new();
    let mut path = None;
    let mut chosen = None;
    for (nth, record) in state.found().iter().enumerate() {
        let data = &record.data;
        if path != Some(&data.path.text) {
            path = Some(&data.path.text);
            let name = Line::from(shown(&state.seen(&data.path.text)))
                .bold()
                .magenta();
            items.push(ListItem::new(name));
        }
        if nth == state.chosen {
            chosen = Some(items.len());
        }
        items.push(ListItem::new(found_line(record, width)));
    }
    let list = List::new(items).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    state.page = usize::from(area.height).saturating_sub(1).max(1);
    state.list.select(chosen);
    if chosen == Some(1) {
        // Keep the first file's name in view.
        *state.list.offset_mut() = 0;
    }
    frame.render_stateful_widget(list, area, &mut state.list);
}

/// Formats a matching line, scrolled so that the match is visible.
fn found_line(record: &Record, width: usize) -> Line<'static> {
    let number = format!("{:>5} ", record.data.line_number);
    let room = width.saturating_sub(number.len());
    let (before, matched, after) = parts(record);
    let before = shown(before.trim_start());
    // Keep at most half of the width for the text before the match.
    let cut = tail(&before, room / 2);
    let mut spans = vec![Span::raw(number).dark_gray()];
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

fn draw_preview(frame: &mut Frame<'_>, area: Rect, state: &State) {
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
    let start = at.saturating_sub(usize::from(text.height) / 3);
    let (before, matched, after) = parts(record);
    let (before, matched) = (shown(before), shown(matched));
    // Scroll all lines to the right if the match would not be visible otherwise.
    let room = usize::from(text.width).saturating_sub(6);
    let end = before.width() + matched.width().min(room);
    let left = match end > room {
        true => before.width().saturating_sub(room / 3),
        false => 0,
    };
    let numbered = (preview.first..).zip(lines).skip(start);
    let rows: Vec<Line<'_>> = numbered
        .take(usize::from(text.height))
        .map(|(number, line)| {
            let number_shown = Span::raw(format!("{number:>5} ")).dark_gray();
            // The line may have been edited since the search.
            if number == preview.place.line && *line == record.data.lines.text {
                return Line::from(vec![
                    number_shown,
                    Span::raw(behind(&before, left).to_string()),
                    Span::styled(head(&matched, room).to_string(), marked()),
                    Span::raw(head(&shown(after), room).to_string()),
                ])
                .bold();
            }
            let line = shown(line);
            let line = head(behind(&line, left), room).to_string();
            Line::from(vec![number_shown, Span::raw(line)])
        })
        .collect();
    frame.render_widget(Paragraph::new(rows), text);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use super::super::background::{BackgroundMessage, Place};
    use super::super::state::tests::{answer, press};
    use super::*;

    fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        (0..height)
            .map(|y| {
                let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
                row.trim_end().to_string()
            })
            .collect()
    }

    fn asked() -> State {
        let mut state = State::new("/t".to_string(), "fn".to_string());
        let number = state.begin().number;
        let lines = [
            ("src/a.rs", 3, "\tpub fn one() {}"),
            ("src/a.rs", 9, "fn \u{1b}[31mtwo()"),
            ("src/b.rs", 12, "fn three()"),
        ];
        state.handle_message(answer(number, &lines));
        state
    }

    #[test]
    fn tui_results_stand_below_their_files() {
        let mut state = asked();
        state.handle_message(BackgroundMessage::Index("index: live".to_string()));
        let rows = screen(&mut state, 100, 12);
        assert_eq!(rows[0], "search fn");
        assert_eq!(
            rows[1],
            "expression · words or parts · smart case · exactly  in /t"
        );
        assert_eq!(rows[2], "src/a.rs");
        assert_eq!(rows[3], "    3 pub fn one() {}");
        // File contents never move the cursor or change colours.
        assert_eq!(rows[4], "    9 fn \\x1b[31mtwo()");
        assert_eq!(rows[5], "src/b.rs");
        assert_eq!(rows[6], "   12 fn three()");
        assert_eq!(rows[10], "3 lines, 2.3 ms");
        assert!(rows[11].ends_with("index: live"), "{}", rows[11]);
    }

    #[test]
    fn tui_the_preview_is_beside_or_below() {
        for (width, height) in [(120, 12), (80, 40)] {
            let mut state = asked();
            press(&mut state, KeyCode::Down);
            state.handle_message(BackgroundMessage::Lines {
                place: Place {
                    path: "src/a.rs".to_string(),
                    line: 9,
                },
                first: 8,
                lines: Ok(vec!["before".to_string(), "fn \u{1b}[31mtwo()".to_string()]),
            });
            let rows = screen(&mut state, width, height);
            let all = rows.join("\n");
            assert!(all.contains("src/a.rs:9"), "{all}");
            assert!(all.contains("    8 before"), "{all}");
            let shown = rows.iter().filter(|row| row.contains("\\x1b[31mtwo"));
            assert!(shown.count() >= if width == 120 { 1 } else { 2 }, "{all}");
        }
    }

    #[test]
    fn tui_incomplete_answers_say_so() {
        let mut state = asked();
        let (answer, _) = state.answer.as_mut().unwrap();
        answer.truncated = true;
        assert_eq!(
            screen(&mut state, 80, 10)[8],
            "3 lines, 2.3 ms; these are the first results: more exist"
        );
        let (answer, took) = state.answer.as_mut().unwrap();
        (answer.truncated, answer.timed_out) = (false, true);
        *took = Duration::from_secs(2);
        let rows = screen(&mut state, 80, 10);
        assert!(rows[8].contains("the search timed out"), "{rows:?}");
        state.complain("wrong\nand more".to_string());
        assert_eq!(screen(&mut state, 80, 10)[8], "wrong");
    }

    #[test]
    fn tui_a_match_far_to_the_right_is_in_view() {
        let mut state = State::new("/t".to_string(), "fn".to_string());
        let number = state.begin().number;
        let line = format!("{} fn here", "é漢".repeat(200));
        state.handle_message(answer(number, &[("a", 1, &line)]));
        let rows = screen(&mut state, 60, 10);
        assert!(rows[3].contains("fn here"), "{rows:?}");
        assert!(rows[3].contains('…'), "{rows:?}");
    }

    #[test]
    fn tui_a_preview_begins_where_its_match_is_in_view() {
        let mut state = State::new("/t".to_string(), "fn".to_string());
        let number = state.begin().number;
        let line = format!("{} fn here", "é漢".repeat(2_000));
        state.handle_message(answer(number, &[("a", 2, &line)]));
        let told = |line: &str| BackgroundMessage::Lines {
            place: Place {
                path: "a".to_string(),
                line: 2,
            },
            first: 1,
            lines: Ok(vec![
                "short".to_string(),
                line.to_string(),
                "x".repeat(9_000),
            ]),
        };
        state.handle_message(told(&line));
        let rows = screen(&mut state, 120, 10).join("\n");
        assert_eq!(rows.matches("fn here").count(), 2, "{rows}");
        assert!(
            rows.contains("    3 xxx") && !rows.contains("short"),
            "{rows}"
        );
        // The replacement of invalid UTF-8 has more bytes than the original.
        let line = "\u{fffd}\u{fffd} fn here";
        let mut state = State::new("/t".to_string(), "fn".to_string());
        let number = state.begin().number;
        let mut found = answer(number, &[("a", 2, line)]);
        if let BackgroundMessage::Answer {
            answer: Ok(answer), ..
        } = &mut found
        {
            answer.matches[0].data.column = Some(4);
        }
        state.handle_message(found);
        let (before, matched, after) = parts(state.chosen().unwrap());
        assert_eq!(
            (before, matched, after),
            ("\u{fffd}\u{fffd} ", "fn", " here")
        );
    }

    #[test]
    fn tui_it_fits_any_screen() {
        for (width, height) in [(1, 1), (3, 2), (20, 4), (500, 200)] {
            screen(&mut asked(), width, height);
            screen(
                &mut State::new(String::new(), "x".repeat(300)),
                width,
                height,
            );
        }
        assert_eq!(tail("abc", 2), "bc");
        assert_eq!(tail("abc", 0), "");
        assert_eq!(tail("漢漢", 3), "漢");
    }
}
