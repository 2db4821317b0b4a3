//! The program's own log events, on standard error.
//!
//! This module owns which events are printed: warnings, unless `--debug` or `RUST_LOG` asks for
//! others. A process prints equal warnings only once, because each tool sets up its indexes
//! separately.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::format::mutex::lock;
use crate::tool::cli::complain_as;
use crate::tool::cli::setup::event_filter;

/// Maximum number of distinct warnings to remember.
const REMEMBERED: usize = 1_000;

/// Prints the events of this process from now on. With `debug`, prints all events of this program.
pub(in crate::tool::cli) fn start(program: &'static str, debug: bool) {
    let wanted = event_filter();
    let targets = match (debug, wanted.as_str()) {
        (true, _) => Targets::new().with_target("forge_search", LevelFilter::DEBUG),
        (false, "") => warnings(),
        (false, wanted) => wanted.parse().unwrap_or_else(|error| {
            let message = format!(
                "RUST_LOG={wanted} is ignored: {error}; write for example RUST_LOG=forge_search=debug"
            );
            complain_as(program, &message);
            warnings()
        }),
    };
    let printer = Printer {
        program,
        printed: Mutex::default(),
    };
    // In tests, a subscriber may already be installed.
    let _ = tracing_subscriber::registry()
        .with(printer.with_filter(targets))
        .try_init();
}

fn warnings() -> Targets {
    Targets::new().with_target("forge_search", LevelFilter::WARN)
}

/// A layer that prints events as lines.
struct Printer {
    program: &'static str,
    /// The warnings that were already printed.
    printed: Mutex<BTreeSet<String>>,
}

impl<S: Subscriber> Layer<S> for Printer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = *event.metadata().level();
        if level <= Level::WARN {
            let mut printed = lock(&self.printed);
            if printed.len() < REMEMBERED && !printed.insert(line.message.clone()) {
                return;
            }
            return complain_as(self.program, &line.message);
        }
        let (level, target) = (level.as_str().to_lowercase(), event.metadata().target());
        let message = format!("{level}: {target}: {}{}", line.message, line.fields);
        complain_as(self.program, &message);
    }
}

/// The message of an event, and its other fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push_str(&format!(" {name}={value:?}")),
        }
    }
}
