//! Retrieval: reads the files of a source and keeps the best candidates for a ranked search.
//!
//! This module owns reading the files, on the threads of the current pool, and keeping the most
//! promising ones in bounded memory. [`rank`](crate::exec::rank) defines how candidates compare in
//! the end, and the source decides which files may be left out.

mod frequencies;
mod source_piece;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::exec::as_text::shown;
use crate::exec::rank::{
    Chunk, Comparison, Corpus, Document, Hit, PieceScores, Rarities, Snippet, SourceText, Terms,
    chunks, hits,
};
use crate::exec::sources::eligible::{EligibleFile, FileSource, Item, KnownWords};
use crate::exec::stop::Stop;
use crate::format::sort_key::sort_key;
use crate::index::stamp::Stamp;
use crate::index::text::{Region, decode, region};
use crate::index::walk::FoundFile;

pub use frequencies::{Frequencies, frequencies};
pub use source_piece::{NamedContent, SourcePiece, named_content};

/// The number of file names kept for each kind of problem, the first ones in order.
const KEPT_NAMES: usize = 100;

/// The options of a retrieval.
#[derive(Clone, Copy, Debug)]
pub struct Retrieval<'a> {
    /// The terms of the question.
    pub terms: &'a Terms,
    /// The searched directory, relative to the directory that shown paths start from.
    pub subtree: &'a Path,
    /// The largest file that is read, in bytes. Larger ones are skipped.
    pub max_file_size: u64,
    /// The number of candidates to keep.
    pub max_candidates: usize,
    /// The flag that stops all work when it is raised.
    pub stop: &'a Stop,
    /// The piece that the question is made of, which is no result.
    pub without: Option<&'a SourcePiece>,
}

/// A file that contains at least one term.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The location of the file.
    pub found: FoundFile,
    /// Its path, relative to the directory that shown paths start from.
    pub path: PathBuf,
    /// The sort key of the path.
    pub key: String,
    /// The terms in the file, with their counts.
    pub document: Document,
    /// The state of the file when it was read.
    stamp: Option<Stamp>,
    /// How promising it is.
    promise: Promise,
}

/// The numbers that candidates are compared by, the most important one first.
type Promise = (u32, u32, u32, u64);

/// The result of a retrieval.
#[derive(Clone, Debug, Default)]
pub struct Retrieved {
    /// The counts over all files.
    pub corpus: Corpus,
    /// Files whose words the index knew, so that they were not read.
    pub known: u64,
    /// The most promising files, in the order of the tree.
    pub candidates: Vec<Candidate>,
    /// Files that changed since the source recorded them, and were skipped: how many, and the first
    /// ones.
    pub changed: Named,
    /// Files and directories that could not be read: how many, and the first ones.
    pub unread: Named,
    /// Files larger than [`Retrieval::max_file_size`], which are skipped: how many, and the first
    /// ones.
    pub too_large: Named,
    /// Files with a hit in binary data, which is not shown: how many, and the first ones. A file
    /// that is binary as a whole counts only if the searched path names it.
    pub binary: Named,
}

impl Retrieved {
    /// Adds the result of another retrieval of the same files: candidates that are not there yet,
    /// up to `most` in all, and problems with files. [`Retrieved::corpus`] stays unchanged.
    pub fn join(&mut self, other: Retrieved, most: usize) {
        let known: std::collections::BTreeSet<PathBuf> =
            self.candidates.iter().map(|one| one.path.clone()).collect();
        let new = other.candidates.into_iter();
        self.candidates
            .extend(new.filter(|one| !known.contains(&one.path)));
        self.changed.join(other.changed);
        self.unread.join(other.unread);
        self.too_large.join(other.too_large);
        self.binary.join(other.binary);
        keep_best(&mut self.candidates, most);
        self.candidates.sort_by(by_path);
    }
}

/// A number of files, and the names of the first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The number of files.
    pub count: u64,
    /// The names of the first files, in order.
    pub names: Vec<String>,
}

