//! The `ggrep` program: questions to the daemon of a tree.
//!
//! Owns what it does, in which order, and its exit statuses.

mod args;
mod manage;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, Parser};

use self::args::{Ggrep, Other, QuestionArgs, WhichArgs};
use self::manage::{health, status, stop};
use super::super::args::{Cli, Command};
use super::super::setup::{Environment, prepare};
use super::super::signals::wait_for_children;
use super::super::{Failure as CliFailure, complain_as, is_closed};
use super::start::{Unconnected, connect_or_start};
use super::{Meant, canonical, people, root_of, serve};
use crate::exec::stop::{Deadline, SystemClock};
use crate::tool::daemon::client::{ClientError, Connection};
use crate::tool::daemon::reply::{ErrorCode, Failure, Success};
use crate::tool::daemon::request::{Asked, Request};
use crate::tool::daemon::service::{Admitted, Ending, payload};
use crate::tool::daemon::socket::{Identity, is_taken};
use crate::tool::error::ToolError;

/// How much longer than its time an answer is waited for.
const GRACE: Duration = Duration::from_secs(2);

/// How often a question is asked again that a daemon did not answer because it ended.
const AGAIN: u32 = 3;

/// How often it is looked whether a daemon has ended.
const NAP: Duration = Duration::from_millis(10);

/// Runs the program and returns its exit status.
pub fn main() -> u8 {
    wait_for_children();
    // A daemon that this program starts is this program.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "serve")
        && words.next().is_some_and(|word| word == "--background")
    {
        return background();
    }
    let cli = match Ggrep::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && asks_for_json() => {
            let said = error.render().to_string();
            let said = said.trim_start_matches("error: ").trim_end();
            let failure = Failure::new(ErrorCode::InvalidRequest, said);
            let told = people::print_json(&payload(&failure), false, &mut io::stdout());
            // Where it can't be written, the status still tells.
            drop(told);
            return failure.error.code.exit_status();
        }
        Err(error) => {
            // Help and version are no failures.
            let unwritten = error.print().is_err_and(|error| !is_closed(&error));
            return u8::from(error.use_stderr() || unwritten);
        }
    };
    let json = match &cli.command {
        None => cli.question.json,
        Some(Other::Stop(args) | Other::Health(args)) => args.json,
        Some(Other::Status(args)) => args.daemon.json,
        Some(Other::Completions { .. } | Other::Man) => false,
    };
    match run(cli) {
        Ok(()) => 0,
        // Whoever read the output has seen enough.
        Err(Ended::Output(error)) if is_closed(&error) => 0,
        Err(Ended::Output(error)) => {
            complain_as("ggrep", &format!("the output can't be written: {error}"));
            1
        }
        Err(Ended::Unhealthy) => 1,
        Err(Ended::Failed(failure)) => {
            let told = match json {
                true => people::print_json(&payload(&failure), false, &mut io::stdout()),
                false => {
                    people::complain(&failure);
                    Ok(())
                }
            };
            // Where it can't be written, the status still tells.
            drop(told);
            failure.error.code.exit_status()
        }
    }
}

/// Returns whether answers are wanted as JSON, by arguments of which others are wrong.
fn asks_for_json() -> bool {
    let options = std::env::args_os().skip(1).take_while(|word| word != "--");
    options.into_iter().any(|word| word == "--json")
}

/// Runs the daemon.
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

/// Why the program did not do what it was asked for.
enum Ended {
    Failed(Failure),
    /// A check failed, which was printed.
    Unhealthy,
    Output(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Output(error)
    }
}

impl From<ToolError> for Ended {
    fn from(error: ToolError) -> Ended {
        Ended::failed(ErrorCode::InvalidRequest, error.message())
    }
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Ended {
        match error {
            ClientError::Refused(failure) => Ended::Failed(failure),
            error => Ended::failed(error.code(), error.to_string()),
        }
    }
}

impl Ended {
    fn failed(code: ErrorCode, message: impl Into<String>) -> Ended {
        Ended::Failed(Failure::new(code, message))
    }
}

fn run(cli: Ggrep) -> Result<(), Ended> {
    let mut out = io::stdout().lock();
    match cli.command {
        None => ask(&cli.question, &Environment::read(), &mut out),
        Some(Other::Status(args)) => status(&args, &Environment::read(), &mut out),
        Some(Other::Health(args)) => health(&args, &Environment::read(), &mut out),
        Some(Other::Stop(args)) => stop(&args, &Environment::read(), &mut out),
        Some(Other::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Ggrep::command(), "ggrep", &mut script);
            Ok(out.write_all(&script)?)
        }
        Some(Other::Man) => Ok(clap_mangen::Man::new(Ggrep::command()).render(&mut out)?),
    }
}

