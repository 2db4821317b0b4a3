//! Compares generated calls of ripgrep's command line with ripgrep 15: the same output, exit status
//! and messages.
//!
//! The order of files is not fixed without `--sort`, so lines are sorted before they are compared.
//! Times differ, and so do the hints behind an error. `FORGE_SEARCH_TEST_RG_CALLS` is the number of
//! calls.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use forge_search::internal::exec::external::detect::Tool;
use regex::bytes::Regex;

use crate::differential::Seeded;
use crate::peers::peers;
use crate::rg::rg;
use crate::skipped::skipped;
use crate::support::Tree;

/// The number of calls without `FORGE_SEARCH_TEST_RG_CALLS`.
const CALLS: usize = 1000;

/// The seed of the calls.
const SEED: u64 = 15;

const PATTERNS: &[&str] = &[
    "foo",
    "Foo",
    "FOO",
    "fo+",
    r"\bfoo\b",
    "привет",
    "Привет",
    "strasse",
    "ß",
    "k",
    "s",
    "ς",
    "^",
    "$",
    "",
    ".",
    "a.c",
    "foo|bar",
    "(f)(o)(o)",
    "(?P<first>f)oo",
    "x*",
    "[[:upper:]]+",
    r"\w+",
    r"\s$",
    r"\x00",
    r"foo\nbar",
    "foo$",
    "^bar",
    r"(?s)bar.*foo",
    "needle",
    "(",
    ")(",
    r"\d{2,}",
    "(?i)FOO",
    "é",
    r"\p{Greek}",
    "[^a]b",
    r"\r",
    r"bar\r$",
    "-foo",
    "absent text",
    r"(?-u)\xE9",
    "foo(?:bar)?",
    r"^\s*fn ",
    r"\n",
];

/// Flags and their values, separated by blanks.
///
/// `--pre` gets small files only: of a long output with a NUL byte, the part that ripgrep reads
/// before it notices depends on the speed of the program.
const FLAGS: &[&str] = &[
    "-i",
    "-s",
    "-S",
    "-w",
    "-x",
    "-F",
    "-v",
    "--no-invert-match",
    "-c",
    "-l",
    "-o",
    "-n",
    "-N",
    "-H",
    "-I",
    "-b",
    "-p",
    "-q",
    "-a",
    "-u",
    "-uu",
    "-uuu",
    "-.",
    "-L",
    "-z",
    "-0",
    "-U",
    "--files-without-match",
    "--count-matches",
    "--column",
    "--no-column",
    "--heading",
    "--no-heading",
    "--json",
    "--no-json",
    "--vimgrep",
    "--color=always",
    "--color never",
    "--color=ansi",
    "--colors=match:fg:blue",
    "--colors=path:none",
    "-A1",
    "-B 2",
    "-C1",
    "-C 9",
    "--passthru",
    "-m1",
    "-m 2",
    "-m0",
    "-M10",
    "-M 30",
    "-M20 --max-columns-preview",
    "--null-data",
    "--crlf",
    "--no-crlf",
    "-U --multiline-dotall",
    "-r X",
    "-r <$1>",
    "-r ${first}!",
    "--trim",
    "--binary",
    "--no-ignore",
    "--no-ignore-vcs",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--no-require-git",
    "--ignore-file extra.ignore",
    "--no-ignore-files",
    "--ignore-file-case-insensitive",
    "-g *.txt",
    "-g !*.txt",
    "-g sub/**",
    "-g /a.txt",
    "-g !sub",
    "-g !* -g /sub -g /sub/**",
    "-g *.log",
    "--iglob *.TXT",
    "--glob-case-insensitive -g *.RS",
    "-d1",
    "--max-depth 2",
    "--max-filesize 100",
    "--max-filesize 1K",
    "-t rust",
    "-T rust",
    "-t txt -T rust",
    "--type-add web:*.{txt,rs} -t web",
    "--type-clear rust",
    "--one-file-system",
    "--stats",
    "--sort path",
    "--sortr path",
    "--sort modified",
    "--sortr=modified",
    "--sort none",
    "--sort-files",
    "-j1",
    "-j2",
    "-j 4",
    "--mmap",
    "--no-mmap",
    "-E utf-16le",
    "-E latin1",
    "-E none",
    "-E utf-8",
    "--no-encoding",
    "--no-unicode",
    "--unicode",
    "--context-separator=##",
    "--no-context-separator",
    "--field-match-separator=|",
    r"--field-context-separator=\t",
    "--path-separator=+",
    "--include-zero",
    "--stop-on-nonmatch",
    "--no-messages",
    "--files",
    "--hyperlink-format=file://{path}:{line}:{column}",
    "-f patterns",
    "-e extra",
    "-e foo",
    "--line-buffered",
    "--block-buffered",
    "--regex-size-limit=1M",
    "--dfa-size-limit=1K",
    "--engine=auto",
    "--engine=default",
    "--no-ignore-messages",
    "--pre ./upper --pre-glob *.{rs,txt}",
    "--no-pre",
    "--pre ./upper --pre-glob *.txt",
    "--no-config",
    "--no-hidden",
    "--ignore",
    "--no-follow",
    "-A",
    "--bogus",
    "--sort=bogus",
    "-g {",
    "-t bogus",
    "-E bogus",
    "-f missing",
];

