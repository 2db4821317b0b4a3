use proptest::prelude::*;

use super::super::forms;
use super::*;
use crate::index::words::asked::{AskedTerms, Beginnings};

fn record(path: &str, text: &str) -> WordCounts {
    Counter::default()
        .count(path, text.as_bytes(), || false)
        .unwrap()
}

/// Returns the entry of a word that is one part.
fn part(record: &WordCounts, word: &str) -> Option<Entry> {
    let mut key = None;
    each_form(word.as_bytes(), |form| {
        key = key.or(Some(form.key));
    });
    record.get(key.unwrap())
}

fn count(record: &WordCounts, word: &str) -> u32 {
    part(record, word).map_or(0, |entry| entry.count)
}

#[test]
fn parts_of_names_are_counted_by_their_stems() {
    let text = "fn retryDelay() {\n    retries(retry_delay);\n}\n";
    let record = record("net/backoff.rs", text);
    assert_eq!((record.words, record.lines), (6, 3));
    assert_eq!(
        (count(&record, "retrying"), count(&record, "delay")),
        (3, 2)
    );
    assert_eq!(count(&record, "backoff"), 0);
    let whole = record.get(forms::whole(b"RetryDelay")).unwrap();
    assert_eq!((whole.count, whole.marks.kind()), (2, Some(Kind::Function)));
    assert!(
        part(&record, "delay")
            .unwrap()
            .marks
            .has(Marks::IN_FUNCTION)
    );
    assert!(
        part(&record, "backoff")
            .unwrap()
            .marks
            .has(Marks::IN_FILE_NAME)
    );
    let exact = |name: &[u8]| record.get(forms::defined(name)).is_some();
    assert!(exact(b"retryDelay") && !exact(b"retry_delay"));
}

#[test]
fn accents_count_but_do_not_have_to() {
    let both = record("", "résumé resume");
    assert_eq!(count(&both, "Résumés"), 2);
    assert!(!part(&both, "resume").unwrap().marks.has(Marks::ACCENTED));
    let accented = record("", "RÉSUMÉ");
    assert_eq!(count(&accented, "resume"), 1);
    assert!(
        part(&accented, "resume")
            .unwrap()
            .marks
            .has(Marks::ACCENTED)
    );
    // The mark belongs to the text: a path has none.
    let in_path = record("résumé", "");
    assert!(!part(&in_path, "resume").unwrap().marks.has(Marks::ACCENTED));
    let defined = record("a.rs", "fn résumé() {}\n");
    let entry = part(&defined, "resume").unwrap();
    assert!(entry.marks.has(Marks::ACCENTED) && entry.marks.has(Marks::IN_FUNCTION));
}

#[test]
fn equivalent_writings_are_one_term() {
    for (text, word) in [
        ("Ｈｔｔｐ", "http"),
        ("straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("ﬁles", "file"),
        ("ΛΟΓΟΣ", "λόγος"),
        ("u\u{308}ber", "über"),
        ("ё", "е"),
        ("キャッシュ", "ｷｬｯｼｭ"),
        ("повторные", "повторных"),
    ] {
        assert!(count(&record("", text), word) > 0, "{text} {word}");
    }
}

#[test]
fn german_texts_have_german_stems() {
    let german =
        "Die Verbindungen werden geprüft und nicht geschlossen, wenn der Server antwortet.";
    let english = "die Verbindungen";
    let mut keys = Vec::new();
    each_german("Verbindung".as_bytes(), |form, _| {
        keys.extend(form.map(|form| form.key))
    });
    let has = |text: &str| record("", text).get(keys[0]).is_some();
    assert!(has(german) && !has(english));
}

#[test]
fn long_names_of_ascii_are_no_words() {
    let (long, longer) = ("x".repeat(MAX_NAME), "x".repeat(MAX_NAME + 1));
    assert_eq!(record("", &long).words, 1);
    assert_eq!(record("", &longer), WordCounts::default());
    let sentence = "重试".repeat(60);
    assert_eq!(record("", &sentence).words, 119);
}

#[test]
fn a_counter_gives_the_same_for_each_text() {
    let texts = [
        "fn a_b() { c }",
        "résumé c",
        "",
        "struct AB;\nimpl AB {}",
        "c c c",
    ];
    let mut counter = Counter::default();
    for text in texts.iter().chain(&texts) {
        let counted = counter.count("x.rs", text.as_bytes(), || false);
        assert_eq!(counted, Some(record("x.rs", text)));
    }
}

#[test]
fn a_text_with_too_many_names_has_no_record() {
    let text: String = (0..MAX_TERMS).map(|n| format!("a{n}b ")).collect();
    let mut counter = Counter::default();
    assert!(counter.count("", text.as_bytes(), || false).is_none());
    let keys = [forms::whole(b"a77b")];
    let asked = AskedTerms::new(
        keys.into_iter(),
        Beginnings::of([&b"a7"[..]].into_iter()),
        [].into_iter(),
    );
    let record = asked.count("", text.as_bytes(), || false).unwrap();
    assert_eq!(record.get(keys[0]).map(|entry| entry.count), Some(1));
    assert_eq!(record.entries.len(), 1);
}

#[test]
fn counting_ends_when_it_is_told_to() {
    let text = "x ".repeat(STOP_INTERVAL);
    let stop = || true;
    assert_eq!(Counter::default().count("", text.as_bytes(), stop), None);
    let asked = AskedTerms::new([].into_iter(), Beginnings::default(), [].into_iter());
    assert_eq!(asked.count("", text.as_bytes(), stop), None);
    let text = "\n".repeat(STOP_INTERVAL);
    assert_eq!(Counter::default().count("", text.as_bytes(), stop), None);
}

proptest! {
    #[test]
    fn names_that_are_not_remembered_are_counted_the_same(
        texts in prop::collection::vec("(fn |struct )?[a-cA-C_ß]{1,3}|[ (,]|über|é|重试", 0..60),
        most_forms in 1..60usize,
    ) {
        let mut counter = Counter { most_forms, ..Counter::default() };
        for text in [texts.join(" "), texts[texts.len() / 2..].join(" ")] {
            let counted = counter.count("a/b_c.rs", text.as_bytes(), || false);
            prop_assert_eq!(counted, Some(record("a/b_c.rs", &text)));
        }
        let german = "aa bb cc dd und ist nicht wird der die das ein eine mit auf";
        let mut few = Counter { most_forms: 1, ..Counter::default() };
        prop_assert_eq!(few.count("", german.as_bytes(), || false), None);
    }

    #[test]
    fn both_ways_of_counting_agree(
        words in prop::collection::vec("(fn |struct )?[a-cA-C_ß]{1,4}[({]?|é|über|und|nicht|ist|wird|重试|\\n", 0..40),
    ) {
        let text = words.join(" ");
        let all = record("a/b_c.rs", &text);
        let keys: Vec<u32> = all.entries.iter().map(|entry| entry.key).collect();
        for keys in [&keys[..], &keys[..keys.len() / 2], &[]] {
            let all_letters: Vec<[u8; 1]> = (0..=127u8).map(|byte| [byte]).collect();
            let begins = all_letters.iter().map(|letter| &letter[..]);
            let asked = AskedTerms::new(keys.iter().copied(), Beginnings::of(begins), [].into_iter());
            let some = asked.count("a/b_c.rs", text.as_bytes(), || false).unwrap();
            let expected = all.entries.iter().filter(|entry| keys.contains(&entry.key));
            prop_assert_eq!(some.entries, expected.copied().collect::<Vec<_>>());
            prop_assert_eq!((some.words, some.lines), (all.words, all.lines));
        }
    }
}
