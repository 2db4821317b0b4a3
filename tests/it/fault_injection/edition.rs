//! Editions: states of a tree that is not on the disk. Tests publish them in stores.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forge_search::internal::format::disk::Disk;
use forge_search::internal::format::error::FormatError;
use forge_search::internal::format::manifest::KeyParts;
use forge_search::internal::format::storage::{Privacy, Storage};
use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::builder::{BuildError, BuildHost, BuiltSegment, Progress};
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::inputs::Inputs;
use forge_search::internal::index::plan::SupersetSafe;
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::index::store::{Publication, Store};

use crate::fuzz_replay::assembled::{MAX_TEXT, Texts, assemble_to, assembled};

/// The words that the texts are made of.
pub(super) const WORDS: [&str; 7] = [
    "needle",
    "haystack",
    "zeppelin",
    "quixotic",
    "marmalade",
    "backgammon",
    "jukebox",
];

/// A state of the tree.
#[derive(Debug)]
pub(super) struct Edition {
    number: u64,
    texts: Texts,
    /// The answers to all words with the index of this edition.
    pub(super) answer: String,
}

impl Edition {
    /// Returns the edition with a number. It has enough files for an index of a few pages.
    pub(super) fn new(number: u64) -> Edition {
        Edition::of(number, 20 + (number % 5) as usize * 3)
    }

    /// Returns the edition with a number and with `count` files.
    pub(super) fn of(number: u64, count: usize) -> Edition {
        let files = (0..count).map(|n| {
            let mut text = format!("only in edition{number}x\n");
            for (bit, word) in WORDS.iter().enumerate() {
                if (n as u64 * 7 + number * 13 + bit as u64 * 5).is_multiple_of(3) {
                    text.push_str(word);
                    text.push('\n');
                }
            }
            (0, format!("file{n:03}-{number}").into(), text.into_bytes())
        });
        let texts = Texts {
            dirs: vec![(PathBuf::new(), 0, 0..count as u32)],
            files: files.collect(),
            side: Vec::new(),
        };
        let segment = Segment::open(Storage::from(assembled(&texts, Casefold::Ascii)));
        let answer = answer(&segment.unwrap()).unwrap();
        // For each word, the candidates must include every file that contains the word.
        for word in WORDS {
            let line = answer.lines().find(|line| line.starts_with(word)).unwrap();
            for (_, name, text) in &texts.files {
                let holds = text.windows(word.len()).any(|part| part == word.as_bytes());
                assert!(!holds || line.contains(name.to_str().unwrap()), "{line}");
            }
        }
        Edition {
            number,
            texts,
            answer,
        }
    }

    /// Publishes the edition in place of the current one.
    pub(super) fn publish(
        &self,
        store: &Store,
        key: &KeyParts,
    ) -> Result<BuiltSegment, BuildError> {
        self.publish_at(store, key, 1_700_000_000_000 + self.number as i64)
    }

    /// Publishes the edition at a time, in milliseconds since the Unix epoch.
    pub(super) fn publish_at(
        &self,
        store: &Store,
        key: &KeyParts,
        now_ms: i64,
    ) -> Result<BuiltSegment, BuildError> {
        self.publish_by(store, key, now_ms, &|| {})
    }

    /// Publishes the edition. Calls `seen` when the segment is written completely but not renamed
    /// yet.
    pub(super) fn publish_seen(&self, store: &Store, key: &KeyParts, seen: &dyn Fn()) {
        self.publish_by(store, key, 1, seen).unwrap();
    }

    fn publish_by(
        &self,
        store: &Store,
        key: &KeyParts,
        now_ms: i64,
        written: &dyn Fn(),
    ) -> Result<BuiltSegment, BuildError> {
        let publication = Publication {
            key,
            params: BloomParams::from_config(MAX_TEXT, 0.01),
            above: Inputs::default(),
            now_ms,
        };
        let build = |out: &mut dyn Write| {
            let built = assemble_to(&self.texts, Casefold::Ascii, out)?;
            out.flush()?;
            written();
            Ok(built)
        };
        let (built, snapshot) = store.publish(&publication, &At(now_ms), build)?;
        assert_eq!(answer(snapshot.segment()).unwrap(), self.answer);
        Ok(built)
    }
}

/// A host with a fixed time, in milliseconds since the Unix epoch.
struct At(i64);

impl BuildHost for At {
    fn now_ns(&self) -> i64 {
        self.0.saturating_mul(1_000_000)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// Returns the answers of a segment: its files, and the files that may contain each word.
pub(super) fn answer(segment: &Segment) -> Result<String, FormatError> {
    let count = segment.file_count();
    let names: Vec<String> = (0..count)
        .map(|rank| Ok(segment.path(rank)?.to_str().unwrap().to_string()))
        .collect::<Result<_, FormatError>>()?;
    let mut text = format!("files: {}\n", names.join(" "));
    for word in WORDS {
        let mut plan = SupersetSafe::for_literal(word, false);
        segment.order(&mut plan)?;
        let candidates = segment.candidates(&plan)?;
        write!(text, "{word}:").unwrap();
        for rank in candidates.files().iter(0..count) {
            write!(text, " {}", names[rank as usize]).unwrap();
        }
        text.push('\n');
    }
    Ok(text)
}

/// Returns the key with a number.
pub(super) fn key(number: u64) -> KeyParts {
    KeyParts {
        root: format!("/tree/{number}").into_bytes(),
        ..KeyParts::default()
    }
}

/// Opens a store, on the given disk if there is one.
pub(super) fn store(root: &Path, disk: Option<Arc<dyn Disk>>) -> Store {
    let store = Store::open(root.to_path_buf(), Privacy::Required, Duration::ZERO).unwrap();
    match disk {
        Some(disk) => store.on(disk),
        None => store,
    }
}

/// Loads the index of a key and returns its answers; `None` if there is no index. An error in any
/// answer is an error of the whole.
pub(super) fn load(store: &Store, key: &KeyParts) -> Result<Option<String>, FormatError> {
    let loaded: Option<Snapshot> = store.load(key, &mut std::thread::sleep)?;
    loaded.map(|loaded| answer(loaded.segment())).transpose()
}

/// Returns the sorted names in a directory; nothing if the directory does not exist.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Checks that a directory contains one index and no other file.
#[track_caller]
pub(super) fn check_tidy(dir: &Path, what: &str) {
    let names = names(dir);
    let [readers, writers, accessed, manifest, segment] = &names[..] else {
        panic!("{what}: {names:?}");
    };
    assert_eq!(
        [readers, writers, accessed, manifest],
        [".readers.lock", ".writers.lock", "accessed", "manifest"],
        "{what}"
    );
    assert!(segment.starts_with("segment-"), "{what}: {segment}");
}
