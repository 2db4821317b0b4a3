//! The word record of a text: how often each term stands in it, and what it defines.
//!
//! The builder makes a record of each file that it reads, and stores it with the n-grams. A ranked
//! question looks its terms up in the records. A file without a record in the index, such as one
//! that was just edited, gets one when the question reads it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use memchr::{memchr, memchr_iter};
use xxhash_rust::xxh3::xxh3_128;

use super::definition::{Definition, Kind, Language, definition};
use super::forms::{self, FormKind, GERMAN_WORDS, each_form, each_german, is_german_word};
use super::names::Names;

/// Forms of different names of one text, at most. A text with more has no record, so that memory
/// stays bounded; [`count_keys`] counts in it.
const MAX_FORMS: usize = 1 << 18;

/// Longer names of ASCII characters are data rather than words, and have no terms.
const MAX_NAME: usize = 128;

/// Forms of names that a counter remembers from earlier texts, at most.
const MAX_REMEMBERED: usize = 1 << 20;

/// Names or lines between two looks at whether to stop.
const STOP_INTERVAL: usize = 4096;

/// What a term is in one text, apart from a word: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks(u8);

impl Marks {
    /// The kind of the definition with this name, in the lowest three bits; 0 for no definition.
    const KIND: u8 = 0b111;
    /// It stands in the name of a function that is defined.
    pub const IN_FUNCTION: Marks = Marks(1 << 3);
    /// It stands in the name of a type that is defined.
    pub const IN_TYPE: Marks = Marks(1 << 4);
    /// It stands in the name of the file, without the extension.
    pub const IN_FILE_NAME: Marks = Marks(1 << 5);
    /// It is written with accents in each place.
    pub const ACCENTED: Marks = Marks(1 << 6);

    /// Returns the bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Returns the marks with these bits. Returns `None` if no writer makes them.
    pub fn from_bits(bits: u8) -> Option<Marks> {
        let kind = bits & Marks::KIND;
        (bits >> 7 == 0 && kind <= 4).then_some(Marks(bits))
    }

    /// Returns true if all bits of `other` are set.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the kind of the definition with this name.
    pub fn kind(self) -> Option<Kind> {
        match self.0 & Marks::KIND {
            1 => Some(Kind::Reopened),
            2 => Some(Kind::Variable),
            3 => Some(Kind::Function),
            4 => Some(Kind::Type),
            _ => None,
        }
    }

    fn of_kind(kind: Kind) -> Marks {
        Marks(match kind {
            Kind::Reopened => 1,
            Kind::Variable => 2,
            Kind::Function => 3,
            Kind::Type => 4,
        })
    }

    /// Joins the marks of two places of a term.
    fn join(self, other: Marks) -> Marks {
        let kind = (self.0 & Marks::KIND).max(other.0 & Marks::KIND);
        let any = (self.0 | other.0) & !Marks::KIND & !Marks::ACCENTED.0;
        let accented = self.0 & other.0 & Marks::ACCENTED.0;
        Marks(kind | any | accented)
    }
}

/// A term of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term.
    pub key: u32,
    /// The number of places.
    pub count: u32,
    /// What the term is besides.
    pub marks: Marks,
}

/// The word record of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordRecord {
    /// The terms in ascending order of their keys.
    pub entries: Vec<Entry>,
    /// The number of words: parts of names.
    pub words: u32,
    /// The number of line feeds.
    pub lines: u32,
}

impl WordRecord {
    /// Returns the entry of a term. Takes logarithmic time in the number of terms.
    pub fn get(&self, key: u32) -> Option<Entry> {
        let at = self.entries.binary_search_by_key(&key, |entry| entry.key);
        at.ok().and_then(|at| self.entries.get(at)).copied()
    }

    /// Returns the memory that the record takes, in bytes.
    pub fn footprint(&self) -> usize {
        size_of::<WordRecord>() + self.entries.len() * size_of::<Entry>()
    }
}

/// Hashes nothing: the keys are hashes.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

/// What a counter remembers of a name.
struct Known {
    /// Its forms, a range of [`Counter::forms`].
    forms: Range<u32>,
    /// The number of its parts.
    parts: u32,
    /// Its number among the frequent German words.
    german: Option<u32>,
    /// The text that it was seen in last, and its place in [`Counter::seen`].
    text: u32,
    seen: u32,
}

