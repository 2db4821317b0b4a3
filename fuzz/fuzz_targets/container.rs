//! Fuzzes index files as containers of sections. The harness states the claims.
#![no_main]

#[path = "../harness/container.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
