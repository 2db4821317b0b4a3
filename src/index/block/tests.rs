use proptest::prelude::*;

use super::*;
use crate::index::casefold::Casefold;
use crate::index::token::Tokenizer;

fn params() -> BloomParams {
    BloomParams::from_config(1 << 20, 0.01)
}

fn grams_of(text: &str) -> FileGrams {
    FileGrams::new(&Tokenizer::new(Casefold::Ascii, 1 << 20).tokenize(text.as_bytes()))
}

fn bit(rows: &[u8], shape: Shape, row: u32, file: usize) -> bool {
    let lanes = shape.lanes as usize;
    let at = (row as usize * lanes + file / 64) * 8 + file % 64 / 8;
    rows[at] >> (file % 8) & 1 == 1
}

#[test]
fn transposing_turns_lines_into_columns() {
    let mut square = [0u64; 64];
    for (i, line) in square.iter_mut().enumerate() {
        *line = (i as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(i as u32);
    }
    let before = square;
    transpose(&mut square);
    for (i, old) in before.iter().enumerate() {
        for (j, new) in square.iter().enumerate() {
            assert_eq!(new >> i & 1, old >> j & 1, "{i} {j}");
        }
    }
}

#[test]
fn what_is_stored_is_the_text_and_its_folds_without_line_feeds() {
    let grams = grams_of("aBc\nx");
    let packed =
        |text: &[u8; 3]| u32::from(text[0]) << 14 | u32::from(text[1]) << 7 | u32::from(text[2]);
    let mut ascii = grams.ascii.to_vec();
    ascii.sort_unstable();
    assert_eq!(ascii, [packed(b"aBc"), packed(b"abc")]);
    let grams = grams_of("éAé\nx");
    let texts: Vec<String> = grams
        .wide
        .iter()
        .map(|gram| gram.chars().iter().collect())
        .collect();
    assert_eq!(texts, ["éAé", "éaé"]);
}

#[test]
fn a_table_and_hashing_give_the_same_positions() {
    let table = Spreads::new(params(), u64::MAX);
    let none = Spreads::new(params(), 0);
    assert!(none.ascii.is_empty() && !table.ascii.is_empty());
    for packed in (0..ASCII_GRAMS as u32).step_by(977) {
        assert_eq!(table.ascii(packed), none.ascii(packed));
    }
}

#[test]
fn positions_are_the_logical_bits_scaled() {
    for (bytes, rate) in [
        (2, 0.01),
        (1 << 20, 0.01),
        (1 << 30, 0.0001),
        (1 << 20, 0.6),
    ] {
        let params = BloomParams::from_config(bytes, rate);
        let hash = GramHash::of(b"abc");
        let spread = Spread::new(hash, &params);
        for i in 0..STORED_HASHES {
            let logical = hash.bit((i as u32).min(params.hashes - 1), params.bits);
            let exact = u128::from(logical) * 1000 / u128::from(params.bits);
            let row = u128::from(spread.row(i, 1000));
            // Two roundings, both downward.
            assert!(row == exact || row + 1 == exact, "{params:?} {row} {exact}");
            assert!(row < 1000);
        }
    }
}

#[test]
fn blocks_hold_all_files_and_grow_apart_only_where_counts_do() {
    let even = vec![1000; 2000];
    assert_eq!(partition(&even), [512, 512, 512, 464]);
    let steep: Vec<usize> = (0..1024).map(|n| 1usize << (n / 64).min(30)).collect();
    let blocks = partition(&steep);
    assert_eq!(blocks.iter().sum::<usize>(), 1024);
    assert!(
        blocks
            .iter()
            .all(|&files| (1..=BLOCK_FILES).contains(&files))
    );
    assert!(blocks.len() > 2, "{blocks:?}");
    assert!(partition(&[]).is_empty());
}

#[test]
fn a_block_stays_small_whatever_its_files_hold() {
    let none = Direct::choose(&[]);
    for files in [1, 64, 65, 512] {
        let shape = Shape::new(&vec![20_000_000; files], &none);
        assert!(shape.bytes() <= MAX_HASHED_BYTES, "{shape:?}");
        assert!(shape.lanes as usize * LANE_FILES >= files);
    }
    let small = Shape::new(&[0], &none);
    assert_eq!((small.hashed_rows, small.lanes), (64, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Every stored n-gram of every file has all of its bits, in direct and in hashed rows.
    #[test]
    fn every_stored_ngram_has_its_bits_in_direct_and_in_hashed_rows(
        texts in prop::collection::vec("[a-dA-C\n é]{0,60}", 1..200),
    ) {
        let files: Vec<FileGrams> = texts.iter().map(|text| grams_of(text)).collect();
        let direct = Direct::choose(&files);
        prop_assert_eq!(direct.grams().is_empty(), files.len() < DIRECT_MIN_FILES);
        let spreads = Spreads::new(params(), 0);
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_by_key(|&n| direct.hashed(&files[n]));
        let counts: Vec<usize> = order.iter().map(|&n| direct.hashed(&files[n])).collect();
        let shape = Shape::new(&counts, &direct);
        let sorted: Vec<&FileGrams> = order.iter().map(|&n| &files[n]).collect();
        let rows = encode(shape, &sorted, &direct, &spreads);
        prop_assert_eq!(rows.len() as u64, shape.bytes());
        for (slot, &n) in order.iter().enumerate() {
            let chars: Vec<char> = texts[n].chars().collect();
            for window in chars.windows(3) {
                if window.contains(&'\n') {
                    continue;
                }
                let own = Gram::new([window[0], window[1], window[2]]);
                let folded = Gram::new([0, 1, 2].map(|n| window[n].to_ascii_lowercase()));
                for gram in [own, folded] {
                    let number = gram.to_ascii().and_then(|packed| direct.number(packed));
                    let needed: Vec<u32> = match number {
                        Some(number) => vec![shape.hashed_rows + number],
                        None => (0..STORED_HASHES)
                            .map(|i| spreads.of(gram).row(i, shape.hashed_rows))
                            .collect(),
                    };
                    for row in needed {
                        prop_assert!(bit(&rows, shape, row, slot), "{gram:?} of {:?}", texts[n]);
                    }
                }
            }
        }
        // Direct rows are exact.
        for (number, &packed) in direct.grams().iter().enumerate() {
            for (slot, file) in sorted.iter().enumerate() {
                let held = file.ascii.contains(&packed);
                prop_assert_eq!(bit(&rows, shape, shape.hashed_rows + number as u32, slot), held);
            }
        }
    }
}