impl Named {
    fn one(name: String) -> Named {
        Named {
            count: 1,
            names: vec![name],
        }
    }

    fn add(&mut self, name: String) {
        self.merge(Named::one(name));
    }

    /// Returns the name if there is exactly one file.
    pub fn only(&self) -> Option<&str> {
        match &self.names[..] {
            [name] if self.count == 1 => Some(name),
            _ => None,
        }
    }

    /// Adds files that another retrieval saw, and counts files that both name only once.
    fn join(&mut self, other: Named) {
        let names = other.names.iter();
        let twice = names.filter(|name| self.names.contains(name)).count() as u64;
        self.count = (self.count + other.count).saturating_sub(twice);
        self.names.extend(other.names);
        self.names.sort();
        self.names.dedup();
        self.names.truncate(KEPT_NAMES);
    }

    fn merge(&mut self, other: Named) {
        self.count += other.count;
        self.names.extend(other.names);
        self.names.sort();
        self.names.truncate(KEPT_NAMES);
    }
}

/// Retrieves candidates from a source. Reads every file that the source hands out once, and keeps
/// at most `max_candidates`. The result does not depend on the number of threads.
pub fn retrieve<S: FileSource + ?Sized>(source: &S, options: &Retrieval<'_>) -> Retrieved {
    let terms = options.terms.words().len();
    let none = || Retrieved {
        corpus: Corpus::new(terms),
        ..Retrieved::default()
    };
    let take = |part: &mut Retrieved, item: Item<S::Unit>| match item {
        Item::File(mut file) => {
            part.corpus.files += 1 + file.passed_before;
            let without = options.without;
            if without.is_some_and(|piece| piece.is_in(&file.found)) {
                // The index knows the words of the whole file.
                file.words = None;
            }
            look(file, options, part);
        }
        Item::Passed(count) => part.corpus.files += count,
        Item::Error(error) => {
            let path = options.subtree.join(error.path);
            part.unread.add(shown_path(&path).0);
        }
        // A ranked search asks for no list.
        Item::Listed(_) | Item::Unit(_) => {}
    };
    let add = |a, b| merge(a, b, options.max_candidates);
    let mut all = total(source, source.start(), options.stop, &none, &take, &add);
    keep_best(&mut all.candidates, options.max_candidates);
    all.candidates.sort_by(by_path);
    all
}

/// Adds up the items of a source, on the threads of the current pool. `take` adds an item that is
/// no unit to a part of the total, which starts as `none()`. Items are left out once `stop` is
/// raised.
fn total<S: FileSource + ?Sized, T: Send>(
    source: &S,
    items: Vec<Item<S::Unit>>,
    stop: &Stop,
    none: &(impl Fn() -> T + Sync),
    take: &(impl Fn(&mut T, Item<S::Unit>) + Sync),
    add: &(impl Fn(T, T) -> T + Sync),
) -> T {
    let parts = items
        .into_par_iter()
        .fold(none, |mut part, item| match item {
            _ if stop.is_raised() => part,
            Item::Unit(unit) => {
                let items = source.expand(unit, stop);
                add(part, total(source, items, stop, none, take, add))
            }
            item => {
                take(&mut part, item);
                part
            }
        });
    parts.reduce(none, add)
}

fn merge(a: Retrieved, b: Retrieved, most: usize) -> Retrieved {
    let (mut into, from) = match a.candidates.len() >= b.candidates.len() {
        true => (a, b),
        false => (b, a),
    };
    into.corpus.merge(&from.corpus);
    into.known += from.known;
    into.candidates.extend(from.candidates);
    into.changed.merge(from.changed);
    into.unread.merge(from.unread);
    into.too_large.merge(from.too_large);
    into.binary.merge(from.binary);
    keep_better(&mut into.candidates, most);
    into
}

/// Keeps the most promising candidates, and sometimes up to as many others. So the work stays
/// linear.
fn keep_better(candidates: &mut Vec<Candidate>, most: usize) {
    if candidates.len() / 2 > most {
        keep_best(candidates, most);
    }
}