fn ask(args: &QuestionArgs, environment: &Environment, out: &mut dyn Write) -> Result<(), Ended> {
    refuse_late_command(args)?;
    let named = args.which.setup.root.as_deref();
    let root = root_of(named, args.path.as_deref(), environment)?;
    let socket = args.which.socket.as_deref();
    let meant = Meant::find(&root, &args.which.setup, socket, environment)?;
    let path = scope(args, &root, environment)?;
    let request = Request {
        id: None,
        asked: Asked::Search(args.query(path)),
    };
    // What is wrong with it is said before a daemon is started for it.
    Request::parse(&payload(&request.to_value()))
        .map_err(|refused| Ended::failed(ErrorCode::InvalidRequest, refused.message))?;
    let until = Deadline::after(patience(&meant, args.timeout_ms), Arc::new(SystemClock));
    let (mut answer, mut success) = answered(&meant, &request, args, &until, environment)?;
    let is_stale = success
        .warnings
        .iter()
        .any(|warning| warning.code == "stale_config");
    if is_stale && !meant.named {
        // The configuration has changed since it was read here. Once more, with that of now.
        let now = Meant::find(&root, &args.which.setup, socket, environment)?;
        if now.store != meant.store {
            (answer, success) = answered(&now, &request, args, &until, environment)?;
        } else if !args.no_start && replaced(&now, &until) {
            // It has changed twice, and is what it was: the daemon is of no use to anybody any more.
            (answer, success) = answered(&now, &request, args, &until, environment)?;
        }
    }
    if args.json {
        return Ok(people::print_json(&answer, args.raw, out)?);
    }
    people::print(&success, args.raw, out)?;
    out.flush()?;
    people::remark(&success);
    Ok(())
}

/// Ends a daemon that does not follow its tree any more; returns whether that worked.
fn replaced(meant: &Meant, until: &Deadline) -> bool {
    let caller = meant.caller(None, until.remaining());
    let request = Request {
        id: None,
        asked: Asked::Shutdown,
    };
    let Ok(mut connection) = Connection::open(&meant.socket, &meant.store, caller) else {
        return true;
    };
    let before = Identity::of(&meant.socket);
    connection.ask(&request, until.remaining()).is_ok()
        && has_ended(meant, before, until.remaining())
}

/// Waits until a daemon has ended whose socket was the one that is given. Returns false if it has not in time.
fn has_ended(meant: &Meant, before: Option<Identity>, most: Duration) -> bool {
    let mut waited = Duration::ZERO;
    // Another one may have begun by then.
    while is_taken(&meant.socket) && Identity::of(&meant.socket) == before {
        if waited > most {
            return false;
        }
        std::thread::sleep(NAP);
        waited += NAP;
    }
    true
}

/// Gets an answer from the daemon, or where that was asked for and there is none, without. One that ends before it answers is asked again,
/// or another one is: asking changes nothing.
fn answered(
    meant: &Meant,
    request: &Request,
    args: &QuestionArgs,
    until: &Deadline,
    environment: &Environment,
) -> Result<(Vec<u8>, Success), Ended> {
    let ask = || {
        let mut connection = connect(meant, args, until)?;
        connection
            .ask(request, until.remaining())
            .map_err(Unconnected::Client)
    };
    let mut answer = ask();
    for _ in 0..AGAIN {
        if !is_over(&answer) {
            break;
        }
        match ask() {
            // There is no other one, so what the last one said holds.
            Err(Unconnected::Client(ClientError::Unreachable(_))) if answer.is_ok() => break,
            next => answer = next,
        }
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if args.fallback && is_absent(&error) => {
            in_process(meant, request, until, environment)?
        }
        Err(error) => return Err(refused(error, meant)),
    };
    match serde_json::from_slice(&answer) {
        Ok(success) => Ok((answer, success)),
        Err(error) => {
            let failure = serde_json::from_slice(&answer).map_err(|_| {
                let message = format!("the daemon's answer can't be read: {error}");
                Ended::failed(ErrorCode::Internal, message)
            })?;
            Err(Ended::Failed(failure))
        }
    }
}

/// The name of a command behind options would be taken for a question, which is hardly what was meant.
fn refuse_late_command(args: &QuestionArgs) -> Result<(), Ended> {
    let query = args.query.as_deref().unwrap_or_default();
    let is_command = Ggrep::command()
        .get_subcommands()
        .any(|one| one.get_name() == query);
    let is_meant = std::env::args_os().any(|word| word == "--");
    match is_command && !is_meant {
        false => Ok(()),
        true => Err(Ended::failed(
            ErrorCode::InvalidRequest,
            format!(
                "`{query}` stands behind options: to run the command put it first, as in `ggrep {query} --config FILE`; to ask for the word put -- before it"
            ),
        )),
    }
}

