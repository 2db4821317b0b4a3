//! A real tree that changes at random, and the events that a complete watcher reports.

mod changes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;

use super::*;
use crate::format::manifest::KeyParts;
use crate::format::sort_key::cmp_paths;
use crate::format::storage::Storage;
use crate::index::bloom::BloomParams;
use crate::index::builder::{BuildHost, BuildOptions, FileReader, Progress, build};
use crate::index::casefold::Casefold;
use crate::index::deny::DenySet;
use crate::index::dirty::DirtySet;
use crate::index::enumerate::Enumeration;
use crate::index::key::KeyInputs;
use crate::index::root_dir::RootDir;
use crate::index::snapshot::{Snapshot, StorageMode};
use crate::index::walk::{Follow, FoundFile, IgnoreRules, Place, RuleSets, TraversalOptions};

/// Names of directories: names that sort as equal, hidden ones, and prefixes of others.
const DIRS: [&str; 9] = ["a", "a-b", "ab", "b", "é", "e\u{301}", "n\nl", ".h", "x"];

/// Names of files; some directories have the same names.
const FILES: [&str; 9] = ["x", "x-y", "x.y", "B", "é", "e\u{301}", "l\nf", "a", "z"];

/// The words that files contain.
pub(crate) const WORDS: [&str; 4] = ["alpha", "bravo", "charlie", "delta"];

/// The rules of ignore files.
const RULES: [&str; 7] = ["x\n", "a/\n", "/b\n", "*.y\n", "!x\n", "\n", "**/z\n"];

const DEEP: usize = 3;

/// A time long after all changes of a test, so that every stamp has settled. Stamps differ anyway,
/// because each write changes the length of the file.
const LATER_NS: i64 = i64::MAX / 2;

/// Returns a refresh that trusts all rules files, and whose directories nobody watches.
pub(crate) fn refresh<'a>(walk: &'a Walk, segment: &'a Segment) -> Refresh<'a> {
    Refresh {
        walk,
        segment,
        enter: &|_| {},
        now_ns: i64::MAX,
    }
}

/// Returns an entry of a directory with an event at a time.
pub(crate) fn heard(name: impl Into<OsString>, received_ns: i64) -> ChangedEntry {
    ChangedEntry {
        name: name.into(),
        received_ns,
    }
}

/// A small deterministic random number generator (splitmix64).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        match items.len() {
            0 => None,
            len => Some(items[self.below(len)].clone()),
        }
    }
}

struct Later;

impl BuildHost for Later {
    fn now_ns(&self) -> i64 {
        LATER_NS
    }

    fn pause(&self, _: std::time::Duration) {}

