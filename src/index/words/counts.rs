//! The word counts of a text: how often each term stands in it, and which names it defines.
//!
//! The builder counts the words of each file that it reads, and stores the counts with the n-grams.
//! A ranked question looks its terms up in them. The words of a file that has no counts in the
//! index, such as one that was just edited, are counted when the question reads it.

pub(super) mod definitions;

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use memchr::memchr_iter;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::definition::Kind;
use super::forms::{FormKind, GERMAN_WORDS, each_form, each_german, is_german_word};
use super::names::Names;
use definitions::each_definition;

/// Forms of different names that a counter remembers, at most. The terms of further names are
/// counted at each of their places, which takes longer. For example, a header with 200,000
/// different names of registers has 5 million forms, and 500,000 different terms.
const MAX_FORMS: usize = 1 << 21;

/// Different terms of one text, at most. A text with more has no counts, so that memory stays
/// bounded; [`AskedTerms`](super::asked::AskedTerms) count in it.
const MAX_TERMS: usize = 1 << 19;

/// Longer names of ASCII characters are data rather than words, and have no terms.
const MAX_NAME: usize = 128;

/// Names that a counter remembers from earlier texts, at most.
const MAX_REMEMBERED: usize = 1 << 14;

/// Forms of one name, at most. The first ones count.
const MAX_NAME_FORMS: usize = 2000;

/// Names or lines between two looks at whether to stop.
pub const STOP_INTERVAL: usize = 4096;

/// What a term is in one text, apart from a word: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks(u8);

