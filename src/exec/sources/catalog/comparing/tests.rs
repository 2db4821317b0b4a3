use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use super::super::tests::{GLOBS, globs, plan, subtree};
use super::*;
use crate::exec::answer::collect::{Found, Limits};
use crate::exec::engine::Engine;
use crate::exec::engine::embedded::Embedded;
use crate::exec::question::IndexList;
use crate::exec::question::query::{Query, QueryOptions, Report};
use crate::exec::schedule::{self, AbandonedWorkers, Run, RunOptions};
use crate::exec::sources::eligible::{FileSource, Item, PathUnit, WalkSource};
use crate::exec::stop::{CancelHandle, Deadline, StopReason, SystemClock};
use crate::index::refresh::catch_up::catch_up;
use crate::index::refresh::names::NameComparison;
use crate::index::refresh::tests::changing::{Changing, WORDS};
use crate::index::root_dir::RootDir;
use crate::index::walk::{IgnoreRules, RuleSets};

/// How long a test waits after a build. A change in the same tick of the filesystem's clock does
/// not alter the timestamp of a directory. The program excludes this case when it builds an index.
const TICK: Duration = Duration::from_millis(20);

/// Files, each with the number of files skipped before it, and the number skipped at the end.
type Files = (Vec<(PathBuf, u64)>, u64);

fn part(tree: &Changing, path: &Path, recursive: bool) -> RequestedPart {
    RequestedPart {
        root: tree.allowed().clone(),
        base: PathBuf::new(),
        path: path.to_path_buf(),
        recursive,
        max_depth: None,
        words: None,
        max_file_size: u64::MAX,
        withholds: false,
        lists: false,
        by_index: IndexList::None,
        sets: RuleSets::ALL,
    }
}

/// The tree of a test.
struct Tree {
    names: NameComparison,
    built: Arc<Snapshot>,
    root: Arc<RootDir>,
    path: PathBuf,
    /// Called in place of catching up.
    instead: Option<Instead>,
}

