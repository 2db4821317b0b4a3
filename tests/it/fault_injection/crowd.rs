//! Eight writers and eight readers of one index: as threads with their own stores, and as
//! processes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forge_search::internal::format::error::FormatErrorKind;
use forge_search::internal::format::storage::Privacy;
use forge_search::internal::index::builder::BuildError;
use forge_search::internal::index::store::Store;

use super::disks::Overtaken;
use super::edition::{Edition, check_tidy, key, load, store};
use super::times;
use crate::child_processes::{self, Started};
use crate::clocks::until;
use crate::support::SetAtEnd;

/// The environment variable that gives a child the path of its store.
const STORE: &str = "FORGE_SEARCH_TEST_CROWD";

/// The environment variable that gives a child its role.
const ROLE: &str = "FORGE_SEARCH_TEST_CROWD_ROLE";

/// How long a writer waits for the lock.
const TIMEOUT: Duration = Duration::from_millis(250);

fn patient(root: &Path) -> Store {
    Store::open(root.to_path_buf(), Privacy::Required, TIMEOUT).unwrap()
}

fn editions() -> Vec<Edition> {
    (1..=6).map(Edition::new).collect()
}

/// The number of actions, and the number of times that they met something: a writer another
/// writer's lock, a reader a new number.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    met: AtomicU64,
}

impl Counts {
    fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    fn met(&self) -> u64 {
        self.met.load(Ordering::SeqCst)
    }
}

/// Publishes one edition after another. Counts the publications, and the failures because another
/// writer held the lock.
fn write(root: &Path, seed: usize, counts: &Counts, done: &dyn Fn() -> bool) {
    let (editions, store) = (editions(), patient(root));
    let mut next = seed;
    while !done() {
        next += 1;
        match editions[next % editions.len()].publish(&store, &key(1)) {
            Ok(_) => {
                counts.done.fetch_add(1, Ordering::SeqCst);
            }
            Err(BuildError::Format(error)) => {
                let FormatErrorKind::Locked { waited } = error.kind() else {
                    panic!("{error}");
                };
                assert!(*waited >= TIMEOUT, "{waited:?}");
                counts.met.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Loads the index repeatedly and reads its number. Counts the loads. Also records the most numbers
/// that one reader has seen.
fn read(root: &Path, mapped: bool, counts: &Counts, done: &dyn Fn() -> bool) {
    let editions = editions();
    let store = patient(root).mapped(mapped);
    let (mut numbers, mut last) = (0, 0);
    while !done() {
        let found = load(&store, &key(1)).unwrap_or_else(|error| panic!("{error}"));
        let found = found.expect("there is one from the start");
        let known = editions.iter().any(|edition| edition.answer == found);
        assert!(known, "a state that nobody published: {found}");
        counts.done.fetch_add(1, Ordering::SeqCst);
        let listed = store.look_at(&store.dir_of(&key(1)));
        let manifest = listed.manifest.unwrap_or_else(|error| panic!("{error}"));
        let number = manifest.state.sequence;
        assert!(number >= last, "{number} after {last}");
        numbers += u64::from(number > last);
        last = number;
        counts.met.fetch_max(numbers, Ordering::SeqCst);
    }
}

#[test]
fn readers_in_a_crowd_of_writers_see_whole_states_in_order() {
    if let Some(root) = std::env::var_os(STORE) {
        let root = PathBuf::from(root);
        child_processes::say_ready();
        let role = std::env::var(ROLE).unwrap();
        let end = root.with_file_name("end");
        let done = || end.exists();
        let counts = Counts::default();
        match role.as_str() {
            "writer" => write(&root, 3, &counts, &done),
            _ => read(&root, true, &counts, &done),
        }
        let said = end.with_file_name(format!("{role}-{}", std::process::id()));
        std::fs::write(said, counts.done().to_string()).unwrap();
        return;
    }
    let wanted = 50 * times();
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("store");
    Edition::new(1).publish(&patient(&root), &key(1)).unwrap();
    let over = AtomicBool::new(false);
    let done = || over.load(Ordering::Relaxed);
    let (writers, readers) = (Counts::default(), Counts::default());
    let test = "fault_injection::crowd::readers_in_a_crowd_of_writers_see_whole_states_in_order";
    std::thread::scope(|scope| {
        let _even_after_a_panic = SetAtEnd(&over);
        let children = ["writer", "writer", "reader", "reader"].map(|role| {
            let environment = [(STORE, root.as_os_str()), (ROLE, role.as_ref())];
            Started::new(test, &environment)
        });
        for n in 0..6 {
            let (root, done) = (&root, &done);
            let (writers, readers) = (&writers, &readers);
            scope.spawn(move || write(root, n, writers, done));
            scope.spawn(move || read(root, n % 2 == 0, readers, done));
        }
        until("enough was written and read", || {
            writers.done() >= wanted && readers.done() >= 2 * wanted && readers.met() >= wanted / 5
        });
        over.store(true, Ordering::Relaxed);
        std::fs::write(place.path().join("end"), "").unwrap();
        for child in children {
            child.finish();
        }
    });
    let said = |role: &str| -> u64 {
        let names = super::edition::names(place.path()).into_iter();
        let of_role = names.filter(|name| name.starts_with(role));
        let numbers = of_role.map(|name| std::fs::read_to_string(place.path().join(name)).unwrap());
        numbers.map(|text| text.parse::<u64>().unwrap()).sum()
    };
    let published = writers.done() + said("writer");
    let loads = readers.done() + said("reader");
    let (locked, numbers) = (writers.met(), readers.met());
    println!(
        "{published} publications, {locked} times the lock was not to be had; {loads} loads, up to \
         {numbers} different publications seen by one reader"
    );
    let plain = store(&root, None);
    let dir = plain.dir_of(&key(1));
    // Each publication took its own number, and none of them was lost.
    let last = plain.look_at(&dir).manifest.unwrap().state.sequence;
    assert_eq!(last, published + 1);
    Edition::new(2).publish(&plain, &key(1)).unwrap();
    check_tidy(&dir, "after the crowd");
}

#[test]
fn a_reader_that_is_overtaken_again_and_again_gets_the_last_state() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("store");
    let writer = store(&root, None);
    let editions = Arc::new(editions());
    editions[0].publish(&writer, &key(1)).unwrap();
    for times in 0..editions.len() {
        let next = AtomicU64::new(0);
        let publishing = (editions.clone(), writer.clone());
        // Replaces the index each time a reader has chosen a segment and is about to open it.
        let disk = Overtaken(move |path: &Path| {
            let (editions, writer) = &publishing;
            let n = next.load(Ordering::Relaxed) as usize;
            if n < times && path.extension().is_some_and(|end| end == "seg") {
                next.fetch_add(1, Ordering::Relaxed);
                editions[n].publish(writer, &key(1)).unwrap();
            }
        });
        let reader = store(&root, Some(Arc::new(disk)));
        let expected = match times {
            0 => load(&writer, &key(1)).unwrap().unwrap(),
            _ => editions[times - 1].answer.clone(),
        };
        let found = load(&reader, &key(1)).unwrap_or_else(|error| panic!("{times}: {error}"));
        assert_eq!(found.unwrap(), expected, "{times}");
    }
}
