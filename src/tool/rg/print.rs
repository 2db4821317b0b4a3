//! Printing results: lines, counts, paths, JSON and statistics.
//!
//! This module owns which printer of the crate `grep-printer` prints, and its settings.

use std::io::{self, Write};
use std::time::Duration;

use grep_printer::{
    JSON, JSONBuilder, PathPrinter, PathPrinterBuilder, Standard, StandardBuilder, Stats, Summary,
    SummaryBuilder, SummaryKind,
};
use termcolor::WriteColor;

use super::args::{Buffering, Mode};
use super::plan::Plan;

/// The printer of one thread.
#[derive(Clone, Debug)]
pub(super) enum Printer<W> {
    Lines(Standard<W>),
    Summary(Summary<W>),
    Json(JSON<W>),
}

impl<W: WriteColor> Printer<W> {
    /// Creates the printer for the kind of results that the plan asks for.
    pub(super) fn new(plan: &Plan, output: W) -> Printer<W> {
        let quiet = plan.args.quiet;
        let kind = match plan.args.mode {
            Mode::FilesWithoutMatch if quiet => SummaryKind::QuietWithoutMatch,
            _ if quiet => SummaryKind::QuietWithMatch,
            Mode::FilesWithMatches => SummaryKind::PathWithMatch,
            Mode::FilesWithoutMatch => SummaryKind::PathWithoutMatch,
            Mode::Count => SummaryKind::Count,
            Mode::CountMatches => SummaryKind::CountMatches,
            Mode::Json => return Printer::Json(json(plan, output)),
            Mode::Lines | Mode::Files | Mode::Types | Mode::Generate(_) => {
                return Printer::Lines(lines(plan, output));
            }
        };
        let (args, look) = (&plan.args, &plan.look);
        let summary = SummaryBuilder::new()
            .color_specs(look.colours.clone())
            .exclude_zero(!args.include_zero)
            .hyperlink(look.hyperlinks.clone())
            .kind(kind)
            .path(look.with_filename)
            .path_terminator(look.path_terminator)
            .separator_field(b":".to_vec())
            .separator_path(args.path_separator)
            .stats(look.has_stats)
            .build(output);
        Printer::Summary(summary)
    }

    /// Returns the output behind the printer.
    pub(super) fn output(&mut self) -> &mut W {
        match self {
            Printer::Lines(printer) => printer.get_mut(),
            Printer::Summary(printer) => printer.get_mut(),
            Printer::Json(printer) => printer.get_mut(),
        }
    }
}

fn json<W: Write>(plan: &Plan, output: W) -> JSON<W> {
    let replacement = plan.args.replacement.clone().map(String::into_bytes);
    JSONBuilder::new()
        .pretty(false)
        .always_begin_end(false)
        .replacement(replacement)
        .build(output)
}

fn lines<W: WriteColor>(plan: &Plan, output: W) -> Standard<W> {
    let (args, look) = (&plan.args, &plan.look);
    let mut builder = StandardBuilder::new();
    builder
        .byte_offset(args.byte_offset)
        .color_specs(look.colours.clone())
        .column(look.column)
        .heading(look.heading)
        .hyperlink(look.hyperlinks.clone())
        .max_columns(args.max_columns)
        .max_columns_preview(args.max_columns_preview)
        .only_matching(args.only_matching)
        .path(look.with_filename)
        .path_terminator(look.path_terminator)
        .per_match(args.vimgrep)
        .per_match_one_line(true)
        .replacement(args.replacement.clone().map(String::into_bytes))
        .separator_context(args.context_separator.clone())
        .separator_field_context(args.field_context_separator.clone())
        .separator_field_match(args.field_match_separator.clone())
        .separator_path(args.path_separator)
        .stats(look.has_stats)
        .trim_ascii(args.trim);
    if plan.threads == 1 {
        // With more threads, the shared output prints it: only that one knows whether a file
        // has printed anything before.
        builder.separator_search(look.file_separator.clone());
    }
    builder.build(output)
}

/// Creates the printer of `--files`.
pub(super) fn paths(plan: &Plan) -> PathPrinter<grep_cli::StandardStream> {
    let look = &plan.look;
    PathPrinterBuilder::new()
        .color_specs(look.colours.clone())
        .hyperlink(look.hyperlinks.clone())
        .separator(plan.args.path_separator)
        .terminator(look.path_terminator.unwrap_or(b'\n'))
        .build(stdout(plan))
}

/// Returns standard output, buffered as the plan says.
pub(super) fn stdout(plan: &Plan) -> grep_cli::StandardStream {
    let colour = plan.look.colour;
    match plan.args.buffering {
        Buffering::Auto if plan.look.terminal => grep_cli::stdout_buffered_line(colour),
        Buffering::Line => grep_cli::stdout_buffered_line(colour),
        Buffering::Auto | Buffering::Block => grep_cli::stdout_buffered_block(colour),
    }
}

/// Prints all types with their globs. Returns whether there are any.
pub(super) fn types(plan: &Plan) -> io::Result<bool> {
    let mut output = stdout(plan);
    let types = plan.types.definitions();
    for definition in types {
        let globs = definition.globs().join(", ");
        writeln!(output, "{}: {globs}", definition.name())?;
    }
    output.flush()?;
    Ok(!types.is_empty())
}

/// Prints the statistics of a whole search.
pub(super) fn stats(
    plan: &Plan,
    stats: &Stats,
    total: Duration,
    mut output: impl Write,
) -> io::Result<()> {
    if plan.args.mode == Mode::Json {
        let summary = serde_json::json!({
            "type": "summary",
            "data": {
                "stats": stats,
                "elapsed_total": {
                    "secs": total.as_secs(),
                    "nanos": total.subsec_nanos(),
                    "human": format!("{:0.6}s", total.as_secs_f64()),
                },
            },
        });
        return writeln!(output, "{summary}");
    }
    let counts = [
        (stats.matches(), "matches"),
        (stats.matched_lines(), "matched lines"),
        (stats.searches_with_match(), "files contained matches"),
        (stats.searches(), "files searched"),
        (stats.bytes_printed(), "bytes printed"),
        (stats.bytes_searched(), "bytes searched"),
    ];
    writeln!(output)?;
    for (count, name) in counts {
        writeln!(output, "{count} {name}")?;
    }
    let (searching, total) = (stats.elapsed().as_secs_f64(), total.as_secs_f64());
    writeln!(output, "{searching:0.6} seconds spent searching")?;
    writeln!(output, "{total:0.6} seconds total")
}
