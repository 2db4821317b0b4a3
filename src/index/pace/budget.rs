//! How much work a build may be.

/// What a build of an index may take in all, whatever the time limits of searches (`FR-LSI-BUD-INIT-01`). How fast it works is
/// another matter: time at rest counts like any other (`FR-LSI-BUD-05`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildBudget {
    /// The time from its start, in milliseconds; 0 for any (`index_build_timeout_ms`).
    pub max_ms: u64,
    /// The files that it indexes; 0 for any (`index_build_max_files`).
    pub max_files: u64,
    /// The bytes of files that it tokenizes; 0 for any (`index_build_max_bytes`).
    pub max_bytes: u64,
}

/// What a build had too little of. Amounts are those needed, as far as they were known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// Time, in milliseconds.
    #[error(
        "it takes longer than index_build_timeout_ms = {limit} of [tools.search] allows; raise that, or index a smaller tree"
    )]
    Time {
        /// The limit.
        limit: u64,
        /// The time that had passed.
        found: u64,
    },
    /// Files.
    #[error(
        "the tree has {found} files, more than index_build_max_files = {limit} of [tools.search] allows; raise that, set it to 0, or index a smaller tree"
    )]
    Files {
        /// The limit.
        limit: u64,
        /// The files that there are.
        found: u64,
    },
    /// Bytes of files.
    #[error(
        "the tree has {found} bytes to be indexed, more than index_build_max_bytes = {limit} of [tools.search] allows; raise that, set it to 0, or index a smaller tree"
    )]
    Bytes {
        /// The limit.
        limit: u64,
        /// The bytes that there are.
        found: u64,
    },
}

impl BuildBudget {
    /// Checks what a build takes: its time so far in milliseconds, its files, and their bytes.
    ///
    /// Serves `FR-LSI-BUD-INIT-01`, `FR-LSI-BUD-INIT-02`.
    ///
    /// # Errors
    ///
    /// [`Exceeded`] if anything of that is more than it may be: the first in the order of the arguments.
    pub fn check(&self, elapsed_ms: u64, files: u64, bytes: u64) -> Result<(), Exceeded> {
        let over = |limit: u64, found: u64| limit > 0 && found > limit;
        let (limit, found) = (self.max_ms, elapsed_ms);
        if over(limit, found) {
            return Err(Exceeded::Time { limit, found });
        }
        let (limit, found) = (self.max_files, files);
        if over(limit, found) {
            return Err(Exceeded::Files { limit, found });
        }
        let (limit, found) = (self.max_bytes, bytes);
        if over(limit, found) {
            return Err(Exceeded::Bytes { limit, found });
        }
        Ok(())
    }

    /// Returns the time that is left after `elapsed_ms`, in milliseconds.
    pub fn left_ms(&self, elapsed_ms: u64) -> u64 {
        match self.max_ms {
            0 => u64::MAX,
            max => max.saturating_sub(elapsed_ms),
        }
    }
}
