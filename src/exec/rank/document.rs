//! The features of one file that has terms of a question: counts of terms, defined names, words of
//! the path. They come from the file's word counts, in an index or made from its text.

// Nothing iterates over the known names.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::source_text::SourceText;
use super::terms::{NameMatch, Role, Terms};
use crate::index::words::counts::{Marks, STOP_INTERVAL, WordCounts, file_stem};
use crate::index::words::definition::offers::each_offer;
use crate::index::words::definition::{Kind, Language, definition};
use crate::index::words::forms::{each_form, whole};
use crate::index::words::names::{Names, ascii_parts, blocks};
use crate::index::words::postings::FileCounts;

/// Places of terms that are noted of one file, the first ones.
const MAX_HITS: usize = 65_536;

/// Bytes before a hit in which its line has to begin to define anything.
const LOOKED_AT: usize = 400;

/// The number of directories above a file, from the nearest, that count by their names.
const DIRECTORIES: usize = 3;

/// Hundredths that the name of another module counts for where it is offered. A definition counts
/// for more.
pub(super) const OFFERED: u32 = 35;

/// Hundredths that a defined name counts for, if the question asks for exactly that name. It counts
/// more if the file has the name, too.
const fn worth(kind: Kind, names_file: bool) -> u32 {
    let worth = match kind {
        Kind::Type => 100,
        Kind::Function => 70,
        Kind::Variable => 40,
        Kind::Offered => return OFFERED,
        Kind::Reopened => 20,
    };
    match names_file {
        true => worth * 14 / 10,
        false => worth,
    }
}

/// A place where a term stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Which term, as a place in [`Terms::words`].
    pub term: usize,
    /// Where it starts, in bytes of the text.
    pub start: usize,
    /// Whether it is a whole name, rather than a part of one.
    pub whole: bool,
    /// Whether it stands in a name that is defined there.
    pub defines: bool,
    /// Hundredths that the definition, or the offer of a name of another module, counts for because
    /// the question asks for its name.
    pub asked: u32,
    /// Where the line ends, in bytes of the text.
    pub line_end: usize,
    /// The number of words of the name, without qualifiers, if a function or a type is defined by
    /// it there; 0 otherwise.
    pub name_words: u32,
}

/// A set of terms, one bit for each place in [`Terms::words`].
pub type TermSet = u32;

/// The features of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Words of its text.
    pub words: u64,
    /// Lines of its text.
    pub lines: u64,
    /// How often each term stands in the text.
    pub content: Vec<u32>,
    /// Terms that stand in the text in the spelling of the question, as far as accents go.
    pub exact: TermSet,
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
    /// The same for definitions that differ from the symbol in case or underscores.
    pub symbol_folded: u32,
    /// The same for a name that stands among other words of the question.
    pub embedded: u32,
    /// The same for a name that joins adjacent words of the question.
    pub joined: u32,
}

impl Document {
    /// Collects the features of a file from the entries of its word counts. `entries` are those of
    /// the question's [keys](Terms::keys): the place of the key, the count and the marks. Returns
    /// `None` if neither the text nor the name of the file has a term that files are looked for by.
    pub fn of(
        terms: &Terms,
        path: &str,
        counts: FileCounts,
        entries: impl Iterator<Item = (usize, u32, Marks)>,
    ) -> Option<Document> {
        let own_name = whole(file_stem(path).as_bytes());
        let mut document = Document {
            words: counts.words.into(),
            lines: counts.lines.into(),
            content: vec![0; terms.words().len()],
            ..Document::default()
        };
        let mut is_wanted = false;
        for (nth, count, marks) in entries {
            is_wanted |= terms.is_wanted(nth);
            document.take(terms, nth, count, marks, own_name);
        }
        if !is_wanted {
            return None;
        }
        document.read_path(terms, path);
        Some(document)
    }

    /// Collects the features of a file from its word counts.
    pub fn of_counts(terms: &Terms, path: &str, counts: &WordCounts) -> Option<Document> {
        let entries = terms.keys().enumerate().filter_map(|(nth, key)| {
            let entry = counts.get(key)?;
            Some((nth, entry.count, entry.marks))
        });
        Document::of(terms, path, counts.into(), entries)
    }

