//! Losses of power at every single operation: of what was not synced anything may be gone, torn, or there in another
//! order. What is found afterwards is the state before or the state after.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_search::index::store::{Limits, Store};

use super::disks::{Forgotten, Image, Op, Recording, image_of};
use super::edition::{Edition, key, load, store};
use super::times;
use crate::differential::Seeded;

/// The unit in which a disk writes.
const SECTOR: usize = 512;

/// The numbers of the keys that are used.
const KEYS: [u64; 2] = [1, 2];

/// A file or directory.
#[derive(Clone, Copy, Debug)]
enum Node {
    Dir,
    File(usize),
}

/// A change of a name, in a directory.
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

/// A disk on which operations were done, and of which it is known what survives a loss of power.
#[derive(Clone, Debug, Default)]
struct Medium {
    files: BTreeMap<usize, Content>,
    names: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    pending: Vec<Change>,
}

impl Medium {
    /// A disk on which an image is synced. The numbers of its files are not those of files that are made later.
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

    /// What a loss of power may leave, one of many possibilities. `base` is always there.
    fn after_power_loss(&self, base: &Path, rng: &mut Seeded) -> Image {
        let mut names = self.durable.clone();
        // All, none, those up to a moment, or any.
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
            // Paths come after those above them.
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

/// What may be left of a file.
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

fn hash(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, content) in image {
        // In which directory it was made does not tell images apart.
        (path.file_name(), content).hash(&mut hasher);
    }
    hasher.finish()
}

/// Puts an image of what is below `from` below `to`, in the place of what is there.
fn restore(image: &Image, from: &Path, to: &Path) {
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

/// The answers with the index of each key; `None` where there is none.
type State = [Option<String>; KEYS.len()];

/// What was done, and between which states.
struct History {
    base: PathBuf,
    before: Image,
    ops: Vec<Op>,
    /// The numbers of operations after which a state is reached, in order. That before the first one is `first`.
    reached: Vec<(usize, State)>,
    first: State,
}

impl History {
    /// The states that may be found after a loss of power when so many operations were done.
    fn allowed(&self, done: usize) -> [&State; 2] {
        let mut before = &self.first;
        for (ops, state) in &self.reached {
            if done < *ops {
                return [before, state];
            }
            before = state;
        }
        [before, before]
    }

    fn medium(&self, done: usize) -> Medium {
        let mut medium = Medium::of(&self.before);
        for op in &self.ops[..done] {
            medium.apply(op);
        }
        medium
    }
}

const ONE: Limits = Limits {
    bytes: u64::MAX,
    indexes: 1,
};

/// Opens what is there. Each key has one of the states allowed for it, whole, or something is wrong.
fn found(store: &Store) -> Result<State, String> {
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

fn check(store: &Store, allowed: [&State; 2]) -> Result<State, String> {
    let found = found(store)?;
    for (n, state) in found.iter().enumerate() {
        if *state != allowed[0][n] && *state != allowed[1][n] {
            return Err(format!("key {}: {state:?}", KEYS[n]));
        }
    }
    Ok(found)
}

/// A life of two indexes: made, replaced, evicted and removed, in an order of its own for each seed.
fn life(base: &Path, seed: u64, forgotten: Forgotten) -> History {
    let disk = Recording::new(forgotten);
    let store = store(&base.join("cache/store"), Some(Arc::new(disk.clone())));
    let mut history = History {
        base: base.to_path_buf(),
        before: Image::new(),
        ops: Vec::new(),
        reached: Vec::new(),
        first: [None, None],
    };
    let mut rng = Seeded::new(seed);
    let mut state: State = [None, None];
    for act in 0..6 {
        let which = match (act, rng.below(6)) {
            (0, _) => 0,
            (_, which) => which,
        };
        state = step(&store, which, &state, rng.below(1_000) as u64);
        history.reached.push((disk.ops().len(), state.clone()));
    }
    history.ops = disk.ops();
    history
}

/// Does one of the things that anybody may do, given what is there; returns the state that is reached then.
fn step(store: &Store, which: usize, before: &State, number: u64) -> State {
    let edition = Edition::new(number);
    let new = Some(edition.answer.clone());
    let limited = store.clone().limited(ONE);
    let n = number as usize % KEYS.len();
    let mut state = before.clone();
    match which {
        0 | 1 => {
            edition.publish(store, &key(KEYS[n])).unwrap();
            state[n] = new;
        }
        2 | 3 => {
            edition.publish(&limited, &key(KEYS[n])).unwrap();
            state = [None, None];
            state[n] = new;
        }
        4 => {
            let dir = store.dir_of(&key(KEYS[n]));
            // Refused where there is none.
            let removed = store.remove(&dir, &mut std::thread::sleep);
            assert!(removed.is_ok() || before[n].is_none(), "{removed:?}");
            state[n] = None;
        }
        _ => {
            store.make_room(None);
        }
    }
    state
}

/// What came of it.
#[derive(Debug, Default)]
struct Tally {
    lives: usize,
    operations: usize,
    images: usize,
    old: usize,
    new: usize,
}

/// How many different images there are of one life, at most.
const IMAGES_OF_A_LIFE: usize = 250;

/// Loses power at every operation of lives, until there were so many different images.
fn lose_power(forgotten: Forgotten, wanted: usize) -> Result<Tally, String> {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("base");
    let opened = store(&to.join("cache/store"), None);
    let mut seen = HashSet::new();
    let mut tally = Tally::default();
    for seed in 0.. {
        let place = tempfile::tempdir().unwrap();
        let history = life(place.path(), seed, forgotten);
        tally.lives += 1;
        tally.operations += history.ops.len();
        let points = history.ops.len() + 1;
        let media: Vec<Medium> = (0..points).map(|done| history.medium(done)).collect();
        let mut rng = Seeded::new(seed);
        let end = wanted.min(seen.len() + IMAGES_OF_A_LIFE);
        for round in 0..100 {
            for (done, medium) in media.iter().enumerate() {
                let image = medium.after_power_loss(&history.base, &mut rng);
                if seen.len() >= end || !seen.insert(hash(&image)) {
                    continue;
                }
                restore(&image, &history.base, &to);
                let allowed = history.allowed(done);
                let found = check(&opened, allowed).map_err(|problem| {
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
        if seen.len() >= wanted {
            break;
        }
    }
    Ok(tally)
}

#[test]
fn a_loss_of_power_at_any_operation_leaves_the_old_index_or_the_new_one() {
    let wanted = 2_500 * times() as usize;
    let tally =
        lose_power(Forgotten::Nothing, wanted).unwrap_or_else(|problem| panic!("{problem}"));
    println!("{wanted} different images: {tally:?}");
    assert_eq!(tally.images, wanted);
    assert!(
        tally.old > wanted / 10 && tally.new > wanted / 50,
        "{tally:?}"
    );
}

/// What the test above relies on: each kind of missing sync shows.
#[test]
fn a_forgotten_sync_shows_after_a_loss_of_power() {
    for forgotten in [Forgotten::Sync, Forgotten::SyncDir] {
        let problem = lose_power(forgotten, 2_500).unwrap_err();
        let shown: String = problem.chars().take(500).collect();
        println!("{forgotten:?}: {shown}");
    }
}

#[test]
fn a_second_loss_of_power_while_the_first_one_is_cleared_up_changes_nothing() {
    const IMAGES_OF_EACH: usize = 8;

    let wanted = 300 * times() as usize;
    let scratch = tempfile::tempdir().unwrap();
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    let opened = store(&second.join("cache/store"), None);
    let mut rng = Seeded::new(2);
    let mut seen = HashSet::new();
    let mut recoveries = [0; 6];
    let mut lives = 0;
    while seen.len() < wanted {
        let place = tempfile::tempdir().unwrap();
        let history = life(place.path(), lives, Forgotten::Nothing);
        lives += 1;
        let done = rng.below(history.ops.len() + 1);
        let image = history
            .medium(done)
            .after_power_loss(&history.base, &mut rng);
        restore(&image, &history.base, &first);
        let plain = store(&first.join("cache/store"), None);
        let before = found(&plain).unwrap();
        let image = image_of(&first);
        let disk = Recording::new(Forgotten::Nothing);
        let recorded = store(&first.join("cache/store"), Some(Arc::new(disk.clone())));
        let which = rng.below(recoveries.len());
        let after = step(&recorded, which, &before, rng.below(1_000) as u64);
        recoveries[which] += 1;
        let ops = disk.ops();
        let again = History {
            base: first.clone(),
            before: image,
            reached: vec![(ops.len(), after)],
            ops,
            first: before,
        };
        for _ in 0..IMAGES_OF_EACH {
            let done = rng.below(again.ops.len() + 1);
            let image = again.medium(done).after_power_loss(&again.base, &mut rng);
            if !seen.insert(hash(&image)) {
                continue;
            }
            restore(&image, &again.base, &second);
            check(&opened, again.allowed(done)).unwrap_or_else(|problem| {
                panic!("{:?}, before operation {done}: {problem}", again.ops)
            });
        }
    }
    println!(
        "{} different images of a second loss of power, after {recoveries:?} recoveries",
        seen.len()
    );
    assert!(recoveries.iter().all(|count| *count > 0));
}
