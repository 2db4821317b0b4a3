//! A person's search (`forge-search PATTERN`) that a daemon answers: its messages, and the daemon's
//! side.
//!
//! This module owns the messages. In the daemon, it runs the search and sends the parts. The
//! program's side is in `cli::answers::person_search`.
//!
//! A search travels as a call of a tool named [`NAME`], with all parts of a [`Question`]. The
//! daemon answers with several messages: [`Message::Parts`] and others while it searches, then
//! [`Message::End`]. So the program prints the same bytes as by its own search, and begins before
//! the search has ended.
//!
//! The format is private: a program asks only daemons of its own version. Another build of this
//! version may have other fields. A message with an unknown or missing field is refused, and the
//! program searches itself.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(any(feature = "cli", test))]
use super::request::ToolCall;
use super::service::payload;
use crate::exec::answer::collect::{Found, error_footprint, file_footprint};
use crate::exec::answer::listed::ListedFiles;
use crate::exec::answer::outcome::Line;
use crate::exec::question::Question;
use crate::tool::answering::{Call, Summary};
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::search::{SearchTool, ToolContext};

/// The tool name of such a call. The number rises when a field gets another meaning, so that no
/// other build answers.
pub(crate) const NAME: &str = "question-3";

/// The bytes of parts that are sent together. The first part is sent at once.
const TOGETHER: usize = 64 << 10;

/// The bytes of listed paths that are sent together.
const LIST_TOGETHER: usize = 256 << 10;

/// A question and its time limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionCall {
    /// The question itself.
    pub(crate) question: Question,
    /// The time limit in milliseconds; the daemon's default if absent.
    pub(crate) timeout_ms: Option<u64>,
}

/// A message of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Message {
    /// Parts of the answer, in emission order. An empty list says that the search continues.
    Parts(Vec<Found>),
    /// The first lines of the next file, which has too many for one message.
    Lines(Vec<Line>),
    /// The last message.
    End {
        /// The end of the answer.
        summary: Box<Summary>,
        /// Whether the search ended early: it timed out, or the engine failed.
        is_broken_off: bool,
    },
}

/// Builds a message that says that the search continues.
pub(super) fn going_on() -> Vec<u8> {
    payload(&Message::Parts(Vec::new()))
}

/// Receives the messages of an answer except for the last one. `Break` ends the answer.
pub(crate) type Sender<'a> = dyn Fn(Vec<u8>) -> ControlFlow<()> + 'a;

impl QuestionCall {
    /// Builds the call.
    #[cfg(any(feature = "cli", test))]
    pub(crate) fn to_call(&self) -> ToolCall {
        let request = match serde_json::to_value(self) {
            Ok(Value::Object(request)) => request,
            // A struct of texts, numbers and lists of them always serializes to an object.
            _ => serde_json::Map::new(),
        };
        ToolCall {
            tool: NAME.to_string(),
            request,
            whole: true,
            ..ToolCall::default()
        }
    }

    /// Parses the request of a call.
    ///
    /// # Errors
    ///
    /// [`ToolError::BadArgs`].
    fn read(request: Value) -> Result<QuestionCall, ToolError> {
        let read: Result<QuestionCall, _> = serde_json::from_value(request);
        let call = read.map_err(|error| ToolError::bad_args(error.to_string()))?;
        let asked = &call.question;
        let levels = asked
            .looked_for
            .fuzzy
            .iter()
            .chain(&asked.fallback.attempts);
        match levels
            .filter_map(|one| one.level())
            .find(|level| !(1..=4).contains(level))
        {
            Some(level) => Err(ToolError::bad_args(format!(
                "fuzzy level {level}; 1 to 4 are allowed"
            ))),
            None => Ok(call),
        }
    }
}