    /// Collects the features of a text for a question without letters. Returns `None` if the text
    /// does not have it.
    pub fn of_literal(terms: &Terms, path: &str, text: &[u8]) -> Option<Document> {
        let literal = terms.literal()?;
        let count = literal.find_iter(text).count();
        if count == 0 {
            return None;
        }
        let mut document = Document {
            words: Names::of(text).count() as u64,
            lines: memchr_iter(b'\n', text).count() as u64,
            content: vec![u32::try_from(count).unwrap_or(u32::MAX)],
            exact: 1,
            ..Document::default()
        };
        document.read_path(terms, path);
        Some(document)
    }

    /// Takes one entry of the word counts.
    fn take(&mut self, terms: &Terms, nth: usize, count: u32, marks: Marks, own_name: u32) {
        let role = terms.role(nth);
        // The file is named so.
        let is_named = terms.whole_of(nth) == Some(own_name);
        let value = marks.kind().map_or(0, |kind| worth(kind, is_named));
        match role {
            Some(Role::Term(term)) => {
                self.count(term, count);
                let bit = 1 << term;
                self.in_types |= if marks.has(Marks::IN_TYPE) { bit } else { 0 };
                self.in_functions |= if marks.has(Marks::IN_FUNCTION) {
                    bit
                } else {
                    0
                };
                if count > 0 && !terms.has_accents(term) && !marks.has(Marks::ACCENTED) {
                    self.exact |= bit;
                }
            }
            Some(Role::Other(term)) => {
                self.count(term, count);
                if count > 0 && !terms.has_accents(term) {
                    self.exact |= 1 << term;
                }
            }
            Some(Role::Exact(term)) => self.exact |= if count > 0 { 1 << term } else { 0 },
            Some(Role::Symbol) => self.symbol = self.symbol.max(value),
            Some(Role::SymbolFolded) => self.symbol_folded = self.symbol_folded.max(value),
            Some(Role::Embedded) => self.embedded = self.embedded.max(value),
            Some(Role::Joined) => self.joined = self.joined.max(value),
            None => {}
        }
    }

    fn count(&mut self, term: usize, count: u32) {
        if let Some(own) = self.content.get_mut(term) {
            *own = (*own).max(count);
        }
    }

    /// Returns which terms the text has.
    pub fn terms(&self) -> TermSet {
        let counts = self.content.iter().enumerate();
        counts.fold(0, |terms, (at, count)| terms | u32::from(*count > 0) << at)
    }

    fn read_path(&mut self, terms: &Terms, path: &str) {
        let (directories, _) = path.rsplit_once('/').unwrap_or(("", path));
        let name = file_stem(path);
        for range in Names::of(name.as_bytes()) {
            let name = &name.as_bytes()[range];
            if !terms.may_name(name) {
                self.name_words += ascii_parts(name);
                continue;
            }
            terms.each_hit(name, false, |term, _| self.in_name |= 1 << term);
            each_form(name, |form| {
                if form.kind.is_part() {
                    self.name_words += 1;
                    self.near_name |= terms.near(form.text);
                }
            });
        }
        self.near_name &= !self.in_name;
        let all = directories.split('/').filter(|name| !name.is_empty());
        self.depth = u32::try_from(all.clone().count()).unwrap_or(u32::MAX);
        // A directory that names the file counts once.
        let others = all.rev().filter(|directory| *directory != name);
        for directory in others.take(DIRECTORIES) {
            self.in_directories |= terms.terms_in(directory.as_bytes());
        }
    }
}

