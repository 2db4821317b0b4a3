//! The implementations of [`Engine`]:
//!
//! - [`Scanning`]: the tool without an index;
//! - [`Validating`]: the tool with an index that each call compares with the tree;
//! - [`Alive`]: the tool with a live index;
//! - the others: engines with planted errors.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forge_search::internal::tool::indexing::LiveEnvironment;
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use serde_json::Value;

use super::Engine;
use super::requests::eligible;
use crate::index_support::{Host, VARIANTS, Variant, as_json};
use crate::live_index::patient;
use crate::support::{GUARD, Setup, Tree, check_response};

fn setup(tree: &Tree) -> Setup {
    tree.setup()
        .generous()
        .sandbox(|sandbox| sandbox.include_default_denies = false)
        .config(|config| config.emit_stats = true)
}

/// One process. Its sandbox and its indexes stay the same for all calls.
struct Process {
    setup: Setup,
    tool: SearchTool,
    context: ToolContext,
}

impl Process {
    fn new(setup: Setup) -> Process {
        let (tool, context) = (setup.tool(), setup.context());
        Process {
            setup,
            tool,
            context,
        }
    }

    fn search(&self, request: &Value) -> Value {
        let answer = SearchRequest::from_value(request.clone()).and_then(|request| {
            let response = self.tool.search(&request, &self.context)?;
            check_response(&request, &response);
            Ok(response)
        });
        as_json(&answer)
    }
}

/// The tool without an index.
pub(crate) struct Scanning(Process);

impl Scanning {
    pub(crate) fn new(tree: &Tree) -> Scanning {
        Scanning(Process::new(setup(tree)))
    }
}

impl Engine for Scanning {
    fn search(&self, request: &Value) -> Value {
        self.0.search(request)
    }

    fn settle(&self) {}
}

/// The tool with an index. Each call compares the index with the tree.
pub(crate) struct Validating {
    process: Process,
    settled: RefCell<u32>,
}

impl Validating {
    /// Creates the engine. The seed selects the storage.
    pub(crate) fn new(tree: &Tree, seed: u64) -> Validating {
        let live: Vec<Variant> = VARIANTS
            .into_iter()
            .filter(|variant| !variant.frozen)
            .collect();
        let variant = live[seed as usize % live.len()];
        Validating {
            process: Process::new(setup(tree).with_indexes(variant)),
            settled: RefCell::default(),
        }
    }
}

/// One in this many calls of `settle` builds the index even if it is usable. Without a build, files
/// that have changed since the last build are never excluded again.
const FORCED: u32 = 2;

impl Engine for Validating {
    fn search(&self, request: &Value) -> Value {
        self.process.search(request)
    }

    fn settle(&self) {
        let Process { setup, context, .. } = &self.process;
        let (indexes, host) = (&setup.kept().indexes, Host::patient());
        let mut settled = self.settled.borrow_mut();
        *settled += 1;
        match *settled % FORCED {
            0 => drop(
                indexes
                    .build(&setup.working_dir, context.sandbox.reach(), &host)
                    .unwrap(),
            ),
            _ => drop(
                indexes
                    .ensure(&setup.working_dir, context.sandbox.reach(), &host)
                    .unwrap(),
            ),
        }
    }
}

/// The tool with a live index, which watches the tree.
pub(crate) struct Alive(Process);

impl Alive {
    /// Creates the engine. The seed selects the storage, and whether the worker is busy all the
    /// time.
    pub(crate) fn new(tree: &Tree, seed: u64) -> Alive {
        let live: Vec<Variant> = VARIANTS
            .into_iter()
            .filter(|variant| !variant.frozen)
            .collect();
        let variant = live[(seed / 4) as usize % live.len()];
        let setup = setup(tree)
            .config(|config| {
                config.index_watch_debounce_ms = 5;
                patient(config);
                config.reconcile_max_files = [50_000, 5][usize::from(seed % 4 == 3)];
            })
            .with_indexes(variant);
        let process = Process::new(setup);
        let mut around = LiveEnvironment::new(process.context.sandbox.reach().clone());
        around.watcher_patience = GUARD;
        if seed % 4 >= 2 {
            // The worker merges and reconciles almost all the time, while searches run.
            around.merge_files = 10;
            around.reconcile_every = Duration::from_millis([300, 2][usize::from(seed % 4 == 3)]);
        }
        let indexes = &process.setup.kept().indexes;
        indexes.live(&process.setup.config, &around).unwrap();
        Alive(process)
    }
}

impl Engine for Alive {
    fn search(&self, request: &Value) -> Value {
        self.0.search(request)
    }

    fn settle(&self) {
        let indexes = &self.0.setup.kept().indexes;
        let root = &self.0.setup.working_dir;
        let settled = indexes.wait_live(root, GUARD).unwrap();
        settled.expect("the index settles");
    }
}

/// An engine that repeats its earlier answer to the same request until it settles.
pub(crate) struct Remembering {
    inner: Scanning,
    known: RefCell<BTreeMap<String, Value>>,
}

