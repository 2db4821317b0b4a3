//! The engine that runs the program `rg`, ripgrep.
//!
//! This module owns ripgrep's arguments. The parent module runs the program, and the module
//! `superset` writes the expression for it.

use std::ffi::OsString;
use std::sync::Arc;

use crate::exec::engine::{Engine, EngineError, EngineId, Prepared};
use crate::exec::external::detect::{Detected, Tool};
use crate::exec::external::report_parser::Format;
use crate::exec::external::superset::{self, Superset};
use crate::exec::external::{External, PreparedExternal};
use crate::exec::matching::matcher::LineMatcher;
use crate::exec::process::arguments;
use crate::exec::question::query::Query;

/// The arguments of every run of ripgrep.
///
/// Files are explicit, and each line is reported as `path NUL line ':' note`. A column limit of 1
/// leaves out the lines themselves. One line can be as long as its file, and a JSON record would
/// list every match in it. ripgrep's configuration, ignore rules and binary detection are off, no
/// directory is entered, and one thread keeps the order of the files.
const FLAGS: [&str; 15] = [
    "--no-config",
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--line-number",
    "--null",
    "--max-columns=1",
    "--line-buffered",
    "--text",
    "--no-mmap",
    "--threads=1",
    "--case-sensitive",
    "--no-ignore",
    "--hidden",
    "--max-depth=0",
];

/// The program ripgrep, 13.0 or later.
#[derive(Debug)]
pub struct Ripgrep {
    id: EngineId,
    detected: Detected,
}

impl Ripgrep {
    /// Creates the engine for a program that was detected as ripgrep.
    pub fn new(detected: Detected) -> Ripgrep {
        let id = EngineId(format!("{}@{}", Tool::Ripgrep.program(), detected.version));
        Ripgrep { id, detected }
    }
}

impl Engine for Ripgrep {
    fn id(&self) -> &EngineId {
        &self.id
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        if query.fuzzy.is_some() {
            return Err(EngineError::NotCapable(
                "ripgrep does not support fuzzy search; search exactly, or configure the engine embedded or ugrep"
                    .to_string(),
            ));
        }
        let matcher = LineMatcher::new(&query.pattern)?;
        let asked = superset::for_ripgrep(&query.pattern).map_err(|why| {
            EngineError::NotCapable(format!("ripgrep can't search for this pattern: {why}"))
        })?;
        let worth = External::lines_worth_reporting(&query, Format::Noted);
        let flags = match asked {
            Superset::Nothing => None,
            Superset::Expression(expression) => Some(flags(worth, expression)),
        };
        let external = External {
            tool: Tool::Ripgrep,
            version: self.detected.version,
            program: self.detected.path.clone(),
            flags,
            format: Format::Noted,
            lines_per_file: worth,
        };
        Ok(Arc::new(PreparedExternal {
            query,
            matcher,
            external: Arc::new(external),
        }))
    }
}

fn flags(lines_per_file: u64, expression: String) -> Vec<OsString> {
    let mut flags = arguments(FLAGS);
    flags.push(format!("--max-count={lines_per_file}").into());
    flags.push(format!("--regexp={expression}").into());
    flags.push("--".into());
    flags
}
