//! `docs/configuration.md` documents every key as the table of keys declares it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use forge_search::internal::tool::config::{KEYS, Profile};

const BEGINNING: &str = "\
# Configuration

The configuration is a TOML file. `--config` or `$FORGE_SEARCH_CONFIG` names it; the default is `forge-search/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`.
`--set KEY=VALUE` sets one key for one call, for example `--set max_files=5000` (of `[tools.search]`) or `--set tools.sandbox.allow_absolute=false`.
`forge-search doctor` prints the configuration in effect, and the source of each value that is not a default. An unknown key or a value that is not allowed is an error that names the line.

The first default is that of the programs `forge-search` and `ggrep`. A default in parentheses is that of programs that link the library. Durations are in milliseconds and sizes in bytes, unless stated otherwise.
";

/// The section about `[executor]`, which is not in the table of keys.
const END: &str = "
## `[executor]`

The configuration of `forge-search execute`. `--set` can't set these keys.

| key | default | purpose |
| --- | --- | --- |
| `keys` | `[]` | The public keys that verify leases, as `lease keygen` prints them. |
| `store` | `forge-search/results.db` in `$XDG_STATE_HOME` or `~/.local/state` | The database of results. |
| `retention_days` | `30` | How long results are kept, in days; at least 1. |
| `require_confinement` | `true` | Whether a task fails (`EXECUTION_FAILED`) if the system lacks Landlock or seccomp. If false, the task runs unconfined, with a warning on standard error. |

`[executor.scopes.NAME]` configures a scope: data that tasks may search.

| key | purpose |
| --- | --- |
| `kind` | `\"files\"`, `\"maildir\"`, `\"mbox\"`, `\"sqlite\"`, `\"csv\"` or `\"jsonl\"`. |
| `location` | The file or directory; a relative path starts at the directory of the configuration file. |
| `table` | The table of the database. Only for `sqlite`. |
| `primary_key` | The column or field that identifies a record. Only for `sqlite`, `csv` and `jsonl`. |
";

/// Returns the introduction of a table's section.
fn about(table: &str) -> &'static str {
    match table {
        "search" => "The tool `Search`, the command line, and indexes.",
        "search_files" => {
            "The tool `search_files`. Settings of engines and indexes that are missing here are those of `[tools.search]`."
        }
        "daemon" => {
            "The daemon, which `serve` runs. The upper bounds of the limits are fixed at compile time."
        }
        "sandbox" => "The files that the tools may search.",
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
            text.push_str("| key | default | allowed | purpose |\n| --- | --- | --- | --- |\n");
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
