//! Answers a ranked search in four stages: pin, retrieve, rank, write.
//!
//! Owns the stages and the report about them. The set of files is chosen as for every search; their
//! scores come from [`rank`](crate::exec::rank).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rayon::ThreadPool;
use serde_json::{Map, Value, json};

use super::identity;
use super::limits::{self, Remarks};
use super::related::SourceLine;
use super::reply::{
    ErrorCode, Failure, Git, LimitsInForce, QUERY_SCHEMA_VERSION, Success, Timings,
};
use super::request::SearchQuery;
use super::retriever::{Hits, Lexical, Retriever, retrieve_all};
use super::service::ended;
use super::written::{ResultDraft, to_usize, written};
use crate::exec::eligible::{Globs, WantedWords};
use crate::exec::indexes::Snapshot;
use crate::exec::query::{Case, Query, QueryOptions};
use crate::exec::question::{IgnoreRules, IndexList};
use crate::exec::rank::{
    Bucket, Comparison, Meaning, Model, Profile, Ranked, Scorer, Select, Snippet, Terms, Versions,
    Weights, WordTable, select,
};
use crate::exec::reach::Resolved;
use crate::exec::retrieve::{Candidate, Excerpts, Retrieval, Retrieved, excerpts, shown_path};
use crate::exec::stop::{Deadline, Stop, StopReason};
use crate::tool::config::{DaemonConfig, Embed};
use crate::tool::error::ToolError;
use crate::tool::indexing::{Question, index_traversal};
use crate::tool::notes::{Note, Reader};
use crate::tool::render::escape_name;
use crate::tool::response::IndexUse;
use crate::tool::search::{SearchTool, ToolContext};

/// Each further place of a file has so many tenths of the score that it would have by itself, so
/// that one file does not crowd out others.
const FURTHER: u64 = 5;

/// How much paths and definitions count for code like that at a place. Its names say where they are
/// defined, and its text what it does.
const OF_RELATED: f64 = 0.25;

/// The exponent of a place's share of the worth of the best place in its file.
const WORSE: f64 = 0.4;

/// The caps in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// How the meanings of texts are compared.
    pub(super) embed: Embed,
    /// Files that are ranked.
    pub(super) max_candidates: u64,
    /// Bytes of all snippets.
    pub(super) max_total_snippet_bytes: u64,
    /// Bytes of one snippet.
    pub(super) max_snippet_bytes_per_result: u64,
}

impl From<&DaemonConfig> for Caps {
    fn from(config: &DaemonConfig) -> Caps {
        Caps {
            embed: config.embed,
            max_candidates: config.max_candidates,
            max_total_snippet_bytes: config.max_total_snippet_bytes,
            max_snippet_bytes_per_result: config.max_snippet_bytes_per_result,
        }
    }
}

/// The context of a ranked search.
#[derive(Clone)]
pub(super) struct RankedSearch<'a> {
    /// The tool whose engines and indexes are used.
    pub tool: &'a SearchTool,
    /// The sandbox and the clock.
    pub context: &'a ToolContext,
    /// The canonical root. Paths of the answer are relative to it.
    pub root: &'a Path,
    /// The directory or file below the root that is searched. Falls back to the path of the query.
    pub target: Option<Resolved>,
    /// The line whose piece of code is the question. Falls back to the place of the query.
    pub source: Option<SourceLine>,
    /// The id of the store.
    pub store_id: &'a str,
    /// The fingerprint of the configuration in force.
    pub config_fingerprint: &'a str,
    /// Returns the id of a snapshot.
    pub name_of: &'a (dyn Fn(&Snapshot) -> String + Sync),
    /// Returns the ignore fingerprint of a snapshot, or of the tree without one.
    pub ignores: &'a (dyn Fn(Option<&Snapshot>) -> String + Sync),
    /// The caps in force.
    pub caps: Caps,
    /// The threads that read and rank.
    pub pool: &'a ThreadPool,
    /// Raised on cancellation and timeout.
    pub stop: &'a Stop,
    /// When the answer is due.
    pub deadline: Deadline,
    /// How long the query waited for admission.
    pub waited: Duration,
    /// Whether it waited for other queries.
    pub queued: bool,
    /// Whether the configuration has changed since the daemon started.
    pub stale: bool,
    /// Whether the query runs with low priority.
    pub is_low_priority: bool,
}

