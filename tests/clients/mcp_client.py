#!/usr/bin/env python3
"""Tests the MCP server with the official Python client of the Model Context Protocol.

    mcp_client.py PROGRAM TREE OTHER

TREE has src/delay.rs, which defines retry_delay, and src/use.rs, which calls it. It also has
slow.txt: a search for SLOW in that file takes long and finds nothing. OTHER is a directory outside
of TREE. The server inherits the environment. Prints a line for each part that passes. Ends with a
traceback at the first failure.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client, types

PROGRAM, TREE, OTHER = sys.argv[1:4]
SLOW = "(?:[ab]{150}a){4}[cd]"
ENVIRONMENT = dict(os.environ)


def server(*more, cwd=TREE):
    return StdioServerParameters(command=PROGRAM, args=["mcp", "--structured", *more], env=ENVIRONMENT, cwd=cwd)


def plain_server(*more):
    """Returns a server with default options: its results are text only."""
    return StdioServerParameters(command=PROGRAM, args=["mcp", *more], env=ENVIRONMENT, cwd=TREE)


def root(path):
    return types.Root(uri=Path(path).as_uri())


def asker(*paths):
    async def answer(_context):
        return types.ListRootsResult(roots=[root(path) for path in paths])

    return answer


def call_by_command_line(tool, request):
    """Returns the command line's result for the same request, without a daemon."""
    told = subprocess.run(
        [PROGRAM, "call", "--tool", tool, "--root", TREE, json.dumps(request)],
        capture_output=True, env=ENVIRONMENT, check=False,
    )
    return json.loads(told.stdout)


def text(result):
    assert len(result.content) == 1, result
    return result.content[0].text


async def read(session, name):
    contents = (await session.read_resource("forge-search://" + name)).contents
    assert len(contents) == 1 and contents[0].mime_type == "application/json", contents
    return json.loads(contents[0].text)


async def tools(session):
    listed = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert sorted(listed) == ["Search", "find_code", "find_files", "search_files"], listed
    for tool in listed.values():
        hints = tool.annotations
        assert hints.read_only_hint and hints.open_world_hint is False, hints
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert "content" not in tool.output_schema["properties"]
    print("tools are listed, and only read")


async def answers(session):
    """Compares results with those of the command line.

    The client checks each result against the tool's schema.
    """
    requests = [
        ("Search", {"pattern": "retry_delay"}),
        ("Search", {"pattern": "RETRY", "case": "insensitive", "context": 1, "path": "src"}),
        ("Search", {"pattern": "retry_delay", "max_results": 1}),
        ("Search", {"pattern": "absent from all of it"}),
        ("rg", {"pattern": "retry", "include_glob": ["*.rs"]}),
        ("Search", {"pattern": "retry_dleay", "fuzzy": 2}),
    ]
    for tool, request in requests:
        told = await session.call_tool(tool, request)
        expected = call_by_command_line(tool, request)
        lines = expected.pop("content")
        assert not told.is_error and told.structured_content == expected, (told, expected)
        if expected["matches"]:
            assert text(told) == lines, (told, lines)
        else:
            assert text(told) == "[no line matches]\n", told
        assert expected["truncated"] == ("max_results" in request), expected
    request = {"path": "src", "query": "retry_delay", "context_lines": 1}
    told = await session.call_tool("search_files", request)
    expected = call_by_command_line("search_files", request)
    for answer in (told.structured_content, expected):
        answer["stats"].pop("elapsed_ms")
    assert told.structured_content == expected, (told, expected)
    assert text(told).startswith("delay.rs:1:8:pub fn retry_delay"), told
    for tool, request, first in [
        ("find_files", {"name": "delay"}, "src/delay.rs"),
        ("find_code", {"question": "retry_delay"}, "src/delay.rs (defined here)"),
    ]:
        told = await session.call_tool(tool, request)
        expected = call_by_command_line(tool, request)
        assert not told.is_error and told.structured_content == expected, (told, expected)
        assert text(told).splitlines()[0] == first, told
    print("answers are those of the command line")


