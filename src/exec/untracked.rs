//! Files of a working tree that git does not know.
//!
//! Owns how git is asked: without its hooks, its configured programs or any change of the tree, and for a bounded time.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::exec::exit::Exit;
use crate::exec::process::{Invocation, Until, run};
use crate::exec::stop::{Clock, Deadline, Stop};

/// Names of files that are looked at.
const MOST: u64 = 10_000;

/// Files that git neither knows nor ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Untracked {
    /// How many.
    pub(crate) files: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Whether these are all; else there are more.
    pub(crate) whole: bool,
}

/// Asks the program `git` about the working tree at `root`.
///
/// # Errors
///
/// What went wrong.
pub(crate) fn untracked(
    git: &Path,
    root: &Path,
    excludes: Option<&Path>,
    time: Duration,
    clock: Arc<dyn Clock>,
) -> Result<Untracked, String> {
    let mut args: Vec<OsString> = vec!["-C".into(), root.into()];
    args.extend(
        [
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.untrackedCache=false",
        ]
        .map(OsString::from),
    );
    if let Some(excludes) = excludes {
        let mut setting = OsString::from("core.excludesFile=");
        setting.push(excludes);
        args.extend(["-c".into(), setting]);
    }
    args.extend(
        [
            "--no-optional-locks",
            "ls-files",
            "-z",
            "--others",
            "--exclude-standard",
        ]
        .map(OsString::from),
    );
    let stop = Stop::default();
    let deadline = Deadline::after(time, clock);
    let until = Until {
        stop: &stop,
        deadline: Some(&deadline),
    };
    let mut found = Untracked {
        whole: true,
        ..Untracked::default()
    };
    let mut name: Vec<u8> = Vec::new();
    let invocation = Invocation {
        program: git,
        args: &args,
    };
    let ended = run(invocation, until, &mut |piece| {
        for byte in piece.bytes {
            if *byte != 0 {
                name.push(*byte);
                continue;
            }
            found.files += 1;
            found.bytes += size(root, &name);
            name.clear();
            if found.files == MOST {
                found.whole = false;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    let ended = ended.map_err(|error| error.to_string())?;
    match (ended.interrupted, ended.exit) {
        (Some(_), _) if !found.whole => Ok(found),
        (Some(_), _) => Err(format!("it took longer than {time:?}")),
        (None, Some(Exit::Code(0))) => Ok(found),
        (None, _) => {
            let said = String::from_utf8_lossy(&ended.stderr);
            Err(said.lines().next().unwrap_or("it failed").to_string())
        }
    }
}

fn size(root: &Path, name: &[u8]) -> u64 {
    #[cfg(unix)]
    let name = {
        use std::os::unix::ffi::OsStrExt;
        std::ffi::OsStr::from_bytes(name).to_os_string()
    };
    #[cfg(not(unix))]
    let name = String::from_utf8_lossy(name).into_owned();
    std::fs::symlink_metadata(root.join(name)).map_or(0, |meta| meta.len())
}
