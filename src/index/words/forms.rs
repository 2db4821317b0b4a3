//! Forms of a name: the terms by which questions find it.
//!
//! A part of a name is reduced to a base form: without case, without accents, and cut to its stem.
//! So `retries` finds `Retrying`, and `resume` finds `Résumé`. A name of several parts is a term as
//! a whole, too. A part with accents also keeps an exact form, so that the exact spelling ranks
//! higher. Each form has a namespace: the part `open` and the whole name `open` are different
//! terms.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::names::{each_part, normal};
use super::stem::stem;

/// The factor from the number of a namespace to the seed of its hashes.
const SEED_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The namespaces of terms, each with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Part = 1,
    Exact = 2,
    Whole = 3,
    Defined = 4,
    German = 5,
}

fn key(space: Space, text: &[u8]) -> u32 {
    // The hash of a short text keeps its last letter and a small seed in the same bits. So the
    // seeds differ in their upper halves, too.
    let seed = (space as u64).wrapping_mul(SEED_FACTOR);
    // The upper half of the hash is as good as the lower one; one of them is kept.
    (xxh3_64_with_seed(text, seed) >> 32) as u32
}

/// The kind of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormKind {
    /// The base form of a part that is written without accents.
    Plain,
    /// The base form of a part that is written with accents.
    Accented,
    /// The exact form of a part with accents.
    Exact,
    /// All parts together, for a name that has several.
    Whole,
}

impl FormKind {
    /// Returns true for the base forms: there is one for each part.
    pub fn is_part(self) -> bool {
        matches!(self, FormKind::Plain | FormKind::Accented)
    }
}

/// One form of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form<'f> {
    /// The hash of the text.
    pub key: u32,
    /// The kind of the form.
    pub kind: FormKind,
    /// The text whose hash the term is.
    pub text: &'f [u8],
    /// The range of the name that it stands for, in bytes. The whole name if the name is not in
    /// normal form.
    pub at: Range<usize>,
}

/// Calls `each` with every form of a name. Parts come from left to right, the whole name comes
/// last.
pub fn each_form(name: &[u8], mut each: impl FnMut(Form<'_>)) {
    let text = normal(name);
    let is_normal = matches!(text, Cow::Borrowed(_));
    let mut whole = Vec::new();
    let (mut parts, mut last_end, mut overlap) = (0, 0, false);
    let mut forms = Forms::default();
    each_part(&text, |part| {
        overlap |= part.start < last_end;
        last_end = part.end;
        parts += 1;
        let at = match is_normal {
            true => part.clone(),
            false => 0..name.len(),
        };
        forms.set(&text[part]);
        whole.extend_from_slice(&forms.folded);
        let mut push = |space, kind, text| {
            each(Form {
                key: key(space, text),
                kind,
                text,
                at: at.clone(),
            });
        };
        match forms.is_plain {
            true => push(Space::Part, FormKind::Plain, &forms.base),
            false => {
                push(Space::Part, FormKind::Accented, &forms.base);
                push(Space::Exact, FormKind::Exact, &forms.folded);
            }
        }
    });
    if parts > 1 && !overlap {
        each(Form {
            key: key(Space::Whole, &whole),
            kind: FormKind::Whole,
            text: &whole,
            at: 0..name.len(),
        });
    }
}

/// Returns the term of a whole name: its letters and digits without case. `parse_config` and
/// `parseConfig` have the same.
pub fn whole(name: &[u8]) -> u32 {
    key(Space::Whole, &letters(name))
}

/// Returns the term of a defined name in exactly this spelling.
pub fn defined(name: &[u8]) -> u32 {
    key(Space::Defined, name)
}

/// Returns the letters and digits of a name without case.
pub fn letters(name: &[u8]) -> Vec<u8> {
    let text = normal(name);
    let mut letters = Vec::new();
    let mut last_end = 0;
    each_part(&text, |part| {
        // Pairs overlap.
        let from = part.start.max(last_end);
        last_end = part.end;
        fold(&text[from..part.end], &mut letters);
    });
    letters
}

/// Returns the term of a word that is one part of a name, given without case, and the word without
/// accents, cut to its stem.
pub fn part(folded: &str) -> (u32, Vec<u8>) {
    let mut forms = Forms::default();
    forms.set(folded.as_bytes());
    (key(Space::Part, &forms.base), forms.base)
}

/// Returns the term that joins words without case.
pub fn joined(letters: &[u8]) -> u32 {
    key(Space::Whole, letters)
}

/// The German form of a part of a name.
#[derive(Clone, Copy, Debug)]
pub struct GermanForm<'t> {
    /// The term of the form.
    pub key: u32,
    /// Its stem by the rules of German, without accents. A part of ASCII characters starts with it.
    pub stem: &'t [u8],
}

/// Calls `each` with the German form of each part of a name. The form is `None` for a part that no
/// German word can be.
pub fn each_german(name: &[u8], mut each: impl FnMut(Option<GermanForm<'_>>, Range<usize>)) {
    let text = normal(name);
    let is_normal = matches!(text, Cow::Borrowed(_));
    let mut folded = Vec::new();
    each_part(&text, |part| {
        folded.clear();
        fold(&text[part.clone()], &mut folded);
        let stem = german(&folded);
        let form = stem.as_deref().map(|stem| GermanForm {
            key: key(Space::German, stem),
            stem,
        });
        each(form, if is_normal { part } else { 0..name.len() });
    });
}

/// Bytes of a German word, at most.
const MAX_GERMAN: usize = 64;

/// Returns the German stem of a part without case. Returns `None` for a part with characters that
/// German does not have.
fn german(folded: &[u8]) -> Option<Vec<u8>> {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::German));
    let text = std::str::from_utf8(folded).ok()?;
    let is_german = |char: char| matches!(char, 'a'..='z' | 'ä' | 'ö' | 'ü');
    // The stemmer takes quadratic time.
    if folded.len() < 3 || folded.len() > MAX_GERMAN || !text.chars().all(is_german) {
        return None;
    }
    let mut base = Vec::new();
    strip_accents(&STEMMER.stem(text), &mut base);
    Some(base)
}

