//! Detection of the external search programs ripgrep and ugrep, and of their versions.
//!
//! This module defines which program is usable: its name, the directories to search, the expected
//! output of `--version`, and the oldest version. This module reads no configuration and no
//! environment: the caller passes the configured name and the search path.

use std::ffi::OsStr;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use grep_matcher::{Captures, Matcher};
use grep_regex::RegexMatcher;

use crate::exec::external::exit::Exit;
use crate::exec::process::{self, Interruption, Invocation, StopConditions, arguments};
use crate::exec::stop::{Clock, Deadline, Stop};

/// The longest time that `--version` may take.
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The most bytes of output of `--version` that are kept.
const ANSWER_LIMIT: usize = 4096;

/// An external search program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// ripgrep, the program `rg`.
    Ripgrep,
    /// ugrep, the program `ugrep` (never `ug`, which reads configuration files).
    Ugrep,
}

impl Tool {
    /// Returns the name of the program. Configurations use the same name for the engine.
    pub fn program(self) -> &'static str {
        match self {
            Tool::Ripgrep => "rg",
            Tool::Ugrep => "ugrep",
        }
    }

    /// Returns the oldest version that is supported.
    pub fn oldest(self) -> Version {
        match self {
            Tool::Ripgrep => Version::new(13, 0, 0),
            Tool::Ugrep => Version::new(3, 0, 0),
        }
    }

    /// The expression for the first line of `--version`. It is anchored, so that another program
    /// that only mentions the name does not match.
    fn version_expression(self) -> &'static str {
        match self {
            Tool::Ripgrep => r"\Aripgrep\s+([0-9]+)\.([0-9]+)(?:\.([0-9]+))?",
            Tool::Ugrep => r"\Augrep\s+([0-9]+)\.([0-9]+)(?:\.([0-9]+))?",
        }
    }

    /// Parses the version in the first line of `--version`.
    fn parse(self, line: &str) -> Option<Version> {
        // The expressions are constants, so compiling them does not fail.
        let expression = RegexMatcher::new_line_matcher(self.version_expression()).ok()?;
        let mut captures = expression.new_captures().ok()?;
        if !expression.captures(line.as_bytes(), &mut captures).ok()? {
            return None;
        }
        let part = |n: usize| {
            captures
                .get(n)
                .map(|found| line.get(found.start()..found.end()).unwrap_or_default())
        };
        Some(Version {
            major: part(1)?.parse().ok()?,
            minor: part(2)?.parse().ok()?,
            patch: match part(3) {
                Some(patch) => patch.parse().ok()?,
                None => 0,
            },
        })
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Ripgrep => "ripgrep",
            Tool::Ugrep => "ugrep",
        })
    }
}

/// A version, compared number by number; a missing patch level is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
}

impl Version {
    /// Creates a version.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Version {
        Version {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A program that was found and has a supported version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// Which program it is.
    pub tool: Tool,
    /// The absolute path of the program.
    pub path: PathBuf,
    /// The version that the program printed.
    pub version: Version,
}

/// Why a program can't be used. Each message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetectError {
    /// No file of this name was found.
    #[error("{program} was not found {place}; install {tool} {} or later, or configure the path of its program", tool.oldest())]
    Missing {
        /// The program that is looked for.
        tool: Tool,
        /// The configured name or path.
        program: String,
        /// Where the program was looked for, as words in the message.
        place: &'static str,
    },
    /// The file that was found is not executable.
    #[error("{} is not an executable file; configure the path of {tool}'s program", path.display())]
    NotExecutable {
        /// The program that is looked for.
        tool: Tool,
        /// The file that was found.
        path: PathBuf,
    },
    /// The program could not be run, or `--version` failed.
    #[error("{} did not print its version: {reason}; reinstall {tool}, or configure the path of \
         another program", path.display())]
    Broken {
        /// The program that is looked for.
        tool: Tool,
        /// The file that was found.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The output of `--version` is not that of this program.
    #[error("{} is not {tool}: it printed {said:?}; configure the path of {tool}'s program", path.display())]
    NotRecognised {
        /// The program that is looked for.
        tool: Tool,
        /// The file that was found.
        path: PathBuf,
        /// The first line of the output, shortened.
        said: String,
    },
    /// The program is older than [`Tool::oldest`].
    #[error("{} is {tool} {found}, which is too old; install {} or later", path.display(), tool.oldest())]
    TooOld {
        /// The program that is looked for.
        tool: Tool,
        /// The file that was found.
        path: PathBuf,
        /// The version of the program.
        found: Version,
    },
    /// The program did not end within [`VERSION_TIMEOUT`].
    #[error("{} did not print its version within {} s; check that the program starts, or configure \
         another program", path.display(), VERSION_TIMEOUT.as_secs())]
    TimedOut {
        /// The program that is looked for.
        tool: Tool,
        /// The file that was found.
        path: PathBuf,
    },
}

/// The directories in which programs are looked for.
#[derive(Clone, Copy, Debug)]
pub struct SearchPath<'a> {
    /// Directories in the form of the variable `PATH`. Entries that are not absolute are skipped,
    /// because their meaning would depend on the working directory.
    pub path: Option<&'a OsStr>,
    /// The base of a configured relative path with more than one component.
    pub working_dir: &'a Path,
}

