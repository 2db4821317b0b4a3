//! The read permissions of this process, as a component of index keys.
//!
//! A search that skips a file never opens it, so it can't notice that the file is unreadable. An
//! index may therefore serve only processes with the same permissions as the process that built it.
//! This module owns the facts by which a system grants access (for example user, groups and
//! capabilities) and their text form in a key. It knows nothing about indexes.

use std::io;

#[cfg(any(unix, test))]
use xxhash_rust::xxh3::xxh3_128;

/// The key component for unknown permissions. Such an index stays in memory and is not shared.
pub(crate) const UNKNOWN: &str = "unknown";

/// The longest list of groups that is written in full, in bytes. Together with the other facts it
/// fits into a manifest identifier; Linux allows 65,536 groups. A longer list is replaced by a
/// hash.
#[cfg(any(unix, test))]
const MAX_LIST_BYTES: usize = 512;

/// Returns the permissions with which this process reads files. These are the effective user and
/// group, the supplementary groups, and on Linux the capabilities that override permissions.
/// Processes with equal permissions get equal texts.
///
/// User numbers are those that this process sees. In a user namespace the same number may be
/// another user, but then the owners of files have other numbers too. Linux checks file access for
/// the effective user unless a thread has called `setfsuid`, as some file servers do. Only `/proc`
/// shows that call, so such a thread is not distinguished.
///
/// # Errors
///
/// The system's error if it does not report the permissions, for example if a filter of system
/// calls forbids the request.
#[cfg(unix)]
pub(crate) fn of_process() -> io::Result<String> {
    use rustix::process::{getegid, geteuid, getgroups};

    let groups = getgroups()?.iter().map(|group| group.as_raw()).collect();
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    Ok(described(user, group, groups, &overriding()?))
}

/// Returns a constant: the permissions of this system are not examined, and processes are not
/// distinguished. The only protection is the directory that holds the index, which only this user
/// can open.
///
/// # Errors
///
/// Never fails.
#[cfg(not(unix))]
pub(crate) fn of_process() -> io::Result<String> {
    Ok("any".to_string())
}

/// Returns the effective capabilities that let a process read files against their permissions.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn overriding() -> io::Result<Vec<&'static str>> {
    use rustix::thread::{CapabilitySet, capabilities};

    let effective = capabilities(None)?.effective;
    let known = [
        (CapabilitySet::DAC_OVERRIDE, "dac_override"),
        (CapabilitySet::DAC_READ_SEARCH, "dac_read_search"),
    ];
    let held = known.iter().filter(|(one, _)| effective.contains(*one));
    Ok(held.map(|(_, name)| *name).collect())
}

/// Returns an empty list: on these systems only the user decides whether a process can read
/// everything.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn overriding() -> io::Result<Vec<&'static str>> {
    Ok(Vec::new())
}

/// Formats permissions. The text does not depend on the order of the groups.
#[cfg(any(unix, test))]
fn described(user: u32, group: u32, mut groups: Vec<u32>, overriding: &[&str]) -> String {
    groups.sort_unstable();
    groups.dedup();
    let list: Vec<String> = groups.iter().map(u32::to_string).collect();
    let mut list = list.join(",");
    if list.len() > MAX_LIST_BYTES {
        // The sign `#` never occurs in a list that is written in full.
        list = format!("{}#{:032x}", groups.len(), xxh3_128(list.as_bytes()));
    }
    format!(
        "uid={user} gid={group} groups={list} caps={}",
        overriding.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::MAX_ID_BYTES;

    #[test]
    fn rights_are_readable_and_in_one_order() {
        let plain = described(1000, 1000, vec![1000, 24, 4, 24], &[]);
        assert_eq!(plain, "uid=1000 gid=1000 groups=4,24,1000 caps=");
        assert_eq!(plain, described(1000, 1000, vec![24, 4, 1000], &[]));
        assert_eq!(
            described(0, 0, Vec::new(), &["dac_override", "dac_read_search"]),
            "uid=0 gid=0 groups= caps=dac_override,dac_read_search"
        );
    }

    #[test]
    fn each_right_counts() {
        let all = [
            described(1, 1, vec![1], &[]),
            described(2, 1, vec![1], &[]),
            described(1, 2, vec![1], &[]),
            described(1, 1, vec![2], &[]),
            described(1, 1, vec![1, 2], &[]),
            described(1, 1, vec![12], &[]),
            described(1, 1, vec![1], &["dac_override"]),
            described(1, 1, vec![1], &["dac_read_search"]),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn many_groups_fit_into_a_manifest() {
        let last = u32::MAX;
        let caps = ["dac_override", "dac_read_search"];
        let many = |from: u32| described(last, last, (from..=last).collect(), &caps);
        let all = many(last - 65_535);
        assert!(all.contains("groups=65536#"), "{all}");
        // Ten digits and a comma per group: the longest list that is written in full, and the
        // shortest that is hashed.
        let (written, hashed) = (many(last - 45), many(last - 46));
        assert!(written.contains(",4294967295 "), "{written}");
        assert!(hashed.contains("groups=47#"), "{hashed}");
        for text in [&all, &written, &hashed] {
            assert!(text.len() <= MAX_ID_BYTES, "{} bytes", text.len());
        }
        // One different group among many still changes the text.
        let other = described(last, last, (last - 65_536..last).collect(), &caps);
        assert!(other.contains("groups=65536#"), "{other}");
        assert_ne!(all, other);
    }

    #[cfg(unix)]
    #[test]
    fn this_process_has_rights() {
        let text = of_process().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let start = format!("uid={user} gid={group} groups=");
        assert!(text.starts_with(&start), "{text}");
        assert_eq!(text, of_process().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn capabilities_are_those_in_effect() {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

        // The capabilities of this thread only, which ends with the test.
        let mut sets = capabilities(None).unwrap();
        let had = sets.effective.contains(CapabilitySet::DAC_OVERRIDE);
        let listed = overriding().unwrap().contains(&"dac_override");
        assert_eq!(listed, had);
        sets.effective = CapabilitySet::empty();
        std::thread::spawn(move || {
            set_capabilities(None, sets).unwrap();
            assert!(overriding().unwrap().is_empty());
            assert!(of_process().unwrap().ends_with(" caps="));
        })
        .join()
        .unwrap();
    }
}
