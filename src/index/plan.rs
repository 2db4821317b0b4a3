//! Plans: which n-grams a file must hold for an expression to match in it.
//!
//! Owns the way from a parsed expression to a [`SupersetSafe`] plan, and the evaluation of plans over blocks of
//! files. It does not know how n-grams are stored, what a request is, or which files are searched.

mod analysis;
mod chain;
mod describe;
mod evaluate;
mod mask;
mod nearly;
mod need;
mod path;
pub(crate) mod spine;

use std::fmt;

use regex_syntax::hir::Hir;
use serde::{Serialize, Serializer};

use crate::index::casefold::Casefold;
use crate::index::gram::Gram;
use crate::index::plan::analysis::Analysis;
use crate::index::plan::chain::Chain;
use crate::index::plan::describe::texts;
use crate::index::plan::evaluate::{AllOf, Compiler};
use crate::index::plan::nearly::Free;
use crate::index::plan::need::{Allowance, Conjunction};
use crate::index::plan::path::Unused;

pub use describe::{PlanDescription, Requirement};
pub use evaluate::{BlockRows, Scratch};
pub use mask::{BLOCK_FILES, Mask};

/// How matching without case folds, and so how the n-grams of files do that are compared with it.
pub const FOLD: Casefold = Casefold::Ascii;

/// The most n-grams of paths in a plan: what may be tested in each block of files before that costs as much as
/// searching some of them.
const MAX_PATH_GRAMS: usize = 1 << 14;

/// What of an expression is used (`index_regex_strategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Literals that are part of every match (FR-LSI-CAND-RE-01); nothing of what is optional, repeated an
    /// unknown number of times or one of several alternatives (FR-LSI-CAND-RE-02).
    #[default]
    RequiredLiteral,
    /// Literals, alternatives of them, and small character classes.
    Boolean,
}

impl Strategy {
    /// Returns the name that is configured and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::RequiredLiteral => "required_literal",
            Strategy::Boolean => "boolean",
        }
    }
}

/// Why a plan keeps every file, or why a part of an expression excludes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The expression can match bytes that are no valid UTF-8.
    InvalidUtf8,
    /// The strategy [`Strategy::RequiredLiteral`] does not use what the expression has to offer.
    Strategy,
    /// A literal contains a carriage return or a line feed.
    LineBreak,
    /// Normalization changes a literal.
    Normalization,
    /// A literal contains U+FFFD, which also stands for invalid bytes.
    ReplacementCharacter,
    /// One of the alternatives, or leaving out what is optional, requires nothing.
    Alternatives,
    /// Character classes or alternatives stand for too many n-grams.
    TooManyNgrams,
    /// Literals are shorter than an n-gram (FR-LSI-CAND-LIT-03).
    TooShort,
    /// There is no literal.
    NoLiteral,
    /// So many edits as are asked for can change all n-grams of a match (FR-LSI-CAND-FZ-01).
    Edits,
}

