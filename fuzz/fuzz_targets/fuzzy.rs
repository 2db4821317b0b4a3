//! Fuzzes approximate matching; see the harness for what is claimed.
#![no_main]

#[path = "../harness/fuzzy.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
