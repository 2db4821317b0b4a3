//! The patterns of a call, and the matcher that they become.
//!
//! This module owns where patterns come from (the first argument, `-e`, `-f`), the settings of the
//! regex engine, and the hints in its error messages.

use std::collections::BTreeSet;
use std::path::Path;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::args::{Args, Boundary, Case, Engine, PatternSource};
use super::plan::{Plan, is_stdin};

/// The error of a build without PCRE2.
pub(super) const NO_PCRE2: &str = "PCRE2 is not available in this build of ripgrep";

/// The patterns, and whether standard input was read for them.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    pub(super) list: Vec<String>,
    pub(super) took_stdin: bool,
}

impl Patterns {
    /// Collects the patterns. Takes the first positional argument if no flag gives a pattern.
    pub(super) fn of(args: &mut Args) -> Result<Patterns, String> {
        let mut found = Patterns::default();
        if !args.mode.is_search() {
            return Ok(found);
        }
        if args.patterns.is_empty() {
            if args.positional.is_empty() {
                return Err("ripgrep requires at least one pattern to execute a search".to_string());
            }
            let pattern = args.positional.remove(0).into_string();
            let not_text = |_| "pattern given is not valid UTF-8".to_string();
            found.list.push(pattern.map_err(not_text)?);
            return Ok(found);
        }
        let mut seen = BTreeSet::new();
        for source in &args.patterns {
            let patterns = match source {
                PatternSource::Text(text) => vec![text.clone()],
                PatternSource::File(path) => found.read(path)?,
            };
            let new = patterns
                .into_iter()
                .filter(|text| seen.insert(text.clone()));
            found.list.extend(new);
        }
        Ok(found)
    }

    fn read(&mut self, path: &Path) -> Result<Vec<String>, String> {
        if !is_stdin(path) {
            return grep_cli::patterns_from_path(path).map_err(|error| error.to_string());
        }
        if self.took_stdin {
            return Err(
                "error reading -f/--file from stdin: stdin has already been consumed".to_string(),
            );
        }
        self.took_stdin = true;
        grep_cli::patterns_from_stdin().map_err(|error| error.to_string())
    }
}

/// Compiles the patterns of the plan.
///
/// # Errors
///
/// A message of the regex engine, with a hint if a flag makes the pattern possible.
pub(super) fn matcher(plan: &Plan) -> Result<RegexMatcher, String> {
    let args = &plan.args;
    let built = match args.engine {
        Engine::Pcre2 => return Err(NO_PCRE2.to_string()),
        Engine::Default | Engine::Auto => build(plan),
    };
    match (built, args.engine) {
        (Err(error), Engine::Auto) => {
            let rule = "~".repeat(79);
            Err(format!(
                "regex could not be compiled with either the default regex engine or with PCRE2.\n\n\
                 default regex engine error:\n{rule}\n{error}\n{rule}\n\n\
                 PCRE2 regex engine error:\n{NO_PCRE2}"
            ))
        }
        (built, _) => built,
    }
}

fn build(plan: &Plan) -> Result<RegexMatcher, String> {
    let args = &plan.args;
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(!args.no_unicode)
        .octal(false)
        .fixed_strings(args.fixed_strings)
        .case_insensitive(args.case == Case::Insensitive)
        .case_smart(args.case == Case::Smart)
        .whole_line(args.boundary == Some(Boundary::Line))
        .word(args.boundary == Some(Boundary::Word))
        .dot_matches_new_line(args.multiline && args.multiline_dotall);
    if !args.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    if args.crlf {
        // Sets the line terminator too, which matches across lines must not have.
        builder.crlf(true);
        if args.multiline {
            builder.line_terminator(None);
        }
    }
    if args.null_data && !args.multiline {
        builder.line_terminator(Some(0));
    }
    if let Some(limit) = args.regex_size_limit {
        builder.size_limit(limit);
    }
    if let Some(limit) = args.dfa_size_limit {
        builder.dfa_size_limit(limit);
    }
    if plan.nul_ends_text() {
        builder.ban_byte(Some(0));
    }
    builder
        .build_many(&plan.patterns)
        .map_err(|error| with_hint(error.to_string()))
}

/// Adds to an error of the regex engine which flag makes the pattern possible.
fn with_hint(error: String) -> String {
    if error.contains("the literal") && error.contains("not allowed") {
        return format!(
            "{error}\n\nConsider -U (--multiline), which lets a match span several lines and thus \
             contain line ends."
        );
    }
    if error.contains("pattern contains \"\\0\"") {
        return format!(
            "{error}\n\nConsider -a (--text): without it a NUL byte marks a binary file, and no \
             line has one."
        );
    }
    error
}
