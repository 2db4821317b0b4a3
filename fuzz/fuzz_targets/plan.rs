//! Fuzzes the planner of n-gram tests; see the harness for what is claimed.
#![no_main]

#[path = "../harness/plan.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
