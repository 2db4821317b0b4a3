//! The user's editor, which opens a file at a line.
//!
//! This module owns the arguments by which known editors go to a line. `exec::process` starts the
//! editor.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::exec::external::exit::Exit;
use crate::exec::process::{Invocation, on_terminal};

/// The editor if neither VISUAL nor EDITOR is set.
const USUAL: &str = "vi";

/// Opens files, each with a line to go to, and returns once the editor has ended.
///
/// # Errors
///
/// The message that the editor could not be started, or that it failed.
pub(super) fn open(editor: Option<&OsStr>, files: &[(PathBuf, u64)]) -> Result<(), String> {
    let editor = editor.unwrap_or(OsStr::new(USUAL));
    let args = shell(editor, files);
    let named = editor.to_string_lossy();
    let invocation = Invocation::new(Path::new("/bin/sh"), &args);
    match on_terminal(invocation) {
        Ok(Exit::Code(0)) => Ok(()),
        // The user interrupted the editor, or only its shell, which reports the interrupt after the
        // editor has ended.
        Ok(Exit::Code(130 | 131) | Exit::Signal(2 | 3)) => Ok(()),
        Ok(exit) => Err(format!(
            "the editor `{named}` ended with {exit}; set VISUAL or EDITOR to choose the editor"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the arguments of a shell that runs the command in VISUAL or EDITOR, such as `code -w`.
fn shell(editor: &OsStr, files: &[(PathBuf, u64)]) -> Vec<OsString> {
    let mut script = editor.to_os_string();
    script.push(" \"$@\"");
    let mut args = vec!["-c".into(), script, editor.to_os_string()];
    args.extend(at_lines(editor, files));
    args
}

/// Returns the arguments that open files at their lines. Some editors take a line only for the
/// first file. An unknown editor gets the files alone.
fn at_lines(editor: &OsStr, files: &[(PathBuf, u64)]) -> Vec<OsString> {
    let text = editor.to_string_lossy();
    let program = text.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let plus = |line: &u64| OsString::from(format!("+{line}"));
    let paths = files.iter().map(|(path, _)| path.into());
    let with_line = files.iter().map(|(path, line)| {
        let mut place = path.as_os_str().to_os_string();
        place.push(format!(":{line}"));
        place
    });
    match program {
        "nano" | "emacs" | "emacsclient" | "joe" | "mg" | "ne" => {
            let pairs = files.iter().map(|(path, line)| [plus(line), path.into()]);
            pairs.flatten().collect()
        }
        "vi" | "vim" | "nvim" | "gvim" | "view" | "pico" | "kak" | "micro" | "jed" | "mcedit"
        | "ed" => {
            let first = files.first().map(|(_, line)| plus(line));
            first.into_iter().chain(paths).collect()
        }
        "hx" | "helix" | "zed" | "subl" => with_line.collect(),
        "code" | "code-insiders" | "codium" | "cursor" | "windsurf" => [OsString::from("--goto")]
            .into_iter()
            .chain(with_line)
            .collect(),
        _ => paths.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(editor: &str) -> Vec<String> {
        told_of(editor, &[("/t/a b.rs".into(), 12)])
    }

    fn told_of(editor: &str, files: &[(PathBuf, u64)]) -> Vec<String> {
        let all = shell(OsStr::new(editor), files);
        all.into_iter()
            .map(|arg| arg.into_string().unwrap())
            .collect()
    }

    #[test]
    fn tui_editors_are_told_the_line_as_they_take_it() {
        assert_eq!(told("vim"), ["-c", "vim \"$@\"", "vim", "+12", "/t/a b.rs"]);
        assert_eq!(told("/usr/bin/nano -w")[3..], ["+12", "/t/a b.rs"]);
        assert_eq!(
            told("code -w")[1..],
            ["code -w \"$@\"", "code -w", "--goto", "/t/a b.rs:12"]
        );
        assert_eq!(told("hx")[3..], ["/t/a b.rs:12"]);
        assert_eq!(told("my-editor")[3..], ["/t/a b.rs"]);
        assert_eq!(told("")[3..], ["/t/a b.rs"]);
    }

    #[test]
    fn tui_editors_get_several_files() {
        for (editor, args) in [
            ("vim", &["+1", "a", "b"] as &[&str]),
            ("nano", &["+1", "a", "+2", "b"]),
            ("hx", &["a:1", "b:2"]),
            ("code -w", &["--goto", "a:1", "b:2"]),
            ("my-editor", &["a", "b"]),
        ] {
            let told = told_of(editor, &[("a".into(), 1), ("b".into(), 2)]);
            assert_eq!(told[3..], *args, "{editor}");
        }
    }

    #[test]
    fn tui_an_editor_that_fails_or_is_not_there_is_named() {
        let open = |editor| open(Some(OsStr::new(editor)), &[("/t/a.rs".into(), 1)]);
        assert_eq!(open("true"), Ok(()));
        assert_eq!(open("kill -INT $$; true"), Ok(()));
        let said = open("false").unwrap_err();
        assert!(said.contains("`false`"), "{said}");
        let said = open("/nonexistent/editor").unwrap_err();
        assert!(said.contains("/nonexistent/editor"), "{said}");
    }
}
