//! The features of one file that contains terms of a question: counts of terms, defined names,
//! words of the path.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::definition::{Kind, Language, definition};
use super::stem::stem;
use super::terms::Terms;
use super::words::{Names, each_part, letters, push_folded};

/// Places of terms that are noted of one file, the first ones.
pub const MAX_HITS: usize = 65_536;

/// Bytes before a hit in which its line has to begin to define anything.
const LOOKED_AT: usize = 400;

/// The number of directories above a file, from the nearest, that count by their names.
const DIRECTORIES: usize = 3;

/// Hundredths that a defined name counts for, if the question asks for exactly that name.
const fn worth(kind: Kind) -> u32 {
    match kind {
        Kind::Type => 100,
        Kind::Function => 70,
        Kind::Variable => 40,
        Kind::Reopened => 20,
    }
}

/// A place where a term stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which term, as a place in [`Terms::words`].
    pub term: usize,
    /// Where it starts, in bytes of the text.
    pub start: usize,
    /// Whether it is a whole name, rather than a part of one.
    pub whole: bool,
    /// Whether it stands in a name that is defined there.
    pub defines: bool,
    /// Hundredths that the definition counts for because the question asks for its name.
    pub asked: u32,
}

/// A set of terms, one bit for each place in [`Terms::words`].
pub type TermSet = u32;

/// The features of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Bytes of its text.
    pub len: u64,
    /// Lines of its text.
    pub lines: u64,
    /// How often each term stands in the text.
    pub content: Vec<u32>,
    /// Terms in names of types that are defined.
    pub in_types: TermSet,
    /// Terms in names of functions that are defined.
    pub in_functions: TermSet,
    /// Terms in the file's own name.
    pub in_name: TermSet,
    /// Terms that share their first letters with a word of the file's own name.
    pub near_name: TermSet,
    /// Words of the file's own name.
    pub name_words: u32,
    /// Terms in the names of the nearest directories.
    pub in_directories: TermSet,
    /// Directories above the file.
    pub depth: u32,
    /// The most that a definition of the symbol that is asked for counts, in hundredths.
    pub symbol: u32,
    /// The same for definitions that differ from the symbol in case.
    pub symbol_folded: u32,
    /// The same for a name that stands among other words of the question.
    pub embedded: u32,
    /// The same for a name that joins adjacent words of the question.
    pub joined: u32,
    /// Whether there are more places than [`MAX_HITS`].
    pub cut: bool,
}

impl Document {
    /// Reads a text in one pass. Calls `hit` for the first [`MAX_HITS`] places with a term, in
    /// ascending order. Returns nothing if the text has no term that files are looked for by. Asks
    /// `stop` now and then, and ends when that says so.
    pub fn read(
        terms: &Terms,
        path: &str,
        text: &[u8],
        hit: impl FnMut(Hit),
        stop: impl Fn() -> bool,
    ) -> Option<Document> {
        let mut reader = Reader {
            terms,
            text,
            language: Language::of(path),
            own_name: own_name(path),
            document: Document {
                len: text.len() as u64,
                content: vec![0; terms.words().len()],
                ..Document::default()
            },
            line: Line::default(),
            hits: 0,
            hit,
        };
        let wanted = terms.wanted();
        let rest = match terms.literal() {
            Some(literal) => reader.literals(literal, stop),
            None => reader.names(stop),
        };
        let mut document = reader.document;
        let mut found = document.terms();
        // Words that are too short to be looked for could have filled the room.
        if document.cut && found & wanted == 0 {
            found |= terms_in(terms, &text[rest..]);
        }
        if found & wanted == 0 {
            return None;
        }
        document.lines = memchr_iter(b'\n', text).count() as u64;
        document.read_path(terms, path);
        Some(document)
    }

    /// Returns which terms the text has.
    pub fn terms(&self) -> TermSet {
        let counts = self.content.iter().enumerate();
        counts.fold(0, |terms, (at, count)| terms | u32::from(*count > 0) << at)
    }

