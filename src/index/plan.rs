//! Query plans: the n-grams that a file must contain for an expression to match in it.
//!
//! `exec` builds a plan, a [`SupersetSafe`], from the parsed expression, for each decision on an
//! index. The index evaluates the plan over blocks of up to 512 files and returns candidates: a
//! superset of the files with a match. This module owns the analysis of the expression, the plan
//! and its evaluation. It does not know how n-grams are stored, which files are searched, or what a
//! request is.
//!
//! The steps: `analysis` (exact matches) and `approx` (approximate matches) turn an expression into
//! chains, which are sequences of small character sets. `path` turns chains into requirements on a
//! file, and `requirement` simplifies these. `evaluate` compiles requirements and tests them
//! against the rows of a block; `describe` prints them.

mod analysis;
mod approx;
mod char_seq;
mod describe;
mod evaluate;
pub(crate) mod literals;
mod mask;
mod path;
mod requirement;

use std::fmt;

use regex_syntax::hir::Hir;
use serde::{Serialize, Serializer};

use crate::format::choices::choices;
use crate::index::casefold::Casefold;
use crate::index::gram::Gram;
use crate::index::plan::analysis::Analysis;
use crate::index::plan::approx::NoRequirement;
use crate::index::plan::char_seq::CharSeq;
use crate::index::plan::describe::texts;
use crate::index::plan::evaluate::{AllOf, Compiler};
use crate::index::plan::path::UnusedParts;
use crate::index::plan::requirement::{Allowance, Conjunction};

pub use describe::{PlanDescription, Requirement};
pub use evaluate::{BlockRows, Scratch};
pub use mask::{BLOCK_FILES, Mask};

/// The case folding of case-insensitive search, and of the folded n-grams in the index.
pub const FOLD: Casefold = Casefold::Ascii;

/// Limit on the n-grams of all paths in a plan. Testing more than that in each block costs about as
/// much as searching some of its files.
const MAX_PATH_GRAMS: usize = 1 << 14;

choices! {
    /// The parts of an expression that a plan uses (`index_regex_strategy`).
    #[derive(Default)]
    Strategy {
        /// Literals that are part of every match. Optional parts, repetitions of
        /// unknown length and alternatives are not used.
        #[default]
        RequiredLiteral = "required_literal",
        /// Literals, alternatives of literals, and small character classes.
        Boolean = "boolean",
    }
}

/// Why a plan keeps every file, or why it does not use a part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The expression can match bytes that are not valid UTF-8.
    InvalidUtf8,
    /// [`Strategy::RequiredLiteral`] can exclude no file; [`Strategy::Boolean`] might.
    Strategy,
    /// A literal contains a carriage return or a line feed.
    LineBreak,
    /// Normalization changes a literal.
    Normalization,
    /// A literal contains U+FFFD, which also stands for invalid bytes.
    ReplacementCharacter,
    /// One of the alternatives, or the absence of an optional part, requires nothing.
    Alternatives,
    /// Character classes or alternatives stand for too many n-grams.
    TooManyNgrams,
    /// Literals are shorter than an n-gram, three characters.
    TooShort,
    /// The expression has no literal.
    NoLiteral,
    /// The allowed edits can change all n-grams of a match.
    Edits,
}

