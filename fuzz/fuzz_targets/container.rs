//! Fuzzes files of an index, as containers of sections; see the harness for what is claimed.
#![no_main]

#[path = "../harness/container.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
