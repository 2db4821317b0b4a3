//! The sources of the files of a question: an index or a walk for each path.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::{AnswerRun, TargetFile, TargetKind};
use crate::exec::answer::outcome::FileError;
use crate::exec::indexes::ComparisonMode;
use crate::exec::question::query::Query;
use crate::exec::question::{IgnoreRules, IndexList};
use crate::exec::schedule::RunError;
use crate::exec::sources::PathSource;
use crate::exec::sources::catalog::CatalogSource;
use crate::exec::sources::catalog::comparing::Refusal;
use crate::exec::sources::eligible::{EligibleFile, Globs, ListSource, MissingSource, WalkSource};
use crate::exec::sources::reach::join;
use crate::format::error::FormatError;
use crate::tool::indexing;
use crate::tool::response::IndexUse;
use crate::tool::sandbox::Resolved;

impl AnswerRun<'_> {
    /// Chooses a source for each path. `None` if the deadline came first.
    pub(super) fn choose(&self, query: &Arc<Query>) -> Result<Option<ChosenSources>, RunError> {
        let mut chosen = ChosenSources::new();
        let mut first_index = None;
        for target in &self.prepared.targets {
            let (source, index) = match &target.kind {
                TargetKind::Dir => match self.of_dir(target, query, &mut chosen)? {
                    Some(found) => found,
                    None => return Ok(None),
                },
                _ => (
                    self.without_index(target, &chosen),
                    self.index_of_file(target, query),
                ),
            };
            // A list is complete only if an index decided about each path.
            let is_worse = self.question.shown.by_index != IndexList::None && !index.exclusion_used;
            match &mut first_index {
                Some(first) if is_worse => *first = index,
                Some(_) => {}
                None => first_index = Some(index),
            }
            chosen.sources.push(source);
        }
        chosen.index = first_index.unwrap_or_else(IndexUse::not_used);
        Ok(Some(chosen))
    }

    /// Chooses a source without an index for each path.
    pub(super) fn by_walk(&self) -> ChosenSources {
        let mut chosen = ChosenSources::new();
        for target in &self.prepared.targets {
            let source = self.without_index(target, &chosen);
            chosen.sources.push(source);
        }
        chosen
    }

    fn of_dir(
        &self,
        target: &TargetFile,
        query: &Arc<Query>,
        chosen: &mut ChosenSources,
    ) -> Result<Option<(PathSource, IndexUse)>, RunError> {
        let Some(indexes) = self.searcher.indexes() else {
            return Ok(Some((
                self.without_index(target, chosen),
                IndexUse::not_used(),
            )));
        };
        let Some(asked) = self.for_index(target, query) else {
            return Ok(Some((
                self.without_index(target, chosen),
                self.searcher.not_chosen(),
            )));
        };
        let by_index = self.question.shown.by_index;
        let results = by_index == IndexList::None;
        let comparing = match self.question.looked_for.patterns.is_some() && results {
            true => ComparisonMode::Along(self.maintenance.clone()),
            // A list of files needs the whole catalog. Nobody can walk for the rest.
            false => ComparisonMode::First,
        };
        let choice = self
            .searcher
            .choose(indexes, &asked, comparing, self.options)?;
        let Some(mut choice) = choice else {
            return Ok(None);
        };
        self.maintenance.spend(choice.index.spent);
        if by_index.is_of_candidates()
            && choice
                .source
                .take_if(|source| !self.is_as_in_ripgrep(source))
                .is_some()
        {
            choice.index.exclusion_used = false;
        }
        let source = match choice.source {
            Some(source) => {
                chosen.watched.push(CatalogState {
                    target: chosen.sources.len(),
                    failure: source.failure(),
                    refusal: source.refusal(),
                });
                if source.is_cut() && self.question.files.depth_cuts {
                    chosen.is_cut.store(true, Ordering::Relaxed);
                }
                Box::new(source) as PathSource
            }
            None => self.without_index(target, chosen),
        };
        Ok(Some((source, choice.index)))
    }

    /// Returns whether ripgrep finds the same files as the walk that made the catalog.
    fn is_as_in_ripgrep(&self, source: &CatalogSource) -> bool {
        self.question.files.traversal.rules == IgnoreRules::None || source.has_ripgreps_rules()
    }

    fn index_of_file(&self, target: &TargetFile, query: &Arc<Query>) -> IndexUse {
        match self.for_index(target, query) {
            Some(asked) if matches!(target.kind, TargetKind::File) => {
                self.searcher.facts_for_file(&asked, self.options)
            }
            _ => IndexUse::not_used(),
        }
    }

    /// Returns a source that reads the tree instead of an index.
    fn without_index(&self, target: &TargetFile, chosen: &ChosenSources) -> PathSource {
        let Some(resolved) = &target.resolved else {
            return Box::new(ListSource(Vec::new()));
        };
        match &target.kind {
            TargetKind::Missing(why) => Box::new(MissingSource(FileError {
                target: 0,
                path: PathBuf::new(),
                message: why.clone(),
            })),
            TargetKind::File => {
                let file = EligibleFile::named(resolved);
                // Globs that are relative to another directory do not apply to a named file.
                let files = &self.question.files;
                let name = Path::new(&file.found.name);
                let kept = files.globs_from.is_some() || self.prepared.filters.keep(name, false);
                Box::new(ListSource(if kept { vec![file] } else { Vec::new() }))
            }
            // A walk rules nothing out.
            TargetKind::Dir if self.question.shown.by_index != IndexList::None => {
                Box::new(ListSource(Vec::new()))
            }
            TargetKind::Dir => {
                let source = WalkSource::over(
                    resolved,
                    self.question.files.traversal,
                    self.context.sandbox.reach(),
                    self.context.global_excludes.as_deref(),
                    self.filters_for(resolved),
                );
                let files = &self.question.files;
                Box::new(match files.max_depth {
                    Some(depth) => {
                        let is_cut = files.depth_cuts.then(|| chosen.is_cut.clone());
                        source.within_depth(depth, is_cut)
                    }
                    None => source,
                })
            }
        }
    }

    /// Returns the path filters for paths relative to a searched path.
    fn filters_for(&self, resolved: &Resolved) -> Globs {
        let filters = self.prepared.filters.clone();
        let Some(start) = &self.question.files.globs_from else {
            return filters;
        };
        if filters.is_empty() {
            return filters;
        }
        let start = join(self.context.sandbox.working_dir(), start);
        let below = resolved.canonical.strip_prefix(start);
        match below.unwrap_or(&resolved.canonical) {
            prefix if prefix.as_os_str().is_empty() => filters,
            prefix => filters.from_above(prefix.to_path_buf()),
        }
    }

    fn for_index(&self, target: &TargetFile, query: &Arc<Query>) -> Option<indexing::IndexRequest> {
        let resolved = target.resolved.as_ref()?;
        Some(indexing::IndexRequest {
            query: query.clone(),
            traversal: self.question.files.traversal,
            max_depth: self.question.files.max_depth,
            target: resolved.clone(),
            globs: self.filters_for(resolved),
            reach: self.context.sandbox.reach().clone(),
            global_excludes: self.context.global_excludes.clone(),
            maintenance: self.maintenance.left(),
            // A list excludes no file, but the catalog provides it.
            pins: self.question.looked_for.patterns.is_none(),
            lists: self.question.looked_for.patterns.is_none() && query.max_file_size == u64::MAX,
            words: None,
            by_index: self.question.shown.by_index,
        })
    }
}

/// The places where a catalog source reports that it can't continue.
pub(super) struct CatalogState {
    /// The number of the searched path in the question.
    pub(super) target: usize,
    /// Set if the catalog turned out to be damaged.
    pub(super) failure: Arc<OnceLock<FormatError>>,
    /// Set if the tree turned out to differ too much.
    pub(super) refusal: Option<Arc<OnceLock<Refusal>>>,
}

/// The chosen sources of all paths.
pub(super) struct ChosenSources {
    pub(super) sources: Vec<PathSource>,
    /// The states of the catalog sources among them.
    pub(super) watched: Vec<CatalogState>,
    /// Whether an eligible file lies deeper than `max_depth`.
    pub(super) is_cut: Arc<AtomicBool>,
    pub(super) index: IndexUse,
}

impl ChosenSources {
    pub(super) fn new() -> ChosenSources {
        ChosenSources {
            sources: Vec::new(),
            watched: Vec::new(),
            is_cut: Arc::default(),
            index: IndexUse::not_used(),
        }
    }
}
