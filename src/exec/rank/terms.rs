//! The terms of a ranked question.
//!
//! This module takes the question apart into names, parts of names and stems, by the rules of
//! [`words`](crate::index::words). For example, `How are open sockets retried by parseConfig?` has
//! the terms `open`, `socket`, `retri`, `parseconfig`, `pars` and `config`. Stop words are left
//! out, and only the first [`MAX_TERMS`] terms count.

use std::ops::Range;

use memchr::memmem;

use crate::index::words::asked::{AskedTerms, Beginnings};
use crate::index::words::forms::{self, FormKind, each_form, each_german, letters};
use crate::index::words::names::{Names, each_part, normal};

/// Bytes of a question, at most.
pub const MAX_QUERY_BYTES: usize = 4096;

/// Terms of a question that count, the first ones.
pub const MAX_TERMS: usize = 32;

/// Bytes below which a term says too little to look for files by it, if there are longer ones.
pub(super) const WEAK: usize = 3;

/// Letters that stems must share to be [near](Terms::near) to each other, at least.
const NEAR_LETTERS: usize = 4;

/// Words that say nothing about a file. The last lines have those that every question about code
/// may have, and those of questions in German and Russian.
const STOP_WORDS: &str = "a an and are as at be been but by can could did do does each for from had has have how i if in into is it \
     its of on or our over per so such than that the their them then there these they this those through to up using via vs was \
     we were what when where whether which while who why will with within without would you your between not no all any \
     used use uses implementation implement implemented implements handle handles handled handling code file files function \
     functions class classes method methods work works working support supports supported defined define defines based different \
     wo wie was wer wird werden wurde welche welcher welches wann warum der die das den dem des ein eine einen einem einer eines \
     und oder ist sind im am zum zur mit von für auf aus bei nach wenn man es er sie sich nicht auch wir ich \
     где как что какой какая какое какие когда почему зачем кто в во на и или из к ко с со у по о об от до за для при не ли \
     это этот эта мы я он она они чтобы если";

/// Why a question is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// It holds nothing to look for.
    #[error("the query is blank; give at least one word")]
    Blank,
    /// It is too long.
    #[error("the query has {0} bytes; at most {MAX_QUERY_BYTES} are allowed")]
    TooLong(usize),
}

/// One term of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// The stem of a part of a name; for a whole name, its parts without case, joined.
    text: String,
    /// It is a whole name of several parts.
    is_whole: bool,
    /// Other beginnings of words that have the term, without case.
    beginnings: Vec<Vec<u8>>,
    /// The term in a text.
    key: u32,
    /// Other forms: the term in a German text, and the name with its parts joined or apart.
    others: Vec<u32>,
    /// The terms with exactly these accents, if the question has some.
    exact: Vec<u32>,
    /// How often the question has it.
    count: u32,
}

impl Term {
    /// Returns the beginnings of the words of ASCII characters that have the term.
    fn beginnings(&self) -> impl Iterator<Item = &[u8]> {
        let others = self.beginnings.iter().map(Vec::as_slice);
        others.chain([self.text.as_bytes()]).map(unchanged)
    }
}

/// Returns the letters of a stem that every word with this stem has: `retri` stands for `retry`,
/// too.
fn unchanged(stem: &[u8]) -> &[u8] {
    match stem {
        [start @ .., b'e' | b'i'] => start,
        all => all,
    }
}

/// What a term of a text means for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// It is a term of the question.
    Term(usize),
    /// It is another form of a term of the question.
    Other(usize),
    /// It is a term of the question with the same accents.
    Exact(usize),
    /// It is the defined name that the question asks for.
    Symbol,
    /// It is that name but for case and underscores.
    SymbolFolded,
    /// It is a defined name that stands in the question among other words.
    Embedded,
    /// It is a defined name that joins adjacent words of the question.
    Joined,
}

