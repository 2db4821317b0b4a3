//! The word lists of a group of files: for each term, the files that have it.
//!
//! The builder encodes the word counts of the files of one group into one list. The list numbers
//! its files from 0; the segment keeps the rank of each, its position in the catalog. So a later
//! build copies a list unchanged. A lookup reads the directory of the list and one bundle of terms.
//! `docs/format.md` has the bytes.

use std::ops::Range;

use rayon::prelude::*;

use super::counts::{Entry, Marks, WordCounts};
use crate::format::error::FormatError;
use crate::format::wire::{Reader, Writer};

/// Terms in a bundle, which is decoded as a whole.
const BUNDLE: usize = 64;

/// Bytes of the head of a list.
pub const HEAD_BYTES: usize = 16;

/// Files in a list, at most: the number of a file is written with four further bits.
const MAX_FILES: u32 = 1 << 28;

/// A term of this many files or more has the length of its places, so that a lookup of another term
/// can skip them.
const LONG: usize = 4;

/// Bytes that the list has for each file.
const FILE_BYTES: usize = 8;

/// Bytes that the list has for each bundle.
const BUNDLE_BYTES: usize = 8;

/// A place of a term: a file, and what the term is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    /// The number of the file in the list.
    pub file: u32,
    /// The number of places of the term in the file.
    pub count: u32,
    /// What the term is in the file besides.
    pub marks: Marks,
}

/// Counts over the words of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// The number of words.
    pub words: u32,
    /// The number of line feeds.
    pub lines: u32,
}

impl From<&WordCounts> for FileCounts {
    fn from(counted: &WordCounts) -> FileCounts {
        FileCounts {
            words: counted.words,
            lines: counted.lines,
        }
    }
}

/// Bytes of memory for each entry that is encoded.
pub const ENCODING_BYTES: usize = 80;

/// A file and one of its entries.
type Place = (u32, Entry);

/// Encodes the word counts of some files. The number of a file is its place in `counted_files`.
/// Takes `n log n` time in the number of entries, on the threads of the current pool. Needs up to
/// [`ENCODING_BYTES`] for each entry, `counted_files` included.
pub fn encode(counted_files: Vec<WordCounts>) -> Vec<u8> {
    let counts: Vec<FileCounts> = counted_files.iter().map(FileCounts::from).collect();
    let mut all: Vec<(u32, Entry)> = Vec::new();
    all.reserve_exact(
        counted_files
            .iter()
            .map(|counted| counted.entries.len())
            .sum(),
    );
    for (file, counted) in (0u32..).zip(counted_files) {
        all.extend(counted.entries.iter().map(|entry| (file, *entry)));
    }
    let all = sorted(all);
    let mut terms: Vec<&[Place]> = Vec::new();
    terms.extend(all.chunk_by(|a, b| a.1.key == b.1.key));
    let bundles: Vec<Vec<u8>> = terms.par_chunks(BUNDLE).map(encode_bundle).collect();
    let mut out = Writer::new();
    out.u32(counts.len() as u32);
    out.u32(terms.len() as u32);
    out.u64(bundles.iter().map(|bundle| bundle.len() as u64).sum());
    for counts in &counts {
        out.u32(counts.words);
        out.u32(counts.lines);
    }
    let mut at = 0;
    for (bundle, terms) in bundles.iter().zip(terms.chunks(BUNDLE)) {
        out.u32(first_key(terms));
        out.u32(at);
        at += bundle.len() as u32;
    }
    bundles.iter().for_each(|bundle| out.bytes(bundle));
    out.into_bytes()
}

