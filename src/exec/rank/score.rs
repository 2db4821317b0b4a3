//! How well a file answers: its text by BM25, and the words of its path and of the names that it
//! defines.
//!
//! Text, path and definitions are summands of their own. A word that a text has five times is worth
//! little more the sixth time, but a file that is also *named* by it gains in full. Each summand is
//! a share of the question or of the best file, so the weights mean the same for every question.

use super::document::{Document, OFFERED, TermSet};
use super::pieces::PieceScores;
use super::profile::Bucket;
use super::reason::Contributions;
use super::terms::Terms;
use super::versions::Versions;

/// How soon more of the same counts for less.
const K1: f64 = 1.5;

/// How much the length of a text counts against it.
const B: f64 = 0.75;

/// What a term counts for in a text that has it with other accents than the question.
const OTHER_ACCENTS: f64 = 0.7;

/// The least that a term counts for in paths and names: also a term that is in every file names one
/// of them.
const LEAST_RARITY: f64 = 0.3;

/// How much a file counts if it is a copy, or a newer version of its directory lies beside it.
const OLD_VERSION: f64 = 0.5;

/// Scores are whole numbers of these parts, so that ties are ties on every machine.
const PARTS: f64 = 10_000.0;

/// The weight of each feature, before the weights of a profile.
mod worth {
    /// The text of the whole file, and of its best piece.
    pub(super) const TEXT: f64 = 0.55;
    pub(super) const PIECE: f64 = 0.75;
    /// Adjacent words of the question that are adjacent in a piece.
    pub(super) const PAIRS: f64 = 0.6;
    /// How alike the meanings of the question and of a piece are.
    pub(super) const MEANING: f64 = 1.5;
    /// Share of the question in the names of functions that are defined.
    pub(super) const FUNCTIONS: f64 = 0.5;
    pub(super) const TYPES: f64 = 0.2;
    pub(super) const DEFINED: f64 = 0.6;
    /// How much one defined name is the question.
    pub(super) const SAME_NAME: f64 = 0.7;
    /// Share of the question in the file's own name, and the share of the file's name that the
    /// question has.
    pub(super) const NAME: f64 = 0.9;
    pub(super) const NAME_PRECISION: f64 = 0.66;
    pub(super) const NEAR_NAME: f64 = 2.2;
    pub(super) const DIRECTORIES: f64 = 1.8;
    /// Definitions of names that the question contains.
    pub(super) const SYMBOL: f64 = 3.0;
    pub(super) const SYMBOL_FOLDED: f64 = 0.5;
    pub(super) const EMBEDDED: f64 = 0.5;
    pub(super) const JOINED: f64 = 0.4;
    /// Long files answer more, files deep down less.
    pub(super) const LINES: f64 = 0.26;
    pub(super) const DEPTH: f64 = 0.36;
}

/// The weight of each field, as a multiple of its weight in the balanced profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Words in the path.
    pub path: f64,
    /// Names that are defined.
    pub definition: f64,
    /// Terms in the text.
    pub content: f64,
    /// Files of each kind, in the order of [`Bucket::ALL`], and examples.
    pub buckets: [f64; 5],
}

/// Counts over all files together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corpus {
    /// Files that the question is about, whether they have any of its terms or not.
    pub files: u64,
    /// Files that have one.
    pub found: u64,
    /// Words of these.
    pub words: u64,
    /// Lines of the longest of these.
    pub most_lines: u64,
    /// Directories above the deepest of these.
    pub most_depth: u32,
    /// For each term, how many of these have it.
    pub with_term: Vec<u64>,
}

impl Corpus {
    /// Creates the counts over no file, for so many terms.
    pub fn new(terms: usize) -> Corpus {
        Corpus {
            with_term: vec![0; terms],
            ..Corpus::default()
        }
    }

    /// Counts a file.
    pub fn add(&mut self, document: &Document) {
        self.found += 1;
        self.words = self.words.saturating_add(document.words);
        self.most_lines = self.most_lines.max(document.lines);
        self.most_depth = self.most_depth.max(document.depth);
        for (with, count) in self.with_term.iter_mut().zip(&document.content) {
            *with += u64::from(*count > 0);
        }
    }

    /// Adds the counts over other files. The order of additions makes no difference.
    pub fn merge(&mut self, other: &Corpus) {
        self.files += other.files;
        self.found += other.found;
        self.words = self.words.saturating_add(other.words);
        self.most_lines = self.most_lines.max(other.most_lines);
        self.most_depth = self.most_depth.max(other.most_depth);
        for (with, more) in self.with_term.iter_mut().zip(&other.with_term) {
            *with += more;
        }
    }
}

