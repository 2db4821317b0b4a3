//! The time at which a message was received.
//!
//! This module owns which headers tell it (the topmost `Received`, else `Date`), and the parsing of
//! times with comments and obsolete forms (RFC 5322).

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Returns when a message was received: the time of the topmost `Received` header, or else of
/// `Date`.
pub(super) fn received(received: Option<&str>, date: Option<&str>) -> Option<Timestamp> {
    let after = |text: &str| time(text.rsplit_once(';')?.1);
    received
        .and_then(|text| {
            // An unclosed comment or quote was not meant as one, so the plain text is tried next.
            after(&without_comments(text)).or_else(|| after(text))
        })
        .or_else(|| time(date?))
}

/// Parses a time of RFC 5322, including its obsolete forms.
fn time(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    let text = without_comments(text);
    // Headers may be folded, and obsolete forms allow space and comments anywhere.
    let text = text.replace(',', " , ").replace(':', " : ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ").replace(" ,", ",").replace(" : ", ":");
    PARSER.parse_timestamp(&line).ok()
}

/// Replaces each comment of RFC 5322 by a space. Comments may be nested, and are literal text in
/// quotes.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for c in text.chars() {
        let was_escaped = std::mem::take(&mut escaped);
        match c {
            _ if was_escaped => {}
            '\\' if depth > 0 || quoted => escaped = true,
            '"' if depth == 0 => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    out.push(' ');
                }
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_part_of_a_mail_time() {
        let noon: Timestamp = "2024-01-01T12:00:00Z".parse().unwrap();
        let of = |header: &str| received(Some(header), None);
        for header in [
            "from a; Mon, 1 Jan 2024 12:00:00 +0000",
            "from a; Mon, 1 Jan 2024 12:00:00 +0000 (a;b)",
            "from a (x;y (z;)) by b; Mon, 1 Jan 2024 13:00:00 +0100 (a\\);\\(b)",
            "from \"a;(b\\\"\" by c; Mon, 1 Jan 2024 12:00:00 +0000",
            "from a (never closed by b; Mon, 1 Jan 2024 12:00:00 +0000",
            "from \"never closed by b; Mon, 1 Jan 2024 12:00:00 +0000",
            "from a; Mon(x) , 1(y)Jan(z) 2024 12 : 00 (p) : 00(q)+0000(UTC)",
            "from a; Mon,1 Jan 2024 12:00:00 GMT (one (two",
            "from a;\r\n\tMon, 1 Jan 2024\r\n 12:00:00 +0000 (x\r\n ;y)",
        ] {
            assert_eq!(of(header), Some(noon), "{header}");
        }
        assert_eq!(of("from a (; Mon, 1 Jan 2024 12:00:00 +0000)"), None);
        let date = received(Some("nothing"), Some("(a) 1 Jan 2024 12:00 Z (b)"));
        assert_eq!(date, Some(noon));
    }
}
