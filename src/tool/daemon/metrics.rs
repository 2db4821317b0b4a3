//! What a daemon counts: queries by how they ended, and how long they took.
//!
//! Owns the numbers and how they are told to programs that collect such. Metadata only: no query, no path, no text.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::reply::ErrorCode;

/// Queries of which the time is remembered, the last ones.
const REMEMBERED: usize = 1_024;

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It was not: why.
    Failed(ErrorCode),
}

impl Outcome {
    /// All of them, in the order in which they are told.
    pub const ALL: [Outcome; 7] = [
        Outcome::Answered,
        Outcome::Failed(ErrorCode::Busy),
        Outcome::Failed(ErrorCode::Timeout),
        Outcome::Failed(ErrorCode::Cancelled),
        Outcome::Failed(ErrorCode::InvalidRequest),
        Outcome::Failed(ErrorCode::Internal),
        Outcome::Failed(ErrorCode::Incompatible),
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Answered => "ok",
            Outcome::Failed(code) => code.as_str(),
        }
    }

    fn place(self) -> usize {
        match self {
            Outcome::Answered => 0,
            Outcome::Failed(code) => 1 + code as usize,
        }
    }
}

#[derive(Debug, Default)]
struct Counted {
    by_outcome: [u64; Outcome::ALL.len()],
    slow: u64,
    /// Times in microseconds of the last queries that ran, in a ring.
    times: Vec<u64>,
    next: usize,
    waited_us: u64,
    took_us: u64,
}

/// Counts queries.
#[derive(Debug)]
pub struct Metrics {
    slow: Duration,
    counted: Mutex<Counted>,
}

/// What was counted, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queries by how they ended, in the order of [`Outcome::ALL`].
    pub by_outcome: [u64; Outcome::ALL.len()],
    /// Queries that took longer than a slow one may.
    pub slow: u64,
    /// What half of the last queries took at most, in microseconds.
    pub p50_us: Option<u64>,
    /// What nineteen of twenty took at most.
    pub p95_us: Option<u64>,
    /// How long all have waited together.
    pub waited_us: u64,
    /// How long all have taken together, the wait included.
    pub took_us: u64,
}

impl Counts {
    /// Returns how many queries ended so.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome.place()]
    }
}

impl Metrics {
    /// Begins to count. A query that takes longer than `slow` is a slow one.
    pub fn new(slow: Duration) -> Metrics {
        Metrics {
            slow,
            counted: Mutex::default(),
        }
    }

    /// Counts a query that was in the daemon for `took`, and waited for `waited` of that. Those that were refused at once tell nothing of
    /// how long queries take.
    pub fn ended(&self, outcome: Outcome, waited: Duration, took: Duration) {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut counted = self.lock();
        let count = &mut counted.by_outcome[outcome.place()];
        *count = count.saturating_add(1);
        if outcome == Outcome::Failed(ErrorCode::Busy) {
            return;
        }
        counted.slow += u64::from(took > self.slow);
        counted.waited_us = counted.waited_us.saturating_add(us(waited));
        counted.took_us = counted.took_us.saturating_add(us(took));
        let at = counted.next;
        match counted.times.get_mut(at) {
            Some(time) => *time = us(took),
            None => counted.times.push(us(took)),
        }
        counted.next = (at + 1) % REMEMBERED;
    }

