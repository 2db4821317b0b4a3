use proptest::prelude::*;

use super::*;
use crate::format::error::FormatErrorKind;

/// A manifest with a value in every field.
fn sample() -> Manifest {
    let file = |name: &str, len| FileRef {
        name: name.to_owned(),
        len,
        checksum: len ^ 0xfeed_beef,
    };
    Manifest {
        key: KeyParts {
            root: b"/home/\xff/tree".to_vec(),
            hidden: true,
            follow: false,
            rules: IgnoreRules::None,
            backend_id: "embedded@0.1".to_owned(),
            unicode_normalization: "NFC".to_owned(),
            casefold: "ASCII".to_owned(),
            tokenizer_id: "ngram-xxh64".to_owned(),
            ngram_chars: 3,
            max_tokenized_bytes: 1 << 20,
            deny_patterns: vec!["**/*.pem".to_owned(), "**/.ssh/**".to_owned()],
            global_excludes: b"/home/u/.config/git/ignore".to_vec(),
            excludes_base: b"/home/u/src".to_vec(),
            access: "uid=1000 gid=1000 groups=4,24 caps=".to_owned(),
            schema_version: 1,
            implementation_version: 7,
        },
        bloom: BloomParams {
            bits: 5_025_332,
            hashes: 7,
            ngram_chars: 3,
            seed: 0x9e37,
            basis_ngrams: 524_288,
            target_fp_rate_bits: 0.01_f64.to_bits(),
        },
        state: PublicationState {
            sequence: 12,
            created_ms: 1_700_000_000_000,
            updated_ms: -1,
            coverage_epoch: 3,
            enumeration_errors: 1,
        },
        segment: SegmentRef {
            file: file("segment-1.fsx", 4096),
            files: 10,
        },
        inputs: vec![
            EligibilityInput {
                path: b"/home/.git".to_vec(),
                stat: None,
            },
            EligibilityInput {
                path: b"/home/\xff/tree/.gitignore".to_vec(),
                stat: Some(InputStat {
                    kind: InputKind::File,
                    size: 17,
                    mtime_ns: 1_700_000_000_123_456_789,
                    ctime_ns: -5,
                    dev: 2049,
                    ino: 77,
                }),
            },
        ],
    }
}

fn decode(bytes: Vec<u8>) -> Result<Manifest, FormatError> {
    Manifest::decode(Storage::from(bytes))
}

#[test]
fn manifests_come_back() {
    for manifest in [sample(), minimal()] {
        let bytes = manifest.encode().unwrap();
        assert_eq!(decode(bytes.clone()).unwrap(), manifest);
        assert_eq!(manifest.encode().unwrap(), bytes, "not the same each time");
    }
}

/// A manifest with as little content as possible.
fn minimal() -> Manifest {
    Manifest {
        key: KeyParts::default(),
        bloom: sample().bloom,
        state: PublicationState::default(),
        segment: sample().segment,
        inputs: Vec::new(),
    }
}

/// The distance between the damaged offsets of a file: every byte, except under Miri.
const STEP: usize = if cfg!(miri) { 397 } else { 1 };

#[test]
fn every_truncation_is_noticed() {
    let bytes = sample().encode().unwrap();
    for len in (0..bytes.len()).step_by(STEP) {
        let error = decode(bytes[..len].to_vec()).unwrap_err();
        assert!(error.is_corrupt(), "{len}: {error}");
    }
}

#[test]
fn every_turned_bit_is_noticed() {
    let bytes = sample().encode().unwrap();
    for bit in (0..bytes.len() * 8).step_by(STEP) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = decode(damaged).unwrap_err();
        assert!(error.is_corrupt(), "bit {bit}: {error}");
    }
}

