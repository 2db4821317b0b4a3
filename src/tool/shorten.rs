//! Lines that are longer than wanted, shown in part.
//!
//! Owns which part that is. The structured data stay true to the file but for the texts: columns and numbers are those of the whole line.

use std::ops::Range;

use crate::tool::response::{LeftOut, Record};

/// Cuts the line of an event to at most `max` bytes, and what it says of the match to what is left of that. Linear in the line.
pub(crate) fn shorten(record: &mut Record, max: usize) {
    let Some(part) = part(&record.data.lines.text, record.place_of_match(), max) else {
        return;
    };
    let line = &record.data.lines.text;
    let shown = line[part.clone()].to_string();
    record.left_out = Some(LeftOut {
        before: part.start,
        after: line.len() - part.end,
    });
    record.data.lines.text = shown;
    if let Some(text) = &mut record.data.match_text {
        text.truncate(text.floor_char_boundary(max));
    }
}

/// Returns which part of a line is shown, of at most `max` bytes, on character boundaries; `None` for all of it. A matching line is cut around
/// its match, with as much before it as after it, any other at its end.
pub(crate) fn part(line: &str, found: Option<(usize, usize)>, max: usize) -> Option<Range<usize>> {
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
    let start = (start..=line.len()).find(|&at| line.is_char_boundary(at));
    let start = start.unwrap_or(line.len());
    let end = line.floor_char_boundary(end).max(start);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::event::{Event, EventKind};

    fn record(line: &str, found: Option<(usize, usize)>) -> Record {
        let kind = match found {
            Some((start, end)) => EventKind::Match {
                column: start as u64 + 1,
                text: line[start..end].to_string(),
            },
            None => EventKind::Context,
        };
        let event = Event {
            kind,
            line_number: 7,
            line: line.to_string(),
            each: Vec::new(),
        };
        Record::new("a", event)
    }

    fn shown(line: &str, found: Option<&str>, max: usize) -> (String, Option<(usize, usize)>) {
        let place = found.map(|found| {
            let start = line.find(found).unwrap();
            (start, start + found.len())
        });
        let mut record = record(line, place);
        shorten(&mut record, max);
        let left_out = record
            .left_out
            .map(|left_out| (left_out.before, left_out.after));
        (record.data.lines.text, left_out)
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
            // What is not needed on one side is shown on the other.
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
    fn columns_of_lines_that_are_no_utf_8_lead_to_the_match() {
        let line = String::from_utf8_lossy(b"\xFF\xFF\xFF needle and more").into_owned();
        let mut record = record(&line, None);
        record.data.column = Some(5);
        record.data.match_text = Some("needle".to_string());
        shorten(&mut record, 8);
        assert_eq!(record.data.lines.text, " needle ");
        assert_eq!(record.data.column, Some(5));
        assert_eq!(record.place_of_match(), Some((1, 7)));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_a_part_that_has_the_match(
            line in "[ab é😀]{0,60}",
            start in any::<prop::sample::Index>(),
            len in 0usize..20,
            max in 1usize..40,
            context: bool,
        ) {
            let ceil = |at: usize| (at..=line.len()).find(|&at| line.is_char_boundary(at)).unwrap();
            let start = ceil(start.index(line.len() + 1));
            let end = ceil((start + len).min(line.len()));
            // The reported match is the first of its kind.
            let start = line.find(&line[start..end]).unwrap();
            let end = start + end.saturating_sub(end.min(start)).min(len);
            let end = ceil(end.min(line.len()));
            let mut record = record(&line, (!context).then_some((start, end)));
            let column = record.data.column;
            shorten(&mut record, max);
            let text = &record.data.lines.text;
            prop_assert!(text.len() <= max || record.left_out.is_none());
            match record.left_out {
                None => prop_assert!(line.len() <= max && *text == line),
                Some(LeftOut { before, after }) => {
                    prop_assert_eq!(text.as_str(), &line[before..line.len() - after]);
                    if !context && end - start <= max {
                        prop_assert!(before <= start && end <= line.len() - after);
                    }
                    // No more is left out than has to be: characters have four bytes at most.
                    prop_assert!(text.len() + 6 >= max);
                }
            }
            prop_assert_eq!(record.data.column, column);
            prop_assert!(record.data.match_text.is_none_or(|text| text.len() <= max.max(end - start)));
        }
    }
}