impl RankedSearch<'_> {
    /// Answers a query, and returns how long each stage took.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::InvalidRequest`] for a path outside of the root and for queries without a word.
    /// [`ErrorCode::Timeout`] and [`ErrorCode::Cancelled`] once `stop` was raised.
    /// [`ErrorCode::Internal`] if the tree can't be read.
    pub(super) fn answer(
        &self,
        query: &SearchQuery,
        request_id: String,
    ) -> Result<(Success, Timings), Failure> {
        let id = Some(request_id.clone()).filter(|id| !id.is_empty());
        let of = |failure: Failure| failure.of(id.clone());
        let began = self.now();
        let _searching = self.tool.searcher().searching();
        let related = self.related(query).map_err(of)?;
        self.go_on(&None).map_err(of)?;
        let asked = related.as_ref().map_or(&*query.query, |one| &one.question);
        let terms = Terms::new(asked).map_err(|error| of(invalid(error.to_string())))?;
        let profile = Profile::from(query.mode.unwrap_or_default());
        let snippet = Snippet::from(query.snippet());
        let limit = query.limit.unwrap_or(limits::MAX_RESULTS.default);
        let per_file = query.per_file.unwrap_or(profile.per_file().into());
        let mut remarks = Remarks::default();
        if terms.left_out() > 0 && related.is_none() {
            let all = (terms.words().len() + terms.left_out()) as u64;
            remarks.limit(
                "max_query_terms",
                terms.words().len() as u64,
                Some(all),
                None,
            );
        }

        if self.stale {
            let message = "the configuration has changed since the daemon started; ask again to \
                 start another daemon";
            remarks.warn("stale_config", message, None);
        }

        let question = self.question_of(query, &terms).map_err(of)?;
        let scope = scope(&question.target.canonical, self.root);
        let retrieval = Retrieval {
            terms: &terms,
            scope: &scope,
            max_file_size: self.tool.config().max_file_size_bytes,
            max_candidates: to_usize(self.caps.max_candidates),
            stop: self.stop,
            without: related.as_ref().map(|one| &one.piece),
        };
        let lexical = Lexical {
            searcher: self.tool.searcher(),
            pool: self.pool,
            deadline: self.deadline.clone(),
            cancel: &self.context.cancel,
        };
        let meaning = match &related {
            Some(related) => related.meaning.clone(),
            None => self.meaning(&query.query, &terms),
        };
        let retrievers: [&dyn Retriever; 1] = [&lexical];
        let Hits {
            retrieved,
            index,
            snapshot,
            pinning,
        } = retrieve_all(&retrievers, &question, &retrieval).map_err(of)?;
        let snapshot_id = snapshot.as_deref().map(|snapshot| (self.name_of)(snapshot));
        self.go_on(&snapshot_id).map_err(of)?;
        let retrieved_at = self.now();

        let kept = retrieved.candidates.len() as u64;
        if retrieved.corpus.found > kept {
            let found = Some(retrieved.corpus.found);
            remarks.limit("max_candidates", self.caps.max_candidates, found, None);
        }
        for name in &retrieved.changed.names {
            warn_changed(&mut remarks, name);
        }
        let named = retrieved.changed.names.len() as u64;
        if retrieved.changed.count > named {
            let count = retrieved.changed.count;
            let message = format!(
                "{count} files have changed since the snapshot and are missing from the answer; \
                 ask again"
            );
            remarks.warn("changed_since_snapshot", message, None);
        }
        if retrieved.unread.count > 0 {
            let count = retrieved.unread.count;
            remarks.warn(
                "unreadable",
                format!("{count} files or directories could not be read"),
                None,
            );
        }
        if retrieved.too_large.count > 0 {
            let note = Note::TooLarge {
                files: retrieved.too_large.count,
                limit: retrieval.max_file_size,
            };
            remarks.warn("too_large", note.text(Reader::Program), None);
        }
        if retrieved.binary.count > 0 {
            let files = match retrieved.binary.count {
                1 => "1 file has".to_string(),
                count => format!("{count} files have"),
            };
            let message = format!("{files} hits in binary data, which is not shown");
            remarks.warn("binary", message, retrieved.binary.only());
        }
        let documents = retrieved.candidates.iter().map(|one| &one.document);
        let paths = retrieved.candidates.iter().map(|one| &*one.key);
        let versions = Versions::of(&terms, paths);
        let mut weights = profile.weights();
        if related.is_some() {
            weights.path *= OF_RELATED;
            weights.definition *= OF_RELATED;
        }
        let scorer = Scorer::new(&terms, &retrieved.corpus, documents, versions, weights);
        let chosen = self.pool.install(|| {
            let best = best(
                &retrieved.candidates,
                &scorer,
                to_usize(limit).max(RERANKED),
            );
            let places = self.places(
                &best,
                &scorer,
                snippet,
                to_usize(per_file),
                &retrieval,
                meaning.as_ref(),
                &mut remarks,
            );
            let (all, quota) = (places.len() as u64, profile.quota());
            // The places of files that can't be among the best were not counted.
            let whole = best.len() == retrieved.candidates.len();
            if all > limit || !whole {
                remarks.limit("max_results", limit, whole.then_some(all), None);
            }
            select(
                places,
                Select {
                    limit: to_usize(limit),
                    quota,
                },
            )
        });
        self.go_on(&snapshot_id).map_err(of)?;
        let ranked_at = self.now();

        let mix = chosen.iter().map(|one| one.bucket).collect::<Vec<_>>();
        let results = written(chosen, query, self.caps, &mut remarks);
        // A commit does not change a snapshot, so deterministic answers can't depend on it.
        let head_sha = match query.deterministic {
            true => None,
            false => super::git::head_sha(self.root),
        };
        let git = Git {
            head_sha,
            dirty: None,
            untracked_included: true,
        };
        let timings = Timings {
            admission: millis(self.waited),
            snapshot_read: millis(pinning),
            retrieve: millis(retrieved_at.saturating_sub(began).saturating_sub(pinning)),
            rank: millis(ranked_at.saturating_sub(retrieved_at)),
            format: millis(self.now().saturating_sub(ranked_at)),
        };
        let place = question.target.canonical.as_path();
        let query_fingerprint = identity::query_fingerprint(query, place, limit, per_file);
        let explain = query.explain.then(|| {
            let asked = AnswerExplanation {
                terms: &terms,
                profile,
                weights,
                retrieved: &retrieved,
                mix: &mix,
                retrievers: &retrievers,
                meaning: meaning.is_some(),
                index: &index,
            };
            let mut explain = asked.to_json();
            explain.insert("snapshot_id".to_string(), json!(snapshot_id));
            explain.insert("head_sha".to_string(), json!(git.head_sha));
            explain.insert("dirty".to_string(), json!(git.dirty));
            if !query.deterministic {
                let admission = json!({
                    "queued": self.queued,
                    "waited_ms": millis(self.waited),
                    "stands_back": self.is_low_priority,
                    // Always `null`: a client with a retry delay gets a refusal instead of an
                    // answer.
                    "retry_after_ms": null,
                });
                explain.insert("admission".to_string(), admission);
            }
            explain
        });
        let request_id = match query.deterministic && request_id.is_empty() {
            true => identity::deterministic_request_id(&query_fingerprint, snapshot_id.as_deref()),
            false => request_id,
        };
        let caps = json!({
            "max_candidates": self.caps.max_candidates,
            "max_total_snippet_bytes": self.caps.max_total_snippet_bytes,
            "max_snippet_bytes_per_result": self.caps.max_snippet_bytes_per_result,
        });
        let (mut limits_hit, mut warnings) = remarks.into_parts();
        if !query.raw {
            let of_limits = limits_hit.iter_mut().map(|hit| &mut hit.path_key);
            let all = of_limits.chain(warnings.iter_mut().map(|one| &mut one.path_key));
            for path in all.flatten() {
                *path = escape_name(path).into_owned();
            }
            limits_hit.sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
            warnings.sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
        }
        self.go_on(&snapshot_id).map_err(of)?;
        let success = Success {
            schema_version: QUERY_SCHEMA_VERSION,
            request_id,
            store_id: self.store_id.to_string(),
            config_fingerprint: self.config_fingerprint.to_string(),
            ignore_fingerprint: (self.ignores)(snapshot.as_deref()),
            query_fingerprint,
            embed_config_fingerprint: identity::embed_config_fingerprint(self.caps.embed),
            degraded: snapshot_id.is_none(),
            snapshot_id,
            git: git.head_sha.is_some().then_some(git),
            mode: profile.as_str().to_string(),
            limits: LimitsInForce {
                max_results: limit,
                per_file,
                snippet: snippet.as_str().to_string(),
                others: caps.as_object().cloned().unwrap_or_default(),
            },
            limits_hit,
            warnings,
            timings_ms: (!query.deterministic).then_some(timings),
            results,
            explain,
        };
        Ok((success, timings))
    }

    fn now(&self) -> Duration {
        // Computed from the deadline's remaining time, since a deadline does not expose its clock.
        FAR.saturating_sub(self.deadline.remaining())
    }

    /// Fails if the time is over or the query was cancelled.
    fn go_on(&self, snapshot_id: &Option<String>) -> Result<(), Failure> {
        if self.deadline.remaining().is_zero() {
            self.stop.raise(StopReason::TimedOut);
        }
        let Some(reason) = self.stop.reason() else {
            return Ok(());
        };
        let mut failure = ended(reason);
        failure.error.snapshot_id = snapshot_id.clone();
        Err(failure)
    }

    /// Builds the question for terms: the files and words to search for.
    fn question_of(&self, query: &SearchQuery, terms: &Terms) -> Result<Question, Failure> {
        let keys: Vec<u32> = terms.keys().collect();
        let is_wanted = (0..keys.len()).map(|nth| terms.is_wanted(nth)).collect();
        self.question(query, terms.expression(), keys, is_wanted)
    }

    /// Builds a question. Without an expression, the words with these terms are looked up.
    pub(super) fn question(
        &self,
        query: &SearchQuery,
        literal: Option<String>,
        keys: Vec<u32>,
        is_wanted: Vec<bool>,
    ) -> Result<Question, Failure> {
        let config = self.tool.config();
        let target = match &self.target {
            Some(target) => target.clone(),
            None => self.target_of(query)?,
        };
        let options = QueryOptions {
            case: Case::Insensitive,
            max_results: 1,
            max_matches_per_file: 1,
            max_file_size: config.max_file_size_bytes,
            ..QueryOptions::default()
        };
        // A question without letters is searched for as it stands; the words of others are looked
        // up.
        let words = literal
            .is_none()
            .then(|| Arc::new(WantedWords { keys, is_wanted }));
        let expression = literal.unwrap_or_else(|| ANY_LINE.to_string());
        let expression = Query::new(&[expression], &options)
            .map_err(|error| invalid(format!("query: {error}")))?;
        Ok(Question {
            query: Arc::new(expression),
            traversal: index_traversal(config, IgnoreRules::All),
            max_depth: None,
            target,
            globs: Globs::none(),
            reach: self.context.sandbox.reach().clone(),
            global_excludes: self.context.global_excludes.clone(),
            maintenance: self
                .deadline
                .remaining()
                .mul_f64(config.index_maint_budget_fraction),
            pins: true,
            lists: false,
            by_index: IndexList::None,
            words,
        })
    }

    /// Returns the meaning of a question in words. A question that is one name asks for that name.
    fn meaning(&self, question: &str, terms: &Terms) -> Option<Meaning> {
        if terms.is_symbol() || terms.expression().is_some() {
            return None;
        }
        Meaning::of(model(self.caps.embed)?, question)
    }

    /// Resolves the path of a query, which is absolute and below the root.
    fn target_of(&self, query: &SearchQuery) -> Result<Resolved, Failure> {
        match &query.path {
            Some(path) => self.resolve_inside("path", path),
            None => {
                // The client did not name the root.
                let root = self.context.sandbox.resolve(Some("."));
                root.map_err(|error| internal(error.message()))
            }
        }
    }

    /// Resolves the path in a field of a query, which is absolute and below the root.
    pub(super) fn resolve_inside(&self, field: &str, path: &str) -> Result<Resolved, Failure> {
        let relative = inside(field, Path::new(path), self.root)?;
        let target = self.context.sandbox.resolve(Some(&relative));
        let target = target.map_err(|error| invalid(format!("{field}: {}", error.message())))?;
        if !target.canonical.starts_with(self.root) {
            // A link may lead to an allowed place outside of this tree.
            return Err(invalid(format!(
                "{field}: it leads out of the daemon's root"
            )));
        }
        Ok(target)
    }

    /// Reads the best files again, for their snippets.
    #[allow(clippy::too_many_arguments)]
    fn places(
        &self,
        best: &[(&Candidate, u64, u64)],
        scorer: &Scorer,
        snippet: Snippet,
        per_file: usize,
        options: &Retrieval<'_>,
        meaning: Option<&Meaning>,
        remarks: &mut Remarks,
    ) -> Vec<Ranked<ResultDraft>> {
        use rayon::prelude::*;
        let read: Vec<_> = best
            .par_iter()
            .map_init(
                || Some(Comparison::with(model(self.caps.embed)?, meaning?)),
                |comparison, (candidate, ..)| {
                    let rarity = scorer.rarity();
                    let comparison = comparison.as_mut();
                    excerpts(candidate, rarity, snippet, per_file, options, comparison)
                },
            )
            .collect();
        let reranked = reranked(best, &read);
        let mut places = Vec::new();
        for (((candidate, score, lexical), excerpts), counts) in best.iter().zip(read).zip(reranked)
        {
            let piece = scorer.piece(counts.share, &candidate.key);
            let meaning = scorer.meaning(counts.likeness, &candidate.key);
            let mut parts = scorer.contributions(&candidate.document, &candidate.key);
            parts.words += piece;
            parts.meaning = meaning;
            let (score, lexical) = (score + piece + meaning, lexical + piece);
            let real = candidate.found.absolute();
            let shown = real.strip_prefix(self.root).unwrap_or(&candidate.path);
            let (path, lossy) = shown_path(shown);
            let Some(excerpts) = excerpts else {
                if !self.stop.is_raised() {
                    warn_changed(remarks, &path);
                }
                continue;
            };
            if excerpts.more {
                remarks.limit("per_file", per_file as u64, None, None);
            }
            let excerpts = excerpts.best;
            let most = excerpts
                .first()
                .map_or(1, |one| u64::from(one.chunk.worth).max(1));
            let row = places.len() as u64;
            for (nth, excerpt) in excerpts.into_iter().enumerate() {
                let worth = u64::from(excerpt.chunk.worth);
                let share = (worth.min(most) as f64 / most as f64).powf(WORSE);
                let part = |score: u64| {
                    let whole = (score as f64 * share).round() as u64;
                    (0..nth).fold(whole, |score, _| score * FURTHER / 10)
                };
                places.push(Ranked {
                    score: part(score),
                    lexical: part(lexical),
                    path_key: path.clone().into_bytes(),
                    start: excerpt.chunk.start as u64,
                    row,
                    bucket: Bucket::of(&path),
                    item: ResultDraft {
                        path: path.clone(),
                        lossy: lossy || excerpt.lossy,
                        text: excerpt.text,
                        at: excerpt.at,
                        start_line: excerpt.chunk.start_line,
                        end_line: excerpt.chunk.end_line,
                        defines: excerpt.chunk.defines,
                        why: parts.reasons(excerpt.chunk.defines),
                        is_anchor: nth == 0,
                    },
                });
            }
        }
        places
    }
}

