//! Builds a segment, the index file of one tree: lists the tree, tokenizes its files and writes the
//! result.
//!
//! This module owns the phases ENUMERATE, TOKENIZE and PERSIST of a build, its use of memory and
//! threads, and the order of everything in the segment. That order does not depend on the number of
//! threads or on the order of directory listings. The caller provides a [`BuildHost`] for time,
//! limits and cancellation, and publishes the segment. The module reads no clock.
//!
//! Files are read in order of length. Their n-grams are collected until they fill a fixed amount of
//! memory. These files, which have similar sizes, become a group of blocks, and the rows of the
//! blocks are written. So memory does not grow with the tree, except for some hundred bytes per
//! file.
//!
//! `groups` reads the files and writes their blocks, `reader` tokenizes one file, `reuse` copies
//! blocks of an earlier segment, and `host` is the interface to the caller.

mod error;
mod groups;
mod host;
mod reader;
mod reuse;

use std::io::Write;
use std::time::Duration;

use crate::format::section::Summary;
use crate::format::segment::MetaRecord;
use crate::index::bloom::BloomParams;
use crate::index::casefold::Casefold;
use crate::index::enumerate::{Enumeration, FileEntry};
use crate::index::inputs::Inputs;
use crate::index::pace::Piece;
use crate::index::store::Eviction;
use crate::index::token::TokenStatus;
use crate::index::walk::Walk;
pub use error::{BuildError, BuildInterruption};
use groups::assemble_with;
pub use host::{BuildHost, Phase, Progress};
pub use reader::{FileReader, Outcome};
pub use reuse::EarlierSegment;
use reuse::Reuse;

/// Limits on the batch of files that is read between two progress reports: files, bytes, and the
/// share of the memory limit. The n-grams of a text take up to twelve times its bytes, and those of
/// a batch come in addition to the pending ones.
const BATCH_FILES: usize = 1024;
const BATCH_BYTES: u64 = 32 << 20;
const BATCH_SHARE: u64 = 64;

/// Divisor of the memory limit: this part may hold n-grams that wait for a group to become full.
const PENDING_SHARE: u64 = 4;

/// Divisor of the memory limit: this part may hold encoded blocks. A single block may take more.
const ENCODED_SHARE: u64 = 16;

/// The memory limit allows one thread per this many bytes.
const THREAD_MEMORY: u64 = 48 << 20;

/// The least memory limit that shares are taken of. A build takes some tens of megabytes anyway.
const LEAST_MEMORY: u64 = 4 << 20;

/// Limit on the listings of the tree, if entries changed too recently or could not be listed.
const SETTLE_ROUNDS: u32 = 3;

/// The longest wait for recent changes to settle, which the coarsest timestamps need.
pub const MAX_SETTLE: Duration = Duration::from_millis(2_200);

/// The options of a build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildOptions {
    /// The parameters of the logical filter.
    pub params: BloomParams,
    /// The case folding of the case-insensitive n-grams.
    pub casefold: Casefold,
    /// The longest file that is tokenized, in bytes. At most 256 MiB: a longer line is an error of
    /// every search, and excluding its file would hide the error.
    pub max_tokenized_bytes: u64,
    /// Memory limit in bytes, not counting some hundred bytes for each file. About half of it holds
    /// n-grams, before they are written to the output. A file that takes more than half of it,
    /// together with its n-grams, is never excluded. Callers must limit the file size to
    /// [`BuildOptions::tokenized_bytes`].
    pub max_memory_bytes: u64,
    /// Whether the segment has the words of files, for ranked questions. If it is built from an
    /// earlier one that has words, it has them anyway.
    pub words: bool,
}

impl BuildOptions {
    /// Returns the length limit of tokenized files, in bytes: `max_tokenized_bytes`, or less if the
    /// memory limit is low, because the text is in memory together with its n-grams.
    pub fn tokenized_bytes(max_tokenized_bytes: u64, max_memory_bytes: u64) -> u64 {
        max_tokenized_bytes.min(share(max_memory_bytes, PENDING_SHARE))
    }

    /// Returns the number of threads: those of the current pool, as far as memory suffices for the
    /// buffers of each.
    fn threads(&self) -> usize {
        let threads = self.max_memory_bytes / THREAD_MEMORY;
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        threads.clamp(1, rayon::current_num_threads().max(1))
    }

    /// Returns the memory for n-grams before they are written, in bytes.
    fn pending_bytes(&self) -> u64 {
        share(self.max_memory_bytes, PENDING_SHARE)
    }

    /// Returns the limit on the bytes of a batch of several files.
    fn batch_bytes(&self) -> u64 {
        share(self.max_memory_bytes, BATCH_SHARE).min(BATCH_BYTES)
    }
}

/// Returns one of `shares` equal shares of the memory limit.
fn share(max_memory_bytes: u64, shares: u64) -> u64 {
    max_memory_bytes.max(LEAST_MEMORY) / shares
}

