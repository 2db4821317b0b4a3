#!/usr/bin/env python3
"""Makes the word table of the ranked search, src/exec/rank/words.bin, from published packages.

    train.py fetch WORK    download the packages of sources.tsv into WORK, and unpack them
    train.py pairs WORK    write the pairs of words of all packages to WORK/pairs.bin
    train.py train WORK    learn from the pairs, and write WORK/words.bin
    train.py near WORK WORD...    print the words that are nearest to each word

Needs numpy and scipy, cargo with this checkout, and for `fetch` pip, npm, apt-get and curl. README.md beside this file says what the
table is for, how good it is, and what it can't do. The same packages give the same bytes on one machine; another version of numpy may round otherwise.
"""

import csv
import glob
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

import numpy as np
import scipy.sparse as sparse

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))

KINDS = ("pypi", "npm", "deb", "crate")  # of packages
WORDS = 20_000  # of the table
DIMENSIONS = 128  # of a vector
EPOCHS = 4  # looks at each pair
BATCH = 1_024  # pairs that are told apart at once
TEMPERATURE = 0.05  # of the likenesses of a batch
RATE = 0.01  # of learning, at the beginning
SHARED = 0.3  # of the words that both sides of a pair have, which are left out: they need no learning


def sources():
    with open(os.path.join(HERE, "sources.tsv"), newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def fetch(work):
    """Downloads the packages by name, checks their hashes and unpacks them."""
    for kind in (*KINDS, "src"):
        os.makedirs(os.path.join(work, kind), exist_ok=True)
    for row in sources():
        kind, name, version = row["kind"], row["name"], row["version"]
        directory = os.path.join(work, kind)
        crate = f"{name}-{version}.crate"
        command = {
            "pypi": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", f"{name}=={version}"],
            "npm": ["npm", "pack", "--silent", f"{name}@{version}"],
            "deb": ["apt-get", "download", "-q", f"{name}={version}"],
            # Cargo takes no two versions of a crate that are compatible, and the sources have some.
            "crate": ["curl", "-sSfL", "--retry", "3", "-o", crate, f"https://static.crates.io/crates/{name}/{crate}"],
        }[kind]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    hashes = {row["sha256"]: row for row in sources()}
    found = set()
    paths = [path for kind in KINDS for path in sorted(glob.glob(os.path.join(work, kind, "*")))]
    for path in paths:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        row = hashes.get(digest)
        if row is None:
            sys.exit(f"{path} is not a file of sources.tsv")
        found.add(digest)
        name = f"{row['name']}-{row['version']}" if row["kind"] == "crate" else row["name"].replace("/", "-").lstrip("@")
        into = os.path.join(work, "src", f"{row['kind']}-{name}")
        if path.endswith(".deb"):
            subprocess.run(["dpkg-deb", "-x", path, into], check=True)
        elif path.endswith(".whl"):
            shutil.unpack_archive(path, into, "zip")
        else:
            with tarfile.open(path) as archive:
                archive.extractall(into, filter="data")
    missing = [row["name"] for digest, row in hashes.items() if digest not in found]
    if missing:
        sys.exit(f"not downloaded: {missing}")
    shutil.copytree(os.path.dirname(os.__file__), os.path.join(work, "src", "python-std"), ignore=shutil.ignore_patterns("site-packages", "test"), dirs_exist_ok=True)
    rust = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    shutil.copytree(os.path.join(rust, "lib/rustlib/src/rust/library"), os.path.join(work, "src", "rust-std"), dirs_exist_ok=True)


def write_pairs(work):
    directories = sorted(glob.glob(os.path.join(work, "src", "*")))
    command = ["cargo", "run", "-q", "--release", "--locked", "--example", "ranking_pairs", "--"]
    paths = [os.path.join(work, name) for name in ("pairs.bin", "words.tsv")]
    subprocess.run(command + paths + directories, cwd=TOP, check=True)


def read_pairs(path):
    """Returns all numbers of the file, and the ranges of the questions and of the codes in them."""
    numbers = np.fromfile(path, dtype="<u4")
    values = numbers.tolist()
    questions, codes = [], []
    at = 0
    while at < len(values):
        middle = at + 2 + values[at + 1]
        end = middle + 1 + values[middle]
        questions.append((at + 2, middle))
        codes.append((middle + 1, end))
        at = end
    return numbers, np.array(questions), np.array(codes)


def matrix(numbers, ranges, words):
    """Returns a row for each range: the logarithm of one more than the count of each word."""
    lengths = ranges[:, 1] - ranges[:, 0]
    keys = np.concatenate([numbers[start:end] for start, end in ranges])
    columns = np.minimum(np.searchsorted(words, keys), len(words) - 1)
    known = words[columns] == keys
    rows = np.repeat(np.arange(len(ranges)), lengths)
    ones = np.ones(int(known.sum()), np.float32)
    result = sparse.csr_matrix((ones, (rows[known], columns[known])), shape=(len(ranges), len(words)))
    result.sum_duplicates()
    result.data = np.log1p(result.data)
    return result


def softmax(values):
    powers = np.exp(values - values.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def unit(vectors):
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6
    return vectors / lengths, lengths


def gradient(questions, codes, vectors):
    """Returns the loss of a batch and its derivative by the vectors. Each question should be most like its own code, among all codes of the batch."""
    (x, x_length), (y, y_length) = unit(questions @ vectors), unit(codes @ vectors)
    likeness = x @ y.T / TEMPERATURE
    by_question, by_code = softmax(likeness), softmax(likeness.T).T
    own = np.arange(len(x))
    loss = -np.log(by_question[own, own] + 1e-9).mean()
    wrong = (by_question + by_code) / 2
    wrong[own, own] -= 1
    wrong /= len(x) * TEMPERATURE
    of_x, of_y = wrong @ y, wrong.T @ x
    of_x = (of_x - x * (of_x * x).sum(1, keepdims=True)) / x_length
    of_y = (of_y - y * (of_y * y).sum(1, keepdims=True)) / y_length
    return loss, questions.T @ of_x + codes.T @ of_y


def learn(questions, codes, count):
    """Returns the vectors, by Adam."""
    random = np.random.default_rng(1)
    usable = np.where((np.diff(questions.indptr) >= 2) & (np.diff(codes.indptr) >= 4))[0]
    vectors = (random.standard_normal((count, DIMENSIONS)) * 0.1).astype(np.float32)
    mean, square = np.zeros_like(vectors), np.zeros_like(vectors)
    batches = len(usable) // BATCH
    step = 0
    for epoch in range(EPOCHS):
        random.shuffle(usable)
        losses = []
        for batch in range(batches):
            chosen = np.sort(usable[batch * BATCH : (batch + 1) * BATCH])
            question, code = questions[chosen], codes[chosen]
            has = question.copy()
            has.data = np.ones_like(has.data)
            shared = code.multiply(has).tocsr()
            shared.data = shared.data * (random.random(len(shared.data)) < SHARED)
            loss, slope = gradient(question, (code - shared).tocsr(), vectors)
            losses.append(loss)
            step += 1
            rate = RATE * min(1, step / 100) * (1 - 0.95 * step / (EPOCHS * batches))
            mean = 0.9 * mean + 0.1 * slope
            square = 0.999 * square + 0.001 * slope * slope
            vectors -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}", flush=True)
    return vectors


def train(work):
    numbers, questions, codes = read_pairs(os.path.join(work, "pairs.bin"))
    ranges = np.concatenate([questions, codes])
    keys, counts = np.unique(np.concatenate([numbers[start:end] for start, end in ranges]), return_counts=True)
    words = np.sort(keys[np.argsort(-counts, kind="stable")[:WORDS]])
    print(f"{len(questions)} pairs, {len(keys)} different words")
    vectors = learn(matrix(numbers, questions, words), matrix(numbers, codes, words), len(words))
    factors = np.abs(vectors).max(1) / 127 + 1e-12
    rows = np.round(vectors / factors[:, None]).astype(np.int8)
    factors = np.maximum(1, np.round(factors / factors.max() * 65535)).astype("<u2")
    table = struct.pack("<II", len(words), DIMENSIONS) + words.astype("<u4").tobytes() + factors.tobytes() + rows.tobytes()
    with open(os.path.join(work, "words.bin"), "wb") as file:
        file.write(table)
    print(f"CHECKSUM {zlib.crc32(table):#010x}\nSHA256 {hashlib.sha256(table).hexdigest()}")


def near(work, asked):
    with open(os.path.join(TOP, "src/exec/rank/words.bin"), "rb") as file:
        table = file.read()
    count, dimensions = struct.unpack("<II", table[:8])
    keys = np.frombuffer(table, "<u4", count, 8)
    rows = np.frombuffer(table, np.int8, count * dimensions, 8 + 6 * count).reshape(count, dimensions)
    rows, _ = unit(rows.astype(np.float32))
    with open(os.path.join(work, "words.tsv")) as file:
        names = dict(reversed(line.rstrip("\n").split("\t")) for line in file)
    by_key = {int(key): name for name, key in names.items()}
    for word in asked:
        at = int(np.searchsorted(keys, int(names[word])))
        nearest = np.argsort(-(rows @ rows[at]))[1:9]
        print(word + ":", " ".join(by_key[int(keys[other])] for other in nearest))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    command, work, rest = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    match command:
        case "fetch":
            fetch(work)
        case "pairs":
            write_pairs(work)
        case "train":
            train(work)
        case "near":
            near(work, rest)
        case _:
            sys.exit(__doc__)


main()
