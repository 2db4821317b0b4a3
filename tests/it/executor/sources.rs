//! Searches each kind of source with real workers (EXEC §5, §6, §7), and compares with golden
//! files.

use forge_search::internal::tool::executor::source;
use proptest::prelude::*;

use super::*;
use crate::support::SetAtEnd;

/// Compares a result byte for byte with a file that was written by hand.
#[track_caller]
fn golden(name: &str, execution: &Execution) {
    assert_eq!(execution.failure, None, "{execution:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/executor")
        .join(name);
    let expected = fs::read_to_string(&path).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&execution.body),
        expected.trim_end(),
        "{name}"
    );
}

const FILES: [&str; 9] = [
    "b/report.txt",
    "a/report-2.txt",
    "report",
    "Report",
    "z/é-report",
    "z/\u{10000}report",
    "z/\u{ffff}report",
    "a.report/plain",
    "a-report/x/report.md",
];

fn files(order: &[usize]) -> World {
    let mut world = World::new();
    for at in order {
        world.write(&format!("tree/{}", FILES[*at]), "report");
    }
    std::os::unix::fs::symlink(world.path("tree/report"), world.path("tree/report-link")).unwrap();
    std::os::unix::fs::symlink(world.path("tree/b"), world.path("tree/report-dir")).unwrap();
    fs::create_dir(world.path("tree/report-empty")).unwrap();
    world.scope("docs", ScopeKind::Files, "tree");
    world
}

