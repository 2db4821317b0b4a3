//! Events of the program, on standard error.
//!
//! Owns which events are printed: warnings, unless `--debug` or `RUST_LOG` asks for others. An equal
//! warning is printed once in a process, since the tools set up their indexes one by one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::complain_as;
use super::setup::event_filter;

/// The most different warnings that are remembered.
const REMEMBERED: usize = 1_000;

/// Prints the events of this process from now on. `debug` asks for those of this program in full.
pub(super) fn start(program: &'static str, debug: bool) {
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
    // Another one is there already where a test calls this twice.
    let _ = tracing_subscriber::registry()
        .with(printer.with_filter(targets))
        .try_init();
}

fn warnings() -> Targets {
    Targets::new().with_target("forge_search", LevelFilter::WARN)
}

/// Prints events as lines.
struct Printer {
    program: &'static str,
    /// The warnings that were printed.
    printed: Mutex<BTreeSet<String>>,
}

impl<S: Subscriber> Layer<S> for Printer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = *event.metadata().level();
        if level <= Level::WARN {
            let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
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
