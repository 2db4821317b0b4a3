"""Measures whole processes, as users and agents start them.

Compares forge-search with a daemon, forge-search without one, and ripgrep. Also measures searches
after edits of every kind, and large outputs.
"""

import os
import random
import shutil
import statistics
import subprocess
import time

from common import files_of, run, say

ABSENT = "nosuchidentifier_here"

# The searches: name, arguments of forge-search, and arguments of ripgrep or None if it has no
# equivalent.
ASKED = [
    ("absent", ["-F", ABSENT], ["-F", ABSENT]),
    ("absent, with context, types and globs", ["-A3", "-t", "c", "-g", "!x*", ABSENT], ["-A3", "-t", "c", "-g", "!x*", ABSENT]),
    ("rare", ["-F", "kmalloc_array_node"], ["-F", "kmalloc_array_node"]),
    ("rare, one thread, with statistics", ["-j1", "--stats", "kmalloc_array_node"], ["-j1", "--stats", "kmalloc_array_node"]),
    ("counts", ["-c", "spin_trylock"], ["-c", "spin_trylock"]),
    ("names", ["-l", "spin_trylock"], ["-l", "spin_trylock"]),
    ("JSON", ["--rg-json", "spin_trylock"], ["--json", "spin_trylock"]),
    ("by the time of change", ["-l", "--sortr", "modified", "spin_trylock"], ["-l", "--sortr", "modified", "spin_trylock"]),
    ("the first 200 of a frequent text", ["--max-results", "200", "return"], None),
    ("names of files by a glob", ["--files", "-g", "*.c"], ["--files", "-g", "*.c"]),
    ("`call`", ["call", '{"pattern": "kmalloc_array_node"}'], None),
    ("`call` of `find_files`, a name typed in part", ["call", "--tool", "find_files", '{"name": "netdev"}'], None),
]

# The number of repetitions of a short measurement.
REPEAT = 15


def daemon(program, tree):
    """Starts the daemon of a tree, and waits until its index is up to date."""
    run([program, "serve", "--detach", str(tree)], must_work=True)
    for _ in range(600):
        shown = run([program, "status", "--root", str(tree)]).output.decode()
        if "idle" in shown:
            return
        time.sleep(0.5)
    raise SystemExit(f"the daemon does not come to rest: {shown}")


def end_daemon(program, tree):
    run([program, "stop", "--root", str(tree)], must_work=True)


def medians(commands, tree, repeat=REPEAT):
    """Runs commands alternately.

    Returns the output of each command, and the medians of its wall time and processor time in ms.
    """
    walls, cpus, said = [[] for _ in commands], [[] for _ in commands], [b""] * len(commands)
    for _ in range(repeat):
        for nth, command in enumerate(commands):
            ran = run(command, cwd=tree)
            walls[nth].append(ran.wall)
            cpus[nth].append(ran.cpu)
            said[nth] = ran.output
    return said, [(statistics.median(wall) * 1e3, statistics.median(cpu) * 1e3) for wall, cpu in zip(walls, cpus)]


def asked(program, ripgrep, tree):
    """Runs every search with a daemon, without one, and with ripgrep."""
    daemon(program, tree)
    rows = []
    for name, arguments, peer in ASKED:
        say(name)
        commands = [[program, *arguments], [program, *arguments, "--daemon", "off"]]
        if peer:
            commands.append([ripgrep, "--no-config", *peer, "."])
        said, times = medians(commands, tree)
        # The output of `--rg-json` contains times, so it differs between runs.
        if said[0] != said[1] and "--rg-json" not in arguments:
            raise SystemExit(f"{name}: with the daemon another answer than without")
        rows.append({"name": name, "daemon": times[0], "command": times[1], "ripgrep": times[2] if peer else None})
    end_daemon(program, tree)
    return rows


