//! What is looked for, and in which files, as flags say it.
//!
//! Owns how several patterns become one and types become globs, and which of the positional arguments is what.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ignore::types::{FileTypeDef, TypesBuilder};

use super::args::QueryArgs;
use super::setup::Environment;
use crate::exec::pattern::Pattern;
use crate::exec::query::Fold;
use crate::tool::error::ToolError;

/// The most bytes of a file of patterns that are read: more than a pattern may have.
const MOST: u64 = 16 << 20;

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
    together(all, args.fixed_strings)
}

/// Makes one of several.
fn together(mut all: Vec<String>, fixed: bool) -> Result<(String, bool), ToolError> {
    match (all.len(), all.pop()) {
        (1, Some(one)) => return Ok((one, fixed)),
        (_, Some(last)) => all.push(last),
        (_, None) => {
            return Err(ToolError::bad_args(
                "a PATTERN is missing: give one, or one with -e, or a file of them that has some with -f; --help has examples",
            ));
        }
    }
    if fixed {
        let texts: Vec<String> = all.iter().map(|text| regex_syntax::escape(text)).collect();
        return Ok((texts.join("|"), false));
    }
    for one in &all {
        // An empty one matches every line, as elsewhere.
        if !one.is_empty() {
            Pattern::compile(one, false, Fold::Sensitive, false)
                .map_err(|error| ToolError::bad_args(format!("the pattern `{one}`: {error}")))?;
        }
    }
    let groups: Vec<String> = all.iter().map(|one| format!("(?:{one})")).collect();
    Ok((groups.join("|"), false))
}

/// Reads patterns, one a line.
fn lines(file: &Path, environment: &Environment) -> Result<Vec<String>, ToolError> {
    let wrong = |why: &str| ToolError::bad_args(format!("-f {}: {why}", file.display()));
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().lock().take(MOST).read_to_end(&mut bytes),
        false => std::fs::File::open(environment.absolute(file)?)
            .and_then(|file| file.take(MOST).read_to_end(&mut bytes)),
    };
    read.map_err(|error| wrong(&error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not valid UTF-8"))?;
    Ok(text.lines().map(str::to_string).collect())
}

/// Returns every type that there is.
pub(super) fn types() -> Vec<FileTypeDef> {
    TypesBuilder::new().add_defaults().definitions()
}

/// Returns the globs of types.
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
            let likely = |one: &FileTypeDef| strsim::jaro_winkler(one.name(), name);
            let nearest = known.iter().max_by(|a, b| likely(a).total_cmp(&likely(b)));
            let hint = match nearest.filter(|one| likely(one) > 0.7) {
                Some(one) => format!("did you mean `{}`? ", one.name()),
                None => String::new(),
            };
            return Err(ToolError::bad_args(format!(
                "there is no type `{name}`; {hint}--type-list shows all, and -g takes globs"
            )));
        };
        globs.extend(found.globs().iter().cloned());
    }
    Ok(globs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| one.to_string()).collect()
    }

    #[test]
    fn several_patterns_are_one_that_matches_what_each_does() {
        let one = |all: &[&str], fixed| together(owned(all), fixed).unwrap();
        assert_eq!(one(&["a|b"], false), ("a|b".to_string(), false));
        assert_eq!(one(&["a.b"], true), ("a.b".to_string(), true));
        assert_eq!(
            one(&["a|b", "c"], false),
            ("(?:a|b)|(?:c)".to_string(), false)
        );
        assert_eq!(one(&["a.b", "c"], true), ("a\\.b|c".to_string(), false));
        assert_eq!(one(&["a", ""], false), ("(?:a)|(?:)".to_string(), false));
        // Two halves of something are no pattern.
        let error = together(owned(&["a)", "(b"]), false).unwrap_err().message();
        assert!(error.contains("the pattern `a)`"), "{error}");
        assert!(together(Vec::new(), false).is_err());
    }

    #[test]
    fn types_have_globs_and_unknown_ones_a_likely_name() {
        let rust = globs_of(&owned(&["rust"])).unwrap();
        assert_eq!(rust, ["*.rs"]);
        assert!(globs_of(&owned(&["py", "make"])).unwrap().len() > 3);
        assert!(globs_of(&owned(&["all"])).unwrap().len() > 300);
        let error = globs_of(&owned(&["pythn"])).unwrap_err().message();
        assert!(error.contains("did you mean `python`"), "{error}");
    }
}
