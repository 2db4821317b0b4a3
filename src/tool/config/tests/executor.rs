//! Tests of `[executor]`, and of unknown names at any depth.

use super::*;

#[test]
fn scopes_are_read_and_mistakes_in_them_are_reported() {
    let config = load(
        "[executor]\nkeys = [\"k4.public.x\"]\nretention_days = 7\n\
         [executor.scopes.docs]\nkind = \"files\"\nlocation = \"docs\"\n\
         [executor.scopes.users]\nkind = \"sqlite\"\nlocation = \"/srv/u.db\"\ntable = \"users\"\nprimary_key = \"id\"\n\
         [tools.search]\nmax_files = 7\n",
    )
    .unwrap();
    assert_eq!(config.search.max_files, 7);
    assert_eq!(config.executor.retention_days, 7);
    assert_eq!(config.executor.scopes["docs"].kind, ScopeKind::Files);
    assert_eq!(config.executor.scopes["docs"].location, Path::new("docs"));
    assert_eq!(
        config.executor.scopes["users"].table.as_deref(),
        Some("users")
    );
    for (text, part) in [
        ("kind = \"files\"", "location"),
        ("kind = \"paper\"\nlocation = \"x\"", "paper"),
        (
            "kind = \"files\"\nlocation = \"\"",
            "path that is not empty",
        ),
        ("kind = \"files\"\nlocation = \"x\"\ntable = \"t\"", "table"),
        (
            "kind = \"mbox\"\nlocation = \"x\"\nprimary_key = \"t\"",
            "primary_key",
        ),
        ("kind = \"csv\"\nlocation = \"x\"", "needs primary_key"),
        (
            "kind = \"sqlite\"\nlocation = \"x\"\nprimary_key = \"t\"",
            "needs table",
        ),
        ("kind = \"files\"\nlocation = \"x\"\nmode = 1", "mode"),
    ] {
        let text = format!("\n[executor.scopes.one]\n{text}\n");
        assert_problem(load(&text), &["c.toml:", "executor", part]);
    }
    assert_problem(
        load("[executor]\nretention_days = 0\n"),
        &[
            "c.toml:2:18: `executor.retention_days`",
            "an integer from 1",
        ],
    );
    assert_problem(load("[executor]\nkey = []\n"), &["key"]);
    // A secret key that a user pasted by mistake must not reach a log.
    for keys in [
        "keys = \"k4.secret.SECRET\"",
        "keys = k4.secret.SECRET",
        "keys = [[\"k4.secret.SECRET\"]]",
        "keys = [1, \"k4.secret.SECRET\"]",
        "keys = { a = \"k4.secret.SECRET\" }",
        "keys.\"a\" = \"k4.secret.SECRET\"",
        "keys = \"\"\"\nk4.secret.SECRET\"\"\"",
        "keys = [\"k4.secret.SECRET\"",
        "keys = \"k4.secret.SECRET",
    ] {
        let found = load(&format!("[executor]\n{keys}\n"));
        let said = format!(
            "{:?}",
            found.as_ref().map(|_| "none").map_err(ToString::to_string)
        );
        assert!(!said.contains("SECRET"), "{said}");
        assert_problem(found, &["c.toml:2:"]);
    }
    // Relative paths start at the directory of the configuration file.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "[executor]\nstore = \"r.db\"\n[executor.scopes.a]\nkind = \"csv\"\nlocation = \"a.csv\"\nprimary_key = \"id\"\n").unwrap();
    let config = Loader::new(Profile::Library).file(&file).build().unwrap();
    assert_eq!(
        config.executor.scopes["a"].location,
        dir.path().join("a.csv")
    );
    assert_eq!(config.executor.store, Some(dir.path().join("r.db")));
}

/// Words of the TOML and serde libraries, which a user would not understand.
const FOREIGN: [&str; 8] = [
    "unknown field",
    "missing field",
    "invalid type",
    "expected",
    "unknown variant",
    "u32",
    "struct",
    "TOML parse",
];