/// A name of the current text.
struct Seen {
    known: u32,
    count: u32,
    at: Range<usize>,
}

/// Counts the terms of texts. It remembers the forms of names from text to text, which only saves
/// time.
#[derive(Default)]
pub struct Counter {
    known: HashMap<u128, u32, BuildHasherDefault<Same>>,
    names: Vec<Known>,
    forms: Vec<(u32, Marks)>,
    seen: Vec<Seen>,
    /// The number of the current text.
    text: u32,
    entries: Vec<Entry>,
}

impl Counter {
    /// Counts the terms of a text. Takes time linear in the text. Returns `None` if the text has too
    /// many different names, or if `stop` says so.
    pub fn count(
        &mut self,
        path: &str,
        text: &[u8],
        stop: impl Fn() -> bool,
    ) -> Option<WordRecord> {
        if self.forms.len() > MAX_REMEMBERED || self.text == u32::MAX {
            *self = Counter::default();
        }
        self.text += 1;
        self.seen.clear();
        self.entries.clear();
        let most = self.forms.len() + MAX_FORMS;
        let mut own_forms = 0;
        for (nth, at) in Names::of(text).enumerate() {
            if nth % STOP_INTERVAL == STOP_INTERVAL - 1 && stop() {
                return None;
            }
            own_forms += self.see(text, at);
            if own_forms > MAX_FORMS || self.forms.len() > most {
                return None;
            }
        }
        let words = self.count_names(text);
        each_definition(path, text, stop, |key, marks| {
            self.entries.push(Entry {
                key,
                count: 0,
                marks,
            });
        })?;
        each_of_file_name(path, |key, marks| {
            self.entries.push(Entry {
                key,
                count: 0,
                marks,
            });
        });
        Some(WordRecord {
            entries: merged(&mut self.entries),
            words,
            lines: lines(text),
        })
    }

    /// Notes one place of a name. Returns how many forms the name adds to the text.
    fn see(&mut self, text: &[u8], at: Range<usize>) -> usize {
        let name = &text[at.clone()];
        if is_data(name) {
            return 0;
        }
        let hash = xxh3_128(name);
        let known = match self.known.get(&hash) {
            Some(known) => *known,
            None => self.remember(hash, name),
        };
        let Some(own) = self.names.get_mut(known as usize) else {
            return 0;
        };
        if own.text == self.text {
            if let Some(seen) = self.seen.get_mut(own.seen as usize) {
                seen.count = seen.count.saturating_add(1);
            }
            return 0;
        }
        own.text = self.text;
        own.seen = self.seen.len() as u32;
        self.seen.push(Seen {
            known,
            count: 1,
            at,
        });
        own.forms.len() + 1
    }

    fn remember(&mut self, hash: u128, name: &[u8]) -> u32 {
        let start = self.forms.len() as u32;
        let mut parts = 0;
        each_form(name, |form| {
            parts += u32::from(form.kind.is_part());
            self.forms.push((form.key, marks_of(form.kind)));
        });
        let known = self.names.len() as u32;
        self.names.push(Known {
            forms: start..self.forms.len() as u32,
            parts,
            german: is_german_word(name),
            text: 0,
            seen: 0,
        });
        self.known.insert(hash, known);
        known
    }

    /// Adds the terms of all names that were seen. Returns the number of words.
    fn count_names(&mut self, text: &[u8]) -> u32 {
        let mut words = 0u32;
        let mut german = 0u32;
        for seen in &self.seen {
            let Some(known) = self.names.get(seen.known as usize) else {
                continue;
            };
            words = words.saturating_add(known.parts.saturating_mul(seen.count));
            german |= known.german.map_or(0, |word| 1 << word);
            let forms = known.forms.start as usize..known.forms.end as usize;
            for &(key, marks) in self.forms.get(forms).unwrap_or_default() {
                self.entries.push(Entry {
                    key,
                    count: seen.count,
                    marks,
                });
            }
        }
        if german.count_ones() >= GERMAN_WORDS {
            for seen in &self.seen {
                let entry = |key| Entry {
                    key,
                    count: seen.count,
                    marks: Marks::default(),
                };
                let name = &text[seen.at.clone()];
                each_german(name, |key, _| self.entries.extend(key.map(entry)));
            }
        }
        words
    }
}