/// How rare each term of a question is among the files, in the order of [`Terms::words`].
#[derive(Clone, Debug)]
pub struct TermRarities {
    pub(super) each: Vec<f64>,
    /// The sum, which is never 0.
    pub(super) total: f64,
}

impl TermRarities {
    /// Creates the rarities, and adds them up.
    pub fn new(each: Vec<f64>) -> TermRarities {
        let total = each.iter().sum::<f64>().max(1e-9);
        TermRarities { each, total }
    }

    /// Returns the share of the question that some terms are.
    pub(super) fn share(&self, terms: TermSet) -> f64 {
        let some = self.each.iter().enumerate();
        let some = some.filter(|(term, _)| terms >> term & 1 == 1);
        some.map(|(_, rarity)| rarity).sum::<f64>() / self.total
    }

    /// Returns the terms that are not of rarity 0.
    pub(super) fn terms(&self) -> TermSet {
        let each = self.each.iter().enumerate();
        each.fold(0, |set, (term, rarity)| {
            set | u32::from(*rarity > 0.0) << term
        })
    }
}

/// How rare the terms of a question are, in texts and in names.
#[derive(Clone, Copy, Debug)]
pub struct Rarities<'r> {
    /// How rare each term is, times how often the question has it.
    pub text: &'r TermRarities,
    /// How rare each term is, for terms that are parts of names; 0 for others.
    pub name: &'r TermRarities,
    /// The same for pairs of adjacent words. Absent if the words of the question have no order.
    pub pairs: Option<&'r TermRarities>,
}

/// Scores files, so that they can be compared.
#[derive(Clone, Debug)]
pub struct Scorer {
    weights: Weights,
    versions: Versions,
    /// How rare each term is, times how often the question has it.
    text_rarity: TermRarities,
    /// How rare each term is, for terms that are parts of names; 0 for others.
    name_rarity: TermRarities,
    mean_words: f64,
    most_lines: f64,
    most_depth: f64,
    /// The text score of the best file.
    best_text: f64,
    /// Whether a file defines the name that the question asks for.
    is_defined: bool,
    /// The question asks for files of this kind by name, so they count in full.
    asks_for: [bool; 5],
}

/// Stems that ask for a kind of files, in the order of [`Bucket::ALL`], and for examples.
const ASKING: [&[&str]; 5] = [
    &[],
    &["test", "spec", "mock", "bench", "benchmark", "fixtur"],
    &["doc", "document", "readm", "changelog", "guid", "manual"],
    &["config", "configur", "set", "json", "yaml", "toml", "xml"],
    &["exampl", "sampl", "demo", "vendor", "legaci", "compat"],
];

