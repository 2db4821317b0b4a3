"""The compared programs: how each one runs a query, and how it builds and updates its index."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

from common import PROJECT, WORK, Ran, files_of, package, python_with, run, tools


@dataclasses.dataclass(frozen=True)
class Query:
    """A query."""

    name: str
    pattern: str
    literal: bool = True
    ignore_case: bool = False
    # The number of lines to find; None for all.
    first: int | None = None
    edits: int = 0
    # Matches whole words only.
    word: bool = False
    # A class such as `\w` also has letters beyond ASCII.
    unicode: bool = False
    # The project whose benchmark has the query; empty for the queries of this project.
    source: str = ""


class Contestant:
    """A compared program: it finds lines in a tree."""

    name = ""
    has_index = False
    # The kinds of queries that only some programs support.
    has_edits = False
    has_unicode = False
    # Letters beyond ASCII compare without case.
    has_folding = False

    def can(self, query):
        """Returns true if the program supports a query."""
        folds = query.unicode and query.ignore_case
        return (self.has_edits or not query.edits) and (self.has_unicode or not query.unicode) and (self.has_folding or not folds)

    def build(self, tree):
        """Builds the index. Returns the run and the size of the index, or None without an index."""
        return None

    def refresh(self, tree):
        """Updates the index. Returns the seconds, or None if the program needs no update."""
        return None

    def ask(self, query, tree):
        """Returns the found lines as (path, number), and the run."""
        raise NotImplementedError

    def index_files(self, tree):
        """Returns the files of the index."""
        return []

    def end(self):
        """Ends a running process of the program."""


def lines_of(output, tree):
    """Parses output lines `path:line:…` or `path NUL line:…`."""
    prefix = str(tree).encode() + b"/"
    found = set()
    for record in output.split(b"\n"):
        parts = record.split(b"\0", 1) if b"\0" in record else record.split(b":", 1)
        if len(parts) < 2:
            continue
        number = re.match(rb"\d+", parts[1])
        if number:
            path = parts[0].removeprefix(prefix).removeprefix(b"./").decode(errors="replace")
            found.add((path, int(number[0])))
    return found


def ignore(tree, with_rules, without):
    """Returns `with_rules` if the tree is a repository, otherwise `without`.

    forge-search and ripgrep honor `.gitignore` only in a repository. The flags make other programs
    do the same.
    """
    return with_rules if (pathlib.Path(tree) / ".git").exists() else without


class ForgeCommand(Contestant):
    """`forge-search PATTERN`: one process per query."""

    name = "forge-search, a command"
    has_index = True
    has_edits = True
    has_unicode = True
    has_folding = True

    def __init__(self, program):
        self.program = program

    def build(self, tree):
        for patience in range(300):
            ran = run([self.program, "index", "build", str(tree)], must_work=patience == 299)
            if ran.status == 0:
                break
            # A process with a live index is writing the index at this moment.
            time.sleep(1)
        return ran, sum(path.stat().st_size for path in self.index_files(tree))

    def index_files(self, tree):
        return [path for path in (WORK / "cache").rglob("*") if path.is_file()]

    def command(self, query):
        flags = ["-i"] if query.ignore_case else ["-s"]
        if query.literal:
            flags.append("-F")
        if query.word:
            flags.append("-w")
        if query.edits:
            flags += ["--fuzzy", str(query.edits)]
        most = str(query.first or 100_000_000)
        return [self.program, *flags, "--color", "never", "--max-results", most, "--timeout-ms", "600000", "-e", query.pattern]

    def ask(self, query, tree):
        ran = run(self.command(query), cwd=tree)
        return lines_of(ran.output, tree), ran


class Process(Contestant):
    """A long-running process that reads a request from each line, and answers it with a line."""

    has_index = True
    process = None

    def start(self, tree, wait=True):
        """Starts the process. With `wait`, its index is complete before the first answer."""
        raise NotImplementedError

    def open(self, command, **options):
        self.process = subprocess.Popen([str(one) for one in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def exchange(self, request):
        """Sends a request. Returns the answer, and the run."""
        cpu, start = self.cpu(), time.perf_counter()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        wall = time.perf_counter() - start
        if not answer:
            raise SystemExit(f"{self.name} has ended without an answer")
        return json.loads(answer), Ran(b"", wall, self.cpu() - cpu, self.memory(), 0)

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None

    def cpu(self):
        """Returns the processor time so far in seconds, if possible in nanosecond steps."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except (OSError, ValueError, IndexError):
                pass
        # Only the sum of the process includes threads that have ended.
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return max(total / 1e9, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))

    def memory(self):
        """Returns the resident memory of the process in bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


class ForgeProcess(Process):
    """forge-search as agents use it: `call --jsonl`, with a live index."""

    name = "forge-search, a process"
    has_edits = True
    has_unicode = True

    def __init__(self, program, mode="on"):
        self.program = program
        self.mode = mode

    def start(self, tree, wait=True):
        command = [self.program, "call", "--jsonl", "--root", tree, "--set", f'index_mode="{self.mode}"', "--set", "emit_stats=true"]
        self.open([*command, "--wait-index"] if wait and self.mode != "off" else command)

    def call(self, query):
        request = {
            "pattern": query.pattern, "fixed_strings": query.literal, "timeout_ms": 600_000, "max_results": query.first or 100_000_000,
            "case": "insensitive" if query.ignore_case else "sensitive",
        }
        if query.edits:
            request["fuzzy"] = query.edits
        if query.word:
            request["word_regexp"] = True
        response, ran = self.exchange(request)
        if "error" in response:
            raise SystemExit(f"forge-search: {response['error']}")
        return response, ran

    def ask(self, query, tree):
        if self.process is None:
            self.start(tree)
        response, ran = self.call(query)
        return {(one["data"]["path"]["text"], one["data"]["line_number"]) for one in response["matches"]}, ran


class Fff(Process):
    """fff, a file finder that also searches texts: a process with the list of files in memory."""

    name = "fff, a process"

    def __init__(self, python):
        self.python = python
        self.tree = None

    def version(self):
        script = "import importlib.metadata; print('fff-search', importlib.metadata.version('fff-search'))"
        return run([self.python, "-c", script]).output.decode().strip()

    def start(self, tree, wait=True):
        self.tree = tree
        self.open([self.python, PROJECT / "benches" / "peers" / "finder.py", tree, "warm" if wait else "cold"])

    def build(self, tree):
        # The index is in memory. The first answer comes when it is complete.
        self.end()
        start = time.perf_counter()
        self.start(tree)
        _, ran = self.ask(Query("absent", "nosuchidentifier_here"), tree)
        return Ran(b"", time.perf_counter() - start, self.cpu(), ran.memory, 0), None

    def refresh(self, tree):
        return self.exchange({"refresh": True})[1].wall

    def ask(self, query, tree):
        if self.process is None or self.tree != tree:
            self.end()
            self.start(tree)
        pattern = f"\\b(?:{re.escape(query.pattern) if query.literal else query.pattern})\\b" if query.word else query.pattern
        plain = query.literal and not query.word
        if query.ignore_case:
            # A plain pattern of small letters matches without case.
            pattern = pattern.lower() if plain else f"(?i){pattern}"
        answer, ran = self.exchange({"pattern": pattern, "mode": "plain" if plain else "regex", "case": query.ignore_case and plain, "first": query.first})
        return {(path, number) for path, number in answer["found"]}, ran


class Ripgrep(Contestant):
    """ripgrep: it reads all files in each search."""

    name = "ripgrep"
    has_unicode = True
    has_folding = True
    literal = "-F"

    def __init__(self, program):
        self.program = program

    def command(self, flags, query, tree):
        return [self.program, "--no-config", "-n", "-0", "--no-heading", *flags, "-e", query.pattern, "."]

    def ask(self, query, tree):
        flags = ["-i"] if query.ignore_case else ["-s"]
        flags += [self.literal] if query.literal else []
        flags += ["-w"] if query.word else []
        ran = run(self.command(flags, query, tree), first=query.first, cwd=tree)
        return lines_of(ran.output, tree), ran


class ForgeRg(Ripgrep):
    """`forge-search rg`: the command line of ripgrep, answered by forge-search and its index."""

    name = "forge-search rg"
    has_index = True

    def command(self, flags, query, tree):
        program, *rest = super().command(flags, query, tree)
        return [program, "rg", *rest]


class GitGrep(Contestant):
    """git grep without `--untracked`: all files of the tree are in the list of a repository."""

    name = "git grep"
    has_unicode = True

    def __init__(self, program):
        self.program = program

    def environment(self, tree, locale="C"):
        """Returns an environment for the tree. The repository is outside, so other searches ignore it."""
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return dict(os.environ, GIT_DIR=str(WORK / f"git-{tree.name}"), GIT_WORK_TREE=str(tree), LC_ALL=locale, **alone)

    def track(self, tree):
        """Makes the repository, if there is none. A search reads the files of the tree, and no objects."""
        environment = self.environment(tree)
        if os.path.exists(environment["GIT_DIR"]):
            return
        subprocess.run([self.program, "init", "--quiet"], env=environment, check=True)
        names = b"\0".join(os.fsencode(path.relative_to(tree)) for path in files_of(tree))
        subprocess.run([self.program, "update-index", "--add", "--info-only", "-z", "--stdin"], cwd=tree, env=environment, input=names, check=True)

    def ask(self, query, tree):
        self.track(tree)
        # An expression is faster with `-P` than with `-E`, and `-E` has no `\p`.
        flags = ["-F" if query.literal else "-P"]
        flags += ["-i"] if query.ignore_case else []
        flags += ["-w"] if query.word else []
        environment = self.environment(tree, "C.UTF-8" if query.unicode else "C")
        ran = run([self.program, "grep", "-I", "-n", "-z", "--no-color", *flags, "-e", query.pattern], first=query.first, cwd=tree, env=environment)
        return lines_of(ran.output, tree), ran


class Ugrep(Contestant):
    """ugrep without an index: it reads all files in each search."""

    name = "ugrep"
    has_edits = True
    has_unicode = True
    flags = ("-r",)

    def __init__(self, program):
        self.program = program

    def ask(self, query, tree):
        flags = ["-i"] if query.ignore_case else []
        flags += ["-F"] if query.literal else []
        flags += ["-w"] if query.word else []
        flags += [f"-Z{query.edits}"] if query.edits else []
        command = [self.program, *self.flags, "-I", "-n", "--null", *ignore(tree, ["--ignore-files"], []), *flags, "-e", query.pattern, "."]
        ran = run(command, first=query.first, cwd=tree)
        return lines_of(ran.output, tree), ran


class UgrepIndexed(Ugrep):
    """ugrep with the index files that its indexer writes into each directory."""

    name = "ugrep with its index"
    flags = ("--index",)
    has_index = True
    # ugrep does not support approximate queries with an index.
    has_edits = False

    def __init__(self, program, indexer):
        super().__init__(program)
        self.indexer = indexer

    def build(self, tree):
        ran = run([*self.indexer, "-I", "-f", "-q", str(tree)], must_work=True)
        return ran, sum(path.stat().st_size for path in self.index_files(tree))

    def refresh(self, tree):
        return run([*self.indexer, "-I", "-q", str(tree)], must_work=True).wall

    def index_files(self, tree):
        return sorted(pathlib.Path(tree).rglob("._UG#_Store"))


class Codesearch(Contestant):
    """codesearch: its index has trigrams in one file."""

    name = "codesearch"
    has_index = True

    def __init__(self, csearch, cindex):
        self.csearch = csearch
        self.cindex = cindex

    def build(self, tree):
        ran = run([self.cindex, "-reset", str(tree)], must_work=True)
        if not (WORK / "csearch").exists():
            ran = run([self.cindex, str(tree)], must_work=True)
        return ran, (WORK / "csearch").stat().st_size

    def refresh(self, tree):
        return run([self.cindex], must_work=True).wall

    def index_files(self, tree):
        return [WORK / "csearch"]

    def ask(self, query, tree):
        pattern = re.sub(r"([\\.+*?()\[\]{}|^$])", r"\\\1", query.pattern) if query.literal else query.pattern
        pattern = rf"\b(?:{pattern})\b" if query.word else pattern
        ran = run([self.csearch, "-n", *(["-i"] if query.ignore_case else []), pattern], first=query.first)
        return lines_of(ran.output, tree), ran


class SilverSearcher(Ripgrep):
    """The silver searcher: it reads all files in each search, and is called like ripgrep."""

    name = "the silver searcher"
    has_unicode = False
    has_folding = False
    literal = "-Q"

    def command(self, flags, query, tree):
        return [self.program, "--nocolor", "--noheading", "--numbers", *ignore(tree, [], ["-U"]), *flags, "--", query.pattern, "."]


def indexer_of(ugrep):
    """Returns the command of the indexer that belongs to a ugrep, or None if there is none.

    A ugrep from a newer Debian runs with a C library of its own.
    """
    beside = pathlib.Path(ugrep).resolve().parent
    inner = beside / "usr/bin/ugrep-indexer"
    if inner.exists():
        # The last line of the wrapper starts ugrep. The indexer starts with the same loader.
        last = pathlib.Path(ugrep).read_text().strip().splitlines()[-1]
        loader, path = re.search(r"exec '([^']+)' --library-path '([^']+)'", last).groups()
        return [loader, "--library-path", path, str(inner)]
    beside = beside / "ugrep-indexer"
    return [str(beside)] if beside.exists() else None


def built():
    """Builds forge-search and returns its path."""
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=PROJECT, check=True)
    return str(PROJECT / "target" / "release" / "forge-search")


def all_contestants(program=None):
    """Returns the available programs, forge-search first. Builds it if no program is given."""
    forge = str(program.resolve()) if program else built()
    rg, ugrep = tools()
    found = [ForgeProcess(forge), ForgeCommand(forge), ForgeRg(forge), Ripgrep(rg)]
    git = shutil.which("git")
    if git:
        found.append(GitGrep(git))
    if ugrep:
        found.append(Ugrep(ugrep))
        indexer = indexer_of(ugrep)
        if indexer:
            found.append(UgrepIndexed(ugrep, indexer))
    csearch, cindex = package("codesearch", "csearch"), package("codesearch", "cindex")
    if csearch and cindex:
        found.append(Codesearch(csearch, cindex))
    ag = package("silversearcher-ag", "ag", "libpcre3")
    if ag:
        found.append(SilverSearcher(ag))
    python = python_with("requirements-peers.txt")
    if python:
        found.append(Fff(python))
    return found
