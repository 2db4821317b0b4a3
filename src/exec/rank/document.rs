//! The counts of a question's terms in one file.

use memchr::{memchr, memrchr};

use super::terms::Terms;

/// The most hits that are recorded for one file: the first ones.
pub const MAX_HITS: usize = 4096;

/// Keywords before a name that is defined, in common languages.
const DEFINING: [&[u8]; 33] = [
    b"fn",
    b"func",
    b"function",
    b"fun",
    b"def",
    b"defn",
    b"class",
    b"struct",
    b"enum",
    b"union",
    b"trait",
    b"interface",
    b"protocol",
    b"type",
    b"typedef",
    b"impl",
    b"mod",
    b"module",
    b"namespace",
    b"package",
    b"macro",
    b"macro_rules",
    b"define",
    b"const",
    b"static",
    b"let",
    b"var",
    b"val",
    b"record",
    b"object",
    b"sub",
    b"proc",
    b"procedure",
];

/// The number of bytes before and after a hit that decide whether its line defines a name.
const LOOKED_AT: usize = 256;

/// An occurrence of a term in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The term, as an index into [`Terms::words`].
    pub term: usize,
    /// Where the hit starts, in bytes of the text.
    pub start: usize,
    /// Whether the hit is a whole word, and not a part of a name.
    pub whole: bool,
    /// Whether the hit is in a name that its line defines.
    pub defines: bool,
}

/// The counts of each term in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The length of its text in bytes.
    pub len: u64,
    /// Occurrences of each term in the text; whole words count twice.
    pub content: Vec<u32>,
    /// Occurrences of each term in names that are defined.
    pub definitions: Vec<u32>,
    /// Occurrences of each term in the path; those in the file's own name count twice.
    pub path: Vec<u32>,
    /// Whether the text has more hits than [`MAX_HITS`].
    pub cut: bool,
}

impl Document {
    /// Counts the terms in a text, in one pass that also examines the line of each hit. Calls `hit`
    /// for the first [`MAX_HITS`] hits, in ascending order of their ends. Checks `stop` from time
    /// to time, and ends early if it returns true. Returns `None` if the text contains no term by
    /// which files are searched.
    pub fn read(
        terms: &Terms,
        path: &str,
        text: &[u8],
        mut hit: impl FnMut(Hit),
        stop: impl Fn() -> bool,
    ) -> Option<Document> {
        let count = terms.words().len();
        let mut document = Document {
            len: text.len() as u64,
            content: vec![0; count],
            definitions: vec![0; count],
            path: vec![0; count],
            cut: false,
        };
        let wanted = terms.wanted();
        let mut found = false;
        let mut hits = 0;
        for one in terms.finder().find_overlapping_iter(text) {
            if hits == MAX_HITS {
                document.cut = true;
                break;
            }
            hits += 1;
            if hits % 256 == 0 && stop() {
                break;
            }
            let term = one.pattern().as_usize();
            let around = Around::of(text, one.start(), one.end());
            found |= wanted[term];
            document.content[term] += 1 + u32::from(around.whole);
            document.definitions[term] += u32::from(around.defines);
            hit(Hit {
                term,
                start: one.start(),
                whole: around.whole,
                defines: around.defines,
            });
        }
        // Hits of words that are too short for the search may have used up the limit.
        if !found && document.cut {
            found = looked_for_after(terms, &wanted, text);
        }
        if !found {
            return None;
        }
        let own = path.rfind('/').map_or(0, |slash| slash + 1);
        for one in terms.finder().find_overlapping_iter(path) {
            document.path[one.pattern().as_usize()] += 1 + u32::from(one.start() >= own);
        }
        Some(document)
    }

    /// Returns the number of different terms in the text.
    pub fn distinct(&self) -> usize {
        self.content.iter().filter(|&&count| count > 0).count()
    }
}

fn looked_for_after(terms: &Terms, wanted: &[bool], text: &[u8]) -> bool {
    let mut hits = terms.finder().find_overlapping_iter(text);
    hits.any(|hit| wanted[hit.pattern().as_usize()])
}

/// The properties of a hit that its line decides.
struct Around {
    whole: bool,
    defines: bool,
}