impl Reason {
    /// Returns the explanation for a part that is not used while other parts are.
    pub fn of_part(self) -> &'static str {
        match self {
            Reason::InvalidUtf8 => {
                "parts that can match invalid UTF-8 are not tested, because the index does not \
                 cover it"
            }
            Reason::Strategy => {
                "only literals are tested; index_regex_strategy = \"boolean\" would test more"
            }
            Reason::LineBreak => "no n-gram with a carriage return or line feed is tested",
            Reason::Normalization => {
                "a literal that Unicode normalization (NFC) changes is not tested; write it in \
                 composed form"
            }
            Reason::ReplacementCharacter => {
                "no n-gram with U+FFFD is tested, because U+FFFD also stands for invalid bytes"
            }
            Reason::Alternatives => {
                "alternatives and optional parts that require no three characters in a row are not tested"
            }
            Reason::TooManyNgrams => "some parts stand for too many n-grams to be worth testing",
            Reason::TooShort => "parts of fewer than three characters are not tested",
            Reason::NoLiteral => "parts without a fixed character are not tested",
            Reason::Edits => "parts that the allowed edits can change are not tested",
        }
    }

    /// Returns the name in machine-readable output.
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
                "the expression can match invalid UTF-8, which the index does not cover"
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
                "an alternative, or the expression without an optional part, requires no three \
                 characters in a row"
            }
            Reason::TooManyNgrams => {
                "its character classes or alternatives stand for too many n-grams to exclude anything"
            }
            Reason::TooShort => {
                "no three characters in a row are part of every match; search for something longer"
            }
            Reason::NoLiteral => "no character is certain to be part of a match",
            Reason::Edits => {
                "the allowed edits can change all n-grams of a match; allow fewer edits, or search \
                 for something longer"
            }
        })
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A plan that keeps every file in which its expression matches.
///
/// Plans come only from the constructors below, for example [`SupersetSafe::for_expression`]. The
/// following proof shows that these plans are safe; no public function builds a plan from parts.
///
/// # Assumptions
///
/// Let `S` be the set that the index holds for a part of a file: of some whole lines, or of the
/// whole file. The caller excludes a part if the plan rejects its `S`, and a file if all its parts
/// are excluded. It does so only if
///
/// 1. the file is unchanged since all of its text was tokenized, normalization does not change that
///    text, and the file has no byte-order mark of UTF-16 or UTF-32
///    ([`Tokens::excludable`](crate::index::token::Tokens));
/// 2. `S` has each n-gram of the text of the part, with CRLF replaced by LF, **and the fold of each
///    n-gram** by [`FOLD`], except n-grams with a line feed; lookups in `S` have no false
///    negatives;
/// 3. the matcher matches the given expression, or a more special one: assertions and word
///    boundaries only remove matches. If the matcher ignores case, the expression spells that out
///    as classes.
///
/// # Proof
///
/// Let `m` be a match in such a file. `m` lies in one line, and so in one part. The expression
/// matches only valid UTF-8, otherwise nothing is excluded. Lossy decoding keeps valid sequences,
/// and normalization changes nothing. So `m` is in the tokenized text of that part, except that
/// carriage returns may be missing there.
///
/// *Analysis.* By induction over the expression, one of two statements holds. `Exact`: `m` is a
/// text of one of the chains. `Inexact`: `m` begins with a text of one of the first chains, ends
/// with a text of one of the last chains, and the file fulfils the requirements. By kind of
/// expression:
///
/// - A literal or a class stands for itself. A class loses the characters that normalization
///   replaces, which by 1 do not occur in the file.
/// - A sequence is the product of its chains. If the product is too large, its factors and the
///   n-grams across their border are required instead; each occurs in `m`.
/// - Of alternatives, one applies. Hence the chains are united and the requirements are a
///   disjunction.
/// - A repetition begins and ends with its least number of copies.
/// - Everything else, including parts that a limit or rule forbids to use, stands for any text.
///
/// *Chains.* If a text of a chain occurs, so does a text of each part of the chain. No position can
/// be a carriage return or a line feed, so the occurrence is contiguous in the tokenized text, and
/// each of its n-grams is in `S`. Without case, positions hold folds, and the fold of each n-gram
/// is in `S`. With case, a chain is replaced by its fold only if it holds the fold of each of its
/// characters. Then the folded text is a text of the chain, and the fold of each n-gram is in `S`.
///
/// *Evaluation.* A literal requires its n-grams. A path requires all n-grams of *one* of its texts.
/// The path search tests that exactly, or in parts where the path was cut at two single characters.
/// Conjunctions and disjunctions are intersections and unions of sets of files. Dropping a
/// requirement only keeps more files.
///
/// *Edits* ([`SupersetSafe::nearly`]). Let `m` be within `k` edits of a text `w` of the expression,
/// and fix a way to edit `w` into `m`. `w` has the runs of one of the spines, in order. Each edit
/// inserts, deletes or substitutes one character. A substitution or deletion changes at most the
/// three n-grams of one run that contain the character. An insertion changes the two n-grams that
/// span its place. Either way, these n-grams are consecutive. All other n-grams have their three
/// characters side by side in `m`, and so they are in `S`, as above.
///
/// So `k` stretches of three consecutive n-grams, each within one run, cover all n-grams that `S`
/// lacks. The evaluation tests exactly that: for each place and number of edits, it derives the set
/// of files from the sets of earlier places. This test is at least as strict as splitting the
/// pattern into `k + 1` pieces of which one must occur. N-grams of two pieces are at least three
/// places apart. So no stretch has n-grams of both, and `k` stretches leave one piece whole.
///
/// If `w` has a character that normalization replaces, `m` does not have it, so an edit changes it.
/// The same edits lead to `m` from the text that has another character of the class at that place.
///
/// The proof does not depend on three rules: U+FFFD is not used, literals that normalization
/// changes are not used, and characters next to a possible change are not used. These rules keep
/// plans within the specified ones, for which patterns are normalized.
#[derive(Clone, Debug)]
pub struct SupersetSafe {
    grams: Vec<Gram>,
    root: AllOf,
    needs: Conjunction,
    reason: Option<Reason>,
    unused: Vec<Reason>,
    unused_parts: Vec<CharSeq>,
}

