//! Simulated losses of power. Every operation that was not synced may be lost, torn, or kept in
//! another order.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forge_search::internal::index::store::Store;

use super::disks::{Forgotten, Image, Op};
use super::edition::{key, load, store};
use crate::differential::Seeded;

/// The unit in which a disk writes, in bytes.
const SECTOR: usize = 512;

/// The numbers of the keys in use.
pub(super) const KEYS: [u64; 2] = [1, 2];

/// A file, by its number, or a directory.
#[derive(Clone, Copy, Debug)]
enum Node {
    Dir,
    File(usize),
}

/// A change of a name in a directory.
#[derive(Clone, Debug)]
enum Change {
    Put(PathBuf, Node),
    Rename(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

impl Change {
    fn dir(&self) -> &Path {
        let (Change::Put(path, _) | Change::Rename(_, path, _) | Change::Remove(path)) = self;
        path.parent().unwrap()
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Change::Put(path, node) => {
                names.insert(path.clone(), *node);
            }
            Change::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Change::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    written: Vec<u8>,
    synced: Vec<u8>,
}

/// A disk after some operations. It knows which of them survive a loss of power.
#[derive(Clone, Debug, Default)]
pub(super) struct Medium {
    files: BTreeMap<usize, Content>,
    names: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    pending: Vec<Change>,
}

impl Medium {
    /// Returns a disk on which an image is synced. Its files have numbers that no later file gets.
    fn of(image: &Image) -> Medium {
        let mut medium = Medium::default();
        for (n, (path, content)) in image.iter().enumerate() {
            let node = match content {
                None => Node::Dir,
                Some(bytes) => {
                    let number = usize::MAX - n;
                    let (written, synced) = (bytes.clone(), bytes.clone());
                    medium.files.insert(number, Content { written, synced });
                    Node::File(number)
                }
            };
            medium.names.insert(path.clone(), node);
        }
        medium.durable = medium.names.clone();
        medium
    }

    fn apply(&mut self, op: &Op) {
        let change = match op {
            Op::MakeDir(dir) => Change::Put(dir.clone(), Node::Dir),
            Op::RemoveDir(path) | Op::Remove(path) => Change::Remove(path.clone()),
            Op::Create(path, number) => {
                self.files.insert(*number, Content::default());
                Change::Put(path.clone(), Node::File(*number))
            }
            Op::Rename(from, to) => Change::Rename(from.clone(), to.clone(), self.names[from]),
            Op::Write(number, bytes) => {
                let content = self.files.get_mut(number).unwrap();
                content.written.extend_from_slice(bytes);
                return;
            }
            Op::Sync(number) => {
                let content = self.files.get_mut(number).unwrap();
                content.synced = content.written.clone();
                return;
            }
            Op::SyncDir(dir) => {
                let (now, later) = self.pending.drain(..).partition(|c| c.dir() == dir);
                let now: Vec<Change> = now;
                for change in now {
                    change.apply(&mut self.durable);
                }
                self.pending = later;
                return;
            }
        };
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    /// Returns one of the many images that a loss of power may leave. `base` always exists.
    pub(super) fn after_power_loss(&self, base: &Path, rng: &mut Seeded) -> Image {
        let mut names = self.durable.clone();
        // Of the pending changes, all survive, or none, or those before a moment, or a random
        // choice.
        let (mode, moment) = (rng.below(6), rng.below(self.pending.len() + 1));
        for (n, change) in self.pending.iter().enumerate() {
            let survives = match mode {
                0 => true,
                1 => false,
                2 => n < moment,
                _ => rng.one_in(2),
            };
            if survives {
                change.apply(&mut names);
            }
        }
        let mut image = Image::new();
        for (path, node) in &names {
            let above = path.parent().unwrap();
            // A directory sorts before the paths below it.
            if above != base && !image.contains_key(above) {
                continue;
            }
            let content = match node {
                Node::Dir => None,
                Node::File(number) => Some(torn(&self.files[number], rng)),
            };
            image.insert(path.clone(), content);
        }
        image
    }
}

/// Returns one possible content of a file after a loss of power.
fn torn(content: &Content, rng: &mut Seeded) -> Vec<u8> {
    let Content { written, synced } = content;
    if written == synced {
        return synced.clone();
    }
    let mut found = written.clone();
    match rng.below(6) {
        0 => return synced.clone(),
        1 => {}
        2 => found.fill(0),
        3 => found.truncate(rng.below(written.len() + 1)),
        kind => {
            for sector in found.chunks_mut(SECTOR) {
                if rng.one_in(2) {
                    sector.fill(0);
                }
            }
            if kind == 5 {
                found.truncate(rng.below(written.len() + 1));
            }
        }
    }
    found
}

pub(super) fn hash(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, content) in image {
        // The temporary directory's name must not make two images different.
        (path.file_name(), content).hash(&mut hasher);
    }
    hasher.finish()
}

/// Replaces the contents of `to` by an image of the contents of `from`.
pub(super) fn restore(image: &Image, from: &Path, to: &Path) {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    builder.create(to).unwrap();
    for (path, content) in image {
        let path = to.join(path.strip_prefix(from).unwrap());
        match content {
            None => builder.create(path).unwrap(),
            Some(bytes) => {
                fs::write(&path, bytes).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            }
        }
    }
}

/// The answers with the index of each key; `None` if there is no index.
pub(super) type State = [Option<String>; KEYS.len()];

/// The operations that were done, and the states between them.
pub(super) struct History {
    pub(super) base: PathBuf,
    pub(super) before: Image,
    pub(super) ops: Vec<Op>,
    /// Each state, with the number of operations after which it is reached, in order. `first` is
    /// the state before all of them.
    pub(super) reached: Vec<(usize, State)>,
    pub(super) first: State,
}

impl History {
    /// Starts a history without operations, from the state on the disk.
    pub(super) fn new(base: &Path, before: Image, first: State) -> History {
        History {
            base: base.to_path_buf(),
            before,
            ops: Vec::new(),
            reached: Vec::new(),
            first,
        }
    }

    /// Returns the states that are allowed after a loss of power when `done` operations were done.
    pub(super) fn allowed(&self, done: usize) -> [&State; 2] {
        let mut before = &self.first;
        for (ops, state) in &self.reached {
            if done < *ops {
                return [before, state];
            }
            before = state;
        }
        [before, before]
    }

    pub(super) fn medium(&self, done: usize) -> Medium {
        let mut medium = Medium::of(&self.before);
        for op in &self.ops[..done] {
            medium.apply(op);
        }
        medium
    }
}

/// Opens the indexes on the disk and returns their state. An index that can't be opened is an
/// error.
pub(super) fn found(store: &Store) -> Result<State, String> {
    let one = |number| {
        let key = key(number);
        let found = load(store, &key).map_err(|error| format!("key {number}: {error}"))?;
        if found.is_some() {
            let checked = store.check(&store.dir_of(&key), true, &mut std::thread::sleep);
            checked.map_err(|error| format!("key {number}: {error}"))?;
        }
        Ok::<_, String>(found)
    };
    Ok([one(KEYS[0])?, one(KEYS[1])?])
}

pub(super) fn check(store: &Store, allowed: [&State; 2]) -> Result<State, String> {
    let found = found(store)?;
    for (n, state) in found.iter().enumerate() {
        if *state != allowed[0][n] && *state != allowed[1][n] {
            return Err(format!("key {}: {state:?}", KEYS[n]));
        }
    }
    Ok(found)
}

/// A sequence of actions on the indexes in a store.
pub(super) trait Life: Sized {
    /// The maximal number of different images of one life.
    const IMAGES: usize;

    /// Runs a life on a disk below `base`. Each seed gives another order of actions.
    fn live(base: &Path, seed: u64, forgotten: Forgotten) -> (Self, History);

    /// Checks the store after a loss of power, beyond the states that were found. May change the
    /// store.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    fn look(&mut self, store: &Store, found: &State) -> Result<(), String>;
}

/// The counts of the lives, of their operations and of the images after a loss of power.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) lives: usize,
    pub(super) operations: usize,
    pub(super) images: usize,
    pub(super) old: usize,
    pub(super) new: usize,
}

/// Cuts the power at every operation of lives, until there were `wanted` different images. Returns
/// the counts and the lives.
pub(super) fn lose_power<L: Life>(
    forgotten: Forgotten,
    wanted: usize,
) -> Result<(Tally, Vec<L>), String> {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("base");
    let opened = store(&to.join("cache/store"), None);
    let mut seen = HashSet::new();
    let mut tally = Tally::default();
    let mut lives = Vec::new();
    for seed in 0.. {
        let place = tempfile::tempdir().unwrap();
        let (mut life, history) = L::live(place.path(), seed, forgotten);
        tally.lives += 1;
        tally.operations += history.ops.len();
        let points = history.ops.len() + 1;
        let media: Vec<Medium> = (0..points).map(|done| history.medium(done)).collect();
        let mut rng = Seeded::new(seed);
        let end = wanted.min(seen.len() + L::IMAGES);
        for round in 0..100 {
            for (done, medium) in media.iter().enumerate() {
                let image = medium.after_power_loss(&history.base, &mut rng);
                if seen.len() >= end || !seen.insert(hash(&image)) {
                    continue;
                }
                restore(&image, &history.base, &to);
                let allowed = history.allowed(done);
                let found = check(&opened, allowed);
                let found = found.and_then(|found| life.look(&opened, &found).map(|()| found));
                let found = found.map_err(|problem| {
                    let op = history.ops.get(done);
                    format!(
                        "seed {seed}, round {round}, before operation {done}, {op:?}: {problem}"
                    )
                })?;
                tally.images += 1;
                if allowed[0] != allowed[1] {
                    tally.old += usize::from(found == *allowed[0]);
                    tally.new += usize::from(found == *allowed[1]);
                }
            }
        }
        lives.push(life);
        if seen.len() >= wanted {
            break;
        }
    }
    Ok((tally, lives))
}
