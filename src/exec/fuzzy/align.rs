//! The best alignment of a pattern with a line: how far it is, where it starts and where it ends.
//!
//! Exact, and slower than what decides which lines are looked at.

use regex_automata::util::look::LookMatcher;

use super::Span;
use super::alphabet::{Alphabet, first_char};
use super::automaton::{Automaton, Node};
use crate::exec::matcher::Stopped;
use crate::exec::stop::Stop;

/// Nodes that are looked at between two looks at the stop flag.
const WORK_BETWEEN_POLLS: usize = 1 << 16;

/// How an alignment is so far: its edits, and where it started. Less is better.
type Cost = (u32, usize);

const NONE: Cost = (u32::MAX, usize::MAX);

/// Aligns an automaton with lines; owned by one worker.
#[derive(Debug)]
pub(crate) struct Aligner {
    /// The best way to each node at the current place and at the one before.
    now: Costs,
    before: Costs,
    /// Nodes from which no steps were taken yet.
    pending: Vec<u32>,
    looks: LookMatcher,
}

/// Costs by node; most have none.
#[derive(Debug)]
struct Costs {
    of: Vec<Cost>,
    /// The nodes that have one.
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

    /// Notes a way to a node. Returns true if it is the best so far.
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

    /// Finds the match with the fewest edits, at most `level`; among those the one that starts first, and among those the one that
    /// ends first.
    ///
    /// A way through the automaton and the line is a sequence of steps: to a node that matches the next character (0 edits) or not
    /// (1, substitution), over a character without a step to another node (1, insertion), to a node without a character (1, deletion),
    /// or to an assertion that holds there (0). For each place of the line and each node only the best way is kept, by edits
    /// and then by where it started: whatever follows adds the same to both of two ways. So the best way to a last node at any place is
    /// the best match that ends there. Takes time in proportion to the line times the pairs of nodes that are within `level`
    /// edits.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when the flag was raised before the answer was known.
    pub(crate) fn best(
        &mut self,
        automaton: &Automaton,
        alphabet: &Alphabet,
        level: u32,
        line: &[u8],
        stop: &Stop,
    ) -> Result<Option<Span>, Stopped> {
        let mut best: Option<Span> = None;
        // Ways that are no better than this are not followed.
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

    /// Goes over one character, which begins at `at`.
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

    /// Adds what can be reached at `at` without a character.
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

    /// Steps to a node without a character, from where the way has a cost.
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
