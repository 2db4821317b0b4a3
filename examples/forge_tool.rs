//! How an agent links the crate: `Search` as one of the tools that its executor knows.
//!
//! The executor and its trait stand for an agent's own. What matters is what is made of its context: the sandbox, the moment at which
//! the agent gives a call up, and the bytes that are left in the model's window.
//!
//! ```sh
//! cargo run --example forge_tool -- 'fn main' src
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use forge_search::exec::stop::CancelHandle;
use forge_search::tool::config::{Config, IndexMode, IndexStorage};
use forge_search::tool::engines::Engines;
use forge_search::tool::error::ToolError;
use forge_search::tool::indexing::{CachePlaces, Indexes, Surroundings};
use forge_search::tool::sandbox::Sandbox;
use forge_search::tool::search::{SearchTool, ToolContext};
use serde_json::{Value, json};

/// What an agent gives to each call of a tool.
#[derive(Clone)]
struct CallContext {
    /// Cancelled when the user interrupts, or when the model is not waited for any more.
    cancel: CancelHandle,
    /// Bytes that an answer may have.
    budget: usize,
}

/// What a call comes to, later.
type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send + 'a>>;

/// A tool, as an agent sees it.
trait AgentTool: Send + Sync {
    /// The name that a model calls it by.
    fn name(&self) -> &'static str;

    /// What a model is told of it.
    fn description(&self) -> &'static str;

    /// The schema of its arguments.
    fn schema(&self) -> Value;

    /// Calls it.
    fn call(&self, arguments: Value, context: CallContext) -> Answer<'_>;
}

/// `Search`, over one tree, with an index that follows it.
struct Search {
    tool: Arc<SearchTool>,
    sandbox: Arc<Sandbox>,
}

impl Search {
    /// Sets the tool up for a tree. The index is kept in `cache`, and is built in the background: calls never wait for it.
    fn new(tree: &Path, cache: Option<PathBuf>) -> Result<Search, Box<dyn Error>> {
        let mut config = Config::library_default();
        config.search.enabled = true;
        config.search.index_mode = IndexMode::On;
        if cache.is_none() {
            config.search.index_storage = IndexStorage::Memory;
        }
        let sandbox = Arc::new(Sandbox::new(&config.sandbox, tree)?);
        let engines = Engines::embedded();
        let places = CachePlaces {
            user_cache: cache,
            ..CachePlaces::default()
        };
        let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places).map(Arc::new);
        if let Some(indexes) = &indexes {
            indexes.live(&config.search, &Surroundings::new(sandbox.reach().clone()))?;
        }
        let tool = SearchTool::new(config.search, engines).with_indexes(indexes);
        Ok(Search {
            tool: Arc::new(tool),
            sandbox,
        })
    }
}

impl AgentTool for Search {
    fn name(&self) -> &'static str {
        self.tool.name()
    }

    fn description(&self) -> &'static str {
        self.tool.description()
    }

    fn schema(&self) -> Value {
        self.tool.schema()
    }

    fn call(&self, arguments: Value, context: CallContext) -> Answer<'_> {
        let (tool, sandbox) = (self.tool.clone(), self.sandbox.clone());
        Box::pin(async move {
            let mut of_call = ToolContext::new(sandbox);
            of_call.cancel = context.cancel;
            of_call.max_output_bytes = Some(context.budget);
            // A search computes and reads, which is nothing for the threads of a runtime.
            let answered = tokio::task::spawn_blocking(move || tool.call(arguments, &of_call));
            match answered.await {
                Ok(response) => Ok(response?.to_value()),
                // The runtime is being shut down, and the agent with it.
                Err(_) => Err(ToolError::Cancelled),
            }
        })
    }
}

