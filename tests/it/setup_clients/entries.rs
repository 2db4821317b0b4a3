//! Entries and paragraphs that a user had or changed: kept, restored, or refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{Home, PROGRAM, names_beside, read};
use crate::cli::command;

const AGENTS: &str = "tree/AGENTS.md";
const BACKUP: &str = ".before-forge-search";

/// Returns the text of AGENTS.md with the paragraph, and removes the copy.
fn without_copy(home: &Home, text: &str) -> String {
    let path = home.write(AGENTS, text);
    home.setup(&["agents-md", "--write"]);
    let backup = home.path(&format!("{AGENTS}{BACKUP}"));
    if backup.exists() {
        fs::remove_file(backup).unwrap();
    }
    read(&path)
}

#[test]
fn text_around_a_paragraph_survives_its_removal_without_a_copy() {
    let home = Home::new();
    let path = home.path(AGENTS);
    for text in [
        "# Rules\n",
        "# Rules\r\n\r\nBe kind.\r\n",
        "\u{feff}# Rules\n",
    ] {
        let written = without_copy(&home, text);
        assert_eq!(written.contains("\r\n"), text.contains("\r\n"));
        home.setup(&["agents-md", "--undo"]);
        assert_eq!(read(&path), text);
    }
    // A marker may be indented.
    let written = without_copy(&home, "# Rules\n");
    let indented = written.replace("<!-- forge-search: b", "  <!-- forge-search: b");
    fs::write(&path, &indented).unwrap();
    home.setup(&["agents-md", "--undo"]);
    assert_eq!(read(&path), "# Rules\n");
    // Text behind the paragraph stays a paragraph of its own.
    let written = without_copy(&home, "# Rules\n");
    fs::write(&path, format!("{written}Be kind.\n")).unwrap();
    home.setup(&["agents-md", "--undo"]);
    assert_eq!(read(&path), "# Rules\n\nBe kind.\n");
}

#[test]
fn a_marker_within_a_line_is_text() {
    let home = Home::new();
    let text = "- <!-- forge-search: begin -->\nx\n- <!-- forge-search: end -->\n";
    let path = home.write(AGENTS, text);
    assert!(
        home.setup(&["agents-md", "--undo"])
            .contains("nothing to undo")
    );
    assert_eq!(read(&path), text);
    home.setup(&["agents-md", "--write"]);
    assert!(read(&path).starts_with(text));
}

#[test]
fn a_second_begin_of_a_paragraph_is_refused() {
    let home = Home::new();
    let begin = "<!-- forge-search: begin -->\n";
    let text = format!("{begin}a\n{begin}b\n<!-- forge-search: end -->\n");
    let path = home.write(AGENTS, &text);
    for flag in ["--write", "--undo"] {
        let message = home.refused(&["agents-md", flag]);
        assert!(message.contains("twice"), "{message}");
        assert_eq!(read(&path), text);
    }
}

#[test]
fn fields_of_the_user_stay_in_an_entry() {
    let home = Home::new();
    let json = "{\"mcpServers\": {\"forge-search\": {\n  \"trust\": true, // mine\n  \
                \"command\": \"/old/forge-search\",\n  \"timeout\": 5\n}}}\n";
    let toml = "[mcp_servers.forge-search]\n# Why\nstartup_timeout_sec = 9\n# The program\n\
                command = \"/old/forge-search\" # old\n\n[mcp_servers.forge-search.env]\nA = \"b\"\n";
    for (target, name, text, kept) in [
        (
            "gemini",
            ".gemini/settings.json",
            json,
            vec!["\"trust\": true, // mine", "\"timeout\": 5"],
        ),
        (
            "codex",
            ".codex/config.toml",
            toml,
            vec![
                "# Why\nstartup_timeout_sec = 9",
                "# The program\n",
                "# old",
                "[mcp_servers.forge-search.env]\nA = \"b\"",
            ],
        ),
    ] {
        let path = home.write(name, text);
        home.setup(&[target, "--write"]);
        let written = read(&path);
        assert!(!written.contains("/old/"), "{written}");
        for kept in kept {
            assert!(written.contains(kept), "{kept}: {written}");
        }
        let again = home.setup(&[target, "--write"]);
        assert!(again.contains("nothing to do"), "{again}");
        // The former command comes back into a file that was edited since.
        let edited = written.replace("true, // mine", "false, // mine");
        fs::write(&path, edited.replace("= 9", "= 10")).unwrap();
        let told = home.setup(&[target, "--undo"]);
        assert!(told.contains("restored"), "{told}");
        let wanted = text.replace("true, // mine", "false, // mine");
        assert_eq!(read(&path), wanted.replace("= 9", "= 10"));
        assert!(
            !names_beside(&path)
                .iter()
                .any(|name| name.ends_with(BACKUP))
        );
    }
}

