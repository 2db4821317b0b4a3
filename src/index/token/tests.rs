use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use super::*;
use crate::index::bloom::{BloomFilter, BloomParams};
use crate::index::gram::GramHash;

/// Computed by `tests/golden/tokens.py`, which shares no code with this crate.
const GOLDEN: &str = include_str!("../../../tests/golden/tokens.json");

fn golden() -> Value {
    serde_json::from_str(GOLDEN).unwrap()
}

fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn texts(grams: GramList<'_>) -> Vec<String> {
    let mut sorted: Vec<Gram> = grams.iter().collect();
    sorted.sort_unstable();
    sorted
        .iter()
        .map(|gram| gram.chars().iter().collect())
        .collect()
}

fn strategy(name: &str) -> Casefold {
    [Casefold::Ascii, Casefold::UnicodeSimple]
        .into_iter()
        .find(|fold| fold.as_str() == name)
        .unwrap()
}

/// Returns the sensitive and insensitive n-grams of a text.
fn grams_of(bytes: &[u8], casefold: Casefold) -> (Vec<String>, Vec<String>) {
    let mut tokenizer = Tokenizer::new(casefold, 1 << 20);
    let tokens = tokenizer.tokenize(bytes);
    assert_eq!(tokens.status, TokenStatus::Full);
    (texts(tokens.sensitive), texts(tokens.insensitive))
}

#[test]
fn golden_texts_have_the_expected_ngrams_and_bits() {
    let golden = golden();
    let tokenizer_for = |name: &str| Tokenizer::new(strategy(name), 1 << 20);
    let small = BloomParams {
        bits: golden["small"]["m"].as_u64().unwrap(),
        hashes: golden["small"]["k"].as_u64().unwrap() as u32,
        ..BloomParams::from_config(1 << 20, 0.01)
    };
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() >= 40);
    for case in cases {
        let name = format!("{} ({})", case["name"], case["casefold"]);
        let mut tokenizer = tokenizer_for(case["casefold"].as_str().unwrap());
        let bytes = hex(&case["bytes"]);
        let tokens = tokenizer.tokenize(&bytes);
        assert_eq!(tokens.status.as_str(), case["status"], "{name}");
        if tokens.status != TokenStatus::Full {
            continue;
        }
        for (variant, grams) in [
            ("sensitive", tokens.sensitive),
            ("insensitive", tokens.insensitive),
        ] {
            let expected: Vec<&str> = case[variant]
                .as_array()
                .unwrap()
                .iter()
                .map(|g| g.as_str().unwrap())
                .collect();
            assert_eq!(texts(grams), expected, "{name}, {variant}");
            let mut filter = BloomFilter::new(small);
            grams.iter().for_each(|gram| filter.insert(gram.hashes()));
            assert_eq!(
                filter.as_bytes(),
                hex(&case[format!("{variant}_bitset")]),
                "{name}, {variant}"
            );
        }
    }
}

