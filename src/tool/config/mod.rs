//! tmp
#![allow(missing_docs)]
#[derive(Clone, Debug)]
pub struct SearchConfig {
    pub enabled: bool,
    pub default_timeout_ms: u64,
    pub default_max_results: u64,
    pub max_matches_per_file: u64,
    pub max_files: u64,
    pub max_file_size_bytes: u64,
    pub emit_stats: bool,
    pub threads: u64,
}