/// Finds the places of terms in a text, in ascending order, at most `MAX_HITS`. Takes linear
/// time. Asks `stop` now and then, and ends when that says so.
pub fn hits(terms: &Terms, source: &SourceText<'_>, stop: impl Fn() -> bool) -> Vec<Hit> {
    let text = source.text;
    let mut reader = Reader {
        terms,
        text,
        is_german: source.facts.is_german,
        language: Language::of(source.path),
        own_name: whole(file_stem(source.path).as_bytes()),
        line: Line::default(),
        offered: Vec::new(),
        hits: Vec::new(),
    };
    each_offer(source.path, text, |name| reader.offered.push(name));
    reader.offered.sort_by_key(|name| name.start);
    match terms.literal() {
        Some(literal) => {
            for start in literal.find_iter(text).take(MAX_HITS) {
                reader.take(0, start..start + literal.needle().len(), true);
            }
        }
        None => reader.names(stop),
    }
    reader.hits
}

/// The line that was looked at last.
#[derive(Default)]
struct Line {
    end: usize,
    /// The defined name.
    defined: Option<Range<usize>>,
    /// Hundredths that it counts for since the question asks for it.
    asked: u32,
    /// The last part of the name, without qualifiers, if a function or a type is defined.
    last: Range<usize>,
    /// The number of words of this part.
    name_words: u32,
}

/// Finds the places of terms in one text.
struct Reader<'a> {
    terms: &'a Terms,
    text: &'a [u8],
    is_german: bool,
    language: Language,
    own_name: u32,
    line: Line,
    /// Names of other modules that the text offers, in ascending order.
    offered: Vec<Range<usize>>,
    hits: Vec<Hit>,
}