/// Keeps the most promising candidates. Their order is total, so the result does not depend on how
/// the candidates were split.
fn keep_best(candidates: &mut Vec<Candidate>, most: usize) {
    if candidates.len() > most {
        candidates.select_nth_unstable_by(most, promising);
        candidates.truncate(most);
    }
}

/// Compares candidates: the more promising one first.
fn promising(a: &Candidate, b: &Candidate) -> Ordering {
    b.promise.cmp(&a.promise).then_with(|| by_path(a, b))
}

/// Returns how promising a file is: by names that the question asks for, then by the number of
/// terms, then by terms in names and definitions, then by hits in the content.
fn promise(document: &Document) -> Promise {
    let named =
        document.in_name | document.in_directories | document.in_types | document.in_functions;
    let asked = document.symbol.max(document.embedded).max(document.joined);
    let all = document.terms() | named | document.near_name;
    let content: u64 = document.content.iter().map(|n| u64::from(*n)).sum();
    (asked, all.count_ones(), named.count_ones(), content)
}

fn by_path(a: &Candidate, b: &Candidate) -> Ordering {
    let (own, other) = (a.path.as_os_str(), b.path.as_os_str());
    let by_bytes = || own.as_encoded_bytes().cmp(other.as_encoded_bytes());
    a.key.cmp(&b.key).then_with(by_bytes)
}

/// Adds a file whose words are known, without reading it.
fn take(file: EligibleFile, words: &KnownWords, options: &Retrieval<'_>, part: &mut Retrieved) {
    let path = options.subtree.join(file.logical());
    let name = || shown_path(&path).0;
    let length = file.stamp.map_or(0, Stamp::len);
    if length > options.max_file_size {
        part.too_large.add(name());
        return;
    }
    let entries = words.hits.iter();
    let entries = entries.map(|hit| (hit.term as usize, hit.count, hit.marks));
    if let Some(document) = Document::of(options.terms, &name(), words.counts, entries) {
        add(file.found, path, document, file.stamp, options, part);
    }
}

/// Adds a file that has a term.
fn add(
    found: FoundFile,
    path: PathBuf,
    document: Document,
    stamp: Option<Stamp>,
    options: &Retrieval<'_>,
    part: &mut Retrieved,
) {
    part.corpus.add(&document);
    part.candidates.push(Candidate {
        found,
        key: sort_key(&path).into_owned(),
        path,
        promise: promise(&document),
        document,
        stamp,
    });
    keep_better(&mut part.candidates, options.max_candidates);
}

fn look(mut file: EligibleFile, options: &Retrieval<'_>, part: &mut Retrieved) {
    if let Some(words) = file.words.take() {
        part.known += 1;
        take(file, &words, options, part);
        return;
    }
    let path = options.subtree.join(file.logical());
    let name = || shown_path(&path).0;
    let read = match read(&file.found, options.max_file_size) {
        Ok(Some(read)) => read,
        Ok(None) => {
            part.too_large.add(name());
            return;
        }
        Err(_) => {
            part.unread.add(name());
            return;
        }
    };
    let is_same = |was: Stamp| read.stamp.is_some_and(|is| is.same_text(was));
    if file.stamp.is_some_and(|was| !is_same(was)) {
        part.changed.add(name());
        return;
    }
    let decoded = decode(&read.bytes);
    let (text, binary) = parts(&decoded);
    // A file that is binary as a whole counts only if the request names it.
    if !binary.is_empty() && (text.is_some() || file.is_named) && has_wanted(options.terms, binary)
    {
        part.binary.add(name());
    }
    let Some(text) = text else { return };
    let source = options.without.filter(|piece| piece.is_in(&file.found));
    let text = source.map_or(Cow::Borrowed(text), |piece| piece.blanked(text).into());
    let text = text.as_ref();
    let (terms, shown) = (options.terms, name());
    let document = match terms.expression() {
        Some(_) => Document::of_literal(terms, &shown, text),
        None => {
            let stopped = || options.stop.is_raised();
            let counts = terms.asked().count(&shown, text, stopped);
            counts.and_then(|counts| Document::of_counts(terms, &shown, &counts))
        }
    };
    if let Some(document) = document {
        add(file.found, path, document, read.stamp, options, part);
    }
}

