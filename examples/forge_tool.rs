//! How an agent links the crate: the searches are tools of its executor.
//!
//! The executor and its trait stand for an agent's own ones. The example shows how the agent's
//! context becomes a `ToolContext`: the cancellation of a call, and the bytes that are left in the
//! model's window.
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

use forge_search::{CancelHandle, ForgeSearch, Tool, ToolError};
use serde_json::{Value, json};

/// The agent's context of one tool call.
#[derive(Clone)]
struct CallContext {
    /// Cancelled when the user interrupts the call, or when the model no longer waits for it.
    cancel: CancelHandle,
    /// The maximal length of an answer, in bytes.
    budget: usize,
}

/// The future result of a call.
type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, ToolError>> + Send + 'a>>;

/// A tool in the agent's terms.
trait AgentTool: Send + Sync {
    /// Returns the name that the model uses.
    fn name(&self) -> &'static str;

    /// Returns the description for the model.
    fn description(&self) -> &'static str;

    /// Returns the JSON schema of the arguments.
    fn schema(&self) -> Value;

    /// Runs a call.
    fn call(&self, arguments: Value, context: CallContext) -> Answer<'_>;
}

/// One of the tools over a tree, with an index that follows changes.
struct Searching {
    tool: Arc<dyn Tool>,
    search: ForgeSearch,
}

/// Sets the tools up for a tree. The index is stored in memory. It is built in the background, and
/// calls never wait for it.
fn tools_of(tree: &Path) -> Result<Vec<Searching>, ToolError> {
    let search = ForgeSearch::builder(tree).live().build()?;
    let tools = search.tools().iter().cloned().map(|tool| Searching {
        tool,
        search: search.clone(),
    });
    Ok(tools.collect())
}

impl AgentTool for Searching {
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
        let mut of_call = self.search.context();
        // The guard below cancels the child alone: other calls may share the agent's handle.
        of_call.cancel = context.cancel.child();
        of_call.max_output_bytes = Some(context.budget);
        let tool = self.tool.clone();
        Box::pin(async move {
            // Cancels the call if the agent drops the future.
            let _guard = of_call.cancel.cancel_on_drop();
            // A search computes and reads files, so it must not block a thread of the runtime.
            let call = move || tool.call_json(arguments, &of_call);
            let answer = tokio::task::spawn_blocking(call).await;
            let answer = answer.unwrap_or_else(|error| match error.try_into_panic() {
                // A panic is a fault of the program, and no answer for the model.
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is being shut down, and the agent with it.
                Err(_) => Err(ToolError::Cancelled),
            })?;
            Ok(serde_json::from_str(&answer.json).unwrap_or_default())
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

    /// Runs a tool call for a model. An error becomes an answer, so that the model sees it.
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
    for tool in tools_of(&tree)? {
        executor.add(tool);
    }
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
        for tool in tools_of(tree).unwrap() {
            executor.add(tool);
        }
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
    async fn calls_can_share_the_handle_of_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "needle\n").unwrap();
        let executor = executor(dir.path());
        let turn = CallContext {
            cancel: CancelHandle::new(),
            budget: 20_000,
        };
        for _ in 0..2 {
            let request = json!({"pattern": "needle"});
            let answer = executor.call("Search", request, turn.clone()).await;
            assert_eq!(answer["count"], 1, "{answer}");
        }
        assert!(!turn.cancel.is_cancelled());
    }

    #[tokio::test]
    async fn a_call_that_is_given_up_ends() {
        let dir = tempfile::tempdir().unwrap();
        // One long line of random letters. The expression has to look at every position.
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
