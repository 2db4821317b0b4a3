//! tool

pub mod config;
pub mod error;
pub mod sandbox;
