//! A search whose caller is a task of tokio: dropping the future cancels the search.
//!
//! ```sh
//! cargo run --example asynchronous -- 'fn main' src
//! ```

use std::error::Error;
use std::time::Duration;

use forge_search::{ForgeSearch, SearchRequest, SearchResponse, ToolError};

/// Searches on a thread that may block. Dropping the future cancels the search: the thread is free
/// again within 50 ms.
async fn search(search: &ForgeSearch, request: SearchRequest) -> Result<SearchResponse, ToolError> {
    let context = search.context();
    let _guard = context.cancel.cancel_on_drop();
    let search = search.with_context(context);
    let answer = tokio::task::spawn_blocking(move || search.search(&request));
    answer
        .await
        .unwrap_or_else(|error| match error.try_into_panic() {
            // A panic is a fault: the caller sees it as if the search had run on its own thread.
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down.
            Err(_) => Err(ToolError::Cancelled),
        })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let pattern = args.next().unwrap_or("fn main".to_string());
    let root = args.next().unwrap_or(".".to_string());
    let tools = ForgeSearch::builder(root).live().build()?;
    let request = SearchRequest::new(pattern);
    match tokio::time::timeout(Duration::from_secs(10), search(&tools, request)).await {
        Ok(answer) => print!("{}", answer?.content),
        // The timeout has dropped the future, so the search ends.
        Err(_) => println!("no answer within ten seconds"),
    }
    tools.shut_down();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use forge_search::Clock;

    use super::*;

    /// One long line of random letters.
    fn letters() -> String {
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
        letters.collect()
    }

    /// A request that takes minutes.
    fn slow() -> SearchRequest {
        let mut request = SearchRequest::new("(?:[ab]{150}a){4}[cd]");
        request.timeout_ms = Some(600_000);
        request
    }

    /// A clock that panics, as a fault in a search would.
    #[derive(Debug)]
    struct Faulty;

    impl Clock for Faulty {
        fn now(&self) -> Instant {
            panic!("no time")
        }
    }

    #[tokio::test]
    #[should_panic(expected = "no time")]
    async fn a_panic_is_not_reported_as_a_cancelled_search() {
        let dir = tempfile::tempdir().unwrap();
        let tools = ForgeSearch::builder(dir.path()).build().unwrap();
        let mut context = tools.context();
        context.clock = Arc::new(Faulty);
        let tools = tools.with_context(context);
        let answer = search(&tools, SearchRequest::new("x")).await;
        println!("{answer:?}");
    }

    // The runtime waits for its blocking threads when it ends, so the test ends only if the search
    // was cancelled.
    #[tokio::test]
    async fn a_dropped_future_ends_its_search() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), letters()).unwrap();
        let tools = ForgeSearch::builder(dir.path()).build().unwrap();
        let late = tokio::time::timeout(Duration::from_millis(100), search(&tools, slow())).await;
        assert!(late.is_err());
        // Other calls go on.
        let answer = search(&tools, SearchRequest::new("absent")).await.unwrap();
        assert_eq!(answer.count, 0);
    }
}
