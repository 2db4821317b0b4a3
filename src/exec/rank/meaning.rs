//! How alike the meanings of two texts are, by the words in them.
//!
//! This module owns the seam for models ([`Model`]), and the model of this program: the word table,
//! a vector for each of 20,000 words of source code. Words that are used alike have vectors that
//! point alike. For example, `delete` lies near `remove`. The vector of a text is the sum of the
//! vectors of its words. So code can answer a question although it shares few words with it.
//!
//! The table was learned from comments and the code below them. `benches/ranking` has the program
//! that made it, its sources and its limits. The table is part of the program: nothing is
//! downloaded. All sums are taken in a fixed order, so two texts are equally alike on every
//! machine.

// Nothing iterates over the remembered names.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use super::remembered::Remembered;
use crate::index::words::forms::each_form;
use crate::index::words::names::Names;

/// The numbers of a vector.
const DIMENSIONS: usize = 128;

/// What a word counts for in a text that has it once, twice and so on: the logarithm of one more
/// than the count.
const COUNTS: [f32; 8] = [
    std::f32::consts::LN_2,
    1.098_612,
    1.386_294,
    1.609_438,
    1.791_759,
    1.945_91,
    2.079_442,
    2.197_225,
];

/// The version of the rules by which texts are compared. A change of the
/// pieces, the counts or the weights raises it.
pub const MEANING_VERSION: u32 = 1;

/// Names that a comparison remembers, at most.
const MAX_REMEMBERED: usize = 1 << 16;

/// Meanings of pieces of code that are remembered from question to question, at most. Each has half
/// a kilobyte.
const MAX_MEANINGS: usize = 1 << 14;

/// The bytes of the table, as `benches/ranking/train.py` writes them.
static BYTES: &[u8] = include_bytes!("words.bin");

/// The CRC-32 of these bytes.
const CHECKSUM: u32 = 0x3e25_03dc;

/// A model: it turns a text into a vector. Texts with like meanings have vectors that point alike.
/// Equal texts have equal vectors on every machine.
pub trait Model: Sync + std::fmt::Debug {
    /// Returns how many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// Returns a digest that changes whenever vectors may change.
    fn fingerprint(&self) -> &str;

    /// Appends the tokens of a name that the model knows. The tokens of a text are those of its
    /// names, in order.
    fn tokens(&self, name: &[u8], tokens: &mut Vec<u32>);

    /// Returns the vector of a text with these tokens, of any length. Returns `None` for a text
    /// that says nothing. May change the order of the tokens.
    fn vector(&self, tokens: &mut [u32]) -> Option<Vec<f32>>;
}

/// A vector for each word.
#[derive(Debug)]
pub struct WordTable {
    /// The keys of the words, ascending.
    keys: Vec<u32>,
    /// For each word, the factor of its numbers.
    scales: Vec<f32>,
    /// The numbers of each word.
    rows: Vec<[i8; DIMENSIONS]>,
}

impl WordTable {
    /// The SHA-256 of the bytes of the built-in table.
    pub const SHA256: &str = "0ff9b7e3860d4422e25f9dfa71871d23d4e1c7f1d9477d593e1a1ca682527a60";

    /// Returns the table of this program. Returns `None` if its bytes are damaged. The first call
    /// takes some milliseconds.
    pub fn built_in() -> Option<&'static WordTable> {
        static TABLE: LazyLock<Option<WordTable>> = LazyLock::new(|| {
            let is_sound = crc32fast::hash(BYTES) == CHECKSUM;
            WordTable::read(BYTES).filter(|_| is_sound)
        });
        TABLE.as_ref()
    }

    /// Returns the bytes of the built-in table.
    pub fn bytes() -> &'static [u8] {
        BYTES
    }

    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.keys.len()
    }

    /// Reads a table: the number of words, the dimensions, the keys, the factors and the numbers.
    /// All numbers are little-endian. Returns `None` if the bytes are no table.
    fn read(bytes: &[u8]) -> Option<WordTable> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let [a, b, c, d, dimensions @ ..] = *head;
        if usize::try_from(u32::from_le_bytes(dimensions)) != Ok(DIMENSIONS) {
            return None;
        }
        let count = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
        let (keys, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let (scales, rows) = rest.split_at_checked(count.checked_mul(2)?)?;
        let (keys, _) = keys.as_chunks();
        let (scales, _) = scales.as_chunks();
        let (rows, more) = rows.as_chunks::<DIMENSIONS>();
        let scale = |bytes: &[u8; 2]| f32::from(u16::from_le_bytes(*bytes)) / 65_536.0;
        let table = WordTable {
            keys: keys
                .iter()
                .map(|bytes| u32::from_le_bytes(*bytes))
                .collect(),
            scales: scales.iter().map(scale).collect(),
            rows: rows.iter().map(|row| row.map(u8::cast_signed)).collect(),
        };
        let is_table = rows.len() == count && more.is_empty() && table.keys.is_sorted();
        is_table.then_some(table)
    }
}

