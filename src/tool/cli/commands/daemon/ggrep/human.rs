//! Text output of `ggrep`.
//!
//! This module owns the escaping of names and file contents, so that no control sequence reaches a
//! terminal.

use std::io::{self, Write};

use serde_json::Value;

use crate::exec::rank::{Reason, Terms};
use crate::tool::cli::complain_as;
use crate::tool::cli::output::{MATCH, NUMBER, PATH, Style};
use crate::tool::daemon::reply::{Failure, Success};
use crate::tool::daemon::report::{Health, Severity};
use crate::tool::render::{escape_controls, escape_json};

/// Prints a JSON message on one line, escaped for terminals unless `raw`.
pub(super) fn print_json(message: &[u8], raw: bool, out: &mut dyn Write) -> io::Result<()> {
    let text = String::from_utf8_lossy(message);
    match raw {
        true => writeln!(out, "{text}"),
        false => writeln!(out, "{}", escape_json(&text)),
    }
}

/// Returns a function that escapes texts for terminals, or keeps them if `raw`.
pub(super) fn shown(raw: bool) -> impl Fn(&str) -> String {
    move |text| match raw {
        true => text.to_string(),
        false => escape_controls(text).into_owned(),
    }
}

/// Prints the result of a health check, one line per check.
pub(super) fn print_health(health: &Health, raw: bool, out: &mut dyn Write) -> io::Result<()> {
    let shown = shown(raw);
    for check in &health.checks {
        let severity = match check.severity {
            Severity::Ok => "ok",
            Severity::Warn => "WARN",
            Severity::Fail => "FAIL",
        };
        writeln!(
            out,
            "{severity:<5}{:<22}{}",
            shown(&check.code),
            shown(&check.message)
        )?;
    }
    Ok(())
}

/// Prints results. A heading line has the path, the lines, the match percentage and the reasons;
/// the numbered lines follow, in which the words of the `question` are coloured.
pub(super) fn print(
    success: &Success,
    question: Option<&str>,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = shown(style.raw);
    let question = question.filter(|_| style.color);
    let terms = question.and_then(|question| Terms::new(question).ok());
    for (nth, found) in success.results.iter().enumerate() {
        if nth > 0 && !found.content.is_empty() {
            writeln!(out)?;
        }
        let lines = match found.start_line == found.end_line {
            true => found.start_line.to_string(),
            false => format!("{}-{}", found.start_line, found.end_line),
        };
        // A daemon of an older release gives no reasons.
        let why = match found.why.is_empty() {
            true => String::new(),
            false => format!(", {}", Reason::joined(&found.why)),
        };
        style.painted(PATH, found.path.as_bytes(), out)?;
        writeln!(out, ":{lines} ({}%{why})", found.match_pct)?;
        for (number, line) in (found.start_line..).zip(found.content.lines()) {
            style.painted(NUMBER, format!("{number:>6}").as_bytes(), out)?;
            out.write_all(b"  ")?;
            print_line(line, terms.as_ref(), style, out)?;
        }
    }
    if let Some(explain) = &success.explain {
        if !success.results.is_empty() {
            writeln!(out)?;
        }
        let timings = success
            .timings_ms
            .and_then(|ms| serde_json::to_value(ms).ok());
        let explained = Value::Object(explain.clone());
        print_fields("explain", &explained, &shown, out)?;
        if let Some(timings) = timings {
            print_fields("timings_ms", &timings, &shown, out)?;
        }
    }
    Ok(())
}

/// Prints a line, with colours for the words that have a term of the question.
fn print_line(
    line: &str,
    terms: Option<&Terms>,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(terms) = terms else {
        style.text(line.as_bytes(), out)?;
        return writeln!(out);
    };
    let mut rest = line;
    while !rest.is_empty() {
        let is_word = rest.starts_with(char::is_alphanumeric);
        let end = rest.find(|c: char| c.is_alphanumeric() != is_word);
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        match is_word && terms.terms_in(part.as_bytes()) > 0 {
            true => style.painted(MATCH, part.as_bytes(), out)?,
            false => style.text(part.as_bytes(), out)?,
        }
        rest = after;
    }
    writeln!(out)
}

/// Prints names and values in two columns.
pub(super) fn print_rows(
    rows: &[(&'static str, String)],
    raw: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = shown(raw);
    for (name, value) in rows {
        writeln!(out, "{name:<9}{}", shown(value))?;
    }
    Ok(())
}

/// Prints a JSON value, one line per field. Nested names are joined with dots, as in `daemon.pid`.
pub(super) fn print_fields(
    name: &str,
    value: &Value,
    shown: &dyn Fn(&str) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = match name {
                    "" => field.clone(),
                    name => format!("{name}.{field}"),
                };
                print_fields(&name, value, shown, out)?;
            }
            Ok(())
        }
        Value::Array(all) if all.iter().any(|one| one.is_object() || one.is_array()) => {
            for (nth, value) in all.iter().enumerate() {
                print_fields(&format!("{name}.{nth}"), value, shown, out)?;
            }
            Ok(())
        }
        Value::Array(all) => {
            let words: Vec<String> = all.iter().map(|one| shown(&word(one))).collect();
            writeln!(out, "{name}: {}", words.join(" "))
        }
        value => writeln!(out, "{name}: {}", shown(&word(value))),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Prints the warnings and limits of an answer to standard error.
pub(super) fn remark(success: &Success) {
    for warning in &success.warnings {
        complain_as(
            "ggrep",
            &about(warning.path_key.as_deref(), &warning.message),
        );
    }
    for hit in &success.limits_hit {
        let seen = hit
            .observed
            .map_or(String::new(), |seen| format!(", of {seen}"));
        // Other limits are keys of the configuration.
        let limit = flag_of(&hit.code).unwrap_or(&hit.code);
        let message = format!("limited by {limit} ({}{seen})", hit.limit);
        complain_as("ggrep", &about(hit.path_key.as_deref(), &message));
    }
    if success.results.is_empty() {
        complain_as("ggrep", "nothing was found");
    }
}

/// Returns the flag, or the words, for a field of a ranked request and for a limit of its answer.
fn flag_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "query" => "the question",
        "related" => "--related",
        "limit" | "max_results" => "--limit",
        "per_file" => "--per-file",
        "mode" => "--mode",
        "snippet" => "--snippet",
        "budget" => "--budget",
        "timeout_ms" => "--timeout-ms",
        "client_id" => "--client-id",
        "max_query_terms" => "the limit of words per question",
        _ => return None,
    })
}

/// Replaces the field at the start of an error message by its flag. For example, `related: …`
/// becomes `--related: …`.
pub(super) fn in_flags(message: &str) -> String {
    let end = message.find([':', ' ']).unwrap_or_default();
    let (name, rest) = message.split_at(end);
    match flag_of(name) {
        Some(flag) => format!("{flag}{rest}"),
        // The argument has no flag, and the rest names it.
        None if name == "path" && rest.starts_with(": path ") => rest[2..].to_string(),
        None => message.to_string(),
    }
}

fn about(path: Option<&str>, message: &str) -> String {
    match path {
        // Escape the path, so that it stays on one line.
        Some(path) => format!("{}: {message}", escape_controls(path)),
        None => message.to_string(),
    }
}

/// Prints the reason why there is no answer to standard error.
pub(super) fn complain(failure: &Failure) {
    let error = &failure.error;
    let again = error.retry_after_ms.map_or(String::new(), |ms| match ms {
        0 => "; try again".to_string(),
        ms => format!("; try again in {ms} ms"),
    });
    complain_as("ggrep", &format!("{}{again}", error.message));
}
