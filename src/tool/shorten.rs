//! Lines longer than a limit, shown in part.
//!
//! This module owns the selection of the shown part. Columns and line numbers always refer to the
//! whole line.

use std::ops::Range;

use crate::exec::answer::line_sink::lossy;
use crate::exec::answer::outcome::Line;
use crate::tool::response::LeftOut;

/// The displayed form of a line.
pub(crate) struct ShownLine {
    /// The text of the line, or its shown part.
    pub(crate) text: String,
    /// The text of the first match, or its shown part; empty for context.
    pub(crate) found: String,
    /// The sizes of the hidden parts; `None` for a complete line.
    pub(crate) left_out: Option<LeftOut>,
}

/// Returns a line as text of at most `max` bytes around its first match. Linear in the length of
/// the line.
pub(crate) fn shown_line(line: &Line, max: Option<usize>) -> ShownLine {
    let text = lossy(&line.text);
    let first = line.spans.first();
    let mut found = first.map_or_else(String::new, |span| {
        lossy(line.text.get(span.start..span.end).unwrap_or_default())
    });
    let Some(max) = max.filter(|max| text.len() > *max) else {
        return ShownLine {
            text,
            found,
            left_out: None,
        };
    };
    // U+FFFD can be longer than the bytes it replaces, so the match may move in the text.
    let place = first.map(|span| {
        let start = lossy(line.text.get(..span.start).unwrap_or_default()).len();
        (start, start + found.len())
    });
    let place = place.filter(|(_, end)| *end <= text.len());
    let part = part(text.as_bytes(), place, max).unwrap_or(0..text.len());
    let left_out = LeftOut {
        before: part.start,
        after: text.len() - part.end,
    };
    found.truncate(found.floor_char_boundary(max));
    ShownLine {
        text: text.get(part).unwrap_or_default().to_string(),
        found,
        left_out: Some(left_out),
    }
}

/// Returns the range of a line that is shown: at most `max` bytes, on character boundaries. `None`
/// for the whole line. The range has as much text before the match as after it. Without a match, it
/// is the start of the line.
pub(crate) fn part(line: &[u8], found: Option<(usize, usize)>, max: usize) -> Option<Range<usize>> {
    if line.len() <= max {
        return None;
    }
    let (start, end) = match found {
        Some((start, end)) if end - start < max => {
            let room = max - (end - start);
            let after = (line.len() - end).min(room - start.min(room / 2));
            let before = start.min(room - after);
            (start - before, end + after)
        }
        Some((start, _)) => (start, start + max),
        None => (0, max),
    };
    // A character has at most three continuation bytes; a longer run is no character.
    let is_boundary = |at: &usize| line.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80);
    let begin = (start..=line.len().min(start + 3)).find(is_boundary);
    let begin = begin.unwrap_or(start);
    let finish = (end.saturating_sub(3)..=end).rev().find(is_boundary);
    Some(begin..finish.unwrap_or(end).max(begin))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::answer::outcome::{LineKind, Span};

    fn line(text: &[u8], found: Option<(usize, usize)>) -> Line {
        let span = found.map(|(start, end)| Span {
            start,
            end,
            edits: 0,
        });
        Line {
            kind: match span {
                Some(_) => LineKind::Match,
                None => LineKind::Context,
            },
            number: 7,
            text: text.into(),
            spans: span.into_iter().collect(),
            place: None,
        }
    }

    fn shown(text: &str, found: Option<&str>, max: usize) -> (String, Option<(usize, usize)>) {
        let place = found.map(|found| {
            let start = text.find(found).unwrap();
            (start, start + found.len())
        });
        let shown = shown_line(&line(text.as_bytes(), place), Some(max));
        let left_out = shown.left_out.map(|out| (out.before, out.after));
        (shown.text, left_out)
    }

    #[test]
    fn lines_are_cut_around_their_match() {
        let line = "0123456789needle0123456789";
        for (found, max, text, left_out) in [
            (Some("needle"), 26, line, None),
            (Some("needle"), 10, "89needle01", Some((8, 8))),
            (Some("needle"), 11, "89needle012", Some((8, 7))),
            (Some("needle"), 6, "needle", Some((10, 10))),
            (Some("needle"), 3, "nee", Some((10, 13))),
            // Room that is not needed on one side goes to the other.
            (Some("01234"), 10, "0123456789", Some((0, 16))),
            (
                Some("56789needle0123456789"),
                24,
                "23456789needle0123456789",
                Some((2, 0)),
            ),
            (None, 5, "01234", Some((0, 21))),
        ] {
            assert_eq!(
                shown(line, found, max),
                (text.to_string(), left_out),
                "{found:?} {max}"
            );
        }
        assert_eq!(
            shown("äöüneedleäöü", Some("needle"), 9),
            ("needleä".to_string(), Some((6, 4)))
        );
        assert_eq!(shown("😀😀", Some("😀"), 1), (String::new(), Some((0, 8))));
    }

    #[test]
    fn a_match_behind_invalid_bytes_stays_in_the_shown_part() {
        let shown = shown_line(
            &line(b"\xFF\xFF\xFF needle and more", Some((4, 10))),
            Some(8),
        );
        assert_eq!(
            (shown.text.as_str(), shown.found.as_str()),
            (" needle ", "needle")
        );
    }

    proptest! {
        #[test]
        fn a_part_that_is_shown_has_the_match(
            text in "[ab é😀]{0,60}",
            start in any::<prop::sample::Index>(),
            len in 0usize..20,
            max in 1usize..40,
            context: bool,
        ) {
            let ceil = |at: usize| (at..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap();
            let start = ceil(start.index(text.len() + 1));
            let end = ceil((start + len).min(text.len()));
            let found = (!context).then_some((start, end));
            let shown = shown_line(&line(text.as_bytes(), found), Some(max));
            match shown.left_out {
                None => prop_assert!(text.len() <= max && shown.text == text),
                Some(LeftOut { before, after }) => {
                    prop_assert!(shown.text.len() <= max);
                    prop_assert_eq!(shown.text.as_str(), &text[before..text.len() - after]);
                    if !context && end - start <= max {
                        prop_assert!(before <= start && end <= text.len() - after);
                    }
                    // No more is left out than has to be: characters have four bytes at most.
                    prop_assert!(shown.text.len() + 6 >= max);
                }
            }
            prop_assert!(shown.found.len() <= max.max(end - start));
        }
    }
}
