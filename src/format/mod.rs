//! Bytes: how what is kept and compared is laid out.
//!
//! Owns the ordering key of paths, by which everything that has an order is ordered. It knows nothing of
//! files' contents or of searches.

pub mod sort_key;
