//! `forge-search execute` and `forge-search lease`: the executor, for operators and schedulers.
//!
//! This module owns where manifests, leases and keys are read from. [`crate::tool::executor`]
//! checks them and runs the task.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::path::Path;

use jiff::SignedDuration;
use serde::Serialize;
use serde_json::json;

use crate::tool::cli::args::{ExecuteArgs, IssueArgs, LeaseCommand, SetupArgs};
use crate::tool::cli::setup::{Environment, load_config};
use crate::tool::cli::{Failure, complain};
use crate::tool::config::{Config, ScopeKind};
use crate::tool::error::ToolError;
use crate::tool::executor::capability::Capability;
use crate::tool::executor::confine::{Confinement, ConfinementLevel};
use crate::tool::executor::failure::{ExecutorError, Reason};
use crate::tool::executor::host::Worker;
use crate::tool::executor::lease::{KeyRing, Lease, PublicKey, SecretKey, unverified};
use crate::tool::executor::manifest::MAX_MANIFEST;
use crate::tool::executor::source;
use crate::tool::executor::trust::{untrusted, untrusted_place};
use crate::tool::executor::worker::{Answer, WorkerRequest};
use crate::tool::executor::{Executor, now};
use crate::tool::render::escape_controls;

/// Maximum bytes of a file with a lease or a key.
const MOST: u64 = 1 << 16;

/// Executes one task.
pub(in crate::tool::cli) fn run(
    args: &ExecuteArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    let config = configured(args.config.as_deref(), environment)?;
    if args.lease_file.as_deref() == Some(Path::new("-")) && args.manifest == Path::new("-") {
        return Err(wrong(
            "manifest and lease can't both be standard input; name a file for one of them",
        ));
    }
    let lease = match (&args.lease, &args.lease_file) {
        (Some(lease), _) => lease.clone(),
        (None, Some(file)) => lease_text(file, environment)?,
        (None, None) => return Err(wrong("a lease is missing; give it with --lease-file")),
    };
    // Read one byte more than allowed, so that the executor notices a manifest that is too long.
    let manifest = bytes(&args.manifest, MAX_MANIFEST as u64 + 1, environment)?;
    let executor = executor(&config, environment)?;
    let execution = executor.execute(&manifest, lease.trim());
    let mut out = io::stdout().lock();
    out.write_all(&execution.body)?;
    out.write_all(b"\n")?;
    out.flush()?;
    if let Some(detail) = &execution.detail {
        complain(detail);
    }
    if args.stats && execution.failure.is_none() {
        let peak = execution.peak_kib;
        let peak = peak.map_or("-".to_string(), |kib| format!("{kib} KiB"));
        complain(&format!(
            "{} skipped, peak memory {peak}{}",
            execution.passed_over,
            if execution.repeated {
                ", stored result"
            } else {
                ""
            }
        ));
    }
    Ok(u8::from(execution.failure.is_some()))
}

fn executor(config: &Config, environment: &Environment) -> Result<Executor, Failure> {
    let store = match (&config.executor.store, environment.sockets.state_dir()) {
        (Some(store), _) => environment.absolute(store)?,
        (None, Some(state)) => state.join("results.db"),
        (None, None) => {
            return Err(wrong(
                "there is no directory for results: neither the state directory nor a private \
                 directory in TMPDIR can be used; set store in [executor]",
            ));
        }
    };
    Executor::new(&config.executor, store, worker()?)
        .map_err(|error| wrong(&format!("keys of [executor]: an entry {error}")))
}

/// The report about the executor in `doctor`.
#[derive(Debug, Serialize)]
pub(in crate::tool::cli) struct ExecutorReport {
    /// PASERK ids of the keys that verify leases.
    keys: Vec<String>,
    /// The name and kind of each scope, with `ok` or the reason why it can't be searched.
    scopes: Vec<(String, ScopeKind, String)>,
    /// The confinement of workers, if it could be determined.
    confined: Option<Confinement>,
}

