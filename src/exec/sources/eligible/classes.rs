//! Bracket expressions of globs, such as `[a-z]` and `[!x]`.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// An inclusive range of characters.
type Range = (char, char);

/// Rewrites a glob so that no bracket expression in it matches a slash, as in git. The library that
/// compiles globs has no such rule: its `a[!x]b` matches `a/b`.
pub(super) fn without_slash(glob: &str) -> Cow<'_, str> {
    if !glob.contains('[') {
        return glob.into();
    }
    let mut out = String::with_capacity(glob.len() + 4);
    let mut rest = glob.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '\\' => {
                out.push(char);
                out.extend(rest.next());
            }
            '[' => {
                let before = rest.clone();
                match class(&mut rest) {
                    Some((negated, ranges)) => push(negated, ranges, &mut out),
                    // A bracket that is not closed is a literal character.
                    None => {
                        out.push(char);
                        rest = before;
                    }
                }
            }
            _ => out.push(char),
        }
    }
    out.into()
}

/// Parses an expression as the library does, starting after its bracket.
fn class(rest: &mut Peekable<Chars<'_>>) -> Option<(bool, Vec<Range>)> {
    let negated = rest.next_if(|char| matches!(char, '!' | '^')).is_some();
    let mut ranges: Vec<Range> = Vec::new();
    let mut in_range = false;
    loop {
        let char = rest.next()?;
        match (char, ranges.last_mut()) {
            (']', Some(_)) => break,
            ('-', Some(_)) if !in_range => in_range = true,
            (char, Some(last)) if in_range => {
                last.1 = char;
                in_range = false;
            }
            (char, _) => ranges.push((char, char)),
        }
    }
    if in_range {
        ranges.push(('-', '-'));
    }
    Some((negated, ranges))
}

fn push(negated: bool, ranges: Vec<Range>, out: &mut String) {
    out.push_str(if negated { "[!" } else { "[" });
    for (at, (first, last)) in ranges.into_iter().enumerate() {
        match (first..=last).contains(&'/') && !negated {
            true => {
                if first < '/' {
                    push_range((first, '.'), out);
                }
                if last > '/' {
                    push_range(('0', last), out);
                }
                // No file name contains NUL. So NUL replaces the slash, and the other characters
                // keep their positions.
                if first == last {
                    out.push('\0');
                }
            }
            false => push_range((first, last), out),
        }
        // Inserted after the first range, a slash has no special meaning.
        if at == 0 && negated {
            out.push('/');
        }
    }
    out.push(']');
}

fn push_range((first, last): Range, out: &mut String) {
    out.push(first);
    if first != last {
        out.push('-');
        out.push(last);
    }
}

#[cfg(test)]
mod tests {
    use globset::GlobBuilder;

    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        let rewritten = without_slash(glob);
        let glob = GlobBuilder::new(&rewritten).literal_separator(true).build();
        glob.unwrap_or_else(|error| panic!("{rewritten}: {error}"))
            .compile_matcher()
            .is_match(path)
    }

    #[test]
    fn bracket_expressions_of_globs_match_everything_but_a_slash() {
        // On Windows, a backslash separates the parts of a path.
        let ascii = (1..128u8).map(char::from);
        let ascii = ascii.filter(|char| !std::path::is_separator(*char));
        let ascii: Vec<char> = ascii.collect();
        for class in [
            "[a]",
            "[!a]",
            "[^a]",
            "[]a]",
            "[!]a]",
            "[a-]",
            "[-a]",
            "[!-a]",
            "[!a-]",
            "[/]",
            "[!/]",
            "[a/]",
            "[/a]",
            "[/!a]",
            "[/^]",
            "[/-]",
            "[+-9]",
            "[!+-9]",
            "[/-9]",
            "[+-/]",
            "[--0]",
            "[!--0]",
            "[]-a]",
            "[a-c-e]",
            "[!a-c-e]",
            "[/-/]",
            "[a\\]",
            "[!\\]",
            "[é/]",
            "[!é]",
            "[a-z0-9_/]",
            "[.-0-]",
            "[*/]",
            "[{/]",
        ] {
            let glob = format!("x{class}y");
            assert!(!matches(&glob, "x/y"), "{class}");
            let plain = GlobBuilder::new(&glob).literal_separator(true).build();
            let plain = plain.unwrap().compile_matcher();
            for char in &ascii {
                let path = format!("x{char}y");
                assert_eq!(
                    matches(&glob, &path),
                    plain.is_match(&path),
                    "{class}: {char:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_bracket_expression_stays() {
        for glob in [
            "a", r"\[!a]", "a[", "a[!", "a[]", "[a-z].rs", "{a,b}", r"a\",
        ] {
            assert_eq!(without_slash(glob), glob);
        }
        assert_eq!(without_slash("{[!a],b}"), "{[!a/],b}");
    }
}
