//! The command line of `ggrep`: asks the daemon of a tree ranked questions.
//!
//! A *ranked question* is a question in words, such as `where are sockets retried`. Its answer is
//! the best places of the tree.
//!
//! This module owns the steps of a question and the exit statuses. A question finds the daemon,
//! starts it if necessary, asks it, and prints the answer. If no daemon can answer, this process
//! answers ([`by_this_process`]). The commands `status`, `health` and `stop` are in [`manage`].

mod args;
mod human;
mod manage;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, Parser};

pub(in crate::tool::cli) use self::args::{DaemonArgs, Ggrep, Other, StatusArgs};
use self::args::{QuestionArgs, WhichArgs};
use self::manage::{health, status, stop};
use super::serve;
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::cli::answers::backend::by_this_process;
use crate::tool::cli::answers::daemon::client::{Client, DaemonCallError, Rules};
use crate::tool::cli::answers::daemon::{DaemonEndpoint, canonical, root_of};
use crate::tool::cli::args::flag_hints::corrected;
use crate::tool::cli::args::{Cli, Command};
use crate::tool::cli::output::Style;
use crate::tool::cli::output::here::seen_from;
use crate::tool::cli::setup::signals::wait_for_children;
use crate::tool::cli::setup::{Environment, logging};
use crate::tool::cli::{Failure as CliFailure, complain_as, is_closed};
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::limits::Warning;
use crate::tool::daemon::related::{no_place, place_of};
use crate::tool::daemon::reply::{ErrorCode, Failure, Success};
use crate::tool::daemon::request::{Request, RequestBody};
use crate::tool::daemon::service::payload;
use crate::tool::daemon::socket::{Identity, is_taken};
use crate::tool::error::ToolError;

/// Extra time to wait for an answer, beyond the question's time limit.
const GRACE: Duration = Duration::from_secs(2);

/// How often to check whether a daemon has ended.
const NAP: Duration = Duration::from_millis(10);

/// Returns the arguments of the program, for its manual.
pub(in crate::tool::cli) fn command() -> clap::Command {
    Ggrep::command()
}

/// Runs the program and returns its exit status.
pub fn main() -> u8 {
    wait_for_children();
    // A daemon is started from the current executable, so this program must also run as a daemon.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "serve")
        && words.next().is_some_and(|word| word == "--background")
    {
        return background();
    }
    let parsed = Ggrep::try_parse();
    let cli = match parsed.map_err(|error| corrected(error, Ggrep::command())) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && asks_for_json() => {
            let said = error.render().to_string();
            let said = said.trim_start_matches("error: ").trim_end();
            let failure = Failure::new(ErrorCode::InvalidRequest, said);
            let told = human::print_json(&payload(&failure), false, &mut io::stdout());
            // Write errors are ignored: the exit status reports the failure.
            drop(told);
            return failure.error.code.exit_status();
        }
        Err(error) => {
            // Help and version are not errors.
            let unwritten = error.print().is_err_and(|error| !is_closed(&error));
            return u8::from(error.use_stderr() || unwritten);
        }
    };
    logging::start("ggrep", false);
    finish(cli)
}

/// Carries out the command, reports a failure, and returns the exit status.
pub(in crate::tool::cli) fn finish(cli: Ggrep) -> u8 {
    let json = match &cli.command {
        None => cli.question.json,
        Some(command) => command.is_json(),
    };
    conclude(json, run(cli))
}

/// Carries out a daemon command such as `status`, as [`finish`] does.
pub(in crate::tool::cli) fn finish_command(command: Other) -> u8 {
    let json = command.is_json();
    conclude(json, carry_out(command))
}

