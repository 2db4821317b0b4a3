//! What is looked for, and in which files, as flags say it.
//!
//! Owns how several patterns become one and types become globs, and which of the positional arguments is what.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ignore::types::{FileTypeDef, TypesBuilder};

use super::args::QueryArgs;
use super::setup::Environment;
use crate::exec::pattern::Pattern;
use crate::exec::query::Fold;
use crate::tool::error::ToolError;

/// The most bytes that a file of patterns may have: more than a pattern.
const MOST: u64 = 1 << 20;

/// An expression that matches nothing: what is both one letter and another.
const NEVER: &str = "[a&&b]";

/// What the positional arguments are.
pub(super) struct Positional<'a> {
    /// The pattern, unless flags give it.
    pub(super) pattern: Option<&'a OsStr>,
    /// What is searched.
    pub(super) path: Option<&'a Path>,
    /// A path too many.
    pub(super) more: Option<&'a Path>,
}

/// Finds out what the positional arguments are; `lists` if nothing is looked for.
pub(super) fn positional(args: &QueryArgs, lists: bool) -> Positional<'_> {
    let path = args.path.as_deref();
    let more = args.more.first().map(PathBuf::as_path);
    match lists || !args.regexp.is_empty() || !args.file.is_empty() {
        true => Positional {
            pattern: None,
            path: args.pattern.as_deref().map(Path::new),
            more: path.or(more),
        },
        false => Positional {
            pattern: args.pattern.as_deref(),
            path,
            more,
        },
    }
}

/// Returns the one pattern of a search, and whether it is a text.
///
/// # Errors
///
/// There is none, or it can't be read, or one of several is not valid.
pub(super) fn pattern(
    args: &QueryArgs,
    environment: &Environment,
) -> Result<(String, bool), ToolError> {
    let mut all = args.regexp.clone();
    for file in &args.file {
        all.extend(lines(file, environment)?);
    }
    if let Some(pattern) = positional(args, false).pattern {
        let text = pattern.to_str().ok_or_else(|| {
            ToolError::bad_args("the pattern is not valid UTF-8; write bytes as \\xFF with (?-u)")
        })?;
        all.push(text.to_string());
    }
    // A file without any is no mistake, and nothing is what it finds.
    if all.is_empty() && !args.file.is_empty() {
        return Ok((NEVER.to_string(), false));
    }
    together(all, args.fixed_strings, args.line_regexp)
}

/// Makes one of several; with `whole`, one of which a match is a whole line.
fn together(mut all: Vec<String>, fixed: bool, whole: bool) -> Result<(String, bool), ToolError> {
    // An empty one matches every line, as elsewhere.
    let of_one = |one: &str| match one {
        "" => "(?:)".to_string(),
        one if fixed => regex_syntax::escape(one),
        one => format!("(?:{one})"),
    };
    if all.is_empty() {
        return Err(ToolError::bad_args(
            "a PATTERN is missing: give one, or one with -e, or a file of them that has some with -f; --help has examples",
        ));
    }
    if all.len() == 1 && !whole && !all[0].is_empty() {
        return Ok((all.remove(0), fixed));
    }
    for one in &all {
        // Two halves of something are no pattern.
        if !fixed && !one.is_empty() {
            Pattern::compile(one, false, Fold::Sensitive, false)
                .map_err(|error| ToolError::bad_args(format!("the pattern `{one}`: {error}")))?;
        }
    }
    let parts: Vec<String> = all.iter().map(|one| of_one(one)).collect();
    let any = parts.join("|");
    Ok(match whole {
        true => (format!("^(?:{any})$"), false),
        false => (any, false),
    })
}

