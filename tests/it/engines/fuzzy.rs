//! Tests approximate matching, in process and by ugrep, each with its own metric (FR-LS-SRC-11).

use std::collections::BTreeSet;

use forge_search::internal::exec::answer::outcome::Line;
use forge_search::internal::exec::question::query::Fuzziness;

use super::*;

fn fuzzy(level: u8, case: Case) -> QueryOptions {
    QueryOptions {
        fixed_strings: true,
        fuzzy: Some(Fuzziness::Edits(level)),
        case,
        ..options()
    }
}

/// The engines with approximate matching.
fn capable() -> Vec<Arc<dyn Engine>> {
    let mut engines = engines_of(Tool::Ugrep);
    engines.push(Arc::new(Embedded::default()));
    engines
}

/// The matching lines, as `line:column:text`.
fn matches(lines: &[Line]) -> Vec<String> {
    let shown = |line: &Line| {
        let text = first_match(line)?;
        Some(format!(
            "{}:{}:{text}",
            line.number,
            line.spans[0].start + 1
        ))
    };
    lines.iter().filter_map(shown).collect()
}

/// The text of the first match of a line.
fn first_match(line: &Line) -> Option<std::borrow::Cow<'_, str>> {
    let span = line.spans.first()?;
    Some(String::from_utf8_lossy(&line.text[span.start..span.end]))
}

/// A tree with lines similar to `hello`, in three encodings and in a binary file.
fn near_hello() -> Tree {
    let mut tree = Tree::new();
    let text = "say hello\n a hallo b\nhelo\nhexxo\nhel\r\nello\nHELLO\nhello hello\nunrelated\n";
    tree.add(b"utf-8", text.as_bytes());
    tree.add(b"mark", format!("\u{FEFF}{text}").as_bytes());
    let mut utf16 = Vec::new();
    for unit in format!("\u{FEFF}{text}").encode_utf16() {
        utf16.extend(unit.to_le_bytes());
    }
    tree.add(b"utf-16", &utf16);
    tree.add(b"binary", format!("{text}\0").as_bytes());
    tree
}

#[test]
fn fuzzy_search_with_ugrep_finds_approximate_matches() {
    let tree = near_hello();
    for engine in engines_of(Tool::Ugrep) {
        let find = |level, case| {
            let options = fuzzy(level, case);
            search(engine.as_ref(), "hello", &options, &tree.files).unwrap()
        };
        let one = find(1, Case::Sensitive);
        let expected = ["1:5:hello", "2:4:hallo", "3:1:helo", "8:1:hello"];
        for outcome in &one[..3] {
            assert_eq!(matches(&outcome.lines), expected, "{}", engine.id());
        }
        assert_eq!(one[3], FileOutcome::nothing());
        // The text of a line is complete, without its terminator.
        assert_eq!(&*one[0].lines[1].text, b" a hallo b");

        let two = find(2, Case::Sensitive);
        let lines: Vec<u64> = two[0].lines.iter().map(|line| line.number).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 8], "{}", engine.id());
        let hel = matches(&two[0].lines)[4].clone();
        assert!(hel.starts_with("5:1:hel") && !hel.contains('\r'), "{hel:?}");

        let folded = find(1, Case::Insensitive);
        assert!(matches(&folded[0].lines).contains(&"7:1:HELLO".to_string()));
    }
}

#[test]
fn fuzzy_search_in_process_finds_approximate_matches() {
    let tree = near_hello();
    let find = |pattern, options: &QueryOptions| embedded(pattern, options, &tree.files);
    let one = find("hello", &fuzzy(1, Case::Sensitive));
    // Any character may be edited, also the first one.
    let expected = [
        "1:5:hello",
        "2:4:hallo",
        "3:1:helo",
        "6:1:ello",
        "8:1:hello",
    ];
    for outcome in &one[..3] {
        assert_eq!(matches(&outcome.lines), expected);
    }
    assert_eq!(one[3], FileOutcome::nothing());
    assert_eq!(&*one[0].lines[1].text, b" a hallo b");

    // The carriage return is not part of the line. Otherwise it could replace a letter of `hello`.
    let two = find("hello", &fuzzy(2, Case::Sensitive));
    let expected = [
        "1:5:hello",
        "2:4:hallo",
        "3:1:helo",
        "4:1:hexxo",
        "5:1:hel",
        "6:1:ello",
        "8:1:hello",
    ];
    assert_eq!(matches(&two[0].lines), expected);

    let folded = find("hello", &fuzzy(1, Case::Insensitive));
    assert_eq!(matches(&folded[0].lines)[4], "7:1:HELLO");

    // The same for words and for expressions.
    let words = QueryOptions {
        word: true,
        ..fuzzy(1, Case::Sensitive)
    };
    let words = find("ello", &words);
    // `hallo` is two edits away from `ello`, and `allo` is no word in it.
    let expected = ["1:5:hello", "6:1:ello", "8:1:hello"];
    assert_eq!(matches(&words[0].lines), expected);
    let expression = QueryOptions {
        fixed_strings: false,
        ..fuzzy(1, Case::Sensitive)
    };
    let anchored = find("^h(al|ex)+o$", &expression);
    assert_eq!(matches(&anchored[0].lines), ["3:1:helo", "4:1:hexxo"]);
}

