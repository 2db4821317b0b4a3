//! `forge-search index verify`, `list` and `clear`: commands for stored indexes of any tree.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;

use serde_json::json;

use super::{FAILED, row, setup_args};
use crate::exec::as_text::shown;
use crate::format::error::FormatError;
use crate::format::manifest::{IgnoreRules, KeyParts};
use crate::index::key::root_of;
use crate::index::store::{Store, StoredIndex};
use crate::tool::cli::answers::building::failed;
use crate::tool::cli::args::{IndexAllArgs, IndexArgs, IndexListArgs};
use crate::tool::cli::output::show::{self, bytes, timestamp};
use crate::tool::cli::setup::{Environment, load_config, prepare};
use crate::tool::cli::{Failure, complain};
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;

/// The stored indexes of a configuration, and their store.
struct StoredIndexes {
    store: Option<Store>,
    listed: Vec<StoredIndex>,
}

/// A function that lists the indexes of a store.
type List = fn(&Store) -> Result<Vec<StoredIndex>, FormatError>;

impl StoredIndexes {
    /// Opens the store of a configuration. `index_mode` and `index_storage` don't matter: existing
    /// indexes are managed anyway.
    fn open(
        args: &IndexArgs,
        environment: &Environment,
        list: List,
    ) -> Result<StoredIndexes, ToolError> {
        let config = load_config(&args.setup, environment)?;
        let root = tree(args, environment)?;
        let unusable = |error: FormatError| failed(error.into());
        let store = environment
            .cache
            .existing_store(&config.search, &root)
            .map_err(unusable)?;
        let listed = match &store {
            Some(store) => list(store).map_err(unusable)?,
            None => Vec::new(),
        };
        Ok(StoredIndexes { store, listed })
    }

    /// Keeps only the indexes of the tree in the arguments, with any index settings.
    fn of_tree(
        mut self,
        args: &IndexArgs,
        environment: &Environment,
    ) -> Result<StoredIndexes, ToolError> {
        let mut trees = vec![tree(args, environment)?];
        let mut dirs = Vec::new();
        // A deleted tree has no setup, but its indexes may still exist.
        if let Ok(setup) = prepare(&setup_args(args), environment, &[])
            && let Some(indexes) = setup.tool.indexes()
        {
            trees.extend(indexes.roots().map(PathBuf::from));
            // The manifest of a damaged index can't be read, so compare directories.
            dirs.extend(indexes.dirs());
        }
        self.listed.retain(|listed| {
            dirs.contains(&listed.dir)
                || root_of_listed(listed).is_some_and(|root| trees.contains(&root))
        });
        Ok(self)
    }

    fn select(
        args: &IndexAllArgs,
        environment: &Environment,
        list: List,
    ) -> Result<StoredIndexes, ToolError> {
        let kept = StoredIndexes::open(&args.index, environment, list)?;
        match args.all {
            true => Ok(kept),
            false => kept.of_tree(&args.index, environment),
        }
    }

    /// Iterates over the stored indexes, each with its store.
    fn each(&self) -> impl Iterator<Item = (&Store, &StoredIndex)> {
        let stores = self.store.iter();
        stores.flat_map(|store| self.listed.iter().map(move |listed| (store, listed)))
    }
}

/// Returns the tree that the arguments name. The tree need not exist.
fn tree(args: &IndexArgs, environment: &Environment) -> Result<PathBuf, ToolError> {
    let named = args.tree.as_ref().or(args.setup.root.as_ref());
    let path = environment.absolute(named.map_or(Path::new("."), PathBuf::as_path))?;
    Ok(path.canonicalize().unwrap_or(path))
}

fn root_of_listed(listed: &StoredIndex) -> Option<PathBuf> {
    root_of(&listed.manifest.as_ref().ok()?.key)
}

/// Returns the tree of an index, for messages.
fn tree_of(listed: &StoredIndex) -> String {
    root_of_listed(listed).map_or("an unknown tree".to_string(), |root| show::path(&root))
}

/// The result of checking an index.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Checked {
    /// The index is intact.
    Sound,
    /// The index is damaged, for this reason.
    Damaged(String),
    /// The index could not be checked: it is locked, unreadable, or written by a newer program.
    Unchecked(String),
}

