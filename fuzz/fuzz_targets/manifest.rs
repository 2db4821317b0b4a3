//! Fuzzes manifests of indexes. The harness states the claims.
#![no_main]

#[path = "../harness/manifest.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
