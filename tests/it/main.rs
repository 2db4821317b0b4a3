//! All integration tests, in one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The crate's rules about processes, clocks and hash maps don't apply here: tests start programs
// and measure time.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
// Some imports serve only tests of one system.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]
// A test is a sequence of steps on one tree, or a table of cases. It reads best in one piece.
#![allow(clippy::too_many_lines)]

mod cases;
#[cfg(unix)]
mod changing_tree;
mod child_processes;
mod cli;
mod cli_caps;
mod cli_events;
mod cli_index;
mod cli_input;
mod cli_paths;
mod cli_people;
mod cli_shapes;
mod cli_words;
mod clocks;
mod comments;
mod configuration;
mod conformance;
#[cfg(unix)]
mod daemon;
mod deadline;
mod differential;
#[cfg(unix)]
mod documents;
#[cfg(unix)]
mod engines;
#[cfg(unix)]
mod executor;
#[cfg(unix)]
mod fault_injection;
mod files;
mod format;
mod fuzz_replay;
mod fuzzy_fallback;
mod git_rules;
mod git_settings;
mod hooked_engines;
mod host_contract;
mod index_cases;
mod index_compared_along;
mod index_damage;
mod index_determinism;
mod index_edits;
mod index_eligibility;
mod index_exclusion;
mod index_filter;
mod index_large_files;
mod index_pace;
mod index_precision;
mod index_properties;
mod index_rebuild;
mod index_support;
mod index_unfinished;
mod indexing;
mod layering;
mod lifecycle;
mod line_processes;
mod live_index;
mod oracle;
mod peers;
#[cfg(unix)]
mod permissions;
mod project_files;
mod properties;
mod query_plans;
#[cfg(unix)]
mod request_errors;
#[cfg(unix)]
mod request_lines;
#[cfg(unix)]
mod rg;
#[cfg(unix)]
mod rg_calls;
mod rg_json;
#[cfg(unix)]
mod setup_clients;
mod skipped;
mod slow_searches;
#[cfg(feature = "sqlite")]
mod sqlite;
mod support;
mod system;
mod test_rules;
mod tool_globs;
#[cfg(unix)]
mod tui;
mod verification;
mod verification_lsi;
mod withheld_files;
