//! Caps of the query daemon: the default of each limit, and the largest value that a user can
//! configure.

/// A limit of the daemon, with its default and its upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The value without configuration.
    pub default: u64,
    /// The largest value that can be configured.
    pub most: u64,
}

const fn cap(default: u64, most: u64) -> Cap {
    Cap { default, most }
}

/// Maximum bytes of a request.
pub const MAX_REQUEST_BYTES: Cap = cap(1_048_576, 16 << 20);

/// Maximum bytes of a response.
pub const MAX_RESPONSE_BYTES: Cap = cap(10_485_760, 64 << 20);

/// Maximum files that one question ranks.
pub const MAX_CANDIDATES: Cap = cap(2_000, 20_000);

/// Maximum bytes of all snippets in a response.
pub const MAX_TOTAL_SNIPPET_BYTES: Cap = cap(256 << 10, 4 << 20);

/// Maximum bytes of one snippet.
pub const MAX_SNIPPET_BYTES_PER_RESULT: Cap = cap(4 << 10, 64 << 10);

/// Maximum segments that one query opens.
pub const MAX_OPEN_SEGMENTS_PER_QUERY: Cap = cap(64, 256);

/// Maximum segments that one daemon keeps open.
pub const MAX_OPEN_SEGMENTS_GLOBAL: Cap = cap(512, 4_096);

/// Maximum results of one query.
pub const MAX_RESULTS: Cap = cap(20, 1_000);

/// Maximum results from one file.
pub const MAX_PER_FILE: Cap = cap(3, 50);

/// Maximum queries that run at once.
pub const MAX_CONCURRENT_QUERIES: Cap = cap(8, 64);

/// Maximum queries that wait in the queue.
pub const MAX_QUERY_QUEUE_DEPTH: Cap = cap(32, 1_024);

/// Maximum milliseconds that a query may take, including its wait in the queue.
pub const QUERY_TIMEOUT_MS: Cap = cap(60_000, 600_000);

/// Minimum milliseconds of a query that counts as slow.
pub const SLOW_QUERY_MS: Cap = cap(2_000, 600_000);

/// Maximum bytes of one daemon's logs.
pub const MAX_LOG_BYTES: Cap = cap(10 << 20, 1 << 30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_contract_and_within_their_bounds() {
        assert_eq!(MAX_REQUEST_BYTES.default, 1_048_576);
        assert_eq!(MAX_RESPONSE_BYTES.default, 10_485_760);
        assert_eq!(MAX_OPEN_SEGMENTS_PER_QUERY.default, 64);
        assert_eq!(MAX_OPEN_SEGMENTS_GLOBAL.default, 512);
        assert_eq!(MAX_CONCURRENT_QUERIES.default, 8);
        assert_eq!(MAX_QUERY_QUEUE_DEPTH.default, 32);
        assert_eq!(QUERY_TIMEOUT_MS.default, 60_000);
        assert_eq!(SLOW_QUERY_MS.default, 2_000);
        for cap in [
            MAX_REQUEST_BYTES,
            MAX_RESPONSE_BYTES,
            MAX_CANDIDATES,
            MAX_TOTAL_SNIPPET_BYTES,
            MAX_SNIPPET_BYTES_PER_RESULT,
            MAX_OPEN_SEGMENTS_PER_QUERY,
            MAX_OPEN_SEGMENTS_GLOBAL,
            MAX_RESULTS,
            MAX_PER_FILE,
            MAX_CONCURRENT_QUERIES,
            MAX_QUERY_QUEUE_DEPTH,
            QUERY_TIMEOUT_MS,
            SLOW_QUERY_MS,
            MAX_LOG_BYTES,
        ] {
            assert!(0 < cap.default && cap.default <= cap.most, "{cap:?}");
        }
    }
}
