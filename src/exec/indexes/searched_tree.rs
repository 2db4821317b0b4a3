//! Finds the differences between a stored index and the tree below a searched directory.
//!
//! [`SearchedTree`] has the facts that a comparison needs. The decision compares before the search,
//! and the source of the files compares along with it.

use std::sync::{Arc, OnceLock};

use super::index_storage::walk;
use super::roots::IndexRoot;
use crate::exec::sources::catalog::RequestedPart;
use crate::exec::sources::catalog::comparing::{GoOn, TreeDifferences};
use crate::exec::sources::reach::Reach;
use crate::format::error::FormatError;
use crate::index::overlay::Overlay;
use crate::index::refresh::catch_up::{CaughtUp, catch_up};
use crate::index::refresh::names::NameComparison;
use crate::index::snapshot::{Snapshot, Stale};

/// The tree that a search covers, as far as the search depends on it.
pub(super) struct SearchedTree {
    root: Arc<IndexRoot>,
    reach: Arc<Reach>,
    snapshot: Arc<Snapshot>,
    part: RequestedPart,
    /// Set by the first comparison of names. `None` if the root can't be opened.
    names: OnceLock<Option<NameComparison>>,
}

impl SearchedTree {
    pub(super) fn new(
        root: &Arc<IndexRoot>,
        reach: &Arc<Reach>,
        snapshot: &Arc<Snapshot>,
        part: &RequestedPart,
    ) -> SearchedTree {
        SearchedTree {
            root: root.clone(),
            reach: reach.clone(),
            snapshot: snapshot.clone(),
            part: part.clone(),
            names: OnceLock::new(),
        }
    }

    fn names(&self) -> Option<&NameComparison> {
        let names = self.names.get_or_init(|| {
            let walk = walk(&self.root, &self.reach)?;
            Some(NameComparison::new(self.snapshot.clone(), walk))
        });
        names.as_ref()
    }
}

impl TreeDifferences for SearchedTree {
    fn has_same_names(&self, dir: u32, go_on: GoOn<'_>) -> Result<bool, FormatError> {
        match self.names() {
            Some(names) => names.are_same(dir, go_on),
            None => Ok(false),
        }
    }

    fn catch_up(&self, go_on: GoOn<'_>) -> Result<CaughtUp, FormatError> {
        let (snapshot, part) = (&self.snapshot, &self.part);
        if let Some(stale) = snapshot.unprovable()? {
            return Ok(CaughtUp::Unknown(stale));
        }
        let found = snapshot.differences(go_on, &part.root, &part.base, &part.path)?;
        let Some(mut differences) = found else {
            return Ok(CaughtUp::Unknown(Stale::Unfinished));
        };
        if differences.is_empty() {
            return Ok(CaughtUp::Same);
        }
        let Some(names) = self.names() else {
            return Ok(CaughtUp::Unknown(Stale::Unfinished));
        };
        names.remove_same(&mut differences, go_on)?;
        if !go_on() {
            return Ok(CaughtUp::Unknown(Stale::Unfinished));
        }
        if differences.is_empty() {
            // The files of the directories changed, so building the index again would help.
            let overlay = Overlay::none(snapshot.segment());
            let later = snapshot.later(overlay, snapshot.inputs().clone(), 0);
            return Ok(CaughtUp::Later(Box::new(later)));
        }
        catch_up(snapshot, &differences, names.walk(), &part.path, go_on)
    }
}
