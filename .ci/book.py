#!/usr/bin/env python3
"""Follows the links in the pages of a book: each one inside the book leads to a file and an anchor.

    .ci/book.py DIRECTORY
"""

import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.anchors.add(attrs["id"])
        target = attrs.get("href") if tag in ("a", "link") else attrs.get("src")
        if target:
            self.links.append(target)


def main():
    book = Path(sys.argv[1]).resolve()
    pages = {path: Page(path.read_text()) for path in book.rglob("*.html")}
    dead, followed = [], 0
    for path, page in pages.items():
        # The page for unknown addresses has links for the root of a server.
        if path.name == "404.html":
            continue
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            followed += 1
            name = urllib.parse.unquote(url.path)
            target = (path.parent / name).resolve() if name else path
            anchor = urllib.parse.unquote(url.fragment)
            is_inside = target.is_relative_to(book) and target.is_file()
            if not is_inside:
                dead.append(f"{path.relative_to(book)}: {link} is not in the book")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                dead.append(f"{path.relative_to(book)}: {link} names no heading")
    print(*dead, sep="\n", end="\n" if dead else "")
    print(f"{len(pages)} pages, {followed} links, {len(dead)} dead")
    return 1 if dead or not followed else 0


if __name__ == "__main__":
    sys.exit(main())
