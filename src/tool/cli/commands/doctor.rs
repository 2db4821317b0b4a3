//! `forge-search doctor`: reports the settings in effect, their origins, and problems to fix.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::exec::as_text::shown;
use crate::index::deny::DenySet;
use crate::index::rules::{IGNORE_FILE_NAMES, malformed_lines};
use crate::index::state::{IndexState, UncertainReason};
use crate::index::walk::{Entry, Follow, IgnoreRules, TraversalOptions, Walk};
use crate::tool::cli::args::DoctorArgs;
use crate::tool::cli::commands::clients::{self, ClientsReport};
#[cfg(unix)]
use crate::tool::cli::commands::daemon::checkup::{DaemonReport, examine as examine_daemon};
#[cfg(unix)]
use crate::tool::cli::commands::execute::{ExecutorReport, examine as examine_executor};
use crate::tool::cli::setup::{Environment, Setup, prepare};
use crate::tool::cli::{FAILED, Failure};
use crate::tool::config::{IndexStorage, Origin};
use crate::tool::engines::{EngineReport, Engines};
use crate::tool::indexing::{Condition, ProcessIndexStatus};
use crate::tool::render::{escape_controls, escape_json};

/// Maximum number of directories to inspect for ignore files. The report says if there are more.
const DIRECTORY_LIMIT: usize = 50_000;

/// The whole report.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    root: String,
    sandbox_roots: Vec<String>,
    /// The denied patterns for agents.
    denied_patterns: Vec<String>,
    /// The denied patterns that also apply to a person's own search.
    denied_to_people: Vec<String>,
    global_excludes: Option<String>,
    config_file: Option<String>,
    engines: Vec<EngineReport>,
    index: IndexReport,
    #[cfg(unix)]
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<ExecutorReport>,
    #[cfg(unix)]
    #[serde(skip_serializing_if = "Option::is_none")]
    daemon: Option<DaemonReport>,
    clients: ClientsReport,
    config: Vec<Setting>,
    problems: Vec<Problem>,
}

/// The report about indexes.
#[derive(Debug, Default, Serialize)]
struct IndexReport {
    mode: &'static str,
    /// The storage of indexes: `none`, `memory`, `mmap` or `sqlite`.
    storage: &'static str,
    /// The directory of stored indexes, which need not exist.
    directory: Option<String>,
    /// The reason why indexes are not stored there.
    fallback: Option<String>,
    /// The reason why other users may be able to read the indexes, if the configuration allows
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    exposed: Option<String>,
    roots: Vec<IndexRootReport>,
    /// Configured roots that can't be indexed, with reasons.
    rejected: Vec<String>,
}

/// The report about the index of one root.
#[derive(Debug, Serialize)]
struct IndexRootReport {
    root: String,
    state: &'static str,
    uncertain_reason: Option<&'static str>,
    /// The reason why the index is not used.
    why: Option<String>,
    /// The reason why a long-running process could not watch the tree.
    unwatchable: Option<String>,
}

/// A configuration key in effect.
#[derive(Debug, Serialize)]
struct Setting {
    key: String,
    value: String,
    origin: String,
}

/// A problem to fix.
#[derive(Debug, Serialize)]
struct Problem {
    /// The place of the problem.
    place: String,
    /// The problem and its remedy.
    message: String,
}

impl Problem {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            place: place.into(),
            message: message.into(),
        }
    }
}

/// Prints the report. The exit status is 2 if there are problems.
pub(in crate::tool::cli) fn run(
    args: &DoctorArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    let setup = prepare(&args.setup, environment, &[])?;
    let report = examine(args, environment, &setup);
    let mut out = io::stdout().lock();
    if args.json {
        let report = serde_json::to_string_pretty(&report).unwrap_or_default();
        for line in report.lines() {
            writeln!(out, "{}", escape_json(line))?;
        }
    } else {
        print(&report, &mut out)?;
    }
    Ok(if report.problems.is_empty() {
        0
    } else {
        FAILED
    })
}

