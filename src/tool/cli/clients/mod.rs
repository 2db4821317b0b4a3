//! `forge-search setup`: registers this program with coding agents and editors.
//!
//! Owns the change of a client's configuration: one entry, shown as a difference, written with
//! `--write`, removed with `--undo`. [`table`] lists the clients, `edit` changes a text, `file`
//! reads and replaces a file. [`rg`] makes the link that stands in for ripgrep. Other entries,
//! comments and the layout of a file stay as they are.

mod edit;
mod file;
mod rg;
mod table;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::{SetupTarget, SetupTargetArgs};
use super::left_out;
use super::setup::Environment;
use super::{FAILED, Failure};
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;
use edit::{Entry, Field};
use file::ClientFile;
use table::{CLIENTS, Client};

/// The name of the entry in the configuration of each client.
const NAME: &str = "forge-search";

/// The file with instructions for all agents of a project.
const AGENTS_FILE: &str = "AGENTS.md";

/// The number of unchanged lines around a shown change.
const CONTEXT: usize = 2;

/// Runs `forge-search setup`.
pub(super) fn run(args: &SetupTargetArgs, environment: &Environment) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match args.target {
        SetupTarget::Rg => rg::run(args, environment, &mut out),
        SetupTarget::AgentsMd => {
            let path = tree(args, environment)?.join(AGENTS_FILE);
            let change = Change {
                title: "instructions for agents",
                path,
                entry: Entry::Paragraph(include_str!("agents.md")),
            };
            change.run(args, &mut out)
        }
        target => {
            let client = table::of(target)
                .ok_or_else(|| ToolError::bad_args("this client is not in the table"))?;
            if let Some(why) = left_out::reason("mcp") {
                super::complain(&format!("`mcp` {why}; {} can't start it", client.title));
                return Ok(FAILED);
            }
            register(client, args, environment)?.run(args, &mut out)
        }
    }
}

/// Returns the directory that project files belong to.
fn tree(args: &SetupTargetArgs, environment: &Environment) -> Result<PathBuf, ToolError> {
    let Some(root) = &args.root else {
        return environment.working_dir.clone();
    };
    let root = match &environment.working_dir {
        Ok(dir) => dir.join(root),
        Err(_) => root.clone(),
    };
    root.canonicalize().map_err(|error| {
        let root = root.display();
        ToolError::bad_args(format!(
            "--root {root}: {error}; name an existing directory"
        ))
    })
}

/// Returns the change that registers this program with a client.
fn register(
    client: &'static Client,
    args: &SetupTargetArgs,
    environment: &Environment,
) -> Result<Change, ToolError> {
    let at_home = !client.starts_in_tree && args.root.is_none();
    let in_project = args.project || (at_home && client.project.is_some());
    let path = if in_project {
        let name = client.project.ok_or_else(|| {
            ToolError::bad_args(format!(
                "{} has no configuration for one project; leave out --project",
                client.title
            ))
        })?;
        Some(client.existing(tree(args, environment)?.join(name)))
    } else {
        if at_home && !args.undo {
            return Err(ToolError::bad_args(format!(
                "{} starts servers outside of any tree; name the tree to search with --root DIR",
                client.title
            )));
        }
        client.user_file(environment)
    };
    let path = path.ok_or_else(|| {
        ToolError::bad_args(
            "the home directory is unknown; set HOME, or use --project for the file of this tree",
        )
    })?;
    let mut command = if in_project {
        vec![NAME.to_string()]
    } else {
        program(environment)?
    };
    command.push("mcp".to_string());
    let root = match (&args.root, client.root_variable) {
        (Some(_), _) if !in_project => Some(tree(args, environment)?.display().to_string()),
        (_, Some(variable)) => Some(variable.to_string()),
        _ => None,
    };
    if let Some(root) = root {
        command.extend(["--root".to_string(), root]);
    }
    Ok(Change {
        title: client.title,
        path,
        entry: client.entry(command),
    })
}

/// Returns the command that starts this program from any directory. A copy in the cache of `npx` or
/// `uvx` may be removed at any time, so these two start it again.
fn program(environment: &Environment) -> Result<Vec<String>, ToolError> {
    let own = own_program()?;
    let is_below = |name: &str| own.components().any(|part| part.as_os_str() == name);
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    if is_below("_npx") {
        return Ok(words(&["npx", "-y", NAME]));
    }
    if is_below("uv") && is_below("archive-v0") {
        return Ok(words(&["uvx", NAME]));
    }
    Ok(vec![installed(&own, environment).display().to_string()])
}

/// Returns the file of this program.
fn own_program() -> Result<PathBuf, ToolError> {
    std::env::current_exe().map_err(|error| {
        ToolError::bad_args(format!("the path of this program is unknown: {error}"))
    })
}

/// Returns the name in `PATH` under which the program `own` is installed, or `own` itself. A
/// package manager keeps that name when it installs another version.
fn installed(own: &Path, environment: &Environment) -> PathBuf {
    let name = format!("{NAME}{}", std::env::consts::EXE_SUFFIX);
    let found = rg::in_path(&name, environment).find(|path| is_same_file(path, own));
    found.unwrap_or_else(|| own.to_path_buf())
}

/// Returns true if two paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// One entry that belongs into one file.
struct Change {
    /// The name of the client.
    title: &'static str,
    path: PathBuf,
    entry: Entry,
}

