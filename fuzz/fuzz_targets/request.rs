//! Fuzzes requests, from parsing to the response. The harness states the claims.
#![no_main]

#[path = "../harness/request.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
