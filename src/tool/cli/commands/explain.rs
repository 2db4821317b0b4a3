//! `forge-search explain`: reports how an index narrows a search.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};

use crate::exec::as_text::shown;
use crate::exec::question::query::{Case, Fold, Report};
use crate::exec::question::{FallbackPlan, OutputSpec, Question};
use crate::index::plan::{PlanDescription, Reason, Requirement};
use crate::tool::answering::{Call, Summary};
use crate::tool::cli::Failure;
use crate::tool::cli::answers::building::before_search;
use crate::tool::cli::args::ExplainArgs;
use crate::tool::cli::args::question::{query_question, searched_paths};
use crate::tool::cli::commands::search::in_flags;
use crate::tool::cli::output::show::{self, count, count_noun, share};
use crate::tool::cli::setup::{Environment, Setup, load_config, prepare};
use crate::tool::error::ToolError;
use crate::tool::indexing::Explanation;
use crate::tool::render::escape_controls;
#[cfg(unix)]
use crate::tool::request::SearchRequest;
use crate::tool::response::Stats;
use crate::tool::searcher::slashed;

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
        explained.print(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}

/// Explains a request of the tool `Search`, as JSON.
///
/// # Errors
///
/// Errors of the search.
#[cfg(unix)]
pub(in crate::tool::cli) fn to_program(
    setup: &Setup,
    request: &SearchRequest,
) -> Result<Value, ToolError> {
    Ok(Explained::of(setup, setup.tool.question(request)?)?.to_json())
}

/// A search, with the effects of the index on it.
struct Explained {
    question: Question,
    fold: Fold,
    explanation: Explanation,
    /// The counters of the search, which are consistent with each other.
    stats: Stats,
    summary: Summary,
}

impl Explained {
    /// Carries out a search that looks for one match per file.
    ///
    /// # Errors
    ///
    /// Errors of the search.
    fn of(setup: &Setup, mut question: Question) -> Result<Explained, ToolError> {
        let explanation = setup.tool.explain_question(&question, &setup.context)?;
        question.shown = OutputSpec {
            report: Report::Presence,
            ..OutputSpec::default()
        };
        question.limits.max_results = u64::MAX;
        question.fallback = FallbackPlan::default();
        let fold = question
            .query(question.looked_for.fuzzy)
            .map_err(|error| ToolError::bad_args(error.to_string()))?
            .pattern
            .fold();
        let call = Call {
            context: &setup.context,
            timeout: None,
            maintenance: setup.config.search.index_maint_budget_fraction,
        };
        let take = &mut |_| ControlFlow::Continue(());
        let summary = setup.tool.answer(&question, &call, take)?;
        let totals = summary.run.totals;
        let (all, excluded) = (totals.files_scanned, totals.files_excluded);
        Ok(Explained {
            question,
            fold,
            explanation,
            stats: Stats {
                files_too_large: totals.files_too_large,
                ..Stats::new(summary.index.clone(), all, excluded, Duration::ZERO)
            },
            summary,
        })
    }

    fn fold(&self) -> &'static str {
        match self.fold {
            Fold::Sensitive => "sensitive",
            Fold::AsciiInsensitive | Fold::UnicodeInsensitive => "insensitive",
        }
    }

    fn pattern(&self) -> String {
        let patterns = self.question.looked_for.patterns.as_deref();
        patterns.unwrap_or_default().join("|")
    }

    fn path(&self) -> String {
        let target = self.summary.targets.first();
        target.map_or_else(String::new, |target| slashed(&target.canonical))
    }

    fn confirmed(&self) -> u64 {
        self.summary.run.totals.matched_files
    }

    /// Returns whether the search covered all files.
    fn is_complete(&self) -> bool {
        !self.summary.run.cuts.any() && !self.summary.timed_out()
    }

    /// Returns the reason why the index excluded no files, if it excluded none.
    fn reason(&self) -> Option<&str> {
        if self.stats.files_too_large > 0 && self.searched_files() == 0 {
            // All files were too large to be searched, so the index had nothing to exclude.
            return None;
        }
        let known = self.explanation.reason.as_deref();
        let all_searched = self.stats.candidates_excluded == 0 && self.searched_files() > 0;
        known.or(all_searched.then_some(NONE_LEFT))
    }

    fn to_json(&self) -> Value {
        let Explained {
            question,
            explanation,
            stats,
            ..
        } = self;
        json!({
            "pattern": self.pattern(),
            "fixed_strings": question.looked_for.fixed_strings,
            "word_regexp": question.looked_for.word,
            "case": self.fold(),
            "path": self.path(),
            "index": {
                "root": explanation.root.as_ref().map(|root| shown(root)),
                "state": stats.index_safety_state,
                "uncertain_reason": stats.index_uncertain_reason,
                "used": stats.index_exclusion_used,
                "storage_mode": stats.storage_mode,
                "storage_fallback_reason": stats.storage_fallback_reason,
            },
            "plan": explanation.plan,
            "files": {
                "in_scope": stats.candidates_total,
                "excluded": stats.candidates_excluded,
                "too_large": stats.files_too_large,
                "searched": self.searched_files(),
                "candidates_by_index": explanation.candidates,
                "confirmed": self.confirmed(),
            },
            // Whether standard output is a file, which is then not searched.
            "leaves_out_own_output": question.files.own_output.is_some(),
            "complete": self.is_complete(),
            "reason": self.reason(),
            "elsewhere": explanation.other_root_index.as_ref().map(show::elsewhere_json),
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Explained {
            question,
            explanation,
            stats,
            ..
        } = self;
        let looked_for = &question.looked_for;
        let kind = match (looked_for.fixed_strings, looked_for.word) {
            (true, true) => "a text, whole words",
            (true, false) => "a text",
            (false, true) => "an expression, whole words",
            (false, false) => "an expression",
        };
        line(out, "pattern", &format!("{:?}, {kind}", self.pattern()))?;
        let why = match looked_for.case {
            Case::Smart => " (smart case)",
            _ => "",
        };
        line(out, "case", &format!("{}{why}", self.fold()))?;
        line(out, "path", &self.path())?;
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
        line(out, "searched", &self.searched())?;
        let mut confirmed = format!("{} with a match", count_noun(self.confirmed(), "file"));
        if !self.is_complete() {
            confirmed.push_str("; the search ended before it had searched everything");
        }
        line(out, "confirmed", &confirmed)?;
        if let Some(reason) = self.reason() {
            line(out, "because", reason)?;
        }
        if let Some(found) = &explanation.other_root_index {
            line(out, "but", &show::other_root_text(found))?;
        }
        Ok(())
    }

    fn searched_files(&self) -> u64 {
        self.stats.candidates_scanned - self.stats.files_too_large
    }

    /// Describes the number of searched files and of candidates, and the reason for the difference.
    fn searched(&self) -> String {
        let searched = self.searched_files();
        let Some(candidates) = self.explanation.candidates else {
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
}

/// The reason if the index had files to exclude, but excluded none.
const NONE_LEFT: &str = "the files that the index could exclude changed since it was built, or the \
     search ended before it reached them";

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
