//! Runs the shell examples of the README and of the guide: blocks of `sh`, and of `console`, which
//! show the output too.
//!
//! Each document has a tree, a home and daemons of its own, and its commands run in their order.
//! Each command exits with 0, unless [`NOTES`] says otherwise, and prints the output that is shown.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use regex::Regex;

use super::{Block, Document, documents_below, split_blocks, tree};
use crate::daemon::program::Place;
use crate::project_files::root;
use crate::support::git;

/// A note on one example. An example without notes exits with 0.
enum Note {
    /// The command can't run in a test, for this reason. Its programs parse their arguments.
    NotRun(&'static str),
    /// The command exits with this status.
    Exits(i32),
    /// This script runs before the command.
    After(&'static str),
}

use Note::{After, Exits, NotRun};

/// Starts the daemon of the tree.
const START: &str = "forge-search serve --detach";

/// Starts the daemon of the tree, and waits until its index is ready, at most `support::GUARD`.
const SETTLE: &str = "forge-search serve --detach
tries=0
until ggrep status | grep -q '^state *idle'; do
    tries=$((tries + 1))
    test $tries -lt 6000
    sleep 0.05
done";

/// The notes on examples. Each example must exist.
const NOTES: &[(&str, Note)] = &[
    (
        "cargo install --locked --path . && forge-search 'fn main'",
        NotRun("it builds the programs; `.ci/prove` runs it"),
    ),
    (
        "cargo test --locked --no-default-features --features cli,sqlite",
        NotRun("it runs the tests"),
    ),
    (
        "sudo sysctl fs.inotify.max_user_watches=1048576",
        NotRun("it changes the machine"),
    ),
    ("forge-search serve", NotRun("it stays in the foreground")),
    (
        "forge-search serve --http 127.0.0.1:8080",
        NotRun("it stays in the foreground"),
    ),
    ("forge-search tui 'fn main'", NotRun("it needs a terminal")),
    ("ggrep status", After(SETTLE)),
    ("ggrep health", After(SETTLE)),
    ("forge-search --debug 'fn open_to_read'", After(START)),
    ("forge-search '(foo'", Exits(2)),
    ("forge-search --fuzzy 1 a", Exits(2)),
    ("forge-search --max-filesize 1K 'fn open_lock'", Exits(1)),
    ("forge-search call '{\"pattrn\": \"x\"}'", Exits(2)),
    ("forge-search -v foo", Exits(2)),
    ("forge-search -g '*.tom' xxh3", Exits(1)),
    (
        "forge-search call '{\"pattern\": \"x\", \"path\": \"/etc\"}'",
        Exits(2),
    ),
    ("forge-search --set max_result=1 foo", Exits(2)),
    (
        "echo '{\"task_id\": \"t2\", \"capability_id\": \"SEARCH_FILES\", \"target_scope\": \"docs\", \
         \"query\": \"plan\", \"max_results\": 10}' |\nforge-search execute --lease-file t1.lease -",
        Exits(1),
    ),
];

/// The languages of blocks that hold examples.
const SHELLS: [&str; 4] = ["sh", "bash", "shell", "console"];

/// A command of a document.
struct Example {
    line: usize,
    /// The command, without a comment at its end.
    command: String,
    /// The output that the document shows, if the block shows any.
    shown: Option<Vec<String>>,
}

/// Removes a comment that is set off by two spaces or more.
fn without_comment(line: &str) -> &str {
    let end = line.find("  #");
    line[..end.unwrap_or(line.len())].trim_end()
}

/// Returns true if the command goes on in the next line.
fn goes_on(command: &str) -> bool {
    command.ends_with(['|', '\\'])
}

/// Returns the examples of a block.
fn examples(block: &Block) -> Result<Vec<Example>, String> {
    let mut found: Vec<Example> = Vec::new();
    let is_console = block.language == "console";
    for (line, text) in (block.first_line..).zip(&block.lines) {
        if !is_console && (text.trim().is_empty() || text.starts_with('#')) {
            continue;
        }
        let prompt = text.strip_prefix("$ ");
        let last = found.last_mut();
        match last {
            Some(example) if goes_on(&example.command) => {
                example.command += &format!("\n{}", without_comment(text).trim_start());
            }
            Some(Example {
                shown: Some(shown), ..
            }) if prompt.is_none() => {
                shown.push(text.clone());
            }
            _ => {
                let command = if is_console {
                    prompt
                } else {
                    Some(text.as_str())
                };
                let command = command.ok_or("the block starts without a `$ `")?;
                found.push(Example {
                    line,
                    command: without_comment(command).to_string(),
                    shown: is_console.then(Vec::new),
                });
            }
        }
    }
    Ok(found)
}

/// The tree and the surroundings of one document.
pub(super) struct World {
    pub(super) place: Place,
    masks: Vec<(Regex, String)>,
    has_git: bool,
}

impl World {
    /// Makes a world with an index of its tree, which `write_tree` writes.
    fn new(write_tree: fn(&World)) -> World {
        let place = Place::empty();
        let mut world = World {
            place,
            masks: Vec::new(),
            has_git: false,
        };
        write_tree(&world);
        world.masks = masks(&world);
        let root = world.place.root();
        let commit = [
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "Add a retry",
        ];
        let inits = git(&root, &["init", "-q"]);
        world.has_git = inits.and_then(|_| git(&root, &commit)).is_ok();
        let built = world.run("forge-search index build");
        assert_eq!(built.0, Some(0), "{}", built.1);
        world
    }

    /// The directory that the documents call `/srv`.
    pub(super) fn dir(&self) -> PathBuf {
        self.place.root().parent().unwrap().to_path_buf()
    }

    /// Replaces directories that the documents name by those of this world.
    fn localize(&self, text: &str) -> String {
        let dir = self.dir();
        let dir = dir.to_str().unwrap();
        text.replace("/srv/", &format!("{dir}/"))
            .replace("/var/mail/", &format!("{dir}/mail/"))
    }

    /// Runs a command in a shell. Returns its exit status, and its output and messages in order.
    fn run(&self, command: &str) -> (Option<i32>, String) {
        let script = format!("set -e\nexec 2>&1\n{}", self.localize(command));
        let mut shell = self.place.command("sh", &["-c", &script]);
        let programs = PathBuf::from(env!("CARGO_BIN_EXE_forge-search"));
        let programs = programs.parent().unwrap().to_path_buf();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(programs).chain(std::env::split_paths(&path));
        shell.env("PATH", std::env::join_paths(path).unwrap());
        let output = shell.stderr(Stdio::inherit()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    }

    /// Replaces the parts of an output that differ between runs.
    fn mask(&self, line: &str) -> String {
        let mut line = line.to_string();
        for (part, with) in &self.masks {
            line = part.replace_all(&line, with).into_owned();
        }
        line
    }

    /// Compares an output with the lines that a document shows. `…` stands for any lines.
    fn compare(&self, shown: &[String], output: &str) -> Result<(), String> {
        let actual: Vec<String> = output.lines().map(|line| self.mask(line)).collect();
        let mut rest = actual.as_slice();
        let mut may_skip = false;
        for line in shown {
            if line.trim() == "…" {
                may_skip = true;
                continue;
            }
            let expected = self.mask(line);
            let at = rest.iter().position(|line| *line == expected);
            match at {
                Some(at) if at == 0 || may_skip => rest = &rest[at + 1..],
                _ => {
                    return Err(format!(
                        "no line `{expected}` at its place in:\n{}",
                        actual.join("\n")
                    ));
                }
            }
            may_skip = false;
        }
        match rest.first() {
            Some(line) if !may_skip => Err(format!("the line `{line}` is not shown")),
            _ => Ok(()),
        }
    }

    /// Lets the programs of a command parse their arguments, and nothing else.
    fn parse(&self, command: &str) -> Result<(), String> {
        let separators = Regex::new(r" (?:&&|\||--) |; ").unwrap();
        for call in separators.split(command) {
            let program = call.split(' ').next().unwrap_or_default();
            if !["forge-search", "ggrep"].contains(&program) {
                continue;
            }
            let (status, output) = self.run(&format!("{call} --help"));
            if status != Some(0) {
                return Err(output);
            }
        }
        Ok(())
    }

    /// Runs an example and checks it. Returns its output.
    fn check(&self, example: &Example) -> Result<String, String> {
        let command = example.command.as_str();
        let mut expected = 0;
        for (_, note) in NOTES.iter().filter(|(noted, _)| *noted == command) {
            match note {
                NotRun(reason) => {
                    let parsed = self.parse(command).map(|()| String::new());
                    return parsed.map_err(|fault| format!("not run, as {reason}: {fault}"));
                }
                Exits(status) => expected = *status,
                After(before) => {
                    let (status, output) = self.run(before);
                    assert_eq!(status, Some(0), "{before}: {output}");
                }
            }
        }
        if command.starts_with("git ") && !self.has_git {
            return Ok(String::new());
        }
        let (status, output) = self.run(command);
        if status != Some(expected) {
            return Err(format!("exits with {status:?}, not {expected}:\n{output}"));
        }
        if let Some(shown) = &example.shown {
            self.compare(shown, &output)?;
        }
        Ok(output)
    }

    /// Takes a block as the configuration of the examples that follow. The key in it is the one
    /// that the last command printed.
    fn configure(&self, block: &Block, printed: &str) -> Result<(), String> {
        let text = self.localize(&block.lines.join("\n"));
        let text = text.replace("k4.public.…", printed.trim());
        let dir = self.dir().join("config/forge-search");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("config.toml"), text).unwrap();
        let (status, output) = self.run("forge-search --files");
        if status == Some(0) {
            Ok(())
        } else {
            Err(output)
        }
    }
}

/// Returns the parts of outputs that differ between runs, each with its replacement.
fn masks(world: &World) -> Vec<(Regex, String)> {
    let dir = world.dir();
    let dir = regex::escape(dir.to_str().unwrap());
    [
        (format!("{dir}/cache"), "/home/ada/.cache"),
        (format!("{dir}/run"), "/run/user/1000"),
        (format!("{dir}/mail"), "/var/mail"),
        (dir, "/srv"),
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)".into(),
            "TIME",
        ),
        (r"\d+ seconds? ago".into(), "AGO"),
        (r"(elapsed_ms\W+)\d+".into(), "${1}N"),
        (r"k4\.(public|pid)\.[\w-]{9,}".into(), "k4.$1.KEY"),
        (r"[0-9a-f]{16,}".into(), "HASH"),
        (r"[\d.]+ [kM]B".into(), "SIZE"),
        (r"(index\s+|with )\d+ bytes".into(), "${1}SIZE"),
        (r"[\d.]+ % of".into(), "PART of"),
        (r"(manifest|, of) \d+".into(), "$1 N"),
        (r"^(\s*(pid|time|version)\s+)[\d.]+".into(), "${1}N"),
        (r"\b[\d.]+ (s|ms|µs)\b".into(), "TIME"),
    ]
    .map(|(part, with): (String, &str)| (Regex::new(&part).unwrap(), with.to_string()))
    .into()
}

