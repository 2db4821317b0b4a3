//! Fuzzes reading of mailboxes; see the harness for what is claimed.
#![no_main]

#[path = "../harness/mail.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(
    // A panic of the parser is caught, which the fuzzer's hook would not let it be; others still end the run.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| harness::run(data)
);
