//! Names in a text, such as identifiers, and the parts of a name.
//!
//! A name is a run of letters, digits, `_` and `$`, such as `parseConfig2`. Its parts are `parse`,
//! `Config` and `2`. Names follow the word boundaries of Unicode (UAX #29), with one exception:
//! ASCII punctuation always ends a name, because `a.b` are two names in source code. Scripts that
//! write no spaces between words have overlapping pairs of characters as parts: `重试延迟` has `重试`,
//! `试延` and `延迟`.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// The number of bytes after which a name ends, even if letters follow. So the work for one name is
/// bounded.
const MAX_NAME_BYTES: usize = 4096;

/// The bytes of a block, at least.
const BLOCK_BYTES: usize = 96;

/// The names of a text, from left to right. Takes time linear in the bytes.
#[derive(Clone, Debug)]
pub struct Names<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Names<'t> {
    /// Starts at the beginning of a text. Bytes that are not UTF-8 end a name.
    pub fn of(text: &'t [u8]) -> Names<'t> {
        Names { text, at: 0 }
    }
}

impl Iterator for Names<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        let mut at = self.at;
        let start = loop {
            match CLASSES[usize::from(*self.text.get(at)?)] {
                Class::Name => break at,
                Class::Other => at += 1,
                Class::Extender => match class_at(self.text, at) {
                    (Class::Name, _) => break at,
                    (_, len) => at += len,
                },
            }
        };
        while let Some(byte) = self.text.get(at)
            && at < start + MAX_NAME_BYTES
        {
            at += match CLASSES[usize::from(*byte)] {
                Class::Name => 1,
                Class::Other => break,
                Class::Extender => match class_at(self.text, at) {
                    (Class::Other, _) => break,
                    (_, len) => len,
                },
            };
        }
        self.at = at;
        Some(start..at)
    }
}

/// Splits a text into blocks of about a hundred bytes. No name lies in two of them, so the names of
/// the blocks are those of the text.
pub fn blocks(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end;
        let rest = text.get(start + BLOCK_BYTES..).unwrap_or_default();
        let is_between = |byte: &u8| CLASSES[usize::from(*byte)] == Class::Other;
        let more = rest.iter().position(is_between);
        end = more.map_or(text.len(), |more| start + BLOCK_BYTES + more);
        (start < end).then_some(start..end)
    })
}

/// Classes of characters, as far as the borders of names are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A letter, a digit, `_` or `$`.
    Name,
    /// A character that continues a name, such as a combining accent.
    Extender,
    Other,
}

/// The class of each ASCII character. Bytes of other characters have the class `Extender`, and need
/// a closer look.
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' {
            classes[at] = Class::Name;
        } else if !byte.is_ascii() {
            classes[at] = Class::Extender;
        }
        at += 1;
    }
    classes
};

/// Returns the class of a character that is not ASCII, and its length in bytes.
fn class_at(text: &[u8], at: usize) -> (Class, usize) {
    let (char, len) = bstr::decode_utf8(&text[at..]);
    let class = match char {
        Some(char) if char.is_alphanumeric() => Class::Name,
        Some(char) if is_combining_mark(char) || is_ignored(char) => Class::Extender,
        _ => Class::Other,
    };
    (class, len.max(1))
}

/// Returns true for characters inside of words that do not change them: the soft hyphen and the
/// zero-width joiners.
fn is_ignored(char: char) -> bool {
    matches!(char, '\u{AD}' | '\u{200C}' | '\u{200D}')
}

/// Returns a name in its compatibility form (NFKC), without ignored characters. For example,
/// full-width letters become ordinary ones, and a letter with a combining accent becomes one
/// character.
pub fn normal(name: &[u8]) -> Cow<'_, [u8]> {
    if name.is_ascii() {
        return Cow::Borrowed(name);
    }
    let Ok(text) = std::str::from_utf8(name) else {
        return Cow::Borrowed(name);
    };
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes && !text.contains(is_ignored) {
        return Cow::Borrowed(name);
    }
    let kept = text.chars().filter(|char| !is_ignored(*char));
    Cow::Owned(kept.nfkc().collect::<String>().into_bytes())
}