impl Model for WordTable {
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn fingerprint(&self) -> &str {
        WordTable::SHA256
    }

    /// Appends the places of the words of a name.
    fn tokens(&self, name: &[u8], words: &mut Vec<u32>) {
        each_form(name, |form| {
            if form.kind.is_part()
                && let Ok(word) = self.keys.binary_search(&form.key)
            {
                words.extend(u32::try_from(word));
            }
        });
    }

    /// Returns the sum of the vectors of words. Sorts the words.
    fn vector(&self, words: &mut [u32]) -> Option<Vec<f32>> {
        words.sort_unstable();
        let mut sum = [0.0f32; DIMENSIONS];
        for same in words.chunk_by(|a, b| a == b) {
            let word = usize::try_from(same[0]).ok()?;
            let weight = COUNTS[same.len().min(COUNTS.len()) - 1] * self.scales[word];
            for (sum, number) in sum.iter_mut().zip(&self.rows[word]) {
                *sum += weight * f32::from(*number);
            }
        }
        Some(sum.to_vec())
    }
}

/// The meaning of a text: a vector of length 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Meaning(Vec<f32>);

impl Meaning {
    /// Returns the meaning of a question. Returns `None` if the model knows none of its words.
    pub fn of(model: &dyn Model, question: &str) -> Option<Meaning> {
        let mut tokens = Vec::new();
        for name in Names::of(question.as_bytes()) {
            model.tokens(&question.as_bytes()[name], &mut tokens);
        }
        Meaning::of_tokens(model, &mut tokens)
    }

    fn of_tokens(model: &dyn Model, tokens: &mut [u32]) -> Option<Meaning> {
        let mut numbers = model.vector(tokens)?;
        let squares = numbers.iter().map(|number| number * number);
        let length = squares.sum::<f32>().sqrt();
        numbers.iter_mut().for_each(|number| *number /= length);
        (length > 0.0).then_some(Meaning(numbers))
    }

    /// Returns how alike two meanings are: 1 for the same, 0 for texts that have nothing to do with
    /// each other.
    fn likeness(&self, other: &Meaning) -> f64 {
        let products = self.0.iter().zip(&other.0).map(|(a, b)| a * b);
        f64::from(products.sum::<f32>()).clamp(0.0, 1.0)
    }
}

/// Compares texts with a question, and remembers the tokens of names that it has seen.
#[derive(Debug)]
pub struct Comparison<'q> {
    model: &'q dyn Model,
    question: &'q Meaning,
    /// The tokens of each name: a range of `tokens`.
    #[allow(clippy::disallowed_types)]
    known: HashMap<Box<[u8]>, Range<usize>>,
    tokens: Vec<u32>,
}

