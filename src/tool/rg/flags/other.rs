//! Flags for other kinds of results, for messages, and all other flags.

use super::flag_table;
use crate::tool::rg::args::{Generated, Logged, Mode, Special};

flag_table! {
    /// Flags for other kinds of results than lines.
    MODES: Modes

    "count" 'c': "Print the number of selected lines of each file.",
        set(|args| args.mode = Mode::Count);
    "count-matches": "Print the number of matches of each file.",
        set(|args| args.mode = Mode::CountMatches);
    "files-with-matches" 'l': "Print the paths of files with a match.",
        set(|args| args.mode = Mode::FilesWithMatches);
    "files-without-match": "Print the paths of files without a match.",
        set(|args| args.mode = Mode::FilesWithoutMatch);
    "json": "Print JSON, one message a line.",
        switch(|args, on| match (on, args.mode) {
            (true, _) => args.mode = Mode::Json,
            (false, Mode::Json) => args.mode = Mode::Lines,
            (false, _) => {}
        });
}

flag_table! {
    /// Flags for messages and statistics.
    LOGGING: Logging

    "debug": "Print debug messages on standard error.", set(|args| args.logged = Logged::Debug);
    "no-ignore-messages": "Print no errors of ignore files.",
        on(no_ignore_messages).negation("ignore-messages");
    "no-messages": "Print no errors of files, such as missing ones.",
        on(no_messages).negation("messages");
    "stats": "Print statistics after the results.", on(stats);
    "trace": "Print trace messages on standard error.", set(|args| args.logged = Logged::Trace);
}

flag_table! {
    /// All other flags.
    OTHER: Other

    "files": "Print the paths of all files that a search would read.",
        set(|args| args.mode = Mode::Files);
    "generate": "Print the manual page or a script for completions.",
        choice(KIND, mode:
            "man" => Mode::Generate(Generated::Man),
            "complete-bash" => Mode::Generate(Generated::Bash),
            "complete-zsh" => Mode::Generate(Generated::Zsh),
            "complete-fish" => Mode::Generate(Generated::Fish),
            "complete-powershell" => Mode::Generate(Generated::PowerShell),
        );
    "help" 'h': "Print this help; --help adds an introduction.",
        set(|args| args.special = Some(Special::Help));
    "no-config": "Don't read the file that RIPGREP_CONFIG_PATH names.",
        set(|args| args.no_config = true);
    "pcre2-version": "Print the version of PCRE2; an error in this build.",
        set(|args| args.special = Some(Special::Pcre2Version));
    "type-list": "Print all types with their globs.", set(|args| args.mode = Mode::Types);
    "version" 'V': "Print the version.", set(|args| args.special = Some(Special::Version));
}