/// The terms of a question, each once, in the order of their first appearance.
///
/// A word is taken apart where its case changes, and at underscores and digits; each part is
/// reduced to its English stem. A name with several parts is a term as a whole, too. Words that say
/// nothing, such as `the` and `function`, are left out if others are there. A question without
/// letters and digits, such as `->`, is one term as it stands. Letters compare without case.
///
/// # Examples
///
/// ```
/// use forge_search::internal::exec::rank::Terms;
///
/// let terms = Terms::new("How are open sockets retried by parseConfig?")?;
/// assert_eq!(terms.words(), ["open", "socket", "retri", "parseconfig", "pars", "config"]);
/// # Ok::<(), forge_search::internal::exec::rank::TermsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Terms {
    terms: Vec<Term>,
    words: Vec<String>,
    left_out: usize,
    /// The question itself, where it has no letters.
    literal: Option<memmem::Finder<'static>>,
    /// The terms of texts that matter, in ascending order.
    keys: Vec<Key>,
    /// The terms that files are looked for by: a bit for each.
    wanted: u32,
    /// All terms of texts that matter.
    asked: AskedTerms,
    /// The first letters of words in the name of a file that have a term or are near to one.
    in_file_names: Beginnings,
}

/// A term of texts that matters to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    key: u32,
    role: Role,
    /// The term of the whole name, for a defined name that the question asks for.
    whole: Option<u32>,
}

/// Names that a question may be about, to compare with those that are defined.
#[derive(Clone, Debug, Default)]
struct QueryNames {
    /// The last name of a question that is one, qualified or not: `open` of `File::open`.
    symbol: Option<Vec<u8>>,
    /// Names with capitals or underscores, and names written as code, among other words.
    embedded: Vec<Vec<u8>>,
    /// Two or three adjacent words, joined and without case.
    joined: Vec<Vec<u8>>,
}

/// How far a defined name is one that the question asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameMatch {
    /// It is the symbol.
    pub(super) symbol: bool,
    /// It is the symbol but for its case.
    pub(super) symbol_folded: bool,
    /// It is a name among other words.
    pub(super) embedded: bool,
    /// It is several words of the question, joined.
    pub(super) joined: bool,
}