/// A manifest file with other bytes in one section, and matching checksums.
fn forge(id: u32, content: &[u8]) -> Vec<u8> {
    let bytes = minimal().encode().unwrap();
    let sound = Container::open(Storage::from(bytes), FileKind::Manifest, 1).unwrap();
    let mut out = Vec::new();
    let mut file = SectionWriter::new(&mut out, FileKind::Manifest, 1).unwrap();
    for other in sound.section_ids() {
        let kept = sound.section(other).unwrap().all().unwrap();
        let bytes = if other == id { content } else { kept };
        file.section(other, bytes).unwrap();
    }
    file.finish().unwrap();
    out
}

#[test]
fn a_newer_manifest_is_left_alone() {
    let mut out = Vec::new();
    SectionWriter::new(&mut out, FileKind::Manifest, MANIFEST_VERSION + 1)
        .unwrap()
        .finish()
        .unwrap();
    let error = decode(out).unwrap_err();
    let kind = error.kind();
    assert!(
        matches!(kind, FormatErrorKind::NewerVersion { found: 2, .. }),
        "{kind:?}"
    );
    assert!(!error.is_corrupt());
    assert!(error.to_string().contains("use the newer program"));
}

#[test]
fn other_files_are_no_manifest() {
    let write = |kind, ids: &[u32]| {
        let mut out = Vec::new();
        let mut file = SectionWriter::new(&mut out, kind, 1).unwrap();
        for id in ids {
            file.section(*id, b"").unwrap();
        }
        file.finish().unwrap();
        decode(out).unwrap_err()
    };
    let error = write(FileKind::Segment, &[]);
    let kind = error.kind();
    assert!(
        matches!(kind, FormatErrorKind::WrongKind { .. }),
        "{kind:?}"
    );
    for ids in [
        &[][..],
        &[1, 2, 3, 4],
        &[1, 2, 3, 5, 4],
        &[1, 2, 3, 4, 5, 6],
    ] {
        let error = write(FileKind::Manifest, ids);
        assert!(
            error.to_string().contains("not those of a manifest"),
            "{error}"
        );
    }
}

#[test]
fn content_that_lies_is_inconsistent() {
    let long = u64::MAX.to_le_bytes();
    let many = 4_000_000_u64.to_le_bytes();
    for id in section::KEY..=section::INPUTS {
        for content in [
            &[][..],
            &[1],
            &long,
            &many,
            &[0xff; 39],
            &[0; 41],
            &[0; 2000],
        ] {
            let error = decode(forge(id, content)).unwrap_err();
            assert!(error.is_corrupt(), "{id} {content:?}: {error}");
        }
    }
}

/// Changes one byte of a section in `sample`.
fn changed(id: u32, at: usize, value: u8) -> Result<Manifest, FormatError> {
    let sample = sample();
    let mut content = match id {
        section::KEY => sample.key.encode_key(),
        section::BLOOM => sample.bloom.encode(),
        section::SEGMENTS => codec::encode_segment(&sample.segment),
        _ => codec::encode_inputs(&sample.inputs),
    };
    content[at] = value;
    decode(forge(id, &content))
}

