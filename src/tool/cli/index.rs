//! `forge-search index`: building, looking at and removing indexes.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::args::{IndexAllArgs, IndexArgs, IndexCommand, SetupArgs};
use super::building::{failed, roots, with_host};
use super::setup::{Environment, Setup, load_config, prepare};
use super::show::{self, bytes, seconds, share, things, timestamp};
use super::{FAILED, Failure, complain};
use crate::format::error::FormatError;
use crate::index::builder::Built;
use crate::index::key::root_of;
use crate::index::snapshot::Snapshot;
use crate::index::store::{Listed, Store};
use crate::index::token::TokenStatus;
use crate::tool::error::ToolError;
use crate::tool::indexing::{Condition, Contents, Indexes, RootStatus};
use crate::tool::render::escape_controls;

/// Exit status of `status` when no index can be used.
const NOT_USABLE: u8 = 1;

/// Paths that could not be read, of which people are told.
const SHOWN_PATHS: usize = 20;

/// Carries out a command.
pub(super) fn run(command: &IndexCommand, environment: &Environment) -> Result<u8, Failure> {
    match command {
        IndexCommand::Build(args) => build(args, environment),
        IndexCommand::Status(args) => status(args, environment),
        IndexCommand::Verify(args) => verify(args, environment),
        IndexCommand::List(args) => list(args, environment),
        IndexCommand::Clear(args) => clear(args, environment),
    }
}

fn setup_args(args: &IndexArgs) -> SetupArgs {
    let mut setup = args.setup.clone();
    if let Some(tree) = &args.tree {
        setup.root = Some(tree.clone());
    }
    setup
}

fn is_off() -> ToolError {
    ToolError::bad_args(
        "indexing is off: index_mode = \"off\"; set it to \"auto\" or \"on\" in [tools.search], or with \
         --set index_mode=auto",
    )
}

/// A tree whose index was built.
struct BuiltRoot {
    root: PathBuf,
    dir: Option<PathBuf>,
    built: Built,
    bytes: u64,
    unreadable: Vec<PathBuf>,
    time: Duration,
}

fn build(args: &IndexArgs, environment: &Environment) -> Result<u8, Failure> {
    let setup = prepare(&setup_args(args), environment, None)?;
    let indexes = setup.tool.indexes().ok_or_else(is_off)?;
    let roots = roots(indexes)?;
    indexes.make_place();
    if let Some(why) = indexes.unkept() {
        let message = format!(
            "the index would end with this command, so it is not built: {why}. A search with --index on builds one \
             in memory for itself"
        );
        return Err(ToolError::bad_args(message).into());
    }
    indexes.rejected().iter().for_each(|why| complain(why));
    if let Some(why) = indexes.untracked() {
        complain(why);
    }
    let mut all = Vec::new();
    for root in roots {
        let one = build_root(&setup, environment, indexes, root)
            .map_err(|error| setup.signals.failure(error))?;
        all.push(one);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let built: Vec<Value> = all.iter().map(BuiltRoot::to_json).collect();
        let report = json!({
            "indexes": built,
            "rejected": indexes.rejected(),
            "never_used_because": indexes.untracked(),
        });
        writeln!(out, "{report}")?;
    } else {
        all.iter().try_for_each(|one| one.print(&mut out))?;
    }
    out.flush()?;
    drop(out);
    all.iter().for_each(BuiltRoot::report);
    // With something unlisted, the index is of no use yet.
    let whole = all.iter().all(|one| one.built.errors.is_empty());
    Ok(if whole { 0 } else { FAILED })
}

fn build_root(
    setup: &Setup,
    environment: &Environment,
    indexes: &Indexes,
    root: PathBuf,
) -> Result<BuiltRoot, ToolError> {
    let clock = &setup.context.clock;
    let started = clock.now();
    let (built, snapshot) = with_host(setup, environment, |host| {
        indexes.build(&root, &setup.context.sandbox, host)
    })
    .map_err(failed)?;
    let time = clock.now().saturating_duration_since(started);
    let dir = indexes.store().map(|store| store.dir_of(snapshot.key()));
    let stored = indexes.store().zip(dir.as_deref());
    Ok(BuiltRoot {
        bytes: stored.map_or(0, |(store, dir)| store.look_at(dir).bytes),
        unreadable: unreadable(&snapshot).map_err(|error| failed(error.into()))?,
        root,
        dir,
        built,
        time,
    })
}