fn examine(args: &DoctorArgs, environment: &Environment, setup: &Setup) -> Report {
    let sandbox = &setup.context.sandbox;
    let mut problems = ignore_problems(setup);
    if setup.tool.engines().chain().is_empty() {
        problems.push(Problem::new(
            "engines",
            "no engine can be used with this configuration; install one of the above, or set \
             backend = \"embedded\" in [tools.search]",
        ));
    }
    if !setup.config.search.enabled {
        problems.push(Problem::new(
            "configuration",
            "the tool is disabled; set enabled = true in [tools.search]",
        ));
    }
    let index = index_report(environment, setup, &mut problems);
    #[cfg(unix)]
    let executor = examine_executor(&setup.config).map(|(report, messages)| {
        let found = messages.into_iter();
        problems.extend(found.map(|message| Problem::new("executor", message)));
        report
    });
    #[cfg(unix)]
    let daemon = examine_daemon(&setup.root, &args.setup, environment).map(|(report, messages)| {
        let found = messages.into_iter();
        problems.extend(found.map(|message| Problem::new("daemon", message)));
        report
    });
    let show = |path: &Path| shown(path).into_owned();
    Report {
        version: env!("CARGO_PKG_VERSION"),
        root: show(&setup.root),
        sandbox_roots: sandbox.reach().roots().into_iter().map(show).collect(),
        denied_patterns: sandbox.reach().deny().patterns().to_vec(),
        denied_to_people: setup.people.reach().deny().patterns().to_vec(),
        global_excludes: setup.context.global_excludes.as_deref().map(show),
        config_file: args
            .setup
            .config
            .as_deref()
            .map(Path::to_path_buf)
            .or_else(|| environment.config_file())
            .as_deref()
            .map(show),
        engines: survey(environment, setup),
        index,
        #[cfg(unix)]
        executor,
        #[cfg(unix)]
        daemon,
        clients: clients::examine(&setup.root, environment),
        config: setup
            .config
            .entries()
            .iter()
            .map(|entry| Setting {
                key: entry.key.full.to_string(),
                value: entry.value.to_string(),
                origin: entry.origin.to_string(),
            })
            .collect(),
        problems,
    }
}

/// Inspects the indexes. With `index_mode = "off"`, inspects nothing.
fn index_report(
    environment: &Environment,
    setup: &Setup,
    problems: &mut Vec<Problem>,
) -> IndexReport {
    let search = &setup.config.search;
    let mut report = IndexReport {
        mode: search.index_mode.as_str(),
        storage: "none",
        ..IndexReport::default()
    };
    let Some(indexes) = setup.tool.indexes() else {
        return report;
    };
    if search.index_storage != IndexStorage::Memory {
        let directory = environment.cache.cache_root(search, &setup.root);
        report.directory = directory.map(|directory| shown(&directory).into_owned());
    }
    report.storage = indexes.storage().as_str();
    report.fallback = indexes.fallback().map(|fallback| fallback.message.clone());
    report.exposed = indexes.exposed();
    report.rejected = indexes.rejected().to_vec();
    let unwritable = indexes.unwritable();
    let messages = report.fallback.iter().chain(&report.rejected);
    let messages = messages.chain(&unwritable);
    problems.extend(messages.map(|message| Problem::new("index", message)));
    for root in indexes.roots() {
        let Some(condition) = indexes.condition(root, setup.context.sandbox.reach()) else {
            continue;
        };
        let unwatchable = search
            .index_watch
            .then(|| indexes.unwatchable(root))
            .flatten();
        let living = indexes.living(root).unwrap_or_default();
        let root = shown(root).into_owned();
        problems.extend(unwatched(&living).map(|message| Problem::new(&root, message)));
        // Only Linux can watch a tree exactly. Elsewhere there is nothing to fix.
        if let Some(message) = unwatchable.as_ref().filter(|_| cfg!(target_os = "linux")) {
            problems.push(Problem::new(&root, message));
        }
        if let Condition::Damaged(_)
        | Condition::Unavailable(_)
        | Condition::Untracked
        | Condition::Untimed(_) = &condition
        {
            problems.push(Problem::new(&root, condition.why().unwrap_or_default()));
        }
        let index_state = condition.index_state();
        report.roots.push(IndexRootReport {
            root,
            state: index_state.state().as_str(),
            uncertain_reason: index_state.reason(),
            why: condition.why(),
            unwatchable,
        });
    }
    report
}

/// Returns messages about processes that could not watch the tree. The system's limit may be
/// reached only after the first directories.
fn unwatched(living: &[ProcessIndexStatus]) -> impl Iterator<Item = String> {
    let down = IndexState::Uncertain(UncertainReason::WatcherDown);
    let down = living
        .iter()
        .filter(move |living| living.index_state == down);
    down.filter_map(|living| {
        let why = living.why.as_deref()?;
        Some(format!(
            "process {} does not watch the tree, but compares it in each search: {why}",
            living.process
        ))
    })
}

/// Inspects every engine, including those that the configuration does not use.
fn survey(environment: &Environment, setup: &Setup) -> Vec<EngineReport> {
    let place = environment.programs(&setup.root);
    Engines::survey(&setup.config.search, place, &setup.context.clock).1
}