/// Reads patterns, one a line.
fn lines(file: &Path, environment: &Environment) -> Result<Vec<String>, ToolError> {
    let wrong = |why: &str| ToolError::bad_args(format!("-f {}: {why}", file.display()));
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(environment.absolute(file)?)
            .and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| wrong(&error.to_string()))?;
    if bytes.len() as u64 > MOST {
        return Err(wrong(&format!(
            "it has more than {MOST} bytes, which is more than the patterns of a search may have; search for a part of them at a time"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not valid UTF-8"))?;
    Ok(text.lines().map(str::to_string).collect())
}

/// Returns every type that there is.
pub(super) fn types() -> Vec<FileTypeDef> {
    TypesBuilder::new().add_defaults().definitions()
}

/// Returns the globs of types. Types are of files: what a directory of such a name holds is none of them for that, so all of it is taken back for
/// directories.
///
/// # Errors
///
/// There is no type of a name.
pub(super) fn globs_of(names: &[String]) -> Result<Vec<String>, ToolError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known = types();
    let mut globs = Vec::new();
    for name in names {
        if name == "all" {
            globs.extend(known.iter().flat_map(FileTypeDef::globs).cloned());
            continue;
        }
        let Some(found) = known.iter().find(|one| one.name() == name) else {
            let hint = match nearest(&known, name) {
                Some(one) => format!("did you mean `{one}`? "),
                None => String::new(),
            };
            return Err(ToolError::bad_args(format!(
                "there is no type `{name}`; {hint}--type-list shows all, and -g takes globs"
            )));
        };
        globs.extend(found.globs().iter().cloned());
    }
    globs.push("!*/".to_string());
    let mut seen = BTreeSet::new();
    globs.retain(|glob| seen.insert(glob.clone()));
    Ok(globs)
}

/// Returns the type whose name is most like one that was typed: by the fewest slips of fingers, then by the length, then by what is alike.
fn nearest<'a>(known: &'a [FileTypeDef], typed: &str) -> Option<&'a str> {
    let slips = |name: &str| strsim::osa_distance(name, typed);
    let alike = |name: &str| strsim::jaro_winkler(name, typed);
    let near = known.iter().map(FileTypeDef::name).min_by(|a, b| {
        let apart = |name: &str| (slips(name), name.len().abs_diff(typed.len()));
        apart(a).cmp(&apart(b)).then(alike(b).total_cmp(&alike(a)))
    });
    near.filter(|name| slips(name) <= 2 && alike(name) > 0.7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| one.to_string()).collect()
    }

    #[test]
    fn several_patterns_are_one_that_matches_what_each_does() {
        let one = |all: &[&str], fixed| together(owned(all), fixed, false).unwrap();
        assert_eq!(one(&["a|b"], false), ("a|b".to_string(), false));
        assert_eq!(one(&["a.b"], true), ("a.b".to_string(), true));
        assert_eq!(
            one(&["a|b", "c"], false),
            ("(?:a|b)|(?:c)".to_string(), false)
        );
        assert_eq!(one(&["a.b", "c"], true), ("a\\.b|c".to_string(), false));
        assert_eq!(one(&["a", ""], false), ("(?:a)|(?:)".to_string(), false));
        assert_eq!(one(&[""], true), ("(?:)".to_string(), false));
        let whole = |all: &[&str], fixed| together(owned(all), fixed, true).unwrap().0;
        assert_eq!(whole(&["a|b"], false), "^(?:(?:a|b))$");
        assert_eq!(whole(&["a.b", ""], true), "^(?:a\\.b|(?:))$");
        // Two halves of something are no pattern.
        for whole in [false, true] {
            let error = together(owned(&["a)", "(b"]), false, whole).unwrap_err();
            let error = error.message();
            assert!(error.contains("the pattern `a)`"), "{error}");
        }
        assert!(together(Vec::new(), false, false).is_err());
    }

    #[test]
    fn types_have_globs_and_unknown_ones_a_likely_name() {
        let rust = globs_of(&owned(&["rust"])).unwrap();
        assert_eq!(rust, ["*.rs", "!*/"]);
        assert!(globs_of(&owned(&["py", "make"])).unwrap().len() > 3);
        assert!(globs_of(&owned(&["all"])).unwrap().len() > 300);
        for (typed, meant) in [
            ("pythn", "`python`"),
            ("rsut", "`rust`"),
            ("Rust", "`rust`"),
        ] {
            let error = globs_of(&owned(&[typed])).unwrap_err().message();
            assert!(error.contains(&format!("did you mean {meant}")), "{error}");
        }
        let error = globs_of(&owned(&["frobnicate"])).unwrap_err().message();
        assert!(!error.contains("did you mean"), "{error}");
    }
}