impl Checked {
    /// Checks a stored index. With `deep`, reads the whole index.
    fn new(store: &Store, listed: &StoredIndex, deep: bool) -> Checked {
        match &listed.manifest {
            Err(error) => Checked::from(&**error),
            Ok(_) => match store.check(&listed.dir, deep, &mut sleep) {
                Err(error) => Checked::from(&error),
                Ok(()) => Checked::Sound,
            },
        }
    }

    /// Returns the name of the result in JSON.
    fn as_str(&self) -> &'static str {
        match self {
            Checked::Sound => "ok",
            Checked::Damaged(_) => "damaged",
            Checked::Unchecked(_) => "unchecked",
        }
    }

    fn problem(&self) -> Option<&str> {
        match self {
            Checked::Sound => None,
            Checked::Damaged(problem) | Checked::Unchecked(problem) => Some(problem),
        }
    }
}

impl From<&FormatError> for Checked {
    fn from(error: &FormatError) -> Checked {
        match error.is_corrupt() {
            true => Checked::Damaged(error.to_string()),
            false => Checked::Unchecked(error.to_string()),
        }
    }
}

/// Runs `index verify`.
pub(super) fn verify(args: &IndexAllArgs, environment: &Environment) -> Result<u8, Failure> {
    let kept = StoredIndexes::select(args, environment, Store::list)?;
    let mut out = io::stdout().lock();
    let mut reports = Vec::new();
    let mut failed = false;
    for (store, listed) in kept.each() {
        let checked = Checked::new(store, listed, true);
        failed |= checked != Checked::Sound;
        let (tree, dir) = (tree_of(listed), show::path(&listed.dir));
        if args.index.json {
            reports.push(json!({
                "root": root_of_listed(listed).map(|root| shown(&root).into_owned()),
                "dir": shown(&listed.dir),
                "ok": checked == Checked::Sound,
                "state": checked.as_str(),
                "problem": checked.problem(),
            }));
            continue;
        }
        match &checked {
            Checked::Sound => writeln!(out, "ok       {tree} in {dir}, {}", bytes(listed.bytes))?,
            Checked::Damaged(problem) => {
                writeln!(
                    out,
                    "damaged  {tree} in {dir}: {}",
                    escape_controls(problem)
                )?;
            }
            Checked::Unchecked(problem) => {
                let problem = escape_controls(problem);
                writeln!(out, "unknown  {tree} in {dir} can't be checked: {problem}")?;
            }
        }
    }
    if args.index.json {
        show::print_json(&json!({"ok": !failed, "indexes": reports}), &mut out)?;
    }
    if kept.listed.is_empty() && !args.all {
        let tree = tree(&args.index, environment)?;
        let message = format!(
            "{} has no index; `forge-search index build` builds one, `forge-search index list` \
             shows the existing ones",
            shown(&tree)
        );
        return Err(ToolError::bad_args(message).into());
    }
    Ok(if failed { FAILED } else { 0 })
}

