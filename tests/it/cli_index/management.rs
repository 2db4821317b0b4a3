//! `forge-search index`: building, listing, checking and removing indexes.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use forge_search::internal::format::lock::LockFile;
use serde_json::{Value, json};

use super::{PathBuf, World};
use crate::index_support::locked;
use crate::system::{set_mode, symlink};

#[test]
fn build_says_what_was_indexed_and_where() {
    let world = World::new();
    let ran = world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    for part in [
        world.shown(),
        "5 indexed",
        "of the text",
        dir.to_str().unwrap(),
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // The same from another directory, and a second time.
    world.write("binary.dat", [0xFF; 100]);
    world.write("bad\nname.txt", "x\n");
    for args in [
        ["index", "build", "--json", world.shown()].as_slice(),
        &["index", "build", "--json", "--root", world.shown()],
    ] {
        let report = world.run_in(Path::new("/"), args).ok().json();
        let index = &report["indexes"][0];
        assert_eq!(index["root"], world.shown());
        assert_eq!(index["dir"], dir.to_str().unwrap());
        assert_eq!(
            (&index["files"], &index["side_files"]),
            (&json!(7), &json!(1))
        );
        assert_eq!(index["by_status"]["FULL"], 5);
        assert_eq!(index["by_status"]["SKIPPED_BINARY"], 1);
        assert!(index["index_bytes"].as_u64().unwrap() > 1000);
        assert!(index["elapsed_ms"].is_u64());
        assert_eq!(
            (&index["errors"], &index["unreadable"]),
            (&json!([]), &json!([]))
        );
    }
    let ran = world.run(&["index", "build"]).ok();
    assert!(
        ran.out.contains("1 binary, 1 with a line break"),
        "{}",
        ran.out
    );
    assert_eq!(world.kept(), [dir]);
    // Files that can't be excluded are not counted as indexed.
    world.write("short", "ab");
    world.write("decomposed", "e\u{301}te\u{301}\n");
    let ran = world.run(&["index", "build"]).ok();
    let said = "5 indexed, always searched: 1 binary, 2 short, not normalized";
    assert!(ran.out.contains(said), "{}", ran.out);
    let report = world.run(&["index", "build", "--json"]).ok().json();
    let index = &report["indexes"][0];
    assert_eq!(
        (&index["by_status"]["FULL"], &index["excludable_files"]),
        (&json!(7), &json!(5))
    );
    // The tree must not be named twice.
    let ran = world.run(&["index", "build", "--root", "src", "src"]);
    assert_eq!(ran.status, 2);
}

#[test]
fn what_can_not_be_listed_is_said_and_no_search_leaves_files_out() {
    let world = World::new();
    // The shortest way to an incomplete listing, for every user.
    symlink("nowhere", world.tree.join("dangling")).unwrap();
    let follow = ["--set", "index_default_follow=true"];
    let with = |args: &[&str]| {
        let args: Vec<&str> = args.iter().chain(&follow).copied().collect();
        world.run(&args)
    };
    let ran = with(&["index", "build"]);
    assert_eq!(ran.status, 2);
    assert!(ran.out.contains("5 indexed"), "{}", ran.out);
    for part in ["dangling: ", "no search skips files"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let report = with(&["index", "build", "--json"]).json();
    assert_eq!(report["indexes"][0]["errors"][0]["path"], "dangling");
    let ran = with(&["index", "status", "--json"]);
    let index = &ran.json()["indexes"][0];
    assert_eq!(ran.status, 1);
    assert_eq!(index["uncertain_reason"], "ENUMERATION_ERROR");
    assert_eq!(index["contents"]["enumeration_errors"], 1);
    let manifest = fs::read(world.kept()[0].join("manifest")).unwrap();
    // Another build would have the same error, so no search builds the index.
    assert_eq!(with(&["--index", "on", "greet"]).status, 0);
    let ran = with(&["call", "--wait-index", r#"{"pattern": "greet"}"#]);
    assert_eq!((ran.status, &ran.json()["count"]), (0, &json!(2)));
    assert!(ran.err.contains("can't be used"), "{}", ran.err);
    assert_eq!(
        fs::read(world.kept()[0].join("manifest")).unwrap(),
        manifest
    );
}

#[test]
fn an_index_of_a_tree_whose_links_are_followed_says_that_it_is_never_used() {
    let world = World::new();
    symlink("src", world.tree.join("link")).unwrap();
    let follow = ["--set", "index_default_follow=true"];
    let with = |args: &[&str]| {
        let args: Vec<&str> = args.iter().chain(&follow).copied().collect();
        world.run(&args)
    };
    #[track_caller]
    fn check_said(text: &str) {
        // The reason, and what to do.
        for part in ["not tracked", "set index_default_follow = false"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let ran = with(&["index", "build"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    check_said(&ran.err);
    let report = with(&["index", "build", "--json"]).json();
    check_said(report["never_used_because"].as_str().unwrap());
    let ran = with(&["index", "status"]);
    assert_eq!(ran.status, 1);
    check_said(&ran.out);
    assert!(ran.out.contains("UNCERTAIN"), "{}", ran.out);
    let report = with(&["index", "status", "--json"]).json();
    let index = &report["indexes"][0];
    assert_eq!(index["usable"], false);
    assert_eq!(index["contents"]["files"], 8);
    check_said(index["why"].as_str().unwrap());
    for args in [
        ["explain", "--json", "greet", "-L"].as_slice(),
        &["explain", "--json", "greet"],
    ] {
        let report = with(args).ok().json();
        check_said(report["reason"].as_str().unwrap());
        assert_eq!(report["index"]["used"], false);
    }
    let ran = with(&["doctor"]);
    assert_eq!(ran.status, 2);
    check_said(ran.out.split_once("\nto do\n").unwrap().1);
    // Searches find files behind links. They do not rebuild an index that would be no better.
    let manifest = fs::read(world.kept()[0].join("manifest")).unwrap();
    world.write("src/new.rs", "fn greet_too() {}\n");
    let found = with(&["--index", "on", "-L", "greet_too"]).ok().out;
    assert_eq!(found.lines().count(), 2, "{found}");
    let ran = with(&["call", "--wait-index", r#"{"pattern": "greet"}"#]);
    check_said(&ran.err);
    let after = fs::read(world.kept()[0].join("manifest")).unwrap();
    assert_eq!(after, manifest);
    // The suggested setting solves the problem.
    let report = world.run(&["index", "build", "--json"]).ok().json();
    assert_eq!(report["never_used_because"], Value::Null);
    world.run(&["index", "status"]).ok();
}

#[test]
fn an_index_that_would_not_be_kept_is_not_built() {
    let world = World::new();
    let inside = format!("index_path={:?}", world.tree.join("cache"));
    for (setting, parts) in [
        (
            "index_storage=memory",
            ["would not outlive this command", "index_storage"],
        ),
        (
            inside.as_str(),
            ["lies inside of the indexed tree", "set index_path"],
        ),
        ("index_mode=off", ["indexing is off", "index_mode"]),
        ("index_roots=[\"missing\"]", ["nothing to index", "missing"]),
    ] {
        let ran = world.run(&["index", "build", "--set", setting]);
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{setting}");
        for part in parts {
            assert!(ran.err.contains(part), "{setting}: {}", ran.err);
        }
    }
    assert!(world.kept().is_empty() && !world.tree.join("cache").exists());
}

#[test]
fn status_tells_absent_usable_stale_and_damaged_apart() {
    let world = World::new();
    let status = || {
        let (text, json) = (
            world.run(&["index", "status"]),
            world.run(&["index", "status", "--json"]),
        );
        assert_eq!(text.status, json.status);
        let index = json.json()["indexes"][0].clone();
        let state = index["state"].as_str().unwrap().to_string();
        assert!(text.out.contains(&state), "{}", text.out);
        assert_eq!(index["usable"], json!(text.status == 0));
        (text, index)
    };
    let (absent, index) = status();
    assert_eq!((absent.status, &index["state"]), (1, &json!("ABSENT")));
    assert!(
        absent.out.contains("forge-search index build"),
        "{}",
        absent.out
    );

    world.run(&["index", "build"]).ok();
    let (usable, index) = status();
    assert_eq!((usable.status, &index["state"]), (0, &json!("COMPLETE")));
    assert_eq!(index["why"], Value::Null);
    let contents = &index["contents"];
    assert_eq!(
        (&contents["files"], &contents["directories"]),
        (&json!(5), &json!(2))
    );
    assert_eq!(contents["changed_files"], 0);
    assert!(contents["built"].as_str().unwrap().ends_with('Z'));
    assert!(contents["eligibility_inputs"].as_u64().unwrap() > 0);
    assert_eq!(index["key"]["hidden"], false);
    assert_eq!(index["key"]["backend"], "embedded");
    let access = index["key"]["access"].as_str().unwrap();
    assert_eq!(access.starts_with("uid="), cfg!(unix), "{access}");
    assert!(usable.out.contains("hidden=false"), "{}", usable.out);
    assert!(usable.out.contains(" ago"), "{}", usable.out);

    world.write("notes.txt", "nobody is left\n");
    let (usable, index) = status();
    assert_eq!(
        (usable.status, &index["contents"]["changed_files"]),
        (0, &json!(1))
    );
    assert!(usable.out.contains("1 changed since"), "{}", usable.out);

    world.write("src/new.rs", "fn new() {}\n");
    let (stale, index) = status();
    assert_eq!((stale.status, &index["state"]), (1, &json!("UNCERTAIN")));
    assert_eq!(index["uncertain_reason"], "OPEN_REQUIRES_VALIDATION");
    assert!(
        stale.out.contains("the directory src changed"),
        "{}",
        stale.out
    );

    world.damage("manifest", |bytes| bytes.truncate(70));
    let (damaged, index) = status();
    assert_eq!((damaged.status, &index["state"]), (2, &json!("CORRUPT")));
    assert!(damaged.out.contains("manifest"), "{}", damaged.out);

    let off = world.run(&["index", "status", "--set", "index_mode=off"]);
    assert_eq!(off.status, 1);
    assert!(off.out.starts_with("DISABLED"), "{}", off.out);
}

#[test]
fn verify_reads_every_page() {
    let world = World::new();
    let none = world.run(&["index", "verify"]);
    assert_eq!(none.status, 2);
    assert!(none.err.contains("has no index"), "{}", none.err);
    world.run(&["index", "verify", "--all"]).ok();

    // The text is long enough for several pages.
    let mut state = 1u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'a' + (state >> 24) as u8 % 26)
    };
    let text: String = (0..100_000).map(|_| letter()).collect();
    world.write("letters.txt", text);
    world.run(&["index", "build"]).ok();
    for args in [
        ["index", "verify"].as_slice(),
        &["index", "verify", "--all"],
    ] {
        let ran = world.run(args).ok();
        assert!(
            ran.out.starts_with(&format!("ok       {}", world.shown())),
            "{}",
            ran.out
        );
    }
    let report = world.run(&["index", "verify", "--json"]).ok().json();
    assert_eq!(
        (&report["ok"], &report["indexes"][0]["ok"]),
        (&json!(true), &json!(true))
    );

    // Opening the index does not notice this damage.
    world.damage("segment-", |bytes| bytes[200] ^= 1);
    let listed = world.run(&["index", "list", "--json"]).ok().json();
    assert_eq!(listed["indexes"][0]["damaged"], Value::Null);
    let ran = world.run(&["index", "verify"]);
    assert_eq!(ran.status, 2);
    assert!(ran.out.starts_with("damaged  "), "{}", ran.out);
    assert!(
        ran.out.contains("does not match its checksum"),
        "{}",
        ran.out
    );
    let report = world.run_in(Path::new("/"), &["index", "verify", "--all", "--json"]);
    assert_eq!((report.status, &report.json()["ok"]), (2, &json!(false)));
}

#[test]
fn an_index_that_can_not_be_checked_is_not_called_damaged() {
    #[track_caller]
    fn check(world: &World, reason: &str) {
        let timeout = ["--set", "index_lock_timeout_ms=20"];
        let run = |args: &[&str]| {
            let args: Vec<&str> = ["index"]
                .iter()
                .chain(args)
                .chain(&timeout)
                .copied()
                .collect();
            world.run(&args)
        };
        let ran = run(&["verify", "--all"]);
        assert_eq!(ran.status, 2, "{}", ran.out);
        for part in ["unknown  ", "can't be checked: ", reason] {
            assert!(ran.out.contains(part), "{part}: {}", ran.out);
        }
        let ran = run(&["list"]).ok();
        let said = ran.out.contains("it can't be checked: ") && ran.out.contains(reason);
        assert!(said, "{}", ran.out);
        assert!(!ran.out.contains("damaged"), "{}", ran.out);
        let report = run(&["verify", "--all", "--json"]).json();
        let index = &report["indexes"][0];
        assert_eq!(
            (&report["ok"], &index["ok"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(index["state"], "unchecked");
        assert!(index["problem"].as_str().unwrap().contains(reason));
        let index = &run(&["list", "--json"]).ok().json()["indexes"][0];
        assert_eq!(index["damaged"], Value::Null);
        assert!(index["unchecked"].as_str().unwrap().contains(reason));
    }
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    let lock = locked(&dir, LockFile::Readers);
    check(&world, "locked");
    drop(lock);
    let chmod = |name: &str, mode: u32| {
        set_mode(dir.join(name), mode).unwrap();
    };
    for name in ["manifest", "segment-1.seg"] {
        chmod(name, 0o666);
        check(&world, "other users can write to it");
        chmod(name, 0o600);
    }
    let readers = dir.join(LockFile::Readers.name());
    fs::remove_file(&readers).unwrap();
    fs::create_dir(&readers).unwrap();
    check(&world, "open the lock file");
    fs::remove_dir(&readers).unwrap();
    world.run(&["index", "verify"]).ok();
}

#[test]
fn verify_finds_an_index_that_is_in_the_place_of_another() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    let elsewhere = dir.with_file_name("0123456789abcdef0123456789abcdef");
    fs::rename(&dir, elsewhere).unwrap();
    let ran = world.run(&["index", "verify", "--all"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.out.contains("belongs to another directory"),
        "{}",
        ran.out
    );
    assert_eq!(world.run(&["index", "status"]).status, 1);
}

#[test]
fn list_shows_every_index_and_what_is_wrong_with_it() {
    let world = World::new();
    let ran = world.run(&["index", "list"]).ok();
    assert!(ran.out.contains("no indexes are kept"), "{}", ran.out);
    assert!(!world.store().exists(), "looking makes nothing");
    world.run(&["index", "build"]).ok();
    world.run(&["index", "build", "src"]).ok();
    // The list is the same from anywhere, even from a directory that could have no index.
    for dir in [world.tree.as_path(), Path::new("/")] {
        let ran = world.run_in(dir, &["index", "list"]).ok();
        assert_eq!(ran.out.matches("built ").count(), 2, "{}", ran.out);
        let report = world.run_in(dir, &["index", "list", "--json"]).ok().json();
        let mut roots: Vec<&str> = report["indexes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|index| index["root"].as_str().unwrap())
            .collect();
        roots.sort();
        assert_eq!(
            roots,
            [world.shown(), world.tree.join("src").to_str().unwrap()]
        );
        assert_eq!(report["store"], world.store().to_str().unwrap());
    }
    for dir in world.kept() {
        fs::write(dir.join("manifest"), "no manifest").unwrap();
    }
    let ran = world.run(&["index", "list"]).ok();
    assert_eq!(ran.out.matches("an unknown tree").count(), 2, "{}", ran.out);
    assert_eq!(ran.out.matches("  damaged").count(), 2, "{}", ran.out);
}

#[test]
fn clear_removes_the_indexes_of_a_tree_and_nothing_else() {
    let world = World::new();
    let ran = world.run(&["index", "clear"]).ok();
    assert!(ran.out.contains("nothing was removed"), "{}", ran.out);
    let build = |args: &[&str]| {
        let args: Vec<&str> = ["index", "build"].iter().chain(args).copied().collect();
        world.run(&args).ok();
    };
    build(&[]);
    build(&["--set", "index_default_hidden=true"]);
    build(&["src"]);
    fs::write(world.store().join("notes"), "mine").unwrap();
    assert_eq!(world.kept().len(), 4);
    // All indexes of the tree are removed, regardless of the settings of their builds.
    let ran = world.run(&["index", "clear"]).ok();
    assert_eq!(
        ran.out.matches("removed the index of").count(),
        2,
        "{}",
        ran.out
    );
    assert_eq!(world.kept().len(), 2);
    let report = world.run_in(Path::new("/"), &["index", "clear", "--all", "--json"]);
    let report = report.ok().json();
    assert_eq!(report["indexes"].as_array().unwrap().len(), 1);
    assert_eq!(report["indexes"][0]["removed"], true);
    assert_eq!(fs::read(world.store().join("notes")).unwrap(), b"mine");
    // A damaged index is identified by its directory. The index of a deleted tree is identified by
    // the root that it contains.
    build(&[]);
    world.damage("manifest", Vec::clear);
    assert!(
        world
            .run(&["index", "clear"])
            .ok()
            .out
            .starts_with("removed")
    );
    build(&["src"]);
    fs::remove_dir_all(world.tree.join("src")).unwrap();
    let listed = world.run(&["index", "list"]).ok();
    assert!(listed.out.contains("(which is gone)"), "{}", listed.out);
    assert!(
        world
            .run(&["index", "clear", "src"])
            .ok()
            .out
            .starts_with("removed")
    );
    assert_eq!(world.kept().len(), 1, "only the notes are left");
    // Removing works even if indexing is off.
    build(&[]);
    world
        .run(&["index", "clear", "--set", "index_mode=off"])
        .ok();
    assert_eq!(world.kept().len(), 1);
}

#[test]
fn clear_removes_what_an_unfinished_build_left() {
    let world = World::new();
    for args in [["index", "clear"].as_slice(), &["index", "clear", "--all"]] {
        world.run(&["index", "build"]).ok();
        let dir = world.kept().remove(0);
        fs::rename(dir.join("manifest"), dir.join("unfinished")).unwrap();
        let listed = world.run(&["index", "list"]).ok();
        assert!(
            !listed.out.contains(dir.to_str().unwrap()),
            "{}",
            listed.out
        );
        let ran = world.run(args).ok();
        assert!(
            ran.out.contains("the remains of an unfinished build"),
            "{}",
            ran.out
        );
        assert!(!dir.exists());
    }
}

#[test]
fn an_index_in_use_by_a_writer_is_not_cleared() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let lock = locked(&world.kept()[0], LockFile::Writers);
    let ran = world.run(&["index", "clear"]);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("locked"), "{}", ran.err);
    drop(lock);
    world.run(&["index", "verify"]).ok();
}

#[test]
fn every_command_has_help_with_examples() {
    let world = World::new();
    for args in [
        ["index", "--help"].as_slice(),
        &["explain", "--help"],
        &["help", "index"],
    ] {
        let ran = world.run(args).ok();
        assert!(ran.out.contains("Examples:"), "{args:?}");
    }
    for command in ["build", "status", "verify", "list", "clear"] {
        let ran = world.run(&["index", command, "--help"]).ok();
        assert!(ran.out.contains("--json"), "{command}");
        // A list covers the indexes of all trees.
        let takes_tree = ran.out.contains("[ROOT]");
        assert_eq!(takes_tree, command != "list", "{command}");
    }
    let page = world.run(&["man", "index"]).ok();
    assert!(page.out.contains("verify"), "{}", page.out);
}

#[cfg(unix)]
#[test]
fn trees_and_files_may_have_any_names() {
    use std::os::unix::ffi::OsStrExt;

    let mut world = World::new();
    let strange = world
        .tree
        .with_file_name(std::ffi::OsStr::from_bytes(b"t\xFF\x1Bee"));
    fs::rename(&world.tree, &strange).unwrap();
    world.tree = strange;
    let lossy = world.tree.to_string_lossy().into_owned();
    world.run(&["index", "build"]).ok();
    let built = world.run(&["index", "build", "--json"]).ok().json();
    assert_eq!(built["indexes"][0]["root"], lossy.as_str());
    let explained = world.run(&["explain", "--json", "fn greet"]).ok().json();
    assert_eq!(explained["index"]["root"], lossy.as_str());
    assert_eq!(explained["files"]["excluded"], 4);
    for args in [
        ["explain", "fn greet"].as_slice(),
        &["index", "status"],
        &["index", "verify"],
        &["index", "list"],
        &["doctor"],
        &["index", "clear"],
    ] {
        let ran = world.run(args).ok();
        assert!(
            ran.out.contains("t\u{FFFD}\\x1bee"),
            "{args:?}: {}",
            ran.out
        );
        assert!(!ran.out.contains('\u{1b}'), "{args:?}: {}", ran.out);
    }
    assert!(world.kept().is_empty());
}

#[test]
fn what_is_in_the_place_of_an_index_is_named_with_what_to_do() {
    let world = World::new();
    world.run(&["index", "build"]).ok();
    let dir = world.kept().remove(0);
    let check = |name: &str, command: &str| {
        let path = dir.join(name);
        let ran = world.run(&["index", command]);
        assert_eq!(ran.status, 2, "{name} {command}: {}", ran.out);
        for part in [path.to_str().unwrap(), "move it out of the way"] {
            assert!(ran.err.contains(part), "{name} {command}: {}", ran.err);
        }
        assert!(!ran.err.contains("searches run without"), "{}", ran.err);
    };
    fs::create_dir(dir.join("index.sqlite")).unwrap();
    check("index.sqlite", "clear");
    fs::remove_dir(dir.join("index.sqlite")).unwrap();
    world.run(&["index", "build"]).ok();
    fs::remove_file(dir.join("manifest")).unwrap();
    fs::create_dir(dir.join("manifest")).unwrap();
    check("manifest", "build");
    check("manifest", "clear");
    fs::remove_dir(dir.join("manifest")).unwrap();
    world.run(&["index", "clear"]).ok();
    // A file of the user is not deleted.
    let mine = world.cache.join("mine");
    fs::write(&mine, "notes").unwrap();
    let ran = world.run(&["index", "build", "--set", &format!("index_path={mine:?}")]);
    assert_eq!(ran.status, 2);
    for part in [
        "not a directory; choose another path",
        "index_path in [tools.search]",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    assert!(!ran.err.contains("delete"), "{}", ran.err);
}

#[test]
fn status_says_what_build_would_say_of_a_place_that_will_not_do() {
    let world = World::new();
    fs::create_dir_all(world.store()).unwrap();
    set_mode(world.store(), 0o770).unwrap();
    let built = world.run(&["index", "build"]);
    assert_eq!(built.status, 2);
    let status = world.run(&["index", "status"]);
    assert_eq!(status.status, 1);
    let memory = world.run(&["index", "status", "--set", "index_storage=memory"]);
    for (said, why) in [
        (&built.err, "`chmod 700` it"),
        (&status.out, "`chmod 700` it"),
        (&memory.out, "set it to \"mmap\""),
    ] {
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("run `forge-search index build`"), "{said}");
    }
    let report = world.run(&["explain", "--json", "greet"]).ok().json();
    assert_eq!(report["index"]["state"], "ABSENT");
    assert!(
        report["reason"]
            .as_str()
            .unwrap()
            .contains("`chmod 700` it")
    );
}

#[test]
fn times_that_an_index_can_not_hold_are_called_that() {
    let world = World::new();
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(10_413_792_000);
    let touch = |path: &Path, time: SystemTime| fs::File::open(path).unwrap().set_modified(time);
    let file = world.tree.join("hay.txt");
    touch(&file, far).unwrap();
    if fs::metadata(&file).unwrap().modified().unwrap() != far {
        let why = "the filesystem has no time after 2262, so that no index meets one";
        return crate::skipped::skipped(why);
    }
    let ran = world.run(&["index", "build"]);
    assert_eq!(ran.status, 0);
    let said = "always searched: 1 with a time of last change that is out of range";
    assert!(ran.out.contains(said), "{}", ran.out);
    for part in ["hay.txt: ", "before 1677 or after 2262", "`touch` it"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let report = world.run(&["index", "build", "--json"]).json();
    let index = &report["indexes"][0];
    assert_eq!(index["time_out_of_range"], json!(["hay.txt"]));
    assert_eq!(
        (&index["unreadable"], &index["changing"]),
        (&json!([]), &json!([]))
    );
    // A time out of range does not count as a change.
    let status = world.run(&["index", "status"]).ok();
    assert!(status.out.contains("1 always searched"), "{}", status.out);
    assert!(!status.out.contains("changed since"), "{}", status.out);
    let found = world.run(&["--stats", "dry grass"]);
    assert_eq!(found.out, "hay.txt:1:1:dry grass\n");
    assert!(
        found.err.contains("index_exclusion_used     yes"),
        "{}",
        found.err
    );
    // A directory with such a time can't be compared.
    touch(&world.tree.join("src"), far).unwrap();
    world.run(&["index", "build"]);
    let status = world.run(&["index", "status"]);
    assert_eq!(status.status, 1);
    for part in [
        "the directory src has",
        "before 1677 or after 2262",
        "`touch` it",
    ] {
        assert!(status.out.contains(part), "{part}: {}", status.out);
    }
    let doctor = world.run(&["doctor"]);
    let todo = doctor.out.split_once("\nto do\n").expect(&doctor.out).1;
    assert!(todo.contains("`touch` it"), "{todo}");
    // Another build would not help, so no search builds the index.
    let manifest = || fs::read(world.kept()[0].join("manifest")).unwrap();
    let before = manifest();
    assert_eq!(world.run(&["--index", "on", "dry grass"]).out, found.out);
    let ran = world.run(&["call", "--wait-index", r#"{"pattern": "dry grass"}"#]);
    assert_eq!((ran.status, &ran.json()["count"]), (0, &json!(1)));
    assert!(
        ran.err.contains("can't be used: the directory src"),
        "{}",
        ran.err
    );
    assert_eq!(manifest(), before);
    for path in [file, world.tree.join("src")] {
        touch(&path, SystemTime::now()).unwrap();
    }
    world.run(&["index", "build"]).ok();
    world.run(&["index", "status"]).ok();
}

#[test]
fn times_for_programs_have_a_fixed_length() {
    let world = World::new();
    for _ in 0..3 {
        world.run(&["index", "build"]).ok();
        let list = world.run(&["index", "list", "--json"]).ok().json();
        let status = world.run(&["index", "status", "--json"]).ok().json();
        let built = &list["indexes"][0]["built"];
        assert_eq!(
            built.as_str().unwrap().len(),
            "2025-11-22T03:44:22.500Z".len()
        );
        assert_eq!(&status["indexes"][0]["contents"]["built"], built);
    }
}

/// The directory of indexes depends on the program's environment and configuration.
#[cfg(target_os = "linux")]
#[test]
fn the_environment_of_the_program_decides_where_indexes_are() {
    let world = World::new();
    let top = world.tree.parent().unwrap().to_path_buf();
    let user = rustix::process::geteuid().as_raw();
    let directory = |environment: &[(&str, Option<&str>)], args: &[&str]| -> PathBuf {
        let args = [&["doctor", "--json"], args].concat();
        let mut command = world.program(&world.tree, &args);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value.replace('~', top.to_str().unwrap())),
                None => command.env_remove(name),
            };
        }
        let output = command.output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        PathBuf::from(report["index"]["directory"].as_str().unwrap())
    };
    let cache = Some("~/cache");
    let home = Some("~/home");
    let temporary = top.join("tmp").join(format!("forge-search-{user}"));
    let in_system = Path::new("/tmp").join(format!("forge-search-{user}"));
    for (configured, xdg, home, tmp, expected) in [
        (
            None,
            cache,
            home,
            Some("~/tmp"),
            top.join("cache/forge/search-index"),
        ),
        (
            None,
            None,
            home,
            Some("~/tmp"),
            top.join("home/.cache/forge/search-index"),
        ),
        // A relative path in this variable is ignored.
        (
            None,
            Some("cache"),
            home,
            None,
            top.join("home/.cache/forge/search-index"),
        ),
        (
            None,
            Some(""),
            home,
            None,
            top.join("home/.cache/forge/search-index"),
        ),
        (None, None, None, Some("~/tmp"), temporary.clone()),
        (None, None, Some("home"), Some("~/tmp"), temporary),
        (None, None, None, None, in_system),
        (
            Some("index_path=../mine"),
            cache,
            home,
            None,
            top.join("tree/../mine"),
        ),
        (
            Some("index_path="),
            cache,
            home,
            None,
            top.join("cache/forge/search-index"),
        ),
    ] {
        let environment = [("XDG_CACHE_HOME", xdg), ("HOME", home), ("TMPDIR", tmp)];
        let set = configured.map(|set| ["--set", set]);
        let args = set.as_ref().map_or(&[][..], |set| &set[..]);
        assert_eq!(
            directory(&environment, args),
            expected,
            "{environment:?} {args:?}"
        );
    }
    // Looking creates no directory; building creates it.
    assert!(!world.cache.exists() && !top.join("home").exists());
    let mut build = world.program(&world.tree, &["index", "build"]);
    build
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", top.join("home"));
    assert!(build.output().unwrap().status.success());
    let kept = fs::read_dir(top.join("home/.cache/forge/search-index")).unwrap();
    assert_eq!(kept.count(), 1);
    assert!(!world.cache.exists());
}

#[cfg(unix)]
#[test]
fn a_build_warns_where_others_can_read_the_index() {
    let world = World::new();
    fs::create_dir_all(world.store()).unwrap();
    set_mode(world.store(), 0o755).unwrap();
    let refused = world.run(&["index", "build"]);
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("chmod 700"), "{}", refused.err);
    assert!(world.kept().is_empty());
    let allowed = ["--set", "index_allow_insecure_persistence=true"];
    let built = world.run(&[&["index", "build"], &allowed[..]].concat());
    assert_eq!((built.status, world.kept().len()), (0, 1));
    for part in [
        "other users have access",
        "index_allow_insecure_persistence",
    ] {
        assert!(built.err.contains(part), "{}", built.err);
    }
    let report = world
        .run(&[&["doctor", "--json"], &allowed[..]].concat())
        .json();
    let exposed = report["index"]["exposed"].as_str().unwrap();
    assert!(exposed.contains("other users have access"), "{exposed}");
    set_mode(world.store(), 0o700).unwrap();
    world
        .run(&[&["index", "build"], &allowed[..]].concat())
        .ok();
}
