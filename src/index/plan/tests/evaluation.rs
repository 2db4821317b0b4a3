//! Tests the evaluation over blocks against sets of n-grams and against brute force.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

use super::{parse, shown};
use crate::index::gram::Gram;
use crate::index::plan::char_seq::{CharSeq, Position};
use crate::index::plan::evaluate::{AllOf, Compiler};
use crate::index::plan::path::{self, UnusedParts};
use crate::index::plan::requirement::{Conjunction, TextRequirement};
use crate::index::plan::{BLOCK_FILES, BlockRows, Mask, Reason, Scratch, Strategy, SupersetSafe};

/// The n-grams of each file of a block.
type Files = Vec<BTreeSet<Gram>>;

/// A block that answers exactly for the requested files, and arbitrarily for other files.
struct Rows<'a> {
    grams: &'a [Gram],
    files: &'a Files,
    asked: Vec<u32>,
}

impl BlockRows for Rows<'_> {
    fn mask(&mut self, gram: u32, within: &Mask) -> Mask {
        assert!(!within.is_zero(), "nothing is left to ask about");
        self.asked.push(gram);
        let mut holds = Mask::EMPTY;
        for (n, file) in self.files.iter().enumerate() {
            if file.contains(&self.grams[gram as usize]) {
                holds.insert(n);
            }
        }
        holds.or(&Mask::FULL.without(within))
    }
}

fn grams_of(text: &str) -> BTreeSet<Gram> {
    let chars: Vec<char> = text.chars().collect();
    Gram::all_in(&chars).collect()
}

fn numbers(mask: &Mask) -> Vec<usize> {
    (0..BLOCK_FILES).filter(|&n| mask.contains(n)).collect()
}

/// Evaluates a plan over files. Returns the kept files and the number of queries.
fn kept(plan: &SupersetSafe, files: &Files) -> (Vec<usize>, usize) {
    let mut rows = Rows {
        grams: plan.grams(),
        files,
        asked: Vec::new(),
    };
    let live = Mask::first(files.len());
    let kept = plan.evaluate(&mut rows, live, &mut Scratch::default());
    assert!(rows.asked.len() <= plan.cost());
    (numbers(&kept), rows.asked.len())
}

fn boolean(expression: &str) -> SupersetSafe {
    SupersetSafe::for_expression(&parse(expression), false, Strategy::Boolean)
}

/// Generates texts of few letters, so that texts often share n-grams.
fn text(letters: &'static str, len: std::ops::Range<usize>) -> impl Generator<Value = String> {
    let letters: Vec<char> = letters.chars().collect();
    prop::collection::vec(prop::sample::select(letters), len)
        .prop_map(|chars| chars.into_iter().collect())
}

/// Generates positions of one or two characters: so few that a path is used as a whole.
fn chain() -> impl Generator<Value = CharSeq> {
    let position = prop::sample::select(vec!["a", "b", "c", "ab", "bc", "ac"])
        .prop_map(|chars| Position::new(chars.chars().collect()).unwrap());
    prop::collection::vec(position, 3..8)
}

fn texts_of(chain: &[Position]) -> Vec<String> {
    chain.iter().fold(vec![String::new()], |texts, position| {
        let longer = |text: &String| {
            position
                .chars()
                .iter()
                .map(|&c| format!("{text}{c}"))
                .collect::<Vec<_>>()
        };
        texts.iter().flat_map(longer).collect()
    })
}

fn compile(needs: &Conjunction) -> (AllOf, Vec<Gram>) {
    let mut compiler = Compiler::default();
    let all = compiler.all_of(needs);
    (all, compiler.into_grams())
}

fn nearly(expression: &str, edits: u32) -> SupersetSafe {
    SupersetSafe::nearly(&parse(expression), false, Strategy::Boolean, edits)
}

