//! Compares calls of ripgrep's command line in three ways: without an index, with an index, and
//! with a daemon. The output, the exit status and the messages must be the same, also after the
//! tree has changed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::mcp::PROGRAM;
use super::program::{Place, ok, text, wait_until};
use crate::differential::Seeded;
use crate::rg_calls::{Call, comparable, fill};
use crate::support::Tree;

/// The number of calls after each change of the tree. `FORGE_SEARCH_TEST_RG_CALLS` is the number of
/// all calls.
const CALLS: usize = 25;

const SEED: u64 = 57;

/// A way in which `rg` finds the files to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Walk,
    Index,
    Daemon,
}

impl Way {
    /// Returns the configuration that chooses this way.
    fn config(self) -> &'static str {
        match self {
            Way::Walk => "[tools.search]\nindex_mode = \"off\"\n",
            Way::Index => "[tools.daemon]\nsearches = \"off\"\n",
            Way::Daemon => "",
        }
    }
}

/// A tree with an index and a daemon.
struct World {
    place: Place,
    daemon: std::process::Child,
}

impl World {
    fn new() -> World {
        let place = Place::empty();
        fs::create_dir_all(place.root()).unwrap();
        let tree = Tree::existing(&place.root());
        fill(&tree);
        // Names that are denied to agents, a repository below another one, a hidden name that a
        // rule brings back, and global excludes that mean the same to both programs.
        tree.file("server.pem", "needle foo\n")
            .file("nested/.git/HEAD", "ref: refs/heads/main\n")
            .file("nested/.git/info/exclude", "*.out\n")
            .file("nested/x.log", "foo needle\n")
            .file("nested/x.out", "foo needle\n")
            .file("nested/x.swp", "foo needle\n")
            .file("nested/x.dot", "foo needle\n")
            .file("nested/.ignore", "!.shown\n")
            .file("nested/.shown", "foo needle\n")
            .link("many-link", "many")
            .file("-/x.txt", "dash needle\n")
            .file("many/marked.txt", "\u{feff}hay\n")
            .file(
                "many/nul.data",
                format!("{}\0hay\n", "hay\n".repeat(30_000)),
            );
        let excludes = place.dir().join("config/git/ignore");
        fs::create_dir_all(excludes.parent().unwrap()).unwrap();
        fs::write(excludes, "*.swp\n").unwrap();
        for n in 0..40 {
            tree.file(&format!("many/{n}.txt"), format!("hay {n}\n"));
        }
        ok(&place
            .command(PROGRAM, &["index", "build"])
            .output()
            .unwrap());
        let daemon = place.serve(&[]);
        World { place, daemon }
    }

    fn rg(&self, way: Way, args: &[&str]) -> Command {
        let mut command = self.place.command(PROGRAM, &[&["rg"], args].concat());
        if way != Way::Daemon {
            let config = self.place.dir().join(format!("{way:?}.toml"));
            fs::write(&config, way.config()).unwrap();
            command.env("FORGE_SEARCH_CONFIG", config);
        }
        command.env_remove("RIPGREP_CONFIG_PATH");
        command
    }

    fn call(&self, way: Way, call: &Call) -> Output {
        let args: Vec<&str> = call.args.iter().map(String::as_str).collect();
        call.output(&mut self.rg(way, &args))
    }

    /// Returns the line of `--debug` that says which way a call took.
    fn taken(&self, way: Way, args: &[&str]) -> String {
        let output = self.rg(way, &[&["--debug"], args].concat()).output();
        let messages = text(&output.unwrap().stderr);
        let said = [
            "an index decided",
            "no index is asked",
            "the tree is walked",
        ];
        let mut lines = messages.lines();
        let line = lines.find(|line| said.iter().any(|said| line.contains(said)));
        line.unwrap_or_else(|| panic!("{args:?}: {messages}"))
            .to_string()
    }

