use proptest::prelude::*;

use super::*;
use crate::exec::rank::{self, SourceText};
use crate::index::words::counts::Counter;
use crate::index::words::names::{Names, ascii_parts};

fn words(query: &str) -> Vec<String> {
    Terms::new(query).unwrap().words().to_vec()
}

#[test]
fn names_are_terms_as_a_whole_and_in_parts() {
    assert_eq!(words("parse_config"), ["parseconfig", "pars", "config"]);
    assert_eq!(words("Http2Server"), ["http2server", "http", "2", "server"]);
    assert_eq!(words("retries Retry retrying"), ["retri"]);
    assert_eq!(words("重试延迟"), ["重试", "试延", "延迟"]);
}

#[test]
fn words_that_say_nothing_are_left_out_if_there_are_others() {
    assert_eq!(words("how does the file cache work"), ["cach"]);
    assert_eq!(words("how is it"), ["how", "is", "it"]);
    // A name of such words stays as a whole.
    assert_eq!(words("isFile"), ["isfile"]);
}

#[test]
fn short_terms_are_looked_for_when_there_are_no_others() {
    let terms = Terms::new("io socket").unwrap();
    assert_eq!(terms.looked_for().collect::<Vec<_>>(), ["socket"]);
    assert_eq!(terms.expression(), None);
    let terms = Terms::new("io").unwrap();
    assert_eq!(terms.looked_for().collect::<Vec<_>>(), ["io"]);
    let terms = Terms::new(" -> ").unwrap();
    assert_eq!(terms.words(), ["->"]);
    assert_eq!(terms.expression(), Some(r"\->".to_string()));
    assert_eq!(terms.keys().count(), 0);
}

#[test]
fn blank_and_long_questions_are_refused() {
    assert_eq!(Terms::new(" \t\n").unwrap_err(), TermsError::Blank);
    let long = "x".repeat(MAX_QUERY_BYTES + 1);
    let error = Terms::new(&long).unwrap_err();
    assert_eq!(error, TermsError::TooLong(MAX_QUERY_BYTES + 1));
    assert!(Terms::new(&long[1..]).is_ok());
}

#[test]
fn terms_beyond_the_limit_are_counted() {
    let letters = ["b", "c", "f", "g", "k", "m"];
    let name = |n: usize| format!("z{}{}", letters[n / 6], letters[n % 6]);
    let query: Vec<String> = (0..MAX_TERMS + 3).map(name).collect();
    let terms = Terms::new(&query.join(" ")).unwrap();
    assert_eq!((terms.words().len(), terms.left_out()), (MAX_TERMS, 3));
}

#[test]
fn names_that_a_question_asks_for_are_told() {
    let asked = |query: &str, name: &str| Terms::new(query).unwrap().match_name(name.as_bytes());
    assert!(asked("File::open", "open").symbol);
    assert!(!asked("File::open", "Open").symbol && asked("File::open", "Open").symbol_folded);
    assert!(asked("where is parse_config called", "parse_config").embedded);
    assert!(asked("what does app.set store", "set").embedded);
    assert!(asked("where is open() called", "open").embedded);
    assert!(asked("the purpose of `open`", "open").embedded);
    assert!(!asked("the end. open it", "open").embedded);
    assert!(asked("retry delays of requests", "RetryDelay").joined);
    assert_eq!(asked("retry delay", "Retry"), NameMatch::default());
}

fn hits(query: &str, text: &str, is_german: bool) -> Vec<(String, String)> {
    let terms = Terms::new(query).unwrap();
    let mut found = Vec::new();
    for name in Names::of(text.as_bytes()) {
        let name = &text[name];
        terms.each_hit(name.as_bytes(), is_german, |term, part| {
            found.push((terms.words()[term].clone(), name[part].to_string()));
        });
    }
    found
}

#[test]
fn terms_are_found_in_every_form() {
    let pair = |term: &str, text: &str| (term.to_string(), text.to_string());
    assert_eq!(
        hits("retryDelay", "fn retries(retry_delay, RETRYDELAY)", false),
        [
            pair("retri", "retries"),
            pair("retrydelay", "retry_delay"),
            pair("retri", "retry"),
            pair("delai", "delay"),
            pair("retrydelay", "RETRYDELAY"),
        ]
    );
    assert_eq!(
        hits("ärger", "ÄRGER Arger", false),
        [pair("arger", "ÄRGER"), pair("arger", "Arger")]
    );
    assert_eq!(hits("Verbindungen", "Verbindung", false), []);
    assert_eq!(
        hits("Verbindungen", "Verbindung", true),
        [pair("verbindungen", "Verbindung")]
    );
    assert_eq!(hits("повторные", "Повторных", false).len(), 1);
}

