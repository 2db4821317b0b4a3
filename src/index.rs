//! Files and their text: which files exist, which of them are eligible, and which n-grams they
//! contain.
//!
//! This module owns enumeration, opening files beneath a root, the definition of text, n-grams, and
//! the index made of them. It knows nothing of requests.
//!
//! - [`walk`] lists a tree by the ignore rules of [`rules`] and the denied patterns of [`deny`];
//!   [`enumerate`] lists all of it for a build. [`root_dir`] opens files, and nothing outside of
//!   the root.
//! - [`text`] defines which part of a file is searched. [`builder`] tokenizes files ([`token`]) and
//!   counts their words ([`words`]) into a [`segment`].
//! - [`store`] publishes segments under a [`key`], as files or in a database (`sqlite`).
//! - A [`snapshot`] is a segment plus the [`overlay`] of changes since it was built. Searches pin
//!   one.
//! - [`live`] keeps the snapshot of one tree current, with [`watch`] and [`refresh`]. [`state`]
//!   decides its next step, and [`pace`] how hard a build works meanwhile.
//! - [`plan`] computes which files may match an expression.

mod below;
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
pub(crate) mod plain_files;
pub mod plan;
pub mod ranks;
pub mod refresh;
pub mod root_dir;
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
pub mod words;
