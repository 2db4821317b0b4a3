//! Tests query plans over n-grams against the matcher. Expressions and texts are random, and made
//! so that they often match.

use std::cell::Cell;
use std::ops::RangeInclusive;

use forge_search::internal::exec::matching::pattern::Pattern;
use forge_search::internal::exec::question::query::Fold;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::fuzz_replay::plan::{Claims, Outcome};
use crate::support::seeds;

/// How many texts each expression is tried on.
const TEXTS: u64 = 6;

/// Pieces of which expressions and texts are made.
///
/// The letters are few, so that n-grams recur, and in both cases. The other pieces are difficult
/// for normalization, folding, decoding or line ends.
const PIECES: &[&str] = &[
    "a",
    "b",
    "k",
    "K",
    "s",
    "S",
    "h",
    "H",
    "i",
    "I",
    "e",
    "q",
    "_",
    "0",
    "1",
    " ",
    "ab",
    "foo",
    "kma",
    "é",
    "É",
    "\u{301}",
    "\u{323}",
    "\u{331}",
    "\u{307}",
    "\u{338}",
    "\u{1100}",
    "\u{1161}",
    "\u{11A8}",
    "\u{AC00}",
    "\u{AC01}",
    "\u{212A}",
    "\u{17F}",
    "\u{FFFD}",
    "\u{FEFF}",
    "\r",
    "\t",
    "日",
    "\u{10FFFF}",
    "\u{2126}",
    "\u{93C}",
    "\u{915}",
];

/// Words for texts that are long and plain enough for n-grams, and share n-grams.
const WORDS: &[&str] = &[
    "ab", "abc", "bcd", "cab", "aba", "foo", "oof", "Kma", "kma", "x_0", "_0_",
];

