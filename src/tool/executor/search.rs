//! The search: matches every field of every record, and orders the results (EXEC §5, §6).
//!
//! This module owns matching, ordering and the limit on results. The records come from a
//! [`Source`], which may be in memory. It reads the source in one pass, with memory only for the
//! requested results: O(n log m) for n matches of which m are requested.

use std::collections::BinaryHeap;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::failure::Reason;
use super::order::Order;
use super::snippet::snippet;

/// Texts with their names, in one buffer.
#[derive(Debug, Default)]
pub struct Fields {
    text: String,
    /// The end of each name and of each text.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// Removes all fields.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a field.
    pub fn push(&mut self, name: &str, text: &str) {
        self.text.push_str(name);
        let name_ends = self.text.len();
        self.text.push_str(text);
        self.ends.push((name_ends, self.text.len()));
    }

    /// Returns names and texts in the order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let all = starts.zip(&self.ends);
        all.map(|(start, (name, end))| (&self.text[start..*name], &self.text[*name..*end]))
    }
}

/// One record of a source.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The searched fields, in the order of the specification.
    pub fields: &'a Fields,
    /// Computes the id of the record.
    pub id: &'a dyn Fn() -> String,
    /// Computes the position of the record in the order of the source.
    pub order: &'a dyn Fn() -> Order,
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("fields", self.fields)
            .finish_non_exhaustive()
    }
}

/// Receives each record.
pub type Visit<'a> = dyn FnMut(Record<'_>) + 'a;

/// A source of records.
pub trait Source {
    /// Passes every record to `visit` once, in any order. Returns how many items were skipped
    /// because they are no records: messages without a valid time, records without a key.
    ///
    /// # Errors
    ///
    /// The reason why a record can't be read. The search has no result then.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason>;
}

/// A result (EXEC §7).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Match {
    /// The id of the record.
    pub id: String,
    /// The name of the field.
    pub match_field: String,
    /// The text around the match.
    pub match_snippet: String,
}

/// The results of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The first results, in order.
    pub results: Vec<Match>,
    /// How many results there are in total.
    pub count: u64,
    /// How many items were skipped, see [`Source::scan`].
    pub passed_over: u64,
}

/// A result with its position. The greatest one comes last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    place: (Order, usize),
    found: Match,
}

/// Searches a source for a text, compared code point by code point, and returns the first `most`
/// results.
///
/// # Errors
///
/// The error of the source.
pub fn search(source: &mut dyn Source, query: &str, most: usize) -> Result<Found, Reason> {
    let finder = Finder::new(query.as_bytes());
    let mut count = 0;
    let mut first: BinaryHeap<Ranked> = BinaryHeap::new();
    let passed_over = source.scan(&mut |record| {
        let mut order = None;
        for (nth, (name, text)) in record.fields.iter().enumerate() {
            // In valid UTF-8, equal bytes are equal code points.
            let Some(at) = finder.find(text.as_bytes()) else {
                continue;
            };
            count += 1;
            let order = order.get_or_insert_with(|| (record.order)());
            let is_late = |last: &Ranked| (&last.place.0, last.place.1) <= (order, nth);
            if first.len() == most && first.peek().is_some_and(is_late) {
                continue;
            }
            first.push(Ranked {
                place: (order.clone(), nth),
                found: Match {
                    id: (record.id)(),
                    match_field: name.to_string(),
                    match_snippet: snippet(text, at..at + query.len()),
                },
            });
            if first.len() > most {
                first.pop();
            }
        }
    })?;
    let first = first.into_sorted_vec();
    Ok(Found {
        results: first.into_iter().map(|ranked| ranked.found).collect(),
        count,
        passed_over,
    })
}