#[test]
fn hashes_and_bits_of_golden_texts_are_the_expected_ones() {
    let golden = golden();
    for row in golden["parameters"].as_array().unwrap() {
        let params = BloomParams::from_config(
            row["max_tokenized_bytes"].as_u64().unwrap(),
            row["fp_rate"].as_f64().unwrap(),
        );
        assert_eq!(params.basis_ngrams, row["n"].as_u64().unwrap());
        assert_eq!(params.bits, row["m"].as_u64().unwrap());
        assert_eq!(u64::from(params.hashes), row["k"].as_u64().unwrap());
    }
    let params = BloomParams::from_config(1 << 20, 0.01);
    for row in golden["hashes"].as_array().unwrap() {
        let hash = GramHash::of(row["text"].as_str().unwrap().as_bytes());
        assert_eq!(hash.first.to_string(), row["first"].as_str().unwrap());
        assert_eq!(hash.second.to_string(), row["second"].as_str().unwrap());
        let expected: Vec<u64> = row["bits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bit| bit.as_u64().unwrap())
            .collect();
        assert_eq!(params.positions(hash).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn crlf_and_lf_give_the_same_ngrams() {
    let lf = "one\ntwo\n\nthree é\n";
    let crlf = lf.replace('\n', "\r\n");
    for fold in [Casefold::Ascii, Casefold::UnicodeSimple] {
        assert_eq!(
            grams_of(lf.as_bytes(), fold),
            grams_of(crlf.as_bytes(), fold)
        );
    }
    assert_eq!(
        grams_of(b"a\nb\nc\n", Casefold::Ascii),
        grams_of(b"a\r\nb\r\nc\r\n", Casefold::Ascii)
    );
}

#[test]
fn composed_and_decomposed_text_give_the_same_ngrams() {
    let composed = "Ñandú café 각";
    let decomposed: String = composed.nfd().collect();
    assert_ne!(composed, decomposed);
    for fold in [Casefold::Ascii, Casefold::UnicodeSimple] {
        assert_eq!(
            grams_of(composed.as_bytes(), fold),
            grams_of(decomposed.as_bytes(), fold)
        );
    }
    // Only the composed form is excludable.
    let mut tokenizer = Tokenizer::new(Casefold::Ascii, 1 << 20);
    assert!(tokenizer.tokenize(composed.as_bytes()).excludable);
    assert!(!tokenizer.tokenize(decomposed.as_bytes()).excludable);
}

#[test]
fn ascii_folding_makes_upper_and_lower_case_equal() {
    let (upper_sensitive, upper) = grams_of("ABC É".as_bytes(), Casefold::Ascii);
    let (lower_sensitive, lower) = grams_of("abc É".as_bytes(), Casefold::Ascii);
    assert_eq!(upper, lower);
    assert_ne!(upper_sensitive, lower_sensitive);
    assert_ne!(upper, grams_of("abc é".as_bytes(), Casefold::Ascii).1);
}

#[test]
fn simple_folding_makes_upper_and_lower_case_equal_beyond_ascii() {
    let folded = |text: &str| grams_of(text.as_bytes(), Casefold::UnicodeSimple).1;
    assert_eq!(folded("Ñandú"), folded("ñANDÚ"));
    assert_eq!(folded("\u{212A}ey"), folded("key"));
}

#[test]
fn what_can_not_be_tokenized_is_never_left_out() {
    let mut tokenizer = Tokenizer::new(Casefold::Ascii, 10);
    for (bytes, status) in [
        (&b"elevenbytes"[..], TokenStatus::SkippedTooLarge),
        (b"\xFF\xFF\xFFa", TokenStatus::SkippedBinary),
        (b"\xFF\xFEa\0b\0c\0", TokenStatus::Full),
        (b"ab", TokenStatus::Full),
        (b"", TokenStatus::Full),
        (b"a\r\n", TokenStatus::Full),
    ] {
        let tokens = tokenizer.tokenize(bytes);
        assert_eq!(tokens.status, status, "{bytes:?}");
        assert!(!tokens.excludable, "{bytes:?}");
    }
    assert!(tokenizer.tokenize(b"tenbytes!!").excludable);
    assert!(tokenizer.tokenize(b"\xEF\xBB\xBFabc").excludable);
}

/// The pipeline as specified, without shortcuts.
fn plain(bytes: &[u8], casefold: Casefold) -> Option<(Vec<String>, Vec<String>)> {
    let text = String::from_utf8_lossy(bytes);
    let replaced = text.chars().filter(|&c| c == '\u{FFFD}').count();
    if replaced as f64 / text.chars().count().max(1) as f64 > 0.5 {
        return None;
    }
    let normal: String = text.nfc().collect::<String>().replace("\r\n", "\n");
    let grams = |text: &str| {
        let chars: Vec<char> = text.chars().collect();
        let set: BTreeSet<String> = chars.windows(3).map(|gram| gram.iter().collect()).collect();
        set.into_iter().collect()
    };
    let folded: String = normal.chars().map(|c| casefold.fold(c)).collect();
    Some((grams(&normal), grams(&folded)))
}

fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => "[ -~]{0,6}".prop_map(String::into_bytes),
        2 => prop::sample::select(vec!["\r", "\n", "\r\n", "\r\r\n", "K", "k", "Z"])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        2 => prop::sample::select(vec![
            "\u{301}", "\u{323}", "e", "\u{1112}", "\u{1161}", "\u{11AB}", "\u{212A}", "\u{17F}", "é",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_fast_path_is_the_plain_pipeline(
        files in prop::collection::vec(hostile_bytes(), 1..4),
        unicode: bool,
    ) {
        let casefold = if unicode { Casefold::UnicodeSimple } else { Casefold::Ascii };
        // One tokenizer for all files: n-grams of one file must not leak into the next.
        let mut tokenizer = Tokenizer::new(casefold, 1 << 20);
        for bytes in files {
            let tokens = tokenizer.tokenize(&bytes);
            let found = (tokens.status == TokenStatus::Full)
                .then(|| (texts(tokens.sensitive), texts(tokens.insensitive)));
            let distinct = |list: GramList<'_>| list.iter().collect::<BTreeSet<_>>().len() == list.len();
            prop_assert!(distinct(tokens.sensitive) && distinct(tokens.insensitive));
            prop_assert_eq!(found, plain(&bytes, casefold));
        }
    }

    /// Exclusion is safe: the tokens of an excludable file contain all n-grams of each piece of its
    /// text, in both variants.
    #[test]
    fn every_piece_of_an_excludable_text_has_its_ngrams_listed(
        bytes in hostile_bytes(),
        from in 0usize..80,
        len in 3usize..12,
    ) {
        let mut tokenizer = Tokenizer::new(Casefold::Ascii, 1 << 20);
        let tokens = tokenizer.tokenize(&bytes);
        prop_assume!(tokens.excludable);
        let (sensitive, insensitive): (BTreeSet<Gram>, BTreeSet<Gram>) =
            (tokens.sensitive.iter().collect(), tokens.insensitive.iter().collect());
        // A pattern is valid UTF-8, and is cut at line ends.
        for line in bytes.split(|&byte| byte == b'\n' || byte == b'\r') {
            for valid in line.utf8_chunks().map(|chunk| chunk.valid()) {
                let piece: Vec<char> = valid.chars().skip(from % 16).take(len).collect();
                for gram in piece.windows(3) {
                    let gram: [char; 3] = gram.try_into().unwrap();
                    prop_assert!(sensitive.contains(&Gram::new(gram)), "{:?}", gram);
                    let folded = gram.map(|c| c.to_ascii_lowercase());
                    prop_assert!(insensitive.contains(&Gram::new(folded)), "{:?}", folded);
                }
            }
        }
    }
}

#[test]
fn parts_are_whole_lines_and_together_the_text() {
    let texts: [&[u8]; 6] = [
        b"",
        b"no line feed at all, and longer than a part",
        b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n",
        b"short\na much longer line than any part\nshort\n",
        b"ends without\na line feed",
        b"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    ];
    for text in texts {
        for part_bytes in [1, 4, 10, 1000] {
            let (starts, parts): (Vec<u64>, Vec<&[u8]>) = parts(text, part_bytes).unzip();
            assert_eq!(parts.concat(), text);
            let lens = parts.iter().map(|part| part.len() as u64);
            let ends = lens.scan(0, |end, len| {
                *end += len;
                Some(*end)
            });
            assert_eq!(starts[0], 0);
            assert!(starts[1..].iter().copied().eq(ends.take(parts.len() - 1)));
            assert!(!parts.is_empty());
            let (_, before) = parts.split_last().unwrap();
            assert!(before.iter().all(|part| part.ends_with(b"\n")), "{parts:?}");
            let longest_line = text.split_inclusive(|b| *b == b'\n').map(<[u8]>::len).max();
            let most = part_bytes + longest_line.unwrap_or(0);
            assert!(parts.iter().all(|part| part.len() <= most), "{parts:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The n-grams of the parts are those of the whole file, except n-grams across a border.
    #[test]
    fn parts_hold_the_ngrams_of_the_whole(text in "[ab\nAé\r\u{301}]{0,80}", part_bytes in 1usize..40) {
        let mut tokenizer = Tokenizer::new(Casefold::Ascii, 1 << 20);
        let whole = tokenizer.tokenize(text.as_bytes());
        let without = |list: GramList<'_>| {
            let kept = list.iter().filter(|gram| !gram.chars().contains(&'\n'));
            kept.collect::<BTreeSet<_>>()
        };
        let expected = (whole.status, without(whole.sensitive), without(whole.insensitive));
        let stable = is_normal(&text);
        let mut found = (TokenStatus::Full, BTreeSet::new(), BTreeSet::new());
        let mut starts = Vec::new();
        let (status, _) = tokenizer.status(text.as_bytes());
        found.0 = status;
        for (start, part) in parts(text.as_bytes(), part_bytes) {
            starts.push(start as usize);
            let Some(tokens) = tokenizer.part(part) else {
                prop_assert!(!stable);
                return Ok(());
            };
            found.1.extend(without(tokens.sensitive));
            found.2.extend(without(tokens.insensitive));
        }
        prop_assert!(stable);
        prop_assert_eq!(found, expected);
        // Each part but the first starts after a line feed.
        prop_assert_eq!(starts.first(), Some(&0));
        prop_assert!(starts.is_sorted());
        prop_assert!(starts[1..].iter().all(|&start| text.as_bytes()[start - 1] == b'\n'));
    }
}

#[test]
fn a_part_with_too_many_ngrams_says_nothing() {
    let mut tokenizer = Tokenizer::new(Casefold::Ascii, 1 << 30);
    // All n-grams differ: the digits of a number, each from an alphabet of 128 non-ASCII letters.
    let text = |letters: u32| -> String {
        let letter = |n: u32| char::from_u32(0x4E00 + n % 128).unwrap();
        let number = |n: u32| [letter(n), letter(n >> 7), letter(n >> 14)];
        (0..letters / 3).flat_map(number).collect()
    };
    let small = text(300_000);
    let count = tokenizer.part(small.as_bytes()).unwrap().sensitive.len();
    assert!((100_000..300_000).contains(&count), "{count}");
    let most = MAX_PART_WIDE as u32;
    assert!(tokenizer.part(text(most * 4).as_bytes()).is_none());
    // The next part must not contain n-grams of this one.
    assert_eq!(
        tokenizer.part(small.as_bytes()).unwrap().sensitive.len(),
        count
    );
}

#[test]
fn a_long_part_of_which_a_copy_would_be_made_says_nothing() {
    let mut tokenizer = Tokenizer::new(Casefold::Ascii, 1 << 30);
    for (text, as_it_is) in [
        (&b"x\xCC\x81y"[..], false),
        (b"x\xFF\xC3y", false),
        (b"x\xC3\xA9y", true),
        (b"wxyz", true),
    ] {
        let mut says = |bytes: usize| tokenizer.part(&text.repeat(bytes / 4)).is_some();
        assert!(says(4_000));
        assert!(says(MAX_PART_DECODED));
        assert_eq!(says(MAX_PART_DECODED + 4), as_it_is, "{text:?}");
    }
}
