//! Asks git about a working tree, read-only: is it dirty, and which files are untracked?
//! (`index::rules::git` reads git's ignore files without running it.)
//!
//! The `status` and `health` of a daemon report the answers. This module owns how git runs: with a
//! time limit, in exactly the given tree, and without changing it. The tree is not trusted, because
//! its `.git` may have come with it. So no program runs that the repository's configuration names:
//! filters, hooks, a file system monitor, a fetch. The user's own configuration is trusted, but
//! programs that it names are turned off too.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::exec::external::exit::Exit;
use crate::exec::process::{Invocation, Piece, RunEnd, StopConditions, run};
use crate::exec::stop::{Clock, Deadline, Stop};

/// The most untracked files that are counted.
const MOST: u64 = 10_000;

/// The most bytes of setting names, or of paths, that are read from git.
const SAID: usize = 1 << 20;

/// Settings of every git command. The last three are for versions of git that ignore
/// `GIT_NO_LAZY_FETCH`: a fetch that such a git starts fails at once.
const SETTINGS: [&str; 6] = [
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "protocol.allow=never",
    "fetch.bundleURI=",
    "transfer.bundleURI=false",
];

/// Environment variables of every git command. Git fetches no missing object, speaks no protocol
/// even where the repository allows one, and asks for no password.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Files that git neither tracks nor ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Untracked {
    /// The number of files.
    pub(crate) files: u64,
    /// The sum of their sizes.
    pub(crate) bytes: u64,
    /// Whether all such files were counted. If false, there are more.
    pub(crate) whole: bool,
}

/// A working tree, and how git is run in it.
pub(crate) struct Git<'a> {
    /// The path of the program `git`.
    pub(crate) program: &'a Path,
    /// The top directory of the working tree.
    pub(crate) root: &'a Path,
    /// The directory of the repository: `.git` itself, or the directory that a file `.git` points
    /// to.
    pub(crate) dir: &'a Path,
    /// The user's own file of ignore patterns (`core.excludesFile`).
    pub(crate) excludes: Option<&'a Path>,
    /// Environment variables with which git finds the user's own configuration.
    pub(crate) user: &'a [(OsString, OsString)],
    /// The time for one question, all of its git commands together.
    pub(crate) time: Duration,
    /// The clock that measures this time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Cancels a question when its caller no longer waits.
    pub(crate) stop: &'a Stop,
}

/// Settings that keep git from running filters.
#[derive(Debug, Default)]
struct FilterOverrides {
    /// Arguments such as `-c filter.lfs.clean=`.
    settings: Vec<OsString>,
    /// The names of the filters that these arguments turn off, such as `lfs`.
    filters: BTreeSet<Vec<u8>>,
}

/// The result of `git status`.
#[derive(Debug, Default)]
struct StatusOutcome {
    /// Whether something differs from the commit, regardless of filters.
    differs: bool,
    /// Paths of files that differ unless a filter makes them equal, each ended by a NUL.
    perhaps: Vec<u8>,
}

