//! Fuzzes segments. The harness states the claims.
//!
//! Only this target measures memory: the other tests must not run with a counting global allocator.
#![no_main]

#[path = "../support/assembled.rs"]
mod assembled;
#[path = "../harness/segment.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data, |work| {
    Some(allocation_counter::measure(work).bytes_max)
}));