    fn read_path(&mut self, terms: &Terms, path: &str) {
        let (directories, _) = path.rsplit_once('/').unwrap_or(("", path));
        let name = file_stem(path);
        let mut room = Vec::new();
        for range in Names::of(name.as_bytes()) {
            let name = &name.as_bytes()[range];
            terms.each_hit(name, &mut room, |term, _| self.in_name |= 1 << term);
            each_part(name, |part| {
                self.name_words += 1;
                let mut folded = Vec::new();
                push_folded(&name[part], &mut folded);
                stem(&mut folded);
                self.near_name |= terms.near(&folded);
            });
        }
        self.near_name &= !self.in_name;
        let all = directories.split('/').filter(|name| !name.is_empty());
        self.depth = u32::try_from(all.clone().count()).unwrap_or(u32::MAX);
        for directory in all.rev().take(DIRECTORIES) {
            self.in_directories |= terms_in(terms, directory.as_bytes());
        }
    }
}

/// Returns which terms a text has.
fn terms_in(terms: &Terms, text: &[u8]) -> TermSet {
    let (mut found, mut room) = (0, Vec::new());
    if let Some(literal) = terms.literal() {
        return u32::from(literal.find(text).is_some());
    }
    for name in Names::of(text) {
        terms.each_hit(&text[name], &mut room, |term, _| found |= 1 << term);
    }
    found
}

/// Returns the name of a file without its extension.
fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Returns the letters of a file's name without case, to compare with a defined name.
fn own_name(path: &str) -> Vec<u8> {
    let name = file_stem(path).as_bytes();
    Names::of(name)
        .flat_map(|range| letters(&name[range]))
        .collect()
}

/// The line that was looked at last.
#[derive(Default)]
struct Line {
    end: usize,
    /// The defined name, and how.
    defined: Option<(Range<usize>, Kind)>,
    /// Hundredths that it counts for since the question asks for it.
    asked: u32,
}

/// Reads one text.
struct Reader<'a, H> {
    terms: &'a Terms,
    text: &'a [u8],
    language: Language,
    own_name: Vec<u8>,
    document: Document,
    line: Line,
    hits: usize,
    hit: H,
}