/// Finds the files that could be listed but not read.
fn unreadable(snapshot: &Snapshot) -> Result<Vec<PathBuf>, FormatError> {
    let segment = snapshot.segment();
    let wrong = [TokenStatus::Unreadable as u8, TokenStatus::Error as u8];
    let mut paths = Vec::new();
    for rank in 0..segment.file_count() {
        let file = segment.file(rank)?;
        if wrong.contains(&file.status) {
            paths.push(segment.dir_path(file.dir)?.join(segment.name(file.name)?));
        }
    }
    Ok(paths)
}

impl BuiltRoot {
    fn files(&self) -> u64 {
        u64::from(self.built.meta.files) + u64::from(self.built.meta.side)
    }

    fn to_json(&self) -> Value {
        let built = &self.built;
        let by_status: Map<String, Value> = TokenStatus::ALL
            .iter()
            .zip(built.by_status)
            .map(|(status, files)| (status.as_str().to_string(), files.into()))
            .collect();
        let errors: Vec<Value> = built
            .errors
            .iter()
            .map(|(path, error)| json!({"path": path.to_string_lossy(), "error": error}))
            .collect();
        let lossy = |path: &PathBuf| path.to_string_lossy().into_owned();
        json!({
            "root": self.root.to_string_lossy(),
            "dir": self.dir.as_ref().map(lossy),
            "files": self.files(),
            "directories": built.meta.dirs,
            "by_status": by_status,
            "side_files": built.meta.side,
            "unsettled_files": built.unsettled,
            "text_bytes": built.meta.text_bytes,
            "index_bytes": self.bytes,
            "elapsed_ms": u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX),
            "errors": errors,
            "unreadable": self.unreadable.iter().map(lossy).collect::<Vec<_>>(),
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let built = &self.built;
        writeln!(out, "{}", show::path(&self.root))?;
        let full = built.by_status[TokenStatus::Full as usize];
        let mut always = Vec::new();
        for (status, what) in [
            (TokenStatus::SkippedTooLarge, "too large"),
            (TokenStatus::SkippedBinary, "binary"),
            (TokenStatus::Unreadable, "unreadable"),
            (TokenStatus::Error, "changing while they were read"),
        ] {
            let files = built.by_status[status as usize];
            if files > 0 {
                always.push(format!("{} {what}", show::count(files)));
            }
        }
        if built.meta.side > 0 {
            let side = show::count(u64::from(built.meta.side));
            always.push(format!("{side} with a line break in the name"));
        }
        let always = match always.is_empty() {
            true => String::new(),
            false => format!(", always searched: {}", always.join(", ")),
        };
        row(
            out,
            "files",
            &format!("{} indexed{always}", show::count(full)),
        )?;
        let text = built.meta.text_bytes;
        row(out, "text", &bytes(text))?;
        row(
            out,
            "index",
            &format!(
                "{}, {} of the text",
                bytes(self.bytes),
                share(self.bytes, text)
            ),
        )?;
        row(out, "time", &seconds(self.time))?;
        row(
            out,
            "in",
            &self.dir.as_deref().map_or("-".into(), show::path),
        )
    }

    /// Says on standard error what could not be read.
    fn report(&self) {
        let some = |lines: Vec<String>| {
            let more = lines.len().saturating_sub(SHOWN_PATHS);
            lines
                .iter()
                .take(SHOWN_PATHS)
                .for_each(|line| complain(line));
            if more > 0 {
                complain(&format!(
                    "and {}; --json names all",
                    things(more as u64, "other")
                ));
            }
        };
        let unreadable = self.unreadable.iter();
        some(
            unreadable
                .map(|path| {
                    format!(
                        "{}: could not be read; it is always searched",
                        show::path(path)
                    )
                })
                .collect(),
        );
        let errors = self.built.errors.iter();
        some(
            errors
                .map(|(path, error)| format!("{}: {error}", show::path(path)))
                .collect(),
        );
        if !self.built.errors.is_empty() {
            complain(
                "what could not be listed may hide files, so no search leaves files out: make it readable, or deny \
                 it in [tools.sandbox], and build the index again",
            );
        }
    }
}

fn row(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:<9}{text}")
}