impl Around {
    fn of(text: &[u8], start: usize, end: usize) -> Around {
        let first = start.saturating_sub(LOOKED_AT);
        let line = memrchr(b'\n', &text[first..start]).map_or(first, |feed| first + feed + 1);
        let last = text.len().min(end + LOOKED_AT);
        let line_end = memchr(b'\n', &text[end..last]).map_or(last, |feed| end + feed);
        let before = &text[line..start];
        let after = &text[end..line_end];
        let left = before
            .iter()
            .rev()
            .take_while(|byte| is_name(**byte))
            .count();
        let right = after.iter().take_while(|byte| is_name(**byte)).count();
        let before = &before[..before.len() - left];
        let after = &after[right..];
        Around {
            whole: left == 0 && right == 0,
            defines: is_defined(before, after, line == 0 || text[line - 1] == b'\n'),
        }
    }
}

/// Returns true if a line defines a name, judging by the text before and after the name. A
/// heuristic, which affects only the order.
fn is_defined(before: &[u8], after: &[u8], from_start: bool) -> bool {
    let trimmed = before.trim_ascii_end();
    let word = trimmed
        .iter()
        .rev()
        .take_while(|byte| is_name(**byte))
        .count();
    let keyword = &trimmed[trimmed.len() - word..];
    if !keyword.is_empty() && trimmed.len() < before.len() && DEFINING.contains(&keyword) {
        return true;
    }
    // As in C: a line that starts with a type, and has arguments and no final semicolon.
    let is_type =
        |byte: u8| is_name(byte) || matches!(byte, b' ' | b'*' | b'\t' | b':' | b'<' | b'>' | b'&');
    let unindented = before.first().is_none_or(|byte| is_name(*byte));
    from_start
        && unindented
        && !before.is_empty()
        && before.iter().all(|byte| is_type(*byte))
        && after.first() == Some(&b'(')
        && !after.trim_ascii_end().ends_with(b";")
        && !matches!(first_word(before), b"return" | b"else" | b"case" | b"goto")
}

fn first_word(line: &[u8]) -> &[u8] {
    let word = line.iter().take_while(|byte| is_name(**byte)).count();
    &line[..word]
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, path: &str, text: &str) -> (Option<Document>, Vec<Hit>) {
        let terms = Terms::new(query).unwrap();
        let mut hits = Vec::new();
        let document = Document::read(
            &terms,
            path,
            text.as_bytes(),
            |hit| hits.push(hit),
            || false,
        );
        (document, hits)
    }

    #[test]
    fn counts_words_parts_of_names_definitions_and_the_path() {
        let text = "fn open_socket() {\n    SOCKET.open();\n}\n";
        let (document, hits) = read("socket open", "net/socket.rs", text);
        let document = document.unwrap();
        // `open_socket` contains both terms as parts of a name, the second line both as words.
        assert_eq!(document.content, [3, 3]);
        assert_eq!(document.definitions, [1, 1]);
        assert_eq!(document.path, [2, 0]);
        assert_eq!(document.distinct(), 2);
        let shown: Vec<_> = hits
            .iter()
            .map(|hit| (hit.term, hit.start, hit.whole))
            .collect();
        assert_eq!(
            shown,
            [(1, 3, false), (0, 8, false), (0, 23, true), (1, 30, true)]
        );
    }

    #[test]
    fn definitions_of_several_languages_are_recognized() {
        for (line, defines) in [
            ("pub struct Needle {", true),
            ("#define NEEDLE 1", true),
            ("static int needle(int x)", true),
            ("needle(int x)", false),
            ("int needle(int x);", false),
            ("\tneedle(x)", false),
            ("return needle(x)", false),
            ("call needle(x)", true),
            ("a.needle(x)", false),
            ("class Needle:", true),
            ("let needle = 1;", true),
            ("outlet needle", false),
        ] {
            let (_, hits) = read("needle", "x", line);
            assert_eq!(hits[0].defines, defines, "{line}");
        }
    }

    #[test]
    fn a_text_without_what_is_looked_for_is_none() {
        assert!(read("needle", "needle.txt", "hay").0.is_none());
        // Short words do not count if there are longer words.
        assert!(read("in needle", "x", "in in in").0.is_none());
        let many = "in ".repeat(MAX_HITS + 1);
        assert!(read("in needle", "x", &many).0.is_none());
        let (document, hits) = read("in needle", "x", &format!("{many}needle"));
        assert!(document.unwrap().cut);
        assert_eq!(hits.len(), MAX_HITS);
    }

    #[test]
    fn reading_ends_when_it_is_told_to() {
        let terms = Terms::new("x").unwrap();
        let mut hits = 0;
        Document::read(&terms, "", &[b'x'; 4000], |_| hits += 1, || true);
        assert_eq!(hits, 255);
    }
}
