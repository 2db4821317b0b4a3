//! Builds a segment, the index file of one tree: lists the tree, tokenizes its files and writes the
//! result.
//!
//! This module owns the phases ENUMERATE, TOKENIZE and PERSIST of a build, its use
//! of memory and threads, and the order of everything in the segment. That order does not depend on
//! the number of threads or on the order of directory listings. The caller provides a [`BuildHost`]
//! for time, limits and cancellation, and publishes the segment. The module reads no clock.
//!
//! Files are read in order of length. Their n-grams are collected until they fill a fixed amount of
//! memory. These files, which have similar sizes, become a group of blocks, and the rows of the
//! blocks are written. So memory does not grow with the tree, except for some hundred bytes per
//! file.
//!
//! `reader` reads and tokenizes one file, `reuse` copies blocks of an earlier segment, and `host`
//! is the interface to the caller.

use std::io::{self, Write};
use std::time::Duration;

use rayon::prelude::*;

use crate::format::error::FormatError;
use crate::format::section::{FileKind, SectionWriter, Summary};
use crate::format::segment::{
    BlockRecord, DirRecord, FileRecord, GroupRecord, MetaRecord, NameRecord, SEGMENT_VERSION,
    SideRecord, id,
};
use crate::index::block::{Direct, FileGrams, STORED_HASHES, Shape, Spreads, encode, partition};
use crate::index::bloom::BloomParams;
use crate::index::casefold::Casefold;
use crate::index::enumerate::{Enumeration, FileEntry};
use crate::index::handles::HandleLimitError;
use crate::index::inputs::Inputs;
use crate::index::names::shown;
use crate::index::pace::{BudgetError, Piece};
use crate::index::sections::{Sections, Slot, write_rows};
use crate::index::stamp::Stamp;
use crate::index::store::Eviction;
use crate::index::token::TokenStatus;
use crate::index::walk::Walk;
use crate::index::words::postings;
use crate::index::words::record::WordRecord;

mod host;
mod reader;
mod reuse;

pub use host::{BuildHost, Phase, Progress};
pub use reader::{FileReader, Outcome};
use reader::{Readers, spreads_out};
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

fn assemble_with<W: Write>(
    tree: &Enumeration,
    started_ns: i64,
    options: &BuildOptions,
    host: &dyn BuildHost,
    out: W,
    read: &(dyn Fn(&mut FileReader, usize) -> Outcome + Sync),
    reuse: Option<&Reuse<'_>>,
) -> Result<BuiltSegment, BuildError> {
    if tree.files.len() >= u32::MAX as usize || tree.dirs.len() >= u32::MAX as usize {
        return Err(BuildError::TooLarge("more than 4,294,967,294 files"));
    }
    // Larger files are not read.
    let lens = tree.files.iter().filter_map(|file| file.stamp);
    let lens = lens.map(Stamp::len);
    let read_bytes = lens.filter(|len| *len <= options.max_tokenized_bytes).sum();
    host.may_go_on(tree.files.len() as u64, read_bytes)?;
    let bytes = tree.files.iter().filter_map(|file| file.stamp);
    let mut build = Build {
        options,
        host,
        read_bytes,
        started_ns,
        out: SectionWriter::new(out, FileKind::Segment, SEGMENT_VERSION)?,
        spreads: Spreads::new(options.params, bytes.map(Stamp::len).sum()),
        sections: Sections::default(),
        ngrams: 0,
        unfinished: None,
    };
    build.out.begin(id::ROWS)?;
    if let Some(reuse) = reuse {
        build.copy(reuse)?;
    }
    let known = reuse.map(|reuse| &reuse.kept[..]).unwrap_or_default();
    let outcomes = build.tokenize(tree, read, known)?;
    build.out.end()?;
    build.finish(tree, &outcomes)
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

/// A build in progress.
struct Build<'a, W: Write> {
    options: &'a BuildOptions,
    host: &'a dyn BuildHost,
    /// The total bytes of the files that a build without reuse reads.
    read_bytes: u64,
    started_ns: i64,
    out: SectionWriter<W>,
    spreads: Spreads,
    sections: Sections,
    ngrams: u64,
    /// Set when no more files are read; the segment is completed with the files read so far.
    unfinished: Option<BuildInterruption>,
}

/// The content of files that waits for a group to become full.
#[derive(Default)]
struct Pending {
    slots: Vec<(Slot, FileGrams)>,
    /// The ranks of files, and their word records.
    words: Vec<(u32, WordRecord)>,
    /// The memory that all this takes.
    bytes: u64,
}

