"""Compares ranked answers: their quality, by a public set of questions, and their time.

The questions, their answers and the repositories are those of semble's benchmark, by its measure: NDCG@10, where a
place is right if it has a line of an answer. Repositories and questions are fetched at fixed revisions.
"""

import json
import math
import os
import shutil
import statistics
import subprocess
import time

from common import CACHE, PROJECT, WORK, run, say
from contestants import Process
from rankers import BEST

SEMBLE = ("https://github.com/MinishLab/semble", "577ffc25bc03cf53554115696e1bdab37130dc83")
# What semble's authors measured at that revision, with its model.
PUBLISHED = "benchmarks/results/semble-hybrid-a772a37d558c.json"
# One third of the 63 repositories. The weights of our ranking were chosen with these in view.
REPOSITORIES = [
    "abseil-cpp", "aiohttp", "axum", "bats-core", "cats", "chi", "click", "commons-lang", "curl", "express", "flask", "gin", "kotlinx-coroutines", "lazy.nvim",
    "messagepack-csharp", "newtonsoft-json", "plug", "pydantic", "sinatra", "tokio", "zod",
]


class ForgeRanked(Process):
    """Our long-running process, as agents use it: `call --jsonl --tool find_code`."""

    name = "forge-search, a process"

    def __init__(self, program):
        self.program = program

    def start(self, tree, wait=True):
        self.open([self.program, "call", "--jsonl", "--tool", "find_code", "--root", tree, "--wait-index"], stderr=subprocess.DEVNULL)

    def rank(self, question):
        answer, ran = self.exchange({"question": question, "max_results": BEST})
        return [(one["path"], one["start_line"], one["end_line"]) for one in answer["places"]], ran.wall


class Ggrep:
    """`ggrep` with its defaults: a command for each question, answered by the daemon."""

    name = "ggrep, a command"

    def __init__(self, program):
        self.program = WORK / "ggrep"
        self.program.symlink_to(program)

    def start(self, tree):
        self.tree = tree

    def rank(self, question):
        ran = run([self.program, "--root", self.tree, "--json", "--limit", BEST, "--", question], must_work=True)
        return [(one["path"], one["start_line"], one["end_line"]) for one in json.loads(ran.output)["results"]], ran.wall

    def end(self):
        run([self.program, "stop", "--root", self.tree])


class Library(Process):
    """A Python library, in a process of its own."""

    def __init__(self, python, kind):
        self.command = [python, PROJECT / "benches" / "peers" / "rankers.py", kind]

    def start(self, tree, wait=True):
        self.open([*self.command, tree], stderr=subprocess.DEVNULL)
        self.name = json.loads(self.process.stdout.readline())

    def rank(self, question):
        found, ran = self.exchange(question)
        return [tuple(place) for place in found], ran.wall


