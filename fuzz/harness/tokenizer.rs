//! Claims about any text and any needle:
//!
//! - The n-grams are those of the plain pipeline, for the whole text and for its parts.
//! - No plan for a needle excludes a file that contains the needle.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use forge_search::internal::format::storage::Storage;
use forge_search::internal::index::gram::{Gram, NGRAM_CHARS};
use forge_search::internal::index::plan::{
    BLOCK_FILES, BlockRows, FOLD, Mask, Scratch, SupersetSafe,
};
use forge_search::internal::index::segment::Segment;
use forge_search::internal::index::token::{TokenStatus, Tokenizer, Tokens, parts};
use unicode_normalization::UnicodeNormalization;

use super::assembled::{Asked, MAX_TEXT, Texts, assembled};

/// Stands for the needle in the text of an input. This makes matches likely.
const NEEDLE_HERE: u8 = 1;

/// The filler between the halves of a long text. It is longer than one part in a segment.
const FILLER: &[u8] = b"between the halves\n";
const FILLER_BYTES: usize = 34 << 10;

/// The number of files that a group needs so that common n-grams get direct rows.
const COMPANIONS: u32 = 64;

/// Reads a needle and a text, and checks all claims.
pub(crate) fn run(data: &[u8]) {
    let Some((options, rest)) = data.split_first_chunk() else {
        return;
    };
    let [flags, part, choice, at, chars] = *options;
    let input = Input::new(flags, choice, [at, chars], rest);
    // Short texts have short parts.
    let unit = if input.long { 256 } else { 1 };
    let parts = check_tokens(&input, (usize::from(part) + 1) * unit);
    input.check_exclusion(&parts);
}

/// The content of an input.
struct Input {
    text: Vec<u8>,
    needle: String,
    fixed: bool,
    fold: bool,
    word: bool,
    long: bool,
    companions: bool,
}

impl Input {
    /// Takes the needle from the text, or from the bytes before the first NUL byte, and changes it
    /// as `choice` says.
    fn new(flags: u8, choice: u8, [at, chars]: [u8; 2], rest: &[u8]) -> Input {
        let flag = |n: u8| flags & (1 << n) != 0;
        let (mut needle, mut text) = if flag(0) {
            let end = rest.iter().position(|byte| *byte == 0);
            let (needle, text) = rest.split_at(end.unwrap_or(rest.len()));
            let text = text.get(1..).unwrap_or_default();
            (String::from_utf8_lossy(needle).into_owned(), text.to_vec())
        } else {
            (drawn(rest, at, chars), rest.to_vec())
        };
        if flag(1) {
            let pieces: Vec<&[u8]> = text.split(|byte| *byte == NEEDLE_HERE).collect();
            text = pieces.join(needle.as_bytes());
        }
        // Slow variants are rare.
        let long = matches!(choice >> 3, 29 | 30);
        if long {
            let middle = text.len() / 2;
            let filler = FILLER.iter().copied().cycle().take(FILLER_BYTES);
            text.splice(middle..middle, filler);
        }
        needle = match choice % 8 {
            0 => needle.nfc().collect(),
            1 => needle.nfd().collect(),
            2 => needle.to_ascii_uppercase(),
            3 => needle.to_ascii_lowercase(),
            4 => needle.to_uppercase(),
            _ => needle,
        };
        Input {
            text,
            needle,
            fixed: flag(2),
            fold: flag(3),
            word: flag(4),
            long,
            companions: choice >> 3 == 31,
        }
    }