type Instead = Box<dyn Fn(GoOn<'_>) -> CaughtUp + Send + Sync>;

impl TreeDifferences for Tree {
    fn has_same_names(&self, dir: u32, go_on: GoOn<'_>) -> Result<bool, FormatError> {
        self.names.are_same(dir, go_on)
    }

    fn catch_up(&self, go_on: GoOn<'_>) -> Result<CaughtUp, FormatError> {
        if let Some(instead) = &self.instead {
            return Ok(instead(go_on));
        }
        let (built, root, path) = (&self.built, &self.root, &self.path);
        let Some(mut differences) = built.differences(go_on, root, Path::new(""), path)? else {
            return Ok(CaughtUp::Unknown(Stale::Unfinished));
        };
        self.names.remove_same(&mut differences, go_on)?;
        catch_up(built, &differences, self.names.walk(), path, go_on)
    }
}

/// Returns the current tree.
fn current(tree: &Changing, built: &Arc<Snapshot>, part: &RequestedPart) -> Tree {
    Tree {
        names: NameComparison::new(built.clone(), tree.walk(Path::new(""))),
        built: built.clone(),
        root: tree.allowed().clone(),
        path: part.path.clone(),
        instead: None,
    }
}

fn source(
    built: &Arc<Snapshot>,
    part: RequestedPart,
    globs: Globs,
    word: &str,
    tree: Tree,
) -> CatalogSource {
    let allowance = Arc::new(Allowance::new(Duration::MAX, Arc::new(SystemClock)));
    let (built, plan) = (built.clone(), plan(word));
    let made = CatalogSource::comparing_along(built, part, globs, &plan, allowance, Box::new(tree));
    made.unwrap().unwrap()
}

/// Expands units in some order. Returns the files of the units before the first one that is not
/// expanded.
fn expanded_in(source: &CatalogSource, order: &[usize]) -> Files {
    let stop = Stop::new();
    let unit = |item| match item {
        Item::Unit(PathUnit::Ranks(ranks)) => ranks,
        other => panic!("{other:?}"),
    };
    let units: Vec<Range<u32>> = source.start().into_iter().map(unit).collect();
    let mut all: BTreeMap<usize, Vec<Item<PathUnit>>> = BTreeMap::new();
    for &at in order {
        all.insert(at, source.expand(PathUnit::Ranks(units[at].clone()), &stop));
    }
    let (mut files, mut passed) = (Vec::new(), 0);
    let whole = (0..units.len()).map_while(|at| all.remove(&at));
    for item in whole.flatten() {
        match item {
            Item::File(file) => {
                files.push((file.logical(), passed + file.passed_before));
                passed = 0;
            }
            Item::Passed(count) => passed += count,
            other => panic!("{other:?}"),
        }
    }
    (files, passed)
}

fn walked(tree: &Changing, dir: &Path, recursive: bool, globs: Globs) -> Vec<PathBuf> {
    let walk = WalkSource::new(subtree(tree, dir, IgnoreRules::All, recursive), globs);
    let stop = Stop::new();
    let mut todo = walk.start();
    todo.reverse();
    let mut all = Vec::new();
    while let Some(item) = todo.pop() {
        match item {
            Item::File(file) => all.push(file.logical()),
            Item::Unit(unit) => todo.extend(walk.expand(unit, &stop).into_iter().rev()),
            other => panic!("{other:?}"),
        }
    }
    all
}

/// Checks that each file is at its position in the walk, and that no skipped file contains the
/// word. Returns the number of files.
#[track_caller]
fn check(
    all: &[PathBuf],
    (files, last): &Files,
    is_match: impl Fn(&Path) -> bool,
    what: &str,
) -> usize {
    let mut at = 0;
    let mut found = vec![false; all.len()];
    for (path, passed) in files {
        at += *passed as usize;
        assert_eq!(all.get(at), Some(path), "{what}");
        found[at] = true;
        at += 1;
    }
    at += *last as usize;
    assert!(at <= all.len(), "{what}");
    for (path, found) in all.iter().zip(found).take(at) {
        assert!(found || !is_match(path), "{path:?} is left out: {what}");
    }
    at
}

/// Picks a directory whose parents are as in the snapshot. The directory itself may differ.
fn searched_dir(tree: &mut Changing, built: &Snapshot) -> Option<PathBuf> {
    let segment = built.segment();
    let number = match tree.rng.one_in(2) {
        true => 0,
        false => tree.rng.below(segment.dir_count() as usize) as u32,
    };
    let dir = segment.dir_path(number).unwrap().to_path_buf();
    // Only git's rules may enter it.
    if !segment.dir(number).unwrap().sets.hold(RuleSets::ALL) {
        return None;
    }
    let is_same = |path| built.is_same_down_to(tree.allowed(), Path::new(""), path);
    let differs = |above| !is_same(above).unwrap();
    (!dir.parent().is_some_and(differs)).then_some(dir)
}

#[test]
fn each_part_of_a_source_that_compares_along_the_way_is_that_of_a_walk() {
    let (mut caught_up, mut all_same, mut cut_short) = (0, 0, 0);
    for seed in 500..520 {
        let mut tree = Changing::new(seed);
        let built = tree.snapshot();
        std::thread::sleep(TICK);
        for step in 0..12 {
            if step > 0 {
                tree.change();
            }
            if built.inputs().changed().is_some() {
                break;
            }
            for _ in 0..6 {
                let Some(dir) = searched_dir(&mut tree, &built) else {
                    continue;
                };
                let recursive = !tree.rng.one_in(6);
                let given = GLOBS[tree.rng.below(GLOBS.len())];
                let words = [&WORDS[..], &["absent"]].concat();
                let word = tree.rng.pick(&words).unwrap();
                let part = part(&tree, &dir, recursive);
                let make = || {
                    let now = current(&tree, &built, &part);
                    source(&built, part.clone(), globs(given), word, now).in_units_of(1, 3)
                };
                let (whole, partial) = (make(), make());
                let count = whole.start().len();
                let first = tree.rng.below(count + 1);
                let mut order: Vec<usize> = (0..count).collect();
                for at in (1..count).rev() {
                    order.swap(at, tree.rng.below(at + 1));
                }
                let what = format!(
                    "seed {seed}, {step}: {word} in {dir:?}, {recursive} {given:?}, {first} {order:?}\n  {}",
                    tree.history()
                );
                let files = expanded_in(&whole, &order);
                assert!(whole.failure().get().is_none(), "{what}");
                let refusal = whole.refusal().unwrap();
                assert!(refusal.get().is_none(), "{refusal:?} {what}");
                let all = walked(&tree, &dir, recursive, globs(given));
                let is_match = |path: &Path| {
                    let text = fs::read_to_string(tree.root.join(&dir).join(path));
                    text.unwrap().contains(word)
                };
                assert_eq!(check(&all, &files, is_match, &what), all.len(), "{what}");
                let comparison = whole.comparison.as_ref().unwrap();
                match comparison.twin() {
                    Some(_) => caught_up += 1,
                    None => {
                        assert_eq!(comparison.same_dirs(), comparison.dirs.len(), "{what}");
                        all_same += 1;
                    }
                }
                // A search that ends early has the first units.
                let order: Vec<usize> = (0..first).collect();
                check(&all, &expanded_in(&partial, &order), is_match, &what);
                let comparison = partial.comparison.as_ref().unwrap();
                let is_early = comparison.twin().is_none();
                cut_short +=
                    usize::from(is_early && comparison.same_dirs() < comparison.dirs.len());
            }
        }
    }
    assert!(
        caught_up > 150 && all_same > 100 && cut_short > 100,
        "{caught_up} {all_same} {cut_short}"
    );
}

/// A source with a comparison that a test can examine during the search.
struct Seen(Arc<CatalogSource>);

impl FileSource for Seen {
    type Unit = PathUnit;

    fn start(&self) -> Vec<Item<PathUnit>> {
        self.0.start()
    }

    fn expand(&self, unit: PathUnit, stop: &Stop) -> Vec<Item<PathUnit>> {
        self.0.expand(unit, stop)
    }

    fn has_failed(&self) -> bool {
        self.0.has_failed()
    }
}

/// A tree with a file that matches, and one that does not, in each of a hundred directories.
fn hundred() -> (Changing, Arc<Snapshot>) {
    let mut tree = Changing::new(7);
    for entry in fs::read_dir(&tree.root).unwrap() {
        let path = entry.unwrap().path();
        match fs::symlink_metadata(&path).unwrap().is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }
    for n in 0..100 {
        let dir = tree.root.join(format!("d{n:02}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), "alpha\n").unwrap();
        fs::write(dir.join("b"), "bravo\n").unwrap();
    }
    tree.rebuild();
    let built = tree.snapshot();
    std::thread::sleep(TICK);
    (tree, built)
}

fn run(source: &Arc<CatalogSource>, max_results: usize, threads: usize) -> (Run, Vec<PathBuf>) {
    let options = RunOptions {
        limits: Limits {
            max_results,
            max_files: u64::MAX,
            report: Report::Lines,
        },
        threads,
        deadline: Deadline::after(Duration::MAX, Arc::new(SystemClock)),
        cancel: CancelHandle::new(),
        abandoned: AbandonedWorkers::default(),
    };
    let query = Query::new(&["alpha".to_string()], &QueryOptions::default()).unwrap();
    let engine = Embedded::default().prepare(Arc::new(query)).unwrap();
    let mut paths = Vec::new();
    let mut take = |found: Found| {
        match found {
            Found::File(file) => paths.push(file.path),
            other => panic!("{other:?}"),
        }
        ControlFlow::Continue(())
    };
    let run = schedule::run(Seen(source.clone()), engine, &options, &mut take).unwrap();
    (run, paths)
}

#[test]
fn a_search_that_ends_early_compares_only_the_directories_of_its_files() {
    let (tree, built) = hundred();
    let part = part(&tree, Path::new(""), true);
    let make = || {
        let mut now = current(&tree, &built, &part);
        now.instead = Some(Box::new(|_| panic!("nothing differs")));
        let made = source(&built, part.clone(), Globs::none(), "alpha", now);
        Arc::new(made.in_units_of(4, 16))
    };
    let same = |source: &CatalogSource| source.comparison.as_ref().unwrap().same_dirs();
    let source = make();
    let (few, paths) = run(&source, 3, 1);
    assert_eq!((few.totals.results, few.cuts.max_results), (3, true));
    assert_eq!(paths, ["d00/a", "d01/a", "d02/a"].map(PathBuf::from));
    assert!(same(&source) < 20, "{} of 101", same(&source));
    // A search to the end compares all directories.
    let source = make();
    let (all, _) = run(&source, 1000, 2);
    assert_eq!((all.totals.results, all.totals.files_excluded), (100, 100));
    assert_eq!(same(&source), 101);
}

#[test]
fn files_saved_by_renaming_are_searched_without_catching_up() {
    let (tree, built) = hundred();
    for n in (0..100).step_by(3) {
        let dir = tree.root.join(format!("d{n:02}"));
        fs::write(dir.join("b.tmp"), "alpha\n").unwrap();
        fs::rename(dir.join("b.tmp"), dir.join("b")).unwrap();
    }
    let part = part(&tree, Path::new(""), true);
    let mut now = current(&tree, &built, &part);
    now.instead = Some(Box::new(|_| panic!("no name differs")));
    let made = source(&built, part, Globs::none(), "alpha", now);
    let source = Arc::new(made.in_units_of(4, 16));
    let (all, _) = run(&source, 1000, 2);
    assert_eq!((all.totals.results, all.totals.files_excluded), (134, 66));
}

#[test]
fn what_was_handed_out_before_a_source_failed_is_the_first_part_of_the_answer() {
    let (tree, built) = hundred();
    fs::write(tree.root.join("d60/new"), "alpha\n").unwrap();
    let part = part(&tree, Path::new(""), true);
    for threads in [1, 2, 4] {
        for _ in 0..20 {
            let refusing = |stale: Stale| {
                let instead: Instead = Box::new(move |_| CaughtUp::Unknown(stale.clone()));
                Tree {
                    instead: Some(instead),
                    ..current(&tree, &built, &part)
                }
            };
            let too_much = refusing(Stale::Dir(PathBuf::from("d60")));
            let made = source(&built, part.clone(), Globs::none(), "alpha", too_much);
            let source = Arc::new(made.in_units_of(2, 6));
            let (partial, paths) = run(&source, 1000, threads);
            let expected: Vec<PathBuf> = (0..60).map(|n| format!("d{n:02}/a").into()).collect();
            assert!(expected.starts_with(&paths), "{paths:?}");
            assert_eq!(partial.totals.results, paths.len());
            assert!(
                partial.failure.is_none() && !partial.timed_out,
                "{partial:?}"
            );
            let refusal = source.refusal().unwrap();
            let d60 = Refusal::Stale(Stale::Dir(PathBuf::from("d60")));
            assert_eq!(refusal.get(), Some(&d60));
            // Limits that are reached earlier end the answer.
            let too_much = refusing(Stale::Unfinished);
            let made = self::source(&built, part.clone(), Globs::none(), "alpha", too_much);
            let (partial, paths) = run(&Arc::new(made.in_units_of(2, 6)), 50, 1);
            assert_eq!((paths.len(), partial.cuts.max_results), (50, true));
        }
    }
}

#[test]
fn a_source_that_is_stopped_while_it_catches_up_has_not_failed() {
    let (tree, built) = hundred();
    fs::write(tree.root.join("d00/new"), "alpha\n").unwrap();
    let stop = Stop::new();
    let raised = stop.clone();
    let part = part(&tree, Path::new(""), true);
    let mut now = current(&tree, &built, &part);
    now.instead = Some(Box::new(move |go_on| {
        assert!(go_on());
        raised.raise(StopReason::Satisfied);
        assert!(!go_on());
        CaughtUp::Unknown(Stale::Unfinished)
    }));
    let source = source(&built, part, Globs::none(), "alpha", now);
    for item in source.start() {
        let Item::Unit(unit) = item else {
            panic!("{item:?}");
        };
        assert!(source.expand(unit, &stop).is_empty());
    }
    assert!(!source.has_failed());
}

#[test]
fn comparing_ends_with_the_time_for_it() {
    let (tree, built) = hundred();
    let part = part(&tree, Path::new(""), true);
    let now = Box::new(current(&tree, &built, &part));
    let (plan, globs) = (plan("alpha"), Globs::none());
    let allowance = Arc::new(Allowance::new(Duration::ZERO, Arc::new(SystemClock)));
    let made = CatalogSource::comparing_along(built, part, globs, &plan, allowance, now).unwrap();
    let source = Arc::new(made.unwrap());
    let (_, paths) = run(&source, 1000, 1);
    assert!(paths.is_empty());
    let refusal = source.refusal().unwrap();
    assert_eq!(refusal.get(), Some(&Refusal::Stale(Stale::Unfinished)));
}
