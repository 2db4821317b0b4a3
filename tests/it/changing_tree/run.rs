//! Runs of changes to a tree, with a comparison of answers after each change.

use std::collections::BTreeMap;
use std::fmt;

use super::Engine;
use super::requests::{Asked, Truth};
use super::tree::{ALL, IN_PLACE, Kind, Living};
use crate::differential::Seeded;
use crate::index_support::{Tally, agree};

/// The maximal number of changes before the index may settle again.
const UNSETTLED: usize = 8;

/// The number of requests that are kept to be asked again.
const KEPT: usize = 12;

/// The run of one tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) seed: u64,
    pub(crate) changes: u64,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) changes: u64,
    kinds: BTreeMap<Kind, u64>,
    pub(crate) tally: Tally,
    /// The number of answers that the oracle also computed.
    pub(crate) worked_out: u64,
    refused: u64,
    /// The answers with events, with errors, and truncated ones.
    found: u64,
    pub(crate) errors: u64,
    truncated: u64,
}

/// A wrong answer.
#[derive(Debug)]
pub(crate) struct Mismatch {
    seed: u64,
    /// The number of changes before it.
    pub(crate) changes: u64,
    /// The request, and the difference between the answers.
    pub(crate) what: String,
    history: Vec<String>,
}

impl Course {
    /// Runs a tree with an engine and with a reference engine, and compares their answers.
    pub(crate) fn run(
        &self,
        engine: impl Fn(&Living) -> Box<dyn Engine>,
        reference: impl Fn(&Living) -> Box<dyn Engine>,
    ) -> Result<Report, Mismatch> {
        let mut living = Living::new(self.seed);
        let (engine, reference) = (engine(&living), reference(&living));
        let mut rng = Seeded::new(self.seed.wrapping_mul(0x5EED));
        let mut report = Report::default();
        let mut kept: Vec<Asked> = Vec::new();
        while report.changes < self.changes {
            engine.settle();
            let kinds = if rng.one_in(3) { ALL } else { IN_PLACE };
            for round in 0..2 + rng.below(UNSETTLED) {
                // In the first round, nothing has changed since the index settled.
                if round > 0 {
                    let kind = living.change(kinds);
                    *report.kinds.entry(kind).or_default() += 1;
                    report.changes += 1;
                }
                let mut asked = vec![Asked::draw(&mut rng, &living)];
                if !kept.is_empty() && rng.one_in(2) {
                    asked.push(rng.pick(&kept));
                }
                for one in &asked {
                    let checked = report.check(one, &living, &*engine, &*reference);
                    checked.map_err(|what| Mismatch {
                        seed: self.seed,
                        changes: report.changes,
                        what: format!("{}\n  {what}", one.request),
                        history: living.history(),
                    })?;
                }
                kept.extend(asked.into_iter().take(1));
                if kept.len() > KEPT {
                    kept.remove(rng.below(KEPT));
                }
            }
        }
        Ok(report)
    }
}

impl Report {
    /// Compares the answers to one request.
    fn check(
        &mut self,
        asked: &Asked,
        living: &Living,
        engine: &dyn Engine,
        reference: &dyn Engine,
    ) -> Result<(), String> {
        let expected = reference.search(&asked.request);
        let found = engine.search(&asked.request);
        self.tally.add(agree(&expected, &found)?);
        let Some(claimed) = Truth::claimed(&found) else {
            self.refused += 1;
            let forbidden = found["error"]["message"]
                .to_string()
                .contains("ermission denied");
            return match forbidden || !asked.is_in_place(living.root()) {
                true => Ok(()),
                false => Err(format!("refused: {found}")),
            };
        };
        self.found += u64::from(!claimed.events.is_empty());
        self.truncated += u64::from(claimed.truncated);
        self.errors += u64::from(
            found["errors"]
                .as_array()
                .is_some_and(|all| !all.is_empty()),
        );
        if let Some(truth) = asked.truth(living.root()) {
            self.worked_out += 1;
            if claimed != truth {
                return Err(format!("answered   {claimed:?}\n  worked out {truth:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, other: &Report) {
        self.changes += other.changes;
        for (kind, times) in &other.kinds {
            *self.kinds.entry(*kind).or_default() += times;
        }
        self.tally.add(other.tally);
        self.worked_out += other.worked_out;
        self.refused += other.refused;
        self.found += other.found;
        self.errors += other.errors;
        self.truncated += other.truncated;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            compared,
            used,
            excluding,
            excluded,
        } = self.tally;
        writeln!(
            f,
            "{} changes, {compared} searches without a mismatch: {used} used the index, {excluding} left out files, \
             {excluded} files in all; {} were also worked out",
            self.changes, self.worked_out
        )?;
        writeln!(
            f,
            "{} answers had events, {} were cut, {} had errors, {} were refusals",
            self.found, self.truncated, self.errors, self.refused
        )?;
        write!(f, "{:?}", self.kinds)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { seed, changes, .. } = self;
        writeln!(f, "seed {seed}, after {changes} changes: {}", self.what)?;
        write!(f, "the last changes:\n  {}", self.history.join("\n  "))
    }
}
