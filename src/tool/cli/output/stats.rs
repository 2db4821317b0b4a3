//! `--stats`: prints diagnostics of a search on standard error, one field a line.

use std::io::{self, Write};

use crate::tool::answering::Summary;
use crate::tool::cli::complain;
use crate::tool::cli::output::show::{count, count_noun};
use crate::tool::response::Stats;

/// Prints the diagnostics of an answer to standard error.
pub(in crate::tool::cli) fn report(summary: &Summary, errors: usize, stats: &Stats) {
    let totals = &summary.run.totals;
    complain(&format!(
        "{} shown, {} covered, {}",
        count_noun(totals.results as u64, "result"),
        count_noun(totals.files_scanned, "file"),
        count_noun(errors as u64, "error")
    ));
    // Write errors are ignored: there is no other place to report them.
    print_stats(stats, &mut io::stderr().lock());
}

/// Prints every field of the diagnostics, one per line.
fn print_stats(stats: &Stats, out: &mut dyn Write) {
    let or_none = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    let levels = stats.fuzzy_levels_tried.iter().map(u8::to_string);
    let levels = levels.collect::<Vec<_>>().join(" ");
    let mut fields = vec![
        ("stats_version", stats.stats_version.to_string()),
        ("index_safety_state", stats.index_safety_state.clone()),
        (
            "index_uncertain_reason",
            or_none(&stats.index_uncertain_reason),
        ),
        ("index_exclusion_used", yes(stats.index_exclusion_used)),
        ("storage_mode", stats.storage_mode.clone()),
        (
            "storage_fallback_reason",
            or_none(&stats.storage_fallback_reason),
        ),
        ("candidates_total", count(stats.candidates_total)),
        ("candidates_excluded", count(stats.candidates_excluded)),
        ("candidates_scanned", count(stats.candidates_scanned)),
        ("files_too_large", count(stats.files_too_large)),
        ("fallback_used", yes(stats.fallback_used)),
        ("fallback_reason", or_none(&stats.fallback_reason)),
        (
            "fuzzy_levels_tried",
            or_none(&Some(levels).filter(|levels| !levels.is_empty())),
        ),
    ];
    if stats.fallback_skipped_reason.is_some() {
        let why = or_none(&stats.fallback_skipped_reason);
        fields.push(("fallback_skipped_reason", why));
    }
    if stats.fallback_passes_skipped > 0 {
        let skipped = stats.fallback_passes_skipped.to_string();
        fields.push(("fallback_passes_skipped", skipped));
    }
    fields.push(("elapsed_ms", count(stats.elapsed_ms)));
    if let Some(build) = &stats.build {
        fields.extend([
            ("build_phase", build.build_phase.clone()),
            ("build_files_total", count(build.build_files_total)),
            ("build_files_done", count(build.build_files_done)),
            ("build_elapsed_ms", count(build.build_elapsed_ms)),
        ]);
    }
    for (name, value) in fields {
        let _ = writeln!(out, "  {name:<25}{value}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tool::response::{BuildStats, IndexUse};

    #[test]
    fn people_see_the_progress_of_a_build() {
        let shown = |build| {
            let mut stats = Stats::new(IndexUse::not_used(), 3, 0, Duration::ZERO);
            stats.build = build;
            let mut out = Vec::new();
            print_stats(&stats, &mut out);
            String::from_utf8(out).unwrap()
        };
        let without = shown(None);
        let with = shown(Some(BuildStats {
            build_phase: "TOKENIZE".to_string(),
            build_files_total: 78_495,
            build_files_done: 1_024,
            build_elapsed_ms: 950,
        }));
        assert!(!without.contains("build"), "{without}");
        let more = with.strip_prefix(&without).unwrap();
        let words: Vec<&str> = more.split_whitespace().collect();
        let expected = [
            "build_phase",
            "TOKENIZE",
            "build_files_total",
            "78,495",
            "build_files_done",
            "1,024",
            "build_elapsed_ms",
            "950",
        ];
        assert_eq!(words, expected);
    }
}
