use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use serde_json::json;

use super::*;

/// Returns an answer with the given lines. Each line must contain `fn`.
pub(in crate::tool::cli::commands::tui) fn answer(
    number: u64,
    lines: &[(&str, u64, &str)],
) -> BackgroundMessage {
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
        answer: Ok(Box::new(Found {
            response: serde_json::from_value(response).unwrap(),
            note: None,
        })),
        took: Duration::from_micros(2_340),
    }
}

pub(in crate::tool::cli::commands::tui) fn press(state: &mut State, code: KeyCode) -> Action {
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
    let edit = Action::Edit(vec![place("b.rs", 2)]);
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

fn answered(lines: &[(&str, u64, &str)]) -> State {
    let mut state = State::new("/t".to_string(), "fn".to_string());
    let number = state.begin().number;
    state.handle_message(answer(number, lines));
    state
}

const LINES: [(&str, u64, &str); 3] = [
    ("a.rs", 1, "fn a"),
    ("a.rs", 5, "fn b"),
    ("b.rs", 2, "fn c"),
];

#[test]
fn tui_the_filter_is_asked_for_and_a_wrong_one_is_told() {
    let mut state = State::new("/t".to_string(), "fn".to_string());
    assert_eq!(press(&mut state, KeyCode::Tab), Action::Nothing);
    assert_eq!(press(&mut state, KeyCode::Char('[')), Action::Ask);
    assert_eq!(state.begin().request, None);
    assert!(!state.waits);
    let problem = state.problem.clone().unwrap();
    assert!(problem.contains("\"[\" is invalid"), "{problem}");
    control(&mut state, 'u');
    state.paste("src/ *.rs");
    let request = state.begin().request.unwrap();
    assert_eq!(
        (&*request.pattern, request.includes()),
        ("fn", &["*.rs".to_string()][..])
    );
    assert_eq!(request.path.as_deref(), Some("src/"));
    // A ranked question takes the directory alone.
    press(&mut state, KeyCode::F(6));
    assert_eq!(state.begin().request, None);
    assert!(state.problem.as_ref().unwrap().contains("one directory"));
    control(&mut state, 'u');
    state.paste("src/");
    assert!(state.begin().request.is_some());
    // Esc goes back to the pattern first.
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Nothing);
    press(&mut state, KeyCode::Char('x'));
    assert_eq!(state.input.value(), "fnx");
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Quit);
}

#[test]
fn tui_marked_files_are_opened_together() {
    let mut state = answered(&LINES);
    press(&mut state, KeyCode::F(8));
    control(&mut state, ' ');
    assert!(state.marked.is_empty());
    for _ in 0..3 {
        press(&mut state, KeyCode::F(8));
        press(&mut state, KeyCode::Down);
    }
    assert_eq!(state.marked.len(), 3);
    let files = vec![place("a.rs", 1), place("b.rs", 2)];
    assert_eq!(press(&mut state, KeyCode::Enter), Action::Edit(files));
    let chosen = vec![place("b.rs", 2)];
    assert_eq!(press(&mut state, KeyCode::Enter), Action::Edit(chosen));
    press(&mut state, KeyCode::F(8));
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Nothing);
    assert!(state.marked.is_empty());
}

#[test]
fn tui_answered_patterns_come_back() {
    let mut state = answered(&LINES);
    press(&mut state, KeyCode::Enter);
    // A pattern with an error is no part of the history.
    press(&mut state, KeyCode::Char('('));
    let number = state.begin().number;
    state.handle_message(BackgroundMessage::Answer {
        number,
        answer: Err("no".to_string()),
        took: Duration::ZERO,
    });
    press(&mut state, KeyCode::Enter);
    assert_eq!(alt(&mut state, 'p'), Action::Ask);
    assert_eq!(state.input.value(), "fn");
    assert_eq!(alt(&mut state, 'p'), Action::Nothing);
    let down = KeyEvent::new(KeyCode::Down, KeyModifiers::CONTROL);
    assert_eq!(state.key(down), Action::Ask);
    assert_eq!(state.input.value(), "fn(");
}

#[test]
fn tui_help_is_closed_by_any_key() {
    let mut state = answered(&LINES);
    alt(&mut state, '?');
    assert!(state.is_help);
    assert_eq!(press(&mut state, KeyCode::Enter), Action::Nothing);
    assert!(!state.is_help);
    assert_eq!(press(&mut state, KeyCode::Char('?')), Action::Ask);
}

#[test]
fn tui_the_mouse_chooses_opens_and_scrolls() {
    let mut state = answered(&LINES);
    state.areas = [Rect::new(0, 2, 50, 10), Rect::new(50, 2, 50, 10)];
    let mut mouse = |kind, column, row, ms| {
        let event = MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        };
        let action = state.mouse(event, Duration::from_millis(ms));
        (action, state.chosen, state.scrolled)
    };
    let click = MouseEventKind::Down(MouseButton::Left);
    let nothing = |chosen, scrolled| (Action::Nothing, chosen, scrolled);
    // The rows are: a.rs, its two lines, b.rs, and its line.
    assert_eq!(
        mouse(click, 3, 4, 0),
        (Action::Show(place("a.rs", 5)), 1, 0)
    );
    assert_eq!(mouse(click, 3, 4, 900), nothing(1, 0));
    assert_eq!(mouse(click, 3, 5, 950), nothing(1, 0));
    assert_eq!(mouse(click, 3, 4, 1_000), nothing(1, 0));
    let opened = (Action::Edit(vec![place("a.rs", 5)]), 1, 0);
    assert_eq!(mouse(click, 3, 4, 1_300), opened);
    assert_eq!(mouse(click, 3, 11, 1_400), nothing(1, 0));
    assert_eq!(mouse(MouseEventKind::ScrollDown, 60, 3, 0), nothing(1, 3));
    assert_eq!(mouse(MouseEventKind::ScrollUp, 60, 3, 0), nothing(1, 0));
    let last = (Action::Show(place("b.rs", 2)), 2, 0);
    assert_eq!(mouse(MouseEventKind::ScrollDown, 3, 3, 0), last);
    assert_eq!(mouse(MouseEventKind::ScrollDown, 3, 0, 0), nothing(2, 0));
    assert_eq!(mouse(MouseEventKind::Moved, 3, 3, 0), nothing(2, 0));
}
