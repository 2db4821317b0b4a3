//! Ids and fingerprints of trees, configurations, queries and snapshots.
//!
//! This module owns how they are computed. All are SHA-256 over parts with their lengths, so that
//! no two lists of parts have the same hash input. Callers decide which parts belong to an id.

use std::fmt::Write;
use std::path::Path;

use sha2::{Digest, Sha256};
use ulid::Ulid;

use super::answer::model;
use super::request::{Mode, SearchQuery};
use crate::exec::rank::MEANING_VERSION;
use crate::index::inputs::Inputs;
use crate::index::key::IMPLEMENTATION_VERSION;
use crate::index::rules::{ControlFiles, read_regular_file};
use crate::tool::config::{Config, Embed};

/// How many bytes of a fingerprint name a socket.
const SOCKET_BYTES: usize = 8;

/// Computes the fingerprint of a list of parts, as 64 hexadecimal digits.
pub fn fingerprint<'a>(what: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    hex(&digest(what, parts))
}

fn digest<'a>(what: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    add(what.as_bytes());
    parts.into_iter().for_each(&mut add);
    hash.finalize().into()
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Returns the id of a tree. It depends on the canonical root only.
pub fn store_id(canonical_root: &Path) -> String {
    let root = canonical_root.as_os_str().as_encoded_bytes();
    fingerprint("store", [root])
}

/// Returns the fingerprint of a configuration.
///
/// It covers every key that can change an answer, with its value, set or default. It also covers
/// git's global excludes file: its path, or its content where a group shares a daemon. Two programs
/// with equal fingerprints give equal answers about one tree.
pub fn config_fingerprint(config: &Config, global_excludes: Option<&Path>) -> String {
    let entries = config.entries();
    // This key decides whether a client uses a daemon. It does not change the daemon's answers.
    let keys = entries
        .iter()
        .filter(|entry| entry.key.full != "tools.daemon.searches");
    let parts: Vec<String> = keys
        .map(|entry| format!("{} = {}", entry.key.full, entry.value))
        .collect();
    let excludes = match config.daemon.group_access {
        false => format!("{global_excludes:?}").into_bytes(),
        // Each member of a group has a file of their own, so the content counts.
        true => global_excludes
            .and_then(|file| read_regular_file(file).ok()?)
            .unwrap_or_default(),
    };
    let parts = parts.iter().map(String::as_bytes);
    fingerprint("config", parts.chain([excludes.as_slice()]))
}

/// Returns the fingerprint of the embedding configuration: of the word table, and of the rules by
/// which texts are split into words and compared.
pub fn embed_config_fingerprint(embed: Embed) -> String {
    match model(embed) {
        None => fingerprint("embedding", [&b"off"[..]]),
        Some(model) => embed_fingerprint(
            model.fingerprint(),
            model.dimensions(),
            [IMPLEMENTATION_VERSION, MEANING_VERSION],
        ),
    }
}

fn embed_fingerprint(table: &str, dimensions: usize, versions: [u32; 2]) -> String {
    let rules = format!("{dimensions} {versions:?}");
    fingerprint("embedding", [table.as_bytes(), rules.as_bytes()])
}

/// Returns the fingerprint of a query: its text, its canonical path and its ranking, with defaults
/// filled in. Time limits and output options don't count.
pub fn query_fingerprint(query: &SearchQuery, place: &Path, limit: u64, per_file: u64) -> String {
    let profile = query.mode.unwrap_or_default();
    let snippet = query.snippet().as_str();
    let ranked = format!("{:?} {:?}", profile.weights(), profile.quota());
    let (limit, per_file) = (limit.to_string(), per_file.to_string());
    let budget = query
        .budget
        .map_or(String::new(), |budget| budget.to_string());
    let parts = [
        query.query.as_bytes(),
        query.related.as_deref().unwrap_or_default().as_bytes(),
        budget.as_bytes(),
        profile.as_str().as_bytes(),
        ranked.as_bytes(),
        snippet.as_bytes(),
        place.as_os_str().as_encoded_bytes(),
        limit.as_bytes(),
        per_file.as_bytes(),
    ];
    fingerprint("query", parts)
}

