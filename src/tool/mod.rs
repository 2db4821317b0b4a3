//! Everything users touch: requests, responses, configuration, the sandbox and the surfaces.

pub mod config;
pub mod engines;
pub mod error;
pub mod render;
pub mod request;
pub mod response;
pub mod sandbox;
pub mod search;
