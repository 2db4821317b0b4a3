//! The `find_code` tool: answers a question in words with the best places of a source tree.
//!
//! Owns the request, the response and its text. A service ranks the places, as for `ggrep`: see
//! [`Service::answer`](crate::tool::daemon::service::Service::answer).

mod request;
mod response;

pub use request::{FIND_CODE_NAME, FindCodeRequest};
pub use response::{CodePlace, FindCodeResponse, PlaceKind};

pub(crate) use request::DEFAULT_RESULTS;
pub(crate) use response::FindCodeDraft;
