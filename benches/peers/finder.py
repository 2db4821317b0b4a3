"""Answers text searches with fff: a request in each line of standard input, an answer in each line.

    finder.py TREE warm|cold

With `warm`, the first request waits until the index is complete; with `cold`, until the files are listed.
"""

import json
import sys
import time

import fff

PATIENCE_MS = 600_000
ALL = 100_000_000
# By default fff searches no file over some megabytes.
LARGEST = 1 << 31


def ready(finder, warm):
    finder.wait_for_scan_blocking(timeout_ms=PATIENCE_MS)
    while warm and not (finder.scan_progress.is_warmup_complete and finder.scan_progress.is_watcher_ready):
        time.sleep(0.001)


def found(finder, request):
    """Returns the path and the number of each line, page by page."""
    lines, cursor = [], None
    while True:
        page = finder.grep(
            request["pattern"], mode=request["mode"], smart_case=request["case"], cursor=cursor, page_limit=request["first"] or ALL, max_matches_per_file=ALL, max_file_size=LARGEST,
        )
        lines += [(one.relative_path, one.line_number) for one in page.items]
        cursor = page.next_cursor() if page.has_more else None
        if cursor is None or request["first"]:
            return lines


def main():
    with fff.FileFinder(sys.argv[1], cache_budget_max_file_size=LARGEST) as finder:
        ready(finder, sys.argv[2] == "warm")
        for line in sys.stdin:
            request = json.loads(line)
            if request.get("refresh"):
                finder.scan_files()
                ready(finder, warm=True)
                answer = {}
            else:
                answer = {"found": found(finder, request)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
