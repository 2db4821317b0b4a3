//! `docs/configuration.md` documents every key as the table of keys declares it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use forge_search::tool::config::{KEYS, Profile};

const BEGINNING: &str = "\
# Configuration

The configuration is a TOML file: the one that `--config` or `$FORGE_SEARCH_CONFIG` names, else `forge-search/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`.
`--set KEY=VALUE` sets one key for one call, as in `--set max_files=5000` (of `[tools.search]`) or `--set tools.sandbox.allow_absolute=false`. `forge-search doctor` prints
what is in effect, and where each value that is not a default comes from. A key that is not known, and a value that is not allowed, is an error that names the line.

Defaults are those of the programs; in brackets those of a program that links the library, where they differ. A time is in milliseconds, a size in bytes, if nothing else is said.
";

/// The section about `[executor]`, which is not in the table of keys.
const END: &str = "
## `[executor]`

For `forge-search execute`; `--set` does not reach it.

| key | default | what it is for |
| --- | --- | --- |
| `keys` | `[]` | The public keys that leases are checked with, as `lease keygen` prints them. |
| `store` | `forge-search/results.db` in `$XDG_STATE_HOME` or `~/.local/state` | The database that results are kept in. |
| `retention_days` | `30` | How long results are kept, in days; at least 1. |
| `require_confinement` | `true` | Whether a task fails (`EXECUTION_FAILED`) where the system lacks Landlock or seccomp. With `false` it is searched unconfined, with a warning on standard error. |

`[executor.scopes.NAME]`, for each scope that tasks may search:

| key | what it is for |
| --- | --- |
| `kind` | `\"files\"`, `\"maildir\"`, `\"mbox\"`, `\"sqlite\"`, `\"csv\"` or `\"jsonl\"`. |
| `location` | The file or directory; a relative path starts at the directory of the configuration file. |
| `table` | With `sqlite`: the table. |
| `primary_key` | With `sqlite`, `csv` and `jsonl`: the column or field that tells records apart. |
";

/// Returns the introduction of a table's section.
fn about(table: &str) -> &'static str {
    match table {
        "search" => "The tool `Search`, the command line, and indexes.",
        "search_files" => {
            "The tool `search_files`. What is not here about engines and indexes is as in `[tools.search]`."
        }
        "daemon" => {
            "The daemon, which `serve` runs. No value can be above the bound that the program was built with."
        }
        "sandbox" => "Where both tools may search.",
        other => panic!("the table {other} needs a description"),
    }
}

fn written() -> String {
    let mut text = BEGINNING.to_string();
    let mut table = "";
    for key in KEYS {
        if key.table != table {
            table = key.table;
            write!(text, "\n## `[tools.{table}]`\n\n{}\n\n", about(table)).unwrap();
            text.push_str(
                "| key | default | allowed | what it is for |\n| --- | --- | --- | --- |\n",
            );
        }
        let default = key.default(Profile::CommandLine);
        let library = key.default(Profile::Library);
        let library = match library == default {
            true => String::new(),
            false => format!(" (`{library}`)"),
        };
        let cell = |text: String| {
            text.replace('\n', " ")
                .replace("  ", " ")
                .replace('|', "\\|")
        };
        writeln!(
            text,
            "| `{}` | `{default}`{library} | {} | {} |",
            key.name,
            cell(key.kind.allowed()),
            cell(key.about().to_string()),
        )
        .unwrap();
    }
    text + END
}

#[test]
fn docs_configuration_has_every_key_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = written();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, text, "{}: run with UPDATE_SCHEMAS=1", path.display());
}
