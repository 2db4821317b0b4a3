//! The schemas of messages: those in `docs/schemas/` are made from the types, and every message of every test is held against them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use forge_search::tool::daemon::reply::schemas;
use serde_json::Value;

use crate::source::root;

fn validators() -> &'static BTreeMap<&'static str, jsonschema::Validator> {
    static ALL: OnceLock<BTreeMap<&'static str, jsonschema::Validator>> = OnceLock::new();
    ALL.get_or_init(|| {
        let compiled = |(name, schema): (&'static str, Value)| {
            (name, jsonschema::draft202012::new(&schema).unwrap())
        };
        schemas().into_iter().map(compiled).collect()
    })
}

/// Fails unless a message is as its schema says.
#[track_caller]
pub(super) fn check(name: &str, message: &Value) {
    let errors: Vec<String> = validators()[name]
        .iter_errors(message)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {message}\n{errors:?}");
}

#[test]
fn ggrep_the_documented_schemas_are_those_of_the_types() {
    let dir = root().join("docs").join("schemas");
    let mut names = Vec::new();
    for (name, schema) in schemas() {
        let path = dir.join(format!("{name}.schema.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "{}: run with UPDATE_SCHEMAS=1", path.display());
        names.push(format!("{name}.schema.json"));
    }
    names.sort();
    let mut kept: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, names);
}

/// What a schema requires and forbids is what was agreed upon, so a change of it is a change here.
#[test]
fn ggrep_schemas_require_what_the_contract_requires_and_allow_nothing_else() {
    let all: BTreeMap<_, _> = schemas().into_iter().collect();
    let sorted = |value: &Value| {
        let mut names: Vec<String> = serde_json::from_value(value.clone()).unwrap();
        names.sort();
        names.join(" ")
    };
    for (name, required) in [
        ("handshake_request", "config_fingerprint store_id"),
        (
            "handshake_response",
            "binary_version config_fingerprint protocol_version protocol_versions store_id supported_schema_versions",
        ),
        ("query_error", "error"),
        (
            "query_success",
            "config_fingerprint degraded embed_config_fingerprint git ignore_fingerprint limits limits_hit mode \
             query_fingerprint request_id results schema_version snapshot_id store_id warnings",
        ),
    ] {
        assert_eq!(sorted(&all[name]["required"]), required, "{name}");
        assert_eq!(all[name]["additionalProperties"], false, "{name}");
    }
    let success = &all["query_success"]["properties"];
    assert_eq!(success["schema_version"]["const"], 1);
    let result = &success["results"]["items"];
    assert_eq!(result["additionalProperties"], false);
    assert_eq!(result["properties"]["score"]["type"], "number");
    assert_eq!(success["timings_ms"]["additionalProperties"], false);
    assert_eq!(
        all["query_error"]["properties"]["error"]["additionalProperties"],
        false
    );
}
