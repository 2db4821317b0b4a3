//! Answers a ranked search in four stages: pin, retrieve, rank, write.
//!
//! This module owns the stages and the report about them. The set of files is chosen as for every
//! search; their scores come from [`rank`](crate::exec::rank).

mod explanation;
mod order;
mod remarks;
mod results;
mod scope;
mod written;

use std::path::Path;
use std::time::Duration;

use rayon::ThreadPool;
use serde_json::{Map, Value, json};

use super::identity;
use super::limits::{self, Remarks};
use super::related::{RelatedPiece, SourceLine};
use super::reply::{
    ErrorCode, Failure, Git, LimitsInForce, QUERY_SCHEMA_VERSION, Success, Timings,
};
use super::request::SearchQuery;
use super::retriever::{Hits, Lexical, Retriever, retrieve_all};
use super::service::{Service, ended};
use crate::exec::rank::{
    Meaning, Model, Profile, Scorer, Select, Selection, Snippet, Terms, Versions, Weights,
    WordTable, select,
};
use crate::exec::retrieve::{Retrieval, Retrieved};
use crate::exec::sources::reach::Resolved;
use crate::exec::stop::{Deadline, Stop, StopReason, millis};
use crate::tool::config::{DaemonConfig, Embed};
use crate::tool::error::ToolError;
use crate::tool::search::{SearchTool, ToolContext};
use crate::tool::searcher::to_usize;
use explanation::AnswerExplanation;
use order::best;
use scope::subtree_of;
use written::{ResultDraft, written};

/// How much paths and definitions count for code like that at a place. Its names say where they are
/// defined, and its text what it does.
const OF_RELATED: f64 = 0.25;

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
    /// The service, which knows the ids of its store and of snapshots.
    pub service: &'a Service,
    /// The caps in force.
    pub caps: &'a DaemonConfig,
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

/// What a query asks for, with defaults for what it leaves out.
#[derive(Clone, Copy)]
struct Settings {
    profile: Profile,
    weights: Weights,
    snippet: Snippet,
    /// Results of the answer.
    limit: u64,
    /// Results of one file.
    per_file: u64,
}

