//! Standard input: when a search reads it, and when it searches the working directory instead.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use crate::cli::{command, forge_search};

/// The path of the program, for scripts.
const PROGRAM: &str = env!("CARGO_BIN_EXE_forge-search");

/// The output of a search of the tree.
const OF_TREE: &str = "file.txt:1:3:a needle in a file\n";

const BESIDE_A_PIPE: &str = "standard input is a pipe without data";

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("file.txt"), "a needle in a file\n").unwrap();
    tree
}

/// Runs a script in a shell whose standard input is `/dev/null`.
fn script(dir: &Path, text: &str) -> (i32, String, String) {
    let text = text.replace("SEARCH", &format!("'{PROGRAM}'"));
    told(command("bash", dir).args(["-c", &text]).output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap();
    (status, text(output.stdout), text(output.stderr))
}

#[test]
fn a_search_beside_a_pipe_of_a_shell_is_of_the_pipe() {
    let tree = tree();
    let dir = tree.path();
    let found = (0, "2:3:a needle of a pipe\n".to_string(), String::new());
    let pipe = "printf 'x\\na needle of a pipe\\n'";
    assert_eq!(script(dir, &format!("{pipe} | SEARCH needle")), found);
    // The data arrives late.
    let slow = format!("(sleep 0.3; {pipe}) | SEARCH needle");
    assert_eq!(script(dir, &slow), found);
    // A subshell and a script inherit the pipe.
    assert_eq!(script(dir, &format!("{pipe} | (SEARCH needle)")), found);
    let inner = format!("{pipe} | bash -c \"SEARCH needle; true\"");
    assert_eq!(script(dir, &inner), found);
    assert_eq!(script(dir, &format!("{pipe} | SEARCH absent")).0, 1);
    // With a path, the path is searched and not the pipe.
    let of_tree = (0, format!("./{OF_TREE}"), String::new());
    assert_eq!(script(dir, &format!("{pipe} | SEARCH needle .")), of_tree);
    let with_pattern = format!("{pipe} | SEARCH -e needle file.txt");
    assert_eq!(script(dir, &with_pattern).1, OF_TREE);
}

#[test]
fn lines_of_a_pipe_come_as_they_are_found() {
    let tree = tree();
    let mut search = forge_search(tree.path())
        .args(["needle", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = search.stdin.take().unwrap();
    stdin.write_all(b"the first needle\n").unwrap();
    let mut first = vec![0; "1:11:the first needle\n".len()];
    // This read returns while the pipe is still open.
    search
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert_eq!(first, b"1:11:the first needle\n");
    stdin.write_all(b"another needle\n").unwrap();
    drop(stdin);
    let (status, rest, _) = told(search.wait_with_output().unwrap());
    assert_eq!((status, rest.as_str()), (0, "2:9:another needle\n"));
}

#[test]
fn data_beside_a_named_root_is_not_searched_and_that_is_said() {
    let tree = tree();
    let dir = tree.path();
    let top = dir.parent().unwrap();
    let search = format!("SEARCH needle --root '{}'", dir.display());
    let unread = "standard input is not searched, since --root names a directory; give - to search";
    let of_root = format!("{}/{OF_TREE}", dir.display());
    let of_root = of_root.trim_start_matches(&format!("{}/", top.display()));
    for (text, is_said) in [
        ("echo a needle | SEARCH", true),
        ("SEARCH <FILE", true),
        ("SEARCH <<<needle", true),
        // No message where the script may read the inherited input itself, or where the input is
        // empty.
        ("for x in 1; do SEARCH; done <FILE", false),
        ("echo a needle | bash -c \"SEARCH; true\"", false),
        ("true | SEARCH", false),
        ("SEARCH </dev/null", false),
        ("echo a needle | SEARCH --no-messages", false),
    ] {
        let file = dir.join("file.txt");
        let text = text.replace("FILE", file.to_str().unwrap());
        let (status, out, err) = script(top, &text.replace("SEARCH", &search));
        assert_eq!((status, out.as_str()), (0, of_root), "{text}");
        assert_eq!(err.contains(unread), is_said, "{text}: {err}");
        assert_eq!(err.lines().count(), usize::from(is_said), "{err}");
    }
    // With `-`, standard input is searched.
    let named = script(top, &format!("echo a needle | {search} -"));
    assert_eq!(named, (0, "1:3:a needle\n".to_string(), String::new()));
}

#[test]
fn an_empty_pipe_of_a_shell_is_no_answer_about_the_tree() {
    let tree = tree();
    let (status, out, err) = script(tree.path(), "true | SEARCH needle");
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        err.contains("empty") && err.contains("name a path"),
        "{err}"
    );
    // With `-`, an empty standard input is searched, without an error.
    let named = script(tree.path(), "true | SEARCH needle -");
    assert_eq!(named, (1, String::new(), String::new()));
}

#[test]
fn a_search_without_a_pipe_is_of_the_working_directory() {
    let tree = tree();
    let of_tree = (0, OF_TREE.to_string(), String::new());
    for redirected in ["</dev/null", "<&-", "-- needle </dev/null"] {
        let text = format!("SEARCH needle {redirected}").replace("needle --", "--");
        assert_eq!(script(tree.path(), &text), of_tree, "{redirected}");
    }
    let (status, out, _) = script(tree.path(), "SEARCH needle <file.txt");
    assert_eq!((status, out.as_str()), (0, "1:3:a needle in a file\n"));
}

/// Starts a command with a pipe as standard input, to which nothing is written.
fn beside_a_silent_pipe(dir: &Path, program: &str, args: &[&str]) -> Child {
    command(program, dir)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_silent_pipe_of_a_program_neither_hangs_nor_hides_the_tree() {
    let tree = tree();
    let dir = tree.path();
    for closes in [false, true] {
        // A program that another test starts has a copy of the pipe for a moment.
        let until_closed = match closes {
            true => "until read -t 0; do sleep 0.01; done; ",
            false => "",
        };
        let in_shell = format!("{until_closed}'{PROGRAM}' needle; true");
        let mut direct = beside_a_silent_pipe(dir, PROGRAM, &["needle"]);
        let held = direct.stdin.take().filter(|_| !closes);
        let (status, out, err) = told(direct.wait_with_output().unwrap());
        assert_eq!((status, out.as_str()), (0, OF_TREE), "closes: {closes}");
        assert!(err.contains(BESIDE_A_PIPE), "{err}");
        drop(held);
        // The shell of an agent inherits the pipe from the agent.
        let mut shell = beside_a_silent_pipe(dir, "bash", &["-c", &in_shell]);
        let held = shell.stdin.take().filter(|_| !closes);
        let (status, out, err) = told(shell.wait_with_output().unwrap());
        assert_eq!((status, out.as_str()), (0, OF_TREE), "closes: {closes}");
        // A pipe that the agent keeps open has no meaning. A closed pipe may have been meant as
        // input, so the program mentions it.
        assert_eq!(err.contains(BESIDE_A_PIPE), closes, "{err}");
        drop(held);
    }
    let quiet = beside_a_silent_pipe(dir, PROGRAM, &["--no-messages", "needle"]);
    assert_eq!(told(quiet.wait_with_output().unwrap()).2, "");
}

#[cfg(target_os = "linux")]
#[test]
fn data_of_a_program_is_searched() {
    let tree = tree();
    let mut search = beside_a_silent_pipe(tree.path(), PROGRAM, &["needle", "-"]);
    let mut stdin = search.stdin.take().unwrap();
    stdin.write_all(b"a needle of a program\n").unwrap();
    drop(stdin);
    let (status, out, err) = told(search.wait_with_output().unwrap());
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(out, "1:3:a needle of a program\n");
}

#[test]
fn standard_input_has_every_form_of_output() {
    let tree = tree();
    let dir = tree.path();
    let of = |flags: &str| {
        script(
            dir,
            &format!("printf 'a needle\\nx\\nneedle needle\\n' | SEARCH {flags} needle"),
        )
    };
    for (flags, expected) in [
        ("-l", "<stdin>\n"),
        ("-c", "2\n"),
        ("--count-matches", "3\n"),
        ("-o", "1:3:needle\n3:1:needle\n3:8:needle\n"),
        ("-m1", "1:3:a needle\n"),
        ("-A1 -m1", "1:3:a needle\n2-x\n"),
        (
            "--max-results 1",
            "1:3:a needle\n[truncated: more than --max-results 1 results exist; further files were not searched. Narrow the search, or raise --max-results (0 shows all)]\n",
        ),
        ("-q", ""),
        ("-N", "a needle\nneedle needle\n"),
    ] {
        let (status, out, err) = of(flags);
        assert_eq!((status, err.as_str()), (0, ""), "{flags}");
        assert_eq!(out, expected, "{flags}");
    }
    let (_, out, _) = of("--json");
    assert_eq!(out.lines().count(), 3, "{out}");
    assert!(out.contains("\"text\":\"<stdin>\""), "{out}");
}

#[test]
fn binary_and_undecodable_input_is_treated_as_in_a_named_file() {
    let tree = tree();
    let dir = tree.path();
    let (status, out, _) = script(dir, "printf 'x\\0 needle\\n' | SEARCH needle");
    assert_eq!(status, 0);
    assert_eq!(out, "binary file matches (found a zero byte at offset 1)\n");
    let text = "printf '\\377 needle\\n' | SEARCH needle | od -An -tx1";
    let (_, out, _) = script(dir, text);
    assert!(out.contains(" ff 20 6e"), "{out}");
}

#[test]
fn commands_do_not_run_in_a_pipe_they_do_not_read() {
    let tree = tree();
    let dir = tree.path();
    for word in ["serve", "index", "man", "doctor", "schema", "completions"] {
        let (status, out, err) = script(dir, &format!("echo a {word} here | SEARCH {word}"));
        assert_eq!((status, out.as_str()), (2, ""), "{word}");
        assert!(err.contains(&format!("forge-search -e {word}")), "{err}");
        let found = script(dir, &format!("echo a {word} here | SEARCH -e {word}"));
        assert_eq!((found.0, found.2.as_str()), (0, ""), "{word}");
        assert_eq!(found.1, format!("1:3:a {word} here\n"));
    }
    // `call` reads standard input, and `schema` here gets an empty one.
    let (status, out, _) = script(dir, "echo '{\"pattern\": \"needle\"}' | SEARCH call");
    assert!(status == 0 && out.contains("file.txt"), "{out}");
    assert_eq!(script(dir, "echo x | SEARCH schema </dev/null").0, 0);
    // A pipe from a program that starts the command is no shell pipeline, so `schema` runs.
    let schema = beside_a_silent_pipe(dir, PROGRAM, &["schema"]);
    assert_eq!(told(schema.wait_with_output().unwrap()).0, 0);
}
