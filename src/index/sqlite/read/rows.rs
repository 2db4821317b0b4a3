//! Reads values from the rows of the database, and converts the bitsets of files to the columns of
//! blocks. A value that can't be right is reported as damage.

use rusqlite::{Row, Rows};

use super::super::columns::column_bytes;
use super::super::problem::Problem;
use super::super::row::bytes_of;
use super::super::write::row_of;
use super::KeptBlock;
use crate::format::manifest::RuleSets;

/// Reads the sets of ignore rules under which an entry is eligible.
pub(super) fn sets(row: &Row<'_>, column: usize) -> Result<RuleSets, Problem> {
    let number = u8::try_from(row.get::<_, i64>(column)?).ok();
    number
        .and_then(RuleSets::from_number)
        .ok_or_else(|| Problem::damaged("in the catalog, the ignore rules of an entry are unknown"))
}

/// Reads the bitsets of a group of blocks. Returns the columns of each block.
pub(super) fn read_columns(
    rows: &mut Rows<'_>,
    blocks: &[KeptBlock],
) -> Result<Vec<Vec<u8>>, Problem> {
    let wrong = || Problem::damaged("the filters do not match the files in the blocks");
    let mut slots: Vec<(u32, usize, usize)> = Vec::new();
    let mut columns = Vec::new();
    for (n, block) in blocks.iter().enumerate() {
        let of_block = block.ranks.iter().enumerate();
        slots.extend(of_block.map(|(slot, &rank)| (rank, n, slot)));
        let len = column_bytes(block.shape) as usize;
        columns.push((vec![0u8; len * block.ranks.len()], len));
    }
    slots.sort_unstable();
    for own in slots.chunk_by(|a, b| a.0 == b.0) {
        let rank = own.first().map_or(0, |slot| slot.0);
        let start = |&(_, block, slot): &(u32, usize, usize)| blocks.get(block)?.starts.get(slot);
        if !own.iter().any(|slot| start(slot) == Some(&0)) {
            return Err(Problem::damaged(
                "a file does not start with its first part",
            ));
        }
        for variant in ["INSENSITIVE", "SENSITIVE"] {
            let row = rows.next()?.ok_or_else(wrong)?;
            let mut bits = row.get_ref(2)?.as_blob().map_err(|_| wrong())?;
            if row.get::<_, i64>(0)? != row_of(rank)
                || row.get_ref(1)?.as_bytes().map_err(|_| wrong())? != variant.as_bytes()
            {
                return Err(wrong());
            }
            if variant == "INSENSITIVE" {
                for &(_, block, slot) in own {
                    let (columns, len) = columns.get_mut(block).ok_or_else(wrong)?;
                    let column = columns.get_mut(slot * *len..(slot + 1) * *len);
                    let (now, later) = bits.split_at_checked(*len).ok_or_else(wrong)?;
                    column.ok_or_else(wrong)?.copy_from_slice(now);
                    bits = later;
                }
            }
            if !bits.is_empty() {
                return Err(wrong());
            }
        }
    }
    Ok(columns.into_iter().map(|(columns, _)| columns).collect())
}

/// Reads an unsigned 64-bit number; SQLite has only signed ones.
pub(super) fn number<I: rusqlite::RowIndex>(row: &Row<'_>, column: I) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

/// Reads a list of four-byte numbers; `None` if the length is not a multiple of four.
pub(super) fn numbers(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Vec<u32>>> {
    let bytes = bytes_of(row.get_ref(column)?).unwrap_or_default();
    let (numbers, rest) = bytes.as_chunks::<4>();
    let read = || {
        numbers
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect()
    };
    Ok(rest.is_empty().then(read))
}