/// Runs the examples of a document in order. Returns the commands, and a sentence for each fault.
fn run(document: &Document) -> (Vec<String>, Vec<String>) {
    let (blocks, _) = split_blocks(&document.text);
    let write_tree = match document.path == "README.md" {
        true => tree::write_for_readme,
        false => tree::write_for_guide,
    };
    let (mut commands, mut faults) = (Vec::new(), Vec::new());
    let mut fault = |line: usize, fault: &str| {
        faults.push(format!("{}:{line}: {fault}", document.path));
    };
    let mut world = None;
    let mut printed = String::new();
    for block in blocks {
        let line = block.first_line;
        if SHELLS.contains(&block.language.as_str()) {
            let world = world.get_or_insert_with(|| World::new(write_tree));
            let found = examples(&block).unwrap_or_else(|error| {
                fault(line, &error);
                Vec::new()
            });
            for example in found {
                match world.check(&example) {
                    Ok(output) => printed = output,
                    Err(error) => fault(example.line, &format!("{}: {error}", example.command)),
                }
                commands.push(example.command);
            }
        } else if block.lines.iter().any(|line| line.starts_with("$ ")) {
            fault(line, "the language of a block with a `$ ` is `console`");
        } else if let (Some(world), "toml") = (&world, block.language.as_str())
            && let Err(error) = world.configure(&block, &printed)
        {
            fault(line, &error);
        }
    }
    (commands, faults)
}