/// Counts some terms of a text, given in ascending order. The record has no entries for other terms.
/// Takes no memory for the text, and more time than a [`Counter`]. Returns `None` if `stop` says so.
pub fn count_keys(
    keys: &[u32],
    path: &str,
    text: &[u8],
    stop: impl Fn() -> bool,
) -> Option<WordRecord> {
    let is_asked = |key: &u32| keys.binary_search(key).is_ok();
    // The entries of each term are joined at once, so that there are no more than keys.
    let mut entries: HashMap<u32, Entry> = HashMap::new();
    let mut german_entries: HashMap<u32, Entry> = HashMap::new();
    let (mut words, mut german) = (0u32, 0u32);
    for (nth, at) in Names::of(text).enumerate() {
        if nth % STOP_INTERVAL == STOP_INTERVAL - 1 && stop() {
            return None;
        }
        let name = &text[at];
        if is_data(name) {
            continue;
        }
        german |= is_german_word(name).map_or(0, |word| 1 << word);
        each_form(name, |form| {
            words = words.saturating_add(u32::from(form.kind.is_part()));
            if is_asked(&form.key) {
                join(&mut entries, form.key, 1, marks_of(form.kind));
            }
        });
        each_german(name, |key, _| {
            if let Some(key) = key.filter(is_asked) {
                join(&mut german_entries, key, 1, Marks::default());
            }
        });
    }
    if german.count_ones() >= GERMAN_WORDS {
        for (key, entry) in german_entries {
            join(&mut entries, key, entry.count, entry.marks);
        }
    }
    let mut add = |key, marks| {
        if is_asked(&key) {
            join(&mut entries, key, 0, marks);
        }
    };
    each_definition(path, text, stop, &mut add)?;
    each_of_file_name(path, &mut add);
    let mut entries: Vec<Entry> = entries.into_values().collect();
    Some(WordRecord {
        entries: merged(&mut entries),
        words,
        lines: lines(text),
    })
}

/// Returns true if a text has enough different frequent words of German. Takes linear time.
pub fn is_german(text: &[u8]) -> bool {
    let words = Names::of(text).filter_map(|at| is_german_word(&text[at]));
    words
        .fold(0u32, |words, word| words | 1 << word)
        .count_ones()
        >= GERMAN_WORDS
}

fn join(entries: &mut HashMap<u32, Entry>, key: u32, count: u32, marks: Marks) {
    let own = entries.entry(key).or_insert(Entry {
        key,
        count: 0,
        marks: Marks::default().join_all(),
    });
    own.count = own.count.saturating_add(count);
    own.marks = own.marks.join(marks);
}

fn is_data(name: &[u8]) -> bool {
    name.len() > MAX_NAME && name.is_ascii()
}

fn marks_of(kind: FormKind) -> Marks {
    match kind {
        FormKind::Accented => Marks::ACCENTED,
        FormKind::Plain | FormKind::Exact | FormKind::Whole => Marks::default(),
    }
}

/// Calls `add` for the terms of each name that a text defines. Returns `None` if `stop` says so.
fn each_definition(
    path: &str,
    text: &[u8],
    stop: impl Fn() -> bool,
    mut add: impl FnMut(u32, Marks),
) -> Option<()> {
    let language = Language::of(path);
    let (mut start, mut nth) = (0, 0usize);
    while start < text.len() {
        nth += 1;
        if nth.is_multiple_of(STOP_INTERVAL) && stop() {
            return None;
        }
        let end = memchr(b'\n', &text[start..]).map_or(text.len(), |feed| start + feed);
        let line = &text[start..end];
        if let Some(found) = definition(line, language) {
            define(line, &found, &mut add);
        }
        start = end + 1;
    }
    Some(())
}

fn define(line: &[u8], found: &Definition, add: &mut impl FnMut(u32, Marks)) {
    let marks = match found.kind {
        Kind::Function => Marks::IN_FUNCTION,
        Kind::Type => Marks::IN_TYPE,
        Kind::Variable | Kind::Reopened => Marks::default(),
    };
    if marks != Marks::default() {
        let name = &line[found.name.clone()];
        for range in Names::of(name) {
            // The accents were counted with the text.
            each_form(&name[range], |form| add(form.key, marks.join_all()));
        }
    }
    let last = found.last(line);
    let kind = Marks::of_kind(found.kind).join_all();
    add(forms::whole(last), kind);
    add(forms::defined(last), kind);
}

