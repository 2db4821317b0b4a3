//! scratch
use forge_search::tool::{
    config::SearchConfig,
    engines::Engines,
    request::SearchRequest,
    sandbox::{Sandbox, SandboxConfig},
    search::{SearchTool, ToolContext},
};
use std::sync::Arc;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let root = std::path::Path::new(&a[1]).canonicalize().unwrap();
    let cfg = SearchConfig {
        enabled: true,
        default_timeout_ms: 20000,
        default_max_results: 200,
        max_matches_per_file: 100000,
        max_files: 5000000,
        max_file_size_bytes: 64 << 20,
        emit_stats: false,
        threads: 0,
    };
    let sb = Sandbox::new(
        &SandboxConfig {
            allowed_roots: vec![],
            denied_patterns: vec![],
            allow_absolute: true,
            include_default_denies: true,
        },
        &root,
    )
    .unwrap();
    let tool = SearchTool::new(cfg, Engines::embedded());
    let ctx = ToolContext::new(Arc::new(sb));
    let n: usize = a.get(3).map(|x| x.parse().unwrap()).unwrap_or(1);
    for _ in 0..n {
        let t = std::time::Instant::now();
        let r = SearchRequest::from_json(&a[2]).and_then(|r| tool.search(&r, &ctx));
        let el = t.elapsed();
        match r {
            Ok(r) => {
                if n == 1 {
                    print!("{}", r.content);
                }
                eprintln!(
                    "count {} trunc {} to {} scanned {} errors {} in {:?}",
                    r.count,
                    r.truncated,
                    r.timed_out,
                    r.files_scanned,
                    r.errors.len(),
                    el
                )
            }
            Err(e) => println!("{}", e.to_json()),
        }
    }
}
