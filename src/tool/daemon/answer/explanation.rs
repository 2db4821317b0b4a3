//! The explanation of a ranked answer, in JSON: its terms, weights, counts and the ways in which
//! candidates were found. It has numbers and names, and no text of files.

use serde_json::{Map, Value, json};

use super::super::retriever::Retriever;
use super::order::{RERANKED, RERANKED_OF_KIND};
use crate::exec::rank::{Bucket, Model, Profile, Terms, Weights, WordTable};
use crate::exec::retrieve::Retrieved;
use crate::tool::response::IndexUse;

/// The explanation of an answer: numbers and names, no text of files.
pub(super) struct AnswerExplanation<'a> {
    pub(super) terms: &'a Terms,
    pub(super) profile: Profile,
    pub(super) weights: Weights,
    pub(super) retrieved: &'a Retrieved,
    pub(super) mix: &'a [Bucket],
    pub(super) retrievers: &'a [&'a dyn Retriever],
    pub(super) meaning: bool,
    pub(super) index: &'a IndexUse,
}

impl AnswerExplanation<'_> {
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let weights = self.weights;
        let by_kind = |count: &dyn Fn(Bucket) -> u64| {
            let pairs = Bucket::ALL
                .iter()
                .map(|kind| (kind.as_str().to_string(), json!(count(*kind))));
            Value::Object(pairs.collect())
        };
        let quota = self.profile.quota();
        let candidates = &self.retrieved.candidates;
        let mut ranked = [0; Bucket::ALL.len()];
        for one in candidates {
            ranked[Bucket::of(&one.key) as usize] += 1;
        }
        let among = |kind: Bucket| ranked[kind as usize];
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
                "files": RERANKED,
                "files_per_kind": RERANKED_OF_KIND,
            }),
            false => "not used".into(),
        };
        told
    }
}
