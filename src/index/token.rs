//! The tokenizer: extracts the distinct n-grams of a file, as they are and case-folded.
//!
//! The builder and the live index call it with the bytes of a file. This module owns the steps from
//! bytes to n-grams that the specification of the index prescribes, and decides whether n-grams may
//! exclude the text from searches. It does not know where bytes come from or where n-grams are
//! stored.
//!
//! ASCII text takes a fast path: an n-gram is a 21-bit number, a bitmap detects known n-grams, and
//! no n-gram is allocated or hashed. Other n-grams go into a list that is sorted once. Property
//! tests compare both paths with the plain pipeline.

use std::borrow::Cow;

use unicode_normalization::IsNormalized;

use crate::format::nfc::{is_normal, is_normal_quick, normalize};
use crate::index::casefold::Casefold;
use crate::index::choices::choices;
use crate::index::gram::{Gram, NGRAM_CHARS};

choices! {
    /// The result of tokenizing a file.
    #[derive(PartialOrd, Ord)]
    TokenStatus {
        /// All text was tokenized.
        Full = "FULL",
        /// The file exceeds the size limit.
        SkippedTooLarge = "SKIPPED_TOO_LARGE",
        /// More than half of the characters are not valid UTF-8.
        SkippedBinary = "SKIPPED_BINARY",
        /// The file could not be opened or read.
        Unreadable = "UNREADABLE",
        /// Another error occurred.
        Error = "ERROR",
        /// The file matches a default denied pattern, so no index holds its text
        /// ([`is_withheld`](crate::index::deny::is_withheld)).
        Withheld = "WITHHELD",
    }
}

/// The tokens of one file. The n-grams are distinct and in no particular order.
#[derive(Debug)]
pub struct Tokens<'a> {
    /// The status of the file. Only [`TokenStatus::Full`] has n-grams.
    pub status: TokenStatus,
    /// True if a search may exclude the file because an n-gram is absent: normalization does not
    /// change the text, there is no byte-order mark of UTF-16 or UTF-32, and there is at least one
    /// n-gram.
    pub excludable: bool,
    /// N-grams of the normalized text.
    pub sensitive: GramList<'a>,
    /// N-grams of the normalized and folded text.
    pub insensitive: GramList<'a>,
}

/// Distinct n-grams in two forms.
#[derive(Clone, Copy, Debug, Default)]
pub struct GramList<'a> {
    /// N-grams of three ASCII characters, packed with seven bits per character.
    pub ascii: &'a [u32],
    /// All other n-grams.
    pub wide: &'a [Gram],
}

impl<'a> GramList<'a> {
    /// Returns the number of n-grams.
    pub fn len(&self) -> usize {
        self.ascii.len() + self.wide.len()
    }

    /// Returns true if there are no n-grams.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all n-grams.
    pub fn iter(&self) -> impl Iterator<Item = Gram> + use<'a> {
        self.ascii
            .iter()
            .map(|&packed| Gram::from_ascii(packed))
            .chain(self.wide.iter().copied())
    }
}

/// The number of n-grams of three ASCII characters: 128^3.
pub(crate) const ASCII_GRAMS: usize = 1 << 21;

/// The number of non-ASCII n-grams in the list at which duplicates are first removed. So a long
/// text does not take many times its length in memory.
const WIDE_LIMIT: usize = 1 << 18;

/// Limit on the non-ASCII n-grams of one part. Only lines of megabytes without repetition exceed
/// it. They would fill the largest filter.
const MAX_PART_WIDE: usize = 1 << 20;

/// The longest part, in bytes, that may be copied for decoding or normalization. Only a single line
/// makes a longer part, and only invalid UTF-8 or combining marks need a copy. Unit tests use a
/// lower limit, and so shorter texts.
const MAX_PART_DECODED: usize = if cfg!(test) { 1 << 20 } else { 8 << 20 };