/// Each line that ugrep finds must be found with as many edits. ugrep only misses lines whose match
/// needs an edit of the first character.
#[test]
fn fuzzy_search_in_process_finds_whatever_ugrep_finds() {
    let patterns = ["hello", "straße", "fn main", "a_b_c_d", "größer"];
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut below = move |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n as u64) as usize
    };
    for pattern in patterns {
        let mut tree = Tree::new();
        for _ in 0..4 {
            let mut content = String::new();
            for _ in 0..100 {
                let mut word: Vec<char> = pattern.chars().collect();
                for _ in 0..below(6) {
                    let at = 1 + below(word.len());
                    match below(3) {
                        0 => word.insert(at, ['x', 'ß', 'l', ' '][below(4)]),
                        1 if at < word.len() => drop(word.remove(at)),
                        _ if at < word.len() => word[at] = ['y', 'é', 'e', '_'][below(4)],
                        _ => {}
                    }
                }
                let word: String = word.into_iter().collect();
                content += &format!(
                    "{}{word}{}\n",
                    ["", "- ", "ö"][below(3)],
                    ["", " ;"][below(2)]
                );
            }
            tree.add(
                format!("{}", tree.files.len()).as_bytes(),
                content.as_bytes(),
            );
        }
        for engine in engines_of(Tool::Ugrep) {
            for level in 1..=4 {
                let options = fuzzy(level, Case::Sensitive);
                let theirs = search(engine.as_ref(), pattern, &options, &tree.files).unwrap();
                let ours = embedded(pattern, &options, &tree.files);
                let mut counts = (0, 0);
                for (theirs, ours) in theirs.iter().zip(&ours) {
                    let of = |outcome: &FileOutcome| -> BTreeSet<u64> {
                        let numbers = outcome.lines.iter().map(|line| line.number);
                        numbers.collect()
                    };
                    let (theirs, lines) = (of(theirs), of(ours));
                    assert!(
                        lines.is_superset(&theirs),
                        "{} {pattern} {level}",
                        engine.id()
                    );
                    for found in &ours.lines {
                        let text = first_match(found).unwrap();
                        let starts_alike = text.chars().next() == pattern.chars().next();
                        assert!(
                            theirs.contains(&found.number) || !starts_alike,
                            "{} {pattern} {level}: {found:?}",
                            engine.id()
                        );
                    }
                    let ours = lines;
                    counts.0 += theirs.len();
                    counts.1 += ours.len();
                }
                println!("{} {pattern} {level}: {counts:?} lines", engine.id());
                assert!(counts.0 > 50 && counts.1 >= counts.0);
            }
        }
    }
}

#[test]
fn fuzzy_levels_are_supersets() {
    let mut tree = Tree::new();
    let words = [
        "forge_search",
        "forge search",
        "forgesearch",
        "forge_serch",
        "fogre_search",
        "forge_sarch()",
        "Forge_Search",
        "forge-seärch",
        "f rge_search",
        "fxrge_xearch",
        "forgery searched",
        "forge",
        "search",
        "fxoxrxgxex_search",
        "forge_sea\u{1F600}rch",
        "forge_\tsearch",
    ];
    for (n, chunk) in words.chunks(4).enumerate() {
        tree.add(format!("{n}").as_bytes(), chunk.join("\n").as_bytes());
    }
    for engine in capable() {
        for case in [Case::Sensitive, Case::Insensitive] {
            let mut below = BTreeSet::new();
            let mut sizes = Vec::new();
            for level in 1..=4 {
                let find = || {
                    search(
                        engine.as_ref(),
                        "forge_search",
                        &fuzzy(level, case),
                        &tree.files,
                    )
                    .unwrap()
                };
                let outcomes = find();
                assert_eq!(outcomes, find(), "the same again");
                let lines: BTreeSet<(usize, u64)> = outcomes
                    .iter()
                    .enumerate()
                    .flat_map(|(file, outcome)| {
                        outcome.lines.iter().map(move |line| (file, line.number))
                    })
                    .collect();
                assert!(
                    lines.is_superset(&below),
                    "level {level}: {below:?} {lines:?}"
                );
                sizes.push(lines.len());
                below = lines;
            }
            assert!(
                0 < sizes[0] && sizes[0] < sizes[1] && sizes[1] < sizes[3],
                "{sizes:?}"
            );
        }
    }
}

