//! Snippets in the results of tasks: the text around a match.

use std::fmt::Write;
use std::ops::Range;

/// The most code points before and after a match.
const AROUND: usize = 60;

/// The most code points of a match.
const WITHIN: usize = 240;

/// Returns the text around a match, on one line.
///
/// It has at most 60 code points before and after the match, and 240 of the match itself; `…` marks
/// omissions. Control characters, and characters that change the text direction, are escaped as in
/// JSON. Cuts are at code points only.
pub fn snippet(text: &str, at: Range<usize>) -> String {
    let (before, rest) = text.split_at(at.start);
    let (found, after) = rest.split_at(at.len());
    let mut out = String::new();
    let start = before.char_indices().rev().take(AROUND).last();
    let start = start.map_or(before.len(), |(start, _)| start);
    if start > 0 {
        out.push('…');
    }
    escape(&before[start..], &mut out);
    match found.char_indices().nth(WITHIN) {
        Some((end, _)) => {
            escape(&found[..end], &mut out);
            out.push('…');
        }
        None => {
            escape(found, &mut out);
            let end = after.char_indices().nth(AROUND);
            escape(&after[..end.map_or(after.len(), |(end, _)| end)], &mut out);
            if end.is_some() {
                out.push('…');
            }
        }
    }
    out
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_invisible(c) => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

/// Returns whether a character ends a line or changes the text direction.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, query: &str) -> String {
        let at = text.find(query).unwrap();
        snippet(text, at..at + query.len())
    }

    #[test]
    fn snippets_are_bounded_and_harmless() {
        assert_eq!(of("abc", "b"), "abc");
        assert_eq!(
            of("a\tb\r\nc\u{1b}[31m\u{202e}x", "c"),
            "a\\tb\\r\\nc\\u001b[31m\\u202ex"
        );
        let long = format!("{}needle{}", "ä".repeat(100), "ö".repeat(100));
        assert_eq!(
            of(&long, "needle"),
            format!("…{}needle{}…", "ä".repeat(60), "ö".repeat(60))
        );
        let exact = format!("{}needle{}", "ä".repeat(60), "ö".repeat(60));
        assert_eq!(of(&exact, "needle"), exact);
        let query = "🦀".repeat(4_096);
        assert_eq!(
            of(&format!("x{query}y"), &query),
            format!("x{}…", "🦀".repeat(240))
        );
        assert_eq!(of("🦀b", "b"), "🦀b");
    }
}