/// Calls `add` for the terms of a file's own name.
fn each_of_file_name(path: &str, mut add: impl FnMut(u32, Marks)) {
    let name = file_stem(path).as_bytes();
    for range in Names::of(name) {
        each_form(&name[range], |form| {
            add(form.key, Marks::IN_FILE_NAME.join_all())
        });
    }
}

/// Returns the name of a file without its extension.
pub fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Joins the entries of each term, in ascending order.
fn merged(entries: &mut [Entry]) -> Vec<Entry> {
    entries.sort_unstable_by_key(|entry| entry.key);
    let mut merged: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries.iter() {
        match merged.last_mut().filter(|last| last.key == entry.key) {
            Some(last) => {
                last.count = last.count.saturating_add(entry.count);
                last.marks = last.marks.join(entry.marks);
            }
            None => merged.push(*entry),
        }
    }
    for entry in &mut merged {
        if entry.count == 0 {
            entry.marks = entry.marks.outside_of_text();
        }
    }
    merged.retain(|entry| entry.count > 0 || entry.marks != Marks::default());
    merged.shrink_to_fit();
    merged
}

impl Marks {
    /// Returns the marks so that joining them keeps [`Marks::ACCENTED`] as it is.
    fn join_all(self) -> Marks {
        Marks(self.0 | Marks::ACCENTED.0)
    }

    /// Returns the marks of a term that the text does not have as a word, such as one whose name is
    /// data.
    fn outside_of_text(self) -> Marks {
        Marks(self.0 & (Marks::KIND | Marks::IN_FILE_NAME.0))
    }
}