/// Inspects the executor, and returns its report with all problems. Returns `None` if it is not
/// configured.
pub(in crate::tool::cli) fn examine(config: &Config) -> Option<(ExecutorReport, Vec<String>)> {
    let executor = &config.executor;
    if executor.keys.is_empty() && executor.scopes.is_empty() {
        return None;
    }
    let (mut keys, mut scopes, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for key in &executor.keys {
        match PublicKey::parse(key) {
            Ok(key) => keys.push(key.id().to_string()),
            Err(error) => problems.push(format!("keys of [executor]: an entry {error}")),
        }
    }
    if executor.keys.is_empty() {
        problems.push("no lease is accepted: keys of [executor] is empty; `forge-search lease keygen` prints one".to_string());
    }
    for (name, scope) in &executor.scopes {
        // Only open the source: reading all of it would take too long.
        let state = match source::open(scope) {
            Ok(_) => "ok",
            Err(reason) => reason.message(),
        };
        if state != "ok" {
            problems.push(format!(
                "scope {name}, {}: {state}",
                scope.location.display()
            ));
        }
        scopes.push((name.clone(), scope.kind, state.to_string()));
    }
    let asked = worker().map_err(|_| ExecutorError::from(Reason::WorkerAbsent));
    let confined = match asked.and_then(|worker| worker.ask(&WorkerRequest::Confine)) {
        Ok(Answer::Tried { confined, .. }) => Ok(confined),
        Ok(_) => Err(Reason::WorkerFailed.into()),
        Err(fault) => Err(fault),
    };
    match &confined {
        Ok(confined) => {
            for (name, held) in [
                ("Landlock", confined.landlock),
                ("seccomp", confined.seccomp),
            ] {
                if held == ConfinementLevel::Not {
                    problems.push(format!(
                        "workers are not confined by {name}, because this system \
                         lacks it; use a newer kernel, or allow it in this container"
                    ));
                }
            }
        }
        Err(ExecutorError { reason, detail }) => {
            let detail = detail.iter().flat_map(|detail| [": ", detail.as_str()]);
            problems.push(std::iter::once(reason.message()).chain(detail).collect());
        }
    }
    let report = ExecutorReport {
        keys,
        scopes,
        confined: confined.ok(),
    };
    Some((report, problems))
}

impl ExecutorReport {
    /// Prints the executor's section of the report.
    pub(in crate::tool::cli) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\nexecutor")?;
        for key in &self.keys {
            writeln!(out, "  key               {}", escape_controls(key))?;
        }
        for (name, kind, state) in &self.scopes {
            let kind = format!("{kind:?}").to_lowercase();
            writeln!(
                out,
                "  scope             {}  {kind}  {state}",
                escape_controls(name)
            )?;
        }
        match &self.confined {
            Some(confined) => {
                let held = |held| match held {
                    ConfinementLevel::Not => "no",
                    ConfinementLevel::Partly => "partly",
                    ConfinementLevel::Wholly => "yes",
                };
                let (landlock, seccomp) = (held(confined.landlock), held(confined.seccomp));
                writeln!(
                    out,
                    "  worker            Landlock {landlock}, seccomp {seccomp}"
                )
            }
            None => writeln!(out, "  worker            can't be started"),
        }
    }
}

/// Returns the worker command, which is this program.
fn worker() -> Result<Worker, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        wrong(&format!(
            "the path of this program can't be determined: {error}"
        ))
    })?;
    Ok(Worker::new(program, vec!["execute-worker".into()]))
}

fn configured(file: Option<&Path>, environment: &Environment) -> Result<Config, Failure> {
    let setup = SetupArgs {
        config: file.map(Path::to_path_buf),
        ..SetupArgs::default()
    };
    Ok(load_config(&setup, environment)?)
}

/// Runs one of the `lease` commands.
pub(in crate::tool::cli) fn lease(
    command: &LeaseCommand,
    environment: &Environment,
) -> Result<u8, Failure> {
    match command {
        LeaseCommand::Keygen { file } => keygen(file, environment),
        LeaseCommand::Issue(args) => issue(args, environment),
        LeaseCommand::Inspect { token, config } => {
            inspect(token, &configured(config.as_deref(), environment)?)
        }
    }
}

fn keygen(file: &Path, environment: &Environment) -> Result<u8, Failure> {
    let key = SecretKey::generate().map_err(|error| wrong(&error.to_string()))?;
    let secret = key.to_paserk().map_err(|error| wrong(&error.to_string()))?;
    let public = key.public().map_err(|error| wrong(&error.to_string()))?;
    let path = environment.absolute(file)?;
    let cant = |error: io::Error| wrong(&format!("{}: {error}", file.display()));
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    let mut written = options.open(path).map_err(cant)?;
    writeln!(written, "{secret}")
        .and_then(|()| written.sync_all())
        .map_err(cant)?;
    let text = public
        .to_paserk()
        .map_err(|error| wrong(&error.to_string()))?;
    writeln!(io::stdout(), "{text}")?;
    Ok(0)
}

