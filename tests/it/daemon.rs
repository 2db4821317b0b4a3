//! Tests of the daemon over a real socket. The messages are encoded and decoded by hand here, so
//! that the tests check the wire format, independently of the library's own code for it.

mod clients;
mod combinations;
mod fake_daemons;
mod find;
mod find_code;
mod git;
mod inherited_settings;
mod inspect;
mod languages;
mod mcp;
mod mcp_messages;
mod output_for_people;
mod own_output;
mod page;
mod parts;
mod places;
pub(crate) mod program;
mod protocol;
mod queries;
mod related;
mod rg;
mod robust;
mod schemas;
mod stress;
mod terminals;
mod withheld;
mod without_daemon;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use forge_search::internal::tool::config::{Config, IndexMode, IndexStorage, Loader, Profile};
use forge_search::internal::tool::daemon::handshake::ServedTree;
use forge_search::internal::tool::daemon::server::{Server, Settings};
use forge_search::internal::tool::daemon::service::{Parts, Service};
use forge_search::internal::tool::daemon::socket::{Access, OwnSocket};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes, LiveEnvironment};
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};
use forge_search::internal::tool::search_files::FilesTool;
use serde_json::{Value, json};

use crate::support::{GUARD, Tree};

/// A tree with a daemon.
struct World {
    server: Server,
    served: ServedTree,
    tool: SearchTool,
    context: ToolContext,
    indexes: Option<Arc<Indexes>>,
    _dir: tempfile::TempDir,
    tree: Tree,
}

impl World {
    fn over(tree: Tree, settings: Settings) -> World {
        World::with(tree, settings, |_| {})
    }

    fn with(tree: Tree, settings: Settings, change: impl FnOnce(&mut Config)) -> World {
        World::on(tree, settings, Engines::embedded(), change)
    }

    /// Starts a daemon with its index in memory, and waits until the index is ready.
    fn on(
        tree: Tree,
        settings: Settings,
        engines: Engines,
        change: impl FnOnce(&mut Config),
    ) -> World {
        let mut config = Loader::new(Profile::CommandLine).build().unwrap();
        config.search.index_mode = IndexMode::On;
        config.search.index_storage = IndexStorage::Memory;
        config.search.index_watch_debounce_ms = 5;
        change(&mut config);
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, tree.root()).unwrap());
        let context = ToolContext::new(sandbox.clone());
        let places = CachePlaces::default();
        let make = || {
            let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places);
            let indexes = indexes.map(Arc::new);
            let tool = SearchTool::new(config.search.clone(), engines.clone());
            (tool.with_indexes(indexes.clone()), indexes)
        };
        let (search, indexes) = make();
        if let Some(indexes) = &indexes {
            indexes
                .live(
                    &config.search,
                    &LiveEnvironment::new(sandbox.reach().clone()),
                )
                .unwrap();
            indexes.wait_live(tree.root(), GUARD);
        }
        // A tool without a daemon, to compare answers.
        let tool = SearchTool::new(config.search.clone(), engines.clone());
        let files = FilesTool::new(&config, engines.clone());
        let parts = Parts::new(
            Arc::new(search),
            Arc::new(files),
            context.clone(),
            sandbox.clone(),
            tree.root().to_path_buf(),
            config,
        );
        let service = Service::new(Parts {
            git: git(),
            git_patience: Some(GUARD),
            ..parts
        });
        let service = service.unwrap();
        let served = service.served().clone();
        let dir = tempfile::tempdir().unwrap();
        let socket =
            OwnSocket::listen(&dir.path().join("run").join("d.sock"), Access::Owner).unwrap();
        World {
            server: Server::start(service, socket, settings).unwrap(),
            served,
            tool,
            context,
            indexes,
            _dir: dir,
            tree,
        }
    }

    /// Stops the daemon and keeps the tree.
    fn into_tree(self) -> Tree {
        self.tree
    }

    fn path(&self) -> PathBuf {
        self.server.path().to_path_buf()
    }

    /// Connects without a handshake.
    fn connect(&self) -> Wire {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        Wire(stream)
    }

    fn hello(&self) -> Value {
        json!({
            "protocol_versions": [2],
            "store_id": self.served.store_id,
            "config_fingerprint": self.served.config_fingerprint,
            "client_id": "test",
        })
    }

    /// Connects and makes the handshake.
    fn client(&self) -> Wire {
        self.client_named("test")
    }

    fn client_named(&self, name: &str) -> Wire {
        let mut hello = self.hello();
        hello["client_id"] = name.into();
        let mut wire = self.connect();
        let welcome = wire.ask(&hello);
        schemas::check("handshake_request", &hello);
        schemas::check("handshake_response", &welcome);
        wire
    }
}

/// The files that most tests use.
fn small() -> Tree {
    Tree::of([
        (
            "src/socket.rs",
            "/// Opens a socket.\npub fn open_socket(path: &str) -> Socket {\n    Socket::open(path)\n}\n",
        ),
        (
            "src/main.rs",
            "fn main() {\n    let socket = open_socket(\"/tmp/x\");\n    socket.close();\n}\n",
        ),
        (
            "tests/socket_test.rs",
            "#[test]\nfn opens() {\n    open_socket(\"x\");\n}\n",
        ),
        (
            "docs/guide.md",
            "# Sockets\n\nA socket is opened by `open_socket`.\n",
        ),
        ("Cargo.toml", "[package]\nname = \"x\"\n"),
        ("src/other.rs", "pub fn unrelated() {}\n"),
    ])
}

/// A connection on which tests send and receive raw bytes.
struct Wire(UnixStream);

impl Wire {
    fn send_bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u32::try_from(text.len()).unwrap();
        // One write for the whole message: a daemon with little patience does not wait for the
        // rest.
        self.send_bytes(&[&length.to_be_bytes(), text.as_bytes()].concat());
    }

    /// Returns the next payload, or `None` at the end of the connection.
    fn payload(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length) {
            Ok(()) => {}
            // A daemon that closes a connection with unread input resets it.
            Err(_) => return None,
        }
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.0.read_exact(&mut payload).unwrap();
        Some(payload)
    }

    fn next(&mut self) -> Option<Value> {
        let payload = self.payload()?;
        let answer = serde_json::from_slice(&payload).unwrap();
        schemas::check_answer(&answer);
        Some(answer)
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.next().expect("an answer")
    }

    /// Sends a message and expects an error with this code.
    #[track_caller]
    fn refused(&mut self, message: &Value, code: &str) -> String {
        let answer = self.ask(message);
        schemas::check("query_error", &answer);
        assert_eq!(answer["error"]["code"], code, "{message}: {answer}");
        answer["error"]["message"].as_str().unwrap().to_string()
    }

    #[track_caller]
    fn ends(&mut self) {
        assert_eq!(self.next(), None, "the connection is closed");
    }

    /// Sends a query and expects a successful answer.
    #[track_caller]
    fn found(&mut self, query: Value) -> Value {
        let answer = self.ask(&query);
        schemas::check("query_success", &answer);
        answer
    }
}

/// Returns the path of git, if it is installed.
fn git() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut dirs = std::env::split_paths(&path);
    dirs.find_map(|dir| Some(dir.join("git")).filter(|path| path.is_file()))
}