/// A set of ASCII n-grams: a bitmap, and a list in the order of their first occurrence.
#[derive(Debug)]
struct AsciiSet {
    seen: Vec<u64>,
    list: Vec<u32>,
    len: usize,
}

impl AsciiSet {
    fn new() -> AsciiSet {
        AsciiSet {
            seen: vec![0; ASCII_GRAMS / 64],
            list: vec![0; 4096],
            len: 0,
        }
    }

    /// Adds an n-gram. The caller ensures that the list has room for one more. Free of branches:
    /// the number is always written, but the length grows only for a new n-gram.
    #[inline(always)]
    fn add(&mut self, packed: u32) {
        let packed = packed & (ASCII_GRAMS as u32 - 1);
        let word = &mut self.seen[(packed / 64) as usize];
        let bit = 1u64 << (packed % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.list[self.len] = packed;
        self.len += usize::from(new);
    }

    fn make_room(&mut self, more: usize) {
        let needed = (self.len + more).min(ASCII_GRAMS) + 1;
        if self.list.len() < needed {
            let mut list = vec![0; needed.next_power_of_two()];
            list[..self.len].copy_from_slice(&self.list[..self.len]);
            self.list = list;
        }
    }

    /// Removes all n-grams, at a cost in proportion to their number.
    fn clear(&mut self) {
        for &packed in &self.list[..self.len] {
            self.seen[(packed / 64) as usize] = 0;
        }
        self.len = 0;
    }

    fn as_slice(&self) -> &[u32] {
        &self.list[..self.len]
    }
}

/// Lowers the ASCII letters in three packed characters at once.
#[inline(always)]
fn fold_ascii_gram(packed: u32) -> u32 {
    let lower = |shift: u32| {
        let byte = packed >> shift & 0x7F;
        let upper = byte.wrapping_sub(u32::from(b'A')) < 26;
        (byte | u32::from(upper) << 5) << shift
    };
    lower(14) | lower(7) | lower(0)
}

/// Tokenizes files one after the other and reuses its buffers.
#[derive(Debug)]
pub struct Tokenizer {
    casefold: Casefold,
    max_bytes: u64,
    ascii_sensitive: AsciiSet,
    ascii_insensitive: AsciiSet,
    wide_sensitive: Vec<Gram>,
    wide_insensitive: Vec<Gram>,
}

impl Tokenizer {
    /// Creates a tokenizer for files of at most `max_bytes` bytes (`index_max_tokenized_bytes`),
    /// and less than 4 GiB.
    pub fn new(casefold: Casefold, max_bytes: u64) -> Tokenizer {
        Tokenizer {
            casefold,
            max_bytes: max_bytes.min(u32::MAX.into()),
            ascii_sensitive: AsciiSet::new(),
            ascii_insensitive: AsciiSet::new(),
            wide_sensitive: Vec::new(),
            wide_insensitive: Vec::new(),
        }
    }

    /// Returns the size limit of files, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Tokenizes a whole file. Takes linear time, plus the time to sort non-ASCII n-grams.
    pub fn tokenize(&mut self, bytes: &[u8]) -> Tokens<'_> {
        if let Some(status) = self.skips(bytes) {
            return self.skipped(status);
        }
        let stable = self.add(bytes) && !has_wide_mark(bytes);
        self.fold();
        let mut tokens = self.tokens();
        tokens.excludable = stable && !tokens.sensitive.is_empty();
        tokens
    }

