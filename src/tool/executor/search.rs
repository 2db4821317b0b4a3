//! The search itself: every record of a source, every field, in the order of the source (EXEC §5, §6).
//!
//! Owns matching, ordering and cutting. Where records come from is a [`Source`]'s, which may be one in memory. One pass over the source, in memory for as
//! many results as are wanted, whatever the source holds: O(n log m) for n matches of which m are wanted.

use std::collections::BinaryHeap;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::failure::Reason;
use super::order::Order;
use super::snippet::snippet;

/// Texts with their names, without an allocation for each.
#[derive(Debug, Default)]
pub struct Fields {
    text: String,
    /// Where each name and each text ends.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// Removes all.
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

    /// Returns names and texts, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let all = starts.zip(&self.ends);
        all.map(|(start, (name, end))| (&self.text[start..*name], &self.text[*name..*end]))
    }
}

/// One record of a source.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// What is searched, in the order of the specification.
    pub fields: &'a Fields,
    /// Makes its id.
    pub id: &'a dyn Fn() -> String,
    /// Makes its place in the order of the source.
    pub order: &'a dyn Fn() -> Order,
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("fields", self.fields)
            .finish_non_exhaustive()
    }
}

/// What is done with each record.
pub type Visit<'a> = dyn FnMut(Record<'_>) + 'a;

/// Where records come from.
pub trait Source {
    /// Hands over every record once, in any order. Returns how many things were passed over that are no records: messages without a
    /// valid time, records without a key.
    ///
    /// # Errors
    ///
    /// Why not all could be handed over: there is no answer then.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<u64, Reason>;
}

/// A result (EXEC §7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// What it is in.
    pub id: String,
    /// Which field of that.
    pub match_field: String,
    /// What stands around the match.
    pub match_snippet: String,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The first results, in order.
    pub results: Vec<Match>,
    /// How many there are in all.
    pub count: u64,
    /// What was passed over, see [`Source::scan`].
    pub passed_over: u64,
}

/// A result with its place; the one that comes last is the greatest.
struct Ranked {
    place: (Order, usize),
    found: Match,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.place == other.place
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// Searches a source for a text, code point by code point as it is, and returns the first `most` results.
///
/// # Errors
///
/// Those of the source.
pub fn search(source: &mut dyn Source, query: &str, most: usize) -> Result<Found, Reason> {
    let finder = Finder::new(query.as_bytes());
    let mut count = 0;
    let mut first: BinaryHeap<Ranked> = BinaryHeap::new();
    let passed_over = source.scan(&mut |record| {
        let mut order = None;
        for (nth, (name, text)) in record.fields.iter().enumerate() {
            // Where UTF-8 is looked for in UTF-8, bytes are equal where code points are.
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
