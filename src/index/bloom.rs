//! The logical Bloom filter: its size, bits and layout, as the specification of the index defines
//! them (LSI in `docs/conformance.md`).
//!
//! This module owns the prescribed filter of one file. An index stores a folded encoding of it (see
//! [`block`](crate::index::block)), which reports an n-gram as absent only where this filter does.

use bitvec::order::Lsb0;
use bitvec::vec::BitVec;

use crate::index::gram::{GramHash, NGRAM_CHARS, SECOND_SEED};

pub use crate::format::manifest::BloomParams;

impl BloomParams {
    /// Computes the parameters from configuration.
    ///
    /// `max_tokenized_bytes` is at least 2, and `target_fp_rate` lies between 0 and 1, both
    /// exclusive. The validation of the configuration checks both.
    pub fn from_config(max_tokenized_bytes: u64, target_fp_rate: f64) -> BloomParams {
        let basis_ngrams = (max_tokenized_bytes / 2).max(1);
        let n = basis_ngrams as f64;
        let ln2 = std::f64::consts::LN_2;
        let bits = ((-n * target_fp_rate.ln()) / (ln2 * ln2)).ceil().max(1.0) as u64;
        let raw = (bits as f64 / n) * ln2;
        let hashes = ((raw + 0.5).floor() as u32).max(1);
        BloomParams {
            ngram_chars: NGRAM_CHARS as u32,
            basis_ngrams,
            target_fp_rate_bits: target_fp_rate.to_bits(),
            bits,
            hashes,
            seed: SECOND_SEED,
        }
    }

    /// Returns the positions of the bits that an n-gram sets, in the order of the hash functions.
    pub fn positions(&self, hash: GramHash) -> impl Iterator<Item = u64> + use<> {
        let bits = self.bits;
        (0..self.hashes).map(move |i| hash.bit(i, bits))
    }
}

/// The filter of one file and variant.
///
/// # Examples
///
/// ```
/// use forge_search::internal::index::bloom::{BloomFilter, BloomParams};
/// use forge_search::internal::index::gram::GramHash;
///
/// let params = BloomParams::from_config(1 << 20, 0.01);
/// let mut filter = BloomFilter::new(params);
/// filter.insert(GramHash::of(b"abc"));
/// assert!(filter.contains(GramHash::of(b"abc")));
/// assert!(!filter.contains(GramHash::of(b"xyz")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BloomFilter {
    params: BloomParams,
    bits: BitVec<u8, Lsb0>,
}

impl BloomFilter {
    /// Creates an empty filter.
    pub fn new(params: BloomParams) -> BloomFilter {
        let mut bits = BitVec::repeat(false, usize::try_from(params.bits).unwrap_or(usize::MAX));
        // Unused bits of the last byte are zero (FR-LSI-BLOOM-03).
        bits.set_uninitialized(false);
        BloomFilter { params, bits }
    }

    /// Adds an n-gram.
    pub fn insert(&mut self, hash: GramHash) {
        for position in self.params.positions(hash) {
            self.bits.set(position as usize, true);
        }
    }

    /// Returns false only if the n-gram was never added.
    pub fn contains(&self, hash: GramHash) -> bool {
        self.params
            .positions(hash)
            .all(|position| self.bits[position as usize])
    }

    /// Returns the parameters of the filter.
    pub fn params(&self) -> &BloomParams {
        &self.params
    }

    /// Returns the packed bits: bit `b` is in byte `b / 8`, counted from the least significant bit.
    pub fn as_bytes(&self) -> &[u8] {
        self.bits.as_raw_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_follow_from_the_formula() {
        let params = BloomParams::from_config(1_048_576, 0.01);
        // The specification's worked example says 5,021,884, but its formula gives another number.
        assert_eq!(
            (params.basis_ngrams, params.bits, params.hashes),
            (524_288, 5_025_332, 7)
        );
    }

    #[test]
    fn tiny_and_odd_parameters_stay_usable() {
        for (bytes, rate) in [(2, 0.01), (2, 0.999_999), (3, 0.5), (1 << 30, 1e-9)] {
            let params = BloomParams::from_config(bytes, rate);
            assert!(params.bits >= 1 && params.hashes >= 1, "{params:?}");
        }
    }

    #[test]
    fn filter_bits_lie_where_the_layout_says() {
        let params = BloomParams {
            bits: 83,
            hashes: 3,
            ..BloomParams::from_config(1024, 0.01)
        };
        let mut filter = BloomFilter::new(params);
        let hash = GramHash::of("añb".as_bytes());
        filter.insert(hash);
        let mut expected = vec![0u8; 83usize.div_ceil(8)];
        for i in 0..3u64 {
            let bit = hash.first.wrapping_add(i.wrapping_mul(hash.second)) % 83;
            expected[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        assert_eq!(filter.as_bytes(), expected);
        // Bits beyond the last are zero.
        assert_eq!(filter.as_bytes()[10] >> (83 - 80), 0);
    }
}
