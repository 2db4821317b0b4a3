//! How well a piece of code answers a question, by the words and names in it.

use super::document::{Hit, TermSet};
use super::score::{Rarities, TermRarities, bm25};

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

/// The most bytes from the start of a word to the start of an adjacent one.
const MAX_DISTANCE: usize = 40;

/// How well the pieces of a file answer a question. Each number is the highest one of the pieces
/// that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PieceScores {
    /// The score of the text by BM25. It compares pieces of different files.
    pub text: f64,
    /// How much the name of a function or type is the question, from 0 to 1: the share of the
    /// question that the name has, times the share of the name that the question has. Names of one
    /// word are left out.
    pub name: f64,
    /// The share of the question in words that are adjacent in it and in the text, from 0 to 1.
    /// Each neighbour counts half.
    pub pairs: f64,
    /// How alike the meanings of the question and of a piece are, from 0 to 1. It is 0 if the
    /// question has no meaning that is compared.
    pub likeness: f64,
}

impl PieceScores {
    /// Raises the scores of words and names to `factor` times those of a piece, if these are
    /// higher.
    pub(super) fn raise_to(&mut self, piece: &PieceScores, factor: f64) {
        self.text = self.text.max(factor * piece.text);
        self.name = self.name.max(factor * piece.name);
        self.pairs = self.pairs.max(factor * piece.pairs);
    }
}

/// The words and names of the question that a piece has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PieceMatch {
    /// The scores of the piece, without likeness.
    pub(super) scores: PieceScores,
    /// The score of the text as a share of the question.
    text: f64,
    /// The share of the question in the names that it defines.
    defined: f64,
    /// The largest share of a name of several words that the question has.
    precision: f64,
    /// Hundredths that the definition of a name counts for because the question asks for it.
    asked: u32,
}

