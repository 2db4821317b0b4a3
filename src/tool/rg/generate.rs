//! The manual page and the scripts for completions.
//!
//! This module owns the conversion of the table of flags into a command of the crate `clap`, which
//! has the generators. `clap` parses no arguments here.

use clap::builder::ValueHint;
use clap::{Arg, ArgAction};
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Generated;
use super::flags::{self, Completes, Flag};
use super::{NAME, help};

/// Returns the generated text.
pub(super) fn text(generated: Generated) -> String {
    let mut bytes = Vec::new();
    let mut command = command();
    let shell = match generated {
        Generated::Man => {
            // Writing to memory can't fail.
            let _ = Man::new(command).render(&mut bytes);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        Generated::Bash => Shell::Bash,
        Generated::Zsh => Shell::Zsh,
        Generated::Fish => Shell::Fish,
        Generated::PowerShell => Shell::PowerShell,
    };
    clap_complete::generate(shell, &mut command, NAME, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn command() -> clap::Command {
    let mut command = clap::Command::new(NAME)
        .version(help::version())
        .about("Searches files for the lines that match a regular expression.")
        .disable_help_flag(true)
        .disable_version_flag(true);
    for flag in flags::all() {
        command = command.arg(arg(flag));
        if let Some(negation) = flag.negation {
            let undoes = format!("Undo --{}.", flag.long);
            let arg = Arg::new(negation).long(negation).help(undoes);
            let arg = arg.help_heading(flag.category.heading());
            command = command.arg(arg.action(ArgAction::SetTrue));
        }
    }
    let pattern = Arg::new("PATTERN").help("The regular expression to search for.");
    let paths = Arg::new("PATH").help("The files and directories to search.");
    command
        .arg(pattern)
        .arg(paths.num_args(0..).value_hint(ValueHint::AnyPath))
}

fn arg(flag: &Flag) -> Arg {
    let mut arg = Arg::new(flag.long)
        .long(flag.long)
        .help(flag.help)
        .help_heading(flag.category.heading());
    if let Some(short) = flag.short {
        arg = arg.short(short);
    }
    if let Some(alias) = flag.alias {
        arg = arg.visible_alias(alias);
    }
    let Some(name) = flag.value_name() else {
        return arg.action(ArgAction::SetTrue);
    };
    arg = arg.action(ArgAction::Append).value_name(name);
    if !flag.choices.is_empty() {
        arg = arg.value_parser(flag.choices.to_vec());
    }
    match flag.completes {
        Completes::Choices => arg,
        Completes::File => arg.value_hint(ValueHint::FilePath),
        Completes::Program => arg.value_hint(ValueHint::CommandName),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_the_flags() {
        for generated in [
            Generated::Man,
            Generated::Bash,
            Generated::Zsh,
            Generated::Fish,
            Generated::PowerShell,
        ] {
            let text = text(generated);
            let text = text.replace("\\-", "-");
            for name in ["pre-glob", "no-ignore-vcs", "no-context-separator"] {
                assert!(text.contains(name), "{generated:?}: {name}");
            }
        }
    }
}
