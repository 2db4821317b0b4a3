//! Fuzzes the ordering key of paths; see the harness for what is claimed.
#![no_main]

#[path = "../harness/sort_key.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
