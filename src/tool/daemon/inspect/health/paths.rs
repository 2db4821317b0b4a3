//! The paths of a tree: which are unsafe to show, and which differ only by case or form.

use std::path::{Component, PathBuf};

use super::{PATHS, fail, ok, warn};
use crate::exec::sources::catalog::without_dead;
use crate::format::error::FormatError;
use crate::index::snapshot::Snapshot;
use crate::tool::daemon::report::Check;

/// Up to [`PATHS`] paths of searched files, and the total number if that is known.
pub(super) struct Paths {
    pub(super) all: Vec<PathBuf>,
    pub(super) of: Option<u64>,
    /// How many of the paths lead outside of the sandbox through links.
    pub(super) outside: usize,
}

impl Paths {
    /// Returns the paths of a snapshot: live files of the segment, and extra files of the overlay.
    pub(super) fn of(snapshot: &Snapshot) -> Result<Paths, FormatError> {
        let (segment, overlay) = (snapshot.segment(), snapshot.overlay());
        let files = segment.file_count();
        let live = without_dead(snapshot, 0..files, None);
        let ranks = (0..files).filter(|rank| live.as_ref().is_none_or(|live| live.contains(*rank)));
        let of = u64::from(files - overlay.dead_count()) + overlay.extras().len() as u64;
        // The paths of extra files come first, since less is known about them.
        let mut all: Vec<PathBuf> = overlay
            .extras()
            .iter()
            .map(|extra| extra.path.clone())
            .take(PATHS)
            .collect();
        for rank in ranks.take(PATHS - all.len()) {
            all.push(segment.path(rank)?);
        }
        Ok(Paths {
            all,
            of: Some(of),
            outside: 0,
        })
    }

    fn to_text(&self) -> String {
        let seen = self.all.len() as u64;
        match self.of {
            Some(of) if of == seen => format!("{seen} paths"),
            Some(of) => format!("{seen} paths, out of {of},"),
            None => format!("the first {seen} paths"),
        }
    }

    /// Checks that every path leads downwards from the root.
    pub(super) fn safety(&self) -> Check {
        let code = "path_safety";
        let inside = |path: &&PathBuf| {
            path.components()
                .all(|part| matches!(part, Component::Normal(_)))
        };
        let wrong = self.all.len() - self.all.iter().filter(inside).count() + self.outside;
        let told = self.to_text();
        match wrong {
            0 => ok(
                code,
                format!("{told} were checked and stay inside the allowed roots"),
            ),
            wrong => fail(
                code,
                format!("{wrong} of {told} lead out of the allowed roots"),
            ),
        }
    }

    /// Checks for paths that differ in case only: on some systems they are one file.
    pub(super) fn collisions(&self) -> Check {
        let code = "casefold_collisions";
        let fold = |path: &PathBuf| {
            let lower = path.to_string_lossy().to_lowercase();
            xxhash_rust::xxh3::xxh3_64(lower.as_bytes())
        };
        let mut folded: Vec<u64> = self.all.iter().map(fold).collect();
        folded.sort_unstable();
        let twice = folded.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let told = self.to_text();
        match twice {
            0 => ok(
                code,
                format!("{told} were compared, and no two differ only in case"),
            ),
            twice => warn(
                code,
                format!(
                    "{twice} of {told} differ from another path only in case; on other systems \
                     they may be the same file"
                ),
            ),
        }
    }
}
