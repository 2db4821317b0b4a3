//! What this process may read: a component of index keys.
//!
//! Owns the facts by which a system decides whether a process can open a file, and their form in a key. A search
//! that leaves a file out never opens it, so it can't notice that it may not: which files are left out must follow
//! from what a process with the same rights could read. It must not know what an index is.

use std::io;

#[cfg(any(unix, test))]
use xxhash_rust::xxh3::xxh3_128;

/// What stands in a key where the system does not tell: of no use for an index that others may find.
pub(crate) const UNKNOWN: &str = "unknown";

/// The longest list of groups that is written out, in bytes: that and the rest fit into an identifier of a manifest,
/// though Linux allows 65,536 groups.
#[cfg(any(unix, test))]
const MAX_LIST_BYTES: usize = 512;

/// Returns by which rights this process reads files: the effective user and group, the supplementary groups, and on
/// Linux the capabilities that override permissions. Processes with equal rights have equal texts.
///
/// Users are compared as this process sees them: in a user namespace the same number may be another user, whose files
/// then have other numbers too. The user for whom Linux looks at files is the effective one, unless a file server has
/// called `setfsuid`; nothing but that call and `/proc` tells, so a thread that has is not told apart.
///
/// # Errors
///
/// An error if the system does not tell, as where a filter of system calls forbids to ask.
#[cfg(unix)]
pub(crate) fn of_process() -> io::Result<String> {
    use rustix::process::{getegid, geteuid, getgroups};

    let groups = getgroups()?.iter().map(|group| group.as_raw()).collect();
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    Ok(described(user, group, groups, &overriding()?))
}

/// Returns a constant: how this system decides is not looked into, and processes are not told apart. An index is then
/// told apart only by who can open the directory that it is kept in, which is this user alone.
///
/// # Errors
///
/// None.
#[cfg(not(unix))]
pub(crate) fn of_process() -> io::Result<String> {
    Ok("any".to_string())
}

/// Returns the effective capabilities that let a process read what permissions forbid.
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

/// Returns nothing: who may read everything here is told by the user.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn overriding() -> io::Result<Vec<&'static str>> {
    Ok(Vec::new())
}

/// Puts rights into words, in the same ones whatever the order of groups.
#[cfg(any(unix, test))]
fn described(user: u32, group: u32, mut groups: Vec<u32>, overriding: &[&str]) -> String {
    groups.sort_unstable();
    groups.dedup();
    let list: Vec<String> = groups.iter().map(u32::to_string).collect();
    let mut list = list.join(",");
    if list.len() > MAX_LIST_BYTES {
        // No list that is written out has this sign in it.
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
        // Ten digits and a comma each: the last number that is written out, and the first that is not.
        let (written, hashed) = (many(last - 45), many(last - 46));
        assert!(written.contains(",4294967295 "), "{written}");
        assert!(hashed.contains("groups=47#"), "{hashed}");
        for text in [&all, &written, &hashed] {
            assert!(text.len() <= MAX_ID_BYTES, "{} bytes", text.len());
        }
        // One of many groups makes a difference still.
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

        // Those of this thread alone, which ends with the test.
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
