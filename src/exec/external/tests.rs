use std::fs;
use std::path::PathBuf;

use super::*;
use crate::exec::external::detect::Detected;
use crate::exec::process::tests::write_script;
use crate::exec::question::query::{Case, QueryOptions};
use crate::index::root_dir::RootDir;
use crate::index::walk::{FoundFile, Place};

fn query(pattern: &str) -> Arc<Query> {
    let options = QueryOptions {
        case: Case::Sensitive,
        max_results: 10,
        max_matches_per_file: 10,
        max_file_size: 1 << 20,
        ..QueryOptions::default()
    };
    Arc::new(Query::new(&[pattern], &options).unwrap())
}

/// A tree of files with long names, and a worker that runs a script instead of ripgrep.
fn set_up(files: usize, script: &str) -> (tempfile::TempDir, Vec<EligibleFile>, ExternalWorker) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let program = top.join("rg");
    write_script(&program, script);
    let place = Arc::new(Place {
        root: Arc::new(RootDir::open(&top).unwrap()),
        real: PathBuf::new(),
        logical: PathBuf::new(),
    });
    let files = (0..files)
        .map(|n| {
            let name = format!("{}{n:05}", "x".repeat(240));
            fs::write(top.join(&name), "foo\n").unwrap();
            let found = FoundFile {
                dir: place.clone(),
                name: name.into(),
                target: None,
            };
            found.into()
        })
        .collect();
    let query = query("foo");
    let matcher = LineMatcher::new(&query.pattern).unwrap();
    let stop = Stop::new();
    let worker = ExternalWorker {
        external: Arc::new(External {
            tool: Tool::Ripgrep,
            version: Tool::Ripgrep.oldest(),
            program,
            flags: Some(vec!["--".into()]),
            format: Format::Noted,
            lines_per_file: 26,
        }),
        searcher: FileSearcher::new(query.clone(), &matcher, stop.clone()),
        query,
        stop,
        arguments_limit: ARGUMENTS_LIMIT,
    };
    (dir, files, worker)
}

#[test]
fn a_list_that_the_system_refuses_is_cut_until_it_fits() {
    // One line for each run: the number of its arguments.
    let script = "echo $# >> \"${0%/*}/runs\"; exit 1";
    let (dir, files, mut worker) = set_up(10_000, script);
    // Far more than any system takes by default.
    worker.arguments_limit = 64 << 20;
    let mut count = 0;
    worker
        .search(&files, &mut |n, outcome| {
            assert_eq!((n, outcome), (count, FileOutcome::nothing()));
            count += 1;
        })
        .unwrap();
    assert_eq!(count, files.len());
    assert!(worker.arguments_limit < 64 << 20);
    let runs = fs::read_to_string(dir.path().join("runs")).unwrap();
    // Each run gets "--" in addition to the files.
    let given: Vec<usize> = runs.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(given.iter().sum::<usize>(), files.len() + given.len());
    assert!(given.len() > 1);
}

#[test]
fn argument_lists_stay_below_the_limit() {
    let (_dir, files, mut worker) = set_up(300, "exit 1");
    worker.arguments_limit = 10_000;
    let mut from = 0;
    while from < files.len() {
        let chunk = worker.chunk(&files[from..]);
        let bytes: usize = chunk
            .asked
            .iter()
            .map(|(_, path)| path.len() + PER_ARGUMENT)
            .sum();
        assert!(!chunk.plans.is_empty() && bytes <= 10_000, "{bytes}");
        from += chunk.plans.len();
    }
    // A limit that is too small for even one file does not stop the search.
    worker.arguments_limit = 1;
    assert_eq!(worker.chunk(&files).plans.len(), 1);
}

#[test]
fn a_program_is_asked_about_so_many_bytes_of_files_at_once() {
    let (dir, files, worker) = set_up(5, "exit 1");
    for (n, len) in [(0, 40u64), (1, 24), (2, 1), (3, 200), (4, 1)] {
        let path = dir.path().join(&files[n].found.name);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(len << 20).unwrap();
    }
    let options = QueryOptions {
        max_file_size: u64::MAX,
        ..**worker.query
    };
    let query = Query::new(&[worker.query.pattern.original()], &options).unwrap();
    let worker = ExternalWorker {
        query: Arc::new(query),
        ..worker
    };
    let mut counts = Vec::new();
    while counts.iter().sum::<usize>() < files.len() {
        let from = counts.iter().sum();
        counts.push(worker.chunk(&files[from..]).plans.len());
    }
    assert_eq!(counts, [2, 1, 1, 1]);
}

#[test]
fn a_raised_flag_starts_no_program() {
    let (dir, files, mut worker) = set_up(3, "echo >> \"${0%/*}/runs\"");
    worker.stop.raise(StopReason::Cancelled);
    worker
        .search(&files, &mut |_, _| panic!("no outcome is wanted"))
        .unwrap();
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn only_complete_messages_count_and_names_are_none() {
    let names: Vec<OsString> = vec!["/a\nugrep: error: b".into(), "/c".into()];
    assert_eq!(
        whole_messages("x: /a\nugrep: error: b: gone\ny: /c\nz", true, &names),
        "x: ?: gone\ny: /c"
    );
    assert_eq!(whole_messages("x\ny", false, &names), "x\ny");
    assert_eq!(whole_messages("", true, &names), "");
}

#[test]
fn capabilities_follow_from_versions() {
    use crate::exec::engine::Engine;
    let detected = |tool: Tool| Detected {
        tool,
        path: PathBuf::from("/x"),
        version: Version::new(13, 0, 1),
    };
    let rg = crate::exec::external::ripgrep::Ripgrep::new(detected(Tool::Ripgrep));
    let ugrep = crate::exec::external::ugrep::Ugrep::new(detected(Tool::Ugrep));
    assert_eq!(rg.id().to_string(), "rg@13.0.1");
    assert_eq!(ugrep.id().to_string(), "ugrep@13.0.1");
    assert!(rg.takes_file_lists() && ugrep.takes_file_lists());
}
