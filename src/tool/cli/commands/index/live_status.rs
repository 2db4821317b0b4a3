//! Live indexes of other processes, as text and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::row;
use crate::index::builder::Phase;
use crate::tool::cli::output::show::{count, count_noun, seconds, time, timestamp};
use crate::tool::indexing::{BuildReport, ProcessIndexStatus};
use crate::tool::render::escape_controls;

/// Describes a live index as JSON. `index` is the directory name of the index for the settings in
/// effect.
pub(super) fn living_json(living: &ProcessIndexStatus, index: &str) -> Value {
    json!({
        "process": living.process,
        "state": living.index_state.state().as_str(),
        "uncertain_reason": living.index_state.reason(),
        "why": living.why,
        "tracking": living.tracking,
        "changes_waiting": living.waiting,
        "files_beside": living.extra_files,
        "generation": living.generation,
        "coverage_epoch": living.epoch,
        "same_settings": living.index == index,
        "build": living.build.as_ref().map(build_json),
        "noted": timestamp(living.noted_ms),
    })
}

/// Describes a build as JSON, with the field names of `stats`.
fn build_json(build: &BuildReport) -> Value {
    json!({
        "build_phase": phase(build),
        "build_files_total": build.files_total,
        "build_files_done": build.files_done,
        "build_elapsed_ms": build.elapsed_ms,
    })
}

fn phase(build: &BuildReport) -> &'static str {
    build.phase.unwrap_or(Phase::Enumerate).as_str()
}

/// Prints a live index as text.
pub(super) fn print_living(
    living: &ProcessIndexStatus,
    index: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut state = living.index_state.state().as_str().to_string();
    if let Some(reason) = living.index_state.reason() {
        state.push_str(&format!(" ({reason})"));
    }
    let settings = match living.index == index {
        true => "",
        false => ", with other settings",
    };
    let heading = format!(
        "in process {}{settings}: {state}, as of {}",
        living.process,
        time(living.noted_ms)
    );
    row(out, "lives", &heading)?;
    if let Some(why) = &living.why {
        row(out, "", &format!("because {}", escape_controls(why)))?;
    }
    if let Some(build) = &living.build {
        let far = match build.files_total {
            0 => String::new(),
            total => format!(
                ", {} of {}",
                count(build.files_done),
                count_noun(total, "file")
            ),
        };
        let after = seconds(Duration::from_millis(build.elapsed_ms));
        row(out, "", &format!("{}{far}, after {after}", phase(build)))?;
    }
    let watched = match living.tracking {
        true => "the tree is watched",
        false => "the tree is not watched",
    };
    let mut facts = format!(
        "{watched}; {} pending",
        count_noun(living.waiting, "change")
    );
    match living.generation {
        Some(generation) => facts.push_str(&format!(
            "; {} besides generation {generation}",
            count_noun(living.extra_files, "file")
        )),
        None => facts.push_str(&format!(
            "; {} besides the segment",
            count_noun(living.extra_files, "file")
        )),
    }
    row(out, "", &facts)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::index::state::IndexState;

    fn living(index_state: IndexState) -> ProcessIndexStatus {
        ProcessIndexStatus {
            process: 4321,
            root: PathBuf::from("/tree"),
            index: "0f".to_string(),
            index_state,
            why: Some("a\u{1b}[31m reason".to_string()),
            tracking: false,
            waiting: 1_234,
            extra_files: 2,
            generation: Some(7),
            epoch: 3,
            build: None,
            noted_ms: 0,
        }
    }

    fn printed(living: &ProcessIndexStatus, index: &str) -> String {
        let mut out = Vec::new();
        print_living(living, index, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_see_every_state_and_every_reason() {
        for index_state in IndexState::all() {
            let text = printed(&living(index_state), "0f");
            let state = index_state.state().as_str();
            let shown = match index_state.reason() {
                Some(reason) => format!("in process 4321: {state} ({reason}), as of 1970-01-01"),
                None => format!("in process 4321: {state}, as of 1970-01-01"),
            };
            assert!(text.contains(&shown), "{text}");
            let json = living_json(&living(index_state), "0f");
            assert_eq!(json["state"], state);
            assert_eq!(json["uncertain_reason"].as_str(), index_state.reason());
        }
    }

    #[test]
    fn people_see_what_waits_and_how_far_a_build_is() {
        let mut one = living(IndexState::Building);
        let text = printed(&one, "0f");
        assert!(text.contains("not watched; 1,234 changes pending; 2 files besides generation 7"));
        assert!(
            !text.contains('\u{1b}') && text.contains("because a"),
            "{text}"
        );
        assert!(!text.contains("settings") && !text.contains("ENUMERATE"));
        let build = BuildReport {
            phase: None,
            files_total: 0,
            files_done: 0,
            elapsed_ms: 250,
            ended: false,
        };
        one.build = Some(build);
        one.generation = None;
        let text = printed(&one, "00");
        assert!(text.contains("in process 4321, with other settings: BUILDING"));
        assert!(text.contains("ENUMERATE, after 0.2 s"), "{text}");
        assert!(text.contains("; 2 files besides the segment\n"), "{text}");
        one.build = Some(BuildReport {
            phase: Some(Phase::Tokenize),
            files_total: 78_495,
            files_done: 1_024,
            ..build
        });
        assert!(printed(&one, "0f").contains("TOKENIZE, 1,024 of 78,495 files, after"));
        let json = living_json(&one, "00");
        assert_eq!(json["same_settings"], false);
        assert_eq!(json["build"]["build_phase"], "TOKENIZE");
        assert_eq!(json["build"]["build_files_total"], 78_495);
        assert_eq!(json["build"]["build_files_done"], 1_024);
        assert_eq!(json["build"]["build_elapsed_ms"], 250);
        assert_eq!(json["noted"], "1970-01-01T00:00:00.000Z");
        assert_eq!(json["changes_waiting"], 1_234);
    }
}
