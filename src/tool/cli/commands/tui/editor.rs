//! The user's editor, which opens a file at a line.
//!
//! Owns the arguments by which known editors go to a line. `exec::process` starts the editor.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::exec::external::exit::Exit;
use crate::exec::process::{Invocation, on_terminal};

/// The editor if neither VISUAL nor EDITOR is set.
const USUAL: &str = "vi";

/// Opens a file at a line, and returns once the editor has ended.
///
/// # Errors
///
/// The message that the editor could not be started, or that it failed.
pub(super) fn open(editor: Option<&OsStr>, path: &Path, line: u64) -> Result<(), String> {
    let editor = editor.unwrap_or(OsStr::new(USUAL));
    let args = shell(editor, path, line);
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
fn shell(editor: &OsStr, path: &Path, line: u64) -> Vec<OsString> {
    let mut script = editor.to_os_string();
    script.push(" \"$@\"");
    let mut args = vec!["-c".into(), script, editor.to_os_string()];
    args.extend(at_line(editor, path, line));
    args
}

/// Returns the arguments that open a file at a line. An unknown editor gets the file alone.
fn at_line(editor: &OsStr, path: &Path, line: u64) -> Vec<OsString> {
    let text = editor.to_string_lossy();
    let program = text.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let with_line = || {
        let mut place = path.as_os_str().to_os_string();
        place.push(format!(":{line}"));
        place
    };
    match program {
        "vi" | "vim" | "nvim" | "gvim" | "nano" | "pico" | "emacs" | "emacsclient" | "kak"
        | "micro" | "joe" | "mg" | "ne" | "jed" | "mcedit" | "view" | "ed" => {
            vec![format!("+{line}").into(), path.into()]
        }
        "hx" | "helix" | "zed" | "subl" => vec![with_line()],
        "code" | "code-insiders" | "codium" | "cursor" | "windsurf" => {
            vec!["--goto".into(), with_line()]
        }
        _ => vec![path.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(editor: &str) -> Vec<String> {
        let all = shell(OsStr::new(editor), Path::new("/t/a b.rs"), 12);
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
    fn tui_an_editor_that_fails_or_is_not_there_is_named() {
        let open = |editor| open(Some(OsStr::new(editor)), Path::new("/t/a.rs"), 1);
        assert_eq!(open("true"), Ok(()));
        assert_eq!(open("kill -INT $$; true"), Ok(()));
        let said = open("false").unwrap_err();
        assert!(said.contains("`false`"), "{said}");
        let said = open("/nonexistent/editor").unwrap_err();
        assert!(said.contains("/nonexistent/editor"), "{said}");
    }
}
