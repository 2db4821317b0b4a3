//! The terms of a question.

use memchr::memmem;

use super::stem::stem;
use super::words::{Names, capital, each_part, letters, push_folded};

/// Bytes of a question, at most.
pub const MAX_QUERY_BYTES: usize = 4096;

/// Terms of a question that count, the first ones.
pub const MAX_TERMS: usize = 32;

/// Bytes below which a term says too little to look for files by it, if there are longer ones.
const WEAK: usize = 3;

/// Words that say nothing about a file. The last line has those that every question about code may
/// have.
const STOP_WORDS: &str = "a an and are as at be been but by can could did do does each for from had has have how i if in into is it \
     its of on or our over per so such than that the their them then there these they this those through to up using via vs was \
     we were what when where whether which while who why will with within without would you your between not no all any \
     used use uses implementation implement implemented implements handle handles handled handling code file files function \
     functions class classes method methods work works working support supports supported defined define defines based different";

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
    /// The parts of a whole name that has several. Empty for a part.
    parts: Vec<Vec<u8>>,
    /// How often the question has it.
    count: u32,
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
/// use forge_search::exec::rank::Terms;
///
/// let terms = Terms::new("How are open sockets retried by parseConfig?")?;
/// assert_eq!(terms.words(), ["open", "socket", "retri", "parseconfig", "pars", "config"]);
/// # Ok::<(), forge_search::exec::rank::TermsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Terms {
    terms: Vec<Term>,
    words: Vec<String>,
    left_out: usize,
    /// The question itself, where it has no letters.
    literal: Option<memmem::Finder<'static>>,
    begins: Begins,
    names: QueryNames,
}

/// Names that a question may be about, to compare with those that are defined.
#[derive(Clone, Debug, Default)]
struct QueryNames {
    /// The last name of a question that is one, qualified or not: `open` of `File::open`.
    symbol: Option<Vec<u8>>,
    /// Names with capitals or underscores in a question of several words.
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

/// The first two bytes of parts that can be terms: a quick way to pass over nearly all others.
#[derive(Clone, Debug)]
struct Begins(Box<[u64; 1024]>);

impl Begins {
    fn none() -> Begins {
        Begins(Box::new([0; 1024]))
    }

    fn key(first: u8, second: u8) -> (usize, u64) {
        let key =
            usize::from(first.to_ascii_lowercase()) << 8 | usize::from(second.to_ascii_lowercase());
        (key / 64, 1 << (key % 64))
    }

    fn add(&mut self, prefix: &[u8]) {
        let seconds = match prefix {
            [] => return,
            [_] => 0..=255,
            [_, second, ..] => *second..=*second,
        };
        for second in seconds {
            let (at, bit) = Begins::key(prefix[0], second);
            self.0[at] |= bit;
        }
    }