/// Returns the model that compares meanings. Returns `None` if it is turned off, or damaged.
pub(super) fn model(embed: Embed) -> Option<&'static dyn Model> {
    match embed {
        Embed::Off => None,
        Embed::Words => WordTable::built_in().map(|table| table as &dyn Model),
    }
}

/// The expression of a question whose words are looked up: the index excludes nothing by it.
const ANY_LINE: &str = "(?:)";

/// Longer than any deadline.
const FAR: Duration = Duration::from_secs(1 << 40);

/// The number of files of each kind that are compared by their best pieces, too. It does not depend
/// on the limit of the question, so that a larger limit only adds results.
const RERANKED: usize = 30;

/// What the best pieces of a file add to its score.
#[derive(Clone, Copy, Default)]
struct Reranked {
    /// The score of the best piece, as a share of the highest one.
    share: f64,
    /// How alike the meanings of the question and of a piece are.
    likeness: f64,
}

/// Returns what the pieces of each file add. Only the best files of each kind count.
fn reranked(best: &[(&Candidate, u64, u64)], read: &[Option<Excerpts>]) -> Vec<Reranked> {
    let mut taken = [0; Bucket::ALL.len()];
    let counts = best.iter().zip(read).map(|((candidate, ..), excerpts)| {
        let taken = &mut taken[Bucket::of(&candidate.key) as usize];
        *taken += 1;
        let excerpts = excerpts.as_ref().filter(|_| *taken <= RERANKED);
        excerpts.map_or_else(Reranked::default, |excerpts| Reranked {
            share: excerpts.piece,
            likeness: excerpts.likeness,
        })
    });
    let mut counts: Vec<Reranked> = counts.collect();
    let most = counts.iter().fold(1e-9, |most, one| one.share.max(most));
    for one in &mut counts {
        one.share /= most;
    }
    counts
}

