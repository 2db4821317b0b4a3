//! The `find_code` tool: answers a question in words with the best places of a source tree.
//!
//! This module owns the request, the response and its text.
//! [`daemon::find_code`](crate::tool::daemon::find_code) answers the calls: a service ranks the
//! places as for `ggrep`.

mod request;
mod response;

pub use request::{FIND_CODE_NAME, FindCodeRequest};
pub use response::{CodePlace, FindCodeResponse, PlaceKind};

pub(crate) use request::DEFAULT_RESULTS;
pub(crate) use response::FindCodeDraft;
