use super::*;

fn round_trip<R: Record + PartialEq + std::fmt::Debug>(record: R) {
    let mut out = Writer::new();
    record.encode(&mut out);
    assert_eq!(out.len(), R::LEN, "{}", R::NAME);
    let mut reader = Reader::new(out.as_bytes(), R::NAME);
    assert_eq!(R::decode(&mut reader).unwrap(), record);
    reader.finish().unwrap();
}

#[test]
fn records_have_their_length_and_come_back() {
    let name = NameRecord {
        offset: 1,
        len: 2,
        key_len: 3,
    };
    let stamp = StampRecord {
        len: 4,
        modified_ns: -5,
        changed_ns: i64::MAX,
        device: 6,
        inode: u64::MAX,
        links: 7,
    };
    round_trip(FileRecord {
        dir: 8,
        name,
        status: 2,
        excludable: true,
        sets: RuleSets::GIT,
        ngrams: 9,
        stamp,
    });
    round_trip(DirRecord {
        parent: 10,
        name,
        first_rank: 11,
        end_rank: 12,
        sets: RuleSets::ALL,
        stamp,
    });
    round_trip(SideRecord {
        dir: 13,
        before_rank: 14,
        name,
        sets: RuleSets::EVERY,
    });
    round_trip(BlockRecord {
        files: 15,
        lanes: 8,
        hashed_rows: 16,
        rows_at: 17,
    });
    round_trip(PartRecord {
        rank: 29,
        start: 30,
        slot: 31,
    });
    round_trip(GroupRecord {
        blocks: 18,
        direct: 19,
        word_files: 5,
        words_at: 128,
        words_len: 77,
    });
    round_trip(MetaRecord {
        files: 20,
        dirs: 21,
        side: 22,
        as_root: 33,
        blocks: 23,
        groups: 24,
        ngram_chars: 3,
        bloom_bits: 25,
        bloom_hashes: 7,
        stored_hashes: 4,
        casefold: 32,
        bloom_seed: 26,
        text_bytes: 27,
        ngrams: 28,
    });
}

#[test]
fn records_have_the_lengths_of_the_format() {
    let catalog = [FileRecord::LEN, DirRecord::LEN, SideRecord::LEN];
    assert_eq!(catalog, [64, 68, 20]);
    let blocks = [BlockRecord::LEN, PartRecord::LEN, GroupRecord::LEN];
    assert_eq!(blocks, [24, 12, 32]);
    assert_eq!(MetaRecord::LEN, 72);
}

#[test]
fn a_flag_is_zero_or_one() {
    let mut bytes = vec![0u8; FileRecord::LEN];
    // One set of rules under which the file is eligible.
    bytes[14] = 1;
    let decode = |bytes: &[u8]| FileRecord::decode(&mut Reader::new(bytes, FileRecord::NAME));
    assert!(decode(&bytes).is_ok());
    bytes[13] = 2;
    assert!(decode(&bytes).is_err());
}

#[test]
fn an_entry_is_eligible_by_known_rules() {
    for number in [0, 4, 255] {
        let mut bytes = vec![0u8; FileRecord::LEN];
        bytes[14] = number;
        let mut reader = Reader::new(&bytes, FileRecord::NAME);
        assert!(FileRecord::decode(&mut reader).is_err(), "{number}");
    }
}
