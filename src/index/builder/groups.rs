//! Tokenizing the files of a tree, group by group, and the sections of the segment.

use std::io::Write;

use rayon::prelude::*;

use super::host::{BuildHost, Phase, Progress};
use super::reader::{FileReader, Outcome};
use super::reader::{Readers, spreads_out};
use super::reuse::Reuse;
use super::{
    BATCH_FILES, BuildError, BuildInterruption, BuildOptions, BuiltSegment, ENCODED_SHARE,
};
use crate::format::section::{FileKind, SectionWriter};
use crate::format::segment::{
    BlockRecord, DirRecord, FileRecord, GroupRecord, MetaRecord, NameRecord, SEGMENT_VERSION,
    SideRecord, id,
};
use crate::index::block::{Direct, FileGrams, STORED_HASHES, Shape, Spreads, encode, partition};
use crate::index::enumerate::Enumeration;
use crate::index::pace::Piece;
use crate::index::sections::{Sections, Slot, write_rows};
use crate::index::stamp::Stamp;
use crate::index::store::Eviction;
use crate::index::token::TokenStatus;
use crate::index::words::counts::WordCounts;
use crate::index::words::postings;

/// Reads the files of a listed tree, except those whose blocks `reuse` has, and writes the segment.
pub(super) fn assemble_with<W: Write>(
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
    /// The ranks of files, and their word counts.
    words: Vec<(u32, WordCounts)>,
    /// The memory that all this takes.
    bytes: u64,
}

impl Pending {
    pub(super) fn add(&mut self, rank: u32, outcome: Outcome) {
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
pub(super) struct CatalogData {
    pub(super) status: TokenStatus,
    pub(super) excludable: bool,
    pub(super) stamp: Option<Stamp>,
    pub(super) settled: bool,
    pub(super) ngrams: u32,
}

impl CatalogData {
    /// The catalog data of a file that was not read.
    const UNREAD: CatalogData = CatalogData {
        status: TokenStatus::Unreadable,
        excludable: false,
        stamp: None,
        settled: false,
        ngrams: 0,
    };
}

/// Returns how many of the next files are read together: at least one, at most as many as have
/// `most` bytes.
fn batch_len(rest: &[usize], len: impl Fn(&usize) -> u64, most: u64) -> usize {
    let mut bytes = 0;
    rest.iter()
        .take(BATCH_FILES)
        .take_while(|rank| {
            let first = bytes == 0;
            bytes += len(rank);
            first || bytes <= most
        })
        .count()
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
                    lanes: block.shape.lanes,
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
    pub(super) fn tokenize(
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
        let mut kept = vec![CatalogData::UNREAD; tree.files.len()];
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
            let (now, later) = rest.split_at(batch_len(rest, len, most));
            rest = later;
            if let [large] = now
                && len(large) > most
            {
                // A large file must not take memory in addition to pending n-grams.
                self.flush(&mut pending)?;
            }
            let threads = self.threads();
            let Some(outcomes) = self.read_batch(now, threads, &readers, read) else {
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

    /// Reads the files of a batch. Returns `None` if the host stopped the build meanwhile.
    fn read_batch(
        &self,
        batch: &[usize],
        threads: usize,
        readers: &Readers,
        read: &(dyn Fn(&mut FileReader, usize) -> Outcome + Sync),
    ) -> Option<Vec<Outcome>> {
        batch
            .par_iter()
            .with_min_len(match threads {
                all if all == rayon::current_num_threads() => 1,
                few => batch.len().div_ceil(few),
            })
            .map_init(
                || readers.take(),
                |reader, &rank| (!self.host.stopped()).then(|| read(reader.get(), rank)),
            )
            .collect()
    }

    /// Returns the number of threads for the next batch.
    pub(super) fn threads(&self) -> usize {
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
        let (word_files, words): (Vec<u32>, Vec<WordCounts>) = words.into_iter().unzip();
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
                    lanes: shape.lanes,
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

    /// Adds the directories, the files and the side list to the catalog.
    fn push_catalog(&mut self, tree: &Enumeration, kept: &[CatalogData]) -> Result<(), BuildError> {
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
        Ok(())
    }

    /// Returns the metadata record of the segment.
    fn meta(&self, tree: &Enumeration, kept: &[CatalogData]) -> MetaRecord {
        let full = kept.iter().filter(|own| own.status == TokenStatus::Full);
        let text_bytes = full.filter_map(|own| own.stamp).map(Stamp::len).sum();
        MetaRecord {
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
        }
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
        self.push_catalog(tree, kept)?;
        let meta = self.meta(tree, kept);
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