/// Returns the path that is asked for; nothing for all of the tree.
fn scope(
    args: &QuestionArgs,
    root: &std::path::Path,
    environment: &Environment,
) -> Result<Option<String>, Ended> {
    let place = match (&args.path, &args.which.setup.root) {
        (Some(path), None) => canonical(path, environment)?,
        (Some(path), Some(_)) => canonical(&root.join(path), environment)?,
        // The tree that was named, not what is below here.
        (None, Some(_)) => return Ok(None),
        (None, None) => canonical(std::path::Path::new("."), environment)?,
    };
    if place == root {
        return Ok(None);
    }
    match place.to_str() {
        Some(path) => Ok(Some(path.to_string())),
        None => Err(Ended::failed(
            ErrorCode::InvalidRequest,
            format!(
                "path {} is not valid UTF-8; name a directory above it",
                place.display()
            ),
        )),
    }
}

/// How long an answer is waited for.
fn patience(meant: &Meant, timeout_ms: Option<u64>) -> Duration {
    let most = meant.config.daemon.query_timeout_ms;
    Duration::from_millis(timeout_ms.map_or(most, |ms| ms.min(most))) + GRACE
}

fn connect(
    meant: &Meant,
    args: &QuestionArgs,
    until: &Deadline,
) -> Result<Connection, Unconnected> {
    let client = args.client_id.as_deref();
    match args.no_start {
        true => {
            let caller = meant.caller(client, until.remaining());
            Connection::open(&meant.socket, &meant.store, caller).map_err(Unconnected::Client)
        }
        false => {
            connect_or_start(meant, client, until, Duration::MAX).map(|(connection, _)| connection)
        }
    }
}

/// Returns whether the daemon was about to end: it was gone before it answered, or took back what it had begun.
fn is_over(answer: &Result<Vec<u8>, Unconnected>) -> bool {
    match answer {
        Err(Unconnected::Client(ClientError::Gone(_))) => true,
        Ok(answer) => serde_json::from_slice::<Failure>(answer)
            .is_ok_and(|failure| failure.error.code == ErrorCode::Cancelled),
        Err(_) => false,
    }
}

/// Returns whether there is no daemon, rather than one that refuses.
fn is_absent(error: &Unconnected) -> bool {
    match error {
        Unconnected::NotStarted(_)
        | Unconnected::Client(ClientError::Unreachable(_) | ClientError::Gone(_)) => true,
        Unconnected::Client(
            ClientError::Refused(_) | ClientError::Broken(_) | ClientError::Late(_),
        ) => false,
    }
}

fn refused(error: Unconnected, meant: &Meant) -> Ended {
    match error {
        Unconnected::NotStarted(why) => Ended::failed(ErrorCode::Internal, why),
        Unconnected::Client(ClientError::Unreachable(error)) => Ended::failed(
            ErrorCode::Internal,
            format!(
                "no daemon answers for {} at {}: {error}; start one with `forge-search serve`, or leave out --no-start",
                meant.root.display(),
                meant.socket.display()
            ),
        ),
        Unconnected::Client(ClientError::Refused(failure))
            if meant.named && failure.error.code == ErrorCode::InvalidRequest =>
        {
            let message = format!(
                "{}; leave out --socket to ask the daemon of this tree and configuration",
                failure.error.message
            );
            Ended::failed(ErrorCode::InvalidRequest, message)
        }
        Unconnected::Client(error) => error.into(),
    }
}

/// Answers without a daemon.
fn in_process(
    meant: &Meant,
    request: &Request,
    until: &Deadline,
    environment: &Environment,
) -> Result<Vec<u8>, Ended> {
    let setup = prepare(&meant.setup, environment, None)?.for_files(environment);
    let signals = setup.signals.clone();
    let clock = setup.context.clock.clone();
    let failed = |failure| match failure {
        CliFailure::Tool(error) => Ended::from(error),
        CliFailure::Output(error) => Ended::from(error),
        CliFailure::Signal(_) => Ended::failed(ErrorCode::Cancelled, "a signal came"),
    };
    let service = serve::service(setup, None, serve::Own::default()).map_err(failed)?;
    let Asked::Search(query) = &request.asked else {
        let message = "only questions are answered without a daemon";
        return Err(Ended::failed(ErrorCode::Internal, message));
    };
    let daemon = &meant.config.daemon;
    let most = query.timeout_ms.unwrap_or(daemon.query_timeout_ms);
    // What was spent on looking for a daemon was spent.
    let most = Duration::from_millis(most.min(daemon.query_timeout_ms)).min(until.remaining());
    let admitted = Admitted {
        id: None,
        ending: &Ending::default(),
        deadline: Deadline::after(most, clock),
        came: None,
        waited: Duration::ZERO,
        queued: false,
        max_response_bytes: usize::try_from(daemon.max_response_bytes).unwrap_or(usize::MAX),
        stands_back: false,
    };
    // A signal ends the process: nothing has been written.
    drop(signals);
    Ok(service.answer(query, admitted).payload)
}

/// Returns the daemon that a command means.
fn meant_by(which: &WhichArgs, environment: &Environment) -> Result<Meant, Ended> {
    let root = root_of(which.setup.root.as_deref(), None, environment)?;
    Ok(Meant::find(
        &root,
        &which.setup,
        which.socket.as_deref(),
        environment,
    )?)
}