/// Kinds of characters, as far as the parts of a name are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    /// A letter of a script that writes no spaces between words.
    Dense,
    /// `_`, `$`, and any character that is no letter or digit.
    Joint,
}

fn kind_of(char: char) -> Kind {
    match char {
        '_' | '$' => Kind::Joint,
        _ if is_dense(char) => Kind::Dense,
        _ if char.is_numeric() => Kind::Digit,
        _ if char.is_uppercase() => Kind::Upper,
        _ if char.is_alphabetic() || is_combining_mark(char) => Kind::Lower,
        _ => Kind::Joint,
    }
}

/// Returns true for characters of Han, kana, Hangul, Thai, Lao, Khmer and Burmese.
fn is_dense(char: char) -> bool {
    matches!(char,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3130}'..='\u{318F}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// Calls `part` with the range of each part of a name in [normal form](normal), from left to right.
///
/// A part is a capital followed by small letters (`Config`), capitals (`HTTP` in `HTTPServer`),
/// small letters, digits, or a pair of characters of a script without spaces.
pub fn each_part(name: &[u8], mut part: impl FnMut(Range<usize>)) {
    let mut at = 0;
    while at < name.len() {
        let (kind, len) = kind_at(name, at);
        let end = end_of(name, at + len, kind);
        match kind {
            Kind::Joint => {}
            Kind::Dense => pairs(name, at..end, &mut part),
            Kind::Upper => {
                let (last, follows_lower) = (last_char(name, at, end), is_lower(name, end));
                if follows_lower && last > at {
                    // `HTTPServer`: the last capital begins the next part.
                    part(at..last);
                    at = last;
                    continue;
                }
                let end = if follows_lower {
                    end_of(name, end, Kind::Lower)
                } else {
                    end
                };
                part(at..end);
                at = end;
                continue;
            }
            Kind::Lower | Kind::Digit => part(at..end),
        }
        at = end;
    }
}

/// Returns the number of parts of a name of ASCII characters. Takes less time than [`each_part`].
pub fn ascii_parts(name: &[u8]) -> u32 {
    let mut parts = 0;
    let mut before = Kind::Joint;
    let mut capitals = 0u32;
    for byte in name {
        let kind = match byte {
            b'A'..=b'Z' => Kind::Upper,
            b'a'..=b'z' => Kind::Lower,
            b'0'..=b'9' => Kind::Digit,
            _ => Kind::Joint,
        };
        if kind != before && kind != Kind::Joint {
            // A small letter goes on with the part of one capital, and takes the last of several.
            parts += u32::from(!(kind == Kind::Lower && before == Kind::Upper && capitals == 1));
        }
        capitals = if kind == Kind::Upper { capitals + 1 } else { 0 };
        before = kind;
    }
    parts
}

fn kind_at(name: &[u8], at: usize) -> (Kind, usize) {
    let byte = name[at];
    if byte.is_ascii() {
        return (kind_of(byte.into()), 1);
    }
    let (char, len) = bstr::decode_utf8(&name[at..]);
    (char.map_or(Kind::Joint, kind_of), len.max(1))
}

/// Returns the end of a run of one kind that continues at `at`.
fn end_of(name: &[u8], mut at: usize, kind: Kind) -> usize {
    while at < name.len() {
        let (next, len) = kind_at(name, at);
        if next != kind {
            break;
        }
        at += len;
    }
    at
}

fn is_lower(name: &[u8], at: usize) -> bool {
    at < name.len() && kind_at(name, at).0 == Kind::Lower
}

/// Returns the start of the last character of a run.
fn last_char(name: &[u8], start: usize, end: usize) -> usize {
    let (_, len) = bstr::decode_last_utf8(&name[start..end]);
    end - len.max(1)
}

fn pairs(name: &[u8], run: Range<usize>, part: &mut impl FnMut(Range<usize>)) {
    let mut starts = Vec::new();
    let mut at = run.start;
    while at < run.end {
        starts.push(at);
        at += kind_at(name, at).1;
    }
    starts.push(run.end);
    match &starts[..] {
        [start, end] => part(*start..*end),
        all => all.windows(3).for_each(|three| part(three[0]..three[2])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(name: &str) -> Vec<String> {
        let mut parts = Vec::new();
        let name = normal(name.as_bytes());
        each_part(&name, |part| {
            parts.push(String::from_utf8(name[part].to_vec()).unwrap());
        });
        parts
    }

    #[test]
    fn names_come_apart_at_case_underscores_and_digits() {
        for (name, expected) in [
            ("parseConfig", &["parse", "Config"][..]),
            ("parse_config", &["parse", "config"]),
            ("HTTPServer", &["HTTP", "Server"]),
            ("getHTTP", &["get", "HTTP"]),
            ("Http2", &["Http", "2"]),
            ("Ipv6Address", &["Ipv", "6", "Address"]),
            ("utf8", &["utf", "8"]),
            ("__init__", &["init"]),
            ("$scope", &["scope"]),
            ("ÄnderungsListe", &["Änderungs", "Liste"]),
            ("ПоискФайлов", &["Поиск", "Файлов"]),
            ("ΑρχείοΛίστα", &["Αρχείο", "Λίστα"]),
            ("X", &["X"]),
            ("___", &[]),
            ("", &[]),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
    }

    #[test]
    fn scripts_without_spaces_have_pairs_of_characters() {
        assert_eq!(parts("重试延迟"), ["重试", "试延", "延迟"]);
        assert_eq!(parts("計"), ["計"]);
        assert_eq!(parts("キャッシュ2"), ["キャ", "ャッ", "ッシ", "シュ", "2"]);
        assert_eq!(parts("캐시"), ["캐시"]);
    }

    #[test]
    fn equivalent_writings_have_equal_parts() {
        assert_eq!(parts("Ｈｔｔｐ２"), ["Http", "2"]);
        assert_eq!(parts("ｷｬｯｼｭ"), parts("キャッシュ"));
        assert_eq!(parts("u\u{308}ber"), ["über"]);
        assert_eq!(parts("\u{110F}\u{1162}\u{1109}\u{1175}"), ["캐시"]);
        assert_eq!(parts("ﬁle"), ["file"]);
        assert_eq!(parts("Ver\u{AD}trag"), ["Vertrag"]);
    }

    #[test]
    fn names_end_at_each_character_that_is_no_letter() {
        let text = "fn open(x: &str) → 重试，延迟 a.b-c \u{2014}d e\u{301}e";
        let names: Vec<&str> = Names::of(text.as_bytes()).map(|name| &text[name]).collect();
        assert_eq!(
            names,
            [
                "fn",
                "open",
                "x",
                "str",
                "重试",
                "延迟",
                "a",
                "b",
                "c",
                "d",
                "e\u{301}e"
            ]
        );
    }

    proptest! {
        #[test]
        fn parts_of_ascii_are_counted_alike(name in "[A-Da-d0-2_$]{0,12}") {
            let mut count = 0;
            each_part(name.as_bytes(), |_| count += 1);
            prop_assert_eq!(ascii_parts(name.as_bytes()), count);
        }

        #[test]
        fn names_and_parts_lie_in_order_and_on_characters(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            text in "\\PC{0,20}",
        ) {
            for text in [&bytes[..], text.as_bytes()] {
                let mut last = 0;
                for name in Names::of(text) {
                    prop_assert!(last <= name.start && name.start < name.end);
                    last = name.end;
                    let mut last = 0;
                    let name = normal(&text[name]);
                    let mut parts = Vec::new();
                    each_part(&name, |part| parts.push(part));
                    for part in parts {
                        prop_assert!(part.start < part.end && last <= part.start);
                        prop_assert!(std::str::from_utf8(&name[part.clone()]).is_ok());
                        last = part.start;
                    }
                }
            }
        }
    }
}