/// Reports a failure, and returns the exit status.
fn conclude(json: bool, done: Result<(), GgrepError>) -> u8 {
    match done {
        Ok(()) => 0,
        // The reader of the output has closed the pipe, such as `head`. That is not an error.
        Err(GgrepError::Output(error)) if is_closed(&error) => 0,
        Err(GgrepError::Output(error)) => {
            complain_as("ggrep", &format!("the output can't be written: {error}"));
            1
        }
        Err(GgrepError::Negative) => 1,
        Err(GgrepError::Failed(failure)) => {
            let told = match json {
                true => human::print_json(&payload(&failure), false, &mut io::stdout()),
                false => {
                    human::complain(&failure);
                    Ok(())
                }
            };
            // Write errors are ignored: the exit status reports the failure.
            drop(told);
            failure.error.code.exit_status()
        }
    }
}

/// Returns whether the arguments ask for JSON. Works on arguments that can't be parsed.
fn asks_for_json() -> bool {
    let options = std::env::args_os().skip(1).take_while(|word| word != "--");
    options.into_iter().any(|word| word == "--json")
}

/// Runs this program as a daemon.
fn background() -> u8 {
    let failed = |message: &str| {
        complain_as("ggrep", message);
        1
    };
    let args = match Cli::try_parse() {
        Ok(Cli {
            command: Some(Command::Serve(args)),
            ..
        }) => args,
        Ok(_) => return failed("this is no command"),
        Err(error) => return failed(&error.to_string()),
    };
    match serve::run(&args, &Environment::read()) {
        Ok(status) => status,
        Err(CliFailure::Tool(error)) => failed(&error.message()),
        Err(CliFailure::Output(error)) => failed(&error.to_string()),
        Err(CliFailure::Signal(status)) => status,
    }
}

/// The reason why the program did not succeed.
enum GgrepError {
    Failed(Failure),
    /// Nothing was found, or a check failed. The output says so.
    Negative,
    Output(io::Error),
}

impl From<io::Error> for GgrepError {
    fn from(error: io::Error) -> GgrepError {
        GgrepError::Output(error)
    }
}

impl From<ToolError> for GgrepError {
    fn from(error: ToolError) -> GgrepError {
        GgrepError::failed(ErrorCode::InvalidRequest, error.message())
    }
}

impl From<ClientError> for GgrepError {
    fn from(error: ClientError) -> GgrepError {
        match error {
            ClientError::Refused(failure) => GgrepError::Failed(failure),
            error => GgrepError::failed(error.code(), error.to_string()),
        }
    }
}

impl GgrepError {
    fn failed(code: ErrorCode, message: impl AsRef<str>) -> GgrepError {
        GgrepError::Failed(Failure::new(code, message))
    }

    /// Names fields of the request by their flags, in the message of a refused question.
    fn in_flags(self) -> GgrepError {
        match self {
            GgrepError::Failed(mut failure) if failure.error.code == ErrorCode::InvalidRequest => {
                failure.error.message = human::in_flags(&failure.error.message);
                GgrepError::Failed(failure)
            }
            other => other,
        }
    }
}

fn run(cli: Ggrep) -> Result<(), GgrepError> {
    match cli.command {
        None => ask(
            &cli.question,
            &Environment::read(),
            &mut io::stdout().lock(),
        )
        .map_err(GgrepError::in_flags),
        Some(command) => carry_out(command),
    }
}

fn carry_out(command: Other) -> Result<(), GgrepError> {
    let mut out = io::stdout().lock();
    match command {
        Other::Status(args) => status(&args, &Environment::read(), &mut out),
        Other::Health(args) => health(&args, &Environment::read(), &mut out),
        Other::Stop(args) => stop(&args, &Environment::read(), &mut out),
        Other::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Ggrep::command(), "ggrep", &mut script);
            Ok(out.write_all(&script)?)
        }
        Other::Man => Ok(clap_mangen::Man::new(Ggrep::command()).render(&mut out)?),
    }
}