impl Pending {
    fn add(&mut self, rank: u32, outcome: Outcome) {
        for (start, grams) in outcome.parts {
            self.bytes += grams.footprint() as u64;
            self.slots.push((Slot { rank, start }, grams));
        }
        if let Some(words) = outcome.words {
            self.bytes += (words.entries.len() * postings::ENCODING_BYTES) as u64;
            self.words.push((rank, words));
        }
    }
}

/// The catalog data of a tokenized file.
#[derive(Clone, Copy)]
struct CatalogData {
    status: TokenStatus,
    excludable: bool,
    stamp: Option<Stamp>,
    settled: bool,
    ngrams: u32,
}

impl<W: Write> Build<'_, W> {
    /// Copies the reused blocks of an earlier segment.
    fn copy(&mut self, reuse: &Reuse<'_>) -> Result<(), BuildError> {
        let starts = reuse.segment.starts()?;
        for &group in &reuse.groups {
            if self.host.stopped() {
                return Err(BuildError::Stopped);
            }
            let blocks = reuse.segment.blocks_of(group, &starts)?;
            let direct = reuse.segment.direct_of(group)?;
            for block in &blocks {
                self.sections.blocks.push(BlockRecord {
                    files: block.shape.files,
                    words: block.shape.words,
                    hashed_rows: block.shape.hashed_rows,
                    rows_at: write_rows(&mut self.out, &block.rows)?,
                });
                let slots = block.slots.iter();
                self.sections.slots.extend(slots.map(|slot| Slot {
                    rank: reuse.new_rank(slot.rank),
                    start: slot.start,
                }));
            }
            let words = reuse.segment.word_list(group)?;
            let word_files = reuse.segment.word_files(group)?;
            self.sections.groups.push(GroupRecord {
                blocks: blocks.len() as u32,
                direct: direct.len() as u32,
                word_files: word_files.len() as u32,
                words_at: write_rows(&mut self.out, &words)?,
                words_len: words.len() as u64,
            });
            let word_files = word_files.into_iter().map(|rank| reuse.new_rank(rank));
            self.sections.word_files.extend(word_files);
            self.sections.direct.extend(direct);
            self.host.worked(1, Piece::Part);
        }
        let ngrams = reuse
            .kept
            .iter()
            .flatten()
            .map(|kept| u64::from(kept.ngrams));
        self.ngrams += ngrams.sum::<u64>();
        Ok(())
    }

    /// Reads all files that are not `known` and writes their blocks. Returns the catalog data of
    /// all files. Both are by rank.
    fn tokenize(
        &mut self,
        tree: &Enumeration,
        read: &(dyn Fn(&mut FileReader, usize) -> Outcome + Sync),
        known: &[Option<CatalogData>],
    ) -> Result<Vec<CatalogData>, BuildError> {
        let len = |rank: &usize| tree.files[*rank].stamp.map_or(0, Stamp::len);
        let is_known = |rank: usize| known.get(rank).is_some_and(Option::is_some);
        let mut order: Vec<usize> = (0..tree.files.len())
            .filter(|&rank| !is_known(rank))
            .collect();
        order.sort_by_key(|rank| (len(rank), *rank));
        let bytes_total: u64 = order.iter().map(len).sum();
        let mut kept = vec![
            CatalogData {
                status: TokenStatus::Unreadable,
                excludable: false,
                stamp: None,
                settled: false,
                ngrams: 0,
            };
            tree.files.len()
        ];
        for (kept, known) in kept.iter_mut().zip(known) {
            if let Some(known) = known {
                *kept = *known;
            }
        }
        let (budget, most) = (self.options.pending_bytes(), self.options.batch_bytes());
        let readers = Readers::new(self.options, self.started_ns);
        let mut pending = Pending::default();
        let (mut files_done, mut bytes_done) = (0, 0);
        let files_total = order.len() as u64;
        let mut rest = &order[..];
        while !rest.is_empty() {
            self.host.progress(Progress {
                phase: Phase::Tokenize,
                files_done,
                files_total,
                bytes_done,
                bytes_total,
            });
            if self.host.stopped() {
                self.leave_off(BuildInterruption::Stopped, files_done > 0)?;
                break;
            }
            let mut batch_bytes = 0;
            let batch = rest
                .iter()
                .take(BATCH_FILES)
                .take_while(|rank| {
                    let first = batch_bytes == 0;
                    batch_bytes += len(rank);
                    first || batch_bytes <= most
                })
                .count();
            let (now, later) = rest.split_at(batch);
            rest = later;
            if let [large] = now
                && len(large) > most
            {
                // A large file must not take memory in addition to pending n-grams.
                self.flush(&mut pending)?;
            }
            let threads = self.threads();
            let outcomes: Option<Vec<Outcome>> = now
                .par_iter()
                .with_min_len(match threads {
                    all if all == rayon::current_num_threads() => 1,
                    few => now.len().div_ceil(few),
                })
                .map_init(
                    || readers.take(),
                    |reader, &rank| (!self.host.stopped()).then(|| read(reader.get(), rank)),
                )
                .collect();
            let Some(outcomes) = outcomes else {
                self.leave_off(BuildInterruption::Stopped, files_done > 0)?;
                break;
            };
            for (&rank, outcome) in now.iter().zip(outcomes) {
                files_done += 1;
                bytes_done += len(&rank);
                let ngrams: usize = outcome.parts.iter().map(|(_, grams)| grams.len()).sum();
                kept[rank] = CatalogData {
                    status: outcome.status,
                    excludable: outcome.excludable,
                    stamp: outcome.stamp,
                    settled: outcome.settled,
                    ngrams: u32::try_from(ngrams).unwrap_or(u32::MAX),
                };
                self.ngrams += ngrams as u64;
                pending.add(rank as u32, outcome);
            }
            let spread = now.iter().any(|rank| spreads_out(len(rank)));
            self.host.worked(
                match spread {
                    true => rayon::current_num_threads(),
                    false => threads,
                },
                Piece::Batch,
            );
            if let Err(exceeded) = self.host.may_go_on(files_total, self.read_bytes) {
                self.leave_off(BuildInterruption::BudgetExceeded(exceeded), files_done > 0)?;
                break;
            }
            if pending.bytes > budget {
                self.flush(&mut pending)?;
            }
        }
        self.flush(&mut pending)?;
        Ok(kept)
    }

    /// Returns the number of threads for the next batch.
    fn threads(&self) -> usize {
        let most = self.options.threads();
        self.host.threads(most).clamp(1, most)
    }

    /// Ends the reading. The segment is completed if some file was read and the host keeps
    /// unfinished builds; otherwise the build fails with `why`.
    fn leave_off(&mut self, why: BuildInterruption, any: bool) -> Result<(), BuildError> {
        if !any || !self.host.keeps_unfinished() {
            return Err(why.into());
        }
        self.unfinished = Some(why);
        Ok(())
    }

    /// Writes the pending files as one group of blocks.
    fn flush(&mut self, pending: &mut Pending) -> Result<(), BuildError> {
        let Pending { slots, words, .. } = std::mem::take(pending);
        if slots.is_empty() && words.is_empty() {
            return Ok(());
        }
        let (word_files, words): (Vec<u32>, Vec<WordRecord>) = words.into_iter().unzip();
        let words = match self.options.words {
            true => postings::encode(words),
            false => Vec::new(),
        };
        let (slots, files): (Vec<Slot>, Vec<FileGrams>) = slots.into_iter().unzip();
        let direct = Direct::choose(&files);
        let hashed: Vec<usize> = files.par_iter().map(|file| direct.hashed(file)).collect();
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|&n| (hashed[n], slots[n]));
        let counts: Vec<usize> = order.iter().map(|&n| hashed[n]).collect();
        let mut at = 0;
        let blocks: Vec<(Shape, std::ops::Range<usize>)> = partition(&counts)
            .into_iter()
            .map(|files| {
                let block = at..at + files;
                at = block.end;
                (Shape::new(&counts[block.clone()], &direct), block)
            })
            .collect();
        // All threads may have worked until here.
        self.host.worked(rayon::current_num_threads(), Piece::Part);
        let mut rest = &blocks[..];
        while !rest.is_empty() {
            if self.unfinished.is_none() && self.host.stopped() {
                // The files read so far can still be completed.
                self.leave_off(BuildInterruption::Stopped, true)?;
            }
            // As many blocks at a time as threads and memory allow. An encoded block takes memory
            // twice while it is made.
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|(shape, _)| {
                bytes += 2 * shape.bytes();
                bytes <= self.options.max_memory_bytes / ENCODED_SHARE
            });
            let some = fitting.take(self.threads()).count().max(1);
            let (some, later) = rest.split_at(some);
            rest = later;
            let side_by_side = some.len();
            let encoded: Vec<(Shape, Vec<u8>)> = some
                .par_iter()
                .map(|(shape, block)| {
                    let shape = *shape;
                    let members: Vec<&FileGrams> =
                        order[block.clone()].iter().map(|&n| &files[n]).collect();
                    (shape, encode(shape, &members, &direct, &self.spreads))
                })
                .collect();
            for (shape, rows) in encoded {
                self.sections.blocks.push(BlockRecord {
                    files: shape.files,
                    words: shape.words,
                    hashed_rows: shape.hashed_rows,
                    rows_at: write_rows(&mut self.out, &rows)?,
                });
            }
            self.host.worked(side_by_side, Piece::Part);
        }
        self.sections.slots.extend(order.iter().map(|&n| slots[n]));
        self.sections.groups.push(GroupRecord {
            blocks: blocks.len() as u32,
            direct: direct.grams().len() as u32,
            word_files: word_files.len() as u32,
            words_at: write_rows(&mut self.out, &words)?,
            words_len: words.len() as u64,
        });
        self.sections.word_files.extend(word_files);
        self.sections.direct.extend_from_slice(direct.grams());
        Ok(())
    }

    /// Writes the catalog and completes the segment.
    fn finish(
        mut self,
        tree: &Enumeration,
        kept: &[CatalogData],
    ) -> Result<BuiltSegment, BuildError> {
        self.host.progress(Progress {
            phase: Phase::Persist,
            files_done: tree.files.len() as u64,
            files_total: tree.files.len() as u64,
            bytes_done: 0,
            bytes_total: 0,
        });
        let too_long = |_| {
            BuildError::TooLarge("the names take more than 4 GiB, or one name more than 64 KiB")
        };
        // `push_dir`, `push_file` and `push_side` fill in the name.
        let name = NameRecord::default();
        for dir in &tree.dirs {
            let record = DirRecord {
                parent: dir.parent,
                name,
                first_rank: dir.ranks.start,
                end_rank: dir.ranks.end,
                stamp: dir
                    .stamp
                    .filter(|stamp| stamp.is_settled(self.started_ns))
                    .map(Stamp::record)
                    .unwrap_or_default(),
                sets: dir.sets,
            };
            let name = dir.place.logical.file_name().unwrap_or_default();
            self.sections.push_dir(name, record).map_err(too_long)?;
        }
        for (file, own) in tree.files.iter().zip(kept) {
            let record = FileRecord {
                dir: file.dir,
                name,
                status: own.status as u8,
                excludable: own.excludable,
                sets: file.sets,
                ngrams: own.ngrams,
                stamp: own.stamp.map(Stamp::record).unwrap_or_default(),
            };
            let pushed = self.sections.push_file(&file.name, record);
            pushed.map_err(too_long)?;
        }
        for file in &tree.side {
            let record = SideRecord {
                dir: file.dir,
                before_rank: file.before_rank,
                name,
                sets: file.sets,
            };
            let pushed = self.sections.push_side(&file.name, record);
            pushed.map_err(too_long)?;
        }
        let full = kept.iter().filter(|own| own.status == TokenStatus::Full);
        let text_bytes = full.filter_map(|own| own.stamp).map(Stamp::len).sum();
        let meta = MetaRecord {
            files: tree.files.len() as u32,
            dirs: tree.dirs.len() as u32,
            side: tree.side.len() as u32,
            as_root: self.sections.as_root(),
            blocks: self.sections.blocks.len() as u32,
            groups: self.sections.groups.len() as u32,
            ngram_chars: self.options.params.ngram_chars,
            bloom_bits: self.options.params.bits,
            bloom_hashes: self.options.params.hashes,
            stored_hashes: STORED_HASHES as u32,
            casefold: self.options.casefold.number(),
            bloom_seed: self.options.params.seed,
            text_bytes,
            ngrams: self.ngrams,
        };
        let summary = self.sections.write(self.out, meta)?;
        let mut by_status = [0; TokenStatus::ALL.len()];
        for own in kept {
            by_status[own.status as usize] += 1;
        }
        let mut inputs = tree.inputs.clone();
        inputs.distrust_unsettled(self.started_ns);
        Ok(BuiltSegment {
            summary,
            meta,
            inputs,
            errors: tree.errors.clone(),
            by_status,
            excludable: kept.iter().filter(|own| own.excludable).count() as u64,
            unsettled: kept.iter().filter(|own| !own.settled).count() as u64,
            eviction: Eviction::default(),
            unfinished: self.unfinished,
        })
    }
}