    fn progress(&self, _: Progress) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// A tree, the knowledge about it, and the pending events.
pub(crate) struct Changing {
    _dir: tempfile::TempDir,
    /// The root of the tree.
    pub(crate) root: PathBuf,
    /// Where directories are while they are moved out of the tree.
    aside: PathBuf,
    allowed: Arc<RootDir>,
    pub(crate) rng: Rng,
    pub(crate) segment: Arc<Segment>,
    pub(crate) known: TreeKnowledge,
    /// The names of entered directories, in order.
    pub(crate) announced: std::sync::Mutex<Vec<PathBuf>>,
    entered: EnteredDirs,
    heard: DirtySet,
    /// All directories that ever existed.
    ever: BTreeSet<PathBuf>,
    written: usize,
    history: VecDeque<String>,
}

impl Changing {
    /// Creates a tree and a segment of it, and compares all of it once.
    pub(crate) fn new(seed: u64) -> Changing {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, aside) = (top.join("tree"), top.join("aside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&aside).unwrap();
        let allowed = Arc::new(RootDir::open(&root).unwrap());
        let (segment, inputs) = built(&walk(&allowed, Path::new("")));
        let mut changing = Changing {
            known: TreeKnowledge::new(&segment, inputs),
            _dir: dir,
            root,
            aside,
            allowed,
            rng: Rng(seed),
            segment,
            announced: Default::default(),
            entered: EnteredDirs::default(),
            heard: DirtySet::new(),
            ever: BTreeSet::new(),
            written: 0,
            history: VecDeque::new(),
        };
        for _ in 0..30 {
            changing.change();
        }
        changing.rebuild();
        changing
    }

    pub(crate) fn history(&self) -> String {
        Vec::from(self.history.clone()).join("\n  ")
    }

    /// Returns a new walk over a directory of the tree.
    pub(crate) fn walk(&self, dir: &Path) -> Walk {
        walk(&self.allowed, dir)
    }

    pub(crate) fn allowed(&self) -> &Arc<RootDir> {
        &self.allowed
    }

    /// Starts over with a segment of the current tree.
    pub(crate) fn rebuild(&mut self) {
        let (segment, inputs) = built(&self.walk(Path::new("")));
        (self.known, self.segment) = (TreeKnowledge::new(&segment, inputs), segment);
        self.entered = EnteredDirs::default();
        self.heard = DirtySet::new();
        self.look_at_all();
        self.note("Rebuild".to_string());
    }

    /// Compares the whole tree, as a reconcile does.
    pub(crate) fn look_at_all(&mut self) {
        let walk = self.walk(Path::new(""));
        self.entered.clear();
        let mut cursor = Cursor::whole(&walk);
        self.step_all(&walk, &mut cursor);
        self.known.seen_whole();
    }

    fn step_all(&mut self, walk: &Walk, cursor: &mut Cursor) {
        let announced = &self.announced;
        let enter = |dir: &Path| announced.lock().unwrap().push(dir.to_path_buf());
        let refresh = Refresh {
            walk,
            segment: &self.segment,
            enter: &enter,
            now_ns: i64::MAX,
        };
        while !cursor.is_done() {
            refresh.step(&mut self.known, cursor).unwrap();
        }
    }

    /// Looks at a path because of an event at a given time.
    pub(crate) fn hear_at(&mut self, path: &str, received_ns: i64) {
        let walk = self.walk(Path::new(""));
        let path = Path::new(path);
        let refresh = refresh(&walk, &self.segment);
        let named = heard(path.file_name().unwrap(), received_ns);
        let dirs = [(path.parent().unwrap(), vec![named])];
        let (known, entered) = (&mut self.known, &mut self.entered);
        refresh
            .entries(known, entered, &dirs, &mut Cursor::default(), &|| true)
            .unwrap();
    }

    /// Processes the pending events, in portions.
    pub(crate) fn process_marks(&mut self) {
        let walk = self.walk(Path::new(""));
        loop {
            let most = 1 + self.rng.below(12);
            let works = self.heard.ready(most, u64::MAX, std::time::Duration::ZERO);
            if works.is_empty() {
                return;
            }
            let mut by_dir: BTreeMap<&Path, Vec<ChangedEntry>> = BTreeMap::new();
            let mut cursor = Cursor::default();
            for work in &works {
                match (work.path.parent(), work.path.file_name()) {
                    (Some(dir), Some(name)) => by_dir.entry(dir).or_default().push(heard(name, 0)),
                    _ => {
                        self.entered.clear();
                        cursor = Cursor::whole(&walk);
                    }
                }
            }
            let refresh = refresh(&walk, &self.segment);
            let dirs: Vec<_> = by_dir.into_iter().collect();
            let (known, entered) = (&mut self.known, &mut self.entered);
            refresh
                .entries(known, entered, &dirs, &mut cursor, &|| true)
                .unwrap();
            self.step_all(&walk, &mut cursor);
            for work in &works {
                assert!(self.heard.done(work));
            }
        }
    }

    /// Reads some of the extra files.
    pub(crate) fn read_some(&mut self) {
        let extras = self.known.overlay.extras().to_vec();
        let options = options();
        let mut reader = FileReader::new(&options, LATER_NS);
        for extra in extras {
            let Some(stamp) = extra.stamp.filter(|_| !self.rng.one_in(4)) else {
                continue;
            };
            let place = Place {
                root: self.allowed.clone(),
                real: extra.dir().to_path_buf(),
                logical: extra.dir().to_path_buf(),
            };
            let found = FoundFile {
                dir: Arc::new(place),
                name: extra.name().to_os_string(),
                target: None,
            };
            if let Some(content) = reader.read(&found, Some(stamp)).into_content(stamp) {
                assert!(self.known.overlay.read(&extra, content));
            }
        }
    }

    /// Returns the snapshot that searches would get.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let bytes = self.segment.storage().as_bytes().to_vec();
        let segment = Segment::open(Storage::from(bytes)).unwrap();
        let inputs = self.known.inputs();
        let new = Snapshot::new(key(&self.root), StorageMode::Memory, segment, inputs, 0);
        Arc::new(new.later(self.known.overlay.clone(), new.inputs().clone(), 0))
    }

