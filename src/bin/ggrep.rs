//! The `ggrep` program: runs the `forge-search` beside it under the name `ggrep`.
//!
//! The code of both programs is in `forge-search`, which looks at the name that it is called by. So
//! it is compiled and stored once. A link named `ggrep` to `forge-search` does the same.

use std::process::ExitCode;

#[cfg(unix)]
#[allow(
    clippy::disallowed_methods,
    reason = "this program does not start another one, it becomes it"
)]
fn main() -> ExitCode {
    use std::os::unix::process::CommandExt;

    let itself = match std::env::current_exe() {
        Ok(itself) => itself,
        Err(error) => {
            eprintln!("ggrep: the path of this program can't be determined: {error}");
            return ExitCode::FAILURE;
        }
    };
    let program = itself.with_file_name("forge-search");
    // Such a program would start itself for ever.
    if identity(&program).is_some_and(|other| identity(&itself) == Some(other)) {
        eprintln!(
            "ggrep: {} is ggrep itself; install forge-search there",
            program.display()
        );
        return ExitCode::FAILURE;
    }
    // Returns only if the other program can't be run.
    let error = std::process::Command::new(&program)
        .arg0("ggrep")
        .args(std::env::args_os().skip(1))
        .exec();
    eprintln!(
        "ggrep: {} can't be run: {error}; install forge-search and ggrep in one directory, or make \
         ggrep a link to forge-search",
        program.display()
    );
    ExitCode::FAILURE
}

/// Returns the numbers by which the system tells a file from others.
#[cfg(unix)]
fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("ggrep: the query daemon needs Unix sockets; use forge-search");
    ExitCode::FAILURE
}
