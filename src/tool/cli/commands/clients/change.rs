//! The change of one entry in one file: shown, made, or taken back.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::edit::Entry;
use super::file::{ClientFile, NewFile};
use super::{Failure, NAME};
use crate::tool::error::ToolError;
use crate::tool::render::escape_controls;

/// The number of unchanged lines around a shown change.
const CONTEXT: usize = 2;

/// One entry that belongs into one file.
pub(super) struct Change {
    /// The name of the client.
    pub(super) title: &'static str,
    pub(super) path: PathBuf,
    pub(super) entry: Entry,
    /// Whether the file belongs to a project, whose files people commit.
    pub(super) in_project: bool,
}

impl Change {
    /// Shows the change, and makes it if `write` is true.
    pub(super) fn make(&self, write: bool, out: &mut dyn Write) -> Result<u8, Failure> {
        let file = ClientFile::read(&self.path)?;
        let (title, shown) = (self.title, shown(&file.path));
        let old = file.text.as_deref();
        let new = self.entry.set(old.unwrap_or_default());
        let new = new.map_err(|why| failed(&file, why))?;
        if old == Some(new.as_str()) {
            writeln!(out, "{title}: {shown} has the entry; nothing to do")?;
            return Ok(0);
        }
        let is_new = if old.is_none() { " (a new file)" } else { "" };
        writeln!(out, "{title}: {shown}{is_new}")?;
        write_difference(old.unwrap_or_default(), &new, out)?;
        if !write {
            writeln!(out, "Nothing was written. --write writes it.")?;
            return Ok(0);
        }
        file.check_writable()?;
        // An older copy is from before this program's entry, if there is one by now.
        let entry = self.entry.with_fields_of(old.unwrap_or_default());
        let is_ours = entry.ok().flatten().is_some_and(|entry| is_ours(&entry));
        let backup = file.back_up(!is_ours)?;
        let new_file = match self.in_project {
            true => NewFile::Shared,
            false => NewFile::Private,
        };
        file.replace(Some(&new), new_file)?;
        writeln!(out, "The entry was written.")?;
        if let Some(backup) = backup {
            let hint = match self.in_project {
                true => "; leave it out of commits",
                false => "",
            };
            writeln!(out, "The file before it: {}{hint}", self::shown(&backup))?;
        }
        Ok(0)
    }

    /// Takes the entry back, and removes the copy of the file.
    pub(super) fn undo(&self, out: &mut dyn Write) -> Result<u8, Failure> {
        let file = ClientFile::read(&self.path)?;
        let (title, shown) = (self.title, shown(&file.path));
        let failed = |why| failed(&file, why);
        let Some(old) = file.text.as_deref() else {
            writeln!(out, "{title}: {shown} does not exist; nothing to undo")?;
            return Ok(0);
        };
        let Some(entry) = self.entry.with_fields_of(old).map_err(failed)? else {
            writeln!(out, "{title}: {shown} has no entry; nothing to undo")?;
            return Ok(0);
        };
        if !is_ours(&entry) {
            let command = entry.command().join(" ");
            return Err(failed(format!(
                "the entry `{NAME}` starts another program: {command}"
            ))
            .into());
        }
        file.check_writable()?;
        let backup = file.backup_text();
        let (new, is_restored) = self.before(&entry, old, backup).map_err(failed)?;
        writeln!(out, "{title}: {shown}")?;
        write_difference(old, new.as_deref().unwrap_or_default(), out)?;
        file.replace(new.as_deref(), NewFile::Shared)?;
        let done = match is_restored {
            true => "The former entry was restored.",
            false => "The entry was removed.",
        };
        writeln!(out, "{done}")?;
        file.remove_backup()?;
        Ok(0)
    }

    /// Returns the text before the entry of this program, or `None` if there was no file; and
    /// whether it has an entry of the same name.
    ///
    /// The copy is that text, if the file was not edited since.
    fn before(
        &self,
        entry: &Entry,
        old: &str,
        backup: Option<String>,
    ) -> Result<(Option<String>, bool), String> {
        let copy = backup.as_deref().unwrap_or_default();
        let again = entry.set(copy);
        let is_original = again.is_ok_and(|text| text == old && text != copy);
        if is_original {
            let has_entry = self.entry.with_fields_of(copy)?.is_some();
            return Ok((backup, has_entry));
        }
        let former = self.entry.restore(old, copy).ok().flatten();
        // An equal entry in the copy is of this program too.
        match former.filter(|former| former != old) {
            Some(former) => Ok((Some(former), true)),
            None => Ok((Some(self.entry.remove(old)?.unwrap_or_default()), false)),
        }
    }
}

/// Returns true if an entry starts this program, itself or by `npx` or `uvx`. A paragraph between
/// the markers is always this program's.
fn is_ours(entry: &Entry) -> bool {
    if matches!(entry, Entry::Paragraph(_)) {
        return true;
    }
    let command = entry.command();
    let Some((program, args)) = command.split_first() else {
        return false;
    };
    // A file that a team shares may have been written on another system.
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    // Versions are written as `forge-search@1.0` and `forge-search==1.0`.
    let is_package = |arg: &String| {
        let version = arg.strip_prefix(NAME);
        version.is_some_and(|version| version.is_empty() || version.starts_with(['@', '=']))
    };
    stem == NAME || (["npx", "uvx"].contains(&stem) && args.iter().any(is_package))
}

/// Returns the error for a file that can't be changed.
fn failed(file: &ClientFile, why: String) -> ToolError {
    ToolError::bad_args(format!(
        "{}: {why}; nothing was changed. Correct the file, and run the command again",
        file.path.display()
    ))
}

fn shown(path: &Path) -> String {
    escape_controls(&path.display().to_string()).into_owned()
}

/// Writes the lines that differ between two texts, with a few lines around them. An entry is in one
/// place, so the change is one group of lines.
fn write_difference(old: &str, new: &str, out: &mut dyn Write) -> io::Result<()> {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = old.iter().zip(&new).take_while(same).count();
    let after = old[before..].iter().rev().zip(new[before..].iter().rev());
    let after = after.take_while(same).count();
    let mut write = |mark: char, lines: &[&str]| {
        lines
            .iter()
            .try_for_each(|line| writeln!(out, "{mark} {}", escape_controls(line)))
    };
    write(' ', &old[before.saturating_sub(CONTEXT)..before])?;
    write('-', &old[before..old.len() - after])?;
    write('+', &new[before..new.len() - after])?;
    let rest = &old[old.len() - after..];
    write(' ', &rest[..rest.len().min(CONTEXT)])
}
