//! Building a segment: from a walk to the bytes of a file.
//!
//! Owns the phases ENUMERATE, TOKENIZE and PERSIST of a build (FR-LSI-BG-20), its use of memory and processors, and
//! the order of everything in the segment, which is the same for any number of threads and any order in which
//! directories are listed. It publishes nothing and reads no clock.
//!
//! Files are read in the order of their lengths. Their n-grams are collected until they fill a fixed amount of
//! memory; then these files, which are alike in size, become a group of blocks, and the rows go to the output. So
//! memory does not grow with the tree, but for some hundred bytes a file.

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
use crate::index::handles::TooMany;
use crate::index::inputs::Inputs;
use crate::index::pace::{Exceeded, Piece};
use crate::index::sections::{Sections, Slot, write_rows};
use crate::index::stamp::Stamp;
use crate::index::store::Eviction;
use crate::index::token::TokenStatus;
use crate::index::walk::Walk;

mod host;
mod reader;
mod reuse;

pub use host::{BuildHost, Phase, Progress};
use reader::spreads_out;
pub use reader::{FileReader, Outcome};
pub use reuse::Earlier;
use reuse::Reuse;

/// Files that are read between two reports of progress, and their bytes. N-grams take up to twelve times the bytes of a
/// text, and those of a batch come on top of those that wait already.
const BATCH_FILES: usize = 1024;
const BATCH_BYTES: u64 = 32 << 20;
const BATCH_SHARE: u64 = 64;

/// The share of the memory that n-grams may take while they wait for a group to become full.
const PENDING_SHARE: u64 = 4;

/// The share that encoded blocks may take, beside one at a time.
const ENCODED_SHARE: u64 = 16;

/// The memory that there has to be for each thread.
const THREAD_MEMORY: u64 = 48 << 20;

/// The least that these shares are of: a build takes some tens of megabytes however little it may.
const LEAST_MEMORY: u64 = 4 << 20;

/// How often the tree is listed at most, if something had only just changed or could not be listed.
const SETTLE_ROUNDS: u32 = 3;

/// The longest wait for something to settle: as long as the coarsest timestamps need.
pub const MAX_SETTLE: Duration = Duration::from_millis(2_200);

/// How an index is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildOptions {
    /// The parameters of the logical filter.
    pub params: BloomParams,
    /// How the insensitive variant folds.
    pub casefold: Casefold,
    /// The longest file that is tokenized, in bytes. No more than 256 MiB: a longer line is an error of a search
    /// whether or not it matches, and leaving its file out would leave out the error.
    pub max_tokenized_bytes: u64,
    /// Memory that the build may take, in bytes, beside some hundred bytes for each file. It takes about half for n-grams,
    /// and spills them to the output. Files that take more than half of it together with their n-grams are never left
    /// out. [`BuildOptions::tokenized_bytes`] has to be obeyed.
    pub max_memory_bytes: u64,
}

impl BuildOptions {
    /// Returns how long a file may be that is tokenized in this much memory, in bytes, if it may be as long as
    /// `max_tokenized_bytes` otherwise: beside its n-grams the text itself has to be held.
    pub fn tokenized_bytes(max_tokenized_bytes: u64, max_memory_bytes: u64) -> u64 {
        max_tokenized_bytes.min(share(max_memory_bytes, PENDING_SHARE))
    }

    /// Returns how many threads work at once: those of the current pool, as far as memory is enough for the buffers that
    /// each has.
    fn threads(&self) -> usize {
        let threads = self.max_memory_bytes / THREAD_MEMORY;
        let threads = usize::try_from(threads).unwrap_or(usize::MAX);
        threads.clamp(1, rayon::current_num_threads().max(1))
    }

    /// Returns the memory that n-grams may take before they are written, in bytes.
    fn pending_bytes(&self) -> u64 {
        share(self.max_memory_bytes, PENDING_SHARE)
    }

    /// Returns the bytes of files that are read at once, if they are several.
    fn batch_bytes(&self) -> u64 {
        share(self.max_memory_bytes, BATCH_SHARE).min(BATCH_BYTES)
    }
}

/// Returns one of so many equal shares of the memory.
fn share(max_memory_bytes: u64, shares: u64) -> u64 {
    max_memory_bytes.max(LEAST_MEMORY) / shares
}

/// A segment that was built, and what is known of it.
#[derive(Debug)]
pub struct Built {
    /// Length and checksum of the file.
    pub summary: Summary,
    /// What the segment says about itself.
    pub meta: MetaRecord,
    /// What decided about eligibility inside the tree.
    pub inputs: Inputs,
    /// What could not be listed. While there is anything, nothing may be left out of a search.
    pub errors: Vec<(std::path::PathBuf, String)>,
    /// Files by what became of them, in the order of [`TokenStatus`].
    pub by_status: [u64; TokenStatus::ALL.len()],
    /// Files that may be left out of a search; all others are searched whatever is looked for.
    pub excludable: u64,
    /// Files that had only just changed, or changed while they were read; they are never left out.
    pub unsettled: u64,
    /// What had to go for it, and what should have; known when it is published.
    pub eviction: Eviction,
    /// Why not all files were read that there are, if that is so. Such a segment proves nothing to a search; another build
    /// can go on from it.
    pub unfinished: Option<Unfinished>,
}

