//! `forge-search explain`: reports how an index narrows a search.

use std::io::{self, BufWriter, Write};

use crate::exec::question::query::Case;
use crate::index::plan::{PlanDescription, Reason, Requirement};
use crate::tool::cli::Failure;
use crate::tool::cli::answers::building::before_search;
use crate::tool::cli::answers::explained::Explained;
use crate::tool::cli::args::ExplainArgs;
use crate::tool::cli::args::question::{query_question, searched_paths};
use crate::tool::cli::commands::search::in_flags;
use crate::tool::cli::output::show::{self, count, count_noun, share};
use crate::tool::cli::setup::{Environment, load_config, prepare};
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;

/// Maximum n-grams of a text that the output shows.
const SHOWN_NGRAMS: usize = 12;

/// Explains a search. Carries the search out, to count its files.
pub(in crate::tool::cli) fn run(
    args: &ExplainArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    let paths = searched_paths(&args.query, false, &args.setup, environment)?;
    let Some(paths) = paths.filter(|paths| paths.len() == 1) else {
        let message = "explain takes one directory or file; leave out the other paths, and -";
        return Err(ToolError::bad_args(message).into());
    };
    let setup_args = args.query.setup(&args.setup);
    let config = load_config(&setup_args, environment)?;
    let question = query_question(&args.query, &paths, false, &config, environment)?;
    let extra: Vec<_> = paths
        .into_iter()
        .filter_map(|path| path.extra_root)
        .collect();
    let setup = prepare(&setup_args, environment, &extra)?.for_people();
    before_search(&setup, environment, &question, None)?;
    let explained = setup
        .signals
        .while_calling(|| Explained::of(&setup, question.clone()))
        .map_err(|error| match setup.signals.failure(error) {
            Failure::Tool(error) => in_flags(error, &question),
            other => other,
        })?;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        show::print_json(&explained.to_json(), &mut out)?;
    } else {
        print(&explained, &mut out)?;
    }
    out.flush()?;
    Ok(0)
}

fn print(explained: &Explained, out: &mut dyn Write) -> io::Result<()> {
    let Explained {
        question,
        explanation,
        stats,
        ..
    } = explained;
    let looked_for = &question.looked_for;
    let kind = match (looked_for.fixed_strings, looked_for.word) {
        (true, true) => "a text, whole words",
        (true, false) => "a text",
        (false, true) => "an expression, whole words",
        (false, false) => "an expression",
    };
    line(
        out,
        "pattern",
        &format!("{:?}, {kind}", explained.pattern()),
    )?;
    let why = match looked_for.case {
        Case::Smart => " (smart case)",
        _ => "",
    };
    line(out, "case", &format!("{}{why}", explained.fold()))?;
    line(out, "path", &explained.path())?;
    let root = explanation.root.as_deref().map(show::path);
    line(out, "index", root.as_deref().unwrap_or("none"))?;
    let mut state = stats.index_safety_state.clone();
    if let Some(reason) = &stats.index_uncertain_reason {
        state.push_str(&format!(" ({reason})"));
    }
    line(
        out,
        "state",
        &format!("{state}, storage {}", stats.storage_mode),
    )?;
    if let Some(plan) = &explanation.plan {
        print_plan(plan, out)?;
    }
    let (all, excluded) = (stats.candidates_total, stats.candidates_excluded);
    line(out, "in scope", &count_noun(all, "file"))?;
    let share = share(excluded, all);
    line(out, "excluded", &format!("{} ({share})", count(excluded)))?;
    if question.files.own_output.is_some() {
        line(
            out,
            "output",
            "a file, which is searched only if its path is given",
        )?;
    }
    if stats.files_too_large > 0 {
        let text = format!(
            "{}, more than --max-filesize {}",
            count(stats.files_too_large),
            count(question.limits.max_file_size)
        );
        line(out, "too large", &text)?;
    }
    line(out, "searched", &searched(explained))?;
    let mut confirmed = format!("{} with a match", count_noun(explained.confirmed(), "file"));
    if !explained.is_complete() {
        confirmed.push_str("; the search ended before it had searched everything");
    }
    line(out, "confirmed", &confirmed)?;
    if let Some(reason) = explained.reason() {
        line(out, "because", reason)?;
    }
    if let Some(found) = &explanation.other_root_index {
        line(out, "but", &show::other_root_text(found))?;
    }
    Ok(())
}

fn print_plan(plan: &PlanDescription, out: &mut dyn Write) -> io::Result<()> {
    match &plan.requires {
        Some(requires) => {
            let heading = format!("a file must contain {requires}");
            line(out, "plan", &heading)?;
            literals(requires, out)?;
            let different = count(plan.ngrams as u64);
            line(out, "n-grams", &format!("{different} different in total"))?;
        }
        None => line(out, "plan", "every file may match")?,
    }
    for unused in unused(plan) {
        line(out, "not used", &unused)?;
    }
    Ok(())
}

/// Describes the number of searched files and of candidates, and the reason for the difference.
fn searched(explained: &Explained) -> String {
    let searched = explained.searched_files();
    let Some(candidates) = explained.explanation.candidates else {
        return count_noun(searched, "file");
    };
    let by_index = format!(
        "{}; candidates by the index: {}",
        count_noun(searched, "file"),
        count(candidates)
    );
    match searched.checked_sub(candidates) {
        None | Some(0) => by_index,
        Some(more) => format!(
            "{by_index}, and {} because they changed since the index was built, or have a line \
             break in the name",
            count(more)
        ),
    }
}

/// Returns the parts of an expression that the plan does not use.
fn unused(plan: &PlanDescription) -> Vec<String> {
    let mut said: Vec<String> = plan.unused.iter().map(|why| why.of_part().into()).collect();
    if let Some(wide) = plan
        .unused
        .iter()
        .position(|why| *why == Reason::TooManyNgrams)
        && !plan.unused_parts.is_empty()
    {
        let parts: Vec<String> = plan
            .unused_parts
            .iter()
            .map(|part| format!("/{part}/"))
            .collect();
        said[wide] = format!("too many n-grams to be worth testing: {}", parts.join(", "));
    }
    if let Some(last) = said.last_mut() {
        last.push_str("; the rest of the expression is used");
    }
    said
}

/// Prints the texts of a requirement. The index tests all n-grams of each text.
fn literals(requirement: &Requirement, out: &mut dyn Write) -> io::Result<()> {
    match requirement {
        Requirement::All(parts) | Requirement::Any(parts) => {
            parts.iter().try_for_each(|part| literals(part, out))
        }
        Requirement::Literal { text, ngrams } => {
            let mut shown: Vec<String> = ngrams.iter().map(|gram| format!("{gram:?}")).collect();
            if shown.len() > SHOWN_NGRAMS {
                shown.truncate(SHOWN_NGRAMS);
                shown.push("…".to_string());
            }
            line(out, "", &format!("{text:?}: {}", shown.join(" ")))
        }
        Requirement::Path { texts, ngrams } => line(
            out,
            "",
            &format!("/{texts}/: {} different n-grams", count(*ngrams as u64)),
        ),
        Requirement::Nearly { edits, ngrams, .. } => {
            let changed = match edits {
                1 => "one edit changes at most three in a row".to_string(),
                _ => format!("{edits} edits change at most three in a row each"),
            };
            let ngrams = count(*ngrams as u64);
            line(
                out,
                "",
                &format!("{requirement}: {ngrams} n-grams, of which {changed}"),
            )
        }
    }
}

fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    let text = escape_controls(text);
    writeln!(out, "{name:<12}{text}")
}