/// An expression that can also generate texts that it matches.
#[derive(Clone, Debug)]
enum Node {
    Text(&'static str),
    /// The members, and whether the class is negated.
    Class(Vec<&'static str>, bool),
    Digits,
    Dot,
    Byte(u8),
    Bytes,
    Look(&'static str),
    Row(Vec<Node>),
    Either(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    Group(Box<Node>),
    AnyCase(Box<Node>),
}

/// Plain words and common constructs around them. When all n-grams are alike, mistakes in the
/// analysis of expressions are the most likely to show.
fn plain_leaf() -> impl Strategy<Value = Node> {
    let word = || prop::sample::select(WORDS).prop_map(Node::Text);
    let letter = prop::sample::select(vec!["a", "b", "c", "C"]);
    prop_oneof![
        8 => word(),
        1 => prop::collection::vec(word(), 4..12).prop_map(Node::Either),
        2 => prop::collection::vec(letter, 1..4).prop_map(|letters| Node::Class(letters, false)),
        1 => Just(Node::Digits),
        1 => Just(Node::Dot),
        2 => Just(Node::Repeat(Box::new(Node::Dot), 0, None)),
    ]
}

/// Leaves of every kind, also invalid UTF-8 and assertions.
fn hostile_leaf() -> impl Strategy<Value = Node> {
    let piece = prop::sample::select(PIECES);
    let member = prop::sample::select(PIECES);
    let looks = vec!["^", "$", r"\b", r"\B", "", r"\b{start-half}"];
    prop_oneof![
        20 => plain_leaf(),
        20 => piece.prop_map(Node::Text),
        5 => (prop::collection::vec(member, 1..4), prop::bool::weighted(0.1))
            .prop_map(|(members, negated)| Node::Class(members, negated)),
        3 => prop::sample::select(looks).prop_map(Node::Look),
        1 => prop::sample::select(vec![0xFF, 0xC3, 0xA9]).prop_map(Node::Byte),
        1 => Just(Node::Bytes),
    ]
}

fn node(leaf: impl Strategy<Value = Node> + 'static) -> impl Strategy<Value = Node> {
    leaf.prop_recursive(5, 40, 6, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            8 => prop::collection::vec(inner.clone(), 2..7).prop_map(Node::Row),
            4 => prop::collection::vec(inner, 2..4).prop_map(Node::Either),
            2 => (boxed.clone(), 0..4u32, prop::option::of(0..3u32))
                .prop_map(|(node, min, more)| Node::Repeat(node, min, more.map(|more| min + more))),
            1 => boxed.clone().prop_map(Node::Group),
            1 => boxed.prop_map(Node::AnyCase),
        ]
    })
}

impl Node {
    fn write(&self, out: &mut String) {
        match self {
            Node::Text(text) => out.push_str(&regex_syntax::escape(text)),
            Node::Class(members, negated) => {
                out.push_str(if *negated { "[^" } else { "[" });
                members.iter().for_each(|member| out.push_str(member));
                out.push(']');
            }
            Node::Digits => out.push_str("[0-9]"),
            Node::Dot => out.push('.'),
            Node::Byte(byte) => out.push_str(&format!(r"(?-u:\x{byte:02X})")),
            Node::Bytes => out.push_str(r"(?-u:[\x80-\xFF])"),
            Node::Look(look) => out.push_str(look),
            Node::Row(nodes) => nodes.iter().for_each(|node| node.write(out)),
            Node::Either(nodes) => {
                out.push_str("(?:");
                for (n, node) in nodes.iter().enumerate() {
                    out.push_str(if n > 0 { "|" } else { "" });
                    node.write(out);
                }
                out.push(')');
            }
            Node::Repeat(node, min, max) => {
                out.push_str("(?:");
                node.write(out);
                out.push(')');
                match max {
                    Some(max) => out.push_str(&format!("{{{min},{max}}}")),
                    None => out.push_str(&format!("{{{min},}}")),
                }
            }
            Node::Group(node) => {
                out.push('(');
                node.write(out);
                out.push(')');
            }
            Node::AnyCase(node) => {
                out.push_str("(?i:");
                node.write(out);
                out.push(')');
            }
        }
    }

    /// Writes a text that the expression matches. Assertions are ignored.
    fn sample(&self, random: &mut Random, any_case: bool, out: &mut Vec<u8>) {
        match self {
            Node::Text(text) => random.cased(text, any_case, out),
            Node::Class(members, false) => {
                let member = *random.of::<&str>(members);
                random.cased(member, any_case, out);
            }
            Node::Class(..) | Node::Dot => out.extend_from_slice(random.of(PIECES).as_bytes()),
            Node::Digits => out.push(b'0' + random.below(10) as u8),
            Node::Byte(byte) => out.push(*byte),
            Node::Bytes => out.push(0x80 + random.below(0x80) as u8),
            Node::Look(_) => {}
            Node::Row(nodes) => nodes
                .iter()
                .for_each(|node| node.sample(random, any_case, out)),
            Node::Either(nodes) => random.of(nodes).sample(random, any_case, out),
            Node::Repeat(node, min, max) => {
                let more = random.below(u64::from(max.unwrap_or(min + 3) - min) + 1) as u32;
                (0..min + more).for_each(|_| node.sample(random, any_case, out));
            }
            Node::Group(node) => node.sample(random, any_case, out),
            Node::AnyCase(node) => node.sample(random, true, out),
        }
    }
}

/// A small random number generator, for choices that need no shrinking.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        let mut x = self.0;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0 = x;
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end.max(1)
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    fn cased(&mut self, text: &str, any_case: bool, out: &mut Vec<u8>) {
        for byte in text.bytes() {
            let flip = any_case && byte.is_ascii_alphabetic() && self.below(2) == 0;
            out.push(if flip { byte ^ 0x20 } else { byte });
        }
    }

    /// Writes up to three pieces that are independent of the expression.
    fn noise(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            match self.below(12) {
                0 => out.extend_from_slice(b"\r\n"),
                1 => out.push(b'\n'),
                2 => out.push(self.of(&[0xFF, 0xC3, 0xE2, 0x80]).to_owned()),
                _ => out.extend_from_slice(self.of(PIECES).as_bytes()),
            }
        }
    }
}