fn status(args: &IndexArgs, environment: &Environment) -> Result<u8, Failure> {
    let setup = prepare(&setup_args(args), environment, None)?;
    let mut out = io::stdout().lock();
    let Some(indexes) = setup.tool.indexes() else {
        if args.json {
            writeln!(out, "{}", json!({"mode": "off", "indexes": []}))?;
        } else {
            writeln!(out, "DISABLED: {}", is_off().message())?;
        }
        return Ok(NOT_USABLE);
    };
    roots(indexes)?;
    let all = indexes.status(&setup.context.sandbox);
    if args.json {
        let statuses: Vec<Value> = all.iter().map(status_json).collect();
        let report = json!({
            "mode": indexes.mode().as_str(),
            "indexes": statuses,
            "fallback": indexes.fallback().map(|fallback| json!({
                "code": fallback.code, "message": fallback.message,
            })),
            "rejected": indexes.rejected(),
        });
        writeln!(out, "{report}")?;
    } else {
        for status in &all {
            print_status(status, &mut out)?;
        }
    }
    drop(out);
    indexes.rejected().iter().for_each(|why| complain(why));
    if let Some(fallback) = indexes.fallback() {
        complain(&format!("indexes are not kept: {}", fallback.message));
    }
    let exit = |status: &RootStatus| match status.condition {
        Condition::Usable => 0,
        Condition::Absent | Condition::Stale { .. } | Condition::Untracked => NOT_USABLE,
        Condition::Unavailable(_) | Condition::Damaged(_) | Condition::Disabled { .. } => FAILED,
    };
    Ok(all.iter().map(exit).max().unwrap_or(0))
}

fn status_json(status: &RootStatus) -> Value {
    let key = &status.key;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let contents = status.contents.as_ref().map(|contents| {
        json!({
            "bytes": contents.bytes,
            "built": contents.built_ms.and_then(timestamp),
            "files": contents.files,
            "side_files": contents.side_files,
            "directories": contents.dirs,
            "text_bytes": contents.text_bytes,
            "always_searched_files": contents.always_searched,
            "changed_files": contents.changed_files,
            "eligibility_inputs": contents.inputs,
            "enumeration_errors": contents.enumeration_errors,
        })
    });
    json!({
        "root": status.path.to_string_lossy(),
        "dir": status.dir.as_ref().map(|dir| dir.to_string_lossy()),
        "storage": status.storage.as_str(),
        "usable": status.condition.is_usable(),
        "state": status.condition.state(),
        "uncertain_reason": status.condition.reason(),
        "why": status.condition.why(),
        "elsewhere": status.elsewhere.as_ref().map(show::elsewhere_json),
        "contents": contents,
        "key": {
            "hidden": key.hidden,
            "follow": key.follow,
            "no_ignore": key.no_ignore,
            "backend": key.backend_id,
            "unicode_normalization": key.unicode_normalization,
            "casefold_strategy": key.casefold,
            "tokenizer": key.tokenizer_id,
            "max_tokenized_bytes": key.max_tokenized_bytes,
            "denied_patterns": key.deny_patterns,
            "global_excludes": text(&key.global_excludes),
            "schema_version": key.schema_version,
            "implementation_version": key.implementation_version,
        },
    })
}

fn print_status(status: &RootStatus, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", show::path(&status.path))?;
    let mut state = status.condition.state().to_string();
    if let Some(reason) = status.condition.reason() {
        state.push_str(&format!(" ({reason})"));
    }
    row(out, "state", &state)?;
    if let Some(why) = status.condition.why() {
        row(out, "because", &escape_controls(&why))?;
    }
    if let Some(found) = &status.elsewhere {
        row(out, "but", &show::elsewhere(found))?;
    }
    if let Some(contents) = &status.contents {
        print_contents(contents, out)?;
    }
    match &status.dir {
        Some(dir) => row(out, "in", &show::path(dir))?,
        None => row(out, "in", "memory of each process")?,
    }
    let key = &status.key;
    let options = format!(
        "hidden={} follow={} no_ignore={}, engine {}, {}, {} case folding, files up to {}",
        key.hidden,
        key.follow,
        key.no_ignore,
        key.backend_id,
        key.unicode_normalization,
        key.casefold,
        bytes(key.max_tokenized_bytes),
    );
    row(out, "for", &options)
}