/// Returns true if a text has a term that files are looked for by.
fn has_wanted(terms: &Terms, text: &[u8]) -> bool {
    terms.terms_in(text) & terms.wanted() != 0
}

/// The bytes of a file, and the state in which they were read.
struct ReadFile {
    bytes: Vec<u8>,
    stamp: Option<Stamp>,
}

/// Splits the content of a file into the text that is searched, if any, and the binary data after
/// it, which is not searched.
fn parts(decoded: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match region(decoded) {
        Region::Whole => (Some(decoded), &[]),
        Region::Binary => (None, decoded),
        Region::Until { end, .. } => {
            let (text, binary) = decoded.split_at(end);
            (Some(text), binary)
        }
    }
}

/// Reads a file. Returns `None` if it is too large.
fn read(found: &FoundFile, most: u64) -> io::Result<Option<ReadFile>> {
    let (file, meta) = found.open()?;
    if meta.len > most {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len).unwrap_or(0));
    // The file may grow meanwhile.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then(|| ReadFile {
        bytes,
        stamp: Stamp::of(&meta),
    }))
}

/// Consecutive lines of a file that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The range of lines.
    pub chunk: Chunk,
    /// The text of these lines.
    pub text: String,
    /// The byte offset in `text` of the first hit of the best line.
    pub at: usize,
    /// Whether part of the text is not UTF-8, and is replaced by U+FFFD.
    pub lossy: bool,
}

/// The excerpts of a file, the best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Excerpts {
    /// The best excerpts.
    pub best: Vec<Excerpt>,
    /// How well the pieces of the file answer.
    pub scores: PieceScores,
}

/// Reads a candidate again and extracts its best excerpts, at most `most`. Returns `None` if the
/// file changed since, or can't be read any more.
pub fn excerpts(
    candidate: &Candidate,
    rarities: Rarities<'_>,
    snippet: Snippet,
    most: usize,
    options: &Retrieval<'_>,
    meaning: Option<&mut Comparison<'_>>,
) -> Option<Excerpts> {
    let read = read(&candidate.found, options.max_file_size).ok()??;
    let (is, was) = (read.stamp?, candidate.stamp?);
    if !is.same_text(was) {
        return None;
    }
    let decoded = decode(&read.bytes);
    let text = parts(&decoded).0?;
    let stopped = || options.stop.is_raised();
    let path = shown_path(&candidate.path).0;
    let source_text = SourceText::of(text, &path);
    let mut hits = hits(options.terms, &source_text, stopped);
    hits.sort_by_key(|hit| (hit.start, hit.term));
    let source = options
        .without
        .filter(|piece| piece.is_in(&candidate.found));
    if let Some(piece) = source {
        hits.retain(|hit| !piece.bytes.contains(&hit.start));
    }
    if hits.is_empty() && source.is_none() {
        // Only the name of the file has a term: its beginning is shown.
        hits.push(Hit {
            term: usize::MAX,
            ..Hit::default()
        });
    }
    let excerpt = |chunk: Chunk| {
        let shown = match snippet {
            Snippet::None => &[],
            _ => text.get(chunk.start..chunk.end).unwrap_or_default(),
        };
        let text = String::from_utf8_lossy(shown);
        let before = shown.get(..chunk.at.saturating_sub(chunk.start));
        Excerpt {
            lossy: matches!(text, Cow::Owned(_)),
            at: before.map_or(0, |before| String::from_utf8_lossy(before).len()),
            text: text.into_owned(),
            chunk,
        }
    };
    let rarities = Rarities {
        // The words of a piece have no order.
        pairs: rarities.pairs.filter(|_| options.without.is_none()),
        ..rarities
    };
    let chunks = chunks(&source_text, &hits, rarities, snippet, most, meaning);
    Some(Excerpts {
        scores: chunks.scores,
        best: chunks.best.into_iter().map(excerpt).collect(),
    })
}

