#!/usr/bin/env python3
"""Computes the golden values of the tokenizer and the Bloom filter, independently of the crate.

Implements the specification from scratch: decoding, normalization, line ends, folding, n-grams,
xxHash64 and the layout of the bits. Needs only Python's standard library.

    python3 tests/golden/tokens.py > tests/golden/tokens.json
"""

import json
import math
import unicodedata

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def rotl(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def round_(acc, lane):
    return (rotl((acc + lane * P2) & MASK, 31) * P1) & MASK


def xxh64(data, seed):
    n = len(data)
    at = 0
    if n >= 32:
        acc = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed & MASK, (seed - P1) & MASK]
        while n - at >= 32:
            for i in range(4):
                lane = int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little")
                acc[i] = round_(acc[i], lane)
            at += 32
        h = (rotl(acc[0], 1) + rotl(acc[1], 7) + rotl(acc[2], 12) + rotl(acc[3], 18)) & MASK
        for a in acc:
            h = ((h ^ round_(0, a)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + n) & MASK
    while n - at >= 8:
        h ^= round_(0, int.from_bytes(data[at : at + 8], "little"))
        h = (rotl(h, 27) * P1 + P4) & MASK
        at += 8
    if n - at >= 4:
        h ^= (int.from_bytes(data[at : at + 4], "little") * P1) & MASK
        h = (rotl(h, 23) * P2 + P3) & MASK
        at += 4
    while at < n:
        h ^= (data[at] * P5) & MASK
        h = (rotl(h, 11) * P1) & MASK
        at += 1
    h ^= h >> 33
    h = (h * P2) & MASK
    h ^= h >> 29
    h = (h * P3) & MASK
    return h ^ (h >> 32)


# The non-ASCII lines of CaseFolding.txt (status C and S) that the samples below need.
SIMPLE = {
    "\u00d1": "\u00f1",
    "\u00c9": "\u00e9",
    "\u017f": "s",
    "\u212a": "k",
    "\u1e9e": "\u00df",
    "\u03a3": "\u03c3",
    "\u03c2": "\u03c3",
    "\u0416": "\u0436",
    "\u0130": "\u0130",
    "\U00010400": "\U00010428",
}


def fold(text, strategy):
    ascii_ = lambda c: chr(ord(c) + 32) if "A" <= c <= "Z" else c
    if strategy == "ASCII":
        return "".join(map(ascii_, text))
    return "".join(SIMPLE.get(c, ascii_(c)) for c in text)


def tokenize(data, strategy, k=3):
    text = data.decode("utf-8", errors="replace")
    if text.count("\ufffd") / max(1, len(text)) > 0.5:
        return {"status": "SKIPPED_BINARY"}
    normal = unicodedata.normalize("NFC", text).replace("\r\n", "\n")
    grams = lambda t: sorted({t[i : i + k] for i in range(len(t) - k + 1)})
    return {
        "status": "FULL",
        "sensitive": grams(normal),
        "insensitive": grams(fold(normal, strategy)),
    }


def parameters(max_tokenized_bytes, p):
    n = max_tokenized_bytes // 2
    m = math.ceil(-n * math.log(p) / math.log(2) ** 2)
    return n, m, max(1, math.floor((m / n) * math.log(2) + 0.5))


SEED = 0x9E3779B97F4A7C15


def bits(gram, m, k_hashes):
    data = gram.encode("utf-8")
    h1, h2 = xxh64(data, 0), xxh64(data, SEED)
    return [((h1 + i * h2) & MASK) % m for i in range(k_hashes)]


def bitset(grams, m, k_hashes):
    out = bytearray((m + 7) // 8)
    for gram in grams:
        for bit in bits(gram, m, k_hashes):
            out[bit // 8] |= 1 << (bit % 8)
    return bytes(out)


SAMPLES = [
    ("empty", b""),
    ("shorter than an n-gram", b"ab"),
    ("exactly one n-gram", b"abc"),
    ("plain", b"fn main() {\n    greet(\"World\");\n}\n"),
    ("repeats", b"aaaaaaaaaa"),
    ("lf", b"one\ntwo\nthree\n"),
    ("crlf", b"one\r\ntwo\r\nthree\r\n"),
    ("lone carriage returns", b"one\rtwo\r\r\nthree\r"),
    ("carriage return at the end", b"abc\r"),
    ("upper", b"ABC def GHI"),
    ("lower", b"abc def ghi"),
    ("composed", "caf\u00e9 \u00d1and\u00fa".encode()),
    ("decomposed", "cafe\u0301 N\u0303andu\u0301".encode()),
    ("hostile to normalization", "aak\u0323 h\u0331".encode()),
    ("hangul jamo", "\u1112\u1161\u11ab\uac01\u11a8".encode()),
    ("cyrillic and greek", "\u0416\u0436 \u03a3\u03c3\u03c2 end".encode()),
    ("folds to ascii", "\u212aelvin ma\u017fs \u1e9e\u00df".encode()),
    ("beyond the basic plane", "\U00010400\U00010428 \U0001f600 ok".encode()),
    ("invalid bytes", b"abc\xff\xfedef\xe2\x82ghi"),
    ("truncated sequence at the end", b"abcdef\xe2\x82"),
    ("mostly invalid", b"\xff\xff\xff\xffab"),
    ("exactly half invalid", b"\xff\xffab"),
    ("byte-order mark", b"\xef\xbb\xbfabc"),
    ("nul bytes", b"ab\x00cd\x00"),
    ("delete and controls", b"\x7f\x01\x1b[31m"),
]

if __name__ == "__main__":
    n, m, k_hashes = parameters(1_048_576, 0.01)
    small_m = 1021
    cases = []
    for name, data in SAMPLES:
        for strategy in ("ASCII", "UNICODE_SIMPLE"):
            tokens = tokenize(data, strategy)
            case = {"name": name, "bytes": data.hex(), "casefold": strategy, **tokens}
            if tokens["status"] == "FULL":
                for variant in ("sensitive", "insensitive"):
                    case[f"{variant}_bitset"] = bitset(tokens[variant], small_m, 3).hex()
            cases.append(case)
    hash_inputs = ["", "a", "abc", "abcd", "\u00e9\u00f1\u00fa", "\U0001f600ab", "0123456789abcdef0123456789abcdef!"]
    print(
        json.dumps(
            {
                "parameters": [
                    {"max_tokenized_bytes": b, "fp_rate": p, "n": q[0], "m": q[1], "k": q[2]}
                    for b, p in ((1_048_576, 0.01), (67_108_864, 0.01), (4096, 0.001), (1000, 0.5))
                    for q in (parameters(b, p),)
                ],
                "hashes": [
                    {
                        "text": t,
                        "first": str(xxh64(t.encode(), 0)),
                        "second": str(xxh64(t.encode(), SEED)),
                        "bits": bits(t, m, k_hashes),
                    }
                    for t in hash_inputs
                ],
                "small": {"m": small_m, "k": 3},
                "cases": cases,
            },
            indent=1,
        )
    )
