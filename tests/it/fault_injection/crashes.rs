//! Losses of power at every single operation of publishing, evicting and removing. Afterwards, each
//! index is in the state before or in the state after.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use forge_search::internal::index::store::{Limits, Store};

use super::disks::{Forgotten, Image, Recording, image_of};
use super::edition::{Edition, key, store};
use super::power::{History, KEYS, Life, State, check, found, hash, lose_power, restore};
use super::times;
use crate::differential::Seeded;

const ONE: Limits = Limits {
    bytes: u64::MAX,
    indexes: 1,
    ..Limits::NONE
};

/// A life of two indexes, which are built, replaced, evicted and removed. Each seed gives another
/// order.
#[derive(Debug)]
struct Plain;

impl Life for Plain {
    const IMAGES: usize = 250;

    fn live(base: &Path, seed: u64, forgotten: Forgotten) -> (Plain, History) {
        (Plain, life(base, seed, forgotten))
    }

    fn look(&mut self, _: &Store, _: &State) -> Result<(), String> {
        Ok(())
    }
}

fn life(base: &Path, seed: u64, forgotten: Forgotten) -> History {
    let disk = Recording::new(forgotten);
    let store = store(&base.join("cache/store"), Some(Arc::new(disk.clone())));
    let mut history = History::new(base, Image::new(), [None, None]);
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

/// Does one action on the store. Returns the state that it leads to.
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
            // Removing fails if there is no index.
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

#[test]
fn a_loss_of_power_at_any_operation_leaves_the_old_index_or_the_new_one() {
    let wanted = 500 * times() as usize;
    let (tally, _) = lose_power::<Plain>(Forgotten::Nothing, wanted)
        .unwrap_or_else(|problem| panic!("{problem}"));
    println!("{wanted} different images: {tally:?}");
    assert_eq!(tally.images, wanted);
    assert!(
        tally.old > wanted / 10 && tally.new > wanted / 50,
        "{tally:?}"
    );
}

/// Proves a premise of the test above: each kind of missing sync is detected.
#[test]
fn a_forgotten_sync_shows_after_a_loss_of_power() {
    for forgotten in [Forgotten::Sync, Forgotten::SyncDir] {
        let problem = lose_power::<Plain>(forgotten, 2_500).unwrap_err();
        let shown: String = problem.chars().take(500).collect();
        println!("{forgotten:?}: {shown}");
    }
}

#[test]
fn a_second_loss_of_power_while_the_first_one_is_cleared_up_changes_nothing() {
    const IMAGES_OF_EACH: usize = 8;

    let wanted = 150 * times() as usize;
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
        let mut again = History::new(&first, image, before);
        again.ops = disk.ops();
        again.reached.push((again.ops.len(), after));
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
