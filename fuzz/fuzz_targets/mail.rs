//! Fuzzes reading of mailboxes; see the harness for what is claimed.
#![no_main]

#[path = "../harness/mail.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