/// Applies edits to a text; an edit is an operation, a place and a letter.
fn edited(text: &str, edits: &[(u8, prop::sample::Index, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (what, at, letter) in edits {
        match what {
            0 => chars.insert(at.index(chars.len() + 1), *letter),
            1 if !chars.is_empty() => drop(chars.remove(at.index(chars.len()))),
            _ if !chars.is_empty() => {
                let at = at.index(chars.len());
                chars[at] = *letter;
            }
            _ => {}
        }
    }
    chars.into_iter().collect()
}

/// Returns true if stretches of three can cover the places, by trying each combination.
fn covered(places: &[usize], stretches: u32) -> bool {
    let Some(&first) = places.first() else {
        return true;
    };
    stretches > 0
        && (first.saturating_sub(2)..=first).any(|start| {
            let left: Vec<usize> = places
                .iter()
                .copied()
                .filter(|place| !(start..start + 3).contains(place))
                .collect();
            covered(&left, stretches - 1)
        })
}

proptest! {
    /// A file is kept if and only if the edits can explain its missing n-grams.
    #[test]
    fn plans_for_edits_agree_with_brute_force(
        literal in text("abc", 3..14),
        edits in 1u32..4,
        texts in prop::collection::vec(text("abc", 0..20), 1..40),
    ) {
        let files: Files = texts.iter().map(|text| grams_of(text)).collect();
        let chars: Vec<char> = literal.chars().collect();
        let needed: Vec<Gram> = Gram::all_in(&chars).collect();
        let plan = nearly(&literal, edits);
        let all: Vec<usize> = (0..needed.len()).collect();
        prop_assert_eq!(plan.keeps_everything(), covered(&all, edits));
        let expected: Vec<usize> = (0..files.len())
            .filter(|&n| {
                let missing: Vec<usize> =
                    all.iter().copied().filter(|&at| !files[n].contains(&needed[at])).collect();
                covered(&missing, edits)
            })
            .collect();
        prop_assert_eq!(kept(&plan, &files).0, expected);
    }

    /// A file is kept for every edit and every surrounding text.
    #[test]
    fn texts_within_the_edits_are_kept(
        parts in prop::collection::vec((text("abcdef", 1..9), text("xyz", 0..6)), 1..4),
        edits in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), prop::sample::select(vec!['a', 'é', 'x'])), 0..5),
        more in 0u32..2,
        around in text("abcx", 0..6),
    ) {
        let expression: Vec<&str> = parts.iter().map(|(part, _)| part.as_str()).collect();
        let word: String = parts.iter().map(|(part, gap)| format!("{part}{gap}")).collect();
        let found = format!("{around}{}{around}", edited(&word, &edits));
        let plan = nearly(&expression.join("[x-z]*"), edits.len() as u32 + more);
        prop_assert_eq!(kept(&plan, &vec![grams_of(&found)]).0, vec![0]);
    }

    /// If a file is kept, every split of the literal into pieces keeps it.
    #[test]
    fn splitting_a_literal_never_excludes_more_files(
        literal in text("abcd", 6..16),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        texts in prop::collection::vec(text("abcd", 0..30), 1..40),
    ) {
        let files: Files = texts.iter().map(|text| grams_of(text)).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(literal.len() + 1)).collect();
        cuts.extend([0, literal.len()]);
        cuts.sort_unstable();
        let pieces: Vec<BTreeSet<Gram>> =
            cuts.windows(2).map(|cut| grams_of(&literal[cut[0]..cut[1]])).collect();
        let plan = nearly(&literal, pieces.len() as u32 - 1);
        for n in kept(&plan, &files).0 {
            prop_assert!(pieces.iter().any(|piece| piece.is_subset(&files[n])));
        }
    }

    #[test]
    fn a_literal_keeps_exactly_the_files_with_all_its_ngrams(
        literal in text("abc", 3..7),
        texts in prop::collection::vec(text("abc", 0..40), 1..60),
    ) {
        let plan = SupersetSafe::for_literal(&literal, false);
        let files: Files = texts.iter().map(|text| grams_of(text)).collect();
        let needed = grams_of(&literal);
        let expected: Vec<usize> =
            (0..files.len()).filter(|&n| needed.is_subset(&files[n])).collect();
        prop_assert_eq!(kept(&plan, &files).0, expected);
    }

    /// The path search finds a file if and only if the file holds all n-grams of one of the texts.
    /// The same holds for the parts of a cut chain.
    #[test]
    fn paths_are_followed_as_by_brute_force(
        chain in chain(),
        texts in prop::collection::vec(text("abc", 0..20), 1..30),
    ) {
        let files: Files = texts.iter().map(|text| grams_of(text)).collect();
        let brute: Vec<usize> = (0..files.len())
            .filter(|&n| texts_of(&chain).iter().any(|text| grams_of(text).is_subset(&files[n])))
            .collect();
        let whole = Conjunction::from([TextRequirement::Path(chain.clone())]);
        let mut unused = UnusedParts::default();
        let parts = path::requirements(&chain, false, &mut unused);
        prop_assert_eq!(unused, UnusedParts::default());
        for needs in [whole, parts] {
            let (all, grams) = compile(&needs);
            let mut rows = Rows { grams: &grams, files: &files, asked: Vec::new() };
            let live = Mask::first(files.len());
            let found = all.evaluate(&mut rows, live, &mut Scratch::default());
            prop_assert_eq!(numbers(&found), brute.clone());
        }
    }

}

