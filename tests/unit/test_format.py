"""The examples of schema/format.md are what the code writes."""

import re
from pathlib import Path

import numpy as np
import pytest

from simhbase import records
from simhbase.boilerplate import Boilerplate
from simhbase.filing import MinHashFiling
from simhbase.layout import layout
from simhbase.minhash import SketchForm, bands, fingerprints
from simhbase.prints import Prints
from simhbase.records import Entry, State
from simhbase.rowkeys import encode

PAGE = (Path(__file__).parents[2] / "schema" / "format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w.*)\n((?:.+\n)+)```$", PAGE, re.MULTILINE)
INDEX = [(*title.split()[1:], body) for title, body in BLOCKS if title.startswith("index")]
TIME = 0x0192_0000_0001
A1, OTHER = 0x0123456789ABCDEF, 0x8000000000000001


def examples(title: str) -> list[str]:
    return "".join(body for found, body in BLOCKS if found == title).replace(" ", "").splitlines()


def row(key: bytes, value: bytes) -> str:
    return f"{key.hex()}->{value.hex()}"


def test_every_layout_has_its_example():
    assert {name for name, _, _ in INDEX} == {"5x2", "4x1", "4x4", "6x3"}


@pytest.mark.parametrize(("name", "fingerprint", "body"), INDEX)
def test_the_rows_of_the_index(name, fingerprint, body):
    keys = encode(np.array([int(fingerprint, 16)], np.uint64), layout(name))[0]
    assert body.replace(" ", "").splitlines() == [key.tobytes().hex() for key in keys]


def test_the_rows_of_bands():
    ((_, name, bits, digits, body),) = [
        (*title.split(), body) for title, body in BLOCKS if title.startswith("minhash")
    ]
    sketch = np.frombuffer(bytes.fromhex(digits), np.uint8)[np.newaxis]
    form = SketchForm(len(digits) * 4 // int(bits), int(bits))
    keys = MinHashFiling(bands(name), form, 0.8).keys(Prints(fingerprints(sketch), sketch))[0]
    assert body.replace(" ", "").splitlines() == [key.tobytes().hex() for key in keys]
    words = [int.from_bytes(sketch[0, start : start + 8].tobytes()) for start in (0, 8)]
    assert int(body.split()[2], 16) == chained(words)
    assert [int(line.split()[0], 16) for line in body.splitlines()] == [
        chained([word]) >> 32 for word in words
    ]


def chained(words: list[int]) -> int:
    """The hash as the page defines it."""
    state = 0x9E3779B97F4A7C15
    for word in words:
        state ^= word
        for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
            state = (state ^ state >> shift) * factor % 2**64
    return state


def test_the_worked_segments():
    fingerprint = f"{A1:064b}"
    blocks = dict(zip("abcde", (fingerprint[i : i + 13] for i in range(0, 64, 13)), strict=True))
    assert re.findall(r"([a-e]) = ([01]+)", PAGE) == list(blocks.items())
    worked = re.findall(r"flag (\d+): +([a-e]) ([a-e]) +([01 ]+) = ([0-9a-f]{8})", PAGE)
    assert len(worked) == 3
    keys = encode(np.array([A1], np.uint64), layout("5x2"))[0]
    for flag, first, second, bits, segment in worked:
        assert bits.replace(" ", "") == (blocks[first] + blocks[second]).ljust(32, "0")
        assert keys[int(flag) - 1, :4].tobytes().hex() == segment == f"{int(bits.replace(' ', ''), 2):08x}"


def test_the_rows_of_documents():
    key = records.document_key("a1")
    assert examples("documents") == [
        row(key, Entry(A1, State.STORED, TIME).encode()),
        row(key, Entry(A1, State.WRITING, TIME, (OTHER,)).encode()),
        row(key, Entry(A1, State.WRITING, TIME, (OTHER,), b"\xa1\xb2\xc3").encode()),
    ]


def test_the_rows_of_fingerprints():
    assert examples("fingerprints") == [row(records.listing_key(A1, "a1"), records.encode_time(TIME))]


def test_a_boilerplate_file():
    (example,) = (body for title, body in BLOCKS if title == "boilerplate")
    own = Boilerplate("the example", example.encode())
    assert [entry.kind for entry in own.entries] == ["phrase", "line"]
    assert own.strip(["央视网消息（新闻联播）：今天\nRead more!"]) == [" 今天\n "]
