//! `forge-search explain`: what an index does for a search.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

use super::Failure;
use super::args::ExplainArgs;
use super::building::before_search;
use super::search::{request, target};
use super::setup::{Environment, prepare};
use super::show::{self, count, share, things};
use crate::exec::query::{CaseMode, Fold};
use crate::index::plan::Requirement;
use crate::tool::indexing::Explanation;
use crate::tool::render::escape_controls;
use crate::tool::request::{Case, SearchRequest};
use crate::tool::response::{IndexUse, SearchResponse, Stats};

/// N-grams of a text that are shown to people.
const SHOWN_NGRAMS: usize = 12;

/// Explains a search, for which it is carried out.
pub(super) fn run(args: &ExplainArgs, environment: &Environment) -> Result<u8, Failure> {
    let (path, extra_root) = target(&args.query, &args.setup, environment)?;
    let mut request = request(&args.query, path)?;
    let mut setup_args = args.query.setup(&args.setup);
    setup_args.set.push("emit_stats=true".to_string());
    let setup = prepare(&setup_args, environment, extra_root.as_deref())?;
    before_search(&setup, environment, &request)?;
    let (explanation, index) = setup.tool.explain(&request, &setup.context)?;
    // One line of each file that matches.
    request.max_matches_per_file = Some(1);
    request.max_results = Some(u64::MAX);
    let search = || setup.tool.search(&request, &setup.context);
    let response = setup
        .signals
        .while_calling(search)
        .map_err(|error| setup.signals.failure(error))?;
    let explained = Explained {
        request: &request,
        explanation: &explanation,
        index: &index,
        response: &response,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        writeln!(out, "{}", explained.to_json())?;
    } else {
        explained.print(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}

/// A search, and what an index had to do with it.
struct Explained<'a> {
    request: &'a SearchRequest,
    explanation: &'a Explanation,
    index: &'a IndexUse,
    response: &'a SearchResponse,
}

impl Explained<'_> {
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

    /// Returns the files that the plan excludes.
    fn excluded(&self) -> Option<u64> {
        let Explanation {
            in_scope,
            candidates,
            ..
        } = self.explanation;
        Some((*in_scope)?.saturating_sub((*candidates)?))
    }

    fn to_json(&self) -> Value {
        let Explained {
            request,
            explanation,
            index,
            response,
        } = self;
        let searched = response
            .stats
            .as_ref()
            .map(|stats| stats.candidates_scanned);
        json!({
            "pattern": request.pattern,
            "fixed_strings": request.fixed_strings,
            "word_regexp": request.word_regexp,
            "case": self.fold(),
            "path": response.path,
            "index": {
                "root": explanation.root.as_ref().map(|root| root.to_string_lossy()),
                "state": index.safety_state,
                "uncertain_reason": index.uncertain_reason,
                "used": index.exclusion_used,
                "storage_mode": index.storage_mode,
                "storage_fallback_reason": index.storage_fallback_reason,
            },
            "plan": explanation.plan,
            "files": {
                "in_scope": explanation.in_scope.unwrap_or(response.files_scanned),
                "excluded": self.excluded().unwrap_or(0),
                "candidates": explanation.candidates.unwrap_or(response.files_scanned),
                "searched": searched,
                "confirmed": response.count,
            },
            "complete": self.is_complete(),
            "reason": explanation.reason,
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Explained {
            request,
            explanation,
            index,
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
        let mut state = index.safety_state.clone();
        if let Some(reason) = &index.uncertain_reason {
            state.push_str(&format!(" ({reason})"));
        }
        line(
            out,
            "state",
            &format!("{state}, storage {}", index.storage_mode),
        )?;
        if let Some(plan) = &explanation.plan {
            match &plan.requires {
                Some(requires) => {
                    let heading = format!("a file must hold {requires}");
                    line(out, "plan", &heading)?;
                    literals(requires, out)?;
                    line(out, "n-grams", &count(plan.ngrams as u64))?;
                }
                None => line(out, "plan", "every file is kept")?,
            }
            for unused in &plan.unused {
                line(out, "unused", &unused.to_string())?;
            }
        }
        match (explanation.in_scope, explanation.candidates) {
            (Some(all), Some(candidates)) => {
                let excluded = all.saturating_sub(candidates);
                line(out, "in scope", &things(all, "file"))?;
                let share = share(excluded, all);
                line(out, "excluded", &format!("{} ({share})", count(excluded)))?;
                line(out, "candidates", &count(candidates))?;
            }
            _ => {
                let all = response.files_scanned;
                line(out, "in scope", &things(all, "file"))?;
                line(out, "excluded", "0")?;
                line(out, "candidates", &count(all))?;
            }
        }
        if let Some(stats) = &response.stats {
            line(out, "searched", &self.searched(stats))?;
        }
        let mut confirmed = format!("{} with a match", things(response.count as u64, "file"));
        if !self.is_complete() {
            confirmed.push_str("; the search ended before it had looked everywhere");
        }
        line(out, "confirmed", &confirmed)?;
        if let Some(reason) = &explanation.reason {
            line(out, "because", reason)?;
        }
        Ok(())
    }

    /// Says how many files were searched, and why more than the plan asks for.
    fn searched(&self, stats: &Stats) -> String {
        let searched = things(stats.candidates_scanned, "file");
        let extra = self
            .explanation
            .candidates
            .and_then(|candidates| stats.candidates_scanned.checked_sub(candidates));
        match extra {
            None | Some(0) => searched,
            Some(extra) => format!(
                "{searched}, {} of them because they are new to the index, changed, or can't be in it",
                count(extra)
            ),
        }
    }
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
            &format!("/{texts}/: {}", things(*ngrams as u64, "n-gram")),
        ),
    }
}

fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    let text = escape_controls(text);
    writeln!(out, "{name:<12}{text}")
}
