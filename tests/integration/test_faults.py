"""A write, a move, a delete or a repair that stops between any two store calls, or in the middle of one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from simhbase.admin.check import Checker
from simhbase.drawers.bands import bands
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import MinHashScheme, Scheme, SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index import rows
from simhbase.index.reader import Reader
from simhbase.index.rows import Entry
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.stores import create_store
from simhbase.stores.base import Store
from tests.content import content
from tests.stopping import Crash, Stopping

FORM = SketchParameters(slots=32)
SCHEMES = {
    "simhash": SimHashScheme(layout("5x2"), k=3),
    "simhash, verified": SimHashScheme(layout("5x2"), k=3, sketching=FORM),
    "minhash": MinHashScheme(bands("4x8"), FORM, threshold=0.8),
}
F1, F2, F3, F4 = 0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFF, 0x8000000000000001, 0
BEFORE = {"a": F1, "b": F1, "c": F2, "z": F4}


@dataclass(frozen=True)
class Operation:
    """What is stopped; `after` is what an undisturbed run leaves."""

    name: str
    run: Callable[[Writer], object]
    after: dict[str, int]


def fingerprints(scheme: Scheme, *fingerprints: int) -> FingerprintBatch:
    """Fingerprints, each with a sketch of its own where the scheme keeps some."""
    size = scheme.sketching.bytes if scheme.sketching else 0
    sketches = [np.random.default_rng(value).integers(0, 256, size, np.uint8) for value in fingerprints]
    return FingerprintBatch(
        np.array(fingerprints, dtype=np.uint64), np.array(sketches).reshape(len(fingerprints), size)
    )


def add(**documents: int) -> Callable[[Writer], object]:
    return lambda writer: writer.add(
        DocumentBatch(list(documents), fingerprints(writer.scheme, *documents.values()))
    )


def delete(*ids: str) -> Callable[[Writer], object]:
    return lambda writer: writer.delete(list(ids))


OPERATIONS = [
    Operation("add", add(d=F3), BEFORE | {"d": F3}),
    Operation("add to a fingerprint with documents", add(d=F1), BEFORE | {"d": F1}),
    Operation("move the last document of a fingerprint", add(c=F3), BEFORE | {"c": F3}),
    Operation("move one of two documents", add(a=F3), BEFORE | {"a": F3}),
    Operation("move both documents", add(a=F2, b=F3), BEFORE | {"a": F2, "b": F3}),
    Operation("exchange fingerprints", add(a=F2, c=F1), BEFORE | {"a": F2, "c": F1}),
    Operation("move onto a neighbour", add(c=F1), BEFORE | {"c": F1}),
    Operation("delete the last document of a fingerprint", delete("c"), {"a": F1, "b": F1, "z": F4}),
    Operation("delete one of two documents", delete("a"), {"b": F1, "c": F2, "z": F4}),
    Operation("delete both documents", delete("a", "b", "none"), {"c": F2, "z": F4}),
    Operation(
        "add, move and keep at once",
        add(a=F2, b=F1, d=F3, e=F3),
        BEFORE | {"a": F2, "b": F1, "d": F3, "e": F3},
    ),
]


# Each scheme in memory, and one in RocksDB, whose transactions know no schemes.
PLACES = [*(("memory", name) for name in SCHEMES), ("rocksdb", "simhash, verified")]


@pytest.fixture(params=PLACES, ids="-".join)
def place(request) -> tuple[str, str]:
    return request.param


@pytest.fixture
def scheme(place) -> Scheme:
    return SCHEMES[place[1]]


@pytest.fixture
def new_store(place, tmp_path) -> Iterator[Callable[[], Store]]:
    opened = []

    def make() -> Store:
        url = "memory:" if place[0] == "memory" else f"rocksdb:{tmp_path}/{len(opened)}"
        opened.append(create_store(url))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def undisturbed(
    new_store: Callable[[], Store], scheme: Scheme, documents: dict[str, int]
) -> dict[str, object]:
    store = new_store()
    add(**documents)(Writer(store, scheme))
    return content(store)


def stopped(new_store: Callable[[], Store], scheme: Scheme, operation: Operation) -> Iterator[Store]:
    """Stores in which the operation stopped after 0, 1, 2 ... calls, and at last one in which it ended."""
    for calls in range(100):
        store = new_store()
        add(**BEFORE)(Writer(store, scheme))
        try:
            operation.run(Writer(Stopping(store, calls), scheme))
        except Crash:
            yield store
        else:
            assert calls >= 3, "the operation is stopped at several places"
            yield store
            return
    raise AssertionError("the operation never ends")


def assert_lookups_are_right(store: Store, scheme: Scheme, documents: dict[str, int]) -> None:
    """Every document is found, and nothing else."""
    lookups = Reader(store, scheme).find(fingerprints(scheme, F1, F2, F3, F4))
    found = {(match.id, match.fingerprint) for lookup in lookups for match in lookup.matches}
    assert found == set(documents.items())


def assert_clean(store: Store, scheme: Scheme) -> None:
    report = Checker(store, scheme).check()
    assert (report.problems, report.garbage) == ({}, {})


of_each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


@of_each_operation
def test_a_stopped_operation_has_done_all_or_nothing(new_store, scheme, operation):
    before = undisturbed(new_store, scheme, BEFORE)
    after = undisturbed(new_store, scheme, operation.after)
    outcomes = []
    for store in stopped(new_store, scheme, operation):
        left = content(store)
        assert left in (before, after)
        outcomes.append(left == after)
        assert_clean(store, scheme)
        assert_lookups_are_right(store, scheme, operation.after if outcomes[-1] else BEFORE)
    assert outcomes == [False] * (len(outcomes) - 1) + [True]


@of_each_operation
def test_repeating_a_stopped_operation_ends_as_if_it_had_not_stopped(new_store, scheme, operation):
    expected = undisturbed(new_store, scheme, operation.after)
    for store in stopped(new_store, scheme, operation):
        operation.run(Writer(store, scheme))
        assert content(store) == expected
        assert_lookups_are_right(store, scheme, operation.after)


@of_each_operation
def test_any_other_operation_on_the_same_documents_goes_on_from_a_stopped_one(new_store, scheme, operation):
    values = {"a": F4, "b": F3, "c": F4, "d": F2, "e": F2}
    ids = list(values)
    added = undisturbed(new_store, scheme, values | {"z": F4})
    for store in stopped(new_store, scheme, operation):
        Writer(store, scheme).add(DocumentBatch(ids, fingerprints(scheme, *values.values())))
        assert content(store) == added
    deleted = undisturbed(new_store, scheme, {"z": F4})
    for store in stopped(new_store, scheme, operation):
        Writer(store, scheme).delete(ids)
        assert content(store) == deleted


def damage(store: Store, scheme: Scheme) -> None:
    """One of each kind that can be mended without the texts."""
    stranger, wrong = (
        scheme.keys(fingerprints(scheme, F3)),
        scheme.keys(fingerprints(scheme, F4))[:, :2].copy(),
    )
    wrong[..., 0] ^= 1
    store.drawers.add(stranger)
    store.drawers.add(wrong)
    store.drawers.remove(scheme.keys(fingerprints(scheme, F1))[0, 1:3], np.zeros(2, dtype=np.int64))
    if not scheme.listed_sketching:
        store.records("fingerprints").delete([rows.listing_key(F1, "a")])
    sketch = fingerprints(scheme, F2).sketch_bytes()[0] if scheme.listed_sketching else b""
    store.records("fingerprints").put([(rows.listing_key(F2, "stray"), sketch)], 5)
    store.records("documents").put(
        [(b"no document", Entry(F2).encode(b"no document")), (b"nor this", b"")], 5
    )


@pytest.mark.parametrize("torn", [False, True], ids=["between calls", "within a call"])
def test_a_stopped_repair_harms_nothing_and_the_next_one_ends_it(new_store, scheme, torn):
    expected = undisturbed(new_store, scheme, BEFORE)
    for calls in range(100):
        store = new_store()
        add(**BEFORE)(Writer(store, scheme))
        damage(store, scheme)
        try:
            Checker(Stopping(store, calls, torn=torn), scheme, repair=True).check()
        except Crash:
            ended = False
        else:
            ended = True
        for _ in range(2):  # what the first one removes may leave index rows without documents
            Checker(store, scheme, repair=True).check()
        assert content(store) == expected
        assert_clean(store, scheme)
        assert_lookups_are_right(store, scheme, BEFORE)
        if ended:
            assert calls > 10
            return
    raise AssertionError("the repair never ends")
