//! Tests the checks before the executor runs a task, and their order (EXEC §2, §3, §4, §10).

use super::*;

/// A fault in the token, the lease or the manifest of a task.
enum Wrong {
    Token,
    Lease(fn(&mut Lease)),
    Manifest(fn(&mut Value)),
}

const ORDER: &[(Wrong, &str, &str)] = &[
    (Wrong::Token, "INVALID_LEASE", "signature_invalid"),
    (
        Wrong::Lease(|lease| lease.task_id = "other".into()),
        "INVALID_LEASE",
        "task_mismatch",
    ),
    (
        Wrong::Lease(|lease| lease.expires_at = at(NOW)),
        "LEASE_EXPIRED",
        "expired",
    ),
    (
        Wrong::Manifest(|manifest| manifest["capability_id"] = json!("SEARCH_MINDS")),
        "UNSUPPORTED_CAPABILITY",
        "capability_unsupported",
    ),
    (
        Wrong::Lease(|lease| lease.capability_id = "SEARCH_EMAILS".into()),
        "INVALID_LEASE",
        "capability_mismatch",
    ),
    (
        Wrong::Lease(|lease| lease.target_scope = "elsewhere".into()),
        "INVALID_LEASE",
        "scope_mismatch",
    ),
    (
        Wrong::Manifest(|manifest| manifest["more"] = json!(1)),
        "INVALID_QUERY",
        "field_unknown",
    ),
    (
        Wrong::Manifest(|manifest| manifest["query"] = json!(" \n ")),
        "INVALID_QUERY",
        "query_length",
    ),
    (
        Wrong::Manifest(|manifest| manifest["max_results"] = json!(0)),
        "INVALID_QUERY",
        "max_results",
    ),
];

fn world() -> World {
    let mut world = World::new();
    world.write("data.csv", "id,a\n1,needle\n");
    world.scope("people", ScopeKind::Csv, "data.csv");
    world
}

/// Executes a task that has the faults with these positions in `ORDER`.
fn with(world: &World, executor: &Executor, wrong: &[usize]) -> Execution {
    let mut lease = lease("t", "SEARCH_DATASETS", "people");
    let bytes = manifest("t", "SEARCH_DATASETS", "people", "needle", 10);
    let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
    let mut forged = false;
    for at in wrong {
        match &ORDER[*at].0 {
            Wrong::Token => forged = true,
            Wrong::Lease(change) => change(&mut lease),
            Wrong::Manifest(change) => change(&mut manifest),
        }
    }
    let mut token = world.key.sign(&lease).unwrap();
    if forged {
        // The token ends in the signature of another lease.
        lease.expires_at = at("2030-01-01T12:00:01Z");
        let other = world.key.sign(&lease).unwrap();
        let payload = |token: &str| token.split('.').nth(2).unwrap().to_string();
        let (ours, theirs) = (payload(&token), payload(&other));
        let tail = theirs.len() - 80;
        let mixed = format!("{}{}", &ours[..ours.len() - 80], &theirs[tail..]);
        token = token.replace(&ours, &mixed);
    }
    executor.execute(&serde_json::to_vec(&manifest).unwrap(), &token)
}

#[test]
fn lease_checks_run_in_order_and_the_first_failure_counts() {
    let world = world();
    let executor = world.executor(in_memory);
    for (first, (_, code, reason)) in ORDER.iter().enumerate() {
        failed(&with(&world, &executor, &[first]), code, reason);
        for second in first + 1..ORDER.len() {
            failed(&with(&world, &executor, &[first, second]), code, reason);
        }
        let all: Vec<usize> = (first..ORDER.len()).collect();
        failed(&with(&world, &executor, &all), code, reason);
    }
    // None of the tasks was executed: no store exists.
    assert!(!world.path("store").exists());
    ok(&with(&world, &executor, &[]));
}

#[test]
fn a_lease_holds_until_its_time_and_not_at_it() {
    let world = world();
    for (now, holds) in [
        ("2026-01-01T12:00:00.999999999Z", true),
        ("2026-01-01T12:00:01Z", false),
        ("2026-01-01T12:00:02Z", false),
    ] {
        let executor = world
            .executor(in_memory)
            .with_clock(Arc::new(move || ns(now)));
        let execution = world.run(&executor, "t", "SEARCH_DATASETS", "people", "needle");
        match holds {
            true => assert_eq!(execution.failure, None),
            false => failed(&execution, "LEASE_EXPIRED", "expired"),
        }
    }
}