impl Reason {
    /// Returns why a part of an expression is not used of which the rest is.
    pub fn of_part(self) -> &'static str {
        match self {
            Reason::InvalidUtf8 => {
                "what can match invalid UTF-8 is not tested, since the index knows nothing about it"
            }
            Reason::Strategy => {
                "what is no literal is not tested; index_regex_strategy = \"boolean\" would test more"
            }
            Reason::LineBreak => "no n-gram with a carriage return or line feed is tested",
            Reason::Normalization => {
                "a literal that Unicode normalization (NFC) changes is not tested; in composed form it would be"
            }
            Reason::ReplacementCharacter => {
                "no n-gram with U+FFFD is tested, which also stands for invalid bytes"
            }
            Reason::Alternatives => {
                "alternatives and optional parts that require no three characters in a row are not tested"
            }
            Reason::TooManyNgrams => "some parts stand for too many n-grams to be worth testing",
            Reason::TooShort => "parts of fewer than three characters are not tested",
            Reason::NoLiteral => "parts of which no character is certain are not tested",
            Reason::Edits => "what so many edits can change is not tested",
        }
    }

    /// Returns the name that programs are given.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidUtf8 => "invalid_utf8",
            Reason::Strategy => "strategy",
            Reason::LineBreak => "line_break",
            Reason::Normalization => "normalization",
            Reason::ReplacementCharacter => "replacement_character",
            Reason::Alternatives => "alternatives",
            Reason::TooManyNgrams => "too_many_ngrams",
            Reason::TooShort => "too_short",
            Reason::NoLiteral => "no_literal",
            Reason::Edits => "edits",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::InvalidUtf8 => {
                "the expression can match invalid UTF-8, about which the index knows nothing"
            }
            Reason::Strategy => {
                "no literal is part of every match; with index_regex_strategy = \"boolean\" its alternatives \
                 or character classes would exclude files"
            }
            Reason::LineBreak => {
                "a carriage return or line feed cuts the literal, and no three characters in a row are left"
            }
            Reason::Normalization => {
                "Unicode normalization (NFC) changes the literal; write it in composed form"
            }
            Reason::ReplacementCharacter => {
                "U+FFFD, which also stands for invalid bytes, cuts the literal"
            }
            Reason::Alternatives => {
                "one of the alternatives, or leaving out what is optional, requires no three characters in a row"
            }
            Reason::TooManyNgrams => {
                "its character classes or alternatives stand for too many n-grams to exclude anything"
            }
            Reason::TooShort => {
                "no three characters in a row are part of every match; search for something longer"
            }
            Reason::NoLiteral => "no character is certain to be part of a match",
            Reason::Edits => {
                "so many edits can change all n-grams of a match; allow fewer of them, or search for something longer"
            }
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A plan that keeps every file in which its expression matches (FR-LSI-CAND-01).
///
/// There are no public parts to put one together from: a plan comes from [`SupersetSafe::for_expression`] or
/// [`SupersetSafe::for_literal`], and what these build is safe by the following proof.
///
/// # What is presupposed
///
/// Let `S` be what the index holds of a part of a file, of whole lines, or of a whole file. The caller takes it for granted
/// that no line of a part matches, and excludes a file if that holds for each of its parts, only if
///
/// 1. the file is as it was when all of its text was tokenized, that text is unchanged by normalization, and it has no byte-order mark of
///    UTF-16 or UTF-32 ([`Tokens::excludable`](crate::index::token::Tokens));
/// 2. `S` has each n-gram of the text of the part, in which CRLF became LF, **and the fold of each of them** by [`FOLD`],
///    but for those with a line feed, and whatever answers for `S` has no false negatives;
/// 3. the matcher matches the given expression (or a more special one: assertions and word boundaries
///    only take matches away), to which letters without case are known as classes.
///
/// # Proof
///
/// Let `m` be a match in such a file. It lies in one line, and so in one part. The expression matches valid UTF-8 only, otherwise nothing is excluded. Lossy
/// decoding keeps valid sequences, and normalization changes nothing, so `m` is in the tokenized text of that part, except
/// that carriage returns may be missing there.
///
/// *Analysis.* By induction over the expression, `m` is a text of one of the chains (`Exact`), or begins and ends
/// with one and the file fulfils the requirements (`Inexact`):
/// a literal and a class are themselves, but that a class loses the characters that normalization replaces, which by 1 do not
/// occur in the file; and where a limit or rule forbids using them, any text; a sequence is a
/// product of chains, and where that is too large its parts and what lies across their border, each of which occurs
/// in `m`; of alternatives one applies, hence the union of chains and the disjunction of requirements; a
/// repetition begins and ends with its least number of copies; everything else is any text.
///
/// *Chains.* If a text of a chain occurs, so does one of each part of the chain. No position can be a carriage
/// return or a line feed, so the occurrence is contiguous in the tokenized text and each of its n-grams is in `S`.
/// Without case, positions hold folds, and the fold of each n-gram is in `S`. With case, a chain is replaced by
/// its fold only if it holds the fold of each of its characters; then the folded text is one of its texts, and the
/// fold of each n-gram is in `S`.
///
/// *Evaluation.* A literal requires its n-grams. A path requires all n-grams of *one* of its texts, which the
/// path search follows exactly or, where it was cut at two single characters, in parts. Conjunctions and
/// disjunctions are intersections and unions of sets of files, and dropping a requirement only
/// keeps more files.
///
/// *Edits* ([`SupersetSafe::nearly`]). Let `m` be within `k` edits of a text `w` of the expression, and take a way to write the one as
/// the other. `w` has the runs of one of the spines, in order. Each edit inserts, takes away or changes one character; it changes at
/// most the three n-grams of one run that have this character, or the two between whose characters it inserts one, and these follow
/// each other. All others have their three characters side by side in `m`, and so in `S`, as above. So the n-grams that `S` lacks can be
/// covered by `k` stretches of three n-grams each, none across two runs, which is what is tested: the files in which that is so are found for
/// each place and number of edits from those before it. This keeps no file that a split into `k + 1` pieces would exclude, however it is
/// chosen: no stretch has n-grams of two pieces, since those are at least three places apart, so `k` stretches leave one of `k + 1` pieces whole.
/// Where `w` has a character that normalization replaces, `m` does not have it, so an edit changes it; the same edits lead from `m` to the text
/// that has another character of the class there.
///
/// The proof does not need that U+FFFD is not used, nor literals which normalization changes and characters next to
/// which it might. Those rules keep plans within what FR-LSI-BLOOM-Q-01 says, in which patterns are normalized.
#[derive(Clone, Debug)]
pub struct SupersetSafe {
    grams: Vec<Gram>,
    root: AllOf,
    needs: Conjunction,
    reason: Option<Reason>,
    unused: Vec<Reason>,
    unused_parts: Vec<Chain>,
}

