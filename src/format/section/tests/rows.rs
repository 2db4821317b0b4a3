//! Rows: short ranges that are read without keeping their pages.

use std::fs;
use std::path::Path;

use super::*;
use crate::format::disk::RealDisk;

/// Returns a file with more pages than are read together.
fn many_pages() -> Vec<u8> {
    write(&[(7, noise(40 * PAGE_SIZE))]).0
}

fn paged(path: &Path, bytes: &[u8]) -> Container {
    fs::write(path, bytes).unwrap();
    let storage = Storage::paged_on(&RealDisk, path).unwrap();
    Container::open(storage, KIND, 1).unwrap()
}

#[test]
fn rows_are_the_bytes_of_the_same_place() {
    let bytes = many_pages();
    let dir = tempfile::tempdir().unwrap();
    let paged = |name: &str, bytes: &[u8]| paged(&dir.path().join(name), bytes);
    let border = 16 * PAGE_SIZE;
    for container in [open(bytes.clone()).unwrap(), paged("whole", &bytes)] {
        let (view, mut room) = (container.view(), Vec::new());
        // Three times: checked, kept, and found again.
        for _ in 0..3 {
            for start in [
                0,
                64,
                4032,
                4033,
                4095,
                4096,
                border - 1,
                border,
                border + 64,
            ] {
                let row = view.row(start, 64, &mut room).unwrap();
                assert_eq!(row, &bytes[start..start + 64]);
            }
        }
        assert!(view.row(0, 0, &mut room).is_ok());
        for start in [bytes.len() - 64, bytes.len(), usize::MAX] {
            assert!(view.row(start, 64, &mut room).unwrap_err().is_corrupt());
        }
    }
    let mut damaged = bytes;
    damaged[20 * PAGE_SIZE + 50] ^= 1;
    for container in [open(damaged.clone()).unwrap(), paged("damaged", &damaged)] {
        let (view, mut room) = (container.view(), Vec::new());
        for _ in 0..3 {
            assert!(view.row(2 * PAGE_SIZE, 64, &mut room).is_ok());
            for start in [20 * PAGE_SIZE - 63, 20 * PAGE_SIZE, 20 * PAGE_SIZE + 64] {
                assert!(view.row(start, 64, &mut room).unwrap_err().is_corrupt());
            }
        }
    }
}

#[test]
fn the_page_of_a_row_is_kept_when_it_is_needed_again() {
    let bytes = many_pages();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let container = paged(&path, &bytes);
    let (view, mut room) = (container.view(), Vec::new());
    for start in [64, 128, 20 * PAGE_SIZE] {
        view.row(start, 64, &mut room).unwrap();
    }
    fs::write(&path, b"").unwrap();
    assert_eq!(view.row(320, 64, &mut room).unwrap(), &bytes[320..384]);
    let error = view.row(20 * PAGE_SIZE, 64, &mut room).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
}