impl Marks {
    /// The kind of the definition with this name, in the lowest three bits; 0 for no definition.
    const KIND: u8 = 0b111;
    /// It is nothing else.
    pub const NONE: Marks = Marks(0);
    /// It is the name of a variable that is defined, and nothing else.
    pub const VARIABLE: Marks = Marks(3);
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
        (bits >> 7 == 0 && kind <= 5).then_some(Marks(bits))
    }

    /// Returns true if all bits of `other` are set.
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the kind of the definition with this name.
    pub fn kind(self) -> Option<Kind> {
        match self.0 & Marks::KIND {
            1 => Some(Kind::Reopened),
            2 => Some(Kind::Offered),
            3 => Some(Kind::Variable),
            4 => Some(Kind::Function),
            5 => Some(Kind::Type),
            _ => None,
        }
    }

    fn of_kind(kind: Kind) -> Marks {
        Marks(match kind {
            Kind::Reopened => 1,
            Kind::Offered => 2,
            Kind::Variable => 3,
            Kind::Function => 4,
            Kind::Type => 5,
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
    /// The hash of the term.
    pub key: u32,
    /// The number of places.
    pub count: u32,
    /// What the term is besides.
    pub marks: Marks,
}

impl Entry {
    /// Adds places of the term.
    pub(super) fn add(&mut self, count: u32, marks: Marks) {
        self.count = self.count.saturating_add(count);
        self.marks = self.marks.join(marks);
    }
}

/// The word counts of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordCounts {
    /// The terms in ascending order of their keys.
    pub entries: Vec<Entry>,
    /// The number of words: parts of names.
    pub words: u32,
    /// The number of line feeds.
    pub lines: u32,
}

impl WordCounts {
    /// Returns the entry of a term. Takes logarithmic time in the number of terms.
    pub fn get(&self, key: u32) -> Option<Entry> {
        let at = self.entries.binary_search_by_key(&key, |entry| entry.key);
        at.ok().and_then(|at| self.entries.get(at)).copied()
    }

    /// Returns the memory that the counts take, in bytes.
    pub fn footprint(&self) -> usize {
        size_of::<WordCounts>() + self.entries.len() * size_of::<Entry>()
    }
}

/// A remembered name. It has the size of half a cache line.
#[derive(Clone, Copy, Default)]
struct Known {
    hash: u128,
    /// The text that has it, the last one; 0 for an empty slot.
    text: u32,
    /// Its place in [`Counter::seen`].
    seen: u32,
    /// Its first form in [`Counter::forms`].
    forms: u32,
    /// The number of its forms.
    count: u16,
    /// The number of its parts, and above it its number among the frequent German words, from 1.
    parts: u16,
}

impl Known {
    const GERMAN_SHIFT: u32 = 11;

    fn parts(self) -> u32 {
        u32::from(self.parts) & ((1 << Known::GERMAN_SHIFT) - 1)
    }

    /// Returns the bit of a frequent German word, or 0.
    fn german(self) -> u32 {
        match self.parts >> Known::GERMAN_SHIFT {
            0 => 0,
            number => 1 << (number - 1),
        }
    }
}

/// A name of the current text.
struct Seen {
    /// Its place in [`Counter::names`] when it was seen first.
    known: Known,
    count: u32,
    at: Range<usize>,
}

/// Counts the terms of texts. It remembers the forms of names from text to text, which only saves
/// time. Few names make up most of all texts, so a small memory in the processor's cache is faster
/// than a large one.
#[derive(Default)]
pub struct Counter {
    /// A hash table with open addressing. Its length is a power of two, or 0.
    names: Vec<Known>,
    name_count: usize,
    /// The forms of the remembered names: terms, and the marks of the forms.
    forms: Vec<(u32, Marks)>,
    /// The number of forms to remember, at most; 0 for [`MAX_FORMS`].
    most_forms: usize,
    seen: Vec<Seen>,
    /// What the names that are not remembered add to the current text.
    others: Others,
    /// The number of the current text, from 1.
    text: u32,
    terms: Terms,
    /// A random number for places in hash tables. A text can't be made so that all its names share
    /// a place.
    seed: u64,
}

/// Counts over the names of a text that are not remembered.
#[derive(Default)]
struct Others {
    names: u64,
    words: u32,
    /// The frequent German words among them, a bit for each.
    german: u32,
}

/// The terms of the current text.
#[derive(Default)]
struct Terms {
    entries: Vec<Entry>,
    /// A hash table with open addressing: the text, and the place of an entry.
    slots: Vec<(u32, u32)>,
    /// A random odd number. A slot is given by the upper bits of a term multiplied by it.
    factor: u32,
}

impl Terms {
    /// Adds places of a term.
    fn add(&mut self, text: u32, key: u32, count: u32, marks: Marks) {
        if self.slots.len() <= 2 * self.entries.len() {
            self.grow(text);
        }
        let mask = self.slots.len() - 1;
        let mut at = self.slot_of(key);
        loop {
            let slot = &mut self.slots[at];
            if slot.0 != text {
                *slot = (text, self.entries.len() as u32);
                self.entries.push(Entry { key, count, marks });
                return;
            }
            let entry = &mut self.entries[slot.1 as usize];
            if entry.key == key {
                entry.add(count, marks);
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the slot where the search for a term begins. There are at least two slots.
    fn slot_of(&self, key: u32) -> usize {
        let bits = self.slots.len().trailing_zeros();
        (key.wrapping_mul(self.factor) >> (32 - bits)) as usize
    }

    fn grow(&mut self, text: u32) {
        let len = (2 * self.slots.len()).max(1024);
        self.slots.clear();
        self.slots.resize(len, (0, 0));
        for (place, entry) in (0u32..).zip(&self.entries) {
            let mut at = self.slot_of(entry.key);
            while self.slots[at].0 == text {
                at = (at + 1) & (len - 1);
            }
            self.slots[at] = (text, place);
        }
    }
}

impl Counter {
    /// Counts the terms of a text. Takes time linear in the text. Returns `None` if the text has
    /// too many different terms, or if `stop` says so.
    pub fn count(
        &mut self,
        path: &str,
        text: &[u8],
        stop: impl Fn() -> bool,
    ) -> Option<WordCounts> {
        if self.name_count > MAX_REMEMBERED || self.is_full() || self.text == u32::MAX {
            *self = Counter {
                most_forms: self.most_forms,
                ..Counter::default()
            };
        }
        if self.seed == 0 {
            self.seed = RandomState::new().hash_one(0) | 1;
            self.terms.factor = (self.seed >> 32) as u32 | 1;
        }
        self.text += 1;
        self.seen.clear();
        self.terms.entries.clear();
        self.others = Others::default();
        for (nth, at) in Names::of(text).enumerate() {
            if nth % STOP_INTERVAL == STOP_INTERVAL - 1 && stop() {
                return None;
            }
            self.see(text, at);
            if self.terms.entries.len() > MAX_TERMS {
                return None;
            }
        }
        let words = self.count_names(text)?;
        let (terms, number) = (&mut self.terms, self.text);
        each_definition(path, text, stop, |key, marks| {
            // A text with more terms has no counts.
            if terms.entries.len() <= MAX_TERMS {
                terms.add(number, key, 0, marks);
            }
        })?;
        each_of_file_name(path, |key, marks| terms.add(number, key, 0, marks));
        if terms.entries.len() > MAX_TERMS {
            return None;
        }
        Some(WordCounts {
            entries: cleaned(&mut terms.entries),
            words,
            lines: lines(text),
        })
    }

    /// Returns true if no further name can be remembered.
    fn is_full(&self) -> bool {
        let most = match self.most_forms {
            0 => MAX_FORMS,
            most => most,
        };
        self.forms.len() >= most
    }

    /// Notes one place of a name.
    fn see(&mut self, text: &[u8], at: Range<usize>) {
        let name = &text[at.clone()];
        if is_data(name) {
            return;
        }
        if self.names.len() <= 2 * self.name_count {
            self.grow();
        }
        let hash = xxh3_128_with_seed(name, self.seed);
        let mask = self.names.len() - 1;
        let mut place = hash as usize & mask;
        let is_full = self.is_full();
        let own = loop {
            let own = &mut self.names[place];
            if own.text == 0 && is_full {
                return self.count_at_once(name);
            }
            if own.text == 0 {
                *own = remember(&mut self.forms, hash, name);
                self.name_count += 1;
                break own;
            }
            if own.hash == hash {
                break own;
            }
            place = (place + 1) & mask;
        };
        if own.text == self.text {
            let count = &mut self.seen[own.seen as usize].count;
            *count = count.saturating_add(1);
            return;
        }
        own.text = self.text;
        own.seen = self.seen.len() as u32;
        self.seen.push(Seen {
            known: *own,
            count: 1,
            at,
        });
    }

    /// Adds the terms of one place of a name that is not remembered.
    fn count_at_once(&mut self, name: &[u8]) {
        let (terms, others) = (&mut self.terms, &mut self.others);
        others.names += 1;
        others.german |= is_german_word(name).map_or(0, |word| 1 << word);
        each_counted_form(name, |key, kind| {
            others.words = others.words.saturating_add(u32::from(kind.is_part()));
            terms.add(self.text, key, 1, marks_of(kind));
        });
    }

    fn grow(&mut self) {
        let len = (2 * self.names.len()).max(1024);
        let before = std::mem::replace(&mut self.names, vec![Known::default(); len]);
        for own in before.into_iter().filter(|own| own.text != 0) {
            let mut place = own.hash as usize & (len - 1);
            while self.names[place].text != 0 {
                place = (place + 1) & (len - 1);
            }
            self.names[place] = own;
        }
    }

    /// Adds the terms of all names that were seen. Returns the number of words; `None` for a text
    /// in German with names that are not remembered, whose German stems are therefore unknown.
    fn count_names(&mut self, text: &[u8]) -> Option<u32> {
        let (mut words, mut german) = (self.others.words, self.others.german);
        for Seen { known, count, .. } in &self.seen {
            words = words.saturating_add(known.parts().saturating_mul(*count));
            german |= known.german();
            let forms = known.forms as usize..known.forms as usize + usize::from(known.count);
            for &(key, marks) in self.forms.get(forms).unwrap_or_default() {
                self.terms.add(self.text, key, *count, marks);
            }
        }
        if german.count_ones() >= GERMAN_WORDS {
            if self.others.names > 0 {
                return None;
            }
            for seen in &self.seen {
                each_german(&text[seen.at.clone()], |form, _| {
                    if let Some(form) = form {
                        self.terms
                            .add(self.text, form.key, seen.count, Marks::default());
                    }
                });
            }
        }
        Some(words)
    }
}

/// Calls `each` with the term and the kind of each form of a name. Of a name with very many forms,
/// the first ones count.
pub(super) fn each_counted_form(name: &[u8], mut each: impl FnMut(u32, FormKind)) {
    let mut forms = 0;
    each_form(name, |form| {
        forms += 1;
        if forms <= MAX_NAME_FORMS {
            each(form.key, form.kind);
        }
    });
}

/// Notes the forms of a name.
fn remember(forms: &mut Vec<(u32, Marks)>, hash: u128, name: &[u8]) -> Known {
    let start = forms.len();
    let mut parts = 0u16;
    each_counted_form(name, |key, kind| {
        parts += u16::from(kind.is_part());
        forms.push((key, marks_of(kind)));
    });
    let german = is_german_word(name).map_or(0, |word| word as u16 + 1);
    Known {
        hash,
        // The caller sets the text.
        text: u32::MAX,
        seen: 0,
        forms: start as u32,
        count: (forms.len() - start) as u16,
        parts: parts | german << Known::GERMAN_SHIFT,
    }
}

#[inline]
pub(super) fn is_data(name: &[u8]) -> bool {
    name.len() > MAX_NAME && name.is_ascii()
}

pub(super) fn marks_of(kind: FormKind) -> Marks {
    match kind {
        FormKind::Accented => Marks::ACCENTED,
        FormKind::Plain | FormKind::Exact | FormKind::Whole => Marks::default(),
    }
}

/// Calls `add` for the terms of a file's own name.
pub(super) fn each_of_file_name(path: &str, mut add: impl FnMut(u32, Marks)) {
    let name = file_stem(path).as_bytes();
    for range in Names::of(name) {
        each_form(&name[range], |form| {
            add(form.key, Marks::IN_FILE_NAME.join_all())
        });
    }
}

/// Names of files that stand for their directory.
const ENTRIES: [&str; 6] = ["mod", "lib", "index", "init", "__init__", "main"];

/// Names of directories that say nothing about their files.
const GENERIC: [&str; 5] = ["src", "lib", "source", "main", "app"];

/// Returns the name of a file without its extension. Of a file that stands for its directory, such
/// as `mod.rs` and `index.ts`, this is the name of the directory.
pub fn file_stem(path: &str) -> &str {
    let mut names = path.rsplit(std::path::is_separator);
    let name = names.next().unwrap_or(path);
    let stem = match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    };
    if !ENTRIES.contains(&stem) {
        return stem;
    }
    let mut directories = names.filter(|name| !name.is_empty());
    directories
        .find(|name| !GENERIC.contains(name))
        .unwrap_or(stem)
}

/// Sorts the entries of a text, and drops marks that hold only inside of the text.
pub(super) fn cleaned(entries: &mut [Entry]) -> Vec<Entry> {
    entries.sort_unstable_by_key(|entry| entry.key);
    for entry in entries.iter_mut().filter(|entry| entry.count == 0) {
        entry.marks = entry.marks.outside_of_text();
    }
    let has_any = |entry: &&Entry| entry.count > 0 || entry.marks != Marks::default();
    entries.iter().filter(has_any).copied().collect()
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

pub(super) fn lines(text: &[u8]) -> u32 {
    let feeds = memchr_iter(b'\n', text).count();
    u32::try_from(feeds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
