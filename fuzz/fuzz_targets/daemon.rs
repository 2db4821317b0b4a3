//! Fuzzes the messages that clients send to a daemon. The harness states the claims.
#![no_main]

#[path = "../harness/daemon.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
