//! How well a piece of code answers a question, by the words and names in it.

use super::document::Hit;
use super::score::bm25;

/// The length of an ordinary piece, in bytes.
const PIECE_BYTES: f64 = 1000.0;

/// The weight of defined names in a piece. The weight of its text is 1.
const DEFINES: f64 = 0.8;

/// The weight of the share of a defined name that the question has.
const NAME_PRECISION: f64 = 0.6;

/// The weight of how much a defined name is the question.
const SAME_NAME: f64 = 0.6;

/// The weight of a definition of the name that the question asks for.
const ASKED: f64 = 3.0;

/// The most bytes from the start of a word to the start of the one beside it.
const BESIDE: usize = 40;

/// How well the pieces of a file answer a question. Each number is the highest one of all pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PieceScores {
    /// The score of the text by BM25. It compares pieces of different files.
    pub text: f64,
    /// How much a defined name of several words is the question, from 0 to 1: the share of the
    /// question that the name has, times the share of the name that the question has.
    pub name: f64,
    /// The share of the question in pairs of its words that stand beside each other, from 0 to 1.
    pub pairs: f64,
    /// How alike the meanings of the question and of a piece are, from 0 to 1. It is 0 if the
    /// question has no meaning that is compared.
    pub likeness: f64,
}

impl PieceScores {
    /// Takes the numbers of a piece that are higher. They count in part: `factor` of 1.
    pub(super) fn raise_to(&mut self, piece: &PieceScores, factor: f64) {
        self.text = self.text.max(factor * piece.text);
        self.name = self.name.max(factor * piece.name);
        self.pairs = self.pairs.max(factor * piece.pairs);
        self.likeness = self.likeness.max(factor * piece.likeness);
    }
}

/// The words and names of the question that a piece has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// The scores of the piece, without likeness.
    pub(super) scores: PieceScores,
    /// The score of the text as a share of the question.
    text: f64,
    /// The share of the question in the names that it defines.
    defined: f64,
    /// The largest share of a defined name of several words that the question has.
    precision: f64,
    /// Hundredths that the definition of a name counts for because the question asks for it.
    asked: u32,
}

impl Found {
    /// Looks at the hits of a piece of some bytes. `rarity` says how much each term counts.
    pub(super) fn of(hits: &[Hit], rarity: &[f64], bytes: usize) -> Found {
        let all: f64 = rarity.iter().sum::<f64>().max(1e-9);
        let share = |terms: u64| {
            let some = rarity.iter().enumerate();
            let some = some.filter(|(term, _)| terms >> (term % 64) & 1 == 1);
            some.map(|(_, rarity)| rarity).sum::<f64>() / all
        };
        let text = text_score(hits, rarity, bytes);
        let mut found = Found {
            text: text / all,
            asked: hits.iter().map(|hit| hit.asked).max().unwrap_or(0),
            ..Found::default()
        };
        let mut defined = 0;
        for line in hits.chunk_by(|a, b| a.line_end == b.line_end) {
            let (mut terms, mut parts, mut words) = (0u64, 0u64, 0);
            for hit in line.iter().filter(|hit| hit.defines) {
                words = hit.name_words;
                terms |= 1 << (hit.term % 64);
                // A name of one word is whole, and says too little by itself.
                parts |= u64::from(!hit.whole) << (hit.term % 64);
            }
            defined |= terms;
            let precision = f64::from(parts.count_ones()) / f64::from(words.max(1));
            let precision = precision.min(1.0);
            found.precision = found.precision.max(precision);
            found.scores.name = found.scores.name.max(share(terms) * precision);
        }
        found.defined = share(defined);
        found.scores.text = text;
        found.scores.pairs = pairs(hits, rarity) / all;
        found
    }

    /// Returns how well the piece answers: its text as a share of the question, and the names that
    /// it defines. It compares pieces of one file.
    pub(super) fn worth(&self) -> f64 {
        self.text
            + DEFINES * self.defined
            + NAME_PRECISION * self.precision
            + SAME_NAME * self.scores.name
            + ASKED * f64::from(self.asked) / 100.0
    }
}