#[test]
fn names_that_are_unknown_at_any_depth_are_answered_with_place_and_nearest() {
    let scope = "[executor.scopes.x]\nkind = \"files\"\nlocation = \"d\"\n";
    for (text, parts) in [
        // At the top, and below `tools`.
        (
            "[tool.search]\nmax_files = 1",
            &["1:2: `tool`", "`tools`"][..],
        ),
        (
            "[tools.serach]\nmax_files = 1",
            &["1:8: `tools.serach`", "`[tools.search]`"],
        ),
        (
            "tools.serach.max_files = 1",
            &["1:7: `tools.serach`", "`[tools.search]`"],
        ),
        // Below a table of `tools`.
        (
            "[tools.search]\nmax_fils = 1",
            &["2:1: `tools.search.max_fils`", "`max_files`"],
        ),
        (
            "[tools.daemon.serches]\nx = 1",
            &["1:15: `tools.daemon.serches`", "`searches`"],
        ),
        (
            "[tools.sandbox.denied_paterns.deep.er]\nx = 1",
            &["1:16: `tools.sandbox.denied_paterns`", "`denied_patterns`"],
        ),
        (
            "tools.search_files = { max_dept = 1 }",
            &["1:24: `tools.search_files.max_dept`", "`max_depth`"],
        ),
        // In `executor`.
        (
            "[executor]\nretention = 1",
            &[
                "2:1: `executor.retention`",
                "`[executor]`",
                "`retention_days`",
            ],
        ),
        (
            "[executor]\nstorre = \"x\"",
            &["2:1: `executor.storre`", "`store`"],
        ),
        (
            "executor = { confinement = true }",
            &["1:14: `executor.confinement`", "`require_confinement`"],
        ),
        (
            "[executor.scops.x]\nkind = \"files\"\nlocation = \"d\"",
            &["1:11: `executor.scops`", "`[executor]`", "`scopes`"],
        ),
        (
            "[executor.scope.x.deep.er]\ny = 1",
            &["1:11: `executor.scope`", "`scopes`"],
        ),
        // In a scope.
        (
            &format!("{scope}unknwn = 1"),
            &["4:1: `executor.scopes.x.unknwn`", "`[executor.scopes.x]`"],
        ),
        (
            &format!("{scope}primarykey = \"id\""),
            &["4:1: `executor.scopes.x.primarykey`", "`primary_key`"],
        ),
        (
            &format!("{scope}[executor.scopes.x.tabel.deep]\ny = 1"),
            &["4:20: `executor.scopes.x.tabel`", "`table`"],
        ),
        (
            "[executor.scopes.\"a b\"]\nkind = \"files\"\nlocaton = \"d\"",
            &["3:1: `executor.scopes.\"a b\".locaton`", "`location`"],
        ),
    ] {
        let found = load(text);
        let said = problem(found.clone());
        for word in FOREIGN {
            assert!(!said.contains(word), "{word}: {said}");
        }
        assert!(said.starts_with("c.toml:"), "{said}");
        assert_problem(found, parts);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn values_of_the_executor_are_answered_with_key_value_and_place() {
    let scope = "[executor.scopes.x]\nkind = \"files\"\n";
    for (text, parts) in [
        (
            "executor = 1",
            &["1:1: `executor`: is `1`", "`[executor]`"][..],
        ),
        (
            "[[executor]]\nstore = \"x\"",
            &["1:3: `executor`", "must be a table"],
        ),
        (
            "[executor]\nstore = 1",
            &["2:9: `executor.store`: `1`", "a string with a path"],
        ),
        (
            "[executor]\nstore = \"\"",
            &["2:9: `executor.store`", "not empty"],
        ),
        (
            "[executor]\nretention_days = \"x\"",
            &[
                "2:18: `executor.retention_days`: `\"x\"`",
                "an integer from 1 to 4294967295",
            ],
        ),
        (
            "[executor]\nrequire_confinement = 1",
            &[
                "2:23: `executor.require_confinement`: `1`",
                "`true` or `false`",
            ],
        ),
        (
            "[executor]\nkeys = 1",
            &[
                "2:8: `executor.keys`",
                "a list of strings, each a public key",
            ],
        ),
        (
            "[executor]\nscopes = 1",
            &["2:1: `executor.scopes`", "`[executor.scopes.NAME]`"],
        ),
        (
            "[executor.scopes]\nkind = \"files\"",
            &[
                "2:1: `executor.scopes.kind`: is `\"files\"`",
                "`[executor.scopes.NAME]`",
            ],
        ),
        (
            "[executor.scopes.x]",
            &["1:18: `executor.scopes.x`", "needs `kind` and `location`"],
        ),
        (
            scope,
            &["1:18: `executor.scopes.x`", "needs `kind` and `location`"],
        ),
        (
            &format!("{scope}location = 1"),
            &[
                "3:12: `executor.scopes.x.location`: `1`",
                "a string with a path",
            ],
        ),
        (
            "[executor.scopes.x]\nkind = \"file\"\nlocation = \"d\"",
            &[
                "2:8: `executor.scopes.x.kind`: `\"file\"`",
                "`\"files\"`",
                "`\"jsonl\"`",
            ],
        ),
        (
            &format!("{scope}location = \"d\"\ntable = 1"),
            &["4:9: `executor.scopes.x.table`: `1`", "a string"],
        ),
    ] {
        let found = load(text);
        let said = problem(found.clone());
        assert!(FOREIGN.iter().all(|word| !said.contains(word)), "{said}");
        assert_problem(found, parts);
    }
    // One error reports all problems, in order.
    let error =
        load("[executor]\nx = 1\nstore = 2\n[executor.scopes.a]\ny = 3\nz = 4\n").unwrap_err();
    let lines = error
        .problems()
        .iter()
        .map(|problem| problem.position.unwrap().0);
    assert_eq!(lines.collect::<Vec<_>>(), [2, 3, 5, 6]);
}
