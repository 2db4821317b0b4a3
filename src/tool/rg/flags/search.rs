//! Flags for patterns, and for the way a search runs.

use std::path::PathBuf;

use grep_searcher::Encoding;

use super::{Completes, flag_table};
use crate::tool::rg::args::{Binary, Boundary, Case, Decoding, Engine, Maps, PatternSource};

flag_table! {
    /// Flags for patterns, and for reading files.
    INPUT: Input

    "regexp" 'e': "Search for PATTERN, also if it begins with a hyphen; repeatable.",
        value(PATTERN, |args, value| args.patterns.push(PatternSource::Text(value.text()?)));
    "file" 'f': "Search for each line of PATTERNFILE (- is standard input).",
        value(PATTERNFILE, |args, value| {
            let path = PathBuf::from(value.raw());
            args.patterns.push(PatternSource::File(path));
        }).completes(Completes::File);
    "pre": "Search the output of COMMAND PATH instead of each file.",
        value(COMMAND, |args, value| {
            let program = PathBuf::from(value.raw());
            args.pre = Some(program).filter(|program| !program.as_os_str().is_empty());
            args.search_zip &= args.pre.is_none();
        }).undone_by("no-pre", |args| args.pre = None).completes(Completes::Program);
    "pre-glob": "Limit --pre to the files that GLOB selects; repeatable.",
        value(GLOB, |args, value| args.pre_globs.push(value.text()?));
    "search-zip" 'z': "Decompress files such as *.gz and *.xz, and search their content.",
        switch(|args, on| {
            args.search_zip = on;
            if on {
                args.pre = None;
            }
        });
}

flag_table! {
    /// Flags for the meaning of patterns, and for the way a search runs.
    SEARCH: Search

    "case-sensitive" 's': "Distinguish upper and lower case (the default).",
        set(|args| args.case = Case::Sensitive);
    "crlf": "Let lines end with CR LF as well as with LF.",
        switch(|args, on| {
            args.crlf = on;
            args.null_data &= !on;
        });
    "dfa-size-limit": "Limit the cache of the lazy automaton, for example to 10M.",
        value(SIZE, |args, value| args.dfa_size_limit = Some(value.size()?));
    "encoding" 'E': "Decode files as ENCODING; auto heeds byte order marks, none nothing.",
        value(ENCODING, |args, value| {
            let label = value.text()?;
            args.decoding = match label.as_str() {
                "auto" => Decoding::Auto,
                "none" => Decoding::Raw,
                _ => Decoding::As(Encoding::new(&label).map_err(|error| error.to_string())?),
            };
        }).undone_by("no-encoding", |args| args.decoding = Decoding::Auto);
    "engine": "Choose the regex engine (pcre2 is not in this build).",
        choice(ENGINE, engine:
            "default" => Engine::Default,
            "pcre2" => Engine::Pcre2,
            "auto" => Engine::Auto,
            else |other| format!("unrecognized regex engine '{other}'")
        );
    "fixed-strings" 'F': "Take patterns literally.", on(fixed_strings);
    "ignore-case" 'i': "Ignore case, by the rules of Unicode.",
        set(|args| args.case = Case::Insensitive);
    "invert-match" 'v': "Select the lines that don't match.", on(invert_match);
    "line-regexp" 'x': "Match whole lines only.", set(|args| args.boundary = Some(Boundary::Line));
    "max-count" 'm': "Select at most NUM lines of each file.",
        value(NUM, |args, value| args.max_count = Some(value.number()?));
    "mmap": "Read files as a whole, as if they were mapped into memory.",
        switch(|args, on| args.maps = if on { Maps::Always } else { Maps::Never });
    "multiline" 'U': "Let a match span several lines.",
        switch(|args, on| {
            args.multiline = on;
            args.stop_on_nonmatch &= !on;
        });
    "multiline-dotall": "With --multiline, let a dot match line ends.", on(multiline_dotall);
    "no-unicode": "Match bytes: no Unicode classes, and ASCII case only.",
        on(no_unicode).negation("unicode");
    "null-data": "Let lines end with NUL instead of LF.",
        set(|args| {
            args.null_data = true;
            args.crlf = false;
        });
    "pcre2" 'P': "Use PCRE2, which is not in this build: an error.",
        switch(|args, on| args.engine = if on { Engine::Pcre2 } else { Engine::Default });
    "regex-size-limit": "Limit the size of the compiled patterns, for example to 100M.",
        value(SIZE, |args, value| args.regex_size_limit = Some(value.size()?));
    "smart-case" 'S': "Ignore case if no pattern has an upper-case letter.",
        set(|args| args.case = Case::Smart);
    "stop-on-nonmatch": "Leave a file at the first line without a match after a match.",
        set(|args| {
            args.stop_on_nonmatch = true;
            args.multiline = false;
        });
    "text" 'a': "Search binary files as if they were text.",
        switch(|args, on| args.binary = if on { Binary::AsText } else { Binary::Auto });
    "threads" 'j': "Use about NUM threads (0: as many as are useful).",
        value(NUM, |args, value| {
            args.threads = Some(value.number()?).filter(|threads| *threads > 0);
        });
    "word-regexp" 'w': "Match whole words only.", set(|args| args.boundary = Some(Boundary::Word));
    "auto-hybrid-regex": "The same as --engine auto (deprecated).",
        switch(|args, on| args.engine = if on { Engine::Auto } else { Engine::Default });
    "no-pcre2-unicode": "The same as --no-unicode (deprecated).",
        on(no_unicode).negation("pcre2-unicode");
}
