#!/usr/bin/env python3
"""Compares forge-search for Windows, under Wine, with forge-search for Linux, on the same tree.

    wine.py WINE WINDOWS_PROGRAM LINUX_PROGRAM [REQUESTS]

1. Commands without an index: the same output and exit status.
2. `index build`, `status` and `verify`, and searches with the index, also while it vouches for the
   tree (`index_frozen`), so that files are skipped.
3. Edits, among them one that keeps length and time of writing: the next search shows each.
4. Two processes answer REQUESTS requests (1000) while the tree changes: Windows with a live index,
   Linux without an index. Each answer is the same.

The tree is on the drive Z:, which is the file system of Linux.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The seconds that a command may take.
LIMIT = 300

TEXTS = {
    "a.rs": b"fn main() {\n    let needle = 1;\n}\n",
    "b/crlf.txt": b"hay\r\nneedle at the end\r\nneedle\r\n",
    "b/deep/er/c.rs": b"// Needle and NEEDLE\nfn needle() {}\n",
    "b-x.txt": b"sorted between the directory and its files: needle\n",
    "B/upper.md": b"needle in a directory of another case\n" * 3,
    "binary.bin": b"needle\0needle\n",
    "no-feed.txt": b"needle without a line feed",
    "not-utf8.txt": b"\xff needle \xfe\n",
    "key.pem": b"needle that nobody may see\n",
    ".ssh/config": b"needle that nobody may see\n",
    ".hidden/h.txt": b"needle below a hidden directory\n",
    "target/out.txt": b"needle that an ignore file names\n",
    ".gitignore": b"/target\n*.log\n",
    ".ignore": b"*.tmp\n",
    "x.log": b"needle\n",
    "x.tmp": b"needle\n",
    "with blank/\u00e9t\u00e9 \u4e2d.txt": "needle, Stra\u00dfe, \u00e9t\u00e9\n".encode(),
    "[x]/{y}#z.rs": b"fn needle() {}\n",
    "big.txt": b"".join(b"line %d of a text that is long enough\n" % n for n in range(4000)) + b"needle\n",
    "empty.txt": b"",
}

# With the separator of Linux: ripgrep prints the one of the system.
RG = ["rg", "--sort", "path", "--path-separator", "/"]

# Vouches for the tree, so that an index skips files.
FROZEN = ["--set", "index_frozen=true"]

COMMANDS = [
    ["needle"],
    ["needle", "b", "B"],
    ["needle", "b/deep"],
    ["-i", "NEEDLE"],
    ["-w", "-s", "Needle"],
    ["needle$"],
    ["-c", "needle"],
    ["-l", "needle"],
    ["-g", "*.rs", "needle"],
    ["-g", "!b/**", "needle"],
    ["--hidden", "needle"],
    ["--no-ignore", "needle"],
    ["-C", "1", "main"],
    ["-F", "fn needle() {}"],
    ["needle", "key.pem"],
    ["nothing has this text"],
    ["("],
    ["--files"],
    ["--json", "needle"],
    [*RG, "needle"],
    [*RG, "-i", "stra\u00dfe"],
    [*RG, "--json", "without a line feed"],
    [*RG, "-n", "--column", "--heading", "needle"],
]

PATTERNS = ["needle", "Needle", "n.*le", "hay|straw", r"\bneedle\b", "^$", "absent from it all", "[xyz]needle", "(", r"\d+x"]
GLOBS = ["*.rs", "a/", "/a/**", "!b.rs", "./a/*", "[[]x].rs", "src/**"]
NAMES = ["a", "b.rs", "d.txt", "with space", "\u00e9", "[x].rs", "{b}", "#c", ".hidden", "k.pem", ".ssh", "src"]
LINES = [b"needle\n", b"Needle in hay\n", b"hay\n", b"\n", b"straw needle\r\n", b"\xff needle \xfe\n", b"\0", b"no line feed", b"needlf\n", b"7x\n"]


def fail(what, windows, linux):
    sys.exit(f"different: {what}\n--- Windows\n{windows}\n--- Linux\n{linux}")


def without_places(line):
    """Returns an answer without what differs between systems: paths of this machine and times."""

    def clean(value):
        if isinstance(value, dict):
            return {key: clean(of) for key, of in value.items() if not key.startswith("elapsed")}
        if isinstance(value, list):
            return [clean(of) for of in value]
        return value

    value = clean(json.loads(line))
    if isinstance(value.get("path"), str):
        del value["path"]
    return value


class Pair:
    """The two programs, and a tree."""

    def __init__(self, wine, windows, linux, scratch):
        self.windows = [wine, windows]
        self.linux = [linux]
        self.tree = scratch / "tree"
        self.cache = scratch / "cache"
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LC_ALL", "WINEPREFIX", "WINEDEBUG", "WINEDLLOVERRIDES") if name in os.environ},
            "XDG_CONFIG_HOME": str(scratch / "no-config"),
        }
        # The index of each program is its own.
        self.on_windows = ["--set", f"index_path={json.dumps('Z:' + str(self.cache / 'windows'))}"]
        self.on_linux = ["--set", f"index_path={json.dumps(str(self.cache / 'linux'))}"]

    def run(self, program, arguments):
        """Returns the exit status, the output and the messages of a command.

        A signal ends Wine itself, not the program for Windows, and seldom does so while a program
        ends. The command then runs again.
        """
        for _ in range(3):
            done = subprocess.run([*program, *arguments], cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
            if done.returncode >= 0 or program is self.linux:
                break
            print(f"Wine was ended by signal {-done.returncode}: {arguments}")
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")

    def windows_only(self, arguments, status=0):
        code, out, errors = self.run(self.windows, arguments)
        out = out.decode()
        if code != status:
            sys.exit(f"{arguments}: exit status {code}\n{out}{errors}")
        # JSON doubles the backslashes.
        for prefix in ("\\\\?\\", "\\\\\\\\?\\\\"):
            if prefix in out + errors:
                sys.exit(f"{arguments}: a path with the prefix {prefix}\n{out}{errors}")
        return out

    def same(self, arguments, windows=()):
        """Runs a command on both. `windows` has further arguments for Windows."""
        code, out, errors = self.run(self.windows, [*arguments, *windows])
        code_linux, out_linux, errors_linux = self.run(self.linux, arguments)
        if "--json" in arguments:
            out, out_linux = ([without_places(line) for line in text.splitlines()] for text in (out, out_linux))
        if (code, out) != (code_linux, out_linux):
            fail(arguments, f"{code} {out}\n{errors}", f"{code_linux} {out_linux}\n{errors_linux}")
        return code


def write_tree(tree):
    for name, text in TEXTS.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    (tree / ".git").mkdir()


def compare_commands(pair):
    for arguments in COMMANDS:
        pair.same(arguments)
    print(f"{len(COMMANDS)} commands without an index: the same")
    for more in [], ["--json"]:
        pair.windows_only(["doctor", *more])
    # A daemon needs the sockets of Unix.
    pair.windows_only(["serve"], 2)


def compare_index(pair):
    on = ["--index", "on", *pair.on_windows]
    pair.windows_only(["index", "build", *pair.on_windows])
    # Without the time of the last change, only `index_frozen` makes it usable.
    for more, status, state in ([], 1, "UNCERTAIN"), (FROZEN, 0, "COMPLETE"):
        shown = json.loads(pair.windows_only(["index", "status", "--json", *more, *pair.on_windows], status))
        if shown["indexes"][0]["state"] != state:
            sys.exit(f"index status: {shown}")
    if not json.loads(pair.windows_only(["index", "verify", "--json", *pair.on_windows]))["ok"]:
        sys.exit("index verify found damage")
    searches = [arguments for arguments in COMMANDS if arguments[0] != "rg"]
    for arguments in searches:
        pair.same(arguments, on)
        pair.same(arguments, [*on, *FROZEN])
    explained = pair.windows_only(["explain", "needle", *FROZEN, *pair.on_windows])
    if "excluded" not in explained:
        sys.exit(f"explain: the index excludes nothing\n{explained}")
    # A second build replaces the first, while its files may be mapped.
    pair.windows_only(["index", "build", *pair.on_windows])
    for arguments in ["index", "verify"], ["index", "list"], ["index", "list", "--json"]:
        pair.windows_only([*arguments, *pair.on_windows])
    pair.windows_only(["index", "status", *pair.on_windows], 1)
    print(f"an index, and {len(searches)} searches with it: the same")


def compare_edits(pair):
    on = ["--index", "on", *pair.on_windows]

    def unseen(path):
        """Keeps length and time of writing."""
        before = path.stat()
        path.write_bytes(path.read_bytes().replace(b"needle", b"noodle"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    tree = pair.tree
    edits = [
        ("an edit that keeps length and time", lambda: unseen(tree / "a.rs")),
        ("a new file", lambda: (tree / "new.rs").write_bytes(b"a noodle\n")),
        ("a new directory", lambda: ((tree / "n/m").mkdir(parents=True), (tree / "n/m/o.txt").write_bytes(b"noodle\n"))),
        ("a renamed file", lambda: (tree / "new.rs").rename(tree / "b/renamed.rs")),
        ("a renamed directory", lambda: (tree / "n").rename(tree / "renamed")),
        ("an ignore file", lambda: (tree / ".ignore").write_bytes(b"renamed\n")),
        ("a removed file", lambda: (tree / "b/renamed.rs").unlink()),
        ("a replaced file", lambda: ((tree / "r").write_bytes(b"noodle\n"), (tree / "r").replace(tree / "no-feed.txt"))),
    ]
    for what, edit in edits:
        edit()
        for arguments in (["noodle"], ["needle"], ["--files"]):
            pair.same(arguments, on)
    print(f"{len(edits)} edits: each is seen at once")


class Answering:
    """A process that answers one request a line."""

    def __init__(self, program, arguments, pair):
        self.process = subprocess.Popen([*program, "call", "--jsonl", *arguments], cwd=pair.tree, env=pair.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a process ended with {self.process.wait(LIMIT)}, without an answer")
        return without_places(line)

    def end(self):
        self.process.stdin.close()
        if self.process.wait(LIMIT) != 0:
            sys.exit(f"a process ended with {self.process.returncode}")


def some_path(rng, tree):
    return tree.joinpath(*(rng.choice(NAMES) for _ in range(rng.randint(1, 3))))


def edit(rng, tree):
    """Makes a random change. Some fail, for example below a file."""
    path, kind = some_path(rng, tree), rng.randrange(12)
    try:
        if kind == 0:
            path.unlink()
        elif kind == 1:
            shutil.rmtree(path)
        elif kind == 2:
            path.rename(some_path(rng, tree))
        elif kind == 3:
            (tree / rng.choice([".ignore", ".gitignore"])).write_bytes(rng.choice([b"*.rs\n", b"a\n", b"!*\n", b""]))
        elif kind == 4:
            before, text = path.stat(), path.read_bytes()
            path.write_bytes(text.replace(b"needle", b"noodle"))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(rng.choices(LINES, k=rng.randint(1, 6))) * rng.choice([1, 1, 1, 300]))
    except OSError:
        pass


def some_request(rng):
    request = {"pattern": rng.choice(PATTERNS)}
    if rng.random() < 0.3:
        request["include_glob"] = rng.sample(GLOBS, rng.randint(1, 2))
    if rng.random() < 0.2:
        request["path"] = rng.choice([".", "a", "b.rs", "absent", "\u00e9", ".ssh", "a/k.pem", "../a"])
    if rng.random() < 0.3:
        request["max_results"] = rng.choice([1, 3, 10])
    if rng.random() < 0.2:
        request["hidden"] = True
    return request


def compare_requests(pair, count):
    rng = random.Random(20260923)
    shutil.rmtree(pair.tree)
    pair.tree.mkdir()
    for _ in range(150):
        edit(rng, pair.tree)
    windows = Answering(pair.windows, ["--wait-index", *pair.on_windows], pair)
    linux = Answering(pair.linux, ["--set", "index_mode=off"], pair)
    found = 0
    for n in range(count):
        for _ in range(rng.randrange(3)):
            edit(rng, pair.tree)
        request = some_request(rng)
        for process in (windows, linux):
            process.ask(request)
        answers = [process.answer() for process in (windows, linux)]
        if answers[0] != answers[1]:
            fail(f"request {n}: {request}", *answers)
        found += bool(answers[0].get("count"))
    for process in (windows, linux):
        process.end()
    if found < count // 4:
        sys.exit(f"only {found} of {count} answers have a match")
    print(f"{count} requests between edits: the same, {found} with matches")


def main():
    wine, windows, linux = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    with tempfile.TemporaryDirectory(prefix="forge-search-wine-") as scratch:
        pair = Pair(wine, windows, linux, Path(scratch).resolve())
        pair.tree.mkdir()
        write_tree(pair.tree)
        compare_commands(pair)
        compare_index(pair)
        compare_edits(pair)
        compare_requests(pair, count)


main()