/// Returns the id of a snapshot: one publication of the index of a tree, and the number of changes
/// of the tree since. Ids of later publications sort after those of earlier ones.
pub fn snapshot_id(store_id: &str, created_ms: u64, publication: &[u8], sequence: u64) -> String {
    let parts = [store_id.as_bytes(), publication, &sequence.to_be_bytes()];
    let digest = digest("snapshot", parts);
    let mut low = [0; 16];
    low.copy_from_slice(&digest[..16]);
    // 48 bits of time, 80 bits of the digest.
    let time = u128::from(created_ms & ((1 << 48) - 1)) << 80;
    Ulid(time | (u128::from_be_bytes(low) >> 48)).to_string()
}

/// Returns the fingerprint of the ignore files: their paths and contents. Reads all of them.
pub fn ignore_fingerprint(inputs: &Inputs) -> String {
    let parts = inputs.texts().into_iter().flat_map(|(path, text)| {
        let kind: &[u8] = match text {
            Some(_) => b"file",
            None => b"other",
        };
        [path.to_vec(), kind.to_vec(), text.unwrap_or_default()]
    });
    let parts: Vec<Vec<u8>> = parts.collect();
    fingerprint("ignore", parts.iter().map(Vec::as_slice))
}

/// Returns the ignore files that are known without a walk: above the root and directly in it.
pub fn inputs_at(root: &Path, global_excludes: Option<&Path>) -> Inputs {
    let mut inputs = Inputs::above(root, global_excludes);
    inputs.add(root, ControlFiles::ALL);
    inputs
}

/// Returns when a snapshot was published, or got its id, in milliseconds since 1970.
pub fn created_ms(snapshot_id: &str) -> Option<i64> {
    let ulid = Ulid::from_string(snapshot_id).ok()?;
    i64::try_from(ulid.timestamp_ms()).ok()
}

/// Returns the id of a request in deterministic mode: the same for the same query and snapshot.
pub fn deterministic_request_id(query_fingerprint: &str, snapshot_id: Option<&str>) -> String {
    let snapshot = snapshot_id.unwrap_or_default();
    let digest = digest(
        "request",
        [query_fingerprint.as_bytes(), snapshot.as_bytes()],
    );
    let mut low = [0; 16];
    low.copy_from_slice(&digest[..16]);
    Ulid(u128::from_be_bytes(low)).to_string()
}

/// Returns the file name of the socket of a tree and a configuration. Its length is constant.
pub fn socket_name(store_id: &str, config_fingerprint: &str) -> String {
    let mut name = Sha256::new();
    name.update(store_id.as_bytes());
    name.update(config_fingerprint.as_bytes());
    let digest: [u8; 32] = name.finalize().into();
    format!("{}.sock", hex(&digest[..SOCKET_BYTES]))
}

