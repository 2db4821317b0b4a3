//! The metrics of a daemon: queries by their outcome, and their durations.
//!
//! This module owns the counters and their export to Prometheus. They are metadata only: no query,
//! no path, no text.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::reply::ErrorCode;
use super::service::Answer;
use crate::format::mutex::lock;

/// How many durations of recent queries are remembered.
const REMEMBERED: usize = 1_024;

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// It failed with this code.
    Failed(ErrorCode),
}

impl Outcome {
    /// All outcomes, in the order of the export.
    pub const ALL: [Outcome; 7] = [
        Outcome::Answered,
        Outcome::Failed(ErrorCode::Busy),
        Outcome::Failed(ErrorCode::Timeout),
        Outcome::Failed(ErrorCode::Cancelled),
        Outcome::Failed(ErrorCode::InvalidRequest),
        Outcome::Failed(ErrorCode::Internal),
        Outcome::Failed(ErrorCode::Incompatible),
    ];

    /// Returns the name of the outcome.
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

/// The stages of a query, in order.
pub const STAGES: [&str; 5] = ["admission", "snapshot_read", "retrieve", "rank", "format"];

#[derive(Debug, Default)]
struct CounterState {
    counts: Counts,
    /// Durations of recent queries in microseconds, as a ring.
    times: Vec<u64>,
    next: usize,
}

/// Counts queries and their durations.
#[derive(Debug)]
pub struct Metrics {
    counted: Mutex<CounterState>,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queries by outcome, in the order of [`Outcome::ALL`].
    pub by_outcome: [u64; Outcome::ALL.len()],
    /// Queries above the duration of a slow one.
    pub slow: u64,
    /// The median duration of recent queries, in microseconds.
    pub p50_us: Option<u64>,
    /// The 95th percentile of their durations, in microseconds.
    pub p95_us: Option<u64>,
    /// The total duration of all queries, the wait included, in microseconds.
    pub took_us: u64,
    /// The total time of each of [`STAGES`], in microseconds. Admission covers all queries, and the
    /// other stages cover answered ranked searches, in whole milliseconds.
    pub stages: [u64; STAGES.len()],
    /// The duration above which a query counts as slow.
    pub slow_after: Duration,
    /// The most segments that one query has read; `None` before the first.
    pub segments_most: Option<u64>,
}

impl Counts {
    /// Returns how many queries had an outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome.place()]
    }
}

impl Metrics {
    /// Builds counters. A query that takes longer than `slow` counts as slow.
    pub fn new(slow: Duration) -> Metrics {
        let counted = CounterState {
            counts: Counts {
                slow_after: slow,
                ..Counts::default()
            },
            ..CounterState::default()
        };
        Metrics {
            counted: Mutex::new(counted),
        }
    }

    /// Counts a query that took `took`, of which it waited for `waited`. Refused queries don't
    /// count for durations.
    pub fn ended(&self, answer: &Answer, waited: Duration, took: Duration) {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let outcome = answer.outcome;
        self.refused(answer);
        if outcome == Outcome::Failed(ErrorCode::Busy) {
            return;
        }
        let mut counted = self.lock();
        let counts = &mut counted.counts;
        let add = |sum: &mut u64, us: u64| *sum = sum.saturating_add(us);
        counts.slow += u64::from(took > counts.slow_after);
        add(&mut counts.took_us, us(took));
        add(&mut counts.stages[0], us(waited));
        if let Some(log_fields) = &answer.log_fields {
            let timings = log_fields.timings;
            let stages = [
                timings.snapshot_read,
                timings.retrieve,
                timings.rank,
                timings.format,
            ];
            for (sum, ms) in counts.stages[1..].iter_mut().zip(stages) {
                add(sum, ms.saturating_mul(1_000));
            }
            counts.segments_most = counts.segments_most.max(log_fields.segments);
        }
        let at = counted.next;
        match counted.times.get_mut(at) {
            Some(time) => *time = us(took),
            None => counted.times.push(us(took)),
        }
        counted.next = (at + 1) % REMEMBERED;
    }

    /// Counts only the outcome of a request, for one that was refused before admission.
    pub fn refused(&self, answer: &Answer) {
        let count = &mut self.lock().counts.by_outcome[answer.outcome.place()];
        *count = count.saturating_add(1);
    }

    /// Returns the counters. Sorts the remembered durations, about a thousand numbers.
    pub fn counts(&self) -> Counts {
        let counted = self.lock();
        let (mut times, counts) = (counted.times.clone(), counted.counts.clone());
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

    fn lock(&self) -> MutexGuard<'_, CounterState> {
        lock(&self.counted)
    }
}