def below(program, tree):
    """Compares a search in a subdirectory with one in the root of the tree, without a daemon."""
    command = [program, "--daemon", "off", "-F", ABSENT]
    directory = tree / "drivers" / "net"
    times = {}
    for _ in range(REPEAT):
        for name, at in [("root", tree), ("below", directory)]:
            times.setdefault(name, []).append(run(command, cwd=at).wall)
    return {name: statistics.median(all_) * 1e3 for name, all_ in times.items()}


def save(path):
    """Saves a file as editors do: writes a new file and renames it over the old one."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(path.read_bytes() + b"\n/* saved */\n")
    os.replace(new, path)


def edits(program, tree):
    """Measures a command before and after each kind of edit."""
    files = files_of(tree)
    rng = random.Random(24)
    some = tree / "kernel"

    def saves(count):
        def edit():
            for path in rng.sample(files, count):
                if path.exists():
                    save(path)

        return edit

    (tree / ".ignore").write_text("*.o\n/out-of-a-build/\n")

    def build_output():
        out = tree / "out-of-a-build"
        for nth, path in enumerate(sorted((tree / "net").rglob("*.c"))[:300]):
            place = out / f"d{nth % 30}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{nth}.o").write_bytes(b"\0" * 1_000)
            path.with_suffix(".o").write_bytes(b"\0" * 1_000)

    kinds = [
        ("nothing", lambda: None),
        ("1 save by renaming", saves(1)),
        ("20 saves by renaming", saves(20)),
        ("100 saves by renaming", saves(100)),
        ("2,000 saves by renaming", saves(2_000)),
        ("20,000 saves by renaming", saves(20_000)),
        ("a new file", lambda: (some / "a-new-file.c").write_text("int needle;\n")),
        ("a file renamed", lambda: (some / "fork.c").rename(some / "spoon.c")),
        ("a directory removed", lambda: shutil.rmtree(tree / "Documentation" / "scsi")),
        ("an ignore file below the root", lambda: (tree / "drivers" / "net" / ".ignore").write_text("wireless/\n")),
        ("ignored files of a build", build_output),
    ]
    command = [program, "--daemon", "off", "-F", ABSENT]
    rows = []
    for name, edit in kinds:
        say(name)
        run([program, "index", "build", str(tree)], must_work=True)
        # The program checks files more closely if they changed shortly before the index was built.
        time.sleep(2)
        before = [run(command, cwd=tree).wall for _ in range(REPEAT)]
        edit()
        after = [run(command, cwd=tree).wall for _ in range(REPEAT)]
        before, after = statistics.median(before) * 1e3, statistics.median(after) * 1e3
        rows.append({"name": name, "before_ms": before, "after_ms": after})
    return rows


def large(program, ripgrep, tree):
    """Searches for all lines with an `e`. Measures times, output and peak memory."""
    rows = []
    daemon(program, tree)
    for name, command in [
        ("forge-search, by the daemon", [program, "--max-results", "0", "e"]),
        ("forge-search, a command", [program, "--daemon", "off", "--max-results", "0", "e"]),
        ("ripgrep", [ripgrep, "--no-config", "e", "."]),
    ]:
        say(name)
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        length = len(os.read(process.stdout.fileno(), 1 << 16))
        first = time.perf_counter() - start
        while got := os.read(process.stdout.fileno(), 1 << 20):
            length += len(got)
        _, status, usage = os.wait4(process.pid, 0)
        process.stdout.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        rows.append({
            "name": name, "first_ms": first * 1e3, "s": time.perf_counter() - start, "cpu_s": usage.ru_utime + usage.ru_stime,
            "bytes": length, "memory": usage.ru_maxrss * 1024,
        })
    end_daemon(program, tree)
    return rows


def surfaces(program, ripgrep, tree):
    """Runs all measurements of this file. They change the tree."""
    run([program, "index", "build", str(tree)], must_work=True)
    return {
        "asked": asked(program, ripgrep, tree),
        "below": below(program, tree),
        "large": large(program, ripgrep, tree),
        "edits": edits(program, tree),
    }
