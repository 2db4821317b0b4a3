"""The programs that are compared: how each is asked, and how its index is made and kept up to date."""

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
    """What is looked for."""

    name: str
    pattern: str
    literal: bool = True
    ignore_case: bool = False
    # So many lines; all, if it is not said.
    first: int | None = None
    edits: int = 0


class Contestant:
    """A program that finds lines."""

    name = ""
    has_index = False

    def build(self, tree):
        """Makes an index; returns what that took and its size, or nothing where there is none."""
        return None

    def refresh(self, tree):
        """Brings the index up to date; returns the seconds that takes, or nothing where nobody has to."""
        return None

    def ask(self, query, tree):
        """Returns the lines that are found, as (path, number), and what that took; nothing for a question that it does not know."""
        raise NotImplementedError

    def index_files(self, tree):
        """The files of its index."""
        return []

    def end(self):
        """Ends what runs."""


def lines_of(output, tree):
    """Reads `path:line:…` or `path NUL line:…`."""
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
    """The flags by which others read ignore files where we and ripgrep do: in a repository."""
    return with_rules if (pathlib.Path(tree) / ".git").exists() else without


class ForgeCommand(Contestant):
    """`forge-search PATTERN`, a process for each question."""

    name = "forge-search, a command"
    has_index = True

    def __init__(self, program):
        self.program = program

    def build(self, tree):
        for patience in range(300):
            ran = run([self.program, "index", "build", str(tree)], must_work=patience == 299)
            if ran.status == 0:
                break
            # A process that has the index live is writing it at this moment.
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
    """A process that stays and has its index live, as an agent has it: `call --jsonl`."""

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
        """Seconds of processor time so far, in nanosecond steps where the system keeps them."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except (OSError, ValueError, IndexError):
                pass
        # Threads that have ended are only in the sum of the process.
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return max(total / 1e9, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))

    def memory(self):
        """Bytes that it has in memory."""
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
    """It reads everything each time."""

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
    """It reads everything each time, too."""

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
    """With what its indexer leaves in each directory."""

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
        # It does not know approximate questions with an index.
        return None if query.edits else super().ask(query, tree)


class Codesearch(Contestant):
    """Trigrams in one file."""

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
    """It reads everything each time, too, and is asked in the same way."""

    name = "the silver searcher"
    literal = "-Q"

    def command(self, flags, query, tree):
        return [self.program, "--nocolor", "--noheading", "--numbers", *ignore(tree, [], ["-U"]), *flags, "--", query.pattern, "."]


def indexer_of(ugrep):
    """Returns how the indexer beside a ugrep is started; that of a newer Debian has a C library of its own."""
    beside = pathlib.Path(ugrep).resolve().parent
    inner = beside / "usr/bin/ugrep-indexer"
    if inner.exists():
        # The last line of the wrapper starts ugrep; the same way starts the indexer.
        last = pathlib.Path(ugrep).read_text().strip().splitlines()[-1]
        loader, path = re.search(r"exec '([^']+)' --library-path '([^']+)'", last).groups()
        return [loader, "--library-path", path, str(inner)]
    beside = beside / "ugrep-indexer"
    return [str(beside)] if beside.exists() else None


def built():
    """Builds our program and returns its path."""
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=PROJECT, check=True)
    return str(PROJECT / "target" / "release" / "forge-search")


def all_contestants():
    """Returns those that are here, ours first; builds ours."""
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
