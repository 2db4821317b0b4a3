//! The order of a source's records (EXEC §5), so that results don't depend on how a source is read.

use std::cmp::Ordering;

use jiff::Timestamp;

/// The position of a record in the order of its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// A path: by code points, which for UTF-8 is by bytes.
    Path(Vec<u8>),
    /// The time at which a message was received; its id; its place.
    Received(Timestamp, String, Place),
    /// The primary key of a record; its place.
    Key(Key, Place),
}

/// The place of a record in its source, which decides between equal keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The number of the record.
    Nth(u64),
    /// The path of the record.
    At(Vec<u8>),
}

/// A primary key. Numbers come before texts, and are compared by value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A number, compared by value.
    Number(Number),
    /// A text, compared by code points.
    Text(String),
}

impl Key {
    /// Parses a key of a format without types: a text that looks like a number counts as one. A
    /// number has digits, and optionally a sign, a decimal point anywhere, and an exponent. For
    /// example `-.5e3`.
    pub fn written(text: &str) -> Key {
        match Number::parse(text) {
            Some(number) => Key::Number(number),
            None => Key::Text(text.to_string()),
        }
    }

    /// Builds a key from a whole number.
    pub fn whole(number: i64) -> Key {
        Key::written(&number.to_string())
    }

    /// Builds a key from a float, by its exact value. The float must not be NaN.
    pub fn real(number: f64) -> Key {
        if number.is_infinite() {
            return Key::Number(Number::infinite(number < 0.0));
        }
        // No float has more decimal places than this.
        Key::written(&format!("{number:.1074}"))
    }
}

/// A number as its decimal digits, so that any two numbers are compared exactly, with any exponent.
/// Of exponents with more than 38 digits only the sign counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    negative: bool,
    /// The position of the point, relative to the first digit that is not 0; `i128::MIN` for zero.
    point: i128,
    /// The digits, without zeros at either end: empty for zero.
    digits: Box<str>,
}

impl Number {
    fn infinite(negative: bool) -> Number {
        Number {
            negative,
            point: i128::MAX,
            digits: "".into(),
        }
    }

    fn parse(text: &str) -> Option<Number> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (decimal, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((decimal, exponent)) => (decimal, read_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, part) = decimal.split_once('.').unwrap_or((decimal, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(part) || whole.len() + part.len() == 0 {
            return None;
        }
        let all = [whole, part].concat();
        let digits = all.trim_start_matches('0');
        let zeros = all.len() - digits.len();
        let digits = digits.trim_end_matches('0');
        if digits.is_empty() {
            return Some(Number {
                negative: false,
                point: i128::MIN,
                digits: "".into(),
            });
        }
        // Lengths are far below the maximum of this type.
        let point = whole.len() as i128 - zeros as i128;
        Some(Number {
            negative: text.starts_with('-'),
            // Zero is below this range, and infinity above.
            point: exponent.saturating_add(point).clamp(-MOST, MOST),
            digits: digits.into(),
        })
    }
}

/// The largest position of a point.
const MOST: i128 = i128::MAX - 1;

/// Parses an exponent; clamps it to the range of positions.
fn read_exponent(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let far = digits.parse::<i128>().map_or(MOST, |far| far.min(MOST));
    Some(if text.starts_with('-') { -far } else { far })
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let size = |one: &Number, other: &Number| {
            // Without zeros at the ends, digits sort by value if the points are at the same
            // position.
            let digits = || one.digits.cmp(&other.digits);
            one.point.cmp(&other.point).then_with(digits)
        };
        match (self.negative, other.negative) {
            (false, false) => size(self, other),
            (true, true) => size(other, self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_rows_are_in_numeric_order_with_numbers_before_texts() {
        let texts = [
            "-1e999999999999999999999",
            "-1e309",
            "-170141183460469231731687303715884105729",
            "-1e30",
            "-3",
            "-2.5",
            "-2",
            "-.5",
            "-1e-999999999999999999999",
            "0",
            "1e-400",
            "1.1e-400",
            ".25",
            "0.5",
            "1",
            "1.00000000000000000000001",
            "1.00000000000000000000002",
            "1.5",
            "2.",
            "9",
            "10",
            "9007199254740993",
            "9007199254740994",
            "1e30",
            "123456789012345678901234567890123456789012345678901",
            "123456789012345678901234567890123456789012345678902",
            "1e309",
            "2e309",
            "1e999999999",
            "10.1e999999998",
            "",
            "+",
            "-",
            ".",
            "0x10",
            "1 ",
            "1e",
            "1e+",
            "1e1.5",
            "NaN",
            "a",
            "b",
            "e5",
            "inf",
            "ß",
            "\u{ffff}",
            "\u{10000}",
        ];
        let keys: Vec<Key> = texts.iter().map(|text| Key::written(text)).collect();
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{} {}", texts[i], texts[j]);
            }
        }
        for (a, b) in [
            ("1.0", "+1"),
            ("-0", "0e5"),
            ("007", "7"),
            ("120e-1", "1.2e1"),
            (".5", "5e-1"),
            ("0.00012e4", "1.2"),
        ] {
            assert_eq!(Key::written(a), Key::written(b), "{a} {b}");
        }
    }

    #[test]
    fn machine_numbers_are_compared_by_their_exact_values() {
        let whole = |number: i64| Key::whole(number);
        let ascending = [
            Key::real(f64::NEG_INFINITY),
            Key::real(f64::MIN),
            whole(i64::MIN),
            whole(i64::MIN + 1),
            Key::real(-0.1),
            Key::real(-5e-324),
            whole(0),
            Key::real(5e-324),
            Key::written("0.1"),
            // The float differs slightly from that.
            Key::real(0.1),
            whole(9_007_199_254_740_993),
            Key::real(9_007_199_254_740_994.0),
            whole((1 << 62) - 1),
            Key::real(4_611_686_018_427_387_904.0),
            whole((1 << 62) + 1),
            whole(i64::MAX),
            Key::real(9_223_372_036_854_775_808.0),
            Key::real(f64::MAX),
            Key::written("1e999999999999999999999999999999999999999999"),
            Key::real(f64::INFINITY),
            Key::Text(String::new()),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        assert_eq!(Key::real(-0.0), whole(0));
        assert_eq!(Key::real(4_611_686_018_427_387_904.0), whole(1 << 62));
    }
}
