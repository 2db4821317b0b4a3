//! Flags for other kinds of results, for messages, and all other flags.

use super::Category::{Logging, Modes, Other};
use super::{Flag, switch, value};
use crate::tool::rg::args::{Generated, Logged, Mode, Special};

/// The kinds of generated texts, by name.
const GENERATED: &[(&str, Generated)] = &[
    ("man", Generated::Man),
    ("complete-bash", Generated::Bash),
    ("complete-zsh", Generated::Zsh),
    ("complete-fish", Generated::Fish),
    ("complete-powershell", Generated::PowerShell),
];

/// Flags for kinds of results, for messages, and all other flags.
pub(super) const OTHER: &[Flag] = &[
    switch(
        "count",
        Modes,
        "Print the number of selected lines of each file.",
        |args, _| args.mode = Mode::Count,
    )
    .short('c'),
    switch(
        "count-matches",
        Modes,
        "Print the number of matches of each file.",
        |args, _| args.mode = Mode::CountMatches,
    ),
    switch(
        "files-with-matches",
        Modes,
        "Print the paths of files with a match.",
        |args, _| args.mode = Mode::FilesWithMatches,
    )
    .short('l'),
    switch(
        "files-without-match",
        Modes,
        "Print the paths of files without a match.",
        |args, _| args.mode = Mode::FilesWithoutMatch,
    ),
    switch(
        "json",
        Modes,
        "Print JSON, one message a line.",
        |args, on| match (on, args.mode) {
            (true, _) => args.mode = Mode::Json,
            (false, Mode::Json) => args.mode = Mode::Lines,
            (false, _) => {}
        },
    )
    .negation("no-json"),
    switch(
        "debug",
        Logging,
        "Print debug messages on standard error.",
        |args, _| args.logged = Logged::Debug,
    ),
    switch(
        "no-ignore-messages",
        Logging,
        "Print no errors of ignore files.",
        |args, on| args.no_ignore_messages = on,
    )
    .negation("ignore-messages"),
    switch(
        "no-messages",
        Logging,
        "Print no errors of files, such as missing ones.",
        |args, on| args.no_messages = on,
    )
    .negation("messages"),
    switch(
        "stats",
        Logging,
        "Print statistics after the results.",
        |args, on| args.stats = on,
    )
    .negation("no-stats"),
    switch(
        "trace",
        Logging,
        "Print trace messages on standard error.",
        |args, _| args.logged = Logged::Trace,
    ),
    switch(
        "files",
        Other,
        "Print the paths of all files that a search would read.",
        |args, _| args.mode = Mode::Files,
    ),
    value(
        "generate",
        "KIND",
        Other,
        "Print the manual page or a script for completions.",
        |args, value| {
            args.mode = Mode::Generate(value.choice(GENERATED)?);
            Ok(())
        },
    )
    .choices(&[
        "man",
        "complete-bash",
        "complete-zsh",
        "complete-fish",
        "complete-powershell",
    ]),
    switch(
        "help",
        Other,
        "Print this help; --help adds an introduction.",
        |args, _| args.special = Some(Special::Help),
    )
    .short('h'),
    switch(
        "no-config",
        Other,
        "Don't read the file that RIPGREP_CONFIG_PATH names.",
        |args, _| args.no_config = true,
    ),
    switch(
        "pcre2-version",
        Other,
        "Print the version of PCRE2; an error in this build.",
        |args, _| args.special = Some(Special::Pcre2Version),
    ),
    switch(
        "type-list",
        Other,
        "Print all types with their globs.",
        |args, _| args.mode = Mode::Types,
    ),
    switch("version", Other, "Print the version.", |args, _| {
        args.special = Some(Special::Version);
    })
    .short('V'),
];