impl Settings {
    fn of(query: &SearchQuery, is_related: bool) -> Settings {
        let profile = query.mode.unwrap_or_default();
        let mut weights = profile.weights();
        if is_related {
            weights.path *= OF_RELATED;
            weights.definition *= OF_RELATED;
        }
        Settings {
            profile,
            weights,
            snippet: query.snippet(),
            limit: query.limit.unwrap_or(limits::MAX_RESULTS.default),
            per_file: query.per_file.unwrap_or(profile.per_file().into()),
        }
    }
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
        self.answered(query, request_id)
            .map_err(|failure| failure.of(id))
    }

    fn answered(
        &self,
        query: &SearchQuery,
        request_id: String,
    ) -> Result<(Success, Timings), Failure> {
        let began = self.now();
        let _searching = self.tool.searcher().searching();
        let related = self.related(query)?;
        let related = related.as_ref();
        self.go_on(&None)?;
        let asked = related.map_or(&*query.query, |one| &one.question);
        let terms = Terms::new(asked).map_err(|error| invalid(error.to_string()))?;
        let settings = Settings::of(query, related.is_some());
        let mut remarks = remarks::of_query(related.is_none().then_some(&terms), self.stale);

        let request = self.request_of(query, &terms)?;
        let subtree = subtree_of(&request.target.canonical, self.root);
        let retrieval = self.retrieval(&terms, &subtree, related);
        let lexical = self.lexical();
        let meaning = self.meaning(query, related, &terms);
        let retrievers: [&dyn Retriever; 1] = [&lexical];
        let Hits {
            retrieved,
            index,
            snapshot,
            pinning,
        } = retrieve_all(&retrievers, &request, &retrieval)?;
        let snapshot_id = snapshot.as_deref();
        let snapshot_id = snapshot_id.map(|snapshot| self.service.name_of(snapshot));
        self.go_on(&snapshot_id)?;
        let retrieved_at = self.now();

        let max_file_size = retrieval.max_file_size;
        remarks::of_files(&mut remarks, &retrieved, self.caps, max_file_size);
        let asked = meaning.as_ref();
        let selection = self.chosen(&retrieved, &retrieval, settings, asked, &mut remarks);
        self.go_on(&snapshot_id)?;
        let ranked_at = self.now();

        let mix = selection.chosen.iter().map(|one| one.bucket);
        let mix = mix.collect::<Vec<_>>();
        let results = written(selection, settings.per_file, query, self.caps, &mut remarks);
        let git = self.git(query);
        let timings = self.timings(pinning, [began, retrieved_at, ranked_at]);
        let place = request.target.canonical.as_path();
        let query_fingerprint =
            identity::query_fingerprint(query, place, settings.limit, settings.per_file);
        let explain = query.explain.then(|| {
            let asked = AnswerExplanation {
                terms: &terms,
                profile: settings.profile,
                weights: settings.weights,
                retrieved: &retrieved,
                mix: &mix,
                retrievers: &retrievers,
                meaning: meaning.is_some(),
                index: &index,
            };
            self.explained(&asked, query, &snapshot_id, &git)
        });
        let request_id = match query.deterministic && request_id.is_empty() {
            true => identity::deterministic_request_id(&query_fingerprint, snapshot_id.as_deref()),
            false => request_id,
        };
        let (limits_hit, warnings) = remarks::written(remarks, query.raw);
        self.go_on(&snapshot_id)?;
        let success = Success {
            schema_version: QUERY_SCHEMA_VERSION,
            request_id,
            store_id: self.service.served.store_id.clone(),
            config_fingerprint: self.service.served.config_fingerprint.clone(),
            ignore_fingerprint: self.service.ignores(snapshot.as_deref()),
            query_fingerprint,
            embed_config_fingerprint: identity::embed_config_fingerprint(self.caps.embed),
            degraded: snapshot_id.is_none(),
            snapshot_id,
            git: git.head_sha.is_some().then_some(git),
            mode: settings.profile.as_str().to_string(),
            limits: self.limits(settings),
            limits_hit,
            warnings,
            timings_ms: (!query.deterministic).then_some(timings),
            results,
            explain,
        };
        Ok((success, timings))
    }

    fn retrieval<'r>(
        &'r self,
        terms: &'r Terms,
        subtree: &'r Path,
        related: Option<&'r RelatedPiece>,
    ) -> Retrieval<'r> {
        Retrieval {
            terms,
            subtree,
            max_file_size: self.tool.config().max_file_size_bytes,
            max_candidates: to_usize(self.caps.max_candidates),
            stop: self.stop,
            without: related.map(|one| &one.piece),
        }
    }

    fn lexical(&self) -> Lexical<'_> {
        Lexical {
            searcher: self.tool.searcher(),
            pool: self.pool,
            deadline: self.deadline.clone(),
            cancel: &self.context.cancel,
        }
    }

    /// Returns the limits in force, as the answer names them.
    fn limits(&self, settings: Settings) -> LimitsInForce {
        let caps = json!({
            "max_candidates": self.caps.max_candidates,
            "max_total_snippet_bytes": self.caps.max_total_snippet_bytes,
            "max_snippet_bytes_per_result": self.caps.max_snippet_bytes_per_result,
        });
        LimitsInForce {
            max_results: settings.limit,
            per_file: settings.per_file,
            snippet: settings.snippet.as_str().to_string(),
            others: caps.as_object().cloned().unwrap_or_default(),
        }
    }

    /// Ranks the candidates, and chooses the best places.
    fn chosen(
        &self,
        retrieved: &Retrieved,
        retrieval: &Retrieval<'_>,
        settings: Settings,
        meaning: Option<&Meaning>,
        remarks: &mut Remarks,
    ) -> Selection<ResultDraft> {
        let documents = retrieved.candidates.iter().map(|one| &one.document);
        let paths = retrieved.candidates.iter().map(|one| &*one.key);
        let versions = Versions::of(retrieval.terms, paths);
        let scorer = Scorer::new(
            retrieval.terms,
            &retrieved.corpus,
            documents,
            versions,
            settings.weights,
        );
        self.pool.install(|| {
            let limits = Select {
                limit: to_usize(settings.limit),
                quota: settings.profile.quota(),
            };
            let best = best(&retrieved.candidates, &scorer, limits);
            let places = self.places(&best, &scorer, settings, retrieval, meaning, remarks);
            let all = places.iter().filter(|one| !one.item.is_surplus).count() as u64;
            // The places of files that can't be among the best were not counted.
            let whole = best.len() == retrieved.candidates.len();
            if all > settings.limit || !whole {
                remarks.limit("max_results", settings.limit, whole.then_some(all), None);
            }
            select(places, limits, |place| place.is_surplus)
        })
    }

    /// Returns how long each stage took, from the beginning and the ends of retrieval and ranking.
    fn timings(&self, pinning: Duration, [began, retrieved, ranked]: [Duration; 3]) -> Timings {
        Timings {
            admission: millis(self.waited),
            snapshot_read: millis(pinning),
            retrieve: millis(retrieved.saturating_sub(began).saturating_sub(pinning)),
            rank: millis(ranked.saturating_sub(retrieved)),
            format: millis(self.now().saturating_sub(ranked)),
        }
    }

    /// Returns the state of git's repository.
    fn git(&self, query: &SearchQuery) -> Git {
        // A commit does not change a snapshot, so deterministic answers can't depend on it.
        let head_sha = match query.deterministic {
            true => None,
            false => super::git::head_sha(self.root),
        };
        Git {
            head_sha,
            dirty: None,
            untracked_included: true,
        }
    }

    /// Returns the explanation of an answer, with what this daemon knows.
    fn explained(
        &self,
        explanation: &AnswerExplanation<'_>,
        query: &SearchQuery,
        snapshot_id: &Option<String>,
        git: &Git,
    ) -> Map<String, Value> {
        let mut explain = explanation.to_json();
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
    }

    fn now(&self) -> Duration {
        // Computed from the deadline's remaining time, since a deadline does not expose its clock.
        FAR.saturating_sub(self.deadline.remaining())
    }

    /// Fails if the time is over or the query was cancelled.
    pub(super) fn go_on(&self, snapshot_id: &Option<String>) -> Result<(), Failure> {
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

    /// Returns the meaning of a piece of code or of a question in words. A question that is one
    /// name asks for that name.
    fn meaning(
        &self,
        query: &SearchQuery,
        related: Option<&RelatedPiece>,
        terms: &Terms,
    ) -> Option<Meaning> {
        if let Some(related) = related {
            return related.meaning.clone();
        }
        if terms.is_symbol() || terms.expression().is_some() {
            return None;
        }
        Meaning::of(model(self.caps.embed)?, &query.query)
    }
}

/// Returns the model that compares meanings. Returns `None` if it is turned off, or damaged.
pub(super) fn model(embed: Embed) -> Option<&'static dyn Model> {
    match embed {
        Embed::Off => None,
        Embed::Words => WordTable::built_in().map(|table| table as &dyn Model),
    }
}

/// Longer than any deadline.
const FAR: Duration = Duration::from_secs(1 << 40);

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