/// A built segment and its statistics.
#[derive(Debug)]
pub struct BuiltSegment {
    /// The length and checksum of the segment file.
    pub summary: Summary,
    /// The metadata record of the segment.
    pub meta: MetaRecord,
    /// The inputs that decide about eligibility inside the tree, such as ignore files.
    pub inputs: Inputs,
    /// Paths that could not be listed, and why. While there are any, searches must not exclude any
    /// file.
    pub errors: Vec<(std::path::PathBuf, String)>,
    /// Numbers of files by status, in the order of [`TokenStatus`].
    pub by_status: [u64; TokenStatus::ALL.len()],
    /// The number of excludable files. Every search reads all other files.
    pub excludable: u64,
    /// The number of files that changed shortly before the build or during it, or that an
    /// unfinished build did not read. They are never excluded.
    pub unsettled: u64,
    /// The indexes that were or should have been evicted; known once the segment is published.
    pub eviction: Eviction,
    /// Why some files were not read. A search cannot use such a segment, but another build can
    /// continue from it.
    pub unfinished: Option<BuildInterruption>,
}

/// The start and the result of a build of a live index.
#[derive(Clone, Copy, Debug)]
pub struct BuildRequest<'a> {
    /// A segment of the index. Its unchanged files are not read again.
    pub earlier: Option<EarlierSegment<'a>>,
    /// Whether the new segment gets the words of its files, even if the earlier one has none.
    pub words: bool,
    /// Whether the new segment is stored; otherwise it stays in memory.
    pub keep: bool,
}

impl BuildRequest<'_> {
    /// Requests a stored segment without words, for which all files are read.
    pub fn full() -> Self {
        BuildRequest {
            earlier: None,
            words: false,
            keep: true,
        }
    }
}

/// Builds the segment of a tree on the threads of the current pool.
///
/// # Errors
///
/// See [`BuildError`]. Unreadable paths inside the tree are not errors of the build;
/// [`BuiltSegment`] reports them.
pub fn build<W: Write>(
    walk: &Walk,
    options: &BuildOptions,
    host: &dyn BuildHost,
    out: W,
) -> Result<BuiltSegment, BuildError> {
    build_from(walk, options, host, None, out)
}

/// Builds the segment of a tree like [`build`], but copies the blocks of unchanged files from an
/// earlier segment and does not read these files.
///
/// The earlier segment must have the same options.
///
/// # Errors
///
/// Those of [`build`], and [`BuildError::Format`] if the earlier segment is damaged.
pub fn build_from<W: Write>(
    walk: &Walk,
    options: &BuildOptions,
    host: &dyn BuildHost,
    earlier: Option<EarlierSegment<'_>>,
    out: W,
) -> Result<BuiltSegment, BuildError> {
    // An earlier segment without words has too little of its files. If it has words, the new one
    // has them, too.
    let earlier = earlier.filter(|earlier| !options.words || earlier.has_words());
    let words = options.words || earlier.is_some_and(|earlier| earlier.has_words());
    let options = &BuildOptions { words, ..*options };
    let (tree, started_ns) = enumerate(walk, host)?;
    let read = |reader: &mut FileReader, rank: usize| {
        let file: &FileEntry = &tree.files[rank];
        reader.read(&tree.found(rank), file.stamp)
    };
    let reuse = earlier
        .map(|earlier| Reuse::of(earlier, &tree))
        .transpose()?;
    assemble_with(&tree, started_ns, options, host, out, &read, reuse.as_ref())
}

/// Builds the segment of a tree that was listed after the time `started_ns`. `read` reads and
/// tokenizes the file with the given rank.
///
/// # Errors
///
/// Those of [`build`].
pub fn assemble<W: Write>(
    tree: &Enumeration,
    started_ns: i64,
    options: &BuildOptions,
    host: &dyn BuildHost,
    out: W,
    read: &(dyn Fn(&mut FileReader, usize) -> Outcome + Sync),
) -> Result<BuiltSegment, BuildError> {
    assemble_with(tree, started_ns, options, host, out, read, None)
}

/// Lists the tree. Lists it again if something changed so recently that a later change might keep
/// the same timestamp, or if something could not be listed. Such an error may be temporary: a
/// directory can be removed between the listing of its parent and its own listing. An error that
/// occurs again in the next listing is final.
fn enumerate(walk: &Walk, host: &dyn BuildHost) -> Result<(Enumeration, i64), BuildError> {
    let mut rounds = SETTLE_ROUNDS;
    let mut errors_before = Vec::new();
    loop {
        host.progress(Progress {
            phase: Phase::Enumerate,
            files_done: 0,
            files_total: 0,
            bytes_done: 0,
            bytes_total: 0,
        });
        let started_ns = host.now_ns();
        let stopped = || {
            host.worked(rayon::current_num_threads(), Piece::Part);
            host.stopped() || host.may_go_on(0, 0).is_err()
        };
        let tree = Enumeration::of(walk, &stopped, &|dir| host.entering(dir));
        if host.stopped() {
            return Err(BuildError::Stopped);
        }
        host.may_go_on(0, 0)?;
        let wait = tree.settle_in(started_ns);
        rounds -= 1;
        let may_pass = !tree.errors.is_empty() && tree.errors != errors_before;
        if rounds == 0 || (wait.is_zero() && !may_pass) {
            return Ok((tree, started_ns));
        }
        errors_before = tree.errors;
        if !wait.is_zero() {
            // The limit covers times in the future, which a skewed clock causes.
            host.pause(wait.min(MAX_SETTLE));
        }
    }
}
