//! Fuzzes the ordering key of paths. The harness states the claims.
#![no_main]

#[path = "../harness/sort_key.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