/// The forms of one part.
#[derive(Debug, Default)]
struct Forms {
    /// The part without case.
    folded: Vec<u8>,
    /// Without case and accents, cut to its stem.
    base: Vec<u8>,
    /// The part has no accents.
    is_plain: bool,
}

impl Forms {
    fn set(&mut self, part: &[u8]) {
        self.folded.clear();
        fold(part, &mut self.folded);
        self.base.clear();
        self.is_plain = true;
        if self.folded.is_ascii() {
            self.base.extend_from_slice(&self.folded);
            stem(&mut self.base);
            return;
        }
        let text = String::from_utf8_lossy(&self.folded);
        strip_accents(&text, &mut self.base);
        self.is_plain = self.base == self.folded;
        if text.chars().any(is_cyrillic) {
            // The stemmer needs й and knows no ё.
            let stemmed = russian(&text.replace('ё', "е"));
            self.base.clear();
            strip_accents(&stemmed, &mut self.base);
        } else if self.base.is_ascii() {
            stem(&mut self.base);
        }
    }
}

fn is_cyrillic(char: char) -> bool {
    matches!(char, '\u{400}'..='\u{52F}')
}

fn russian(word: &str) -> String {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::Russian));
    STEMMER.stem(word).into_owned()
}

/// Appends a part without case, as by full case folding: `ß` becomes `ss`. Bytes that are not UTF-8
/// stay as they are.
fn fold(part: &[u8], out: &mut Vec<u8>) {
    if part.is_ascii() {
        out.extend(part.iter().map(u8::to_ascii_lowercase));
        return;
    }
    let mut buffer = [0; 4];
    for chunk in part.utf8_chunks() {
        for char in chunk.valid().chars().flat_map(char::to_lowercase) {
            match char {
                'ß' => out.extend_from_slice(b"ss"),
                'ς' => out.extend_from_slice("σ".as_bytes()),
                _ => out.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes()),
            }
        }
        out.extend_from_slice(chunk.invalid());
    }
}

/// Appends a text without the accents of Latin, Greek and Cyrillic letters. Marks of other scripts
/// are letters of their own, and stay.
fn strip_accents(text: &str, out: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    let mut push = |char: char| match char {
        'æ' => out.extend_from_slice(b"ae"),
        'œ' => out.extend_from_slice(b"oe"),
        'ø' => out.push(b'o'),
        'ł' => out.push(b'l'),
        'đ' => out.push(b'd'),
        'ı' => out.push(b'i'),
        _ => out.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes()),
    };
    let is_accent = |char: &char| matches!(char, '\u{300}'..='\u{36F}');
    text.nfd()
        .filter(|char| !is_accent(char))
        .nfc()
        .for_each(&mut push);
}

/// Words that German texts have and others do not, apart from a few.
const GERMAN: [&str; 27] = [
    "und", "nicht", "ist", "wird", "wenn", "eine", "einen", "für", "mit", "auf", "oder", "auch",
    "der", "das", "ein", "dem", "werden", "von", "zum", "zur", "sich", "aus", "nach", "bei",
    "kein", "keine", "nur",
];

/// Different [German words](is_german_word) that make a text a German one.
pub const GERMAN_WORDS: u32 = 4;

/// Returns the number of a word among the most frequent German ones, if it is one.
pub fn is_german_word(name: &[u8]) -> Option<u32> {
    /// The first two letters of the words: a bit of a letter for each letter before it.
    static PAIRS: LazyLock<[u32; 32]> = LazyLock::new(|| {
        let mut pairs = [0; 32];
        for word in GERMAN {
            if let [first, second, ..] = word.as_bytes() {
                pairs[usize::from(first % 32)] |= 1 << (second % 32);
            }
        }
        pairs
    });
    // Only few names pass this check.
    let [first, second, _, ..] = name else {
        return None;
    };
    if name.len() > 6 || PAIRS[usize::from(first % 32)] >> (second % 32) & 1 == 0 {
        return None;
    }
    let same = |word: &&str| word.as_bytes().eq_ignore_ascii_case(name);
    let at = GERMAN.iter().position(same)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn short_texts_of_different_namespaces_are_different_terms() {
        let spaces = [
            Space::Part,
            Space::Exact,
            Space::Whole,
            Space::Defined,
            Space::German,
        ];
        let letters = b"abcdefghijklmnopqrstuvwxyz".map(|letter| [letter]);
        let mut words: Vec<Vec<u8>> = vec![Vec::new()];
        let mut keys = BTreeSet::new();
        let mut count = 0;
        for _ in 0..2 {
            let longer = |word: &Vec<u8>| letters.map(|letter| [word, &letter[..]].concat());
            words = words.iter().flat_map(longer).collect();
            for word in &words {
                keys.extend(spaces.map(|space| key(space, word)));
                count += spaces.len();
            }
        }
        // Among 3,510 random keys of 32 bits, two are equal in one of 700 cases.
        assert_eq!(keys.len(), count);
        assert_ne!(key(Space::Part, b"new"), key(Space::Whole, b"neu"));
    }
}
