//! Tests answers that a daemon sends in parts: the first part comes early, the memory is bounded,
//! and nothing is missing if the daemon breaks off.

use std::io::Read;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use super::program::{Place, kill, ok, wait_until};

/// A tree with some megabytes of matches.
fn large() -> Place {
    with_files(600)
}

/// A tree of `count` files, with about seven kilobytes of matches in each.
fn with_files(count: usize) -> Place {
    let place = Place::new();
    let line = "a needle in a line of a hundred bytes or so, as long as lines of programs may be in practice\n";
    for n in 0..count {
        place.write(
            &format!("many/{:02}/{n}.txt", n % 40),
            &line.repeat(40 + n % 60),
        );
    }
    place
}

fn signal(daemon: &Child, signal: Signal) {
    kill(i32::try_from(daemon.id()).unwrap(), signal);
}

fn end(mut daemon: Child) {
    signal(&daemon, Signal::CONT);
    signal(&daemon, Signal::KILL);
    daemon.wait().unwrap();
}

/// Starts a search with pipes for its output.
fn search(place: &Place, args: &[&str]) -> Child {
    let mut command = place.command(env!("CARGO_BIN_EXE_forge-search"), args);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Reads the rest of a search's output. `before` is the part that was read already.
fn rest(mut search: Child, mut before: Vec<u8>) -> (String, String, Option<i32>) {
    let mut said = String::new();
    search
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut before)
        .unwrap();
    search
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let status = search.wait().unwrap().code();
    (String::from_utf8(before).unwrap(), said, status)
}

#[test]
fn an_answer_longer_than_any_message_arrives_whole() {
    let place = large();
    let args = ["--debug", "--max-results", "0", "needle"];
    place.write("a-long-line", &format!("needle{}\n", "x".repeat(9_000)));
    let plain = ok(&place.forge_search(&["--daemon", "off", "--max-results", "0", "needle"]));
    assert!(plain.len() > 3 << 20, "{}", plain.len());
    for most in ["65536", "4096"] {
        let set = format!("tools.daemon.max_response_bytes={most}");
        let daemon = place.serve(&["--set", &set]);
        let (out, said, status) = rest(
            search(&place, &[&args[..], &["--set", &set]].concat()),
            Vec::new(),
        );
        assert_eq!((out == plain, status), (true, Some(0)), "{most}");
        // If a line does not fit into a message, the process finds it itself.
        let is_by_daemon = said.contains("the daemon of the tree answered");
        assert_eq!(is_by_daemon, most == "65536", "{said}");
        let list = ["--debug", "--files", "--set", &set];
        let (names, said, _) = rest(search(&place, &list), Vec::new());
        assert_eq!(
            names,
            ok(&place.forge_search(&["--daemon", "off", "--files"]))
        );
        assert!(said.contains("the daemon of the tree answered"), "{said}");
        end(daemon);
    }
}

#[test]
fn the_process_finds_the_rest_of_a_very_long_answer_itself() {
    let place = Place::new();
    for n in 0..60 {
        let line = format!(
            "{n}: a needle in a line of about a hundred bytes, of which there are many in each of sixty files\n"
        );
        place.write(&format!("many/{n}.txt"), &line.repeat(6_000));
    }
    let args = ["--debug", "--max-results", "0", "needle"];
    let plain = ok(&place.forge_search(&[&args[1..], &["--daemon", "off"]].concat()));
    assert!(plain.len() > 40_000_000, "{}", plain.len());
    let daemon = place.serve(&[]);
    let (out, said, status) = rest(search(&place, &args), Vec::new());
    assert_eq!((out == plain, status), (true, Some(0)));
    assert!(said.contains("this process searches"), "{said}");
    let (names, said, _) = rest(search(&place, &["--debug", "--files"]), Vec::new());
    assert_eq!(
        names,
        ok(&place.forge_search(&["--daemon", "off", "--files"]))
    );
    assert!(said.contains("the daemon of the tree answered"), "{said}");
    end(daemon);
}