impl PieceMatch {
    /// Looks at the hits of a piece of some bytes.
    pub(super) fn of(hits: &[Hit], rarities: Rarities<'_>, bytes: usize) -> PieceMatch {
        let text = text_score(hits, &rarities.text.each, bytes);
        let defined = set(hits.iter().filter(|hit| hit.defines));
        let mut found = PieceMatch {
            text: text / rarities.text.total,
            defined: rarities.text.share(defined),
            asked: hits.iter().map(|hit| hit.asked).max().unwrap_or(0),
            ..PieceMatch::default()
        };
        found.scores.text = text;
        found.scores.pairs = rarities.pairs.map_or(0.0, |rarity| pairs(hits, rarity));
        let all_parts = rarities.name.terms();
        for line in hits.chunk_by(|a, b| a.line_end == b.line_end) {
            let words = line.iter().map(|hit| hit.name_words).max().unwrap_or(0);
            if words < 2 {
                continue;
            }
            let terms = set(line.iter().filter(|hit| hit.name_words > 0));
            let parts = f64::from((terms & all_parts).count_ones());
            let precision = (parts / f64::from(words)).min(1.0);
            found.precision = found.precision.max(precision);
            let same = rarities.text.share(terms) * precision;
            found.scores.name = found.scores.name.max(same);
        }
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

/// Returns the share of the question in parts of names that are adjacent in it and in the text, in
/// the same order. Each neighbour counts half.
fn pairs(hits: &[Hit], rarities: &TermRarities) -> f64 {
    let rarity = &rarities.each;
    let is_part = |term: usize| rarity.get(term).is_some_and(|rarity| *rarity > 0.0);
    let parts: Vec<usize> = (0..rarity.len()).filter(|term| is_part(*term)).collect();
    let mut adjacent: TermSet = 0;
    let mut last: Option<&Hit> = None;
    for hit in hits.iter().filter(|hit| is_part(hit.term)) {
        let before = last.replace(hit);
        let before = before.filter(|before| hit.start - before.start <= MAX_DISTANCE);
        let pair = before.map(|before| [before.term, hit.term]);
        let nth = pair.and_then(|pair| parts.windows(2).position(|two| two == pair));
        adjacent |= nth.map_or(0, |nth| 1 << nth);
    }
    let pairs = parts.windows(2).enumerate();
    let pairs = pairs.filter(|(nth, _)| adjacent >> nth & 1 == 1);
    let some = pairs.map(|(_, pair)| (rarity[pair[0]] + rarity[pair[1]]) / 2.0);
    some.sum::<f64>() / rarities.total
}

/// Returns the terms of some hits.
fn set<'h>(hits: impl Iterator<Item = &'h Hit>) -> TermSet {
    let bits = hits.map(|hit| 1u32.checked_shl(u32::try_from(hit.term).unwrap_or(u32::MAX)));
    bits.fold(0, |set, bit| set | bit.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::{SourceText, Terms, hits};
    use super::*;

    /// Looks at a text as one piece, with terms that are equally rare.
    fn found(question: &str, text: &str) -> PieceMatch {
        found_in("a.rs", question, text)
    }

    fn found_in(path: &str, question: &str, text: &str) -> PieceMatch {
        let terms = Terms::new(question).unwrap();
        let source = SourceText::of(text.as_bytes(), path);
        let mut hits = hits(&terms, &source, || false);
        hits.sort_by_key(|hit| (hit.start, hit.term));
        let parts = |term| f64::from(terms.parts() >> term & 1);
        let name: Vec<f64> = (0..terms.words().len()).map(parts).collect();
        let of_text = TermRarities::new(vec![1.0; name.len()]);
        let of_name = TermRarities::new(name);
        let rarities = Rarities {
            text: &of_text,
            name: &of_name,
            pairs: Some(&of_name),
        };
        PieceMatch::of(&hits, rarities, text.len())
    }

    #[track_caller]
    fn is(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} {other}");
    }

    #[test]
    fn a_name_that_is_the_question_counts_more_than_parts_of_names() {
        let name = |text| found("retry failed request", text).scores.name;
        is(name("fn retry_failed_request() {}"), 1.0);
        is(name("struct RetryFailedRequest {"), 1.0);
        // Two thirds of the question, and two thirds of the name.
        is(name("fn retry_request_later() {}"), 4.0 / 9.0);
        // Words of several names are not added up.
        is(
            name("fn retry_later() {}\nfn request_later() {}"),
            1.0 / 6.0,
        );
        is(name("retry_failed_request();"), 0.0);
        is(name("const RETRY_FAILED_REQUEST: u8 = 1;"), 0.0);
        is(name("impl RetryFailedRequest {"), 0.0);
        is(
            found("parse_config", "fn parse_config() {}").scores.name,
            1.0,
        );
    }

    #[test]
    fn names_of_one_word_and_qualifiers_are_not_the_question() {
        let name = |text| found("retry request", text).scores.name;
        is(name("fn retry() {}"), 0.0);
        is(name("fn _retry() {}"), 0.0);
        let qualified = found_in(
            "a.lua",
            "retry request",
            "function retry_request.run()\nend",
        );
        is(qualified.scores.name, 0.0);
        is(qualified.defined, 1.0);
    }

    #[test]
    fn adjacent_words_count_if_they_are_adjacent_in_the_question() {
        let pairs = |text: &str| found("retry failed request", text).scores.pairs;
        is(pairs("retry the failed request"), 2.0 / 3.0);
        is(pairs("retry failed, retry failed"), 1.0 / 3.0);
        is(pairs("retryFailed"), 1.0 / 3.0);
        is(pairs("request failed retry"), 0.0);
        let apart = |bytes| format!("failed{}request", " ".repeat(bytes - "failed".len()));
        is(pairs(&apart(MAX_DISTANCE)), 1.0 / 3.0);
        is(pairs(&apart(MAX_DISTANCE + 1)), 0.0);
        is(found("retry", "retry retry").scores.pairs, 0.0);
        // A name as a whole stands between no words.
        let whole = found("retry parseConfig", "retry parse config");
        is(whole.scores.pairs, 2.0 / 3.0);
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
