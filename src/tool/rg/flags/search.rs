//! Flags for patterns, and for the way a search runs.

use std::path::PathBuf;

use grep_searcher::Encoding;

use super::Category::{Input, Search};
use super::{Completes, Flag, switch, value};
use crate::tool::rg::args::{Binary, Boundary, Case, Decoding, Engine, Maps, PatternSource};

/// Flags for patterns, and for reading files.
pub(super) const INPUT: &[Flag] = &[
    value(
        "regexp",
        "PATTERN",
        Input,
        "Search for PATTERN, also if it begins with a hyphen; repeatable.",
        |args, value| {
            args.patterns.push(PatternSource::Text(value.text()?));
            Ok(())
        },
    )
    .short('e'),
    value(
        "file",
        "PATTERNFILE",
        Input,
        "Search for each line of PATTERNFILE (- is standard input).",
        |args, value| {
            let path = PathBuf::from(value.raw());
            args.patterns.push(PatternSource::File(path));
            Ok(())
        },
    )
    .short('f')
    .completes(Completes::File),
    value(
        "pre",
        "COMMAND",
        Input,
        "Search the output of COMMAND PATH instead of each file.",
        |args, value| {
            let program = PathBuf::from(value.raw());
            args.pre = Some(program).filter(|program| !program.as_os_str().is_empty());
            args.search_zip &= args.pre.is_none();
            Ok(())
        },
    )
    .undone_by("no-pre", |args| args.pre = None)
    .completes(Completes::Program),
    value(
        "pre-glob",
        "GLOB",
        Input,
        "Limit --pre to the files that GLOB selects; repeatable.",
        |args, value| {
            args.pre_globs.push(value.text()?);
            Ok(())
        },
    ),
    switch(
        "search-zip",
        Input,
        "Decompress files such as *.gz and *.xz, and search their content.",
        |args, on| {
            args.search_zip = on;
            if on {
                args.pre = None;
            }
        },
    )
    .short('z')
    .negation("no-search-zip"),
];

/// Flags for the meaning of patterns, and for the way a search runs.
pub(super) const SEARCH: &[Flag] = &[
    switch(
        "case-sensitive",
        Search,
        "Distinguish upper and lower case (the default).",
        |args, _| args.case = Case::Sensitive,
    )
    .short('s'),
    switch(
        "crlf",
        Search,
        "Let lines end with CR LF as well as with LF.",
        |args, on| {
            args.crlf = on;
            args.null_data &= !on;
        },
    )
    .negation("no-crlf"),
    value(
        "dfa-size-limit",
        "SIZE",
        Search,
        "Limit the cache of the lazy automaton, for example to 10M.",
        |args, value| {
            args.dfa_size_limit = Some(value.size()?);
            Ok(())
        },
    ),
    value(
        "encoding",
        "ENCODING",
        Search,
        "Decode files as ENCODING; auto heeds byte order marks, none nothing.",
        |args, value| {
            let label = value.text()?;
            args.decoding = match label.as_str() {
                "auto" => Decoding::Auto,
                "none" => Decoding::Raw,
                _ => Decoding::As(Encoding::new(&label).map_err(|error| error.to_string())?),
            };
            Ok(())
        },
    )
    .short('E')
    .undone_by("no-encoding", |args| args.decoding = Decoding::Auto),
    value(
        "engine",
        "ENGINE",
        Search,
        "Choose the regex engine (pcre2 is not in this build).",
        |args, value| {
            let engine = value.text()?;
            args.engine = match engine.as_str() {
                "default" => Engine::Default,
                "pcre2" => Engine::Pcre2,
                "auto" => Engine::Auto,
                _ => return Err(format!("unrecognized regex engine '{engine}'")),
            };
            Ok(())
        },
    )
    .choices(&["default", "pcre2", "auto"]),
    switch(
        "fixed-strings",
        Search,
        "Take patterns literally.",
        |args, on| args.fixed_strings = on,
    )
    .short('F')
    .negation("no-fixed-strings"),
    switch(
        "ignore-case",
        Search,
        "Ignore case, by the rules of Unicode.",
        |args, _| args.case = Case::Insensitive,
    )
    .short('i'),
    switch(
        "invert-match",
        Search,
        "Select the lines that don't match.",
        |args, on| args.invert_match = on,
    )
    .short('v')
    .negation("no-invert-match"),
    switch(
        "line-regexp",
        Search,
        "Match whole lines only.",
        |args, _| args.boundary = Some(Boundary::Line),
    )
    .short('x'),
    value(
        "max-count",
        "NUM",
        Search,
        "Select at most NUM lines of each file.",
        |args, value| {
            args.max_count = Some(value.number()?);
            Ok(())
        },
    )
    .short('m'),
    switch(
        "mmap",
        Search,
        "Read files as a whole, as if they were mapped into memory.",
        |args, on| args.maps = if on { Maps::Always } else { Maps::Never },
    )
    .negation("no-mmap"),
    switch(
        "multiline",
        Search,
        "Let a match span several lines.",
        |args, on| {
            args.multiline = on;
            args.stop_on_nonmatch &= !on;
        },
    )
    .short('U')
    .negation("no-multiline"),
    switch(
        "multiline-dotall",
        Search,
        "With --multiline, let a dot match line ends.",
        |args, on| args.multiline_dotall = on,
    )
    .negation("no-multiline-dotall"),
    switch(
        "no-unicode",
        Search,
        "Match bytes: no Unicode classes, and ASCII case only.",
        |args, on| args.no_unicode = on,
    )
    .negation("unicode"),
    switch(
        "null-data",
        Search,
        "Let lines end with NUL instead of LF.",
        |args, _| {
            args.null_data = true;
            args.crlf = false;
        },
    ),
    switch(
        "pcre2",
        Search,
        "Use PCRE2, which is not in this build: an error.",
        |args, on| args.engine = if on { Engine::Pcre2 } else { Engine::Default },
    )
    .short('P')
    .negation("no-pcre2"),
    value(
        "regex-size-limit",
        "SIZE",
        Search,
        "Limit the size of the compiled patterns, for example to 100M.",
        |args, value| {
            args.regex_size_limit = Some(value.size()?);
            Ok(())
        },
    ),
    switch(
        "smart-case",
        Search,
        "Ignore case if no pattern has an upper-case letter.",
        |args, _| args.case = Case::Smart,
    )
    .short('S'),
    switch(
        "stop-on-nonmatch",
        Search,
        "Leave a file at the first line without a match after a match.",
        |args, _| {
            args.stop_on_nonmatch = true;
            args.multiline = false;
        },
    ),
    switch(
        "text",
        Search,
        "Search binary files as if they were text.",
        |args, on| args.binary = if on { Binary::AsText } else { Binary::Auto },
    )
    .short('a')
    .negation("no-text"),
    value(
        "threads",
        "NUM",
        Search,
        "Use about NUM threads (0: as many as are useful).",
        |args, value| {
            args.threads = Some(value.number()?).filter(|threads| *threads > 0);
            Ok(())
        },
    )
    .short('j'),
    switch(
        "word-regexp",
        Search,
        "Match whole words only.",
        |args, _| args.boundary = Some(Boundary::Word),
    )
    .short('w'),
    switch(
        "auto-hybrid-regex",
        Search,
        "The same as --engine auto (deprecated).",
        |args, on| args.engine = if on { Engine::Auto } else { Engine::Default },
    )
    .negation("no-auto-hybrid-regex"),
    switch(
        "no-pcre2-unicode",
        Search,
        "The same as --no-unicode (deprecated).",
        |args, on| args.no_unicode = on,
    )
    .negation("pcre2-unicode"),
];
