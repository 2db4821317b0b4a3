//! Where indexes are kept, and why not where they were configured to be.

use std::io;

use crate::format::error::FormatError;
use crate::index::store::Store;

/// Why an index is not kept where it was configured to be (FR-LSI-STOR-FALLBACK-01).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The code in `stats`.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
}

impl Fallback {
    /// Says that a directory will not do.
    pub(crate) fn denied(error: &FormatError) -> Fallback {
        Fallback {
            code: "PERMISSION_DENIED",
            message: format!("{error}; index_path in [tools.search] says where indexes are kept"),
        }
    }

    /// Says that nobody knows for whom an index in files would be.
    pub(crate) fn unknown_rights(error: &io::Error) -> Fallback {
        Fallback {
            code: "RIGHTS_UNKNOWN",
            message: format!(
                "the system does not tell what this process may read ({error}), so that indexes can't be shared with \
                 others; allow the system calls getgroups and capget, or set index_storage in [tools.search] to \
                 \"memory\""
            ),
        }
    }
}

/// Where the indexes of a tool are.
#[derive(Debug)]
pub enum Place {
    /// In files.
    Store(Store),
    /// In memory, because that is configured or for want of anything better.
    Memory(Option<Fallback>),
    /// Nowhere: there is not even a directory that could be tried.
    Nowhere(Fallback),
}
