//! Tests that the external engines answer as the embedded one, for random files and patterns.

use proptest::prelude::*;

use super::*;

/// The number of generated trees. `FORGE_SEARCH_TEST_CASES` sets it.
fn cases() -> ProptestConfig {
    let cases = std::env::var("FORGE_SEARCH_TEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(120);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

/// Names that a program could misread as options, globs or comments.
const NAMES: [&[u8]; 24] = [
    b"plain.txt",
    b"two words",
    b" leading",
    b"trailing ",
    b"-e",
    b"--",
    b"--help",
    b"[a-z]*",
    b"{a,b}",
    b"!not",
    b"#comment",
    b"quote'\"`",
    b"$(touch x)",
    b"back\\slash",
    b"line\nfeed",
    b"\n",
    b"ugrep: error: \n7",
    b"carriage\rreturn",
    b"tab\there",
    b"a:1:b",
    b"\xFF\xFE invalid",
    b"\xC3",
    "ümläut".as_bytes(),
    b".hidden",
];

fn content() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        &b"foo"[..],
        b"bar",
        b"Foo",
        b"a",
        b"b",
        b"k",
        b" ",
        b"_",
        b"1",
        b"-",
        b".",
        b"\t",
        b"\n",
        b"\n",
        b"\n",
        b"\r\n",
        b"\r",
        b"\xC3\xA9",
        b"\xC3\x89",
        b"\xE2\x84\xAA",
        b"\xFF",
        b"\xC3",
        b"\xF0\x9F\x98\x80",
        b"\xEF\xBB\xBF",
        b"\xC2\x85",
        b"\xE2\x80\xA8",
        b"foobar",
        b"\x0B",
        b"\x0C",
        b"\x1B[31m",
    ]);
    let text = prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat());
    prop_oneof![
        12 => text.clone(),
        1 => text.clone().prop_map(|text| [b"\xEF\xBB\xBF", text.as_slice()].concat()),
        1 => text.clone().prop_map(|text| utf16(&text, false)),
        1 => text.clone().prop_map(|text| utf16(&text, true)),
        1 => (text.clone(), text.clone()).prop_map(|(a, b)| [a.as_slice(), b"\0", &b].concat()),
        // A NUL byte far from the start, after more lines than any buffer holds.
        1 => (text.clone(), text.clone()).prop_map(|(a, b)| {
            let filler = b"filler line, fo o\n".repeat(4000);
            [a.as_slice(), b"\n", &filler, &a, b"\0", &b].concat()
        }),
        1 => text.prop_map(|text| text.repeat(400)),
    ]
}

/// Encodes a text as UTF-16 with a byte-order mark, sometimes with an additional byte at its end.
fn utf16(text: &[u8], big: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for unit in std::iter::once(0xFEFF).chain(String::from_utf8_lossy(text).encode_utf16()) {
        bytes.extend(if big {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        });
    }
    if text.len() % 5 == 1 {
        bytes.push(b'x');
    }
    bytes
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "foo",
        "bar",
        "a",
        "b",
        "k",
        "é",
        ".",
        " ",
        "-",
        "^",
        "$",
        r"\b",
        r"\B",
        r"\w",
        r"\W",
        r"\d",
        r"\s",
        r"\S",
        "[ab]",
        "[^a]",
        "[^é]",
        r"[\w--[a-m]]",
        r"\r",
        "(?-u:\\xFF)",
        "(?-u:[\\x80-\\xFF])",
        r"\p{Lu}",
        r"\P{L}",
        r"\x{FEFF}",
        r"\x{FFFD}",
        "(?i)foo",
        "(?-i:K)",
        r"\x00",
        "",
        r"\u{212A}",
        "😀",
        r"\A",
        r"\z",
    ])
    .prop_map(str::to_string);
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (
                inner.clone(),
                prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "*?", "{0,2}"])
            )
                .prop_map(|(part, times)| format!("({part}){times}")),
        ]
    })
}

fn literal() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "foo", "bar", "Foo", "a", "k", " ", "-", ".", "*", "\\", "é", "É", "😀", "\t", "\r", "K",
        "[", "$",
    ]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