#[test]
fn an_entry_of_another_program_is_not_removed() {
    for (command, is_ours) in [
        ("\"/usr/bin/other\"", false),
        ("\"npx\", \"args\": [\"-y\", \"other\"]", false),
        (
            "\"npx\", \"args\": [\"-y\", \"forge-search@1.0\", \"mcp\"]",
            true,
        ),
        ("\"C:\\\\bin\\\\forge-search.exe\"", true),
    ] {
        let home = Home::new();
        let text = format!("{{\"mcpServers\": {{\"forge-search\": {{\"command\": {command}}}}}}}");
        let path = home.write(".claude.json", &text);
        if is_ours {
            home.setup(&["claude", "--undo"]);
            assert!(!read(&path).contains("forge-search"));
        } else {
            let message = home.refused(&["claude", "--undo"]);
            assert!(message.contains("another program"), "{message}");
            assert_eq!(read(&path), text);
        }
    }
}

#[test]
fn the_copy_is_of_the_file_before_the_last_entry() {
    let home = Home::new();
    let path = home.write(".claude.json", "{\"a\": 1}");
    home.setup(&["claude", "--write"]);
    // The user removes the entry by hand, changes the file, and adds the entry again.
    fs::write(&path, "{\"a\": 2}").unwrap();
    let told = home.setup(&["claude", "--write"]);
    assert!(told.contains(BACKUP), "{told}");
    home.setup(&["claude", "--undo"]);
    assert_eq!(read(&path), "{\"a\": 2}");
    // A copy of a removed file is not the original of a new one.
    home.setup(&["claude", "--write"]);
    fs::remove_file(&path).unwrap();
    home.setup(&["claude", "--write"]);
    home.setup(&["claude", "--undo"]);
    assert!(!path.exists());
    // Another command in our entry leaves the older copy.
    fs::write(&path, "{\"a\": 3}").unwrap();
    home.setup(&["claude", "--write"]);
    home.setup(&["claude", "--root", ".", "--write"]);
    home.setup(&["claude", "--undo"]);
    assert_eq!(read(&path), "{\"a\": 3}");
    // A copy with an equal entry is no original.
    home.setup(&["claude", "--write"]);
    let backup = home.path(&format!(".claude.json{BACKUP}"));
    fs::copy(&path, &backup).unwrap();
    let told = home.setup(&["claude", "--undo"]);
    assert!(told.contains("removed"), "{told}");
    assert!(!read(&path).contains("forge-search") && !backup.exists());
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    for (text, key) in [
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "mcpServers"),
        (
            "{\"mcpServers\": {}, \"mcp\\u0053ervers\": {}}",
            "mcpServers",
        ),
        (
            "{\"mcpServers\": {\"forge-search\": {}, \"forge-search\": {}}}",
            "forge-search",
        ),
        (
            "{\"mcpServers\": {\"forge-search\": {\"command\": \"a\", \"command\": \"b\"}}}",
            "command",
        ),
    ] {
        let home = Home::new();
        let path = home.write(".claude.json", text);
        for flag in ["--write", "--undo"] {
            let message = home.refused(&["claude", flag]);
            assert!(
                message.contains(&format!("`{key}` is there twice")),
                "{message}"
            );
            assert_eq!(read(&path), text);
        }
    }
}

#[test]
fn a_link_to_a_lost_program_is_replaced_and_one_to_another_stays() {
    let home = Home::new();
    let link = home.write("bin/rg", "");
    let other = home.write("other/forge-search", "#!/bin/sh\n");
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    for flag in ["--write", "--undo"] {
        let message = home.refused(&["rg", flag]);
        assert!(message.contains("another program"), "{message}");
        assert_eq!(fs::read_link(&link).unwrap(), other);
    }

    fs::remove_file(&other).unwrap();
    let shown = home.setup(&["rg", "--write"]);
    let line = |mark, target: &Path| format!("{mark} {} -> {}\n", link.display(), target.display());
    assert!(shown.contains(&line('-', &other)), "{shown}");
    assert!(shown.contains("\n+ "), "{shown}");
    assert_eq!(
        link.canonicalize().unwrap(),
        Path::new(PROGRAM).canonicalize().unwrap()
    );

    // A link that leads nowhere and has another name is not ours.
    fs::remove_file(&link).unwrap();
    symlink(home.path("lost/ripgrep"), &link).unwrap();
    home.refused(&["rg", "--write"]);
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    home.setup(&["rg", "--undo"]);
    assert!(link.symlink_metadata().is_err());
}