/// Returns the best files: `limit` of each bucket, since a quota may need as many.
fn best<'a>(
    candidates: &'a [Candidate],
    scorer: &Scorer,
    limit: usize,
) -> Vec<(&'a Candidate, u64, u64)> {
    let mut scored: Vec<(&Candidate, u64, u64)> = candidates
        .iter()
        .map(|candidate| {
            let (score, lexical) = scorer.score(&candidate.document, &candidate.key);
            (candidate, score, lexical)
        })
        .collect();
    // The sort is stable, so equal files keep the order of the tree.
    scored.sort_by_key(|(_, score, lexical)| std::cmp::Reverse((*score, *lexical)));
    let mut taken = [0; Bucket::ALL.len()];
    scored.retain(|(candidate, ..)| {
        let taken = &mut taken[Bucket::of(&candidate.key) as usize];
        *taken += 1;
        *taken <= limit
    });
    scored
}

/// Returns the searched directory, or the parent of a searched file, relative to the root.
fn scope(canonical: &Path, root: &Path) -> std::path::PathBuf {
    let dir = match canonical.is_dir() {
        true => canonical,
        false => canonical.parent().unwrap_or(canonical),
    };
    dir.strip_prefix(root)
        .unwrap_or(Path::new(""))
        .to_path_buf()
}

