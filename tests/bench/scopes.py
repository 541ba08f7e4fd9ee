"""One of many scopes of a store beside a store of its own, and what listing and dropping a scope costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from simhbase.admin import Administrator
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import Profile
from tests.bench.report import Cell, Table, interleaved
from tests.command_line import texts

SCOPES, STORIES = 1000, 1000
ASKED, RUNS = 100, 15
SIZES = (1_000, 10_000, 100_000)  # of scopes, in a store of a million documents
PROFILE = Profile(verify=False)

Values = NDArray[np.uint64]


def measure(scale: float = 1.0) -> list[Table]:
    return [beside_a_store(max(3, round(SCOPES * scale))), by_size(scale)]


def beside_a_store(scopes: int) -> Table:
    """Scopes that have a wire of stories in common, each with some bits of its own; a store that has the
    documents of one scope; and one without scopes that has as many as all of them."""
    random = np.random.default_rng(1)
    wire = texts(STORIES, words=20)
    with TemporaryDirectory(prefix="simhbase-bench-") as folder, ExitStack() as stack:
        shared = stack.enter_context(open_index(f"rocksdb:{folder}/shared", create=PROFILE, scoped=True))
        alone, as_large = (
            stack.enter_context(open_index(f"rocksdb:{folder}/{name}", create=PROFILE))
            for name in ("alone", "large")
        )
        values = shared.fingerprinter.fingerprint_many(wire).fingerprints.values
        for number in range(scopes):
            of_one = edited(values, random)
            fill(shared.within(f"tenant {number}"), of_one)
            is_last = number == scopes - 1
            fill(as_large, of_one if is_last else fingerprints(random, STORIES), f"{number}/")
        fill(alone, of_one)
        for index in (shared, alone, as_large):
            index.store.compact()
        indexes = alone, as_large, shared.within(f"tenant {scopes - 1}")
        rows: list[list[Cell]] = []
        for what, action in (("lookup", Finding), ("claim", Claiming)):
            times = interleaved(RUNS, *(action(index, wire) for index in indexes))
            micros = [1e6 * each / ASKED for each in times]
            rows.append([what, scopes, *micros, micros[2] / micros[0], micros[2] / micros[1]])
    columns = [
        *("what", "scopes", f"store of {STORIES:,}, µs", "store of all, µs", "scope, µs"),
        *("scope / store", "scope / store of all"),
    ]
    notes = [
        f"A scope has {STORIES:,} documents, as has the first store; the second has as many as all scopes. "
        "Medians, with the text's fingerprint."
    ]
    return Table("Embedded store: one of many scopes beside stores without", columns, rows, notes)


class Finding:
    """Looks up other texts each time."""

    def __init__(self, index: Index, wire: list[str]) -> None:
        self._index, self._wire, self._start = index, wire, 0

    def __call__(self) -> None:
        for text in self._wire[self._start : self._start + ASKED]:
            self._index.find(text)
        self._start = (self._start + ASKED) % len(self._wire)


class Claiming:
    """Claims new texts each time."""

    def __init__(self, index: Index, wire: list[str]) -> None:
        self._index, self._run = index, 0

    def __call__(self) -> None:
        self._run += 1
        for number, text in enumerate(texts(ASKED, seed=self._run, words=20)):
            self._index.claim(f"claimed/{self._run}/{number}", text)


def edited(values: Values, random: np.random.Generator) -> Values:
    """Fingerprints with up to two other bits."""
    bits = np.uint64(1) << random.integers(0, 64, (2, len(values)), dtype=np.uint64)
    found: Values = values ^ bits[0] ^ bits[1]
    return found


def fill(index: Index, values: Values, prefix: str = "") -> None:
    ids = [f"{prefix}story/{number}" for number in range(len(values))]
    index.add_batch(ids, FingerprintBatch.bare(values))


def by_size(scale: float) -> Table:
    """Scopes of several sizes, in a store of a million documents."""
    random = np.random.default_rng(2)
    whole = round(1_000_000 * scale)
    sizes = [round(size * scale) for size in SIZES]
    with (
        TemporaryDirectory(prefix="simhbase-bench-") as folder,
        open_index(f"rocksdb:{folder}/store", create=PROFILE, scoped=True) as shared,
    ):
        for number, size in enumerate(others(whole - sum(sizes), max(sizes))):
            fill(shared.within(f"other {number}"), fingerprints(random, size))
        for size in sizes:
            fill(shared.within(str(size)), fingerprints(random, size))
        shared.store.compact()
        rows: list[list[Cell]] = []
        for size in sizes:
            scope = shared.within(str(size))
            listing = seconds(lambda scope=scope: sum(1 for _ in scope.stored()))
            dropping = seconds(lambda size=size: Administrator(shared).drop_scope(str(size)))
            rows.append([size, whole, listing, 1e6 * listing / size, dropping, 1e6 * dropping / size])
    columns = ["documents", "of", "listed, s", "µs a document", "dropped, s", "µs a document "]
    return Table("Embedded store: a scope listed and dropped", columns, rows)


def others(documents: int, most: int) -> Iterator[int]:
    while documents > 0:
        yield min(most, documents)
        documents -= most


def fingerprints(random: np.random.Generator, size: int) -> Values:
    return random.integers(0, 2**64, size, dtype=np.uint64)


def seconds(action: object) -> float:
    start = perf_counter()
    assert callable(action)
    action()
    return perf_counter() - start
