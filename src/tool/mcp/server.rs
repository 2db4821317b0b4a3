//! The MCP server: tools, resources, progress and cancellation.
//!
//! This module owns the protocol's side of each call. Calls of a tree block, so they run on
//! blocking threads.

// Roots are deprecated in the latest revision of the protocol, but current clients use them.
#![expect(deprecated)]

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, Implementation, InputRequest, InputRequiredResult, InputResponses,
    JsonObject, ListResourcesResult, ListRootsResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::content::{Content, fields_schema};
use super::lenient::mended;
use super::message::wrong_params;
use super::progress::BuildProgress;
use super::roots::{BackendSource, path_of};
use super::transport::ClientState;
use crate::format::mutex::lock;
use crate::tool::daemon::request::ToolCall;
use crate::tool::daemon::tree_backend::{CallCancel, TreeBackend};
use crate::tool::error::ToolError;
use crate::tool::request::SearchRequest;
use crate::tool::tools::ToolName;

/// The default limit on an answer in bytes: about 25,000 tokens at three bytes each, a low estimate
/// for code.
pub const MAX_OUTPUT_BYTES: usize = 75_000;

/// How long a client may take to list its directories.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long calls may run on after the client has disconnected.
const LAST: Duration = Duration::from_secs(2);

/// The interval of progress notifications, for clients that ask for them.
const PROGRESS: Duration = Duration::from_millis(200);

/// The key under which the server asks for a client's directories, and gets the answer.
const ROOTS: &str = "roots";

/// The resources: URI, name and description.
const RESOURCES: [(&str, &str, &str); 3] = [
    (
        "forge-search://status",
        "status",
        "The state of the index and of the process that updates it: snapshot, sizes, budgets, latencies",
    ),
    (
        "forge-search://health",
        "health",
        "Checks of the index, its budgets and its environment, each with a remedy",
    ),
    (
        "forge-search://explain/last",
        "explain-last",
        "How the last call of Search used the index: the plan, how many files were excluded, and why not more",
    ),
];

/// The instructions that agents get at the start of a session.
const INSTRUCTIONS: &str = "\
Exact search of this source tree, in a fixed order. It sees every edit made before the call. Lines \
are grouped by file: the path, then `12:a matching line` and `13-a line of context`. Paths are \
relative to the first root, which is searched by default; paths in other roots are absolute. If \
something is missing, a last line in brackets says so, such as `[truncated: ...]` or \
`[timed out ...]`: narrow the search, or raise the limit that it names. Without such a line, the \
answer is complete, except for hidden, ignored, binary, denied and too large files. Errors start \
with a stable code and a colon.";

/// An MCP server over the trees that a client's roots select.
pub struct Server {
    trees: Arc<dyn BackendSource>,
    tools: Vec<Tool>,
    max_output_bytes: usize,
    /// The directories that the client has listed, once it was asked.
    roots: tokio::sync::Mutex<Option<ListedRoots>>,
    /// When the client last failed to list its directories, and why.
    unlisted: Mutex<Option<(Instant, String)>>,
    /// The state of the client, shared with its transport.
    client: Arc<ClientState>,
    /// Whether answers have fields in addition to their text.
    structured: bool,
    /// The last search, which the resource `explain-last` explains.
    last: Mutex<Option<SearchRequest>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// The number of changes that the client had announced before it listed its directories, and those
/// directories.
type ListedRoots = (u64, Option<Vec<PathBuf>>);

/// The directories that a client works in.
enum Roots {
    /// The directories, if the client lists any.
    Known(Option<Vec<PathBuf>>),
    /// The client has to be asked, by the answer to its request.
    Ask(InputRequiredResult),
}

impl Server {
    /// Builds a server of the tools, whose answers have at most `max_output_bytes`. With
    /// `structured` an answer has fields in addition to its text. They count towards the limit.
    pub fn new(trees: Arc<dyn BackendSource>, max_output_bytes: usize, structured: bool) -> Server {
        Server {
            trees,
            tools: ToolName::ALL
                .iter()
                .map(|name| tool(*name, structured))
                .collect(),
            max_output_bytes,
            roots: tokio::sync::Mutex::default(),
            unlisted: Mutex::default(),
            client: Arc::default(),
            structured,
            last: Mutex::default(),
        }
    }

    /// Returns the state of the client, which its [transport](super::transport::LineTransport)
    /// updates.
    pub fn client(&self) -> Arc<ClientState> {
        self.client.clone()
    }