    /// Tokenizes one of the [`parts`] of a file. Memory is bounded by about ten times the part, or
    /// some tens of megabytes.
    ///
    /// Returns nothing in two cases: normalization changes the text, so that an absent n-gram
    /// proves nothing; or there are so many n-grams that hardly any would be absent.
    ///
    /// A line, and so each match, lies in one part. The n-grams of all parts are those of the file,
    /// except for n-grams across the border of two parts, each of which has a line feed. If
    /// normalization changes no part, it does not change the whole, since a line feed composes with
    /// nothing.
    ///
    /// The file is excludable under three conditions: [`status`](Tokenizer::status) allows it for
    /// the whole file, every part returns tokens, and at least one part is
    /// [`excludable`](Tokens::excludable).
    pub fn part(&mut self, bytes: &[u8]) -> Option<Tokens<'_>> {
        self.clear();
        if bytes.is_ascii() {
            self.add_ascii(bytes);
        } else {
            let text = match std::str::from_utf8(bytes) {
                Ok(text) => Cow::Borrowed(text),
                Err(_) if bytes.len() > MAX_PART_DECODED => return None,
                Err(_) => String::from_utf8_lossy(bytes),
            };
            let normal = match bytes.len() > MAX_PART_DECODED {
                true => is_normal_quick(&text) == IsNormalized::Yes,
                false => is_normal(&text),
            };
            if !normal || !self.add_text(&text, MAX_PART_WIDE) {
                return None;
            }
        }
        self.fold();
        let mut tokens = self.tokens();
        tokens.excludable = !tokens.sensitive.is_empty();
        Some(tokens)
    }

    /// Returns the status of a file, and whether n-grams of its parts may exclude it. Takes linear
    /// time and no memory.
    pub fn status(&self, bytes: &[u8]) -> (TokenStatus, bool) {
        match self.skips(bytes) {
            Some(status) => (status, false),
            None => (TokenStatus::Full, !has_wide_mark(bytes)),
        }
    }

    /// Returns the reason why a file is not tokenized, if there is one.
    fn skips(&self, bytes: &[u8]) -> Option<TokenStatus> {
        if bytes.len() as u64 > self.max_bytes {
            return Some(TokenStatus::SkippedTooLarge);
        }
        let binary = !bytes.is_ascii() && mostly_replaced(bytes);
        binary.then_some(TokenStatus::SkippedBinary)
    }

    fn clear(&mut self) {
        self.ascii_sensitive.clear();
        self.ascii_insensitive.clear();
        self.wide_sensitive.clear();
        self.wide_insensitive.clear();
    }

    /// Replaces the content of the buffers by the n-grams of a text. Returns true if normalization
    /// does not change the text.
    fn add(&mut self, bytes: &[u8]) -> bool {
        self.clear();
        if bytes.is_ascii() {
            self.add_ascii(bytes);
            return true;
        }
        let text = String::from_utf8_lossy(bytes);
        let text = normalize(Cow::Borrowed(&text));
        self.add_text(&text, usize::MAX);
        matches!(text, Cow::Borrowed(_))
    }

    fn tokens(&self) -> Tokens<'_> {
        Tokens {
            status: TokenStatus::Full,
            excludable: false,
            sensitive: GramList {
                ascii: self.ascii_sensitive.as_slice(),
                wide: &self.wide_sensitive,
            },
            insensitive: GramList {
                ascii: self.ascii_insensitive.as_slice(),
                wide: &self.wide_insensitive,
            },
        }
    }

    fn skipped(&self, status: TokenStatus) -> Tokens<'_> {
        Tokens {
            status,
            excludable: false,
            sensitive: GramList::default(),
            insensitive: GramList::default(),
        }
    }

    /// Adds the n-grams of ASCII text.
    fn add_ascii(&mut self, bytes: &[u8]) {
        let set = &mut self.ascii_sensitive;
        set.make_room(bytes.len());
        let mut rolling = 0u32;
        let mut from = 0;
        let mut held = 0;
        // The carriage return before a line feed is skipped (FR-LSI-TOK-03).
        for at in memchr::memmem::find_iter(bytes, b"\r\n").chain([bytes.len()]) {
            let mut run = &bytes[from..at];
            while held < NGRAM_CHARS - 1
                && let [first, rest @ ..] = run
            {
                rolling = rolling << 7 | u32::from(*first);
                held += 1;
                run = rest;
            }
            for &byte in run {
                rolling = rolling << 7 | u32::from(byte);
                set.add(rolling);
            }
            from = at + 1;
        }
    }

    /// Adds the n-grams of normalized text. Stops and returns false if there are more than `most`
    /// non-ASCII n-grams.
    fn add_text(&mut self, text: &str, most: usize) -> bool {
        let mut window = ['\0'; NGRAM_CHARS];
        let mut held = 0;
        let mut chars = text.chars().peekable();
        self.ascii_sensitive.make_room(text.len());
        let mut limit = WIDE_LIMIT;
        while let Some(c) = chars.next() {
            if c == '\r' && chars.peek() == Some(&'\n') {
                continue;
            }
            window = [window[1], window[2], c];
            held += 1;
            if held < NGRAM_CHARS {
                continue;
            }
            let (a, b, c) = (window[0] as u32, window[1] as u32, window[2] as u32);
            if (a | b | c) < 128 {
                self.ascii_sensitive.add(a << 14 | b << 7 | c);
            } else {
                if self.wide_sensitive.len() == limit {
                    self.wide_sensitive.sort_unstable();
                    self.wide_sensitive.dedup();
                    if self.wide_sensitive.len() > most {
                        return false;
                    }
                    limit = (self.wide_sensitive.len() * 2).max(WIDE_LIMIT);
                }
                self.wide_sensitive.push(Gram::new(window));
            }
        }
        self.wide_sensitive.sort_unstable();
        self.wide_sensitive.dedup();
        self.wide_sensitive.len() <= most
    }

    /// Derives the folded n-grams. Folding maps single characters, so the n-grams of the folded
    /// text are the folds of the n-grams of the text.
    fn fold(&mut self) {
        let set = &mut self.ascii_insensitive;
        set.make_room(self.ascii_sensitive.len + self.wide_sensitive.len());
        for &packed in self.ascii_sensitive.as_slice() {
            set.add(fold_ascii_gram(packed));
        }
        for gram in &self.wide_sensitive {
            let folded = gram.chars().map(|c| self.casefold.fold(c));
            let [a, b, c] = folded.map(u32::from);
            if (a | b | c) < 128 {
                set.add(a << 14 | b << 7 | c);
            } else {
                self.wide_insensitive.push(Gram::new(folded));
            }
        }
        self.wide_insensitive.sort_unstable();
        self.wide_insensitive.dedup();
    }
}

