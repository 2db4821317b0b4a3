//! Flags for the appearance of results.

use std::path::PathBuf;

use super::{Completes, flag_table};
use crate::tool::rg::args::{Buffering, Colour, Context, Sort, SortKey};

/// The values of `--sort` and `--sortr`.
const SORT_KEYS: &[&str] = &["none", "path", "modified", "accessed", "created"];

flag_table! {
    /// Flags for the appearance of results.
    OUTPUT: Output

    "after-context" 'A': "Print NUM lines after each match too.",
        value(NUM, |args, value| args.context.limited().after = Some(value.number()?));
    "before-context" 'B': "Print NUM lines before each match too.",
        value(NUM, |args, value| args.context.limited().before = Some(value.number()?));
    "block-buffered": "Write the output in large blocks.",
        switch(|args, on| args.buffering = if on { Buffering::Block } else { Buffering::Auto });
    "byte-offset" 'b': "Print the offset of each line, or of each match with -o.", on(byte_offset);
    "color": "Choose when to print colours.",
        choice(WHEN, colour:
            "never" => Colour::Never,
            "auto" => Colour::Auto,
            "always" => Colour::Always,
            "ansi" => Colour::Ansi,
        );
    "colors": "Choose colours, for example match:fg:green; repeatable.",
        value(COLOR_SPEC, |args, value| {
            let spec = value.text()?.parse();
            args.colours
                .push(spec.map_err(|error: grep_printer::ColorError| error.to_string())?);
        });
    "column": "Print the column of the first match.", switch(|args, on| args.column = Some(on));
    "context" 'C': "Print NUM lines before and after each match too.",
        value(NUM, |args, value| args.context.limited().both = Some(value.number()?));
    "context-separator": "Print SEPARATOR between places of a file [default: --].",
        value(SEPARATOR, |args, value| args.context_separator = Some(value.unescaped()?))
            .undone_by("no-context-separator", |args| args.context_separator = None);
    "field-context-separator": "Print SEPARATOR between the fields of a line of context.",
        value(SEPARATOR, |args, value| args.field_context_separator = value.unescaped()?);
    "field-match-separator": "Print SEPARATOR between the fields of a matching line.",
        value(SEPARATOR, |args, value| args.field_match_separator = value.unescaped()?);
    "heading": "Print a path once, above the lines of its file.",
        switch(|args, on| args.heading = Some(on));
    "hostname-bin": "Run COMMAND to get the host name for hyperlinks.",
        value(COMMAND, |args, value| {
            let program = PathBuf::from(value.raw());
            args.hostname_bin = Some(program).filter(|program| !program.as_os_str().is_empty());
        }).completes(Completes::Program);
    "hyperlink-format": "Turn paths into hyperlinks, for example with default or vscode.",
        value(FORMAT, |args, value| {
            let format = value.text()?.parse();
            args.hyperlink_format =
                format.map_err(|error: grep_printer::HyperlinkFormatError| {
                    format!("invalid hyperlink format: {error}")
                })?;
        });
    "include-zero": "With -c and --count-matches, print files with 0 too.", on(include_zero);
    "line-buffered": "Write the output line by line.",
        switch(|args, on| args.buffering = if on { Buffering::Line } else { Buffering::Auto });
    "line-number" 'n': "Print line numbers.", set(|args| args.line_number = Some(true));
    "no-line-number" 'N': "Don't print line numbers.", set(|args| args.line_number = Some(false));
    "max-columns" 'M': "Leave out lines of more than NUM bytes (0: no limit).",
        value(NUM, |args, value| {
            args.max_columns = Some(value.number()?).filter(|columns| *columns > 0);
        });
    "max-columns-preview": "Print the start of a line that --max-columns leaves out.",
        on(max_columns_preview);
    "null" '0': "Print a NUL byte after each path.", set(|args| args.null = true);
    "only-matching" 'o': "Print only the matching parts of lines.",
        set(|args| args.only_matching = true);
    "path-separator": "Print SEPARATOR between the parts of paths.",
        value(SEPARATOR, |args, value| {
            let typed = value.as_ref().to_string_lossy().into_owned();
            let bytes = value.unescaped()?;
            if bytes.len() > 1 {
                return Err(format!(
                    "a path separator is one byte, but {typed} has {}; where a shell on Windows \
                     expands '/', write '//'",
                    bytes.len()
                ));
            }
            args.path_separator = bytes.first().copied();
        });
    "passthru": "Print all lines, and highlight the matches.",
        set(|args| args.context = Context::all()).alias("passthrough");
    "pretty" 'p': "The same as --color always --heading --line-number.",
        set(|args| {
            args.colour = Colour::Always;
            args.heading = Some(true);
            args.line_number = Some(true);
        });
    "quiet" 'q': "Print nothing, and stop at the first match.", set(|args| args.quiet = true);
    "replace" 'r': "Print REPLACEMENT instead of each match; $1 is its first group.",
        value(REPLACEMENT, |args, value| args.replacement = Some(value.text()?));
    "sort": "Sort the results by path or by a time; uses one thread.",
        value(SORTBY, |args, value| args.sort = sort_by(value.text()?, false)?).choices(SORT_KEYS);
    "sortr": "The same as --sort, in the opposite order.",
        value(SORTBY, |args, value| args.sort = sort_by(value.text()?, true)?).choices(SORT_KEYS);
    "trim": "Leave out the spaces at the start of lines.", on(trim);
    "vimgrep": "Print a line for each match, with path, line and column.",
        set(|args| args.vimgrep = true);
    "with-filename" 'H': "Print paths, also if one file is searched.",
        set(|args| args.with_filename = Some(true));
    "no-filename" 'I': "Don't print paths.", set(|args| args.with_filename = Some(false));
    "sort-files": "The same as --sort path (deprecated).",
        switch(|args, on| args.sort = on.then_some(Sort {
            key: SortKey::Path,
            reversed: false,
        }));
}

fn sort_by(key: String, reversed: bool) -> Result<Option<Sort>, String> {
    let key = match key.as_str() {
        "none" => return Ok(None),
        "path" => SortKey::Path,
        "modified" => SortKey::Modified,
        "accessed" => SortKey::Accessed,
        "created" => SortKey::Created,
        _ => return Err(format!("choice '{key}' is unrecognized")),
    };
    Ok(Some(Sort { key, reversed }))
}