prop_compose! {
    fn any_options()(
        fixed_strings: bool,
        word in prop::bool::weighted(0.3),
        case in prop::sample::select(vec![Case::Smart, Case::Sensitive, Case::Insensitive]),
        before in 0usize..3,
        after in 0usize..3,
        max_results in prop::sample::select(vec![1usize, 2, 5, 1000]),
        max_matches_per_file in prop::sample::select(vec![1u64, 2, 5, 1000]),
        max_file_size in prop::sample::select(vec![20u64, 1 << 20]),
    ) -> QueryOptions {
        QueryOptions {
            fixed_strings, word, case, before, after, max_results, max_matches_per_file, max_file_size,
            ..QueryOptions::default()
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn external_engines_answer_as_the_embedded_one(
        contents in prop::collection::vec(content(), 1..16),
        expression in expression(),
        literal in literal(),
        options in any_options(),
        shift in 0usize..NAMES.len(),
    ) {
        let mut tree = Tree::new();
        for (n, content) in contents.iter().enumerate() {
            tree.add(NAMES[(n + shift) % NAMES.len()], content);
        }
        let pattern = if options.fixed_strings { &literal } else { &expression };
        if Query::new(&[pattern.as_str()], &options).is_err() {
            return Ok(());
        }
        for engine in engines() {
            match agree(engine.as_ref(), pattern, &options, &tree) {
                Ok(()) => {}
                Err(EngineError::NotCapable(message)) => {
                    // Only ugrep refuses some expressions, with a reason.
                    prop_assert!(message.contains("ugrep is not used") && !options.fixed_strings, "{}", message);
                }
                Err(error) => panic!("{} for {pattern:?}: {error:?}", engine.id()),
            }
        }
    }
}

#[test]
fn programs_search_files_with_names_of_every_kind() {
    let mut tree = Tree::new();
    for name in NAMES {
        tree.add(name, b"some foo here\nfoo\n");
    }
    for engine in engines() {
        agree(engine.as_ref(), "fo+", &options(), &tree).unwrap();
        let outcomes = search(engine.as_ref(), "fo+", &options(), &tree.files).unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.lines.len() == 2));
    }
    // The name with a command was not executed.
    assert!(!tree.path(b"x").exists());
}

#[test]
fn programs_search_lists_of_files_of_any_length() {
    let mut tree = Tree::new();
    let long = "n".repeat(230);
    // The paths are two and a half times as long as an argument list may be.
    for n in 0..9000u32 {
        let content = if n % 7 == 0 {
            "the foo\nand the bar\n"
        } else {
            "nothing\n"
        };
        tree.add(format!("{long}{n:05}").as_bytes(), content.as_bytes());
    }
    for engine in engines() {
        agree(engine.as_ref(), "fo+|bar", &options(), &tree).unwrap();
    }
}

#[test]
fn one_file_in_two_places_of_a_batch_is_answered_twice() {
    let mut tree = Tree::new();
    for name in [&b"a"[..], b"b", b"c"] {
        tree.add(name, b"foo\nfoo\n");
    }
    tree.list(b"a");
    tree.list(b"b");
    tree.list(b"a");
    for engine in engines() {
        agree(engine.as_ref(), "foo", &options(), &tree).unwrap();
    }
}

#[test]
fn limits_end_a_file_where_the_embedded_engine_does() {
    let mut tree = Tree::new();
    // Far more lines contain the text than match: most contain it only inside another word.
    let decoys = "foobar foo_ xfoo\n".repeat(300);
    tree.add(
        b"decoys",
        format!("{decoys}foo\n{decoys}a foo b\n").as_bytes(),
    );
    tree.add(b"all", "foo\n".repeat(10_000).as_bytes());
    tree.add(b"none", b"bar\n");
    for engine in engines() {
        for (max_results, max_matches_per_file) in [
            (1, 1),
            (3, 1000),
            (1000, 3),
            (6_000, 6_000),
            (20_000, 9_000),
        ] {
            for context in [0, 2] {
                let options = QueryOptions {
                    word: true,
                    before: context,
                    after: context,
                    max_results,
                    max_matches_per_file,
                    ..options()
                };
                agree(engine.as_ref(), "foo", &options, &tree).unwrap();
            }
        }
    }
}

/// Lines with a NUL byte and after it are not shown, but a message says that some match. It also
/// does if only the NUL byte makes the line match.
#[test]
fn lines_with_a_nul_byte_that_match_are_told_of() {
    let mut tree = Tree::new();
    let filler = "filler line\n".repeat(8000);
    tree.add(b"near", b"a\nb\0c\n");
    tree.add(b"far", format!("a\n{filler}b\0c\n").as_bytes());
    tree.add(
        b"far, and no match",
        format!("a\n{filler}b\0d\n").as_bytes(),
    );
    tree.add(b"none", filler.as_bytes());
    for engine in engines() {
        for pattern in [
            r"\x00",
            r"\x00c",
            r"b\x00+",
            r"[\x00q]",
            r"(?-u:[\x00-\x05])c",
            "q|b\\x00c",
        ] {
            match agree(engine.as_ref(), pattern, &options(), &tree) {
                Ok(()) => {}
                Err(EngineError::NotCapable(message)) => {
                    assert!(message.contains("ugrep is not used"), "{message}");
                }
                Err(error) => panic!("{} for {pattern:?}: {error:?}", engine.id()),
            }
        }
    }
}

#[test]
fn long_lines_and_large_files_are_answered_alike() {
    let mut tree = Tree::new();
    let mut long = vec![b'a'; 2 << 20];
    long.extend_from_slice(b" needle\nneedle");
    tree.add(b"one long line", &long);
    let mut large = b"some line of text\n".repeat(1 << 18);
    large.extend_from_slice(b"the needle is here\r\n");
    tree.add(b"larger than what is read at once", &large);
    large.extend_from_slice(b"a needle\nneedle \0 and\nneedle\n");
    tree.add(b"with a NUL byte at the end", &large);
    for engine in engines() {
        for pattern in ["needle", "needle$", "the|a needle"] {
            agree(engine.as_ref(), pattern, &options(), &tree).unwrap();
        }
    }
}
