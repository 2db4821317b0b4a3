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
        "[Programs and methods](methods.md) says how each program is asked, and which ones are left out.\n",
        f"`benches/peers/run`, {data['date']}, {machine()}. {data['tree']}: {data['files']:,} files, {data['bytes'] / 1e6:,.0f} MB. One run; each time is the median of "
        f"{data['repeat']} alternating ones. All programs have found the same lines before anything was timed, but for what the tables name.\n",
        "Versions: " + "; ".join(data["versions"]) + ".\n",
        "## Where others are better\n\nThe greatest ratio is first.\n",
        losses(data, names),
    ]
    if data.get("build"):
        parts.append("## Making an index\n")
        rows = [
            [
                one["name"], number(one["wall_s"]), number(one["cpu_s"]), number(one["memory"] / 1e6),
                *(["in memory", "–"] if one["size"] is None else [number(one["size"] / 1e6), number(one["size"] * 100 / data["bytes"])]),
            ]
            for one in data["build"]
        ]
        parts.append(table(["index", "s", "s of processors", "peak MB", "size MB", "% of the tree"], rows))
    if data.get("queries"):
        parts.append("## Questions\n\nMilliseconds, and how many times as long as our process. Bold is the fastest.\n")
        parts.append(asked_table([row for row in data["queries"] if not row["source"]], names))
        parts.append("The questions of ripgrep's own benchmark for the Linux sources, by their names there:\n")
        parts.append(asked_table([row for row in data["queries"] if row["source"]], names))
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
    for name, text in [("queries", "Questions"), ("build", "Making an index")]:
        if data.get(name):
            parts.append(f"![{text}]({name}.svg)\n")
    (out / "README.md").write_text("\n".join(parts))


def asked_table(rows, names):
    """Returns the times of queries as a table."""
    cells = []
    for row in rows:
        ours = row["ms"].get(names[0])
        best = min(row["ms"].values())
        times = []
        for name in names:
            ms = row["ms"].get(name)
            cell = "–" if ms is None else number(ms) + ("" if name == names[0] or ours is None else f" ({number(ms / ours, 2)}×)")
            times.append(f"**{cell}**" if ms == best else cell)
        cells.append([row["query"], f"{row['lines']:,}", *times])
    return table(["question", "lines", *names], cells)


def faster(times, ours):
    """Returns the greatest ratio to a faster program of others, and a list of all faster ones."""
    found = sorted((times[name], name) for name in times if "forge-search" not in name and times[name] < ours)
    return (ours / found[0][0] if found else 0), ", ".join(f"{name} {number(ms)} ({number(ours / ms)}×)" for ms, name in found)


def losses(data, names):
    """Returns a table of the cases in which another program is faster or smaller, with the greatest ratio first."""
    rows = []

    def compare(where, times, stale=()):
        for name in names[:3]:
            if name in times:
                # `forge-search rg` is compared with the program that it replaces.
                peers = [other for other in times if other not in stale and (name != "forge-search rg" or other == "ripgrep")]
                ratio, others = faster({other: times[other] for other in peers}, times[name])
                rows.append((ratio, where, name, f"{number(times[name])} ms", others))

    for row in data.get("queries", []):
        compare(f"*{row['query']}*", row["ms"])
    for row in data.get("updates", []):
        # Counts only programs that found all edits.
        compare(f"after {row['edits']:,} edits", row["answer_ms"], [name for name, count in row["stale"].items() if count])
    compare("just started", {one["name"]: one["ms"] for one in data.get("first", [])})
    built = data.get("build", [])
    mine = next((one for one in built if "forge-search" in one["name"]), None)
    for one in built:
        for key, where, unit, scale in [("wall_s", "making an index", "s", 1), ("size", "an index on the disk", "MB", 1e6), ("memory", "memory for an index", "MB", 1e6)]:
            if one[key] and one[key] < mine[key]:
                ratio = mine[key] / one[key]
                rows.append((ratio, where, "forge-search", f"{number(mine[key] / scale)} {unit}", f"{one['name']} {number(one[key] / scale)} ({number(ratio)}×)"))
    cells = [row[1:] for row in sorted(rows, key=lambda row: -row[0]) if row[0] > 0]
    return table(["case", "ours", "takes", "less is taken by"], cells) if cells else "In none of what was measured here.\n"