impl Reader<'_> {
    fn names(&mut self, stop: impl Fn() -> bool) {
        let (asked, text) = (self.terms.asked(), self.text);
        // A single block may have all names of a text, and many blocks may have none that count.
        let goes_on = |count: usize| count % STOP_INTERVAL != STOP_INTERVAL - 1 || !stop();
        let blocks = blocks(text).enumerate();
        let names = blocks
            .take_while(|(count, _)| goes_on(*count))
            .filter(|(_, block)| asked.may_be_in(&text[block.clone()]))
            .flat_map(|(_, block)| {
                let start = block.start;
                Names::of(&text[block]).map(move |name| start + name.start..start + name.end)
            });
        #[allow(clippy::disallowed_types)]
        let mut known: HashMap<&[u8], Vec<(usize, Range<usize>)>> = HashMap::new();
        for (_, at) in names.enumerate().take_while(|(count, _)| goes_on(*count)) {
            let name = &text[at.clone()];
            if !asked.may_be_in(name) {
                continue;
            }
            let found = known.entry(name).or_insert_with(|| {
                let mut found = Vec::new();
                let hit = |term, part| found.push((term, part));
                self.terms.each_hit(name, self.is_german, hit);
                found
            });
            for (term, part) in found.iter() {
                if self.hits.len() == MAX_HITS {
                    return;
                }
                let is_whole = part.len() == name.len();
                self.take(*term, at.start + part.start..at.start + part.end, is_whole);
            }
        }
    }

    fn take(&mut self, term: usize, at: Range<usize>, whole: bool) {
        if at.start >= self.line.end {
            self.read_line(at.start);
        }
        let defined = self.line.defined.as_ref();
        let is_in = |name: &Range<usize>| name.start <= at.start && at.end <= name.end;
        let defines = defined.is_some_and(is_in);
        self.hits.push(Hit {
            term,
            start: at.start,
            whole,
            defines,
            asked: match defines {
                true => self.line.asked,
                false => self.asked_of_offer(&at),
            },
            line_end: self.line.end,
            name_words: match is_in(&self.line.last) {
                true => self.line.name_words,
                false => 0,
            },
        });
    }

    /// Returns the value of an offered name around a place: 0 if the question does not ask for it.
    fn asked_of_offer(&self, at: &Range<usize>) -> u32 {
        let nth = self.offered.partition_point(|name| name.end < at.end);
        let name = self.offered.get(nth).filter(|name| name.start <= at.start);
        name.map_or(0, |name| {
            self.asked(&self.text[name.clone()], Kind::Offered)
        })
    }

    /// Returns the value of a name in hundredths: 0 if the question does not ask for it.
    fn asked(&self, name: &[u8], kind: Kind) -> u32 {
        let matched = self.terms.match_name(name);
        if matched == NameMatch::default() {
            return 0;
        }
        let worth = worth(kind, whole(name) == self.own_name);
        // A question for `read` means `read` rather than `__read`.
        match matched.symbol_folded && !matched.symbol {
            true => worth * 9 / 10,
            false => worth,
        }
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
        self.line.asked = self.asked(last, found.kind);
        let name_end = start + found.name.end;
        self.line.defined = Some(start + found.name.start..name_end);
        if matches!(found.kind, Kind::Function | Kind::Type) {
            self.line.last = name_end - last.len()..name_end;
            Names::of(last).for_each(|name| {
                each_form(&last[name], |form| {
                    self.line.name_words += u32::from(form.kind.is_part())
                })
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::words::counts::Counter;

    fn read(query: &str, path: &str, text: &str) -> (Option<Document>, Vec<Hit>) {
        let terms = Terms::new(query).unwrap();
        let counted = Counter::default().count(path, text.as_bytes(), || false);
        let document = Document::of_counts(&terms, path, &counted.unwrap());
        let few = terms
            .asked()
            .count(path, text.as_bytes(), || false)
            .unwrap();
        assert_eq!(Document::of_counts(&terms, path, &few), document);
        let source = SourceText::of(text.as_bytes(), path);
        (document, hits(&terms, &source, || false))
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
        assert_eq!((document.lines, document.exact), (4, 0b11));
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
    fn offers_of_names_count_less_than_definitions() {
        let text = "pub use http::{\n    Needle as Other,\n    Needle,\n};\n";
        let (document, hits) = read("Needle", "a.rs", text);
        assert_eq!(document.unwrap().symbol, 35);
        let asked: Vec<u32> = hits.iter().map(|hit| hit.asked).collect();
        assert_eq!(asked, [0, 35]);
        assert!(hits.iter().all(|hit| !hit.defines));
    }

    #[test]
    fn a_file_without_a_term_that_is_looked_for_is_none() {
        assert!(read("needle", "hay.txt", "hay").0.is_none());
        assert!(read("needle", "needles/hay.needle", "hay").0.is_none());
        // Short words do not count when there are longer ones.
        assert!(read("io needle", "x", "io io io").0.is_none());
        assert!(read("io", "x", "io io io").0.is_some());
    }

    #[test]
    fn a_file_is_found_by_its_own_name() {
        let (document, hits) = read("needle", "a/needles.txt", "hay");
        let document = document.unwrap();
        assert_eq!((document.in_name, document.content), (1, vec![0]));
        assert!(hits.is_empty());
    }

    #[test]
    fn the_spelling_of_the_question_counts() {
        let exact = |query: &str, text: &str| read(query, "a", text).0.unwrap().exact;
        assert_eq!(exact("resume", "resume résumé"), 1);
        assert_eq!(exact("resume", "résumé"), 0);
        assert_eq!(exact("résumé", "Résumé"), 1);
        assert_eq!(exact("résumé", "resume"), 0);
    }

    #[test]
    fn a_question_without_letters_is_found_as_it_stands() {
        let terms = Terms::new("->").unwrap();
        let document = Document::of_literal(&terms, "a.c", b"x->y\nz -> 1").unwrap();
        assert_eq!(document.content, [2]);
        let found = hits(&terms, &SourceText::of(b"x->y\nz -> 1", "a.c"), || false);
        assert_eq!(
            found.iter().map(|hit| hit.start).collect::<Vec<_>>(),
            [1, 7]
        );
        assert_eq!(Document::of_literal(&terms, "a.c", b"xy"), None);
    }

    #[test]
    fn reading_ends_when_it_is_told_to() {
        let terms = Terms::new("x").unwrap();
        // The second text is a single block.
        for text in ["x ".repeat(5000), "x。".repeat(5000)] {
            let found = hits(&terms, &SourceText::of(text.as_bytes(), ""), || true);
            assert!(found.len() <= 4096, "{} places in all", found.len());
        }
    }
}
