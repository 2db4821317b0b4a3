//! The exact alignment of a pattern with a line: its edits, its start and its end.
//!
//! The alignment runs last, and only on lines that the faster stages let pass.

use regex_automata::util::look::LookMatcher;

use super::Span;
use super::alphabet::{Alphabet, first_char};
use super::automaton::{Automaton, Node};
use crate::exec::matching::matcher::Stopped;
use crate::exec::stop::Stop;

/// Nodes that are processed between two checks of the stop flag.
const WORK_BETWEEN_POLLS: usize = 1 << 16;

/// The cost of an alignment so far: its edits, and then its start. Lower is better.
type Cost = (u32, usize);

const NONE: Cost = (u32::MAX, usize::MAX);

/// Aligns an automaton with lines; owned by one worker.
#[derive(Debug)]
pub(crate) struct Aligner {
    /// The best path to each node at the current position and at the position before.
    now: Costs,
    before: Costs,
    /// Nodes that still have to be expanded.
    pending: Vec<u32>,
    looks: LookMatcher,
}

/// Costs by node; most nodes have no cost.
#[derive(Debug)]
struct Costs {
    of: Vec<Cost>,
    /// The nodes that have a cost.
    nodes: Vec<u32>,
}

impl Costs {
    fn new(nodes: usize) -> Costs {
        Costs {
            of: vec![NONE; nodes],
            nodes: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for &node in &self.nodes {
            self.of[node as usize] = NONE;
        }
        self.nodes.clear();
    }

    /// Records a path to a node. Returns true if it is the best so far.
    fn improve(&mut self, node: u32, cost: Cost) -> bool {
        let known = &mut self.of[node as usize];
        if cost >= *known {
            return false;
        }
        if *known == NONE {
            self.nodes.push(node);
        }
        *known = cost;
        true
    }
}

impl Aligner {
    pub(crate) fn new(automaton: &Automaton) -> Aligner {
        let nodes = automaton.nodes.len();
        Aligner {
            now: Costs::new(nodes),
            before: Costs::new(nodes),
            pending: Vec::new(),
            looks: LookMatcher::new(),
        }
    }

    /// Finds the match with the fewest edits, at most `level`. Among equal matches the earliest
    /// start wins, then the earliest end.
    ///
    /// A path through the automaton and the line is a sequence of steps. A step
    ///
    /// - consumes a character and moves to a node that matches it (0 edits),
    /// - consumes a character and moves to a node that does not match it (1 edit, replacement),
    /// - consumes a character and stays at its node (1 edit, insertion),
    /// - moves to a character node without consuming a character (1 edit, deletion), or
    /// - moves to an assertion that holds at this position (0 edits).
    ///
    /// For each position and node only the best path is kept, by edits and then by start. This is
    /// sufficient because all further steps add the same cost to both of two paths. So the best
    /// path to a last node is the best match that ends at that position. Takes time proportional to
    /// the line times the pairs of nodes within `level` edits.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the flag was raised before the answer was known.
    pub(crate) fn best(
        &mut self,
        automaton: &Automaton,
        alphabet: &Alphabet,
        level: u32,
        line: &[u8],
        stop: &Stop,
    ) -> Result<Option<Span>, Stopped> {
        let mut best: Option<Span> = None;
        // Paths that are no better than this are dropped.
        let mut bound = (level + 1, 0);
        let mut work = 0;
        self.now.clear();
        self.before.clear();
        let mut at = 0;
        self.close(automaton, line, at, bound);
        loop {
            let ends = self
                .now
                .nodes
                .iter()
                .filter(|&&node| automaton.last[node as usize]);
            let end = ends.map(|&node| self.now.of[node as usize]).min();
            if let Some((edits, start)) = end
                && (edits, start) < bound
            {
                best = Some(Span {
                    start,
                    end: at,
                    edits,
                });
                bound = (edits, start);
            }
            let is_final = bound.0 == 0
                && self
                    .now
                    .nodes
                    .iter()
                    .all(|&node| self.now.of[node as usize] >= bound);
            if at >= line.len() || is_final {
                return Ok(best);
            }
            work += 1 + self.now.nodes.len();
            if work >= WORK_BETWEEN_POLLS {
                work = 0;
                if stop.is_raised() {
                    return Err(Stopped);
                }
            }
            let (c, len) = first_char(&line[at..]);
            std::mem::swap(&mut self.now, &mut self.before);
            self.now.clear();
            self.consume(automaton, alphabet.nodes(c), at, bound);
            at += len;
            self.close(automaton, line, at, bound);
        }
    }

    /// Consumes one character, which begins at `at`.
    fn consume(&mut self, automaton: &Automaton, matching: &[u64], at: usize, bound: Cost) {
        let (now, before) = (&mut self.now, &self.before);
        let mut step = |to: u32, (edits, start): Cost| {
            let matches = matching[to as usize / 64] >> (to % 64) & 1 == 1;
            let cost = (edits + u32::from(!matches), start);
            let is_char = matches!(automaton.nodes[to as usize], Node::Char(_));
            if is_char && cost < bound {
                now.improve(to, cost);
            }
        };
        for &from in &before.nodes {
            for &to in &automaton.follow[from as usize] {
                step(to, before.of[from as usize]);
            }
        }
        for &to in &automaton.first {
            step(to, (0, at));
        }
        for &from in &before.nodes {
            let (edits, start) = before.of[from as usize];
            let inserted = (edits + 1, start);
            if inserted < bound {
                now.improve(from, inserted);
            }
        }
    }

    /// Adds the nodes that can be reached at `at` without consuming a character.
    fn close(&mut self, automaton: &Automaton, line: &[u8], at: usize, bound: Cost) {
        self.pending.clear();
        self.pending.extend(&self.now.nodes);
        for &to in &automaton.first {
            self.enter(automaton, to, (0, at), line, at, bound);
        }
        while let Some(from) = self.pending.pop() {
            let cost = self.now.of[from as usize];
            for &to in &automaton.follow[from as usize] {
                self.enter(automaton, to, cost, line, at, bound);
            }
        }
    }

    /// Moves to a node without consuming a character. The path so far has the given cost.
    fn enter(
        &mut self,
        automaton: &Automaton,
        to: u32,
        (edits, start): Cost,
        line: &[u8],
        at: usize,
        bound: Cost,
    ) {
        let cost = match automaton.nodes[to as usize] {
            Node::Char(_) => (edits + 1, start),
            Node::Look(_) => (edits, start),
        };
        let holds = match automaton.nodes[to as usize] {
            Node::Char(_) => true,
            Node::Look(look) => cost < bound && self.looks.matches(look, line, at),
        };
        if holds && cost < bound && self.now.improve(to, cost) {
            self.pending.push(to);
        }
    }
}
