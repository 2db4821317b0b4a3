//! Characters, and the nodes of an automaton that match each of them.

use super::automaton::{Automaton, Node};

/// A table of node sets by character.
#[derive(Clone, Debug)]
pub(crate) struct Alphabet {
    words: usize,
    /// One set for each ASCII character.
    ascii: Box<[u64]>,
    /// The starts of ranges of non-ASCII characters, in ascending order. Each range has its own
    /// set. Before the first range no node matches.
    starts: Box<[u32]>,
    others: Box<[u64]>,
    nothing: Box<[u64]>,
}

impl Alphabet {
    /// Builds the sets of an automaton, with one bit for each node. Takes time proportional to the
    /// ranges of all classes, times the words of a set.
    pub(crate) fn new(automaton: &Automaton) -> Alphabet {
        let words = automaton.nodes.len().div_ceil(64).max(1);
        let mut members = vec![vec![0u64; words]; automaton.classes.len()];
        for (at, node) in automaton.nodes.iter().enumerate() {
            if let Node::Char(class) = node {
                members[*class as usize][at / 64] |= 1 << (at % 64);
            }
        }
        let mut starts = Vec::new();
        for class in &automaton.classes {
            for range in class.iter() {
                let (start, end) = (range.start() as u32, range.end() as u32);
                starts.extend([start, end + 1].into_iter().filter(|&start| start >= 128));
                if start < 128 && end >= 128 {
                    starts.push(128);
                }
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let mut ascii = vec![0; 128 * words];
        let mut others = vec![0; starts.len() * words];
        for (class, members) in automaton.classes.iter().zip(&members) {
            for range in class.iter() {
                let (start, end) = (range.start() as u32, range.end() as u32);
                for c in start..=end.min(127) {
                    add(&mut ascii, c as usize, members);
                }
                let from = starts.partition_point(|&at| at < start);
                let to = starts.partition_point(|&at| at <= end);
                for at in from..to {
                    add(&mut others, at, members);
                }
            }
        }
        Alphabet {
            words,
            ascii: ascii.into(),
            starts: starts.into(),
            others: others.into(),
            nothing: vec![0; words].into(),
        }
    }

    /// Returns the number of words of a set.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Returns the nodes that match a character. `None` stands for invalid bytes, which no node
    /// matches.
    pub(crate) fn nodes(&self, c: Option<char>) -> &[u64] {
        let c = match c {
            Some(c) => c as usize,
            None => return &self.nothing,
        };
        let (sets, at) = match c {
            0..128 => (&self.ascii, c),
            _ => match self.starts.partition_point(|&start| start as usize <= c) {
                0 => return &self.nothing,
                at => (&self.others, at - 1),
            },
        };
        &sets[at * self.words..][..self.words]
    }

    /// Returns the sets of the ASCII characters if each set is one word.
    pub(crate) fn narrow(&self) -> Option<&[u64; 128]> {
        (&*self.ascii).try_into().ok()
    }
}

fn add(sets: &mut [u64], at: usize, members: &[u64]) {
    let words = members.len();
    for (set, members) in sets[at * words..].iter_mut().zip(members) {
        *set |= members;
    }
}

/// Returns the first character of a non-empty text and its length in bytes. An invalid sequence
/// gives `None`, with the length that one replacement character would stand for.
pub(crate) fn first_char(text: &[u8]) -> (Option<char>, usize) {
    match text.first() {
        Some(byte @ 0..128) => (Some(*byte as char), 1),
        _ => bstr::decode_utf8(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::matching::pattern::Pattern;
    use crate::exec::question::query::Fold;

    /// Compares with a search for each class on its own.
    #[test]
    fn each_character_has_the_nodes_whose_classes_have_it() {
        let classes = [
            "a",
            "[^k]",
            r"\w",
            "é",
            "[z-é]",
            r"\d",
            r"[\x7f-\x{80}]",
            r"[^\x00-\x{10fffe}]",
            ".",
        ];
        let text = classes.repeat(9).concat();
        let pattern = Pattern::compile(&text, false, Fold::Sensitive, false).unwrap();
        let automaton = Automaton::new(pattern.hir(), true).unwrap();
        let alphabet = Alphabet::new(&automaton);
        assert_eq!((alphabet.words(), alphabet.narrow()), (2, None));
        let singly = classes.map(|class| regex_automata::meta::Regex::new(class).unwrap());
        let chars = ('\0'..'\u{3000}')
            .chain('\u{10fff0}'..=char::MAX)
            .chain(['\u{ffff}', '\u{1F600}']);
        for c in chars {
            let nodes = alphabet.nodes(Some(c));
            for at in 0..classes.len() * 9 {
                let found = nodes[at / 64] >> (at % 64) & 1 == 1;
                let one = &singly[at % classes.len()];
                assert_eq!(found, one.is_match(&c.to_string()), "{c:?} {at}");
            }
        }
        assert_eq!(alphabet.nodes(None), [0, 0]);
    }

    #[test]
    fn what_is_no_character_is_as_long_as_it_is_shown() {
        for text in [
            &b"\xFFa"[..],
            b"\xE2\x82",
            b"\xC3(",
            b"\xF0\x9F\x98a",
            b"\x80\x80",
            "aé😀".as_bytes(),
        ] {
            let mut units = 0;
            let mut rest = text;
            while !rest.is_empty() {
                let (_, len) = first_char(rest);
                (units, rest) = (units + 1, &rest[len..]);
            }
            assert_eq!(
                units,
                String::from_utf8_lossy(text).chars().count(),
                "{text:?}"
            );
        }
    }
}