#[test]
fn a_copy_in_a_cache_is_named_by_its_starter_and_gets_no_link() {
    for (dir, starter) in [
        (".npm/_npx/1/node_modules/forge-search-linux-x64/bin", "npx"),
        (".cache/uv/archive-v0/1/bin", "uvx"),
    ] {
        let home = Home::new();
        fs::create_dir_all(home.path(dir)).unwrap();
        let program = home.path(dir).join("forge-search");
        if fs::hard_link(PROGRAM, &program).is_err() {
            crate::support::copy_program(PROGRAM, &program);
        }
        let run = |args: &[&str]| {
            let mut command = command(program.to_str().unwrap(), &home.path("tree"));
            home.set_environment(&mut command);
            command.arg("setup").args(args).output().unwrap()
        };
        let output = run(&["claude", "--write"]);
        assert!(output.status.success(), "{output:?}");
        let text = read(&home.path(".claude.json"));
        assert!(
            text.contains(&format!("\"command\": \"{starter}\"")),
            "{text}"
        );
        let output = run(&["rg", "--write", "--dir", "bin"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("install it first"), "{message}");
        assert!(!home.path("tree/bin").exists());
    }
}

#[test]
fn a_path_that_is_no_text_is_refused() {
    let home = Home::new();
    let tree = home.path("tree").join(OsStr::from_bytes(b"t\xff"));
    fs::create_dir(&tree).unwrap();
    let mut command = command(PROGRAM, &tree);
    home.set_environment(&mut command);
    let output = command.args(["setup", "claude", "--root", ".", "--write"]);
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("UTF-8"), "{message}");
    assert!(!home.path(".claude.json").exists());
}

#[test]
fn undo_finds_the_entry_in_either_file_of_an_editor() {
    let home = Home::new();
    let user = home.path(".config/Code/User/mcp.json");
    let project = home.path("tree/.vscode/mcp.json");
    home.setup(&["vscode", "--write"]);
    home.setup(&["vscode", "--root", ".", "--write"]);
    assert!(user.exists() && project.exists());
    home.setup(&["vscode", "--undo"]);
    assert!(!user.exists() && !project.exists());

    fs::create_dir(home.path("lost")).unwrap();
    let lost = home.path("lost").display().to_string();
    home.setup(&["vscode", "--root", &lost, "--write"]);
    fs::remove_dir(&lost).unwrap();
    home.setup(&["vscode", "--root", &lost, "--undo"]);
    assert!(!user.exists());
}

#[test]
fn flags_without_effect_are_refused() {
    let home = Home::new();
    for (args, flag, target) in [
        (vec!["rg", "--project"], "--project", "rg"),
        (vec!["rg", "--root", "."], "--root", "rg"),
        (vec!["claude", "--dir", "x"], "--dir", "claude"),
        (vec!["agents-md", "--dir", "x"], "--dir", "agents-md"),
        (vec!["agents-md", "--project"], "--project", "agents-md"),
    ] {
        let message = home.refused(&args);
        assert!(message.contains(flag), "{message}");
        assert!(message.contains(&format!("`setup {target}`")), "{message}");
    }
}

#[test]
fn a_read_only_file_stays_and_a_new_one_is_private() {
    let home = Home::new();
    home.setup(&["claude", "--write"]);
    let path = home.path(".claude.json");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    home.setup(&["claude", "--project", "--write"]);
    assert_ne!(mode(&home.path("tree/.mcp.json")), 0o600);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let text = read(&path);
    for args in [["--undo", "--root", "."], ["--write", "--root", "."]] {
        let message = home.refused(&[&["claude"], &args[..]].concat());
        assert!(message.contains("read-only"), "{message}");
        assert_eq!(read(&path), text);
    }
    assert_eq!(names_beside(&path), [".claude.json"]);
}