async def failures(session):
    for tool, request, code, said in [
        ("Search", {}, "bad_args", "pattern"),
        ("Search", {"patern": "x"}, "bad_args", "did you mean `pattern`"),
        ("Search", {"pattern": "("}, "bad_args", "unclosed"),
        ("Search", {"pattern": "x", "max_results": "many"}, "bad_args", "max_results"),
        ("Search", {"pattern": "x", "path": "../x"}, "path_outside_sandbox", ".."),
        ("Search", {"pattern": "x", "path": OTHER}, "path_outside_sandbox", "outside the allowed roots"),
        ("search_files", {"path": "src"}, "bad_args", "query"),
        ("find_code", {"question": " "}, "bad_args", "question"),
        ("Replace", {}, "unknown_tool", "Replace"),
    ]:
        told = await session.call_tool(tool, request)
        assert told.is_error, told
        assert text(told).startswith(code + ": ") and said in text(told), told
        # The fields of an error would violate the output schema.
        assert told.structured_content is None, told
    try:
        await session.read_resource("forge-search://nothing")
    except MCPError as error:
        assert "no such resource" in str(error), error
    else:
        raise AssertionError("a resource that is none was read")
    print("failures have their codes")


async def resources(session):
    listed = [str(one.uri) for one in (await session.list_resources()).resources]
    assert listed == ["forge-search://" + name for name in ("status", "health", "explain/last")], listed
    status = await read(session, "status")
    assert status["canonical_root"] == TREE and status["daemon"]["running"], status
    health = await read(session, "health")
    assert {check["severity"] for check in health["checks"]} <= {"ok", "warn"}, health
    await session.call_tool("Search", {"pattern": "retry_[d]elay"})
    explained = await read(session, "explain/last")
    assert explained["pattern"] == "retry_[d]elay" and explained["files"]["confirmed"] == 2, explained
    print("resources say how it is")


async def edits(session):
    """A call finds content that was written before it."""
    for n in range(20):
        (Path(TREE) / "edited.txt").write_text(f"needle {n}x\n")
        told = await session.call_tool("Search", {"pattern": f"needle {n}x"})
        assert told.structured_content["count"] == 1, (n, told)
    print("edits are seen")


async def cancelled(session):
    """The server stops the search of a cancelled call, and answers the next call."""
    async with anyio.create_task_group() as group:
        async def slow():
            await session.call_tool("Search", {"pattern": SLOW, "path": "slow.txt", "timeout_ms": 600_000})
            raise AssertionError("it was not slow")

        group.start_soon(slow)
        while (await read(session, "status"))["queries"]["in_flight"] == 0:
            await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    with anyio.fail_after(20):
        while (await read(session, "status"))["queries"]["in_flight"] > 0:
            await anyio.sleep(0.02)
    told = await session.call_tool("Search", {"pattern": "retry_delay"})
    assert told.structured_content["count"] == 2, told
    print("a call that is given up ends")


async def text_alone():
    """By default a result is text in the format of `rg --heading -n`.

    A truncated result uses its byte limit almost fully, and never exceeds it.
    """
    for more in ((), ("--no-daemon",)):
        async with Client(plain_server(*more)) as client:
            listed = (await client.list_tools()).tools
            assert all(tool.output_schema is None for tool in listed), listed
            tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]
            size = len(json.dumps({"tools": tools}, separators=(",", ":"), ensure_ascii=False))
            assert size < 7_000, size
            told = await client.call_tool("Search", {"pattern": "retry_delay"})
            assert told.structured_content is None and not told.is_error, told
            lines = text(told).split("\n")
            assert lines[0] == "src/delay.rs" and lines[1].startswith("1:pub fn retry_delay"), lines
            assert lines[2] == "" and lines[3] == "src/use.rs", lines
            # Both tools return the same lines.
            files = await client.call_tool("search_files", {"path": ".", "query": "retry_delay"})
            assert text(files) == text(told), (files, told)
        for most in (600, 5_000):
            async with Client(plain_server("--max-output-bytes", str(most), *more)) as client:
                told = await client.call_tool("Search", {"pattern": "a.*", "path": "many.txt", "max_results": 10_000})
                size = len(json.dumps(text(told), ensure_ascii=False).encode()) - 2
                assert most - 40 < size <= most, (most, size)
                assert "[truncated: " in text(told), told
    print("text alone is compact and fits")


