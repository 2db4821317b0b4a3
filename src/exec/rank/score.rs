//! The score of a file: BM25F over its path, the names that it defines, and its text.

use super::document::Document;

/// The saturation parameter of BM25F: the lower, the less further occurrences count.
const K1: f64 = 1.2;

/// The length normalization of BM25F: the higher, the lower long texts score.
const B: f64 = 0.6;

/// Scores are whole multiples of one ten-thousandth, so that ties and the order of nearly equal
/// scores are the same on every machine.
const PARTS: f64 = 10_000.0;

/// The weight of each field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// The path.
    pub path: f64,
    /// Names that are defined.
    pub definition: f64,
    /// The text.
    pub content: f64,
}

/// Statistics of all files together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corpus {
    /// Files in the scope of the question, with or without terms.
    pub files: u64,
    /// Files that contain a term.
    pub found: u64,
    /// The total size of these files in bytes.
    pub bytes: u64,
    /// For each term: the number of these files that contain it.
    pub with_term: Vec<u64>,
}

impl Corpus {
    /// Creates statistics without files, for `terms` terms.
    pub fn new(terms: usize) -> Corpus {
        Corpus {
            with_term: vec![0; terms],
            ..Corpus::default()
        }
    }

    /// Adds a file.
    pub fn add(&mut self, document: &Document) {
        self.found += 1;
        self.bytes = self.bytes.saturating_add(document.len);
        for (with, count) in self.with_term.iter_mut().zip(&document.content) {
            *with += u64::from(*count > 0);
        }
    }

    /// Adds the counts of another corpus. The order of merging makes no difference.
    pub fn merge(&mut self, other: &Corpus) {
        self.files += other.files;
        self.found += other.found;
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (with, more) in self.with_term.iter_mut().zip(&other.with_term) {
            *with += more;
        }
    }
}

/// Computes the scores of files.
#[derive(Clone, Debug)]
pub struct Scorer {
    weights: Weights,
    rarity: Vec<f64>,
    mean_len: f64,
}

impl Scorer {
    /// Prepares for the files of a corpus.
    pub fn new(corpus: &Corpus, weights: Weights) -> Scorer {
        let files = corpus.files.max(corpus.found) as f64;
        let rarity = |with: &u64| {
            let with = *with as f64;
            (1.0 + (files - with + 0.5) / (with + 0.5)).ln()
        };
        Scorer {
            weights,
            rarity: corpus.with_term.iter().map(rarity).collect(),
            mean_len: (corpus.bytes as f64 / corpus.found.max(1) as f64).max(1.0),
        }
    }

    /// Returns the score of a file and the part that its text alone contributes, both in
    /// ten-thousandths.
    pub fn score(&self, document: &Document) -> (u64, u64) {
        let length = 1.0 - B + B * document.len as f64 / self.mean_len;
        let (mut all, mut lexical) = (0.0, 0.0);
        for (term, rarity) in self.rarity.iter().enumerate() {
            let count = |field: &[u32]| f64::from(field.get(term).copied().unwrap_or(0));
            let content = self.weights.content * count(&document.content) / length;
            let named = self.weights.definition * count(&document.definitions)
                + self.weights.path * count(&document.path);
            let saturated = |frequency: f64| rarity * frequency / (K1 + frequency);
            all += saturated(content + named);
            lexical += saturated(content);
        }
        (parts(all), parts(lexical))
    }
}

fn parts(score: f64) -> u64 {
    // Finite and not negative: all factors are positive or zero.
    (score * PARTS).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(len: u64, content: u32, definitions: u32, path: u32) -> Document {
        Document {
            len,
            content: vec![content],
            definitions: vec![definitions],
            path: vec![path],
            cut: false,
        }
    }

    fn scorer(documents: &[Document]) -> Scorer {
        let mut corpus = Corpus::new(1);
        documents.iter().for_each(|one| corpus.add(one));
        corpus.files = 100;
        let weights = Weights {
            path: 2.0,
            definition: 3.0,
            content: 1.0,
        };
        Scorer::new(&corpus, weights)
    }

    #[test]
    fn more_named_and_shorter_is_better() {
        let plain = document(1000, 2, 0, 0);
        let more = document(1000, 4, 0, 0);
        let defined = document(1000, 2, 1, 0);
        let named = document(1000, 2, 0, 1);
        let short = document(100, 2, 0, 0);
        let all = [plain, more, defined, named, short];
        let scorer = scorer(&all);
        let scores: Vec<u64> = all.iter().map(|one| scorer.score(one).0).collect();
        assert!(
            scores[1..].iter().all(|score| *score > scores[0]),
            "{scores:?}"
        );
        // Definitions count only in the total score.
        assert_eq!(scorer.score(&all[0]).1, scorer.score(&all[2]).1);
    }

    #[test]
    fn a_formula_computed_by_hand() {
        let one = document(10, 3, 1, 2);
        let scorer = scorer(std::slice::from_ref(&one));
        // idf = ln(1 + 99.5 / 1.5), and of 3 + 3 + 4 = 10 that is 10 / 11.2.
        let expected = (1.0f64 + 99.5 / 1.5).ln() * 10.0 / 11.2 * 10_000.0;
        assert_eq!(scorer.score(&one).0, expected.round() as u64);
    }

    #[test]
    fn counting_in_parts_is_counting() {
        let all = [
            document(10, 3, 1, 2),
            document(7, 0, 0, 0),
            document(1, 1, 0, 0),
        ];
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