impl Scorer {
    /// Prepares for the files of a corpus; `documents` are those that are compared.
    pub fn new<'d>(
        terms: &Terms,
        corpus: &Corpus,
        documents: impl Iterator<Item = &'d Document>,
        versions: Versions,
        weights: Weights,
    ) -> Scorer {
        let files = corpus.files.max(corpus.found) as f64;
        let rarity = |with: &u64| {
            let with = *with as f64;
            (1.0 + (files - with + 0.5) / (with + 0.5)).ln()
        };
        let rarities: Vec<f64> = corpus.with_term.iter().map(rarity).collect();
        let parts = terms.parts();
        let name_rarity =
            rarities
                .iter()
                .enumerate()
                .map(|(term, rarity)| match parts >> term & 1 {
                    1 => rarity.max(LEAST_RARITY),
                    _ => 0.0,
                });
        let counts = terms.counts().map(f64::from);
        let text_rarity = rarities.iter().zip(counts);
        let text_rarity = text_rarity.map(|(rarity, count)| rarity * count);
        let mut scorer = Scorer {
            weights,
            versions,
            name_rarity: TermRarities::new(name_rarity.collect()),
            text_rarity: TermRarities::new(text_rarity.collect()),
            mean_words: (corpus.words as f64 / corpus.found.max(1) as f64).max(1.0),
            most_lines: logarithm(corpus.most_lines).max(1e-9),
            most_depth: f64::from(corpus.most_depth.max(1)),
            best_text: 1e-9,
            is_defined: false,
            asks_for: ASKING.map(|stems| terms.has_any(stems)),
        };
        for document in documents {
            scorer.best_text = scorer.text(document).max(scorer.best_text);
            scorer.is_defined |= document.symbol > OFFERED;
        }
        scorer
    }

    /// Returns the score of a file, in ten-thousandths, and the part of its text. `factor` is how
    /// much a file of its [kind](Scorer::factor) counts.
    pub fn score(&self, document: &Document, factor: f64) -> (u64, u64) {
        let text = self.text_part(document);
        let length = worth::LINES * logarithm(document.lines) / self.most_lines;
        let depth = worth::DEPTH * f64::from(document.depth) / self.most_depth;
        let all = text + self.definitions(document) + self.path_words(document) + length - depth;
        (parts(all * factor), parts(text * factor))
    }

    /// Returns the parts of [`Scorer::score`] that can be reasons for a result.
    pub fn contributions(&self, document: &Document, factor: f64) -> Contributions {
        Contributions {
            definitions: parts(self.definitions(document) * factor),
            path: parts(self.path_words(document) * factor),
            words: parts(self.text_part(document) * factor),
            meaning: 0,
        }
    }

    fn text_part(&self, document: &Document) -> f64 {
        worth::TEXT * self.weights.content * self.text(document) / self.best_text
    }

    fn definitions(&self, document: &Document) -> f64 {
        let definitions = worth::FUNCTIONS * self.share(document.in_functions)
            + worth::TYPES * self.share(document.in_types)
            + worth::DEFINED * self.share(document.in_functions | document.in_types)
            + worth::SYMBOL * self.symbol(document)
            + worth::SYMBOL_FOLDED * hundredths(document.symbol_folded)
            + worth::EMBEDDED * hundredths(document.embedded)
            + worth::JOINED * hundredths(document.joined);
        self.weights.definition * definitions
    }

    /// Returns the value of a definition of the name that is asked for. An offer of the name has
    /// that of a definition if no file defines it.
    fn symbol(&self, document: &Document) -> f64 {
        match document.symbol {
            OFFERED if !self.is_defined => 1.0,
            other => hundredths(other),
        }
    }

    fn path_words(&self, document: &Document) -> f64 {
        let names = document.in_name & self.name_rarity.terms();
        let precision = f64::from(names.count_ones()) / f64::from(document.name_words.max(1));
        let path_words = worth::NAME * self.share(document.in_name)
            + worth::NAME_PRECISION * precision
            + worth::NEAR_NAME * self.share(document.near_name)
            + worth::DIRECTORIES * self.share(document.in_directories);
        self.weights.path * path_words
    }

    /// Returns what the pieces of a file add to its score. `text` of the scores is a share of the
    /// highest one.
    pub fn pieces(&self, scores: PieceScores, factor: f64) -> Contributions {
        let weights = self.weights;
        let words = worth::PIECE * scores.text + worth::PAIRS * scores.pairs;
        Contributions {
            definitions: parts(worth::SAME_NAME * weights.definition * scores.name * factor),
            path: 0,
            words: parts(words * weights.content * factor),
            meaning: parts(worth::MEANING * weights.content * scores.likeness * factor),
        }
    }

    /// Returns how much a file counts: less if it is no source code, an example or an old version.
    /// `bucket` is the kind of the file with this path.
    pub fn factor(&self, path: &str, bucket: Bucket) -> f64 {
        let of_kind = |kind: usize| match self.asks_for[kind] {
            true => 1.0,
            false => self.weights.buckets[kind],
        };
        let kind = match Bucket::is_example(path) {
            true => of_kind(bucket as usize).min(of_kind(4)),
            false => of_kind(bucket as usize),
        };
        match self.versions.is_old(path) {
            true => kind * OLD_VERSION,
            false => kind,
        }
    }

    /// Returns how rare the terms are.
    pub fn rarities(&self) -> Rarities<'_> {
        Rarities {
            text: &self.text_rarity,
            name: &self.name_rarity,
            pairs: Some(&self.name_rarity),
        }
    }

    fn text(&self, document: &Document) -> f64 {
        let length = document.words as f64;
        let terms = self
            .text_rarity
            .each
            .iter()
            .zip(&document.content)
            .enumerate();
        terms
            .map(|(term, (rarity, count))| {
                let spelling = match document.exact >> term & 1 {
                    1 => 1.0,
                    _ => OTHER_ACCENTS,
                };
                bm25(
                    spelling * rarity,
                    f64::from(*count),
                    length,
                    self.mean_words,
                )
            })
            .sum()
    }

    /// Returns the share of the question that some parts of names are, by how rare they are.
    fn share(&self, terms: TermSet) -> f64 {
        self.name_rarity.share(terms)
    }
}

