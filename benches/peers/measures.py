"""The measurements: each one is a function that returns plain data."""

import random
import statistics
import time

from common import crashed, files_of, say
from contestants import Codesearch, ForgeCommand, ForgeProcess, ForgeRg, Process, Query, UgrepIndexed

QUERIES = [
    Query("absent", "nosuchidentifier_here"),
    Query("rare", "kmalloc_array_node"),
    Query("medium", "spin_trylock"),
    Query("frequent", "spin_lock_irqsave"),
    Query("frequent, the first 200", "return", first=200),
    Query("without case", "kVmAlloc_aRRay", ignore_case=True),
    Query("expression with a text", "kmalloc.*GFP_ATOMIC", literal=False),
    Query("expression without one", "[a-z]{3}_[0-9]{4}_[a-z]{2}", literal=False),
    Query("alternation", "kmalloc_array|kvmalloc_node", literal=False),
    Query("one edit", "kfree_skb_re", edits=1),
]


def of_ripgrep(name, pattern, literal=False, **more):
    return Query(name, pattern, literal, source="ripgrep", **more)


# The queries for the Linux sources in ripgrep's benchmark, by their names there.
QUERIES += [
    of_ripgrep("linux_literal", "PM_RESUME", literal=True),
    of_ripgrep("linux_literal_casei", "PM_RESUME", literal=True, ignore_case=True),
    of_ripgrep("linux_re_literal_suffix", "[A-Z]+_RESUME"),
    of_ripgrep("linux_word", "PM_RESUME", literal=True, word=True),
    of_ripgrep("linux_unicode_greek", r"\p{Greek}", unicode=True),
    of_ripgrep("linux_unicode_greek_casei", r"\p{Greek}", ignore_case=True, unicode=True),
    of_ripgrep("linux_unicode_word", r"\wAh", unicode=True),
    of_ripgrep("linux_no_literal", r"\w{5}\s+\w{5}\s+\w{5}\s+\w{5}\s+\w{5}", unicode=True),
    of_ripgrep("linux_alternates", "ERR_SYS|PME_TURN_OFF|LINK_REQ_RST|CFG_BME_EVT"),
    of_ripgrep("linux_alternates_casei", "ERR_SYS|PME_TURN_OFF|LINK_REQ_RST|CFG_BME_EVT", ignore_case=True),
]

# The number of trials with a damaged index, for each kind of damage.
TRIALS = 30


def build(contestants, tree):
    """Measures the build of every index."""
    rows = []
    for one in contestants:
        # These two use the index of the command.
        if not one.has_index or isinstance(one, (ForgeProcess, ForgeRg)):
            continue
        say(f"building the index of {one.name}")
        ran, size = one.build(tree)
        rows.append({"name": one.name, "wall_s": ran.wall, "cpu_s": ran.cpu, "memory": ran.memory, "size": size})
    return rows


def queries(contestants, tree, repeat):
    """Runs every query with every program.

    First checks that all programs find the same lines, then measures the times in alternating runs.
    """
    rows = []
    for query in QUERIES:
        say(query.name)
        able = [one for one in contestants if one.can(query)]
        forge = able[0]
        expected, _ = forge.ask(query, tree)
        row = {"query": query.name, "source": query.source, "pattern": query.pattern, "lines": len(expected), "less": {}, "ms": {}, "cpu_ms": {}}
        for one in able:
            found, _ = one.ask(query, tree)
            # Other programs classify more files as binary, and have limits for lines and files.
            missing = expected - found
            if query.first:
                # Each program returns the first lines in its own order.
                missing = set()
            elif found - expected:
                raise SystemExit(f"{query.name}: only {one.name} finds {sorted(found - expected)[:3]}")
            elif missing and one.name in ("ripgrep", ForgeCommand.name, ForgeRg.name):
                raise SystemExit(f"{query.name}: {one.name} does not find {sorted(missing)[:3]}")
            if len(missing) * 10 > len(expected):
                # A limit does not explain such a difference: the program runs another query.
                raise SystemExit(f"{query.name}: {one.name} does not find {len(missing)} of {len(expected)} lines, {sorted(missing)[:3]}")
            if missing:
                row["less"][one.name] = len(missing)
        times = {one.name: [] for one in able}
        cpus = {one.name: [] for one in able}
        for _ in range(repeat):
            for one in able:
                _, ran = one.ask(query, tree)
                times[one.name].append(ran.wall)
                cpus[one.name].append(ran.cpu)
        # More runs for short times, so that one slow moment does not change the median.
        for _ in range(100 if statistics.median(times[forge.name]) < 0.02 else 0):
            _, ran = forge.ask(query, tree)
            times[forge.name].append(ran.wall)
            cpus[forge.name].append(ran.cpu)
        row["ms"] = {name: statistics.median(all_) * 1e3 for name, all_ in times.items()}
        row["cpu_ms"] = {name: statistics.mean(all_) * 1e3 for name, all_ in cpus.items()}
        rows.append(row)
    return rows


