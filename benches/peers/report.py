"""Writes the results as Markdown tables and diagrams."""

import datetime

from common import machine


def table(head, rows):
    """Returns a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def number(value, digits=3):
    """Formats a number with `digits` significant digits, or as an integer if it has more."""
    if value is None:
        return "–"
    if value >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def write_compared(data, out):
    """Writes the comparison of the programs."""
    names = data["names"]
    parts = [
        "# Comparison\n",
        f"`benches/peers/run`, {data['date']}, {machine()}. {data['tree']}: {data['files']:,} files, {data['bytes'] / 1e6:,.0f} MB. One run; each time is the median of "
        f"{data['repeat']} alternating ones. All programs have found the same lines before anything was timed, but for what the tables name.\n",
        "Versions: " + "; ".join(data["versions"]) + ".\n",
    ]
    if data.get("build"):
        parts.append("## Making an index\n")
        rows = [
            [one["name"], number(one["wall_s"]), number(one["cpu_s"]), number(one["memory"] / 1e6), number(one["size"] / 1e6), number(one["size"] * 100 / data["bytes"])]
            for one in data["build"]
        ]
        parts.append(table(["index", "s", "s of processors", "peak MB", "size MB", "% of the tree"], rows))
    if data.get("queries"):
        parts.append("## Questions\n\nMilliseconds, and how many times as long as our process. Bold is the fastest.\n")
        rows = []
        for row in data["queries"]:
            ours = row["ms"][names[0]]
            best = min(row["ms"].values())
            cells = []
            for name in names:
                ms = row["ms"].get(name)
                cell = "–" if ms is None else number(ms) + ("" if name == names[0] else f" ({number(ms / ours, 2)}×)")
                cells.append(f"**{cell}**" if ms == best else cell)
            rows.append([row["query"], f"{row['lines']:,}", *cells])
        parts.append(table(["question", "lines", *names], rows))
        less = [f"{name} finds {count:,} lines less for *{row['query']}*" for row in data["queries"] for name, count in row["less"].items()]
        if less:
            parts.append("What others do not find (files that they take for binary, lines or files beyond limits of theirs, or an encoding that they do not read): " + "; ".join(less) + ".\n")
    if data.get("first"):
        parts.append("## The first answer of a program that has just been started\n\nWith an index that is there already, for a question with 400 lines.\n")
        parts.append(table(["program", "ms"], [[one["name"], number(one["ms"])] for one in data["first"]]))
    if data.get("updates"):
        parts.append("## After edits\n\n*stale*: lines that are there and are not found before the index was brought up to date. *brought up to date*: what that takes; ours does that by itself.\n")
        rows = []
        for row in data["updates"]:
            for name in names:
                if name in row["answer_ms"]:
                    rows.append([
                        f"{row['edits']:,}", name, number(row["answer_ms"][name]), row["stale"].get(name, 0), number(row["refresh_ms"].get(name)), number(row["fresh_ms"].get(name)),
                    ])
        parts.append(table(["edits", "program", "the next answer, ms", "stale", "brought up to date, ms", "an answer then, ms"], rows))
    if data.get("damage"):
        parts.append("## With a damaged index\n\nHow many answers of those that were tried.\n")
        rows = [[one["name"], one["kind"], one["right"], one["wrong"], one["error"], one["crash"]] for one in data["damage"]]
        parts.append(table(["program", "damage", "right", "wrong, without a word", "an error", "a crash"], rows))
    parts.append("## Where others are better\n")
    parts.append(losses(data, names))
    for name, text in [("queries", "Questions"), ("build", "Making an index")]:
        if data.get(name):
            parts.append(f"![{text}]({name}.svg)\n")
    (out / "README.md").write_text("\n".join(parts))


def losses(data, names):
    """Lists the cases in which another program is faster or smaller."""
    said = []
    for row in data.get("queries", []):
        ours = row["ms"][names[0]]
        for name, ms in row["ms"].items():
            if "forge-search" not in name and ms < ours:
                said.append(f"{name} answers *{row['query']}* in {number(ms)} ms, our process in {number(ours)}")
        command = row["ms"].get(names[1])
        faster = [f"{name} ({number(ms)} ms)" for name, ms in row["ms"].items() if command and "forge-search" not in name and ms < command]
        if faster:
            said.append(f"as a command ({number(command)} ms), *{row['query']}* is answered later than by " + ", ".join(faster))
    for row in data.get("updates", []):
        for name in names[:2]:
            ours = row["answer_ms"][name]
            # Counts only programs that found all edits.
            faster = [f"{other} ({number(ms)} ms)" for other, ms in row["answer_ms"].items() if "forge-search" not in other and ms < ours and not row["stale"].get(other)]
            if faster:
                said.append(f"after {row['edits']:,} edits, {name} answers in {number(ours)} ms, later than " + ", ".join(faster))
    started = {one["name"]: one["ms"] for one in data.get("first", [])}
    if started:
        faster = [f"{name} ({number(ms)} ms)" for name, ms in started.items() if "forge-search" not in name and ms < started[names[0]]]
        if faster:
            said.append(f"a process of ours that was just started answers after {number(started[names[0]])} ms, later than " + ", ".join(faster))
    built = {one["name"]: one for one in data.get("build", [])}
    mine = next((one for name, one in built.items() if "forge-search" in name), None)
    for name, one in built.items():
        if mine and one is not mine:
            for key, what, scale in [("wall_s", "s to be made", 1), ("size", "MB", 1e6), ("memory", "MB of memory at most", 1e6)]:
                if one[key] < mine[key]:
                    said.append(f"the index of {name} takes {number(one[key] / scale)} {what}, ours {number(mine[key] / scale)}")
    if not said:
        return "In none of what was measured here.\n"
    return "\n".join(f"- {one}." for one in said) + "\n"


def draw_compared(data, out):
    """Draws the query times and the index figures."""
    plot = plotter()
    names = data["names"]
    rows = data["queries"]
    figure, axes = plot.subplots(figsize=(11, 6))
    width = 0.8 / len(names)
    for nth, name in enumerate(names):
        at = [row + nth * width for row, one in enumerate(rows) if name in one["ms"]]
        axes.bar(at, [one["ms"][name] for one in rows if name in one["ms"]], width, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds")
    axes.set_xticks([row + 0.4 - width / 2 for row in range(len(rows))], [one["query"] for one in rows], rotation=25, ha="right")
    axes.legend(fontsize=8, ncols=3)
    axes.set_title(f"{data['tree']}, {data['files']:,} files, {data['date']}, {machine()}", fontsize=9)
    save(figure, out / "queries.svg")
    figure, axes = plot.subplots(1, 3, figsize=(11, 3))
    for axis, (key, what, scale) in zip(axes, [("wall_s", "seconds", 1), ("size", "size, MB", 1e6), ("memory", "peak memory, MB", 1e6)]):
        axis.barh([one["name"] for one in data["build"]], [one[key] / scale for one in data["build"]])
        axis.set_xlabel(what)
        axis.tick_params(labelsize=8)
    save(figure, out / "build.svg")


def draw_growth(rows, out):
    """Draws the growth of times and sizes with the tree."""
    plot = plotter()
    figure, axes = plot.subplots(1, 2, figsize=(11, 4))
    files = [row["files"] for row in rows]
    for label in rows[0]["ms"]:
        axes[0].plot(files, [row["ms"][label] for row in rows], marker="o", label=label)
    axes[0].plot(files, [row["command_ms"] for row in rows], marker="o", label="absent, a command")
    axes[0].plot(files, [row["scan_ms"] for row in rows], marker="o", label="absent, without an index")
    axes[0].set_ylabel("milliseconds")
    for key, label, scale in [("build_s", "build, s", 1), ("size", "size, MB", 1e6), ("memory", "memory at rest, MB", 1e6), ("build_memory", "memory of a build, MB", 1e6)]:
        axes[1].plot(files, [row[key] / scale for row in rows], marker="o", label=label)
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("files")
        axis.legend(fontsize=8)
    save(figure, out / "growth.svg")


def write_growth(rows, out):
    """Writes the growth figures of forge-search."""
    head = ["tree", "files", "MB", "build s", "peak MB", "index MB", "opened s", "at rest MB", *rows[0]["ms"], "a command", "without an index"]
    cells = [
        [
            row["name"], f"{row['files']:,}", number(row["bytes"] / 1e6), number(row["build_s"]), number(row["build_memory"] / 1e6), number(row["size"] / 1e6),
            number(row["opened_s"]), number(row["memory"] / 1e6), *(number(ms) for ms in row["ms"].values()), number(row["command_ms"]), number(row["scan_ms"]),
        ]
        for row in rows
    ]
    date = datetime.date.today()
    text = f"# Growth\n\n`benches/peers/run --only growth`, {date}, {machine()}. Times without a unit are milliseconds, medians.\n\n{table(head, cells)}\n![Growth](growth.svg)\n"
    (out / "growth.md").write_text(text)


def write_surfaces(data, tree, out):
    """Writes the times of whole processes."""
    date = datetime.date.today()
    parts = [
        f"# Whole processes\n\n`benches/peers/run --only surfaces`, {date}, {machine()}, {tree}. Medians of runs in turns, from the start of a process to its end.\n",
        "## With a daemon, and without\n\nMilliseconds by the clock, in brackets those of the processor in the process itself, and how many times as long as ripgrep.\n",
    ]

    def cell(times, peer):
        if times is None:
            return "–"
        ratio = f", {number(times[0] / peer[0], 2)}×" if peer else ""
        return f"{number(times[0])} ({number(times[1])}){ratio}"

    rows = [
        [row["name"], cell(row["daemon"], row["ripgrep"]), cell(row["command"], row["ripgrep"]), cell(row["ripgrep"], None)]
        for row in data["asked"]
    ]
    parts.append(table(["question", "by the daemon", "without a daemon", "ripgrep"], rows))
    below = data["below"]
    parts.append(
        f"An absent text without a daemon, in the root of the tree that is indexed: {number(below['root'])} ms; in its directory `drivers/net`: {number(below['below'])} ms.\n"
    )
    parts.append("## An answer of millions of lines\n\nAll lines with an `e`, read from a pipe.\n")
    rows = [
        [row["name"], number(row["first_ms"]), number(row["s"]), number(row["cpu_s"]), number(row["bytes"] / 1e6), number(row["memory"] / 1e6)]
        for row in data["large"]
    ]
    parts.append(table(["program", "first bytes, ms", "all, s", "s of processors", "MB printed", "peak MB"], rows))
    parts.append("## A command after edits\n\nAn absent text, without a daemon, before and after edits of a kind; the index is that of before.\n")
    rows = [
        [row["name"], number(row["before_ms"]), number(row["after_ms"]), f"{number(row['after_ms'] / row['before_ms'])}×"] for row in data["edits"]
    ]
    parts.append(table(["edit", "before, ms", "after, ms", ""], rows))
    (out / "surfaces.md").write_text("\n".join(parts))


def plotter():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "forge-search"
    from matplotlib import pyplot

    return pyplot


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
