//! Tests of the messages about configurations that can't be used.

use super::*;
use crate::tool::error::ToolError;

#[test]
fn a_misspelt_table_is_not_taken_for_somebody_elses() {
    for (name, meant) in [
        ("sandbx", "`[tools.sandbox]`"),
        ("Sandbox", "`[tools.sandbox]`"),
        ("sand_box", "`[tools.sandbox]`"),
        ("serach", "`[tools.search]`"),
        ("deamon", "`[tools.daemon]`"),
    ] {
        let found = load(&format!("[tools.{name}]\ndenied_patterns = ['secret/**']"));
        assert_problem(found, &["c.toml:1:8: ", &format!("`tools.{name}`"), meant]);
    }
}

#[test]
fn what_stands_in_the_wrong_place_is_not_passed_over() {
    for (text, at, meant) in [
        (
            "[tool.sandbox]\ndenied_patterns = ['a']",
            "1:2: `tool`",
            "`tools`",
        ),
        ("[Tools.search]\nmax_files = 1", "1:2: `Tools`", "`tools`"),
        (
            "[sandbox]\ndenied_patterns = ['a']",
            "1:2: `sandbox`",
            "`[tools.sandbox]`",
        ),
        (
            "[serach]\nmax_files = 1",
            "1:2: `serach`",
            "`[tools.search]`",
        ),
        (
            "max_files = 1\n[tools.search]",
            "1:1: `max_files`",
            "below `[tools.search]`",
        ),
        ("[executer]\nkeys = []", "1:2: `executer`", "`[executor]`"),
        (
            "[executer]\nretention_days = 1",
            "1:2: `executer`",
            "`[executor]`",
        ),
        (
            "require_confinement = false",
            "1:1: `require_confinement`",
            "below `[executor]`",
        ),
        (
            "[tools]\nretention_days = 1",
            "2:1: `retention_days`",
            "below `[executor]`",
        ),
        (
            "[tools.executor]\nkeys = []",
            "1:8: `tools.executor`",
            "`[executor]`",
        ),
        (
            "[tool.executor]\nrequire_confinement = false",
            "1:2: `tool`",
            "`[executor]`",
        ),
        (
            "[tools]\nmax_files = 1",
            "2:1: `max_files`",
            "below `[tools.search]`",
        ),
        (
            "[tools]\nallow_absolute = false",
            "2:1: `allow_absolute`",
            "below `[tools.sandbox]`",
        ),
    ] {
        assert_problem(load(text), &[&format!("c.toml:{at}"), meant]);
    }
    // A table without any of our names belongs to another program.
    for text in [
        "[tool.black]\nline = 1",
        "[search]\nenabled = true",
        "max_tokens = 1",
        "enabled = 1",
    ] {
        assert!(load(text).is_ok(), "{text}");
    }
}

