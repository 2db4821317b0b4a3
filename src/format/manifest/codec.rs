//! The encoding of each part of a manifest.
//!
//! This module owns the limits on lengths and counts. They are checked before a manifest is written
//! and when it is read, so that every published manifest can be read.

use super::{
    BloomParams, EligibilityInput, FileRef, IgnoreRules, InputKind, InputStat, KeyParts,
    MAX_DENY_PATTERNS, MAX_ID_BYTES, MAX_INPUTS, MAX_PATH_BYTES, Manifest, PublicationState,
    SegmentRef,
};
use crate::format::error::{FormatError, FormatErrorKind};
use crate::format::publish::{MAX_NAME_BYTES, is_plain_name};
use crate::format::wire::{Reader, Writer};

/// The least number of bytes of a text and of an input. A count is checked against them.
const MIN_TEXT: usize = 8;
const MIN_INPUT: usize = 8 + 1 + 40;

const A_PATH: &str = "the length of a path";
const AN_ID: &str = "the length of an identifier";
const A_NAME: &str = "the length of a file name";
const A_PATTERN: &str = "the length of a deny pattern";
const PATTERNS: &str = "the number of deny patterns";
const INPUTS: &str = "the number of eligibility inputs";

/// The number of segments that every manifest states, and the flag after the segment.
const ONE_SEGMENT: u64 = 1;
const NO_TOMBSTONES: bool = false;

/// Checks a length or count that is about to be written.
pub(super) fn limit(what: &'static str, found: usize, limit: usize) -> Result<(), FormatError> {
    if found <= limit {
        return Ok(());
    }
    Err(FormatError::over_limit(what, found as u64, limit as u64))
}

/// Checks a length that was read.
pub(super) fn readable(what: &'static str, found: usize, limit: usize) -> Result<(), FormatError> {
    if found <= limit {
        return Ok(());
    }
    Err(FormatError::too_large(what, found as u64, limit as u64))
}

impl Manifest {
    /// Checks that [`Manifest::decode`] will accept this manifest.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        self.key.check()?;
        if let Err(problem) = self.bloom.sound() {
            return Err(refused(problem));
        }
        plain_name(&self.segment).map_err(refused)?;
        limit(INPUTS, self.inputs.len(), MAX_INPUTS)?;
        for input in &self.inputs {
            limit(A_PATH, input.path.len(), MAX_PATH_BYTES)?;
        }
        Ok(())
    }
}

fn refused(problem: &'static str) -> FormatError {
    FormatError::new(FormatErrorKind::Refused { problem })
}

/// Checks the name of the segment's file.
fn plain_name(segment: &SegmentRef) -> Result<(), &'static str> {
    match is_plain_name(&segment.file.name) {
        true => Ok(()),
        false => Err("an index file has an invalid name"),
    }
}

fn rules(input: &mut Reader<'_>) -> Result<IgnoreRules, FormatError> {
    let rules = IgnoreRules::from_number(input.u8()?);
    rules.ok_or_else(|| input.inconsistent("the set of ignore rules is unknown"))
}

impl KeyParts {
    /// Returns the canonical encoding of the key, the input of the key's hash. Equal keys have
    /// equal bytes, and different keys have different bytes.
    pub fn encode_key(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.block(&self.root);
        out.bool(self.hidden);
        out.bool(self.follow);
        out.u8(self.rules as u8);
        out.block(self.backend_id.as_bytes());
        out.block(self.unicode_normalization.as_bytes());
        out.block(self.casefold.as_bytes());
        out.block(self.tokenizer_id.as_bytes());
        out.u32(self.ngram_chars);
        out.u64(self.max_tokenized_bytes);
        out.u64(self.deny_patterns.len() as u64);
        for pattern in &self.deny_patterns {
            out.block(pattern.as_bytes());
        }
        out.block(&self.global_excludes);
        out.block(&self.excludes_base);
        out.block(self.access.as_bytes());
        out.u32(self.schema_version);
        out.u32(self.implementation_version);
        out.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut input = Reader::new(bytes, "the key of the index");
        let key = Self {
            root: input.block(MAX_PATH_BYTES, A_PATH)?.to_vec(),
            hidden: input.bool()?,
            follow: input.bool()?,
            rules: rules(&mut input)?,
            backend_id: id(&mut input)?,
            unicode_normalization: id(&mut input)?,
            casefold: id(&mut input)?,
            tokenizer_id: id(&mut input)?,
            ngram_chars: input.u32()?,
            max_tokenized_bytes: input.u64()?,
            deny_patterns: patterns(&mut input)?,
            global_excludes: input.block(MAX_PATH_BYTES, A_PATH)?.to_vec(),
            excludes_base: input.block(MAX_PATH_BYTES, A_PATH)?.to_vec(),
            access: id(&mut input)?,
            schema_version: input.u32()?,
            implementation_version: input.u32()?,
        };
        input.finish()?;
        Ok(key)
    }

    fn check(&self) -> Result<(), FormatError> {
        limit(A_PATH, self.root.len(), MAX_PATH_BYTES)?;
        for text in [
            &self.backend_id,
            &self.unicode_normalization,
            &self.casefold,
            &self.tokenizer_id,
            &self.access,
        ] {
            limit(AN_ID, text.len(), MAX_ID_BYTES)?;
        }
        limit(PATTERNS, self.deny_patterns.len(), MAX_DENY_PATTERNS)?;
        for pattern in &self.deny_patterns {
            limit(A_PATTERN, pattern.len(), MAX_PATH_BYTES)?;
        }
        Ok(())
    }
}

