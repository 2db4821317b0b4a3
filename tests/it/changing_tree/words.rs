//! The vocabulary of changing trees: names, texts and ignore rules.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::differential::Seeded;

/// Words by their frequency in texts. The last word of [`RARE`] is never written.
pub(crate) const FREQUENT: &[&str] = &["alpha", "beta", "gamma", "the", "fn", "Alpha", "x_y"];
pub(crate) const SELDOM: &[&str] = &[
    "delta",
    "Epsilon",
    "naïve",
    "nai\u{308}ve",
    "\u{212A}elvin",
    "kelvin",
    "日本語",
    "foo-bar",
];
pub(crate) const RARE: &[&str] = &["zygote", "quartz", "Zephyr", "wombat"];

/// The start of a token. Each token is a word that is written once.
const TOKEN: &str = "uq";

/// The length of a token.
const TOKEN_LEN: usize = 12;

/// Returns the token with a number.
pub(crate) fn token(number: u64) -> String {
    // The letters are spread, so that tokens have few n-grams in common.
    let mut rest = Seeded::new(number).next();
    let mut token = TOKEN.to_string();
    while token.len() < TOKEN_LEN {
        token.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    token
}

/// Finds the last token in a text. Returns its offset and the token.
pub(crate) fn last_token(text: &[u8]) -> Option<(usize, String)> {
    let mut found = text.windows(TOKEN_LEN).enumerate().filter(|(_, window)| {
        window.starts_with(TOKEN.as_bytes()) && window.iter().all(u8::is_ascii_lowercase)
    });
    let (at, token) = found.next_back()?;
    Some((at, String::from_utf8_lossy(token).into_owned()))
}

/// Names that a tool can get wrong, as bytes.
const HOSTILE: &[&[u8]] = &[
    b"line\nbreak",
    b"cr\rhere",
    b" leading",
    b"trailing ",
    b"-dash",
    b"--",
    b"dots...",
    "\u{e9}".as_bytes(),
    "e\u{301}".as_bytes(),
    b"\xFFbad",
    b"bad\xFE",
    "\u{FFFD}".as_bytes(),
    "日本".as_bytes(),
    b"a*b",
    b"[x]",
    b"!bang",
    b"#hash",
    b"q?m",
    b"back\\slash",
    b"tab\there",
    b"a:b",
    b"{x,y}",
    b"$HOME",
    b"~",
];

const PLAIN: &[&str] = &[
    "a", "a-b", "a.b", "a0", "b", "main.rs", "lib.rs", "x.d", "data.txt", "log", "build", "z",
];

/// Draws a name. Names repeat often.
pub(crate) fn name(rng: &mut Seeded) -> OsString {
    match rng.below(20) {
        0..=9 => rng.pick(PLAIN).into(),
        10..=13 => format!("{}{}", rng.pick(PLAIN), rng.below(10)).into(),
        // A hidden directory hides everything below it, so hidden names are rare.
        14 if rng.one_in(4) => rng.pick(&[".h0", ".h1", ".h2", ".h2.", "..."]).into(),
        15 if rng.one_in(3) => format!("{}{}", "n".repeat(254), rng.below(3)).into(),
        _ => OsString::from_vec(rng.pick(HOSTILE).to_vec()),
    }
}

const RULES: &[&str] = &[
    "a*",
    "*.rs",
    "build/",
    "/x.d",
    "!main.rs",
    "**/log",
    "z?",
    ".h*",
    "!.h1",
    "é",
    "#c",
    "",
    "b/a",
    "[ad]*",
    "data.txt  ",
    "!a0",
    "\\!bang",
];

/// Draws the content of an ignore file.
pub(crate) fn rules(rng: &mut Seeded) -> Vec<u8> {
    let mut text = String::new();
    if rng.one_in(25) {
        text.push_str("*\n");
    }
    for _ in 0..rng.below(4) {
        text.push_str(rng.pick(RULES));
        text.push_str(if rng.one_in(8) { "\r\n" } else { "\n" });
    }
    text.into_bytes()
}

fn word(rng: &mut Seeded) -> &'static str {
    match rng.below(100) {
        0..=85 => rng.pick(FREQUENT),
        86..=98 => rng.pick(SELDOM),
        _ => RARE[rng.below(RARE.len() - 1)],
    }
}

/// Draws a line without its end. The line contains the word `holds`, if there is one.
pub(crate) fn line(rng: &mut Seeded, holds: Option<&str>) -> String {
    let mut words: Vec<&str> = (0..rng.below(9)).map(|_| word(rng)).collect();
    if let Some(holds) = holds {
        words.insert(rng.below(words.len() + 1), holds);
    }
    words.join(" ")
}

/// Draws a content. Unless it is empty, it contains the token.
pub(crate) fn content(rng: &mut Seeded, token: &str) -> Vec<u8> {
    let lines = match rng.below(60) {
        0..=3 => return Vec::new(),
        4..=45 => 1 + rng.below(8),
        46..=57 => 10 + rng.below(80),
        58 => 100 + rng.below(700),
        // About 200 KB at most.
        _ => rng.below(8_000),
    };
    let at = rng.below(lines.max(1));
    let end = if rng.one_in(6) { "\r\n" } else { "\n" };
    let mut text = String::new();
    for n in 0..lines {
        text.push_str(&line(rng, (n == at).then_some(token)));
        if n + 1 < lines || !rng.one_in(4) {
            text.push_str(end);
        }
        if text.len() > 200_000 {
            break;
        }
    }
    let mut bytes = text.clone().into_bytes();
    let place = rng.below(bytes.len() + 1);
    match rng.below(24) {
        0 => bytes.insert(place, 0),
        1 => bytes.insert(place, 0xFF),
        2 => bytes.insert(place, 0xC3),
        3 => bytes.insert(place, b'\r'),
        4 => bytes.splice(0..0, *b"\xEF\xBB\xBF").for_each(drop),
        5 => {
            let units = text.encode_utf16().flat_map(u16::to_le_bytes);
            bytes = [0xFF, 0xFE].into_iter().chain(units).collect();
        }
        6 => {
            let units = text.encode_utf16().flat_map(u16::to_be_bytes);
            bytes = [0xFE, 0xFF].into_iter().chain(units).collect();
        }
        _ => {}
    }
    bytes
}