impl<'q> Comparison<'q> {
    /// Starts a comparison with a question, whose meaning is by the same model.
    #[allow(clippy::disallowed_types)]
    pub fn with(model: &'q dyn Model, question: &'q Meaning) -> Comparison<'q> {
        Comparison {
            model,
            question,
            known: HashMap::new(),
            tokens: Vec::new(),
        }
    }

    /// Returns how alike the question and a text of these parts are, from 0 to 1. Takes time linear
    /// in the text.
    pub fn likeness(&mut self, parts: &[&[u8]]) -> f64 {
        static MEANINGS: Remembered<Option<Arc<Meaning>>> = Remembered::of(MAX_MEANINGS);
        let text = [&[self.model.fingerprint().as_bytes()], parts].concat();
        let meaning = MEANINGS.get(&text, || self.meaning_of(parts).map(Arc::new));
        meaning.map_or(0.0, |meaning| self.question.likeness(&meaning))
    }

    fn meaning_of(&mut self, parts: &[&[u8]]) -> Option<Meaning> {
        let mut found = Vec::new();
        for part in parts {
            for name in Names::of(part) {
                let tokens = self.tokens_of(&part[name]);
                found.extend_from_slice(&self.tokens[tokens]);
            }
        }
        Meaning::of_tokens(self.model, &mut found)
    }

    /// Returns the tokens of a name, as a range of `self.tokens`.
    fn tokens_of(&mut self, name: &[u8]) -> Range<usize> {
        if let Some(tokens) = self.known.get(name) {
            return tokens.clone();
        }
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
            self.tokens.clear();
        }
        let from = self.tokens.len();
        self.model.tokens(name, &mut self.tokens);
        let tokens = from..self.tokens.len();
        self.known.insert(name.into(), tokens.clone());
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(question: &str, text: &str) -> f64 {
        let table = WordTable::built_in().unwrap();
        let question = Meaning::of(table, question).unwrap();
        Comparison::with(table, &question).likeness(&[text.as_bytes()])
    }

    /// A model that knows the first letters of names, and nothing else.
    #[derive(Debug)]
    struct FirstLetters;

    impl Model for FirstLetters {
        fn dimensions(&self) -> usize {
            26
        }

        fn fingerprint(&self) -> &str {
            "first letters"
        }

        fn tokens(&self, name: &[u8], tokens: &mut Vec<u32>) {
            let letter = name.first().filter(|byte| byte.is_ascii_lowercase());
            tokens.extend(letter.map(|byte| u32::from(byte - b'a')));
        }

        fn vector(&self, tokens: &mut [u32]) -> Option<Vec<f32>> {
            let mut counts = vec![0.0; self.dimensions()];
            tokens
                .iter()
                .for_each(|token| counts[*token as usize] += 1.0);
            (!tokens.is_empty()).then_some(counts)
        }
    }

    #[test]
    fn another_model_compares_texts_by_its_own_rules() {
        let question = Meaning::of(&FirstLetters, "open socket").unwrap();
        let mut comparison = Comparison::with(&FirstLetters, &question);
        assert!((comparison.likeness(&[b"other", b"sea"]) - 1.0).abs() < 1e-6);
        assert!((comparison.likeness(&[b"one"]) - 0.5f64.sqrt()).abs() < 1e-6);
        assert_eq!(comparison.likeness(&[b"delete", b"OPEN"]), 0.0);
        assert_eq!(Meaning::of(&FirstLetters, "1 2"), None);
    }

    #[test]
    fn words_that_are_used_alike_are_alike() {
        for (word, near, far) in [
            ("delete", "remove", "parse"),
            ("retry", "backoff", "color"),
            ("authentication", "login", "matrix"),
            ("directory", "folder", "socket"),
        ] {
            let (near, far) = (likeness(word, near), likeness(word, far));
            assert!(near > far + 0.1, "{word}: {near} {far}");
        }
    }

    #[test]
    fn code_answers_a_question_that_shares_no_word_with_it() {
        let right = "fn unlink(path: &Path) -> io::Result<()> { fs::remove_file(path) }";
        let wrong = "fn parse(text: &str) -> Result<Expr> { Parser::new(text).expr() }";
        let question = "delete something from disk";
        assert!(likeness(question, right) > likeness(question, wrong));
    }

    #[test]
    fn a_text_is_as_like_itself_as_can_be_and_unknown_words_are_like_nothing() {
        let text = "open the socket and read the header";
        assert!(likeness(text, text) > 0.999);
        assert_eq!(likeness(text, "zqxjkv 12345 qqqqzz"), 0.0);
        let table = WordTable::built_in().unwrap();
        assert_eq!(Meaning::of(table, "zqxjkv 12345"), None);
    }

    #[test]
    fn a_comparison_that_forgot_names_finds_the_same() {
        let table = WordTable::built_in().unwrap();
        let question = Meaning::of(table, "read the header of a socket").unwrap();
        let mut comparison = Comparison::with(table, &question);
        let text = b"read_header(socket)";
        let before = comparison.meaning_of(&[text]);
        assert!(before.is_some());
        let many: Vec<String> = (0..MAX_REMEMBERED).map(|n| format!("name{n}")).collect();
        comparison.meaning_of(&[many.join(" ").as_bytes()]);
        assert_eq!(comparison.meaning_of(&[text]), before);
    }

    #[test]
    fn damaged_bytes_are_no_table() {
        assert!(WordTable::read(&BYTES[..BYTES.len() - 1]).is_none());
        assert!(WordTable::read(&BYTES[..7]).is_none());
        let mut other = BYTES.to_vec();
        other[4] ^= 1;
        assert!(WordTable::read(&other).is_none(), "other dimensions");
        let mut other = BYTES.to_vec();
        other[11] ^= 0x80;
        assert!(WordTable::read(&other).is_none(), "keys out of order");
        assert!(WordTable::read(BYTES).is_some_and(|table| table.words() == 20_000));
    }
}
