//! `forge-search index`: commands that build, inspect and remove indexes.

mod live_status;
mod stored;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::live_status::{living_json, print_living};
use crate::exec::as_text::shown;
use crate::format::error::FormatError;
use crate::format::segment::{FileRecord, StampRecord};
use crate::index::builder::BuiltSegment;
use crate::index::key::hash_of;
use crate::index::pace::millis;
use crate::index::snapshot::Snapshot;
use crate::index::store::{Evicted, NotEvicted};
use crate::index::token::TokenStatus;
use crate::index::walk::IgnoreRules;
use crate::tool::cli::answers::building::{failed, refuse_wide, report_eviction, roots, with_host};
use crate::tool::cli::args::{IndexArgs, IndexCommand, SetupArgs};
use crate::tool::cli::output::show::{self, bytes, count_noun, seconds, share, timestamp};
use crate::tool::cli::setup::{Environment, Setup, load_config, prepare};
use crate::tool::cli::{FAILED, Failure, complain};
use crate::tool::config::Config;
use crate::tool::error::ToolError;
use crate::tool::indexing::{
    Condition, Contents, Indexes, OUT_OF_RANGE, ProcessIndexStatus, RootStatus,
};
use crate::tool::render::escape_controls;

/// Exit status of `status` unless the index matches the tree.
const NO_MATCHING_INDEX: u8 = 1;

/// Maximum number of unreadable paths in the messages of a build.
const SHOWN_PATHS: usize = 20;

/// Runs one of the `index` commands.
pub(in crate::tool::cli) fn run(
    command: &IndexCommand,
    environment: &Environment,
) -> Result<u8, Failure> {
    match command {
        IndexCommand::Build(args) => build(args, environment),
        IndexCommand::Status(args) => status(args, environment),
        IndexCommand::Verify(args) => stored::verify(args, environment),
        IndexCommand::List(args) => stored::list(args, environment),
        IndexCommand::Clear(args) => stored::clear(args, environment),
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

/// The result of building one root.
struct BuiltRoot {
    root: PathBuf,
    dir: Option<PathBuf>,
    built: BuiltSegment,
    bytes: u64,
    unread: Vec<(PathBuf, NotIndexedReason)>,
    time: Duration,
}

/// How long a user's build waits for another process that builds: one day, in milliseconds.
const UNHURRIED_MS: u64 = 86_400_000;

/// Returns the setup of a build that a user starts. Unless `index_lock_timeout_ms` is configured,
/// such a build waits for other builds to end, with a message.
fn patient(mut args: SetupArgs, environment: &Environment) -> Result<SetupArgs, ToolError> {
    let configured = load_config(&args, environment)?
        .search
        .index_lock_timeout_ms;
    if configured == Config::library_default().search.index_lock_timeout_ms {
        args.set
            .push(format!("index_lock_timeout_ms={UNHURRIED_MS}"));
    }
    Ok(args)
}

fn build(args: &IndexArgs, environment: &Environment) -> Result<u8, Failure> {
    let setup = prepare(&patient(setup_args(args), environment)?, environment, &[])?;
    let indexes = setup.tool.indexes().ok_or_else(is_off)?;
    let roots = roots(indexes)?;
    for root in &roots {
        refuse_wide(&setup, environment, root)?;
    }
    indexes.make_place();
    if let Some(why) = indexes.unkept() {
        let message = format!(
            "the index would not outlive this command, so it is not built: {why}. A search with \
             --index on builds its own in memory"
        );
        return Err(ToolError::bad_args(message).into());
    }
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
        show::print_json(&report, &mut out)?;
    } else {
        all.iter().try_for_each(|one| one.print(&mut out))?;
    }
    out.flush()?;
    drop(out);
    all.iter().for_each(BuiltRoot::report);
    // A listing error makes the index unusable.
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
        indexes.build(&root, setup.context.sandbox.reach(), host)
    })
    .map_err(failed)?;
    let time = clock.now().saturating_duration_since(started);
    let dir = indexes.store().map(|store| store.dir_of(snapshot.key()));
    let stored = indexes.store().zip(dir.as_deref());
    Ok(BuiltRoot {
        bytes: stored.map_or(0, |(store, dir)| store.look_at(dir).bytes),
        unread: unread(&snapshot).map_err(|error| failed(error.into()))?,
        root,
        dir,
        built,
        time,
    })
}

