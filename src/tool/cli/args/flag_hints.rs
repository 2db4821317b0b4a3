//! Hints for flags of other search tools that this command line does not have.
//!
//! This module owns the table of ripgrep's flags. An unknown flag gets a hint from the table, or a
//! suggestion of a flag with a similar spelling. A suggestion is never a possible opposite: for
//! `--files-without-match` the suggestion is not `--files-with-matches`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of ripgrep and grep, with their replacements.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &[
            "-v",
            "--invert-match",
            "--no-invert-match",
            "--files-without-match",
            "--stop-on-nonmatch",
        ],
        "lines and files without a match can't be searched for; --files lists files, and -l those with a match",
    ),
    (
        &[
            "-U",
            "--multiline",
            "--no-multiline",
            "--multiline-dotall",
            "--no-multiline-dotall",
        ],
        "a match lies within one line; search for a part of it, with -C to see the lines around",
    ),
    (
        &[
            "-P",
            "--pcre2",
            "--no-pcre2",
            "--engine",
            "--auto-hybrid-regex",
            "--no-auto-hybrid-regex",
            "--perl-regexp",
            "--pcre2-unicode",
            "--no-pcre2-unicode",
            "--pcre2-version",
        ],
        "expressions have the syntax of Rust's regex crate, without backreferences and lookaround",
    ),
    (
        &["-r", "-R", "--replace", "--recursive"],
        "nothing is replaced; directories are always searched with everything below them",
    ),
    (
        &["-E", "--extended-regexp", "--encoding", "--no-encoding"],
        "patterns are always extended expressions, and files are UTF-8, or UTF-16 with a byte-order mark",
    ),
    (
        &["-a", "--text", "--no-text", "--binary", "--no-binary"],
        "a file with a zero byte is binary; if its path is given and it matches, a message says so",
    ),
    (
        &["--passthru"],
        "only lines with a match are printed; -C shows lines around them",
    ),
    (
        &["--null-data"],
        "lines end with a line feed; tr '\\0' '\\n' <FILE | forge-search takes items that end with a zero byte",
    ),
    (
        &[
            "-z",
            "--search-zip",
            "--no-search-zip",
            "--pre",
            "--no-pre",
            "--pre-glob",
        ],
        "files are searched as they are, not unpacked",
    ),
    (
        &["-b", "--byte-offset", "--no-byte-offset"],
        "--rg-json says where in its file each line and match is",
    ),
    (
        &[
            "--mmap",
            "--no-mmap",
            "--line-buffered",
            "--no-line-buffered",
            "--block-buffered",
            "--no-block-buffered",
            "--no-config",
            "--dfa-size-limit",
            "--regex-size-limit",
            "--sort-files",
            "--no-sort-files",
            "--no-sort-accessed",
        ],
        "it is not needed: answers and their order do not depend on it",
    ),
    (
        &[
            "--iglob",
            "--glob-case-insensitive",
            "--no-glob-case-insensitive",
        ],
        "globs are case-sensitive; -g '*.[jJ][pP][gG]' matches both cases",
    ),
    (
        &["--include", "--exclude", "--exclude-dir"],
        "-g takes globs, and with a leading ! those to exclude",
    ),
    (
        &["--maxdepth"],
        "--max-depth limits how deep directories are searched",
    ),
    (
        &["--max-columns-preview", "--no-max-columns-preview"],
        "-M always shows the part of a long line around its match",
    ),
    (
        &[
            "--no-ignore-dot",
            "--ignore-dot",
            "--no-ignore-exclude",
            "--ignore-exclude",
            "--no-ignore-files",
            "--ignore-files",
            "--no-ignore-global",
            "--ignore-global",
            "--no-ignore-parent",
            "--ignore-parent",
            "--no-ignore-vcs",
            "--ignore-vcs",
            "--no-require-git",
            "--require-git",
            "--ignore-file",
            "--ignore-file-case-insensitive",
            "--no-ignore-file-case-insensitive",
            "--no-ignore-messages",
            "--ignore-messages",
        ],
        "ignore files can't be turned off one by one; --no-ignore turns off all of them",
    ),
    (
        &["--type-add", "--type-clear"],
        "types are built in; -g takes any globs",
    ),
    (
        &[
            "--colors",
            "--context-separator",
            "--no-context-separator",
            "--field-match-separator",
            "--field-context-separator",
            "--path-separator",
            "--hostname-bin",
            "--crlf",
            "--no-crlf",
        ],
        "the format of lines is fixed; --json and --rg-json are for programs",
    ),
    (
        &["--unicode", "--no-unicode"],
        "classes are Unicode; write (?-u) in an expression for bytes",
    ),
    (
        &["--include-zero", "--no-include-zero"],
        "-c and --count-matches print files with at least one match",
    ),
    (
        &["--one-file-system", "--no-one-file-system"],
        "directories on other file systems are searched, too; -g '!DIR/' leaves one out",
    ),
    (
        &["--generate"],
        "`forge-search man` prints the manual, `forge-search completions SHELL` the completions of \
         a shell",
    ),
    (&["--trace"], "--debug prints what the program does"),
    (&["--case-insensitive"], "-i ignores case"),
    (
        &["--no-stats", "--no-json", "--no-max-columns"],
        "it is the default; leave it out",
    ),
];

/// Returns the replacement of another tool's flag.
pub(in crate::tool::cli) fn hint(flag: &str) -> Option<&'static str> {
    let name = flag.split(['=', ' ']).next().unwrap_or(flag);
    let found = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, hint)| *hint)
}

