#!/usr/bin/env python3
"""Tests the page of `forge-search serve --http` in a browser, as a user would use it.

    browser.py CHROMEDRIVER URL ROOT SHOTS

Needs only the standard library. Screenshots go to SHOTS.
"""

import pathlib
import re
import sys
import tempfile

from webdriver import Browser

DRIVER, URL, ROOT, SHOTS = sys.argv[1:5]
ROOT, SHOTS = pathlib.Path(ROOT), pathlib.Path(SHOTS)

DOWN, ENTER, ESCAPE, TAB = "\ue015", "\ue007", "\ue00c", "\ue004"

FOCUSED = "const f = document.activeElement; return f.id || f.innerText"


def open_files(browser):
    """Walks through the results of retry_delay with keys, and opens one of them."""
    browser.press(DOWN)
    assert browser.run(FOCUSED) == "src/delay.rs"
    browser.press("j", "j", "j")
    assert browser.run(FOCUSED) == "2", browser.run(FOCUSED)
    browser.press("k")
    browser.press(DOWN, ENTER)
    browser.wait("the file", "return document.querySelector('#file[open] [aria-current]')?.innerText.includes('retry_delay')")
    assert browser.text("#file-name") == "src/use.rs"
    assert browser.text("#file-note") == "lines 1 to 3 of 3"
    assert browser.run("return document.getElementById('lines').innerText") == "1fn main() {\n2    retry_delay();\n3}"
    assert browser.run("return document.querySelector('#lines .keyword').innerText") == "fn"
    assert browser.run("return document.getElementById('earlier').hidden && document.getElementById('file-edit').hidden")
    browser.shot("page-file.png")
    browser.press(ESCAPE)
    assert not browser.run("return document.getElementById('file').open")
    assert browser.run(FOCUSED) == "2"
    browser.press("?")
    assert "next result" in browser.text("#keys")
    browser.press(ESCAPE, "/")
    assert browser.run(FOCUSED) == "pattern"

    # A long file is shown in part, and the rest on request.
    (ROOT / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    browser.type("#pattern", "line 500")
    browser.noted("1 line in 1 file")
    browser.click("#results .number")
    wait = "return document.getElementById('file-note').innerText === arguments[0]"
    browser.wait("the part", wait, "lines 300 to 700 of 1000")
    browser.click("#later")
    browser.wait("the next part", wait, "lines 501 to 901 of 1000")
    (ROOT / "long.txt").unlink()
    browser.click("#later")
    browser.wait("a message", "return document.getElementById('file-note').innerText.includes('does not exist')")
    browser.click("#file .close")
    print("files open")


def colour(browser):
    """Opens files, and reads the colours of their numbers and keywords."""
    text = "self.0.2.path + end + 1.5; if 0..3\n"
    for name, expected in [("c.rs", "self 1.5 if 0 3"), ("c.lua", "end 1.5 if 0 3"), ("c.toml", "1.5 0 3")]:
        (ROOT / name).write_text(text)
        browser.type("#path", name)
        browser.type("#pattern", "path")
        browser.wait("the line", "return document.querySelector('#results h3')?.innerText === arguments[0]", name)
        spans = browser.run("return [...document.querySelectorAll('#results .keyword, #results .digits')].map(e => e.innerText).join(' ')")
        assert spans == expected, (name, spans)
        (ROOT / name).unlink()
    browser.type("#path", " ")
    print("code has the colours of its language")


def use_history(browser):
    """Asks several questions, and goes back, forward and again to them."""
    browser.type("#pattern", "retry_delay")
    browser.noted("2 lines in 2 files")
    browser.press(ENTER)
    browser.type("#path", "src/use.rs")
    browser.noted("1 line in 1 file")
    browser.press(ENTER)
    browser.choose("type", "*.rs")
    assert browser.run("return document.getElementById('glob').value") == "*.rs"
    names = browser.run("return [...new URLSearchParams(location.search).keys()]")
    assert names == ["token", "pattern", "path", "glob"], names
    browser.call("POST", "/refresh", {})
    browser.noted("1 line in 1 file")
    fields = "return ['pattern', 'path', 'glob'].map(id => document.getElementById(id).value)"
    assert browser.run(fields) == ["retry_delay", "src/use.rs", "*.rs"]
    browser.call("POST", "/back", {})
    browser.wait("the path without the type", fields.replace("return", "return JSON.stringify(") + ") === '[\"retry_delay\",\"src/use.rs\",\"\"]'")
    browser.call("POST", "/back", {})
    browser.noted("2 lines in 2 files")
    assert browser.run(fields) == ["retry_delay", "", ""]
    browser.call("POST", "/forward", {})
    browser.noted("1 line in 1 file")
    browser.type("#path", " ")
    print("the address has the question")


def show_hidden(browser):
    """Searches text and names with characters that hide or reorder text."""
    (ROOT / "r\u202eb.txt").write_text("needle43 \u202e evil \u200b\u2066 end\x1b[31m\n")
    browser.type("#pattern", "needle43")
    browser.wait("the line", "return document.getElementById('results').innerText.includes('needle43')")
    shown = browser.text("#results .file")
    assert shown == "r⟨U+202E⟩b.txt\n1needle43 ⟨U+202E⟩ evil ⟨U+200B⟩⟨U+2066⟩ end⟨U+001B⟩[31m", shown
    browser.click("#results .open")
    browser.wait("the file", "return document.querySelector('#file[open] [aria-current]')")
    assert browser.text("#file-name") == "r⟨U+202E⟩b.txt"
    assert not re.search("[\u202e\u200b\u2066\x1b]", browser.run("return document.body.innerText"))
    browser.press(ESCAPE)
    (ROOT / "r\u202eb.txt").unlink()
    print("hidden characters are shown")


def use_editor(browser):
    """Sets an editor. Its address is kept by the browser, and is never a script."""
    links = "return [...document.querySelectorAll('.edit')].map(a => a.getAttribute('href')).join(' ')"
    wait = links.replace("return", "return (") + ") === arguments[0]"
    browser.type("#pattern", "retry_delay")
    browser.noted("2 lines in 2 files")
    browser.type("#editor", "vscode://file{path}:{line}")
    browser.press(TAB)
    expected = f"vscode://file{ROOT}/src/delay.rs:1 vscode://file{ROOT}/src/use.rs:2"
    browser.wait("the links", wait, expected)
    browser.call("POST", "/refresh", {})
    browser.wait("the links again", wait, expected)
    assert "vscode" not in browser.run("return location.href")
    browser.type("#editor", "javascript:alert('{path}')")
    browser.press(TAB)
    browser.wait("no links", wait, "")
    assert browser.run("return document.getElementById('editor').ariaInvalid") == "true"
    print("editors open files")


def use(browser):
    browser.call("POST", "/url", {"url": URL})
    browser.wait("the state", "return document.getElementById('state').className === 'good'")
    assert str(ROOT) in browser.text("h1"), browser.text("h1")

    # Results appear during typing, and matches are marked.
    browser.type("#pattern", "retry_delay")
    browser.noted("2 lines in 2 files")
    rows = browser.run("return [...document.querySelectorAll('.file')].map(f => f.innerText)")
    assert [row.split("\n")[0] for row in rows] == ["src/delay.rs", "src/use.rs"], rows
    marks = browser.run("return [...document.querySelectorAll('mark')].map(m => m.innerText)")
    assert marks == ["retry_delay", "retry_delay"], marks
    browser.shot("page-results.png")
    print("results as one types")

    open_files(browser)
    colour(browser)
    use_history(browser)
    show_hidden(browser)
    use_editor(browser)

    # The next search finds an edit.
    (ROOT / "src" / "late.rs").write_text("// retry_delay, too\n")
    browser.type("#pattern", "retry_delay")
    browser.noted("3 lines in 3 files")
    print("edits are seen")

    # Matches are marked correctly if the shown text has other bytes than the file.
    (ROOT / "src" / "odd.rs").write_bytes(b"\xef\xbb\xbf// an odd_line\n\xff\xfe\xff odd_line\n\xef\xbb\xbf \xc3\xbc odd_line\n\xff\xff\xff\xff odd_lines odd_line\n")
    browser.click("#word")
    browser.type("#pattern", "odd_line")
    browser.noted("4 lines in 1 file")
    marks = browser.run("return [...document.querySelectorAll('mark')].map(m => [m.innerText, m.nextSibling?.textContent ?? ''])")
    assert marks == [["odd_line", ""]] * 4, marks
    browser.click("#word")
    print("odd lines are marked")

    # A truncated result is reported as truncated.
    browser.type("#pattern", "one of many")
    said = browser.noted("more exist")
    assert said.startswith("200 lines in 200 files"), said
    assert browser.run("return document.getElementById('note').className") == "warn"
    print("a cut answer says so")

    # File content is shown as text and never becomes part of the page.
    (ROOT / "page.txt").write_text("<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> needle42 \u001b[31m\n")
    browser.type("#pattern", "needle42")
    browser.noted("1 line in 1 file")
    assert browser.run("return document.querySelectorAll('#results img, #results script').length") == 0
    assert "taken" not in browser.run("return document.title")
    print("what files hold is text")

    # An invalid pattern is reported. Changing the form clears the error.
    browser.type("#pattern", "(")
    browser.wait("a complaint", "return document.getElementById('note').className === 'bad'")
    said = browser.text("#note")
    assert said.startswith("invalid regular expression") and said.endswith('"text" searches for it as it is'), said
    browser.click("#text")
    browser.wait("an answer", "return document.getElementById('note').className !== 'bad'")
    browser.click("#text")
    print("what is wrong is said")

    browser.type("#glob", "*.rs, !late.rs")
    browser.type("#pattern", "retry_delay")
    browser.noted("2 lines in 2 files")
    print("globs count")

    # A path that does not exist is reported.
    browser.type("#path", "nowhere")
    said = browser.noted("does not exist")
    assert said.startswith("path `nowhere` can't be searched"), said
    browser.type("#path", " ")
    browser.type("#glob", " ")
    browser.noted("3 lines in 3 files")
    print("a path that is missing is reported")

    points = browser.run("return document.querySelector('#plot polyline').getAttribute('points').split(' ').length")
    assert points >= 5, points
    assert "half within" in browser.text("#latency-text")
    facts = browser.text("#index")
    for term in ["state", "size", "compared", "running, waiting"]:
        assert term in facts, facts
    browser.click("#check")
    browser.wait("the checks", "return document.querySelectorAll('#health li.ok').length > 5")
    print("latencies, the index and its health are shown")

    # The ranked mode answers a question in words, and the address keeps the mode.
    browser.choose("mode", "ranked")
    assert "mode=ranked" in browser.run("return location.href")
    assert "token=" in browser.run("return location.href")
    assert not browser.run("return document.getElementById('word').checkVisibility()")
    shown = "const f = document.querySelector('.file'); return f?.querySelector('.why')?.innerText.includes(arguments[0]) && [f.querySelector('h3').firstChild.textContent, f.querySelector('.why').innerText]"
    first = browser.wait("the definition", shown, "defined here")
    assert first == ["src/delay.rs:1", "100 % · defined here"], first
    browser.type("#pattern", "delay of a retry")
    first = browser.wait("a place by its meaning", shown, "meaning")
    assert first[0] == "src/delay.rs:1" and first[1].startswith("100 % · "), first
    browser.shot("page-ranked.png")
    browser.type("#places", "1")
    said = browser.noted("the best places are shown")
    assert said.endswith('or raise "at most"') and "max_results" not in said, said
    browser.type("#places", "10")
    browser.call("POST", "/refresh", {})
    browser.wait("the mode", "return document.getElementById('mode').value === 'ranked'")
    browser.type("#pattern", "page needle42")
    browser.wait("the page", "return document.querySelector('.file h3')?.firstChild.textContent === 'page.txt:1'")
    assert browser.run("return document.querySelectorAll('#results img, #results script').length") == 0
    browser.choose("mode", "exact")
    assert "mode" not in browser.run("return location.search")
    browser.type("#pattern", "retry_delay")
    browser.noted("3 lines in 3 files")
    print("ranked questions are answered")

    browser.set_colors("dark")
    browser.shot("page-dark.png")
    browser.call("POST", "/window/rect", {"width": 500, "height": 900})
    wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{wide} columns beyond a narrow screen"
    browser.shot("page-narrow.png")

    # The page requested nothing from other servers, and nothing that its policy forbids.
    origin = URL.split("/?")[0]
    asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    assert asked and all(name.startswith(origin) for name in asked), asked
    complaints = [entry["message"] for entry in browser.call("POST", "/se/log", {"type": "browser"})]
    # The server answers an invalid pattern with status 400, and a path that does not exist with 422. Browsers log both.
    complaints = [one for one in complaints if not re.search("status of (400|422)", one)]
    assert complaints == [], complaints
    print("nothing from elsewhere, no complaints")

    # Without the token, the server sends no page.
    browser.call("POST", "/url", {"url": origin + "/"})
    assert "token" in browser.text("body"), browser.text("body")
    browser.call("POST", "/url", {"url": origin + "/nowhere"})
    assert browser.text("body") == "There is no such page. Go to the search."
    print("all is as it should be")


def main():
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(DRIVER, profile, SHOTS, (1300, 900))
        try:
            use(browser)
        finally:
            browser.end()


if __name__ == "__main__":
    main()