const PATHS: &[&str] = &[
    "a.txt",
    "crlf.txt",
    "binary-early",
    "binary-late",
    "latin1.txt",
    "utf16.txt",
    "nul-data",
    "empty",
    "packed.gz",
    "sub",
    "sub/",
    "./sub",
    ".",
    "./",
    "sub/../a.txt",
    ".hidden",
    "link",
    "dir-link",
    "dangling",
    "missing",
    "-",
    "sub/b.rs",
    "ignored.log",
    "sub/deep",
    "long.txt",
];

const STDIN: &[u8] = b"foo on standard input\nbar\nneedle foo\n";

/// A generated call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) args: Vec<String>,
    pub(crate) has_stdin: bool,
}

impl Call {
    pub(crate) fn new(rng: &mut Seeded) -> Call {
        let mut args = Vec::new();
        for _ in 0..rng.below(6) {
            args.extend(rng.pick(FLAGS).split(' ').map(str::to_string));
        }
        let pattern = rng.pick(PATTERNS).to_string();
        match rng.below(8) {
            0 => {}
            1 => args.extend(["-e".to_string(), pattern]),
            2 => args.extend(["--".to_string(), pattern]),
            _ => args.insert(rng.below(args.len() + 1), pattern),
        }
        if rng.one_in(2) {
            for _ in 0..1 + rng.below(3) {
                args.push(rng.pick(PATHS).to_string());
            }
        }
        Call {
            args,
            has_stdin: rng.one_in(5),
        }
    }

    fn run(&self, mut command: Command, dir: &Path) -> Output {
        command
            .args(&self.args)
            .current_dir(dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir);
        self.output(&mut command)
    }

    /// Runs a command that has the arguments, with standard input if the call has one.
    pub(crate) fn output(&self, command: &mut Command) -> Output {
        let stdin = match self.has_stdin {
            true => Stdio::piped(),
            false => Stdio::null(),
        };
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            // A call that doesn't read standard input closes it.
            let _ = stdin.write_all(STDIN);
        }
        child.wait_with_output().unwrap()
    }

    fn has(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg == flag)
    }
}

/// Returns the output in the form in which it is compared.
pub(crate) fn comparable(call: &Call, output: &Output) -> (Option<i32>, Vec<u8>, Vec<u8>) {
    let times = Regex::new(
        r#""elapsed(?:_total)?":\{[^}]*\}|[0-9.]+ seconds|"human":"[^"]*"|"(?:nanos|secs)":\d+"#,
    );
    let out = times.unwrap().replace_all(&output.stdout, &b"TIME"[..]);
    let hint = Regex::new("(?s)\n\n(?:Consider|similar flags).*").unwrap();
    let err = match call.has("-q") {
        // The search ends at the first match, before some of the errors.
        true => Vec::new(),
        false => hint.replace(&output.stderr, &b""[..]).into_owned(),
    };
    (output.status.code(), sorted(&out), sorted(&err))
}

/// Sorts lines. With `--null-data` they end with NUL.
fn sorted(text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = text.split(|byte| matches!(byte, b'\n' | 0)).collect();
    lines.sort_unstable();
    lines.join(&b'\n')
}

fn tree() -> Tree {
    let tree = Tree::new();
    fill(&tree);
    tree
}

