#!/usr/bin/env python3
"""Asks for 50 functions, types and macros of the Linux sources by name, and counts how many answers
have the definition first.

    definitions.py TREE [PROGRAM]

TREE has the sources, such as those of Linux 6.1. PROGRAM is `forge-search` by default. Its daemon
answers, and is left running. The first answers take long: until the index has the words, each of
them reads the whole tree.

`definitions.tsv` has the names, each with its kind and the file that defines it. Each is defined
once in the tree, and stands in at least 30 files.
"""

import json
import pathlib
import re
import subprocess
import sys

DEMANDED = 47


def defines(name, kind, text):
    """Tells if one of the lines defines the name. Works without the rules of the program."""
    ways = {
        "function": rf"^(?!\s)(?:[\w*\s]*\W)?{name}\(",
        "type": rf"^struct {name} \{{",
        "macro": rf"^\s*#\s*define\s+{name}\b",
    }
    return re.search(ways[kind], text, re.MULTILINE) is not None


def main(tree, program="forge-search"):
    rows = pathlib.Path(__file__).with_name("definitions.tsv").read_text().splitlines()
    first = 0
    for row in rows:
        name, kind, path = row.split("\t")
        if not defines(name, kind, (pathlib.Path(tree) / path).read_text()):
            raise SystemExit(f"{path} of this tree does not define {name}")
        ask = [program, "ask", "--root", tree, "--json", "--limit", "3", name]
        told = subprocess.run(ask, capture_output=True, text=True)
        results = json.loads(told.stdout).get("results")
        if not results:
            raise SystemExit(f"{name}: {told.stdout}{told.stderr}")
        if results[0]["path"] == path and defines(name, kind, results[0]["content"]):
            first += 1
        else:
            shown = ", ".join(f"{one['path']}:{one['start_line']}" for one in results)
            print(f"{name}: {path} is not first: {shown}")
    print(f"{first} of {len(rows)} have the definition first")
    return first < DEMANDED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
