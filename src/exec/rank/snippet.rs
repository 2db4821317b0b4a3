//! Snippets: the lines of a file that an answer shows.

use super::document::Hit;
use crate::index::text::without_terminator;

/// How many lines are shown around the best line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Snippet {
    /// Three lines.
    #[default]
    Short,
    /// Fifteen lines.
    Long,
    /// Only the best line; its text is not shown.
    None,
}

impl Snippet {
    /// Returns the name of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Snippet::Short => "short",
            Snippet::Long => "long",
            Snippet::None => "none",
        }
    }

    fn around(self) -> u64 {
        match self {
            Snippet::Short => 1,
            Snippet::Long => 7,
            Snippet::None => 0,
        }
    }
}

/// Some consecutive lines of a file around a line with terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The number of the first line, from 1.
    pub start_line: u64,
    /// The number of the last line.
    pub end_line: u64,
    /// Where the first line starts, in bytes of the text.
    pub start: usize,
    /// Where the last line ends without its terminator, in bytes of the text.
    pub end: usize,
    /// Where the first hit of the best line starts, in bytes of the text.
    pub at: usize,
    /// The score of the best line, for comparing chunks of one file.
    pub worth: u32,
    /// Whether the best line defines a name.
    pub defines: bool,
}

/// A line with hits.
struct Line {
    number: u64,
    at: usize,
    terms: u64,
    whole: u32,
    defines: u32,
}

impl Line {
    fn worth(&self) -> u32 {
        4 * self.terms.count_ones() + 2 * self.defines.min(4) + self.whole.min(8)
    }
}

/// Returns at most `most` chunks of a text, the best first; they do not overlap. `hits` must be in
/// ascending order of their starts. Makes one pass over the text, and sorts the lines with hits.
pub fn chunks(text: &[u8], hits: &[Hit], snippet: Snippet, most: usize) -> Vec<Chunk> {
    let mut starts = vec![0];
    starts.extend(memchr::memchr_iter(b'\n', text).map(|feed| feed + 1));
    if starts.len() > 1 && starts.last() == Some(&text.len()) {
        starts.pop();
    }
    let mut lines: Vec<Line> = Vec::new();
    for hit in hits {
        let number = starts.partition_point(|start| *start <= hit.start) as u64;
        let known = lines.last().is_some_and(|line| line.number == number);
        if !known {
            lines.push(Line {
                number,
                at: hit.start,
                terms: 0,
                whole: 0,
                defines: 0,
            });
        }
        if let Some(line) = lines.last_mut() {
            line.terms |= 1 << (hit.term % 64);
            line.whole += u32::from(hit.whole);
            line.defines += u32::from(hit.defines);
        }
    }
    lines.sort_by_key(|line| (std::cmp::Reverse(line.worth()), line.number));
    let count = starts.len() as u64;
    let mut chosen: Vec<Chunk> = Vec::new();
    for line in &lines {
        if chosen.len() >= most {
            break;
        }
        let inside = |chunk: &Chunk| (chunk.start_line..=chunk.end_line).contains(&line.number);
        if chosen.iter().any(inside) {
            continue;
        }
        let mut first = line.number.saturating_sub(snippet.around()).max(1);
        let mut last = (line.number + snippet.around()).min(count);
        for other in &chosen {
            if other.end_line < line.number {
                first = first.max(other.end_line + 1);
            } else {
                last = last.min(other.start_line - 1);
            }
        }
        let at = |number: u64| {
            usize::try_from(number)
                .ok()
                .and_then(|n| starts.get(n))
                .copied()
        };
        let start = at(first - 1).unwrap_or(0);
        let lines = text.get(start..at(last).unwrap_or(text.len()));
        let end = start + lines.map_or(0, |lines| without_terminator(lines).len());
        chosen.push(Chunk {
            start_line: first,
            end_line: last,
            start,
            end,
            at: line.at,
            worth: line.worth(),
            defines: line.defines > 0,
        });
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::{Document, Terms};
    use super::*;

    fn found(text: &str, snippet: Snippet, most: usize) -> Vec<(u64, u64, String)> {
        let terms = Terms::new("needle hay").unwrap();
        let mut hits = Vec::new();
        Document::read(&terms, "", text.as_bytes(), |hit| hits.push(hit), || false);
        hits.sort_by_key(|hit| hit.start);
        let shown = |chunk: Chunk| {
            let content = text[chunk.start..chunk.end].to_string();
            (chunk.start_line, chunk.end_line, content)
        };
        let chunks = chunks(text.as_bytes(), &hits, snippet, most);
        chunks.into_iter().map(shown).collect()
    }

    #[test]
    fn the_best_line_is_first_and_no_line_is_shown_twice() {
        let text = "hay\na\nb\nhay needle\nhay\nc\n";
        let shown = found(text, Snippet::Short, 3);
        let expected = [(3, 5, "b\nhay needle\nhay"), (1, 2, "hay\na")];
        let expected = expected.map(|(first, last, text)| (first, last, text.to_string()));
        assert_eq!(shown, expected);
        assert_eq!(found(text, Snippet::Short, 1).len(), 1);
        let long = found(text, Snippet::Long, 3);
        assert_eq!(long, [(1, 6, text.trim_end().to_string())]);
        let none = found(text, Snippet::None, 3);
        assert_eq!(none[0], (4, 4, "hay needle".to_string()));
    }

    #[test]
    fn ends_of_lines_and_of_texts_are_no_part_of_what_is_shown() {
        for (text, shown) in [
            ("hay", "hay"),
            ("hay\n", "hay"),
            ("hay\r\n", "hay"),
            ("\n\nhay\r\nx\r\n", "\nhay\r\nx"),
            ("hay\n\n", "hay\n"),
        ] {
            assert_eq!(found(text, Snippet::Short, 1)[0].2, shown, "{text:?}");
        }
    }
}
