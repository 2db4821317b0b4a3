//! Explains how an index would serve a search, without searching.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{SearchTool, ToolContext};
use crate::exec::question::{IndexList, Question};
use crate::exec::sources::reach::EntryKind;
use crate::tool::answering::{maintenance, refused};
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::globs;
use crate::tool::indexing::{self, Explanation};
use crate::tool::request::{SEARCH_NAME, SearchRequest};
use crate::tool::sandbox::Resolved;

impl SearchTool {
    /// Returns which files a request would search and which it would exclude, and why, without
    /// searching.
    ///
    /// # Errors
    ///
    /// The errors of [`SearchTool::search`], except those that only searching can cause.
    pub fn explain(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<Explanation, ToolError> {
        request.validate()?;
        self.explain_question(&self.question(request)?, context)
    }

    /// Explains a question about one path, like [`SearchTool::explain`].
    pub(crate) fn explain_question(
        &self,
        question: &Question,
        context: &ToolContext,
    ) -> Result<Explanation, ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        let at_target = globs::at_target(question, &context.sandbox);
        let question = &*at_target.question;
        let refused = |error| refused(SEARCH_NAME, error);
        let query = question.query(question.looked_for.fuzzy).map_err(refused)?;
        let globs = question.filters().map_err(refused)?;
        let target = target_of(question, context)?;
        let Some(indexes) = self.indexes() else {
            return Ok(Explanation {
                reason: Some("indexing is off (index_mode)".to_string()),
                ..Explanation::default()
            });
        };
        let meta = target.root.metadata(&target.relative);
        let timeout = self.default_timeout(context);
        let asked = indexing::IndexRequest {
            query: Arc::new(query),
            traversal: question.files.traversal,
            max_depth: question.files.max_depth,
            target,
            globs,
            reach: context.sandbox.reach().clone(),
            global_excludes: context.global_excludes.clone(),
            maintenance: maintenance(Some(timeout), self.config.index_maint_budget_fraction),
            pins: false,
            lists: false,
            by_index: IndexList::None,
            words: None,
        };
        let path = &asked.target.canonical;
        let choice = match meta.is_ok_and(|meta| meta.kind == EntryKind::File) {
            true => indexes.choose_for_file(path, asked.traversal),
            false => indexes.choose(&asked),
        };
        let mut explanation = choice.explanation();
        if choice.is_absent() {
            explanation.other_root_index = indexes.index_of_other_root(path, &asked.reach);
        }
        Ok(explanation)
    }

    /// Returns the index root that would serve a request, if there is one. Callers use it to build
    /// an index before they search.
    ///
    /// # Errors
    ///
    /// The errors of [`SearchTool::search`], except those that only searching can cause.
    pub fn index_root(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<Option<PathBuf>, ToolError> {
        request.validate()?;
        self.index_root_of(&self.question(request)?, context)
    }

    /// Returns the index root that would serve a question about one path.
    pub(crate) fn index_root_of(
        &self,
        question: &Question,
        context: &ToolContext,
    ) -> Result<Option<PathBuf>, ToolError> {
        let target = target_of(question, context)?;
        let meta = target.root.metadata(&target.relative);
        let is_dir = meta.is_ok_and(|meta| meta.kind == EntryKind::Dir);
        let indexes = self.indexes().filter(|_| is_dir);
        let root = indexes.and_then(|indexes| indexes.root_for(&target.canonical));
        Ok(root)
    }
}

/// Returns the first path of a question.
fn target_of(question: &Question, context: &ToolContext) -> Result<Resolved, ToolError> {
    let path = question.files.paths.first().map(PathBuf::as_path);
    context.sandbox.resolve_path(path.unwrap_or(Path::new(".")))
}
