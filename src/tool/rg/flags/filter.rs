//! Flags that decide which files are searched.

use std::path::PathBuf;

use super::Category::Filter;
use super::{Completes, Effect, Flag, switch, value};
use crate::tool::rg::args::{Args, Binary, TypeRule};

/// Flags that decide which files are searched.
pub(super) const FILTER: &[Flag] = &[
    switch(
        "binary",
        Filter,
        "Search binary files to their end, but print no lines of them.",
        |args, on| args.binary = if on { Binary::Search } else { Binary::Auto },
    )
    .negation("no-binary"),
    switch("follow", Filter, "Follow symbolic links.", |args, on| {
        args.follow = on;
    })
    .short('L')
    .negation("no-follow"),
    value(
        "glob",
        "GLOB",
        Filter,
        "Search files that match GLOB, or not, if it begins with !; repeatable.",
        |args, value| {
            args.globs.push(value.text()?);
            Ok(())
        },
    )
    .short('g'),
    switch(
        "glob-case-insensitive",
        Filter,
        "Let --glob ignore case.",
        |args, on| args.glob_case_insensitive = on,
    )
    .negation("no-glob-case-insensitive"),
    switch(
        "hidden",
        Filter,
        "Search hidden files and directories.",
        |args, on| args.hidden = on,
    )
    .short('.')
    .negation("no-hidden"),
    value(
        "iglob",
        "GLOB",
        Filter,
        "The same as --glob, ignoring case; repeatable.",
        |args, value| {
            args.iglobs.push(value.text()?);
            Ok(())
        },
    ),
    value(
        "ignore-file",
        "PATH",
        Filter,
        "Read more ignore rules from the file PATH; repeatable.",
        |args, value| {
            args.ignore_files.push(PathBuf::from(value.raw()));
            Ok(())
        },
    )
    .completes(Completes::File),
    switch(
        "ignore-file-case-insensitive",
        Filter,
        "Let ignore rules ignore case.",
        |args, on| args.ignore_file_case_insensitive = on,
    )
    .negation("no-ignore-file-case-insensitive"),
    value(
        "max-depth",
        "NUM",
        Filter,
        "Descend at most NUM directories.",
        |args, value| {
            args.max_depth = Some(value.number()?);
            Ok(())
        },
    )
    .short('d')
    .alias("maxdepth"),
    value(
        "max-filesize",
        "SIZE",
        Filter,
        "Skip larger files, for example 500K.",
        |args, value| {
            args.max_filesize = Some(value.size()?);
            Ok(())
        },
    ),
    switch(
        "no-ignore",
        Filter,
        "Heed no ignore files except those of --ignore-file.",
        no_ignore,
    )
    .negation("ignore"),
    switch(
        "no-ignore-dot",
        Filter,
        "Don't heed .ignore and .rgignore.",
        |args, on| args.no_ignore_dot = on,
    )
    .negation("ignore-dot"),
    switch(
        "no-ignore-exclude",
        Filter,
        "Don't heed .git/info/exclude.",
        |args, on| args.no_ignore_exclude = on,
    )
    .negation("ignore-exclude"),
    switch(
        "no-ignore-files",
        Filter,
        "Don't heed --ignore-file.",
        |args, on| args.no_ignore_files = on,
    )
    .negation("ignore-files"),
    switch(
        "no-ignore-global",
        Filter,
        "Don't heed the user's ignore file of git.",
        |args, on| args.no_ignore_global = on,
    )
    .negation("ignore-global"),
    switch(
        "no-ignore-parent",
        Filter,
        "Don't heed ignore files in directories above.",
        |args, on| args.no_ignore_parent = on,
    )
    .negation("ignore-parent"),
    switch(
        "no-ignore-vcs",
        Filter,
        "Don't heed .gitignore and other files of git.",
        |args, on| args.no_ignore_vcs = on,
    )
    .negation("ignore-vcs"),
    switch(
        "no-require-git",
        Filter,
        "Heed .gitignore outside of git repositories too.",
        |args, on| args.no_require_git = on,
    )
    .negation("require-git"),
    switch(
        "one-file-system",
        Filter,
        "Don't descend into other file systems.",
        |args, on| args.one_file_system = on,
    )
    .negation("no-one-file-system"),
    value(
        "type",
        "TYPE",
        Filter,
        "Search files of TYPE only (--type-list names all); repeatable.",
        |args, value| rule(args, TypeRule::Select, value.text()?),
    )
    .short('t'),
    value(
        "type-not",
        "TYPE",
        Filter,
        "Don't search files of TYPE; repeatable.",
        |args, value| rule(args, TypeRule::Negate, value.text()?),
    )
    .short('T'),
    value(
        "type-add",
        "TYPESPEC",
        Filter,
        "Define a type for this call, for example web:*.{html,css}.",
        |args, value| rule(args, TypeRule::Add, value.text()?),
    ),
    value(
        "type-clear",
        "TYPE",
        Filter,
        "Forget the globs of TYPE for this call.",
        |args, value| rule(args, TypeRule::Clear, value.text()?),
    ),
    Flag::new(
        "unrestricted",
        Filter,
        "Filter less: --no-ignore; twice also --hidden; three times --binary.",
        Effect::Repeated(|args| {
            args.unrestricted += 1;
            match args.unrestricted {
                1 => no_ignore(args, true),
                2 => args.hidden = true,
                3 => args.binary = Binary::Search,
                _ => return Err("flag can only be repeated up to 3 times".to_string()),
            }
            Ok(())
        }),
    )
    .short('u'),
];

fn no_ignore(args: &mut Args, on: bool) {
    args.no_ignore_dot = on;
    args.no_ignore_exclude = on;
    args.no_ignore_global = on;
    args.no_ignore_parent = on;
    args.no_ignore_vcs = on;
}

fn rule(args: &mut Args, rule: fn(String) -> TypeRule, text: String) -> super::Outcome {
    args.type_rules.push(rule(text));
    Ok(())
}
