//! The program's help: the short screen for `-h`, and manual pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::tool::cli::Failure;
use crate::tool::cli::args::Cli;
use crate::tool::error::ToolError;

/// The help that fits on one screen.
pub(in crate::tool::cli) const SCREEN: &str = "\
forge-search: exact, ordered, bounded search over a live source tree

  forge-search [FLAGS] PATTERN [PATH]...   matching lines, in a fixed order
  forge-search [FLAGS] -e PATTERN -e PATTERN [PATH]...
  forge-search [FLAGS] --files [PATH]...   files that would be searched
  command | forge-search PATTERN           matching lines of standard input

Pattern  -F literal text                   -e PATTERN, -f FILE  several patterns
         -w whole words  -x whole lines    -i ignore, -s match, -S smart case
         --fuzzy 1  allow one typing error
Files    -t TYPE only, -T TYPE not         -g GLOB only, -g '!GLOB' not
         -. hidden  --no-ignore  -u, -uu   -L follow links  -d NUM  depth
         --max-filesize 1M                 --type-list  list the types
Output   -l files  -c lines per file       --count-matches  -q status only
         -o matches  --vimgrep             -A, -B, -C NUM  lines of context
         --json  --rg-json  -0             --sort, --sortr path|modified
         -N -I --no-column --no-heading    -M NUM, --trim  -p, --color WHEN
Limits   -m NUM  lines per file            --max-results NUM, 0 for all
         --max-files NUM  --timeout-ms MS  --stats  statistics of the search

Commands index build    build an index, which makes later searches faster
         serve          run a daemon for this tree; see also ggrep
         explain        show how an index narrows a search
         tui            search as you type
         mcp            serve coding agents     setup  register with one
         call           answer JSON requests
         doctor         show the settings in effect and problems to fix

If a limit stops a search, the output says so. Exit status: 0 a line matched,
1 no line matched, 2 an error. `forge-search --help` explains all flags,
`forge-search COMMAND --help` a command, and `forge-search man --dir DIR`
writes manual pages.
";

/// Returns whether the user asked for the short help of the program itself, which [`SCREEN`]
/// replaces.
pub(in crate::tool::cli) fn is_short(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelp
        && error.render().to_string() == Cli::command().render_help().to_string()
}

/// Prints the manual page of the program or of a command. `index build` and `index-build` name the
/// same page.
pub(in crate::tool::cli) fn print(words: &[String]) -> Result<(), Failure> {
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
pub(in crate::tool::cli) fn write_all(dir: &Path) -> Result<usize, Failure> {
    let failed = |error: io::Error| {
        Failure::Tool(ToolError::bad_args(format!(
            "--dir {}: {error}; name a directory that can be written to",
            dir.display()
        )))
    };
    fs::create_dir_all(dir).map_err(failed)?;
    let programs = [
        Cli::command(),
        #[cfg(unix)]
        crate::tool::cli::commands::daemon::ggrep::command(),
    ];
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
