//! The commands around the query daemon: `forge-search serve` and `ggrep`, and the part of
//! `forge-search doctor` that examines daemons (`checkup`).

pub(in crate::tool::cli) mod checkup;
pub(in crate::tool::cli) mod ggrep;
pub(in crate::tool::cli) mod serve;
