//! The flags of the command line: their names, values and effects.
//!
//! This module owns one table of all flags, which parsing, help, completions and the manual page
//! share. The names and effects are those of ripgrep 15. The modules below hold the rows of one or
//! more categories each. The effect of a flag is a change of [`Args`]; `plan` interprets the
//! result.

mod filter;
mod other;
mod output;
mod search;

use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use super::args::Args;

/// The categories, in the order in which the help lists them.
pub(super) const CATEGORIES: [Category; 7] = [
    Category::Input,
    Category::Search,
    Category::Filter,
    Category::Output,
    Category::Modes,
    Category::Logging,
    Category::Other,
];

/// The rows of all categories.
const TABLES: [&[Flag]; 7] = [
    search::INPUT,
    search::SEARCH,
    filter::FILTER,
    output::OUTPUT,
    other::MODES,
    other::LOGGING,
    other::OTHER,
];

/// A heading of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    /// Patterns, and how files are read.
    Input,
    /// The meaning of the patterns, and how the search runs.
    Search,
    /// The files that are searched.
    Filter,
    /// The appearance of a result.
    Output,
    /// Other kinds of results than lines.
    Modes,
    /// Messages and statistics.
    Logging,
    /// All other things.
    Other,
}

impl Category {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Category::Input => "Input",
            Category::Search => "Search",
            Category::Filter => "Files",
            Category::Output => "Output",
            Category::Modes => "Kinds of results",
            Category::Logging => "Messages",
            Category::Other => "Other",
        }
    }
}

/// The things that a shell may complete as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completes {
    /// Only the listed choices, if there are any.
    Choices,
    /// The path of a file.
    File,
    /// The name of a program.
    Program,
}

/// The result of taking a value.
pub(super) type Outcome = Result<(), String>;

/// The effect of a flag.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Turns something on, or off if the negation was used.
    Switch(fn(&mut Args, bool)),
    /// Has another effect each time.
    Repeated(fn(&mut Args) -> Outcome),
    /// Takes a value.
    Value {
        /// The name of the value in the help.
        name: &'static str,
        /// Takes the value.
        set: fn(&mut Args, Value) -> Outcome,
        /// Undoes it, if the flag has a negation.
        unset: fn(&mut Args),
    },
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    /// Its name after two hyphens.
    pub(super) long: &'static str,
    /// Its name after one hyphen.
    pub(super) short: Option<char>,
    /// The name that reverts it.
    pub(super) negation: Option<&'static str>,
    /// Another name for the same flag.
    pub(super) alias: Option<&'static str>,
    /// The heading under which the help lists it.
    pub(super) category: Category,
    /// One line for the help.
    pub(super) help: &'static str,
    /// The only values that it takes; any value if empty.
    pub(super) choices: &'static [&'static str],
    /// The completion of its value.
    pub(super) completes: Completes,
    /// The effect on the arguments.
    pub(super) effect: Effect,
}

impl Flag {
    const fn new(
        long: &'static str,
        category: Category,
        help: &'static str,
        effect: Effect,
    ) -> Flag {
        Flag {
            long,
            short: None,
            negation: None,
            alias: None,
            category,
            help,
            choices: &[],
            completes: Completes::Choices,
            effect,
        }
    }

    const fn short(mut self, short: char) -> Flag {
        self.short = Some(short);
        self
    }

    const fn negation(mut self, negation: &'static str) -> Flag {
        self.negation = Some(negation);
        self
    }

    const fn alias(mut self, alias: &'static str) -> Flag {
        self.alias = Some(alias);
        self
    }

    const fn choices(mut self, choices: &'static [&'static str]) -> Flag {
        self.choices = choices;
        self
    }

    const fn completes(mut self, completes: Completes) -> Flag {
        self.completes = completes;
        self
    }

    /// Gives a flag with a value a negation.
    const fn undone_by(mut self, negation: &'static str, undo: fn(&mut Args)) -> Flag {
        self.negation = Some(negation);
        if let Effect::Value { name, set, .. } = self.effect {
            let unset = undo;
            self.effect = Effect::Value { name, set, unset };
        }
        self
    }

    /// Returns the long names: the usual one, the alias and the negation.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.long), self.alias, self.negation]
            .into_iter()
            .flatten()
    }

    /// Returns the name of the value, if the flag has one.
    pub(super) fn value_name(&self) -> Option<&'static str> {
        match self.effect {
            Effect::Value { name, .. } => Some(name),
            Effect::Switch(_) | Effect::Repeated(_) => None,
        }
    }
}

const fn value(
    long: &'static str,
    category: Category,
    help: &'static str,
    name: &'static str,
    set: fn(&mut Args, Value) -> Outcome,
) -> Flag {
    const fn nothing(_: &mut Args) {}
    let unset: fn(&mut Args) = nothing;
    Flag::new(long, category, help, Effect::Value { name, set, unset })
}

