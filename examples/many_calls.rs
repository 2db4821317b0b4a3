//! A hundred calls from several tasks at once, with one tool and one index, while files are edited.
//!
//! One `SearchTool` serves any number of calls from any number of threads. A call sees every edit
//! that was finished before it started. Equal calls on an unchanged tree have equal answers.
//!
//! ```sh
//! cargo run --example many_calls
//! ```

// The example measures the time of its own calls.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_search::internal::tool::config::{Config, IndexMode, IndexStorage};
use forge_search::internal::tool::engines::Engines;
use forge_search::internal::tool::indexing::{CachePlaces, Indexes, LiveEnvironment};
use forge_search::internal::tool::request::SearchRequest;
use forge_search::internal::tool::response::SearchResponse;
use forge_search::internal::tool::sandbox::Sandbox;
use forge_search::internal::tool::search::{SearchTool, ToolContext};

const TASKS: usize = 8;
const CALLS: usize = 100;

/// The objects that calls need, and the indexes that are shut down at the end.
struct Setup {
    tool: Arc<SearchTool>,
    indexes: Arc<Indexes>,
    context: ToolContext,
}

/// Sets up a tool over a tree, with an index in memory that follows changes.
fn set_up(tree: &Path) -> Result<Setup, Box<dyn Error>> {
    let mut config = Config::library_default();
    config.search.enabled = true;
    config.search.index_mode = IndexMode::On;
    config.search.index_storage = IndexStorage::Memory;
    let sandbox = Arc::new(Sandbox::new(&config.sandbox, tree)?);
    let engines = Engines::embedded();
    let places = CachePlaces::default();
    let indexes = Indexes::new(&config.search, &engines, &sandbox, None, &places)
        .map(Arc::new)
        .ok_or("index_mode is not off")?;
    indexes.live(
        &config.search,
        &LiveEnvironment::new(sandbox.reach().clone()),
    )?;
    let tool = SearchTool::new(config.search, engines).with_indexes(Some(indexes.clone()));
    Ok(Setup {
        tool: Arc::new(tool),
        indexes,
        context: ToolContext::new(sandbox),
    })
}

/// Searches on a thread that may block.
async fn search(
    tool: &Arc<SearchTool>,
    context: &ToolContext,
    pattern: String,
) -> Result<SearchResponse, Box<dyn Error + Send + Sync>> {
    let (tool, context) = (tool.clone(), context.clone());
    let call = move || tool.search(&SearchRequest::new(pattern), &context);
    Ok(tokio::task::spawn_blocking(call).await??)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let tree = dir.path().canonicalize()?;
    for n in 0..2_000 {
        let path = tree.join(format!("{}/{n}.txt", n % 40));
        std::fs::create_dir_all(tree.join((n % 40).to_string()))?;
        std::fs::write(path, format!("file number {n}\nneedle{}x\n", n % 50))?;
    }
    let Setup {
        tool,
        indexes,
        context,
    } = set_up(&tree)?;
    // Calls do not need to wait for the index. The example waits so that it shows searches with the
    // index.
    indexes.wait_live(&tree, Duration::from_secs(60));

    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let (tool, context, tree) = (tool.clone(), context.clone(), tree.clone());
        tasks.spawn(async move {
            let mut times = Vec::new();
            for call in (task..CALLS).step_by(TASKS) {
                // One search for this task's own edit, and one for text that many files contain.
                let own = format!("edited {task} {call} end");
                tokio::fs::write(tree.join(format!("own{task}.txt")), format!("{own}\n")).await?;
                let began = Instant::now();
                let seen = search(&tool, &context, own.clone()).await?;
                assert_eq!(seen.count, 1, "an edit that was finished is seen: {own}");
                let found = search(&tool, &context, format!("needle{}x", call % 50)).await?;
                assert_eq!((found.count, found.truncated), (40, false));
                times.push(began.elapsed() / 2);
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done?.map_err(|error| error.to_string())?);
    }
    times.sort();
    println!(
        "{} calls of {TASKS} tasks: half of them within {:?}, the slowest {:?}",
        2 * times.len(),
        times[times.len() / 2],
        times[times.len() - 1],
    );
    // Shuts the background work down.
    assert!(indexes.shut_down());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_edit_is_seen_and_every_answer_is_whole() {
        super::main().unwrap();
    }
}
