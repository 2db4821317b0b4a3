//! Sets of the files of one block, one bit per file: for example, the files that may match one
//! requirement of a plan.

/// The largest number of files in a block.
pub const BLOCK_FILES: usize = 512;

/// A set of files of one block: bit `n % 64` of word `n / 64` stands for file `n`.
///
/// Has the size and alignment of a cache line, like a row of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Mask(pub [u64; BLOCK_FILES / 64]);

impl Mask {
    /// The empty set.
    pub const EMPTY: Mask = Mask([0; BLOCK_FILES / 64]);

    /// All files that a block can have.
    pub const FULL: Mask = Mask([u64::MAX; BLOCK_FILES / 64]);

    /// Returns the set of the first `files` files, or of all files if a block has fewer.
    pub fn first(files: usize) -> Mask {
        Mask(std::array::from_fn(|word| {
            match files.saturating_sub(word * 64) {
                0 => 0,
                bits @ 1..64 => (1 << bits) - 1,
                _ => u64::MAX,
            }
        }))
    }

    /// Returns the files that are in both sets.
    #[inline]
    #[must_use]
    pub fn and(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }

    /// Returns the files that are in either set.
    #[inline]
    #[must_use]
    pub fn or(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }

    /// Returns the files of this set that are not in the other.
    #[inline]
    #[must_use]
    pub fn without(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|n| self.0[n] & !other.0[n]))
    }

    /// Returns true if the set is empty.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Returns the number of files in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns true if file `n` is in the set. Numbers beyond the block are in no set.
    pub fn contains(&self, n: usize) -> bool {
        self.0
            .get(n / 64)
            .is_some_and(|word| word >> (n % 64) & 1 == 1)
    }

    /// Adds file `n`. Ignores numbers beyond the block.
    pub fn insert(&mut self, n: usize) {
        if let Some(word) = self.0.get_mut(n / 64) {
            *word |= 1 << (n % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_files_are_those_with_lower_numbers() {
        for files in [0, 1, 63, 64, 65, 511, 512, 513, usize::MAX] {
            let mask = Mask::first(files);
            assert_eq!(mask.count() as usize, files.min(BLOCK_FILES));
            for n in [0, 1, 62, 63, 64, 65, 510, 511, 512] {
                assert_eq!(
                    mask.contains(n),
                    n < files && n < BLOCK_FILES,
                    "{n} of {files}"
                );
            }
        }
    }

    #[test]
    fn sets_combine_file_by_file() {
        let of = |files: &[usize]| {
            let mut mask = Mask::EMPTY;
            files.iter().for_each(|&n| mask.insert(n));
            mask
        };
        let (a, b) = (of(&[0, 64, 511]), of(&[64, 100, 511, 512]));
        assert_eq!(a.and(&b), of(&[64, 511]));
        assert_eq!(a.or(&b), of(&[0, 64, 100, 511]));
        assert_eq!(a.without(&b), of(&[0]));
        assert!(a.without(&a).is_zero() && !a.is_zero());
        assert_eq!(Mask::FULL, Mask::first(512));
    }
}