def draw_compared(data, out):
    """Draws the query times and the index figures."""
    plot = plotter()
    # `forge-search rg` takes as long as the command; ripgrep's queries are in the tables alone.
    names = [name for name in data["names"] if name != "forge-search rg"]
    rows = [row for row in data["queries"] if not row["source"]]
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
        known = [one for one in data["build"] if one[key] is not None]
        axis.barh([one["name"] for one in known], [one[key] / scale for one in known])
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


def write_ranked(data, out):
    """Writes the quality and the times of ranked answers."""
    rows, count = data["rows"], data["questions"]
    runs = f"each time is the median of {data['repeat']} alternating runs of each question" if data["repeat"] else "times were not measured"
    parts = [
        "# Ranked answers\n",
        f"`benches/peers/run --only ranked`, {datetime.date.today()}, {machine()}. {sum(count.values())} questions of semble's benchmark about {len(count)} repositories; {runs}. "
        "[Programs and methods](methods.md) says how.\n",
        "## Where others are better\n",
        ranked_losses(rows),
        "## All questions\n\nNDCG@10: 1 if all right places come first, 0 if none is among the first ten. The last columns are milliseconds for a question, and seconds from the "
        "start of a program to its first answer about a repository, with the index made.\n",
    ]
    kinds = list(rows[0]["by"])
    cells = [
        [
            one["name"], f"{one['ndcg']:.3f}", *(f"{one['by'][kind]:.3f}" if kind in one["by"] else "–" for kind in kinds),
            *([number(one["ms"][0]), number(one["ms"][1])] if one["ms"] else ["–", "–"]), number(one["first_s"]),
        ]
        for one in rows
    ]
    parts.append(table(["program", "NDCG@10", *kinds, "median ms", "95 % within ms", "first answer s"], cells))
    parts.append("## Each repository\n\nNDCG@10.\n")
    # The command has the answers of the process.
    shown = [one for one in rows if not one["name"].startswith("ggrep")]
    cells = [[name, of, *(f"{one['each'][name]:.3f}" for one in shown)] for name, of in count.items()]
    parts.append(table(["repository", "questions", *(one["name"] for one in shown)], cells))
    (out / "ranked.md").write_text("\n".join(parts))


def ranked_losses(rows):
    """Lists the cases in which another program ranks better, or is faster, than ours in the first two rows."""
    (ours, command, *others), said = rows, []
    for one in others:
        for kind, value in [("all questions", one["ndcg"]), *one["by"].items()]:
            mine = ours["by"].get(kind, ours["ndcg"])
            if value > mine:
                said.append(f"{one['name']} ranks better for *{kind}*: {value:.3f}, ours {mine:.3f}")
        better = [f"{name} ({value:.3f}, ours {ours['each'][name]:.3f})" for name, value in one["each"].items() if value > ours["each"][name]]
        if better:
            said.append(f"{one['name']} ranks better in {len(better)} of {len(ours['each'])} repositories: {', '.join(better)}")
        for mine in (ours, command):
            for what, key in [("answers in", lambda row: row["ms"] and row["ms"][0] / 1e3), ("gives its first answer after", lambda row: row["first_s"])]:
                if key(one) and key(one) < key(mine):
                    said.append(f"{one['name']} {what} {number(key(one) * 1e3)} ms, {mine['name']} {number(key(mine) * 1e3)} ({number(key(mine) / key(one), 2)}×)")
    return "\n".join(f"- {one}." for one in said) + "\n" if said else "In none of what was measured here.\n"


def plotter():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "forge-search"
    from matplotlib import pyplot

    return pyplot


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
