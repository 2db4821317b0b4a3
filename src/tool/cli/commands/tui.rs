//! `forge-search tui`: an interactive search that updates its results while the user types.
//!
//! This module owns the terminal and the event loop. The loop passes keys, the mouse and answers to
//! [`state`], which decides what to do next. [`view`] draws the state. [`background`] runs searches
//! and reads previews on threads of its own. Neither `state` nor `view` accesses the terminal.

mod answer_files;
mod background;
mod colour;
mod editor;
mod filter;
mod history;
mod state;
mod view;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
    Event, KeyEventKind, MouseEvent, MouseEventKind,
};
use ratatui::crossterm::execute;

use crate::exec::stop::{Clock, SystemClock};
use crate::tool::cli::answers::backend::{Backend, start_unless};
use crate::tool::cli::answers::daemon::canonical;
use crate::tool::cli::args::TuiArgs;
use crate::tool::cli::commands::tui::answer_files::Roots;
use crate::tool::cli::setup::Environment;
use crate::tool::cli::setup::signals::Signals;
use crate::tool::cli::{Failure, complain};
use crate::tool::error::ToolError;

use self::background::{BackgroundThreads, Place};
use self::history::History;
use self::state::{Action, State};

/// How long the loop waits for a key before it checks for answers.
const TICK: Duration = Duration::from_millis(15);

/// How often to refresh the status of the index.
const LOOK: Duration = Duration::from_secs(2);

/// How many events to handle before the screen is drawn again.
const AT_ONCE: usize = 256;

/// Runs the interactive search until the user quits or a signal arrives.
pub(in crate::tool::cli) fn run(args: &TuiArgs, environment: &Environment) -> Result<u8, Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(ToolError::bad_args(
            "tui needs a terminal; `forge-search PATTERN` prints to pipes and files".to_string(),
        )
        .into());
    }
    let named = args.setup.root.as_deref().unwrap_or(Path::new("."));
    let root = canonical(named, environment)?;
    let setup = args.setup.with_absolute_paths(Some(&root), environment)?;
    // Report configuration errors before taking over the screen.
    crate::tool::cli::setup::load_config(&setup, environment)?;
    let tree = Backend::new(
        root.clone(),
        setup,
        environment,
        start_unless(args.no_daemon),
    )
    .quiet();
    let tree = Arc::new(tree.named("tui"));
    let signals = Signals::take_over()?;
    let asker =
        BackgroundThreads::start(tree.clone(), Roots::new(&root, &[]), Arc::new(SystemClock))?;
    let mut state = State::new(
        root.display().to_string(),
        args.pattern.clone().unwrap_or_default(),
    )
    .with_shell_in(canonical(Path::new("."), environment).unwrap_or_else(|_| root.clone()));
    let kept = match args.no_history {
        true => None,
        false => load_history(&mut state, environment),
    };
    let mut terminal = ratatui::try_init()?;
    let (done, history) = signals.while_calling(|| {
        let mut screen = Screen {
            terminal: &mut terminal,
            state,
            asker: &asker,
            root: &root,
            environment,
            signals: &signals,
            input: Some(TerminalInput::start()),
        };
        let done = screen.run(&|| signals.status().is_some());
        (done, screen.state.history)
    });
    ratatui::restore();
    drop(asker);
    tree.shut_down();
    if tree.has_started() {
        complain(&format!(
            "a daemon was started and keeps running; `ggrep stop --root {}` ends it",
            root.display()
        ));
    }
    if let Some(Err(error)) = kept.map(|dir| history.save(&dir)) {
        complain(&format!(
            "the pattern was not kept for later: {error}; --no-history keeps none"
        ));
    }
    done?;
    match signals.status() {
        Some(status) => Err(Failure::Signal(status)),
        None => Ok(0),
    }
}

