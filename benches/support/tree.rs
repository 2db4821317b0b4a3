//! The generated tree that benches search. It is the same on every machine, and created once below
//! the temporary directory.

use std::fs;
use std::path::{Path, PathBuf};

const FILES: usize = 20_000;

/// The version of the tree. Increase it when the output of [`plant`] changes.
const VERSION: u32 = 1;

/// A pattern that exactly three files contain, in one line each.
pub(crate) const RARE: &str = "zyxomma_quay";

pub(crate) const WORDS: &[&str] = &[
    "let", "fn", "value", "index", "return", "if", "else", "match", "self", "error", "buffer",
    "len", "state", "path", "read", "write", "Some", "None", "Result", "config", "token", "offset",
    "next", "push", "iter", "=", "(", ")", "{", "}", "->", "=>", ";", "&", "//", "0x1f", "42",
];

/// Pseudo-random numbers, the same on every machine (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Returns a file of source-like lines. Its length is between a few hundred bytes and 40 KiB; the
/// median is about 4 KiB.
fn content(n: usize, numbers: &mut Numbers) -> String {
    let lines = 10 << numbers.below(7);
    let lines = lines + numbers.below(lines);
    let mut text = String::new();
    for line in 0..lines {
        for _ in 0..numbers.below(4) {
            text.push_str("    ");
        }
        for _ in 0..2 + numbers.below(9) {
            text.push_str(WORDS[numbers.below(WORDS.len())]);
            text.push(' ');
        }
        if line == lines / 2 && n % (FILES / 3) == 17 {
            text.push_str(RARE);
        }
        text.push('\n');
    }
    text
}

fn plant(root: &Path) {
    let mut numbers = Numbers(20_000);
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::write(root.join(".gitignore"), "*.o\n/target/\n").unwrap();
    for n in 0..FILES {
        let dir = root.join(format!("crate{:02}/src/m{:02}", n % 40, n / 40 % 25));
        if n < 1_000 {
            fs::create_dir_all(&dir).unwrap();
        }
        let kind = ["rs", "rs", "rs", "toml", "md"][n % 5];
        fs::write(
            dir.join(format!("f{n:05}.{kind}")),
            content(n, &mut numbers),
        )
        .unwrap();
    }
}

/// Returns the tree. Creates it if this machine does not have it yet.
pub(crate) fn generated() -> PathBuf {
    let top = std::env::temp_dir();
    let place = top.join(format!("forge-search-bench-tree-{VERSION}"));
    if !place.is_dir() {
        let draft = top.join(format!("forge-search-bench-draft-{}", std::process::id()));
        plant(&draft);
        fs::rename(&draft, &place).unwrap();
    }
    place.canonicalize().unwrap()
}
