//! Tests which settings a background daemon inherits from the process that starts it.

use std::fs;

use super::program::{Place, ok};

/// Returns the value of a field from the text of a file in `/proc`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim()
}

#[test]
#[cfg(target_os = "linux")]
fn a_background_daemon_inherits_nothing_of_the_process_that_started_it() {
    let place = Place::new();
    let ggrep = env!("CARGO_BIN_EXE_ggrep");
    let script = format!(
        "umask 000; ulimit -S -f 2000000; ulimit -S -v 8000000; exec nice -n 5 {ggrep} 'retry delay'"
    );
    let mut shell = place.command("sh", &["-c", &script]);
    let kept = [
        ("LC_ALL", "C.UTF-8"),
        ("FORGE_SEARCH_X", "1"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("RUST_BACKTRACE", "0"),
    ];
    let left = [
        ("API_TOKEN", "secret"),
        ("LD_PRELOAD", ""),
        ("EDITOR", "vi"),
    ];
    shell.envs(kept).envs(left);
    ok(&shell.output().unwrap());
    let of = |name: &str| {
        let path = format!("/proc/{}/{name}", place.daemons()[0]);
        fs::read_to_string(path).unwrap()
    };
    let environment = of("environ");
    let has = |name: &str| {
        let mut all = environment.split('\0');
        all.any(|one| one.starts_with(&format!("{name}=")))
    };
    let of_user = ["PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];
    for name in kept.iter().map(|(name, _)| *name).chain(of_user) {
        assert!(has(name), "{name} in {environment:?}");
    }
    for (name, _) in left {
        assert!(!has(name), "{name} in {environment:?}");
    }
    assert_eq!(field(&of("status"), "Umask:"), "0077");
    let limits = of("limits");
    let soft = |name: &str| field(&limits, name).split_whitespace().next().unwrap();
    assert_eq!(soft("Max core file size"), "0");
    assert_eq!(soft("Max file size"), "unlimited");
    assert_eq!(soft("Max address space"), "unlimited");
    if rustix::process::geteuid().is_root() {
        // The nice value is the 17th field after the process name. The name may contain spaces.
        let stat = of("stat");
        let fields = stat.rsplit_once(')').unwrap().1;
        assert_eq!(fields.split_whitespace().nth(16), Some("0"), "{stat}");
    } else {
        crate::skipped::skipped_unless_root("only root can have its priority back");
    }
}
