//! The engine that runs the program `ugrep`.
//!
//! This module owns ugrep's arguments, for exact and approximate searches, and decides which
//! patterns ugrep may get at all. The parent module runs the program.
//!
//! ugrep's dialect differs from ours without an error: classes that cross line ends, other escapes,
//! other word boundaries, the longest match instead of the first. Its search for literals is
//! sometimes wrong, too: 7.8.4 does not find `\wfoo` in `afoo`. So ugrep never gets the pattern
//! itself, but a few literals of which every match must contain one. The module
//! `superset::required` finds them, and ugrep 3 and 7 agree with us about literals. A pattern
//! without such literals is refused.

use std::ffi::OsString;
use std::sync::Arc;

use regex_syntax::hir::{HirKind, Literal};

use crate::exec::engine::{Engine, EngineError, EngineId, Prepared};
use crate::exec::external::detect::{Detected, Tool, Version};
use crate::exec::external::report_parser::Format;
use crate::exec::external::superset::{self, Superset};
use crate::exec::external::{External, PreparedExternal};
use crate::exec::matching::matcher::LineMatcher;
use crate::exec::matching::pattern::Pattern;
use crate::exec::process::arguments;
use crate::exec::question::query::{Fold, Fuzziness, Query};

/// The arguments of every run of ugrep: explicit files, one thread, which keeps their order, every
/// file as text, no directory or device, and one report for each line.
const FLAGS: [&str; 10] = [
    "--jobs=1",
    "--with-filename",
    "--line-number",
    "--null",
    "--color=never",
    "--line-buffered",
    "--text",
    "--no-mmap",
    "--directories=skip",
    "--devices=skip",
];

/// `path NUL line`, once a line.
const PLAIN_FORMAT: &str = "--format=%u%F%n%~";

/// `path NUL line offset length match`, once a line.
const PLACED_FORMAT: &str = "--format=%u%F%n %b %d %o%~";

/// The first version for which a measurement showed that a limit counts lines and not matches.
const COUNTS_LINES_FROM: Version = Version::new(3, 11, 0);

/// The program ugrep, 3.0 or later.
#[derive(Debug)]
pub struct Ugrep {
    id: EngineId,
    detected: Detected,
}

impl Ugrep {
    /// Creates the engine for a program that was detected as ugrep.
    pub fn new(detected: Detected) -> Ugrep {
        let id = EngineId(format!("{}@{}", Tool::Ugrep.program(), detected.version));
        Ugrep { id, detected }
    }

    fn exact(&self, query: &Query) -> Result<External, EngineError> {
        let asked = superset::for_ugrep(&query.pattern).map_err(|why| {
            EngineError::NotCapable(format!(
                "ugrep is not used for this pattern: {why}; make a literal part of it required, or configure \
                 the embedded engine, or rg"
            ))
        })?;
        Ok(match asked {
            Superset::Nothing => self.external(None, query, Format::Plain),
            Superset::Expression(expression) => {
                let mut flags = arguments(FLAGS);
                flags.extend(arguments(["--binary", PLAIN_FORMAT]));
                flags.push(format!("--regexp={expression}").into());
                self.external(Some(flags), query, Format::Plain)
            }
        })
    }

    fn approximate(&self, query: &Query, level: u8) -> Result<External, EngineError> {
        let lacking = |what: &str| Err(EngineError::NotCapable(what.to_string()));
        if query.pattern.word() {
            return lacking(
                "ugrep does not combine fuzzy search with whole words; leave one of them out, or configure the engine embedded",
            );
        }
        let Some(text) = literal(&query.pattern) else {
            return lacking(
                "ugrep supports fuzzy search only for literals; search for the pattern as a text, \
                 search exactly, or configure the engine embedded",
            );
        };
        // ugrep takes a carriage return as the end of the pattern.
        if text.contains(['\0', '\r']) || text.len() > superset::ARGUMENT_LIMIT {
            return lacking(
                "the pattern can't be passed to ugrep; remove NUL and carriage return, or shorten \
                 it",
            );
        }
        if text.chars().count() <= usize::from(level) {
            return Err(EngineError::BadQuery(format!(
                "the pattern is too short for fuzzy level {level}, which could replace all of it; use a pattern of \
                 more than {level} characters, or a lower level"
            )));
        }
        let mut flags = arguments(FLAGS);
        flags.extend(arguments(["--fixed-strings", PLACED_FORMAT]));
        flags.push(format!("--fuzzy={level}").into());
        if query.pattern.fold() != Fold::Sensitive {
            flags.push("--ignore-case".into());
        }
        flags.push(format!("--regexp={text}").into());
        Ok(self.external(Some(flags), query, Format::Placed))
    }

    fn external(&self, flags: Option<Vec<OsString>>, query: &Query, format: Format) -> External {
        let worth = External::lines_worth_reporting(query, format);
        let flags = flags.map(|mut flags| {
            if self.detected.version >= COUNTS_LINES_FROM {
                flags.push(format!("--max-count={worth}").into());
            }
            flags.push("--".into());
            flags
        });
        External {
            tool: Tool::Ugrep,
            version: self.detected.version,
            program: self.detected.path.clone(),
            flags,
            format,
            lines_per_file: worth,
        }
    }
}

impl Engine for Ugrep {
    fn id(&self) -> &EngineId {
        &self.id
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        let matcher = LineMatcher::new(&query.pattern)?;
        let external = match query.fuzzy {
            Some(Fuzziness::Edits(level)) => self.approximate(&query, level)?,
            Some(Fuzziness::Score(_)) => {
                return Err(EngineError::NotCapable(
                    "ugrep does not support search by similarity; configure the engine embedded"
                        .to_string(),
                ));
            }
            None => self.exact(&query)?,
        };
        Ok(Arc::new(PreparedExternal {
            query,
            matcher,
            external: Arc::new(external),
        }))
    }
}

/// Returns the text of a pattern that is a literal: given as one, or as an expression without
/// operators.
fn literal(pattern: &Pattern) -> Option<String> {
    if pattern.is_fixed() {
        return Some(pattern.original().to_string());
    }
    let hir = regex_syntax::parse(pattern.original()).ok()?;
    match hir.kind() {
        HirKind::Literal(Literal(bytes)) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    }
}
