//! Fuzzes the planner of n-gram tests. The harness states the claims.
#![no_main]

#[path = "../harness/plan.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