fn lines(text: &[u8]) -> u32 {
    let feeds = memchr_iter(b'\n', text).count();
    u32::try_from(feeds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(path: &str, text: &str) -> WordRecord {
        Counter::default()
            .count(path, text.as_bytes(), || false)
            .unwrap()
    }

    /// Returns the entry of a word that is one part.
    fn part(record: &WordRecord, word: &str) -> Option<Entry> {
        let mut key = None;
        each_form(word.as_bytes(), |form| {
            key = key.or(Some(form.key));
        });
        record.get(key.unwrap())
    }

    fn count(record: &WordRecord, word: &str) -> u32 {
        part(record, word).map_or(0, |entry| entry.count)
    }

    #[test]
    fn parts_of_names_are_counted_by_their_stems() {
        let text = "fn retryDelay() {\n    retries(retry_delay);\n}\n";
        let record = record("net/backoff.rs", text);
        assert_eq!((record.words, record.lines), (6, 3));
        assert_eq!(
            (count(&record, "retrying"), count(&record, "delay")),
            (3, 2)
        );
        assert_eq!(count(&record, "backoff"), 0);
        let whole = record.get(forms::whole(b"RetryDelay")).unwrap();
        assert_eq!((whole.count, whole.marks.kind()), (2, Some(Kind::Function)));
        assert!(
            part(&record, "delay")
                .unwrap()
                .marks
                .has(Marks::IN_FUNCTION)
        );
        assert!(
            part(&record, "backoff")
                .unwrap()
                .marks
                .has(Marks::IN_FILE_NAME)
        );
        let exact = |name: &[u8]| record.get(forms::defined(name)).is_some();
        assert!(exact(b"retryDelay") && !exact(b"retry_delay"));
    }

    #[test]
    fn accents_count_but_do_not_have_to() {
        let both = record("", "résumé resume");
        assert_eq!(count(&both, "Résumés"), 2);
        assert!(!part(&both, "resume").unwrap().marks.has(Marks::ACCENTED));
        let accented = record("", "RÉSUMÉ");
        assert_eq!(count(&accented, "resume"), 1);
        assert!(
            part(&accented, "resume")
                .unwrap()
                .marks
                .has(Marks::ACCENTED)
        );
        // The mark belongs to the text: a path has none.
        let in_path = record("résumé", "");
        assert!(!part(&in_path, "resume").unwrap().marks.has(Marks::ACCENTED));
        let defined = record("a.rs", "fn résumé() {}\n");
        let entry = part(&defined, "resume").unwrap();
        assert!(entry.marks.has(Marks::ACCENTED) && entry.marks.has(Marks::IN_FUNCTION));
    }

    #[test]
    fn equivalent_writings_are_one_term() {
        for (text, word) in [
            ("Ｈｔｔｐ", "http"),
            ("straße", "STRASSE"),
            ("İstanbul", "istanbul"),
            ("ﬁles", "file"),
            ("ΛΟΓΟΣ", "λόγος"),
            ("u\u{308}ber", "über"),
            ("ё", "е"),
            ("キャッシュ", "ｷｬｯｼｭ"),
            ("повторные", "повторных"),
        ] {
            assert!(count(&record("", text), word) > 0, "{text} {word}");
        }
    }

    #[test]
    fn german_texts_have_german_stems() {
        let german =
            "Die Verbindungen werden geprüft und nicht geschlossen, wenn der Server antwortet.";
        let english = "die Verbindungen";
        let mut keys = Vec::new();
        each_german("Verbindung prüfen".as_bytes(), |key, _| keys.extend(key));
        each_german("Verbindung".as_bytes(), |key, _| keys.extend(key));
        let has = |text: &str| record("", text).get(keys[0]).is_some();
        assert!(has(german) && !has(english));
    }

    #[test]
    fn long_names_of_ascii_are_no_words() {
        let (long, longer) = ("x".repeat(MAX_NAME), "x".repeat(MAX_NAME + 1));
        assert_eq!(record("", &long).words, 1);
        assert_eq!(record("", &longer), WordRecord::default());
        let sentence = "重试".repeat(60);
        assert_eq!(record("", &sentence).words, 119);
    }

    #[test]
    fn a_counter_gives_the_same_for_each_text() {
        let texts = [
            "fn a_b() { c }",
            "résumé c",
            "",
            "struct AB;\nimpl AB {}",
            "c c c",
        ];
        let mut counter = Counter::default();
        for text in texts.iter().chain(&texts) {
            let counted = counter.count("x.rs", text.as_bytes(), || false);
            assert_eq!(counted, Some(record("x.rs", text)));
        }
    }

    #[test]
    fn a_text_with_too_many_names_has_no_record() {
        let text: String = (0..MAX_FORMS / 2).map(|n| format!("a{n}b ")).collect();
        let mut counter = Counter::default();
        assert_eq!(counter.count("", text.as_bytes(), || false), None);
        let keys = [forms::whole(b"a77b")];
        let record = count_keys(&keys, "", text.as_bytes(), || false).unwrap();
        assert_eq!(record.get(keys[0]).map(|entry| entry.count), Some(1));
        assert_eq!(record.entries.len(), 1);
    }

    #[test]
    fn counting_ends_when_it_is_told_to() {
        let text = "x ".repeat(STOP_INTERVAL);
        let stop = || true;
        assert_eq!(Counter::default().count("", text.as_bytes(), stop), None);
        assert_eq!(count_keys(&[], "", text.as_bytes(), stop), None);
        let text = "\n".repeat(STOP_INTERVAL);
        assert_eq!(Counter::default().count("", text.as_bytes(), stop), None);
    }

    proptest! {
        #[test]
        fn both_ways_of_counting_agree(
            words in prop::collection::vec("(fn |struct )?[a-cA-C_ß]{1,4}[({]?|é|über|und|nicht|ist|wird|重试|\\n", 0..40),
        ) {
            let text = words.join(" ");
            let all = record("a/b_c.rs", &text);
            let keys: Vec<u32> = all.entries.iter().map(|entry| entry.key).collect();
            for keys in [&keys[..], &keys[..keys.len() / 2], &[]] {
                let some = count_keys(keys, "a/b_c.rs", text.as_bytes(), || false).unwrap();
                let expected = all.entries.iter().filter(|entry| keys.contains(&entry.key));
                prop_assert_eq!(some.entries, expected.copied().collect::<Vec<_>>());
                prop_assert_eq!((some.words, some.lines), (all.words, all.lines));
            }
        }
    }
}
