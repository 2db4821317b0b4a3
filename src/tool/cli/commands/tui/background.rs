//! The background threads of the interactive search.
//!
//! Three threads run searches, read previews and look up the index status. Each handles only the
//! latest request. A new search cancels the running one, so at most one search counts at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{from_value, json};

use crate::exec::rank::head_of;
use crate::exec::stop::Clock;
use crate::format::mutex::lock;
use crate::tool::answering::AS_TEXT;
use crate::tool::cli::answers::backend::Backend;
use crate::tool::cli::commands::tui::answer_files::{Roots, text};
use crate::tool::daemon::request::ToolCall;
use crate::tool::daemon::tree_backend::{CallCancel, TreeBackend};
use crate::tool::error::ToolError;
use crate::tool::find_code::{FIND_CODE_NAME, FindCodeResponse};
use crate::tool::notes::{Note, Reader};
use crate::tool::request::SearchRequest;
use crate::tool::response::{Record, SearchResponse};

/// Maximum places of the answer to a ranked question.
const MAX_PLACES: u64 = 50;

/// Lines of a preview before, and after, the chosen line.
const AROUND: u64 = 200;

/// Maximum bytes of a preview line; the rest would not fit on any screen.
const LONGEST_LINE: u64 = 4_000;

/// Maximum bytes to read for a preview. A line beyond them has no preview.
const FURTHEST: u64 = 64 << 20;

/// A numbered question to the search thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberedQuestion {
    /// The number of the question.
    pub(super) number: u64,
    /// The search request; absent if the pattern is empty.
    pub(super) request: Option<SearchRequest>,
    /// Whether its pattern is a question in words.
    pub(super) is_ranked: bool,
}

/// A line of a file in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The path of the file, relative to the root.
    pub(super) path: String,
    /// The 1-based number of the line.
    pub(super) line: u64,
}

impl Place {
    /// Returns the place of a line.
    pub(super) fn of(record: &Record) -> Place {
        Place {
            path: record.data.path.text.clone(),
            line: record.data.line_number,
        }
    }
}

/// The response to a question.
#[derive(Debug)]
pub(super) struct Found {
    /// The lines. A place of a ranked answer is its head line.
    pub(super) response: SearchResponse,
    /// The first note about the response, in words.
    pub(super) note: Option<String>,
}

/// A message from the background threads.
#[derive(Debug)]
pub(super) enum BackgroundMessage {
    /// The answer to a question.
    Answer {
        /// The number of the question.
        number: u64,
        /// The response, or an error message.
        answer: Result<Box<Found>, String>,
        /// The duration of the search.
        took: Duration,
    },
    /// The lines around a place, for the preview.
    Lines {
        /// The place that was requested.
        place: Place,
        /// The 1-based number of the first line.
        first: u64,
        /// The lines, or an error message.
        lines: Result<Vec<String>, String>,
    },
    /// The status of the index, in words.
    Index(String),
}

/// The handle of the background threads.
pub(super) struct BackgroundThreads {
    questions: Sender<(NumberedQuestion, Arc<CallCancel>)>,
    places: Sender<Place>,
    looks: Sender<()>,
    messages: Receiver<BackgroundMessage>,
    /// Cancels the last question.
    current: Mutex<Arc<CallCancel>>,
}

impl BackgroundThreads {
    /// Starts the threads. They end once the handle is dropped and their current work is done.
    ///
    /// # Errors
    ///
    /// The system refuses to create more threads.
    pub(super) fn start(
        tree: Arc<Backend>,
        roots: Roots,
        clock: Arc<dyn Clock>,
    ) -> io::Result<BackgroundThreads> {
        let (tell, messages) = channel();
        let asking = tree.clone();
        let ask = move |(asked, call_cancel): (NumberedQuestion, Arc<CallCancel>)| {
            let request = asked.request.filter(|_| !call_cancel.is_cancelled())?;
            let began = clock.now();
            let answer = match asked.is_ranked {
                true => ranked_answer(&*asking, &request, &call_cancel),
                false => answer(&*asking, &request, &call_cancel),
            };
            let told = BackgroundMessage::Answer {
                number: asked.number,
                answer,
                took: clock.now().saturating_duration_since(began),
            };
            (!call_cancel.is_cancelled()).then_some(told)
        };
        let show = move |place: Place| {
            let first = place.line.saturating_sub(AROUND).max(1);
            let lines = roots
                .find(&place.path)
                .and_then(|(_, file)| lines(file, first, place.line, place.line + AROUND))
                .map_err(|error| format!("{}: {error}", place.path));
            Some(BackgroundMessage::Lines {
                place,
                first,
                lines,
            })
        };
        let look = move |()| Some(BackgroundMessage::Index(index(&*tree)));
        let questions = spawn("forge-search-ask", &tell, ask)?;
        let places = spawn("forge-search-show", &tell, show)?;
        let looks = spawn("forge-search-look", &tell, look)?;
        Ok(BackgroundThreads {
            questions,
            places,
            looks,
            messages,
            current: Mutex::default(),
        })
    }

