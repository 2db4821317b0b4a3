//! The terms of a question, and how often they stand in a text.
//!
//! A scan counts only the terms of a question. It skips names that begin with other letters, so it
//! is several times as fast as a [`Counter`](super::counts::Counter), which counts all terms of a
//! text. Both find the same counts.

use std::ops::Range;

use memchr::{memchr, memrchr};

use super::counts::definitions::{define, define_offers};
use super::counts::{
    Entry, Marks, STOP_INTERVAL, WordCounts, cleaned, each_counted_form, each_of_file_name,
    is_data, lines, marks_of,
};
use super::definition::{Language, definition};
use super::forms::{GERMAN_WORDS, each_german, is_german_word};
use super::names::{Names, ascii_parts};

/// Some terms that are looked for in texts.
#[derive(Clone, Debug)]
pub struct AskedTerms {
    /// The terms in ascending order.
    keys: Vec<u32>,
    /// The first letters of the words that can have one of the terms.
    words: Beginnings,
    /// The same, and those of defined names that are terms as a whole.
    words_and_names: Beginnings,
}

impl AskedTerms {
    /// Collects terms. `words` are beginnings of words, without case and accents: each word that
    /// has one of the terms starts with one of them, or is not ASCII. `names` are beginnings of
    /// the defined names that are terms, in the same way.
    pub fn new<'t>(
        keys: impl Iterator<Item = u32>,
        words: Beginnings,
        names: impl Iterator<Item = &'t [u8]>,
    ) -> AskedTerms {
        let mut keys: Vec<u32> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let mut words_and_names = words.clone();
        names.for_each(|name| words_and_names.add(name));
        AskedTerms {
            keys,
            words,
            words_and_names,
        }
    }

    /// Returns false if the names of a text certainly have no word with one of the terms.
    pub fn may_be_in(&self, text: &[u8]) -> bool {
        self.words.may_begin(text)
    }

    /// Counts the terms in a text. The counts have no entries for other terms. Takes less time than
    /// a [`Counter`](super::counts::Counter), and no memory for the text. Returns `None` if `stop`
    /// says so.
    pub fn count(&self, path: &str, text: &[u8], stop: impl Fn() -> bool) -> Option<WordCounts> {
        let mut found = FoundTerms {
            keys: &self.keys,
            entries: vec![None; self.keys.len()],
        };
        let (mut words, mut german) = (0u32, 0u32);
        let mut lines_with_names = LinesWithNames::default();
        let (mut window, mut last_end) = (0, 0);
        for (nth, at) in Names::of(text).enumerate() {
            if nth % STOP_INTERVAL == STOP_INTERVAL - 1 && stop() {
                return None;
            }
            let name = &text[at.clone()];
            german |= is_german_word(name).map_or(0, |word| 1 << word);
            // The name of a definition may have hyphens.
            if at.start != last_end + 1 || text[last_end] != b'-' {
                window = 0;
            }
            last_end = at.end;
            let may_be_in = self.words_and_names.may_be_in(name, &mut window);
            if may_be_in {
                lines_with_names.add(text, at.start);
            }
            if is_data(name) {
                continue;
            }
            if !may_be_in {
                words = words.saturating_add(ascii_parts(name));
                continue;
            }
            each_counted_form(name, |key, kind| {
                words = words.saturating_add(u32::from(kind.is_part()));
                found.add(key, 1, marks_of(kind));
            });
        }
        if german.count_ones() >= GERMAN_WORDS {
            for (nth, at) in Names::of(text).enumerate() {
                if nth % STOP_INTERVAL == STOP_INTERVAL - 1 && stop() {
                    return None;
                }
                let name = &text[at];
                if is_data(name) || !self.may_be_in(name) {
                    continue;
                }
                each_german(name, |form, _| {
                    if let Some(form) = form {
                        found.add(form.key, 1, Marks::default());
                    }
                });
            }
        }
        let language = Language::of(path);
        let mut add = |key, marks| found.add(key, 0, marks);
        for at in lines_with_names.0 {
            if let Some(found) = definition(&text[at.clone()], language) {
                define(&text[at], &found, &mut add);
            }
        }
        define_offers(path, text, &mut add);
        each_of_file_name(path, &mut add);
        let mut entries: Vec<Entry> = found.entries.into_iter().flatten().collect();
        Some(WordCounts {
            entries: cleaned(&mut entries),
            words,
            lines: lines(text),
        })
    }
}

/// The terms of a question that a text has.
struct FoundTerms<'k> {
    keys: &'k [u32],
    /// The entry of each key.
    entries: Vec<Option<Entry>>,
}

impl FoundTerms<'_> {
    /// Adds places of a term, if it is one of the question.
    #[inline]
    fn add(&mut self, key: u32, count: u32, marks: Marks) {
        let Ok(nth) = self.keys.binary_search(&key) else {
            return;
        };
        match &mut self.entries[nth] {
            Some(entry) => entry.add(count, marks),
            empty => *empty = Some(Entry { key, count, marks }),
        }
    }
}

