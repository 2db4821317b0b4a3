//! File types: named lists of globs, which `-t` and `-T` select.

use ignore::types::{FileTypeDef, Types, TypesBuilder};
use serde::{Deserialize, Serialize};

/// One use of `-t` or `-T`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeRule {
    /// The name, such as `rust`; `all` is every type.
    pub name: String,
    /// Whether files of the type are excluded instead of selected.
    pub negated: bool,
}

/// An unknown name of a file type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no type `{name}`{hint}")]
pub struct TypeError {
    name: String,
    hint: String,
}

/// Returns all file types, by name.
pub fn all_types() -> Vec<FileTypeDef> {
    TypesBuilder::new().add_defaults().definitions()
}

/// Compiles type rules. The last rule that covers a file decides. If at least one rule is not
/// negated, other files are excluded.
///
/// # Errors
///
/// [`TypeError`] for an unknown type, with the most similar known one.
pub fn file_types(rules: &[TypeRule]) -> Result<Types, TypeError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for rule in rules {
        match rule.negated {
            true => builder.negate(&rule.name),
            false => builder.select(&rule.name),
        };
    }
    builder.build().map_err(|_| unknown(rules))
}

fn unknown(rules: &[TypeRule]) -> TypeError {
    let known = all_types();
    let is_unknown =
        |rule: &&TypeRule| rule.name != "all" && !known.iter().any(|one| one.name() == rule.name);
    let name = rules.iter().find(is_unknown).map(|rule| rule.name.clone());
    let name = name.unwrap_or_default();
    let hint = match nearest(&known, &name) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    TypeError { name, hint }
}

/// Returns the type with the name most similar to a typed one: by the fewest typing errors, then by
/// length, then by similarity.
fn nearest<'a>(known: &'a [FileTypeDef], typed: &str) -> Option<&'a str> {
    let errors = |name: &str| strsim::osa_distance(name, typed);
    let alike = |name: &str| strsim::jaro_winkler(name, typed);
    let near = known.iter().map(FileTypeDef::name).min_by(|a, b| {
        let apart = |name: &str| (errors(name), name.len().abs_diff(typed.len()));
        apart(a).cmp(&apart(b)).then(alike(b).total_cmp(&alike(a)))
    });
    near.filter(|name| errors(name) <= 2 && alike(name) > 0.7)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rules(all: &[&str]) -> Vec<TypeRule> {
        let one = |name: &&str| TypeRule {
            name: name.trim_start_matches('!').to_string(),
            negated: name.starts_with('!'),
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn the_last_choice_of_a_type_decides() {
        let kept = |all: &[&str], path: &str| {
            let types = file_types(&rules(all)).unwrap();
            !types.matched(Path::new(path), false).is_ignore()
        };
        assert!(kept(&["rust"], "src/a.rs") && !kept(&["rust"], "a.py"));
        assert!(kept(&["rust", "py"], "a.py") && !kept(&["!py"], "a.py"));
        assert!(kept(&["!py"], "a.rs") && !kept(&["py", "!py"], "a.py"));
        assert!(kept(&["!py", "py"], "a.py"));
        assert!(kept(&["all"], "a.rs") && !kept(&["all"], "a.unheard-of"));
    }

    #[test]
    fn an_unknown_type_is_refused_with_a_likely_name() {
        for (typed, meant) in [
            ("pythn", "`python`"),
            ("rsut", "`rust`"),
            ("Rust", "`rust`"),
        ] {
            let error = file_types(&rules(&["py", typed])).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean {meant}")), "{error}");
        }
        let error = file_types(&rules(&["frobnicate"])).unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }
}
