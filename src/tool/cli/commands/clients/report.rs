//! The part of `forge-search doctor` about coding agents and editors: which of them start this
//! program.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::edit::Entry;
use super::file::ClientFile;
use super::table::CLIENTS;
use super::{Environment, is_same_file, own_program, rg};
use crate::tool::render::escape_controls;

/// What `doctor` reports about the clients of this user.
#[derive(Debug, Serialize)]
pub(in crate::tool::cli) struct ClientsReport {
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
    /// The program that the entry starts, if it is not found.
    missing_program: Option<String>,
}

/// The first `rg` of `PATH`.
#[derive(Debug, Serialize)]
struct RgReport {
    path: String,
    /// Whether it is this program.
    is_this_program: bool,
}

/// Finds the clients that are set up for this user or for a tree.
pub(in crate::tool::cli) fn examine(root: &Path, environment: &Environment) -> ClientsReport {
    let mut found = Vec::new();
    for client in &CLIENTS {
        let user = client.user_file(environment);
        let project = client.project.map(|name| client.existing(root.join(name)));
        for path in user.into_iter().chain(project).filter(|path| path.exists()) {
            let text = ClientFile::read(&path).ok().and_then(|file| file.text);
            let entry = text.map(|text| client.entry(&[]).with_fields_of(&text));
            let entry = entry.and_then(Result::ok);
            let command = entry.iter().flatten().map(Entry::command).next();
            found.push(ClientReport {
                client: client.title,
                file: path.display().to_string(),
                registered: entry.map(|entry| entry.is_some()),
                missing_program: command
                    .and_then(|command| command.into_iter().next())
                    .filter(|program| !can_start(program, environment)),
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

/// Returns true if a client finds the program of an entry.
fn can_start(program: &str, environment: &Environment) -> bool {
    let path = Path::new(program);
    let with_suffix = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    match path.components().count() {
        1 => [program, &with_suffix]
            .into_iter()
            .any(|name| rg::in_path(name, environment).next().is_some()),
        _ => path.is_file(),
    }
}

impl ClientsReport {
    /// Prints the report as text.
    pub(in crate::tool::cli) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\nclients (forge-search setup)")?;
        for client in &self.found {
            let state = match client.registered {
                Some(true) => "registered",
                Some(false) => "not registered",
                None => "unreadable",
            };
            let file = escape_controls(&client.file);
            write!(out, "  {:<17} {state:<14}  {file}", client.client)?;
            if let Some(program) = &client.missing_program {
                let program = escape_controls(program);
                write!(out, "; but {program} is gone: run setup again")?;
            }
            writeln!(out)?;
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