/// The tools of an agent, by name.
#[derive(Default)]
struct Executor(BTreeMap<&'static str, Box<dyn AgentTool>>);

impl Executor {
    fn add(&mut self, tool: impl AgentTool + 'static) {
        self.0.insert(tool.name(), Box::new(tool));
    }

    /// Calls a tool for a model, which gets what went wrong as an answer, too.
    async fn call(&self, name: &str, arguments: Value, context: CallContext) -> Value {
        let Some(tool) = self.0.get(name) else {
            let name = name.to_string();
            return ToolError::UnknownTool { name }.to_json();
        };
        let answer = tool.call(arguments, context).await;
        answer.unwrap_or_else(|error| error.to_json())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let pattern = args.next().unwrap_or("fn main".to_string());
    let tree = PathBuf::from(args.next().unwrap_or(".".to_string()));
    let mut executor = Executor::default();
    executor.add(Search::new(&tree, None)?);
    for tool in executor.0.values() {
        println!("{}: {}", tool.name(), tool.description());
        println!("{}", tool.schema());
    }

    let context = CallContext {
        cancel: CancelHandle::new(),
        budget: 20_000,
    };
    let request = json!({"pattern": pattern, "max_results": 20});
    let answer = executor.call("Search", request, context).await;
    print!("{}", answer["content"].as_str().unwrap_or_default());
    println!(
        "truncated: {}, timed out: {}",
        answer["truncated"], answer["timed_out"]
    );

    // The user interrupts a call that would take minutes.
    let cancel = CancelHandle::new();
    let context = CallContext {
        cancel: cancel.clone(),
        budget: 20_000,
    };
    let interrupting = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    let slow = json!({"pattern": "(?:[a-z ]{100}x){3}[0-9]", "case": "insensitive"});
    let answer = executor.call("Search", slow, context).await;
    match answer["error"]["code"].as_str() {
        Some(code) => println!("the second call: {code}"),
        None => println!("the second call was answered before it was given up"),
    }
    interrupting.await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(tree: &Path) -> Executor {
        let mut executor = Executor::default();
        executor.add(Search::new(tree, None).unwrap());
        executor
    }

    #[tokio::test]
    async fn a_model_gets_answers_and_errors_within_its_budget() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "needle\n".repeat(500)).unwrap();
        let executor = executor(dir.path());
        let context = |budget| CallContext {
            cancel: CancelHandle::new(),
            budget,
        };
        let call = |arguments, budget| executor.call("Search", arguments, context(budget));
        let answer = call(json!({"pattern": "needle", "max_results": 3}), 20_000).await;
        assert_eq!(answer["count"], 3);
        assert_eq!(answer["truncated"], true);
        let answer = call(json!({"pattern": "needle"}), 2_000).await;
        assert!(answer.to_string().len() <= 2_000);
        assert_eq!(answer["truncated"], true);
        let error = call(json!({"patern": "needle"}), 20_000).await;
        assert_eq!(error["error"]["code"], "bad_args");
        let error = call(json!({"pattern": "x", "path": "/etc"}), 20_000).await;
        assert_eq!(error["error"]["code"], "path_outside_sandbox");
        let error = executor.call("Edit", json!({}), context(20_000)).await;
        assert_eq!(error["error"]["code"], "unknown_tool");
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_ends() {
        let dir = tempfile::tempdir().unwrap();
        // One long line of letters without a pattern, in which the expression has to look at everything.
        let mut state = 1_u64;
        let letters = (1..=900_000).map(|nth| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match (nth % 500, state >> 63) {
                (0, _) => 'c',
                (_, 0) => 'a',
                _ => 'b',
            }
        });
        let text: String = letters.collect();
        std::fs::write(dir.path().join("a.txt"), text).unwrap();
        let executor = executor(dir.path());
        let cancel = CancelHandle::new();
        let context = CallContext {
            cancel: cancel.clone(),
            budget: 20_000,
        };
        let slow = json!({"pattern": "(?:[ab]{150}a){4}[cd]", "timeout_ms": 600_000});
        let call = executor.call("Search", slow, context);
        let (answer, ()) = tokio::join!(call, async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel();
        });
        assert_eq!(answer["error"]["code"], "cancelled");
    }
}
