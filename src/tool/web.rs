//! The web page: a search box, live results and the state of the index, for a browser on this
//! machine.
//!
//! This module owns the HTTP side: which requests are answered ([`guard`]), their routes and their
//! limits. A [`TreeBackend`] runs the searches and reads the files. The page itself consists of the
//! files in `web/page`, and loads nothing from other servers.

pub mod guard;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::guard::{Guard, Token};
use crate::tool::daemon::file_lines;
use crate::tool::daemon::request::ToolCall;
use crate::tool::daemon::tree_backend::{CallCancel, TreeBackend};
use crate::tool::error::ToolError;
use crate::tool::find_code::FIND_CODE_NAME;
use crate::tool::request::SEARCH_NAME;
use crate::tool::response::BuildStats;

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 512;

/// Requests that are answered at once; further ones wait.
const QUESTIONS: usize = 8;

/// How long a browser may take to send the head, and then the body, of a request. A client without
/// the token can't hold a connection longer: its refusal fits into the system's socket buffer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest request, in bytes.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// The longest answer, in bytes: more than a person reads.
const MAX_ANSWER_BYTES: usize = 2 << 20;

/// How long the shutdown waits for running requests.
const LAST: Duration = Duration::from_millis(200);

/// The page loads, queries and embeds nothing from other servers, and no other page may embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A running page. Dropping it ends the server.
pub struct Page {
    url: String,
    ending: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    tree: Arc<dyn TreeBackend>,
    guard: Guard,
    questions: Semaphore,
    /// The name of the tree on the page.
    name: String,
}

impl Page {
    /// Serves a tree, called `name` on the page, at a loopback address. Port zero selects a free
    /// port. Requests for data need the token.
    ///
    /// # Errors
    ///
    /// An [`io::Error`] if the address is no loopback address, is in use, or the server can't
    /// start.
    pub fn start(
        tree: Arc<dyn TreeBackend>,
        name: String,
        address: SocketAddr,
        token: Token,
    ) -> io::Result<Page> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "other machines could reach it; give a loopback address, 127.0.0.1 or [::1]",
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

    /// Returns the URL to open in a browser, including the token.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // The panic message was already printed.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Page {
    // The token must not be logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

/// Accepts connections, at most [`CONNECTIONS`] at once.
async fn accept(listener: tokio::net::TcpListener, router: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = room.clone().acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // For example too many open files: wait until some are closed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let mut server = http1::Builder::new();
            server
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                // Each request has its own connection, so a client that reads nothing holds no
                // other request.
                .keep_alive(false);
            // A browser that disconnects is no failure.
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
        .route(
            "/text.js",
            get(async || file("text/javascript", include_str!("web/page/text.js"))),
        )
        .route(
            "/api/search",
            post(async |shared, headers, body| call_tool(SEARCH_NAME, shared, headers, body).await),
        )
        .route(
            "/api/code",
            post(async |shared, headers, body| {
                call_tool(FIND_CODE_NAME, shared, headers, body).await
            }),
        )
        .route("/api/file", get(file_around))
        .route("/api/status", get(status))
        .route("/api/health", get(health))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(shared.clone(), admit))
        .with_state(shared)
}

/// Checks a request, and adds headers that keep the response within the page.
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