fn id(input: &mut Reader<'_>) -> Result<String, FormatError> {
    Ok(input.text(MAX_ID_BYTES, AN_ID)?.to_owned())
}

fn patterns(input: &mut Reader<'_>) -> Result<Vec<String>, FormatError> {
    let count = input.count(MAX_DENY_PATTERNS, MIN_TEXT, PATTERNS)?;
    let mut pattern = || Ok(input.text(MAX_PATH_BYTES, A_PATTERN)?.to_owned());
    (0..count).map(|_| pattern()).collect()
}

impl BloomParams {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.bits);
        out.u32(self.hashes);
        out.u32(self.ngram_chars);
        out.u64(self.seed);
        out.u64(self.basis_ngrams);
        out.u64(self.target_fp_rate_bits);
        out.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut input = Reader::new(bytes, "the parameters of the filters");
        let parts = Self {
            bits: input.u64()?,
            hashes: input.u32()?,
            ngram_chars: input.u32()?,
            seed: input.u64()?,
            basis_ngrams: input.u64()?,
            target_fp_rate_bits: input.u64()?,
        };
        if let Err(problem) = parts.sound() {
            return Err(input.inconsistent(problem));
        }
        input.finish()?;
        Ok(parts)
    }

    /// Checks the parameters that computations divide by or loop over.
    fn sound(&self) -> Result<(), &'static str> {
        let rate = f64::from_bits(self.target_fp_rate_bits);
        if self.bits == 0 || self.hashes == 0 || self.ngram_chars == 0 || self.basis_ngrams == 0 {
            return Err("a parameter of the filters is 0");
        }
        // In this form, because NaN fails every comparison.
        if rate > 0.0 && rate < 1.0 {
            Ok(())
        } else {
            Err("the target rate of false positives is not between 0 and 1")
        }
    }
}

impl PublicationState {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.sequence);
        out.i64(self.created_ms);
        out.i64(self.updated_ms);
        out.u64(self.coverage_epoch);
        out.u64(self.enumeration_errors);
        out.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut input = Reader::new(bytes, "the state of the index");
        let state = Self {
            sequence: input.u64()?,
            created_ms: input.i64()?,
            updated_ms: input.i64()?,
            coverage_epoch: input.u64()?,
            enumeration_errors: input.u64()?,
        };
        input.finish()?;
        Ok(state)
    }
}

pub(super) fn encode_segment(segment: &SegmentRef) -> Vec<u8> {
    let mut out = Writer::new();
    out.u64(ONE_SEGMENT);
    out.block(segment.file.name.as_bytes());
    out.u64(segment.file.len);
    out.u64(segment.file.checksum);
    out.u64(segment.files);
    out.bool(NO_TOMBSTONES);
    out.into_bytes()
}

pub(super) fn decode_segment(bytes: &[u8]) -> Result<SegmentRef, FormatError> {
    let mut input = Reader::new(bytes, "the list of segments");
    if input.u64()? != ONE_SEGMENT {
        return Err(input.inconsistent("it does not name exactly one segment"));
    }
    let file = FileRef {
        name: input.text(MAX_NAME_BYTES, A_NAME)?.to_owned(),
        len: input.u64()?,
        checksum: input.u64()?,
    };
    let files = input.u64()?;
    if input.bool()? != NO_TOMBSTONES {
        return Err(input.inconsistent("the segment has a list of deleted files"));
    }
    let segment = SegmentRef { file, files };
    plain_name(&segment).map_err(|problem| input.inconsistent(problem))?;
    input.finish()?;
    Ok(segment)
}

pub(super) fn encode_inputs(inputs: &[EligibilityInput]) -> Vec<u8> {
    let mut out = Writer::new();
    out.u64(inputs.len() as u64);
    for input in inputs {
        out.block(&input.path);
        out.u8(input.stat.map_or(NOTHING, |stat| stat.kind as u8));
        // An absent input has the same bytes, all zero.
        let stat = input.stat.unwrap_or_default();
        out.u64(stat.size);
        out.i64(stat.mtime_ns);
        out.i64(stat.ctime_ns);
        out.u64(stat.dev);
        out.u64(stat.ino);
    }
    out.into_bytes()
}

/// The kind code of an absent input.
const NOTHING: u8 = 0;

pub(super) fn decode_inputs(bytes: &[u8]) -> Result<Vec<EligibilityInput>, FormatError> {
    let mut input = Reader::new(bytes, "the list of eligibility inputs");
    let count = input.count(MAX_INPUTS, MIN_INPUT, INPUTS)?;
    let mut inputs = Vec::with_capacity(count);
    for _ in 0..count {
        let path = input.block(MAX_PATH_BYTES, A_PATH)?.to_vec();
        let code = input.u8()?;
        let kind = InputKind::from_number(code);
        if kind.is_none() && code != NOTHING {
            return Err(input.inconsistent("an input has an unknown kind"));
        }
        let read = InputStat {
            kind: kind.unwrap_or_default(),
            size: input.u64()?,
            mtime_ns: input.i64()?,
            ctime_ns: input.i64()?,
            dev: input.u64()?,
            ino: input.u64()?,
        };
        let stat = kind.map(|_| read);
        if stat.is_none() && read != InputStat::default() {
            return Err(input.inconsistent("a missing input has a size or a time"));
        }
        inputs.push(EligibilityInput { path, stat });
    }
    input.finish()?;
    Ok(inputs)
}