impl<H: FnMut(Hit)> Reader<'_, H> {
    /// Looks for a question that has no letters. Returns where it ended.
    fn literals(&mut self, literal: &memchr::memmem::Finder<'_>, stop: impl Fn() -> bool) -> usize {
        for start in literal.find_iter(self.text) {
            if self.is_full() {
                return start;
            }
            if self.hits % 256 == 255 && stop() {
                break;
            }
            self.take(0, start..start + literal.needle().len(), true);
        }
        self.text.len()
    }

    /// Looks for terms in names. Returns where it ended.
    fn names(&mut self, stop: impl Fn() -> bool) -> usize {
        let (mut room, mut found) = (Vec::new(), Vec::new());
        for (count, name) in Names::of(self.text).enumerate() {
            if count % 4096 == 4095 && stop() {
                break;
            }
            let text = &self.text[name.clone()];
            self.terms
                .each_hit(text, &mut room, |term, part| found.push((term, part)));
            for (term, part) in found.drain(..) {
                if self.is_full() {
                    return name.start;
                }
                let at = name.start + part.start..name.start + part.end;
                self.take(term, at, part.len() == name.len());
            }
        }
        self.text.len()
    }

    fn is_full(&mut self) -> bool {
        self.document.cut |= self.hits == MAX_HITS;
        self.document.cut
    }

    fn take(&mut self, term: usize, at: Range<usize>, whole: bool) {
        self.hits += 1;
        if at.start >= self.line.end {
            self.read_line(at.start);
        }
        self.document.content[term] += 1;
        let kind = match &self.line.defined {
            Some((name, kind)) if name.start <= at.start && at.end <= name.end => Some(*kind),
            _ => None,
        };
        match kind {
            Some(Kind::Type) => self.document.in_types |= 1 << term,
            Some(Kind::Function) => self.document.in_functions |= 1 << term,
            Some(Kind::Variable | Kind::Reopened) | None => {}
        }
        (self.hit)(Hit {
            term,
            start: at.start,
            whole,
            defines: kind.is_some(),
            asked: kind.map_or(0, |_| self.line.asked),
        });
    }

    /// Reads the line around a place: the name that it defines, and whether the question asks for
    /// that name.
    fn read_line(&mut self, at: usize) {
        let from = at.saturating_sub(LOOKED_AT);
        let start = memrchr(b'\n', &self.text[from..at]).map(|feed| from + feed + 1);
        let start = start.or((from == 0).then_some(0));
        let end = memchr(b'\n', &self.text[at..]).map_or(self.text.len(), |feed| at + feed);
        self.line = Line {
            end,
            ..Line::default()
        };
        // A line that begins further away defines nothing that is of interest.
        let Some(start) = start else { return };
        let line = &self.text[start..end];
        let Some(found) = definition(line, self.language) else {
            return;
        };
        let last = found.last(line);
        let letters = letters(last);
        let asked = self.terms.match_name(last, &letters);
        // The file is named so.
        let worth = match letters == self.own_name {
            true => worth(found.kind) * 14 / 10,
            false => worth(found.kind),
        };
        let document = &mut self.document;
        for (is_asked, most) in [
            (asked.symbol, &mut document.symbol),
            (asked.symbol_folded, &mut document.symbol_folded),
            (asked.embedded, &mut document.embedded),
            (asked.joined, &mut document.joined),
        ] {
            if is_asked {
                *most = (*most).max(worth);
                self.line.asked = worth;
            }
        }
        self.line.defined = Some((start + found.name.start..start + found.name.end, found.kind));
    }
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
    fn counts_parts_of_names_definitions_and_the_path() {
        let text = "fn open_socket() {\n    SOCKET.open();\n}\nstruct Socket {\n";
        let (document, hits) = read("socket open", "net/openings/sockets_v2.rs", text);
        let document = document.unwrap();
        assert_eq!(document.content, [3, 2]);
        assert_eq!((document.in_functions, document.in_types), (0b11, 0b01));
        assert_eq!((document.in_name, document.name_words), (0b01, 3));
        assert_eq!((document.in_directories, document.depth), (0b10, 2));
        assert_eq!(document.lines, 4);
        let shown: Vec<_> = hits
            .iter()
            .map(|hit| (hit.term, hit.start, hit.whole, hit.defines))
            .collect();
        assert_eq!(
            shown,
            [
                (1, 3, false, true),
                (0, 8, false, true),
                (0, 23, true, false),
                (1, 30, true, false),
                (0, 47, true, true),
            ]
        );
    }

    #[test]
    fn words_of_the_file_name_that_begin_alike_are_told() {
        let (document, _) = read("configuration", "config.rs", "configuration");
        let document = document.unwrap();
        assert_eq!((document.in_name, document.near_name), (0, 1));
    }

    #[test]
    fn definitions_of_what_is_asked_for_count() {
        let text = "impl Needle {\n    pub fn needle() {}\n}\n";
        let symbol = |query: &str, path: &str| {
            let document = read(query, path, text).0.unwrap();
            (document.symbol, document.symbol_folded)
        };
        assert_eq!(symbol("Needle", "a.rs"), (20, 70));
        assert_eq!(symbol("Hay::needle", "a.rs"), (70, 70));
        assert_eq!(symbol("needle", "needle.rs"), (98, 98));
        let (document, hits) = read(
            "where is parse_hay",
            "a.py",
            "def parse_hay(x):\n  parse_hay\n",
        );
        assert_eq!(document.unwrap().embedded, 70);
        let asked: Vec<u32> = hits.iter().map(|hit| hit.asked).collect();
        assert_eq!(asked, [70, 70, 70, 0, 0, 0]);
        let (document, _) = read("hay parser", "a.py", "class HayParser:\n");
        assert_eq!(document.unwrap().joined, 100);
    }

    #[test]
    fn a_text_without_a_term_that_is_looked_for_is_none() {
        assert!(read("needle", "needle.txt", "hay").0.is_none());
        // Short words do not count when there are longer ones.
        assert!(read("io needle", "x", "io io io").0.is_none());
        let many = "io ".repeat(MAX_HITS + 1);
        assert!(read("io needle", "x", &many).0.is_none());
        let (document, hits) = read("io needle", "x", &format!("{many}needle"));
        assert!(document.unwrap().cut);
        assert_eq!(hits.len(), MAX_HITS);
    }

    #[test]
    fn a_question_without_letters_is_found_as_it_stands() {
        let (document, hits) = read("->", "a.c", "x->y\nz -> 1");
        assert_eq!(document.unwrap().content, [2]);
        assert_eq!(hits.iter().map(|hit| hit.start).collect::<Vec<_>>(), [1, 7]);
        assert!(read("->", "a.c", "xy").0.is_none());
    }

    #[test]
    fn reading_ends_when_it_is_told_to() {
        let terms = Terms::new("x").unwrap();
        let mut hits = 0;
        let text = b"x ".repeat(5000);
        Document::read(&terms, "", &text, |_| hits += 1, || true);
        assert!(hits <= 4096, "{hits} places in all");
    }
}
