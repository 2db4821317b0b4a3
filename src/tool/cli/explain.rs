//! `forge-search explain`: what an index does for a search.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::Failure;
use super::args::ExplainArgs;
use super::building::before_search;
use super::search::{request, target};
use super::setup::{Environment, Setup, prepare};
use super::show::{self, count, share, things};
use crate::exec::query::{CaseMode, Fold};
use crate::index::plan::{PlanDescription, Reason, Requirement};
use crate::tool::error::ToolError;
use crate::tool::indexing::Explanation;
use crate::tool::render::escape_controls;
use crate::tool::request::{Case, SearchRequest};
use crate::tool::response::{SearchResponse, Stats};

/// What a setup has to be told for an explanation.
pub(super) const WITH_STATS: &str = "emit_stats=true";

/// N-grams of a text that are shown to people.
const SHOWN_NGRAMS: usize = 12;

/// Explains a search, for which it is carried out.
pub(super) fn run(args: &ExplainArgs, environment: &Environment) -> Result<u8, Failure> {
    let (path, extra_root) = target(&args.query, false, &args.setup, environment)?;
    let (request, and_glob) = request(&args.query, path, false, environment)?;
    if !and_glob.is_empty() {
        let message = "explain takes -t or -g, but not both; leave out one of them";
        return Err(ToolError::bad_args(message).into());
    }
    let mut setup_args = args.query.setup(&args.setup);
    setup_args.set.push(WITH_STATS.to_string());
    let setup = prepare(&setup_args, environment, extra_root.as_deref())?;
    before_search(&setup, environment, &request)?;
    let explained = setup
        .signals
        .while_calling(|| Explained::of(&setup, request))
        .map_err(|error| setup.signals.failure(error))?;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        writeln!(out, "{}", explained.to_json())?;
    } else {
        explained.print(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}

/// Explains a search to a program that was set up [`WITH_STATS`].
///
/// # Errors
///
/// Those of the search.
#[cfg(unix)]
pub(super) fn to_program(setup: &Setup, request: SearchRequest) -> Result<Value, ToolError> {
    Ok(Explained::of(setup, request)?.to_json())
}

/// A search, and what an index had to do with it.
struct Explained {
    request: SearchRequest,
    explanation: Explanation,
    /// What the search itself says: the numbers that add up.
    stats: Stats,
    response: SearchResponse,
}

impl Explained {
    /// Carries a search out, for one line of each file that matches.
    ///
    /// # Errors
    ///
    /// Those of the search.
    fn of(setup: &Setup, mut request: SearchRequest) -> Result<Explained, ToolError> {
        let (explanation, index) = setup.tool.explain(&request, &setup.context)?;
        request.max_matches_per_file = Some(1);
        request.max_results = Some(u64::MAX);
        let response = setup.tool.search(&request, &setup.context)?;
        // The configuration asks for them, whatever else it says.
        let stats = response.stats.clone();
        let stats =
            stats.unwrap_or_else(|| Stats::new(index, response.files_scanned, 0, Duration::ZERO));
        Ok(Explained {
            request,
            explanation,
            stats,
            response,
        })
    }

    fn fold(&self) -> &'static str {
        match CaseMode::from(self.request.case).fold(&self.request.pattern) {
            Fold::Sensitive => "sensitive",
            Fold::AsciiInsensitive => "insensitive",
        }
    }

    /// Returns whether the search looked everywhere.
    fn is_complete(&self) -> bool {
        !self.response.truncated && !self.response.timed_out
    }

    /// Returns why nothing was left out, if nothing was.
    fn reason(&self) -> Option<&str> {
        let known = self.explanation.reason.as_deref();
        let all_searched = self.stats.candidates_excluded == 0 && self.stats.candidates_total > 0;
        known.or(all_searched.then_some(NONE_LEFT))
    }

    fn to_json(&self) -> Value {
        let Explained {
            request,
            explanation,
            stats,
            response,
        } = self;
        json!({
            "pattern": request.pattern,
            "fixed_strings": request.fixed_strings,
            "word_regexp": request.word_regexp,
            "case": self.fold(),
            "path": response.path,
            "index": {
                "root": explanation.root.as_ref().map(|root| root.to_string_lossy()),
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
                "searched": stats.candidates_scanned,
                "candidates_by_index": explanation.candidates,
                "confirmed": response.count,
            },
            "complete": self.is_complete(),
            "reason": self.reason(),
            "elsewhere": explanation.elsewhere.as_ref().map(show::elsewhere_json),
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Explained {
            request,
            explanation,
            stats,
            response,
        } = self;
        let kind = match (request.fixed_strings, request.word_regexp) {
            (true, true) => "a text, whole words",
            (true, false) => "a text",
            (false, true) => "an expression, whole words",
            (false, false) => "an expression",
        };
        line(out, "pattern", &format!("{:?}, {kind}", request.pattern))?;
        let why = match request.case {
            Case::Smart => " (smart case)",
            _ => "",
        };
        line(out, "case", &format!("{}{why}", self.fold()))?;
        line(out, "path", &response.path)?;
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
                    let heading = format!("a file must hold {requires}");
                    line(out, "plan", &heading)?;
                    literals(requires, out)?;
                    let different = count(plan.ngrams as u64);
                    line(
                        out,
                        "n-grams",
                        &format!("{different} different ones in all"),
                    )?;
                }
                None => line(out, "plan", "every file is kept")?,
            }
            for unused in unused(plan) {
                line(out, "not used", &unused)?;
            }
        }
        let (all, excluded) = (stats.candidates_total, stats.candidates_excluded);
        line(out, "in scope", &things(all, "file"))?;
        let share = share(excluded, all);
        line(out, "excluded", &format!("{} ({share})", count(excluded)))?;
        line(out, "searched", &self.searched())?;
        let mut confirmed = format!("{} with a match", things(response.count as u64, "file"));
        if !self.is_complete() {
            confirmed.push_str("; the search ended before it had looked everywhere");
        }
        line(out, "confirmed", &confirmed)?;
        if let Some(reason) = self.reason() {
            line(out, "because", reason)?;
        }
        if let Some(found) = &explanation.elsewhere {
            line(out, "but", &show::elsewhere(found))?;
        }
        Ok(())
    }

    /// Says how many files were searched, how many of them the index has as candidates, and why there are more.
    fn searched(&self) -> String {
        let searched = self.stats.candidates_scanned;
        let Some(candidates) = self.explanation.candidates else {
            return things(searched, "file");
        };
        let by_index = format!(
            "{}; candidates by the index: {}",
            things(searched, "file"),
            count(candidates)
        );
        match searched.checked_sub(candidates) {
            None | Some(0) => by_index,
            Some(more) => format!(
                "{by_index}, and {} because they changed since it was built, or have a line break in the name",
                count(more)
            ),
        }
    }
}

/// Why nothing was left out although the index has files that are no candidates.
const NONE_LEFT: &str = "the files that the index could leave out changed since it was built, or the search ended \
     before it came to them";

/// Says which parts of an expression are not used, of which the rest is.
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

/// Shows the texts of which all n-grams are tested.
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
                1 => "one edit changes at most three that follow each other".to_string(),
                _ => format!("{edits} edits change at most three each that follow each other"),
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