impl Terms {
    /// Takes a question apart.
    ///
    /// # Errors
    ///
    /// [`TermsError::Blank`] for a question of blanks, [`TermsError::TooLong`] for one of more than
    /// [`MAX_QUERY_BYTES`].
    pub fn new(query: &str) -> Result<Terms, TermsError> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(TermsError::TooLong(query.len()));
        }
        let names: Vec<Range<usize>> = Names::of(query.as_bytes()).collect();
        let mut terms = Vec::new();
        for without_stop_words in [true, false] {
            // A question of nothing but stop words is about these.
            if terms.is_empty() {
                for name in &names {
                    let name = &query.as_bytes()[name.clone()];
                    add_name(name, without_stop_words, &mut terms);
                }
            }
        }
        let mut literal = None;
        if terms.is_empty() {
            let whole = query.trim();
            if whole.is_empty() {
                return Err(TermsError::Blank);
            }
            literal = Some(memmem::Finder::new(whole).into_owned());
            terms.push(Term {
                text: whole.to_string(),
                is_whole: true,
                beginnings: Vec::new(),
                key: 0,
                others: Vec::new(),
                exact: Vec::new(),
                count: 1,
            });
        }
        let left_out = terms.len().saturating_sub(MAX_TERMS);
        terms.truncate(MAX_TERMS);
        let names = QueryNames::of(query, names.get(..MAX_TERMS).unwrap_or(&names));
        let mut keys = match literal {
            Some(_) => Vec::new(),
            None => keys(&terms, &names),
        };
        keys.sort_unstable();
        keys.dedup();
        let beginnings = Beginnings::of(terms.iter().flat_map(Term::beginnings));
        Ok(Terms {
            words: terms.iter().map(|term| term.text.clone()).collect(),
            in_file_names: in_file_names(&terms, beginnings.clone()),
            asked: AskedTerms::new(
                keys.iter().map(|own| own.key),
                beginnings,
                names.letters().iter().map(Vec::as_slice),
            ),
            wanted: wanted(&terms),
            terms,
            left_out,
            literal,
            keys,
        })
    }

    /// Returns the terms: stems of parts, and whole names without case.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns how many terms beyond [`MAX_TERMS`] do not count.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the terms by which files are looked for: all that have three bytes, or all if none
    /// has. Shorter ones are in nearly every file, and count only for the order.
    pub fn looked_for(&self) -> impl Iterator<Item = &str> {
        let wanted = self.wanted();
        let words = self.words.iter().map(String::as_str).enumerate();
        words.filter_map(move |(term, word)| (wanted >> term & 1 == 1).then_some(word))
    }

    /// Returns an expression for the question itself, if it has no letters and digits. Other
    /// questions are looked up by their [keys](Terms::keys).
    pub fn expression(&self) -> Option<String> {
        let term = self.terms.first().filter(|_| self.literal.is_some())?;
        Some(regex_syntax::escape(&term.text))
    }

    /// Returns the terms of texts that matter to the question, in ascending order. A term that
    /// matters in two ways is there twice.
    pub fn keys(&self) -> impl Iterator<Item = u32> {
        self.keys.iter().map(|own| own.key)
    }

    /// Returns the terms of texts that matter, to count them in a text.
    pub fn asked(&self) -> &AskedTerms {
        &self.asked
    }

    /// Returns true if the question is a single name.
    pub fn is_symbol(&self) -> bool {
        self.keys()
            .enumerate()
            .any(|(nth, _)| matches!(self.role(nth), Some(Role::Symbol)))
    }

    /// Returns the role of the key at a place of [`Terms::keys`].
    pub(super) fn role(&self, nth: usize) -> Option<Role> {
        self.keys.get(nth).map(|own| own.role)
    }

    /// Returns the term of the whole name, for the key of a defined name that the question asks
    /// for.
    pub(super) fn whole_of(&self, nth: usize) -> Option<u32> {
        self.keys.get(nth).and_then(|own| own.whole)
    }

    /// Returns true if files are looked for by the key at a place of [`Terms::keys`].
    pub fn is_wanted(&self, nth: usize) -> bool {
        match self.role(nth) {
            Some(Role::Term(term) | Role::Other(term)) => self.wanted() >> term & 1 == 1,
            _ => false,
        }
    }

    /// Returns true if the question asks for a term in exactly these accents.
    pub(super) fn has_accents(&self, term: usize) -> bool {
        self.terms
            .get(term)
            .is_some_and(|term| !term.exact.is_empty())
    }

    /// Calls `role` for each role of a term of a text.
    fn each_role(&self, key: u32, mut role: impl FnMut(Role)) {
        let from = self.keys.partition_point(|own| own.key < key);
        let own = self.keys.get(from..).unwrap_or_default();
        let own = own.iter().take_while(|own| own.key == key);
        own.for_each(|own| role(own.role));
    }

    /// Returns which terms files are looked for by: a bit for each.
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Returns which terms are parts of names rather than whole ones: a bit for each.
    pub(super) fn parts(&self) -> u32 {
        let bits = self.terms.iter().enumerate();
        let parts = bits.fold(0, |bits, (at, term)| bits | u32::from(!term.is_whole) << at);
        match parts {
            // Nothing but whole names.
            0 => u32::MAX >> (32 - self.terms.len().clamp(1, 32)),
            parts => parts,
        }
    }

    /// Returns how often the question has each term.
    pub(super) fn counts(&self) -> impl Iterator<Item = u32> {
        self.terms.iter().map(|term| term.count)
    }

    /// Whether one of the terms is one of these stems.
    pub(super) fn has_any(&self, stems: &[&str]) -> bool {
        self.words.iter().any(|word| stems.contains(&word.as_str()))
    }

    /// Returns the question itself, where it has no letters and stands in texts as it is.
    pub(super) fn literal(&self) -> Option<&memmem::Finder<'static>> {
        self.literal.as_ref()
    }

    /// Calls `hit` for each term of a name: the term, and its range in the name. `is_german` says
    /// whether the name is from a German text.
    pub(super) fn each_hit(
        &self,
        name: &[u8],
        is_german: bool,
        mut hit: impl FnMut(usize, std::ops::Range<usize>),
    ) {
        let mut found: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
        let mut note = |key, at: std::ops::Range<usize>| {
            self.each_role(key, |role| {
                if let Role::Term(term) | Role::Other(term) = role {
                    found.push((term, at.clone()));
                }
            });
        };
        each_form(name, |form| note(form.key, form.at));
        if is_german {
            each_german(name, |form, at| {
                if let Some(form) = form {
                    note(form.key, at);
                }
            });
        }
        found.sort_unstable_by_key(|(term, at)| (at.start, *term));
        found.dedup();
        found.into_iter().for_each(|(term, at)| hit(term, at));
    }

    /// Returns which terms a text has: a bit for each.
    pub(crate) fn terms_in(&self, text: &[u8]) -> u32 {
        if let Some(literal) = &self.literal {
            return u32::from(literal.find(text).is_some());
        }
        let mut found = 0;
        let names = Names::of(text).map(|name| &text[name]);
        for name in names.filter(|name| self.asked.may_be_in(name)) {
            self.each_hit(name, false, |term, _| found |= 1 << term);
        }
        found
    }

    /// Returns false if certainly no word of a file's name has a term or is [near](Terms::near) to
    /// one.
    pub(super) fn may_name(&self, name: &[u8]) -> bool {
        self.in_file_names.may_begin(name)
    }

    /// Returns which terms a stem shares its beginning with, without being one of them: a bit for
    /// each.
    pub(super) fn near(&self, stem: &[u8]) -> u32 {
        let shares = |text: &[u8]| {
            text != stem
                && text.len() >= NEAR_LETTERS
                && stem.len() >= NEAR_LETTERS
                && (text.starts_with(stem) || stem.starts_with(text))
        };
        let terms = self.terms.iter().enumerate();
        terms.fold(0, |bits, (at, term)| {
            bits | u32::from(!term.is_whole && shares(term.text.as_bytes())) << at
        })
    }

    /// Returns how far a defined name is one that the question asks for.
    pub(super) fn match_name(&self, name: &[u8]) -> NameMatch {
        let mut asked = NameMatch::default();
        for key in [forms::defined(name), forms::whole(name)] {
            self.each_role(key, |role| match role {
                Role::Symbol => asked.symbol = true,
                Role::SymbolFolded => asked.symbol_folded = true,
                Role::Embedded => asked.embedded = true,
                Role::Joined => asked.joined = true,
                Role::Term(_) | Role::Other(_) | Role::Exact(_) => {}
            });
        }
        asked
    }
}