fn ask(
    args: &QuestionArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), GgrepError> {
    refuse_late_command(args)?;
    // With a place the first argument is the path.
    let mut args = args.clone();
    if args.related.is_some() {
        if args.path.is_some() {
            let why = "--related takes the place of the question; leave out the question";
            return Err(GgrepError::failed(ErrorCode::InvalidRequest, why));
        }
        args.path = args.query.take().map(PathBuf::from);
    }
    let args = &args;
    let named = args.which.setup.root.as_deref();
    let root = root_of(named, args.path.as_deref(), environment)?;
    let socket = args.which.socket.as_deref();
    let endpoint = DaemonEndpoint::find(&root, &args.which.setup, socket, environment)?;
    let path = scope(args, &root, environment)?;
    let related = related(args, &root, environment)?;
    let request = Request {
        id: None,
        body: RequestBody::Search(args.query(path, related)),
    };
    // Check the question before a daemon is started for it.
    Request::parse(&payload(&request.to_value()))
        .map_err(|refused| GgrepError::failed(ErrorCode::InvalidRequest, refused.message))?;
    let until = Deadline::after(patience(&endpoint, args.timeout_ms), Arc::new(SystemClock));
    let (mut answer, mut success) = answered(&endpoint, &request, args, &until, environment)?;
    let is_stale = success
        .warnings
        .iter()
        .any(|warning| warning.code == "stale_config");
    if is_stale && !endpoint.named {
        // The configuration has changed since this process read it. Ask the daemon for the new one.
        let now = DaemonEndpoint::find(&root, &args.which.setup, socket, environment)?;
        if now.served != endpoint.served {
            (answer, success) = answered(&now, &request, args, &until, environment)?;
        } else if !args.no_start && replaced(&now, &until) {
            // The configuration changed and changed back, so the daemon is stale although its
            // fingerprint matches. Replace that daemon.
            (answer, success) = answered(&now, &request, args, &until, environment)?;
        }
    }
    if args.json {
        human::print_json(&answer, args.raw, out)?;
        return found(&success);
    }
    name_from_here(&mut success, &root, environment);
    let style = Style {
        color: args
            .color
            .applies(io::stdout().is_terminal() && !environment.plain),
        raw: args.raw,
        ..Style::default()
    };
    human::print(&success, args.query.as_deref(), &style, out)?;
    out.flush()?;
    human::remark(&success);
    found(&success)
}

/// Rewrites the paths of an answer so that they work from the shell's directory.
fn name_from_here(success: &mut Success, root: &Path, environment: &Environment) {
    let Ok(here) = canonical(Path::new("."), environment) else {
        return;
    };
    let results = success.results.iter_mut().map(|found| &mut found.path);
    let warned = success.warnings.iter_mut().map(|one| &mut one.path_key);
    let limited = success.limits_hit.iter_mut().map(|one| &mut one.path_key);
    for path in results.chain(warned.chain(limited).flatten()) {
        let seen = seen_from(&here, root, Path::new(&*path));
        *path = seen.to_string_lossy().into_owned();
    }
}

/// Fails if nothing was found, so that scripts see it in the exit status.
fn found(success: &Success) -> Result<(), GgrepError> {
    match success.results.is_empty() {
        true => Err(GgrepError::Negative),
        false => Ok(()),
    }
}

/// Shuts down a stale daemon, and returns whether it has ended.
fn replaced(endpoint: &DaemonEndpoint, until: &Deadline) -> bool {
    let caller = endpoint.caller(None, until.remaining());
    let request = Request {
        id: None,
        body: RequestBody::Shutdown,
    };
    let Ok(mut connection) = Connection::open(&endpoint.socket, &endpoint.served, caller) else {
        return true;
    };
    let before = Identity::of(&endpoint.socket);
    connection.ask(&request, until.remaining()).is_ok()
        && has_ended(endpoint, before, until.remaining())
}

/// Waits until the daemon with the socket `before` has ended. Returns false after `most`.
fn has_ended(endpoint: &DaemonEndpoint, before: Option<Identity>, most: Duration) -> bool {
    let mut waited = Duration::ZERO;
    // Another daemon may already have replaced it. Without a socket, it is still ending.
    let is_other = || Identity::of(&endpoint.socket).is_some_and(|now| Some(now) != before);
    while is_taken(&endpoint.socket) && !is_other() {
        if waited > most {
            return false;
        }
        std::thread::sleep(NAP);
        waited += NAP;
    }
    true
}