#[test]
fn every_shell_example_of_the_readme_and_the_guide_runs_as_shown() {
    let mut documents = documents_below("docs/guide");
    documents.push(Document::read("README.md"));
    let ran: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = documents
            .iter()
            .map(|document| scope.spawn(|| run(document)))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let (commands, faults): (Vec<_>, Vec<_>) = ran.into_iter().unzip();
    let (commands, mut faults) = (commands.concat(), faults.concat());
    for (command, _) in NOTES {
        if !commands.iter().any(|known| known == command) {
            faults.push(format!("no document has the example `{command}` any more"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n\n"));
    assert!(
        commands.len() > 60,
        "only {} examples were found",
        commands.len()
    );
}

/// Runs the examples of a text, and returns the faults, each without the output of the command.
fn faults_of(text: &str) -> Vec<String> {
    let document = Document {
        path: "guide.md".to_string(),
        text: text.to_string(),
    };
    let (_, faults) = run(&document);
    let first = |fault: String| fault.lines().next().unwrap_or_default().to_string();
    faults.into_iter().map(first).collect()
}

#[test]
fn examples_that_do_not_hold_are_faults() {
    let right = "```console\n$ forge-search -c needle src tests |\n  cat  # counts\n\
        src/lib.rs:1\n…\n```\n```sh\n# Two:\n\nforge-search retry; forge-search foo  # both\n```\n";
    assert_eq!(faults_of(right), [""; 0]);
    let wrong = "```sh\nforge-search --no-flag x\nforge-search n_o_w_h_e_r_e; forge-search foo\n```\n\
        ```console\n$ forge-search -l kmalloc_array\nsrc/lib.rs\n$ forge-search -l kmalloc_array\n\
        $ forge-search -l retry\ntests/once.py\n```\n```console\nsrc/lib.rs\n```\n\
        ```text\n$ forge-search x\n```\n```toml\n[tools.search]\nno_key = 1\n```\n";
    let expected = [
        "guide.md:2: forge-search --no-flag x: exits with Some(2), not 0:",
        "guide.md:3: forge-search n_o_w_h_e_r_e; forge-search foo: exits with Some(1), not 0:",
        "guide.md:6: forge-search -l kmalloc_array: no line `src/lib.rs` at its place in:",
        "guide.md:8: forge-search -l kmalloc_array: the line `drivers/sched.c` is not shown",
        "guide.md:9: forge-search -l retry: no line `tests/once.py` at its place in:",
        "guide.md:13: the block starts without a `$ `",
        "guide.md:16: the language of a block with a `$ ` is `console`",
    ];
    let found = faults_of(wrong);
    assert_eq!(found[..expected.len()], expected);
    assert_eq!(found.len(), expected.len() + 1, "{found:?}");
    assert!(found[expected.len()].contains("no_key"), "{found:?}");
}

/// Returns the faults of the lines that blocks of `text` show of a file, as an agent gets them: the
/// path, and then lines with their numbers.
fn faults_of_shown_lines(
    document: &Document,
    text_of: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let (blocks, _) = split_blocks(&document.text);
    let shown = Regex::new(r"^(\d+)[:-](.*)$").unwrap();
    let mut faults = Vec::new();
    for block in blocks.iter().filter(|block| block.language == "text") {
        let mut text = String::new();
        for (number, line) in (block.first_line..).zip(&block.lines) {
            let Some(parts) = shown.captures(line) else {
                text = text_of(line).unwrap_or_default();
                continue;
            };
            let at: usize = parts[1].parse().unwrap();
            if text.lines().nth(at.saturating_sub(1)) != Some(&parts[2]) {
                faults.push(format!("{}:{number}: no file has `{line}`", document.path));
            }
        }
    }
    faults
}

#[test]
fn lines_of_the_project_that_the_readme_shows_stand_there() {
    let readme = Document::read("README.md");
    let text_of = |path: &str| fs::read_to_string(root().join(path)).ok();
    assert_eq!(faults_of_shown_lines(&readme, &text_of), [""; 0]);
    let wrong = Document {
        path: "a.md".to_string(),
        text: "```text\na.rs\n2:b\n2:c\nb.rs\n2-b\n[note]\n```\n".to_string(),
    };
    let text_of = |path: &str| (path == "a.rs").then(|| "a\nb\n".to_string());
    assert_eq!(
        faults_of_shown_lines(&wrong, &text_of),
        ["a.md:4: no file has `2:c`", "a.md:6: no file has `2-b`"]
    );
}

#[test]
fn commands_that_are_not_run_have_flags_that_exist() {
    let world = World::new(tree::write_for_guide);
    for (command, is_known) in [
        ("cargo install x && forge-search serve --detach", true),
        ("cargo install x && forge-search serve --no-flag", false),
        ("claude mcp add x -- forge-search mcp --no-flag", false),
        ("true | ggrep --mode debug x", true),
        ("true; ggrep --mode none x", false),
    ] {
        assert_eq!(world.parse(command).is_ok(), is_known, "{command}");
    }
}
