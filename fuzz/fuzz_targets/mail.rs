//! Fuzzes the reading of mailboxes. The harness states the claims.
#![no_main]

#[path = "../harness/mail.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(
    // The parser's panics are caught, but the fuzzer's panic hook would abort first, so it is
    // removed. Other panics still end the run.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| harness::run(data)
);
