//! Reads and tokenizes one file for a build.
//!
//! This module decides whether the content of a file lets searches exclude it, and limits the
//! memory that one file takes. Builds, and updates of single files, call it from many threads, with
//! one [`FileReader`] each.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::BuildOptions;
use crate::format::mutex::lock;
use crate::index::block::FileGrams;
use crate::index::deny::is_withheld;
use crate::index::overlay::{Content, ReadContent};
use crate::index::stamp::Stamp;
use crate::index::text::{Region, decode, region};
use crate::index::token::{TokenStatus, Tokenizer, parts};
use crate::index::walk::FoundFile;
use crate::index::words::counts::{Counter, WordCounts};

/// Larger files are tokenized in parts of this size, each with its own slot. A large file has
/// nearly all common n-grams, so few literals would exclude it as a whole.
const PART_BYTES: usize = 32 << 10;

/// Bytes of a file that are tokenized between two checks of its memory. One thread tokenizes files
/// up to this size; larger files are spread over all threads.
const WINDOW_BYTES: u64 = 4 << 20;

/// The least number of parts that one thread takes at once.
const THREAD_PARTS: usize = 16;

/// The result of reading one file.
pub struct Outcome {
    pub(super) status: TokenStatus,
    pub(super) excludable: bool,
    pub(super) stamp: Option<Stamp>,
    pub(super) settled: bool,
    /// The parts of an excludable file: the start of each part in bytes, and its n-grams.
    pub(super) parts: Vec<(u32, FileGrams)>,
    /// The words, if they are known completely.
    pub(super) words: Option<WordCounts>,
}

impl Outcome {
    /// Returns the content for the overlay. Returns `None` if the state of the file was not
    /// `expected`, or if the file could change later without a visible change of its state.
    pub fn into_content(self, expected: Stamp) -> Option<Content> {
        if self.stamp != Some(expected) || !self.settled {
            return None;
        }
        Some(match self.excludable {
            true => {
                let parts = self.parts.into_iter();
                let grams = parts.map(|(_, grams)| grams.sorted()).collect();
                Content::Read(Arc::new(ReadContent {
                    grams,
                    words: self.words,
                }))
            }
            false => Content::Always(self.status),
        })
    }
}

/// Reads files one after the other and reuses its buffers.
pub struct FileReader<'a> {
    options: &'a BuildOptions,
    tokenizer: Tokenizer,
    counter: Counter,
    bytes: Vec<u8>,
    started_ns: i64,
}

/// Readers that were used before. A reader knows the words of earlier files, so it is faster than a
/// new one.
pub(super) struct Readers<'a> {
    options: &'a BuildOptions,
    started_ns: i64,
    idle: Mutex<Vec<FileReader<'a>>>,
}

/// A reader that returns to the others when it is dropped.
pub(super) struct Borrowed<'r, 'a> {
    readers: &'r Readers<'a>,
    reader: Option<FileReader<'a>>,
}

impl<'a> Readers<'a> {
    pub(super) fn new(options: &'a BuildOptions, started_ns: i64) -> Readers<'a> {
        Readers {
            options,
            started_ns,
            idle: Mutex::default(),
        }
    }

    /// Returns an idle reader, or a new one.
    pub(super) fn take(&self) -> Borrowed<'_, 'a> {
        Borrowed {
            readers: self,
            reader: lock(&self.idle).pop(),
        }
    }
}

impl<'a> Borrowed<'_, 'a> {
    pub(super) fn get(&mut self) -> &mut FileReader<'a> {
        let Readers {
            options,
            started_ns,
            ..
        } = self.readers;
        self.reader
            .get_or_insert_with(|| FileReader::new(options, *started_ns))
    }
}

impl Drop for Borrowed<'_, '_> {
    fn drop(&mut self) {
        lock(&self.readers.idle).extend(self.reader.take());
    }
}