impl Git<'_> {
    /// Counts the files that git neither tracks nor ignores, up to [`MOST`].
    ///
    /// # Errors
    ///
    /// A message if git fails, exceeds the time limit, or would use another repository.
    pub(crate) fn untracked(&self) -> Result<Untracked, String> {
        let deadline = Deadline::after(self.time, self.clock.clone());
        let harmless = self.without_programs(&deadline)?;
        let mut found = Untracked {
            whole: true,
            ..Untracked::default()
        };
        let mut names = Parts::default();
        let args = ["ls-files", "-z", "--others", "--exclude-standard"];
        let ended = self.ask(&harmless.settings, &args, None, &deadline, &mut |piece| {
            names.take(piece.bytes, &mut |name| {
                found.files += 1;
                found.bytes += size(self.root, name);
                if found.files == MOST {
                    found.whole = false;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
        })?;
        match ended.interrupted {
            Some(_) if !found.whole => Ok(found),
            _ => self.succeeded(&ended).map(|()| found),
        }
    }

    /// Returns whether anything in the tree differs from the commit that is checked out: changed,
    /// staged, or untracked and not ignored. A submodule differs if it is at another commit.
    ///
    /// # Errors
    ///
    /// A message if git fails or exceeds the time limit. Also if the answer depends on the output
    /// of a filter, because filters are not run.
    pub(crate) fn is_dirty(&self) -> Result<bool, String> {
        let deadline = Deadline::after(self.time, self.clock.clone());
        let harmless = self.without_programs(&deadline)?;
        let found = self.compared(&harmless, &deadline)?;
        if found.differs || found.perhaps.is_empty() {
            return Ok(found.differs);
        }
        match self.any_unfiltered(&found.perhaps, &harmless, &deadline)? {
            true => Ok(true),
            false => Err(
                "files with git filters seem changed, and filters are not run to \
                 compare them"
                    .to_string(),
            ),
        }
    }

    /// Compares the tree with its commit. Stops at the first certain difference.
    fn compared(
        &self,
        harmless: &FilterOverrides,
        deadline: &Deadline,
    ) -> Result<StatusOutcome, String> {
        let args = [
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
            "--no-renames",
        ];
        let mut found = StatusOutcome::default();
        let mut entries = Parts::default();
        let mut too_many = false;
        let ended = self.ask(&harmless.settings, &args, None, deadline, &mut |piece| {
            entries.take(piece.bytes, &mut |entry| {
                // An entry is two letters, for index and working tree, then a space and the path.
                match entry.get(..3) {
                    Some(b" M ") if !harmless.filters.is_empty() => {
                        too_many |= found.perhaps.len() + entry.len() > SAID;
                        if !too_many {
                            found.perhaps.extend_from_slice(&entry[3..]);
                            found.perhaps.push(0);
                        }
                        ControlFlow::Continue(())
                    }
                    _ => {
                        found.differs = true;
                        ControlFlow::Break(())
                    }
                }
            })
        })?;
        match found.differs {
            true => Ok(found),
            false => self.succeeded(&ended).map(|()| found),
        }
    }

    /// Returns whether at least one of these files has no filter that was turned off.
    fn any_unfiltered(
        &self,
        paths: &[u8],
        harmless: &FilterOverrides,
        deadline: &Deadline,
    ) -> Result<bool, String> {
        let args = ["check-attr", "-z", "--stdin", "filter"];
        let mut any = false;
        let mut parts = Parts::default();
        let mut nth = 0;
        let input = Some(paths);
        let ended = self.ask(&harmless.settings, &args, input, deadline, &mut |piece| {
            parts.take(piece.bytes, &mut |part| {
                // Parts come in threes: a path, the attribute, its value.
                nth += 1;
                any |= nth % 3 == 0 && !harmless.filters.contains(part);
                match any {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })
        })?;
        match any {
            true => Ok(true),
            false => self.succeeded(&ended).map(|()| false),
        }
    }

    /// Checks that git uses the tree's own repository. Returns settings that turn off the programs
    /// that git would run while it compares files.
    fn without_programs(&self, deadline: &Deadline) -> Result<FilterOverrides, String> {
        let dir = self.read(&["rev-parse", "--absolute-git-dir"], deadline)?;
        let dir = os(dir.strip_suffix(b"\n").unwrap_or(&dir));
        let real = |path: &Path| path.canonicalize().map_err(|error| error.to_string());
        // With an empty or broken `.git`, git would use another repository, for example that of a
        // parent directory.
        if real(Path::new(&dir))? != real(self.dir)? {
            return Err("git uses another repository than the tree's".to_string());
        }
        let names = self.read(&["config", "--list", "--name-only", "-z"], deadline)?;
        let mut harmless = FilterOverrides::default();
        for name in names.split(|byte| *byte == 0) {
            let value: &[u8] = match (name.split(|byte| *byte == b'.').next(), last(name)) {
                (Some(b"filter"), b"clean" | b"smudge" | b"process") => b"",
                (Some(b"filter"), b"required") => b"false",
                (Some(b"protocol"), b"allow") => b"never",
                _ => continue,
            };
            // Git splits a `-c` argument at the first `=`, so a filter with `=` in its name could
            // not be turned off.
            if name.contains(&b'=') {
                return Err("git's settings have a filter with `=` in its name".into());
            }
            let setting = os(&[name, b"=", value].concat());
            harmless.settings.extend(["-c".into(), setting]);
            let driver = name.strip_prefix(b"filter.");
            let driver = driver.and_then(|rest| rest.strip_suffix(last(name))?.strip_suffix(b"."));
            harmless.filters.extend(driver.map(<[u8]>::to_vec));
        }
        Ok(harmless)
    }

    /// Returns the output of a git command, at most [`SAID`] bytes.
    fn read(&self, args: &[&str], deadline: &Deadline) -> Result<Vec<u8>, String> {
        let mut said = Vec::new();
        let ended = self.ask(&[], args, None, deadline, &mut |piece| {
            said.extend_from_slice(piece.bytes);
            match said.len() > SAID {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        self.succeeded(&ended).map(|()| said)
    }

    /// Runs git with settings and arguments, and hands its output to `take`.
    fn ask(
        &self,
        settings: &[OsString],
        args: &[&str],
        input: Option<&[u8]>,
        deadline: &Deadline,
        take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    ) -> Result<RunEnd, String> {
        let mut all: Vec<OsString> = vec!["-C".into(), self.root.into()];
        for setting in SETTINGS {
            all.extend(["-c".into(), setting.into()]);
        }
        if let Some(excludes) = self.excludes {
            let mut setting = OsString::from("core.excludesFile=");
            setting.push(excludes);
            all.extend(["-c".into(), setting]);
        }
        all.extend(settings.iter().cloned());
        all.push("--no-optional-locks".into());
        // Overrides `core.worktree` of the repository. The path of the repository is not given: git
        // checks its owner only if git finds the repository itself.
        all.extend(["--work-tree".into(), self.root.into()]);
        all.extend(args.iter().map(OsString::from));
        let mut environment = self.user.to_vec();
        let pair = |(name, value): (&str, &str)| (name.into(), value.into());
        environment.extend(ENVIRONMENT.map(pair));
        if let Some(above) = self.root.parent() {
            environment.push(("GIT_CEILING_DIRECTORIES".into(), above.into()));
        }
        let until = StopConditions {
            stop: self.stop,
            deadline: Some(deadline),
        };
        let invocation = Invocation {
            input,
            environment: &environment,
            ..Invocation::new(self.program, &all)
        };
        run(invocation, until, take).map_err(|error| error.to_string())
    }

    fn succeeded(&self, ended: &RunEnd) -> Result<(), String> {
        match (ended.interrupted, ended.exit) {
            (Some(_), _) => Err(format!(
                "git took longer than {:?}, or printed too much",
                self.time
            )),
            (None, Some(Exit::Code(0))) => Ok(()),
            (None, _) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                Err(said.lines().next().unwrap_or("git failed").to_string())
            }
        }
    }
}

/// Joins parts that end with NUL and may be split between pieces of output.
#[derive(Debug, Default)]
struct Parts {
    begun: Vec<u8>,
}

impl Parts {
    /// Calls `each` for every part that is complete.
    fn take(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(0, rest) {
            self.begun.extend_from_slice(&rest[..end]);
            let part = std::mem::take(&mut self.begun);
            each(&part)?;
            rest = &rest[end + 1..];
        }
        self.begun.extend_from_slice(rest);
        ControlFlow::Continue(())
    }
}

/// Returns the last component of a setting's name. Git writes it in lower case.
fn last(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'.').next().unwrap_or(name)
}

fn os(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_os_string()
}

fn size(root: &Path, name: &[u8]) -> u64 {
    std::fs::symlink_metadata(root.join(os(name))).map_or(0, |meta| meta.len())
}