    /// Sends a question, and cancels the previous one.
    pub(super) fn ask(&self, asked: NumberedQuestion) {
        let call_cancel = Arc::new(CallCancel::default());
        self.replace(call_cancel.clone());
        // Sending fails only if the thread has panicked, which it has reported.
        let _ = self.questions.send((asked, call_cancel));
    }

    /// Requests the lines around a place.
    pub(super) fn show(&self, place: Place) {
        let _ = self.places.send(place);
    }

    /// Requests the status of the index.
    pub(super) fn look(&self) {
        let _ = self.looks.send(());
    }

    /// Returns the messages that have arrived since the last call.
    pub(super) fn messages(&self) -> impl Iterator<Item = BackgroundMessage> {
        self.messages.try_iter()
    }

    /// Cancels the last question, and stores the cancel handle of the next one.
    fn replace(&self, by: Arc<CallCancel>) {
        let mut current = lock(&self.current);
        std::mem::replace(&mut *current, by).cancel();
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        self.replace(Arc::default());
    }
}

/// Starts a thread that handles the latest request and sends the result. Returns the sender for
/// requests.
fn spawn<T: Send + 'static>(
    name: &str,
    tell: &Sender<BackgroundMessage>,
    mut work: impl FnMut(T) -> Option<BackgroundMessage> + Send + 'static,
) -> io::Result<Sender<T>> {
    let (sender, wanted) = channel();
    let tell = tell.clone();
    thread::Builder::new()
        .name(name.to_string())
        .spawn(move || {
            while let Some(one) = last_of(&wanted) {
                // The receiver is gone, so the thread can end.
                if work(one).is_some_and(|told| tell.send(told).is_err()) {
                    break;
                }
            }
        })?;
    Ok(sender)
}

/// Waits for a request and returns the latest one. Returns `None` once all senders are gone.
fn last_of<T>(all: &Receiver<T>) -> Option<T> {
    let first = all.recv().ok()?;
    Some(all.try_iter().last().unwrap_or(first))
}

fn answer(
    tree: &dyn TreeBackend,
    request: &SearchRequest,
    call_cancel: &CallCancel,
) -> Result<Box<Found>, String> {
    let call = ToolCall {
        person: true,
        ..ToolCall::search(request)
    };
    let answer = tree.call(&call, call_cancel);
    if let Some(message) = answer["error"]["message"].as_str() {
        // The message suggests a request field; a person presses a key instead.
        return Err(message.replace(&format!("; {AS_TEXT} "), "; F2 "));
    }
    let response: SearchResponse = from_value(answer).map_err(unread)?;
    let note = note_of(&response);
    Ok(Box::new(Found { response, note }))
}

/// Returns the first note below the lines of a response, unless the response has fields that say
/// the same.
fn note_of(response: &SearchResponse) -> Option<String> {
    if response.truncated || response.timed_out || !response.errors.is_empty() {
        return None;
    }
    let mut notes = response.content.lines().skip(response.matches.len());
    let note = notes.find_map(|line| line.strip_prefix('[')?.strip_suffix(']'))?;
    Some(note.to_string())
}

fn unread(error: serde_json::Error) -> String {
    format!("the answer can't be read: {error}")
}

