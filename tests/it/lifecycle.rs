//! Checks that `docs/lifecycle.md` shows the state machine of the program.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use forge_search::internal::index::state::table::{Effect, TABLE};
use forge_search::internal::index::state::{IndexState, SafetyState, Trigger};

use crate::project_files::{code_only, dense, is_ident, root, rust_files};

/// Environment variable: with the value 1, the test writes the document instead of comparing it.
const UPDATE: &str = "UPDATE_LIFECYCLE";

/// The first and the last line of the generated part of the document.
const START: &str = "<!-- from the table of the program; UPDATE_LIFECYCLE=1 writes it -->\n";
const END: &str = "<!-- until here -->\n";

/// The name of a trigger or an action as lowercase words: `FooBar` becomes "foo bar".
fn words(name: &impl Debug) -> String {
    let mut words = String::new();
    for c in format!("{name:?}").chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

fn list<T: Debug>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(words).collect();
    items.join(", ")
}

/// The states of a row as a list, or as "any" or "any but `DISABLED`".
fn states(states: &[SafetyState]) -> String {
    let but_disabled = SafetyState::ALL
        .iter()
        .filter(|state| **state != SafetyState::Disabled);
    if SafetyState::ALL.iter().all(|state| states.contains(state)) {
        return "any".to_string();
    }
    if but_disabled.clone().all(|state| states.contains(state)) {
        return "any but `DISABLED`".to_string();
    }
    let names: Vec<String> = states
        .iter()
        .map(|state| format!("`{}`", state.as_str()))
        .collect();
    names.join(", ")
}

fn shown(index_state: IndexState) -> String {
    match index_state.reason() {
        None => format!("`{}`", index_state.state().as_str()),
        Some(reason) => format!("`{}`, `{reason}`", index_state.state().as_str()),
    }
}

/// The diagram: one edge for each pair of states, labelled with its triggers. Triggers that lead to
/// one state from all others are drawn once.
fn diagram() -> String {
    let mut edges: BTreeMap<(SafetyState, SafetyState), Vec<Trigger>> = BTreeMap::new();
    for row in TABLE {
        let Effect::Become(next) = row.effect else {
            continue;
        };
        for from in row.states() {
            let known = edges.entry((from, next.state())).or_default();
            if from != next.state() && !known.contains(&row.trigger) {
                known.push(row.trigger);
            }
        }
    }
    let mut out = String::from("```mermaid\nstateDiagram-v2\n    [*] --> ABSENT\n");
    for ((from, to), triggers) in edges.iter().filter(|(_, triggers)| !triggers.is_empty()) {
        let triggers: Vec<String> = triggers.iter().map(words).collect();
        writeln!(
            out,
            "    {} --> {}: {}",
            from.as_str(),
            to.as_str(),
            triggers.join("<br>")
        )
        .unwrap();
    }
    out.push_str("```\n");
    out
}

/// The table, one line a row.
fn table() -> String {
    let mut out = String::from(
        "| trigger | class | in | next | actions |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in TABLE {
        let also = row
            .also
            .iter()
            .map(|state| format!("`{}` ⁺", state.as_str()));
        let own = match row.only {
            Some(only) => shown(only),
            None => states(row.from),
        };
        let from: Vec<String> = [own]
            .into_iter()
            .filter(|own| !own.is_empty())
            .chain(also)
            .collect();
        let from = from.join(", ");
        let next = match row.effect {
            Effect::None => "no change".to_string(),
            Effect::Stay => "the same".to_string(),
            Effect::Become(next) => shown(next),
        };
        writeln!(
            out,
            "| {} | {} | {from} | {next} | {} |",
            words(&row.trigger),
            words(&row.trigger.class()),
            list(row.actions)
        )
        .unwrap();
    }
    out
}

/// The files that define triggers and the transition table. Uses of triggers count only elsewhere.
const MACHINE: [&str; 2] = ["src/index/state.rs", "src/index/state/"];

/// The names in the first column of the table of triggers that no code sends.
fn never_told() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/lifecycle.md")).unwrap();
    let (_, section) = text.split_once("## What is never told").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let first = rows.filter_map(|row| row.split(" | ").next());
    let names = first.filter(|name| !matches!(*name, "trigger" | "---"));
    names
        .flat_map(|names| names.split(", "))
        .map(str::to_string)
        .collect()
}

#[test]
fn what_is_never_told_is_named_and_all_else_is_told() {
    let is_source =
        |path: &str| path.starts_with("src/") && !MACHINE.iter().any(|own| path.starts_with(own));
    let files = rust_files().into_iter();
    let sources: Vec<String> = files
        .filter(|file| is_source(&file.path))
        .map(|file| dense(&code_only(&file.text)))
        .collect();
    let told = |trigger: &Trigger| {
        let name = format!("Trigger::{trigger:?}");
        let is_it = |text: &String| {
            text.match_indices(&name).any(|(at, _)| {
                let after = text[at + name.len()..].chars().next();
                !after.is_some_and(is_ident)
            })
        };
        sources.iter().any(is_it)
    };
    let (told, never): (Vec<&Trigger>, Vec<&Trigger>) = Trigger::ALL.iter().partition(|t| told(t));
    let mut never: Vec<String> = never.iter().map(words).collect();
    let mut named = never_told();
    never.sort();
    named.sort();
    assert_eq!(never, named);
    assert!(told.len() > 20, "{told:?}");
}

#[test]
fn the_diagram_is_that_of_the_program() {
    let path = root().join("docs/lifecycle.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(START).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{START}\n{}\n{}\n{END}{after}", diagram(), table());
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        text == expected,
        "docs/lifecycle.md is behind; {UPDATE}=1 cargo test --test it lifecycle writes it"
    );
}
