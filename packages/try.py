#!/usr/bin/env python3
"""Tries packages of forge-search: installs each into an empty place, and searches a real tree.

    try.py wheel FILE TREE            in a new virtual environment, with Python alone
    try.py npm DIRECTORY TREE         the packages of a directory, with Node.js alone
    try.py deb FILE TREE              unpacked, without installing it
    try.py archive FILE TREE          with the checksum beside it
    try.py metadata DIRECTORY         the descriptions for registries; writes them to DIRECTORY

Each package starts the server `forge-search mcp` from an empty home directory, and wants an answer to
initialize, tools/list and one search. Prints the seconds from the package to the first answer.
"""

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path

# The seconds that a command, or all answers of a server, may take.
LIMIT = 300

TOOLS = {"Search", "search_files", "find_files", "find_code"}


def run(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, **more)
    if done.returncode != 0:
        sys.exit(f"{command} failed ({done.returncode}):\n{done.stdout}")
    return done.stdout


def ask_server(command, tree, environment):
    """Starts a server, lists its tools, and searches."""
    requests = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "try", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "Search", "arguments": {"pattern": "fn main\\(", "max_results": 5}}},
    ]
    server = subprocess.Popen([*command, "mcp"], cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # A killed server ends the wait for its answer.
    limit = threading.Timer(LIMIT, server.kill)
    limit.start()
    try:
        answers = {}
        for request in requests:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
            server.stdin.flush()
            while "id" in request and request["id"] not in answers:
                line = server.stdout.readline()
                if not line:
                    sys.exit(f"{command} mcp gave no answer within {LIMIT} s, or ended: {request}")
                answer = json.loads(line)
                answers[answer.get("id")] = answer
        server.stdin.close()
        if server.wait(timeout=60) != 0:
            sys.exit(f"{command} mcp ended with {server.returncode}")
        tools = {tool["name"] for tool in answers[2]["result"]["tools"]}
        assert tools == TOOLS, tools
        found = answers[3]["result"]["content"][0]["text"]
        assert "fn main(" in found, found
    finally:
        limit.cancel()
        server.kill()
        server.wait()
        # The server has started the daemon of the tree.
        run([*command, "stop"], cwd=tree, env=environment)


def with_wheel(file, work, environment):
    run([sys.executable, "-m", "venv", work / "venv"])
    run([work / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-index", file], env=environment)
    return [work / "venv/bin/forge-search"]


def with_npm(directory, work, environment):
    node = Path(shutil.which("node")).resolve().parent
    npm = shutil.which("npm")
    environment["PATH"] = f"{node}:/usr/bin:/bin"
    # Offline: the packages of other platforms are optional, and nothing else is needed.
    files = sorted(Path(directory).glob("*.tgz"))
    run([npm, "install", "--silent", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", work / "prefix", *files], env=environment)
    return [work / "prefix/node_modules/.bin/forge-search"]


def with_deb(file, work, _environment):
    run(["dpkg-deb", "-x", file, work / "root"])
    listed = run(["dpkg-deb", "-c", file])
    for name in ["usr/bin/ggrep", "man1/forge-search.1.gz", "man1/ggrep.1.gz", "completions/forge-search", "_forge-search", "forge-search.fish", "user/forge-search@.service", "copyright"]:
        assert name in listed, (name, listed)
    assert "libc6 (>= 2." in run(["dpkg-deb", "-I", file])
    return [work / "root/usr/bin/forge-search"]


def with_archive(file, work, _environment):
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    assert Path(f"{file}.sha256").read_text() == f"{digest}  {Path(file).name}\n"
    run(["tar", "-xzf", file, "-C", work])
    return [next(work.glob("forge-search-*/forge-search"))]


def check_metadata(directory):
    """Checks the descriptions that registries read, by the rules that their schemas have."""
    root = Path(__file__).resolve().parent.parent
    version = tomllib.loads((root / "Cargo.toml").read_text())["package"]["version"]

    def made(*words):
        return run([sys.executable, root / "packages/build.py", *words])

    # https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json
    server = json.loads(made("server-json", "--repository", "example/forge-search"))
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"]), server
    assert 1 <= len(server["description"]) <= 100 and server["version"] == version, server
    assert set(server["repository"]) == {"url", "source"}, server
    for package in server["packages"]:
        assert {"registryType", "identifier", "version", "transport"} <= set(package), package
        assert package["version"] == version and package["transport"] == {"type": "stdio"}, package
        assert all(each["type"] == "positional" and each["value"] for each in package["packageArguments"])

    # The rules of `claude plugin validate`.
    packages = root / "packages"
    market = json.loads((packages / ".claude-plugin/marketplace.json").read_text())
    assert re.fullmatch("[a-z][a-z0-9-]*", market["name"]) and market["owner"]["name"], market
    for listed in market["plugins"]:
        plugin = json.loads((packages / listed["source"] / ".claude-plugin/plugin.json").read_text())
        assert plugin["name"] == listed["name"] and re.fullmatch("[a-z][a-z0-9-]*", plugin["name"]), plugin
        assert plugin["version"] == version, f"plugin.json has version {plugin['version']}, Cargo.toml {version}"
        for server in plugin["mcpServers"].values():
            assert isinstance(server["command"], str) and server["args"] == ["mcp"], server

    # CycloneDX 1.5.
    bill = json.loads(made("sbom"))
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    references = {each["bom-ref"] for each in [*bill["components"], bill["metadata"]["component"]]}
    assert len(references) == len(bill["components"]) + 1 > 100
    for each in bill["components"]:
        assert each["type"] == "library" and each["name"] and each["version"] and each["licenses"], each
        assert re.fullmatch("[0-9a-f]{64}", each["hashes"][0]["content"]), each
    for each in bill["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= references, each

    targets = [f"{cpu}-{system}" for cpu in ("x86_64", "aarch64") for system in ("apple-darwin", "unknown-linux-musl")]
    for target in targets:
        (directory / f"forge-search-{target}.tar.gz.sha256").write_text(f"{'0' * 64}  x\n")
    formula = made("formula", "--archives", directory, "--repository", "example/forge-search")
    assert all(target in formula for target in targets) and formula.count("sha256") == 4, formula
    print(f"metadata: server.json, plugin, formula, and {len(bill['components'])} crates in the bill of materials")


def main():
    # So that `finally` stops servers and daemons.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if sys.argv[1] == "metadata":
        return check_metadata(Path(sys.argv[2]))
    kind, file, tree = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        (work / "home").mkdir()
        environment = {"HOME": str(work / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": str(work)}
        begin = time.monotonic()
        ways = {"wheel": with_wheel, "npm": with_npm, "deb": with_deb, "archive": with_archive}
        command = ways[kind](Path(file).resolve(), work, environment)
        version = run([*command, "--version"], env=environment).strip()
        ask_server(command, tree, environment)
        print(f"{kind}: {version} answered after {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