/// Writes a text in which the expression is likely to match within `edits` edits. In one text of
/// four, one byte of the sample is removed.
fn text(node: &Node, random: &mut Random, any_case: bool, edits: u32) -> Vec<u8> {
    let mut out = Vec::new();
    // These characters are valid, so that fewer texts count as binary.
    out.extend_from_slice(
        random
            .of(&["", "", "line\n", "some more text\r\n"])
            .as_bytes(),
    );
    random.noise(&mut out);
    let from = out.len();
    node.sample(random, any_case, &mut out);
    if random.below(4) == 0 && out.len() > from {
        out.remove(from + random.below((out.len() - from) as u64) as usize);
    }
    // Makes up to `edits` + 1 edits, one more than a match allows.
    for _ in 0..random.below(u64::from(edits) + 2) {
        let at = from + random.below((out.len() - from) as u64 + 1) as usize;
        let piece = match random.below(3) {
            0 => "",
            _ => random.of(PIECES),
        };
        let taken = random.below(2) as usize;
        let end = (at + taken).min(out.len());
        out.splice(at..end, piece.bytes());
    }
    random.noise(&mut out);
    out
}

/// Checks that plans never exclude a text with a match, under both strategies and folds. Also
/// checks that enough texts were proven to match, and enough were excluded.
fn check(cases: u64, nodes: impl Strategy<Value = Node>, edits: RangeInclusive<u32>) {
    let cases = Config::default().cases.max(u32::try_from(cases).unwrap());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let seen: Cell<[u32; 5]> = Cell::default();
    let inputs = (
        nodes,
        any::<bool>(),
        prop::bool::weighted(0.1),
        any::<u64>(),
        edits.clone(),
    );
    let result = runner.run(&inputs, |(node, any_case, word, seed, edits)| {
        let mut expression = String::new();
        node.write(&mut expression);
        let fold = if any_case {
            Fold::AsciiInsensitive
        } else {
            Fold::Sensitive
        };
        let Ok(pattern) = Pattern::compile(&expression, false, fold, word) else {
            return Ok(());
        };
        let mut claims = Claims::new(pattern, edits);
        let mut random = Random::new(seed);
        for _ in 0..TEXTS {
            let outcome = claims.check(&text(&node, &mut random, any_case, edits));
            let mut counts = seen.get();
            counts[outcome as usize] += 1;
            seen.set(counts);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let seen = seen.get();
    let of = |outcome: Outcome| seen[outcome as usize];
    println!("{cases} expressions: {seen:?}");
    let tested = if *edits.end() == 0 { 2 } else { 6 };
    assert!(of(Outcome::Proven) > cases / tested, "{seen:?}");
    assert!(of(Outcome::Excluded) > cases / 20, "{seen:?}");
}

#[test]
fn no_plan_excludes_a_text_with_a_match() {
    check(seeds(2_000), node(hostile_leaf()), 0..=0);
}

#[test]
fn no_plan_of_plain_words_excludes_a_text_with_a_match() {
    check(seeds(3_000), node(plain_leaf()), 0..=0);
}

#[test]
fn no_plan_for_edits_excludes_a_text_within_them() {
    // The word is so long that edits can't change every n-gram of it.
    let word = prop::sample::select(vec!["needle", "_abcdef_", "Kmakma0", "straße"]);
    let hostile = (
        node(hostile_leaf()),
        word,
        node(hostile_leaf()),
        hostile_leaf(),
    );
    let hostile = hostile.prop_map(|(a, word, b, c)| Node::Row(vec![a, Node::Text(word), b, c]));
    check(seeds(2_000), hostile, 1..=3);
    let rows = prop::collection::vec(plain_leaf(), 5..10).prop_map(Node::Row);
    check(seeds(3_000), rows, 1..=2);
}
