//! What people type who know other tools.
//!
//! Owns what they are told of flags that there are elsewhere and not here.

/// Flags of ripgrep and grep, and what takes their place.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["-v", "--invert-match", "--files-without-match"],
        "lines and files without a match can't be searched for; `--files` lists files, and `-l` those with a match",
    ),
    (
        &["-U", "--multiline", "--multiline-dotall"],
        "a match is within one line; search for a part of it, with -C to see what is around",
    ),
    (
        &[
            "-P",
            "--pcre2",
            "--engine",
            "--auto-hybrid-regex",
            "--perl-regexp",
        ],
        "expressions have the syntax of Rust's regex crate, without references to what was matched and without looking around",
    ),
    (
        &["-r", "-R", "--replace", "--recursive"],
        "nothing is replaced; directories are searched with what is below them, in any case",
    ),
    (
        &["-E", "--extended-regexp", "--encoding"],
        "patterns are extended expressions in any case, and files are UTF-8, or UTF-16 with a byte order mark",
    ),
    (
        &["-a", "--text", "--binary"],
        "files with a zero byte are binary and are never searched",
    ),
    (
        &["-z", "--search-zip", "--pre", "--pre-glob"],
        "files are searched as they are, not unpacked",
    ),
    (
        &["-I", "--no-filename", "-N", "--no-line-number"],
        "each line has its path and number; --json has them as fields",
    ),
    (
        &["-b", "--byte-offset"],
        "--rg-json says where in its file each line and match is",
    ),
    (
        &["-d", "--max-depth", "--maxdepth"],
        "--no-recursive searches one directory; -g '!*/*/*' leaves out what is deeper",
    ),
    (
        &[
            "-j",
            "--threads",
            "--mmap",
            "--no-mmap",
            "--line-buffered",
            "--block-buffered",
            "--no-config",
        ],
        "it is not needed: neither answers nor their order depend on it",
    ),
    (
        &["--iglob", "--glob-case-insensitive"],
        "globs compare with case; -g '*.[jJ][pP][gG]' does without",
    ),
    (
        &["--include", "--exclude", "--exclude-dir"],
        "-g takes globs, and with a leading ! those of what is left out",
    ),
    (
        &["--max-columns", "-M"],
        "long lines are shortened by --set max_line_bytes=NUM",
    ),
];

/// Says what takes the place of a flag that is not known, if that is one of other tools.
pub(super) fn hint(flag: &str) -> Option<&'static str> {
    let name = flag.split(['=', ' ']).next().unwrap_or(flag);
    let found = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::tool::cli::args::Cli;

    #[test]
    fn flags_of_other_tools_have_a_hint_and_are_none_of_ours() {
        assert!(hint("-v").unwrap().contains("--files"));
        assert!(hint("--replace=x").unwrap().contains("replaced"));
        assert_eq!(hint("--frobnicate"), None);
        let program = Cli::command();
        let ours: Vec<String> = program
            .get_arguments()
            .flat_map(|arg| {
                let long = arg.get_long().map(|long| format!("--{long}"));
                let short = arg.get_short().map(|short| format!("-{short}"));
                long.into_iter().chain(short)
            })
            .collect();
        for (names, _) in ELSEWHERE {
            for name in *names {
                assert!(!ours.iter().any(|own| own == name), "{name}");
            }
        }
    }
}
