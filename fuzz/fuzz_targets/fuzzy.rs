//! Fuzzes approximate matching. The harness states the claims.
#![no_main]

#[path = "../harness/fuzzy.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
