//! Reads changed files, so that searches can exclude them again.

use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;

use super::worker::LATER;
use super::{Shared, lock};
use crate::index::builder::{BuildOptions, FileReader, MAX_SETTLE};
use crate::index::overlay::{Content, Extra};
use crate::index::pace::millis;
use crate::index::stamp::Stamp;
use crate::index::walk::{FoundFile, Place, join};

/// Limits of one round, after which the worker checks for more urgent tasks: files and bytes.
const ROUND_FILES: usize = 256;
const ROUND_BYTES: u64 = 16 << 20;

/// The share of the index's memory limit that n-grams of extra files may take.
const MEMORY_SHARE: u64 = 4;

/// Reads some of the files that changed and were not read since. Returns when to continue: now,
/// later because some files have only just changed, or `None` when finished.
pub(super) fn read_some(shared: &Shared) -> Option<u64> {
    let index_host = &shared.index_host;
    let snapshot = shared.status().published.clone()?;
    // If no new segment can be built, changed files are searched each time instead of being held in
    // memory.
    if snapshot.overlay().footprint() > index_host.options().max_memory_bytes / MEMORY_SHARE {
        return None;
    }
    let now_ns = index_host.host().now_ns();
    let mut unsettled: Option<Duration> = None;
    let mut more = false;
    let mut chosen: Vec<(&Arc<Extra>, Stamp)> = Vec::new();
    let mut bytes = 0;
    for extra in snapshot.overlay().extras() {
        let (Content::Unread, Some(stamp)) = (&extra.content, extra.stamp) else {
            continue;
        };
        let settles_in = stamp.settles_in(now_ns);
        if !settles_in.is_zero() {
            let wait = again_after(settles_in);
            unsettled = Some(unsettled.map_or(wait, |least| least.min(wait)));
            continue;
        }
        if chosen.len() >= ROUND_FILES || bytes >= ROUND_BYTES {
            more = true;
            break;
        }
        bytes += stamp.len();
        chosen.push((extra, stamp));
    }
    let walk_root = {
        let tree_state = shared.tree_state()?;
        let node = lock(&tree_state).walk.start();
        node.places().next()?.clone()
    };
    let read = |reader: &mut FileReader<'_>, (extra, stamp): (&Arc<Extra>, Stamp)| {
        let found = FoundFile {
            dir: Arc::new(Place {
                root: walk_root.root.clone(),
                real: join(&walk_root.real, extra.dir()),
                logical: extra.dir().to_path_buf(),
            }),
            name: extra.name().to_os_string(),
            target: None,
        };
        let content = reader.read(&found, Some(stamp)).into_content(stamp);
        (extra.clone(), content)
    };
    let options = BuildOptions {
        words: snapshot.segment().has_words(),
        ..*index_host.options()
    };
    let contents: Vec<_> = index_host.pool().install(|| {
        chosen
            .into_par_iter()
            .map_init(|| FileReader::new(&options, now_ns), read)
            .collect()
    });
    if !contents.is_empty() {
        let tree_state = shared.tree_state()?;
        let mut tree_state = lock(&tree_state);
        for (extra, content) in contents {
            if let Some(content) = content {
                tree_state.known.overlay.read(&extra, content);
            }
        }
        tree_state.publish(shared);
    }
    let now_ms = index_host.now_ms();
    match (more, unsettled) {
        (true, _) => Some(now_ms),
        (false, Some(wait)) => Some(now_ms.saturating_add(millis(wait)).saturating_add(1)),
        (false, None) => None,
    }
}

/// Returns when to look again at a file that settles after `settles_in`. A time longer than any
/// filesystem needs means that the file's time is in the future, because of a wrong clock. Such a
/// file is checked only rarely, since every look before the clock is right is useless.
fn again_after(settles_in: Duration) -> Duration {
    match settles_in <= MAX_SETTLE {
        true => settles_in,
        false => LATER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_the_future_is_no_reason_to_look_again_and_again() {
        for (settles_in, expected) in [
            (Duration::from_nanos(1), Duration::from_nanos(1)),
            (MAX_SETTLE, MAX_SETTLE),
            (MAX_SETTLE + Duration::from_nanos(1), LATER),
            (Duration::MAX, LATER),
        ] {
            assert_eq!(again_after(settles_in), expected, "{settles_in:?}");
        }
    }
}