/// Converts an absolute path to one relative to the root.
fn inside(field: &str, path: &Path, root: &Path) -> Result<String, Failure> {
    let refused = || {
        invalid(format!(
            "{field} must be absolute, without `..`, and inside {}",
            root.display()
        ))
    };
    let climbs = path
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    let relative = path.strip_prefix(root).map_err(|_| refused())?;
    if climbs {
        return Err(refused());
    }
    let text = relative.to_str().ok_or_else(refused)?;
    Ok(if text.is_empty() { "." } else { text }.to_string())
}

/// The explanation of an answer: numbers and names, no text of files.
struct AnswerExplanation<'a> {
    terms: &'a Terms,
    profile: Profile,
    weights: Weights,
    retrieved: &'a Retrieved,
    mix: &'a [Bucket],
    retrievers: &'a [&'a dyn Retriever],
    meaning: bool,
    index: &'a IndexUse,
}

impl AnswerExplanation<'_> {
    fn to_json(&self) -> Map<String, Value> {
        let weights = self.weights;
        let by_kind = |count: &dyn Fn(Bucket) -> u64| {
            let pairs = Bucket::ALL
                .iter()
                .map(|kind| (kind.as_str().to_string(), json!(count(*kind))));
            Value::Object(pairs.collect())
        };
        let quota = self.profile.quota();
        let candidates = &self.retrieved.candidates;
        let among = |kind: Bucket| {
            let of_kind = candidates.iter().filter(|one| Bucket::of(&one.key) == kind);
            of_kind.count() as u64
        };
        let shown = |kind: Bucket| self.mix.iter().filter(|one| **one == kind).count() as u64;
        let corpus = &self.retrieved.corpus;
        let told = json!({
            "mode": self.profile.as_str(),
            "weights": {
                "path": weights.path,
                "definition": weights.definition,
                "content": weights.content,
            },
            "quotas_percent": by_kind(&|kind| quota[kind as usize].into()),
            "terms": self.terms.words(),
            "looked_for": self.terms.looked_for().collect::<Vec<_>>(),
            "files_with_term": corpus.with_term,
            "candidates": {
                "files_in_scope": corpus.files,
                "files_with_any": corpus.found,
                "files_known_to_index": self.retrieved.known,
                "files_ranked": candidates.len(),
                "ranked_by_kind": by_kind(&among),
                "results_by_kind": by_kind(&shown),
            },
            "retrievers": self.retrievers_to_json(),
            "index": {
                "state": self.index.index_state.state().as_str(),
                "reason": self.index.index_state.reason(),
                "exclusion_used": self.index.exclusion_used,
            },
        });
        told.as_object().cloned().unwrap_or_default()
    }

    /// Returns the method of each kind of retriever. The meanings of texts rank the files that the
    /// lexical one finds, and find no others.
    fn retrievers_to_json(&self) -> Value {
        let mut told = json!({ "lexical": "not configured" });
        for retriever in self.retrievers {
            told[retriever.kind()] = retriever.method().into();
        }
        told["dense"] = match self.meaning {
            true => json!({
                "method": "word_table",
                "words": WordTable::built_in().map_or(0, WordTable::words),
                "dimensions": WordTable::built_in().map_or(0, WordTable::dimensions),
                "files_per_kind": RERANKED,
            }),
            false => "not used".into(),
        };
        told
    }
}

fn warn_changed(remarks: &mut Remarks, path: &str) {
    let message = "the file has changed since the snapshot and is missing from the answer; ask \
         again";
    remarks.warn("changed_since_snapshot", message, Some(path));
}

pub(super) fn invalid(message: impl AsRef<str>) -> Failure {
    Failure::new(ErrorCode::InvalidRequest, message)
}

pub(super) fn internal(message: impl AsRef<str>) -> Failure {
    Failure::new(ErrorCode::Internal, message)
}

/// Converts a tool's error into a failure of this protocol.
pub(super) fn of_tool(error: &ToolError) -> Failure {
    let code = match error {
        ToolError::Timeout { .. } => ErrorCode::Timeout,
        ToolError::Cancelled => ErrorCode::Cancelled,
        ToolError::ExecutionFailed { .. } => ErrorCode::Internal,
        _ => ErrorCode::InvalidRequest,
    };
    Failure::new(code, error.message())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