proptest! {
    #[test]
    fn words_of_ascii_characters_start_with_their_stems(
        word in "[a-z]{1,8}(y|ies|ied|ying|e[sdrn]?|ing|s|ational|ement|ly|ern|isch|ungen|heit|lich)?",
    ) {
        each_form(word.as_bytes(), |form| {
            assert!(word.as_bytes().starts_with(unchanged(form.text)), "{word} {form:?}");
        });
        each_german(word.as_bytes(), |form, _| {
            let stem = form.map_or(&b""[..], |form| form.stem);
            assert!(word.as_bytes().starts_with(stem), "{word} {form:?}");
        });
    }

    #[test]
    fn a_quick_look_at_the_name_of_a_file_misses_no_term(
        question in "(copy|copies|copilot|tying|tie|parsers|[a-cy]{1,5}|ab_cd|über)( [a-cy]{3,5})?",
        name in "(copy|copi|copilot|cop|copying|ties|tied|Parse|[a-cyA-C_]{1,6}|über|uber){1,3}",
    ) {
        let terms = Terms::new(&question).unwrap();
        let (mut found, mut parts) = (0, 0);
        terms.each_hit(name.as_bytes(), false, |term, _| found |= 1 << term);
        each_form(name.as_bytes(), |form| {
            if form.kind.is_part() {
                found |= terms.near(form.text);
                parts += 1;
            }
        });
        if !terms.may_name(name.as_bytes()) {
            prop_assert_eq!((found, parts), (0, ascii_parts(name.as_bytes())));
        }
    }

    #[test]
    fn a_quick_look_misses_no_term(
        question in "([a-cA-C_ß2]{1,4}|retry|Ties|über|und|für|files|重试|x_ray|to_s|isRoot|is root|A.\\$|Aß.ｉｓ|résumé_parser|[ .])( [a-cA-C_]{1,3})?",
        words in prop::collection::vec(
            "(fn |struct |def )?[a-cA-C_ß2-]{1,5}[({]?|retries|tying|tie|über|und|für|nicht|ist|wird|File|重试延|xRay|X_r_a_y|to|s|def is-root|def is|def \\$|fn is_root\\(|resumeparser|\\n",
            0..40,
        ),
    ) {
        let Ok(terms) = Terms::new(&question) else { return Ok(()) };
        let text = words.join(" ");
        for path in ["a/b_c.rs", "a.sh"] {
            let all = Counter::default().count(path, text.as_bytes(), || false).unwrap();
            let some = terms.asked().count(path, text.as_bytes(), || false).unwrap();
            let keys: Vec<u32> = terms.keys().collect();
            let expected = all.entries.iter().filter(|entry| keys.contains(&entry.key));
            prop_assert_eq!(some.entries, expected.copied().collect::<Vec<_>>());
            prop_assert_eq!((some.words, some.lines), (all.words, all.lines));
            if terms.literal().is_some() {
                continue;
            }
            let source = SourceText::of(text.as_bytes(), path);
            let found: Vec<_> = rank::hits(&terms, &source, || false)
                .iter()
                .map(|hit| (hit.start, hit.term))
                .collect();
            let mut in_each_name = Vec::new();
            for name in Names::of(text.as_bytes()) {
                terms.each_hit(&text.as_bytes()[name.clone()], source.facts.is_german, |term, part| {
                    in_each_name.push((name.start + part.start, term));
                });
            }
            prop_assert_eq!(found, in_each_name);
        }
    }
}

#[test]
fn a_question_of_many_words_has_a_bounded_number_of_keys() {
    let query = "a b ".repeat(MAX_QUERY_BYTES / 4);
    assert!(Terms::new(&query).unwrap().keys().count() < 8 * MAX_TERMS);
}

#[test]
fn names_without_letters_join_to_no_term() {
    let terms = Terms::new("a $ _").unwrap();
    let counted = terms.asked().count("b", b"def $", || false).unwrap();
    assert_eq!(counted.entries, []);
}
