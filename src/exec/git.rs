//! What git says of a working tree.
//!
//! Owns how git is asked: for a bounded time, without any change of the tree, and without running anything that a
//! repository's configuration names. A tree is not trusted: what is in its `.git` may have come with it.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::exec::exit::Exit;
use crate::exec::process::{Ended, Invocation, Piece, Until, run};
use crate::exec::stop::{Clock, Deadline, Stop};

/// Names of files that are looked at.
const MOST: u64 = 10_000;

/// Bytes of names of settings that are read.
const SETTINGS: usize = 1 << 20;

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

/// A working tree, and the git that is asked about it.
pub(crate) struct Git<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Where the working tree starts.
    pub(crate) root: &'a Path,
    /// The user's own file of what is to be ignored.
    pub(crate) excludes: Option<&'a Path>,
    /// How long one question may take altogether.
    pub(crate) time: Duration,
    /// What tells the time.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Git<'_> {
    /// Counts the files that git neither knows nor ignores; stops at [`MOST`].
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub(crate) fn untracked(&self) -> Result<Untracked, String> {
        let deadline = Deadline::after(self.time, self.clock.clone());
        let mut found = Untracked {
            whole: true,
            ..Untracked::default()
        };
        let mut name: Vec<u8> = Vec::new();
        let args = ["ls-files", "-z", "--others", "--exclude-standard"];
        let ended = self.ask(&[], &args, &deadline, &mut |piece| {
            for byte in piece.bytes {
                if *byte != 0 {
                    name.push(*byte);
                    continue;
                }
                found.files += 1;
                found.bytes += size(self.root, &name);
                name.clear();
                if found.files == MOST {
                    found.whole = false;
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        match ended.interrupted {
            Some(_) if !found.whole => Ok(found),
            _ => self.succeeded(&ended).map(|()| found),
        }
    }

    /// Returns whether anything in the tree is not as in the commit that is checked out: changed, staged, or not known
    /// to git and not ignored. Submodules count by the commit that they are at.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub(crate) fn is_dirty(&self) -> Result<bool, String> {
        let deadline = Deadline::after(self.time, self.clock.clone());
        let harmless = self.without_programs(&deadline)?;
        let args = [
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
            "--no-renames",
        ];
        let mut dirty = false;
        let ended = self.ask(&harmless, &args, &deadline, &mut |piece| {
            dirty |= !piece.bytes.is_empty();
            ControlFlow::Break(())
        })?;
        match dirty {
            true => Ok(true),
            false => self.succeeded(&ended).map(|()| false),
        }
    }

    /// Returns settings that turn off what a repository's own settings would have git run while it compares files:
    /// filters, and whatever fetches objects that are missing.
    fn without_programs(&self, deadline: &Deadline) -> Result<Vec<OsString>, String> {
        let mut names = Vec::new();
        let args = ["config", "--list", "--name-only", "-z"];
        let ended = self.ask(&[], &args, deadline, &mut |piece| {
            names.extend_from_slice(piece.bytes);
            match names.len() > SETTINGS {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        self.succeeded(&ended)?;
        let mut settings = vec!["-c".into(), "protocol.allow=never".into()];
        for name in names.split(|byte| *byte == 0) {
            let value: &[u8] = match (name.split(|byte| *byte == b'.').next(), last(name)) {
                (Some(b"filter"), b"clean" | b"smudge" | b"process") => b"",
                (Some(b"filter"), b"required") => b"false",
                (Some(b"protocol"), b"allow") => b"never",
                _ => continue,
            };
            // Git takes what is before the first `=` for the name, so a name that has one could not be turned off.
            if name.contains(&b'=') {
                return Err("a filter in the repository's settings has a name with `=`".into());
            }
            settings.extend(["-c".into(), os(&[name, b"=", value].concat())]);
        }
        Ok(settings)
    }

    /// Runs git with settings and arguments, and hands over what it says.
    fn ask(
        &self,
        settings: &[OsString],
        args: &[&str],
        deadline: &Deadline,
        take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, String> {
        let mut all: Vec<OsString> = vec!["-C".into(), self.root.into()];
        for setting in ["core.fsmonitor=false", "core.untrackedCache=false"] {
            all.extend(["-c".into(), setting.into()]);
        }
        if let Some(excludes) = self.excludes {
            let mut setting = OsString::from("core.excludesFile=");
            setting.push(excludes);
            all.extend(["-c".into(), setting]);
        }
        all.extend(settings.iter().cloned());
        all.push("--no-optional-locks".into());
        all.extend(args.iter().map(OsString::from));
        let stop = Stop::default();
        let until = Until {
            stop: &stop,
            deadline: Some(deadline),
        };
        let invocation = Invocation::new(self.program, &all);
        run(invocation, until, take).map_err(|error| error.to_string())
    }

    fn succeeded(&self, ended: &Ended) -> Result<(), String> {
        match (ended.interrupted, ended.exit) {
            (Some(_), _) => Err(format!(
                "it took longer than {:?}, or said too much",
                self.time
            )),
            (None, Some(Exit::Code(0))) => Ok(()),
            (None, _) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                Err(said.lines().next().unwrap_or("it failed").to_string())
            }
        }
    }
}

/// Returns the last part of a setting's name, which git writes in lower case.
fn last(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'.').next().unwrap_or(name)
}

fn os(bytes: &[u8]) -> OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        OsStr::from_bytes(bytes).to_os_string()
    }
    #[cfg(not(unix))]
    {
        let text: &OsStr = String::from_utf8_lossy(bytes).as_ref().as_ref();
        text.to_os_string()
    }
}

fn size(root: &Path, name: &[u8]) -> u64 {
    std::fs::symlink_metadata(root.join(os(name))).map_or(0, |meta| meta.len())
}