/// Sorts places by key and file. They are distributed by the upper bits of their keys first, so
/// that each part fits into a processor's cache.
fn sorted(all: Vec<Place>) -> Vec<Place> {
    const BITS: u32 = 10;
    let part_of = |place: &Place| (place.1.key >> (32 - BITS)) as usize;
    let mut ends = vec![0usize; 1 << BITS];
    all.iter().for_each(|place| ends[part_of(place)] += 1);
    let mut end = 0;
    for own in &mut ends {
        end += *own;
        *own = end;
    }
    let blank = Entry {
        key: 0,
        count: 0,
        marks: Marks::default(),
    };
    let mut sorted = vec![(0, blank); all.len()];
    let mut at = ends.clone();
    for place in all.into_iter().rev() {
        let own = &mut at[part_of(&place)];
        *own -= 1;
        sorted[*own] = place;
    }
    let mut parts: Vec<&mut [Place]> = Vec::with_capacity(ends.len());
    let (mut rest, mut start) = (&mut sorted[..], 0);
    for end in ends {
        let (part, later) = rest.split_at_mut(end - start);
        parts.push(part);
        (rest, start) = (later, end);
    }
    let by_key = |part: &mut [Place]| part.sort_unstable_by_key(|(file, entry)| (entry.key, *file));
    parts.into_par_iter().for_each(by_key);
    sorted
}

fn first_key(terms: &[&[Place]]) -> u32 {
    let first = terms.first().and_then(|places| places.first());
    first.map_or(0, |(_, entry)| entry.key)
}

/// How a place is written: the lowest bits of its first number. The numbers of `docs/format.md`.
mod kind {
    /// The number of these bits.
    pub(super) const BITS: u32 = 3;
    pub(super) const ONE: u32 = 0;
    pub(super) const TWO: u32 = 1;
    pub(super) const THREE: u32 = 2;
    pub(super) const COUNT: u32 = 3;
    pub(super) const VARIABLE: u32 = 4;
    pub(super) const VARIABLE_ONE: u32 = 5;
    pub(super) const MARKS_ONE: u32 = 6;
    pub(super) const MARKS: u32 = 7;
}

/// Returns how a place is written. Most places have a small count and no marks. Generated headers
/// define hundreds of thousands of constants, each at one place.
fn kind_of(count: u32, marks: Marks) -> u32 {
    match (marks, count) {
        (Marks::NONE, 1) => kind::ONE,
        (Marks::NONE, 2) => kind::TWO,
        (Marks::NONE, 3) => kind::THREE,
        (Marks::NONE, _) => kind::COUNT,
        (Marks::VARIABLE, 0) => kind::VARIABLE,
        (Marks::VARIABLE, 1) => kind::VARIABLE_ONE,
        (_, 1) => kind::MARKS_ONE,
        _ => kind::MARKS,
    }
}

fn encode_bundle(terms: &[&[Place]]) -> Vec<u8> {
    let (mut out, mut list) = (Writer::new(), Writer::new());
    let mut before = first_key(terms);
    for places in terms {
        let key = first_key(&[places]);
        out.varint(key - before);
        before = key;
        if let [(file, entry)] = places {
            encode_place(&mut out, *file, 1, *entry);
            continue;
        }
        list.clear();
        let mut next = 0;
        for (file, entry) in *places {
            encode_place(&mut list, file - next, 0, *entry);
            next = file + 1;
        }
        out.varint((places.len() as u32) << 1 | 1);
        if places.len() >= LONG {
            out.varint(list.len() as u32);
        }
        out.bytes(list.as_bytes());
    }
    out.into_bytes()
}

/// Writes a place. `zeros` is the number of zero bits below its first number.
fn encode_place(out: &mut Writer, gap: u32, zeros: u32, entry: Entry) {
    let kind = kind_of(entry.count, entry.marks);
    out.varint((gap << kind::BITS | kind) << zeros);
    if matches!(kind, kind::MARKS_ONE | kind::MARKS) {
        out.u8(entry.marks.bits());
    }
    if matches!(kind, kind::COUNT | kind::MARKS) {
        out.varint(entry.count);
    }
}

/// The head of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of files.
    pub files: u32,
    /// The number of terms.
    pub terms: u32,
    /// The bytes of all bundles together.
    bundle_bytes: usize,
}