impl Change {
    /// Shows the change, makes it, or takes it back.
    fn run(&self, args: &SetupTargetArgs, out: &mut dyn Write) -> Result<u8, Failure> {
        let file = ClientFile::read(&self.path)?;
        let shown = escape_controls(&file.path.display().to_string()).into_owned();
        let failed = |why: String| {
            ToolError::bad_args(format!(
                "{}: {why}; nothing was changed. Correct the file, and run the command again",
                file.path.display()
            ))
        };
        let old = file.text.as_deref();
        let set = |text: Option<&str>| self.entry.set(text.unwrap_or_default());
        let title = self.title;
        if args.undo {
            let Some(old) = old else {
                writeln!(out, "{title}: {shown} does not exist; nothing to undo")?;
                return Ok(0);
            };
            let Some(removed) = self.entry.remove(old).map_err(failed)? else {
                writeln!(out, "{title}: {shown} has no entry; nothing to undo")?;
                return Ok(0);
            };
            let backup = file.backup_text();
            // The layout may differ after set and remove. The file before the change is better.
            let is_original = set(backup.as_deref()).is_ok_and(|text| text == old);
            let new = match is_original {
                true => backup.clone(),
                false => Some(removed),
            };
            writeln!(out, "{title}: {shown}")?;
            write_difference(old, new.as_deref().unwrap_or_default(), out)?;
            file.replace(new.as_deref())?;
            writeln!(out, "The entry was removed.")?;
            if backup.is_some() {
                if is_original {
                    file.remove_backup()?;
                } else {
                    writeln!(
                        out,
                        "{shown}{} stays: the file was edited since",
                        file::BACKUP
                    )?;
                }
            }
            return Ok(0);
        }
        let new = set(old).map_err(failed)?;
        if old == Some(new.as_str()) {
            writeln!(out, "{title}: {shown} has the entry; nothing to do")?;
            return Ok(0);
        }
        let is_new = if old.is_none() { " (a new file)" } else { "" };
        writeln!(out, "{title}: {shown}{is_new}")?;
        write_difference(old.unwrap_or_default(), &new, out)?;
        if args.write {
            let backup = file.back_up()?;
            file.replace(Some(&new))?;
            writeln!(out, "The entry was written.")?;
            if let Some(backup) = backup {
                let backup = backup.display().to_string();
                writeln!(out, "The file before it: {}", escape_controls(&backup))?;
            }
        } else {
            writeln!(out, "Nothing was written. --write writes it.")?;
        }
        Ok(0)
    }
}

/// Writes the lines that differ between two texts, with a few lines around them. An entry is in one
/// place, so the change is one group of lines.
fn write_difference(old: &str, new: &str, out: &mut dyn Write) -> io::Result<()> {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let after = old[before..].iter().rev().zip(new[before..].iter().rev());
    let after = after.take_while(same).count();
    let mut write = |mark: char, lines: &[&str]| {
        lines
            .iter()
            .try_for_each(|line| writeln!(out, "{mark} {}", escape_controls(line)))
    };
    write(' ', &old[before.saturating_sub(CONTEXT)..before])?;
    write('-', &old[before..old.len() - after])?;
    write('+', &new[before..new.len() - after])?;
    let rest = &old[old.len() - after..];
    write(' ', &rest[..rest.len().min(CONTEXT)])
}

/// What `doctor` reports about the clients of this user.
#[derive(Debug, Serialize)]
pub(super) struct ClientsReport {
    /// The clients that have a configuration file.
    found: Vec<ClientReport>,
    /// The `rg` that programs find in `PATH`.
    rg: Option<RgReport>,
}

/// A client with a configuration file.
#[derive(Debug, Serialize)]
struct ClientReport {
    client: &'static str,
    file: String,
    /// Whether the file has an entry for this program; `None` if it can't be read.
    registered: Option<bool>,
}

/// The first `rg` of `PATH`.
#[derive(Debug, Serialize)]
struct RgReport {
    path: String,
    /// Whether it is this program.
    is_this_program: bool,
}

/// Finds the clients that are set up for this user or for a tree.
pub(super) fn examine(root: &Path, environment: &Environment) -> ClientsReport {
    let mut found = Vec::new();
    for client in &CLIENTS {
        let user = client.user_file(environment);
        let project = client.project.map(|name| client.existing(root.join(name)));
        for path in user.into_iter().chain(project).filter(|path| path.exists()) {
            let text = ClientFile::read(&path).ok().and_then(|file| file.text);
            let entry = client.entry(Vec::new());
            found.push(ClientReport {
                client: client.title,
                file: path.display().to_string(),
                registered: text.and_then(|text| entry.is_in(&text).ok()),
            });
        }
    }
    let rg = rg::in_path(&rg::file_name(), environment).next();
    ClientsReport {
        found,
        rg: rg.map(|path| RgReport {
            is_this_program: own_program().is_ok_and(|own| is_same_file(&path, &own)),
            path: path.display().to_string(),
        }),
    }
}

impl ClientsReport {
    /// Prints the report as text.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\nclients (forge-search setup)")?;
        for client in &self.found {
            let state = match client.registered {
                Some(true) => "registered",
                Some(false) => "not registered",
                None => "unreadable",
            };
            let file = escape_controls(&client.file);
            writeln!(out, "  {:<17} {state:<14}  {file}", client.client)?;
        }
        if self.found.is_empty() {
            writeln!(out, "  none has a configuration file")?;
        }
        match &self.rg {
            None => writeln!(out, "  rg                none in PATH"),
            Some(rg) => {
                let whose = match rg.is_this_program {
                    true => "this program",
                    false => "another program",
                };
                let path = escape_controls(&rg.path);
                writeln!(out, "  rg in PATH        {whose:<14}  {path}")
            }
        }
    }
}