/// The first four letters of some words, as a set that may have a few others, too: a bit for each
/// hash of four letters.
#[derive(Clone, Debug)]
pub struct Beginnings(Box<[u64]>);

impl Default for Beginnings {
    fn default() -> Beginnings {
        Beginnings(vec![0; 1 << (Beginnings::HASH_BITS - 6)].into())
    }
}

impl Beginnings {
    /// The bits of a letter.
    const BITS: u32 = 5;
    const LETTERS: u32 = 1 << Beginnings::BITS;
    const FOUR_LETTERS: u32 = 1 << (4 * Beginnings::BITS);
    const HASH_BITS: u32 = 17;

    /// Collects the beginnings of words.
    pub fn of<'w>(words: impl Iterator<Item = &'w [u8]>) -> Beginnings {
        let mut all = Beginnings::default();
        words.for_each(|word| all.add(word));
        all
    }

    /// Adds the beginning of a word. `_` and `$` do not count.
    pub fn add(&mut self, word: &[u8]) {
        let letters = word.iter().map(|byte| letter(*byte)).filter(|own| *own > 0);
        let letters: Vec<u32> = letters.take(4).collect();
        if letters.is_empty() {
            return;
        }
        // Any letter, or the end of the name, may follow a shorter word.
        let free = Beginnings::BITS * (4 - letters.len() as u32);
        let first = letters
            .iter()
            .fold(0, |all, own| all * Beginnings::LETTERS + own)
            << free;
        for four in first..first + (1 << free) {
            let (at, bit) = Beginnings::place(four);
            self.0[at] |= 1 << bit;
        }
    }

    /// Returns the place of four letters: an index, and a bit.
    fn place(four: u32) -> (usize, u32) {
        let hash = four.wrapping_mul(0x9E37_79B1) >> (u32::BITS - Beginnings::HASH_BITS);
        (hash as usize / 64, hash % 64)
    }

    /// Returns false if certainly no word of a text begins like one of these words.
    pub fn may_begin(&self, text: &[u8]) -> bool {
        self.may_be_in(text, &mut 0)
    }

    /// Returns false if no word of a name begins like one of these words. Names that are not ASCII
    /// may have any word. `window` has the last letters before the name, and gets those of the
    /// name.
    fn may_be_in(&self, name: &[u8], window: &mut u32) -> bool {
        let is_in = self.is_in(name, window);
        // The name may end with a word of less than four letters.
        is_in || self.is_in(b"   ", &mut window.clone())
    }

    /// Returns false if no four letters that end in these bytes are in the set. Bytes between names
    /// count as the letter 0, as the end of a name does. Has no branches for single bytes, which
    /// makes it twice as fast.
    fn is_in(&self, bytes: &[u8], window: &mut u32) -> bool {
        let (mut four, mut found, mut all) = (*window, 0, 0);
        for byte in bytes {
            four = (four << SHIFTS[usize::from(*byte)] | letter(*byte)) % Beginnings::FOUR_LETTERS;
            let (at, bit) = Beginnings::place(four);
            found |= self.0[at] >> bit;
            all |= byte;
        }
        *window = four;
        found & 1 == 1 || !all.is_ascii()
    }
}

/// By how many bits a byte shifts the letters before it. `_` and `$` do not count as letters.
static SHIFTS: [u8; 256] = {
    let mut shifts = [Beginnings::BITS as u8; 256];
    shifts[b'_' as usize] = 0;
    shifts[b'$' as usize] = 0;
    shifts
};

/// Returns the number of a letter or digit, from 1. Some digits have the same number. Returns 0 for
/// other bytes.
fn letter(byte: u8) -> u32 {
    static LETTERS: [u8; 256] = {
        let mut letters = [0; 256];
        let mut at = 0;
        while at < 256 {
            letters[at] = match (at as u8).to_ascii_lowercase() {
                letter @ b'a'..=b'z' => letter - b'a' + 1,
                digit @ b'0'..=b'9' => 27 + (digit - b'0') % 5,
                _ => 0,
            };
            at += 1;
        }
        letters
    };
    LETTERS[usize::from(byte)].into()
}

/// The lines of a text that have certain names, each once.
#[derive(Default)]
struct LinesWithNames(Vec<Range<usize>>);

impl LinesWithNames {
    /// Adds the line around a place. Places come in ascending order.
    fn add(&mut self, text: &[u8], at: usize) {
        if self.0.last().is_some_and(|last| at < last.end) {
            return;
        }
        let start = memrchr(b'\n', &text[..at]).map_or(0, |feed| feed + 1);
        let end = memchr(b'\n', &text[at..]).map_or(text.len(), |feed| at + feed);
        self.0.push(start..end);
    }
}
