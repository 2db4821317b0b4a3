//! Reads the catalog: directories, files and the side list, which has the files with a line feed in
//! their path.

use super::super::problem::Problem;
use super::super::row::{bytes_of, device_and_inode, last_component, name, status_number};
use super::super::write::row_of;
use super::Reader;
use super::rows::{number, sets};
use crate::format::segment::{DirRecord, FileRecord, NameRecord, SideRecord, StampRecord};
use crate::index::sections::{NamesTooLong, Sections};

impl Reader<'_> {
    /// Reads directories, files and the side list. Returns the number of each.
    pub(super) fn catalog(&self, sections: &mut Sections) -> Result<(u32, u32, u32), Problem> {
        let dirs = self.dirs(sections)?;
        let files = self.files(sections)?;
        let side = self.side_list(sections)?;
        Ok((dirs, files, side))
    }

    /// Reads the directories, and returns their number.
    fn dirs(&self, sections: &mut Sections) -> Result<u32, Problem> {
        let mut count = 0;
        let mut statement = self.db.prepare("SELECT * FROM fs_dirs ORDER BY dir")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            next(&mut count, row.get(0)?, "a directory is missing")?;
            let record = DirRecord {
                parent: row.get(1)?,
                name: NameRecord::default(),
                first_rank: row.get(3)?,
                end_rank: row.get(4)?,
                stamp: StampRecord {
                    len: number(row, 5)?,
                    modified_ns: row.get(6)?,
                    changed_ns: row.get(7)?,
                    device: number(row, 8)?,
                    inode: number(row, 9)?,
                    links: row.get(10)?,
                },
                sets: sets(row, 11)?,
            };
            let name = bytes_of(row.get_ref(2)?)
                .and_then(name)
                .ok_or_else(no_name)?;
            sections.push_dir(&name, record).map_err(too_long)?;
        }
        Ok(count)
    }

    /// Reads the files, and returns their number.
    fn files(&self, sections: &mut Sections) -> Result<u32, Problem> {
        let mut count = 0;
        let mut statement = self.db.prepare(
            "SELECT file_rowid, rel_path, size_bytes, mtime_ns, stable_file_id, token_status,
                    token_complete, dir, ctime_ns, links, ngrams, rule_sets
             FROM file_entries LEFT JOIN fs_files USING (file_rowid) ORDER BY file_rowid",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let rank = row.get::<_, i64>(0)?.saturating_sub(row_of(0));
            next(&mut count, rank, "a file is missing")?;
            let id: Option<[u8; 16]> = row.get(4)?;
            let (device, inode) =
                device_and_inode(id.as_ref().map(|id| &id[..])).unwrap_or_default();
            let status = bytes_of(row.get_ref(5)?).and_then(status_number);
            let record = FileRecord {
                dir: row.get(7)?,
                name: NameRecord::default(),
                status: status.ok_or_else(|| in_catalog("a file has no known status"))?,
                excludable: row.get(6)?,
                sets: sets(row, 11)?,
                ngrams: row.get(10)?,
                stamp: StampRecord {
                    len: number(row, 2)?,
                    modified_ns: row.get(3)?,
                    changed_ns: row.get(8)?,
                    device,
                    inode,
                    links: row.get(9)?,
                },
            };
            let path = bytes_of(row.get_ref(1)?);
            let name = path
                .map(last_component)
                .and_then(name)
                .ok_or_else(no_name)?;
            sections.push_file(&name, record).map_err(too_long)?;
        }
        Ok(count)
    }

    /// Reads the side list, and returns the number of its files.
    fn side_list(&self, sections: &mut Sections) -> Result<u32, Problem> {
        let mut count = 0;
        let mut statement = self.db.prepare("SELECT * FROM fs_side ORDER BY position")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            next(
                &mut count,
                row.get(0)?,
                "a file of the side list is missing",
            )?;
            let record = SideRecord {
                dir: row.get(1)?,
                before_rank: row.get(2)?,
                name: NameRecord::default(),
                sets: sets(row, 4)?,
            };
            let name = bytes_of(row.get_ref(3)?)
                .and_then(name)
                .ok_or_else(no_name)?;
            sections.push_side(&name, record).map_err(too_long)?;
        }
        Ok(count)
    }
}

/// Returns a problem of the tables of directories and files.
fn in_catalog(problem: &str) -> Problem {
    Problem::damaged(format!("in the catalog, {problem}"))
}

fn no_name() -> Problem {
    in_catalog("a name is not valid on this system")
}

fn too_long(NamesTooLong: NamesTooLong) -> Problem {
    in_catalog("a name is too long")
}

/// Counts an entry, whose number must be the next one.
fn next(count: &mut u32, number: i64, problem: &str) -> Result<(), Problem> {
    if number != i64::from(*count) {
        return Err(in_catalog(problem));
    }
    *count = count
        .checked_add(1)
        .ok_or_else(|| in_catalog("there are too many entries"))?;
    Ok(())
}
