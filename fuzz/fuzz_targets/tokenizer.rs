//! Fuzzes the way from a text to its exclusion. The harness states the claims.
#![no_main]

#[path = "../support/assembled.rs"]
mod assembled;
#[path = "../harness/tokenizer.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
