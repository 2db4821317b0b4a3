//! Losses of power at every single operation of merges, of saving a stopped build, and of resuming
//! it.
//!
//! Afterwards, the index is in the state before or in the state after. An unfinished segment is
//! never taken for an index.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forge_search::internal::index::bloom::BloomParams;
use forge_search::internal::index::builder::{
    BuildError, BuildHost, BuildOptions, BuiltSegment, EarlierSegment, Progress, build_from,
};
use forge_search::internal::index::casefold::Casefold;
use forge_search::internal::index::deny::DenySet;
use forge_search::internal::index::inputs::Inputs;
use forge_search::internal::index::pace::Piece;
use forge_search::internal::index::root_dir::RootDir;
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::snapshot::Snapshot;
use forge_search::internal::index::store::{Limits, Publication, Store};
use forge_search::internal::index::walk::{Follow, IgnoreRules, TraversalOptions, Walk};

use super::disks::{Forgotten, Image, Recording, image_of};
use super::edition::{Edition, WORDS, answer, check_tidy, key, names, store};
use super::power::{History, KEYS, Life, State, check, found, hash, lose_power, restore};
use super::times;
use crate::differential::Seeded;
use crate::index_support::Host;

/// The maximal number of files in the tree. With the small memory budget, they take two or three
/// batches.
const FILES: usize = 36;

/// The length of a file. Most of it is line ends, which are fast to index.
const FILE_BYTES: usize = 4_000;

/// The index in [`KEYS`] of the tree's key. The other key is used to evict it.
const TREE: usize = 0;

fn options() -> BuildOptions {
    BuildOptions {
        words: true,
        params: BloomParams::from_config(1 << 20, 0.01),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: 1 << 20,
        max_memory_bytes: 1 << 20,
    }
}

/// A host that stops the build after some batches, and has the finished part saved.
struct Ending {
    inner: Host,
    batches: AtomicU64,
    most: u64,
}

impl Ending {
    fn after(most: u64) -> Ending {
        Ending {
            inner: Host::hasty(),
            batches: AtomicU64::new(0),
            most,
        }
    }

    fn never() -> Ending {
        Ending::after(u64::MAX)
    }
}

impl BuildHost for Ending {
    fn now_ns(&self) -> i64 {
        // An hour ahead, so that no file counts as recently changed.
        self.inner.now_ns() + 3_600_000_000_000
    }

