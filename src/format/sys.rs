//! The differences between systems, as far as they concern the files of an index.
//!
//! Each function exists once for each system. `unix` and `windows` say what theirs guarantee:
//!
//! | subject | `unix` | `windows` |
//! | --- | --- | --- |
//! | private files and directories | owner and mode are set and checked | access rights are inherited, and not checked |
//! | a link in place of an index file | is not followed | is not followed |
//! | renaming over a file that is in use | always succeeds | succeeds on NTFS; else is retried for half a second |
//! | removing a file that is in use | its name is free at once | its name is free at once on NTFS; else after the last close |
//! | whether a lock file was removed meanwhile | is noticed by its identity | the same |
//! | names in a directory after a power failure | the directory is synced | the filesystem orders them |
//! | in-place changes of an index file | length, times of writing and change | length and time of writing |

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
