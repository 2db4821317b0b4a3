//! How much an index excludes: it rarely keeps files without need.
//!
//! `FORGE_SEARCH_TREE` names another tree to measure, as in the tests of exclusion.

use forge_search::internal::exec::question::query::Case;
use forge_search::internal::index::gram::{Gram, NGRAM_CHARS};

use crate::differential::Seeded;
use crate::index_exclusion::{World, drawn, mutated};

/// The shortest literals that are measured, in characters.
const SHORTEST: usize = 8;

/// The results for a number of literals.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    literals: u64,
    /// Pairs of a literal and a file that may be excluded.
    pairs: u64,
    /// Pairs in which the file is kept.
    kept: u64,
    /// Kept pairs in which the file lacks an n-gram of the literal.
    needlessly: u64,
}

/// Returns true if a text contains every n-gram of a literal.
fn holds_all(text: &[u8], literal: &str, fold: bool) -> bool {
    let chars: Vec<char> = literal.chars().collect();
    let folded;
    let text = match fold {
        true => {
            folded = text.to_ascii_lowercase();
            &folded[..]
        }
        false => text,
    };
    Gram::all_in(&chars).all(|gram| {
        let mut gram: String = gram.chars().iter().collect();
        if fold {
            gram.make_ascii_lowercase();
        }
        memchr::memmem::find(text, gram.as_bytes()).is_some()
    })
}

/// Measures the files that are kept for one literal.
fn measure(world: &World, literal: &str, fold: bool) -> Kept {
    let case = match fold {
        true => Case::Insensitive,
        false => Case::Sensitive,
    };
    let mut kept = Kept::default();
    let Some(candidates) = world.candidates(literal, case) else {
        return kept;
    };
    kept.literals = 1;
    for rank in 0..world.contents.len() as u32 {
        if !world.snapshot.segment().file(rank).unwrap().excludable {
            continue;
        }
        kept.pairs += 1;
        if candidates.contains(rank) {
            kept.kept += 1;
            let text = &world.contents[rank as usize];
            kept.needlessly += u64::from(!holds_all(text, literal, fold));
        }
    }
    kept
}

#[test]
fn few_files_are_kept_without_need() {
    let world = World::real();
    let mut rng = Seeded::new(3);
    let mut all = Kept::default();
    let mut worst = Vec::new();
    while all.literals < 400 {
        let length = SHORTEST + rng.below(12);
        let Some(mut literal) = drawn(&mut rng, &world.contents, length) else {
            continue;
        };
        if rng.one_in(2) {
            literal = mutated(&mut rng, &literal);
        }
        // The text around U+FFFD is deliberately not used, since that character also stands for
        // invalid bytes.
        let cut = ['\r', '\0', char::REPLACEMENT_CHARACTER];
        if literal.chars().count() < SHORTEST || literal.contains(cut) {
            continue;
        }
        let fold = rng.one_in(2);
        let one = measure(&world, &literal, fold);
        worst.push((one.needlessly, literal, fold));
        all.literals += one.literals;
        all.pairs += one.pairs;
        all.kept += one.kept;
        all.needlessly += one.needlessly;
    }
    worst.sort();
    let share = 100.0 * all.needlessly as f64 / all.pairs as f64;
    println!("{all:?}: {share:.4} % of the files are kept without need");
    println!("most for {:?}", &worst[worst.len() - 5..]);
    assert_eq!(NGRAM_CHARS, 3);
    // At most one in a thousand. The usual tree has fewer files than blocks are designed for, so
    // the bound is higher.
    let most = match std::env::var_os("FORGE_SEARCH_TREE") {
        Some(_) => 0.1,
        None => 0.3,
    };
    assert!(share < most, "{all:?}");
}
