//! `forge-search call`: reads JSON requests, and prints JSON responses.
//!
//! This module answers one request, or one request per line of standard input. The daemon of the
//! tree answers a single request if it is running; otherwise this process does.

use std::io::{self, BufRead, Read, Write};
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::tool::arguments::json;
#[cfg(unix)]
use crate::tool::cli::answers::backend::Backend;
use crate::tool::cli::answers::building;
#[cfg(unix)]
use crate::tool::cli::answers::daemon::canonical;
use crate::tool::cli::args::CallArgs;
use crate::tool::cli::setup::signals::Signals;
use crate::tool::cli::setup::{Environment, Setup, prepare};
use crate::tool::cli::{FAILED, Failure};
#[cfg(unix)]
use crate::tool::config::DaemonUse;
#[cfg(unix)]
use crate::tool::daemon::find_code::FindCodeTool;
#[cfg(unix)]
use crate::tool::daemon::request::ToolCall;
use crate::tool::error::ToolError;
use crate::tool::find_files::FindFilesTool;
#[cfg(unix)]
use crate::tool::search::ToolContext;
#[cfg(unix)]
use crate::tool::tools::{Sealed, ToolAnswer};
use crate::tool::tools::{Tool, ToolName};

/// Maximum bytes of a request. Longer ones are rejected before they are parsed.
const REQUEST_LIMIT: u64 = 16 << 20;

/// Answers one request, or each line of standard input.
pub(in crate::tool::cli) fn run(args: &CallArgs, environment: &Environment) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    let name = match ToolName::of(&args.tool.tool) {
        Ok(name) => name,
        Err(error) => return refused(&error, &mut out),
    };
    if !args.jsonl && !args.wait_index {
        return answer_one(name, args, environment, &mut out);
    }
    let (mut setup, tool) = match set_up(name, args, environment) {
        Ok(prepared) => prepared,
        Err(error) => return refused(&error, &mut out),
    };
    if args.wait_index
        && let Err(error) = building::wait(&setup, environment)
    {
        writeln!(out, "{}", error.to_json())?;
        return Ok(setup.signals.status().unwrap_or(FAILED));
    }
    if args.jsonl {
        // The process runs for long, so live indexes pay off.
        if name != ToolName::FindCode {
            building::live(&setup, args.wait_index);
        }
        let answered = answer_lines(&mut setup, &*tool, environment, &mut out);
        if let Some(indexes) = setup.indexes() {
            indexes.shut_down();
        }
        answered?;
        return Ok(setup.signals.status().unwrap_or(0));
    }
    let text = request_of(args);
    let request = text.and_then(|text| json(name, &text));
    let answer = request
        .map_err(|error| as_json(&error))
        .and_then(|request| answer(&setup, &*tool, &request));
    finish(answer, setup.signals.status(), &mut out)
}