/// Reads the history into the state, and returns its directory. Returns `None` if no history can be
/// kept.
fn load_history(state: &mut State, environment: &Environment) -> Option<PathBuf> {
    let dir = environment.sockets.state_dir()?.join("tui");
    match History::load(&dir) {
        Ok(history) => state.history = history,
        Err(error) => {
            state.complain(format!("no history of patterns: {error}"));
            return None;
        }
    }
    Some(dir)
}

/// Input from the terminal beyond keys: pasted text as such, and the mouse. Ends on drop.
struct TerminalInput;

impl TerminalInput {
    fn start() -> TerminalInput {
        // Without bracketed paste, pasted text arrives as keys.
        let _ = execute!(io::stdout(), EnableBracketedPaste, EnableMouseCapture);
        TerminalInput
    }
}

impl Drop for TerminalInput {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), DisableMouseCapture, DisableBracketedPaste);
    }
}

/// The terminal, with everything that the event loop needs.
struct Screen<'a> {
    terminal: &'a mut DefaultTerminal,
    state: State,
    asker: &'a BackgroundThreads,
    root: &'a Path,
    environment: &'a Environment,
    signals: &'a Signals,
    /// Absent while the editor has the terminal.
    input: Option<TerminalInput>,
}

impl Screen<'_> {
    /// Runs the event loop until the user quits or `is_over` returns true.
    fn run(&mut self, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let clock = SystemClock;
        let began = clock.now();
        let mut looked = None;
        let mut dirty = true;
        self.run_action(Action::Ask)?;
        while !is_over() {
            let now = clock.now();
            if looked.is_none_or(|at| now.saturating_duration_since(at) >= LOOK) {
                looked = Some(now);
                self.asker.look();
            }
            for told in self.asker.messages() {
                dirty = true;
                let action = self.state.handle_message(told);
                self.run_action(action)?;
            }
            if dirty {
                let state = &mut self.state;
                self.terminal.draw(|frame| view::draw(frame, state))?;
                dirty = false;
            }
            if !event::poll(TICK)? {
                continue;
            }
            for _ in 0..AT_ONCE {
                let event = event::read()?;
                dirty |= !is_move(&event);
                let action = match event {
                    Event::Key(key) if key.kind != KeyEventKind::Release => self.state.key(key),
                    Event::Paste(text) => self.state.paste(&text),
                    Event::Mouse(mouse) => {
                        let at = clock.now().saturating_duration_since(began);
                        self.state.mouse(mouse, at)
                    }
                    _ => Action::Nothing,
                };
                if action == Action::Quit {
                    return Ok(());
                }
                self.run_action(action)?;
                if !event::poll(Duration::ZERO)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn run_action(&mut self, action: Action) -> io::Result<()> {
        match action {
            Action::Nothing | Action::Quit => {}
            Action::Ask => self.asker.ask(self.state.begin()),
            Action::Show(place) => self.asker.show(place),
            Action::Edit(places) => self.edit(&places)?,
        }
        Ok(())
    }

    /// Lends the terminal to an editor until the editor exits.
    fn edit(&mut self, places: &[Place]) -> io::Result<()> {
        let roots = Roots::new(self.root, &[]);
        let mut files = Vec::new();
        for Place { path, line } in places {
            match roots.find(path) {
                Ok((path, _)) => files.push((self.root.join(path), *line)),
                Err(error) => {
                    self.state.complain(format!("{path}: {error}"));
                    return Ok(());
                }
            }
        }
        self.input = None;
        ratatui::restore();
        let editor = self.environment.editor.as_deref();
        let ran = self
            .signals
            .without_interrupts(|| editor::open(editor, &files));
        *self.terminal = ratatui::try_init()?;
        self.input = Some(TerminalInput::start());
        if let Err(why) = ran? {
            self.state.complain(why);
        }
        // The edited file may not match any more.
        self.run_action(Action::Ask)
    }
}

/// Returns true for a movement of the mouse, which changes nothing.
fn is_move(event: &Event) -> bool {
    use MouseEventKind::{Drag, Moved};
    matches!(
        event,
        Event::Mouse(MouseEvent {
            kind: Moved | Drag(_),
            ..
        })
    )
}
