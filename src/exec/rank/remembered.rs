//! Results of functions of a text, remembered from question to question.
//!
//! Questions about a tree read the same files again and again. A result is found by the hash of its
//! text, so a changed text has another result, and a remembered result only saves time.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex};

use xxhash_rust::xxh3::Xxh3;

use crate::format::mutex::lock;

/// The results of one function.
#[derive(Debug)]
pub(super) struct Remembered<V> {
    /// The results that are kept, at most. Then all are forgotten.
    most: usize,
    results: Mutex<BTreeMap<u128, V>>,
}

impl<V: Clone> Remembered<V> {
    /// Creates an empty memory for at most `most` results.
    pub(super) const fn of(most: usize) -> Remembered<V> {
        Remembered {
            most,
            results: Mutex::new(BTreeMap::new()),
        }
    }

    /// Returns the result for these parts of a text. Calls `make` if it is not remembered; the
    /// result must depend on nothing but the parts.
    pub(super) fn get(&self, parts: &[&[u8]], make: impl FnOnce() -> V) -> V {
        let key = key(parts);
        if let Some(result) = lock(&self.results).get(&key) {
            return result.clone();
        }
        let result = make();
        let mut results = lock(&self.results);
        if results.len() >= self.most {
            results.clear();
        }
        results.insert(key, result.clone());
        result
    }
}

/// Returns a hash of the parts with a random seed, so that nobody can make two texts with the same
/// hash.
fn key(parts: &[&[u8]]) -> u128 {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    let mut hash = Xxh3::with_seed(*SEED);
    for part in parts {
        hash.update(&part.len().to_le_bytes());
        hash.update(part);
    }
    hash.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_made_once_until_there_are_too_many() {
        let memory = Remembered::of(2);
        let mut made = Vec::new();
        for part in ["a", "b", "a", "c", "a"] {
            let result = memory.get(&[part.as_bytes()], || {
                made.push(part);
                part.len()
            });
            assert_eq!(result, 1);
        }
        assert_eq!(made, ["a", "b", "c", "a"]);
    }

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_ne!(key(&[b"a"]), key(&[b"a", b""]));
        assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
    }
}
