//! The terms of a question.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// The longest question, in bytes.
pub const MAX_QUERY_BYTES: usize = 4096;

/// The most terms of a question that count: the first ones.
pub const MAX_TERMS: usize = 32;

/// A term with fewer characters is too common to search files by, if there are longer terms.
const WEAK: usize = 3;

/// Why a question is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// The question contains no word.
    #[error("the query is blank; give at least one word")]
    Blank,
    /// The question is too long.
    #[error("the query has {0} bytes; at most {MAX_QUERY_BYTES} are allowed")]
    TooLong(usize),
}

/// The terms of a question: each of its words once, in the order of first appearance.
///
/// A word is a run of letters, digits and `_`. A question without words, such as `->`, is one term
/// as a whole. ASCII letters match without regard to case; other letters match exactly.
///
/// # Examples
///
/// ```
/// use forge_search::exec::rank::Terms;
///
/// let terms = Terms::new("Open the socket, open it")?;
/// assert_eq!(terms.words(), ["open", "the", "socket", "it"]);
/// # Ok::<(), forge_search::exec::rank::TermsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Terms {
    words: Vec<String>,
    left_out: usize,
    finder: AhoCorasick,
}

impl Terms {
    /// Splits a question into terms.
    ///
    /// # Errors
    ///
    /// [`TermsError`] if the question is blank or too long.
    pub fn new(query: &str) -> Result<Terms, TermsError> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(TermsError::TooLong(query.len()));
        }
        let mut words: Vec<String> = Vec::new();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let parts = query.split(|c: char| !is_word(c));
        let lowered = |part: &str| part.to_ascii_lowercase();
        for word in parts.filter(|part| !part.is_empty()).map(lowered) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        if words.is_empty() {
            let whole = query.trim();
            if whole.is_empty() {
                return Err(TermsError::Blank);
            }
            words.push(lowered(whole));
        }
        let left_out = words.len().saturating_sub(MAX_TERMS);
        words.truncate(MAX_TERMS);
        let finder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&words)
            // Building fails only for more states than so few bytes can need.
            .map_err(|_| TermsError::TooLong(query.len()))?;
        Ok(Terms {
            words,
            left_out,
            finder,
        })
    }

    /// Returns the words, with ASCII letters in lower case.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns how many words were dropped because of [`MAX_TERMS`].
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the words by which files are searched: all words of at least three characters, or
    /// all words if there are only shorter ones. Shorter words occur in nearly every file, so they
    /// affect only the order.
    pub fn looked_for(&self) -> impl Iterator<Item = &str> {
        let strong = |word: &str| word.chars().count() >= WEAK;
        let any = self.words.iter().any(|word| strong(word));
        let words = self.words.iter().map(String::as_str);
        words.filter(move |word| !any || strong(word))
    }

    /// Returns an expression that matches lines with one of the words by which files are searched.
    pub fn expression(&self) -> String {
        let words: Vec<String> = self.looked_for().map(regex_syntax::escape).collect();
        words.join("|")
    }

    /// Returns for each of [`Terms::words`] whether files are searched by it.
    pub(super) fn wanted(&self) -> Vec<bool> {
        let looked_for: Vec<&str> = self.looked_for().collect();
        let wanted = |word: &String| looked_for.contains(&word.as_str());
        self.words.iter().map(wanted).collect()
    }

    pub(super) fn finder(&self) -> &AhoCorasick {
        &self.finder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_count_once_and_without_case() {
        let terms = Terms::new("  fn  open_socket(Fn) über ").unwrap();
        assert_eq!(terms.words(), ["fn", "open_socket", "über"]);
        let looked_for: Vec<&str> = terms.looked_for().collect();
        assert_eq!(looked_for, ["open_socket", "über"]);
        assert_eq!(terms.expression(), "open_socket|über");
    }

    #[test]
    fn short_words_are_looked_for_when_there_are_no_others() {
        let terms = Terms::new("fn if").unwrap();
        assert_eq!(terms.looked_for().collect::<Vec<_>>(), ["fn", "if"]);
        let terms = Terms::new(" -> ").unwrap();
        assert_eq!(terms.words(), ["->"]);
        assert_eq!(terms.expression(), r"\->");
    }

    #[test]
    fn what_is_blank_or_long_is_refused() {
        assert_eq!(Terms::new(" \t\n").unwrap_err(), TermsError::Blank);
        let long = "x".repeat(MAX_QUERY_BYTES + 1);
        let error = Terms::new(&long).unwrap_err();
        assert_eq!(error, TermsError::TooLong(MAX_QUERY_BYTES + 1));
        assert!(Terms::new(&long[1..]).is_ok());
    }

    #[test]
    fn words_beyond_the_limit_are_counted() {
        let query: Vec<String> = (0..MAX_TERMS + 3).map(|n| format!("word{n}")).collect();
        let terms = Terms::new(&query.join(" ")).unwrap();
        assert_eq!((terms.words().len(), terms.left_out()), (MAX_TERMS, 3));
    }
}