    /// Checks every plan for the needle with the file, by its parts and in a segment.
    fn check_exclusion(&self, parts: &Parts) {
        let asked = Asked {
            pattern: match self.fixed {
                true => self.needle.clone(),
                false => regex_syntax::escape(&self.needle),
            },
            fixed: self.fixed,
            word: self.word,
            fold: self.fold,
        };
        let Some(search) = asked.prepare() else {
            return;
        };
        let mut plans = search.plans();
        if !self.word {
            // Plan for the literal too, for every kind of pattern.
            plans.push(SupersetSafe::for_literal(&self.needle, self.fold));
        }
        plans.retain(|plan| !plan.keeps_everything());
        if plans.is_empty() {
            return;
        }
        let needed = search.finds(&self.text) || !self.word && self.holds_needle();
        let segment = self.segment();
        let file = segment.file(0).expect("a sound segment");
        // The segment has other, longer parts.
        if has_long_line(&self.text) {
            assert_eq!(file.excludable, parts.excludable);
        }
        for mut plan in plans {
            assert!(
                !needed || parts.kept_by(&plan),
                "{asked:?} is in a part that is left out"
            );
            let kept = segment.candidates(&plan).expect("a sound segment");
            segment.order(&mut plan).expect("a sound segment");
            let again = segment.candidates(&plan).expect("a sound segment");
            assert_eq!(kept, again, "the order of tests matters");
            assert!(
                !needed && file.excludable || kept.files().contains(0),
                "{asked:?} is in the file that is left out"
            );
            let spans = segment.spans(0, &kept).expect("a sound segment");
            if let Some(spans) = spans {
                // With these parts replaced by empty lines, no line matches.
                let mut rest = self.text.clone();
                for span in spans {
                    rest[span.start as usize..span.end as usize].fill(b'\n');
                }
                assert!(
                    !search.finds(&rest),
                    "{asked:?} is in a part of the file that is left out"
                );
            }
        }
    }

    /// Returns true if a line of the text contains the needle, byte for byte or with ASCII case
    /// ignored.
    fn holds_needle(&self) -> bool {
        let turned = |bytes: &[u8]| match self.fold {
            true => bytes.to_ascii_lowercase(),
            false => bytes.to_vec(),
        };
        let (text, needle) = (turned(&self.text), turned(self.needle.as_bytes()));
        let line_feed = needle.is_empty() || needle.contains(&b'\n');
        !line_feed && text.windows(needle.len()).any(|window| window == needle)
    }

    /// Builds the segment of the file, with companions if the input says so.
    fn segment(&self) -> Segment {
        let count = if self.companions { COMPANIONS } else { 1 };
        let mut texts = Texts::default();
        texts.dirs.push((PathBuf::new(), 0, 0..count));
        texts
            .files
            .push((0, OsString::from("0"), self.text.clone()));
        for n in 1..count {
            // Companions are pieces of the same text, so common n-grams get direct rows.
            let from = self.text.len() * n as usize / count as usize / 2;
            let text = self.text[from..].iter().take(300).copied().collect();
            texts.files.push((0, OsString::from(format!("{n}")), text));
        }
        let segment =
            Segment::open(Storage::from(assembled(&texts, FOLD))).expect("a sound segment");
        segment.verify().expect("a sound segment");
        segment
    }
}

/// Returns a needle from a line of `rest`.
fn drawn(rest: &[u8], at: u8, chars: u8) -> String {
    let from = rest.len() * usize::from(at) / 256;
    let line = rest[from..].split(|byte| *byte == b'\n').next();
    let chunks = line.unwrap_or_default().utf8_chunks();
    let valid = chunks
        .map(|chunk| chunk.valid())
        .find(|valid| !valid.is_empty());
    let valid = valid.unwrap_or_default().chars();
    valid.take(usize::from(chars)).collect()
}

/// The n-grams of a text, and of the folded text.
type Grams = [BTreeSet<Gram>; 2];

fn grams_of(tokens: &Tokens<'_>) -> Grams {
    [tokens.sensitive, tokens.insensitive].map(|list| {
        let grams: BTreeSet<Gram> = list.iter().collect();
        assert_eq!(grams.len(), list.len(), "an n-gram is listed twice");
        grams
    })
}

/// The n-grams of a text in parts.
struct Parts {
    status: TokenStatus,
    excludable: bool,
    /// True if each part was tokenized.
    complete: bool,
    grams: Vec<Grams>,
}

impl Parts {
    fn new(tokenizer: &mut Tokenizer, text: &[u8], part_bytes: usize) -> Parts {
        let mut grams = Vec::new();
        let (status, mut proves) = tokenizer.status(text);
        let mut any = false;
        for (start, part) in parts(text, part_bytes) {
            let start = start as usize;
            assert!(start == 0 || text[start - 1] == b'\n', "a part of a line");
            let tokens = proves.then(|| tokenizer.part(part)).flatten();
            proves = tokens.is_some();
            if let Some(tokens) = tokens {
                any |= tokens.excludable;
                grams.push(grams_of(&tokens));
            }
        }
        let excludable = proves && any;
        Parts {
            status,
            excludable,
            complete: proves,
            grams,
        }
    }