impl SupersetSafe {
    /// Plans the search for an expression in which case folding is spelled out, as classes such as
    /// `[kK]`. With `fold`, the search as a whole is without case, by [`FOLD`], and n-grams are tested in their
    /// folded form; the plan is safe either way, but excludes most with the fold of the search.
    ///
    /// Time and memory are linear in the expression but for products of alternatives and copies of
    /// repetitions, which are bounded.
    ///
    /// # Examples
    ///
    /// ```
    /// use forge_search::index::plan::{Strategy, SupersetSafe};
    ///
    /// let hir = regex_syntax::parse("kmalloc_array|kvmalloc_node")?;
    /// let plan = SupersetSafe::for_expression(&hir, false, Strategy::Boolean);
    /// assert_eq!(plan.describe().to_string(), r#""kmalloc_array" or "kvmalloc_node""#);
    /// let plan = SupersetSafe::for_expression(&hir, false, Strategy::RequiredLiteral);
    /// assert!(plan.keeps_everything());
    /// # Ok::<(), Box<regex_syntax::Error>>(())
    /// ```
    pub fn for_expression(hir: &Hir, fold: bool, strategy: Strategy) -> SupersetSafe {
        if !hir.properties().is_utf8() {
            let reasons = vec![Reason::InvalidUtf8];
            return SupersetSafe::new(Conjunction::new(), reasons, Unused::default());
        }
        let mut analysis = Analysis::new(fold, strategy);
        let needs = analysis.requirements(hir);
        let plan = SupersetSafe::new(needs, analysis.reasons(), analysis.into_unused());
        if plan.keeps_everything()
            && strategy == Strategy::RequiredLiteral
            && !SupersetSafe::for_expression(hir, fold, Strategy::Boolean).keeps_everything()
        {
            let reasons = vec![Reason::Strategy];
            return SupersetSafe::new(Conjunction::new(), reasons, Unused::default());
        }
        plan
    }