/// Answers a call. Sends parts with `send`, in messages of at most `context.max_output_bytes`, and
/// returns the last message and whether the search ended early.
///
/// # Errors
///
/// The error of the search, or [`DenialReason::LimitsExceeded`] for a line that does not fit into
/// one message. The client can search without a daemon then.
pub(super) fn answer(
    tool: &SearchTool,
    request: Value,
    context: &ToolContext,
    send: &Sender<'_>,
) -> Result<(Vec<u8>, bool), ToolError> {
    let asked = QuestionCall::read(request)?;
    let call = Call {
        context,
        timeout: asked.timeout_ms.map(Duration::from_millis),
        maintenance: tool.config().index_maint_budget_fraction,
    };
    let mut parts = Parts {
        waiting: Vec::new(),
        bytes: 0,
        worth_sending: 0,
        most: context.max_output_bytes.unwrap_or(usize::MAX),
        is_too_large: false,
        send,
    };
    let summary = tool.answer(&asked.question, &call, &mut |found| parts.take(found))?;
    // A `Break` can be ignored here: the client has disconnected and does not read the end.
    let _ = parts.send();
    if parts.is_too_large {
        let message = "a line is too long for one message; search without a daemon";
        return Err(DenialReason::LimitsExceeded {
            message: message.to_string(),
        }
        .into());
    }
    let is_broken_off = summary.timed_out() || summary.run.failure.is_some();
    let end = Message::End {
        summary: Box::new(summary),
        is_broken_off,
    };
    Ok((payload(&end), is_broken_off))
}

/// Parts of an answer that wait to be sent.
struct Parts<'a> {
    waiting: Vec<Found>,
    /// Bytes of the waiting parts.
    bytes: usize,
    /// Bytes at which the parts are sent.
    worth_sending: usize,
    /// Bytes of the longest message.
    most: usize,
    /// A part did not fit into a message. It was not sent, nor anything after it.
    is_too_large: bool,
    send: &'a Sender<'a>,
}

