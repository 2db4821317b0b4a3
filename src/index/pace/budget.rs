//! The budget of a build: the most time, files and bytes.
//!
//! The error names the limit that was exceeded, its key in the configuration, and a remedy.

/// The limits of an index build in total, independent of the time limits of searches. Time at rest
/// counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildBudget {
    /// The longest duration, in milliseconds; 0 for no limit (`index_build_timeout_ms`).
    pub max_ms: u64,
    /// The most files that are indexed; 0 for no limit (`index_build_max_files`).
    pub max_files: u64,
    /// The most bytes of files that are tokenized; 0 for no limit (`index_build_max_bytes`).
    pub max_bytes: u64,
}

/// The limit that a build exceeded. Amounts are those needed, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The time limit, in milliseconds.
    #[error(
        "it takes longer than index_build_timeout_ms = {limit} of [tools.search] allows; raise the \
         limit, or index a smaller tree"
    )]
    Time {
        /// The configured limit.
        limit: u64,
        /// The elapsed time.
        found: u64,
    },
    /// The limit of files.
    #[error(
        "the tree has {found} files, more than index_build_max_files = {limit} of [tools.search] \
         allows; raise the limit, set it to 0, or index a smaller tree"
    )]
    Files {
        /// The configured limit.
        limit: u64,
        /// The number of files found.
        found: u64,
    },
    /// The limit of bytes of files.
    #[error(
        "the tree has {found} bytes to index, more than index_build_max_bytes = {limit} of \
         [tools.search] allows; raise the limit, set it to 0, or index a smaller tree"
    )]
    Bytes {
        /// The configured limit.
        limit: u64,
        /// The number of bytes found.
        found: u64,
    },
}

impl BuildBudget {
    /// Checks the elapsed time of a build in milliseconds, its files, and their bytes.
    ///
    /// # Errors
    ///
    /// [`BudgetError`] for the first argument that exceeds its limit.
    pub fn check(&self, elapsed_ms: u64, files: u64, bytes: u64) -> Result<(), BudgetError> {
        let over = |limit: u64, found: u64| limit > 0 && found > limit;
        let (limit, found) = (self.max_ms, elapsed_ms);
        if over(limit, found) {
            return Err(BudgetError::Time { limit, found });
        }
        let (limit, found) = (self.max_files, files);
        if over(limit, found) {
            return Err(BudgetError::Files { limit, found });
        }
        let (limit, found) = (self.max_bytes, bytes);
        if over(limit, found) {
            return Err(BudgetError::Bytes { limit, found });
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