proptest! {
    // Each case has hundreds of files, so few cases suffice.
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A block gives the results of its files, in any order of tests, and no file that was not
    /// live.
    #[test]
    fn a_block_is_evaluated_file_by_file(
        expression in prop::sample::select(vec![
            "aab", "aab|bca", "(aab|bca).*[ab]c[ab]", "[abc]{4}", "[ab]{3}c", "a[bc]a(b|cc)a",
            "(a.*bcb|[ab]bc[ab]|ccc)", "aaab.*(bbc|cca|[ab]ca)", "(?:ab|bc)(?:ca|cb)(?:a|bb)",
        ]),
        texts in prop::collection::vec(text("abc", 0..30), 1..BLOCK_FILES),
        live in prop::array::uniform8(any::<u64>()),
        weights in prop::collection::vec(0u32..4, 1..20),
    ) {
        let mut plan = boolean(expression);
        prop_assert!(!plan.keeps_everything());
        let files: Files = texts.iter().map(|text| grams_of(text)).collect();
        let alone = |plan: &SupersetSafe| -> Vec<usize> {
            (0..files.len()).filter(|&n| kept(plan, &vec![files[n].clone()]).0 == [0]).collect()
        };
        let expected = alone(&plan);
        prop_assert_eq!(&kept(&plan, &files).0, &expected);
        let mut at = 0;
        plan.order_by(|_| {
            at += 1;
            weights[at % weights.len()]
        });
        prop_assert_eq!(at, plan.grams().len());
        prop_assert_eq!(&alone(&plan), &expected);
        let mut rows = Rows { grams: plan.grams(), files: &files, asked: Vec::new() };
        let live = Mask(live).and(&Mask::first(files.len()));
        let mut scratch = Scratch::default();
        let some = plan.evaluate(&mut rows, live, &mut scratch);
        let expected: Vec<usize> = expected.into_iter().filter(|&n| live.contains(n)).collect();
        prop_assert_eq!(numbers(&some), expected.clone());
        // Buffers of an earlier evaluation do not affect the next one.
        let again = plan.evaluate(&mut rows, live, &mut scratch);
        prop_assert_eq!(numbers(&again), expected);
    }
}

#[test]
fn the_rarest_ngram_is_tested_first_and_an_empty_block_ends_the_test() {
    let mut plan = SupersetSafe::for_literal("abcdef", false);
    let files: Files = vec![grams_of("abcdXef"), grams_of("abcdeX")];
    assert_eq!(kept(&plan, &files), (vec![], 4));
    let rare = Gram::new(['d', 'e', 'f']);
    plan.order_by(|gram| if gram == rare { 1 } else { 7 });
    assert_eq!(kept(&plan, &files), (vec![], 1));
    let everything = SupersetSafe::for_literal("ab", false);
    assert_eq!(kept(&everything, &files), (vec![0, 1], 0));
    let mut rows = Rows {
        grams: plan.grams(),
        files: &files,
        asked: Vec::new(),
    };
    plan.evaluate(&mut rows, Mask::EMPTY, &mut Scratch::default());
    assert_eq!(rows.asked, [0u32; 0]);
}

