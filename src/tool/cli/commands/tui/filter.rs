//! The filter of the interactive search: the files to search, in words such as `*.rs !gen/ src/`.
//!
//! This module owns the meaning of the words. The globs are those of the tool `Search`.

use crate::exec::sources::eligible::Globs;
use crate::exec::sources::types::{TypeRule, all_types, file_types};
use crate::tool::request::SearchRequest;

/// The prefix of a word that names a file type, such as `type:rust`.
const TYPE: &str = "type:";

/// Adds the filter in `words` to a request. A word is a glob, a directory that ends with `/`, or a
/// type; a leading `!` excludes files.
///
/// # Errors
///
/// The message that a glob is invalid, that a type is unknown, or that there are two directories.
pub(super) fn add(words: &str, request: &mut SearchRequest) -> Result<(), String> {
    let (mut include, mut exclude) = (Vec::new(), Vec::new());
    for word in words.split_whitespace() {
        let (list, glob) = match word.strip_prefix('!') {
            Some(glob) => (&mut exclude, glob),
            None => (&mut include, word),
        };
        if let Some(name) = glob.strip_prefix(TYPE) {
            list.extend(globs_of_type(name)?);
        } else if word.ends_with('/') && !word.contains(['!', '*', '?', '[', '{', '\\']) {
            if let Some(first) = request.path.replace(word.to_string()) {
                return Err(format!(
                    "the filter has the directories {first} and {word}; keep one, or use globs such as {word}**"
                ));
            }
        } else {
            list.push(glob.to_string());
        }
    }
    Globs::new(&include, &exclude).map_err(|error| format!("filter: {}", error.message))?;
    let some = |globs: Vec<String>| (!globs.is_empty()).then_some(globs);
    request.include_glob = some(include);
    request.exclude_glob = some(exclude);
    Ok(())
}

fn globs_of_type(name: &str) -> Result<Vec<String>, String> {
    let rule = TypeRule {
        name: name.to_string(),
        negated: false,
    };
    file_types(&[rule])
        .map_err(|error| format!("filter: {error}; `forge-search --type-list` prints all types"))?;
    let all = all_types().into_iter();
    let meant = all.filter(|one| name == "all" || one.name() == name);
    Ok(meant.flat_map(|one| one.globs().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(words: &str) -> Result<SearchRequest, String> {
        let mut request = SearchRequest::new("x");
        add(words, &mut request).map(|()| request)
    }

    #[test]
    fn tui_a_filter_is_globs_a_directory_and_types() {
        assert_eq!(added(" ").unwrap(), SearchRequest::new("x"));
        let request = added("*.rs  !gen/ src/ type:toml !type:lock").unwrap();
        assert_eq!(request.path.as_deref(), Some("src/"));
        let include = request.includes();
        assert!(include.contains(&"*.rs".to_string()) && include.contains(&"*.toml".to_string()));
        let exclude = request.excludes();
        assert!(exclude.contains(&"gen/".to_string()) && exclude.contains(&"*.lock".to_string()));
        assert_eq!(added("a*/").unwrap().includes(), ["a*/"]);
    }

    #[test]
    fn tui_a_wrong_filter_is_told() {
        for (words, told) in [
            ("*.[rs", "\"*.[rs\" is invalid"),
            ("!", "a glob is empty"),
            ("type:rsut", "did you mean `rust`?"),
            ("a/ b/", "a/ and b/"),
        ] {
            let error = added(words).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
