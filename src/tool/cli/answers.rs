//! Where answers come from: the daemon of the tree, or this process.
//!
//! `person_search` decides who answers a person's search, and `backend` decides for all others.
//! `daemon` finds, asks and starts daemons. `building` waits for index builds. `candidates` asks
//! which files a search of ripgrep's command line has to read.

#[cfg(unix)]
pub(in crate::tool::cli) mod backend;
pub(in crate::tool::cli) mod building;
pub(in crate::tool) mod candidates;
#[cfg(unix)]
pub(in crate::tool::cli) mod daemon;
pub(in crate::tool::cli) mod person_search;
