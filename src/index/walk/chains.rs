//! The ignore rules of a directory, for each set of rules of a walk.
//!
//! A walk by one set of rules has one chain of rules. A walk by two sets has two chains, for
//! example one with all ignore files and one with those of git. Each chain decides about each
//! entry, and an entry is found if one of them keeps it. Below a directory, only the chains that
//! keep the directory continue.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::format::manifest::{IgnoreRules, RuleSets};
use crate::index::names;
use crate::index::rules::{ControlFiles, Rules, RulesReadError, Verdict};

/// The largest number of chains.
const MOST: usize = 2;

/// The rules of one set.
#[derive(Clone, Debug)]
struct Chain {
    sets: RuleSets,
    rules: Arc<Rules>,
}

/// The rules inside a directory, one chain for each set of rules that keeps the directory.
#[derive(Clone, Debug)]
pub(super) struct Chains {
    chains: [Option<Chain>; MOST],
}

impl Chains {
    /// Returns the rules for the directory `dir` from the ignore files above it, as
    /// [`Rules::above`] does. The global excludes apply only to [`IgnoreRules::All`].
    pub(super) fn above(
        dir: &Path,
        which: IgnoreRules,
        global_excludes: Option<&Path>,
        unread: &mut Vec<RulesReadError>,
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

    /// Returns the rules inside the directory `dir`, given its control files. `self` has the rules
    /// for the name of `dir`. Adds unreadable files to `unread`.
    pub(super) fn child(
        &self,
        dir: &Path,
        found: ControlFiles,
        unread: &mut Vec<RulesReadError>,
    ) -> Chains {
        let mut chains = self.chains.clone();
        for chain in chains.iter_mut().flatten() {
            let mut own = Vec::new();
            chain.rules = Rules::child(&chain.rules, dir, found, &mut own);
            add_news(unread, own);
        }
        Chains { chains }
    }

    /// Returns the chains of the given sets.
    pub(super) fn of(&self, sets: RuleSets) -> Chains {
        let mut chains = self.chains.clone();
        for own in &mut chains {
            own.take_if(|chain| !sets.hold(chain.sets));
        }
        Chains { chains }
    }

    /// Returns the sets that have a chain.
    pub(super) fn sets(&self) -> RuleSets {
        let own = self.chains.iter().flatten();
        own.fold(RuleSets::NONE, |all, chain| all.with(chain.sets))
    }

    /// Returns the sets of rules that keep an entry, given its name and its absolute path.
    ///
    /// Unless `hidden`, entries with hidden names are excluded. A rule that keeps an entry, such as
    /// `!.ci`, also keeps a hidden one, as in ripgrep. This does not apply to the rules of git,
    /// which does not treat hidden names specially.
    pub(super) fn keep(
        &self,
        hidden: bool,
        name: &OsStr,
        absolute: &Path,
        is_dir: bool,
    ) -> RuleSets {
        let is_hidden = !hidden && names::is_hidden(name);
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

/// Adds the items that `unread` lacks, since two sets of rules read the same files.
fn add_news(unread: &mut Vec<RulesReadError>, found: Vec<RulesReadError>) {
    for one in found {
        if !unread.contains(&one) {
            unread.push(one);
        }
    }
}
