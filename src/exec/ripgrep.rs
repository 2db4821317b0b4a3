//! The engine over the program `rg`, ripgrep.
//!
//! Owns how ripgrep is asked. Everything else about running it is the module `external`'s; which
//! expression it gets the module `asked` decides.

use std::ffi::OsString;
use std::sync::Arc;

use crate::exec::asked::{self, Asked};
use crate::exec::detect::{Detected, Tool};
use crate::exec::engine::{Capabilities, Engine, EngineError, EngineId, Prepared};
use crate::exec::external::{External, PreparedExternal};
use crate::exec::matcher::LineMatcher;
use crate::exec::process::arguments;
use crate::exec::query::Query;
use crate::exec::records::Format;

/// How ripgrep is always called.
///
/// Explicit files, each reported as `path NUL line ':' note`; the lines themselves are left out by a column
/// limit of 1, since one line can be as long as its file and a JSON record names every match of it. Nothing of
/// its configuration, its ignore rules or its ideas of binary files takes part, no directory is entered, and
/// one thread keeps the order of the files.
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

/// Real ripgrep, 13.0 or later.
#[derive(Debug)]
pub struct Ripgrep {
    id: EngineId,
    detected: Detected,
}

impl Ripgrep {
    /// Creates the engine over a program that was found to be ripgrep.
    pub fn new(detected: Detected) -> Ripgrep {
        let id = EngineId(format!("{}@{}", Tool::Ripgrep.program(), detected.version));
        Ripgrep { id, detected }
    }
}

impl Engine for Ripgrep {
    fn id(&self) -> &EngineId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            full_regex: true,
            fuzzy: false,
            file_lists: true,
        }
    }

    fn prepare(&self, query: Arc<Query>) -> Result<Arc<dyn Prepared>, EngineError> {
        if query.fuzzy.is_some() {
            return Err(EngineError::NotCapable(
                "ripgrep does not support fuzzy search; search exactly, or configure the engine embedded or ugrep"
                    .to_string(),
            ));
        }
        let matcher = LineMatcher::new(&query.pattern)?;
        let asked = asked::for_ripgrep(&query.pattern).map_err(|why| {
            EngineError::NotCapable(format!("ripgrep can't search for this pattern: {why}"))
        })?;
        let worth = External::lines_worth_reporting(&query, Format::Noted);
        let flags = match asked {
            Asked::Nothing => None,
            Asked::Expression(expression) => Some(flags(worth, expression)),
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
