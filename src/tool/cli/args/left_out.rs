//! The commands that only Unix has, such as `serve`.
//!
//! This module owns their names, and the reasons that a user of another system gets. Without this
//! module, `forge-search serve` would search for the text `serve` there.

/// The reason why the commands of daemons are missing.
const NO_DAEMONS: &str = "needs the sockets of Unix, which this system lacks";

/// The commands that only Unix has, and the reason.
const ONLY_UNIX: [(&str, &str); 8] = [
    ("ask", NO_DAEMONS),
    (
        "execute",
        "needs the process limits of Unix, which this system lacks",
    ),
    (
        "lease",
        "belongs to the command `execute`, which this system lacks",
    ),
    ("mcp", NO_DAEMONS),
    ("serve", NO_DAEMONS),
    ("status", NO_DAEMONS),
    ("stop", NO_DAEMONS),
    ("tui", NO_DAEMONS),
];

/// Returns the reason why this system lacks a command; `None` for any other text.
pub(in crate::tool::cli) fn reason(name: &str) -> Option<&'static str> {
    if cfg!(unix) {
        return None;
    }
    let mut missing = ONLY_UNIX.iter();
    missing
        .find(|(command, _)| *command == name)
        .map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_command_exists_or_has_a_reason() {
        let program = crate::tool::cli::args::Cli::command();
        for (command, _) in ONLY_UNIX {
            let exists = program.find_subcommand(command).is_some();
            assert_ne!(exists, reason(command).is_some(), "{command}");
        }
        assert_eq!(reason("search"), None);
    }
}
