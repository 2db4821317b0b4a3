//! Claims about any bytes as a mailbox:
//!
//! - The result does not depend on the size of the reads.
//! - Each message is one record with the four fields, or is skipped.
//! - A snippet of a match contains the query.

use std::io::{BufReader, Cursor};

use forge_search::internal::tool::executor::failure::Reason;
use forge_search::internal::tool::executor::order::Order;
use forge_search::internal::tool::executor::search::{Source, Visit, search};
use forge_search::internal::tool::executor::source::scan_mbox;

/// A mailbox, and the size of the buffer for reading it.
struct Mailbox<'a>(&'a [u8], usize);

impl Source for Mailbox<'_> {
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason> {
        scan_mbox(BufReader::with_capacity(self.1, Cursor::new(self.0)), visit)
    }
}

/// Reads `data` as a mailbox, and as the single message of a mailbox.
pub(crate) fn run(data: &[u8]) {
    mailbox(data);
    mailbox(&[b"From x Thu Jan  1 00:00:00 2026\n", data].concat());
}

fn mailbox(data: &[u8]) {
    let mut orders: Vec<(Order, String)> = Vec::new();
    let whole = Mailbox(data, 1 << 16).scan(&mut |record| {
        let fields: Vec<(&str, &str)> = record.fields.iter().collect();
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["from", "to", "subject", "body"]);
        orders.push(((record.order)(), (record.id)()));
    });
    let mut again = Vec::new();
    let pieces =
        Mailbox(data, 16).scan(&mut |record| again.push(((record.order)(), (record.id)())));
    assert_eq!((whole, &orders), (pieces, &again));
    let Ok(passed_over) = whole else {
        assert_eq!(whole, Err(Reason::SourceMalformed));
        assert!(!data.starts_with(b"From ") && !data.is_empty());
        return;
    };
    let lines = data
        .split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"From "))
        .count();
    assert_eq!(orders.len() as u64 + passed_over, lines as u64);
    let found = search(&mut Mailbox(data, 256), "e", 3).expect("it was read before");
    assert!(found.results.len() <= 3 && found.count >= found.results.len() as u64);
    for one in found.results {
        assert!(one.match_snippet.contains('e') && !one.match_snippet.contains(char::is_control));
    }
}
