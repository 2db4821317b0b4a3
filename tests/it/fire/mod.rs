//! What is kept, under fire: operations that fail, losses of power, damage, killed and stopped processes, crowds, full
//! disks. Whatever happens, there is the old index or the new one, whole, or it is noticed that there is none.
//!
//! One variable of the environment sizes all of it: `FORGE_SEARCH_TEST_FIRE` times as much is done as by default. Continuous
//! integration does ten times as much once, in a release build. Every test prints how much that was.

mod crashes;
mod crashes_merging;
mod crowd;
mod cut;
mod disks;
mod edition;
mod faults;
mod flips;
mod kills;
mod kills_living;
mod places;
mod power;
mod privacy;
mod program;

/// How many times as much is done as by default.
fn times() -> u64 {
    match std::env::var("FORGE_SEARCH_TEST_FIRE") {
        Ok(text) => match text.parse() {
            Ok(times) if times > 0 => times,
            _ => panic!("FORGE_SEARCH_TEST_FIRE={text}: not a number above 0"),
        },
        Err(_) => 1,
    }
}