/// Answers one request: by the daemon of the tree if it is running, else in this process.
fn answer_one(
    name: ToolName,
    args: &CallArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<u8, Failure> {
    // Take over signals first, so that they also end a wait for input.
    let request = Signals::take_over()
        .and_then(|_| request_of(args))
        .and_then(|text| json(name, &text));
    let request = match request {
        Ok(request) => request,
        Err(error) => return refused(&error, out),
    };
    #[cfg(unix)]
    if let Some(answer) = by_daemon(name, &request, args, environment) {
        let failed = answer.starts_with(b"{\"error\"");
        out.write_all(&answer)?;
        writeln!(out)?;
        return Ok(if failed { FAILED } else { 0 });
    }
    let (setup, tool) = match set_up(name, args, environment) {
        Ok(prepared) => prepared,
        Err(error) => return refused(&error, out),
    };
    let answer = answer(&setup, &*tool, &request);
    finish(answer, setup.signals.status(), out)
}

/// Returns the answer of the tree's daemon, or `None` if this process has to answer.
#[cfg(unix)]
fn by_daemon(
    tool: ToolName,
    request: &Value,
    args: &CallArgs,
    environment: &Environment,
) -> Option<Vec<u8>> {
    // On errors return `None`: this process then reports them.
    let Value::Object(request) = request else {
        return None;
    };
    let named = args.setup.root.as_deref().unwrap_or(Path::new("."));
    let root = canonical(named, environment).ok()?;
    let setup = args
        .setup()
        .with_absolute_paths(Some(&root), environment)
        .ok()?;
    let call = ToolCall {
        tool: tool.name().to_string(),
        request: request.clone(),
        max_output_bytes: args.max_output_bytes,
        whole: true,
        ..ToolCall::default()
    };
    let backend = Backend::new(root, setup, environment, None);
    backend.called_by_daemon(&call).ok()?
}

/// Sets up the tool that answers in this process.
fn set_up(
    name: ToolName,
    args: &CallArgs,
    environment: &Environment,
) -> Result<(Setup, Arc<dyn Tool>), ToolError> {
    let mut setup = prepare(&args.setup(), environment, &[])?;
    if name == ToolName::SearchFiles {
        setup = setup.for_files(environment);
    }
    setup.context.max_output_bytes = args.max_output_bytes;
    let tool: Arc<dyn Tool> = match (name, &setup.files) {
        (ToolName::FindCode, _) => ranked(args, environment)?,
        (ToolName::FindFiles, _) => Arc::new(FindFilesTool::new(setup.tool.clone())),
        (_, Some(files)) => files.clone(),
        (_, None) => setup.tool.clone(),
    };
    Ok((setup, tool))
}

fn refused(error: &ToolError, out: &mut dyn Write) -> Result<u8, Failure> {
    writeln!(out, "{}", error.to_json())?;
    Ok(FAILED)
}

fn as_json(error: &ToolError) -> String {
    error.to_json().to_string()
}

/// Prints an answer or an error, both in JSON, and returns the exit status.
fn finish(
    answer: Result<String, String>,
    signal: Option<u8>,
    out: &mut dyn Write,
) -> Result<u8, Failure> {
    let failed = answer.is_err();
    let text = answer.unwrap_or_else(|error| error);
    writeln!(out, "{text}")?;
    Ok(match signal {
        Some(status) if failed => status,
        _ if failed => FAILED,
        _ => 0,
    })
}

fn request_of(args: &CallArgs) -> Result<String, ToolError> {
    match &args.request {
        Some(text) => Ok(text.clone()),
        None => read_request(&mut io::stdin().lock()),
    }
}

/// Reads a request from standard input, up to its end.
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

/// Answers each line with one line, in order, until the input ends or a signal arrives.
fn answer_lines(
    setup: &mut Setup,
    tool: &dyn Tool,
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
        // The global ignore file may have changed since the last request. Indexes built with the
        // old one are then not used.
        setup.context.global_excludes = environment.excludes_at(&setup.root);
        let answer = into_text(std::mem::take(&mut line))
            .and_then(|text| json(tool.id(), &text))
            .map_err(|error| as_json(&error))
            .and_then(|request| answer(setup, tool, &request))
            .unwrap_or_else(|error| error);
        writeln!(out, "{answer}")?;
        out.flush()?;
        if setup.context.cancel.is_cancelled() {
            return Ok(());
        }
    }
}

/// Skips the rest of a line that is too long.
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

/// Answers a request. Errors are in JSON.
fn answer(setup: &Setup, tool: &dyn Tool, request: &Value) -> Result<String, String> {
    let call = || tool.call_json(request.clone(), &setup.context);
    match setup.signals.while_calling(call) {
        Ok(answer) => Ok(answer.json),
        Err(error) => Err(as_json(&error)),
    }
}

/// Returns the tool `find_code`, which needs a service of this process.
#[cfg(unix)]
fn ranked(args: &CallArgs, environment: &Environment) -> Result<Arc<dyn Tool>, ToolError> {
    let named = args.setup.root.as_deref().unwrap_or(Path::new("."));
    let root = canonical(named, environment)?;
    let setup = args.setup().with_absolute_paths(Some(&root), environment)?;
    // A daemon was asked before, or must not be asked.
    let backend = Backend::new(root, setup, environment, Some(DaemonUse::Off));
    let backend = Arc::new(backend);
    let (of_tool, is_once) = (backend.clone(), !args.jsonl);
    let tool = FindCodeTool::new(move || match is_once {
        // A service for one call watches nothing.
        true => of_tool.once(),
        false => of_tool.service(),
    });
    Ok(Arc::new(Ranked { tool, backend }))
}

/// The tool `find_code`, and the backend that owns its service.
#[cfg(unix)]
struct Ranked {
    tool: FindCodeTool,
    backend: Arc<Backend>,
}

#[cfg(unix)]
impl std::fmt::Debug for Ranked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ranked").field(&self.tool).finish()
    }
}

#[cfg(unix)]
impl Sealed for Ranked {}

#[cfg(unix)]
impl Tool for Ranked {
    fn id(&self) -> ToolName {
        self.tool.id()
    }

    fn call_json(&self, arguments: Value, context: &ToolContext) -> Result<ToolAnswer, ToolError> {
        self.tool.call_json(arguments, context)
    }
}

#[cfg(unix)]
impl Drop for Ranked {
    fn drop(&mut self) {
        self.backend.shut_down();
    }
}

/// Refuses the tool `find_code`: it needs a service, which this system does not have.
#[cfg(not(unix))]
fn ranked(_: &CallArgs, _: &Environment) -> Result<Arc<dyn Tool>, ToolError> {
    Err(ToolError::failed(
        ToolName::FindCode.name(),
        "ranked questions need a Unix system",
    ))
}