impl FileReader<'_> {
    /// Creates a reader for a build that started at `started_ns`.
    pub fn new(options: &BuildOptions, started_ns: i64) -> FileReader<'_> {
        FileReader {
            options,
            tokenizer: tokenizer(options),
            counter: Counter::default(),
            bytes: Vec::new(),
            started_ns,
        }
    }

    /// Reads and tokenizes a file. A file is excludable only if its bytes certainly are one
    /// consistent state.
    pub fn read(&mut self, file: &FoundFile, listed: Option<Stamp>) -> Outcome {
        let fail = |status, stamp| Outcome {
            status,
            excludable: false,
            stamp,
            settled: true,
            parts: Vec::new(),
            words: None,
        };
        // The check covers the directories above the index root.
        if is_withheld(&file.absolute()) {
            return fail(TokenStatus::Withheld, listed);
        }
        let Ok((mut handle, meta)) = file.open() else {
            return fail(TokenStatus::Unreadable, listed);
        };
        let Some(stamp) = Stamp::of(&meta) else {
            return fail(TokenStatus::Error, None);
        };
        if stamp.len() > self.tokenizer.max_bytes() {
            return fail(TokenStatus::SkippedTooLarge, Some(stamp));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        // Reading one more byte than expected detects that the file grew.
        let most = stamp.len() + 1;
        if bytes.try_reserve(most as usize).is_err() {
            return fail(TokenStatus::Error, Some(stamp));
        }
        let read = Read::by_ref(&mut handle).take(most).read_to_end(&mut bytes);
        let outcome = match read {
            Err(_) => fail(TokenStatus::Unreadable, Some(stamp)),
            Ok(_) if bytes.len() as u64 != stamp.len() => fail(TokenStatus::Error, Some(stamp)),
            Ok(_) => self.tokenize(&file.logical(), &bytes, stamp),
        };
        self.bytes = bytes;
        outcome
    }

    /// Tokenizes the bytes of a file with the state `stamp` and a path relative to the root. Takes
    /// linear time. The parts of a large file are tokenized on the threads of the current pool.
    pub fn tokenize(&mut self, path: &Path, bytes: &[u8], stamp: Stamp) -> Outcome {
        let settled = stamp.is_settled(self.started_ns);
        let (status, proves) = self.tokenizer.status(bytes);
        let parts = match proves && settled {
            true => self.parts(bytes).unwrap_or_default(),
            false => Vec::new(),
        };
        let words = match settled && self.options.words {
            true => self.words(path, bytes),
            false => None,
        };
        Outcome {
            status,
            excludable: !parts.is_empty(),
            stamp: Some(stamp),
            settled,
            parts,
            words,
        }
    }

    /// Counts the words of a file. A file that is binary from the start has none. Returns `None`
    /// for a file with binary data after text: a question reads it to report hits in that data.
    fn words(&mut self, path: &Path, bytes: &[u8]) -> Option<WordCounts> {
        let text = decode(bytes);
        match region(&text) {
            Region::Whole => self.counter.count(&path.to_string_lossy(), &text, || false),
            Region::Binary => Some(WordCounts::default()),
            Region::Until { .. } => None,
        }
    }

    /// Tokenizes the parts of a text. Returns nothing if the file is not excludable or would exceed
    /// the memory limit.
    fn parts(&mut self, bytes: &[u8]) -> Option<Vec<(u32, FileGrams)>> {
        let all: Vec<(u64, &[u8])> = parts(bytes, PART_BYTES).collect();
        let most = (2 * self.options.pending_bytes()).saturating_sub(bytes.len() as u64);
        let mut tokenized = Vec::with_capacity(all.len());
        let (mut any, mut footprint) = (false, 0);
        let alone = !spreads_out(bytes.len() as u64);
        for window in windows(&all) {
            let one = |tokenizer: &mut Tokenizer, &(start, part): &(u64, &[u8])| {
                let tokens = tokenizer.part(part)?;
                let start = u32::try_from(start).ok()?;
                Some((tokens.excludable, start, FileGrams::new(&tokens)))
            };
            let own: Option<Vec<_>> = match alone {
                true => {
                    let tokenizer = &mut self.tokenizer;
                    window.iter().map(|part| one(tokenizer, part)).collect()
                }
                false => window
                    .par_iter()
                    .with_min_len(THREAD_PARTS)
                    .map_init(|| tokenizer(self.options), one)
                    .collect(),
            };
            for (says, start, grams) in own? {
                any |= says;
                footprint += grams.footprint() as u64;
                tokenized.push((start, grams));
            }
            if footprint > most {
                return None;
            }
        }
        any.then_some(tokenized)
    }
}

/// Returns true if files of this length are tokenized on all threads of the pool.
pub(super) fn spreads_out(len: u64) -> bool {
    len > WINDOW_BYTES
}

/// Groups parts into windows of at most [`WINDOW_BYTES`]. A longer part is a window by itself.
fn windows<'a>(mut parts: &'a [(u64, &'a [u8])]) -> impl Iterator<Item = &'a [(u64, &'a [u8])]> {
    std::iter::from_fn(move || {
        let (first, _) = parts.first()?;
        let within =
            |(start, part): &(u64, &[u8])| start + part.len() as u64 - first <= WINDOW_BYTES;
        let count = parts.iter().take_while(|part| within(part)).count();
        let (window, rest) = parts.split_at(count.max(1));
        parts = rest;
        Some(window)
    })
}

fn tokenizer(options: &BuildOptions) -> Tokenizer {
    Tokenizer::new(options.casefold, options.max_tokenized_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_are_bounded_and_all_there_is(lengths in prop::collection::vec(0usize..3_000_000, 0..30)) {
            let zeros = vec![0u8; 3_000_000];
            let mut at = 0;
            let parts: Vec<(u64, &[u8])> = lengths
                .iter()
                .map(|&len| {
                    let start = at;
                    at += len as u64;
                    (start, &zeros[..len])
                })
                .collect();
            let found: Vec<&[(u64, &[u8])]> = windows(&parts).collect();
            prop_assert_eq!(found.concat(), parts.clone());
            let bytes = |window: &[(u64, &[u8])]| window.iter().map(|(_, part)| part.len() as u64).sum::<u64>();
            for pair in found.windows(2) {
                prop_assert!(bytes(pair[0]) <= WINDOW_BYTES || pair[0].len() == 1);
                // The number of windows is minimal.
                prop_assert!(bytes(pair[0]) + pair[1][0].1.len() as u64 > WINDOW_BYTES);
            }
        }
    }
}
