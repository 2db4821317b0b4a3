//! `forge-search setup`: registers this program with its clients, which are coding agents and
//! editors.
//!
//! This module owns the change of a client's configuration: one entry, shown as a difference,
//! written with `--write`, removed with `--undo`. Other entries, comments and the layout of a file
//! stay as they are.
//!
//! [`table`] lists the clients, [`change`] makes a change and takes it back, [`edit`] changes a
//! text, [`file`] reads and replaces a file. [`rg`] makes the link that stands in for ripgrep, and
//! [`report`] is for `doctor`.

mod change;
mod edit;
mod file;
mod report;
mod rg;
mod table;

use std::io;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::tool::cli::args::{SetupTarget, SetupTargetArgs, left_out};
use crate::tool::cli::setup::Environment;
use crate::tool::cli::{FAILED, Failure};
use crate::tool::error::ToolError;
use change::Change;
use edit::Entry;
pub(in crate::tool::cli) use report::{ClientsReport, examine};
use table::Client;

/// The name of the entry in the configuration of each client.
const NAME: &str = "forge-search";

/// The file with instructions for all agents of a project.
const AGENTS_FILE: &str = "AGENTS.md";

/// Runs `forge-search setup`.
pub(in crate::tool::cli) fn run(
    args: &SetupTargetArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    check_flags(args)?;
    match args.target {
        SetupTarget::Rg => rg::run(args, environment, &mut out),
        SetupTarget::AgentsMd => {
            let change = Change {
                title: "instructions for agents",
                path: tree(args, environment)?.join(AGENTS_FILE),
                entry: Entry::Paragraph(include_str!("clients/agents.md").into()),
                in_project: true,
            };
            match args.undo {
                true => change.undo(&mut out),
                false => change.make(args.write, &mut out),
            }
        }
        target => {
            let client = table::of(target)
                .ok_or_else(|| ToolError::bad_args("this client is not in the table"))?;
            if args.undo {
                for change in registered(client, args, environment)? {
                    change.undo(&mut out)?;
                }
                return Ok(0);
            }
            if let Some(why) = left_out::reason("mcp") {
                crate::tool::cli::complain(&format!(
                    "`mcp` {why}; {} can't start it",
                    client.title
                ));
                return Ok(FAILED);
            }
            register(client, args, environment)?.make(args.write, &mut out)
        }
    }
}

/// Refuses flags that would have no effect.
fn check_flags(args: &SetupTargetArgs) -> Result<(), ToolError> {
    let (is_link, is_text) = (
        args.target == SetupTarget::Rg,
        args.target == SetupTarget::AgentsMd,
    );
    for (flag, is_given, has_effect) in [
        ("--dir", args.dir.is_some(), is_link),
        ("--root", args.root.is_some(), !is_link),
        ("--project", args.project, !is_link && !is_text),
    ] {
        if is_given && !has_effect {
            let target = args.target.to_possible_value();
            let target = target.as_ref().map_or("", |value| value.get_name());
            return Err(ToolError::bad_args(format!(
                "{flag} has no effect on `setup {target}`; leave it out"
            )));
        }
    }
    Ok(())
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
        project_file(client, &tree(args, environment)?)?
    } else {
        if at_home {
            return Err(ToolError::bad_args(format!(
                "{} starts servers outside of any tree; name the tree to search with --root DIR",
                client.title
            )));
        }
        user_file(client, environment)?
    };
    let mut command = if in_project {
        vec![NAME.to_string()]
    } else {
        program(environment)?
    };
    command.push("mcp".to_string());
    let root = match (&args.root, client.root_variable) {
        (Some(_), _) if !in_project => Some(utf8(&tree(args, environment)?)?),
        (_, Some(variable)) if in_project => Some(variable.to_string()),
        _ => None,
    };
    if let Some(root) = root {
        command.extend(["--root".to_string(), root]);
    }
    Ok(Change {
        title: client.title,
        path,
        entry: client.entry(&command),
        in_project,
    })
}

/// Returns the changes that `--undo` takes back: in the file that `--write` would change with the
/// same flags. Without flags, a client with a choice of files gets both. The tree may be gone.
fn registered(
    client: &'static Client,
    args: &SetupTargetArgs,
    environment: &Environment,
) -> Result<Vec<Change>, ToolError> {
    let is_either = !client.starts_in_tree && args.root.is_none() && !args.project;
    let mut files = Vec::new();
    if args.project || (is_either && client.project.is_some()) {
        let tree = match (tree(args, environment), &args.root) {
            (Err(_), Some(root)) => Ok(root.clone()),
            (tree, _) => tree,
        };
        match tree {
            Ok(tree) => files.push((project_file(client, &tree)?, true)),
            // The file of the user remains.
            Err(_) if is_either => {}
            Err(error) => return Err(error),
        }
    }
    if !args.project {
        files.push((user_file(client, environment)?, false));
    }
    let files = files.into_iter();
    let changes = files.map(|(path, in_project)| Change {
        title: client.title,
        path,
        entry: client.entry(&[NAME.to_string()]),
        in_project,
    });
    Ok(changes.collect())
}

fn project_file(client: &Client, tree: &Path) -> Result<PathBuf, ToolError> {
    let name = client.project.ok_or_else(|| {
        ToolError::bad_args(format!(
            "{} has no configuration for one project; leave out --project",
            client.title
        ))
    })?;
    Ok(client.existing(tree.join(name)))
}

fn user_file(client: &Client, environment: &Environment) -> Result<PathBuf, ToolError> {
    client.user_file(environment).ok_or_else(|| {
        ToolError::bad_args(
            "the home directory is unknown; set HOME, or use --project for the file of this tree",
        )
    })
}

/// Returns the command that starts this program from any directory.
fn program(environment: &Environment) -> Result<Vec<String>, ToolError> {
    let own = own_program()?;
    match cached_by(&own) {
        Some(starter) => Ok(starter.iter().map(|word| word.to_string()).collect()),
        None => Ok(vec![utf8(&installed(&own, environment))?]),
    }
}

/// Returns the command that starts this program again, if `own` is a copy in the cache of `npx` or
/// `uvx`, which may be removed at any time.
fn cached_by(own: &Path) -> Option<&'static [&'static str]> {
    let is_below = |name: &str| own.components().any(|part| part.as_os_str() == name);
    match () {
        () if is_below("_npx") => Some(&["npx", "-y", NAME]),
        () if is_below("uv") && is_below("archive-v0") => Some(&["uvx", NAME]),
        () => None,
    }
}

/// Returns a path as text that goes into a file.
fn utf8(path: &Path) -> Result<String, ToolError> {
    let text = path.to_str().ok_or_else(|| {
        ToolError::bad_args(format!(
            "{}: the path is no UTF-8, which a configuration file needs; rename the directory",
            path.display()
        ))
    })?;
    Ok(text.to_string())
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
