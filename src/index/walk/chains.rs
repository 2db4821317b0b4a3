//! The ignore rules of a directory, for each set of rules that a walk goes by.
//!
//! A walk by one set of rules has one chain. A walk by two has two, and decides about each entry by each of them: an
//! entry is found if one leaves it in. Below a directory only those chains go on by which the directory is
//! eligible itself.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::format::manifest::{IgnoreRules, RuleSets};
use crate::index::rules::{ControlFiles, Rules, Unread, Verdict};

use super::order::bytes;

/// How many chains there can be.
const MOST: usize = 2;

/// The rules of one set.
#[derive(Clone, Debug)]
struct Chain {
    sets: RuleSets,
    rules: Arc<Rules>,
}

/// The rules that hold in a directory, by each set by which it is eligible.
#[derive(Clone, Debug)]
pub(super) struct Chains {
    chains: [Option<Chain>; MOST],
}

impl Chains {
    /// Returns the rules of the directory `dir` from what lies above it, as [`Rules::above`] has them. The global
    /// excludes count for [`IgnoreRules::All`] alone.
    pub(super) fn above(
        dir: &Path,
        which: IgnoreRules,
        global_excludes: Option<&Path>,
        unread: &mut Vec<Unread>,
    ) -> Chains {
        let mut chain = |which: IgnoreRules, global_excludes| {
            let mut found = Vec::new();
            let rules = Rules::above(dir, which, global_excludes, &mut found);
            add_news(unread, found);
            let sets = which.sets();
            Some(Chain { sets, rules })
        };
        let chains = match which {
            IgnoreRules::None => {
                let (sets, rules) = (which.sets(), Rules::none());
                [Some(Chain { sets, rules }), None]
            }
            IgnoreRules::All => [chain(which, global_excludes), None],
            IgnoreRules::Git => [chain(which, None), None],
            IgnoreRules::AllAndGit => [
                chain(IgnoreRules::All, global_excludes),
                chain(IgnoreRules::Git, None),
            ],
        };
        Chains { chains }
    }

    /// Returns the rules inside the directory `dir`, whose own name these are about, given the control files in it. Adds
    /// to `unread` what could not be read.
    pub(super) fn child(
        &self,
        dir: &Path,
        found: ControlFiles,
        unread: &mut Vec<Unread>,
    ) -> Chains {
        let mut chains = self.chains.clone();
        for chain in chains.iter_mut().flatten() {
            let mut own = Vec::new();
            chain.rules = Rules::child(&chain.rules, dir, found, &mut own);
            add_news(unread, own);
        }
        Chains { chains }
    }

    /// Returns the rules of the sets among `sets`.
    pub(super) fn of(&self, sets: RuleSets) -> Chains {
        let mut chains = self.chains.clone();
        for own in &mut chains {
            own.take_if(|chain| !sets.hold(chain.sets));
        }
        Chains { chains }
    }

    /// Returns the sets that these are of.
    pub(super) fn sets(&self) -> RuleSets {
        let own = self.chains.iter().flatten();
        own.fold(RuleSets::NONE, |all, chain| all.with(chain.sets))
    }

    /// Returns the sets that leave an entry in, by its name and its absolute path; hidden names count as left out unless
    /// `hidden`. A rule that keeps an entry keeps it even if it is hidden, as in ripgrep; git knows nothing of hidden
    /// names, so by its own rules none does.
    pub(super) fn keep(
        &self,
        hidden: bool,
        name: &OsStr,
        absolute: &Path,
        is_dir: bool,
    ) -> RuleSets {
        let is_hidden = !hidden && bytes(name).first() == Some(&b'.');
        let mut kept = RuleSets::NONE;
        for chain in self.chains.iter().flatten() {
            let is_left_out = match chain.rules.decide(absolute, is_dir) {
                Verdict::Ignored => true,
                Verdict::Kept => is_hidden && chain.rules.which() == IgnoreRules::Git,
                Verdict::Neutral => is_hidden,
            };
            if !is_left_out {
                kept = kept.with(chain.sets);
            }
        }
        kept
    }
}

/// Adds what is not there yet: two sets of rules read the same files.
fn add_news(unread: &mut Vec<Unread>, found: Vec<Unread>) {
    for one in found {
        if !unread.contains(&one) {
            unread.push(one);
        }
    }
}