/// Returns the answer of the daemon. If no daemon can answer, returns the answer of this process,
/// with a warning.
fn answered(
    endpoint: &DaemonEndpoint,
    request: &Request,
    args: &QuestionArgs,
    until: &Deadline,
    environment: &Environment,
) -> Result<(Vec<u8>, Success), GgrepError> {
    let client = Client {
        daemon: endpoint,
        rules: Rules {
            client_id: args.client_id.as_deref(),
            starts: !args.no_start,
            greeting: Duration::MAX,
            first_message: Duration::MAX,
            waits_while_busy: false,
            same_release: false,
        },
        until,
        call_cancel: None,
    };
    let unanswered = match client.ask(request) {
        Ok(answering) => return read(&answering.first),
        Err(unanswered) => unanswered,
    };
    // A named socket means exactly that daemon, and `--no-start` means a running one.
    let is_allowed = args.fallback || !(args.no_start || endpoint.named);
    let Some(why) = absence(&unanswered).filter(|_| is_allowed) else {
        return Err(refused(unanswered, endpoint));
    };
    let RequestBody::Search(query) = &request.body else {
        return Err(refused(unanswered, endpoint));
    };
    let (_, mut success) = read(&by_this_process(endpoint, query, until, environment)?)?;
    success.warnings.push(Warning {
        code: "no_daemon".to_string(),
        message: format!("answered without a daemon: {why}"),
        path_key: None,
    });
    let in_order = |one: &Warning| (one.code.clone(), one.path_key.clone());
    success.warnings.sort_by_key(in_order);
    Ok((payload(&success), success))
}

/// Parses an answer.
fn read(answer: &[u8]) -> Result<(Vec<u8>, Success), GgrepError> {
    match serde_json::from_slice(answer) {
        Ok(success) => Ok((answer.to_vec(), success)),
        Err(error) => {
            let failure = serde_json::from_slice(answer).map_err(|_| {
                let message = format!("the daemon's answer can't be read: {error}");
                GgrepError::failed(ErrorCode::Internal, message)
            })?;
            Err(GgrepError::Failed(failure))
        }
    }
}

/// Returns a one-line reason why no daemon is available, or `None` if one is available.
fn absence(unanswered: &DaemonCallError) -> Option<String> {
    match unanswered {
        DaemonCallError::Ended(_) => Some("each daemon ended before it answered".to_string()),
        DaemonCallError::NotRunning(error) => Some(error.to_string()),
        DaemonCallError::NoDaemon(why) => {
            let lines: Vec<&str> = why.lines().map(str::trim).collect();
            Some(lines.join("; "))
        }
        DaemonCallError::LateGreeting(_)
        | DaemonCallError::GivenUp
        | DaemonCallError::OtherRelease
        | DaemonCallError::Client(_) => None,
    }
}

/// Rejects a command name after options: it would be taken for a question, which is hardly the
/// intention.
fn refuse_late_command(args: &QuestionArgs) -> Result<(), GgrepError> {
    let query = args.query.as_deref().unwrap_or_default();
    let is_command = Ggrep::command()
        .get_subcommands()
        .any(|one| one.get_name() == query);
    let is_meant = std::env::args_os().any(|word| word == "--");
    match is_command && !is_meant {
        false => Ok(()),
        true => Err(GgrepError::failed(
            ErrorCode::InvalidRequest,
            format!(
                "`{query}` follows options: to run the command, put it first, as in `ggrep {query} \
                 --config FILE`; to search for the word, put -- before it"
            ),
        )),
    }
}

/// Returns the path to search, or `None` for the whole tree.
fn scope(
    args: &QuestionArgs,
    root: &std::path::Path,
    environment: &Environment,
) -> Result<Option<String>, GgrepError> {
    let place = match (&args.path, &args.which.setup.root) {
        (Some(path), None) => canonical(path, environment)?,
        (Some(path), Some(_)) => canonical(&root.join(path), environment)?,
        // A named root means the whole tree, not the working directory.
        (None, Some(_)) => return Ok(None),
        (None, None) => canonical(std::path::Path::new("."), environment)?,
    };
    if place == root {
        return Ok(None);
    }
    check_inside(&place, root)
        .map_err(|why| GgrepError::failed(ErrorCode::InvalidRequest, format!("path {why}")))?;
    match place.to_str() {
        Some(path) => Ok(Some(path.to_string())),
        None => Err(GgrepError::failed(
            ErrorCode::InvalidRequest,
            format!(
                "path {} is not valid UTF-8; name a directory above it",
                place.display()
            ),
        )),
    }
}

