//! The threads that ask.
//!
//! Owns that one search runs at a time, the last one that was wanted: a later one gives up the earlier one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::from_value;

use super::super::again::{Roots, text};
use super::super::backend::Backend;
use crate::exec::stop::Clock;
use crate::tool::answering::AS_TEXT;
use crate::tool::daemon::request::ToolCall;
use crate::tool::daemon::tree::{GivenUp, Tree};
use crate::tool::error::ToolError;
use crate::tool::request::SearchRequest;
use crate::tool::response::SearchResponse;

/// Lines of a preview, before and after the one that it is about.
const AROUND: u64 = 200;

/// Bytes of a line that are shown; what is beyond is wider than any screen.
const LONGEST_LINE: u64 = 4_000;

/// Bytes that are read for a preview. One that stands behind has none.
const FURTHEST: u64 = 64 << 20;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Which of the questions it is.
    pub(super) number: u64,
    /// The question; nothing to ask for, if there is none.
    pub(super) request: Option<SearchRequest>,
}

/// A line of a file, below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file.
    pub(super) path: String,
    /// The 1-based number of the line.
    pub(super) line: u64,
}

/// What is heard.
#[derive(Debug)]
pub(super) enum Told {
    /// An answer.
    Answer {
        /// Which question's.
        number: u64,
        /// What it is, or what is wrong.
        answer: Result<Box<SearchResponse>, String>,
        /// How long it took.
        took: Duration,
    },
    /// Lines around a place.
    Lines {
        /// The place.
        place: Place,
        /// The number of the first.
        first: u64,
        /// The lines, or why there are none.
        lines: Result<Vec<String>, String>,
    },
    /// How the index is.
    Index(String),
}

/// What is asked of the threads.
pub(super) struct Asker {
    questions: Sender<(Asked, Arc<GivenUp>)>,
    places: Sender<Place>,
    looks: Sender<()>,
    told: Receiver<Told>,
    /// What ends the last question.
    current: Mutex<Arc<GivenUp>>,
}

impl Asker {
    /// Starts the threads. They end when this is dropped and what they do is done.
    ///
    /// # Errors
    ///
    /// There can be no more threads.
    pub(super) fn start(
        tree: Arc<Backend>,
        roots: Roots,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Asker> {
        let (tell, told) = channel();
        let asking = tree.clone();
        let ask = move |(asked, given_up): (Asked, Arc<GivenUp>)| {
            let request = asked.request.filter(|_| !given_up.is_given_up())?;
            let began = clock.now();
            let answer = answer(&*asking, &request, &given_up);
            let told = Told::Answer {
                number: asked.number,
                answer,
                took: clock.now().saturating_duration_since(began),
            };
            (!given_up.is_given_up()).then_some(told)
        };
        let show = move |place: Place| {
            let first = place.line.saturating_sub(AROUND).max(1);
            let lines = roots
                .find(&place.path)
                .and_then(|(_, file)| lines(file, first, place.line, place.line + AROUND))
                .map_err(|error| format!("{}: {error}", place.path));
            Some(Told::Lines {
                place,
                first,
                lines,
            })
        };
        let look = move |()| Some(Told::Index(index(&*tree)));
        let questions = spawn("forge-search-ask", &tell, ask)?;
        let places = spawn("forge-search-show", &tell, show)?;
        let looks = spawn("forge-search-look", &tell, look)?;
        Ok(Asker {
            questions,
            places,
            looks,
            told,
            current: Mutex::default(),
        })
    }

    /// Asks, and gives up what was asked before.
    pub(super) fn ask(&self, asked: Asked) {
        let given_up = Arc::new(GivenUp::default());
        self.replace(given_up.clone());
        // A thread that has panicked has said so.
        let _ = self.questions.send((asked, given_up));
    }

    /// Reads the lines around a place.
    pub(super) fn show(&self, place: Place) {
        let _ = self.places.send(place);
    }

    /// Looks how the index is.
    pub(super) fn look(&self) {
        let _ = self.looks.send(());
    }

    /// Returns what was heard since.
    pub(super) fn told(&self) -> impl Iterator<Item = Told> {
        self.told.try_iter()
    }

    /// Gives up the last question.
    fn replace(&self, by: Arc<GivenUp>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, by).give_up();
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.replace(Arc::default());
    }
}

