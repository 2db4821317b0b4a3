//! `forge-search setup rg`: a link named `rg` to this program.
//!
//! This module guarantees that no other program is replaced or removed: a file of that name stays,
//! unless it is a link to this program, or a link to a program `forge-search` that is gone.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Environment, Failure, NAME, SetupTargetArgs};
use super::{cached_by, installed, is_same_file, own_program};
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;

/// The directories of a user's own programs, below the home directory. The first is created if
/// `PATH` has none of them.
const OWN_DIRS: [&str; 3] = [".local/bin", "bin", ".cargo/bin"];

/// How clients find their ripgrep. `{link}` is the path of the link.
const USERS: &str = "\
Who uses it:
  shells, scripts, Vim, Neovim, Emacs, fzf, crush, opencode
      the first rg in PATH; nothing more to do
  Claude Code
      the first rg in PATH with {\"env\": {\"USE_BUILTIN_RIPGREP\": \"0\"}} in ~/.claude/settings.json;
      else its own
  Codex
      the first rg in PATH; the package of npm puts its own first
  Todo Tree for VS Code
      \"todo-tree.ripgrep.ripgrep\": \"{link}\" in the settings
  VS Code, Cline, Roo Code, Gemini CLI
      their own, without a setting: replace the file `rg` of the installation by a link, after each
      update again
";

/// Returns the file name of the link.
pub(super) fn file_name() -> String {
    format!("rg{}", std::env::consts::EXE_SUFFIX)
}

/// Returns the files of a name in the directories of `PATH`, in order.
pub(super) fn in_path<'a>(
    name: &'a str,
    environment: &'a Environment,
) -> impl Iterator<Item = PathBuf> + 'a {
    dirs(environment)
        .map(move |dir| dir.join(name))
        .filter(|path| path.is_file())
}

fn dirs(environment: &Environment) -> impl Iterator<Item = PathBuf> + '_ {
    let path = environment.path.iter();
    let dirs = path.flat_map(|path| std::env::split_paths(path).collect::<Vec<_>>());
    dirs.filter(|dir| dir.is_absolute())
}

/// The file at the place of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// There is no file.
    Free,
    /// A link to this program.
    Ours,
    /// A link to a program of this name that is gone.
    Gone,
    /// Any other file.
    Other,
}

impl Place {
    fn of(link: &Path, own: &Path) -> Place {
        if link.symlink_metadata().is_err() {
            return Place::Free;
        }
        let Ok(target) = link.read_link() else {
            return Place::Other;
        };
        let is_named = target.file_stem().is_some_and(|name| name == NAME);
        match link.canonicalize() {
            Ok(_) if is_same_file(link, own) => Place::Ours,
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_named => Place::Gone,
            _ => Place::Other,
        }
    }
}

/// Shows, makes or removes the link.
pub(super) fn run(
    args: &SetupTargetArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<u8, Failure> {
    let own = own_program()?;
    let dir = link_dir(args, environment)?;
    let link = dir.join(file_name());
    let shown = escape_controls(&link.display().to_string()).into_owned();
    let place = Place::of(&link, &own);
    let failed = |error: io::Error| ToolError::bad_args(format!("{}: {error}", link.display()));
    if place == Place::Other {
        let advice = match args.undo {
            true => "name the directory of the link with --dir",
            false => "name another directory with --dir, one that comes earlier in PATH",
        };
        let link = link.display();
        let message = format!("{link} is another program, which stays; {advice}");
        return Err(ToolError::bad_args(message).into());
    }
    if args.undo {
        if place == Place::Free {
            writeln!(out, "{shown} does not exist; nothing to undo")?;
        } else {
            std::fs::remove_file(&link).map_err(failed)?;
            writeln!(out, "The link {shown} was removed.")?;
        }
        return Ok(0);
    }
    if place == Place::Ours {
        writeln!(out, "{shown} leads to this program; nothing to do")?;
    } else {
        if let Some(starter) = cached_by(&own) {
            let cache = starter.first().unwrap_or(&NAME);
            return Err(ToolError::bad_args(format!(
                "this copy of the program is in the cache of {cache}, which may be cleared at any \
                 time; install it first, and run the installed program"
            ))
            .into());
        }
        let target = installed(&own, environment);
        if place == Place::Gone {
            let former = link.read_link().map_err(failed)?;
            write_link('-', &link, &former, out)?;
        }
        write_link('+', &link, &target, out)?;
        if args.write {
            std::fs::create_dir_all(&dir).map_err(failed)?;
            if place == Place::Gone {
                std::fs::remove_file(&link).map_err(failed)?;
            }
            make_link(&target, &link).map_err(failed)?;
            writeln!(out, "The link was made.")?;
        } else {
            writeln!(out, "Nothing was written. --write makes the link.")?;
        }
    }
    write_order(&dir, environment, out)?;
    write!(out, "{}", USERS.replace("{link}", &shown))?;
    Ok(0)
}

fn write_link(mark: char, link: &Path, target: &Path, out: &mut dyn Write) -> io::Result<()> {
    let line = format!("{} -> {}", link.display(), target.display());
    writeln!(out, "{mark} {}", escape_controls(&line))
}

/// Says which directories come before that of the link.
fn write_order(dir: &Path, environment: &Environment, out: &mut dyn Write) -> io::Result<()> {
    let dir_shown = dir.display().to_string();
    let dir_shown = escape_controls(&dir_shown);
    if !dirs(environment).any(|each| each == dir) {
        return writeln!(
            out,
            "{dir_shown} is not in PATH: put it first, for example with export PATH=\"{dir_shown}:$PATH\""
        );
    }
    let earlier = dirs(environment).take_while(|each| each != dir);
    let mut earlier = earlier.map(|each| each.join(file_name()));
    match earlier.find(|path| path.is_file()) {
        Some(path) => {
            let path = path.display().to_string();
            writeln!(
                out,
                "{} comes earlier in PATH and is used instead",
                escape_controls(&path)
            )
        }
        None => Ok(()),
    }
}

/// Returns the directory of the link: that of `--dir`, or the user's own first one in `PATH`.
fn link_dir(args: &SetupTargetArgs, environment: &Environment) -> Result<PathBuf, ToolError> {
    if let Some(dir) = &args.dir {
        return Ok(match &environment.working_dir {
            Ok(working_dir) => working_dir.join(dir),
            Err(_) => dir.clone(),
        });
    }
    let home = environment.home.as_ref().ok_or_else(|| {
        ToolError::bad_args("the home directory is unknown; name a directory with --dir")
    })?;
    let own = OWN_DIRS.map(|dir| home.join(dir));
    let mut in_path = dirs(environment);
    let [first, ..] = &own;
    Ok(in_path
        .find(|dir| own.contains(dir))
        .unwrap_or_else(|| first.clone()))
}

#[cfg(unix)]
fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}
