//! The progress bar of a build, on standard error.
//!
//! Without a terminal there is no bar, since programs can't use it.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::format::mutex::lock;
use crate::index::builder::{Phase, Progress};
use crate::tool::cli::output::show::{bytes, count, count_noun};
use crate::tool::cli::setup::Environment;

/// How often the bar moves without news from the build.
const TICK: Duration = Duration::from_millis(100);

/// A progress bar, which disappears when it is dropped.
#[derive(Debug)]
pub(in crate::tool::cli) struct Bar {
    bar: ProgressBar,
    shown: Mutex<Option<Shown>>,
}

/// The state that the bar shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Another process has the index locked.
    Waiting,
    Phase(Phase),
}

impl Bar {
    /// Creates a bar if standard error is a terminal that can move its cursor.
    pub(in crate::tool::cli) fn on_terminal(environment: &Environment) -> Option<Bar> {
        if environment.dumb || !io::stderr().is_terminal() {
            return None;
        }
        Some(Bar {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            shown: Mutex::new(None),
        })
    }

    /// Shows that the build waits for another process.
    pub(in crate::tool::cli) fn show_waiting(&self) {
        self.begin(Shown::Waiting, WAITING.to_string());
    }

    /// Shows a state with a message. Resets the bar if the state has changed.
    fn begin(&self, new: Shown, message: String) {
        let mut shown = lock(&self.shown);
        let is_new = shown.replace(new) != Some(new);
        // All calls below draw the bar, so set the style first.
        if is_new {
            self.bar.set_style(style(new));
        }
        self.bar.set_message(message);
        if is_new {
            self.bar.reset();
            self.bar.enable_steady_tick(TICK);
        }
    }

    /// Shows the progress of the build.
    pub(in crate::tool::cli) fn show(&self, progress: Progress) {
        self.begin(Shown::Phase(progress.phase), phase_text(progress));
        if progress.phase == Phase::Tokenize {
            self.bar.set_length(progress.bytes_total);
            self.bar.set_position(progress.bytes_done);
            self.bar.set_prefix(how_much(progress, self.bar.elapsed()));
        }
    }
}

/// The message while another process has the index locked.
pub(in crate::tool::cli) const WAITING: &str =
    "waiting for another process that holds the lock of the index";

/// Returns a description of the current phase.
fn phase_text(progress: Progress) -> String {
    let files = count_noun(progress.files_total, "file");
    match progress.phase {
        Phase::Enumerate => "listing files".to_string(),
        Phase::Tokenize => format!("reading, {} of {files}", count(progress.files_done)),
        Phase::Persist | Phase::Activate => format!("writing the index of {files}"),
    }
}

/// Returns the bytes read, the rate, and the remaining time. Uses the average rate: files are read
/// in batches, without news in between.
fn how_much(progress: Progress, elapsed: Duration) -> String {
    let (done, total) = (progress.bytes_done, progress.bytes_total);
    let amount = format!("{} of {}", bytes(done), bytes(total));
    let rate = done as f64 / elapsed.as_secs_f64();
    if done == 0 || !rate.is_normal() {
        return amount;
    }
    let left = (total.saturating_sub(done) as f64 / rate).ceil() as u64;
    format!("{amount}, {}/s, {left} s left", bytes(rate as u64))
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(shown: Shown) -> ProgressStyle {
    let template = match shown {
        Shown::Phase(Phase::Tokenize) => "{msg} [{bar:20}] {prefix}",
        Shown::Phase(Phase::Enumerate | Phase::Persist | Phase::Activate) | Shown::Waiting => {
            "{spinner} {msg}, {elapsed}"
        }
    };
    let style = ProgressStyle::with_template(template);
    // The templates are constant and valid. A default bar would do as well.
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for shown in [
            Shown::Waiting,
            Shown::Phase(Phase::Enumerate),
            Shown::Phase(Phase::Tokenize),
            Shown::Phase(Phase::Persist),
            Shown::Phase(Phase::Activate),
        ] {
            let bar = ProgressBar::hidden().with_style(style(shown));
            bar.set_message("x");
            bar.tick();
            assert_eq!(bar.message(), "x");
        }
    }

    #[test]
    fn rate_and_rest_follow_from_what_was_done() {
        let progress = |done| Progress {
            phase: Phase::Tokenize,
            files_done: 1_024,
            files_total: 2_048,
            bytes_done: done,
            bytes_total: 100_000_000,
        };
        let after = |done, seconds| how_much(progress(done), Duration::from_secs(seconds));
        assert_eq!(
            after(25_000_000, 5),
            "25.00 MB of 100.00 MB, 5.00 MB/s, 15 s left"
        );
        assert_eq!(after(0, 5), "0 B of 100.00 MB");
        assert_eq!(after(5, 0), "5 B of 100.00 MB");
        assert!(after(1, 1 << 40).ends_with("s left"));
        assert_eq!(phase_text(progress(0)), "reading, 1,024 of 2,048 files");
    }
}