    /// Returns true if a plan keeps one of the parts, or if the file is not excludable.
    fn kept_by(&self, plan: &SupersetSafe) -> bool {
        !self.excludable
            || self.grams.iter().any(|grams| {
                let mut rows = Rows { plan, grams };
                let kept = plan.evaluate(&mut rows, Mask::FULL, &mut Scratch::default());
                kept.contains(BLOCK_FILES - 1)
            })
    }
}

/// Compares the n-grams of the text with those of its parts, and with those of the pipeline as it
/// is specified.
fn check_tokens(input: &Input, part_bytes: usize) -> Parts {
    let text = &input.text;
    let mut tokenizer = Tokenizer::new(FOLD, MAX_TEXT);
    let tokens = tokenizer.tokenize(text);
    let (status, excludable) = (tokens.status, tokens.excludable);
    let whole = grams_of(&tokens);
    // This overwrites the tokenizer's buffers.
    tokenizer.tokenize(input.needle.as_bytes());
    let parts = Parts::new(&mut tokenizer, text, part_bytes);
    assert_eq!(parts.status, status);
    match has_long_line(text) {
        true => assert_eq!(parts.excludable, excludable),
        false => assert!(!parts.excludable || excludable),
    }
    let again = tokenizer.tokenize(text);
    assert_eq!((again.status, again.excludable), (status, excludable));
    assert_eq!(grams_of(&again), whole);
    if status != TokenStatus::Full {
        assert!(!excludable && parts.grams.is_empty() && whole.iter().all(BTreeSet::is_empty));
        return parts;
    }
    if !input.long {
        let (expected, stable) = pipeline(text);
        assert_eq!(whole, expected, "not the n-grams of the pipeline");
        assert!(stable || !excludable, "normalization changes the text");
    }
    let within_lines = |grams: &BTreeSet<Gram>| -> BTreeSet<Gram> {
        let grams = grams.iter().copied();
        grams.filter(|gram| !gram.chars().contains(&'\n')).collect()
    };
    for (variant, whole) in whole.iter().enumerate() {
        let joined = parts.grams.iter().flat_map(|part| &part[variant]);
        let joined: BTreeSet<Gram> = joined.copied().collect();
        assert!(joined.is_subset(whole), "a part has an n-gram of its own");
        assert!(!parts.complete || within_lines(&joined) == within_lines(whole));
    }
    parts
}

/// Returns true if a line is long enough for an n-gram. Without such a line, every n-gram spans
/// lines, so the parts decide whether there are any.
fn has_long_line(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.any(|line| String::from_utf8_lossy(line).chars().count() >= NGRAM_CHARS)
}

/// Returns the n-grams, and whether normalization changes nothing. Decodes, normalizes, removes
/// carriage returns and folds the text, each step as a whole.
fn pipeline(text: &[u8]) -> (Grams, bool) {
    let decoded = String::from_utf8_lossy(text);
    let normal: String = decoded.nfc().collect();
    let stable = normal == decoded;
    let chars: Vec<char> = normal.replace("\r\n", "\n").chars().collect();
    let folded: Vec<char> = chars.iter().map(|c| FOLD.fold(*c)).collect();
    let grams = [chars, folded].map(|chars| {
        let windows = chars.windows(NGRAM_CHARS);
        windows
            .map(|window| Gram::new([window[0], window[1], window[2]]))
            .collect()
    });
    (grams, stable)
}

/// A full block of files with the same n-grams.
struct Rows<'a> {
    plan: &'a SupersetSafe,
    grams: &'a Grams,
}

impl BlockRows for Rows<'_> {
    fn mask(&mut self, gram: u32, within: &Mask) -> Mask {
        let gram = &self.plan.grams()[gram as usize];
        match self.grams.iter().any(|grams| grams.contains(gram)) {
            true => *within,
            false => Mask::EMPTY,
        }
    }
}
