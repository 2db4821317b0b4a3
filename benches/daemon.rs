//! The daemon: the time of questions and calls over its socket, alone and while another client
//! floods it.
//!
//! The tree is the generated one of 20,000 files, or the one that `FORGE_SEARCH_TREE` names. Its
//! index is in memory and complete. `FORGE_SEARCH_ASKED` is the number of requests of each kind
//! (100). All measurements are made in one process and in one run.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]
// Benches measure time and ask the environment which tree to use.
#![allow(clippy::disallowed_methods)]

#[path = "support/tree.rs"]
mod tree;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forge_search::internal::tool::config::{Config, IndexMode, IndexStorage};
use forge_search::internal::tool::daemon::client::{Caller, Connection};
use forge_search::internal::tool::daemon::handshake::ServedTree;
use forge_search::internal::tool::daemon::request::{Request, RequestBody, SearchQuery, ToolCall};
use forge_search::internal::tool::daemon::server::{Server, Settings};
use forge_search::internal::tool::daemon::service::{Parts, Service};
use forge_search::internal::tool::daemon::socket::{Access, OwnSocket};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes, LiveEnvironment};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use forge_search::internal::tool::search_files::FilesTool;
use tree::RARE;

/// A timeout that no request reaches.
const LONG: Duration = Duration::from_secs(600);

/// The number of connections that flood the daemon under one client's name.
const FLOOD: usize = 32;

struct World {
    server: Server,
    served: ServedTree,
}

impl World {
    fn over(top: PathBuf, dir: &std::path::Path) -> World {
        let mut config = Config::command_line_default();
        config.search.index_mode = IndexMode::On;
        config.search.index_storage = IndexStorage::Memory;
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, &top).unwrap());
        let engines = Engines::embedded();
        let places = CachePlaces::default();
        let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places).unwrap();
        let indexes = Arc::new(indexes);
        indexes
            .live(
                &config.search,
                &LiveEnvironment::new(sandbox.reach().clone()),
            )
            .unwrap();
        let began = Instant::now();
        while !indexes
            .live_report(&top)
            .unwrap()
            .index_state
            .allows_exclusion()
        {
            assert!(began.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(20));
        }
        println!(
            "index complete after {:.1} s",
            began.elapsed().as_secs_f64()
        );
        let search = SearchTool::new(config.search.clone(), engines.clone());
        let service = Service::new(Parts::new(
            Arc::new(search.with_indexes(Some(indexes))),
            Arc::new(FilesTool::new(&config, engines)),
            ToolContext::new(sandbox.clone()),
            sandbox,
            top,
            config,
        ))
        .unwrap();
        let served = service.served().clone();
        let socket = OwnSocket::listen(&dir.join("run").join("d.sock"), Access::Owner).unwrap();
        World {
            server: Server::start(service, socket, Settings::default()).unwrap(),
            served,
        }
    }

    fn client(&self, name: &str) -> Connection {
        let caller = Caller {
            client_id: Some(name),
            patience: LONG,
            access: Access::Owner,
        };
        Connection::open(self.server.path(), &self.served, caller).unwrap()
    }
}

fn question(text: &str) -> Request {
    Request {
        id: None,
        body: RequestBody::Search(SearchQuery::new(text)),
    }
}

fn call(pattern: &str) -> Request {
    let request = serde_json::json!({ "pattern": pattern });
    Request {
        id: None,
        body: RequestBody::Tool(ToolCall {
            tool: "Search".to_string(),
            request: request.as_object().unwrap().clone(),
            ..ToolCall::default()
        }),
    }
}

/// Sends a request `count` times. Returns the sorted times.
fn ask(client: &mut Connection, request: &Request, count: usize) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let start = Instant::now();
            let answer = client.ask(request, LONG).unwrap();
            let took = start.elapsed();
            assert!(
                !answer.starts_with(b"{\"error\""),
                "{}",
                String::from_utf8_lossy(&answer)
            );
            took
        })
        .collect();
    times.sort();
    times
}

fn at(times: &[Duration], percent: usize) -> f64 {
    let place = (times.len() * percent).div_ceil(100).max(1) - 1;
    times[place].as_secs_f64() * 1000.0
}

fn main() {
    let asked = std::env::var("FORGE_SEARCH_ASKED").map_or(100, |text| text.parse().unwrap());
    let named = std::env::var_os("FORGE_SEARCH_TREE");
    let (top, words) = match named {
        Some(top) => (
            PathBuf::from(top),
            ["zqxwvy_absent", "kmalloc_array_node", "mutex_lock"],
        ),
        None => (tree::generated(), ["zqxwvy_absent", RARE, "buffer"]),
    };
    let top = top.canonicalize().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let world = World::over(top, dir.path());
    let mut client = world.client("one");
    println!("{asked} each; p50 and p99 in milliseconds");
    for (what, word) in ["absent", "rare", "frequent"].into_iter().zip(words) {
        for (kind, request) in [("call", call(word)), ("question", question(word))] {
            ask(&mut client, &request, 3);
            let times = ask(&mut client, &request, asked);
            println!(
                "{kind:<9} {what:<9} {:>8.2} {:>8.2}",
                at(&times, 50),
                at(&times, 99)
            );
        }
    }
    for (kind, request) in [("call", call(words[2])), ("question", question(words[2]))] {
        let alone = ask(&mut client, &request, asked);
        let ends = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            for _ in 0..FLOOD {
                scope.spawn(|| {
                    let mut flood = world.client("flood");
                    while !ends.load(Ordering::Relaxed) {
                        // A "busy" answer counts too.
                        flood.ask(&request, LONG).unwrap();
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(500));
            let beside = ask(&mut client, &request, asked);
            ends.store(true, Ordering::Relaxed);
            beside
        });
        let factor = |percent| at(&beside, percent) / at(&alone, percent);
        println!(
            "{kind:<9} beside {FLOOD} of another client: {:.2} {:.2}, {:.1} and {:.1} times",
            at(&beside, 50),
            at(&beside, 99),
            factor(50),
            factor(99)
        );
    }
    let (counts, ..) = world.server.counts();
    println!("{counts:?}");
}
