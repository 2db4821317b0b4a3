//! The system's limits for watching, and how to raise them.

use std::path::{Path, PathBuf};

use super::WatchError;

/// The limit of watched directories.
pub(super) const WATCHES: &str = "max_user_watches";

/// The limit of queues.
pub(super) const INSTANCES: &str = "max_user_instances";

/// A limit of the user, with its current value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    /// The name of the setting.
    sysctl: String,
    value: u64,
}

/// Returns the settings and files of a limit. One applies to the whole system, the other to the
/// user namespace of the process, as in a container.
fn places(limit: &str) -> [(String, PathBuf); 2] {
    let own = limit.replace("max_user_", "max_inotify_");
    [
        (
            format!("fs.inotify.{limit}"),
            Path::new("/proc/sys/fs/inotify").join(limit),
        ),
        (format!("user.{own}"), Path::new("/proc/sys/user").join(own)),
    ]
}

/// Returns the lower of both limits; `None` if the system does not report them.
fn lowest(limit: &str) -> Option<Limit> {
    let said = places(limit).into_iter().filter_map(|(sysctl, path)| {
        let value = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        Some(Limit { sysctl, value })
    });
    // Of equal limits, this returns the first.
    said.min_by_key(|limit| limit.value)
}

/// Returns an error that says that a limit is reached, and how to raise it.
pub(super) fn reached(limit: &str) -> WatchError {
    WatchError::Limit(remedy(limit, lowest(limit).as_ref()))
}

/// Returns why a tree with `dirs` directories can't be watched, and a remedy; `None` if the limit
/// suffices. Watches of other programs are unknown, so the limit may still be reached.
pub fn too_many(root: &Path, dirs: u64) -> Option<String> {
    // The directories above the root, and that of the cookies.
    let others = root.ancestors().count() as u64;
    let watches = dirs.saturating_add(others);
    let lowest = lowest(WATCHES).filter(|lowest| lowest.value < watches)?;
    Some(format!(
        "it has {dirs} directories, which need {watches} watches; {}",
        remedy(WATCHES, Some(&lowest)).replace(" is reached", " is lower")
    ))
}

/// Returns the message that a limit is reached, and how to raise it.
fn remedy(limit: &str, now: Option<&Limit>) -> String {
    let (what, least, other) = match limit {
        WATCHES => ("inotify watches", 524_288, ""),
        _ => (
            "inotify instances",
            512,
            ", or for open files (`ulimit -n`)",
        ),
    };
    let value = now.map_or_else(String::new, |now| format!(" ({})", now.value));
    let next = least.max(now.map_or(0, |now| now.value).saturating_mul(2));
    let sysctl = now.map_or_else(|| format!("fs.inotify.{limit}"), |now| now.sysctl.clone());
    format!(
        "the limit of this user for {what}{value}{other} is reached; raise it with `sysctl {sysctl}={next}`, \
         and in a file in /etc/sysctl.d to keep it raised"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_name_their_remedy() {
        let of = |sysctl: &str, value| {
            let sysctl = sysctl.to_string();
            Some(Limit { sysctl, value })
        };
        for (limit, now, parts) in [
            (
                WATCHES,
                of("fs.inotify.max_user_watches", 8_192),
                ["(8192)", "`sysctl fs.inotify.max_user_watches=524288`"],
            ),
            (
                WATCHES,
                of("user.max_inotify_watches", 524_288),
                ["(524288)", "`sysctl user.max_inotify_watches=1048576`"],
            ),
            (
                WATCHES,
                None,
                ["watches is", "`sysctl fs.inotify.max_user_watches=524288`"],
            ),
            (
                INSTANCES,
                of("fs.inotify.max_user_instances", 128),
                ["ulimit -n", "`sysctl fs.inotify.max_user_instances=512`"],
            ),
        ] {
            let text = remedy(limit, now.as_ref());
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn trees_of_more_directories_than_can_be_watched_are_known_before() {
        let root = Path::new("/a/root");
        assert_eq!(too_many(root, 1), None);
        let why = too_many(root, u64::MAX).unwrap();
        assert!(why.starts_with(&format!("it has {} directories", u64::MAX)));
        assert!(why.contains(") is lower; raise it with `sysctl "), "{why}");
    }
}
