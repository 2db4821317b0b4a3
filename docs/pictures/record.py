#!/usr/bin/env python3
"""Records the pictures of the README and the guide from real output.

    docs/pictures/record.py target/release/forge-search
    docs/pictures/record.py target/release/forge-search --only session --only tui
    docs/pictures/record.py target/release/forge-search --out /tmp/pictures

The program runs in a fresh clone of this repository, with an empty home directory, so pictures show
what is committed. `session.svg` and `tui.svg` are the screens of a terminal. The pictures of the page
need `chromium` and `chromedriver`, which `just tools` installs.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path.insert(0, str(PROJECT / "benches" / "peers"))

from common import restart_with

# Pages and indexes show the path of the tree, so it must be the same on all machines.
TREE = pathlib.Path("/tmp/forge-search")
PARTS = ["session", "tui", "page"]
SECONDS = 60
LARGEST_BYTES = 150 * 1000

# The last line of the session breaks between two sentences at this width.
SESSION_COLUMNS, SESSION_ROWS = 86, 60
SESSION = [
    "forge-search 'fn sort_key' src/format",
    "forge-search --fuzzy 1 -w 'fn sort_ky' src/format",
    "forge-search index build | sed -n 3,5p",
    "forge-search --stats -c sort_key |& grep -E 'excluded|scanned|elapsed'",
    "ggrep --limit 1 'how are results sorted by path'",
    "forge-search --max-results 1 'fn sort_key' src",
]
TUI_COLUMNS, TUI_ROWS = 100, 30
DOWN = "\x1b[B"


@contextlib.contextmanager
def clean_clone(program):
    """Clones this repository to `TREE`, and gives an environment without the user's files."""
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        environment = {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(home / "run"),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
            "PS1": r"\n\[\e[1;32m\]$\[\e[0m\] ",
        }
        (home / "bin").mkdir()
        (home / "run").mkdir(mode=0o700)
        for name in ["forge-search", "ggrep"]:
            (home / "bin" / name).symlink_to(program)
        try:
            TREE.mkdir(mode=0o700)
        except FileExistsError:
            raise SystemExit(f"{TREE} exists; remove it, or wait for another recording to end") from None
        try:
            subprocess.run(["git", "clone", "--quiet", PROJECT, TREE], check=True)
            yield environment
        finally:
            subprocess.run([program, "stop"], cwd=TREE, env=environment, capture_output=True)
            shutil.rmtree(TREE)


class Terminal:
    """A program in a terminal of the given size."""

    def __init__(self, command, columns, rows, environment):
        import pexpect
        import pyte

        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.Stream(self.screen)
        self.child = pexpect.spawn(
            command[0], command[1:], cwd=str(TREE), env=environment, encoding="utf-8", dimensions=(rows, columns)
        )
        # The program may ask the terminal for its cursor.
        self.screen.write_process_input = self.child.send

    def wait(self, is_reached, state):
        """Reads output until the screen is in a state."""
        import pexpect

        until = time.monotonic() + SECONDS
        while not is_reached(self.screen):
            if time.monotonic() > until:
                raise SystemExit(f"{state} never came; the screen is:\n" + "\n".join(self.screen.display))
            with contextlib.suppress(pexpect.TIMEOUT):
                self.stream.feed(self.child.read_nonblocking(65536, timeout=0.1))

    def settle(self):
        """Reads output until there is none for half a second, so that the screen is complete."""
        import pexpect

        with contextlib.suppress(pexpect.TIMEOUT):
            while True:
                self.stream.feed(self.child.read_nonblocking(65536, timeout=0.5))

    def end(self):
        self.child.close(force=True)


def is_ready(prompts):
    """Returns a predicate: the screen shows that many prompts, the last one without a command."""

    def is_reached(screen):
        shown = [line for line in screen.display if line.startswith("$ ")]
        return len(shown) == prompts and screen.display[screen.cursor.y].rstrip() == "$"

    return is_reached


def record_session(environment, out):
    terminal = Terminal(["bash", "--norc", "--noprofile"], SESSION_COLUMNS, SESSION_ROWS, environment)
    try:
        for number, command in enumerate(SESSION, 1):
            terminal.wait(is_ready(number), "the prompt")
            terminal.child.sendline(command)
        terminal.wait(is_ready(len(SESSION) + 1), "the last prompt")
    finally:
        terminal.end()
    # The screen begins with an empty line, and ends with one and a prompt.
    rows = range(1, terminal.screen.cursor.y - 1)
    save_svg(terminal.screen, rows, "forge-search in a terminal", out / "session.svg")


def record_tui(environment, out):
    program = ["forge-search", "tui", "--no-history"]
    terminal = Terminal(program, TUI_COLUMNS, TUI_ROWS, environment)

    def shows(text):
        return lambda screen: any(text in line for line in screen.display)

    try:
        terminal.wait(shows("index: live"), "the index")
        terminal.child.send("sort_key\tsrc/format/")
        terminal.wait(shows("src/format/sort_key.rs:"), "the preview")
        terminal.settle()
        while not shows("sort_key.rs:52")(terminal.screen):
            before = terminal.screen.display[:]
            terminal.child.send(DOWN)
            terminal.wait(lambda screen: screen.display != before, "the next line")
            terminal.settle()
    finally:
        terminal.end()
    save_svg(terminal.screen, range(TUI_ROWS), "forge-search tui", out / "tui.svg")