/// Runs `index list`.
pub(super) fn list(args: &IndexListArgs, environment: &Environment) -> Result<u8, Failure> {
    let args = IndexArgs {
        tree: None,
        json: args.json,
        setup: args.setup.clone(),
    };
    let kept = StoredIndexes::open(&args, environment, Store::list)?;
    let mut out = io::stdout().lock();
    let mut reports = Vec::new();
    for (store, listed) in kept.each() {
        let checked = Checked::new(store, listed, false);
        let (damaged, unchecked) = match &checked {
            Checked::Sound => (None, None),
            Checked::Damaged(problem) => (Some(problem), None),
            Checked::Unchecked(problem) => (None, Some(problem)),
        };
        let manifest = listed.manifest.as_ref().ok();
        let files = manifest.map(|manifest| manifest.segment.files);
        let built = manifest.map(|manifest| manifest.state.updated_ms);
        if args.json {
            reports.push(json!({
                "root": root_of_listed(listed).map(|root| shown(&root).into_owned()),
                "exists": root_of_listed(listed).map(|root| root.is_dir()),
                "dir": shown(&listed.dir),
                "bytes": listed.bytes,
                "files": files,
                "hidden": manifest.map(|manifest| manifest.key.hidden),
                "follow": manifest.map(|manifest| manifest.key.follow),
                "ignore_rules": manifest.map(|manifest| manifest.key.rules.as_str()),
                "built": built.and_then(timestamp),
                "accessed": listed.accessed_ms.and_then(timestamp),
                "damaged": damaged,
                "unchecked": unchecked,
            }));
            continue;
        }
        let gone = match root_of_listed(listed) {
            Some(root) if !root.is_dir() => " (which is gone)",
            _ => "",
        };
        writeln!(out, "{}{gone}", tree_of(listed))?;
        if let Some(problem) = damaged {
            row(&mut out, "damaged", &escape_controls(problem))?;
        }
        if let Some(problem) = unchecked {
            let problem = format!("it can't be checked: {problem}");
            row(&mut out, "unknown", &escape_controls(&problem))?;
        }
        if let Some(manifest) = manifest {
            row(&mut out, "for", &serves(&manifest.key))?;
        }
        if let Some(built) = built {
            row(&mut out, "built", &show::time(built))?;
        }
        if let Some(used) = listed.accessed_ms {
            row(&mut out, "used", &show::time(used))?;
        }
        if let Some(files) = files {
            row(&mut out, "files", &show::count(files))?;
        }
        row(&mut out, "size", &bytes(listed.bytes))?;
        row(&mut out, "in", &show::path(&listed.dir))?;
    }
    let store = kept.store.as_ref().map(|store| store.root().to_path_buf());
    if args.json {
        let store = store.map(|store| shown(&store).into_owned());
        show::print_json(&json!({"store": store, "indexes": reports}), &mut out)?;
    } else if kept.listed.is_empty() {
        let store = store.map_or(String::new(), |store| format!(" in {}", show::path(&store)));
        writeln!(out, "no indexes are kept{store}")?;
    }
    Ok(0)
}

/// Describes the searches that can use an index.
fn serves(key: &KeyParts) -> String {
    let tool = match key.rules {
        IgnoreRules::All => "Search",
        IgnoreRules::Git => "search_files",
        IgnoreRules::AllAndGit => "both tools",
        IgnoreRules::None => "both tools without ignore files",
    };
    let hidden = if key.hidden {
        ", with hidden files"
    } else {
        ""
    };
    let follow = if key.follow { ", with links" } else { "" };
    format!("{tool}{hidden}{follow}")
}

/// Runs `index clear`.
pub(super) fn clear(args: &IndexAllArgs, environment: &Environment) -> Result<u8, Failure> {
    let kept = StoredIndexes::select(args, environment, Store::list_with_unfinished)?;
    let mut out = io::stdout().lock();
    let mut reports = Vec::new();
    let mut failed = false;
    for (store, listed) in kept.each() {
        let removed = store.remove(&listed.dir, &mut sleep);
        failed |= removed.is_err();
        let dir = show::path(&listed.dir);
        let what = match &listed.manifest {
            Err(error) if error.is_not_found() => "the remains of an unfinished build".to_string(),
            _ => format!("the index of {}", tree_of(listed)),
        };
        if args.index.json {
            reports.push(json!({
                "root": root_of_listed(listed).map(|root| shown(&root).into_owned()),
                "dir": shown(&listed.dir),
                "bytes": listed.bytes,
                "removed": removed.is_ok(),
                "problem": removed.err().map(|error| error.to_string()),
            }));
        } else {
            match removed {
                Ok(()) => writeln!(out, "removed {what}, {} in {dir}", bytes(listed.bytes))?,
                Err(error) => complain(&format!("{what} could not be removed: {error}")),
            }
        }
    }
    if args.index.json {
        show::print_json(&json!({"indexes": reports}), &mut out)?;
    } else if kept.listed.is_empty() {
        match args.all {
            true => writeln!(out, "no indexes are kept; nothing was removed")?,
            false => {
                let tree = show::path(&tree(&args.index, environment)?);
                writeln!(out, "{tree} has no index; nothing was removed")?;
            }
        }
    }
    Ok(if failed { FAILED } else { 0 })
}
