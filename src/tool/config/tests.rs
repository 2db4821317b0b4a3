//! Tests of the key table and of reading configurations.

mod executor;
mod wrong;

use std::path::Path;

use super::*;

fn load(text: &str) -> Result<Config, ConfigError> {
    Loader::new(Profile::Library)
        .toml_str(text, Origin::File("c.toml".into()))
        .build()
}

fn set(setting: &str) -> Result<Config, ConfigError> {
    Loader::new(Profile::Library).set(setting).build()
}

/// Returns the only problem of a configuration.
#[track_caller]
fn problem(result: Result<Config, ConfigError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.problems().len(), 1, "{error}");
    error.problems()[0].to_string()
}

#[track_caller]
fn assert_problem(result: Result<Config, ConfigError>, parts: &[&str]) {
    let message = problem(result);
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// Returns values that a key allows, as TOML, other than its default.
fn others(key: &Key) -> Vec<String> {
    match key.kind {
        Kind::Boolean => vec!["true".into(), "false".into()],
        Kind::Integer { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Number { .. } => vec!["0.125".into(), "0.5".into()],
        Kind::Choice { names, unavailable } => names
            .iter()
            .filter(|word| unavailable.iter().all(|(other, _)| other != *word))
            .map(|word| format!("\"{word}\""))
            .collect(),
        Kind::Program => vec!["\"/opt/x y\"".into()],
        Kind::OptionalPath => vec!["\"/var/cache/x\"".into(), "\"\"".into()],
        Kind::Integers { min, max } => vec![format!("[{max}, {min}]")],
        Kind::Paths => vec!["[\"/a b\", \"c\"]".into(), "[]".into()],
        Kind::Globs => vec!["[\"**/x\", \"y*\"]".into(), "[]".into()],
    }
}

#[test]
fn every_key_is_unique_documented_and_named_in_full() {
    for (at, key) in KEYS.iter().enumerate() {
        assert!(
            KEYS[..at].iter().all(|other| other.full != key.full),
            "{}",
            key.full
        );
        assert_eq!(key.full, format!("tools.{}.{}", key.table, key.name));
        let about = key.about();
        assert!(
            about.ends_with('.') && about.len() > 20,
            "{}: {about}",
            key.full
        );
        assert!(
            !about.contains("  ") && !about.contains('\n'),
            "{}: {about}",
            key.full
        );
    }
}

#[test]
fn all_defaults_of_the_configuration_are_allowed() {
    for (config, name) in [
        (Config::library_default(), "library"),
        (Config::command_line_default(), "command line"),
    ] {
        assert_eq!(config.check(), Ok(()), "{name}");
        assert!(
            config
                .entries()
                .iter()
                .all(|entry| *entry.origin == Origin::Default)
        );
    }
    assert_eq!(SearchConfig::default(), Config::library_default().search);
    assert_eq!(SandboxConfig::default(), Config::library_default().sandbox);
}

#[test]
fn every_key_can_be_read_from_a_file_and_set() {
    for key in KEYS {
        for value in others(key) {
            let text = format!("[tools.{}]\n{} = {value}\n", key.table, key.name);
            let from_file = load(&text).unwrap();
            assert_eq!(key.read(&from_file).to_string(), value, "{}", key.full);
            assert_eq!(from_file.origin(key.full), &Origin::File("c.toml".into()));
            let from_setting = set(&format!("{}={value}", key.full)).unwrap();
            assert_eq!(
                key.read(&from_setting),
                key.read(&from_file),
                "{}",
                key.full
            );
            assert_eq!(from_setting.origin(key.full), &Origin::Set);
            // Nothing else changed.
            for other in KEYS.iter().filter(|other| *other != key) {
                assert_eq!(other.read(&from_file), other.default(Profile::Library));
                assert_eq!(from_file.origin(other.full), &Origin::Default);
            }
        }
    }
}

#[test]
fn the_listing_is_a_configuration_that_means_the_same() {
    for profile in [Profile::Library, Profile::CommandLine] {
        let config = Config::defaults(profile);
        let mut text = String::new();
        for table in ["search", "search_files", "daemon", "sandbox"] {
            text += &format!("[tools.{table}]\n");
            for entry in config
                .entries()
                .iter()
                .filter(|entry| entry.key.table == table)
            {
                text += &format!("{} = {}\n", entry.key.name, entry.value);
            }
        }
        let read = load(&text).unwrap();
        assert_eq!(read.search_files, config.search_files);
        assert_eq!(read.daemon, config.daemon);
        assert_eq!((read.search, read.sandbox), (config.search, config.sandbox));
    }
}

/// The example from the specification, with another storage.
#[test]
fn the_specified_keys_and_defaults_are_known() {
    let example = r#"
        [tools.search]
        enabled = false
        binary = "ugrep"
        fallback_binary = "rg"
        default_timeout_ms = 20000
        default_max_results = 200
        max_matches_per_file = 50
        max_files = 10000
        max_file_size_bytes = 2000000
        index_mode = "off"
        index_storage = "mmap"
        index_path = ""
        index_roots = []
        index_default_hidden = false
        index_default_follow = false
        index_default_no_ignore = false
        index_auto_threshold_files = 2000
        index_auto_threshold_bytes = 500000000
        index_auto_reeval_calls = 100
        index_build_timeout_ms = 300000
        index_build_max_files = 0
        index_build_max_bytes = 0
        index_build_max_cpu_percent = 50
        index_build_throttle_ms = 10
        index_idle_boost_ms = 1000
        index_retry_on_failure = false
        index_checkpoint_on_shutdown = true
        index_shutdown_timeout_ms = 5000
        index_watch = true
        index_watch_debounce_ms = 250
        index_max_db_bytes = 1073741824
        index_max_indexes = 10
        index_lock_timeout_ms = 250
        index_integrity_check = "on_open"
        index_integrity_period_calls = 200
        index_max_tokenized_bytes = 1048576
        bloom_ngram_k = 3
        bloom_target_fp_rate = 0.01
        index_allow_insecure_persistence = false
        reconcile_max_files = 50000
        reconcile_max_ms = 2000
        index_maint_budget_fraction = 0.25
        emit_stats = false
        fuzzy_fallback = false
        fuzzy_fallback_levels = [1, 2, 3]
        fuzzy_min_pattern_len = 4
        [tools.sandbox]
        allowed_roots = []
        denied_patterns = []
        allow_absolute = false
        include_default_denies = true
    "#;
    let read = load(example).unwrap();
    assert_eq!(read.search, Config::library_default().search);
    assert_eq!(read.sandbox, Config::library_default().sandbox);
}

/// The example from the specification of `search_files`, with its caps and defaults. `index_mode`
/// and the storage are replaced.
#[test]
fn the_specified_keys_and_defaults_of_search_files_are_known() {
    let example = r#"
        [tools.search_files]
        index_mode = "off"
        index_storage = "mmap"
        index_path = ""
        index_auto_threshold_files = 2000
        index_auto_threshold_bytes = 500000000
        index_watch = true
        index_watch_debounce_ms = 250
        index_use_git = true
        fuzzy_fallback = false
        fuzzy_passes = 3
        fuzzy_threshold_step = 0.1
        backend = "native"
        max_results = 200
        max_matches_per_file = 20
        max_file_size_bytes = 2000000
        max_files = 5000
        max_depth = 12
        respect_gitignore = true
        include_hidden = false
        follow_symlinks = false
        mode = "exact"
        case = "smart"
        fuzzy_threshold = 0.8
    "#;
    let read = load(example).unwrap();
    assert_eq!(read.search_files, Config::library_default().search_files);
    for wrong in [
        "fuzzy_threshold = 1.1",
        "fuzzy_passes = 0",
        "mode = \"auto\"",
        "backend = \"auto\"",
        "max_depth = 0",
    ] {
        let (key, _) = wrong.split_once(' ').unwrap();
        let read = load(&format!("[tools.search_files]\n{wrong}"));
        assert_problem(read, &[key]);
    }
}

#[test]
fn the_command_line_has_defaults_of_its_own() {
    let differing: Vec<(&str, String)> = KEYS
        .iter()
        .filter(|key| key.default(Profile::Library) != key.default(Profile::CommandLine))
        .map(|key| {
            let default = key.default(Profile::CommandLine).to_string();
            (key.full.trim_start_matches("tools."), default)
        })
        .collect();
    let expected = [
        ("search.enabled", "true"),
        ("search.max_matches_per_file", "100000"),
        ("search.max_files", "5000000"),
        ("search.max_file_size_bytes", "67108864"),
        ("search.index_mode", "\"auto\""),
        ("search.index_map", "false"),
        ("search.index_max_tokenized_bytes", "67108864"),
        ("search.index_regex_strategy", "\"boolean\""),
        ("search.max_line_bytes", "2000"),
        ("search_files.enabled", "true"),
        ("search_files.max_file_size_bytes", "67108864"),
        ("search_files.max_files", "5000000"),
        ("search_files.max_depth", "100"),
        ("search_files.index_mode", "\"auto\""),
        ("search_files.max_line_bytes", "2000"),
        ("sandbox.allow_absolute", "true"),
    ];
    let differing: Vec<(&str, &str)> = differing
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    assert_eq!(differing, expected);
    assert_eq!(
        Config::command_line_default().search.backend,
        Backend::Embedded
    );
}

#[test]
fn the_last_source_wins_and_is_named() {
    let config = Loader::new(Profile::CommandLine)
        .toml_str(
            "[tools.search]\nmax_files = 1\nthreads = 2",
            Origin::File("a".into()),
        )
        .toml_str("[tools.search]\nmax_files = 2", Origin::File("b".into()))
        .set("max_files=3")
        .set("max_files = 4")
        .build()
        .unwrap();
    assert_eq!((config.search.max_files, config.search.threads), (4, 2));
    assert_eq!(config.origin("tools.search.max_files").to_string(), "--set");
    assert_eq!(config.origin("tools.search.threads").to_string(), "a");
    assert_eq!(config.origin("tools.search.enabled").to_string(), "default");
    let entries = config.entries();
    let threads = entries
        .iter()
        .find(|entry| entry.key.name == "threads")
        .unwrap();
    assert_eq!(
        (&threads.value, threads.origin),
        (&Value::Integer(2), &Origin::File("a".into()))
    );
}

#[test]
fn other_tables_are_left_alone() {
    let text = "
        top = 1
        [tools.read]
        enabled = 17
        [tools.search_more]
        unknown = true
        [tools.search]
        enabled = true
        [other.search]
        max_files = -1
        [[list]]
        a = 1
    ";
    assert!(load(text).unwrap().search.enabled);
    assert_eq!(load("").unwrap(), Config::library_default());
    assert!(load("tools.search.enabled = true").unwrap().search.enabled);
    assert!(
        load("tools = { search = { enabled = true } }")
            .unwrap()
            .search
            .enabled
    );
    assert!(
        load("\u{feff}[tools]\r\nsearch.enabled = true\r\n")
            .unwrap()
            .search
            .enabled
    );
}

#[test]
fn settings_take_toml_or_a_bare_word() {
    let config = Loader::new(Profile::Library)
        .set("index_mode=on")
        .set("backend = \"rg\"")
        .set("binary=/opt/bin/ugrep=1")
        .set("index_path=")
        .set("fallback_binary='my rg'")
        .set("max_files=1_000")
        .set("index_maint_budget_fraction=0.5")
        .set("fuzzy_fallback_levels=[4]")
        .set("tools.sandbox.denied_patterns=[\"a\", 'b']")
        .set("tools.sandbox.allow_absolute=true")
        .set("tools.search.emit_stats=true")
        .build()
        .unwrap();
    assert_eq!(config.search.index_mode, IndexMode::On);
    assert_eq!(config.search.backend, Backend::Rg);
    assert_eq!(config.search.binary, "/opt/bin/ugrep=1");
    assert_eq!(config.search.index_path, None);
    assert_eq!(config.search.fallback_binary, "my rg");
    assert_eq!(config.search.max_files, 1000);
    assert_eq!(config.search.fuzzy_fallback_levels, [4]);
    assert_eq!(config.sandbox.denied_patterns, ["a", "b"]);
    assert!(config.sandbox.allow_absolute && config.search.emit_stats);

    assert_problem(set("max_files=1k"), &["`\"1k\"` is not allowed"]);
    assert_problem(set("max_files="), &["`\"\"` is not allowed"]);
    assert_problem(
        set("tools.sandbox.allowed_roots=[\"a\""),
        &["not valid TOML"],
    );
    assert_problem(set("binary=\"x"), &["not valid TOML"]);
    assert_problem(
        set("tools.sandbox.allowed_roots=/a"),
        &["a list of strings"],
    );
}

#[test]
fn files_are_read_when_the_configuration_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forge.toml");
    let loader = Loader::new(Profile::Library).file(&path);
    std::fs::write(&path, "[tools.search]\nindex_roots = [\"src\"]\n").unwrap();
    let config = loader.clone().build().unwrap();
    assert_eq!(config.search.index_roots, [Path::new("src")]);
    assert_eq!(
        config.origin("tools.search.index_roots"),
        &Origin::File(path.clone())
    );

    std::fs::write(&path, b"[tools.search]\nbinary = \"\xff\"\n").unwrap();
    assert_problem(loader.clone().build(), &["forge.toml:2:11: is not UTF-8"]);
    std::fs::write(&path, "[tools.search]\n# \u{e9}\u{e9}\nbinary = 'é', x\n").unwrap();
    let error = loader.build().unwrap_err();
    assert_eq!(
        error.problems()[0].position.map(|(line, _)| line),
        Some(3),
        "{error}"
    );
}

#[test]
fn a_configuration_changed_by_a_program_can_be_checked() {
    let mut config = Config::library_default();
    config.search.max_files = 0;
    config.search.binary.clear();
    config.sandbox.denied_patterns.push("a[".into());
    let error = config.check().unwrap_err();
    let keys: Vec<_> = error
        .problems()
        .iter()
        .filter_map(|problem| problem.key.as_deref())
        .collect();
    let expected = [
        "tools.search.binary",
        "tools.search.max_files",
        "tools.sandbox.denied_patterns",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn values_are_shown_on_one_line_and_as_json() {
    let text = Value::Text("a\n\"b\"\u{7f}\\".into());
    assert_eq!(text.to_string(), r#""a\n\"b\"\u007f\\""#);
    let binary = set(&format!("binary={text}")).unwrap().search.binary;
    assert_eq!(Value::Text(binary), text);
    let json = serde_json::to_value([Value::Integer(1), Value::Number(0.5)]).unwrap();
    assert_eq!(json, serde_json::json!([1, 0.5]));
    let long = problem(set(&format!("max_files=\"{}\"", "x".repeat(5000))));
    assert!(long.len() < 300, "{long}");
}

#[test]
fn words_and_values_of_choices_agree() {
    assert_eq!(Backend::NAMES, ["embedded", "auto", "ugrep", "rg"]);
    for mode in IndexMode::ALL {
        assert_eq!(IndexMode::from_name(mode.as_str()), Some(mode));
        assert_eq!(mode.to_string(), mode.as_str());
    }
    assert_eq!(IntegrityCheck::from_name("On_Open"), None);
}

#[test]
fn the_default_timeout_and_limit_are_positive() {
    for key in ["default_timeout_ms", "default_max_results"] {
        for value in ["0", "-1", "1.5", "\"20\""] {
            let refused = Loader::new(Profile::Library)
                .set(format!("{key}={value}"))
                .build();
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(key), "{message}");
        }
        assert!(
            Loader::new(Profile::Library)
                .set(format!("{key}=1"))
                .build()
                .is_ok()
        );
    }
}
