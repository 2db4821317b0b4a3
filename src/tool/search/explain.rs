//! What an index does for a request, without searching.

use std::path::PathBuf;

use super::{SearchExtras, SearchTool, ToolContext, question};
use crate::exec::eligible::Globs;
use crate::index::beneath::EntryKind;
use crate::tool::error::{DenialReason, ToolError};
use crate::tool::indexing::Explanation;
use crate::tool::request::SearchRequest;
use crate::tool::response::IndexUse;

impl SearchTool {
    /// Says what a request would search and leave out, and why, without searching.
    ///
    /// # Errors
    ///
    /// As [`SearchTool::search`].
    pub fn explain(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<(Explanation, IndexUse), ToolError> {
        let (plan, globs) = self.validate(request, context)?;
        let target = context.sandbox.resolve(request.path.as_deref())?;
        let Some(indexes) = self.indexes() else {
            let explanation = Explanation {
                reason: Some("indexing is off (index_mode)".to_string()),
                ..Explanation::default()
            };
            return Ok((explanation, IndexUse::not_used()));
        };
        let meta = target.root.metadata(&target.relative);
        let question = question(request, &plan, target, globs, context);
        let target = &question.target;
        let choice = match meta.is_ok_and(|meta| meta.kind == EntryKind::File) {
            true => indexes.choose_for_file(target, question.traversal),
            false => indexes.choose(&question),
        };
        let mut explanation = choice.explanation();
        if choice.is_absent() {
            explanation.elsewhere = indexes.elsewhere(&target.canonical, &context.sandbox);
        }
        Ok((explanation, choice.index))
    }

    /// Validates a request and returns the index root that would serve it, if any does: for those who build an index
    /// before they search.
    ///
    /// # Errors
    ///
    /// As [`SearchTool::search`], but for what only searching tells.
    pub fn index_root(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<Option<PathBuf>, ToolError> {
        self.validate(request, context)?;
        let target = context.sandbox.resolve(request.path.as_deref())?;
        let meta = target.root.metadata(&target.relative);
        let is_dir = meta.is_ok_and(|meta| meta.kind == EntryKind::Dir);
        let indexes = self.indexes().filter(|_| is_dir);
        let root = indexes.and_then(|indexes| indexes.root_for(&target.canonical));
        Ok(root.map(PathBuf::from))
    }

    fn validate(
        &self,
        request: &SearchRequest,
        context: &ToolContext,
    ) -> Result<(super::Plan, Globs), ToolError> {
        if !self.config.enabled {
            return Err(DenialReason::Disabled.into());
        }
        request.validate()?;
        let plan = self.plan(request, &SearchExtras::default(), context)?;
        let globs = Globs::new(request.includes(), request.excludes())
            .map_err(|error| ToolError::bad_args(error.to_string()))?;
        Ok((plan, globs))
    }
}
