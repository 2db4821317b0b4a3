use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use proptest::prelude::*;

use super::*;
use crate::exec::matching::matcher::LineMatcher;
use crate::exec::question::query::Fold;
use crate::exec::stop::Stop;

fn pattern(text: &str, fold: Fold, word: bool) -> Pattern {
    Pattern::compile(text, false, fold, word).unwrap()
}

fn ripgrep(text: &str) -> String {
    match for_ripgrep(&pattern(text, Fold::Sensitive, false)).unwrap() {
        Superset::Expression(text) => text,
        Superset::Nothing => panic!("nothing to ask for {text}"),
    }
}

/// Compiles an expression as ripgrep does.
fn ripgreps(text: &str) -> RegexMatcher {
    RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .build(text)
        .unwrap()
}

/// Compiles an expression over bytes, as the reference.
fn bytewise(text: &str) -> RegexMatcher {
    RegexMatcherBuilder::new()
        .unicode(false)
        .build(text)
        .unwrap()
}

#[test]
fn ripgrep_is_asked_for_what_all_of_its_versions_read_alike() {
    for (text, asked) in [
        ("foo", "foo"),
        ("a-b c", r"a\x2Db\x20c"),
        ("é", r"\x{E9}"),
        (r"\bfoo\b", "foo"),
        (r"\<foo|bar\b{end-half}", "foo|bar"),
        ("^foo$", r"(?m:^)\x{FEFF}?foo\r?(?m:$)"),
        ("a(b|c)*?d", "a(?:[b-c])*d"),
        ("(ab|cd){2,3}", "(?:ab|cd){2,3}"),
        ("(?-u:\\xFF)", r"(?-u:\xFF)"),
        ("(?-u:[\\x80-\\xFF])+", r"(?-u:[\x80-\xFF])+"),
        ("x[^a]", r"x[\x00-\x09\x0B-\x60b-\x{10FFFF}]"),
        (r"\w", r"[0-9A-Z\x5Fa-z\x{80}-\x{10FFFF}]"),
        (
            "^$",
            r"(?:(?m:^)\x{FEFF}?\r?(?m:$))|(?m:^)\x{FEFF}?\r?(?m:$)",
        ),
    ] {
        // The parser decides how single characters and one-character classes are written.
        assert_eq!(
            ripgrep(text).replace("(?:[b-c])", "[b-c]"),
            asked.replace("(?:[b-c])", "[b-c]"),
            "{text}"
        );
    }
}

#[test]
fn what_a_program_can_not_search_for_is_said() {
    let unknown = for_ugrep(&pattern(r"^\w+$", Fold::Sensitive, false)).unwrap_err();
    assert!(unknown.contains("no literal"), "{unknown}");
    // Written out in full, each letter becomes a class.
    let long = pattern(&"a-".repeat(30_000), Fold::AsciiInsensitive, false);
    let message = for_ripgrep(&long).unwrap_err();
    assert!(message.contains("bytes long"), "{message}");
    assert!(for_ugrep(&long).is_ok());
}

#[test]
fn what_no_line_can_match_is_not_asked_for() {
    for text in [r"[^\s\S]", r"a[^\s\S]", r"(?-u:[^\s\S])+b"] {
        let pattern = pattern(text, Fold::Sensitive, false);
        assert_eq!(for_ripgrep(&pattern), Ok(Superset::Nothing), "{text}");
        assert_eq!(for_ugrep(&pattern), Ok(Superset::Nothing), "{text}");
    }
    assert_eq!(ripgrep(r"a(?:[^\s\S])?"), "a(?:)".replace("(?:)", ""));
    assert_eq!(ripgrep(r"[^\s\S]|b"), "b");
    // NUL stays: the answer reports a match on a line that contains NUL.
    assert_eq!(ripgrep(r"\x00b"), r"\x00b");
}

/// Expressions with all kinds of constructs, over the alphabet of the lines below.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a",
        "b",
        "k",
        "ab",
        "é",
        "ü",
        ".",
        " ",
        "^",
        "$",
        r"\b",
        r"\B",
        r"\<",
        r"\>",
        r"\w",
        r"\W",
        r"\d",
        r"\s",
        r"\S",
        "[ab]",
        "[^a]",
        "[^é]",
        "[a-z&&[^b]]",
        r"\r",
        r"\x00",
        "(?-u:\\xFF)",
        "(?-u:[\\x80-\\xFF])",
        r"\p{Lu}",
        r"\P{L}",
        "(?s:.)",
        r"\b{start-half}",
        r"\u{2126}",
        "x{0}",
        r"\x{FEFF}",
        "(?-u:\\xC3)",
    ])
    .prop_map(str::to_string);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (
                inner.clone(),
                prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "*?", "{0,2}"])
            )
                .prop_map(|(part, times)| format!("({part}){times}")),
            inner.prop_map(|part| format!("(?i:{part})")),
        ]
    })
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<&[u8]> = vec![
        b"a",
        b"b",
        b"A",
        b"k",
        b"K",
        b" ",
        b"\r",
        b"\t",
        b"-",
        b"1",
        b"_",
        b"\xC3\xA9",
        b"\xC3\xBC",
        b"\xFF",
        b"\xC3",
        b"\xA9",
        b"\xF0\x9F\x98\x80",
        b"\xE2\x84\xA6",
        b"\xE2\x84\xAA",
        b"\xEF\xBB\xBF",
    ];
    prop::collection::vec(prop::sample::select(parts), 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// The central property: a line that matches is a line that the program is asked for, in each
    /// form in which a program may see it.
    #[test]
    fn what_is_asked_for_is_a_superset(
        text in expressions(),
        lines in prop::collection::vec(lines(), 1..6),
        insensitive: bool,
        word: bool,
    ) {
        let fold = if insensitive { Fold::AsciiInsensitive } else { Fold::Sensitive };
        let Ok(pattern) = Pattern::compile(&text, false, fold, word) else {
            return Ok(());
        };
        let matcher = LineMatcher::new(&pattern).unwrap().worker(Stop::new());
        let rg = for_ripgrep(&pattern).unwrap();
        let ug = for_ugrep(&pattern);
        for line in &lines {
            if matcher.find_in_line(line).unwrap().is_none() {
                continue;
            }
            let with_return = [line.as_slice(), b"\r"].concat();
            let with_mark = [b"\xEF\xBB\xBF", line.as_slice()].concat();
            let with_both = [with_mark.as_slice(), b"\r"].concat();
            for form in [line, &with_return, &with_mark, &with_both] {
                let Superset::Expression(asked) = &rg else {
                    panic!("{text} matches {line:?}");
                };
                prop_assert!(ripgreps(asked).is_match(form).unwrap(), "{} as {} on {:?}", text, asked, form);
                match &ug {
                    Ok(Superset::Expression(asked)) => prop_assert!(
                        bytewise(asked).is_match(form).unwrap(), "{} as {} on {:?}", text, asked, form
                    ),
                    Ok(Superset::Nothing) => panic!("{text} matches {line:?}"),
                    Err(_) => {}
                }
            }
        }
    }
}
