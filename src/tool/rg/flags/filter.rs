//! Flags that decide which files are searched.

use std::path::PathBuf;

use super::{Completes, flag_table};
use crate::tool::rg::args::{Args, Binary, TypeRule};

flag_table! {
    /// Flags that decide which files are searched.
    FILTER: Filter

    "binary": "Search binary files to their end, but print no lines of them.",
        switch(|args, on| args.binary = if on { Binary::Search } else { Binary::Auto });
    "follow" 'L': "Follow symbolic links.", on(follow);
    "glob" 'g': "Search files that match GLOB, or not, if it begins with !; repeatable.",
        value(GLOB, |args, value| args.globs.push(value.text()?));
    "glob-case-insensitive": "Let --glob ignore case.", on(glob_case_insensitive);
    "hidden" '.': "Search hidden files and directories.", on(hidden);
    "iglob": "The same as --glob, ignoring case; repeatable.",
        value(GLOB, |args, value| args.iglobs.push(value.text()?));
    "ignore-file": "Read more ignore rules from the file PATH; repeatable.",
        value(PATH, |args, value| args.ignore_files.push(PathBuf::from(value.raw())))
            .completes(Completes::File);
    "ignore-file-case-insensitive": "Let ignore rules ignore case.",
        on(ignore_file_case_insensitive);
    "max-depth" 'd': "Descend at most NUM directories.",
        value(NUM, |args, value| args.max_depth = Some(value.number()?)).alias("maxdepth");
    "max-filesize": "Skip larger files, for example 500K.",
        value(SIZE, |args, value| args.max_filesize = Some(value.size()?));
    "no-ignore": "Heed no ignore files except those of --ignore-file.",
        switch(no_ignore).negation("ignore");
    "no-ignore-dot": "Don't heed .ignore and .rgignore.", on(no_ignore_dot).negation("ignore-dot");
    "no-ignore-exclude": "Don't heed .git/info/exclude.",
        on(no_ignore_exclude).negation("ignore-exclude");
    "no-ignore-files": "Don't heed --ignore-file.", on(no_ignore_files).negation("ignore-files");
    "no-ignore-global": "Don't heed the user's ignore file of git.",
        on(no_ignore_global).negation("ignore-global");
    "no-ignore-parent": "Don't heed ignore files in directories above.",
        on(no_ignore_parent).negation("ignore-parent");
    "no-ignore-vcs": "Don't heed .gitignore and other files of git.",
        on(no_ignore_vcs).negation("ignore-vcs");
    "no-require-git": "Heed .gitignore outside of git repositories too.",
        on(no_require_git).negation("require-git");
    "one-file-system": "Don't descend into other file systems.", on(one_file_system);
    "type" 't': "Search files of TYPE only (--type-list names all); repeatable.",
        value(TYPE, |args, value| args.type_rules.push(TypeRule::Select(value.text()?)));
    "type-not" 'T': "Don't search files of TYPE; repeatable.",
        value(TYPE, |args, value| args.type_rules.push(TypeRule::Negate(value.text()?)));
    "type-add": "Define a type for this call, for example web:*.{html,css}.",
        value(TYPESPEC, |args, value| args.type_rules.push(TypeRule::Add(value.text()?)));
    "type-clear": "Forget the globs of TYPE for this call.",
        value(TYPE, |args, value| args.type_rules.push(TypeRule::Clear(value.text()?)));
    "unrestricted" 'u': "Filter less: --no-ignore; twice also --hidden; three times --binary.",
        repeated(|args| {
            args.unrestricted += 1;
            match args.unrestricted {
                1 => no_ignore(args, true),
                2 => args.hidden = true,
                3 => args.binary = Binary::Search,
                _ => return Err("flag can only be repeated up to 3 times".to_string()),
            }
            Ok(())
        });
}

fn no_ignore(args: &mut Args, on: bool) {
    args.no_ignore_dot = on;
    args.no_ignore_exclude = on;
    args.no_ignore_global = on;
    args.no_ignore_parent = on;
    args.no_ignore_vcs = on;
}
