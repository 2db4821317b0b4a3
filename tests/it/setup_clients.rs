//! `forge-search setup`: one entry in the configuration of a client, made and taken back.

mod entries;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cli::command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forge-search");

/// The clients: target, the user's file below the home directory, and a file with other entries.
const CLIENTS: [(&str, &str, &str); 5] = [
    ("claude", ".claude.json", OTHER_SERVERS),
    ("codex", ".codex/config.toml", TOML),
    ("gemini", ".gemini/settings.json", OTHER_SERVERS),
    ("opencode", ".config/opencode/opencode.json", WITH_COMMENTS),
    ("zed", ".config/zed/settings.json", WITH_COMMENTS),
];

const OTHER_SERVERS: &str = r#"{"numStartups": 7,
    "mcpServers": {"other": {"command": "x", "args": []}},   "last": [1,  2]
}"#;

const WITH_COMMENTS: &str =
    "// Settings\n{\n\t\"theme\": \"dark\", // at night\n\t/* more */\n\t\"font\": 12,\n}\n";

const TOML: &str = "# Codex\nmodel = 'x'   # mine\n\n[mcp_servers.other]\ncommand=\"y\"\n\n[tui]\nnotifications = true\n";

const CRLF_TOML: &str = "a = 1\r\n\r\n[tui]\r\nb = \"\"\"x\r\ny\"\"\"\r\n";

