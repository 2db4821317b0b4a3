//! Compares the tool with real ripgrep: events on a tree of real sources, and eligible files in a
//! tree full of ignore files.
//!
//! The answers must be equal apart from documented differences:
//!
//! - the order, because ripgrep does not sort by the bytes of the whole path;
//! - the match that ripgrep's `-m` with context emits in trailing context;
//! - carriage returns, which ripgrep treats as text.
//!
//! ASCII case folding is spelled out for ripgrep, which itself folds by Unicode rules.

mod events;
pub(crate) mod ignores;
pub(crate) mod rg;
pub(crate) mod sources;

/// A small deterministic random number generator (splitmix64), so that every machine tries the same
/// requests.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns true once in `n` calls on average.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