    /// Returns all directories that are entered by the sets of rules `asked`.
    pub(crate) fn directories(&self, asked: RuleSets) -> Vec<PathBuf> {
        let dirs = self.enumerate().dirs.into_iter();
        let own = dirs.filter(|dir| dir.sets.hold(asked));
        own.map(|dir| dir.place.logical.clone()).collect()
    }

    /// Returns all files that are eligible by the sets of rules `asked`.
    pub(crate) fn files(&self, asked: RuleSets) -> Vec<PathBuf> {
        let listed = listed(&self.enumerate()).into_iter();
        let own = listed.filter(|one| one.sets.hold(asked));
        own.map(|one| one.path).collect()
    }

    fn enumerate(&self) -> Enumeration {
        Enumeration::of(&self.walk(Path::new("")), &|| false, &|_| {})
    }

    /// Checks that the knowledge equals the tree. No event may be pending.
    #[track_caller]
    pub(crate) fn check(&self) {
        let now = self.enumerate();
        let (expected, found) = (listed(&now), self.effective());
        let paths = |all: &[Listed]| {
            let own = all.iter().map(|one| (one.path.clone(), one.sets));
            own.collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&found),
            paths(&expected),
            "files\n  {}",
            self.history()
        );
        for (found, expected) in found.iter().zip(&expected) {
            let path = &found.path;
            let (Some(known), Some(there)) = (found.stamp, expected.stamp) else {
                continue;
            };
            // Each search checks files with several names itself, since their events may be
            // missing.
            assert!(
                known == there || known.links() > 1,
                "{path:?}: {known:?}, {there:?}\n  {}",
                self.history()
            );
        }
        let entered = now.dirs.iter();
        let entered: BTreeMap<PathBuf, RuleSets> = entered
            .map(|dir| (dir.place.logical.clone(), dir.sets))
            .collect();
        for dir in self.ever.iter().chain(entered.keys()) {
            for asked in [RuleSets::ALL, RuleSets::GIT] {
                let overlay = &self.known.overlay;
                let enters = overlay.enters(&self.segment, dir, asked).unwrap();
                let expected = entered.get(dir).is_some_and(|sets| sets.hold(asked));
                assert_eq!(enters, expected, "{dir:?} {asked:?}\n  {}", self.history());
            }
        }
        assert_eq!(
            self.known.inputs().into_list(),
            now.inputs.into_list(),
            "inputs\n  {}",
            self.history()
        );
        let errors: BTreeSet<&PathBuf> = now.errors.iter().map(|(path, _)| path).collect();
        assert_eq!(
            self.known.errors().keys().collect::<BTreeSet<_>>(),
            errors,
            "{}",
            self.history()
        );
        let extras = self.known.overlay.extras();
        assert!(
            extras
                .windows(2)
                .all(|pair| cmp_paths(&pair[0].path, &pair[1].path).is_lt())
        );
    }

