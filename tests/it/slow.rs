//! Searches that take longer than any test waits.

use std::fs;
use std::path::Path;

/// An expression that takes a minute for 10 MB of [`slow_text`]. It has too many states to remember,
/// and nothing that could be looked for instead.
pub(crate) const SLOW: &str = "(?:[ab]{150}a){4}[cd]";

/// A line of letters without a pattern, in which [`SLOW`] does not match. After a mebibyte it begins anew:
/// that is many times as many states as are remembered.
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

/// Makes a directory of files in which [`SLOW`] is looked for in vain: for half an hour.
pub(crate) fn slow_files(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("0.txt"), slow_text(10_000_000)).unwrap();
    for n in 1..40 {
        fs::hard_link(dir.join("0.txt"), dir.join(format!("{n}.txt"))).unwrap();
    }
}
