"""Answers questions in words with another program: a question in each line of standard input, its places in each line.

    rankers.py bm25|semble TREE

The first line of output has the name of the program: semble's depends on whether its model can be fetched.
"""

import json
import pathlib
import sys
import tempfile

BEST = 10


def bm25(tree):
    """Ranks whole files with the formula BM25 alone: words without case, and without stop words."""
    import bm25s
    from common import files_of

    paths, texts = [], []
    for path in files_of(tree):
        try:
            texts.append(path.read_text())
        except UnicodeDecodeError:
            continue
        paths.append(str(path.relative_to(tree)))
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def ask(question):
        words = bm25s.tokenize(question, show_progress=False)
        found, scores = index.retrieve(words, k=min(BEST, len(paths)), show_progress=False)
        return [(paths[nth], 1, texts[nth].count("\n") + 1) for nth, score in zip(found[0], scores[0]) if score > 0]

    return f"BM25 of whole files (bm25s {bm25s.__version__})", ask


def without_a_model():
    """Writes a model of one word, which tells no texts apart. semble starts only with a model."""
    import model2vec
    import numpy
    import tokenizers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    place = tempfile.mkdtemp()
    model2vec.StaticModel(numpy.ones((1, 1), dtype=numpy.float32), words).save_pretrained(place)
    return place


def semble(tree):
    """semble with its defaults, or, where its model can't be fetched, with its BM25 and its rules of ranking."""
    from semble import SembleIndex
    from semble.version import __version__

    try:
        index, more, name = SembleIndex.from_path(tree), {}, f"semble {__version__}"
    except OSError:
        # An `alpha` of 0 leaves the vectors out.
        index, more, name = SembleIndex.from_path(tree, model_path=without_a_model()), {"alpha": 0.0}, f"semble {__version__} without its model"

    def ask(question):
        found = index.search(question, top_k=BEST, **more)
        return [(one.chunk.file_path, one.chunk.start_line, one.chunk.end_line) for one in found]

    return name, ask


def main():
    name, ask = {"bm25": bm25, "semble": semble}[sys.argv[1]](pathlib.Path(sys.argv[2]))
    print(json.dumps(name), flush=True)
    for line in sys.stdin:
        print(json.dumps(ask(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