    /// Plans the search for what is within `edits` edits of what an expression matches, as
    /// [`SupersetSafe::for_expression`] does for what it matches (FR-LSI-CAND-FZ-01). Any engine may be asked whose edits insert, take
    /// away or change one character of the pattern each.
    pub fn nearly(hir: &Hir, fold: bool, strategy: Strategy, edits: u32) -> SupersetSafe {
        let free = |reason| SupersetSafe::new(Conjunction::new(), vec![reason], Unused::default());
        if !hir.properties().is_utf8() {
            return free(Reason::InvalidUtf8);
        }
        let mut unused = Unused::default();
        match nearly::requirements(hir, fold, strategy, edits, &mut unused) {
            Ok(needs) => SupersetSafe::new(needs, Vec::new(), unused),
            Err(Free::Edits) if unused.normalization => free(Reason::Normalization),
            Err(Free::Edits) => free(Reason::Edits),
            Err(Free::TooManyNgrams) => free(Reason::TooManyNgrams),
            Err(Free::Strategy) => free(Reason::Strategy),
        }
    }

    /// Plans the search for a text, without case by [`FOLD`] if `fold` is set.
    pub fn for_literal(text: &str, fold: bool) -> SupersetSafe {
        SupersetSafe::for_expression(&Hir::literal(text.as_bytes()), fold, Strategy::default())
    }

    /// Builds the plan of requirements that hold in every file with a match.
    fn new(needs: Conjunction, mut unused: Vec<Reason>, parts: Unused) -> SupersetSafe {
        let mut allowance = Allowance {
            path_grams: MAX_PATH_GRAMS,
            unused: parts,
        };
        let needs = need::settle(needs, &mut allowance);
        if allowance.unused.wide && !unused.contains(&Reason::TooManyNgrams) {
            unused.push(Reason::TooManyNgrams);
        }
        let mut parts = allowance.unused.parts;
        parts.retain(|part| !need::is_used(&needs, part));
        let mut compiler = Compiler::default();
        let root = compiler.all_of(&needs);
        let reason = needs
            .is_empty()
            .then(|| unused.first().copied().unwrap_or(Reason::NoLiteral));
        // That short or optional parts exclude nothing surprises nobody.
        unused.retain(|unused| {
            reason.is_none() && !matches!(unused, Reason::TooShort | Reason::Alternatives)
        });
        SupersetSafe {
            grams: compiler.into_grams(),
            root,
            unused_parts: match reason {
                None => parts,
                Some(_) => Vec::new(),
            },
            needs,
            reason,
            unused,
        }
    }

    /// Returns the n-grams that the plan refers to by number, each once.
    pub fn grams(&self) -> &[Gram] {
        &self.grams
    }

    /// Returns true if no file is excluded; then [`SupersetSafe::reason`] says why.
    pub fn keeps_everything(&self) -> bool {
        self.root.is_free()
    }

    /// Returns why no file is excluded, if none is.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns the most n-grams that an evaluation can test in one block.
    pub fn cost(&self) -> usize {
        self.root.cost()
    }

    /// Lets evaluations test what few files hold before what many do. `frequency` estimates how many files hold an
    /// n-gram; it is asked once for each. What costs about the same is ordered by it, ties by the n-grams
    /// themselves, so equal estimates give equal plans.
    pub fn order_by(&mut self, frequency: impl FnMut(Gram) -> u32) {
        let frequencies: Vec<u32> = self.grams.iter().copied().map(frequency).collect();
        self.root.order_by(&frequencies, &self.grams);
    }

    /// Returns the files of `live` that may match, in one block.
    ///
    /// Asks `rows` for one n-gram after the other and stops when no file is left; alternatives are tested only
    /// for files that no earlier one has kept. At most [`SupersetSafe::cost`] questions, each with an
    /// operation on 512 bits. Allocates nothing once `scratch` has seen a block of this plan.
    #[inline]
    pub fn evaluate(&self, rows: &mut impl BlockRows, live: Mask, scratch: &mut Scratch) -> Mask {
        self.root.evaluate(rows, live, scratch)
    }

    /// Describes the plan for people and programs.
    pub fn describe(&self) -> PlanDescription {
        PlanDescription {
            requires: (!self.needs.is_empty()).then(|| Requirement::new(&self.needs)),
            reason: self.reason,
            unused: self.unused.clone(),
            unused_parts: self.unused_parts.iter().map(|part| texts(part)).collect(),
            ngrams: self.grams.len(),
        }
    }
}

#[cfg(test)]
mod tests;
