//! Why a build ends early: without a segment, or with one that covers a part of the tree. For
//! example, the budget was used up.

use std::io;

use crate::format::error::FormatError;
use crate::index::handles::HandleLimitError;
use crate::index::names::shown;
use crate::index::pace::BudgetError;

/// Why a build ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildInterruption {
    /// The host stopped the build.
    Stopped,
    /// The build exceeded its budget.
    BudgetExceeded(BudgetError),
}

impl From<BuildInterruption> for BuildError {
    fn from(unfinished: BuildInterruption) -> BuildError {
        match unfinished {
            BuildInterruption::Stopped => BuildError::Stopped,
            BuildInterruption::BudgetExceeded(exceeded) => BuildError::BudgetExceeded(exceeded),
        }
    }
}

/// Why a build produced no segment.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The host stopped the build.
    #[error("the build was stopped")]
    Stopped,
    /// The build exceeds its budget.
    #[error("the build was aborted: {0}")]
    BudgetExceeded(#[from] BudgetError),
    /// The output could not be written.
    #[error("the index could not be written: {0}")]
    Output(#[from] io::Error),
    /// The output could not be published.
    #[error("{0}")]
    Format(#[from] FormatError),
    /// The segment exceeds the limit of one index, or of all indexes together.
    #[error(
        "the index would exceed the {limit} bytes that {key} of [tools.search] allows; raise the \
         limit, or index a smaller tree. An existing index is unchanged"
    )]
    OverLimit {
        /// The limit, in bytes.
        limit: u64,
        /// The key that sets it.
        key: &'static str,
    },
    /// Opening the segment would exceed the limit on open segments.
    #[error("the index was not built: {0}. An existing index is unchanged")]
    TooManyOpen(#[from] HandleLimitError),
    /// The index is kept in memory and exceeds the memory limit.
    #[error(
        "the index takes {bytes} bytes of memory, more than the {limit} that \
         index_max_memory_bytes of [tools.search] allows; raise the limit, or set index_storage = \
         \"mmap\""
    )]
    OverMemory {
        /// The limit, in bytes.
        limit: u64,
        /// The size of the index, in bytes.
        bytes: u64,
    },
    /// No directory can hold indexes: why, and what to do.
    #[error("{0}")]
    NoPlace(String),
    /// The directory is not an index root.
    #[error("{} is not an index root; add it to index_roots of [tools.search], or make it the root", shown(.0))]
    NotARoot(std::path::PathBuf),
    /// The index was set up with other eligibility rules.
    #[error(
        "the index of {} was set up with another sandbox, or with global excludes relative to another directory", shown(.0)
    )]
    OtherPolicy(std::path::PathBuf),
    /// The tree has more files or longer names than a segment can hold.
    #[error("the tree is too large for an index: {0}")]
    TooLarge(&'static str),
}