/// Why a build ended before it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// The host stopped it.
    Stopped,
    /// It took more than it may.
    BudgetExceeded(Exceeded),
}

impl From<Unfinished> for BuildError {
    fn from(unfinished: Unfinished) -> BuildError {
        match unfinished {
            Unfinished::Stopped => BuildError::Stopped,
            Unfinished::BudgetExceeded(exceeded) => BuildError::BudgetExceeded(exceeded),
        }
    }
}

/// Why there is no segment.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The host stopped it.
    #[error("the build was stopped")]
    Stopped,
    /// It takes more than it may.
    #[error("the build was given up: {0}")]
    BudgetExceeded(#[from] Exceeded),
    /// The output could not be written.
    #[error("the index could not be written: {0}")]
    Output(#[from] io::Error),
    /// The output could not be published.
    #[error("{0}")]
    Format(#[from] FormatError),
    /// It is larger than one index, or all together, may be.
    #[error(
        "the index would take more than the {limit} bytes that {key} of [tools.search] allows; raise that, or index a \
         smaller tree. What was there before stays"
    )]
    OverLimit {
        /// The limit, in bytes.
        limit: u64,
        /// The key that sets it.
        key: &'static str,
    },
    /// One more segment would be open than may be.
    #[error("the index was not built: {0}. What was there before stays")]
    TooManyOpen(#[from] TooMany),
    /// It is kept in memory, and larger than it may be there.
    #[error(
        "the index takes {bytes} bytes of memory, more than the {limit} that index_max_memory_bytes of [tools.search] \
         allows; raise that, or set index_storage = \"mmap\""
    )]
    OverMemory {
        /// The limit, in bytes.
        limit: u64,
        /// What it takes.
        bytes: u64,
    },
    /// Indexes can't be kept anywhere: why, and what to do.
    #[error("{0}")]
    NoPlace(String),
    /// The directory is none that is indexed.
    #[error("{} is no index root; name it in index_roots of [tools.search], or as the root", .0.display())]
    NotARoot(std::path::PathBuf),
    /// Files are eligible by other rules than those that the index was set up with.
    #[error(
        "the index of {} was set up with another sandbox, or with global excludes relative to another directory", .0.display()
    )]
    OtherPolicy(std::path::PathBuf),
    /// The tree has more files or longer names than a segment can hold.
    #[error("the tree is too large for an index: {0}")]
    TooLarge(&'static str),
}

/// Builds the segment of a tree on the threads of the current pool.
///
/// # Errors
///
/// [`BuildError`]. What could not be read inside the tree is no error of the build; it is part of [`Built`].
pub fn build<W: Write>(
    walk: &Walk,
    options: &BuildOptions,
    host: &dyn BuildHost,
    out: W,
) -> Result<Built, BuildError> {
    build_from(walk, options, host, None, out)
}

/// Builds the segment of a tree as [`build`] does, but for the files that an earlier segment of it has as they are: their blocks
/// are copied, and they are not read. It must have been made with the same options.
///
/// # Errors
///
/// As [`build`], and [`BuildError::Format`] if the earlier segment is damaged.
pub fn build_from<W: Write>(
    walk: &Walk,
    options: &BuildOptions,
    host: &dyn BuildHost,
    earlier: Option<Earlier<'_>>,
    out: W,
) -> Result<Built, BuildError> {
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

/// Builds the segment of a tree that was listed after the moment `started_ns`, of whose files `read` tells what is
/// in them, given their ranks.
///
/// # Errors
///
/// As [`build`].
pub fn assemble<W: Write>(
    tree: &Enumeration,
    started_ns: i64,
    options: &BuildOptions,
    host: &dyn BuildHost,
    out: W,
    read: &(dyn Fn(&mut FileReader, usize) -> Outcome + Sync),
) -> Result<Built, BuildError> {
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
) -> Result<Built, BuildError> {
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

/// Lists the tree, again if something changed so recently that a later change might not show, or if
/// something could not be listed. The latter may have been of that moment: a directory that was
/// removed between the listing of its parent and its own. An error that the next listing meets too
/// stays.
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
            // A time in the future, of a skewed clock, is not waited for.
            host.pause(wait.min(MAX_SETTLE));
        }
    }
}

/// A build in progress.
struct Build<'a, W: Write> {
    options: &'a BuildOptions,
    host: &'a dyn BuildHost,
    /// Bytes of the files that are read.
    read_bytes: u64,
    started_ns: i64,
    out: SectionWriter<W>,
    spreads: Spreads,
    sections: Sections,
    ngrams: u64,
    /// Set when nothing more is read, and what was read is completed.
    unfinished: Option<Unfinished>,
}

/// N-grams that wait for a group to become full.
type Pending = (Slot, FileGrams);