/// Adds every kind of file that ripgrep treats in its own way.
pub(crate) fn fill(tree: &Tree) {
    let filler = "filler line\n".repeat(7000);
    let utf16 = "\u{feff}foo\nbar foo\nПривет\n".encode_utf16();
    let utf16: Vec<u8> = utf16.flat_map(u16::to_le_bytes).collect();
    tree.file(
        "a.txt",
        "foo bar\nFoo Bar\n  foobar\nПривет, привет\nStraße STRASSE strasse\nkelvin \u{212a} long \
         \u{17f}\nabc a.c\n-foo\n12 345\nΣίσυφος\n",
    )
    .file("crlf.txt", "foo\r\nbar\r\nfoo bar\r\n\r\nneedle\r")
    .file(
        "long.txt",
        format!("{}foo{}\nshort foo\n", "x".repeat(90), "y".repeat(90)),
    )
    .file("binary-early", b"foo\0bar\nneedle foo\n")
    .file(
        "binary-late",
        format!("foo\n{filler}foo \0 needle\nfoo\n{filler}foo\n"),
    )
    .file(
        "late.bin",
        format!("{filler}foo\n{filler}bar \0 x\nneedle\n"),
    )
    .file("latin1.txt", b"caf\xe9 foo\nna\xefve\n")
    .file("utf16.txt", utf16)
    .file("nul-data", b"foo\0bar\nfoo\0needle\0")
    .file("empty", "")
    .file("no-line-end", "bar\nfoo")
    .file("patterns", "foo\nbar+\nneedle\nfoo\n")
    .file("extra.ignore", "A.TXT\nsub/deep\n")
    .file("ignored.log", "foo in a log\n")
    .file("excluded.tmp", "foo excluded\n")
    .file(".hidden/file.txt", "foo hidden\n")
    .file(".gitignore", "*.log\n/build/\n")
    .file(".ignore", "*.dot\n!important.dot\n")
    .file(".rgignore", "*.rgdot\n[\n")
    .file(".git/info/exclude", "*.tmp\n")
    .file(".git/HEAD", "ref: refs/heads/main\n")
    .file("x.dot", "foo dot\n")
    .file("important.dot", "foo important\n")
    .file("x.rgdot", "foo rgdot\n")
    .file("build/out.txt", "foo built\n")
    .file(
        "sub/b.rs",
        "fn foo() {\n    bar();\n}\n\nfn needle() -> u32 {\n    12\n}\n",
    )
    .file("sub/B.RS", "fn Foo() {}\n")
    .file("sub/.gitignore", "!keep.log\nnothing\n")
    .file("sub/keep.log", "foo kept\n")
    .file("sub/.hidden", "foo hidden\n")
    .file("sub/.dots.", "foo dots\n")
    .file("sub/...", "foo three dots\n")
    .file(
        "sub/deep/c.py",
        "def foo():\n    return 'bar'\n# foo\n# foo\n\n\n\n# foo\n",
    )
    .file("sub/deep/other/d.txt", "foo\nbar\nfoo\n")
    .link("link", "a.txt")
    .link("dir-link", "sub")
    .link("dangling", "nowhere");
    crate::support::write_script(&tree.path("upper"), "tr a-z A-Z");
    let packed = Command::new("gzip")
        .arg("-c")
        .arg(tree.path("a.txt"))
        .output();
    fs::write(tree.path("packed.gz"), packed.unwrap().stdout).unwrap();
}

/// Returns a ripgrep with the version that this program has as `rg`.
fn ripgrep_15() -> Option<PathBuf> {
    let found = peers(Tool::Ripgrep)
        .into_iter()
        .find(|detected| detected.version.major == 15);
    if found.is_none() {
        skipped("there is no ripgrep 15; FORGE_SEARCH_TEST_RG15 names one");
    }
    found.map(|detected| detected.path)
}

#[test]
fn generated_calls_are_answered_as_by_ripgrep() {
    let Some(ripgrep) = ripgrep_15() else {
        return;
    };
    let calls = std::env::var("FORGE_SEARCH_TEST_RG_CALLS");
    let calls = calls.map_or(CALLS, |calls| calls.parse().unwrap());
    let tree = tree();
    let mut rng = Seeded::new(SEED);
    let mut wrong = Vec::new();
    for n in 0..calls {
        let call = Call::new(&mut rng);
        let expected = comparable(&call, &call.run(Command::new(&ripgrep), tree.root()));
        let found = comparable(&call, &call.run(rg(), tree.root()));
        if expected != found {
            let text = |(code, out, err): &(Option<i32>, Vec<u8>, Vec<u8>)| {
                let cut = |text: &[u8]| -> String {
                    String::from_utf8_lossy(text).chars().take(600).collect()
                };
                format!("{code:?}\n{}\n{}", cut(out), cut(err))
            };
            let (expected, found) = (text(&expected), text(&found));
            wrong.push(format!(
                "call {n}: {call:?}\nripgrep: {expected}\nfound: {found}\n"
            ));
        }
    }
    let count = wrong.len();
    wrong.truncate(8);
    assert!(
        count == 0,
        "{count} of {calls} calls differ\n{}",
        wrong.join("\n")
    );
}
