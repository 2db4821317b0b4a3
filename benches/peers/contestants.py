"""The compared programs: how each one runs a query, and how it builds and updates its index."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import time

from common import PROJECT, WORK, Ran, package, run, tools


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


class Contestant:
    """A compared program: it finds lines in a tree."""

    name = ""
    has_index = False

    def build(self, tree):
        """Builds the index. Returns the run and the size of the index, or None without an index."""
        return None

    def refresh(self, tree):
        """Updates the index. Returns the seconds, or None if the program needs no update."""
        return None

    def ask(self, query, tree):
        """Returns the found lines as (path, number), and the run. None for an unsupported query."""
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
        if query.edits:
            flags += ["--fuzzy", str(query.edits)]
        most = str(query.first or 100_000_000)
        return [self.program, *flags, "--color", "never", "--max-results", most, "--timeout-ms", "600000", "-e", query.pattern]

    def ask(self, query, tree):
        ran = run(self.command(query), cwd=tree)
        return lines_of(ran.output, tree), ran


class ForgeProcess(Contestant):
    """A long-running process with a live index, as agents use it: `call --jsonl`."""

    name = "forge-search, a process"
    has_index = True

    def __init__(self, program, mode="on"):
        self.program = program
        self.mode = mode
        self.process = None

    def start(self, tree, wait=True):
        command = [self.program, "call", "--jsonl", "--root", str(tree), "--set", f'index_mode="{self.mode}"', "--set", "emit_stats=true"]
        if wait and self.mode != "off":
            command.append("--wait-index")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

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

    def call(self, query):
        request = {
            "pattern": query.pattern, "fixed_strings": query.literal, "timeout_ms": 600_000, "max_results": query.first or 100_000_000,
            "case": "insensitive" if query.ignore_case else "sensitive",
        }
        if query.edits:
            request["fuzzy"] = query.edits
        cpu, start = self.cpu(), time.perf_counter()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        wall = time.perf_counter() - start
        response = json.loads(answer)
        if "error" in response:
            raise SystemExit(f"forge-search: {response['error']}")
        return response, Ran(b"", wall, self.cpu() - cpu, self.memory(), 0)

    def ask(self, query, tree):
        if self.process is None:
            self.start(tree)
        response, ran = self.call(query)
        return {(one["data"]["path"]["text"], one["data"]["line_number"]) for one in response["matches"]}, ran

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


class Ripgrep(Contestant):
    """ripgrep: it reads all files in each search."""

    name = "ripgrep"
    literal = "-F"

    def __init__(self, program):
        self.program = program

    def command(self, flags, query, tree):
        return [self.program, "--no-config", "-n", "-0", "--no-heading", *flags, "-e", query.pattern, "."]

    def ask(self, query, tree):
        if query.edits:
            return None
        flags = ["-i"] if query.ignore_case else ["-s"]
        flags += [self.literal] if query.literal else []
        ran = run(self.command(flags, query, tree), first=query.first, cwd=tree)
        return lines_of(ran.output, tree), ran


class Ugrep(Contestant):
    """ugrep without an index: it reads all files in each search."""

    name = "ugrep"
    flags = ("-r",)

    def __init__(self, program):
        self.program = program

    def ask(self, query, tree):
        flags = ["-i"] if query.ignore_case else []
        flags += ["-F"] if query.literal else []
        flags += [f"-Z{query.edits}"] if query.edits else []
        command = [self.program, *self.flags, "-I", "-n", "--null", *ignore(tree, ["--ignore-files"], []), *flags, "-e", query.pattern, "."]
        ran = run(command, first=query.first, cwd=tree)
        return lines_of(ran.output, tree), ran


class UgrepIndexed(Ugrep):
    """ugrep with the index files that its indexer writes into each directory."""

    name = "ugrep with its index"
    flags = ("--index",)
    has_index = True

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

    def ask(self, query, tree):
        # ugrep does not support approximate queries with an index.
        return None if query.edits else super().ask(query, tree)


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
        if query.edits:
            return None
        pattern = re.sub(r"([\\.+*?()\[\]{}|^$])", r"\\\1", query.pattern) if query.literal else query.pattern
        ran = run([self.csearch, "-n", *(["-i"] if query.ignore_case else []), pattern], first=query.first)
        return lines_of(ran.output, tree), ran


class SilverSearcher(Ripgrep):
    """The silver searcher: it reads all files in each search, and is called like ripgrep."""

    name = "the silver searcher"
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


def all_contestants():
    """Builds forge-search, and returns the available programs, forge-search first."""
    forge = built()
    rg, ugrep = tools()
    found = [ForgeProcess(forge), ForgeCommand(forge), Ripgrep(rg)]
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
    return found