/// Returns a path as it is shown, and whether part of it is not UTF-8.
pub fn shown_path(path: &Path) -> (String, bool) {
    (shown(path).into_owned(), path.to_str().is_none())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::exec::rank::TermRarities;
    use crate::exec::sources::eligible::ListSource;
    use crate::index::root_dir::RootDir;
    use crate::index::walk::Place;

    /// Creates a source of the files with these names, in their current state.
    fn files(dir: &Path, names: &[&str]) -> ListSource {
        let place = Arc::new(Place {
            root: Arc::new(RootDir::open(dir).unwrap()),
            real: PathBuf::new(),
            logical: PathBuf::new(),
        });
        let file = |name: &&str| {
            let found = FoundFile {
                dir: place.clone(),
                name: OsString::from(name),
                target: None,
            };
            let (_, meta) = found.open().unwrap();
            EligibleFile {
                stamp: Stamp::of(&meta),
                ..found.into()
            }
        };
        ListSource(names.iter().map(file).collect())
    }

    /// Creates three files with the word, and returns their directory.
    fn needles() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for name in ["a.rs", "b.rs", "c.rs"] {
            fs::write(top.join(name), "needle\n").unwrap();
        }
        (dir, top)
    }

    fn options<'a>(terms: &'a Terms, stop: &'a Stop) -> Retrieval<'a> {
        Retrieval {
            terms,
            subtree: Path::new("src"),
            max_file_size: 1 << 20,
            max_candidates: 10,
            stop,
            without: None,
        }
    }

    #[test]
    fn files_that_changed_since_the_snapshot_was_pinned_are_left_out_at_every_stage() {
        let (_dir, top) = needles();
        let (terms, stop) = (Terms::new("needle").unwrap(), Stop::new());
        let options = options(&terms, &stop);
        let source = files(&top, &["a.rs", "b.rs", "c.rs"]);
        // Changed after it was pinned, before it is read.
        fs::write(top.join("b.rs"), "needle changed\n").unwrap();
        let retrieved = retrieve(&source, &options);
        let found: Vec<_> = retrieved.candidates.iter().map(|one| &one.key).collect();
        assert_eq!(found, ["src/a.rs", "src/c.rs"]);
        assert_eq!(retrieved.changed, Named::one("src/b.rs".to_string()));
        // Changed after it was read, before it is shown.
        fs::write(top.join("c.rs"), "needle and more\n").unwrap();
        let rarity = TermRarities::new(vec![1.0]);
        let shown = |nth: usize| {
            excerpts(
                &retrieved.candidates[nth],
                Rarities {
                    text: &rarity,
                    name: &rarity,
                    pairs: None,
                },
                Snippet::Short,
                3,
                &options,
                None,
            )
        };
        assert_eq!(shown(0).unwrap().best[0].text, "needle");
        assert_eq!(shown(1), None);
        fs::remove_file(top.join("a.rs")).unwrap();
        assert_eq!(shown(0), None);
    }

    #[test]
    fn a_result_that_two_retrievers_find_is_listed_once() {
        let (_dir, top) = needles();
        let (terms, stop) = (Terms::new("needle").unwrap(), Stop::new());
        let options = options(&terms, &stop);
        let mut first = retrieve(&files(&top, &["b.rs", "c.rs"]), &options);
        let second = retrieve(&files(&top, &["a.rs", "b.rs"]), &options);
        first.join(second.clone(), 10);
        let found = |all: &Retrieved| -> Vec<String> {
            all.candidates.iter().map(|one| one.key.clone()).collect()
        };
        assert_eq!(found(&first), ["src/a.rs", "src/b.rs", "src/c.rs"]);
        assert_eq!(
            first.corpus.found, 2,
            "what is counted stays the first one's"
        );
        first.join(second, 2);
        assert_eq!(found(&first), ["src/a.rs", "src/b.rs"]);
    }
}