fn issue(args: &IssueArgs, environment: &Environment) -> Result<u8, Failure> {
    if Capability::from_name(&args.capability).is_none() {
        return Err(wrong(&format!(
            "there is no capability `{}`; the capabilities are {}",
            args.capability,
            Capability::NAMES.join(", ")
        )));
    }
    let text = key_text(&args.key, environment)?;
    let key = SecretKey::parse(text.trim())
        .map_err(|error| wrong(&format!("{} {error}", args.key.display())))?;
    let now = now();
    let expires_at = match args.until {
        Some(until) => until,
        None => now
            .checked_add(SignedDuration::from_secs(args.seconds.into()))
            .map_err(|error| wrong(&error.to_string()))?,
    };
    if expires_at <= now {
        return Err(wrong("--until is in the past"));
    }
    let lease = Lease {
        task_id: args.task.clone(),
        capability_id: args.capability.clone(),
        target_scope: args.scope.clone(),
        expires_at,
        iss: None,
        iat: None,
        jti: None,
    };
    let token = key
        .sign(&lease)
        .map_err(|error| wrong(&error.to_string()))?;
    // Reject a lease that no executor would accept.
    let public = key.public().map_err(|error| wrong(&error.to_string()))?;
    KeyRing::new(vec![public]).verify(&token).map_err(|_| {
        wrong(
            "no executor would accept this lease: --task and --scope must have 1 to 1,024 bytes, \
             and the lease must end before the year 10000",
        )
    })?;
    writeln!(io::stdout(), "{token}")?;
    Ok(0)
}

/// Prints the contents of a lease. Fails if no configured key verifies its signature.
fn inspect(token: &str, config: &Config) -> Result<u8, Failure> {
    let token = match token {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().take(MOST).read_to_string(&mut text)?;
            text
        }
        token => token.to_string(),
    };
    let token = token.trim();
    let (claims, footer) =
        unverified(token).ok_or_else(|| wrong("this is not a PASETO v4.public token"))?;
    let keys: Result<Vec<_>, _> = config
        .executor
        .keys
        .iter()
        .map(|key| PublicKey::parse(key))
        .collect();
    let keys = keys.map_err(|error| wrong(&format!("keys of [executor]: an entry {error}")))?;
    let verified = KeyRing::new(keys).verify(token);
    let expired = verified
        .as_ref()
        .ok()
        .map(|lease| now() >= lease.expires_at);
    let told = json!({
        "claims": claims,
        "footer": footer,
        "signature": match &verified {
            Ok(_) => "holds",
            Err(reason) => reason.message(),
        },
        "expired": expired,
    });
    let told = serde_json::to_string_pretty(&told).unwrap_or_default();
    writeln!(io::stdout(), "{told}")?;
    Ok(u8::from(verified.is_err()))
}

/// Reads a lease. A text that is too long becomes an empty one, so that it fails like any invalid
/// lease.
fn lease_text(path: &Path, environment: &Environment) -> Result<String, Failure> {
    let bytes = bytes(path, MOST + 1, environment)?;
    match bytes.len() as u64 > MOST {
        true => Ok(String::new()),
        false => Ok(String::from_utf8(bytes).unwrap_or_default()),
    }
}

/// Reads a secret key. Rejects a file that another user may have put there.
fn key_text(path: &Path, environment: &Environment) -> Result<String, Failure> {
    let wrong_at = |why: &dyn Display| wrong(&format!("{}: {why}", path.display()));
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes)?;
    } else {
        let place = environment.absolute(path)?;
        let file = std::fs::File::open(&place).map_err(|error| wrong_at(&error))?;
        let meta = file.metadata().map_err(|error| wrong_at(&error))?;
        if let Some(why) = untrusted(&meta) {
            return Err(wrong(&format!("the key {} {why}", path.display())));
        }
        if let Some((dir, why)) = untrusted_place(&place) {
            let (path, dir) = (path.display(), dir.display());
            return Err(wrong(&format!("the key {path}: its directory {dir} {why}")));
        }
        let read = file.take(MOST + 1).read_to_end(&mut bytes);
        read.map_err(|error| wrong_at(&error))?;
    }
    if bytes.len() as u64 > MOST {
        return Err(wrong_at(&format_args!(
            "more than {MOST} bytes, so it is not a key"
        )));
    }
    utf8(bytes, path)
}

fn utf8(bytes: Vec<u8>, path: &Path) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| wrong(&format!("{} is not valid UTF-8", path.display())))
}

/// Reads a file, or standard input for `-`.
fn bytes(path: &Path, most: u64, environment: &Environment) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match path == Path::new("-") {
        true => io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => std::fs::File::open(environment.absolute(path)?)
            .and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(wrong(&format!("{}: {error}", path.display()))),
    }
}

fn wrong(message: &str) -> Failure {
    Failure::Tool(ToolError::bad_args(message))
}