/// The reason why a listed file is not indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotIndexedReason {
    /// The system refused.
    Refused,
    /// The file changed while it was read.
    Changing,
    /// Its timestamps are out of the index's range.
    Untimed,
}

impl NotIndexedReason {
    /// All reasons, in the order of the output.
    const ALL: [NotIndexedReason; 3] = [
        NotIndexedReason::Refused,
        NotIndexedReason::Changing,
        NotIndexedReason::Untimed,
    ];

    fn of(file: &FileRecord) -> Option<NotIndexedReason> {
        const REFUSED: u8 = TokenStatus::Unreadable as u8;
        const ERROR: u8 = TokenStatus::Error as u8;
        match file.status {
            REFUSED => Some(NotIndexedReason::Refused),
            ERROR if file.stamp == StampRecord::default() => Some(NotIndexedReason::Untimed),
            ERROR => Some(NotIndexedReason::Changing),
            _ => None,
        }
    }

    /// Describes several files with this reason.
    fn of_files(self) -> &'static str {
        match self {
            NotIndexedReason::Refused => "unreadable",
            NotIndexedReason::Changing => "changing while they were read",
            NotIndexedReason::Untimed => "with a time of last change that is out of range",
        }
    }

    /// Describes one file with this reason.
    fn of_file(self) -> String {
        match self {
            NotIndexedReason::Refused => "could not be read; it is always searched".to_string(),
            NotIndexedReason::Changing => {
                "changed while it was read, or did not fit into memory; it is always searched"
                    .to_string()
            }
            NotIndexedReason::Untimed => format!(
                "was last changed {OUT_OF_RANGE}; it is always searched, until you `touch` it and build the index again"
            ),
        }
    }
}