    fn pause(&self, time: Duration) {
        self.inner.pause(time);
    }

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        self.batches.load(Ordering::SeqCst) >= self.most
    }

    fn keeps_unfinished(&self) -> bool {
        true
    }

    fn worked(&self, _: usize, piece: Piece) {
        if piece == Piece::Batch {
            self.batches.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// An action on the index of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Builds the index. Resumes an unfinished segment if there is one.
    Build,
    /// Builds the index from the segment in use.
    Merge,
    /// Starts a build and stops it.
    LeaveOff,
    /// Publishes another index, which evicts this one.
    Evict,
    Remove,
}

const ACTS: [Act; 8] = [
    Act::Build,
    Act::Merge,
    Act::Merge,
    Act::Merge,
    Act::LeaveOff,
    Act::LeaveOff,
    Act::Evict,
    Act::Remove,
];

/// A tree that changes, and the index that follows.
#[derive(Debug)]
struct Growing {
    tree: tempfile::TempDir,
    rng: Seeded,
    texts: BTreeMap<PathBuf, String>,
    /// The answers of every segment that was saved unfinished.
    unfinished: HashSet<String>,
    /// How often an unfinished segment was resumed after a loss of power.
    resumed: usize,
    /// How often there was an unfinished segment that could be resumed.
    to_resume: usize,
    done: BTreeMap<String, usize>,
}

impl Growing {
    fn new(seed: u64) -> Growing {
        let mut growing = Growing {
            tree: tempfile::tempdir().unwrap(),
            rng: Seeded::new(seed),
            texts: BTreeMap::new(),
            unfinished: HashSet::new(),
            resumed: 0,
            to_resume: 0,
            done: BTreeMap::new(),
        };
        for n in 0..FILES {
            growing.write(n);
        }
        growing
    }

    fn write(&mut self, n: usize) {
        let mut text = String::new();
        for word in WORDS {
            if self.rng.one_in(3) {
                text.push_str(word);
                text.push('\n');
            }
        }
        text.push_str(&"\n".repeat(FILE_BYTES + self.rng.below(100) - text.len()));
        let path = PathBuf::from(format!("d{}/file{n:03}", n % 3));
        let place = self.tree.path().join(&path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, &text).unwrap();
        self.texts.insert(path, text);
    }

    /// Changes some files, few enough to make a merge worth it.
    fn edit(&mut self) {
        for _ in 0..1 + self.rng.below(FILES / 4) {
            let n = self.rng.below(FILES);
            self.write(n);
        }
        if self.rng.one_in(2) {
            let paths: Vec<PathBuf> = self.texts.keys().cloned().collect();
            let path = self.rng.pick(&paths);
            fs::remove_file(self.tree.path().join(&path)).unwrap();
            self.texts.remove(&path);
        }
    }

    fn walk(&self) -> Walk {
        let root = self.tree.path();
        let options = TraversalOptions {
            hidden: false,
            follow: Follow::Never,
            rules: IgnoreRules::None,
            recursive: true,
        };
        let deny = Arc::new(DenySet::new(&[], false).unwrap());
        let open = Arc::new(RootDir::open(root).unwrap());
        let nowhere = Arc::new(|_: &Path| None);
        Walk::new(open, PathBuf::new(), options, deny, nowhere, None)
    }

    fn publish(
        &self,
        store: &Store,
        host: &Ending,
        earlier: Option<EarlierSegment<'_>>,
    ) -> Result<(BuiltSegment, Snapshot), BuildError> {
        let publication = Publication {
            key: &key(KEYS[TREE]),
            params: options().params,
            above: Inputs::default(),
            now_ms: host.now_ns() / 1_000_000,
        };
        let walk = self.walk();
        store.publish(&publication, host, |out| {
            build_from(&walk, &options(), host, earlier, out)
        })
    }

    /// Does one action. Returns the state that it leads to.
    fn step(&mut self, store: &Store, act: Act, before: &State) -> State {
        let key = key(KEYS[TREE]);
        let mut pause = std::thread::sleep;
        let mut state = before.clone();
        self.edit();
        match act {
            Act::Build | Act::LeaveOff => {
                let host = match act {
                    Act::Build => Ending::never(),
                    _ => Ending::after(1),
                };
                let unfinished = store.unfinished(&key, &mut pause);
                let from = if unfinished.is_some() { " on" } else { "" };
                match self.publish(store, &host, unfinished.as_ref().map(EarlierSegment::new)) {
                    Ok((_, snapshot)) => {
                        self.count(&format!("built{from}"));
                        state[TREE] = Some(self.sound(snapshot.segment()));
                    }
                    Err(BuildError::Stopped) => {
                        self.count(&format!("left off{from}"));
                        let kept = store.unfinished(&key, &mut pause).unwrap();
                        self.unfinished.insert(answer(&kept).unwrap());
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Act::Merge => {
                // The old segment stays in use during the merge.
                let used = store.load(&key, &mut pause).unwrap();
                let earlier = used
                    .as_ref()
                    .map(|snapshot| EarlierSegment::new(snapshot.segment()));
                let merged = self.publish(store, &Ending::never(), earlier);
                let (built, snapshot) = merged.unwrap();
                assert_eq!(u64::from(built.meta.files), self.texts.len() as u64);
                self.count(match (earlier.is_some(), built.meta.groups > 1) {
                    (true, true) => "merged",
                    (true, false) => "merged anew",
                    (false, _) => "built",
                });
                state[TREE] = Some(self.sound(snapshot.segment()));
                let used = used.map(|snapshot| answer(snapshot.segment()).unwrap());
                assert_eq!(used, before[TREE], "what is in use has changed");
            }
            Act::Evict => {
                let other = Edition::new(self.rng.below(1_000) as u64);
                let one = Limits {
                    bytes: u64::MAX,
                    indexes: 1,
                    ..Limits::NONE
                };
                let limited = store.clone().limited(one);
                other
                    .publish(&limited, &super::edition::key(KEYS[1]))
                    .unwrap();
                state = [None, Some(other.answer)];
            }
            Act::Remove => {
                let removed = store.remove(&store.dir_of(&key), &mut pause);
                assert!(removed.is_ok() || before[TREE].is_none(), "{removed:?}");
                state[TREE] = None;
            }
        }
        state
    }

    fn count(&mut self, what: &str) {
        *self.done.entry(what.to_string()).or_default() += 1;
    }

    /// Returns the answers of a segment of the current tree. Checks that the segment excludes no
    /// file that contains a word.
    fn sound(&self, segment: &Segment) -> String {
        let answer = answer(segment).unwrap();
        for (path, text) in &self.texts {
            let path = path.to_str().unwrap();
            for line in answer.lines() {
                let (word, files) = line.split_once(':').unwrap();
                let may = word == "files" || text.contains(word);
                assert!(!may || files.contains(path), "{path}: {line}");
            }
        }
        // For an unread file, a segment answers that each word may be in the file. This checks that
        // every file was read.
        for (path, text) in &self.texts {
            let path = path.to_str().unwrap();
            let has_all = WORDS.iter().all(|word| text.contains(word));
            let may_have_all = answer.lines().all(|line| line.contains(path));
            assert!(has_all || !may_have_all, "{path} was not read: {answer}");
        }
        answer
    }
}

impl Life for Growing {
    const IMAGES: usize = 120;

    fn live(base: &Path, seed: u64, forgotten: Forgotten) -> (Growing, History) {
        let disk = Recording::new(forgotten);
        let store = store(&base.join("cache/store"), Some(Arc::new(disk.clone())));
        let mut growing = Growing::new(seed);
        let mut history = History::new(base, Image::new(), [None, None]);
        let mut state: State = [None, None];
        for act in 0..7 {
            let act = match (act, seed % 4) {
                (0, 0 | 2) | (1, 0) => Act::LeaveOff,
                (0 | 3, _) | (1, 2) => Act::Build,
                _ => growing.rng.pick(&ACTS),
            };
            state = growing.step(&store, act, &state);
            history.reached.push((disk.ops().len(), state.clone()));
        }
        history.ops = disk.ops();
        (growing, history)
    }

    /// An unfinished segment must be one that was saved, and can be resumed.
    fn look(&mut self, store: &Store, found: &State) -> Result<(), String> {
        let key = key(KEYS[TREE]);
        let Some(unfinished) = store.unfinished(&key, &mut std::thread::sleep) else {
            return Ok(());
        };
        self.to_resume += 1;
        let said = answer(&unfinished).map_err(|error| format!("unfinished: {error}"))?;
        if !self.unfinished.contains(&said) {
            return Err(format!("nobody has kept this unfinished: {said}"));
        }
        let listed = store.list().map_err(|error| error.to_string())?;
        let dir = store.dir_of(&key);
        if found[TREE].is_none() && listed.iter().any(|one| one.dir == dir) {
            return Err("what is not finished is listed as an index".to_string());
        }
        if self.to_resume.is_multiple_of(8) {
            self.resumed += 1;
            let built = self.publish(
                store,
                &Ending::never(),
                Some(EarlierSegment::new(&unfinished)),
            );
            let (_, snapshot) = built.map_err(|error| format!("it is not built on: {error}"))?;
            self.sound(snapshot.segment());
            check_tidy(&dir, "built on");
            if store.unfinished(&key, &mut std::thread::sleep).is_some() {
                return Err(format!("it is unfinished still: {:?}", names(&dir)));
            }
        }
        Ok(())
    }
}

/// Counts the actions of all lives and their results.
fn counted(lives: &[Growing]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for life in lives {
        let all = life.done.iter().map(|(what, count)| (&**what, *count));
        let found = [
            ("unfinished after a loss of power", life.to_resume),
            ("gone on from that", life.resumed),
        ];
        for (what, count) in all.chain(found) {
            *counted.entry(what.to_string()).or_default() += count;
        }
    }
    counted
}

#[test]
fn a_loss_of_power_at_any_operation_of_a_merge_leaves_what_was_or_what_is_to_be() {
    let wanted = 1_000 * times() as usize;
    let lost = lose_power::<Growing>(Forgotten::Nothing, wanted);
    let (tally, lives) = lost.unwrap_or_else(|problem| panic!("{problem}"));
    let counted = counted(&lives);
    println!("{wanted} different images: {tally:?}, {counted:?}");
    assert_eq!(tally.images, wanted);
    assert!(
        tally.old > wanted / 10 && tally.new > wanted / 50,
        "{tally:?}"
    );
    for what in ["merged", "left off", "built on", "gone on from that"] {
        assert!(
            counted.get(what).is_some_and(|count| *count > 2),
            "{counted:?}"
        );
    }
}

/// Proves a premise of the test above: each kind of missing sync is detected.
#[test]
fn a_forgotten_sync_of_a_merge_shows_after_a_loss_of_power() {
    for forgotten in [Forgotten::Sync, Forgotten::SyncDir] {
        let problem = lose_power::<Growing>(forgotten, 1_500).unwrap_err();
        let shown: String = problem.chars().take(500).collect();
        println!("{forgotten:?}: {shown}");
    }
}

#[test]
fn a_second_loss_of_power_while_a_tree_is_merged_or_gone_on_with_changes_nothing() {
    const IMAGES_OF_EACH: usize = 8;
    const RECOVERIES: [Act; 3] = [Act::Build, Act::Merge, Act::LeaveOff];

    let wanted = 100 * times() as usize;
    let scratch = tempfile::tempdir().unwrap();
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    let opened = store(&second.join("cache/store"), None);
    let mut rng = Seeded::new(4);
    let mut seen = HashSet::new();
    let mut lives = Vec::new();
    while seen.len() < wanted {
        let place = tempfile::tempdir().unwrap();
        let seed = 1_000 + lives.len() as u64;
        let (mut life, history) = Growing::live(place.path(), seed, Forgotten::Nothing);
        for _ in 0..4 {
            let done = rng.below(history.ops.len() + 1);
            let image = history
                .medium(done)
                .after_power_loss(place.path(), &mut rng);
            restore(&image, place.path(), &first);
            let before = found(&store(&first.join("cache/store"), None)).unwrap();
            let disk = Recording::new(Forgotten::Nothing);
            let mut again = History::new(&first, image_of(&first), before);
            let recorded = store(&first.join("cache/store"), Some(Arc::new(disk.clone())));
            let act = rng.pick(&RECOVERIES);
            let after = life.step(&recorded, act, &again.first);
            again.ops = disk.ops();
            again.reached.push((again.ops.len(), after));
            for _ in 0..IMAGES_OF_EACH {
                let done = rng.below(again.ops.len() + 1);
                let image = again.medium(done).after_power_loss(&first, &mut rng);
                if !seen.insert(hash(&image)) {
                    continue;
                }
                restore(&image, &first, &second);
                let checked = check(&opened, again.allowed(done));
                let checked = checked.and_then(|found| life.look(&opened, &found));
                checked.unwrap_or_else(|problem| {
                    panic!("{act:?}, before operation {done}: {problem}")
                });
            }
        }
        lives.push(life);
    }
    println!(
        "{} different images of a second loss of power in {} lives: {:?}",
        seen.len(),
        lives.len(),
        counted(&lives)
    );
}