/// What the catalog keeps of a tokenized file.
#[derive(Clone, Copy)]
struct Kept {
    status: TokenStatus,
    excludable: bool,
    stamp: Option<Stamp>,
    settled: bool,
    ngrams: u32,
}

impl<W: Write> Build<'_, W> {
    /// Copies the blocks of an earlier segment.
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
            self.sections.groups.push(GroupRecord {
                blocks: blocks.len() as u32,
                direct: direct.len() as u32,
            });
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

    /// Reads all files of which nothing is `known`, by rank, and writes their blocks. Returns what the catalog keeps, by rank.
    fn tokenize(
        &mut self,
        tree: &Enumeration,
        read: &(dyn Fn(&mut FileReader, usize) -> Outcome + Sync),
        known: &[Option<Kept>],
    ) -> Result<Vec<Kept>, BuildError> {
        let len = |rank: &usize| tree.files[*rank].stamp.map_or(0, Stamp::len);
        let is_known = |rank: usize| known.get(rank).is_some_and(Option::is_some);
        let mut order: Vec<usize> = (0..tree.files.len())
            .filter(|&rank| !is_known(rank))
            .collect();
        order.sort_by_key(|rank| (len(rank), *rank));
        let bytes_total: u64 = order.iter().map(len).sum();
        let mut kept = vec![
            Kept {
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
        let mut pending: Vec<Pending> = Vec::new();
        let mut pending_bytes = 0;
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
                self.leave_off(Unfinished::Stopped, files_done > 0)?;
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
                // What it takes comes on top of nothing.
                self.flush(&mut pending)?;
                pending_bytes = 0;
            }
            let threads = self.threads();
            let outcomes: Option<Vec<Outcome>> = now
                .par_iter()
                .with_min_len(match threads {
                    all if all == rayon::current_num_threads() => 1,
                    few => now.len().div_ceil(few),
                })
                .map_init(
                    || FileReader::new(self.options, self.started_ns),
                    |reader, &rank| (!self.host.stopped()).then(|| read(reader, rank)),
                )
                .collect();
            let Some(outcomes) = outcomes else {
                self.leave_off(Unfinished::Stopped, files_done > 0)?;
                break;
            };
            for (&rank, outcome) in now.iter().zip(outcomes) {
                files_done += 1;
                bytes_done += len(&rank);
                let ngrams: usize = outcome.parts.iter().map(|(_, grams)| grams.len()).sum();
                kept[rank] = Kept {
                    status: outcome.status,
                    excludable: outcome.excludable,
                    stamp: outcome.stamp,
                    settled: outcome.settled,
                    ngrams: u32::try_from(ngrams).unwrap_or(u32::MAX),
                };
                self.ngrams += ngrams as u64;
                for (start, grams) in outcome.parts {
                    pending_bytes += grams.footprint() as u64;
                    let rank = rank as u32;
                    pending.push((Slot { rank, start }, grams));
                }
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
                self.leave_off(Unfinished::BudgetExceeded(exceeded), files_done > 0)?;
                break;
            }
            if pending_bytes > budget {
                self.flush(&mut pending)?;
                pending_bytes = 0;
            }
        }
        self.flush(&mut pending)?;
        Ok(kept)
    }

    /// Returns how many threads work at once.
    fn threads(&self) -> usize {
        let most = self.options.threads();
        self.host.threads(most).clamp(1, most)
    }

    /// Reads no more files. What was read is completed, if there is something and somebody wants it; else the build ends here.
    fn leave_off(&mut self, why: Unfinished, any: bool) -> Result<(), BuildError> {
        if !any || !self.host.keeps_unfinished() {
            return Err(why.into());
        }
        self.unfinished = Some(why);
        Ok(())
    }

    /// Writes a group of blocks.
    fn flush(&mut self, pending: &mut Vec<Pending>) -> Result<(), BuildError> {
        if pending.is_empty() {
            return Ok(());
        }
        let (slots, files): (Vec<Slot>, Vec<FileGrams>) = pending.drain(..).unzip();
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
        // Until here all threads may have worked.
        self.host.worked(rayon::current_num_threads(), Piece::Part);
        let mut rest = &blocks[..];
        while !rest.is_empty() {
            if self.unfinished.is_none() && self.host.stopped() {
                // What was read until now can still be completed.
                self.leave_off(Unfinished::Stopped, true)?;
            }
            // As many at once as there are threads, and memory: encoded blocks take that too, twice while they are made.
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
        });
        self.sections.direct.extend_from_slice(direct.grams());
        Ok(())
    }

    /// Writes the catalog.
    fn finish(mut self, tree: &Enumeration, kept: &[Kept]) -> Result<Built, BuildError> {
        self.host.progress(Progress {
            phase: Phase::Persist,
            files_done: tree.files.len() as u64,
            files_total: tree.files.len() as u64,
            bytes_done: 0,
            bytes_total: 0,
        });
        let too_long =
            |_| BuildError::TooLarge("names of more than 4 GiB, or one of more than 64 KiB");
        // Adding a name fills these in.
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
        Ok(Built {
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
