//! index

pub mod beneath;
pub mod deny;
