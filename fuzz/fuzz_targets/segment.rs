//! Fuzzes segments; see the harness for what is claimed. Memory is counted here only: a global allocator that does is
//! nothing to run all other tests with.
#![no_main]

#[path = "../support/assembled.rs"]
mod assembled;
#[path = "../harness/segment.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data, |work| {
    Some(allocation_counter::measure(work).bytes_max)
}));