impl SearchPath<'_> {
    /// Finds an executable file of this name in the absolute directories of [`SearchPath::path`].
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let dirs = self.path.iter().flat_map(std::env::split_paths);
        dirs.filter(|dir| dir.is_absolute())
            .map(|dir| {
                dir.join(name)
                    .with_added_extension(std::env::consts::EXE_EXTENSION)
            })
            .find(|path| is_executable(path))
    }
}

/// Finds a program and reads its version. `configured` is a name, which is looked for on the search
/// path, or a path. Starts the program once and waits up to [`VERSION_TIMEOUT`] for it.
///
/// # Errors
///
/// [`DetectError`] if the program is missing, can't be run, is too slow, is another program, or is
/// too old.
pub fn detect(
    tool: Tool,
    configured: &Path,
    search: SearchPath<'_>,
    clock: Arc<dyn Clock>,
) -> Result<Detected, DetectError> {
    let path = find(tool, configured, search)?;
    let deadline = Deadline::after(VERSION_TIMEOUT, clock);
    let (line, exit) = first_line(tool, &path, &deadline)?;
    if exit != Exit::Code(0) {
        return Err(DetectError::Broken {
            tool,
            path,
            reason: format!("it ended with {exit}"),
        });
    }
    let Some(version) = tool.parse(&line) else {
        let said = line.chars().take(80).collect();
        return Err(DetectError::NotRecognised { tool, path, said });
    };
    if version < tool.oldest() {
        return Err(DetectError::TooOld {
            tool,
            path,
            found: version,
        });
    }
    Ok(Detected {
        tool,
        path,
        version,
    })
}