async def one_daemon():
    """Two servers of one tree use the same daemon, and ggrep uses it too."""
    async with Client(server()) as one, Client(server()) as other:
        pids = set()
        for client in (one, other):
            told = await client.call_tool("Search", {"pattern": "retry_delay"})
            assert told.structured_content["count"] == 2, told
            pids.add((await read(client, "status"))["daemon"]["pid"])
        ggrep = subprocess.run(
            [str(Path(PROGRAM).with_name("ggrep")), "status", "--json", "--root", TREE],
            capture_output=True, env=ENVIRONMENT, check=True,
        )
        pids.add(json.loads(ggrep.stdout)["daemon"]["pid"])
        assert len(pids) == 1 and None not in pids, pids
    print("two servers share a daemon")


async def budget():
    """A result stays within its byte limit, however many matches there are."""
    for most in (2_000, 20_000):
        async with Client(server("--max-output-bytes", str(most))) as client:
            for tool, request in [
                ("Search", {"pattern": "a.*", "path": "many.txt", "max_results": 10_000}),
                ("search_files", {"path": ".", "query": "a", "max_results": 200, "context_lines": 5}),
            ]:
                told = await client.call_tool(tool, request)
                size = len(text(told).encode()) + len(json.dumps(told.structured_content, ensure_ascii=False).encode())
                fields = told.structured_content
                assert not told.is_error and fields["truncated"] and fields["matches"], told
                # The tolerance allows for Python's spaces after each colon and comma.
                assert most / 3 < size < most * 1.4, (tool, most, size)
                assert "[truncated: " in text(told), told
    print("answers stay within their bytes")


async def roots():
    """A client's roots narrow the searched tree, and never extend it."""
    async def paths(client, request=None):
        told = await client.call_tool("Search", request or {"pattern": "retry_delay|needle"})
        if told.is_error:
            return text(told).split(":")[0]
        return sorted({one["data"]["path"]["text"] for one in told.structured_content["matches"]})

    # The latest revision of the protocol, in which the server first answers a call with a question,
    # and the previous revision.
    for mode in ("auto", "legacy"):
        for named, expected in [
            ([TREE], ["edited.txt", "src/delay.rs", "src/use.rs"]),
            ([str(Path(TREE).parent)], ["edited.txt", "src/delay.rs", "src/use.rs"]),
            ([TREE + "/src"], ["delay.rs", "use.rs"]),
            ([TREE + "/src", TREE + "/docs"], ["delay.rs", "use.rs"]),
            ([OTHER], "path_outside_sandbox"),
            ([OTHER, TREE + "/docs"], []),
            ([], ["edited.txt", "src/delay.rs", "src/use.rs"]),
        ]:
            async with Client(server(), mode=mode, list_roots_callback=asker(*named)) as client:
                found = await paths(client)
                assert found == expected, (mode, named, found)
        # An excluded path stays excluded when a request names it.
        async with Client(server(), mode=mode, list_roots_callback=asker(TREE + "/src")) as client:
            for path in (TREE, TREE + "/edited.txt", "../edited.txt", "link"):
                found = await paths(client, {"pattern": "needle", "path": path})
                assert found in ("path_outside_sandbox", "execution_failed"), (mode, path, found)
    print("roots narrow what is searched")


async def changed_roots():
    named = [TREE + "/src"]

    async def answer(_context):
        return types.ListRootsResult(roots=[root(path) for path in named])

    async with stdio_client(server()) as (reader, writer):
        async with ClientSession(reader, writer, list_roots_callback=answer) as session:
            await session.initialize()

            async def count():
                told = await session.call_tool("Search", {"pattern": "retry_delay"})
                return told.structured_content["count"]

            assert await count() == 2
            named[0] = TREE + "/docs"
            # The server keeps the roots until the client reports a change.
            assert await count() == 2
            await session.send_roots_list_changed()
            with anyio.fail_after(20):
                while await count() != 0:
                    await anyio.sleep(0.02)
    print("roots that change are asked for again")


async def whole_session(*more):
    async with stdio_client(server(*more)) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            about = await session.initialize()
            assert about.server_info.name == "forge-search", about
            assert "timed out" in about.instructions, about
            await tools(session)
            await answers(session)
            await failures(session)
            await resources(session)
            await edits(session)
            if "--no-daemon" not in more:
                # Without a daemon, the status does not count running calls.
                await cancelled(session)


async def main():
    await whole_session()
    await text_alone()
    await one_daemon()
    await budget()
    await roots()
    await changed_roots()
    await whole_session("--no-daemon")
    async with Client(server()) as client:
        print("spoken at last:", client.protocol_version)


anyio.run(main)
