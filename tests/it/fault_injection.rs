//! Fault injection on stored indexes: operations that fail, losses of power, damage, killed and
//! stopped processes, many processes at once, full disks.
//!
//! The guarantee under test: after every fault there is the whole old index, or the whole new one,
//! or a noticed absence of both.
//!
//! The environment variable `FORGE_SEARCH_TEST_FIRE` is a factor for the amount of work; the
//! default is 1. Continuous integration runs these tests once with a factor of 10, in a release
//! build. Each test prints how much work it did.

mod crashes;
mod crashes_merging;
mod crowd;
mod cut;
mod disks;
mod edition;
mod faults;
mod flips;
mod kills;
mod kills_live_index;
mod places;
mod power;
mod privacy;
mod program;

/// Returns the factor by which the work exceeds the default.
fn times() -> u64 {
    match std::env::var("FORGE_SEARCH_TEST_FIRE") {
        Ok(text) => match text.parse() {
            Ok(times) if times > 0 => times,
            _ => panic!("FORGE_SEARCH_TEST_FIRE={text}: not a number above 0"),
        },
        Err(_) => 1,
    }
}
