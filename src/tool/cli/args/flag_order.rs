//! Flags that depend on their order on the command line, and flags that have a meaning in
//! combination.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::exec::sources::types::TypeRule;
use crate::tool::cli::args::{SearchArgs, When};

impl SearchArgs {
    /// Returns whether to count matches instead of lines. As in ripgrep, `-c -o` counts matches.
    pub(in crate::tool::cli) fn counts_matches(&self) -> bool {
        self.count_matches || (self.count && self.only_matching)
    }

    /// Reads the flags that depend on their order.
    pub(in crate::tool::cli) fn read_order(&mut self, matches: &ArgMatches) {
        self.query.type_rules = type_rules(matches);
        self.apply_pretty(matches);
    }

    /// Applies `-p`, which stands for `--color always --heading -n`. A later flag overrides it, and
    /// it overrides earlier flags.
    fn apply_pretty(&mut self, matches: &ArgMatches) {
        let last = |id: &str| {
            let typed = matches.value_source(id) == Some(ValueSource::CommandLine);
            typed.then(|| matches.indices_of(id)?.next_back()).flatten()
        };
        let Some(place) = last("pretty") else { return };
        let is_newest = |others: &[&str]| others.iter().all(|other| last(other) < Some(place));
        if is_newest(&["color"]) {
            self.color = When::Always;
        }
        if is_newest(&["heading", "no_heading"]) {
            (self.heading, self.no_heading) = (true, false);
        }
        if is_newest(&["no_line_number"]) {
            self.no_line_number = false;
        }
    }
}

/// Returns the values of `-t` and `-T` in their order on the command line.
pub(in crate::tool::cli) fn type_rules(matches: &ArgMatches) -> Vec<TypeRule> {
    let mut rules = Vec::new();
    for (id, negated) in [("types", false), ("types_not", true)] {
        let names = matches.get_many::<String>(id).into_iter().flatten();
        let places = matches.indices_of(id).into_iter().flatten();
        rules.extend(names.zip(places).map(|(name, place)| {
            let name = name.clone();
            (place, TypeRule { name, negated })
        }));
    }
    rules.sort_by_key(|(place, _)| *place);
    rules.into_iter().map(|(_, rule)| rule).collect()
}