/// Starts a thread that does what is wanted last, and tells what comes of it; returns what it is told by.
fn spawn<T: Send + 'static>(
    name: &str,
    tell: &Sender<Told>,
    mut work: impl FnMut(T) -> Option<Told> + Send + 'static,
) -> io::Result<Sender<T>> {
    let (sender, wanted) = channel();
    let tell = tell.clone();
    thread::Builder::new()
        .name(name.to_string())
        .spawn(move || {
            while let Some(one) = last_of(&wanted) {
                // Once nobody hears it, nobody wants anything more.
                if work(one).is_some_and(|told| tell.send(told).is_err()) {
                    break;
                }
            }
        })?;
    Ok(sender)
}

/// Waits for something to come, and takes the last that has; nothing once there is nobody who could send.
fn last_of<T>(all: &Receiver<T>) -> Option<T> {
    let first = all.recv().ok()?;
    Some(all.try_iter().last().unwrap_or(first))
}

fn answer(
    tree: &dyn Tree,
    request: &SearchRequest,
    given_up: &GivenUp,
) -> Result<Box<SearchResponse>, String> {
    let call = ToolCall {
        person: true,
        ..ToolCall::search(request)
    };
    let answer = tree.call(&call, given_up);
    match answer["error"]["message"].as_str() {
        // A person has keys, and no fields.
        Some(message) => Err(message.replace(&format!("; {AS_TEXT} "), "; F2 ")),
        None => from_value(answer).map_err(|error| format!("the answer can't be read: {error}")),
    }
}

/// Says in a few words how the index is.
fn index(tree: &dyn Tree) -> String {
    if let Some(build) = tree.building() {
        let percent = build.files_done * 100 / build.files_total.max(1);
        return format!("index: {percent} % built");
    }
    let status = tree
        .status()
        .unwrap_or_else(|error: ToolError| error.to_json());
    match (
        status["sync"]["state"].as_str(),
        status["error"]["message"].as_str(),
    ) {
        (Some("idle" | "syncing"), _) => "index: live".to_string(),
        (Some("off"), _) => "no index".to_string(),
        (Some(state), _) => format!("index: {state}"),
        (None, Some(message)) => message.to_string(),
        (None, None) => String::new(),
    }
}

/// Reads lines `first` to `last` of a file, decoded as where they were found, and of each what a screen can show; `whole` is one that is kept as it is. Takes
/// time and not memory for what stands before, up to [`FURTHEST`].
fn lines(file: File, first: u64, whole: u64, last: u64) -> io::Result<Vec<String>> {
    let mut reader = BufReader::new(text(file).take(FURTHEST));
    let mut lines = Vec::new();
    for number in 1..=last {
        if number < first {
            if reader.skip_until(b'\n')? == 0 {
                break;
            }
            continue;
        }
        let most = match number == whole {
            true => FURTHEST,
            false => LONGEST_LINE,
        };
        let mut line = Vec::new();
        let kept = (&mut reader).take(most).read_until(b'\n', &mut line)?;
        if kept == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        } else if kept as u64 == most {
            reader.skip_until(b'\n')?;
        }
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tui_previews_are_the_lines_around() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let long = "x".repeat(LONGEST_LINE as usize * 2);
        std::fs::write(&path, format!("one\ntwo\n{long}\nfour\nfive")).unwrap();
        let root = dir.path().canonicalize().unwrap();
        let lines = |first, whole, last| {
            let (_, file) = Roots::new(&root, &[]).find("a").unwrap();
            super::lines(file, first, whole, last).unwrap()
        };
        assert_eq!(lines(2, 2, 2), ["two"]);
        assert_eq!(lines(3, 3, 9), [long.as_str(), "four", "five"]);
        let shown = lines(3, 4, 9);
        assert_eq!(shown[0], long[..LONGEST_LINE as usize]);
        assert_eq!(shown[1..], ["four", "five"]);
        assert_eq!(lines(7, 7, 9), [""; 0]);
        std::fs::write(&path, "\u{feff}one\r\ntwo\r\n").unwrap();
        assert_eq!(lines(1, 1, 9), ["one", "two"]);
        std::fs::write(&path, b"\xff\xfea\0\n\0b\0\n\0").unwrap();
        assert_eq!(lines(2, 2, 9), ["b"]);
        // Nothing but what was found.
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("\u{fffd}")).unwrap();
        for path in ["none", "link", "\u{fffd}", "../x"] {
            assert!(Roots::new(&root, &[]).find(path).is_err(), "{path}");
        }
    }

    #[test]
    fn tui_of_what_was_sent_the_last_counts() {
        let (send, receive) = channel();
        for n in 0..5 {
            send.send(n).unwrap();
        }
        assert_eq!(last_of(&receive), Some(4));
        drop(send);
        assert_eq!(last_of(&receive), None);
    }
}
