//! The notes about a ranked answer: limits that shortened it, and files that are missing from it.

use super::super::limits::{LimitHit, Remarks, Warning};
use crate::exec::as_text::files_or_directories;
use crate::exec::rank::Terms;
use crate::exec::retrieve::Retrieved;
use crate::tool::config::DaemonConfig;
use crate::tool::notes::{Note, Reader};
use crate::tool::render::escape_name;

/// Returns the remarks about a query and the daemon. Without `terms`, the client did not choose the
/// terms of the query.
pub(super) fn of_query(terms: Option<&Terms>, is_stale: bool) -> Remarks {
    let mut remarks = Remarks::default();
    if let Some(terms) = terms.filter(|terms| terms.left_out() > 0) {
        let all = (terms.words().len() + terms.left_out()) as u64;
        remarks.limit(
            "max_query_terms",
            terms.words().len() as u64,
            Some(all),
            None,
        );
    }

    if is_stale {
        let message = "the configuration has changed since the daemon started; ask again to \
             start another daemon";
        remarks.warn("stale_config", message, None);
    }
    remarks
}

/// Adds the remarks about the files that were found.
pub(super) fn of_files(
    remarks: &mut Remarks,
    retrieved: &Retrieved,
    caps: &DaemonConfig,
    max_file_size: u64,
) {
    let kept = retrieved.candidates.len() as u64;
    if retrieved.corpus.found > kept {
        let found = Some(retrieved.corpus.found);
        remarks.limit("max_candidates", caps.max_candidates, found, None);
    }
    for name in &retrieved.changed.names {
        warn_changed(remarks, name);
    }
    let named = retrieved.changed.names.len() as u64;
    if retrieved.changed.count > named {
        let count = retrieved.changed.count;
        let files = match count {
            1 => "1 file has changed since the snapshot and is".to_string(),
            count => format!("{count} files have changed since the snapshot and are"),
        };
        let message = format!("{files} missing from the answer; ask again");
        remarks.warn("changed_since_snapshot", message, None);
    }
    if retrieved.unread.count > 0 {
        let count = retrieved.unread.count;
        remarks.warn(
            "unreadable",
            format!("{} could not be read", files_or_directories(count)),
            None,
        );
    }
    if retrieved.too_large.count > 0 {
        let note = Note::TooLarge {
            files: retrieved.too_large.count,
            limit: max_file_size,
        };
        remarks.warn("too_large", note.text(Reader::Program), None);
    }
    if retrieved.binary.count > 0 {
        let files = match retrieved.binary.count {
            1 => "1 file has".to_string(),
            count => format!("{count} files have"),
        };
        let message = format!("{files} hits in binary data, which is not shown");
        remarks.warn("binary", message, retrieved.binary.only());
    }
}

pub(super) fn warn_changed(remarks: &mut Remarks, path: &str) {
    let message = "the file has changed since the snapshot and is missing from the answer; ask \
         again";
    remarks.warn("changed_since_snapshot", message, Some(path));
}

/// Returns the remarks as the answer has them: in order, and with control characters escaped unless
/// `raw` is set.
pub(super) fn written(remarks: Remarks, raw: bool) -> (Vec<LimitHit>, Vec<Warning>) {
    let (mut limits_hit, mut warnings) = remarks.into_parts();
    if !raw {
        let of_limits = limits_hit.iter_mut().map(|hit| &mut hit.path_key);
        let all = of_limits.chain(warnings.iter_mut().map(|one| &mut one.path_key));
        for path in all.flatten() {
            *path = escape_name(path).into_owned();
        }
        limits_hit.sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
        warnings.sort_by(|a, b| (&a.code, &a.path_key).cmp(&(&b.code, &b.path_key)));
    }
    (limits_hit, warnings)
}
