//! Looks terms up in the word lists of a segment.
//!
//! Returns, for each file with a term of a ranked question, how often the term occurs, and whether
//! it stands in a name that the file defines, or in the name of the file. The files come in order
//! of rank. Files without counts in a list, such as binary ones, are not found here;
//! [`Segment::word_ranks`] says which files have one.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::{Segment, inconsistent};
use crate::format::error::FormatError;
use crate::format::section::SectionRange;
use crate::format::segment::VACANT;
use crate::index::ranks::RankSet;
use crate::index::words::counts::Marks;
use crate::index::words::postings::{FileCounts, HEAD_BYTES, Head, Posting, read_counts, verify};

/// Where the word list of a group is.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordList {
    pub(super) range: SectionRange,
    /// The place of its first file in the ranks of all lists.
    pub(super) first_file: usize,
    pub(super) files: u32,
}

impl WordList {
    /// Returns false for a group whose words were not counted. It has an empty list.
    fn is_there(self) -> bool {
        !self.range.is_empty()
    }
}

/// A term that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordHit {
    /// Which of the terms that were asked for.
    pub term: u32,
    /// The number of places of the term in the file.
    pub count: u32,
    /// What the term is in the file besides.
    pub marks: Marks,
}

/// A file with one of the terms that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WordFile {
    rank: u32,
    counts: FileCounts,
    hits: Range<usize>,
}

/// The files of a segment that have one of some terms.
#[derive(Clone, Debug, Default)]
pub struct WordHits {
    /// In order of rank.
    files: Vec<WordFile>,
    hits: Vec<WordHit>,
}

impl WordHits {
    /// Returns the counts and the hits of a file. Returns `None` if it has none of the terms. Takes
    /// logarithmic time.
    pub fn get(&self, rank: u32) -> Option<(FileCounts, &[WordHit])> {
        let at = self
            .files
            .binary_search_by_key(&rank, |file| file.rank)
            .ok()?;
        let file = self.files.get(at)?;
        Some((file.counts, self.hits.get(file.hits.clone())?))
    }

    /// Returns the ranks of all files, in a segment of `count` files.
    pub fn ranks(&self, count: u32) -> RankSet {
        let mut ranks = RankSet::empty(count);
        for file in &self.files {
            ranks.insert(file.rank);
        }
        ranks
    }

    fn append(&mut self, mut other: WordHits) {
        let before = self.hits.len();
        for file in &mut other.files {
            file.hits = file.hits.start + before..file.hits.end + before;
        }
        self.hits.append(&mut other.hits);
        self.files.append(&mut other.files);
    }
}

const TWICE: &str = "a file of a word list does not exist, or is in two lists";

impl Segment {
    /// Returns true if the segment was built with the words of its files. Takes constant time.
    pub fn has_words(&self) -> bool {
        let mut lists = self.groups.iter().map(|group| group.words);
        // All groups of a segment have a list, or none has.
        lists.next().is_none_or(WordList::is_there)
    }

