//! Words of texts, paths and questions: names as they stand, and the parts they are made of.
//!
//! A name is a run of letters, digits, `_` and `$`, such as `parseConfig2`. Its parts are `parse`,
//! `Config` and `2`. Scripts that write no spaces between words have pairs of characters for parts:
//! `重试延迟` has `重试`, `试延` and
//! `延迟`.

use std::ops::Range;

/// Finds the names of a text, from left to right. Takes time linear in the bytes.
#[derive(Clone, Debug)]
pub(super) struct Names<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Names<'t> {
    pub(super) fn of(text: &'t [u8]) -> Names<'t> {
        Names { text, at: 0 }
    }
}

impl Iterator for Names<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = loop {
            let (is_name, len) = name_char(self.text, self.at)?;
            if is_name {
                break self.at;
            }
            self.at += len;
        };
        while let Some((true, len)) = name_char(self.text, self.at) {
            self.at += len;
        }
        Some(start..self.at)
    }
}

/// Whether the character at a place belongs to a name, and its length in bytes. Nothing at the end
/// of the text.
fn name_char(text: &[u8], at: usize) -> Option<(bool, usize)> {
    let byte = *text.get(at)?;
    if byte.is_ascii() {
        return Some((is_ascii_name(byte), 1));
    }
    let (char, len) = bstr::decode_utf8(&text[at..]);
    Some((char.is_some_and(char::is_alphanumeric), len))
}

fn is_ascii_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// Kinds of characters, as far as parts of names are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    /// A letter of a script that writes no spaces between words.
    Dense,
    /// `_` and `$`.
    Joint,
}

fn kind_of(char: char) -> Kind {
    match char {
        '_' | '$' => Kind::Joint,
        _ if is_dense(char) => Kind::Dense,
        _ if char.is_numeric() => Kind::Digit,
        _ if char.is_uppercase() => Kind::Upper,
        _ => Kind::Lower,
    }
}

/// Whether a character belongs to Han, kana, Hangul, Thai, Lao, Khmer or Burmese.
fn is_dense(char: char) -> bool {
    matches!(char,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3130}'..='\u{318F}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// Calls `part` with the place of each part of a name, from left to right.
///
/// Parts are capitals followed by small letters (`Config`), capitals (`HTTP` in `HTTPServer`),
/// small letters, digits, and pairs of characters of a script without spaces.
pub(super) fn each_part(name: &[u8], mut part: impl FnMut(Range<usize>)) {
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

fn kind_at(name: &[u8], at: usize) -> (Kind, usize) {
    let byte = name[at];
    if byte.is_ascii() {
        return (kind_of(byte.into()), 1);
    }
    let (char, len) = bstr::decode_utf8(&name[at..]);
    (char.map_or(Kind::Joint, kind_of), len.max(1))
}

/// Returns where a run of one kind ends that goes on at `at`.
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

/// Returns where the last character of a run begins.
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

/// Returns a character without its case. Two characters have the same if one is the other's only
/// capital.
pub(super) fn fold(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_lowercase();
    }
    match single(char.to_lowercase()) {
        Some(lower) if !lower.is_ascii() && single(lower.to_uppercase()) == Some(char) => lower,
        _ => char,
    }
}

/// Returns the capital that [`fold`] takes for a character, if there is one.
pub(super) fn capital(char: char) -> Option<char> {
    let upper = single(char.to_uppercase())?;
    (upper != char && fold(upper) == char).then_some(upper)
}

fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

/// Appends a part without case. Bytes that are no UTF-8 stay as they are.
pub(super) fn push_folded(part: &[u8], out: &mut Vec<u8>) {
    if part.is_ascii() {
        out.extend(part.iter().map(u8::to_ascii_lowercase));
        return;
    }
    for chunk in part.utf8_chunks() {
        let mut buffer = [0; 4];
        for char in chunk.valid().chars() {
            out.extend_from_slice(fold(char).encode_utf8(&mut buffer).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
}

/// Returns the letters and digits of a name without case: `parse_config` and `parseConfig` have the
/// same.
pub(super) fn letters(name: &[u8]) -> Vec<u8> {
    let mut letters = Vec::new();
    each_part(name, |part| push_folded(&name[part], &mut letters));
    letters
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(name: &str) -> Vec<&str> {
        let mut parts = Vec::new();
        each_part(name.as_bytes(), |part| parts.push(&name[part]));
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
            ("__init__", &["init"]),
            ("$scope", &["scope"]),
            ("ÄnderungsListe", &["Änderungs", "Liste"]),
            ("ПоискФайлов", &["Поиск", "Файлов"]),
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
    fn names_end_at_everything_that_is_no_letter() {
        let text = "fn open(x: &str) → 重试，延迟 a-b \u{2014}c";
        let names: Vec<&str> = Names::of(text.as_bytes()).map(|name| &text[name]).collect();
        assert_eq!(
            names,
            ["fn", "open", "x", "str", "重试", "延迟", "a", "b", "c"]
        );
    }

    #[test]
    fn case_is_folded_where_it_has_one_other_form() {
        let folded = |text: &str| {
            let mut out = Vec::new();
            push_folded(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(folded("ÄRGER"), "ärger");
        assert_eq!(folded("ПОИСК"), "поиск");
        // The Kelvin sign is no capital `k`, and `ß` has no single capital.
        assert_eq!(folded("\u{212A}ß"), "\u{212A}ß");
    }

    proptest! {
        #[test]
        fn folding_undoes_capitals_only(char: char) {
            let folded = fold(char);
            prop_assert!(folded == char || folded.is_ascii() || capital(folded) == Some(char));
            prop_assert_eq!(fold(folded), folded);
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
                    let name = &text[name];
                    let mut parts = Vec::new();
                    each_part(name, |part| parts.push(part));
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