fn print_contents(contents: &Contents, out: &mut dyn Write) -> io::Result<()> {
    if let Some(built) = contents.built_ms {
        row(out, "built", &show::time(built))?;
    }
    let mut files = format!(
        "{} in {}",
        things(contents.files + contents.side_files, "file"),
        things(contents.dirs, "directory"),
    );
    let always = contents.always_searched + contents.side_files;
    if always > 0 {
        files.push_str(&format!("; {} always searched", show::count(always)));
    }
    if contents.changed_files > 0 {
        let changed = show::count(contents.changed_files);
        files.push_str(&format!("; {changed} changed since, and searched"));
    }
    row(out, "files", &files)?;
    row(
        out,
        "size",
        &format!(
            "{}, {} of {} of text",
            bytes(contents.bytes),
            share(contents.bytes, contents.text_bytes),
            bytes(contents.text_bytes)
        ),
    )?;
    let inputs = show::count(contents.inputs);
    let inputs = format!("{inputs} places looked at for ignore files, repositories and the like");
    row(out, "inputs", &inputs)
}

/// What is kept, and where.
struct Kept {
    store: Option<Store>,
    listed: Vec<Listed>,
}

impl Kept {
    /// Opens the store of a configuration, whatever index_mode and index_storage say: what is kept is kept.
    fn open(args: &IndexArgs, environment: &Environment) -> Result<Kept, ToolError> {
        let config = load_config(&args.setup, environment)?;
        let root = tree(args, environment)?;
        let unusable = |error: FormatError| failed(error.into());
        let store = environment
            .cache
            .existing_store(&config.search, &root)
            .map_err(unusable)?;
        let listed = match &store {
            Some(store) => store.list().map_err(unusable)?,
            None => Vec::new(),
        };
        Ok(Kept { store, listed })
    }

    /// Leaves what belongs to the tree of the arguments: all that was built of it, with whatever settings.
    fn of_tree(mut self, args: &IndexArgs, environment: &Environment) -> Result<Kept, ToolError> {
        let mut trees = vec![tree(args, environment)?];
        let mut dirs = Vec::new();
        // A tree that is gone has no setup any more, but what was built of it may be there still.
        if let Ok(setup) = prepare(&setup_args(args), environment, None)
            && let Some(indexes) = setup.tool.indexes()
        {
            trees.extend(indexes.roots().map(PathBuf::from));
            // Damaged ones are known by their place only.
            dirs.extend(indexes.dirs());
        }
        self.listed.retain(|listed| {
            dirs.contains(&listed.dir)
                || root_of_listed(listed).is_some_and(|root| trees.contains(&root))
        });
        Ok(self)
    }

    fn select(args: &IndexAllArgs, environment: &Environment) -> Result<Kept, ToolError> {
        let kept = Kept::open(&args.index, environment)?;
        match args.all {
            true => Ok(kept),
            false => kept.of_tree(&args.index, environment),
        }
    }

    /// Iterates over what is kept, with the store that has it.
    fn each(&self) -> impl Iterator<Item = (&Store, &Listed)> {
        let stores = self.store.iter();
        stores.flat_map(|store| self.listed.iter().map(move |listed| (store, listed)))
    }
}

/// Returns the tree that the arguments name, which need not exist.
fn tree(args: &IndexArgs, environment: &Environment) -> Result<PathBuf, ToolError> {
    let named = args.tree.as_ref().or(args.setup.root.as_ref());
    let path = environment.absolute(named.map_or(Path::new("."), PathBuf::as_path))?;
    Ok(path.canonicalize().unwrap_or(path))
}

fn root_of_listed(listed: &Listed) -> Option<PathBuf> {
    root_of(&listed.manifest.as_ref().ok()?.key)
}

/// Returns the tree of an index in words.
fn tree_of(listed: &Listed) -> String {
    root_of_listed(listed).map_or("an unknown tree".to_string(), |root| show::path(&root))
}

/// Returns what is wrong with an index that is kept: `deep`, after reading all of it.
fn problem(store: &Store, listed: &Listed, deep: bool) -> Option<String> {
    if let Err(error) = &listed.manifest {
        return Some(error.clone());
    }
    let checked = store.check(&listed.dir, deep, &mut sleep);
    checked.err().map(|error| error.to_string())
}

