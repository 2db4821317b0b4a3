//! Fuzzes the way from a text to its exclusion; see the harness for what is claimed.
#![no_main]

#[path = "../support/assembled.rs"]
mod assembled;
#[path = "../harness/tokenizer.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
