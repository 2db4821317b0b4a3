//! The program's help: the short screen for `-h`, and manual pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Failure;
use super::args::Cli;
use crate::tool::error::ToolError;

/// The help that fits on one screen.
pub(super) const SCREEN: &str = "\
forge-search: exact, ordered, bounded search over a live source tree

  forge-search [FLAGS] PATTERN [PATH]...   lines that match, in a fixed order
  forge-search [FLAGS] -e PATTERN -e PATTERN [PATH]...
  forge-search [FLAGS] --files [PATH]...   the files that would be searched
  command | forge-search PATTERN           lines of standard input

Pattern  -F text, not an expression        -e PATTERN, -f FILE  several of them
         -w whole words  -x whole lines    -i any case, -s exact, -S by pattern
         --fuzzy 1  with one typing error
Files    -t TYPE, -T TYPE  (not) a type    -g GLOB, -g '!GLOB'  (not) a glob
         -. hidden  --no-ignore  -u, -uu   -L follow links  -d NUM  depth
         --max-filesize 1M                 --type-list  names of types
Output   -l files  -c counts               --count-matches  -q status only
         -o matches  --vimgrep             -A, -B, -C NUM  lines around
         --json  --rg-json  -0             --sort, --sortr path|modified
         -N -I --no-column --no-heading    -M NUM, --trim  -p, --color WHEN
Limits   -m NUM a file  --max-files NUM    --max-results NUM, 0 for all
         --timeout-ms MS                   --stats  how the answer came about

Commands index build    make later searches of this tree fast
         serve          have a daemon follow the tree; see also ggrep
         explain        what an index does for a search
         tui            search as you type
         mcp            serve coding agents     call   JSON in, JSON out
         doctor         what is in effect here, and what needs doing

A search that is cut off says so on its last line. Exit status: 0 a match,
1 none, 2 an error. `forge-search --help` explains every flag, `forge-search
COMMAND --help` a command, and `forge-search man --dir DIR` writes the manual.
";

/// Returns whether the user asked for the short help of the program itself, which [`SCREEN`]
/// replaces.
pub(super) fn is_short(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelp
        && error.render().to_string() == Cli::command().render_help().to_string()
}

/// Prints the manual page of the program or of a command. `index build` and `index-build` name the
/// same page.
pub(super) fn print(words: &[String]) -> Result<(), Failure> {
    let mut page = Cli::command();
    page.build();
    for word in words.iter().flat_map(|word| word.split('-')) {
        let known = || page.get_subcommands().filter(|sub| !sub.is_hide_set());
        let Some(command) = known().find(|sub| sub.get_name() == word) else {
            let known: Vec<&str> = known().map(clap::Command::get_name).collect();
            let below = match known.is_empty() {
                true => "there are none below that".to_string(),
                false => format!("the commands are {}", known.join(", ")),
            };
            return Err(
                ToolError::bad_args(format!("there is no command `{word}`; {below}")).into(),
            );
        };
        page = command.clone();
    }
    clap_mangen::Man::new(page).render(&mut io::stdout())?;
    Ok(())
}

/// Writes the pages of the program, of each command and of `ggrep` into a directory, and creates
/// the directory. File names are like `forge-search-index-build.1`. Returns the number of pages.
pub(super) fn write_all(dir: &Path) -> Result<usize, Failure> {
    let failed = |error: io::Error| {
        Failure::Tool(ToolError::bad_args(format!(
            "--dir {}: {error}; name a directory that can be written to",
            dir.display()
        )))
    };
    fs::create_dir_all(dir).map_err(failed)?;
    let mut programs = vec![Cli::command()];
    #[cfg(unix)]
    programs.push(super::daemon::ggrep::command());
    let mut written = 0;
    for mut program in programs {
        program.build();
        let mut pages = vec![program];
        while let Some(page) = pages.pop() {
            let is_page = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
            let below = page.get_subcommands().filter(is_page);
            pages.extend(below.cloned());
            let name = page.get_display_name().unwrap_or(page.get_name());
            let path = dir.join(format!("{name}.1"));
            let mut roff = Vec::new();
            clap_mangen::Man::new(page).render(&mut roff)?;
            fs::write(path, roff).map_err(failed)?;
            written += 1;
        }
    }
    Ok(written)
}
