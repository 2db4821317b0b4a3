//! Files and their text: what exists, what counts, what is in it, and which n-grams.
//!
//! Owns enumeration, opening, the rules of what counts as text, and n-grams. It knows nothing of requests.

pub mod beneath;
pub mod bloom;
pub mod casefold;
pub mod deny;
pub mod gram;
pub mod plan;
pub mod rules;
pub mod text;
pub mod token;
pub mod walk;
