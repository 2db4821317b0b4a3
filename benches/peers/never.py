"""Compares searches that an index can't speed up with ripgrep: scans, counts, lists and dumps.

Measures time and peak memory.
"""

import statistics

from common import machine, run, say
from report import number, table

MIB = 2**20

# The memory limit of a count or a dump, in bytes.
MOST_MEMORY = 64 * MIB

# The name, the arguments of both programs, the largest permitted time as a multiple of ripgrep's,
# and whether memory is limited.
ASKED = [
    ("a rare text", ["-s", "intel_pstate_hwp_boost_up"], 1.0, False),
    ("`-i` rare", ["-i", "intel_pstate_hwp_boost_up"], 1.0, False),
    ("`--files`", ["--files"], 1.0, False),
    ("`-l the`", ["-s", "-l", "the"], 1.0, False),
    ("`-c the`", ["-s", "-c", "the"], 1.05, True),
    ("`--count-matches the`", ["-s", "--count-matches", "the"], 1.05, True),
    ("all lines of `struct `", ["-s", "struct "], 1.15, True),
    (r"`-o '\w+_lock'`", ["-s", "-o", r"\w+_lock"], 1.1, False),
]

# The factor by which a ratio may exceed its limit before the check fails, because times vary
# between runs.
TOLERANCE = 1.15


def once(command, tree):
    """Runs a program and discards its output.

    Returns wall time and processor time in seconds, and peak memory in bytes.
    """
    ran = run(command, cwd=tree, discard=True)
    if ran.status not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, command))} failed with status {ran.status}")
    return ran.wall, ran.cpu, ran.memory


def measure(program, ripgrep, tree, repeat):
    """Runs both programs alternately. Returns the median figures of each search."""
    rows = []
    for name, arguments, demand, bounded in ASKED:
        say(f"{tree.name}: {name}")
        commands = [[program, "--daemon", "off", "--index", "off", *arguments], [ripgrep, "--no-config", *arguments]]
        found = [run(command, cwd=tree).output.count(b"\n") for command in commands]
        if found[0] != found[1]:
            raise SystemExit(f"{name}: {found[0]} lines, where ripgrep has {found[1]}")
        ran = [[once(command, tree) for command in commands] for _ in range(repeat)]
        ours, theirs = ([statistics.median(column) for column in zip(*one)] for one in zip(*ran))
        rows.append({"name": name, "lines": found[0], "demand": demand, "bounded": bounded, "ours": ours, "ripgrep": theirs})
    return rows


def ratio(row):
    return row["ours"][0] / row["ripgrep"][0]


def failed(trees):
    """Returns one sentence for each figure that exceeds its limit."""
    sentences = []
    for tree, rows in trees.items():
        for row in rows:
            if ratio(row) > row["demand"] * TOLERANCE:
                sentences.append(f"{tree}, {row['name']}: {ratio(row):.2f} times as long as ripgrep; {row['demand']} is demanded")
            if row["bounded"] and row["ours"][2] > MOST_MEMORY:
                sentences.append(f"{tree}, {row['name']}: {row['ours'][2] / MIB:.0f} MiB of memory; {MOST_MEMORY // MIB} are demanded")
    return sentences


def write(trees, repeat, date, version):
    """Returns the tables, the worst ratio first."""
    parts = [
        "# Searches that an index can't speed up\n",
        f"`benches/peers/run --table never-slower`, {date}, {machine()}, {version}. Whole processes without an index and without a daemon, files in memory, output to "
        f"nowhere; medians of {repeat} alternating runs. A dump has line numbers and columns here, and none in ripgrep. The worst ratio is first.\n",
    ]
    for tree, rows in trees.items():
        parts.append(f"## {tree}\n")
        head = ["search", "lines", "ripgrep ms", "ours ms", "ratio", "demand", "ratio of processor time", "ripgrep MB", "ours MB"]
        cells = []
        for row in sorted(rows, key=ratio, reverse=True):
            ours, theirs = row["ours"], row["ripgrep"]
            cells.append([
                row["name"], f"{row['lines']:,}", number(theirs[0] * 1e3), number(ours[0] * 1e3), f"{ratio(row):.2f}", row["demand"], f"{ours[1] / theirs[1]:.2f}",
                number(theirs[2] / 1e6, 2), number(ours[2] / 1e6, 2),
            ])
        parts.append(table(head, cells))
    return "\n".join(parts)
