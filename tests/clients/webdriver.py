"""A browser that a program drives. Needs only the standard library: the driver speaks JSON over HTTP."""

import base64
import json
import re
import subprocess
import time
import urllib.error
import urllib.request

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]


class Browser:
    """A browser session. Screenshots go to `shots`, and `size` is that of the window in pixels."""

    def __init__(self, driver, profile, shots, size):
        self.shots = shots
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            port = re.search(r"started successfully on port (\d+)", line)
            if port:
                break
        else:
            raise SystemExit("the driver did not start")
        self.base = f"http://127.0.0.1:{port[1]}/session"
        options = {"args": [*ARGUMENTS, f"--window-size={size[0]},{size[1]}", f"--user-data-dir={profile}"]}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        value = self.call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += "/" + value["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:600]}") from None

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def element(self, selector):
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return "/element/" + next(iter(found.values()))

    def type(self, selector, text):
        element = self.element(selector)
        self.call("POST", element + "/clear", {})
        self.call("POST", element + "/value", {"text": text})

    def click(self, selector):
        self.call("POST", self.element(selector) + "/click", {})

    def choose(self, name, value):
        """Chooses an entry of a menu."""
        script = "const m = document.getElementById(arguments[0]); m.value = arguments[1]; for (const kind of ['input', 'change']) m.dispatchEvent(new Event(kind, {bubbles: true}))"
        self.run(script, name, value)

    def set_colors(self, scheme):
        """Makes the browser prefer `light` or `dark` pages."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})

    def press(self, *keys):
        """Presses keys, one after the other, where the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ["keyDown", "keyUp"]]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def wait(self, what, script, *arguments):
        """Waits until a script returns a true value, and no search is due or running. A search for the first letters of a pattern may have the same answer as one for all of it."""
        is_settled = "return document.getElementById('results')?.ariaBusy !== 'true'"
        until = time.monotonic() + 60
        while time.monotonic() < until:
            value = self.run(is_settled) and self.run(script, *arguments)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"{what} never came; the page says: {self.text('body')[:1500]}")

    def noted(self, text):
        return self.wait(text, "const n = document.getElementById('note').innerText; return n.includes(arguments[0]) && n", text)

    def shot(self, name):
        png = base64.b64decode(self.call("GET", "/screenshot"))
        assert png.startswith(b"\x89PNG"), name
        (self.shots / name).write_bytes(png)

    def end(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