/// Splits a text after line feeds into parts of about equal length. A part has at most about
/// `part_bytes` bytes, unless one line is longer. Each part comes with its start in bytes.
pub fn parts(bytes: &[u8], part_bytes: usize) -> impl Iterator<Item = (u64, &[u8])> {
    let count = bytes.len().div_ceil(part_bytes.max(1)).max(1);
    let length = bytes.len().div_ceil(count);
    let mut rest = Some(bytes);
    let mut start = 0;
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let cut = text
            .get(length..)
            .and_then(|beyond| memchr::memchr(b'\n', beyond))
            .map(|at| length + at + 1)
            .filter(|&cut| cut < text.len());
        let (part, beyond) = text.split_at(cut.unwrap_or(text.len()));
        rest = cut.is_some().then_some(beyond);
        let own = start;
        start += part.len() as u64;
        Some((own, part))
    })
}

/// Returns true if more than half of the characters are replacement characters.
fn mostly_replaced(bytes: &[u8]) -> bool {
    const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();
    let (mut all, mut replaced) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        // An invalid chunk, the longest prefix of a possible character, counts as one character.
        let broken = usize::from(!chunk.invalid().is_empty());
        all += valid.chars().count() + broken;
        replaced += memchr::memmem::find_iter(valid.as_bytes(), REPLACEMENT).count() + broken;
    }
    replaced * 2 > all
}

/// Returns true for a byte-order mark of UTF-16 or UTF-32: the matcher would decode such a file as
/// another text than the tokenizer.
fn has_wide_mark(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [0, 0, 0xFE, 0xFF, ..]
    )
}

#[cfg(test)]
mod tests;