#[test]
fn each_field_is_checked() {
    let check = |id, at, value, needle: &str| {
        let error = changed(id, at, value).unwrap_err();
        assert!(error.is_corrupt());
        assert!(error.to_string().contains(needle), "{error}");
    };
    let root = 8 + sample().key.root.len();
    check(section::KEY, root, 2, "a flag is neither 0 nor 1");
    check(section::KEY, root + 3 + 8, 0xff, "not UTF-8");
    check(section::KEY, root + 3 + 1, 0xff, "length of an identifier");
    check(section::SEGMENTS, 0, 0, "exactly one segment");
    check(section::SEGMENTS, 0, 2, "exactly one segment");
    check(section::SEGMENTS, 16, b'/', "invalid name");
    check(section::SEGMENTS, 16, b'.', "invalid name");
    let flag = 16 + 13 + 16 + 8;
    check(section::SEGMENTS, flag, 7, "a flag is neither");
    check(section::SEGMENTS, flag, 1, "a list of deleted files");
    // The kind of the first input, which is absent.
    let kind = 16 + b"/home/.git".len();
    check(section::INPUTS, kind, 5, "unknown kind");
    check(section::INPUTS, kind + 1, 1, "has a size or a time");
    assert!(changed(section::INPUTS, kind, 4).is_ok());
    check(section::INPUTS, 15, 0x80, "length of a path");
    let changes: [fn(&mut BloomParams); 6] = [
        |bloom| bloom.bits = 0,
        |bloom| bloom.hashes = 0,
        |bloom| bloom.ngram_chars = 0,
        |bloom| bloom.basis_ngrams = 0,
        |bloom| bloom.target_fp_rate_bits = f64::NAN.to_bits(),
        |bloom| bloom.target_fp_rate_bits = 1.0_f64.to_bits(),
    ];
    for change in changes {
        let mut bloom = sample().bloom;
        change(&mut bloom);
        let error = decode(forge(section::BLOOM, &bloom.encode())).unwrap_err();
        assert!(error.is_corrupt(), "{error}");
    }
}

// Takes minutes under Miri, and only compares lengths.
#[cfg(not(miri))]
#[test]
fn what_could_not_be_read_is_not_written() {
    let check = |change: fn(&mut Manifest), over: bool| {
        let mut manifest = sample();
        change(&mut manifest);
        let error = manifest.encode().unwrap_err();
        assert!(!error.is_corrupt(), "{error}");
        let kind = error.kind();
        assert_eq!(
            matches!(kind, FormatErrorKind::OverLimit { .. }),
            over,
            "{kind:?}"
        );
    };
    check(|m| m.key.root = vec![b'x'; MAX_PATH_BYTES + 1], true);
    check(|m| m.key.backend_id = "x".repeat(MAX_ID_BYTES + 1), true);
    check(|m| m.key.casefold = "x".repeat(MAX_ID_BYTES + 1), true);
    check(|m| m.key.access = "x".repeat(MAX_ID_BYTES + 1), true);
    check(
        |m| m.key.deny_patterns[1] = "x".repeat(MAX_PATH_BYTES + 1),
        true,
    );
    check(
        |m| m.key.deny_patterns = vec![String::new(); MAX_DENY_PATTERNS + 1],
        true,
    );
    check(|m| m.inputs[0].path = vec![b'x'; MAX_PATH_BYTES + 1], true);
    check(|m| m.segment.file.name = "../manifest".to_owned(), false);
    check(|m| m.segment.file.name.clear(), false);
    check(|m| m.bloom.hashes = 0, false);
    // At the limit it can be read.
    let mut manifest = sample();
    manifest.key.root = vec![b'x'; MAX_PATH_BYTES];
    manifest.key.tokenizer_id = "x".repeat(MAX_ID_BYTES);
    manifest.key.access = "x".repeat(MAX_ID_BYTES);
    let bytes = manifest.encode().unwrap();
    assert!(bytes.len() > 2 * crate::format::section::PAGE_SIZE);
    assert_eq!(decode(bytes).unwrap(), manifest);
}