fn verify(args: &IndexAllArgs, environment: &Environment) -> Result<u8, Failure> {
    let kept = Kept::select(args, environment)?;
    let mut out = io::stdout().lock();
    let mut reports = Vec::new();
    let mut failed = false;
    for (store, listed) in kept.each() {
        let problem = problem(store, listed, true);
        failed |= problem.is_some();
        let (tree, dir) = (tree_of(listed), show::path(&listed.dir));
        if args.index.json {
            reports.push(json!({
                "root": root_of_listed(listed).map(|root| root.to_string_lossy().into_owned()),
                "dir": listed.dir.to_string_lossy(),
                "ok": problem.is_none(),
                "problem": problem,
            }));
        } else if let Some(problem) = problem {
            let problem = escape_controls(&problem);
            writeln!(out, "damaged  {tree} in {dir}: {problem}")?;
        } else {
            writeln!(out, "ok       {tree} in {dir}, {}", bytes(listed.bytes))?;
        }
    }
    if args.index.json {
        writeln!(out, "{}", json!({"ok": !failed, "indexes": reports}))?;
    }
    if kept.listed.is_empty() && !args.all {
        let tree = tree(&args.index, environment)?;
        let message = format!(
            "{} has no index; `forge-search index build` makes one, `forge-search index list` shows those there are",
            tree.display()
        );
        return Err(ToolError::bad_args(message).into());
    }
    Ok(if failed { FAILED } else { 0 })
}

fn list(args: &IndexArgs, environment: &Environment) -> Result<u8, Failure> {
    let kept = Kept::open(args, environment)?;
    let mut out = io::stdout().lock();
    let mut reports = Vec::new();
    for (store, listed) in kept.each() {
        let problem = problem(store, listed, false);
        let manifest = listed.manifest.as_ref().ok();
        let files = manifest.map(|manifest| {
            let segments = manifest.segments.iter();
            segments.map(|segment| segment.files).sum::<u64>()
        });
        let built = manifest.map(|manifest| manifest.state.updated_ms);
        if args.json {
            reports.push(json!({
                "root": root_of_listed(listed).map(|root| root.to_string_lossy().into_owned()),
                "exists": root_of_listed(listed).map(|root| root.is_dir()),
                "dir": listed.dir.to_string_lossy(),
                "bytes": listed.bytes,
                "files": files,
                "built": built.and_then(timestamp),
                "damaged": problem,
            }));
            continue;
        }
        let gone = match root_of_listed(listed) {
            Some(root) if !root.is_dir() => " (which is gone)",
            _ => "",
        };
        writeln!(out, "{}{gone}", tree_of(listed))?;
        if let Some(problem) = problem {
            row(out.by_ref(), "damaged", &escape_controls(&problem))?;
        }
        if let Some(built) = built {
            row(&mut out, "built", &show::time(built))?;
        }
        if let Some(files) = files {
            row(&mut out, "files", &show::count(files))?;
        }
        row(&mut out, "size", &bytes(listed.bytes))?;
        row(&mut out, "in", &show::path(&listed.dir))?;
    }
    let store = kept.store.as_ref().map(|store| store.root().to_path_buf());
    if args.json {
        let store = store.map(|store| store.to_string_lossy().into_owned());
        writeln!(out, "{}", json!({"store": store, "indexes": reports}))?;
    } else if kept.listed.is_empty() {
        let store = store.map_or(String::new(), |store| format!(" in {}", show::path(&store)));
        writeln!(out, "no indexes are kept{store}")?;
    }
    Ok(0)
}

fn clear(args: &IndexAllArgs, environment: &Environment) -> Result<u8, Failure> {
    let kept = Kept::select(args, environment)?;
    let mut out = io::stdout().lock();
    let mut reports = Vec::new();
    let mut failed = false;
    for (store, listed) in kept.each() {
        let removed = store.remove(&listed.dir, &mut sleep);
        failed |= removed.is_err();
        let (tree, dir) = (tree_of(listed), show::path(&listed.dir));
        if args.index.json {
            reports.push(json!({
                "root": root_of_listed(listed).map(|root| root.to_string_lossy().into_owned()),
                "dir": listed.dir.to_string_lossy(),
                "bytes": listed.bytes,
                "removed": removed.is_ok(),
                "problem": removed.err().map(|error| error.to_string()),
            }));
        } else {
            match removed {
                Ok(()) => writeln!(
                    out,
                    "removed the index of {tree}, {} in {dir}",
                    bytes(listed.bytes)
                )?,
                Err(error) => complain(&format!("the index of {tree} is not removed: {error}")),
            }
        }
    }
    if args.index.json {
        writeln!(out, "{}", json!({"indexes": reports}))?;
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