#[test]
fn fuzzy_respects_context_and_limits() {
    let mut tree = Tree::new();
    tree.add(b"f", "a\nhallo\nb\nhelo\nc\nhello\nd\n".as_bytes());
    for engine in capable() {
        let options = QueryOptions {
            before: 1,
            after: 1,
            max_matches_per_file: 2,
            ..fuzzy(1, Case::Sensitive)
        };
        let outcomes = search(engine.as_ref(), "hello", &options, &tree.files).unwrap();
        let lines: Vec<(u64, bool)> = outcomes[0]
            .lines
            .iter()
            .map(|line| (line.number, line.is_match()))
            .collect();
        assert_eq!(
            lines,
            [(1, false), (2, true), (3, false), (4, true), (5, false)]
        );
    }
}

#[test]
fn fuzzy_shows_as_many_lines_as_the_request_wants() {
    let mut tree = Tree::new();
    tree.add(b"f", &b"hallo\n".repeat(30_000));
    for engine in capable() {
        let options = QueryOptions {
            max_results: 100_000,
            max_matches_per_file: 25_000,
            ..fuzzy(1, Case::Sensitive)
        };
        let outcomes = search(engine.as_ref(), "hello", &options, &tree.files).unwrap();
        assert_eq!(outcomes[0].lines.len(), 25_000);
        assert_eq!(outcomes[0].lines[24_999].number, 25_000);
    }
}

#[test]
fn fuzzy_asks_for_the_files_that_can_be_read() {
    let mut tree = Tree::new();
    tree.add(b"a", b"hallo\n");
    tree.list(b"gone");
    tree.add(b"large", &[b'x'; 200]);
    tree.add(b"z", b"hallo\n");
    // One file at two places in the list gets two answers.
    tree.list(b"a");
    for engine in capable() {
        let options = QueryOptions {
            max_file_size: 100,
            ..fuzzy(1, Case::Sensitive)
        };
        let found = search(engine.as_ref(), "hello", &options, &tree.files).unwrap();
        let counts: Vec<usize> = found.iter().map(|outcome| outcome.lines.len()).collect();
        assert_eq!(counts, [1, 0, 0, 1, 1]);
        let exact = embedded("hallo", &self::options(), &tree.files);
        assert_eq!(found[1], exact[1]);
        assert!(found[1].error.as_ref().unwrap().contains("No such file"));
    }
}

#[test]
fn fuzzy_search_needs_an_engine_that_has_it() {
    let query =
        |pattern: &str, options: &QueryOptions| Arc::new(Query::new(&[pattern], options).unwrap());
    for engine in engines_of(Tool::Ugrep) {
        let expression = QueryOptions {
            fixed_strings: false,
            ..fuzzy(1, Case::Sensitive)
        };
        assert!(engine.prepare(query("hello world", &expression)).is_ok());
        let error = engine.prepare(query("hel+o", &expression)).err().unwrap();
        assert!(
            matches!(&error, EngineError::NotCapable(message) if message.contains("as a text")),
            "{error}"
        );
        let word = QueryOptions {
            word: true,
            ..fuzzy(1, Case::Sensitive)
        };
        let error = engine.prepare(query("hello", &word)).err().unwrap();
        assert!(
            matches!(&error, EngineError::NotCapable(message) if message.contains("whole words")),
            "{error}"
        );
        let error = engine
            .prepare(query("abé", &fuzzy(3, Case::Sensitive)))
            .err()
            .unwrap();
        assert!(
            matches!(&error, EngineError::BadQuery(message) if message.contains("too short")),
            "{error}"
        );
    }
    for engine in engines_of(Tool::Ripgrep) {
        let error = engine
            .prepare(query("hello", &fuzzy(1, Case::Sensitive)))
            .err()
            .unwrap();
        assert!(
            matches!(&error, EngineError::NotCapable(message) if message.contains("fuzzy")),
            "{error}"
        );
    }
}
