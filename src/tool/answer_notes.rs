//! Selects the notes of an answer.
//!
//! This module converts a question and the summary of its answer to [`Note`]s. Their wording is in
//! [`notes`](crate::tool::notes).

use std::time::Duration;

use crate::exec::question::Question;
use crate::exec::question::query::Fuzziness;
use crate::tool::answering::Summary;
use crate::tool::notes::Note;
use crate::tool::searcher::slashed;

/// Returns the notes of an answer.
pub(super) fn notes_of(
    question: &Question,
    summary: &Summary,
    timeout: Option<Duration>,
) -> Vec<Note> {
    let (run, limits) = (&summary.run, &question.limits);
    let mut notes = Vec::new();
    notes.extend(summary.approximate.map(|fuzzy| match fuzzy {
        Fuzziness::Edits(level) => Note::Approximate(level),
        Fuzziness::Score(_) => Note::Similar,
    }));
    let cuts = run.cuts;
    notes.extend(
        cuts.max_results
            .then_some(Note::MaxResults(limits.max_results)),
    );
    notes.extend(cuts.max_files.then_some(Note::MaxFiles(limits.max_files)));
    let per_file = Note::MaxMatchesPerFile(limits.max_matches_per_file);
    notes.extend(cuts.max_matches_per_file.then_some(per_file));
    if let (true, Some(depth)) = (cuts.max_depth, question.files.max_depth) {
        notes.push(Note::MaxDepth(depth as u64));
    }
    if run.totals.files_too_large > 0 {
        notes.push(Note::TooLarge {
            files: run.totals.files_too_large,
            limit: limits.max_file_size,
        });
    }
    let timed_out = summary.timed_out();
    if let (true, Some(timeout)) = (timed_out, timeout) {
        let ms = timeout.as_millis().try_into().unwrap_or(u64::MAX);
        notes.push(Note::Deadline(ms));
    }
    notes.extend(notes_of_globs(question, summary));
    notes
}

/// Returns the notes about globs: those that were replaced, and filters that excluded every file.
pub(super) fn notes_of_globs(question: &Question, summary: &Summary) -> Vec<Note> {
    let repeated = summary.repeated.iter().map(|one| Note::RepeatedPath {
        glob: one.glob.clone(),
        taken_as: one.taken_as.clone(),
    });
    repeated.chain(no_file_passed(question, summary)).collect()
}

/// Returns the note that the path filters excluded every file, if so, with a glob that the caller
/// may have meant.
fn no_file_passed(question: &Question, summary: &Summary) -> Option<Note> {
    let run = &summary.run;
    let is_empty = run.totals.files_scanned == 0 && run.totals.errors == 0 && !run.timed_out;
    if !is_empty || !question.has_filters() {
        return None;
    }
    let files = &question.files;
    let globs: Vec<String> = [&files.include, &files.globs]
        .into_iter()
        .flatten()
        .filter(|glob| !glob.starts_with('!'))
        .cloned()
        .collect();
    let target = summary.targets.first();
    let name = target.and_then(|target| target.canonical.file_name());
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let asked = files.paths.first().map(|path| slashed(path));
    let mut repeated = asked.into_iter().chain(name);
    // A common mistake: a glob that is already relative to the searched path begins with that path.
    let meant = files.globs_from.is_none().then(|| {
        repeated.find_map(|path| {
            let path = path.trim_start_matches("./");
            let of_path = |glob: &String| {
                let rest = glob
                    .trim_start_matches("./")
                    .strip_prefix(path.trim_end_matches('/'))?;
                let rest = rest.strip_prefix('/')?;
                let meant = format!("/{rest}");
                (!rest.is_empty() && meant != *glob).then_some(meant)
            };
            globs.iter().find_map(of_path)
        })
    });
    let types = files.types.iter().filter(|rule| !rule.negated);
    let types = types.map(|rule| format!("type {}", rule.name));
    let quoted = globs.iter().map(|glob| format!("`{glob}`"));
    let mut filters: Vec<String> = quoted.chain(types).collect();
    if filters.is_empty() {
        // Only excluding filters are left, so these excluded every file.
        let ordered = files.globs.iter().map(|glob| format!("`{glob}`"));
        let excluded = files.exclude.iter().map(|glob| format!("`!{glob}`"));
        filters.extend(excluded.chain(ordered));
    }
    Some(Note::NoFilePassed {
        filters,
        meant: meant.flatten(),
    })
}
