//! Claims about any bytes as a lease and as a manifest: only the signed lease is accepted, and an
//! accepted manifest has valid values only.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use forge_search::internal::tool::config::{ExecutorConfig, ScopeConfig, ScopeKind};
use forge_search::internal::tool::executor::Executor;
use forge_search::internal::tool::executor::failure::Reason;
use forge_search::internal::tool::executor::host::HostResult;
use forge_search::internal::tool::executor::lease::{Lease, SecretKey};
use forge_search::internal::tool::executor::worker::Job;

/// An executor that trusts one key, and a lease that this key signed.
struct World {
    executor: Executor,
    token: String,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let key = SecretKey::generate().expect("the system has random numbers");
    let public = key
        .public()
        .and_then(|key| key.to_paserk())
        .expect("it was just made");
    let mut config = ExecutorConfig {
        keys: vec![public],
        ..ExecutorConfig::default()
    };
    let scope = ScopeConfig {
        kind: ScopeKind::Files,
        location: PathBuf::from("/nowhere"),
        table: None,
        primary_key: None,
    };
    config.scopes.insert("s".to_string(), scope);
    let host = |_: &Job| -> Result<HostResult, Reason> { Err(Reason::WorkerAbsent) };
    // 2026-01-01T12:00:00Z.
    let now = 1_767_268_800_000_000_000;
    let executor = Executor::new(&config, PathBuf::from("/nowhere/results.db"), host)
        .expect("the key is one")
        .with_clock(Arc::new(move || now));
    let lease = Lease {
        task_id: "t".to_string(),
        capability_id: "SEARCH_FILES".to_string(),
        target_scope: "s".to_string(),
        expires_at: "2026-01-01T12:00:01Z".parse().expect("it is a time"),
        iss: None,
        iat: None,
        jti: None,
    };
    let token = key.sign(&lease).expect("the key is one");
    World { executor, token }
});

const MANIFEST: &[u8] = br#"{"task_id":"t","capability_id":"SEARCH_FILES","target_scope":"s","query":"q","max_results":1}"#;

/// Checks `data` as a lease, as a change to a valid lease, and as a manifest.
pub(crate) fn run(data: &[u8]) {
    let World { executor, token } = &*WORLD;
    assert!(executor.check(MANIFEST, token).is_ok());
    let text = String::from_utf8_lossy(data);
    refused(executor, &text);
    // Replaces a part of the valid lease. The first two bytes select the part.
    if let [at, length, rest @ ..] = data {
        let at = usize::from(*at) % token.len();
        let end = (at + usize::from(*length)).min(token.len());
        let changed = format!(
            "{}{}{}",
            &token[..at],
            String::from_utf8_lossy(rest),
            &token[end..]
        );
        if changed != *token {
            refused(executor, &changed);
        }
    }
    match executor.check(data, token) {
        Ok((manifest, _)) => {
            assert_eq!((&*manifest.task_id, &*manifest.target_scope), ("t", "s"));
            assert!((1..=4_096).contains(&manifest.query.chars().count()));
            assert_eq!(manifest.query.trim(), manifest.query);
            assert!((1..=1_000).contains(&manifest.max_results));
            // An accepted manifest is JSON for every parser.
            let value: serde_json::Value = serde_json::from_slice(data).expect("it was read");
            assert_eq!(
                value["query"].as_str().map(str::trim),
                Some(&*manifest.query)
            );
        }
        Err(reason) => {
            let execution = executor.execute(data, token);
            assert_eq!(execution.failure, Some(reason));
        }
    }
}

fn refused(executor: &Executor, token: &str) {
    let refused = executor
        .check(MANIFEST, token)
        .expect_err("it was not signed");
    assert!(matches!(
        refused,
        Reason::TokenMalformed | Reason::KeyUnknown | Reason::SignatureInvalid
    ));
}