impl SupersetSafe {
    /// Plans the search for an expression.
    ///
    /// Case folding must be spelled out in `hir`, as classes such as `[kK]`. `fold` says that the
    /// whole search ignores case by [`FOLD`], so that n-grams are tested in their folded form. The
    /// plan is safe with either value, but excludes most files if `fold` is that of the search.
    ///
    /// Time and memory are linear in the expression, except for products of alternatives and copies
    /// of repetitions, which are bounded.
    ///
    /// # Examples
    ///
    /// ```
    /// use forge_search::internal::index::plan::{Strategy, SupersetSafe};
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
            return SupersetSafe::new(Conjunction::new(), reasons, UnusedParts::default());
        }
        let mut analysis = Analysis::new(fold, strategy);
        let needs = analysis.requirements(hir);
        let plan = SupersetSafe::new(needs, analysis.reasons(), analysis.into_unused());
        if plan.keeps_everything()
            && strategy == Strategy::RequiredLiteral
            && !SupersetSafe::for_expression(hir, fold, Strategy::Boolean).keeps_everything()
        {
            let reasons = vec![Reason::Strategy];
            return SupersetSafe::new(Conjunction::new(), reasons, UnusedParts::default());
        }
        plan
    }

    /// Plans a fuzzy search: for texts within `edits` edits of a match of the expression.
    ///
    /// The plan is safe for every engine in which an edit inserts, deletes or substitutes one
    /// character of the pattern. The other parameters are those of
    /// [`SupersetSafe::for_expression`].
    pub fn nearly(hir: &Hir, fold: bool, strategy: Strategy, edits: u32) -> SupersetSafe {
        let free =
            |reason| SupersetSafe::new(Conjunction::new(), vec![reason], UnusedParts::default());
        if !hir.properties().is_utf8() {
            return free(Reason::InvalidUtf8);
        }
        let mut unused = UnusedParts::default();
        match approx::requirements(hir, fold, strategy, edits, &mut unused) {
            Ok(needs) => SupersetSafe::new(needs, Vec::new(), unused),
            Err(NoRequirement::Edits) if unused.normalization => free(Reason::Normalization),
            Err(NoRequirement::Edits) => free(Reason::Edits),
            Err(NoRequirement::TooManyNgrams) => free(Reason::TooManyNgrams),
            Err(NoRequirement::Strategy) => free(Reason::Strategy),
        }
    }

    /// Plans the search for a text, ignoring case by [`FOLD`] if `fold` is set.
    pub fn for_literal(text: &str, fold: bool) -> SupersetSafe {
        SupersetSafe::for_expression(&Hir::literal(text.as_bytes()), fold, Strategy::default())
    }

    /// Builds the plan from requirements that every file with a match fulfils.
    fn new(needs: Conjunction, mut unused: Vec<Reason>, parts: UnusedParts) -> SupersetSafe {
        let mut allowance = Allowance {
            path_grams: MAX_PATH_GRAMS,
            unused: parts,
        };
        let needs = requirement::settle(needs, &mut allowance);
        if allowance.unused.wide && !unused.contains(&Reason::TooManyNgrams) {
            unused.push(Reason::TooManyNgrams);
        }
        let mut parts = allowance.unused.parts;
        parts.retain(|part| !requirement::is_used(&needs, part));
        let mut compiler = Compiler::default();
        let root = compiler.all_of(&needs);
        let reason = needs
            .is_empty()
            .then(|| unused.first().copied().unwrap_or(Reason::NoLiteral));
        // Users expect that short or optional parts exclude nothing, so these reasons are not
        // reported.
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

    /// Returns the distinct n-grams of the plan; [`BlockRows`] refers to them by position.
    pub fn grams(&self) -> &[Gram] {
        &self.grams
    }

    /// Returns true if the plan excludes no file; [`SupersetSafe::reason`] then says why.
    pub fn keeps_everything(&self) -> bool {
        self.root.is_free()
    }

    /// Returns why the plan excludes no file, or nothing if it can exclude files.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns the largest number of n-grams that an evaluation tests in one block.
    pub fn cost(&self) -> usize {
        self.root.cost()
    }

    /// Makes evaluations test rare n-grams before frequent ones.
    ///
    /// `frequency` estimates how many files hold an n-gram and is called once for each n-gram. Only
    /// tests of about the same cost are reordered. Ties are ordered by the n-grams themselves, so
    /// equal estimates give equal plans.
    pub fn order_by(&mut self, frequency: impl FnMut(Gram) -> u32) {
        let frequencies: Vec<u32> = self.grams.iter().copied().map(frequency).collect();
        self.root.order_by(&frequencies, &self.grams);
    }

    /// Returns the files of `live` that may match, in one block.
    ///
    /// Queries `rows` for one n-gram after the other and stops when no file is left. Alternatives
    /// are tested only for files that no earlier alternative has kept. The cost is at most
    /// [`SupersetSafe::cost`] queries, each with an operation on 512 bits. Once `scratch` has been
    /// used for a block of this plan, the evaluation allocates nothing.
    #[inline]
    pub fn evaluate(&self, rows: &mut impl BlockRows, live: Mask, scratch: &mut Scratch) -> Mask {
        self.root.evaluate(rows, live, scratch)
    }

    /// Describes the plan for human-readable and machine-readable output.
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