/// Returns the name of a mode in a response.
pub fn mode_name(mode: Option<Mode>) -> &'static str {
    mode.unwrap_or_default().as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::rank::WordTable;
    use crate::tool::config::{Loader, Profile as Defaults};
    use crate::tool::daemon::request::SnippetMode;

    fn is_hex(text: &str) -> bool {
        text.len() == 64
            && text
                .bytes()
                .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    }

    #[test]
    fn fingerprints_are_sha256_over_parts_that_can_be_told_apart() {
        assert_ne!(
            fingerprint("a", [&b"bc"[..]]),
            fingerprint("ab", [&b"c"[..]])
        );
        let split = fingerprint("x", [&b"ab"[..], b"c"]);
        assert_ne!(split, fingerprint("x", [&b"a"[..], b"bc"]));
        // printf '\0\0\0\0\0\0\0\1x' | sha256sum
        let none: [&[u8]; 0] = [];
        let expected = "028f0df5b8596fbcd10c9720b7a4784f8e7e04f629bd5a62bfbdf139678b6624";
        assert_eq!(fingerprint("x", none), expected);
        assert!(is_hex(&split));
    }

    #[test]
    fn the_fingerprint_of_embeddings_changes_with_all_that_decides_them() {
        let versions = [IMPLEMENTATION_VERSION, MEANING_VERSION];
        let all = [
            embed_config_fingerprint(Embed::Off),
            embed_config_fingerprint(Embed::Words),
            embed_fingerprint("another table", 128, versions),
            embed_fingerprint(WordTable::SHA256, 64, versions),
            embed_fingerprint(WordTable::SHA256, 128, [0, MEANING_VERSION]),
            embed_fingerprint(WordTable::SHA256, 128, [IMPLEMENTATION_VERSION, 0]),
        ];
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }

    #[test]
    fn the_store_of_a_daemon_is_one_canonical_root() {
        assert_eq!(store_id(Path::new("/a")), store_id(Path::new("/a")));
        assert_ne!(store_id(Path::new("/a")), store_id(Path::new("/b")));
        assert!(is_hex(&store_id(Path::new("/a"))));
    }

    #[test]
    fn each_key_counts_for_the_fingerprint_of_a_configuration() {
        let with = |settings: &[&str]| {
            let mut loader = Loader::new(Defaults::CommandLine);
            for setting in settings {
                loader = loader.set(*setting);
            }
            config_fingerprint(&loader.build().unwrap(), None)
        };
        let plain = with(&[]);
        assert_eq!(
            plain,
            with(&["threads=0"]),
            "what is set to its default is no change"
        );
        let changed = with(&["threads=3"]);
        let denied = with(&["tools.sandbox.denied_patterns=[\"*.key\"]"]);
        assert!(plain != changed && plain != denied && changed != denied);
        let config = Loader::new(Defaults::CommandLine).build().unwrap();
        assert_ne!(plain, config_fingerprint(&config, Some(Path::new("/x"))));
    }

    #[test]
    fn the_query_fingerprint_covers_only_knobs_that_change_results() {
        let query = SearchQuery::new("x");
        let root = Path::new("/r");
        let plain = query_fingerprint(&query, root, 20, 3);
        let told = SearchQuery {
            explain: true,
            deterministic: true,
            timeout_ms: Some(5),
            mode: Some(Mode::Balanced),
            // Only the canonical path counts, not its spelling.
            path: Some("/r/".to_string()),
            ..query.clone()
        };
        assert_eq!(query_fingerprint(&told, root, 20, 3), plain);
        let debug = SearchQuery {
            mode: Some(Mode::Debug),
            ..query.clone()
        };
        let long = SearchQuery {
            snippet: Some(SnippetMode::Long),
            ..query.clone()
        };
        let others = [
            query_fingerprint(&SearchQuery::new("y"), root, 20, 3),
            query_fingerprint(&query, root, 21, 3),
            query_fingerprint(&query, root, 20, 4),
            query_fingerprint(&query, Path::new("/r/s"), 20, 3),
            query_fingerprint(&debug, root, 20, 3),
            query_fingerprint(&long, root, 20, 3),
        ];
        assert!(others.iter().all(|other| *other != plain));
    }

    #[test]
    fn the_fingerprint_covers_the_text_of_ignore_files_and_not_their_times() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let now = || ignore_fingerprint(&inputs_at(&root, None));
        let none = now();
        std::fs::write(root.join(".ignore"), "*.x").unwrap();
        let some = now();
        assert!(some != none && is_hex(&some));
        let same = root.join("same");
        std::fs::write(&same, "*.x").unwrap();
        std::fs::rename(same, root.join(".ignore")).unwrap();
        assert_eq!(now(), some);
        std::fs::write(root.join(".ignore"), "*.y").unwrap();
        assert_ne!(now(), some);
    }

    #[test]
    fn snapshot_ids_are_ulids_that_sort_by_time() {
        let first = snapshot_id("s", 1_000, b"m", 0);
        assert_eq!(first, snapshot_id("s", 1_000, b"m", 0));
        let parsed = Ulid::from_string(&first).unwrap();
        assert_eq!(parsed.timestamp_ms(), 1_000);
        assert_ne!(first, snapshot_id("s", 1_000, b"m", 1));
        assert_ne!(first, snapshot_id("t", 1_000, b"m", 0));
        assert_ne!(first, snapshot_id("s", 1_000, b"n", 0));
        assert!(first < snapshot_id("s", 1_001, b"m", 0));
    }

    #[test]
    fn sockets_of_daemons_have_short_names() {
        let name = socket_name(&store_id(Path::new("/a")), "c");
        assert_eq!(name.len(), 16 + ".sock".len());
        assert_ne!(name, socket_name(&store_id(Path::new("/a")), "d"));
    }
}
