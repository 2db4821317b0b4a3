//! Files and their text: what exists, what counts, what is in it, and which n-grams.
//!
//! Owns enumeration, opening, the rules of what counts as text, n-grams, and the index made of them. It knows
//! nothing of requests.

pub mod beneath;
pub mod block;
pub mod bloom;
pub mod builder;
pub mod casefold;
pub mod deny;
pub mod dirty;
pub mod enumerate;
pub mod gram;
pub mod handles;
pub mod inputs;
pub mod key;
pub mod live;
pub(crate) mod names;
pub mod overlay;
pub mod pace;
pub mod plan;
pub mod ranks;
pub mod refresh;
pub mod rules;
mod sections;
pub mod segment;
pub mod snapshot;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod stamp;
pub mod state;
pub mod store;
pub mod text;
pub mod token;
pub mod walk;
pub mod watch;
