//! `forge-search call`: JSON requests in, JSON responses out.

use std::io::{self, BufRead, Read, Write};

use serde_json::Value;

use super::args::CallArgs;
use super::setup::{Environment, Setup, prepare};
use super::{FAILED, Failure, Tool, building, tool_of};
use crate::tool::error::ToolError;

/// The longest request in bytes; a longer one is refused before it is parsed.
const REQUEST_LIMIT: u64 = 16 << 20;

/// Answers one request, or every line of standard input.
pub(super) fn run(args: &CallArgs, environment: &Environment) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let setup = tool_of(&args.tool).and_then(|tool| {
        let setup = prepare(&args.setup, environment, None)?;
        Ok(match tool {
            Tool::Search => setup,
            Tool::SearchFiles => setup.for_files(environment),
        })
    });
    let mut setup = match setup {
        Ok(setup) => setup,
        Err(error) => {
            writeln!(out, "{}", error.to_json())?;
            return Ok(FAILED);
        }
    };
    if args.wait_index
        && let Err(error) = building::wait(&setup, environment)
    {
        writeln!(out, "{}", error.to_json())?;
        return Ok(setup.signals.status().unwrap_or(FAILED));
    }
    setup.context.max_output_bytes = args.max_output_bytes;
    if args.jsonl {
        // The process stays, so the index is worth following the tree.
        building::live(&setup, args.wait_index);
        let answered = answer_lines(&mut setup, environment, &mut out);
        if let Some(indexes) = setup.indexes() {
            indexes.shut_down();
        }
        answered?;
        return Ok(setup.signals.status().unwrap_or(0));
    }
    let text = match &args.request {
        Some(text) => Ok(text.clone()),
        None => read_request(&mut io::stdin().lock()),
    };
    let answer = text.and_then(|text| answer(&setup, &text));
    let failed = answer.is_err();
    writeln!(
        out,
        "{}",
        answer.unwrap_or_else(|error| error.to_json().to_string())
    )?;
    Ok(match setup.signals.status() {
        Some(status) if failed => status,
        _ if failed => FAILED,
        _ => 0,
    })
}

/// Reads standard input to its end.
fn read_request(input: &mut dyn Read) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    input
        .take(REQUEST_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            ToolError::bad_args(format!(
                "the request can't be read from standard input: {error}"
            ))
        })?;
    into_text(bytes)
}

fn into_text(bytes: Vec<u8>) -> Result<String, ToolError> {
    if bytes.len() as u64 > REQUEST_LIMIT {
        return Err(ToolError::bad_args(format!(
            "the request is longer than {REQUEST_LIMIT} bytes; shorten its pattern or globs"
        )));
    }
    String::from_utf8(bytes)
        .map_err(|error| ToolError::bad_args(format!("the request is not valid UTF-8: {error}")))
}

/// Answers each line with one line, in order, until the input ends or the process is told to stop.
fn answer_lines(
    setup: &mut Setup,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input)
            .take(REQUEST_LIMIT + 2)
            .read_until(b'\n', &mut line);
        match read {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let message = format!("requests can't be read from standard input: {error}");
                return Err(ToolError::bad_args(message).into());
            }
        }
        let whole = line.last() == Some(&b'\n');
        if whole {
            line.pop();
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let too_long = line.len() as u64 > REQUEST_LIMIT;
        if too_long && !whole {
            skip_line(&mut input)?;
        }
        // Also what is ignored everywhere may have been edited. An index of what it was before is of no use then.
        setup.context.global_excludes = environment.excludes_now();
        let answer = into_text(std::mem::take(&mut line))
            .and_then(|text| answer(setup, &text))
            .unwrap_or_else(|error| error.to_json().to_string());
        writeln!(out, "{answer}")?;
        out.flush()?;
        if setup.context.cancel.is_cancelled() {
            return Ok(());
        }
    }
}

/// Passes over the rest of a line that is too long to be a request.
fn skip_line(input: &mut dyn BufRead) -> Result<(), Failure> {
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(());
        }
        let (used, ended) = match memchr::memchr(b'\n', available) {
            Some(at) => (at + 1, true),
            None => (available.len(), false),
        };
        input.consume(used);
        if ended {
            return Ok(());
        }
    }
}

fn answer(setup: &Setup, text: &str) -> Result<String, ToolError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ToolError::bad_args(format!("the request is not valid JSON: {error}")))?;
    setup.signals.while_calling(|| match &setup.files {
        Some(files) => Ok(files.call(value, &setup.context)?.to_json()),
        None => Ok(setup.tool.call(value, &setup.context)?.to_json()),
    })
}
