use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::tool::cli::commands::tui::background::BackgroundMessage;
use crate::tool::cli::commands::tui::state::KEYS;
use crate::tool::cli::commands::tui::state::tests::{answer, press};

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
    let (found, _) = state.answer.as_mut().unwrap();
    found.response.truncated = true;
    assert_eq!(
        screen(&mut state, 80, 10)[8],
        "3 lines, 2.3 ms; these are the first results: more exist"
    );
    let (found, took) = state.answer.as_mut().unwrap();
    (found.response.truncated, found.response.timed_out) = (false, true);
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
        answer.response.matches[0].data.column = Some(4);
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

#[test]
fn tui_the_filter_the_marks_and_a_note_are_shown() {
    let mut state = asked();
    state.filter = Input::new("*.rs \u{202e}".to_string());
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::F(8));
    state.answer.as_mut().unwrap().0.note = Some("a note".to_string());
    let rows = screen(&mut state, 100, 12);
    assert!(rows[1].ends_with(" · *.rs \\u{202e}  in /t"), "{rows:?}");
    assert_eq!(rows[4], "    9*fn \\x1b[31mtwo()");
    assert_eq!(rows[10], "3 lines, 2.3 ms; 1 marked; a note");
    press(&mut state, KeyCode::Tab);
    state.filter = Input::new("src/".to_string());
    assert_eq!(screen(&mut state, 100, 12)[1], "filter src/");
    state.filter.reset();
    assert_eq!(screen(&mut state, 100, 12)[1], format!("filter {EXAMPLE}"));
}

#[test]
fn tui_the_help_has_all_keys() {
    let mut state = asked();
    press(&mut state, KeyCode::F(1));
    let shown = screen(&mut state, 100, 30).join("\n");
    for (keys, effect) in KEYS {
        assert!(
            shown.contains(keys) && shown.contains(effect),
            "{keys}:\n{shown}"
        );
    }
    press(&mut state, KeyCode::F(1));
    assert!(!screen(&mut state, 100, 30).join("\n").contains(KEYS[0].0));
}

#[test]
fn tui_a_preview_scrolls_and_has_colours() {
    let mut state = State::new("/t".to_string(), "fn".to_string());
    let number = state.begin().number;
    state.handle_message(answer(number, &[("a.rs", 50, "fn one")]));
    let line = |n| match n {
        50 => "fn one".to_string(),
        _ => format!("let x = {n}; // \u{202e}漢"),
    };
    state.handle_message(BackgroundMessage::Lines {
        place: Place {
            path: "a.rs".to_string(),
            line: 50,
        },
        first: 1,
        lines: Ok((1..=60).map(line).collect()),
    });
    let shown = |state: &mut State| screen(state, 120, 14).join("\n");
    let usual = shown(&mut state);
    assert!(
        usual.contains("   51 let x = 51; // \\u{202e}漢"),
        "{usual}"
    );
    for (up, down, first, scrolled) in [(7, 0, 40, -7), (900, 0, 1, -46), (0, 900, 52, 5)] {
        for (code, count) in [(KeyCode::Up, up), (KeyCode::Down, down)] {
            for _ in 0..count {
                state.key(KeyEvent::new(code, KeyModifiers::ALT));
            }
        }
        let now = shown(&mut state);
        assert!(now.contains(&format!("│{first:>5} let")), "{now}");
        assert_eq!(state.scrolled, scrolled);
    }
    let mut terminal = Terminal::new(TestBackend::new(120, 14)).unwrap();
    terminal.draw(|frame| draw(frame, &mut state)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = (0..120).map(|x| &buffer[(x, 5)]).skip(61).skip(6);
    let colours: Vec<Color> = row.take(14).map(|cell| cell.fg).collect();
    assert_eq!(
        colours[..4],
        [Color::Magenta, Color::Magenta, Color::Magenta, Color::Reset]
    );
    assert_eq!((colours[8], colours[12]), (Color::Cyan, Color::DarkGray));
}

#[test]
fn tui_a_part_of_a_line_is_cut_in_order() {
    let cut = |left, room| -> String {
        let parts = [(Style::new(), "a漢"), (Style::new(), "漢b")];
        let spans = preview::cut(&parts, left, room);
        spans.iter().map(|span| span.content.as_ref()).collect()
    };
    assert_eq!(cut(0, 9), "a漢漢b");
    // A wide character that does not fit ends the line.
    assert_eq!(cut(0, 4), "a漢");
    assert_eq!(cut(3, 3), "漢b");
}
