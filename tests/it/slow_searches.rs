//! Searches that take longer than any test waits.

use std::fs;
use std::path::Path;

/// An expression that takes a minute for 10 MB of [`slow_text`].
///
/// It has more states than a matcher can cache, and no literal that a prefilter could search for.
pub(crate) const SLOW: &str = "(?:[ab]{150}a){4}[cd]";

/// Returns a line of random letters in which [`SLOW`] does not match. It repeats after a mebibyte,
/// which is long enough for many more states than are cached.
pub(crate) fn slow_text(len: usize) -> String {
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 63 == 0
    };
    let block: String = (1..=len.min(1 << 20))
        .map(|n| match (n % 500, next()) {
            (0, _) => 'c',
            (_, true) => 'a',
            (_, false) => 'b',
        })
        .collect();
    let mut text = block.repeat(len.div_ceil(block.len().max(1)));
    text.truncate(len);
    text
}

/// Makes a directory of files in which the search for [`SLOW`] takes half an hour and finds
/// nothing.
pub(crate) fn slow_files(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("0.txt"), slow_text(10_000_000)).unwrap();
    for n in 1..40 {
        fs::hard_link(dir.join("0.txt"), dir.join(format!("{n}.txt"))).unwrap();
    }
}