/// Returns the files that were listed but not indexed.
fn unread(snapshot: &Snapshot) -> Result<Vec<(PathBuf, NotIndexedReason)>, FormatError> {
    let segment = snapshot.segment();
    let mut found = Vec::new();
    for rank in 0..segment.file_count() {
        let file = segment.file(rank)?;
        if let Some(why) = NotIndexedReason::of(&file) {
            let path = segment.dir_path(file.dir)?.join(segment.name(file.name)?);
            found.push((path, why));
        }
    }
    Ok(found)
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
            .map(|(path, error)| json!({"path": shown(path), "error": error}))
            .collect();
        let lossy = |path: &PathBuf| shown(path).into_owned();
        let unread = |why: NotIndexedReason| -> Vec<String> {
            let unread = self.unread.iter().filter(|(_, is)| *is == why);
            unread.map(|(path, _)| lossy(path)).collect()
        };
        let eviction = &built.eviction;
        let removed = |all: &[Evicted]| -> Vec<Value> {
            let fields = all.iter().map(|one| {
                json!({
                    "root": one.root.as_ref().map(lossy),
                    "dir": lossy(&one.dir),
                    "bytes": one.bytes,
                    "accessed": one.accessed_ms.and_then(timestamp),
                })
            });
            fields.collect()
        };
        let spared = |all: &[NotEvicted]| -> Vec<Value> {
            let fields = all.iter().map(|one| {
                json!({
                    "root": one.root.as_ref().map(lossy),
                    "dir": lossy(&one.dir),
                    "problem": one.problem,
                })
            });
            fields.collect()
        };
        json!({
            "root": shown(&self.root),
            "dir": self.dir.as_ref().map(lossy),
            "files": self.files(),
            "directories": built.meta.dirs,
            "by_status": by_status,
            "side_files": built.meta.side,
            "excludable_files": built.excludable,
            "unsettled_files": built.unsettled,
            "text_bytes": built.meta.text_bytes,
            "index_bytes": self.bytes,
            "elapsed_ms": millis(self.time),
            "errors": errors,
            "evicted": removed(&eviction.evicted),
            "not_evicted": spared(&eviction.spared),
            "over_limits": eviction.over_limits,
            "purged": removed(&eviction.purged),
            "not_purged": spared(&eviction.unpurged),
            "unreadable": unread(NotIndexedReason::Refused),
            "changing": unread(NotIndexedReason::Changing),
            "time_out_of_range": unread(NotIndexedReason::Untimed),
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
            (TokenStatus::Withheld, "withheld (keys and certificates)"),
        ] {
            let files = built.by_status[status as usize];
            if files > 0 {
                always.push(format!("{} {what}", show::count(files)));
            }
        }
        // Files with fewer than three characters have no n-grams. Normalization would change the
        // n-grams of others.
        let other = full.saturating_sub(built.excludable);
        if other > 0 {
            let what = "short, not normalized, with too many n-grams or just changed";
            always.push(format!("{} {what}", show::count(other)));
        }
        for why in NotIndexedReason::ALL {
            let files = self.unread.iter().filter(|(_, is)| *is == why).count();
            if files > 0 {
                always.push(format!("{} {}", show::count(files as u64), why.of_files()));
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
            &format!("{} indexed{always}", show::count(built.excludable)),
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

    /// Prints to standard error which paths could not be read.
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
                    count_noun(more as u64, "other")
                ));
            }
        };
        let unread = self.unread.iter();
        some(
            unread
                .map(|(path, why)| format!("{}: {}", show::path(path), why.of_file()))
                .collect(),
        );
        report_eviction(&self.built.eviction);
        let errors = self.built.errors.iter();
        some(
            errors
                .map(|(path, error)| format!("{}: {error}", show::path(path)))
                .collect(),
        );
        if !self.built.errors.is_empty() {
            complain(
                "these paths may hide files, so no search skips files by this index: make them \
                 readable, or deny them in [tools.sandbox], and build the index again",
            );
        }
    }
}

fn row(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(out, "  {name:<9}{text}")
}