#[test]
fn queries_are_trimmed_and_have_1_to_4096_code_points() {
    let world = world();
    let executor = world.executor(in_memory);
    let token = world.lease("t", "SEARCH_DATASETS", "people");
    let check = |query: Value, max: Value| {
        let bytes = manifest("t", "SEARCH_DATASETS", "people", "", 1);
        let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
        manifest["query"] = query;
        manifest["max_results"] = max;
        executor
            .check(&serde_json::to_vec(&manifest).unwrap(), &token)
            .map(|(manifest, _)| manifest)
    };
    let crabs = |count: usize| "🦀".repeat(count);
    assert_eq!(
        check(json!("\u{2003} a b\t\n"), json!(1)).unwrap().query,
        "a b"
    );
    assert_eq!(
        check(json!(crabs(4_096)), json!(1_000)).unwrap().query,
        crabs(4_096)
    );
    assert!(check(json!(format!(" {} ", crabs(4_096))), json!(1)).is_ok());
    for query in [json!(crabs(4_097)), json!(""), json!("\u{a0}")] {
        assert_eq!(check(query, json!(1)), Err(Reason::QueryLength));
    }
    for query in [json!(null), json!(1), json!(["a"])] {
        assert_eq!(check(query, json!(1)), Err(Reason::QueryNotText));
    }
    for max in [
        json!(0),
        json!(1_001),
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(null),
        json!(1e30),
    ] {
        assert_eq!(
            check(json!("a"), max.clone()),
            Err(Reason::MaxResults),
            "{max}"
        );
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_no_query() {
    let world = world();
    let executor = world.executor(in_memory);
    let token = world.lease("t", "SEARCH_DATASETS", "people");
    let bytes = manifest("t", "SEARCH_DATASETS", "people", "needle", 10);
    let replace = |by: &[u8]| {
        let at = bytes.windows(6).position(|part| part == b"needle").unwrap();
        [&bytes[..at], by, &bytes[at + 6..]].concat()
    };
    for by in [
        &b"\xff\xfe"[..],
        b"\xc3",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"a\x00b",
    ] {
        let execution = executor.execute(&replace(by), &token);
        let value: Value = serde_json::from_slice(&execution.body).unwrap();
        assert!(
            ["INVALID_QUERY", "INVALID_LEASE"].contains(&value["error"]["code"].as_str().unwrap()),
            "{by:?} {value}"
        );
    }
    failed(
        &executor.execute(&replace(b"\xff"), &token),
        "INVALID_QUERY",
        "query_not_text",
    );
    failed(
        &executor.execute(&replace(b"\\udc00x"), &token),
        "INVALID_QUERY",
        "query_not_text",
    );
}

#[test]
fn a_manifest_that_can_not_be_read_fits_no_lease() {
    let world = world();
    let executor = world.executor(in_memory);
    let token = world.lease("t", "SEARCH_DATASETS", "people");
    for manifest in [
        &b""[..],
        b"null",
        b"[]",
        b"{",
        b"{} {}",
        br#"{"task_id": "t", "task_id": "t"}"#,
        &[b' '; (1 << 20) + 1],
    ] {
        failed(
            &executor.execute(manifest, &token),
            "INVALID_LEASE",
            "manifest_malformed",
        );
        // The signature is checked before the manifest.
        failed(
            &executor.execute(manifest, "v4.public.AAAA"),
            "INVALID_LEASE",
            "token_malformed",
        );
    }
    for manifest in [&b"{}"[..], br#"{"task_id": 1}"#, br#"{"task_id": "T"}"#] {
        failed(
            &executor.execute(manifest, &token),
            "INVALID_LEASE",
            "task_mismatch",
        );
    }
}

#[test]
fn a_scope_must_be_configured_and_exist_and_have_the_right_kind() {
    let mut world = world();
    world.scope("gone", ScopeKind::Csv, "gone.csv");
    world.scope("docs", ScopeKind::Files, "docs");
    let executor = world.real();
    let run = |task: &str, capability: &str, scope: &str| {
        world.run(&executor, task, capability, scope, "needle")
    };
    failed(
        &run("1", "SEARCH_DATASETS", "nowhere"),
        "SCOPE_NOT_ALLOWED",
        "scope_unknown",
    );
    failed(
        &run("2", "SEARCH_FILES", "people"),
        "SCOPE_NOT_ALLOWED",
        "scope_kind",
    );
    failed(
        &run("3", "SEARCH_DATASETS", "docs"),
        "SCOPE_NOT_ALLOWED",
        "scope_kind",
    );
    failed(
        &run("4", "SEARCH_DATASETS", "gone"),
        "SCOPE_UNAVAILABLE",
        "scope_missing",
    );
    failed(
        &run("5", "SEARCH_FILES", "docs"),
        "SCOPE_UNAVAILABLE",
        "scope_missing",
    );
    // The store keeps no failures. The task may run again once the data exists.
    world.write("gone.csv", "id,a\n1,needle\n");
    assert_eq!(ok(&run("4", "SEARCH_DATASETS", "gone"))["count"], 1);
}
