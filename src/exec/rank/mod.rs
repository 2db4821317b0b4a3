//! Ranking: which files and which places in them answer a question best.
//!
//! Owns what a question looks for ([`Terms`]), what is noted of a file that has some of it ([`Document`]), how files compare
//! ([`Scorer`]), how many of a kind an answer may have ([`Profile`]), and which lines are shown. Everything here is a function of texts
//! and numbers: no file is opened, no clock is read, and the same input gives the same order on every run (`IPC.MUST.004`).

mod definition;
mod document;
mod order;
mod profile;
mod score;
mod snippet;
mod stem;
mod terms;
mod words;

pub use document::{Document, Hit, MAX_HITS, TermSet};
pub use order::{Ranked, Select, select};
pub use profile::{Bucket, Profile, Quota};
pub use score::{Corpus, Scorer, Weights};
pub use snippet::{Chunk, Snippet, chunks};
pub use stem::stem;
pub use terms::{MAX_QUERY_BYTES, MAX_TERMS, Terms, TermsError};