fn status(args: &IndexArgs, environment: &Environment) -> Result<u8, Failure> {
    let setup = prepare(&setup_args(args), environment, &[])?;
    let mut out = io::stdout().lock();
    let Some(indexes) = setup.tool.indexes() else {
        if args.json {
            show::print_json(&json!({"mode": "off", "indexes": []}), &mut out)?;
        } else {
            writeln!(out, "DISABLED: {}", is_off().message())?;
        }
        return Ok(NO_MATCHING_INDEX);
    };
    roots(indexes)?;
    let all = indexes.status(setup.context.sandbox.reach());
    if args.json {
        let statuses: Vec<Value> = all.iter().map(status_json).collect();
        let report = json!({
            "mode": setup.config.search.index_mode.as_str(),
            "indexes": statuses,
            "fallback": indexes.fallback().map(|fallback| json!({
                "code": fallback.code, "message": fallback.message,
            })),
            "rejected": indexes.rejected(),
        });
        show::print_json(&report, &mut out)?;
    } else {
        for status in &all {
            print_status(status, &mut out)?;
        }
    }
    drop(out);
    if let Some(fallback) = indexes.fallback() {
        complain(&format!("indexes are not kept: {}", fallback.message));
    }
    let exit = |status: &RootStatus| match status.condition {
        Condition::Usable => 0,
        Condition::Absent
        | Condition::NoRoot(_)
        | Condition::NotUsed { .. }
        | Condition::Unkept(_)
        | Condition::Stale { .. }
        | Condition::Untracked
        | Condition::Untimed(_) => NO_MATCHING_INDEX,
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
    let index = hash_of(key);
    let living = status.living.iter();
    let living: Vec<Value> = living.map(|living| living_json(living, &index)).collect();
    json!({
        "root": shown(&status.path),
        "dir": status.dir.as_ref().map(|dir| shown(dir)),
        "storage": status.storage.as_str(),
        "usable": status.condition.is_usable(),
        "state": status.condition.index_state().state().as_str(),
        "uncertain_reason": status.condition.index_state().reason(),
        "why": status.condition.why(),
        "elsewhere": status.other_root_index.as_ref().map(show::elsewhere_json),
        "contents": contents,
        "living": living,
        "key": {
            "hidden": key.hidden,
            "follow": key.follow,
            "no_ignore": key.rules == IgnoreRules::None,
            "ignore_rules": key.rules.as_str(),
            "backend": key.backend_id,
            "unicode_normalization": key.unicode_normalization,
            "casefold_strategy": key.casefold,
            "tokenizer": key.tokenizer_id,
            "max_tokenized_bytes": key.max_tokenized_bytes,
            "denied_patterns": key.deny_patterns,
            "global_excludes": text(&key.global_excludes),
            "access": key.access,
            "schema_version": key.schema_version,
            "implementation_version": key.implementation_version,
        },
    })
}

fn print_status(status: &RootStatus, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", show::path(&status.path))?;
    let index = hash_of(&status.key);
    let index_state = status.condition.index_state();
    let mut state = index_state.state().as_str().to_string();
    if let Some(reason) = index_state.reason() {
        state.push_str(&format!(" ({reason})"));
    }
    row(out, "state", &state)?;
    if let Some(why) = status.condition.why() {
        row(out, "because", &escape_controls(&why))?;
        let knows =
            |one: &&ProcessIndexStatus| one.index_state.allows_exclusion() && one.index == index;
        if let (Condition::Stale { .. }, Some(one)) =
            (&status.condition, status.living.iter().find(knows))
        {
            let process = one.process;
            row(
                out,
                "",
                &format!("process {process} is not affected: it knows all changes"),
            )?;
        }
    }
    if let Some(found) = &status.other_root_index {
        row(out, "but", &show::other_root_text(found))?;
    }
    if let Some(contents) = &status.contents {
        print_contents(contents, out)?;
    }
    let mut living = status.living.iter();
    living.try_for_each(|living| print_living(living, &index, out))?;
    match &status.dir {
        Some(dir) => row(out, "in", &show::path(dir))?,
        None => row(out, "in", "the memory of each process")?,
    }
    let key = &status.key;
    let options = format!(
        "hidden={} follow={} ignored={}, {} ignore files, engine {}, {}, {} case folding, files up to {}",
        key.hidden,
        key.follow,
        key.rules == IgnoreRules::None,
        key.rules.as_str(),
        key.backend_id,
        key.unicode_normalization,
        key.casefold,
        bytes(key.max_tokenized_bytes),
    );
    row(out, "for", &options)?;
    row(out, "rights", &escape_controls(&key.access))
}

fn print_contents(contents: &Contents, out: &mut dyn Write) -> io::Result<()> {
    if let Some(built) = contents.built_ms {
        row(out, "built", &show::time(built))?;
    }
    let mut files = format!(
        "{} in {}",
        count_noun(contents.files + contents.side_files, "file"),
        count_noun(contents.dirs, "directory"),
    );
    let always = contents.always_searched + contents.side_files;
    if always > 0 {
        files.push_str(&format!("; {} always searched", show::count(always)));
    }
    if contents.changed_files > 0 {
        let changed = show::count(contents.changed_files);
        files.push_str(&format!(
            "; {changed} changed since the build, and searched"
        ));
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
    let inputs = format!("{inputs} ignore files, repositories and similar inputs");
    row(out, "inputs", &inputs)
}
