//! Flags for the appearance of results.

use std::path::PathBuf;

use super::Category::Output;
use super::{Completes, Flag, switch, value};
use crate::tool::rg::args::{Buffering, Colour, Context, Sort, SortKey};

/// The values of `--sort` and `--sortr`.
const SORT_KEYS: &[&str] = &["none", "path", "modified", "accessed", "created"];

/// Flags for the appearance of results.
pub(super) const OUTPUT: &[Flag] = &[
    value(
        "after-context",
        "NUM",
        Output,
        "Print NUM lines after each match too.",
        |args, value| {
            args.context.limited().after = Some(value.number()?);
            Ok(())
        },
    )
    .short('A'),
    value(
        "before-context",
        "NUM",
        Output,
        "Print NUM lines before each match too.",
        |args, value| {
            args.context.limited().before = Some(value.number()?);
            Ok(())
        },
    )
    .short('B'),
    switch(
        "block-buffered",
        Output,
        "Write the output in large blocks.",
        |args, on| {
            args.buffering = if on {
                Buffering::Block
            } else {
                Buffering::Auto
            }
        },
    )
    .negation("no-block-buffered"),
    switch(
        "byte-offset",
        Output,
        "Print the offset of each line, or of each match with -o.",
        |args, on| args.byte_offset = on,
    )
    .short('b')
    .negation("no-byte-offset"),
    value(
        "color",
        "WHEN",
        Output,
        "Choose when to print colours.",
        |args, value| {
            args.colour = value.choice(&[
                ("never", Colour::Never),
                ("auto", Colour::Auto),
                ("always", Colour::Always),
                ("ansi", Colour::Ansi),
            ])?;
            Ok(())
        },
    )
    .choices(&["never", "auto", "always", "ansi"]),
    value(
        "colors",
        "COLOR_SPEC",
        Output,
        "Choose colours, for example match:fg:green; repeatable.",
        |args, value| {
            let spec = value.text()?.parse();
            args.colours
                .push(spec.map_err(|error: grep_printer::ColorError| error.to_string())?);
            Ok(())
        },
    ),
    switch(
        "column",
        Output,
        "Print the column of the first match.",
        |args, on| args.column = Some(on),
    )
    .negation("no-column"),
    value(
        "context",
        "NUM",
        Output,
        "Print NUM lines before and after each match too.",
        |args, value| {
            args.context.limited().both = Some(value.number()?);
            Ok(())
        },
    )
    .short('C'),
    value(
        "context-separator",
        "SEPARATOR",
        Output,
        "Print SEPARATOR between places of a file [default: --].",
        |args, value| {
            args.context_separator = Some(value.unescaped()?);
            Ok(())
        },
    )
    .undone_by("no-context-separator", |args| args.context_separator = None),
    value(
        "field-context-separator",
        "SEPARATOR",
        Output,
        "Print SEPARATOR between the fields of a line of context.",
        |args, value| {
            args.field_context_separator = value.unescaped()?;
            Ok(())
        },
    ),
    value(
        "field-match-separator",
        "SEPARATOR",
        Output,
        "Print SEPARATOR between the fields of a matching line.",
        |args, value| {
            args.field_match_separator = value.unescaped()?;
            Ok(())
        },
    ),
    switch(
        "heading",
        Output,
        "Print a path once, above the lines of its file.",
        |args, on| args.heading = Some(on),
    )
    .negation("no-heading"),
    value(
        "hostname-bin",
        "COMMAND",
        Output,
        "Run COMMAND to get the host name for hyperlinks.",
        |args, value| {
            let program = PathBuf::from(value.raw());
            args.hostname_bin = Some(program).filter(|program| !program.as_os_str().is_empty());
            Ok(())
        },
    )
    .completes(Completes::Program),
    value(
        "hyperlink-format",
        "FORMAT",
        Output,
        "Turn paths into hyperlinks, for example with default or vscode.",
        |args, value| {
            let format = value.text()?.parse();
            args.hyperlink_format =
                format.map_err(|error: grep_printer::HyperlinkFormatError| {
                    format!("invalid hyperlink format: {error}")
                })?;
            Ok(())
        },
    ),
    switch(
        "include-zero",
        Output,
        "With -c and --count-matches, print files with 0 too.",
        |args, on| args.include_zero = on,
    )
    .negation("no-include-zero"),
    switch(
        "line-buffered",
        Output,
        "Write the output line by line.",
        |args, on| args.buffering = if on { Buffering::Line } else { Buffering::Auto },
    )
    .negation("no-line-buffered"),
    switch("line-number", Output, "Print line numbers.", |args, _| {
        args.line_number = Some(true);
    })
    .short('n'),
    switch(
        "no-line-number",
        Output,
        "Don't print line numbers.",
        |args, _| args.line_number = Some(false),
    )
    .short('N'),
    value(
        "max-columns",
        "NUM",
        Output,
        "Leave out lines of more than NUM bytes (0: no limit).",
        |args, value| {
            args.max_columns = Some(value.number()?).filter(|columns| *columns > 0);
            Ok(())
        },
    )
    .short('M'),
    switch(
        "max-columns-preview",
        Output,
        "Print the start of a line that --max-columns leaves out.",
        |args, on| args.max_columns_preview = on,
    )
    .negation("no-max-columns-preview"),
    switch(
        "null",
        Output,
        "Print a NUL byte after each path.",
        |args, _| args.null = true,
    )
    .short('0'),
    switch(
        "only-matching",
        Output,
        "Print only the matching parts of lines.",
        |args, _| args.only_matching = true,
    )
    .short('o'),
    value(
        "path-separator",
        "SEPARATOR",
        Output,
        "Print SEPARATOR between the parts of paths.",
        |args, value| {
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
            Ok(())
        },
    ),
    switch(
        "passthru",
        Output,
        "Print all lines, and highlight the matches.",
        |args, _| args.context = Context::all(),
    )
    .alias("passthrough"),
    switch(
        "pretty",
        Output,
        "The same as --color always --heading --line-number.",
        |args, _| {
            args.colour = Colour::Always;
            args.heading = Some(true);
            args.line_number = Some(true);
        },
    )
    .short('p'),
    switch(
        "quiet",
        Output,
        "Print nothing, and stop at the first match.",
        |args, _| args.quiet = true,
    )
    .short('q'),
    value(
        "replace",
        "REPLACEMENT",
        Output,
        "Print REPLACEMENT instead of each match; $1 is its first group.",
        |args, value| {
            args.replacement = Some(value.text()?);
            Ok(())
        },
    )
    .short('r'),
    value(
        "sort",
        "SORTBY",
        Output,
        "Sort the results by path or by a time; uses one thread.",
        |args, value| {
            args.sort = sort_by(value.text()?, false)?;
            Ok(())
        },
    )
    .choices(SORT_KEYS),
    value(
        "sortr",
        "SORTBY",
        Output,
        "The same as --sort, in the opposite order.",
        |args, value| {
            args.sort = sort_by(value.text()?, true)?;
            Ok(())
        },
    )
    .choices(SORT_KEYS),
    switch(
        "trim",
        Output,
        "Leave out the spaces at the start of lines.",
        |args, on| args.trim = on,
    )
    .negation("no-trim"),
    switch(
        "vimgrep",
        Output,
        "Print a line for each match, with path, line and column.",
        |args, _| args.vimgrep = true,
    ),
    switch(
        "with-filename",
        Output,
        "Print paths, also if one file is searched.",
        |args, _| args.with_filename = Some(true),
    )
    .short('H'),
    switch("no-filename", Output, "Don't print paths.", |args, _| {
        args.with_filename = Some(false);
    })
    .short('I'),
    switch(
        "sort-files",
        Output,
        "The same as --sort path (deprecated).",
        |args, on| {
            args.sort = on.then_some(Sort {
                key: SortKey::Path,
                reversed: false,
            });
        },
    )
    .negation("no-sort-files"),
];

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
