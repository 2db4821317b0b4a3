//! format

pub mod sort_key;
