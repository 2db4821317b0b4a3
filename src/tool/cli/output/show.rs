//! Formatting of numbers, sizes, times and paths, and JSON that is safe for terminals.

use indicatif::{DecimalBytes, HumanCount, HumanDuration};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::exec::as_text::shown;
use crate::tool::indexing::{OtherRootIndex, wall_clock_ns};
use crate::tool::render::{escape_controls, escape_json};

/// Formats a number with separators: `78,495`.
pub(in crate::tool::cli) fn count(n: u64) -> String {
    HumanCount(n).to_string()
}

/// Formats a number with a noun: `1 file`, `78,495 files`.
pub(in crate::tool::cli) fn count_noun(n: u64, thing: &str) -> String {
    let ending = match (n, thing.strip_suffix('y')) {
        (1, _) => return format!("1 {thing}"),
        (_, Some(stem)) => return format!("{} {stem}ies", count(n)),
        (_, None) => "s",
    };
    format!("{} {thing}{ending}", count(n))
}

/// Formats a number of bytes: `98.20 MB`.
pub(in crate::tool::cli) fn bytes(n: u64) -> String {
    DecimalBytes(n).to_string()
}

/// Formats a percentage: `10.4 %`.
pub(in crate::tool::cli) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_string(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

/// Formats a duration: `5.3 s`.
pub(in crate::tool::cli) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Formats a time for programs, from milliseconds since the Unix epoch. Always has three fractional
/// digits: `2025-11-22T03:44:22.500Z`.
pub(in crate::tool::cli) fn timestamp(ms: i64) -> Option<String> {
    let time = Timestamp::from_millisecond(ms).ok()?;
    Some(format!("{time:.3}"))
}

/// Formats a time with its age, from milliseconds since the Unix epoch.
pub(in crate::tool::cli) fn time(ms: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(ms) else {
        return "at an unknown time".to_string();
    };
    let shown = time.strftime("%Y-%m-%d %H:%M:%S UTC");
    let ago = (wall_clock_ns() / 1_000_000).saturating_sub(ms);
    match u64::try_from(ago) {
        Ok(ago) => format!("{shown}, {} ago", HumanDuration(Duration::from_millis(ago))),
        Err(_) => shown.to_string(),
    }
}

/// Prints a value as one line of JSON, with control characters escaped. Its meaning stays the same.
pub(in crate::tool::cli) fn print_json(
    value: &impl Serialize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", escape_json(&serde_json::to_string(value)?))
}

/// Formats a path on one line, with control characters escaped.
pub(in crate::tool::cli) fn path(path: &Path) -> String {
    escape_controls(&shown(path)).into_owned()
}

/// Formats a path as a shell argument, on one line.
pub(in crate::tool::cli) fn argument(path: &Path) -> String {
    let shown = self::path(path);
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    match shown.chars().all(plain) {
        true => shown,
        false => format!("'{}'", shown.replace('\'', "'\\''")),
    }
}

/// Describes how to use an index of another root.
pub(in crate::tool::cli) fn other_root_text(found: &OtherRootIndex) -> String {
    let (root, argument) = (path(&found.root), argument(&found.root));
    let how = match (found.contains, found.as_root) {
        (true, _) if found.used => "contains it, has an index, which searches use".to_string(),
        (true, false) => format!("contains it, has an index: search with `--root {argument}`"),
        (true, true) => format!(
            "contains it, has an index: search with `--root {argument}`, or with index_roots = \
             [{:?}] in [tools.search]",
            shown(&found.root)
        ),
        (false, _) => {
            format!("lies below, has an index: search only that directory with `--root {argument}`")
        }
    };
    format!("{root}, which {how}")
}

/// Describes an index of another root as JSON.
pub(in crate::tool::cli) fn elsewhere_json(found: &OtherRootIndex) -> Value {
    json!({
        "root": shown(&found.root),
        "contains": found.contains,
        "as_index_root": found.as_root,
        "used": found.used,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_where_a_shell_would_take_them_apart() {
        let shown = |path: &str| argument(Path::new(path));
        assert_eq!(shown("/srv/tree-1.2"), "/srv/tree-1.2");
        assert_eq!(shown("/srv/my tree"), "'/srv/my tree'");
        assert_eq!(shown("/srv/it's"), "'/srv/it'\\''s'");
        assert_eq!(shown("/srv/$(x)"), "'/srv/$(x)'");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count_noun(1, "file"), "1 file");
        assert_eq!(count_noun(78_495, "file"), "78,495 files");
        assert_eq!(count_noun(0, "directory"), "0 directories");
        assert_eq!(bytes(947_100_000), "947.10 MB");
        assert_eq!((share(1, 8), share(1, 0)), ("12.5 %".into(), "-".into()));
    }

    #[test]
    fn times_are_dates() {
        assert!(time(1_700_000_000_000).starts_with("2023-11-14 22:13:20 UTC, "));
        assert_eq!(
            timestamp(1_700_000_000_000).as_deref(),
            Some("2023-11-14T22:13:20.000Z")
        );
        assert_eq!(
            timestamp(1_700_000_000_620).as_deref(),
            Some("2023-11-14T22:13:20.620Z")
        );
        // If the clock was set back, the age is omitted.
        let later = wall_clock_ns() / 1_000_000 + 100_000_000;
        assert!(time(later).ends_with("UTC"));
        assert_eq!(time(i64::MAX), "at an unknown time");
    }
}