    /// Returns the valid files of the segment and the extra files, in order.
    fn effective(&self) -> Vec<Listed> {
        let (segment, overlay) = (&self.segment, &self.known.overlay);
        let mut all = Vec::new();
        let mut dead = 0;
        for rank in 0..segment.file_count() {
            if overlay.dead().is_some_and(|dead| dead.contains(rank)) {
                dead += 1;
                continue;
            }
            let file = segment.file(rank).unwrap();
            let own = Listed {
                path: segment.path(rank).unwrap(),
                stamp: Some(Stamp::from_record(file.stamp)),
                sets: file.sets,
            };
            all.push((rank, true, own));
        }
        assert_eq!(dead, overlay.dead_count());
        for n in (0..segment.side_count()).filter(|&n| !overlay.is_side_dead(n)) {
            let side = segment.side(n).unwrap();
            let own = Listed {
                path: segment.side_path(n).unwrap(),
                stamp: None,
                sets: side.sets,
            };
            all.push((side.before_rank, false, own));
        }
        for extra in overlay.extras() {
            let own = Listed {
                path: extra.path.clone(),
                stamp: extra.stamp,
                sets: extra.sets,
            };
            all.push((extra.before_rank, false, own));
        }
        sorted(all)
    }
}

/// A file of a listing.
struct Listed {
    path: PathBuf,
    stamp: Option<Stamp>,
    sets: RuleSets,
}

/// Returns the files that a tree lists, in order.
fn listed(now: &Enumeration) -> Vec<Listed> {
    let path = |dir: u32, name: &OsString| now.dirs[dir as usize].place.logical.join(name);
    let files = (0u32..).zip(&now.files).map(|(rank, file)| {
        let own = Listed {
            path: path(file.dir, &file.name),
            stamp: file.stamp,
            sets: file.sets,
        };
        (rank, true, own)
    });
    let side = now.side.iter().map(|file| {
        let own = Listed {
            path: path(file.dir, &file.name),
            stamp: None,
            sets: file.sets,
        };
        (file.before_rank, false, own)
    });
    sorted(files.chain(side).collect())
}

fn sorted(mut all: Vec<(u32, bool, Listed)>) -> Vec<Listed> {
    all.sort_by(|a, b| {
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then_with(|| cmp_paths(&a.2.path, &b.2.path))
    });
    all.into_iter().map(|(_, _, own)| own).collect()
}

fn walk(allowed: &Arc<RootDir>, dir: &Path) -> Walk {
    Walk::new(
        allowed.clone(),
        dir.to_path_buf(),
        TraversalOptions {
            hidden: false,
            follow: Follow::Never,
            rules: IgnoreRules::AllAndGit,
            recursive: true,
        },
        Arc::new(DenySet::new(&[], false).unwrap()),
        Arc::new(|_: &Path| None),
        None,
    )
}

pub(crate) fn options() -> BuildOptions {
    BuildOptions {
        words: true,
        params: BloomParams::from_config(1 << 20, 0.01),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: 1 << 20,
        max_memory_bytes: 64 << 20,
    }
}

fn built(walk: &Walk) -> (Arc<Segment>, Inputs) {
    let mut bytes = Vec::new();
    let built = build(walk, &options(), &Later, &mut bytes).unwrap();
    let segment = Segment::open(Storage::from(bytes)).unwrap();
    (Arc::new(segment), built.inputs)
}

fn key(root: &Path) -> KeyParts {
    let inputs = KeyInputs {
        options: TraversalOptions {
            hidden: false,
            follow: Follow::Never,
            rules: IgnoreRules::AllAndGit,
            recursive: true,
        },
        backend: "embedded".to_string(),
        casefold: Casefold::Ascii,
        max_tokenized_bytes: 1 << 20,
        bloom: BloomParams::from_config(1 << 20, 0.01),
        deny: Vec::new(),
        global_excludes: None,
        access: "any".to_string(),
    };
    inputs.key(root)
}