    /// Returns the directories of the client. In the latest revision of the protocol, the answer to
    /// the client's request asks for them.
    async fn roots(
        &self,
        answers: Option<&InputResponses>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Roots, ToolError> {
        let capabilities = context.client_capabilities();
        if capabilities.is_none_or(|can| can.roots.is_none()) {
            return Ok(Roots::Known(None));
        }
        let is_new = context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if !is_new {
            return self.listed(context).await.map(Roots::Known);
        }
        let Some(answer) = answers.and_then(|answers| answers.get(ROOTS)) else {
            let ask = InputRequest::ListRoots(Default::default());
            let asked = [(ROOTS.to_string(), ask)].into();
            return Ok(Roots::Ask(InputRequiredResult::from_input_requests(asked)));
        };
        let listed: ListRootsResult =
            serde_json::from_value(answer.clone()).map_err(|error| unlisted(&error.to_string()))?;
        Ok(Roots::Known(paths(&listed)))
    }

    /// Asks the client for its directories, unless they are known and it has not announced a
    /// change.
    async fn listed(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<Vec<PathBuf>>, ToolError> {
        let received_at = Instant::now();
        let mut ended = self.client.ended.subscribe();
        let mut roots = tokio::select! {
            roots = self.roots.lock() => roots,
            _ = ended.wait_for(|ended| *ended) => return Err(unlisted("the client has disconnected")),
            () = context.ct.cancelled() => return Err(ToolError::Cancelled),
        };
        // A request that waited for the same question fails with it.
        if let Some((at, why)) = self
            .unlisted()
            .as_ref()
            .filter(|(at, _)| *at >= received_at)
        {
            return Err(unlisted(&format!("{why} ({:?} ago)", at.elapsed())));
        }
        let changes = self.client.changes.load(Ordering::SeqCst);
        if let Some((until, known)) = &*roots
            && *until == changes
        {
            return Ok(known.clone());
        }
        let listed = tokio::select! {
            listed = timeout(PATIENCE, context.peer.list_roots()) => listed,
            _ = ended.wait_for(|ended| *ended) => return Err(unlisted("the client has disconnected")),
            () = context.ct.cancelled() => return Err(ToolError::Cancelled),
        };
        let why = match listed {
            Ok(Ok(listed)) => {
                let named = paths(&listed);
                *roots = Some((changes, named.clone()));
                return Ok(named);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the client did not answer within {PATIENCE:?}"),
        };
        *self.unlisted() = Some((Instant::now(), why.clone()));
        Err(unlisted(&why))
    }

    fn unlisted(&self) -> std::sync::MutexGuard<'_, Option<(Instant, String)>> {
        lock(&self.unlisted)
    }

    /// Returns the tree of a client.
    async fn tree(&self, roots: Option<Vec<PathBuf>>) -> Result<Arc<dyn TreeBackend>, ToolError> {
        let trees = self.trees.clone();
        blocking(move || trees.open(roots.as_deref())).await?
    }

    async fn call(
        &self,
        call: ToolCall,
        roots: Option<Vec<PathBuf>>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ToolError> {
        let tree = self.tree(roots).await?;
        let call_cancel = Arc::new(CallCancel::default());
        // Cancels the call also if this future is dropped.
        let _waits = call_cancel.while_waited_for();
        let mut answer = Box::pin({
            let (tree, call_cancel) = (tree.clone(), call_cancel.clone());
            blocking(move || tree.call(&call, &call_cancel))
        });
        let mut reporting = context.meta.get_progress_token().map(BuildProgress::new);
        let mut ended = self.client.ended.subscribe();
        let mut gone = Box::pin(async move {
            // A pipe may end right after its last request, so short calls are still answered.
            let _ = ended.wait_for(|ended| *ended).await;
            sleep(LAST).await;
        });
        let mut ticks = interval(PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                answered = &mut answer => return answered,
                () = context.ct.cancelled(), if !call_cancel.is_cancelled() => call_cancel.cancel(),
                // Dropping the guard cancels the call.
                () = &mut gone => return Err(ToolError::Cancelled),
                _ = ticks.tick(), if reporting.is_some() => {
                    let tree = tree.clone();
                    let building = blocking(move || tree.building()).await;
                    let due = building.ok().flatten().and_then(|build| {
                        let now = Instant::now().into_std();
                        reporting.as_mut()?.of(&build, now)
                    });
                    if let Some(due) = due {
                        // A client that misses a notification still gets the answer.
                        let _ = context.peer.notify_progress(due).await;
                    }
                }
            }
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<SearchRequest>> {
        lock(&self.last)
    }

    async fn read(&self, uri: &str, roots: Option<Vec<PathBuf>>) -> Result<Value, ToolError> {
        let tree = self.tree(roots).await?;
        match uri {
            "forge-search://status" => blocking(move || tree.status()).await?,
            "forge-search://health" => blocking(move || tree.health()).await?,
            _ => {
                let Some(last) = self.last().clone() else {
                    return Ok(json!({"pattern": null, "reason": "Search was not called yet"}));
                };
                blocking(move || tree.explain(&last)).await?
            }
        }
    }

    /// Serializes the content of a resource, within the limit on bytes.
    fn written(&self, mut value: Value) -> String {
        let text = value.to_string();
        if text.len() <= self.max_output_bytes {
            return text;
        }
        // Only the plan of an expression with thousands of alternatives can be so long.
        if let Some(map) = value.as_object_mut() {
            map.insert("plan".to_string(), Value::Null);
            map.insert("plan_bytes_left_out".to_string(), text.len().into());
        }
        let text = value.to_string();
        match text.len() <= self.max_output_bytes {
            true => text,
            false => json!({"bytes_left_out": text.len()}).to_string(),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("forge-search", env!("CARGO_PKG_VERSION"))
                    .with_title("forge-search"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answers = request.input_responses.as_ref();
        let roots = match self.roots(answers, &context).await {
            Ok(Roots::Known(roots)) => roots,
            Ok(Roots::Ask(asked)) => return Ok(asked.into()),
            Err(error) => return Ok(result(error.to_json()).into()),
        };
        let tool = match ToolName::of(&request.name) {
            Ok(tool) => tool,
            Err(error) => return Ok(result(error.to_json()).into()),
        };
        let is_search = tool == ToolName::Search;
        let arguments = request.arguments.unwrap_or_default();
        let arguments = mended(arguments, tool.request_schema());
        let call = ToolCall {
            tool: request.name.to_string(),
            request: arguments.clone(),
            max_output_bytes: Some(match is_search || !self.structured {
                true => self.max_output_bytes,
                // The matches are in the text and in the fields.
                false => self.max_output_bytes / 2,
            }),
            text: !self.structured,
            ..ToolCall::default()
        };
        let answer = self.call(call, roots, &context).await;
        let answer = answer.unwrap_or_else(|error| error.to_json());
        if is_search
            && answer.get("error").is_none()
            && let Ok(request) = SearchRequest::from_value(arguments.into())
        {
            *self.last() = Some(request);
        }
        Ok(result(answer).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = RESOURCES.map(|(uri, name, about)| {
            Resource::new(uri, name)
                .with_description(about)
                .with_mime_type("application/json")
        });
        Ok(ListResourcesResult::with_all_items(all.to_vec()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        if !RESOURCES.iter().any(|(known, ..)| *known == uri) {
            let known = RESOURCES.map(|(known, ..)| known).join(", ");
            let message = format!("there is no such resource; there are {known}");
            return Err(ErrorData::resource_not_found(
                message,
                Some(json!({"uri": uri})),
            ));
        }
        let failed = |error: ToolError| {
            ErrorData::internal_error(error.message(), error.to_json().get("error").cloned())
        };
        let answers = request.input_responses.as_ref();
        let roots = match self.roots(answers, &context).await.map_err(failed)? {
            Roots::Known(roots) => roots,
            Roots::Ask(asked) => return Ok(asked.into()),
        };
        let value = self.read(&uri, roots).await.map_err(failed)?;
        if let Some(error) = value.get("error").filter(|error| error.is_object()) {
            let message = error.get("message").and_then(Value::as_str);
            let message = message.unwrap_or_default().to_string();
            return Err(ErrorData::internal_error(message, Some(error.clone())));
        }
        let text = self.written(value);
        let contents = ResourceContents::text(text, uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    /// Answers requests that the library does not know, or whose parameters are malformed.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        match method.as_str() {
            "ping" | "resources/list" | "resources/read" | "tools/call" | "tools/list" => {
                Err(ErrorData::invalid_params(wrong_params(&method), None))
            }
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)),
        }
    }
}

/// Returns the description of a tool, with the schema of its responses if they have fields.
fn tool(name: ToolName, structured: bool) -> Tool {
    let mut schema = match name.request_schema() {
        Value::Object(schema) => schema.clone(),
        _ => JsonObject::new(),
    };
    // The tool's own description repeats it, and each byte costs tokens.
    schema.remove("description");
    let tool = Tool::new(name.name(), name.about(), Arc::new(schema));
    let mut tool = tool.with_title(name.title());
    tool.output_schema = structured.then(|| Arc::new(fields_schema(name.response_schema())));
    // The other hints apply only to tools that change data.
    tool.annotations = Some(ToolAnnotations::new().read_only(true).open_world(false));
    tool
}

fn result(answer: Value) -> CallToolResult {
    let content = Content::of(answer);
    let text = vec![ContentBlock::text(content.text)];
    if content.failed {
        // A failure has no fields: some clients validate them against the schema even then.
        return CallToolResult::error(text);
    }
    let mut result = CallToolResult::success(text);
    result.structured_content = content.fields;
    result
}

/// Returns the local directories that a client has listed; `None` if its list is empty.
fn paths(listed: &ListRootsResult) -> Option<Vec<PathBuf>> {
    let named = listed.roots.iter().filter_map(|root| path_of(&root.uri));
    (!listed.roots.is_empty()).then(|| named.collect())
}

fn unlisted(why: &str) -> ToolError {
    ToolError::failed(
        "roots/list",
        format!("the client has roots but did not list them, so nothing was searched: {why}"),
    )
}

/// Runs blocking work on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| {
        let message = "the call ended unexpectedly; please report how to reproduce it";
        ToolError::failed("mcp", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp_a_client_without_any_root_does_not_say_where_it_works() {
        let root = |uri: &str| rmcp::model::Root::new(uri);
        let listed = |uris: &[&str]| {
            paths(&ListRootsResult::new(
                uris.iter().map(|uri| root(uri)).collect(),
            ))
        };
        assert_eq!(listed(&[]), None);
        assert_eq!(listed(&["https://example.org"]), Some(Vec::new()));
        assert_eq!(
            listed(&["file:///a", "x:y"]),
            Some(vec![PathBuf::from("/a")])
        );
    }
}
