//! A hundred calls from several tasks at once, with one index, while files are edited.
//!
//! One `ForgeSearch` serves any number of calls from any number of threads. A call sees every edit
//! that was finished before it started. Equal calls on an unchanged tree have equal answers.
//!
//! ```sh
//! cargo run --example many_calls
//! ```

// The example measures the time of its own calls.
#![allow(clippy::disallowed_methods)]

use std::error::Error;
use std::time::{Duration, Instant};

use forge_search::{ForgeSearch, SearchRequest, SearchResponse};

const TASKS: usize = 8;
const CALLS: usize = 100;

/// Searches on a thread that may block.
async fn search(
    search: &ForgeSearch,
    pattern: String,
) -> Result<SearchResponse, Box<dyn Error + Send + Sync>> {
    let search = search.clone();
    let call = move || search.search(&SearchRequest::new(pattern));
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
    let tools = ForgeSearch::builder(&tree).live().build()?;
    // Calls do not need to wait for the index. The example waits so that it shows searches with the
    // index.
    tools.wait_live(Duration::from_secs(60));

    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let (tools, tree) = (tools.clone(), tree.clone());
        tasks.spawn(async move {
            let mut times = Vec::new();
            for call in (task..CALLS).step_by(TASKS) {
                // One search for this task's own edit, and one for text that many files contain.
                let own = format!("edited {task} {call} end");
                tokio::fs::write(tree.join(format!("own{task}.txt")), format!("{own}\n")).await?;
                let began = Instant::now();
                let seen = search(&tools, own.clone()).await?;
                assert_eq!(seen.count, 1, "an edit that was finished is seen: {own}");
                let found = search(&tools, format!("needle{}x", call % 50)).await?;
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
    assert!(tools.shut_down());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_edit_is_seen_and_every_answer_is_whole() {
        super::main().unwrap();
    }
}