# A picture in a document loads nothing from elsewhere, so it has the fonts of the reader's machine.
# The text of each cell is stretched to the width of the cell.
SVG = """\
<svg role="img" aria-labelledby="{unique_id}-title" width="{width}" height="{height}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title id="{unique_id}-title">TITLE</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def theme():
    """Returns colours that are readable on their background, which is dark on light and dark pages."""
    from rich.terminal_theme import TerminalTheme

    normal = ["#0d1117", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#c9d1d9"]
    bright = ["#8b949e", "#ffa198", "#7ee787", "#f2cc60", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#f0f6fc"]
    rgb = lambda color: tuple(bytes.fromhex(color[1:]))
    return TerminalTheme(rgb("#161b22"), rgb("#e6edf3"), [rgb(one) for one in normal], [rgb(one) for one in bright])


def style_of(cell):
    """Converts the style of a cell of pyte into one of rich."""
    from pyte.graphics import FG_BG_256
    from rich.style import Style

    def color(name):
        if name == "default":
            return None
        # The first 16 of 256 colours are those of the theme.
        if name in FG_BG_256[:16]:
            return f"color({FG_BG_256.index(name)})"
        if re.fullmatch("[0-9a-f]{6}", name):
            return f"#{name}"
        return name.replace("brown", "yellow").replace("bright", "bright_")

    return Style(
        color=color(cell.fg), bgcolor=color(cell.bg), bold=cell.bold, italic=cell.italics, underline=cell.underscore, reverse=cell.reverse
    )


def save_svg(screen, rows, title, path):
    """Saves rows of a screen as a picture."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=screen.columns, file=open(os.devnull, "w"), force_terminal=True, legacy_windows=False)
    for row in rows:
        cells = (screen.buffer[row][column] for column in range(screen.columns))
        runs = itertools.groupby(cells, style_of)
        line = Text.assemble(*(("".join(cell.data for cell in run), style) for style, run in runs), no_wrap=True)
        line.rstrip()
        console.print(line)
    console.save_svg(str(path), title=title, theme=theme(), code_format=SVG.replace("TITLE", title), unique_id=path.stem)


def record_page(environment, out):
    sys.path.insert(0, str(PROJECT / "tests" / "clients"))
    import webdriver

    server = subprocess.Popen(
        ["forge-search", "serve", "--http", "127.0.0.1:0", "--set", "index_mode=on"],
        cwd=TREE, env=environment, stdout=subprocess.PIPE, text=True,
    )
    try:
        url = re.search(r"http://\S+", server.stdout.readline())[0]
        with tempfile.TemporaryDirectory() as profile:
            browser = webdriver.Browser(shutil.which("chromedriver"), profile, out, (1100, 760))
            try:
                show_page(browser, url)
            finally:
                browser.end()
    finally:
        server.terminate()
        server.wait()


def show_page(browser, url):
    def ask(**fields):
        browser.call("POST", "/url", {"url": f"{url}&{urllib.parse.urlencode(fields)}"})
        browser.wait("the answer", "return document.querySelector('.file')")
        browser.wait("the state", "return document.getElementById('state').className === 'good'")

    ask(pattern="BTreeSet::new", path="src/index")
    browser.shot("page-results.png")
    browser.set_colors("dark")
    ask(pattern="how are results sorted by path", mode="ranked")
    browser.shot("page-ranked.png")


def check(path, environment):
    """Refuses a picture that is large, or names this machine or its user."""
    data = path.read_bytes()
    assert len(data) <= LARGEST_BYTES, f"{path.name} has {len(data)} bytes"
    names = [environment["HOME"], str(PROJECT), str(pathlib.Path.home()), os.uname().nodename]
    found = [name for name in names if path.suffix == ".svg" and name.encode() in data]
    assert not found, f"{path.name} names {found}"
    print(f"{path.name}: {len(data)} bytes")


def main():
    restart_with(HERE / "requirements.txt", "the pictures need the packages of docs/pictures/requirements.txt")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="a built forge-search")
    parser.add_argument("--only", action="append", choices=PARTS, help="record this part; can be given several times")
    parser.add_argument("--out", type=pathlib.Path, default=HERE, help="directory of the pictures")
    wanted = parser.parse_args()
    program = wanted.program.resolve(strict=True)
    records = {"session": record_session, "tui": record_tui, "page": record_page}
    wanted.out.mkdir(parents=True, exist_ok=True)
    with clean_clone(program) as environment:
        for part in wanted.only or PARTS:
            records[part](environment, wanted.out)
        for path in sorted([*wanted.out.glob("*.svg"), *wanted.out.glob("*.png")]):
            check(path, environment)


if __name__ == "__main__":
    main()