/// Declares the table of a category. A row reads `"name" 'n': "Help.", effect;`, where `'n'` is the
/// short name, if there is one. Methods of [`Flag`] may follow the effect. The effects are:
///
/// - `on(field)` sets a field to true. The negation, `no-` and the name, sets it to false.
/// - `switch(|args, on| …)` has the same negation, and another effect.
/// - `set(|args| …)` has no negation.
/// - `repeated(|args| …)` has another effect each time.
/// - `value(NAME, |args, value| …)` takes a value, which the help calls `NAME`.
/// - `choice(NAME, field: "text" => value, …)` sets a field to one of the listed values. A last row
///   `else |other| …` gives the error for other values.
macro_rules! flag_table {
    (@flag $new:tt on($field:ident)) => {
        flag_table!(@flag $new switch(|args, on| args.$field = on))
    };
    (@flag ($long:literal $($rest:tt)*) switch($set:expr)) => {
        super::Flag::new($long $($rest)*, super::Effect::Switch($set))
            .negation(concat!("no-", $long))
    };
    (@flag ($($new:tt)*) set(|$args:ident| $set:expr)) => {
        super::Flag::new($($new)*, super::Effect::Switch(|$args, _| $set))
    };
    (@flag ($($new:tt)*) repeated($set:expr)) => {
        super::Flag::new($($new)*, super::Effect::Repeated($set))
    };
    (@flag ($($new:tt)*) value($name:ident, |$args:ident, $value:ident| $set:expr)) => {
        super::value($($new)*, stringify!($name), |$args, $value| {
            $set;
            Ok(())
        })
    };
    (@flag $new:tt choice($name:ident, $field:ident: $($text:literal => $choice:expr,)+)) => {
        flag_table!(@flag $new choice($name, $field:
            $($text => $choice,)+
            else |other| format!("choice '{other}' is unrecognized")
        ))
    };
    (@flag $new:tt choice(
        $name:ident, $field:ident: $($text:literal => $choice:expr,)+ else $error:expr
    )) => {
        flag_table!(@flag $new value($name, |args, value| {
            args.$field = value.choice(&[$(($text, $choice)),+], $error)?
        }))
        .choices(&[$($text),+])
    };
    (
        $(#[$about:meta])*
        $table:ident: $category:ident
        $($long:literal $($short:literal)?: $help:literal,
            $effect:ident $details:tt $(.$more:ident $values:tt)*;)+
    ) => {
        $(#[$about])*
        pub(super) const $table: &[super::Flag] = &[$(
            flag_table!(@flag ($long, super::Category::$category, $help) $effect $details)
                $(.short($short))?
                $(.$more $values)*
        ),+];
    };
}
use flag_table;

/// The value of a flag as it was typed.
#[derive(Debug)]
pub(super) struct Value(pub(super) OsString);

impl Value {
    fn text(self) -> Result<String, String> {
        let not_text = |_| "value is not valid UTF-8".to_string();
        self.0.into_string().map_err(not_text)
    }

    fn raw(self) -> OsString {
        self.0
    }

    fn number<N: FromStr<Err: std::fmt::Display>>(self) -> Result<N, String> {
        let parsed = self.text()?.parse();
        parsed.map_err(|error| format!("value is not a valid number: {error}"))
    }

    /// Parses a number of bytes with an optional unit, such as `10M`.
    fn size<N: TryFrom<u64>>(self) -> Result<N, String> {
        let bytes = grep_cli::parse_human_readable_size(&self.text()?)
            .map_err(|error| format!("invalid size: {error}"))?;
        N::try_from(bytes).map_err(|_| "size is too big".to_string())
    }

    /// Replaces escapes such as `\t` and `\x00`.
    fn unescaped(self) -> Result<Vec<u8>, String> {
        match self.0.to_str() {
            Some(text) => Ok(grep_cli::unescape(text)),
            None => Err("value is not valid UTF-8; use escapes such as \\xFF".to_string()),
        }
    }

    fn choice<T: Copy>(
        self,
        choices: &[(&str, T)],
        error: impl Fn(&str) -> String,
    ) -> Result<T, String> {
        let text = self.text()?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| error(&text))
    }
}

impl AsRef<OsStr> for Value {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

/// Returns all flags.
pub(super) fn all() -> impl Iterator<Item = &'static Flag> {
    TABLES.into_iter().flatten()
}

/// Returns the flag with a one-letter name.
pub(super) fn with_short(short: char) -> Option<&'static Flag> {
    all().find(|flag| flag.short == Some(short))
}

/// Returns the flag with a long name, and whether the name is its negation.
pub(super) fn with_long(long: &str) -> Option<(&'static Flag, bool)> {
    let flag = all().find(|flag| flag.names().any(|name| name == long))?;
    Some((flag, flag.negation == Some(long)))
}

/// Returns the long names that resemble an unknown one.
pub(super) fn similar_to(unknown: &str) -> Vec<&'static str> {
    /// The least similarity of two names, from 0 to 1.
    const SIMILAR: f64 = 0.5;
    let names = all().flat_map(Flag::names);
    names
        .filter(|name| strsim::sorensen_dice(unknown, name) > SIMILAR)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ripgrep_15_has_104_flags() {
        assert_eq!(all().count(), 104);
    }

    #[test]
    fn each_name_belongs_to_one_flag() {
        let mut long = BTreeSet::new();
        let mut short = BTreeSet::new();
        for flag in all() {
            for name in flag.names() {
                assert!(long.insert(name), "{name}");
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
            }
            assert!(
                flag.short.is_none_or(|name| short.insert(name)),
                "{}",
                flag.long
            );
        }
    }

    #[test]
    fn each_category_has_flags() {
        for category in CATEGORIES {
            assert!(all().any(|flag| flag.category == category), "{category:?}");
        }
    }

    #[test]
    fn a_help_line_is_one_short_sentence() {
        for flag in all() {
            assert!(flag.help.ends_with('.'), "{}: {}", flag.long, flag.help);
            assert!(flag.help.len() <= 75, "{}: {}", flag.long, flag.help);
        }
    }

    #[test]
    fn an_unknown_name_is_compared_with_all_names() {
        assert!(similar_to("hiden").contains(&"hidden"));
        assert!(similar_to("no-hiden").contains(&"no-hidden"));
        assert!(similar_to("passthroug").contains(&"passthrough"));
        assert!(similar_to("qqqqqq").is_empty());
    }
}