/// Resolves a configured name or path to an executable file.
fn find(tool: Tool, configured: &Path, search: SearchPath<'_>) -> Result<PathBuf, DetectError> {
    let missing = |place| DetectError::Missing {
        tool,
        program: configured.display().to_string(),
        place,
    };
    if configured.components().count() != 1 || configured.is_absolute() {
        let path = search.working_dir.join(configured);
        if !path.exists() {
            return Err(missing("at that place"));
        }
        if !is_executable(&path) {
            return Err(DetectError::NotExecutable { tool, path });
        }
        return Ok(path);
    }
    let mut unusable = None;
    for directory in search.path.iter().flat_map(std::env::split_paths) {
        if !directory.is_absolute() {
            continue;
        }
        let path = directory
            .join(configured)
            .with_added_extension(std::env::consts::EXE_EXTENSION);
        if is_executable(&path) {
            return Ok(path);
        }
        if path.is_file() && unusable.is_none() {
            unusable = Some(path);
        }
    }
    match unusable {
        Some(path) => Err(DetectError::NotExecutable { tool, path }),
        None => Err(missing("on the search path")),
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Runs the program with `--version` and returns the first line of its output.
fn first_line(tool: Tool, path: &Path, deadline: &Deadline) -> Result<(String, Exit), DetectError> {
    let broken = |reason: String| DetectError::Broken {
        tool,
        path: path.to_path_buf(),
        reason,
    };
    let args = arguments(["--version"]);
    let invocation = Invocation::new(path, &args);
    let until = StopConditions {
        stop: &Stop::new(),
        deadline: Some(deadline),
    };
    let mut answer = Vec::new();
    let ended = process::run(invocation, until, &mut |piece| {
        let room = ANSWER_LIMIT - answer.len();
        answer.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        ControlFlow::Continue(())
    })
    .map_err(|error| broken(error.to_string()))?;
    if ended.interrupted == Some(Interruption::TimedOut) {
        return Err(DetectError::TimedOut {
            tool,
            path: path.to_path_buf(),
        });
    }
    let Some(exit) = ended.exit else {
        return Err(broken("waiting for it failed".to_string()));
    };
    let answer = String::from_utf8_lossy(&answer);
    Ok((answer.lines().next().unwrap_or_default().to_string(), exit))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::exec::process::tests::write_script;
    use crate::exec::stop::SystemClock;

    /// Creates a directory with one program in it.
    fn program(name: &str, script: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        write_script(&path, script);
        dir
    }

    fn on_path(tool: Tool, path: &OsStr) -> Result<Detected, DetectError> {
        let search = SearchPath {
            path: Some(path),
            working_dir: Path::new("/"),
        };
        detect(
            tool,
            Path::new(tool.program()),
            search,
            Arc::new(SystemClock),
        )
    }

    fn run_version(tool: Tool, script: &str) -> Result<Version, DetectError> {
        let dir = program(tool.program(), script);
        on_path(tool, dir.path().as_os_str()).map(|detected| detected.version)
    }

    #[test]
    fn versions_of_programs_are_parsed_and_compared() {
        use Tool::{Ripgrep, Ugrep};
        for (tool, line, version) in [
            (Ripgrep, "ripgrep 13.0.0", (13, 0, 0)),
            (Ripgrep, "ripgrep 15.2.0 (rev e89fff89ac)", (15, 2, 0)),
            (Ripgrep, "ripgrep 14.1", (14, 1, 0)),
            (Ripgrep, "ripgrep   100.0.7-beta.1", (100, 0, 7)),
            (Ugrep, "ugrep 3.11.2 x86_64-pc-linux-gnu +sse2", (3, 11, 2)),
            (Ugrep, "ugrep 7.8 extra", (7, 8, 0)),
            (Ugrep, "ugrep 3.0.0", (3, 0, 0)),
        ] {
            let (major, minor, patch) = version;
            let found = run_version(tool, &format!("echo '{line}'; echo 'ripgrep 1.0.0'"));
            assert_eq!(found, Ok(Version::new(major, minor, patch)), "{line}");
        }
    }

    #[test]
    fn old_versions_are_refused_number_by_number() {
        for (tool, line) in [
            (Tool::Ripgrep, "ripgrep 12.99.99"),
            (Tool::Ripgrep, "ripgrep 9.0.0"),
            (Tool::Ugrep, "ugrep 2.13.0"),
        ] {
            let error = run_version(tool, &format!("echo '{line}'")).unwrap_err();
            assert!(matches!(error, DetectError::TooOld { .. }), "{error:?}");
            let message = error.to_string();
            let oldest = tool.oldest().to_string();
            assert!(
                message.contains("too old") && message.contains(&oldest),
                "{message}"
            );
        }
    }

    #[test]
    fn what_is_not_the_program_is_not_recognised() {
        for script in [
            "echo 'not ripgrep 13.0.0'",
            "echo; echo 'ripgrep 13.0.0'",
            "echo 'ripgrep thirteen'",
            "echo 'ripgrep 13'",
            "echo 'ugrep 7.0.0'",
            "echo 'ripgrep 13.0.0' >&2",
            "echo 'ripgrep 99999999999999999999.0.0'",
            "printf '\\377\\376\\n'",
            "true",
            "head -c 1000000 /dev/zero",
        ] {
            let error = run_version(Tool::Ripgrep, script).unwrap_err();
            assert!(
                matches!(error, DetectError::NotRecognised { .. }),
                "{script}: {error:?}"
            );
        }
    }

    #[test]
    fn a_program_that_fails_is_broken() {
        for (script, word) in [
            ("echo 'ripgrep 13.0.0'; exit 2", "exit code 2"),
            ("echo 'ripgrep 13.0.0'; kill -ABRT $$", "signal 6"),
        ] {
            let error = run_version(Tool::Ripgrep, script).unwrap_err();
            assert!(matches!(error, DetectError::Broken { .. }), "{error:?}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let error = run_version(Tool::Ugrep, "echo 'ugrep 7.0.0'; sleep 1000").unwrap_err();
        assert!(matches!(error, DetectError::TimedOut { .. }), "{error:?}");
    }

    #[test]
    fn programs_are_looked_for_where_it_was_said() {
        let good = program("rg", "echo 'ripgrep 14.0.0'");
        let bad = program("rg", "echo 'ripgrep 14.0.0'");
        fs::set_permissions(bad.path().join("rg"), fs::Permissions::from_mode(0o644)).unwrap();
        let empty = tempfile::tempdir().unwrap();

        let all = std::env::join_paths([empty.path(), bad.path(), good.path()]).unwrap();
        assert_eq!(
            on_path(Tool::Ripgrep, &all).unwrap().path,
            good.path().join("rg")
        );
        let some = std::env::join_paths([empty.path(), bad.path()]).unwrap();
        assert!(matches!(
            on_path(Tool::Ripgrep, &some),
            Err(DetectError::NotExecutable { .. })
        ));
        let error = on_path(Tool::Ripgrep, empty.path().as_os_str()).unwrap_err();
        assert!(
            matches!(error, DetectError::Missing { .. }) && error.to_string().contains("install"),
            "{error}"
        );
        // The meaning of these entries depends on the working directory of this process.
        for relative in ["", ".", ":", "bin"] {
            assert!(matches!(
                on_path(Tool::Ripgrep, OsStr::new(relative)),
                Err(DetectError::Missing { .. })
            ));
        }

        let detect_at = |configured: &str| {
            let search = SearchPath {
                path: None,
                working_dir: good.path(),
            };
            let clock = Arc::new(SystemClock);
            detect(Tool::Ripgrep, Path::new(configured), search, clock)
        };
        let absolute = good.path().join("rg");
        assert_eq!(
            detect_at(absolute.to_str().unwrap()).unwrap().path,
            absolute
        );
        assert!(detect_at("./rg").is_ok());
        assert!(matches!(detect_at("rg"), Err(DetectError::Missing { .. })));
        assert!(matches!(
            detect_at("./none"),
            Err(DetectError::Missing { .. })
        ));
        assert!(matches!(
            detect_at("/"),
            Err(DetectError::NotExecutable { .. })
        ));
    }
}
