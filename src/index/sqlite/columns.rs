//! Transposes the bit matrix of a block: rows to columns and back.
//!
//! A row has a bit for every slot; a column has a bit for every row. The segment stores rows, and
//! the database stores columns, one bitset per file. Bits are packed from the lowest, as in a Bloom
//! filter of the reference schema.

use crate::index::block::{LANE_FILES, Shape, transpose};

/// Returns the length of a column in bytes.
pub(super) fn column_bytes(shape: Shape) -> u64 {
    shape.rows().div_ceil(8)
}

/// Returns the columns of a block, one after the other. `rows` has all rows of the block.
pub(super) fn from_rows(rows: &[u8], shape: Shape) -> Vec<u8> {
    let (count, lanes, len) = sizes(shape);
    let mut columns = vec![0u8; shape.files as usize * len];
    for (lane, some) in columns.chunks_mut(len * LANE_FILES).enumerate() {
        for first in (0..count).step_by(64) {
            let mut square = [0u64; 64];
            for (line, row) in square.iter_mut().zip(first..count) {
                let at = (row * lanes + lane) * 8;
                *line = read_lane(&rows[at..]);
            }
            transpose(&mut square);
            let at = first / 8;
            let end = len.min(at + 8);
            for (line, column) in square.iter().zip(some.chunks_mut(len)) {
                column[at..end].copy_from_slice(&line.to_le_bytes()[..end - at]);
            }
        }
    }
    columns
}

/// Returns the rows of a block. `columns` has all columns of the block.
pub(super) fn to_rows(columns: &[u8], shape: Shape) -> Vec<u8> {
    let (count, lanes, len) = sizes(shape);
    let mut rows = vec![0u8; count * lanes * 8];
    for (lane, some) in columns.chunks(len * LANE_FILES).enumerate() {
        for first in (0..count).step_by(64) {
            let mut square = [0u64; 64];
            for (line, column) in square.iter_mut().zip(some.chunks(len)) {
                *line = read_lane(&column[first / 8..]);
            }
            transpose(&mut square);
            for (line, row) in square.iter().zip(first..count) {
                let at = (row * lanes + lane) * 8;
                rows[at..at + 8].copy_from_slice(&line.to_le_bytes());
            }
        }
    }
    rows
}

/// Returns the number of rows, the lanes per row, and the bytes per column.
fn sizes(shape: Shape) -> (usize, usize, usize) {
    (
        shape.rows() as usize,
        shape.lanes as usize,
        column_bytes(shape) as usize,
    )
}

/// Reads a lane from the start of `bytes`. Missing bytes count as zeros.
fn read_lane(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(lane) => u64::from_le_bytes(*lane),
        None => {
            let mut lane = [0; 8];
            lane[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(lane)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shapes() -> impl Strategy<Value = Shape> {
        (1u32..=512, 1u32..6, 0u32..200).prop_map(|(files, chunks, direct_rows)| Shape {
            files,
            lanes: (files as usize).div_ceil(LANE_FILES).next_power_of_two() as u32,
            hashed_rows: chunks * 64,
            direct_rows,
        })
    }

    proptest! {
        #[test]
        fn columns_have_the_bits_of_the_rows(shape in shapes(), seed in any::<u64>()) {
            let (count, lanes, len) = sizes(shape);
            let mut rows = vec![0u8; count * lanes * 8];
            let bit = |row: usize, file: usize| {
                let n = (row * 1000 + file) as u64 ^ seed;
                n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1
            };
            for row in 0..count {
                for file in 0..shape.files as usize {
                    rows[row * lanes * 8 + file / 8] |= u8::from(bit(row, file)) << (file % 8);
                }
            }
            let columns = from_rows(&rows, shape);
            prop_assert_eq!(columns.len(), shape.files as usize * len);
            for file in 0..shape.files as usize {
                let column = &columns[file * len..][..len];
                for row in 0..len * 8 {
                    let expected = row < count && bit(row, file);
                    prop_assert_eq!(column[row / 8] >> (row % 8) & 1 == 1, expected);
                }
            }
            prop_assert_eq!(to_rows(&columns, shape), rows);
        }
    }
}
