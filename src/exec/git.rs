//! What git says of a working tree.
//!
//! Owns how git is asked: for a bounded time, about no other tree than the one that is meant, without any change of it, and without
//! running anything that a repository's configuration names. A tree is not trusted: what is in its `.git` may have come with it. The
//! user's own configuration is, but what it has git run is turned off all the same.

use std::collections::BTreeSet;
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

/// Bytes of names of settings, or of paths, that are read.
const SAID: usize = 1 << 20;

/// Settings that hold for every question. The last ones matter to a git that does not know the environment variable which keeps it from
/// fetching: with them, what it begins comes to nothing.
const SETTINGS: [&str; 6] = [
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "protocol.allow=never",
    "fetch.bundleURI=",
    "transfer.bundleURI=false",
];

/// Environment variables of every question: objects that are missing stay so, no protocol may be spoken whatever the repository allows, and
/// nobody is asked for a password.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

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
    /// The directory of its repository: what its `.git` is, or points to.
    pub(crate) dir: &'a Path,
    /// The user's own file of what is to be ignored.
    pub(crate) excludes: Option<&'a Path>,
    /// Environment variables that lead git to the user's own configuration.
    pub(crate) user: &'a [(OsString, OsString)],
    /// How long one question may take altogether.
    pub(crate) time: Duration,
    /// What tells the time.
    pub(crate) clock: Arc<dyn Clock>,
    /// What ends a question that nobody waits for any more.
    pub(crate) stop: &'a Stop,
}

/// What was turned off for a question.
#[derive(Debug, Default)]
struct Harmless {
    /// As arguments.
    settings: Vec<OsString>,
    /// The names of filters among it.
    filters: BTreeSet<Vec<u8>>,
}

/// What git says of a tree beside its commit.
#[derive(Debug, Default)]
struct Compared {
    /// Something differs, whatever filters do.
    differs: bool,
    /// Files that differ unless a filter makes them equal, each ended by a NUL.
    perhaps: Vec<u8>,
}

impl Git<'_> {
    /// Counts the files that git neither knows nor ignores; stops at [`MOST`].
    ///
    /// # Errors
    ///
    /// What went wrong.
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

    /// Returns whether anything in the tree is not as in the commit that is checked out: changed, staged, or not known
    /// to git and not ignored. Submodules count by the commit that they are at.
    ///
    /// # Errors
    ///
    /// What went wrong; also where that depends on what a filter would do, which is not run.
    pub(crate) fn is_dirty(&self) -> Result<bool, String> {
        let deadline = Deadline::after(self.time, self.clock.clone());
        let harmless = self.without_programs(&deadline)?;
        let found = self.compared(&harmless, &deadline)?;
        if found.differs || found.perhaps.is_empty() {
            return Ok(found.differs);
        }
        match self.any_unfiltered(&found.perhaps, &harmless, &deadline)? {
            true => Ok(true),
            false => Err("files differ to which filters belong, and these are not run".to_string()),
        }
    }

    /// Compares the tree with its commit, until something differs for certain.
    fn compared(&self, harmless: &Harmless, deadline: &Deadline) -> Result<Compared, String> {
        let args = [
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
            "--no-renames",
        ];
        let mut found = Compared::default();
        let mut entries = Parts::default();
        let mut too_many = false;
        let ended = self.ask(&harmless.settings, &args, None, deadline, &mut |piece| {
            entries.take(piece.bytes, &mut |entry| {
                // The letters of index and working tree, and a space before the path.
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

    /// Returns whether there is any of these files to which no filter belongs that was turned off.
    fn any_unfiltered(
        &self,
        paths: &[u8],
        harmless: &Harmless,
        deadline: &Deadline,
    ) -> Result<bool, String> {
        let args = ["check-attr", "-z", "--stdin", "filter"];
        let mut any = false;
        let mut parts = Parts::default();
        let mut nth = 0;
        let input = Some(paths);
        let ended = self.ask(&harmless.settings, &args, input, deadline, &mut |piece| {
            parts.take(piece.bytes, &mut |part| {
                // A path, the attribute, its value.
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

    /// Makes sure that git takes the repository for the tree's that is; returns settings that turn off what settings would have git run
    /// while it compares files.
    fn without_programs(&self, deadline: &Deadline) -> Result<Harmless, String> {
        let dir = self.read(&["rev-parse", "--absolute-git-dir"], deadline)?;
        let dir = os(dir.strip_suffix(b"\n").unwrap_or(&dir));
        let real = |path: &Path| path.canonicalize().map_err(|error| error.to_string());
        // An empty `.git`, or one that git can't use, would have it take another one, such as the tree itself.
        if real(Path::new(&dir))? != real(self.dir)? {
            return Err("git takes another repository for that of the tree".to_string());
        }
        let names = self.read(&["config", "--list", "--name-only", "-z"], deadline)?;
        let mut harmless = Harmless::default();
        for name in names.split(|byte| *byte == 0) {
            let value: &[u8] = match (name.split(|byte| *byte == b'.').next(), last(name)) {
                (Some(b"filter"), b"clean" | b"smudge" | b"process") => b"",
                (Some(b"filter"), b"required") => b"false",
                (Some(b"protocol"), b"allow") => b"never",
                _ => continue,
            };
            // Git takes what is before the first `=` for the name, so a name that has one could not be turned off.
            if name.contains(&b'=') {
                return Err("a filter in git's settings has a name with `=`".into());
            }
            let setting = os(&[name, b"=", value].concat());
            harmless.settings.extend(["-c".into(), setting]);
            let driver = name.strip_prefix(b"filter.");
            let driver = driver.and_then(|rest| rest.strip_suffix(last(name))?.strip_suffix(b"."));
            harmless.filters.extend(driver.map(<[u8]>::to_vec));
        }
        Ok(harmless)
    }

    /// Returns what git says, if that is not much.
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

    /// Runs git with settings and arguments, and hands over what it says.
    fn ask(
        &self,
        settings: &[OsString],
        args: &[&str],
        input: Option<&[u8]>,
        deadline: &Deadline,
        take: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, String> {
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
        // Whatever the repository says of where its tree is. The repository itself is found by git, which looks whose it is then.
        all.extend(["--work-tree".into(), self.root.into()]);
        all.extend(args.iter().map(OsString::from));
        let mut environment = self.user.to_vec();
        let pair = |(name, value): (&str, &str)| (name.into(), value.into());
        environment.extend(ENVIRONMENT.map(pair));
        if let Some(above) = self.root.parent() {
            environment.push(("GIT_CEILING_DIRECTORIES".into(), above.into()));
        }
        let until = Until {
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

/// Puts together what is separated by NULs and comes in pieces.
#[derive(Debug, Default)]
struct Parts {
    begun: Vec<u8>,
}

impl Parts {
    /// Hands over each part that has come to its end.
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