/// Finds invalid lines in the ignore files of the tree.
fn ignore_problems(setup: &Setup) -> Vec<Problem> {
    let mut problems = Vec::new();
    let Some((root, real)) = setup.context.sandbox.reach().locate(&setup.root) else {
        return problems;
    };
    let sandbox = setup.context.sandbox.clone();
    let deny: Arc<DenySet> = sandbox.reach().deny().clone();
    let walk = Walk::new(
        root,
        real,
        TraversalOptions {
            hidden: true,
            follow: Follow::Never,
            rules: IgnoreRules::All,
            recursive: true,
        },
        deny,
        Arc::new(move |path: &Path| sandbox.reach().locate(path)),
        setup.context.global_excludes.as_deref(),
    );
    let interesting = |path: &Path, is_dir: bool| {
        let name = path.file_name().unwrap_or_default();
        if is_dir {
            name != ".git"
        } else {
            IGNORE_FILE_NAMES.iter().any(|known| name == *known)
        }
    };
    let mut todo = vec![walk.start()];
    let mut directories = 0;
    while let Some(node) = todo.pop() {
        directories += 1;
        if directories > DIRECTORY_LIMIT {
            problems.push(Problem::new(
                shown(&setup.root),
                format!(
                    "only the first {DIRECTORY_LIMIT} directories were checked for ignore files; \
                     give --root to check another part"
                ),
            ));
            break;
        }
        for entry in walk.list(&node, &interesting) {
            match entry {
                Entry::Dir(node) => todo.push(node),
                Entry::Error(path, message) => {
                    problems.push(Problem::new(shown(&path), message));
                }
                Entry::File(file, _) => {
                    let path = file.absolute();
                    for (line, message) in malformed_lines(&path) {
                        problems.push(Problem::new(format!("{}:{line}", shown(&path)), message));
                    }
                }
            }
        }
    }
    problems
}

fn print_index(index: &IndexReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nindex")?;
    writeln!(out, "  mode              {}", index.mode)?;
    writeln!(out, "  storage           {}", index.storage)?;
    if let Some(directory) = &index.directory {
        writeln!(out, "  directory         {}", escape_controls(directory))?;
    }
    if let Some(fallback) = &index.fallback {
        writeln!(out, "  not kept          {}", escape_controls(fallback))?;
    }
    if let Some(exposed) = &index.exposed {
        writeln!(out, "  exposed           {}", escape_controls(exposed))?;
    }
    for root in &index.roots {
        let state = match root.uncertain_reason {
            Some(reason) => format!("{} ({reason})", root.state),
            None => root.state.to_string(),
        };
        writeln!(
            out,
            "  root              {}  {state}",
            escape_controls(&root.root)
        )?;
        if let Some(why) = &root.why {
            writeln!(out, "                    {}", escape_controls(why))?;
        }
    }
    for rejected in &index.rejected {
        writeln!(out, "  not indexed       {}", escape_controls(rejected))?;
    }
    Ok(())
}

fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "forge-search {}", report.version)?;
    writeln!(out, "\nsandbox")?;
    writeln!(out, "  root              {}", escape_controls(&report.root))?;
    for root in &report.sandbox_roots {
        writeln!(out, "  allowed           {}", escape_controls(root))?;
    }
    let mut denied = |whom: &str, patterns: &[String]| {
        let patterns = match patterns {
            [] => "nothing".to_string(),
            patterns => patterns.join("  "),
        };
        writeln!(out, "  denied {whom:<10} {}", escape_controls(&patterns))
    };
    denied("to agents", &report.denied_patterns)?;
    denied("to you", &report.denied_to_people)?;
    writeln!(
        out,
        "  global excludes   {}",
        or_none(&report.global_excludes)
    )?;

    print_engines(&report.engines, out)?;
    print_index(&report.index, out)?;
    #[cfg(unix)]
    if let Some(daemon) = &report.daemon {
        daemon.print(out)?;
    }
    #[cfg(unix)]
    if let Some(executor) = &report.executor {
        executor.print(out)?;
    }
    report.clients.print(out)?;

    print_config(report, out)?;

    if report.problems.is_empty() {
        return writeln!(out, "\nnothing needs doing");
    }
    writeln!(out, "\nto do")?;
    for problem in &report.problems {
        writeln!(
            out,
            "  {}: {}",
            escape_controls(&problem.place),
            escape_controls(&problem.message)
        )?;
    }
    Ok(())
}

fn print_engines(engines: &[EngineReport], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nengines")?;
    for engine in engines {
        let mark = if engine.used { "used" } else { "not used" };
        let id = engine.id.as_deref().unwrap_or("-");
        write!(out, "  {:<9} {mark:<9} {id}", engine.name)?;
        if let Some(path) = &engine.path {
            write!(out, "  {}", escape_controls(path))?;
        }
        match &engine.reason {
            Some(reason) => writeln!(out, "  ({})", escape_controls(reason))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn print_config(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\nconfiguration (file: {})",
        or_none(&report.config_file)
    )?;
    let width = report
        .config
        .iter()
        .map(|setting| setting.key.len())
        .max()
        .unwrap_or(0);
    let default = Origin::Default.to_string();
    for setting in &report.config {
        let origin = if setting.origin == default {
            String::new()
        } else {
            format!("  (from {})", escape_controls(&setting.origin))
        };
        let value = escape_controls(&setting.value);
        writeln!(out, "  {:<width$} = {value}{origin}", setting.key)?;
    }
    Ok(())
}

/// Returns a path as it is printed.
fn or_none(path: &Option<String>) -> String {
    match path {
        Some(path) => escape_controls(path).into_owned(),
        None => "none".to_string(),
    }
}
