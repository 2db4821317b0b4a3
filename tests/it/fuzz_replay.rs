//! Runs the bodies of the fuzz targets over their committed inputs: the seeds, and all inputs that
//! once made a target fail.

#[path = "../../fuzz/support/assembled.rs"]
pub(crate) mod assembled;
#[path = "../../fuzz/harness/container.rs"]
mod container;
#[cfg(unix)]
#[path = "../../fuzz/harness/daemon.rs"]
mod daemon;
#[path = "../../fuzz/harness/fuzzy.rs"]
mod fuzzy;
#[cfg(unix)]
#[path = "../../fuzz/harness/lease.rs"]
mod lease;
#[cfg(unix)]
#[path = "../../fuzz/harness/mail.rs"]
mod mail;
#[path = "../../fuzz/harness/manifest.rs"]
mod manifest;
#[path = "../../fuzz/harness/plan.rs"]
pub(crate) mod plan;
#[path = "../../fuzz/harness/request.rs"]
mod request;
#[path = "../../fuzz/harness/segment.rs"]
mod segment;
#[path = "../../fuzz/harness/sort_key.rs"]
mod sort_key;
#[path = "../../fuzz/harness/tokenizer.rs"]
mod tokenizer;

use std::collections::BTreeSet;
use std::path::Path;

use crate::project_files::root;

/// The body of a fuzz target, which gets the input.
type Body = fn(&[u8]);

/// Every fuzz target by name, with its body.
const TARGETS: &[(&str, Body)] = &[
    ("container", container::run),
    #[cfg(unix)]
    ("daemon", daemon::run),
    ("fuzzy", fuzzy::run),
    #[cfg(unix)]
    ("lease", lease::run),
    #[cfg(unix)]
    ("mail", mail::run),
    ("manifest", manifest::run),
    ("plan", plan::run),
    ("request", request::run),
    ("segment", |data| segment::run(data, uncounted)),
    ("sort_key", sort_key::run),
    ("tokenizer", tokenizer::run),
];

/// Runs `work` without counting its memory, because other tests run at the same time.
fn uncounted(work: &mut dyn FnMut()) -> Option<u64> {
    work();
    None
}

#[test]
fn seeds_pass() {
    for (target, run) in TARGETS {
        let replayed = replay(&root().join("fuzz/seeds").join(target), *run);
        assert!(replayed > 0, "fuzz/seeds/{target} has no seeds");
    }
}

#[test]
fn former_crashes_pass() {
    for (target, run) in TARGETS {
        let crashes = root().join("fuzz/crashes").join(target);
        if crashes.exists() {
            let replayed = replay(&crashes, *run);
            assert!(replayed > 0, "fuzz/crashes/{target} is there but empty");
        }
    }
}

#[cfg(unix)]
#[test]
fn every_target_is_replayed() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known, stems("fuzz/fuzz_targets"));
    assert_eq!(known, stems("fuzz/harness"));
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap();
    let bins = manifest["bin"].as_array().unwrap();
    let built: BTreeSet<String> = bins
        .iter()
        .map(|bin| bin["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(known, built);
    for directory in ["fuzz/seeds", "fuzz/crashes"] {
        if root().join(directory).exists() {
            let unknown: Vec<String> = stems(directory).difference(&known).cloned().collect();
            assert!(
                unknown.is_empty(),
                "{directory} has inputs of no target: {unknown:?}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "a claim that does not hold")]
fn a_failing_input_fails_the_replay() {
    replay(&root().join("fuzz/seeds/sort_key"), |_| {
        panic!("a claim that does not hold")
    });
}

/// Runs `run` over every file of a directory; returns the number of files.
fn replay(directory: &Path, run: Body) -> usize {
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in &paths {
        // Shown only if the test fails. The last name is that of the failing input.
        println!("{}", path.display());
        run(&std::fs::read(path).unwrap());
    }
    paths.len()
}

/// Returns the file names of a directory, without extensions.
fn stems(directory: &str) -> BTreeSet<String> {
    std::fs::read_dir(root().join(directory))
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}
