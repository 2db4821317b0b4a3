//! Ranking: decides which files, and which lines in them, answer a question best.
//!
//! This module owns the terms of a question ([`Terms`]), the counts of terms in one file
//! ([`Document`]), the score of a file ([`Scorer`]) and of its pieces ([`PieceScores`]), how alike
//! a question and a piece of code are ([`Meaning`]), the shares of file kinds in an answer
//! ([`Profile`]), the choice of the lines of a snippet ([`chunks`]), why a place is a result
//! ([`Reason`]), and the question that is made of a piece of code ([`PieceWords`]). The ranked
//! search reads files and calls this module. Everything here is a pure function of texts and
//! numbers: it opens no file and reads no clock. The same input gives the same order on every run.

mod document;
mod meaning;
mod order;
mod pieces;
mod profile;
mod reason;
mod related;
mod remembered;
mod score;
mod snippet;
mod source_text;
mod terms;
mod versions;

pub use document::{Document, Hit, TermSet, hits};
pub use meaning::{Comparison, MEANING_VERSION, Meaning, Model, WordTable};
pub use order::{Ranked, Select, Selection, select};
pub use pieces::PieceScores;
pub use profile::{Bucket, Profile, Quota};
pub use reason::{Contributions, Reason};
pub use related::{PieceWords, piece_at};
pub use score::{Corpus, Rarities, Scorer, TermRarities, Weights};
pub use snippet::{Chunk, Chunks, Snippet, chunks, head_of};
pub use source_text::SourceText;
pub use terms::{MAX_QUERY_BYTES, MAX_TERMS, Terms, TermsError};
pub use versions::Versions;
