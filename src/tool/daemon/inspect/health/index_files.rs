//! Checks of an index on disk: the last build, the manifest and the segments. Also the word table.

use sha2::{Digest, Sha256};

use super::super::LiveIndexState;
use super::{fail, ok, warn};
use crate::exec::rank::WordTable;
use crate::tool::daemon::identity::hex;
use crate::tool::daemon::report::{Check, Severity};

/// Returns whether the last attempt to build or merge the index failed.
pub(super) fn failed(in_use: &LiveIndexState<'_>) -> bool {
    let works = in_use.report.works;
    let all = [works.build, works.merge].into_iter().flatten();
    all.max_by_key(|done| done.ended_ns)
        .is_some_and(|done| !done.succeeded)
}

/// Checks the bytes of the word table, which is part of the program.
pub(super) fn word_table() -> Check {
    let digest = hex(&Sha256::digest(WordTable::bytes()));
    match digest == WordTable::SHA256 {
        true => ok("word_table", format!("the word table is sound: {digest}")),
        false => fail(
            "word_table",
            "the word table in the program is damaged, and questions count words alone; install \
             the program again",
        ),
    }
}

pub(super) fn manifest(in_use: &LiveIndexState<'_>) -> Check {
    let code = "manifest_present";
    let why = in_use.report.why.clone();
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    let stored = in_use
        .indexes
        .store()
        .zip(in_use.indexes.dirs().next())
        .map(|(store, dir)| store.look_at(&dir));
    let found = match (&in_use.snapshot, stored) {
        (None, _) => ok(code, format!("there is no index{why}")),
        (Some(_), None) => ok(code, "the index is in memory, with its catalog"),
        (Some(snapshot), Some(stored)) => match stored.manifest {
            Ok(manifest) => ok(
                code,
                format!(
                    "files in manifest {}: {}",
                    manifest.state.sequence, manifest.segment.files
                ),
            ),
            // The index was built while another process was writing, so it is stored later.
            Err(_) if snapshot.generation().is_none() => {
                ok(code, "the index is in memory until it can be stored")
            }
            Err(error) => fail(
                code,
                format!(
                    "the manifest can't be read: {error}; searches use the open index until it is \
                     built again"
                ),
            ),
        },
    };
    match failed(in_use) && found.severity == Severity::Ok {
        true => warn(
            code,
            format!(
                "{}; the last build failed{}, and will be retried",
                found.message,
                if in_use.snapshot.is_some() {
                    why.as_str()
                } else {
                    ""
                }
            ),
        ),
        false => found,
    }
}

pub(super) fn segments(in_use: &LiveIndexState<'_>) -> Check {
    let code = "segments_present";
    let Some(snapshot) = in_use.snapshot.as_deref() else {
        return ok(code, "there is no index, so no segment is missing");
    };
    if let Err(error) = snapshot.segment().verify() {
        return fail(code, format!("the segment in use is damaged: {error}"));
    }
    let kept = in_use.indexes.store().zip(in_use.indexes.dirs().next());
    let kept = kept.filter(|_| snapshot.generation().is_some());
    match kept.map(|(store, dir)| store.check(&dir, true, &mut std::thread::sleep)) {
        Some(Err(error)) if error.is_locked() => warn(
            code,
            "the segment in use is sound; the stored index is being written at the moment",
        ),
        Some(Err(error)) => fail(code, format!("the stored index is damaged: {error}")),
        Some(Ok(())) => ok(code, "all pages of all segments match their checksums"),
        None => ok(
            code,
            "all pages of the segment in memory match their checksums",
        ),
    }
}
