//! Fuzzes leases and manifests; see the harness for what is claimed.
#![no_main]

#[path = "../harness/lease.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