impl Parts<'_> {
    fn take(&mut self, mut found: Found) -> ControlFlow<()> {
        match &mut found {
            Found::File(file) => self.send_long(&mut file.outcome.lines)?,
            Found::Listed(files) if files.footprint() > self.longest_list() => {
                return self.send_long_list(files);
            }
            Found::Listed(_) | Found::Error(_) => {}
        }
        self.bytes += match &found {
            Found::File(file) => file_footprint(&file.outcome, file.path.as_os_str().len()),
            Found::Listed(files) => files.footprint(),
            Found::Error(error) => error_footprint(error),
        };
        self.waiting.push(found);
        match self.bytes > self.worth_sending {
            true => self.send(),
            false => ControlFlow::Continue(()),
        }
    }

    /// Returns the bytes of the paths that are sent together.
    fn longest_list(&self) -> usize {
        LIST_TOGETHER.min(self.most / 8)
    }

    /// Sends a list in several messages.
    fn send_long_list(&mut self, files: &ListedFiles) -> ControlFlow<()> {
        self.send()?;
        for part in files.parts(self.longest_list()) {
            self.waiting.push(Found::Listed(part));
            self.send()?;
        }
        ControlFlow::Continue(())
    }

    /// Sends the first lines of a file separately while the rest is too long for a message.
    fn send_long(&mut self, lines: &mut Vec<Line>) -> ControlFlow<()> {
        let most = TOGETHER.min(self.most / 8);
        let mut bytes: usize = lines.iter().map(Line::footprint).sum();
        if bytes <= most {
            return ControlFlow::Continue(());
        }
        // Parts before the file are sent before its lines.
        self.send()?;
        let mut rest = std::mem::take(lines).into_iter().peekable();
        while bytes > most {
            let (mut first, mut together) = (Vec::new(), 0);
            while let Some(line) =
                rest.next_if(|line| first.is_empty() || together + line.footprint() <= most)
            {
                together += line.footprint();
                first.push(line);
            }
            bytes = bytes.saturating_sub(together);
            self.send_one(&Message::Lines(first))?;
        }
        lines.extend(rest);
        ControlFlow::Continue(())
    }

    /// Sends the waiting parts.
    fn send(&mut self) -> ControlFlow<()> {
        if self.waiting.is_empty() || self.is_too_large {
            return ControlFlow::Continue(());
        }
        self.bytes = 0;
        self.worth_sending = TOGETHER.min(self.most / 8);
        let waiting = std::mem::take(&mut self.waiting);
        self.send_one(&Message::Parts(waiting))
    }

    fn send_one(&mut self, message: &Message) -> ControlFlow<()> {
        let text = payload(message);
        if text.len() > self.most {
            self.is_too_large = true;
            return ControlFlow::Break(());
        }
        (self.send)(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exec::answer::outcome::{FileAnswer, FileOutcome, Line, LineKind, LineSpans};

    #[test]
    fn bytes_that_are_no_text_come_as_they_were() {
        for text in [&b"plain"[..], b"\xff\x00 needle", "\u{fc}".as_bytes(), b""] {
            let mut outcome = FileOutcome::nothing();
            outcome.lines.push(Line {
                kind: LineKind::Match,
                number: 7,
                text: text.into(),
                spans: LineSpans::new(),
                place: None,
            });
            let found = Found::File(FileAnswer {
                target: 0,
                path: "a".into(),
                outcome,
            });
            let sent = serde_json::to_string(&found).unwrap();
            assert_eq!(
                serde_json::from_str::<Found>(&sent).unwrap(),
                found,
                "{sent}"
            );
        }
    }

    #[test]
    fn what_no_program_asks_is_refused() {
        let asked = |level: u64| {
            json!({
                "timeout_ms": 9,
                "question": {
                    "looked_for": {
                        "patterns": ["x"], "fixed_strings": true, "word": false, "whole_line": false,
                        "case": "smart", "case_rule": "unicode", "fuzzy": {"Edits": level},
                    },
                    "files": {
                        "paths": [], "max_depth": null, "depth_cuts": false, "include": [], "exclude": [],
                        "globs": [], "types": [], "globs_from": "", "no_git_dirs": false,
                        "binary": "UntilNul",
                        "traversal": {"hidden": false, "follow": "Never", "rules": "All", "recursive": true},
                    },
                    "shown": {
                        "report": "lines", "spans": "every", "places": false, "before": 0, "after": 0,
                        "matching_context": true, "in_parts": false, "by_index": "RuledOut",
                    },
                    "limits": {
                        "max_results": u64::MAX, "max_matches_per_file": 1, "max_files": 1, "max_file_size": 1,
                    },
                    "fallback": {"attempts": [], "too_short": false},
                },
            })
        };
        let read = QuestionCall::read;
        let call = read(asked(4)).unwrap();
        assert_eq!(read(Value::Object(call.to_call().request)), Ok(call));
        for wrong in [
            asked(0),
            asked(5),
            asked(300),
            json!({"question": 1}),
            json!({}),
        ] {
            let shown = wrong.to_string();
            assert_eq!(read(wrong).unwrap_err().code(), "bad_args", "{shown}");
        }
    }

    /// Calls `check` with `message` in which a field is missing or new, for each object in it.
    fn changed(message: &Value, check: &mut dyn FnMut(Value)) {
        let Value::Object(fields) = message else {
            return;
        };
        let mut more = fields.clone();
        more.insert("of_another_build".to_string(), Value::Bool(true));
        check(Value::Object(more));
        for (name, value) in fields {
            let mut fewer = fields.clone();
            fewer.remove(name);
            if !value.is_null() {
                check(Value::Object(fewer));
            }
            changed(value, &mut |value| {
                let mut other = fields.clone();
                other.insert(name.clone(), value);
                check(Value::Object(other));
            });
        }
    }

    #[test]
    fn a_message_of_another_build_is_refused() {
        let traversal = crate::exec::question::TraversalOptions {
            hidden: false,
            follow: Default::default(),
            rules: crate::exec::question::IgnoreRules::All,
            recursive: true,
        };
        let call = QuestionCall {
            question: Question {
                looked_for: Default::default(),
                files: crate::exec::question::FileChoice::of(Vec::new(), traversal),
                shown: Default::default(),
                limits: crate::exec::question::QuestionLimits::NONE,
                fallback: Default::default(),
            },
            timeout_ms: Some(1),
        };
        let whole = Value::Object(call.to_call().request);
        assert_eq!(QuestionCall::read(whole.clone()), Ok(call));
        let mut refused = 0;
        changed(&whole, &mut |other| {
            let mut optional = other.clone();
            optional["timeout_ms"] = json!(1);
            if optional != whole {
                let shown = other.to_string();
                assert!(QuestionCall::read(other).is_err(), "{shown}");
                refused += 1;
            }
        });
        assert!(refused > 30, "{refused}");

        let end = Message::End {
            summary: Box::new(Summary::of_nothing()),
            is_broken_off: false,
        };
        let mut files = ListedFiles::default();
        files.push_sized("a".as_ref(), "b".as_ref(), 1);
        for message in [end, Message::Parts(vec![Found::Listed(files)])] {
            let whole = serde_json::to_value(&message).unwrap();
            let read = serde_json::from_value::<Message>;
            assert_eq!(read(whole.clone()).unwrap(), message);
            let places = match whole.get("end").is_some() {
                true => &["/end", "/end/summary", "/end/summary/run"][..],
                false => &["/parts/0/Listed"],
            };
            for place in places {
                let mut other = whole.clone();
                other.pointer_mut(place).unwrap()["of_another_build"] = json!(1);
                assert!(read(other.clone()).is_err(), "{other}");
            }
        }
    }
}