/// Returns the score of a piece with these hits by BM25, with the rarities of terms among files.
fn text_score(hits: &[Hit], rarity: &[f64], bytes: usize) -> f64 {
    let mut counts = vec![0.0; rarity.len()];
    for hit in hits {
        if let Some(count) = counts.get_mut(hit.term) {
            *count += 1.0;
        }
    }
    let score = |(count, rarity): (&f64, &f64)| bm25(*rarity, *count, bytes as f64, PIECE_BYTES);
    counts.iter().zip(rarity).map(score).sum()
}

/// Returns the rarities of adjacent terms of the question that stand beside each other in the text:
/// half of the sum of each pair, once.
fn pairs(hits: &[Hit], rarity: &[f64]) -> f64 {
    let mut firsts = 0u64;
    for two in hits.windows(2) {
        let (one, next) = (&two[0], &two[1]);
        let is_beside = (1..BESIDE).contains(&(next.start - one.start));
        if is_beside && one.term.checked_add(1) == Some(next.term) {
            firsts |= 1 << (one.term % 64);
        }
    }
    let both = rarity.windows(2).enumerate();
    let both = both.filter(|(first, _)| firsts >> (first % 64) & 1 == 1);
    both.map(|(_, two)| (two[0] + two[1]) / 2.0).sum()
}

#[cfg(test)]
mod tests {
    use super::super::{SourceText, Terms, hits};
    use super::*;

    /// Looks at a text as one piece, with terms that are equally rare.
    fn found(question: &str, text: &str) -> Found {
        let terms = Terms::new(question).unwrap();
        let source = SourceText::of(text.as_bytes(), "a.rs");
        let mut hits = hits(&terms, &source, || false);
        hits.sort_by_key(|hit| (hit.start, hit.term));
        Found::of(&hits, &vec![1.0; terms.words().len()], text.len())
    }

    #[test]
    fn a_name_that_is_the_question_counts_more_than_parts_of_names() {
        let name = |text| found("retry failed request", text).scores.name;
        let whole = name("fn retry_failed_request() {}");
        assert!((whole - 1.0).abs() < 1e-9, "{whole}");
        // Two thirds of the question, and two thirds of the name.
        let two = name("fn retry_request_later() {}");
        assert!((two - 4.0 / 9.0).abs() < 1e-9, "{two}");
        // Words of several names are not added up, and names of one word do not count.
        let apart = name("fn retry_later() {}\nfn request_later() {}");
        assert!((apart - 1.0 / 6.0).abs() < 1e-9, "{apart}");
        assert_eq!(name("fn retry() {}"), 0.0);
        assert_eq!(name("retry_failed_request();"), 0.0);
    }

    #[test]
    fn words_beside_each_other_count_if_the_question_has_them_so() {
        let pairs = |text| found("retry failed request", text).scores.pairs;
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(pairs("retry the failed request"), 2.0 / 3.0));
        assert!(near(pairs("retry failed, retry failed"), 1.0 / 3.0));
        assert!(near(pairs("retryFailed"), 1.0 / 3.0));
        assert_eq!(pairs("request failed retry"), 0.0);
        let apart = format!("failed{}request", " ".repeat(BESIDE));
        assert_eq!(pairs(&apart), 0.0);
        assert_eq!(found("retry", "retry retry").scores.pairs, 0.0);
    }

    #[test]
    fn the_scores_of_a_file_are_the_highest_of_its_pieces() {
        let one = PieceScores {
            text: 2.0,
            name: 0.1,
            pairs: 0.5,
            likeness: 0.0,
        };
        let mut all = PieceScores {
            text: 1.5,
            name: 0.2,
            ..PieceScores::default()
        };
        all.raise_to(&one, 0.5);
        let expected = PieceScores { pairs: 0.25, ..all };
        assert_eq!(all, expected);
        assert_eq!((all.text, all.name), (1.5, 0.2));
        all.raise_to(&one, 1.0);
        assert_eq!((all.text, all.name, all.pairs), (2.0, 0.2, 0.5));
    }
}