impl Head {
    /// Reads the head of a list of `len` bytes.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the list has another length than the head says.
    pub fn read(head: &[u8], len: usize) -> Result<Head, FormatError> {
        let mut reader = Reader::new(head, "a word list");
        let (files, terms, bundle_bytes) = (reader.u32()?, reader.u32()?, reader.u64()?);
        if files > MAX_FILES {
            return Err(wrong("it has more files than a list can have"));
        }
        let head = Head {
            files,
            terms,
            bundle_bytes: usize::try_from(bundle_bytes).unwrap_or(usize::MAX),
        };
        let fixed = HEAD_BYTES as u64
            + FILE_BYTES as u64 * u64::from(files)
            + BUNDLE_BYTES as u64 * u64::from(head.bundles());
        match fixed.checked_add(bundle_bytes) == Some(len as u64) {
            true => Ok(head),
            false => Err(wrong("it has another length than its head says")),
        }
    }

    fn bundles(self) -> u32 {
        self.terms.div_ceil(BUNDLE as u32)
    }

    /// Returns the range of the counts of a file in the list.
    pub fn counts_at(self, file: u32) -> Range<usize> {
        let at = HEAD_BYTES + FILE_BYTES * file as usize;
        at..at + FILE_BYTES
    }

    /// Returns the range of the directory in the list.
    pub fn directory_at(self) -> Range<usize> {
        let at = HEAD_BYTES + FILE_BYTES * self.files as usize;
        at..at + BUNDLE_BYTES * self.bundles() as usize
    }

