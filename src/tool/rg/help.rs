//! The help and the version.
//!
//! This module owns their texts, except the line of each flag, which the table of flags has.

use std::fmt::Write;

use super::flags::{self, CATEGORIES, Flag};

/// The version of ripgrep's command line that this program has. Clients parse it.
const RIPGREP: &str = "15.2.0";

const USAGE: &str = "\
Usage:
  rg [FLAGS] PATTERN [PATH ...]
  rg [FLAGS] -e PATTERN ... [PATH ...]
  rg [FLAGS] -f PATTERNFILE ... [PATH ...]
  rg [FLAGS] --files [PATH ...]
  rg [FLAGS] --type-list
  command | rg [FLAGS] PATTERN";

const INTRODUCTION: &str = "\
Searches files for the lines that match a regular expression. Skips hidden files, binary files, and
files that .gitignore, .ignore or .rgignore exclude. Without a PATH, searches standard input if it
is a pipe or a file, else the working directory.

This is forge-search with the command line of ripgrep. The flags, the output and the exit statuses
are those of ripgrep. PCRE2 is not built in.

The last of several contradicting flags wins. If the environment variable RIPGREP_CONFIG_PATH names
a file, each of its lines is one argument, and these arguments come first.

Exit status: 0 if a line matched and no error occurred, 1 if no line matched, 2 after an error. With
-q, the status is 0 after a match, also if an error occurred.";

/// Returns the version on one line.
pub(super) fn version() -> String {
    let own = env!("CARGO_PKG_VERSION");
    format!("ripgrep {RIPGREP} (forge-search {own})")
}

/// Returns the version and the optional parts.
pub(super) fn long_version() -> String {
    let version = version();
    format!(
        "{version}\n\nfeatures:-pcre2\n\n{}.",
        super::patterns::NO_PCRE2
    )
}

/// Returns the help of `-h`.
pub(super) fn short() -> String {
    let version = version();
    format!("{version}\n\n{USAGE}\n{}", all_flags())
}

/// Returns the help of `--help`.
pub(super) fn long() -> String {
    let version = version();
    format!("{version}\n\n{INTRODUCTION}\n\n{USAGE}\n{}", all_flags())
}

fn all_flags() -> String {
    let width = flags::all()
        .map(|flag| names(flag).len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for category in CATEGORIES {
        // Writing to a string can't fail.
        let _ = writeln!(text, "\n{}:", category.heading());
        for flag in flags::all().filter(|flag| flag.category == category) {
            let _ = writeln!(text, "  {:width$}  {}", names(flag), flag.help);
        }
    }
    text
}

fn names(flag: &Flag) -> String {
    let short = match flag.short {
        Some(short) => format!("-{short}, "),
        None => " ".repeat(4),
    };
    let value = flag.value_name().map(|name| format!("={name}"));
    format!("{short}--{}{}", flag.long, value.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_begins_as_that_of_ripgrep() {
        assert!(version().starts_with("ripgrep 15.2.0"));
        assert!(version().contains("forge-search"));
        assert!(long_version().starts_with(&version()));
    }

    #[test]
    fn the_help_lists_each_flag() {
        let help = short();
        for flag in flags::all() {
            assert!(help.contains(&format!("--{}", flag.long)), "{}", flag.long);
        }
        assert!(help.contains("\n  -A, --after-context=NUM "));
        assert!(long().len() > help.len());
    }
}
