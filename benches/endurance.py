#!/usr/bin/env python3
"""Keeps a daemon busy for a long time, and checks its answers and what it uses.

    endurance.py PROGRAM TREE MINUTES [--pause SECONDS] [--rg PROGRAM]

Works on a copy of TREE in a temporary directory, as a git repository with two commits that differ in many files. One after the other come
saved files, new and renamed directories, builds that write ignored files, and checkouts of the other commit. After each change, a search for
a text that it wrote or removed is compared with ripgrep's lines, and so is a search for a text of the tree. Prints the memory, the open
files, the watches and the answer times as a Markdown table. Exits with status 1 if an answer differs.
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = 10
GIT = ["git", "-c", "user.name=e", "-c", "user.email=e@example.com", "-c", "core.fsync=none", "-c", "gc.auto=0"]


class Tree:
    """The copy, and the changes to it."""

    def __init__(self, source, home):
        self.path = home / "tree"
        self.random = random.Random(1)
        self.number = 0
        shutil.copytree(source, self.path, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        # The rules of the Linux sources of Debian ignore all files.
        (self.path / ".gitignore").write_text("/build-output/\n")
        self.git("init", "--quiet")
        self.commit()
        self.files = [self.path / name for name in self.git("ls-files", "-z").split("\0") if name and not (self.path / name).is_symlink()]
        changed = self.random.sample(self.files, len(self.files) // 4)
        for path in changed:
            self.save(path, "only_in_the_second_commit")
        self.commit()
        self.git("tag", "second")
        self.git("tag", "first", "HEAD~1")
        self.out = "second"

    def git(self, *arguments):
        return subprocess.run([*GIT, *arguments], cwd=self.path, check=True, capture_output=True, text=True, errors="surrogateescape").stdout

    def commit(self):
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message", "state")

    def save(self, path, text):
        """Saves a file as editors do: writes a new one, and renames it."""
        new = path.with_name(f".{path.name}.new")
        new.write_bytes(path.read_bytes() + f"\n{text}\n".encode())
        new.rename(path)

    def saves(self, text):
        for path in self.random.sample(self.files, self.random.choice([1, 1, 10, 100])):
            if path.exists():
                self.save(path, text)

    def writes(self, text):
        for path in self.random.sample(self.files, self.random.choice([1, 20])):
            if path.exists():
                with open(path, "ab") as file:
                    file.write(f"\n{text}\n".encode())

    def moves(self, text):
        made = self.path / f"made-{self.number}" / "below"
        made.mkdir(parents=True)
        for number in range(50):
            (made / f"{number}.c").write_text(f"int {text}_{number};\n")
        made.parent.rename(self.path / f"moved-{self.number}")
        for one in self.path.glob("moved-*"):
            if one != self.path / f"moved-{self.number}" and self.random.random() < 0.5:
                shutil.rmtree(one)

    def builds(self, text):
        out = self.path / "build-output"
        shutil.rmtree(out, ignore_errors=True)
        for number in range(2_000):
            (out / str(number % 40)).mkdir(parents=True, exist_ok=True)
            (out / str(number % 40) / f"{number}.o").write_text(f"{text}\n")

    def checkouts(self, _text):
        self.out = {"first": "second", "second": "first"}[self.out]
        self.git("checkout", "--quiet", "--force", self.out)

    def change(self):
        """Makes one change; returns its kind and a text that it may have written."""
        self.number += 1
        text = f"endurance_text_{self.number}"
        kind = self.random.choice([self.saves] * 8 + [self.writes] * 4 + [self.moves] * 2 + [self.builds] + [self.checkouts])
        kind(text)
        return kind.__name__, "only_in_the_second_commit" if kind == self.checkouts else text


def usage(pid):
    """Returns the resident memory in MB, the open files and the watches of a process."""
    process = pathlib.Path(f"/proc/{pid}")
    status = (process / "status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) / 1024
    files, watches = 0, 0
    for one in (process / "fdinfo").iterdir():
        files += 1
        try:
            watches += one.read_text().count("inotify wd:")
        except OSError:
            pass
    return memory, files, watches


def lines(command, tree):
    ran = subprocess.run(command, cwd=tree, capture_output=True)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{command}: {ran.stderr.decode(errors='replace')}")
    return sorted(ran.stdout.splitlines())


def ask(arguments, tree, text):
    """Compares both programs; returns the seconds of forge-search, or stops the program."""
    start = time.perf_counter()
    found = lines([arguments.program, "rg", "--no-config", "-n", "-F", "--no-heading", "-e", text, "."], tree.path)
    seconds = time.perf_counter() - start
    expected = lines([arguments.rg, "--no-config", "-n", "-F", "--no-heading", "-e", text, "."], tree.path)
    if found != expected:
        wrong = sorted(set(found) ^ set(expected))[:3]
        raise SystemExit(f"{text}: {len(found)} lines, and ripgrep has {len(expected)}; for example {wrong}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--pause", type=float, default=2.0)
    parser.add_argument("--rg", default="rg")
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    with tempfile.TemporaryDirectory(prefix="endurance-") as home:
        home = pathlib.Path(home)
        for name in ["CACHE", "CONFIG", "STATE", "RUNTIME"]:
            os.environ[f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}"] = str(home / name)
            (home / name).mkdir(mode=0o700)
        tree = Tree(arguments.tree, home)
        process = subprocess.Popen([arguments.program, "serve", "--root", str(tree.path)], stdout=sys.stderr)
        try:
            keep_busy(arguments, tree, process.pid)
            if process.poll() is not None:
                raise SystemExit(f"the daemon has ended with status {process.returncode}")
        finally:
            process.terminate()
            process.wait()


def print_row(minute, changes, pid, times):
    memory, files, watches = usage(pid)
    print(f"| {minute:.0f} | {changes} | {memory:.0f} | {files} | {watches} | {statistics.median(times or [0]) * 1e3:.0f} |", flush=True)


def keep_busy(arguments, tree, pid):
    while usage(pid)[2] == 0:
        time.sleep(1)
    start = time.monotonic()
    minutes, next_row, times, changes = arguments.minutes, 0.0, [], 0
    print("| minute | changes | memory, MB | open files | watches | median of the answers, ms |\n| ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    while (now := (time.monotonic() - start) / 60) < minutes:
        kind, text = tree.change()
        changes += 1
        times.append(ask(arguments, tree, text))
        ask(arguments, tree, tree.random.choice(["kmalloc_array_node", "TODO", "nosuchtext_anywhere", "mutex_lock"]))
        if now >= next_row:
            print_row(now, changes, pid, times)
            next_row += minutes / ROWS
            times = []
        time.sleep(arguments.pause)
    print_row(now, changes, pid, times)


if __name__ == "__main__":
    main()
