//! The order of a source (EXEC §5): what makes results come out alike, however a source was read.

use std::cmp::Ordering;

use jiff::Timestamp;

/// The place of a record among all of its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// A path: by code points, which in UTF-8 is by bytes.
    Path(Vec<u8>),
    /// When a message was received; its id; where it is.
    Received(Timestamp, String, Place),
    /// The primary key of a record; where it is.
    Key(Key, Place),
}

/// Where something is in a source: what decides between equals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Its number.
    Nth(u64),
    /// Its path.
    At(Vec<u8>),
}

/// A primary key. Numbers come before texts, and are compared by their values.
#[derive(Clone, Debug)]
pub enum Key {
    /// A whole number.
    Whole(i128),
    /// Another number; never not a number.
    Real(f64),
    /// A text, compared by code points.
    Text(String),
}

impl Key {
    /// Reads a key that is written as text, as where there are no types: what is a number counts as one.
    pub fn written(text: &str) -> Key {
        if let Ok(whole) = text.parse() {
            return Key::Whole(whole);
        }
        let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
        match text.parse::<f64>() {
            Ok(real) if is_number && real.is_finite() => Key::Real(real),
            _ => Key::Text(text.to_string()),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            (Key::Text(_), _) => Ordering::Greater,
            (_, Key::Text(_)) => Ordering::Less,
            (Key::Whole(a), Key::Whole(b)) => a.cmp(b),
            // Zero is zero, with whichever sign.
            (Key::Real(a), Key::Real(b)) => a.partial_cmp(b).unwrap_or_else(|| a.total_cmp(b)),
            (Key::Whole(a), Key::Real(b)) => against(*a, *b),
            (Key::Real(a), Key::Whole(b)) => against(*b, *a).reverse(),
        }
    }
}

/// Compares a whole number with another one, exactly.
fn against(whole: i128, real: f64) -> Ordering {
    /// Two to the power of 127, which is the first that an `i128` does not hold.
    const BEYOND: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if real >= BEYOND {
        return Ordering::Less;
    }
    if real < -BEYOND {
        return Ordering::Greater;
    }
    // It fits, and is cut towards zero.
    let cut = real.trunc();
    whole.cmp(&(cut as i128)).then_with(|| {
        let left = real - cut;
        0.0_f64.partial_cmp(&left).unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_5_keys_are_in_numeric_order_and_numbers_before_texts() {
        let texts = [
            "-170141183460469231731687303715884105729",
            "-1e30",
            "-3",
            "-2.5",
            "-2",
            "-0.5",
            "0",
            "0.25",
            "1",
            "1.5",
            "2",
            "9",
            "10",
            "9007199254740993",
            "9007199254740994",
            "1e30",
            "",
            "1 ",
            "1e999",
            "NaN",
            "a",
            "b",
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
        assert_eq!(Key::written("1.0"), Key::written("+1"));
        assert_eq!(Key::Real(-0.0), Key::Whole(0));
        assert_eq!(Key::Real(-0.0), Key::Real(0.0));
    }
}
