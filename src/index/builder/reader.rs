//! Reading and tokenizing one file for a build.
//!
//! Owns which files may be left out of a search, as far as their content decides, and the memory that one file takes.

use std::io::Read;

use rayon::prelude::*;

use super::BuildOptions;
use crate::index::block::FileGrams;
use crate::index::deny::is_withheld;
use crate::index::overlay::Content;
use crate::index::stamp::Stamp;
use crate::index::token::{TokenStatus, Tokenizer, parts};
use crate::index::walk::FoundFile;

/// Larger files are tokenized in parts of this many bytes, each with a slot of its own: a large file has
/// nearly all of the common n-grams, and no literal would exclude it as a whole.
const PART_BYTES: usize = 32 << 10;

/// Bytes of one file that are tokenized before another look at the memory that its n-grams take, and how many parts of them
/// one thread takes at once. A file of no more than these is left to one thread.
const WINDOW_BYTES: u64 = 4 << 20;
const THREAD_PARTS: usize = 16;

/// What became of one file.
pub struct Outcome {
    pub(super) status: TokenStatus,
    pub(super) excludable: bool,
    pub(super) stamp: Option<Stamp>,
    pub(super) settled: bool,
    /// Its parts, if it may be left out: where each starts, and its n-grams.
    pub(super) parts: Vec<(u32, FileGrams)>,
}

impl Outcome {
    /// Returns what is known of the content of a file that was expected in a state; `None` if it was in another one, or might
    /// change without a trace.
    pub fn into_content(self, expected: Stamp) -> Option<Content> {
        if self.stamp != Some(expected) || !self.settled {
            return None;
        }
        Some(match self.excludable {
            true => {
                let parts = self.parts.into_iter();
                Content::Grams(parts.map(|(_, grams)| grams.sorted()).collect())
            }
            false => Content::Always(self.status),
        })
    }
}

/// Reads files one after the other, with buffers that are kept between them.
pub struct FileReader<'a> {
    options: &'a BuildOptions,
    tokenizer: Tokenizer,
    bytes: Vec<u8>,
    started_ns: i64,
}

impl FileReader<'_> {
    /// Creates a reader for a build that started at `started_ns`.
    pub fn new(options: &BuildOptions, started_ns: i64) -> FileReader<'_> {
        FileReader {
            options,
            tokenizer: tokenizer(options),
            bytes: Vec::new(),
            started_ns,
        }
    }

    /// Reads and tokenizes a file. What is not certain to be all of one state of it is never left out.
    pub fn read(&mut self, file: &FoundFile, listed: Option<Stamp>) -> Outcome {
        let fail = |status, stamp| Outcome {
            status,
            excludable: false,
            stamp,
            settled: true,
            parts: Vec::new(),
        };
        // The directories above the root of the index count as well.
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
        // One byte more shows that the file grew.
        let most = stamp.len() + 1;
        if bytes.try_reserve(most as usize).is_err() {
            return fail(TokenStatus::Error, Some(stamp));
        }
        let read = Read::by_ref(&mut handle).take(most).read_to_end(&mut bytes);
        let outcome = match read {
            Err(_) => fail(TokenStatus::Unreadable, Some(stamp)),
            Ok(_) if bytes.len() as u64 != stamp.len() => fail(TokenStatus::Error, Some(stamp)),
            Ok(_) => self.tokenize(&bytes, stamp),
        };
        self.bytes = bytes;
        outcome
    }

    /// Tokenizes what is in a file whose state is `stamp`. Linear in the bytes; the parts of a large file are tokenized on
    /// the threads of the current pool.
    pub fn tokenize(&mut self, bytes: &[u8], stamp: Stamp) -> Outcome {
        let settled = stamp.is_settled(self.started_ns);
        let (status, proves) = self.tokenizer.status(bytes);
        let parts = match proves && settled {
            true => self.parts(bytes).unwrap_or_default(),
            false => Vec::new(),
        };
        Outcome {
            status,
            excludable: !parts.is_empty(),
            stamp: Some(stamp),
            settled,
            parts,
        }
    }

    /// Tokenizes the parts of a text. Nothing if it must not be left out, or would take more memory than it may.
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

/// Returns true for a file of such a length that all threads of the pool tokenize it.
pub(super) fn spreads_out(len: u64) -> bool {
    len > WINDOW_BYTES
}

/// Cuts parts into runs of at most [`WINDOW_BYTES`], or of one part that is longer.
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
                // No more of them than need be.
                prop_assert!(bytes(pair[0]) + pair[1][0].1.len() as u64 > WINDOW_BYTES);
            }
        }
    }
}
