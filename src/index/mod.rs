//! Files and their text: what exists, what counts, and what is in it.
//!
//! Owns enumeration, opening and the rules of what counts as text. It knows nothing of requests.

pub mod beneath;
pub mod deny;
pub mod rules;
pub mod text;
pub mod walk;
