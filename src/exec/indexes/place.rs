//! Where indexes are stored, and why not in the configured place.
//!
//! The setup of a tool chooses a [`Place`]. A [`Fallback`] is the reason that `stats` and messages
//! give when indexes are not stored where the configuration says.

use std::io;

use crate::format::error::FormatError;
use crate::index::store::Store;

/// The reason why an index is not stored in the configured place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The code in `stats`.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
}

impl Fallback {
    /// Creates the reason for a directory that can't be used.
    pub(crate) fn denied(error: &FormatError) -> Fallback {
        Fallback {
            code: "PERMISSION_DENIED",
            message: format!("{error}; index_path in [tools.search] sets the directory of indexes"),
        }
    }

    /// Creates the reason for a system that does not report the rights of this process, so an index
    /// in files can't be shared safely.
    pub(crate) fn unknown_rights(error: &io::Error) -> Fallback {
        Fallback {
            code: "RIGHTS_UNKNOWN",
            message: format!(
                "the system does not report the rights of this process ({error}), so indexes can't \
                 be shared safely; allow the system calls getgroups and capget, or set \
                 index_storage in [tools.search] to \"memory\""
            ),
        }
    }
}

/// Where the indexes of a tool are stored.
#[derive(Debug)]
pub enum Place {
    /// In files of a store.
    Store(Store),
    /// In memory, by configuration or as a fallback with its reason.
    Memory(Option<Fallback>),
    /// Nowhere: there is not even a directory to try.
    Nowhere(Fallback),
}
