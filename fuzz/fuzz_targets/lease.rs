//! Fuzzes leases and manifests of tasks. The harness states the claims.
#![no_main]

#[path = "../harness/lease.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