#[test]
fn a_setting_in_a_misspelt_table_is_answered_with_the_table() {
    let set = |setting: &str| Loader::new(Profile::Library).set(setting).build();
    let error = set("tools.sandbx.allow_absolute=true").unwrap_err();
    let said = error.to_string();
    assert!(said.contains("`tools.sandbox.allow_absolute`"), "{said}");
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_one() {
    for (name, near) in [
        ("max_file", "`max_files`"),
        ("timeout_ms", "`default_timeout_ms`"),
        ("index-mode", "`index_mode`"),
        ("max_filesize", "`max_file_size_bytes`"),
        ("max_file_size", "`max_file_size_bytes`"),
        ("maxResults", "`default_max_results`"),
        ("Enabled", "`enabled`"),
        ("emit_statistics", "`emit_stats`"),
    ] {
        let found = load(&format!("[tools.search]\n\"{name}\" = 1"));
        let key = format!("c.toml:2:1: `tools.search.{name}`");
        assert_problem(found, &[&key, "is not a key of `[tools.search]`", near]);
        assert_problem(set(&format!("{name}=1")), &["--set: ", near]);
    }
    assert_problem(
        load("[tools.sandbox]\nallow_abs = true"),
        &["`allow_absolute`"],
    );
    assert_problem(
        load("[tools.search]\nallow_absolute = true"),
        &["of `[tools.sandbox]`", "`tools.sandbox.allow_absolute`"],
    );
    assert_problem(
        set("allow_absolute=true"),
        &["`tools.sandbox.allow_absolute`"],
    );
    assert_problem(
        set("sandbox.allow_absolute=true"),
        &["`tools.sandbox.allow_absolute`"],
    );
    assert_problem(set("tools.read.max_files=1"), &["is not a key of"]);
    assert_problem(
        set("tools.searching.max_files=1"),
        &["`tools.search.max_files`"],
    );
    assert_problem(set("tools.search.index.mode=on"), &["`index_mode`"]);
    assert_problem(
        load("[tools.search.index]\nmode = 'on'"),
        &["`tools.search.index`"],
    );
    assert_problem(
        load(&format!("[tools.search]\n{} = 1", "x".repeat(100_000))),
        &["nearest"],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_wrong_value_is_answered_with_key_value_range_and_place() {
    for (line, parts) in [
        ("max_files = 0", &["`0`", "an integer of at least 1"][..]),
        ("max_files = -1", &["`-1`", "an integer of at least 1"]),
        ("max_files = 1.0", &["`1.0`", "an integer"]),
        ("max_files = \"many\"", &["`\"many\"`", "an integer"]),
        (
            "max_files = 99999999999999999999",
            &["`99999999999999999999`", "an integer"],
        ),
        ("max_files = 9223372036854775808", &["an integer"]),
        (
            "max_files = 0xFFFFFFFFFFFFFFFFFF",
            &["`0xFFFFFFFFFFFFFFFFFF`", "an integer"],
        ),
        ("max_files = [1]", &["`[1]`", "an integer"]),
        ("max_files = {a = 1}", &["a table", "an integer"]),
        (
            "max_files = 1979-05-27",
            &["the date or time `1979-05-27`", "an integer"],
        ),
        ("default_timeout_ms = 0", &["an integer from 1 to 86400000"]),
        ("default_max_results = 0", &["at least 1"]),
        ("enabled = 1", &["`1`", "`true` or `false`"]),
        ("enabled = \"true\"", &["`true` or `false`"]),
        (
            "backend = \"grep\"",
            &[
                "`\"grep\"`",
                "`\"embedded\"`, `\"auto\"`, `\"ugrep\"`, `\"rg\"`",
            ],
        ),
        ("backend = \"RG\"", &["one of"]),
        ("backend = true", &["one of"]),
        ("index_mode = true", &["`\"off\"`, `\"auto\"`, `\"on\"`"]),
        #[cfg(not(feature = "sqlite"))]
        (
            "index_storage = \"sqlite\"",
            &["feature `sqlite`", "`\"mmap\"`"],
        ),
        (
            "index_storage = \"disk\"",
            &["`\"memory\"`, `\"mmap\"`, `\"sqlite\"`"],
        ),
        (
            "index_regex_strategy = \"x\"",
            &["`\"required_literal\"`, `\"boolean\"`"],
        ),
        (
            "index_integrity_check = \"\"",
            &["`\"off\"`, `\"on_open\"`, `\"periodic\"`"],
        ),
        ("binary = \"\"", &["not empty"]),
        ("fallback_binary = \" \"", &["not empty"]),
        ("binary = \"a\\u0000b\"", &["NUL"]),
        ("threads = 257", &["an integer from 0 to 256"]),
        (
            "index_build_max_cpu_percent = 0",
            &["an integer from 1 to 100"],
        ),
        (
            "index_build_max_cpu_percent = 101",
            &["an integer from 1 to 100"],
        ),
        (
            "index_maint_budget_fraction = 1.5",
            &["`1.5`", "a number from 0.0 to 1.0"],
        ),
        (
            "index_maint_budget_fraction = -0.1",
            &["a number from 0.0 to 1.0"],
        ),
        (
            "index_maint_budget_fraction = nan",
            &["a number from 0.0 to 1.0"],
        ),
        (
            "index_maint_budget_fraction = inf",
            &["a number from 0.0 to 1.0"],
        ),
        (
            "index_maint_budget_fraction = 2",
            &["a number from 0.0 to 1.0"],
        ),
        ("bloom_ngram_k = 4", &["must be 3"]),
        ("bloom_target_fp_rate = 0.0", &["between 0.0 and 1.0"]),
        ("bloom_target_fp_rate = 1", &["between 0.0 and 1.0"]),
        (
            "fuzzy_fallback_levels = [0]",
            &["`[0]`", "integers from 1 to 4"],
        ),
        ("fuzzy_fallback_levels = [1, 5]", &["integers from 1 to 4"]),
        ("fuzzy_fallback_levels = []", &["at least one"]),
        ("fuzzy_fallback_levels = [1, 1]", &["different"]),
        (
            "fuzzy_fallback_levels = [1, \"2\"]",
            &["integers from 1 to 4"],
        ),
        ("fuzzy_fallback_levels = 2", &["a list"]),
        ("index_roots = \"src\"", &["a list of strings with paths"]),
        (
            "index_roots = [\"src\", 1]",
            &["a list of strings with paths"],
        ),
        ("index_roots = [\"\"]", &["empty entry"]),
        ("index_path = 1", &["a string with a path"]),
        ("index_max_tokenized_bytes = 1", &["an integer from 2 to"]),
        ("index_max_tokenized_bytes = 268435457", &["to 268435456"]),
    ] {
        let name = line.split(' ').next().unwrap();
        let column = name.len() + 4;
        let text = format!("# first line\n[tools.search]\n{line}\n");
        let place = format!("c.toml:3:{column}: `tools.search.{name}`: ");
        assert_problem(load(&text), &[&place, "is not allowed"]);
        assert_problem(load(&text), parts);
    }
    assert_problem(
        load("[tools.sandbox]\ndenied_patterns = [\"ok\", \"a[\"]"),
        &[
            "c.toml:2:19: `tools.sandbox.denied_patterns`",
            "`a[`",
            "character class",
        ],
    );
    // A whole number is accepted where a fraction is expected.
    let whole = load("[tools.search]\nindex_maint_budget_fraction = 1").unwrap();
    assert!((whole.search.index_maint_budget_fraction - 1.0).abs() < f64::EPSILON);
}

#[test]
fn tables_of_the_wrong_type_are_reported() {
    assert_problem(
        load("tools = 1"),
        &["c.toml:1:1: `tools`", "must be a table"],
    );
    assert_problem(load("[[tools]]\nx = 1"), &["`tools`", "must be a table"]);
    assert_problem(
        load("[tools]\nsearch = true"),
        &["c.toml:2:1: `tools.search`", "a table"],
    );
    assert_problem(
        load("[[tools.search]]\nenabled = true"),
        &["single brackets"],
    );
    assert_problem(set("tools.search=1"), &["is a table", "tools.search.KEY"]);
}

#[test]
fn broken_toml_is_placed_and_not_commented_on_twice() {
    assert_problem(
        load("[tools.search]\nmax_files = \n"),
        &["c.toml:2:", "is not valid TOML"],
    );
    assert_problem(
        load("[tools.search]\nmax_files = 1\nmax_files = 2"),
        &["c.toml:3:1", "duplicate key"],
    );
    assert_problem(
        load("[tools.search]\nmax_files = 1\n[tools.search]\nthreads = 2"),
        &["c.toml:3:", "duplicate key"],
    );
    assert_problem(load("[tools.search\nmax_files = 1"), &["c.toml:1:"]);
    assert_problem(load("[tools.search]\nbinary = \"x"), &["c.toml:2:"]);
    // The rest of the file is checked all the same.
    let error = load("[tools.search]\nthreads = = 1\nmax_files = 0\n").unwrap_err();
    let places: Vec<_> = error
        .problems()
        .iter()
        .map(|problem| problem.position)
        .collect();
    assert!(places.contains(&Some((3, 13))), "{error}");
    assert!(
        error
            .problems()
            .iter()
            .all(|problem| problem.position.unwrap().0 > 1),
        "{error}"
    );
}

#[test]
fn all_problems_are_reported_at_once_in_order() {
    let error = Loader::new(Profile::Library)
        .file("/nonexistent/forge.toml")
        .toml_str(
            "[tools.search]\nthreads = 999\nmax_file = 1\nbinary = ''\n\n[tools.sandbox]\nx = 1\n",
            Origin::File("b.toml".into()),
        )
        .set("max_files=none")
        .set("oops")
        .set("=1")
        .set("emit_stats=true")
        .build()
        .unwrap_err();
    let starts = [
        "/nonexistent/forge.toml: can't be read: ",
        "b.toml:2:11: `tools.search.threads`: `999` is not allowed: ",
        "b.toml:3:1: `tools.search.max_file`: is not a key",
        "b.toml:4:10: `tools.search.binary`: `\"\"` is not allowed: ",
        "b.toml:7:1: `tools.sandbox.x`: is not a key",
        "--set: `tools.search.max_files`: `\"none\"` is not allowed: ",
        "--set: `oops` is not of the form KEY=VALUE",
        "--set: the name of a key is missing",
    ];
    assert_eq!(error.problems().len(), starts.len(), "{error}");
    for (problem, start) in error.problems().iter().zip(starts) {
        assert!(problem.to_string().starts_with(start), "{problem}");
    }
    let message = error.to_string();
    assert!(
        message.starts_with("configuration: 8 problems\n  /nonexistent"),
        "{message}"
    );
    assert_eq!(ToolError::from(error), ToolError::bad_args(message));
}

#[test]
fn columns_count_characters() {
    assert_problem(
        load("tools.search = { binary = 'é', threads = 999 }"),
        &["c.toml:1:42: "],
    );
}

proptest::proptest! {
    /// Any file or setting is either read or refused with a place and a reason.
    #[test]
    fn no_text_is_too_strange_to_be_answered(
        text in "(\\PC|[\\[\\]=\"'{}.,#\n\r\t\u{0}é]){0,40}",
        key in proptest::sample::select(KEYS),
    ) {
        let sources = [
            text.clone(),
            format!("[tools.search]\n{text}"),
            format!("[tools.{}]\n{} = {text}\n", key.table, key.name),
        ];
        for source in sources {
            if let Err(error) = load(&source) {
                for problem in error.problems() {
                    let (line, column) = problem.position.unwrap();
                    assert!(line <= source.lines().count() + 1 && column > 0, "{problem}");
                    assert!(!problem.message.is_empty());
                }
            }
        }
        for setting in [text.clone(), format!("{}={text}", key.full)] {
            if let Ok(config) = set(&setting) {
                assert_eq!(config.check(), Ok(()));
            }
        }
    }
}