#[test]
fn ties_are_broken_by_the_ngrams() {
    let asked = |literal: &str, frequency: fn(Gram) -> u32| {
        let mut plan = SupersetSafe::for_literal(literal, false);
        plan.order_by(frequency);
        let files: Files = vec![grams_of(literal)];
        let mut rows = Rows {
            grams: plan.grams(),
            files: &files,
            asked: Vec::new(),
        };
        plan.evaluate(&mut rows, Mask::first(1), &mut Scratch::default());
        let asked = rows.asked.iter().map(|&gram| plan.grams()[gram as usize]);
        asked
            .map(|gram| gram.chars().iter().collect())
            .collect::<Vec<String>>()
    };
    assert_eq!(asked("cbabc", |_| 3), ["abc", "bab", "cba"]);
    let by_middle = |gram: Gram| u32::from(gram.chars()[1] == 'b');
    assert_eq!(asked("cbabc", by_middle), ["bab", "abc", "cba"]);
}

#[test]
fn alternatives_are_tested_for_open_files_only() {
    let mut plan = boolean("abcd|wxyz");
    let files: Files = vec![grams_of("abcd"), grams_of("abcd")];
    assert_eq!(kept(&plan, &files), (vec![0, 1], 2));
    // The alternative that more files fulfil comes first.
    let files: Files = vec![grams_of("wxyz"), grams_of("wxyz")];
    assert_eq!(kept(&plan, &files), (vec![0, 1], 3));
    plan.order_by(|gram| if gram.chars()[0] >= 'w' { 9 } else { 1 });
    assert_eq!(kept(&plan, &files), (vec![0, 1], 2));
}

#[test]
fn ways_to_the_same_place_are_tested_for_open_files_only() {
    let plan = boolean("[ab]cd");
    assert_eq!(kept(&plan, &vec![grams_of("acd")]), (vec![0], 1));
    assert_eq!(kept(&plan, &vec![grams_of("bcd")]), (vec![0], 2));
}

/// Only a limited number of copies is examined. The plan does not conclude that there are no more.
#[test]
fn copies_beyond_the_limit_are_not_forgotten() {
    let file = grams_of("y01234567890123456789z");
    let plan = boolean("y[0-9]{20}z");
    assert_eq!(kept(&plan, &vec![file.clone()]).0, [0]);
    let plan = boolean("y[0-9]{14}z");
    assert_eq!(kept(&plan, &vec![file]).0, [0usize; 0]);
}

#[test]
fn what_alternatives_share_is_tested_once() {
    let plan = boolean("kmalloc_array|kmalloc_node");
    let files: Files = vec![grams_of("free"); 3];
    assert_eq!(kept(&plan, &files), (vec![], 1));
    assert_eq!(plan.cost(), 6 + 5 + 4);
}

/// Nearly every file has single n-grams of the expression, but few files have whole paths.
#[test]
fn an_expression_without_literals_excludes_files() {
    let plan = boolean("[a-z]{3}_[0-9]{4}_[a-z]{2}");
    let files: Files = [
        "x = abc_1234_de;",
        "abc_123 234_de 1234 c_12 34_d _de",
        "abc_123_de 4_de",
        "abc_1234_DE",
        "ab c_1234_de",
        "",
    ]
    .map(grams_of)
    .to_vec();
    let found = kept(&plan, &files).0;
    assert_eq!(found, [0, 1]);
}

#[test]
fn what_cannot_match_keeps_nothing() {
    let plan = boolean(r"foo[^\s\S]");
    assert_eq!(kept(&plan, &vec![grams_of("foo")]), (vec![], 0));
    assert!(!plan.keeps_everything() && plan.reason().is_none());
}

#[test]
fn a_path_is_read_from_the_end_that_excludes_more() {
    let plan = boolean("[0-9]{4}_x");
    // Ten queries show that no file holds a digit before `_x`.
    assert_eq!(kept(&plan, &vec![grams_of("1234 _x")]), (vec![], 10));
    assert_eq!(
        shown("[0-9]{4}_x", false, Strategy::Boolean),
        "/[0-9][0-9][0-9][0-9]_x/"
    );
    assert_eq!(boolean("[0-9a-f]{3}").reason(), Some(Reason::TooManyNgrams));
}

#[test]
fn plans_are_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&boolean("abc|def"));
}
