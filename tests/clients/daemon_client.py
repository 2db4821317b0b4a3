#!/usr/bin/env python3
"""A client of the query daemon that shares no code with it.

It uses only the standard library, and implements the protocol as documented.

    daemon_client.py SOCKET STORE_ID CONFIG_FINGERPRINT ROOT INDEX

ROOT is the tree of the daemon. It has a file src/delay.rs that defines retry_delay. INDEX is "on"
if the daemon has an index, otherwise "off". Prints a line for each part that passes. Exits with 1
and a reason at the first failure.
"""

import json
import re
import socket
import struct
import sys
import threading
import time

PATH, STORE, CONFIG, ROOT, INDEX = sys.argv[1:6]
HEX = re.compile(r"^[0-9a-f]{64}$")
ULID = re.compile(r"^[0-9A-HJKMNP-TV-Z]{26}$")


class Wire:
    """A connection that sends and receives frames."""

    def __init__(self, hello=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(PATH)
        if hello:
            self.welcome = self.ask(greeting())

    def send(self, message):
        self.send_payload(json.dumps(message).encode("utf-8"))

    def send_payload(self, payload):
        self.socket.sendall(struct.pack(">I", len(payload)) + payload)

    def exactly(self, count):
        parts = b""
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                return None
            parts += part
        return parts

    def receive(self):
        """Returns the next message; None at the end of the stream."""
        try:
            header = self.exactly(4)
            if header is None:
                return None
            payload = self.exactly(struct.unpack(">I", header)[0])
        except ConnectionResetError:
            return None
        return json.loads(payload.decode("utf-8"))

    def ask(self, message):
        self.send(message)
        return self.receive()

    def close(self):
        self.socket.close()


def greeting(**changes):
    hello = {
        "protocol_versions": [2],
        "store_id": STORE,
        "config_fingerprint": CONFIG,
        "client_id": "python",
        "client_capabilities": ["json", "explain"],
    }
    hello.update(changes)
    return {name: value for name, value in hello.items() if value is not None}


def expect(condition, what):
    if not condition:
        print(f"FAILED: {what}")
        sys.exit(1)


def refused(answer, code, what):
    expect(answer is not None and "error" in answer, f"{what}: {answer}")
    expect(answer["error"]["code"] == code, f"{what}: {answer}")
    expect(isinstance(answer["error"]["message"], str) and answer["error"]["message"], what)
    return answer["error"]


def handshake():
    wire = Wire()
    expect(wire.welcome["protocol_version"] == 2, "the version is 2")
    expect(wire.welcome["protocol_versions"] == [1, 2], "it speaks both")
    expect(wire.welcome["store_id"] == STORE and wire.welcome["config_fingerprint"] == CONFIG, "it is the one")
    versions = wire.welcome["supported_schema_versions"]
    expect(sorted(versions) == ["health", "query_error", "query_success", "status"], "versions of schemas")
    several = Wire(hello=False)
    expect(several.ask(greeting(protocol_versions=[3, 1, 2]))["protocol_version"] == 2, "the highest common one")
    single = Wire(hello=False)
    one = greeting(protocol_versions=None, protocol_version=2)
    expect(single.ask(one)["protocol_version"] == 2, "a single version is a list of one")
    for changes, code in [
        ({"protocol_versions": [3, 4]}, "incompatible"),
        ({"protocol_versions": None, "protocol_version": 9}, "incompatible"),
        ({"store_id": "0" * 64}, "invalid_request"),
        ({"config_fingerprint": "0" * 64}, "invalid_request"),
        ({"protocol_versions": []}, "invalid_request"),
        ({"protocol_versions": None}, "invalid_request"),
        ({"protocol_versions": ["1"]}, "invalid_request"),
        ({"client_id": 5}, "invalid_request"),
        ({"nonsense": 1}, "invalid_request"),
    ]:
        wire = Wire(hello=False)
        refused(wire.ask(greeting(**changes)), code, f"handshake with {changes}")
        expect(wire.receive() is None, f"the connection is closed after {changes}")
    wire = Wire(hello=False)
    refused(wire.ask({"type": "status"}), "invalid_request", "a request before the handshake")
    expect(wire.receive() is None, "the connection is closed")


def framing():
    wire = Wire()
    # A frame that is sent one byte at a time.
    payload = json.dumps({"type": "status"}).encode()
    for byte in struct.pack(">I", len(payload)) + payload:
        wire.socket.sendall(bytes([byte]))
    expect(wire.receive()["schema_version"] == 1, "a frame in pieces")
    # Two frames at once are answered in order.
    first = json.dumps({"type": "search", "query": "retry", "request_id": "one"}).encode()
    second = json.dumps({"type": "search", "query": "delay", "request_id": "two"}).encode()
    both = b"".join(struct.pack(">I", len(one)) + one for one in (first, second))
    wire.socket.sendall(both)
    expect([wire.receive()["request_id"] for _ in range(2)] == ["one", "two"], "answers come in order")
    # The daemon refuses an oversized frame without reading it, and closes the connection.
    wire.socket.sendall(struct.pack(">I", 64 << 20))
    refused(wire.receive(), "invalid_request", "an oversized frame")
    expect(wire.receive() is None, "the connection is closed")
    # A truncated frame.
    wire = Wire()
    wire.socket.sendall(struct.pack(">I", 100) + b"{")
    wire.socket.shutdown(socket.SHUT_WR)
    answer = wire.receive()
    expect(answer is None or answer["error"]["code"] == "invalid_request", "a frame that is cut off")
    # The daemon refuses a valid frame with an invalid message, and keeps the connection open.
    wire = Wire()
    for payload in [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe{}", b"[" * 5000, b'{"type":"search","query":"\xff"}']:
        wire.send_payload(payload)
        refused(wire.receive(), "invalid_request", f"payload {payload[:40]!r}")
    expect(wire.ask({"type": "status"})["schema_version"] == 1, "and goes on")


def search():
    wire = Wire()
    answer = wire.ask({"type": "search", "query": "retry_delay", "request_id": "mine", "explain": True})
    expect(answer["schema_version"] == 2 and answer["request_id"] == "mine", "the id is the client's")
    for name in ["store_id", "config_fingerprint", "ignore_fingerprint", "query_fingerprint", "embed_config_fingerprint"]:
        expect(HEX.match(answer[name]), f"{name} is 64 hexadecimal digits")
    if INDEX == "on":
        expect(ULID.match(answer["snapshot_id"]) and answer["degraded"] is False, "the snapshot is a ULID")
    else:
        expect(answer["snapshot_id"] is None and answer["degraded"] is True, "there is no snapshot")
    expect(answer["results"][0]["path"] == "src/delay.rs", "the definition is first")
    expect(answer["mode"] == "balanced" and answer["limits"]["max_results"] == 20, "the defaults")
    expect(sorted(answer["timings_ms"]) == ["admission", "format", "rank", "retrieve", "snapshot_read"], "stages")
    expect("dense" in json.dumps(answer["explain"]), "the explanation names dense retrieval")
    expect(ULID.match(wire.ask({"type": "search", "query": "x"})["request_id"]), "else it is a ULID")
    below = wire.ask({"type": "search", "query": "retry", "path": ROOT + "/src"})
    expect(below["results"] and all(one["path"].startswith("src/") for one in below["results"]), "a path restricts")
    limited = wire.ask({"type": "search", "query": "retry", "limit": 1, "snippet": "none"})
    expect(len(limited["results"]) == 1 and limited["results"][0]["content"] == "", "limits hold")
    for change in [
        {"path": "/"},
        {"path": ROOT + "/../"},
        {"path": "src"},
        {"limit": 0},
        {"limit": "3"},
        {"limit": 1001},
        {"mode": "other"},
        {"snippet": 1},
        {"query": ""},
        {"query": None},
        {"timeout_ms": -1},
        {"nonsense": True},
    ]:
        request = {"type": "search", "query": "retry", **change}
        refused(wire.ask(request), "invalid_request", f"search with {change}")
    same = []
    for _ in range(2):
        wire.send({"type": "search", "query": "retry", "deterministic": True})
        length = struct.unpack(">I", wire.exactly(4))[0]
        same.append(wire.exactly(length))
    expect(same[0] == same[1] and b"timings_ms" not in same[0], "deterministic answers are equal")
    expect(re.search(rb'"score":\d+\.\d{4}[,}]', same[0]), "scores have four decimals")


def tools():
    wire = Wire()
    answer = wire.ask({"type": "tool", "tool": "Search", "request": {"pattern": "retry_delay"}})
    expect(answer["count"] >= 1 and answer["truncated"] is False, "the tool answers as it does")
    answer = wire.ask({"type": "tool", "tool": "search_files", "request": {"path": ".", "query": "retry_delay"}})
    expect(answer["returned"] >= 1, "and so does the other one")
    refused(wire.ask({"type": "tool", "tool": "none", "request": {}}), "unknown_tool", "a tool that is not there")
    answer = wire.ask({"type": "tool", "tool": "Search", "request": {"pattern": "("}})
    expect("error" in answer, "what is wrong with a request is said by the tool")


def state():
    wire = Wire()
    status = wire.ask({"type": "status"})
    expect(status["store_id"] == STORE and status["canonical_root"] == ROOT, "the status is that of the store")
    expect(status["daemon"]["running"] is True and status["queries"]["in_flight"] == 0, "it runs")
    health = wire.ask({"type": "health"})
    expect(health["ok"] is True and len(health["checks"]) > 10, f"it is well: {health}")
    expect("forge_search_queries_total" in wire.ask({"type": "metrics"})["text"], "it counts")
    answer = wire.ask({"type": "cancel", "request_id": "nothing"})
    expect(answer["done"] is False, "there is nothing to cancel")
    refused(wire.ask({"type": "cancel"}), "invalid_request", "a cancellation of nothing")
    refused(wire.ask({"type": "status", "x": 1}), "invalid_request", "a status with more")


def together():
    failures = []

    def client(number):
        try:
            wire = Wire()
            for turn in range(10):
                answer = wire.ask({"type": "search", "query": "retry_delay", "request_id": f"{number}-{turn}"})
                code = answer.get("error", {}).get("code")
                if code == "busy":
                    time.sleep(answer["error"]["retry_after_ms"] / 1000)
                elif answer["request_id"] != f"{number}-{turn}" or not answer["results"]:
                    failures.append(answer)
        except Exception as error:  # Reports every error, of any type.
            failures.append(repr(error))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not failures, f"{failures[:3]}")


for part in [handshake, framing, search, tools, state, together]:
    part()
    print(f"{part.__name__} holds")