impl Remembering {
    pub(crate) fn new(tree: &Tree) -> Remembering {
        Remembering {
            inner: Scanning::new(tree),
            known: RefCell::default(),
        }
    }
}

impl Engine for Remembering {
    fn search(&self, request: &Value) -> Value {
        let mut known = self.known.borrow_mut();
        let answer = known.entry(request.to_string());
        answer.or_insert_with(|| self.inner.search(request)).clone()
    }

    fn settle(&self) {
        self.known.borrow_mut().clear();
    }
}

/// An engine that drops some events of its answers.
pub(crate) struct Dropping<F> {
    inner: Scanning,
    drops: F,
}

impl<F: Fn(&Value) -> bool> Dropping<F> {
    pub(crate) fn new(tree: &Tree, drops: F) -> Dropping<F> {
        Dropping {
            inner: Scanning::new(tree),
            drops,
        }
    }
}

impl<F: Fn(&Value) -> bool> Engine for Dropping<F> {
    fn search(&self, request: &Value) -> Value {
        without_events(self.inner.search(request), &self.drops)
    }

    fn settle(&self) {}
}

fn without_events(mut answer: Value, drops: impl Fn(&Value) -> bool) -> Value {
    if let Some(events) = answer.get_mut("matches").and_then(Value::as_array_mut) {
        events.retain(|event| !drops(event));
    }
    answer
}

/// The metadata of a file that an engine sees without reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sign {
    pub(crate) len: u64,
    pub(crate) modified: SystemTime,
    pub(crate) inode: u64,
    pub(crate) links: u64,
}

impl Sign {
    fn of(path: &Path) -> Option<Sign> {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(Sign {
            len: meta.len(),
            modified: meta.modified().ok()?,
            inode: meta.ino(),
            links: meta.nlink(),
        })
    }
}

/// Returns true if a file counts as unchanged since the engine settled. The first sign is from that
/// time, and missing for a new file.
pub(crate) type Suspect = fn(Option<&Sign>, &Sign, &Then) -> bool;

/// The state of the tree when an engine settled.
#[derive(Debug, Default)]
pub(crate) struct Then {
    files: BTreeMap<PathBuf, (Sign, Vec<u8>)>,
    dirs: BTreeSet<PathBuf>,
    /// The newest modification time of a file.
    pub(crate) newest: Option<SystemTime>,
    /// The files that no ignore file excluded, including hidden ones.
    eligible: BTreeSet<PathBuf>,
    /// True if the directory of the file in question did not exist.
    pub(crate) new_dir: bool,
    /// True if an ignore file excluded the file, and the request in question obeys ignore files.
    pub(crate) ignored: bool,
}

/// An engine that overlooks new text in files that it takes for unchanged.
pub(crate) struct Known {
    inner: Scanning,
    root: PathBuf,
    suspect: Suspect,
    then: RefCell<Then>,
}

impl Known {
    pub(crate) fn new(tree: &Tree, suspect: Suspect) -> Known {
        Known {
            inner: Scanning::new(tree),
            root: tree.root().to_path_buf(),
            suspect,
            then: RefCell::default(),
        }
    }

    fn overlooks(&self, request: &Value, event: &Value) -> bool {
        let path = self
            .root
            .join(event["data"]["path"]["text"].as_str().unwrap());
        let mut then = self.then.borrow_mut();
        then.new_dir = !then.dirs.contains(path.parent().unwrap());
        let options = ["path", "no_ignore", "follow"];
        then.ignored = options.iter().all(|option| request.get(option).is_none())
            && then.files.contains_key(&path)
            && !then.eligible.contains(&path);
        // The response can't spell this name exactly, so it names no file.
        let Some(now) = Sign::of(&path) else {
            return false;
        };
        let known = then.files.get(&path);
        if !(self.suspect)(known.map(|(sign, _)| sign), &now, &then) {
            return false;
        }
        let line = event["data"]["lines"]["text"].as_str().unwrap().as_bytes();
        then.ignored
            || known.is_none_or(|(_, old)| {
                let is_old = old.windows(line.len().max(1)).any(|part| part == line);
                !is_old && fs::read(&path).is_ok_and(|new| new != *old)
            })
    }
}

impl Engine for Known {
    fn search(&self, request: &Value) -> Value {
        without_events(self.inner.search(request), |event| {
            self.overlooks(request, event)
        })
    }

    fn settle(&self) {
        let eligible = eligible(&self.root, None, true, true).into_iter();
        let mut then = Then {
            eligible: eligible.map(|path| self.root.join(path)).collect(),
            ..Then::default()
        };
        let mut todo = vec![self.root.clone()];
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    todo.push(path);
                } else if let (Some(sign), Ok(content)) = (Sign::of(&path), fs::read(&path)) {
                    then.newest = then.newest.max(Some(sign.modified));
                    then.files.insert(path, (sign, content));
                }
            }
            then.dirs.insert(dir);
        }
        *self.then.borrow_mut() = then;
    }
}