/// Returns one of the files of the page.
fn file(kind: &str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Returns a refusal as plain text.
fn refusal(status: StatusCode, why: &'static str) -> Response {
    let kind = "text/plain; charset=utf-8";
    (status, [(header::CONTENT_TYPE, kind)], format!("{why}\n")).into_response()
}

/// Returns the response for an unknown path: plain text for programs, a page for people.
async fn not_found(uri: Uri) -> Response {
    match guard::is_api(uri.path()) {
        true => refusal(StatusCode::NOT_FOUND, "there is no such request"),
        false => {
            let page = file("text/html", include_str!("web/page/missing.html"));
            (StatusCode::NOT_FOUND, page).into_response()
        }
    }
}

/// Returns a JSON response, with the status that fits its error code.
fn answer(value: &Value) -> Response {
    let kind = "application/json";
    let status = match value["error"]["code"].as_str() {
        None => StatusCode::OK,
        Some("bad_args" | "path_outside_sandbox" | "denied_pattern_matched") => {
            StatusCode::BAD_REQUEST
        }
        // For example, the path does not exist.
        Some("execution_failed") => StatusCode::UNPROCESSABLE_ENTITY,
        Some("busy") => StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = value.to_string();
    (status, [(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Calls the tree on a blocking thread, when a permit is free.
async fn call_backend(
    shared: &Arc<Shared>,
    ask: impl FnOnce(&Shared) -> Value + Send + 'static,
) -> Response {
    let Ok(_turn) = shared.questions.acquire().await else {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down",
        );
    };
    let shared = shared.clone();
    let asked = tokio::task::spawn_blocking(move || ask(&shared)).await;
    match asked {
        Ok(value) => answer(&value),
        Err(_) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "there is no answer; see the messages of `forge-search serve`",
        ),
    }
}

/// `POST /api/search` and `/api/code`: a request of a tool, answered like the tool.
async fn call_tool(
    tool: &'static str,
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.split(';').next() == Some("application/json"));
    if !is_json {
        return refusal(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a request must have the Content-Type application/json",
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
                "the request took too long to arrive",
            );
        }
    };
    let request = match serde_json::from_slice(&body) {
        Ok(Value::Object(request)) => request,
        Ok(_) => {
            return answer(
                &ToolError::bad_args("a request must be a JSON object".to_string()).to_json(),
            );
        }
        Err(error) => return answer(&ToolError::bad_args(error.to_string()).to_json()),
    };
    call_tree(&shared, tool, request).await
}

/// `GET /api/file?path=PATH&line=LINE`: the lines of a file around a line, by default the first.
async fn file_around(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let line = parameter(&uri, "line").unwrap_or_else(|| "1".to_string());
    let Ok(line) = line.parse::<u64>() else {
        let message = format!("`line` is `{line}`; give the number of a line, such as 12");
        return answer(&ToolError::bad_args(message).to_json());
    };
    let Some(path) = parameter(&uri, "path").filter(|path| !path.is_empty()) else {
        let message = "`path` is missing; give the path of a file, such as src/lib.rs";
        return answer(&ToolError::bad_args(message).to_json());
    };
    let request = Map::from_iter([
        ("path".to_string(), path.into()),
        ("line".to_string(), line.into()),
    ]);
    call_tree(&shared, file_lines::NAME, request).await
}

/// Returns a decoded parameter of the address.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = uri
        .query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    let value = value.replace('+', " ");
    Some(percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

/// Sends a call to the tree. Cancels it if the browser disconnects.
async fn call_tree(shared: &Arc<Shared>, tool: &str, request: Map<String, Value>) -> Response {
    let call = ToolCall {
        tool: tool.to_string(),
        request,
        max_output_bytes: Some(MAX_ANSWER_BYTES),
        ..ToolCall::default()
    };
    let call_cancel = Arc::new(CallCancel::default());
    let _waits = call_cancel.while_waited_for();
    call_backend(shared, move |shared| match call_cancel.is_cancelled() {
        true => ToolError::Cancelled.to_json(),
        false => of_this_version(shared.tree.call(&call, &call_cancel), &shared.name),
    })
    .await
}

/// Explains the answer of a daemon that does not know a tool of the page.
fn of_this_version(answer: Value, root: &str) -> Value {
    if answer["error"]["code"] != "unknown_tool" {
        return answer;
    }
    let message = format!(
        "the daemon of {root} is older than this page, and can't answer this; `ggrep stop` there \
         ends it, and the page starts a new one"
    );
    ToolError::failed("daemon", message).to_json()
}

/// `GET /api/status`: the status of the daemon, and the progress of a running index build.
async fn status(State(shared): State<Arc<Shared>>) -> Response {
    call_backend(&shared, |shared| {
        let building = shared.tree.building().map(BuildStats::from);
        match shared.tree.status() {
            Ok(status) if status.get("error").is_some() => status,
            Ok(status) => json!({"name": shared.name, "status": status, "building": building}),
            Err(error) => error.to_json(),
        }
    })
    .await
}

/// `GET /api/health`: the checks and their messages.
async fn health(State(shared): State<Arc<Shared>>) -> Response {
    call_backend(&shared, |shared| {
        let health = shared.tree.health();
        health.unwrap_or_else(|error| error.to_json())
    })
    .await
}