/// Returns the terms of texts that matter to a question.
fn keys(terms: &[Term], names: &QueryNames) -> Vec<Key> {
    let word = |key, role| Key {
        key,
        role,
        whole: None,
    };
    let defined = |key, role, whole| Key {
        key,
        role,
        whole: Some(whole),
    };
    let mut keys = Vec::new();
    for (nth, term) in terms.iter().enumerate() {
        keys.push(word(term.key, Role::Term(nth)));
        keys.extend(term.others.iter().map(|key| word(*key, Role::Other(nth))));
        keys.extend(term.exact.iter().map(|key| word(*key, Role::Exact(nth))));
    }
    if let Some(symbol) = &names.symbol {
        let whole = forms::whole(symbol);
        keys.push(defined(forms::defined(symbol), Role::Symbol, whole));
        keys.push(defined(whole, Role::SymbolFolded, whole));
    }
    for name in &names.embedded {
        keys.push(defined(
            forms::defined(name),
            Role::Embedded,
            forms::whole(name),
        ));
    }
    for letters in &names.joined {
        let whole = forms::joined(letters);
        keys.push(defined(whole, Role::Joined, whole));
    }
    keys
}

/// Returns which terms files are looked for by: a bit for each.
fn wanted(terms: &[Term]) -> u32 {
    let strong = |term: &Term| term.text.len() >= WEAK;
    let any = terms.iter().any(strong);
    let bits = terms.iter().enumerate();
    bits.fold(0, |bits, (at, term)| {
        bits | u32::from(!any || strong(term)) << at
    })
}

/// Returns the beginnings of the words that have a term or are [near](Terms::near) to one. `all`
/// are those of the words that have a term. Stems that are near share some letters, and a stem may
/// differ from its word in the last letter.
fn in_file_names(terms: &[Term], mut all: Beginnings) -> Beginnings {
    for term in terms {
        let text = term.text.as_bytes();
        if !term.is_whole && text.len() >= NEAR_LETTERS {
            all.add(&text[..NEAR_LETTERS - 1]);
        }
    }
    all
}

impl QueryNames {
    /// Returns the letters of all names, without case.
    fn letters(&self) -> Vec<Vec<u8>> {
        let names = self.symbol.iter().chain(&self.embedded).chain(&self.joined);
        names.map(|name| letters(name)).collect()
    }

