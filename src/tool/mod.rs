//! tool
pub mod error;