def first_query(contestants, tree, repeat):
    """Measures the first result of a newly started program whose index already exists."""
    query = QUERIES[2]
    rows = []
    for one in contestants:
        times = []
        for _ in range(repeat):
            if isinstance(one, Process):
                one.end()
                start = time.perf_counter()
                # The query is sent immediately, so it may run without the index.
                one.start(tree, wait=False)
                one.ask(query, tree)
                times.append(time.perf_counter() - start)
            else:
                times.append(one.ask(query, tree)[1].wall)
        rows.append({"name": one.name, "ms": statistics.median(times) * 1e3})
    for one in contestants:
        one.end()
    return rows


def updates(contestants, tree, counts=(1, 100, 20_000)):
    """Edits files, and counts the edits that each program misses before its index is updated.

    Also measures the update and the next query. Processes follow the tree by themselves: each is
    measured while no other is running, and is asked at once after the edits.
    """
    files = files_of(tree)
    rng = random.Random(1)
    kinds = ["stale", "answer_ms", "refresh_ms", "fresh_ms"]
    rows = [{"edits": min(count, len(files) // 2)} | {kind: {} for kind in kinds} for count in counts]
    for one in contestants:
        one.end()
    groups = [[one] for one in contestants if isinstance(one, Process)]
    groups.append([one for one in contestants if not isinstance(one, Process)])
    for nth, group in enumerate(groups):
        for one in group:
            one.ask(QUERIES[0], tree)
            updated(one, tree)
        for count, row in zip(counts, rows):
            marker = f"edited_for_the_{count}th_{nth}"
            query = Query(f"{count} edits", marker)
            for path in rng.sample(files, row["edits"]):
                with open(path, "ab") as out:
                    out.write(f"\n{marker}\n".encode())
            say(f"{row['edits']} files edited")
            # All are asked before an index is updated: some share one.
            answers = [(one, *one.ask(query, tree)) for one in group]
            # The expected lines, found by a program without an index: searches skip some of the
            # edited files.
            truth = next(one for one in contestants if one.name == "ripgrep").ask(query, tree)[0]
            for one, found, ran in answers:
                row["answer_ms"][one.name] = ran.wall * 1e3
                if one.has_index:
                    row["stale"][one.name] = len(truth - found)
                    seconds = updated(one, tree)
                    if seconds is not None:
                        row["refresh_ms"][one.name] = seconds * 1e3
                    found, ran = one.ask(query, tree)
                    row["fresh_ms"][one.name] = ran.wall * 1e3
                    if isinstance(one, (ForgeCommand, ForgeProcess, ForgeRg)) and truth != found:
                        raise SystemExit(f"{one.name} does not find {sorted(truth - found)[:3]}")
        for one in group:
            one.end()
    return rows


def updated(one, tree):
    """Brings the index of a program up to date. Returns the time in seconds, if it has to be told."""
    return one.build(tree)[0].wall if isinstance(one, ForgeCommand) else one.refresh(tree)


def damage(contestants, tree):
    """Damages indexes, and counts the results: right, wrong, an error, or a crash."""
    query = QUERIES[2]
    truth = next(one for one in contestants if one.name == "ripgrep").ask(query, tree)[0]
    rows = []
    for one in contestants:
        if not isinstance(one, (ForgeCommand, Codesearch, UgrepIndexed)):
            continue
        say(f"damaging the index of {one.name}")
        whole = one.ask(query, tree)[0]
        rng = random.Random(7)
        for kind in ("a flipped bit in each 1 MiB", "cut off"):
            row = {"name": one.name, "kind": kind, "right": 0, "wrong": 0, "error": 0, "crash": 0}
            for _ in range(TRIALS):
                # Empty files are lock files, not index data.
                files = [path for path in one.index_files(tree) if path.stat().st_size > 0]
                # In an index of many files, damages a tenth of them.
                chosen = files if len(files) < 20 else rng.sample(files, len(files) // 10)
                before = {path: (path.read_bytes(), path.stat().st_mode) for path in chosen}
                for path, (text, mode) in before.items():
                    path.chmod(0o600)
                    text = bytearray(text)
                    if kind == "cut off":
                        text = text[: rng.randrange(len(text))]
                    else:
                        for start in range(0, len(text), 1 << 20):
                            at = rng.randrange(start, min(len(text), start + (1 << 20)))
                            text[at] ^= 1 << rng.randrange(8)
                    path.write_bytes(text)
                    path.chmod(mode)
                found, ran = one.ask(query, tree)
                if crashed(ran.status):
                    row["crash"] += 1
                elif found == whole and found <= truth:
                    row["right"] += 1
                elif ran.status not in (0, 1):
                    row["error"] += 1
                else:
                    row["wrong"] += 1
                for path, (text, mode) in before.items():
                    if path.exists():
                        path.chmod(0o600)
                    path.write_bytes(text)
                    path.chmod(mode)
            rows.append(row)
    return rows


def growth(forge_program, trees, repeat=30):
    """Measures how the cost of forge-search grows with the tree. `trees` has pairs (name, tree)."""
    rows = []
    for name, tree in trees:
        say(f"{name}")
        command, process = ForgeCommand(forge_program), ForgeProcess(forge_program)
        # The store also has the indexes of the previous trees.
        before = sum(path.stat().st_size for path in command.index_files(tree))
        ran, size = command.build(tree)
        size -= before
        files = files_of(tree)
        row = {
            "name": name, "files": len(files), "bytes": sum(path.stat().st_size for path in files), "build_s": ran.wall,
            "build_memory": ran.memory, "size": size, "ms": {},
        }
        start = time.perf_counter()
        process.start(tree)
        process.ask(QUERIES[0], tree)
        row["opened_s"] = time.perf_counter() - start
        asked = [("absent", QUERIES[0]), ("first 200", QUERIES[4])]
        for label, query in asked:
            times = [process.ask(query, tree)[1].wall for _ in range(repeat)]
            row["ms"][label] = statistics.median(times) * 1e3
        # Checks that the next query finds an edit.
        times = []
        for nth in range(repeat):
            marker = f"grown_{name.split()[0].replace(',', '')}_{nth}_x"
            with open(files[nth * 7 % len(files)], "ab") as out:
                out.write(f"\n{marker}\n".encode())
            found, ran = process.ask(Query("edit", marker), tree)
            if len(found) != 1:
                raise SystemExit(f"{name}: an edit is not found")
            times.append(ran.wall)
        row["ms"]["after an edit"] = statistics.median(times) * 1e3
        row["command_ms"] = statistics.median(command.ask(QUERIES[0], tree)[1].wall for _ in range(3)) * 1e3
        row["memory"] = process.memory()
        process.end()
        scan = ForgeProcess(forge_program, mode="off")
        row["scan_ms"] = min(scan.ask(QUERIES[0], tree)[1].wall for _ in range(3)) * 1e3
        scan.end()
        rows.append(row)
    return rows
