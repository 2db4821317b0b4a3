//! Counts how many files have each of some terms.

use std::path::Path;

use super::{parts, read, shown_path, total};
use crate::exec::sources::eligible::{EligibleFile, FileSource, Item};
use crate::exec::stop::Stop;
use crate::index::text::decode;
use crate::index::words::counts::Counter;

/// How many files have each of some terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequencies {
    /// The number of all files.
    pub files: u64,
    /// For each term, the files whose text has it.
    pub with: Vec<u64>,
}

impl Frequencies {
    fn add(mut self, other: Frequencies) -> Frequencies {
        self.files += other.files;
        for (own, other) in self.with.iter_mut().zip(other.with) {
            *own += other;
        }
        self
    }
}

/// Counts how many files of a source have each term. The source was asked for the same `keys`,
/// which are in ascending order. Reads files whose words the index does not know. The result does
/// not depend on the number of threads. Once `stop` is raised, it is incomplete.
pub fn frequencies<S: FileSource + ?Sized>(
    source: &S,
    keys: &[u32],
    max_file_size: u64,
    stop: &Stop,
) -> Frequencies {
    let none = || Frequencies {
        files: 0,
        with: vec![0; keys.len()],
    };
    let take = |part: &mut Frequencies, item: Item<S::Unit>| match item {
        Item::File(file) => {
            part.files += 1 + file.passed_before;
            look(&file, keys, max_file_size, stop, &mut part.with);
        }
        Item::Passed(count) => part.files += count,
        Item::Listed(_) | Item::Error(_) | Item::Unit(_) => {}
    };
    total(
        source,
        source.start(),
        stop,
        &none,
        &take,
        &Frequencies::add,
    )
}

/// Counts the terms of one file.
fn look(file: &EligibleFile, keys: &[u32], max_file_size: u64, stop: &Stop, with: &mut [u64]) {
    let mut count = |nth: usize| {
        if let Some(with) = with.get_mut(nth) {
            *with += 1;
        }
    };
    if let Some(words) = &file.words {
        let hits = words.hits.iter().filter(|hit| hit.count > 0);
        hits.for_each(|hit| count(hit.term as usize));
        return;
    }
    let Ok(Some(read)) = read(&file.found, max_file_size) else {
        return;
    };
    let decoded = decode(&read.bytes);
    let Some(text) = parts(&decoded).0 else {
        return;
    };
    let path = shown_path(Path::new(&file.logical())).0;
    let Some(counts) = Counter::default().count(&path, text, || stop.is_raised()) else {
        return;
    };
    for (nth, key) in keys.iter().enumerate() {
        if counts.get(*key).is_some_and(|entry| entry.count > 0) {
            count(nth);
        }
    }
}