/// Returns the place of `--related` with an absolute path.
fn related(
    args: &QuestionArgs,
    root: &Path,
    environment: &Environment,
) -> Result<Option<String>, GgrepError> {
    let Some(place) = &args.related else {
        return Ok(None);
    };
    let refused =
        |why: String| GgrepError::failed(ErrorCode::InvalidRequest, format!("--related: {why}"));
    let (file, line) = place_of(place).ok_or_else(|| refused(no_place(place)))?;
    let path = match &args.which.setup.root {
        Some(_) => root.join(file),
        None => PathBuf::from(file),
    };
    let path = canonical(&path, environment).map_err(|error| refused(error.message()))?;
    check_inside(&path, root).map_err(refused)?;
    let path = path
        .to_str()
        .ok_or_else(|| refused(format!("{file} is not valid UTF-8")))?;
    Ok(Some(format!("{path}:{line}")))
}

/// Returns an error in words for a path outside of the root.
fn check_inside(path: &Path, root: &Path) -> Result<(), String> {
    match path.starts_with(root) {
        true => Ok(()),
        false => Err(format!(
            "{} is outside of {}",
            path.display(),
            root.display()
        )),
    }
}

/// Returns how long to wait for an answer.
fn patience(endpoint: &DaemonEndpoint, timeout_ms: Option<u64>) -> Duration {
    let most = endpoint.config.daemon.query_timeout_ms;
    Duration::from_millis(timeout_ms.map_or(most, |ms| ms.min(most))) + GRACE
}

fn refused(unanswered: DaemonCallError, endpoint: &DaemonEndpoint) -> GgrepError {
    match unanswered {
        DaemonCallError::NotRunning(error) => GgrepError::failed(
            ErrorCode::Internal,
            format!(
                "no daemon answers for {} at {}: {error}; start one with `forge-search serve`, or leave out --no-start",
                endpoint.root.display(),
                endpoint.socket.display()
            ),
        ),
        DaemonCallError::NoDaemon(why) => GgrepError::failed(ErrorCode::Internal, why),
        DaemonCallError::Ended(Ok(answer)) => match read(&answer) {
            Err(ended) => ended,
            Ok(_) => GgrepError::failed(ErrorCode::Cancelled, "the query was cancelled"),
        },
        DaemonCallError::Ended(Err(error)) => error.into(),
        DaemonCallError::GivenUp => {
            GgrepError::failed(ErrorCode::Cancelled, "the query was abandoned")
        }
        DaemonCallError::OtherRelease => GgrepError::failed(
            ErrorCode::Incompatible,
            "the daemon has another version than this program; end it with `ggrep stop`",
        ),
        DaemonCallError::LateGreeting(error) => error.into(),
        DaemonCallError::Client(ClientError::Refused(failure))
            if endpoint.named && failure.error.code == ErrorCode::InvalidRequest =>
        {
            let message = format!(
                "{}; leave out --socket to use the daemon of this tree and configuration",
                failure.error.message
            );
            GgrepError::failed(ErrorCode::InvalidRequest, message)
        }
        DaemonCallError::Client(error) => error.into(),
    }
}

/// Returns the daemon that a command addresses.
fn endpoint_for(
    which: &WhichArgs,
    environment: &Environment,
) -> Result<DaemonEndpoint, GgrepError> {
    let root = root_of(which.setup.root.as_deref(), None, environment)?;
    Ok(DaemonEndpoint::find(
        &root,
        &which.setup,
        which.socket.as_deref(),
        environment,
    )?)
}