/// Replaces clap's suggestion for an unknown flag. clap suggests any similar name, even one with
/// the opposite meaning.
pub(in crate::tool::cli) fn corrected(
    mut error: clap::Error,
    mut program: clap::Command,
) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    program.build();
    let typed = typed.split('=').next().unwrap_or(typed);
    let words = std::env::args().skip(1);
    let command = command_of(&program, words);
    let mut meant = nearest(typed, command);
    error.remove(ContextKind::SuggestedArg);
    // clap's usage line names the flag that it guessed.
    let usage = command.clone().render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        // Other tips name a flag of another command.
        tips.retain(|tip| tip.to_string().starts_with("to pass"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    let suggested = match meant.len() {
        0 => return error,
        1 => ContextValue::String(meant.remove(0)),
        _ => ContextValue::Strings(meant),
    };
    error.insert(ContextKind::SuggestedArg, suggested);
    error
}

/// Returns the command that the first words without a dash name.
fn command_of(program: &clap::Command, words: impl Iterator<Item = String>) -> &clap::Command {
    let mut command = program;
    for word in words.filter(|word| !word.starts_with('-')) {
        match command.find_subcommand(&word) {
            Some(named) => command = named,
            None => break,
        }
    }
    command
}

/// Returns the flags of a command with the fewest typing errors relative to `typed`: at most two
/// errors, and at most one per three characters.
fn nearest(typed: &str, command: &clap::Command) -> Vec<String> {
    let Some(typed) = typed.strip_prefix("--") else {
        return Vec::new();
    };
    let most = (typed.chars().count() / 3).min(2);
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    let near = flags.filter_map(|flag| {
        let errors = strsim::osa_distance(flag, typed);
        (errors <= most && !are_opposites(flag, typed)).then_some((errors, flag))
    });
    let near: Vec<(usize, &str)> = near.collect();
    let least = near.iter().map(|(errors, _)| *errors).min();
    let nearest = near.iter().filter(|(errors, _)| Some(*errors) == least);
    nearest.map(|(_, flag)| format!("--{flag}")).collect()
}

/// Returns whether one name is the other one with a negating syllable, such as `ignore` and
/// `no-ignore`.
fn are_opposites(one: &str, other: &str) -> bool {
    const NEGATIONS: [&str; 9] = ["no-", "no", "-no", "not-", "not", "-not", "un", "in", "dis"];
    let (short, long) = match one.len() < other.len() {
        true => (one, other),
        false => (other, one),
    };
    let is_without = |negation: &str, at: usize| {
        let rest = long.get(at..).and_then(|rest| rest.strip_prefix(negation));
        rest.is_some_and(|rest| short.strip_suffix(rest) == long.get(..at))
    };
    NEGATIONS
        .iter()
        .any(|negation| (0..long.len()).any(|at| is_without(negation, at)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::tool::cli::args::Cli;

    /// Most builds skip clap's own checks, which take as long as a small search.
    #[test]
    fn no_flag_has_two_meanings() {
        fn check(command: &clap::Command) {
            let mut names = BTreeSet::new();
            for arg in command.get_arguments() {
                let longs = arg
                    .get_long()
                    .into_iter()
                    .chain(arg.get_all_aliases().into_iter().flatten());
                let mut shorts = arg.get_all_short_aliases().unwrap_or_default();
                shorts.extend(arg.get_short());
                let mut meant = vec![format!("<{}>", arg.get_id())];
                meant.extend(longs.map(|long| format!("--{long}")));
                meant.extend(shorts.iter().map(|short| format!("-{short}")));
                meant.extend(arg.get_index().map(|index| format!("argument {index}")));
                for name in meant {
                    assert!(
                        names.insert(name.clone()),
                        "{name} of {}",
                        command.get_name()
                    );
                }
            }
            command.get_subcommands().for_each(check);
        }
        let programs = [
            Cli::command(),
            #[cfg(unix)]
            crate::tool::cli::commands::daemon::ggrep::command(),
        ];
        for mut program in programs {
            program.build();
            assert!(program.get_arguments().count() > 5);
            check(&program);
        }
    }

    #[test]
    fn each_flag_of_ripgrep_is_taken_or_has_a_hint() {
        let program = Cli::command();
        let ours: BTreeSet<String> = program
            .get_arguments()
            .flat_map(|arg| {
                let long = arg.get_long().map(|long| format!("--{long}"));
                let short = arg.get_short().map(|short| format!("-{short}"));
                long.into_iter().chain(short)
            })
            .chain(["--help", "--version"].map(String::from))
            .collect();
        // `--debug` is added when arguments are parsed. `--passthrough` is another name of
        // `--passthru` that ripgrep's help does not show.
        let has_none = |name: &&str| matches!(*name, "debug" | "passthrough");
        for name in crate::tool::rg::flag_names().filter(|name| !has_none(name)) {
            let flag = format!("--{name}");
            let taken = ours.contains(&flag);
            assert!(taken != hint(&flag).is_some(), "{flag}: taken {taken}");
        }
        for name in ELSEWHERE.iter().flat_map(|(names, _)| *names) {
            assert!(!ours.contains(*name), "{name}");
        }
        assert!(hint("-v").unwrap().contains("--files"));
        assert!(hint("--replace=x").unwrap().contains("replaced"));
        assert_eq!(hint("--frobnicate"), None);
    }
}
