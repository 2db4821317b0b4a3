//! A paragraph of Markdown between two lines that mark it.

use std::ops::Range;

use super::Entry;

/// The lines around the paragraph.
const BEGIN: &str = "<!-- forge-search: begin -->";
const END: &str = "<!-- forge-search: end -->";

/// Sets the paragraph; adds it at the end if it is missing.
pub(super) fn set(text: &str, content: &str) -> Result<String, String> {
    let block = format!("{BEGIN}\n{content}{END}\n");
    Ok(match marked(text)? {
        Some(range) => format!("{}{block}{}", &text[..range.start], &text[range.end..]),
        None if text.is_empty() => block,
        None => format!("{}\n\n{block}", text.trim_end_matches('\n')),
    })
}

/// Removes the paragraph, and the empty line before it unless it separates other text.
pub(super) fn remove(text: &str) -> Result<Option<String>, String> {
    Ok(marked(text)?.map(|range| {
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let is_separate = after.is_empty() || after.starts_with(['\n', '\r']);
        let before = match before.strip_suffix('\n') {
            Some(shorter) if is_separate && shorter.ends_with('\n') => shorter,
            _ => before,
        };
        format!("{before}{after}")
    }))
}

/// Puts the paragraph of another text in the place of this one.
pub(super) fn restore(text: &str, former: &str) -> Result<Option<String>, String> {
    Ok(match (marked(text)?, marked(former)?) {
        (Some(range), Some(old)) => Some(format!(
            "{}{}{}",
            &text[..range.start],
            &former[old],
            &text[range.end..]
        )),
        _ => None,
    })
}

/// Returns the paragraph as an entry, if there is one.
pub(super) fn read(text: &str) -> Result<Option<Entry>, String> {
    Ok(marked(text)?.map(|range| {
        let mut lines: Vec<&str> = text[range].split_inclusive('\n').collect();
        lines.pop();
        Entry::Paragraph(lines.split_off(1).concat().into())
    }))
}

/// Returns the range of the paragraph: the lines of the markers, and all lines between them.
///
/// # Errors
///
/// If a marker is missing, or there are two paragraphs.
fn marked(text: &str) -> Result<Option<Range<usize>>, String> {
    let (mut start, mut end, mut at) = (None, None, 0);
    for line in text.split_inclusive('\n') {
        let behind = at + line.len();
        match line.trim() {
            BEGIN if start.is_some() => {
                return Err(format!(
                    "the line `{BEGIN}` is there twice; remove one paragraph"
                ));
            }
            BEGIN => start = Some(at),
            END if start.is_some() && end.is_none() => end = Some(behind),
            END => return Err(format!("the line `{END}` has no `{BEGIN}` before it")),
            _ => {}
        }
        at = behind;
    }
    match (start, end) {
        (Some(start), Some(end)) => Ok(Some(start..end)),
        (Some(_), None) => Err(format!("the line `{BEGIN}` has no `{END}` behind it")),
        (None, _) => Ok(None),
    }
}