#[test]
fn files_are_found_by_name_in_code_point_order_and_links_are_not() {
    let world = files(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let execution = world.run(&world.real(), "t", "SEARCH_FILES", "docs", "report");
    golden("files.json", &execution);
    assert!(execution.peak_kib.unwrap() * 1024 < 256_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn task_answers_do_not_depend_on_order_of_directories_locale_zone_and_threads(
        order in Just((0..FILES.len()).collect::<Vec<_>>()).prop_shuffle(),
        locale in prop::sample::select(vec!["C", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.eucJP"]),
        zone in prop::sample::select(vec!["UTC", "Asia/Kathmandu", "America/St_Johns", "nonsense"]),
        threads in 1..5_u32,
    ) {
        let world = files(&order);
        let lease = world.write("lease", world.lease_for_ever("t", "SEARCH_FILES", "docs"));
        let manifest = world.write("manifest", manifest("t", "SEARCH_FILES", "docs", "report", 10));
        let config = world.write_config();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_forge-search"))
            .args(["execute", "--config"]).arg(config).arg("--lease-file").arg(lease).arg(manifest)
            .env("LC_ALL", locale).env("LANG", locale).env("TZ", zone)
            .env("RAYON_NUM_THREADS", threads.to_string())
            .output().unwrap();
        let expected = include_str!("../../data/executor/files.json");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        prop_assert_eq!(told.trim_end(), expected.trim_end());
    }
}

const RECORDS: &str = "id,name,note\n\
    10,Änne,\"a, needle\"\n\
    9,needle,\n\
    2.5,Bob,\"needle\nin two lines\"\n\
    ,needle,without a key\n\
    b,needle,text key\n\
    a,Needle,NEEDLE\n\
    10,needle,the same key again\n";

#[test]
fn values_of_rows_are_searched_by_columns_in_the_order_of_keys() {
    let mut world = World::new();
    world.write("people.csv", RECORDS);
    world.scope("people", ScopeKind::Csv, "people.csv");
    let execution = world.run(&world.real(), "t", "SEARCH_DATASETS", "people", "needle");
    golden("csv.json", &execution);
    assert_eq!(execution.passed_over, 1);
}

#[test]
fn json_objects_are_searched_by_all_their_texts() {
    let mut world = World::new();
    world.write(
        "people.jsonl",
        concat!(
            "\u{feff}{\"id\": 10, \"name\": \"needle\", \"tags\": [\"x\", {\"deep\": \"a needle\"}], \"n\": 5}\n",
            "\n",
            "{\"id\": \"b\", \"odd key\": \"needle\", \"id2\": null, \"needle\": 1}\r\n",
            "{\"id\": 9.5, \"z\": \"needle\", \"a\": \"needle\"}\n",
            "{\"name\": \"needle\"}\n",
            "{\"id\": \"needle\"}",
        ),
    );
    world.scope("people", ScopeKind::Jsonl, "people.jsonl");
    let execution = world.run(&world.real(), "t", "SEARCH_DATASETS", "people", "needle");
    golden("jsonl.json", &execution);
    assert_eq!(execution.passed_over, 1);
}

#[test]
fn quoted_fields_are_read() {
    let mut world = World::new();
    world.write(
        "q.csv",
        "\u{feff}\"id\",\"a \"\"b\"\"\"\r\n1,\"a, \"\"needle\"\"\"\r\n2,\"\"\r\n3,\"\"\"needle\r\n\"\n\n4,needle",
    );
    world.scope("q", ScopeKind::Csv, "q.csv");
    let value = ok(&world.run(&world.real(), "t", "SEARCH_DATASETS", "q", "needle"));
    let found = results(&value);
    let found: Vec<_> = found.iter().map(|(a, b, c)| [&a[..], b, c]).collect();
    assert_eq!(
        found,
        [
            ["1", "a \"b\"", "a, \"needle\""],
            ["3", "a \"b\"", "\"needle\\r\\n"],
            ["4", "a \"b\"", "needle"],
        ]
    );
}

#[test]
fn numbers_beyond_machine_numbers_are_in_their_place_and_no_texts() {
    let mut world = World::new();
    let keys = [
        "-1e309",
        "-1",
        "0",
        "1e-999999999",
        "0.10000000000000000000000001",
        "0.10000000000000000000000002",
        "1234567890123456789012345678901234567890",
        "1234567890123456789012345678901234567891",
        "1e309",
        "1e999999999",
    ];
    let lines: String = keys
        .iter()
        .rev()
        .map(|key| format!("{{\"id\": {key}, \"a\": \"needle 1 e\"}}\n"))
        .collect();
    world.write("n.jsonl", lines);
    world.scope("n", ScopeKind::Jsonl, "n.jsonl");
    let mut rows = keys.to_vec();
    rows.insert(4, "-.5e-2");
    rows.swap(2, 4);
    rows.push(".5");
    let lines: String = rows.iter().map(|key| format!("{key},needle\n")).collect();
    world.write("n.csv", format!("id,a\n{lines}"));
    world.scope("c", ScopeKind::Csv, "n.csv");
    let executor = world.real();
    let run = |task: &str, scope: &str, query: &str| {
        let manifest = manifest(task, "SEARCH_DATASETS", scope, query, 20);
        ok(&executor.execute(&manifest, &world.lease(task, "SEARCH_DATASETS", scope)))
    };
    for (task, query) in [("1", "needle"), ("2", "e"), ("3", "1")] {
        let value = run(task, "n", query);
        assert_eq!(ids(&value), keys);
        assert!(results(&value).iter().all(|(_, field, _)| field == "a"));
    }
    let mut expected = keys.to_vec();
    expected.insert(2, "-.5e-2");
    expected.insert(7, ".5");
    assert_eq!(ids(&run("4", "c", "needle")), expected);
}

/// Searches a source, runs `disturb` after the first record, and returns the outcome.
fn disturbed(world: &World, scope: &str, disturb: impl FnOnce()) -> Result<u64, Reason> {
    let mut source = source::open(&world.config.scopes[scope]).unwrap();
    let mut disturb = Some(disturb);
    source.scan(&mut |_| {
        if let Some(disturb) = disturb.take() {
            disturb();
        }
    })
}

#[test]
fn files_that_are_moved_while_they_are_searched_are_reported() {
    let mut world = World::new();
    for dir in ["a", "b", "b/c", "d"] {
        for nth in 0..3 {
            world.write(&format!("tree/{dir}/needle-{nth}"), "x");
        }
    }
    world.scope("docs", ScopeKind::Files, "tree");
    let moved = |from: &str, to: &str| {
        let (from, to) = (world.path(from), world.path(to));
        let there = disturbed(&world, "docs", || fs::rename(&from, &to).unwrap());
        // Then the file moves back, while no search runs.
        fs::rename(to, from).unwrap();
        there
    };
    let changed = Err(Reason::SourceChanged);
    // The targets are before and after the place of the search, so some were listed already and
    // some not.
    assert_eq!(moved("tree/a/needle-0", "tree/d/moved"), changed);
    assert_eq!(moved("tree/d/needle-0", "tree/a/moved"), changed);
    assert_eq!(moved("tree/b/c/needle-0", "tree/moved"), changed);
    // Some of these directories are known at that time, but not listed yet.
    assert_eq!(moved("tree/a", "tree/d/a"), changed);
    assert_eq!(moved("tree/d", "tree/b/d"), changed);
    assert_eq!(moved("tree/b", "elsewhere"), changed);
    for dir in ["tree/a", "tree/d"] {
        let gone = disturbed(&world, "docs", || {
            fs::remove_dir_all(world.path(dir)).unwrap()
        });
        assert_eq!(gone, changed);
    }
    // Changes of a file's content, and changes outside of the scope, are no change of names.
    let quiet = disturbed(&world, "docs", || {
        world.write("tree/b/needle-0", "more");
        world.write("other/needle", "x");
    });
    assert_eq!(quiet, Ok(0));
}

#[test]
fn mail_that_is_moved_while_it_is_searched_is_reported() {
    let mut world = World::new();
    let message = "Date: Thu, 1 Jan 2026 07:00:00 +0000\n\nx\n";
    for dir in ["new", "cur", ".Archive/cur"] {
        for nth in 0..3 {
            world.write(&format!("mail/{dir}/{nth}"), message);
        }
    }
    world.scope("mail", ScopeKind::Maildir, "mail");
    let moved = |from: &str, to: &str| {
        let (from, to) = (world.path(from), world.path(to));
        let there = disturbed(&world, "mail", || fs::rename(&from, &to).unwrap());
        fs::rename(to, from).unwrap();
        there
    };
    let changed = Err(Reason::SourceChanged);
    assert_eq!(moved("mail/new/0", "mail/.Archive/cur/9"), changed);
    assert_eq!(moved("mail/.Archive/cur/0", "mail/cur/9"), changed);
    assert_eq!(moved("mail/.Archive", "mail/.Other"), changed);
    assert_eq!(moved("mail/.Archive", "mail/new/.Archive"), changed);
    // The folder gets a subdirectory that it lacked.
    fs::create_dir_all(world.path("half/cur")).unwrap();
    world.write("half/.Archive/cur/0", message);
    world.scope("half", ScopeKind::Maildir, "half");
    let made = disturbed(&world, "half", || {
        fs::create_dir(world.path("half/.Archive/new")).unwrap();
    });
    assert_eq!(made, changed);
    assert_eq!(disturbed(&world, "mail", || ()), Ok(0));
    // The directory disappears between opening and reading.
    let mut source = source::open(&world.config.scopes["mail"]).unwrap();
    fs::rename(world.path("mail/cur"), world.path("mail/other")).unwrap();
    assert_eq!(source.scan(&mut |_| ()), changed);
}

fn database(path: &Path, journal: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .pragma_update(None, "journal_mode", journal)
        .unwrap();
    connection
        .execute_batch(
            "CREATE TABLE records (id, name TEXT, data BLOB, \"odd \"\"column\" TEXT);
             INSERT INTO records VALUES (10, 'needle', x'6e6565646c65', NULL);
             INSERT INTO records VALUES (9, 'nothing', 'needle as text', NULL);
             INSERT INTO records VALUES ('b', NULL, NULL, 'a needle');
             INSERT INTO records VALUES (9.5, 'needle', 5, NULL);
             INSERT INTO records VALUES (NULL, 'needle', NULL, NULL);
             CREATE VIEW seen AS SELECT * FROM records;",
        )
        .unwrap();
    connection
}

#[test]
fn rows_of_a_table_without_a_key_get_keys_of_their_own() {
    let mut world = World::new();
    rusqlite::Connection::open(world.path("data.db"))
        .unwrap()
        .execute_batch(
            "CREATE TABLE plain (name TEXT);
             INSERT INTO plain (rowid, name) VALUES (7, 'needle'), (-2, 'a needle');
             CREATE TABLE without (name TEXT PRIMARY KEY) WITHOUT ROWID;
             CREATE TABLE named (rowid TEXT, name TEXT);
             INSERT INTO named VALUES ('own', 'needle');
             CREATE VIRTUAL TABLE words USING fts5 (name);",
        )
        .unwrap();
    for table in ["plain", "without", "named", "words"] {
        world.scope(table, ScopeKind::Sqlite, "data.db");
        let scope = world.config.scopes.get_mut(table).unwrap();
        scope.table = Some(table.to_string());
        scope.primary_key = Some("rowid".to_string());
    }
    let executor = world.real();
    let run = |table: &str| world.run(&executor, table, "SEARCH_DATASETS", table, "needle");
    assert_eq!(ids(&ok(&run("plain"))), ["-2", "7"]);
    assert_eq!(ids(&ok(&run("named"))), ["own"]);
    for table in ["without", "words"] {
        failed(&run(table), "EXECUTION_FAILED", "source_malformed");
    }
}

#[test]
fn an_exclusively_locked_database_is_unavailable() {
    let mut world = World::new();
    let path = world.path("data.db");
    database(&path, "delete").close().unwrap();
    world.scope("people", ScopeKind::Sqlite, "data.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let executor = world.real();
    let run = || world.run(&executor, "t", "SEARCH_DATASETS", "people", "needle");
    failed(&run(), "SCOPE_UNAVAILABLE", "scope_locked");
    other.execute_batch("COMMIT").unwrap();
    ok(&run());
}

/// The process that closes a database last removes its log, while another process may be opening
/// it.
#[test]
fn a_database_that_is_opened_and_closed_all_the_time_is_read() {
    let mut world = World::new();
    let path = world.path("data.db");
    database(&path, "wal").close().unwrap();
    world.scope("people", ScopeKind::Sqlite, "data.db");
    let executor = world.executor(Worker {
        patience: GUARD,
        ..worker()
    });
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let at_end = SetAtEnd(&over);
        let restless = scope.spawn(|| {
            let mut opened = 0;
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                let other = rusqlite::Connection::open(&path).unwrap();
                other
                    .execute("UPDATE records SET data = 1 WHERE id = 9", ())
                    .unwrap();
                opened += 1;
            }
            opened
        });
        let answers: Vec<_> = (0..25)
            .map(|nth| {
                let task = format!("t{nth}");
                world.run(&executor, &task, "SEARCH_DATASETS", "people", "a needle")
            })
            .collect();
        drop(at_end);
        assert!(restless.join().unwrap() > 25);
        for answer in &answers {
            assert_eq!(ids(&ok(answer)), ["b"]);
        }
    });
}

#[test]
fn tables_are_searched_as_they_are_whatever_journal_they_have() {
    for journal in ["delete", "wal"] {
        for open in [false, true] {
            let mut world = World::new();
            let path = world.path("data.db");
            let connection = database(&path, journal);
            world.scope("people", ScopeKind::Sqlite, "data.db");
            let held = match open {
                true => Some(connection),
                false => {
                    connection.close().unwrap();
                    None
                }
            };
            let before = fs::read(&path).unwrap();
            let mut listed: Vec<_> = list(world.dir.path());
            let execution = world.run(&world.real(), "t", "SEARCH_DATASETS", "people", "needle");
            golden("sqlite.json", &execution);
            assert_eq!(execution.passed_over, 1);
            // The search wrote nothing, and made no file next to the database.
            assert_eq!(fs::read(&path).unwrap(), before);
            listed.push("store".into());
            listed.sort();
            assert_eq!(list(world.dir.path()), listed, "{journal} {open}");
            drop(held);
        }
    }
}

fn list(dir: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn the_first_results_are_returned_and_all_are_counted() {
    let mut world = World::new();
    let lines: String = (0..5_000)
        .rev()
        .map(|n| format!("{n},needle {n}\n"))
        .collect();
    world.write("many.csv", format!("id,a\n{lines}"));
    world.scope("many", ScopeKind::Csv, "many.csv");
    let executor = world.real();
    for (max, truncated) in [(1, true), (999, true), (1_000, true)] {
        let task = format!("t{max}");
        let manifest = manifest(&task, "SEARCH_DATASETS", "many", "needle", max);
        let execution = executor.execute(&manifest, &world.lease(&task, "SEARCH_DATASETS", "many"));
        let value = ok(&execution);
        assert_eq!(value["count"], 5_000);
        assert_eq!(value["truncated"], truncated);
        let expected: Vec<String> = (0..max).map(|n| n.to_string()).collect();
        assert_eq!(ids(&value), expected);
    }
    let value = ok(&world.run(&executor, "one", "SEARCH_DATASETS", "many", "needle 77"));
    assert_eq!(
        (&value["count"], &value["truncated"]),
        (&json!(11), &json!(true))
    );
    let value = ok(&world.run(&executor, "none", "SEARCH_DATASETS", "many", "absent"));
    assert_eq!(value["results"], json!([]));
    assert_eq!(
        (&value["count"], &value["truncated"]),
        (&json!(0), &json!(false))
    );
}

#[test]
fn exactly_as_many_results_as_wanted_are_not_truncated() {
    let executor_for = |max: u32| {
        let mut world = World::new();
        world.scope("any", ScopeKind::Csv, "any.csv");
        world.write("any.csv", "");
        let executor = world.executor(in_memory);
        let manifest = manifest("t", "SEARCH_DATASETS", "any", "needle", max);
        ok(&executor.execute(&manifest, &world.lease("t", "SEARCH_DATASETS", "any")))
    };
    let exact = executor_for(3);
    assert_eq!(
        (&exact["count"], &exact["truncated"]),
        (&json!(3), &json!(false))
    );
    // Numbers sort before texts, nine before ten, and fields in their order.
    assert_eq!(
        results(&exact)
            .iter()
            .map(|(id, field, _)| format!("{id} {field}"))
            .collect::<Vec<_>>(),
        ["9 b", "10 a", "10 b"]
    );
    let fewer = executor_for(2);
    assert_eq!(
        (&fewer["count"], &fewer["truncated"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(ids(&fewer), ["9", "10"]);
}

#[test]
fn query_code_points_are_compared_as_they_are() {
    let mut world = World::new();
    world.write(
        "text.csv",
        "id,a\n1,caf\u{e9}\n2,cafe\u{301}\n3,CAF\u{c9}\n4,ﬀ\n",
    );
    world.scope("text", ScopeKind::Csv, "text.csv");
    let executor = world.real();
    for (task, query, expected) in [
        ("1", "caf\u{e9}", &["1"][..]),
        ("2", "cafe\u{301}", &["2"]),
        ("3", "\u{301}", &["2"]),
        ("4", "ff", &[]),
        ("5", "CAF", &["3"]),
    ] {
        let value = ok(&world.run(&executor, task, "SEARCH_DATASETS", "text", query));
        assert_eq!(ids(&value), expected, "{query}");
    }
}

#[test]
fn numbers_beyond_machine_numbers_are_keys_as_they_are_written() {
    let mut world = World::new();
    let keys = [
        "-0",
        "0.1000",
        "1e2",
        "123456789012345678901234567890",
        "123456789012345678901234567891",
    ];
    let lines: String = keys
        .iter()
        .rev()
        .map(|key| format!("{{\"id\": {key}, \"a\": \"needle\"}}\n"))
        .collect();
    world.write("n.jsonl", lines);
    world.scope("n", ScopeKind::Jsonl, "n.jsonl");
    let value = ok(&world.run(&world.real(), "t", "SEARCH_DATASETS", "n", "needle"));
    assert_eq!(ids(&value), keys);
}

#[test]
fn a_database_behind_a_link_is_read_with_its_journal() {
    let mut world = World::new();
    let held = database(&world.path("data.db"), "wal");
    std::os::unix::fs::symlink(world.path("data.db"), world.path("link.db")).unwrap();
    world.scope("people", ScopeKind::Sqlite, "link.db");
    golden(
        "sqlite.json",
        &world.run(&world.real(), "t", "SEARCH_DATASETS", "people", "needle"),
    );
    drop(held);
    // A scope on a FIFO fails. Reading it would block.
    let fifo = world.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    for (scope, kind) in [
        ("csv", ScopeKind::Csv),
        ("mbox", ScopeKind::Mbox),
        ("db", ScopeKind::Sqlite),
    ] {
        world.scope(scope, kind, "fifo");
        let capability =
            forge_search::internal::tool::executor::capability::Capability::of(kind).as_str();
        let execution = world.run(&world.real(), scope, capability, scope, "x");
        failed(&execution, "SCOPE_UNAVAILABLE", "scope_unreadable");
    }
}

#[test]
fn data_of_another_kind_is_reported_and_never_taken_for_no_results() {
    let mut world = World::new();
    world.write("broken.csv", "id,a\n1,needle\n2,needle,more\n");
    world.write("latin.csv", b"id,a\n1,needle \xe4\n");
    world.write("quote.csv", "id,a\n1,\"needle\n2,needle\n");
    // The quotes are balanced, but not at the places where CSV allows them.
    world.write("even.csv", "id,a\n1,\"needle\n2,6\" x\n3,needle\n");
    world.write("within.csv", "id,a\n1,a \"needle\" of\n");
    world.write("behind.csv", "id,a\n1,\"needle\"\"\" \n");
    world.write("before.csv", "id,a\n1, \"needle\"\n");
    world.write("twice.jsonl", "{\"id\": 1, \"id\": 2, \"a\": \"needle\"}\n");
    world.write("nokey.csv", "a,b\n1,needle\n");
    world.write(
        "broken.jsonl",
        "{\"id\": 1, \"a\": \"needle\"}\n{\"id\": 2\n",
    );
    world.write("array.jsonl", "[\"needle\"]\n");
    world.write("deep.jsonl", format!("{}\n", "[".repeat(100_000)));
    world.write(
        "no.db",
        "this is no database, whatever else it may be, needle",
    );
    world.write("twokeys.csv", "id,id\n1,needle\n");
    world.write("no.mbox", "needle\n");
    world.write("nomaildir/needle", "x");
    database(&world.path("view.db"), "delete").close().unwrap();
    let mut all = Vec::new();
    for (file, kind) in [
        ("broken.csv", ScopeKind::Csv),
        ("latin.csv", ScopeKind::Csv),
        ("quote.csv", ScopeKind::Csv),
        ("even.csv", ScopeKind::Csv),
        ("within.csv", ScopeKind::Csv),
        ("behind.csv", ScopeKind::Csv),
        ("before.csv", ScopeKind::Csv),
        ("twice.jsonl", ScopeKind::Jsonl),
        ("nokey.csv", ScopeKind::Csv),
        ("twokeys.csv", ScopeKind::Csv),
        ("broken.jsonl", ScopeKind::Jsonl),
        ("array.jsonl", ScopeKind::Jsonl),
        ("deep.jsonl", ScopeKind::Jsonl),
        ("no.db", ScopeKind::Sqlite),
        ("no.mbox", ScopeKind::Mbox),
        ("nomaildir", ScopeKind::Maildir),
        ("view.db", ScopeKind::Sqlite),
    ] {
        world.scope(file, kind, file);
        all.push((file, kind));
    }
    world.config.scopes.get_mut("view.db").unwrap().table = Some("seen".to_string());
    let executor = world.real();
    for (file, kind) in all {
        let capability =
            forge_search::internal::tool::executor::capability::Capability::of(kind).as_str();
        let execution = world.run(&executor, file, capability, file, "needle");
        failed(&execution, "EXECUTION_FAILED", "source_malformed");
        let told = String::from_utf8_lossy(&execution.body).into_owned();
        assert!(
            !told.contains("needle") && !told.contains(file),
            "nothing of the data is told: {told}"
        );
    }
    // A file in place of a directory, and a directory in place of a file.
    world.scope("file", ScopeKind::Files, "no.mbox");
    world.scope("dir", ScopeKind::Mbox, "nomaildir");
    let executor = world.real();
    let run = |task: &str, capability: &str, scope: &str| {
        world.run(&executor, task, capability, scope, "x")
    };
    failed(
        &run("f", "SEARCH_FILES", "file"),
        "SCOPE_UNAVAILABLE",
        "scope_unreadable",
    );
    failed(
        &run("d", "SEARCH_EMAILS", "dir"),
        "SCOPE_UNAVAILABLE",
        "scope_unreadable",
    );
}

#[test]
fn data_that_may_not_be_read_even_in_part_is_unavailable() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let mut world = World::new();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    world.write("tree/open/a", "x");
    let closed = world.write("tree/closed/a", "x");
    let closed = closed.parent().unwrap();
    let secret = world.write("secret.csv", "id,a\n1,needle\n");
    fs::create_dir(world.path("store")).unwrap();
    world.scope("docs", ScopeKind::Files, "tree");
    world.scope("secret", ScopeKind::Csv, "secret.csv");
    world.scope("within", ScopeKind::Files, "tree/closed/sub");
    let config = world.write_config();
    // The program is copied: other users may have no access to the build directory.
    let program = world.path("forge-search");
    crate::support::copy_program(env!("CARGO_BIN_EXE_forge-search"), &program);
    mode(world.dir.path(), 0o755);
    mode(closed, 0o000);
    mode(&secret, 0o000);
    let run = |task: &str, capability: &str, scope: &str| {
        let lease = world.write("lease", world.lease_for_ever(task, capability, scope));
        let manifest = world.write("manifest", manifest(task, capability, scope, "a", 10));
        let mut command = std::process::Command::new(&program);
        command.args(["execute", "--config"]);
        command.args([&config, Path::new("--lease-file"), &lease, &manifest]);
        if rustix::process::geteuid().is_root() {
            // Root may read everything, so the program runs as another user.
            let nobody = 65_534;
            chown(world.path("store"), Some(nobody), Some(nobody)).unwrap();
            command.uid(nobody).gid(nobody);
        }
        let output = command.output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    for (task, capability, scope) in [
        ("1", "SEARCH_FILES", "docs"),
        ("2", "SEARCH_DATASETS", "secret"),
        ("3", "SEARCH_FILES", "within"),
    ] {
        let told = run(task, capability, scope);
        assert_eq!(told["error"]["code"], "SCOPE_UNAVAILABLE", "{scope} {told}");
        assert_eq!(told["error"]["reason"], "scope_denied", "{scope} {told}");
    }
    mode(closed, 0o755);
    let told = run("1", "SEARCH_FILES", "docs");
    assert_eq!(told["count"], 2, "{told}");
    mode(closed, 0o700);
}
