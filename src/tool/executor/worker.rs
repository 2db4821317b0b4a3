//! The worker: a process that searches one source once, and can do nothing else.
//!
//! Owns what it is told and what it answers. It is told on its standard input, limits itself, gives up what it does not need, searches, and answers on its
//! standard output. Who started it enforces the limits, too: see [`super::host`].

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::confine::{Confined, confine};
use super::failure::Reason;
use super::search::{Found, search};
use super::source;
use crate::tool::config::{ScopeConfig, ScopeKind};

/// The environment variable by which a worker knows that it has nothing open any more.
const SEALED: &str = "FORGE_SEARCH_WORKER_SEALED";

/// Bytes of memory that a search may have (EXEC §8): 256 MB.
pub const MEMORY: u64 = 256_000_000;

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What is searched.
    pub scope: ScopeConfig,
    /// For what.
    pub query: String,
    /// How many results are wanted.
    pub max_results: u32,
    /// Whether nothing is searched where the system lacks a way of confining the worker.
    pub require_confinement: bool,
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What it has found.
    Found {
        /// That.
        found: Found,
        /// The most memory that it had in use, in KiB, if the system tells.
        peak_kib: Option<u64>,
        /// How it was confined.
        confined: Confined,
    },
    /// Why it has found nothing.
    Failed(Reason),
    /// How it is confined, and what it could do nevertheless: for those who look whether that holds.
    Tried {
        /// What holds.
        confined: Confined,
        /// What was allowed that should not have been.
        allowed: Vec<String>,
    },
}

/// What a worker is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// To search.
    Search(Job),
    /// To say how it would be confined.
    Confine,
    /// To try what it must not be able to do, with a directory of the caller's own.
    Try(PathBuf),
}

/// A whole message to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// The process that has started it.
    pub(super) host: u32,
    /// What it is to do.
    pub(super) told: Told,
}

/// The worker's whole life, for a program that [`Worker`](super::host::Worker) starts: reads from standard input what to do, and returns the exit status.
/// Nothing else may run in that process.
pub fn main() -> u8 {
    // What the host was given open is none of the worker's business.
    if let Err(error) = crate::exec::process::without_what_is_open(SEALED) {
        return cannot(&error);
    }
    limit();
    let mut told = Vec::new();
    let read = io::stdin().lock().take(1 << 20).read_to_end(&mut told);
    let Message { host, told } = match (read, serde_json::from_slice(&told)) {
        (Ok(_), Ok(message)) => message,
        _ => return cannot(&"what it is to do can't be read"),
    };
    if !is_child_of(host) {
        return cannot(&"whoever has started it has ended, or is not its parent");
    }
    // Opened while that is allowed.
    let mut status = File::open("/proc/self/status").ok();
    let answer = match told {
        Told::Search(job) => match execute(&job) {
            Ok((found, confined)) => Answer::Found {
                found,
                confined,
                peak_kib: status.as_mut().and_then(peak),
            },
            Err(reason) => Answer::Failed(reason),
        },
        Told::Confine => Answer::Tried {
            confined: confine(&[]),
            allowed: Vec::new(),
        },
        Told::Try(dir) => attempt(&dir),
    };
    let Ok(answer) = serde_json::to_vec(&answer) else {
        return 2;
    };
    u8::from(io::stdout().lock().write_all(&answer).is_err())
}

/// Says why there is no answer, for whoever reads it, and returns the exit status for that.
fn cannot(why: &dyn Display) -> u8 {
    let _ = writeln!(io::stderr(), "the worker can't work: {why}");
    2
}

fn execute(job: &Job) -> Result<(Found, Confined), Reason> {
    // What belongs to a file lies beside the file itself, not beside a link to it.
    let location = job.scope.location.canonicalize();
    let scope = ScopeConfig {
        location: location.map_err(|error| source::unavailable(&error))?,
        ..job.scope.clone()
    };
    let location = &scope.location;
    let mut readable = vec![location.clone()];
    if job.scope.kind == ScopeKind::Sqlite {
        // What belongs to a database.
        readable
            .extend(["-wal", "-shm", "-journal"].map(|ending| source::beside(location, ending)));
    }
    let confined = confine(&readable);
    if job.require_confinement && confined.lacks().is_some() {
        return Err(Reason::NotConfined);
    }
    let mut source = source::open(&scope)?;
    let most = usize::try_from(job.max_results).unwrap_or(usize::MAX);
    Ok((search(&mut *source, &job.query, most)?, confined))
}

/// Limits this process: its addresses, its time on processors, and its life to that of whoever started it.
fn limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = |resource, most: u64| {
        let own = getrlimit(resource).maximum;
        let most = own.map_or(most, |own| own.min(most));
        let most = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        // The host limits the same; where it can't, this does.
        let _ = setrlimit(resource, most);
    };
    limit(Resource::As, MEMORY);
    limit(Resource::Cpu, 60);
    limit(Resource::Core, 0);
    #[cfg(target_os = "linux")]
    {
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}

/// Tells whether the host is there. It may have ended before its end was this process's end, too; then this has another parent. Which one that is says
/// nothing: the host itself may be the first process of a container.
fn is_child_of(host: u32) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    parent == i32::try_from(host).ok()
}

/// Returns the most memory that this process has had in use, in KiB.
fn peak(status: &mut File) -> Option<u64> {
    let mut text = String::new();
    status.seek(SeekFrom::Start(0)).ok()?;
    status.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Tries what must not work.
fn attempt(dir: &Path) -> Answer {
    let file = dir.join("file");
    let confined = confine(std::slice::from_ref(&file));
    let mut allowed = Vec::new();
    let mut note = |what: &str, worked: bool| {
        if worked {
            allowed.push(what.to_string());
        }
    };
    note("write", File::options().write(true).open(&file).is_ok());
    note("create", File::create(dir.join("new")).is_ok());
    note("remove", std::fs::remove_file(&file).is_ok());
    note("rename", std::fs::rename(&file, dir.join("other")).is_ok());
    note(
        "connect",
        std::net::TcpStream::connect(("127.0.0.1", 9)).is_err_and(|error| {
            // Nobody listens there, which a process that may not connect does not learn.
            error.kind() == io::ErrorKind::ConnectionRefused
        }),
    );
    note("bind", std::net::UdpSocket::bind(("127.0.0.1", 0)).is_ok());
    note("thread", std::thread::Builder::new().spawn(|| ()).is_ok());
    // Another file of the same user's.
    note("read", File::open(dir.join("secret")).is_ok());
    note("nothing", File::open(&file).is_err());
    Answer::Tried { confined, allowed }
}
