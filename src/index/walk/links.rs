//! Resolves symbolic links and decides whether a walk follows them.

use std::path::PathBuf;
use std::sync::Arc;

use super::{EntryPaths, Member, Walk};
use crate::index::root_dir::{EntryKind, RootDir};

impl Walk {
    /// Resolves a link. Returns `Ok(None)` if the target is denied, or is neither a file nor a
    /// directory; such links are skipped without an error.
    pub(super) fn resolve_link(
        &self,
        member: &Member,
        paths: &EntryPaths<'_>,
    ) -> Result<Option<(bool, Arc<RootDir>, PathBuf)>, String> {
        let target = paths
            .real_absolute
            .canonicalize()
            .map_err(|error| format!("symbolic link can't be followed: {error}"))?;
        let Some((root, real)) = (self.locate)(&target) else {
            return Err("symbolic link leads outside the allowed roots and is not followed".into());
        };
        if self.deny.denies_path_or_parent(&target, &real).is_some() {
            return Ok(None);
        }
        let metadata = root.metadata(&real).map_err(|error| error.to_string())?;
        match metadata.kind {
            EntryKind::File => return Ok(Some((false, root, real))),
            EntryKind::Dir => {}
            EntryKind::Symlink | EntryKind::Other => return Ok(None),
        }
        let mut above = member.above.as_deref();
        while let Some(ancestor) = above {
            if ancestor.real == target {
                return Err(
                    "symbolic link leads to a directory above it and is not followed".into(),
                );
            }
            above = ancestor.parent.as_deref();
        }
        Ok(Some((true, root, real)))
    }
}