/// Formats counters for Prometheus, with the numbers of running and waiting queries.
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
        "Number of ended queries by outcome.",
        &by_outcome,
    );
    metric(
        "slow_queries_total",
        "counter",
        "Number of queries that took longer than slow_query_ms.",
        &plain(counts.slow),
    );
    metric(
        "queries_in_flight",
        "gauge",
        "Number of running queries.",
        &plain(running as u64),
    );
    metric(
        "query_queue_depth",
        "gauge",
        "Number of waiting queries.",
        &plain(waiting as u64),
    );
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let sums = |us: u64| [(String::new(), seconds(us))];
    let after = u64::try_from(counts.slow_after.as_micros()).unwrap_or(u64::MAX);
    metric(
        "slow_query_threshold_seconds",
        "gauge",
        "Duration above which a query counts as slow.",
        &sums(after),
    );
    let stages = STAGES.iter().zip(counts.stages);
    let stages: Vec<_> = stages
        .map(|(stage, us)| (format!("{{stage=\"{stage}\"}}"), seconds(us)))
        .collect();
    metric(
        "query_stage_seconds_total",
        "counter",
        "Total time that queries spent in each stage.",
        &stages,
    );
    metric(
        "query_seconds_total",
        "counter",
        "Total duration of queries, including their wait.",
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
        "Duration of the last queries.",
        &known,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::reply::Timings;
    use super::super::service::QueryLogFields;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answer(outcome: Outcome) -> Answer {
        Answer {
            payload: Vec::new(),
            outcome,
            log_fields: None,
        }
    }

    #[test]
    fn queries_are_counted_by_how_they_ended() {
        let metrics = Metrics::new(ms(100));
        let none = Counts {
            slow_after: ms(100),
            ..Counts::default()
        };
        assert_eq!(metrics.counts(), none);
        for (outcome, took) in [
            (Outcome::Answered, 10),
            (Outcome::Answered, 100),
            (Outcome::Failed(ErrorCode::Timeout), 101),
            (Outcome::Failed(ErrorCode::Busy), 5_000),
        ] {
            metrics.ended(&answer(outcome), ms(1), ms(took));
        }
        let counts = metrics.counts();
        assert_eq!(counts.of(Outcome::Answered), 2);
        assert_eq!(counts.of(Outcome::Failed(ErrorCode::Timeout)), 1);
        assert_eq!(counts.of(Outcome::Failed(ErrorCode::Busy)), 1);
        assert_eq!(counts.slow, 1);
        assert_eq!((counts.stages[0], counts.took_us), (3_000, 211_000));
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::ALL[outcome.place()], outcome);
        }
    }

    #[test]
    fn metrics_sum_the_stages_and_remember_the_most_segments() {
        let metrics = Metrics::new(ms(100));
        metrics.ended(&answer(Outcome::Answered), ms(1), ms(1));
        assert_eq!(
            metrics.counts().segments_most,
            None,
            "a call tells nothing of it"
        );
        for (segments, rank) in [(1, 2), (0, 5)] {
            let log_fields = QueryLogFields {
                timings: Timings {
                    admission: 9,
                    snapshot_read: 1,
                    retrieve: 3,
                    rank,
                    format: 0,
                },
                segments: Some(segments),
                ..QueryLogFields::default()
            };
            let answer = Answer {
                log_fields: Some(log_fields),
                ..answer(Outcome::Answered)
            };
            metrics.ended(&answer, ms(2), ms(10));
        }
        let counts = metrics.counts();
        assert_eq!(counts.segments_most, Some(1));
        assert_eq!(counts.stages, [5_000, 2_000, 6_000, 7_000, 0]);
    }

    #[test]
    fn quantiles_are_those_of_the_last_queries() {
        let metrics = Metrics::new(ms(100));
        for took in 1..=100 {
            metrics.ended(&answer(Outcome::Answered), ms(0), ms(took));
        }
        let counts = metrics.counts();
        assert_eq!((counts.p50_us, counts.p95_us), (Some(50_000), Some(95_000)));
        for _ in 0..REMEMBERED {
            metrics.ended(&answer(Outcome::Answered), ms(0), ms(7));
        }
        let counts = metrics.counts();
        assert_eq!((counts.p50_us, counts.p95_us), (Some(7_000), Some(7_000)));
    }

    #[test]
    fn the_prometheus_text_has_a_line_for_each_metric() {
        let metrics = Metrics::new(ms(100));
        let bare = exposition(&metrics.counts(), 0, 0);
        assert!(!bare.contains("quantile="), "{bare}");
        metrics.ended(&answer(Outcome::Answered), ms(0), ms(1_500));
        let text = exposition(&metrics.counts(), 2, 3);
        for line in [
            "forge_search_queries_total{outcome=\"ok\"} 1",
            "forge_search_queries_total{outcome=\"busy\"} 0",
            "forge_search_slow_queries_total 1",
            "forge_search_queries_in_flight 2",
            "forge_search_query_queue_depth 3",
            "forge_search_slow_query_threshold_seconds 0.100000",
            "forge_search_query_stage_seconds_total{stage=\"retrieve\"} 0.000000",
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
