//! N-grams: three consecutive characters of a text, and their hashes.
//!
//! This module owns the packed form of n-grams, and the double hashing that the specification of
//! the index prescribes. It does not tokenize texts.

use xxhash_rust::xxh64::xxh64;

/// The number of characters in an n-gram (`bloom_ngram_k`).
pub const NGRAM_CHARS: usize = 3;

/// The seed of the first hash.
pub const FIRST_SEED: u64 = 0;

/// The seed of the second hash (`bloom_hash_seed`).
pub const SECOND_SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The bits per character in the packed form, enough for every Unicode scalar value.
const CHAR_BITS: u32 = 21;
const CHAR_MASK: u64 = (1 << CHAR_BITS) - 1;

/// Three characters, packed so that numeric order equals the order of the texts by code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gram(u64);

impl Gram {
    /// Packs three characters.
    pub fn new(chars: [char; NGRAM_CHARS]) -> Gram {
        let [a, b, c] = chars;
        Gram(u64::from(a) << (2 * CHAR_BITS) | u64::from(b) << CHAR_BITS | u64::from(c))
    }

    /// Unpacks an n-gram of three ASCII characters from its 21-bit form, with seven bits per
    /// character.
    pub fn from_ascii(packed: u32) -> Gram {
        let byte = |shift: u32| u64::from(packed >> shift & 0x7F);
        Gram(byte(14) << (2 * CHAR_BITS) | byte(7) << CHAR_BITS | byte(0))
    }

    /// Returns the n-grams of a text, in order and with repetitions.
    pub fn all_in(text: &[char]) -> impl Iterator<Item = Gram> {
        text.windows(NGRAM_CHARS)
            .filter_map(|window| window.try_into().ok().map(Gram::new))
    }

    /// Returns the 21-bit form of an n-gram of three ASCII characters; `None` for any other n-gram.
    pub fn to_ascii(self) -> Option<u32> {
        let (a, b, c) = (self.scalar(2), self.scalar(1), self.scalar(0));
        ((a | b | c) < 128).then_some(a << 14 | b << 7 | c)
    }

    /// Returns a character as a number; `from_end` 0 is the last character.
    fn scalar(self, from_end: u32) -> u32 {
        (self.0 >> (from_end * CHAR_BITS) & CHAR_MASK) as u32
    }

    /// Returns the three characters.
    pub fn chars(self) -> [char; NGRAM_CHARS] {
        // Every n-gram is made from valid characters, so the replacement is never used.
        let char = |scalar| char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER);
        [
            char(self.scalar(2)),
            char(self.scalar(1)),
            char(self.scalar(0)),
        ]
    }

    /// Returns the two hashes of the n-gram's UTF-8 bytes.
    pub fn hashes(self) -> GramHash {
        if let Some(packed) = self.to_ascii() {
            let byte = |shift: u32| (packed >> shift & 0x7F) as u8;
            return GramHash::of(&[byte(14), byte(7), byte(0)]);
        }
        let mut buffer = [0u8; 4 * NGRAM_CHARS];
        let mut len = 0;
        for c in self.chars() {
            len += c.encode_utf8(&mut buffer[len..]).len();
        }
        GramHash::of(&buffer[..len])
    }
}

/// The two hashes that determine the bits of an n-gram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GramHash {
    /// xxHash64 with [`FIRST_SEED`].
    pub first: u64,
    /// xxHash64 with [`SECOND_SEED`].
    pub second: u64,
}

impl GramHash {
    /// Hashes the UTF-8 bytes of an n-gram.
    pub fn of(bytes: &[u8]) -> GramHash {
        GramHash {
            first: xxh64(bytes, FIRST_SEED),
            second: xxh64(bytes, SECOND_SEED),
        }
    }

    /// Returns the position of the `i`th bit in a filter of `bits` bits. The position is
    /// `(first + i * second) mod bits`, where the sum is taken modulo 2^64.
    pub fn bit(self, i: u32, bits: u64) -> u64 {
        self.first
            .wrapping_add(u64::from(i).wrapping_mul(self.second))
            % bits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packed_grams_sort_like_their_texts() {
        let gram = |text: &str| {
            let chars: Vec<char> = text.chars().collect();
            Gram::new([chars[0], chars[1], chars[2]])
        };
        let mut grams = [
            gram("abd"),
            gram("\u{10FFFF}ab"),
            gram("abc"),
            gram("éab"),
            gram("\n\0a"),
        ];
        grams.sort_unstable();
        let texts: Vec<String> = grams
            .iter()
            .map(|gram| gram.chars().iter().collect())
            .collect();
        assert_eq!(texts, ["\n\0a", "abc", "abd", "éab", "\u{10FFFF}ab"]);
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(a: char, b: char, c: char) {
            prop_assert_eq!(Gram::new([a, b, c]).chars(), [a, b, c]);
        }

        #[test]
        fn the_ascii_form_is_the_same_gram(a in 0u8..128, b in 0u8..128, c in 0u8..128) {
            let packed = u32::from(a) << 14 | u32::from(b) << 7 | u32::from(c);
            let expected = Gram::new([a, b, c].map(char::from));
            prop_assert_eq!(Gram::from_ascii(packed), expected);
            prop_assert_eq!(expected.to_ascii(), Some(packed));
            prop_assert_eq!(expected.hashes(), GramHash::of(&[a, b, c]));
        }
    }
}
