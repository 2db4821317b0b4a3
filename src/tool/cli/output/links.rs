//! Hyperlinks on terminals: their URL formats.
//!
//! This module owns the formats and their fields. The caller of the output decides whether there
//! are links.

use std::path::Path;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The bytes that are percent-encoded: all except unreserved characters and slashes.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Formats that have a name.
const NAMED: [(&str, &str); 8] = [
    ("none", ""),
    ("file", "file://{path}"),
    ("vscode", "vscode://file{path}:{line}:{column}"),
    ("vscodium", "vscodium://file{path}:{line}:{column}"),
    ("cursor", "cursor://file{path}:{line}:{column}"),
    ("zed", "zed://file{path}:{line}:{column}"),
    (
        "idea",
        "idea://open?file={path}&line={line}&column={column}",
    ),
    (
        "macvim",
        "mvim://open?url=file://{path}&line={line}&column={column}",
    ),
];

/// The fields of a format, as in `{path}`.
const FIELDS: [&str; 4] = ["path", "host", "line", "column"];

/// A URL with fields; empty for no links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tool::cli) struct HyperlinkFormat {
    /// Literal text, each with the field that follows.
    parts: Vec<(String, Option<usize>)>,
}

impl FromStr for HyperlinkFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<HyperlinkFormat, String> {
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let format = match named {
            Some((_, format)) => *format,
            None if text.contains("://") || text.contains('{') => text,
            None => {
                let names = NAMED.map(|(name, _)| name).join(", ");
                return Err(format!(
                    "this is not a known format; give one of {names}, or a URL such as {}",
                    NAMED[1].1
                ));
            }
        };
        let mut parts = Vec::new();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| "a { has no }".to_string())?;
            let field = FIELDS.iter().position(|field| *field == name).ok_or_else(|| {
                format!("there is no {{{name}}}; there are {{path}}, {{host}}, {{line}} and {{column}}")
            })?;
            parts.push((before.to_string(), Some(field)));
            rest = after;
        }
        parts.push((rest.to_string(), None));
        let has_path = parts.iter().any(|(_, field)| *field == Some(0));
        if !has_path && !format.is_empty() {
            return Err(
                "the format lacks {path}, so all links would lead to the same place".to_string(),
            );
        }
        let is_plain = |(text, _): &(String, _)| text.chars().all(|c| c.is_ascii_graphic());
        if !parts.iter().all(is_plain) {
            return Err("a URL may contain only visible ASCII characters".to_string());
        }
        Ok(HyperlinkFormat { parts })
    }
}

impl HyperlinkFormat {
    /// Returns whether the output has links.
    pub(in crate::tool::cli) fn is_some(&self) -> bool {
        self.parts.len() > 1
    }

    /// Returns the URL of a line in a file.
    pub(in crate::tool::cli) fn url(
        &self,
        path: &Path,
        host: &str,
        line: u64,
        column: u64,
    ) -> String {
        let mut url = String::new();
        for (text, field) in &self.parts {
            url.push_str(text);
            match field {
                Some(0) => url.extend(percent_encode(path.as_os_str().as_encoded_bytes(), ENCODED)),
                Some(1) => url.extend(percent_encode(host.as_bytes(), ENCODED)),
                Some(2) => url.push_str(&line.to_string()),
                Some(_) => url.push_str(&column.to_string()),
                None => {}
            }
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(format: &str) -> String {
        let format: HyperlinkFormat = format.parse().unwrap();
        format.url(Path::new("/a b/é;\x1b"), "me", 3, 4)
    }

    #[test]
    fn urls_hold_no_reserved_bytes() {
        assert_eq!(url("file"), "file:///a%20b/%C3%A9%3B%1B");
        assert_eq!(
            url("x://{host}{path}#{line}"),
            "x://me/a%20b/%C3%A9%3B%1B#3"
        );
        assert_eq!(url("vscode"), "vscode://file/a%20b/%C3%A9%3B%1B:3:4");
        let none: HyperlinkFormat = "none".parse().unwrap();
        assert!(!none.is_some());
        for (name, _) in &NAMED[1..] {
            let named: HyperlinkFormat = name.parse().unwrap();
            assert!(named.is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_no_format_is_refused_with_what_would_be_one() {
        for (wrong, said) in [
            ("emacs", "vscode"),
            ("x://{path", "no }"),
            ("x://{file}", "{path}"),
            ("x://host", "same place"),
            ("x://\x1b{path}", "ASCII"),
        ] {
            let error = wrong.parse::<HyperlinkFormat>().unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