#[test]
fn every_component_changes_the_key_s_encoding() {
    let base = sample().key;
    let changes: [fn(&mut KeyParts); 18] = [
        |key| key.root.push(b'x'),
        |key| key.hidden = !key.hidden,
        |key| key.follow = !key.follow,
        |key| key.rules = IgnoreRules::All,
        |key| key.rules = IgnoreRules::Git,
        |key| key.backend_id.push('x'),
        |key| key.unicode_normalization.push('x'),
        |key| key.casefold.push('x'),
        |key| key.tokenizer_id.push('x'),
        |key| key.ngram_chars += 1,
        |key| key.max_tokenized_bytes += 1,
        |key| key.deny_patterns.reverse(),
        |key| key.global_excludes.push(b'x'),
        |key| key.excludes_base.push(b'x'),
        |key| key.access.push('x'),
        |key| {
            // The same text, split at another offset.
            let last = key.deny_patterns.pop().unwrap();
            key.deny_patterns[0].push_str(&last);
        },
        |key| key.schema_version += 1,
        |key| key.implementation_version += 1,
    ];
    let mut seen = vec![base.encode_key()];
    assert_eq!(base.clone().encode_key(), seen[0]);
    for change in changes {
        let mut key = base.clone();
        change(&mut key);
        let bytes = key.encode_key();
        assert!(!seen.contains(&bytes), "{key:?}");
        assert_eq!(KeyParts::decode(&bytes).unwrap(), key);
        seen.push(bytes);
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn any_stat() -> impl Strategy<Value = InputStat> {
    let kind = prop_oneof![
        Just(InputKind::File),
        Just(InputKind::Directory),
        Just(InputKind::Symlink),
        Just(InputKind::Other),
    ];
    let fields = (
        kind,
        any::<u64>(),
        any::<i64>(),
        any::<i64>(),
        any::<u64>(),
        any::<u64>(),
    );
    fields.prop_map(|(kind, size, mtime_ns, ctime_ns, dev, ino)| InputStat {
        kind,
        size,
        mtime_ns,
        ctime_ns,
        dev,
        ino,
    })
}

fn any_inputs() -> impl Strategy<Value = Vec<EligibilityInput>> {
    let path = proptest::collection::vec(any::<u8>(), 0..40);
    let input = (path, proptest::option::of(any_stat()))
        .prop_map(|(path, stat)| EligibilityInput { path, stat });
    proptest::collection::vec(input, 0..6)
}

fn any_segment() -> impl Strategy<Value = SegmentRef> {
    let name = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}";
    (name, any::<[u64; 3]>()).prop_map(|(name, [len, checksum, files])| SegmentRef {
        file: FileRef {
            name,
            len,
            checksum,
        },
        files,
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_manifest_comes_back(
        root in proptest::collection::vec(any::<u8>(), 0..60),
        texts in proptest::collection::vec(".{0,20}", 4..10),
        numbers in any::<[u64; 4]>(),
        flags in any::<[bool; 3]>(),
        segment in any_segment(),
        inputs in any_inputs(),
    ) {
        let root_too = root.clone();
        let manifest = Manifest {
            key: KeyParts {
                root,
                hidden: flags[0],
                follow: flags[1],
                rules: match (flags[1], flags[2]) {
                    (_, false) => IgnoreRules::All,
                    (false, true) => IgnoreRules::None,
                    (true, true) => IgnoreRules::Git,
                },
                backend_id: texts[0].clone(),
                unicode_normalization: texts[1].clone(),
                casefold: texts[2].clone(),
                tokenizer_id: texts[3].clone(),
                ngram_chars: numbers[0] as u32,
                max_tokenized_bytes: numbers[1],
                deny_patterns: texts[4..].to_vec(),
                global_excludes: root_too.clone(),
                excludes_base: texts[0].clone().into_bytes(),
                access: texts[1].clone(),
                schema_version: numbers[2] as u32,
                implementation_version: numbers[3] as u32,
            },
            state: PublicationState {
                sequence: numbers[0],
                created_ms: numbers[1] as i64,
                updated_ms: numbers[2] as i64,
                coverage_epoch: numbers[3],
                enumeration_errors: numbers[1],
            },
            segment,
            inputs,
            ..sample()
        };
        prop_assert_eq!(decode(manifest.encode().unwrap()).unwrap(), manifest);
    }

    #[test]
    fn what_is_read_is_what_would_be_written(
        id in section::KEY..=section::INPUTS,
        content in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..200),
    ) {
        let file = forge(id, &content);
        if let Ok(manifest) = decode(file.clone()) {
            prop_assert_eq!(manifest.encode().unwrap(), file);
        }
    }
}