    /// Whether a part may be a term. Always true for parts that do not begin with ASCII.
    fn may(&self, part: &[u8]) -> bool {
        let (first, second) = match part {
            [] => return false,
            [first] => (*first, 0),
            [first, second, ..] => (*first, *second),
        };
        if !first.is_ascii() || !second.is_ascii() {
            return true;
        }
        let (at, bit) = Begins::key(first, second);
        self.0[at] & bit != 0
    }
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
        let names: Vec<&[u8]> = Names::of(query.as_bytes())
            .map(|name| &query.as_bytes()[name])
            .collect();
        let mut terms = Vec::new();
        for name in &names {
            add_name(name, true, &mut terms);
        }
        if terms.is_empty() {
            for name in &names {
                add_name(name, false, &mut terms);
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
                parts: Vec::new(),
                count: 1,
            });
        }
        let left_out = terms.len().saturating_sub(MAX_TERMS);
        terms.truncate(MAX_TERMS);
        let mut begins = Begins::none();
        for term in &terms {
            match term.parts.first() {
                Some(part) => begins.add(part),
                None => begins.add(prefix(&term.text).as_bytes()),
            }
        }
        Ok(Terms {
            words: terms.iter().map(|term| term.text.clone()).collect(),
            names: QueryNames::of(query, &names),
            terms,
            left_out,
            literal,
            begins,
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

    /// Returns an expression that matches some line of every text that has one of the terms that
    /// are looked for, if ASCII letters compare without case. It matches lines of other texts, too.
    pub fn expression(&self) -> String {
        let wanted = self.wanted();
        let terms = self.terms.iter().enumerate();
        let wanted = terms.filter(|(term, _)| wanted >> term & 1 == 1);
        let expressions: Vec<String> = wanted.map(|(_, term)| self.expression_of(term)).collect();
        expressions.join("|")
    }

    fn expression_of(&self, term: &Term) -> String {
        if self.literal.is_some() {
            return regex_syntax::escape(&term.text);
        }
        if term.parts.is_empty() {
            return folded_expression(prefix(&term.text));
        }
        let parts: Vec<String> = term
            .parts
            .iter()
            .map(|part| folded_expression(&String::from_utf8_lossy(part)))
            .collect();
        parts.join("[_$]*")
    }

    /// Returns which terms files are looked for by: a bit for each.
    pub(super) fn wanted(&self) -> u32 {
        let strong = |term: &Term| term.text.len() >= WEAK;
        let any = self.terms.iter().any(strong);
        let bits = self.terms.iter().enumerate();
        bits.fold(0, |bits, (at, term)| {
            bits | u32::from(!any || strong(term)) << at
        })
    }

    /// Returns which terms are parts of names rather than whole ones: a bit for each.
    pub(super) fn parts(&self) -> u32 {
        let bits = self.terms.iter().enumerate();
        let parts = bits.fold(0, |bits, (at, term)| {
            bits | u32::from(term.parts.is_empty()) << at
        });
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

    /// Calls `hit` for each place in a name that has a term: the term, and where in the name.
    /// `room` is used for intermediate results.
    pub(super) fn each_hit(
        &self,
        name: &[u8],
        room: &mut Vec<u8>,
        mut hit: impl FnMut(usize, std::ops::Range<usize>),
    ) {
        let joints = name.iter().take_while(|byte| is_joint(**byte)).count();
        if self.begins.may(&name[joints..]) {
            for (at, term) in self.terms.iter().enumerate() {
                if !term.parts.is_empty() && is_joined(name, &term.parts, room) {
                    hit(at, 0..name.len());
                }
            }
        }
        each_part(name, |part| {
            if let Some(term) = self.term_of(&name[part.clone()], room) {
                hit(term, part);
            }
        });
    }

    /// Returns the term that a part of a name is.
    pub(super) fn term_of(&self, part: &[u8], room: &mut Vec<u8>) -> Option<usize> {
        if !self.begins.may(part) {
            return None;
        }
        room.clear();
        push_folded(part, room);
        stem(room);
        let is_it = |term: &Term| term.parts.is_empty() && term.text.as_bytes() == &room[..];
        self.terms.iter().position(is_it)
    }

    /// Returns which terms a stem shares its beginning with, without being one of them: a bit for
    /// each.
    pub(super) fn near(&self, stem: &[u8]) -> u32 {
        let shares = |text: &[u8]| {
            text != stem
                && text.len() >= 4
                && stem.len() >= 4
                && (text.starts_with(stem) || stem.starts_with(text))
        };
        let terms = self.terms.iter().enumerate();
        terms.fold(0, |bits, (at, term)| {
            bits | u32::from(term.parts.is_empty() && shares(term.text.as_bytes())) << at
        })
    }

    /// Tells how far a defined name is one that the question asks for. `letters` are those of the
    /// name, without case.
    pub(super) fn match_name(&self, name: &[u8], letters: &[u8]) -> NameMatch {
        let names = &self.names;
        let symbol = names.symbol.as_deref();
        NameMatch {
            symbol: symbol == Some(name),
            symbol_folded: symbol.is_some_and(|symbol| symbol.eq_ignore_ascii_case(name)),
            embedded: names.embedded.iter().any(|one| one == name),
            joined: names.joined.iter().any(|one| one == letters),
        }
    }
}

impl QueryNames {
    fn of(query: &str, names: &[&[u8]]) -> QueryNames {
        if let [.., last] = names
            && is_symbol(query.trim())
        {
            return QueryNames {
                symbol: Some(last.to_vec()),
                ..QueryNames::default()
            };
        }
        let is_embedded = |name: &&&[u8]| {
            let has_mark = name
                .iter()
                .any(|byte| byte.is_ascii_uppercase() || *byte == b'_');
            name.len() >= 3 && has_mark && !matches!(**name, b"JSON" | b"HTTP" | b"API" | b"URL")
        };
        let folded: Vec<Vec<u8>> = names.iter().map(|name| letters(name)).collect();
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
        QueryNames {
            symbol: None,
            embedded: names
                .iter()
                .filter(is_embedded)
                .map(|name| name.to_vec())
                .collect(),
            joined,
        }
    }
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
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut has_pairs = false;
    let mut last_end = 0;
    each_part(name, |part| {
        has_pairs |= part.start < last_end;
        last_end = part.end;
        let mut folded = Vec::new();
        push_folded(&name[part], &mut folded);
        parts.push(folded);
    });
    if parts.len() > 1 && !has_pairs {
        let text = String::from_utf8_lossy(&parts.concat()).into_owned();
        add(text, parts.clone(), terms);
    }
    for mut part in parts {
        let is_stop_word = || {
            STOP_WORDS
                .split_whitespace()
                .any(|word| word.as_bytes() == part)
        };
        if without_stop_words && is_stop_word() {
            continue;
        }
        stem(&mut part);
        add(
            String::from_utf8_lossy(&part).into_owned(),
            Vec::new(),
            terms,
        );
    }
}

fn add(text: String, parts: Vec<Vec<u8>>, terms: &mut Vec<Term>) {
    match terms
        .iter_mut()
        .find(|term| term.text == text && term.parts == parts)
    {
        Some(term) => term.count += 1,
        None => terms.push(Term {
            text,
            parts,
            count: 1,
        }),
    }
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b'_' | b'$')
}

/// Whether a name consists of these parts, with nothing but joints between them.
fn is_joined(name: &[u8], parts: &[Vec<u8>], room: &mut Vec<u8>) -> bool {
    room.clear();
    push_folded(name, room);
    let mut rest = &room[..];
    for part in parts {
        let joints = rest.iter().take_while(|byte| is_joint(**byte)).count();
        match rest[joints..].strip_prefix(&part[..]) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.iter().all(|byte| is_joint(*byte))
}

/// Returns how all words with a stem begin.
///
/// English words change their last letters: `retri` stands for `retry`, too, `file` for `filing`,
/// and `sensibl` for
/// `sensibility`.
fn prefix(stem: &str) -> &str {
    if !stem.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return stem;
    }
    let stem = stem.strip_suffix(['e', 'i']).unwrap_or(stem);
    match stem.ends_with("bl") {
        true => &stem[..stem.len() - 1],
        false => stem,
    }
}

/// Returns an expression for a text without case, if ASCII letters compare without case anyway.
fn folded_expression(text: &str) -> String {
    let mut expression = String::new();
    for char in text.chars() {
        match capital(char).filter(|_| !char.is_ascii()) {
            Some(capital) => expression.extend(['[', char, capital, ']']),
            None => expression.push_str(&regex_syntax::escape(char.encode_utf8(&mut [0; 4]))),
        }
    }
    expression
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exec::matcher::LineMatcher;
    use crate::exec::pattern::Pattern;
    use crate::exec::query::Fold;
    use crate::exec::stop::Stop;

    fn words(query: &str) -> Vec<String> {
        Terms::new(query).unwrap().words().to_vec()
    }

    #[test]
    fn names_are_terms_as_a_whole_and_in_parts() {
        assert_eq!(words("parse_config"), ["parseconfig", "pars", "config"]);
        assert_eq!(words("Http2Server"), ["http2server", "http", "2", "server"]);
        assert_eq!(words("retries Retry retrying"), ["retri"]);
        assert_eq!(words("重试延迟"), ["重试", "试延", "延迟"]);
    }

    #[test]
    fn words_that_say_nothing_are_left_out_if_there_are_others() {
        assert_eq!(words("how does the file cache work"), ["cach"]);
        assert_eq!(words("how is it"), ["how", "is", "it"]);
        // A name of such words stays as a whole.
        assert_eq!(words("isFile"), ["isfile"]);
    }

    #[test]
    fn short_terms_are_looked_for_when_there_are_no_others() {
        let terms = Terms::new("io socket").unwrap();
        assert_eq!(terms.looked_for().collect::<Vec<_>>(), ["socket"]);
        assert_eq!(terms.expression(), "socket");
        let terms = Terms::new("io").unwrap();
        assert_eq!(terms.looked_for().collect::<Vec<_>>(), ["io"]);
        let terms = Terms::new(" -> ").unwrap();
        assert_eq!(terms.words(), ["->"]);
        assert_eq!(terms.expression(), r"\->");
        assert_eq!(
            Terms::new("Änderung isFile").unwrap().expression(),
            "[äÄ]nderung|is[_$]*file"
        );
    }

    #[test]
    fn blank_and_long_questions_are_refused() {
        assert_eq!(Terms::new(" \t\n").unwrap_err(), TermsError::Blank);
        let long = "x".repeat(MAX_QUERY_BYTES + 1);
        let error = Terms::new(&long).unwrap_err();
        assert_eq!(error, TermsError::TooLong(MAX_QUERY_BYTES + 1));
        assert!(Terms::new(&long[1..]).is_ok());
    }

    #[test]
    fn terms_beyond_the_limit_are_counted() {
        let letters = ["b", "c", "f", "g", "k", "m"];
        let name = |n: usize| format!("z{}{}", letters[n / 6], letters[n % 6]);
        let query: Vec<String> = (0..MAX_TERMS + 3).map(name).collect();
        let terms = Terms::new(&query.join(" ")).unwrap();
        assert_eq!((terms.words().len(), terms.left_out()), (MAX_TERMS, 3));
    }

    #[test]
    fn names_that_a_question_asks_for_are_told() {
        let asked = |query: &str, name: &str| {
            let name = name.as_bytes();
            Terms::new(query).unwrap().match_name(name, &letters(name))
        };
        assert!(asked("File::open", "open").symbol);
        assert!(!asked("File::open", "Open").symbol && asked("File::open", "Open").symbol_folded);
        assert!(asked("where is parse_config called", "parse_config").embedded);
        assert!(asked("retry delays of requests", "RetryDelay").joined);
        assert_eq!(asked("retry delay", "Retry"), NameMatch::default());
    }

    fn hits(query: &str, text: &str) -> Vec<(String, String)> {
        let terms = Terms::new(query).unwrap();
        let mut found = Vec::new();
        for name in Names::of(text.as_bytes()) {
            let name = &text[name];
            terms.each_hit(name.as_bytes(), &mut Vec::new(), |term, part| {
                found.push((terms.words()[term].clone(), name[part].to_string()));
            });
        }
        found
    }

    #[test]
    fn terms_are_found_in_every_form() {
        let pair = |term: &str, text: &str| (term.to_string(), text.to_string());
        assert_eq!(
            hits("retryDelay", "fn retries(retry_delay, RETRYDELAY)"),
            [
                pair("retri", "retries"),
                pair("retrydelay", "retry_delay"),
                pair("retri", "retry"),
                pair("delai", "delay"),
                pair("retrydelay", "RETRYDELAY"),
            ]
        );
        assert_eq!(hits("ärger", "ÄRGER"), [pair("ärger", "ÄRGER")]);
    }

    proptest! {
        #[test]
        fn words_begin_as_their_stems_say(word in "[a-z]{1,8}(s|es|ies|ed|ing|y|ly|bly|bility|ation|izer|ize|ful|ness|ment|e|ate|al|ical|ogy)?") {
            let mut stemmed = word.clone().into_bytes();
            stem(&mut stemmed);
            let stemmed = String::from_utf8(stemmed).unwrap();
            prop_assert!(word.starts_with(prefix(&stemmed)), "{} {}", word, stemmed);
        }

        #[test]
        fn the_expression_matches_every_text_with_a_hit(
            query in "(\\PC| |[a-zA-Z_]{1,6}){0,6}",
            text in "(\\PC| |[a-zA-Z_]{1,6}){0,8}",
            same: bool,
        ) {
            let Ok(terms) = Terms::new(&query) else { return Ok(()) };
            let text = if same { format!("{text} {}", query.to_uppercase()) } else { text };
            let wanted = terms.wanted();
            let mut any = false;
            for name in Names::of(text.as_bytes()) {
                terms.each_hit(&text.as_bytes()[name], &mut Vec::new(), |term, _| any |= wanted >> term & 1 == 1);
            }
            if any {
                let pattern = Pattern::compile(&terms.expression(), false, Fold::AsciiInsensitive, false).unwrap();
                let matcher = LineMatcher::new(&pattern).unwrap().worker(Stop::new());
                let found = matcher.find_in_line(text.as_bytes()).unwrap();
                prop_assert!(found.is_some(), "{:?} {:?}", terms.expression(), text);
            }
        }
    }
}