#[test]
fn a_daemon_that_ends_in_mid_answer_costs_no_line() {
    // The output is several times as long as the buffers of pipes and sockets.
    let place = with_files(250);
    let breaks = [
        (1, Signal::KILL),
        (70_000, Signal::KILL),
        (600_000, Signal::STOP),
        (1, Signal::TERM),
    ];
    for (shape, breaks) in [
        (&["needle"][..], &breaks[..]),
        (&["--rg-json", "needle"], &breaks[1..2]),
        (&["-c", "needle"], &breaks[..1]),
        (&["-A2", "needle"], &breaks[2..3]),
    ] {
        let args = [shape, &["--max-results", "0"]].concat();
        let plain = ok(&place.forge_search(&[&args[..], &["--daemon", "off"]].concat()));
        for &(read, by) in breaks {
            let daemon = place.serve(&[]);
            let mut search = place.command(env!("CARGO_BIN_EXE_forge-search"), &args);
            // The patience is that of the product. If the daemon hangs, the process itself finds
            // the rest soon.
            search.env_remove("FORGE_SEARCH_PATIENCE_MS");
            let search = search.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut search = search.spawn().unwrap();
            let mut before = vec![0; read.min(plain.len() / 2)];
            search
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut before)
                .unwrap();
            signal(&daemon, by);
            let (out, said, status) = rest(search, before);
            let is_same = super::combinations::without_times(&out)
                == super::combinations::without_times(&plain);
            assert!(
                is_same,
                "{shape:?} {read} {by:?}: {} and {} bytes, {said}",
                out.len(),
                plain.len()
            );
            assert_eq!(
                (said.as_str(), status),
                ("", Some(0)),
                "{shape:?} {read} {by:?}"
            );
            end(daemon);
            wait_until("it is gone", || place.daemons().is_empty());
        }
    }
}

#[test]
fn a_slow_reader_gets_everything_and_occupies_no_query_slot() {
    let place = large();
    let args = ["--max-results", "0", "needle"];
    let plain = ok(&place.forge_search(&[&args[..], &["--daemon", "off"]].concat()));
    let set = "tools.daemon.max_concurrent_queries=1";
    let daemon = place.serve(&["--set", set]);
    let args = [&args[..], &["--set", set]].concat();
    let mut slow = search(&place, &args);
    let mut before = vec![0; 10];
    slow.stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut before)
        .unwrap();
    // A pager that shows its first screen: after some seconds the daemon stops waiting for the
    // reader.
    let counted = || ok(&place.ggrep(&["status", "--prometheus", "--set", set]));
    wait_until("its turn is another one's", || {
        counted().contains("forge_search_queries_in_flight 0\n")
    });
    let (out, said, status) = rest(slow, before);
    assert!(out == plain, "{} and {} bytes", out.len(), plain.len());
    assert_eq!((said.as_str(), status), ("", Some(0)));
    end(daemon);
}

#[test]
fn a_search_of_a_large_tree_starts_a_daemon_if_configured() {
    let place = large();
    let threshold = ["--set", "index_auto_threshold_files=500"];
    let run = |more: &[&str]| ok(&place.forge_search(&[&["-l", "needle"], more].concat()));
    let plain = run(&["--daemon", "off"]);
    for none in [
        &["--daemon", "start"][..],
        &threshold,
        &[
            "--daemon",
            "start",
            "--index",
            "off",
            threshold[0],
            threshold[1],
        ],
    ] {
        assert_eq!(run(none), plain);
        assert!(place.daemons().is_empty(), "{none:?}");
    }
    let starts = [&["--daemon", "start"], &threshold[..]].concat();
    assert_eq!(run(&starts), plain);
    wait_until("a daemon runs", || place.sockets().len() == 1);
    let answered = || {
        let said = place.forge_search(&[&["--debug", "-l", "needle"], &starts[..]].concat());
        String::from_utf8_lossy(&said.stderr).contains("the daemon of the tree answered")
    };
    wait_until("it answers", answered);
    assert_eq!(place.daemons().len(), 1);
    let status = ok(&place.forge_search(&["status", threshold[0], threshold[1]]));
    assert!(status.contains(place.root().to_str().unwrap()), "{status}");
    assert_eq!(
        ok(&place.forge_search(&["stop", threshold[0], threshold[1]])),
        "stopped\n"
    );
    wait_until("it has ended", || place.daemons().is_empty());
}