/// A home directory with a tree in it.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        Home { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs a command in the tree.
    fn run(&self, args: &[&str]) -> Output {
        let mut command = command(PROGRAM, &self.path("tree"));
        self.set_environment(&mut command);
        command.args(args).output().unwrap()
    }

    /// Makes a command use this home directory.
    fn set_environment(&self, command: &mut Command) {
        let home = self.path("");
        command
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", home.join("bin").display()),
            )
            .env_remove("CLAUDE_CONFIG_DIR")
            .env_remove("CODEX_HOME");
    }

    /// Runs `setup` and returns its output.
    #[track_caller]
    fn setup(&self, args: &[&str]) -> String {
        let output = self.run(&[&["setup"], args].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `setup`, which must fail, and returns its message.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(&[&["setup"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Returns the files next to a file, itself included.
fn names_beside(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with("tree")).collect();
    names.sort();
    names
}

#[test]
fn an_entry_is_written_once_and_taken_back_to_the_same_bytes() {
    for (target, name, other) in CLIENTS {
        let texts = match target {
            "codex" => vec!["", other, "a = 1", CRLF_TOML, "\u{feff}a = 1\n"],
            _ => vec![
                "",
                "{}",
                "{\n}\n",
                "{\"a\":1}",
                other,
                "{\r\n  \"a\": 1\r\n}\r\n",
                "\u{feff}{\n  \"a\": 1\n}\n",
            ],
        };
        for text in texts {
            let home = Home::new();
            let path = home.write(name, text);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let before = names_beside(&path);

            let shown = home.setup(&[target]);
            assert!(shown.contains("\n+ "), "{target}: {shown}");
            assert_eq!(read(&path), text, "{target} wrote without --write");

            home.setup(&[target, "--write"]);
            let written = read(&path);
            assert!(written.contains("forge-search"), "{target}: {written}");
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o640
            );
            let again = home.setup(&[target, "--write"]);
            assert!(again.contains("nothing to do"), "{target}: {again}");
            assert_eq!(read(&path), written, "{target}");

            home.setup(&[target, "--undo"]);
            assert_eq!(read(&path), text, "{target}");
            assert_eq!(names_beside(&path), before, "{target} left files behind");
            assert!(home.setup(&[target, "--undo"]).contains("nothing to undo"));
        }
    }
}

#[test]
fn a_new_file_is_made_and_removed_again() {
    for (target, name, _) in CLIENTS {
        let home = Home::new();
        home.setup(&[target, "--write"]);
        assert!(read(&home.path(name)).contains("\"mcp\""), "{target}");
        home.setup(&[target, "--undo"]);
        assert!(!home.path(name).exists(), "{target}");
    }
}

#[test]
fn other_entries_and_comments_stay_on_their_lines() {
    for (target, name, other) in CLIENTS {
        let home = Home::new();
        let path = home.write(name, other);
        home.setup(&[target, "--write"]);
        let written = read(&path);
        for kept in [
            "// at night",
            "/* more */",
            "# mine",
            "\"last\": [1,  2]",
            "command=\"y\"",
        ] {
            assert_eq!(
                written.contains(kept),
                other.contains(kept),
                "{target}: {written}"
            );
        }
        let backup = format!("{}.before-forge-search", path.display());
        assert_eq!(read(Path::new(&backup)), other, "{target}");
    }
}

#[test]
fn edits_after_the_entry_was_written_survive_its_removal() {
    let home = Home::new();
    let path = home.write(".claude.json", OTHER_SERVERS);
    home.setup(&["claude", "--write"]);
    let edited = read(&path).replace("\"numStartups\": 7", "\"numStartups\": 8");
    fs::write(&path, &edited).unwrap();
    home.setup(&["claude", "--undo"]);
    assert_eq!(names_beside(&path), [".claude.json"]);
    let now = read(&path);
    assert!(
        now.contains("\"numStartups\": 8") && now.contains("\"other\""),
        "{now}"
    );
    assert!(!now.contains("forge-search"), "{now}");
}

#[test]
fn an_entry_of_the_same_name_is_replaced_and_comes_back() {
    let home = Home::new();
    let text = "{\"mcpServers\": {\"forge-search\": {\"command\": \"/old/forge-search\"}}}";
    let path = home.write(".claude.json", text);
    let shown = home.setup(&["claude", "--write"]);
    assert!(shown.contains("- {\"mcpServers\""), "{shown}");
    assert!(!read(&path).contains("/old/"));
    let told = home.setup(&["claude", "--undo"]);
    assert!(told.contains("restored"), "{told}");
    assert_eq!(read(&path), text);
}

#[test]
fn a_file_that_can_not_be_parsed_stays_as_it_is() {
    let damaged = [
        ("claude", ".claude.json", "{\"mcpServers\": {"),
        ("claude", ".claude.json", "[1]"),
        ("claude", ".claude.json", "{\"mcpServers\": 3}"),
        ("claude", ".claude.json", "{'a': 1}"),
        ("codex", ".codex/config.toml", "[mcp_servers"),
        ("codex", ".codex/config.toml", "mcp_servers = 3"),
        ("codex", ".codex/config.toml", "a = 1\r\nb = 2\n"),
        (
            "claude",
            ".claude.json",
            "{\"mcpServers\": {\"forge-search\": 3}}",
        ),
        (
            "claude",
            ".claude.json",
            "{\"mcpServers\": {\"forge-search\": {\"url\": \"https://x\"}}}",
        ),
        (
            "agents-md",
            "tree/AGENTS.md",
            "<!-- forge-search: begin -->\n",
        ),
    ];
    for (target, name, text) in damaged {
        let home = Home::new();
        let path = home.write(name, text);
        let before = names_beside(&path);
        let message = home.refused(&[target, "--write"]);
        assert!(message.contains(name), "{message}");
        assert!(message.contains("nothing was changed"), "{message}");
        assert_eq!(read(&path), text);
        assert_eq!(names_beside(&path), before);
    }
    let home = Home::new();
    let path = home.write(".claude.json", "");
    fs::write(&path, b"{\"a\": \"\xff\"}").unwrap();
    assert!(home.refused(&["claude", "--write"]).contains("UTF-8"));
}

#[test]
fn a_link_to_a_configuration_stays_a_link() {
    let home = Home::new();
    let target = home.write("dotfiles/claude.json", OTHER_SERVERS);
    let link = home.path(".claude.json");
    symlink(&target, &link).unwrap();
    home.setup(&["claude", "--write"]);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(read(&target).contains("forge-search"));
    home.setup(&["claude", "--undo"]);
    assert_eq!(read(&target), OTHER_SERVERS);

    fs::remove_file(&target).unwrap();
    let message = home.refused(&["claude", "--write"]);
    assert!(message.contains("leads to no file"), "{message}");
}

#[test]
fn the_file_of_a_project_and_a_named_tree_are_used() {
    let home = Home::new();
    let project = [
        ("claude", ".mcp.json"),
        ("codex", ".codex/config.toml"),
        ("cursor", ".cursor/mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", "opencode.json"),
        ("vscode", ".vscode/mcp.json"),
        ("zed", ".zed/settings.json"),
    ];
    for (target, name) in project {
        home.setup(&[target, "--project", "--write"]);
        let text = read(&home.path("tree").join(name));
        assert!(text.contains("\"forge-search\""), "{target}: {text}");
        home.setup(&[target, "--project", "--undo"]);
    }
    assert!(
        home.refused(&["windsurf", "--project"])
            .contains("--project")
    );
    assert!(home.refused(&["windsurf"]).contains("--root DIR"));
    // Whether Cursor replaces its variable in the user's file is unknown.
    home.setup(&["cursor", "--write"]);
    assert!(read(&home.path("tree/.cursor/mcp.json")).contains("${workspaceFolder}"));
    home.setup(&["cursor", "--root", ".", "--write"]);
    assert!(!read(&home.path(".cursor/mcp.json")).contains("${workspaceFolder}"));
    let tree = home.path("tree").display().to_string();
    for (target, name) in [
        ("windsurf", ".codeium/windsurf/mcp_config.json"),
        ("claude", ".claude.json"),
    ] {
        home.setup(&[target, "--root", ".", "--write"]);
        let text = read(&home.path(name));
        assert!(text.contains(&format!("\"--root\", \"{tree}\"")), "{text}");
    }
    // The file that opencode already has.
    let jsonc = home.write(".config/opencode/opencode.jsonc", WITH_COMMENTS);
    home.setup(&["opencode", "--write"]);
    assert!(read(&jsonc).contains("forge-search"));
}

#[test]
fn the_entry_starts_a_server() {
    let home = Home::new();
    home.setup(&["claude", "--write"]);
    let text = read(&home.path(".claude.json"));
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let entry = &config["mcpServers"]["forge-search"];
    let program = entry["command"].as_str().unwrap();
    assert_eq!(
        Path::new(program).canonicalize().unwrap(),
        Path::new(PROGRAM).canonicalize().unwrap()
    );
    let args: Vec<&str> = entry["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| arg.as_str().unwrap())
        .collect();
    assert_eq!(args, ["mcp"]);
}

#[test]
fn the_paragraph_for_agents_is_that_of_the_guide() {
    let paragraph = include_str!("../../src/tool/cli/commands/clients/agents.md");
    let guide = include_str!("../../docs/guide/agents.md");
    assert!(guide.contains(&format!("```markdown\n{paragraph}```")));

    for text in ["# Rules\n\nBe kind.\n", "no line end", ""] {
        let home = Home::new();
        let path = home.write("tree/AGENTS.md", text);
        home.setup(&["agents-md", "--write"]);
        let written = read(&path);
        assert!(
            written.starts_with(text) && written.contains(paragraph),
            "{written}"
        );
        fs::write(&path, written.replace("## Searching", "## Old words")).unwrap();
        home.setup(&["agents-md", "--write"]);
        assert_eq!(read(&path), written);
        home.setup(&["agents-md", "--undo"]);
        assert_eq!(read(&path), text);
    }
}

#[test]
fn the_link_for_ripgrep_replaces_no_other_program() {
    let home = Home::new();
    let bin = home.path("bin");
    fs::create_dir(&bin).unwrap();
    let link = bin.join("rg");
    let shown = home.setup(&["rg"]);
    assert!(shown.contains(&link.display().to_string()), "{shown}");
    assert!(!link.exists());
    home.setup(&["rg", "--write"]);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(home.setup(&["rg", "--write"]).contains("nothing to do"));
    let doctor = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
    assert!(
        doctor.contains("rg in PATH        this program"),
        "{doctor}"
    );
    home.setup(&["rg", "--undo"]);
    assert!(!link.exists());

    fs::write(&link, "#!/bin/sh\n").unwrap();
    for flag in ["--write", "--undo"] {
        let message = home.refused(&["rg", flag]);
        assert!(message.contains("another program"), "{message}");
    }
    assert_eq!(read(&link), "#!/bin/sh\n");
    home.setup(&["rg", "--dir", "other", "--write"]);
    assert!(home.path("tree/other/rg").exists());
}

#[test]
fn doctor_tells_which_clients_start_the_program() {
    let home = Home::new();
    home.write(".gemini/settings.json", "{}");
    home.write(".cursor/mcp.json", "{");
    home.setup(&["claude", "--write"]);
    let doctor = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
    let line = |client: &str| {
        let mut lines = doctor
            .lines()
            .filter(|line| line.trim().starts_with(client));
        lines.next().unwrap_or_default().to_string()
    };
    assert!(line("Claude Code").contains(" registered "), "{doctor}");
    assert!(!line("Claude Code").contains("gone"), "{doctor}");
    assert!(line("Gemini CLI").contains("not registered"), "{doctor}");
    assert!(line("Cursor").contains("unreadable"), "{doctor}");
    assert_eq!(line("Codex"), "");
    let json = home.run(&["doctor", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(report["clients"]["found"][0]["registered"], true);

    home.write(
        ".claude.json",
        "{\"mcpServers\": {\"forge-search\": {\"command\": \"/old/forge-search\"}}}",
    );
    let doctor = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("but /old/forge-search is gone"), "{doctor}");
}