/// Returns the score of one term by BM25 in a text of some length. `mean` is the ordinary length.
pub(super) fn bm25(weight: f64, count: f64, length: f64, mean: f64) -> f64 {
    weight * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean))
}

fn logarithm(count: u64) -> f64 {
    (1.0 + count as f64).ln()
}

fn hundredths(count: u32) -> f64 {
    f64::from(count) / 100.0
}

fn parts(score: f64) -> u64 {
    // Finite; a file deep down may be worth less than nothing.
    (score.max(0.0) * PARTS).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::profile::Profile;
    use super::*;

    fn document(len: u64, content: u32) -> Document {
        Document {
            words: len,
            content: vec![content],
            exact: 1,
            ..Document::default()
        }
    }

    fn scores(documents: &[(Document, &str)]) -> Vec<(u64, u64)> {
        let terms = Terms::new("needle").unwrap();
        let mut corpus = Corpus::new(1);
        documents.iter().for_each(|(one, _)| corpus.add(one));
        corpus.files = 100;
        let all = documents.iter().map(|(one, _)| one);
        let versions = Versions::default();
        let weights = Profile::Balanced.weights();
        let scorer = Scorer::new(&terms, &corpus, all, versions, weights);
        documents
            .iter()
            .map(|(one, path)| scorer.score(one, scorer.factor(path, Bucket::of(path))))
            .collect()
    }

    #[test]
    fn more_named_defined_and_shorter_is_better() {
        let plain = document(1000, 2);
        let defined = Document {
            in_functions: 1,
            ..plain.clone()
        };
        let named = Document {
            in_name: 1,
            name_words: 1,
            ..plain.clone()
        };
        let asked = Document {
            symbol: 70,
            ..plain.clone()
        };
        let all = [
            plain,
            document(1000, 4),
            defined,
            named,
            document(100, 2),
            asked,
        ];
        let scores = scores(&all.map(|one| (one, "src/a.rs")));
        assert!(
            scores[1..].iter().all(|(score, _)| *score > scores[0].0),
            "{scores:?}"
        );
        assert!(
            scores[..5].iter().all(|(score, _)| *score < scores[5].0),
            "{scores:?}"
        );
        // Names count only in the whole.
        assert_eq!(scores[0].1, scores[2].1);
    }

    #[test]
    fn an_offered_name_counts_as_defined_if_no_file_defines_it() {
        let one = |symbol| Document {
            symbol,
            ..document(1000, 2)
        };
        let of = |first, second| {
            let scores = scores(&[(one(first), "src/a.rs"), (one(second), "src/b.rs")]);
            scores[0].0 as i64 - scores[1].0 as i64
        };
        assert_eq!(of(OFFERED, 20), 24_000);
        assert_eq!(of(OFFERED, 40), -1_500);
    }

    #[test]
    fn tests_examples_documents_and_data_count_less() {
        let one = document(1000, 2);
        let all = ["src/a.rs", "tests/a.rs", "examples/a.rs", "a.md", "a.json"];
        let scores = scores(&all.map(|path| (one.clone(), path)));
        let whole = scores[0].0;
        let shares: Vec<u64> = scores
            .iter()
            .map(|(score, _)| (score * 10 + whole / 2) / whole)
            .collect();
        assert_eq!(shares, [10, 6, 4, 3, 3]);
    }

    #[test]
    fn a_formula_computed_by_hand() {
        let one = Document {
            in_name: 1,
            name_words: 2,
            lines: 9,
            depth: 1,
            ..document(10, 3)
        };
        // Text 0.55; name 0.9 and half of 0.66; length 0.26; depth 0.36.
        assert_eq!(scores(&[(one, "src/a.rs")])[0], (16_800, 5_500));
    }

    #[test]
    fn counting_in_parts_is_counting() {
        let all = [document(10, 3), document(7, 0), document(1, 1)];
        let mut whole = Corpus::new(1);
        all.iter().for_each(|one| whole.add(one));
        let mut parts = Corpus::new(1);
        for one in all.iter().rev() {
            let mut part = Corpus::new(1);
            part.add(one);
            parts.merge(&part);
        }
        assert_eq!(parts, whole);
        assert_eq!(whole.with_term, [2]);
    }
}
