//! A page for a browser on the same machine: a box to search in, results as one types, and how the index is.
//!
//! Owns the HTTP side of it: who is answered ([`guard`]), what for, and how much of it at once. What is found is a [`Tree`]'s to say. The page
//! itself is three files beside this one, without anything from elsewhere.

pub mod guard;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::guard::{Guard, Token};
use crate::tool::daemon::request::ToolCall;
use crate::tool::daemon::tree::{GivenUp, Tree};
use crate::tool::error::ToolError;
use crate::tool::request::SEARCH_NAME;
use crate::tool::response::BuildStats;

/// Connections at once; more wait.
const CONNECTIONS: usize = 512;

/// Questions that are answered at once; more wait.
const QUESTIONS: usize = 8;

/// How long a browser may take to ask, once it has connected, and to hand over what it asks. Whoever has no token can keep a connection no longer: what they
/// are told fits into what the system keeps for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a request.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Bytes of an answer: more than anybody looks through.
const MAX_ANSWER_BYTES: usize = 2 << 20;

/// How long the end waits for what is being answered.
const LAST: Duration = Duration::from_millis(200);

/// Nothing from elsewhere is loaded, asked or shown, and nobody else shows this.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A page that is served. It ends when this is dropped.
pub struct Page {
    url: String,
    ending: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    tree: Arc<dyn Tree>,
    guard: Guard,
    questions: Semaphore,
    /// What the page calls the tree.
    name: String,
}

impl Page {
    /// Begins to serve a tree, called `name` on the page, at an address of this machine; a port of zero is any that is free. Whoever has the token is answered.
    ///
    /// # Errors
    ///
    /// The address is not one of this machine alone, or is taken; or those of the system.
    pub fn start(
        tree: Arc<dyn Tree>,
        name: String,
        address: SocketAddr,
        token: Token,
    ) -> io::Result<Page> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "others could reach it; give an address of this machine alone, 127.0.0.1 or [::1]",
            ));
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let guard = Guard::new(listener.local_addr()?, token);
        let url = guard.url();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(QUESTIONS + 2)
            .thread_name("forge-search-page")
            .enable_io()
            .enable_time()
            .build()?;
        let shared = Arc::new(Shared {
            tree,
            guard,
            questions: Semaphore::new(QUESTIONS),
            name,
        });
        let ending = watch::Sender::new(false);
        let mut ended = ending.subscribe();
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new()
            .name("forge-search-page".to_string())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, router(shared)) => {}
                        // The sender lives as long as the page.
                        _ = ended.wait_for(|ended| *ended) => {}
                    }
                });
                runtime.shutdown_timeout(LAST);
            })?;
        Ok(Page {
            url,
            ending,
            thread: Some(thread),
        })
    }

    /// Returns what is to be opened in a browser, with the token.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed where it happened.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Page {
    // Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

/// Accepts connections, as many at once as there may be.
async fn accept(listener: tokio::net::TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // Nobody closes it.
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, say: others have to go first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let mut server = http1::Builder::new();
            server
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                // Each request has a connection of its own, so that none stays with somebody who reads nothing.
                .keep_alive(false);
            // A browser that goes away is no failure.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(
            "/",
            get(async || file("text/html", include_str!("web/page/index.html"))),
        )
        .route(
            "/page.css",
            get(async || file("text/css", include_str!("web/page/page.css"))),
        )
        .route(
            "/page.js",
            get(async || file("text/javascript", include_str!("web/page/page.js"))),
        )
        .route("/api/search", post(search))
        .route("/api/status", get(status))
        .route("/api/health", get(health))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is no such page"))
        .layer(middleware::from_fn_with_state(shared.clone(), admit))
        .with_state(shared)
}

/// Lets a request through, or not; and has the browser keep to itself what it gets.
async fn admit(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match shared.guard.refusal(&request) {
        None => next.run(request).await,
        Some((status, why)) => refusal(status, why),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// One of the files of the page.
fn file(kind: &str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Says no, to people.
fn refusal(status: StatusCode, why: &'static str) -> Response {
    let kind = "text/plain; charset=utf-8";
    (status, [(header::CONTENT_TYPE, kind)], format!("{why}\n")).into_response()
}

/// Answers in JSON.
fn answer(value: &Value) -> Response {
    let kind = "application/json";
    let status = match value["error"]["code"].as_str() {
        None => StatusCode::OK,
        Some("bad_args" | "path_outside_sandbox" | "denied_pattern_matched") => {
            StatusCode::BAD_REQUEST
        }
        Some("busy") => StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = value.to_string();
    (status, [(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Asks the tree, on a thread where that may block, when it is this question's turn.
async fn asked(
    shared: &Arc<Shared>,
    ask: impl FnOnce(&Shared) -> Value + Send + 'static,
) -> Response {
    let Ok(_turn) = shared.questions.acquire().await else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "this is about to end");
    };
    let shared = shared.clone();
    let asked = tokio::task::spawn_blocking(move || ask(&shared)).await;
    match asked {
        Ok(value) => answer(&value),
        Err(_) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "no answer; see what `forge-search serve` has printed",
        ),
    }
}

/// `POST /api/search`: a request of the tool `Search`, answered as the tool answers it.
async fn search(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Body) -> Response {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.split(';').next() == Some("application/json"));
    if !is_json {
        return refusal(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a request is application/json",
        );
    }
    let body: Bytes = match timeout(PATIENCE, to_bytes(body, MAX_REQUEST_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            return refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is too large, or ended too soon",
            );
        }
        Err(_) => {
            return refusal(
                StatusCode::REQUEST_TIMEOUT,
                "the request took too long to come",
            );
        }
    };
    let request = match serde_json::from_slice(&body) {
        Ok(Value::Object(request)) => request,
        Ok(_) => {
            return answer(
                &ToolError::bad_args("a request is a JSON object".to_string()).to_json(),
            );
        }
        Err(error) => return answer(&ToolError::bad_args(error.to_string()).to_json()),
    };
    let call = ToolCall {
        tool: SEARCH_NAME.to_string(),
        request,
        max_output_bytes: Some(MAX_ANSWER_BYTES),
        text: false,
        person: false,
        whole: false,
    };
    let given_up = Arc::new(GivenUp::default());
    // The browser may go away.
    let _waits = given_up.while_waited_for();
    asked(&shared, move |shared| match given_up.is_given_up() {
        true => ToolError::Cancelled.to_json(),
        false => shared.tree.call(&call, &given_up),
    })
    .await
}

/// `GET /api/status`: what the daemon says of itself, and how far the index is, while one is being built.
async fn status(State(shared): State<Arc<Shared>>) -> Response {
    asked(&shared, |shared| {
        let building = shared.tree.building().map(BuildStats::from);
        match shared.tree.status() {
            Ok(status) if status.get("error").is_some() => status,
            Ok(status) => json!({"name": shared.name, "status": status, "building": building}),
            Err(error) => error.to_json(),
        }
    })
    .await
}

/// `GET /api/health`: checks, each with what to do.
async fn health(State(shared): State<Arc<Shared>>) -> Response {
    asked(&shared, |shared| {
        let health = shared.tree.health();
        health.unwrap_or_else(|error| error.to_json())
    })
    .await
}
