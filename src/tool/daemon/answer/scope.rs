//! Which files a ranked search considers: the eligible ones below one directory.

use std::path::Path;
use std::sync::Arc;

use super::super::reply::Failure;
use super::super::request::SearchQuery;
use super::{RankedSearch, internal, invalid};
use crate::exec::question::query::{Case, Query, QueryOptions};
use crate::exec::question::{IgnoreRules, IndexList};
use crate::exec::rank::Terms;
use crate::exec::sources::eligible::{Globs, WantedWords};
use crate::exec::sources::reach::Resolved;
use crate::tool::indexing::{IndexRequest, index_traversal};

impl RankedSearch<'_> {
    /// Builds the request for terms: the files and words to search for.
    pub(super) fn request_of(
        &self,
        query: &SearchQuery,
        terms: &Terms,
    ) -> Result<IndexRequest, Failure> {
        let keys: Vec<u32> = terms.keys().collect();
        let is_wanted = (0..keys.len()).map(|nth| terms.is_wanted(nth)).collect();
        self.request(query, terms.expression(), keys, is_wanted)
    }

    /// Builds a request. Without an expression, the words with these terms are looked up.
    pub(in super::super) fn request(
        &self,
        query: &SearchQuery,
        literal: Option<String>,
        keys: Vec<u32>,
        is_wanted: Vec<bool>,
    ) -> Result<IndexRequest, Failure> {
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
        Ok(IndexRequest {
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
    pub(in super::super) fn resolve_inside(
        &self,
        field: &str,
        path: &str,
    ) -> Result<Resolved, Failure> {
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
}

/// The expression of a question whose words are looked up: the index excludes nothing by it.
const ANY_LINE: &str = "(?:)";

/// Returns the searched directory, or the parent of a searched file, relative to the root.
pub(super) fn subtree_of(canonical: &Path, root: &Path) -> std::path::PathBuf {
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