    /// Returns the ranks of the files that have counts in a word list. The first call takes
    /// linear time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn word_ranks(&self) -> Result<&RankSet, FormatError> {
        if let Some(ranks) = self.word_ranks.get() {
            return Ok(ranks);
        }
        let mut ranks = RankSet::empty(self.file_count());
        for n in 0..self.word_files.len() {
            let rank = self.word_files.get(self.container.view(), n)?;
            if rank != VACANT && (ranks.contains(rank) || !ranks.insert(rank)) {
                return Err(inconsistent(TWICE));
            }
        }
        Ok(self.word_ranks.get_or_init(|| ranks))
    }

    /// Looks up terms, given by their hashes, on the threads of the current pool. Returns the files
    /// that have a term for which `is_wanted` is set, with all terms that they have. Takes linear
    /// time in the number of places of the terms.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub fn word_hits(&self, terms: &[u32], is_wanted: &[bool]) -> Result<WordHits, FormatError> {
        let of_groups: Result<Vec<WordHits>, FormatError> = self
            .groups
            .par_iter()
            .map(|group| self.hits_of(group.words, terms, is_wanted))
            .collect();
        let mut all = WordHits::default();
        of_groups?.into_iter().for_each(|own| all.append(own));
        all.files.par_sort_unstable_by_key(|file| file.rank);
        match all.files.windows(2).any(|two| two[0].rank == two[1].rank) {
            true => Err(inconsistent(TWICE)),
            false => Ok(all),
        }
    }

    /// Looks up terms in the list of one group.
    fn hits_of(
        &self,
        list: WordList,
        terms: &[u32],
        is_wanted: &[bool],
    ) -> Result<WordHits, FormatError> {
        if !list.is_there() && list.files == 0 {
            return Ok(WordHits::default());
        }
        let view = self.container.view();
        let bytes = |at: Range<usize>| view.bytes_in(list.range, at.start, at.len());
        let head = Head::read(bytes(0..HEAD_BYTES)?, list.range.len())?;
        if head.files != list.files {
            return Err(inconsistent("a word list has other files than its group"));
        }
        let directory = bytes(head.directory_at())?;
        let mut places: Vec<(u32, Posting)> = Vec::new();
        let mut own = Vec::new();
        let mut wanted = RankSet::empty(head.files);
        let wants = |n: usize| is_wanted.get(n) == Some(&true);
        // The other terms may be frequent. They only matter in files with a wanted one.
        let mut order: Vec<usize> = (0..terms.len()).collect();
        order.sort_by_key(|n| !wants(*n));
        for n in order {
            let key = terms[n];
            let Some(bundle) = head.bundle_of(directory, key)? else {
                continue;
            };
            own.clear();
            bundle.places(bytes(bundle.at.clone())?, key, head.files, &mut own)?;
            for place in &own {
                if wants(n) {
                    wanted.insert(place.file);
                }
                if wanted.contains(place.file) {
                    places.push((n as u32, *place));
                }
            }
        }
        places.sort_unstable_by_key(|(term, place)| (place.file, *term));
        let mut found = WordHits::default();
        for of_file in places.chunk_by(|a, b| a.1.file == b.1.file) {
            let Some((_, first)) = of_file.first() else {
                continue;
            };
            let rank = self
                .word_files
                .get(view, list.first_file + first.file as usize)?;
            if rank == VACANT {
                continue;
            }
            if rank >= self.file_count() {
                return Err(inconsistent("a word list has a file that does not exist"));
            }
            let start = found.hits.len();
            found
                .hits
                .extend(of_file.iter().map(|(term, place)| WordHit {
                    term: *term,
                    count: place.count,
                    marks: place.marks,
                }));
            found.files.push(WordFile {
                rank,
                counts: read_counts(bytes(head.counts_at(first.file))?)?,
                hits: start..found.hits.len(),
            });
        }
        Ok(found)
    }

    /// Returns the encoded word list of a group. An unknown group has an empty one.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn word_list(&self, group: usize) -> Result<Cow<'_, [u8]>, FormatError> {
        match self.groups.get(group) {
            Some(group) => {
                let range = group.words.range;
                self.container.passing(range.start(), range.len())
            }
            None => Ok(Cow::Borrowed(&[])),
        }
    }

    /// Returns the ranks of the files of a group's word list, [`VACANT`] for a file that is gone.
    /// An unknown group has no files.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the segment is damaged.
    pub(crate) fn word_files(&self, group: usize) -> Result<Vec<u32>, FormatError> {
        let list = self.groups.get(group).map(|group| group.words);
        let range = list.map_or(0..0, |list| {
            list.first_file..list.first_file + list.files as usize
        });
        let view = self.container.view();
        range.map(|n| self.word_files.get(view, n)).collect()
    }

    /// Checks the word lists of all groups.
    pub(super) fn verify_words(&self) -> Result<(), FormatError> {
        let mut seen = RankSet::empty(self.file_count());
        for n in 0..self.groups.len() {
            for rank in self.word_files(n)? {
                if rank != VACANT && (seen.contains(rank) || !seen.insert(rank)) {
                    return Err(inconsistent(TWICE));
                }
            }
            let list = self.groups.get(n).map(|group| group.words);
            let is_there = list.is_some_and(WordList::is_there);
            if is_there != self.has_words() {
                return Err(inconsistent("only some groups have a word list"));
            }
            if list.is_some_and(|list| !is_there && list.files == 0) {
                continue;
            }
            let list = self.word_list(n)?;
            let head = Head::read(list.get(..HEAD_BYTES).unwrap_or_default(), list.len())?;
            if self
                .groups
                .get(n)
                .is_some_and(|group| group.words.files != head.files)
            {
                return Err(inconsistent("a word list has other files than its group"));
            }
            verify(&list)?;
        }
        Ok(())
    }
}
