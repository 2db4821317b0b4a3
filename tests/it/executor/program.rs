//! Tests of the commands `forge-search execute` and `forge-search lease`.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use super::*;

fn forge_search(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_forge-search"))
        .args(args)
        .current_dir(dir)
        .env("HOME", dir)
        .env("XDG_STATE_HOME", dir.join("state"))
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it reads its input, so a failed write is no error.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone())
        .unwrap()
        .trim()
        .to_string()
}

#[test]
fn a_scheduler_gets_from_a_key_to_a_result_by_the_command_line() {
    let world = World::new();
    let dir = world.dir.path();
    let run = |args: &[&str], input: &[u8]| forge_search(dir, args, input);
    let public = said(&run(&["lease", "keygen", "s.key"], b""));
    assert!(public.starts_with("k4.public."));
    assert_eq!(
        fs::metadata(dir.join("s.key"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let again = run(&["lease", "keygen", "s.key"], b"");
    assert_eq!(again.status.code(), Some(2), "a key is never written over");
    world.write("docs/plan.md", "");
    world.write(
        "c.toml",
        format!("[executor]\nkeys = [{public:?}]\n[executor.scopes.docs]\nkind = \"files\"\nlocation = \"docs\"\n"),
    );
    let issue = [
        "lease",
        "issue",
        "--key",
        "s.key",
        "--task",
        "t",
        "--capability",
        "SEARCH_FILES",
        "--scope",
        "docs",
    ];
    let token = said(&run(&issue, b""));
    let told: Value = serde_json::from_str(&said(&run(
        &["lease", "inspect", &token, "--config", "c.toml"],
        b"",
    )))
    .unwrap();
    assert_eq!(told["signature"], "holds");
    assert_eq!(told["expired"], false);
    assert_eq!(told["claims"]["task_id"], "t");
    assert!(
        told["footer"]["kid"]
            .as_str()
            .unwrap()
            .starts_with("k4.pid.")
    );
    let unknown = run(&["lease", "inspect", &token], b"");
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");

    let manifest = manifest("t", "SEARCH_FILES", "docs", "plan", 5);
    world.write("lease", format!("{token}\n"));
    let args = [
        "execute",
        "--config",
        "c.toml",
        "--lease-file",
        "lease",
        "--stats",
    ];
    let first = run(&args, &manifest);
    let value: Value = serde_json::from_str(&said(&first)).unwrap();
    assert_eq!(ids(&value), ["plan.md"]);
    assert!(
        String::from_utf8_lossy(&first.stderr).contains("0 skipped"),
        "{first:?}"
    );
    // Only this user may read the results.
    let store = dir.join("state/forge-search/results.db");
    assert_eq!(
        fs::metadata(&store).unwrap().permissions().mode() & 0o777,
        0o600
    );
    world.write("docs/plan-2.md", "");
    let second = run(&args, &manifest);
    assert_eq!(second.stdout, first.stdout);

    let refused = run(
        &["execute", "--config", "c.toml", "--lease", "nonsense", "-"],
        &manifest,
    );
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let failure: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(failure["error"]["code"], "INVALID_LEASE");
}

#[test]
fn a_lease_that_nobody_would_accept_is_not_issued() {
    let world = World::new();
    let dir = world.dir.path();
    said(&forge_search(dir, &["lease", "keygen", "s.key"], b""));
    let long = "x".repeat(1_025);
    for (task, scope) in [("", "s"), ("t", ""), (&*long, "s"), ("t", &*long)] {
        let args = ["lease", "issue", "--key", "s.key", "--task", task];
        let more = ["--capability", "SEARCH_FILES", "--scope", scope];
        let refused = forge_search(dir, &[&args[..], &more].concat(), b"");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("1,024 bytes"), "{said}");
    }
}

#[test]
fn unreadable_input_is_reported_before_a_task_is_executed() {
    let world = World::new();
    let dir = world.dir.path();
    world.write("c.toml", "[executor]\nkeys = [\"k4.public.x\"]\n");
    world.write(
        "bad.toml",
        "[executor.scopes.x]\nkind = \"paper\"\nlocation = \"x\"\n",
    );
    for (args, part) in [
        (
            &["execute", "--config", "c.toml", "--lease", "x", "none.json"][..],
            "none.json",
        ),
        (
            &["execute", "--config", "c.toml", "--lease-file", "none", "-"],
            "none",
        ),
        (
            &["execute", "--config", "c.toml", "--lease", "x", "-"],
            "k4.public.",
        ),
        (
            &["execute", "--config", "bad.toml", "--lease", "x", "-"],
            "paper",
        ),
        (&["execute", "-"], "--lease"),
        (
            &[
                "lease",
                "issue",
                "--key",
                "c.toml",
                "--task",
                "t",
                "--capability",
                "SEARCH_FILES",
                "--scope",
                "s",
            ],
            "k4.secret.",
        ),
        (
            &[
                "lease",
                "issue",
                "--key",
                "c.toml",
                "--task",
                "t",
                "--capability",
                "FILES",
                "--scope",
                "s",
            ],
            "SEARCH_FILES",
        ),
        (&["lease", "inspect", "nonsense"], "v4.public"),
    ] {
        let refused = forge_search(dir, args, b"{}");
        assert_eq!(refused.status.code(), Some(2), "{args:?} {refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(part), "{args:?} {said}");
        assert!(refused.stdout.is_empty());
    }
}

/// Executes a task through a command that takes a program and its arguments.
fn executed_by(prefix: &[&str]) -> Output {
    executed_with(prefix, "")
}

/// Executes a task in the same way, with more lines in the table `[executor]`.
fn executed_with(prefix: &[&str], more: &str) -> Output {
    let mut world = World::new();
    world.write("a.csv", "id,a\n1,needle\n");
    world.scope("a", ScopeKind::Csv, "a.csv");
    let config = world.write_config();
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replacen("[executor]\n", &format!("[executor]\n{more}"), 1);
    world.write("config.toml", text);
    let lease = world.write("lease", world.lease_for_ever("t", "SEARCH_DATASETS", "a"));
    let manifest = world.write(
        "manifest",
        manifest("t", "SEARCH_DATASETS", "a", "needle", 10),
    );
    Command::new(prefix[0])
        .args(&prefix[1..])
        .args([env!("CARGO_BIN_EXE_forge-search"), "execute", "--config"])
        .args([&config, Path::new("--lease-file"), &lease, &manifest])
        .output()
        .unwrap()
}

#[track_caller]
fn found_one(output: &Output) {
    let value: Value = serde_json::from_str(&said(output)).unwrap();
    assert_eq!(value["count"], 1, "{output:?}");
}

/// A worker also starts if the memory limit of its host is below the limit that workers get.
#[test]
fn a_worker_has_no_higher_limits_than_its_host() {
    let prefix = ["/bin/sh", "-c", "ulimit -v 200000 && exec \"$@\"", "sh"];
    found_one(&executed_by(&prefix));
}

#[test]
fn the_first_process_of_a_container_has_workers_too() {
    let first = ["--pid", "--fork", "--mount-proc"];
    let user = ["--user", "--map-root-user"];
    for options in [&first[..], &[&user[..], &first].concat()] {
        let prefix = [&["unshare"][..], options].concat();
        let tried = Command::new("unshare").args(options).arg("true").output();
        if tried.is_ok_and(|tried| tried.status.success()) {
            return found_one(&executed_by(&prefix));
        }
    }
    crate::skipped::skipped("there is no unshare, or it is not allowed");
}

#[test]
fn a_host_works_although_its_parent_ignores_the_end_of_children() {
    let prefix = ["env", "--ignore-signal=CHLD"];
    let tried = Command::new(prefix[0]).args([prefix[1], "true"]).output();
    match tried.is_ok_and(|tried| tried.status.success()) {
        true => found_one(&executed_by(&prefix)),
        false => crate::skipped::skipped("env can't have signals ignored"),
    }
}

#[test]
fn doctor_checks_keys_scopes_and_the_confinement_of_workers() {
    let mut world = World::new();
    world.write("a.csv", "id,a\n");
    world.scope("a", ScopeKind::Csv, "a.csv");
    world.scope("gone", ScopeKind::Files, "gone");
    let config = world.write_config();
    let dir = world.dir.path();
    let args = ["doctor", "--json", "--config", config.to_str().unwrap()];
    let report = forge_search(dir, &args, b"");
    assert_eq!(report.status.code(), Some(2), "{report:?}");
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let executor = &report["executor"];
    assert_eq!(executor["keys"][0], world.key.public().unwrap().id());
    assert_eq!(executor["scopes"][0], json!(["a", "csv", "ok"]));
    assert_eq!(executor["scopes"][1][0], "gone");
    assert!(executor["confined"]["seccomp"].is_string(), "{executor}");
    let problems = report["problems"].as_array().unwrap().iter();
    let of_executor: Vec<&Value> = problems.filter(|one| one["place"] == "executor").collect();
    assert!(
        of_executor
            .iter()
            .any(|one| one["message"].as_str().unwrap().starts_with("scope gone"))
    );
    let shown = forge_search(dir, &[&args[..1], &args[2..]].concat(), b"");
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("\nexecutor\n"),
        "{shown:?}"
    );
    // Without a configured executor, `doctor` reports nothing about it.
    let none = forge_search(dir, &["doctor", "--json"], b"");
    let none: Value = serde_json::from_slice(&none.stdout).unwrap();
    assert!(none.get("executor").is_none());
}

/// A Python script `CALL PROGRAM …`: it makes a system call fail as an unknown one, then starts a
/// program.
const WITHOUT: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
call = int(sys.argv[1])
# Load the number of the call; if it is that one, refuse it (ENOSYS), else allow it.
code = struct.pack("=" + "HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, call, 0x06, 0, 0, 0x50026, 0x06, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])
"#;

#[test]
#[cfg(target_os = "linux")]
fn a_system_that_can_not_confine_workers_searches_nothing_unless_that_is_allowed() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        return crate::skipped::skipped("there is no python3");
    }
    // The call is `landlock_create_ruleset`, which has the same number on every architecture.
    let prefix = ["python3", "-c", WITHOUT, "444"];
    let refused = executed_by(&prefix);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let answer: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(answer["error"]["code"], "EXECUTION_FAILED", "{answer}");
    assert_eq!(answer["error"]["reason"], "not_confined", "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("require_confinement = false")
    );
    let allowed = executed_with(&prefix, "require_confinement = false\n");
    found_one(&allowed);
    let said = String::from_utf8_lossy(&allowed.stderr).into_owned();
    assert!(said.contains("not confined by Landlock"), "{said}");
    // If the system can confine the worker, there is no warning.
    let confined = executed_by(&["env"]);
    found_one(&confined);
    assert!(confined.stderr.is_empty(), "{confined:?}");
}

#[test]
fn a_lease_file_that_is_too_large_or_no_text_is_refused() {
    let mut world = World::new();
    world.write("a.csv", "id,a\n1,needle\n");
    world.scope("a", ScopeKind::Csv, "a.csv");
    world.write_config();
    let lease = world.lease_for_ever("t", "SEARCH_DATASETS", "a");
    let task = manifest("t", "SEARCH_DATASETS", "a", "needle", 10);
    let args = [
        "execute",
        "--config",
        "config.toml",
        "--lease-file",
        "lease",
        "-",
    ];
    // The first file has a valid lease, but is larger than allowed. The second one is not UTF-8.
    let large = lease.clone() + &" ".repeat(70_000);
    for content in [large.as_bytes(), &[lease.as_bytes(), b"\xff"].concat()] {
        std::fs::write(world.dir.path().join("lease"), content).unwrap();
        let refused = forge_search(world.dir.path(), &args, &task);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let answer: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(answer["error"]["code"], "INVALID_LEASE", "{answer}");
    }
}

#[test]
fn a_key_that_others_can_write_signs_nothing() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let world = World::new();
    let dir = world.dir.path();
    let made = forge_search(dir, &["lease", "keygen", "key"], b"");
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let key = dir.join("key");
    let args = ["lease", "issue", "--key", "key", "--task", "t"];
    let args = [&args[..], &["--capability", "SEARCH_FILES", "--scope", "s"]].concat();
    let refused = |part: &str| {
        let issued = forge_search(dir, &args, b"");
        assert_eq!(issued.status.code(), Some(2), "{issued:?}");
        let said = String::from_utf8_lossy(&issued.stderr).into_owned();
        assert!(said.contains(part) && said.contains("key"), "{said}");
    };
    assert_eq!(forge_search(dir, &args, b"").status.code(), Some(0));
    for mode in [0o620, 0o602] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        refused("chmod go-w");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    refused("its directory");
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(&key, Some(65_534), None).unwrap();
        refused("another user");
    }
}