/// Returns the places of a ranked question, each as its head line.
fn ranked_answer(
    tree: &dyn TreeBackend,
    request: &SearchRequest,
    call_cancel: &CallCancel,
) -> Result<Box<Found>, String> {
    let mut question = json!({"question": request.pattern, "max_results": MAX_PLACES});
    if let Some(path) = &request.path {
        question["path"] = json!(path);
    }
    let call = ToolCall {
        tool: FIND_CODE_NAME.to_string(),
        request: question.as_object().cloned().unwrap_or_default(),
        person: true,
        ..ToolCall::default()
    };
    let answer = tree.call(&call, call_cancel);
    if let Some(message) = answer["error"]["message"].as_str() {
        return Err(message.to_string());
    }
    let found: FindCodeResponse = from_value(answer).map_err(unread)?;
    let matches = found.places.iter().map(|place| {
        let head = head_of(&place.content, &place.path);
        let line = place.content.lines().nth(head).unwrap_or_default();
        let data = json!({
            "path": {"text": place.path}, "line_number": place.start_line + head as u64,
            "lines": {"text": line},
        });
        json!({"type": "match", "data": data})
    });
    let shown = json!({
        "pattern": request.pattern, "path": "", "count": found.returned,
        "matches": matches.collect::<Vec<_>>(), "truncated": found.truncated,
        "timed_out": found.timed_out, "files_scanned": 0, "errors": [], "content": "",
    });
    Ok(Box::new(Found {
        response: from_value(shown).map_err(unread)?,
        note: found.notes.into_iter().next().map(in_terms_of_keys),
    }))
}

/// Returns a note of a ranked answer with the keys of this search in place of request fields.
fn in_terms_of_keys(note: String) -> String {
    match note == Note::BestPlaces(MAX_PLACES).text(Reader::Program) {
        true => format!(
            "the best {MAX_PLACES} places are shown; more match. Ask more precisely, or name a \
             directory in the filter (Tab)"
        ),
        false => note,
    }
}

/// Returns the status of the index in a few words.
fn index(tree: &dyn TreeBackend) -> String {
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

/// Reads lines `first` to `last` of a file, decoded as in the search. All lines are shortened to
/// [`LONGEST_LINE`], except line `whole`. Skipped lines cost time but no memory, up to [`FURTHEST`]
/// bytes.
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
        // The preview opens no links and no files outside of the tree.
        std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("\u{fffd}")).unwrap();
        for path in ["none", "link", "\u{fffd}", "../x"] {
            assert!(Roots::new(&root, &[]).find(path).is_err(), "{path}");
        }
    }

    /// A backend with one answer. It checks the path of the request.
    struct Answers(serde_json::Value);

    impl TreeBackend for Answers {
        fn call(&self, call: &ToolCall, _: &CallCancel) -> serde_json::Value {
            assert_eq!(call.request["path"], "src/");
            self.0.clone()
        }

        fn status(&self) -> Result<serde_json::Value, ToolError> {
            Ok(self.0.clone())
        }

        fn health(&self) -> Result<serde_json::Value, ToolError> {
            Ok(self.0.clone())
        }

        fn explain(&self, _: &SearchRequest) -> Result<serde_json::Value, ToolError> {
            Ok(self.0.clone())
        }

        fn building(&self) -> Option<crate::exec::indexes::BuildReport> {
            None
        }
    }

    #[test]
    fn tui_the_first_note_of_an_answer_is_kept() {
        let request = SearchRequest {
            path: Some("src/".to_string()),
            ..SearchRequest::new("x")
        };
        let cancel = CallCancel::default();
        let place = json!({"path": "[a]", "start_line": 3, "end_line": 3, "kind": "content",
            "match_pct": 100, "content": "x\n"});
        let mut ranked = json!({"places": [place], "returned": 1, "truncated": true,
            "timed_out": false, "notes": ["more match", "other"]});
        let found = ranked_answer(&Answers(ranked.clone()), &request, &cancel).unwrap();
        assert_eq!(found.note.as_deref(), Some("more match"));
        // Keys take the place of request fields.
        ranked["notes"] = json!([Note::BestPlaces(MAX_PLACES).text(Reader::Program)]);
        let limited = ranked_answer(&Answers(ranked), &request, &cancel).unwrap();
        let note = limited.note.unwrap();
        assert!(
            note.contains("(Tab)") && !note.contains("max_results"),
            "{note}"
        );
        assert_eq!(Place::of(&found.response.matches[0]).line, 3);
        let data = json!({"path": {"text": "[a]"}, "line_number": 1, "lines": {"text": "x]"}});
        let mut lines = json!({"pattern": "x", "path": "/t", "count": 1, "truncated": false,
            "matches": [{"type": "match", "data": data}], "timed_out": false, "files_scanned": 1,
            "errors": [], "content": "[a]:1:1:x]\n[a note]\n[other]\n"});
        let found = answer(&Answers(lines.clone()), &request, &cancel).unwrap();
        assert_eq!(found.note.as_deref(), Some("a note"));
        // The status line has words of its own for these fields.
        lines["truncated"] = json!(true);
        let found = answer(&Answers(lines), &request, &cancel).unwrap();
        assert_eq!(found.note, None);
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