    /// Takes the names at some places of a question.
    fn of(query: &str, names: &[Range<usize>]) -> QueryNames {
        let text = |name: &Range<usize>| &query.as_bytes()[name.clone()];
        let has_letters = |name: &[u8]| !letters(name).is_empty();
        if let [.., last] = names
            && is_symbol(query.trim())
            && has_letters(text(last))
        {
            return QueryNames {
                symbol: Some(text(last).to_vec()),
                ..QueryNames::default()
            };
        }
        let is_embedded = |place: &&Range<usize>| {
            let name = text(place);
            let is_mark = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
            name.len() >= 3
                && (name.iter().any(is_mark) || is_code(query, place))
                && has_letters(name)
                && !matches!(name, b"JSON" | b"HTTP" | b"API" | b"URL")
        };
        let folded: Vec<Vec<u8>> = names.iter().map(|name| letters(text(name))).collect();
        let mut joined: Vec<Vec<u8>> = Vec::new();
        for count in [2, 3] {
            for words in folded.windows(count) {
                let all = words.concat();
                if let Some(singular) = all.strip_suffix(b"s") {
                    joined.push(singular.to_vec());
                }
                joined.push(all);
            }
        }
        joined.retain(|letters| !letters.is_empty());
        QueryNames {
            symbol: None,
            embedded: names
                .iter()
                .filter(is_embedded)
                .map(|name| text(name).to_vec())
                .collect(),
            joined,
        }
    }
}

/// Whether the name at a place of a question is written as code: a member (`set` in `app.set`), a
/// call (`set()`), or a name in backticks.
fn is_code(query: &str, name: &Range<usize>) -> bool {
    let (before, after) = (&query[..name.start], &query[name.end..]);
    let marks = [".", "::", "->", "#"];
    let owner = marks.iter().find_map(|mark| before.strip_suffix(mark));
    let last = owner.and_then(|owner| owner.chars().next_back());
    after.starts_with('(')
        || before.ends_with('`') && after.starts_with('`')
        || last.is_some_and(|last| last.is_alphanumeric() || last == '_')
}

/// Whether a question is one name, which may be qualified: `open`, `File::open`, `Foo#bar`,
/// `empty?`.
fn is_symbol(query: &str) -> bool {
    let query = query.strip_suffix(['!', '?']).unwrap_or(query);
    let begins_well = |name: &str| {
        name.chars()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
    };
    let is_name = |name: &str| {
        begins_well(name)
            && name
                .chars()
                .all(|char| char.is_alphanumeric() || char == '_' || char == '$')
    };
    let parts = query
        .replace("::", ".")
        .replace("->", ".")
        .replace(['#', '\\'], ".");
    parts.split('.').all(is_name)
}

fn add_name(name: &[u8], without_stop_words: bool, terms: &mut Vec<Term>) {
    let mut all: Vec<Term> = Vec::new();
    let mut whole = None;
    each_form(name, |form| {
        let term = |is_whole| Term {
            text: String::from_utf8_lossy(form.text).into_owned(),
            is_whole,
            beginnings: Vec::new(),
            key: form.key,
            others: Vec::new(),
            exact: Vec::new(),
            count: 1,
        };
        match form.kind {
            FormKind::Plain | FormKind::Accented => all.push(term(false)),
            FormKind::Exact => {
                if let Some(last) = all.last_mut() {
                    last.exact.push(form.key);
                }
            }
            FormKind::Whole => whole = Some(term(true)),
        }
    });
    let mut nth = 0;
    each_german(name, |form, _| {
        if let (Some(term), Some(form)) = (all.get_mut(nth), form) {
            term.others.push(form.key);
            term.beginnings.push(form.stem.to_vec());
        }
        nth += 1;
    });
    let mut is_stop_word = Vec::new();
    let text = normal(name);
    each_part(&text, |part| {
        let part = letters(&text[part]);
        if let Some(term) = all.get_mut(is_stop_word.len()) {
            // A word of the question may be several parts of a name.
            term.others.push(forms::joined(&part));
            term.beginnings.push(part.clone());
        }
        is_stop_word.push(
            STOP_WORDS
                .split_whitespace()
                .any(|word| word.as_bytes() == part),
        );
    });
    if let Some(mut whole) = whole {
        // The name may be one part of others. The stem of a short name says too little: that of
        // `to_s` is `to`.
        let (part, stem) = forms::part(&whole.text);
        if stem.len() > WEAK {
            whole.others.push(part);
            whole.beginnings.push(stem);
        }
        add(whole, terms);
    }
    for (term, is_stop_word) in all.into_iter().zip(is_stop_word) {
        if !(without_stop_words && is_stop_word) {
            add(term, terms);
        }
    }
}

fn add(term: Term, terms: &mut Vec<Term>) {
    let known = terms
        .iter_mut()
        .find(|own| (own.key, own.is_whole) == (term.key, term.is_whole));
    match known {
        Some(own) => {
            own.count += 1;
            own.others.extend(term.others);
            own.exact.extend(term.exact);
            own.beginnings.extend(term.beginnings);
        }
        None => terms.push(term),
    }
}

#[cfg(test)]
mod tests;
