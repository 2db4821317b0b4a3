//! The worker of the executor: a process that searches one source once, and can do nothing else.
//!
//! This module owns the messages between host and worker. The worker reads one from standard input,
//! sets its resource limits, confines itself, searches, and writes its answer to standard output.
//! The host enforces the limits, too: see [`super::host`]. (It shares nothing with the workers of a
//! search.)

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::confine::{Confinement, confine};
use super::failure::Reason;
use super::search::{Found, search};
use super::source;
use crate::tool::config::{ScopeConfig, ScopeKind};

/// The environment variable that tells a worker that inherited file descriptors are closed.
const SEALED: &str = "FORGE_SEARCH_WORKER_SEALED";

/// The memory limit of a search in bytes (EXEC §8): 256 MB.
pub const MEMORY: u64 = 256_000_000;

/// The search that a worker runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The scope to search.
    pub scope: ScopeConfig,
    /// The text to search for.
    pub query: String,
    /// The largest number of results.
    pub max_results: u32,
    /// Whether the search fails if the system can't confine the worker.
    pub require_confinement: bool,
}

/// The answer of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The result of a search.
    Found {
        /// The results of the search.
        found: Found,
        /// The peak memory of the worker in KiB, if the system reports it.
        peak_kib: Option<u64>,
        /// How the worker was confined.
        confined: Confinement,
    },
    /// The search failed.
    Failed(Reason),
    /// The result of a confinement test.
    Tried {
        /// How the worker was confined.
        confined: Confinement,
        /// The operations that succeeded although they are forbidden.
        allowed: Vec<String>,
    },
}

/// The request to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerRequest {
    /// Run a search.
    Search(Job),
    /// Report the confinement, without a search.
    Confine,
    /// Test the confinement: try forbidden operations in a directory of the caller.
    Try(PathBuf),
}

/// The complete message to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// The process id of the host.
    pub(super) host: u32,
    /// The request to the worker.
    pub(super) told: WorkerRequest,
}

/// Runs a worker process, for a program that [`Worker`](super::host::Worker) starts. Reads the
/// request from standard input, and returns the exit status. The process must not run anything
/// else.
pub fn main() -> u8 {
    // The worker must not inherit open files of the host.
    if let Err(error) = crate::exec::process::reexec_without_open_files(SEALED) {
        return cannot(&error);
    }
    limit();
    let mut told = Vec::new();
    let read = io::stdin().lock().take(1 << 20).read_to_end(&mut told);
    let Message { host, told } = match (read, serde_json::from_slice(&told)) {
        (Ok(_), Ok(message)) => message,
        _ => return cannot(&"its instructions can't be read"),
    };
    if !is_child_of(host) {
        return cannot(&"its parent process has ended, or another process started it");
    }
    // Opened before the confinement forbids it.
    let mut status = File::open("/proc/self/status").ok();
    let answer = match told {
        WorkerRequest::Search(job) => match execute(&job) {
            Ok((found, confined)) => Answer::Found {
                found,
                confined,
                peak_kib: status.as_mut().and_then(peak),
            },
            Err(reason) => Answer::Failed(reason),
        },
        WorkerRequest::Confine => Answer::Tried {
            confined: confine(&[]),
            allowed: Vec::new(),
        },
        WorkerRequest::Try(dir) => attempt(&dir),
    };
    let Ok(answer) = serde_json::to_vec(&answer) else {
        return 2;
    };
    u8::from(io::stdout().lock().write_all(&answer).is_err())
}

/// Reports on standard error why there is no answer, and returns the exit status 2.
fn cannot(why: &dyn Display) -> u8 {
    let _ = writeln!(io::stderr(), "the worker can't work: {why}");
    2
}

fn execute(job: &Job) -> Result<(Found, Confinement), Reason> {
    // A database's files are next to the file itself, not next to a link to it.
    let location = job.scope.location.canonicalize();
    let scope = ScopeConfig {
        location: location.map_err(|error| source::unavailable(&error))?,
        ..job.scope.clone()
    };
    let location = &scope.location;
    let mut readable = vec![location.clone()];
    if job.scope.kind == ScopeKind::Sqlite {
        // The other files of a database.
        readable.extend(
            ["-wal", "-shm", "-journal"].map(|ending| source::companion_path(location, ending)),
        );
    }
    let confined = confine(&readable);
    if job.require_confinement && confined.lacks().is_some() {
        return Err(Reason::NotConfined);
    }
    let mut source = source::open(&scope)?;
    let most = usize::try_from(job.max_results).unwrap_or(usize::MAX);
    Ok((search(&mut *source, &job.query, most)?, confined))
}

/// Limits this process: its address space, its CPU time, and its life to that of its host.
fn limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = |resource, most: u64| {
        let own = getrlimit(resource).maximum;
        let most = own.map_or(most, |own| own.min(most));
        let most = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        // The host sets the same limits. Where it can't, this process does.
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

/// Returns whether the host still runs. It may have ended before the death signal was set up; then
/// this process has another parent. The parent's id alone proves nothing: the host itself may be
/// process 1 of a container.
fn is_child_of(host: u32) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    parent == i32::try_from(host).ok()
}

/// Returns the peak memory of this process, in KiB.
fn peak(status: &mut File) -> Option<u64> {
    let mut text = String::new();
    status.seek(SeekFrom::Start(0)).ok()?;
    status.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Tries operations that the confinement has to forbid.
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
            // Nothing listens there. An unconfined process gets "connection refused"; a confined
            // one does not.
            error.kind() == io::ErrorKind::ConnectionRefused
        }),
    );
    note("bind", std::net::UdpSocket::bind(("127.0.0.1", 0)).is_ok());
    note("thread", std::thread::Builder::new().spawn(|| ()).is_ok());
    // Another file of the same user.
    note("read", File::open(dir.join("secret")).is_ok());
    note("nothing", File::open(&file).is_err());
    Answer::Tried { confined, allowed }
}