    /// Returns the number and the range of the bundle that has a term, if the list has the term.
    /// `directory` has the bytes of [`Head::directory_at`]. Takes logarithmic time.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the directory is malformed.
    pub fn bundle_of(self, directory: &[u8], key: u32) -> Result<Option<Bundle>, FormatError> {
        let first = |n: usize| number_at(directory, n * BUNDLE_BYTES);
        let (mut low, mut high) = (0, self.bundles() as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            match first(middle)? <= key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        match low.checked_sub(1) {
            Some(n) => self.bundle(directory, n).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the bundle with a number.
    fn bundle(self, directory: &[u8], n: usize) -> Result<Bundle, FormatError> {
        let start = number_at(directory, n * BUNDLE_BYTES + 4)? as usize;
        let end = match n + 1 < self.bundles() as usize {
            true => number_at(directory, (n + 1) * BUNDLE_BYTES + 4)? as usize,
            false => self.bundle_bytes,
        };
        if start > end || end > self.bundle_bytes {
            return Err(wrong("a bundle has a range that does not exist"));
        }
        let from = self.directory_at().end;
        let left = self.terms as usize - n * BUNDLE;
        Ok(Bundle {
            first: number_at(directory, n * BUNDLE_BYTES)?,
            terms: left.min(BUNDLE) as u32,
            at: from + start..from + end,
        })
    }
}

/// Where some consecutive terms of a list are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The first term.
    first: u32,
    /// The number of terms.
    terms: u32,
    /// The range in the list.
    pub at: Range<usize>,
}

impl Bundle {
    /// Appends the places of a term. `bytes` are those of [`Bundle::at`].
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the bundle is malformed.
    pub fn places(
        &self,
        bytes: &[u8],
        key: u32,
        files: u32,
        places: &mut Vec<Posting>,
    ) -> Result<(), FormatError> {
        let mut reader = Reader::new(bytes, "a word list");
        let mut term = self.first;
        for nth in 0..self.terms {
            term = next_term(&mut reader, term, nth == 0)?;
            if term > key {
                break;
            }
            let wanted = (term == key).then_some(&mut *places);
            read_term(&mut reader, files, wanted)?;
            if term == key {
                break;
            }
        }
        Ok(())
    }
}

/// Reads a term that follows `before`.
fn next_term(reader: &mut Reader<'_>, before: u32, is_first: bool) -> Result<u32, FormatError> {
    let more = reader.varint()?;
    match before.checked_add(more) {
        Some(term) if (more == 0) == is_first => Ok(term),
        _ => Err(wrong("its terms are not in order")),
    }
}

/// Reads the places of one term into `wanted`, or passes over them.
fn read_term(
    reader: &mut Reader<'_>,
    files: u32,
    wanted: Option<&mut Vec<Posting>>,
) -> Result<(), FormatError> {
    let value = reader.varint()?;
    if value & 1 == 0 {
        let place = read_place(reader, value >> 1, 0, files)?;
        wanted.into_iter().for_each(|places| places.push(place));
        return Ok(());
    }
    let count = (value >> 1) as usize;
    if count < 2 {
        return Err(wrong("a term of one file is written as one of several"));
    }
    if count < LONG {
        return read_places(reader, count, files, wanted);
    }
    let len = reader.varint()? as usize;
    let list = reader.bytes(len)?;
    match wanted {
        None => Ok(()),
        wanted => {
            let mut list = Reader::new(list, "a word list");
            read_places(&mut list, count, files, wanted)?;
            list.finish()
        }
    }
}

fn read_places(
    reader: &mut Reader<'_>,
    count: usize,
    files: u32,
    mut wanted: Option<&mut Vec<Posting>>,
) -> Result<(), FormatError> {
    let mut next = 0;
    for _ in 0..count {
        let value = reader.varint()?;
        let place = read_place(reader, value, next, files)?;
        next = place.file + 1;
        if let Some(places) = &mut wanted {
            places.push(place);
        }
    }
    Ok(())
}

/// Reads the rest of a place whose first number is `value`. The file is `next` or a later one.
fn read_place(
    reader: &mut Reader<'_>,
    value: u32,
    next: u32,
    files: u32,
) -> Result<Posting, FormatError> {
    let file = next.checked_add(value >> kind::BITS);
    let file = file.filter(|file| *file < files);
    let file = file.ok_or_else(|| wrong("a term is in a file that does not exist"))?;
    let kind = value & ((1 << kind::BITS) - 1);
    let marks = match kind {
        kind::VARIABLE | kind::VARIABLE_ONE => Marks::VARIABLE,
        kind::MARKS_ONE | kind::MARKS => Marks::from_bits(reader.u8()?)
            .ok_or_else(|| wrong("a term has marks that do not exist"))?,
        _ => Marks::NONE,
    };
    let count = match kind {
        kind::VARIABLE => 0,
        kind::TWO => 2,
        kind::THREE => 3,
        kind::COUNT | kind::MARKS => reader.varint()?,
        _ => 1,
    };
    match kind_of(count, marks) == kind {
        true => Ok(Posting { file, count, marks }),
        false => Err(wrong("a place is not written in the shortest way")),
    }
}

/// Reads the counts of a file from the bytes of [`Head::counts_at`].
///
/// # Errors
///
/// [`FormatError`] if the bytes are too short.
pub fn read_counts(bytes: &[u8]) -> Result<FileCounts, FormatError> {
    let (words, lines) = (number_at(bytes, 0)?, number_at(bytes, 4)?);
    Ok(FileCounts { words, lines })
}

/// Checks a whole list. Takes linear time.
///
/// # Errors
///
/// [`FormatError`] for the first problem.
pub fn verify(list: &[u8]) -> Result<(), FormatError> {
    let short = || wrong("it is shorter than its head");
    let head = Head::read(list.get(..HEAD_BYTES).ok_or_else(short)?, list.len())?;
    let directory = list.get(head.directory_at()).ok_or_else(short)?;
    let (mut before, mut end) = (None, head.directory_at().end);
    let mut places = Vec::new();
    for n in 0..head.bundles() as usize {
        let bundle = head.bundle(directory, n)?;
        if bundle.at.start != end || before >= Some(bundle.first) {
            return Err(wrong("its bundles do not follow each other"));
        }
        end = bundle.at.end;
        let mut reader = Reader::new(
            list.get(bundle.at.clone()).ok_or_else(short)?,
            "a word list",
        );
        let mut term = bundle.first;
        for nth in 0..bundle.terms {
            term = next_term(&mut reader, term, nth == 0)?;
            read_term(&mut reader, head.files, Some(&mut places))?;
            places.clear();
        }
        before = Some(term);
        reader.finish()?;
    }
    match end == list.len() {
        true => Ok(()),
        false => Err(wrong("bytes follow its last bundle")),
    }
}

fn number_at(bytes: &[u8], at: usize) -> Result<u32, FormatError> {
    let number = bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    number
        .map(u32::from_le_bytes)
        .ok_or_else(|| wrong("it ends too early"))
}

fn wrong(problem: &'static str) -> FormatError {
    FormatError::inconsistent("a word list", 0, problem)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Looks a term up in a list.
    fn places(list: &[u8], key: u32) -> Result<Vec<Posting>, FormatError> {
        let short = || wrong("short");
        let head = Head::read(list.get(..HEAD_BYTES).ok_or_else(short)?, list.len())?;
        let directory = list.get(head.directory_at()).ok_or_else(short)?;
        let mut found = Vec::new();
        if let Some(bundle) = head.bundle_of(directory, key)? {
            let bytes = list.get(bundle.at.clone()).ok_or_else(short)?;
            bundle.places(bytes, key, head.files, &mut found)?;
        }
        Ok(found)
    }

    fn counted() -> impl Strategy<Value = WordCounts> {
        let entry = (0u32..255, 0u32..1000, 0u8..6, 0u8..16);
        let entries = prop::collection::vec(entry, 0..60);
        (entries, any::<u32>(), any::<u32>()).prop_map(|(all, words, lines)| {
            let all: BTreeMap<u32, (u32, Marks)> = all
                .into_iter()
                .filter_map(|(key, count, kind, bits)| {
                    Some((
                        key * 0x0100_0001,
                        (count, Marks::from_bits(kind | bits << 3)?),
                    ))
                })
                .collect();
            let entry = |(key, (count, marks))| Entry { key, count, marks };
            WordCounts {
                entries: all.into_iter().map(entry).collect(),
                words,
                lines,
            }
        })
    }

    proptest! {
        #[test]
        fn a_list_has_the_terms_of_its_files(counted_files in prop::collection::vec(counted(), 0..12)) {
            let list = encode(counted_files.clone());
            verify(&list).unwrap();
            let head = Head::read(&list[..HEAD_BYTES], list.len()).unwrap();
            prop_assert_eq!(head.files as usize, counted_files.len());
            for key in (0..256).map(|key: u32| key * 0x0100_0001) {
                let found = places(&list, key).unwrap();
                let expected: Vec<Posting> = (0u32..)
                    .zip(&counted_files)
                    .filter_map(|(file, counted)| {
                        let Entry { count, marks, .. } = counted.get(key)?;
                        Some(Posting { file, count, marks })
                    })
                    .collect();
                prop_assert_eq!(found, expected);
            }
            for (file, counted) in (0u32..).zip(&counted_files) {
                let counts = read_counts(&list[head.counts_at(file)]).unwrap();
                prop_assert_eq!(counts, FileCounts::from(counted));
            }
        }

        #[test]
        fn a_damaged_list_is_an_error_or_another_list(
            counted_files in prop::collection::vec(counted(), 1..4),
            at: prop::sample::Index,
            byte: u8,
            cut: prop::sample::Index,
        ) {
            let mut list = encode(counted_files);
            let place = at.index(list.len());
            list[place] = byte;
            let cut = &list[..cut.index(list.len())];
            prop_assert!(verify(cut).is_err());
            for key in 0..256 {
                let _: Result<Vec<Posting>, FormatError> = places(&list, key * 0x0100_0001);
                prop_assert!(places(cut, key * 0x0100_0001).is_err());
            }
        }
    }
}
