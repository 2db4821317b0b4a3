//! Fuzzes what clients send to a daemon; see the harness for what is claimed.
#![no_main]

#[path = "../harness/daemon.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
