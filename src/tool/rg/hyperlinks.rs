//! The surroundings of hyperlinks: the name of this machine, and of its WSL distribution.
//!
//! This module owns where the name comes from: the program of `--hostname-bin`, else the system.
//! The printer owns the links themselves.

use std::io;
use std::path::Path;

use grep_printer::{HyperlinkConfig, HyperlinkEnvironment};

use super::Surroundings;
use super::args::Args;
use crate::exec::process;

/// Returns the format of hyperlinks, with the values of its variables.
pub(super) fn config(args: &Args, surroundings: &Surroundings) -> HyperlinkConfig {
    let mut environment = HyperlinkEnvironment::new();
    // Asking for the name may start a program, so it is asked for only if links are printed.
    if !args.hyperlink_format.is_empty() {
        let host = args.hostname_bin.as_deref().and_then(from_program);
        environment.host(host.or_else(from_system));
        let distribution = surroundings.wsl_distribution.as_ref();
        environment.wsl_prefix(distribution.map(|name| format!("wsl$/{name}")));
    }
    args.hyperlink_format.clone().into_config(environment)
}

fn from_program(program: &Path) -> Option<String> {
    let run = || -> io::Result<String> {
        let program = grep_cli::resolve_binary(program)?;
        let mut command = process::for_reader(&program, None)?;
        io::read_to_string(grep_cli::CommandReader::new(&mut command)?)
    };
    match run() {
        Ok(output) => Some(output.trim().to_string()).filter(|name| !name.is_empty()),
        Err(error) => {
            log::debug!("{} gave no host name: {error}", program.display());
            None
        }
    }
}

fn from_system() -> Option<String> {
    grep_cli::hostname().ok()?.into_string().ok()
}
