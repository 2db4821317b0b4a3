//! Where answers come from: the daemon of the tree, or this process.
//!
//! `backend` decides who answers a request, and `person_search` who answers a person's search.
//! `building` waits for index builds. `candidates` asks which files a search of ripgrep's command
//! line has to read. `answer_files` reopens files of an answer.

#[cfg(unix)]
pub(in crate::tool::cli) mod answer_files;
#[cfg(unix)]
pub(in crate::tool::cli) mod backend;
pub(in crate::tool::cli) mod building;
pub(in crate::tool) mod candidates;
pub(in crate::tool::cli) mod person_search;