    /// Returns what was counted so far. Sorts what is remembered, a thousand numbers.
    pub fn counts(&self) -> Counts {
        let counted = self.lock();
        let mut times = counted.times.clone();
        let counts = Counts {
            by_outcome: counted.by_outcome,
            slow: counted.slow,
            p50_us: None,
            p95_us: None,
            waited_us: counted.waited_us,
            took_us: counted.took_us,
        };
        drop(counted);
        times.sort_unstable();
        let at = |percent: usize| {
            let last = times.len().checked_sub(1)?;
            times.get(
                (times.len() * percent)
                    .div_ceil(100)
                    .saturating_sub(1)
                    .min(last),
            )
        };
        Counts {
            p50_us: at(50).copied(),
            p95_us: at(95).copied(),
            ..counts
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes counts in the text format that Prometheus collects, with what runs and waits at this moment.
pub fn exposition(counts: &Counts, running: usize, waiting: usize) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, String)]| {
        let _ = writeln!(out, "# HELP forge_search_{name} {help}");
        let _ = writeln!(out, "# TYPE forge_search_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "forge_search_{name}{labels} {value}");
        }
    };
    let plain = |value: u64| [(String::new(), value.to_string())];
    let by_outcome = Outcome::ALL.map(|outcome| {
        let label = format!("{{outcome=\"{}\"}}", outcome.as_str());
        (label, counts.of(outcome).to_string())
    });
    metric(
        "queries_total",
        "counter",
        "Queries by how they ended.",
        &by_outcome,
    );
    metric(
        "slow_queries_total",
        "counter",
        "Queries that took longer than slow_query_ms.",
        &plain(counts.slow),
    );
    metric(
        "queries_in_flight",
        "gauge",
        "Queries that run.",
        &plain(running as u64),
    );
    metric(
        "query_queue_depth",
        "gauge",
        "Queries that wait.",
        &plain(waiting as u64),
    );
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let sums = |us: u64| [(String::new(), seconds(us))];
    metric(
        "query_wait_seconds_total",
        "counter",
        "Time that queries have waited.",
        &sums(counts.waited_us),
    );
    metric(
        "query_seconds_total",
        "counter",
        "Time that queries have taken, waiting included.",
        &sums(counts.took_us),
    );
    let quantiles = [("0.5", counts.p50_us), ("0.95", counts.p95_us)];
    let known = quantiles.iter().filter_map(|(quantile, us)| {
        Some((format!("{{quantile=\"{quantile}\"}}"), seconds((*us)?)))
    });
    let known: Vec<_> = known.collect();
    metric(
        "query_seconds",
        "gauge",
        "What the last queries took.",
        &known,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn ggrep_queries_are_counted_by_how_they_ended() {
        let metrics = Metrics::new(ms(100));
        assert_eq!(metrics.counts(), Counts::default());
        for (outcome, took) in [
            (Outcome::Answered, 10),
            (Outcome::Answered, 100),
            (Outcome::Failed(ErrorCode::Timeout), 101),
            (Outcome::Failed(ErrorCode::Busy), 5_000),
        ] {
            metrics.ended(outcome, ms(1), ms(took));
        }
        let counts = metrics.counts();
        assert_eq!(counts.of(Outcome::Answered), 2);
        assert_eq!(counts.of(Outcome::Failed(ErrorCode::Timeout)), 1);
        assert_eq!(counts.of(Outcome::Failed(ErrorCode::Busy)), 1);
        assert_eq!(counts.slow, 1);
        assert_eq!((counts.waited_us, counts.took_us), (3_000, 211_000));
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::ALL[outcome.place()], outcome);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_last_queries() {
        let metrics = Metrics::new(ms(100));
        for took in 1..=100 {
            metrics.ended(Outcome::Answered, ms(0), ms(took));
        }
        let counts = metrics.counts();
        assert_eq!((counts.p50_us, counts.p95_us), (Some(50_000), Some(95_000)));
        for _ in 0..REMEMBERED {
            metrics.ended(Outcome::Answered, ms(0), ms(7));
        }
        let counts = metrics.counts();
        assert_eq!((counts.p50_us, counts.p95_us), (Some(7_000), Some(7_000)));
    }

    #[test]
    fn ggrep_the_exposition_has_a_line_for_each_value() {
        let metrics = Metrics::new(ms(100));
        let bare = exposition(&metrics.counts(), 0, 0);
        assert!(!bare.contains("quantile="), "{bare}");
        metrics.ended(Outcome::Answered, ms(0), ms(1_500));
        let text = exposition(&metrics.counts(), 2, 3);
        for line in [
            "forge_search_queries_total{outcome=\"ok\"} 1",
            "forge_search_queries_total{outcome=\"busy\"} 0",
            "forge_search_slow_queries_total 1",
            "forge_search_queries_in_flight 2",
            "forge_search_query_queue_depth 3",
            "forge_search_query_seconds_total 1.500000",
            "forge_search_query_seconds{quantile=\"0.95\"} 1.500000",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
        }
        let values = text.lines().filter(|line| !line.starts_with('#'));
        assert!(values.clone().count() > 10);
        for line in values {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