def fetched(place, url, revision):
    """Fetches the files of a revision into a directory, without the history, unless it is there."""
    if not place.is_dir():
        say(f"fetching {url}")
        aside = place.with_name(f"{place.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        for step in (["init", "--quiet"], ["fetch", "--quiet", "--depth", "1", url, revision], ["checkout", "--quiet", "FETCH_HEAD"]):
            subprocess.run(["git", *step], cwd=aside, check=True)
        shutil.rmtree(aside / ".git")
        aside.rename(place)
    return place


def questions(cache):
    """Returns the tree of each repository, and its questions."""
    benchmark = fetched(cache / "semble", *SEMBLE) / "benchmarks"
    specs = {one["name"]: one for one in json.loads((benchmark / "repos.json").read_text())}
    asked = {name: [] for name in REPOSITORIES}
    for path in sorted((benchmark / "annotations").glob("*.json")):
        for question in json.loads(path.read_text()):
            asked.get(question.get("repo", path.stem), []).append(question)
    trees = {name: fetched(cache / name, specs[name]["url"], specs[name]["revision"]) / (specs[name].get("benchmark_root") or "") for name in asked}
    return {name: (trees[name].resolve(), of) for name, of in asked.items()}


def category(question):
    """Returns the kind of a question. Without a label, its words tell it, as in semble's benchmark."""
    words = question["query"].lower().split()
    return question.get("category") or ("symbol" if len(words) == 1 else "architecture" if words[0] == "how" else "semantic")


def covers(place, target):
    path, first, last = place
    wanted = target if isinstance(target, dict) else {"path": target}
    if not (path == wanted["path"] or path.endswith("/" + wanted["path"]) or wanted["path"].endswith("/" + path)):
        return False
    if wanted.get("start_line") is None or wanted.get("end_line") is None:
        return True
    return first <= int(wanted["end_line"]) and last >= int(wanted["start_line"])


def ndcg(places, targets):
    """Returns the normalized gain: each target counts once, at the first place that covers it."""
    right = {next((at for at, place in enumerate(places[:BEST]) if covers(place, target)), None) for target in targets}
    gain = sum(1 / math.log2(at + 2) for at in right if at is not None)
    return gain / sum(1 / math.log2(at + 2) for at in range(min(BEST, len(targets))))


def mean(values):
    return statistics.fmean(values) if values else None


def published(cache, asked):
    """Returns what semble's authors measured with its model, as a row of the table."""
    path = cache / "semble" / PUBLISHED
    each = {one["repo"]: one["ndcg10"] for one in json.loads(path.read_text())["repos"]}
    count = {name: len(of) for name, (_, of) in asked.items()}
    whole = sum(each[name] * count[name] for name in asked) / sum(count.values())
    return {"name": "semble with its model, published", "ndcg": whole, "by": {}, "each": {name: each[name] for name in asked}, "ms": None, "first_s": None}


def measure(program, python, repeat, cache=None):
    """Asks all questions of all programs. With a `repeat` of 0, measures the quality alone."""
    cache = cache or CACHE / "ranked"
    try:
        asked = questions(cache)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"the questions can't be fetched, and ranked answers are left out: {error}")
        return None
    os.environ["HOME"] = str(WORK / "home")
    rankers = [ForgeRanked(program), Ggrep(program), *([Library(python, "bm25"), Library(python, "semble")] if python else [])]
    gains = [{name: [] for name in asked} for _ in rankers]
    times, firsts = [[] for _ in rankers], [[] for _ in rankers]
    for name, (tree, of) in asked.items():
        say(f"{name}: {len(of)} questions")
        for one, all_ in zip(rankers, firsts):
            start = time.perf_counter()
            one.start(tree)
            one.rank(of[0]["query"])
            all_.append(time.perf_counter() - start)
        for question in of:
            targets = question["relevant"] + question.get("secondary", [])
            for one, gained in zip(rankers, gains):
                gained[name].append((category(question), ndcg(one.rank(question["query"])[0], targets)))
            taken = [[one.rank(question["query"])[1] for one in rankers] for _ in range(repeat)]
            for all_, column in zip(times, zip(*taken)):
                all_.append(statistics.median(column) * 1e3)
        for one in rankers:
            one.end()
    rows = []
    for one, gained, all_, first in zip(rankers, gains, times, firsts):
        flat = [gain for of in gained.values() for gain in of]
        by = {kind: mean([value for of, value in flat if of == kind]) for kind in sorted({of for of, _ in flat})}
        rows.append({
            "name": one.name, "ndcg": mean([value for _, value in flat]), "by": by, "each": {name: mean([value for _, value in of]) for name, of in gained.items()},
            "ms": (statistics.median(all_), statistics.quantiles(all_, n=20)[-1]) if repeat else None, "first_s": statistics.median(first) if repeat else None,
        })
    return {"repeat": repeat, "rows": [*rows, published(cache, asked)], "questions": {name: len(of) for name, (_, of) in asked.items()}}