    fn is_decided(&self, way: Way, args: &[&str]) -> bool {
        self.taken(way, args).contains("an index decided")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

type Edit = (&'static str, fn(&Path));

const EDITS: &[Edit] = &[
    ("nothing", |_| {}),
    ("write", |root| {
        fs::write(root.join("many/3.txt"), "hay\nneedle foo\n").unwrap();
    }),
    ("atomic save", |root| {
        fs::write(root.join("many/.4.tmp"), "foo bar needle\n").unwrap();
        fs::rename(root.join("many/.4.tmp"), root.join("many/4.txt")).unwrap();
    }),
    ("remove", |root| {
        fs::remove_file(root.join("long.txt")).unwrap();
    }),
    ("rename", |root| {
        fs::rename(root.join("sub/deep"), root.join("sub/moved")).unwrap();
    }),
    ("new directory", |root| {
        fs::create_dir_all(root.join("new/below")).unwrap();
        fs::write(root.join("new/below/a.rs"), "fn foo() {}\n").unwrap();
    }),
    ("hidden and ignored files", |root| {
        fs::create_dir_all(root.join(".new/below")).unwrap();
        fs::write(root.join(".new/below/a.txt"), "needle foo\n").unwrap();
        fs::write(root.join("sub/.b.rs"), "fn foo() {}\n").unwrap();
        fs::write(root.join("new.log"), "needle\n").unwrap();
    }),
    ("hidden files that change", |root| {
        fs::write(root.join(".hidden/file.txt"), "foo needle\n").unwrap();
        fs::rename(root.join("sub/.b.rs"), root.join("sub/.c.rs")).unwrap();
        fs::create_dir_all(root.join(".new/rules")).unwrap();
        fs::write(root.join("many/.needle"), "needle\n").unwrap();
    }),
    ("hidden rules", |root| {
        fs::write(root.join(".new/.ignore"), "a.txt\n").unwrap();
        fs::write(root.join("many/.ignore"), ".needle\n").unwrap();
    }),
    ("hidden kinds", |root| {
        fs::remove_dir_all(root.join(".new")).unwrap();
        fs::write(root.join(".new"), "needle foo\n").unwrap();
        fs::remove_file(root.join("sub/.c.rs")).unwrap();
        fs::create_dir(root.join("sub/.c.rs")).unwrap();
        fs::write(root.join("sub/.c.rs/needle"), "needle foo\n").unwrap();
        fs::remove_file(root.join("many/.ignore")).unwrap();
    }),
    ("binary and marked files", |root| {
        fs::write(root.join("many/6.txt"), "hay\0hay\n").unwrap();
        fs::write(root.join("many/7.txt"), "\u{feff}hay 7\n").unwrap();
    }),
    ("ignore file", |root| {
        fs::write(root.join(".gitignore"), "*.py\n/many/1*\n").unwrap();
    }),
    ("malformed ignore file", |root| {
        fs::write(root.join("many/.ignore"), "[z-a]\n5.txt\n").unwrap();
    }),
];

#[test]
fn an_index_and_a_daemon_change_no_answer_of_rg() {
    let world = World::new();
    let calls = std::env::var("FORGE_SEARCH_TEST_RG_CALLS");
    let calls = calls.map_or(CALLS, |calls| calls.parse::<usize>().unwrap() / EDITS.len());
    let mut rng = Seeded::new(SEED);
    let mut wrong = Vec::new();
    assert!(!world.is_decided(Way::Walk, &["needle"]));
    let index = world.taken(Way::Index, &["needle"]);
    assert!(index.contains("an index decided"), "{index}");
    wait_until("the daemon decides", || {
        world.is_decided(Way::Daemon, &["needle"])
    });
    for (edit, change) in EDITS {
        change(&world.place.root());
        for n in 0..calls {
            // Every other call is one that an index may decide.
            let call = match n % 2 {
                0 => Call::new(&mut rng),
                _ => plain(&mut rng),
            };
            let of = |way| comparable(&call, &world.call(way, &call));
            let expected = of(Way::Walk);
            for way in [Way::Index, Way::Daemon] {
                let found = of(way);
                if found != expected {
                    wrong.push(format!(
                        "{edit}, {way:?}, {call:?}\nwalk: {}\nfound: {}\n",
                        shown(&expected),
                        shown(&found)
                    ));
                }
            }
        }
    }
    let count = wrong.len();
    wrong.truncate(6);
    assert!(count == 0, "{count} answers differ\n{}", wrong.join("\n"));
}

/// Makes a call that an index may decide.
fn plain(rng: &mut Seeded) -> Call {
    let patterns = [
        "needle",
        "foo",
        "Foo",
        "foobar",
        "привет",
        "hay 7",
        "absent text",
        "strasse",
        r"fn \w+\(",
        "foo bar$",
        "foo|needle",
        "bar\r",
        "foo$",
        "foo.$",
        r"foo\s",
        "kelvin",
        "[Ff]oo",
        r"foo.*needle",
    ];
    let flags = [
        "-n",
        "-i",
        "-S",
        "-w",
        "-x",
        "-F",
        "-l",
        "-c",
        "-o",
        "--count-matches",
        "-C1",
        "-q",
        "--sort=path",
        "--sortr=path",
        "-j1",
        "--heading",
        "--vimgrep",
        "-m1",
        "-T=rust",
        "-d2",
        "-g=!*.txt",
        "-g=!many",
        "-g=!/sub/",
        "-g=!*",
        "--max-filesize=20",
        "--files",
        "--color=always",
        "--hidden",
        "--hidden",
        "--hidden",
        "--no-ignore",
        "-uu",
        "--json",
        "--stats",
        "-g=*.txt",
        "-g=!.git",
        "-g=!.git",
        "-g=!**/.git/**",
        "-g=!.git/*",
        "-g=!.*",
        "--crlf",
        "-g=**/*.{rs,txt}",
        "-g=/many/**",
        "--iglob=*.TXT",
        "-t=rust",
        "-t=txt",
        "-L",
        "--no-ignore-vcs",
        "--no-ignore-dot",
        "--no-require-git",
        "--ignore-file=extra.ignore",
        "--one-file-system",
        "-M=10",
        "--column",
        "-H",
    ];
    let paths = [
        ".",
        "./",
        "sub",
        "sub/",
        "many",
        "./many",
        "sub/moved",
        "nested",
        "build",
        "many-link",
        "sub/..",
        "a.txt",
        ".hidden",
    ];
    let mut args = Vec::new();
    for _ in 0..rng.below(5) {
        args.push(rng.pick(&flags).to_string());
    }
    args.push("-e".to_string());
    args.push(rng.pick(&patterns).to_string());
    for _ in 0..rng.below(3) {
        args.push(rng.pick(&paths).to_string());
    }
    Call {
        args,
        has_stdin: false,
    }
}

fn shown((code, out, err): &(Option<i32>, Vec<u8>, Vec<u8>)) -> String {
    let cut = |text: &[u8]| -> String { String::from_utf8_lossy(text).chars().take(500).collect() };
    format!("{code:?}\n{}\n{}", cut(out), cut(err))
}

#[test]
fn debug_says_what_an_index_decided() {
    let world = World::new();
    let listed = "files are skipped";
    for args in [
        &["needle"][..],
        &["-l", "needle"],
        &["-c", "needle", "."],
        &["-q", "needle"],
        &["-iw", "needle", "sub", "many"],
        &["-F", "-C2", "-e", "needle", "-e", "foo bar"],
        &["-g", "!*.rs", "-T", "rust", "needle"],
        &["-d", "2", "--max-filesize", "10", "needle"],
        &["--sort", "path", "needle"],
        &["--files"],
        &["-S", "needle"],
        &["--crlf", "-F", "needle"],
    ] {
        let taken = world.taken(Way::Index, args);
        assert!(taken.contains(listed), "{args:?}: {taken}");
    }
    wait_until("the daemon decides", || {
        world.is_decided(Way::Daemon, &["needle"])
    });
    let walked = "the tree is walked, and";
    for args in [
        &["-u", "needle"][..],
        &["--hidden", "needle"],
        &["-L", "needle"],
        &["-g", "*.rs", "needle"],
        &["-t", "rust", "needle"],
        &["--ignore-file", "extra.ignore", "needle"],
        &["--no-ignore-dot", "needle"],
        &["--no-ignore-global", "needle"],
        &["--no-require-git", "needle"],
        &["--one-file-system", "needle"],
        &["needle", "many-link"],
        &["needle", "sub/.."],
        &["needle", "a.txt", "many"],
        &["--stats", "-g", "!*.rs", "needle"],
        &["--json", "-d", "3", "needle"],
        &["--json", "--hidden", "-g", "*.rs", "needle"],
    ] {
        let taken = world.taken(Way::Daemon, args);
        assert!(taken.contains(walked), "{args:?}: {taken}");
    }
    for args in [
        &["--hidden", "-g", "!.git", "needle"][..],
        &["--hidden", "-g", "!**/.git/**", "-l", "needle"],
        &["--files", "--hidden", "-g", "!**/.git"],
        &["--hidden", "needle", "many"],
        &["--stats", "needle"],
        &["--json", "needle"],
        &["--json", "--hidden", "-g", "!**/.git/**", "needle", "."],
        &["--hidden", "-d1", "--sort", "path", "needle"],
    ] {
        let taken = world.taken(Way::Daemon, args);
        assert!(taken.contains(listed), "{args:?}: {taken}");
    }
    for args in [
        &["-v", "needle"][..],
        &["--files-without-match", "needle"],
        &["-c", "--include-zero", "needle"],
        &["--passthru", "needle"],
        &["-U", "needle"],
        &["--null-data", "needle"],
        &["-z", "needle"],
        &["--pre", "cat", "needle"],
        &["-E", "latin1", "needle"],
        &["--no-unicode", "needle"],
        &["-a", "needle"],
        &["--binary", "needle"],
        &["-uuu", "needle"],
        &["needle", "a.txt"],
        &["needle", "build"],
        &["needle", "sub"],
        &["-S", "[^a]needle"],
        &["e+"],
        &[r"(?-u)\xE9"],
        &["--files", "--hidden"],
    ] {
        for way in [Way::Index, Way::Daemon] {
            assert!(!world.is_decided(way, args), "{args:?}");
        }
    }
    // Without a daemon, nobody knows the bytes of a search without reading all files.
    assert!(!world.is_decided(Way::Index, &["--json", "needle"]));
}

#[test]
fn a_file_below_two_typed_paths_is_searched_twice() {
    let world = World::new();
    for args in [
        &["-c", "needle|hay", ".", "many"][..],
        &["-c", "needle|hay", "many", "many"],
        // The list breaks off at the repository below `nested`, after the files of `many`.
        &["--hidden", "-c", "needle|hay", ".", "./many"],
        &["--hidden", "-c", "needle|hay", ".", "."],
        &["--hidden", "-c", "needle|hay", "./many", "."],
        &["--hidden", "-c", "-g", "!.git", "needle|hay", ".", "./many"],
    ] {
        for more in [&[][..], &["-j1"], &["-j4"]] {
            let args = [more, args].concat();
            let lines = |way: Way| -> Vec<String> {
                let output = world.rg(way, &args).output().unwrap();
                let mut lines: Vec<_> = text(&output.stdout).lines().map(Into::into).collect();
                lines.sort();
                lines
            };
            let walked = lines(Way::Walk);
            assert!(walked.len() > 80, "{args:?}: {walked:?}");
            for way in [Way::Index, Way::Daemon] {
                assert_eq!(lines(way), walked, "{way:?} {args:?}");
            }
        }
    }
}

#[test]
fn a_directory_with_the_name_of_standard_input_does_not_replace_it() {
    let world = World::new();
    let input = world.place.dir().join("input");
    fs::write(&input, "std needle\n").unwrap();
    let calls = [
        &["needle"][..],
        &["needle", "-"],
        &["-l", "needle", "-", "many"],
        &["--files", "-"],
        &["--hidden", "needle", "-", "many"],
    ];
    for way in [Way::Walk, Way::Index, Way::Daemon] {
        for args in calls {
            let mut command = world.rg(way, args);
            let output = command.stdin(fs::File::open(&input).unwrap()).output();
            let found = text(&output.unwrap().stdout).to_string();
            let is_read = found.contains("std") || found.contains("<stdin>");
            assert!(is_read, "{way:?} {args:?}: {found}");
            assert!(!found.contains("dash"), "{way:?} {args:?}: {found}");
        }
    }
}

#[test]
fn a_file_that_output_is_redirected_to_is_no_candidate() {
    let world = World::new();
    let root = world.place.root();
    for way in [Way::Walk, Way::Index, Way::Daemon] {
        let path = root.join("out.txt");
        fs::write(&path, "an old needle\n").unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        let status = world.rg(way, &["-l", "needle"]).stdout(file).status();
        assert!(status.unwrap().success(), "{way:?}");
        let found = fs::read_to_string(&path).unwrap();
        assert!(
            found.contains("a.rs") || found.contains("crlf.txt"),
            "{found}"
        );
        assert!(!found.contains("out.txt"), "{way:?}: {found}");
    }
}

#[test]
fn an_interrupt_ends_a_search_with_an_index_as_it_ends_ripgrep() {
    let world = World::new();
    // Standard input stays open, so the search does not end by itself.
    let mut child = world
        .rg(Way::Index, &["--debug", "needle", ".", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(messages.any(|line| line.unwrap().contains("an index decided")));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}

#[test]
fn a_tree_whose_rules_ripgrep_reads_differently_is_walked_but_not_read() {
    for (path, content) in [
        (".rgignore", "[z-a]\n"),
        ("many/.gitignore", "[z-a]\n"),
        ("sub/.git", "gitdir: elsewhere\n"),
    ] {
        let place = Place::empty();
        fs::create_dir_all(place.root()).unwrap();
        let tree = Tree::existing(&place.root());
        fill(&tree);
        tree.file("many/a.txt", "hay\n").file(path, content);
        ok(&place
            .command(PROGRAM, &["index", "build"])
            .output()
            .unwrap());
        let output = place
            .command(PROGRAM, &["rg", "--debug", "needle"])
            .output();
        let messages = text(&output.unwrap().stderr);
        assert!(
            messages.contains("the tree is walked, and"),
            "{path}: {messages}"
        );
    }
}
